#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: V18.
"""The views of values, from outside.

    value_view_test.py ASSAY FIXTURE_WRITE [TEST...]

Oracles: sqlite3 and this file's own arithmetic.
"""

import collections
import sqlite3
import sys
import unittest

from view_lib import VALUE_VIEWS, profile, rows, run, text


def shares(row):
    """(text, share) of each value of a row."""
    return [(value["text"], value["share"]) for value in row["values"]]


class Values(unittest.TestCase):
    def view(self, *args):
        answer = rows("report", *args, "-i", profile("values"))
        self.assertEqual(answer["runs"], {"seen": 1200, "kept": 1100,
                                          "lost": {"block_missing": 80, "ring_full": 20}})
        self.assertEqual(answer["unreadable"], 0)
        return answer["rows"]

    def test_values_agree_with_the_database(self):
        db = sqlite3.connect(f"file:{profile('values')}?mode=ro", uri=True)
        expected = db.execute(
            "select item.text, printf('0x%x', location.address), ifnull(printf('0x%x', site.address), ''), "
            "owner, width, total, runs, minimum, maximum, mean, squares from value join location on "
            "location.id = value.location join value_item item on item.id = value.item left join location "
            "site on site.id = value.caller").fetchall()
        got = self.view("values")
        self.assertEqual(len(got), len(expected))
        by_key = {(row["item"], row["address"], row["caller"] or "", row["owner"]): row for row in got}
        for item, address, caller, owner, width, total, runs, low, high, mean, squares in expected:
            row = by_key[item, address, caller if caller != "0x0" else "", owner]
            self.assertEqual((row["width"], row["total"], row["runs"], row["min"], row["max"]),
                             (width, total, runs, low, high))
            self.assertAlmostEqual(row["share"], runs / 1200)
            if mean is not None:
                self.assertAlmostEqual(row["mean"], mean)
                self.assertAlmostEqual(row["stddev"], (squares / (total - 1)) ** 0.5)
            self.assertEqual(row["distinct"], len(row["values"]))
            counted = sum(value["count"] for value in row["values"])
            if row["distinct"] < 16:  # a list that is not full is exact
                self.assertEqual(counted, total)
            self.assertLessEqual(counted, total)
            for value in row["values"]:
                self.assertAlmostEqual(value["share"], value["count"] / total)
                self.assertLessEqual(value["low"], value["share"])
                self.assertLessEqual(value["share"], value["high"])
                words = value["value"] if isinstance(value["value"], list) else [value["value"]]
                self.assertEqual(len(words), 2 if "+" in item else 1)
                for word in words:
                    self.assertRegex(word, "^0x[0-9a-f]+$")

    def test_texts(self):
        by_item = {(row["item"], row["address"], row["owner"]): shares(row) for row in self.view("values")}
        self.assertEqual(by_item["loaded", "0x130f", 1000], [("0.5", 0.625), ("0.9990234375", 0.375)])
        self.assertEqual(by_item["stored", "0x1317", 1000], [("-1", 0.75), ("65", 0.25)])
        self.assertEqual(by_item["taken", "0x130d", 1000], [("no", 0.96), ("yes", 0.04)])
        self.assertEqual(by_item["log2(result)", "0x1304", 1000], [("32..63", 0.99), ("64..127", 0.01)])
        self.assertEqual(by_item["result", "0x131a", 1000], [("0x555555556010 table+0x10", 1)])
        self.assertEqual(by_item["result", "0xffffffff81000020", None][0][0], "-11")

    def test_arguments(self):
        got = {(row["symbol"], row["argument"]): row for row in self.view("args")}
        self.assertEqual(len(got), 8)
        degree = got["poly", 1]
        self.assertEqual((degree["name"], degree["type"], degree["samples"], degree["total"]),
                         ("degree", "int", 100, 300))
        self.assertEqual([text for text, _ in shares(degree)], ["3", "5", "-3"])
        self.assertAlmostEqual(shares(degree)[0][1], 200 / 300)
        self.assertEqual(got["poly", 2]["values"][0]["text"], "NULL")
        self.assertEqual((got["poly", 3]["name"], got["parse", 0]["type"]), (None, None))
        apart = {(row["caller"], row["argument"]): row for row in self.view("args", "--by-caller")}
        self.assertEqual(shares(apart["0x1044", 1]), [("3", 1)])
        self.assertEqual(shares(apart["0x104c", 1]), [("5", 0.75), ("-3", 0.25)])
        self.assertEqual((apart["0x104c", 1]["caller_symbol"], apart["0x104c", 1]["caller_line"]), ("main", 17))

    def test_invariants(self):
        got = self.view("invariants")
        self.assertEqual([row["score"] for row in got], sorted((row["score"] for row in got), reverse=True))
        for row in got:
            self.assertAlmostEqual(row["score"], row["total"] * row["values"][0]["low"] ** 8)
        compare = [row for row in got if row["address"] == "0x130a"]
        self.assertEqual([(row["text"], row["register"], row["file"], row["line"]) for row in compare],
                         [("cmp esi, 0x3", "esi", "/src/demo/main.c", 32)])
        self.assertEqual(shares(compare[0]), [("3", 0.95), ("5", 0.05)])
        mine = [row for row in self.view("invariants", "--uid", "1000") if row["address"] == "0x130a"]
        self.assertEqual(mine[0]["total"], 950)
        degree = [row for row in got if row["item"] == "arg1@caller"]
        self.assertEqual([(row["symbol"], row["argument"], row["name"]) for row in degree],
                         [("poly", 1, "degree")])
        self.assertIn("taken", {row["item"] for row in self.view("invariants", "--item", "taken")})
        self.assertNotIn("taken", {row["item"] for row in got})

    def test_objects_of_the_file(self):
        answer = rows("report", "invariants", "-i", profile("self"))
        self.assertEqual([(row["text"], row["total"]) for row in answer["rows"]],
                         [("mov eax, [self_variable]", 100)])
        lines = rows("annotate", "made", "-i", profile("self"))["rows"]
        self.assertEqual([row["text"] for row in lines],
                         ["movsd xmm0, qword ptr [self_constant]", "mov eax, [self_variable]"])

    def test_blocks(self):
        got = self.view("blocks")
        self.assertEqual([row["address"] for row in got], ["0x1304", "0x1307", "0x130a", "0x130d"])
        self.assertEqual([row["self"] for row in got], [70, 20, 0, 0])
        self.assertEqual({(row["block"], row["length"], row["block_self"]) for row in got}, {(0, 4, 90)})
        self.assertEqual(len(self.view("blocks", "--min-invariance", "98%")), 2)
        self.assertEqual(self.view("blocks", "--min-invariance", "1"), [])

    def test_runs(self):
        got = self.view("runs")
        ends = [row for row in got if row["kind"] == "end"]
        self.assertEqual(sum(row["count"] for row in ends), 1100)
        self.assertEqual([(row["reason"], row["mnemonic"]) for row in ends],
                         [("length", None), ("unsupported", "cpuid"), ("system", "syscall")])
        self.assertAlmostEqual(ends[1]["step_share"], 90 / 9000)
        self.assertEqual({row["kind"]: row["count"] for row in got if row["kind"] != "end"}["steps"], 9000)

    def test_callsites(self):
        answer = rows("report", "callgraph", "--by-callsite", "-i", profile("values"), "--symbol", "poly")
        self.assertEqual([(row["symbol"], row["other"], row["return_address"], row["line"], row["part"])
                          for row in answer["rows"]],
                         [("poly", "main", "0x1045", 16, 0.8), ("poly", "main", "0x104d", 17, 0.2)])
        everything = rows("report", "callgraph", "--by-callsite", "-i", profile("recursive"), "--min-share", "0")
        parts = collections.Counter()
        for row in everything["rows"]:
            parts[row["stanza"]] += row["part"]
        for part in parts.values():
            self.assertAlmostEqual(part, 1)

    def test_annotate(self):
        answer = rows("annotate", "poly", "-i", profile("values"))
        by_address = {row["address"]: row for row in answer["rows"]}
        self.assertEqual(answer["runs"]["seen"], 1200)
        self.assertEqual(sum(row["self"] for row in answer["rows"]), 100)
        self.assertEqual(shares(by_address["0x130a"]), [("3", 0.95), ("5", 0.05)])
        self.assertEqual((by_address["0x1304"]["item"], by_address["0x1304"]["register"],
                          by_address["0x1304"]["total"], by_address["0x1304"]["distinct"]),
                         ("result", "ecx", 1000, 2))
        self.assertIsNone(by_address["0x1328"]["values"])
        some = rows("annotate", "poly", "--values", "taken", "-i", profile("values"))["rows"]
        self.assertEqual([row["address"] for row in some if row["values"]], ["0x130d"])
        self.assertNotIn("values", rows("annotate", "fib", "-i", profile("demo"))["rows"][0])
        self.assertNotIn("values", rows("annotate", "poly", "--pid", "100", "-i", profile("values"))["rows"][0])

    def test_damage_is_said(self):
        for view in VALUE_VIEWS:
            answer = rows("report", view, "-i", profile("corrupt"))
            self.assertEqual(answer["unreadable"], {"values": 4, "invariants": 4, "blocks": 3}.get(view, 0))
        self.assertIn("4 lists of values could not be read", text("report", "values", "-i", profile("corrupt")))

    def test_refusals(self):
        for view in VALUE_VIEWS:
            failed = run("report", view, "-i", profile("demo"), code=1)
            self.assertIn("this profile has no values; 'assay record --values -- COMMAND' records them",
                          failed.stderr.decode())
            for option in "--pid", "--tid", "--comm":
                refused = run("report", view, option, "1", "-i", profile("values"), code=2)
                self.assertIn("not kept by process", refused.stderr.decode())
        refused = run("report", "values", "--item", "nonsense", "-i", profile("values"), code=2)
        self.assertIn("result, stored", refused.stderr.decode())
        run("report", "functions", "--by-caller", "-i", profile("values"), code=2)
        run("report", "functions", "--top", "2", "-i", profile("values"), code=2)
        run("report", "values", "--by-callsite", "-i", profile("values"), code=2)
        run("report", "args", "--sort", "self", "-i", profile("values"), code=2)
        run("report", "blocks", "--min-invariance", "2", "-i", profile("values"), code=2)
        run("annotate", "fib", "--values", "result", "-i", profile("demo"), code=1)
        run("annotate", "poly", "--values", "overwritten", "-i", profile("values"), code=1)
        run("annotate", "poly", "--values", "result", "--pid", "100", "-i", profile("values"), code=1)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
