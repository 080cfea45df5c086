#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: V18, S3, S4.
"""The views of samples, from outside: text, JSON and terminals.

    view_test.py ASSAY FIXTURE_WRITE [TEST...]

Oracles: sqlite3 and this file's own arithmetic for the numbers, json for JSON. Text is compared with the files
in golden/; ASSAY_REBASE=1 writes them anew.
"""

import collections
import os
import sqlite3
import subprocess
import sys
import unittest

from view_lib import ASSAY, GOLDEN, VALUE_VIEWS, VIEWS, environment, profile, rows, run, terminal, text


class Text(unittest.TestCase):
    def golden(self, name, *args, width=100):
        actual = text(*args, "--width", str(width))
        path = os.path.join(GOLDEN, name + ".txt")
        if os.environ.get("ASSAY_REBASE"):
            os.makedirs(GOLDEN, exist_ok=True)
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(actual)
        with open(path, encoding="utf-8") as stream:
            self.assertEqual(stream.read(), actual)

    def test_golden(self):
        for view in VIEWS:
            with self.subTest(view):
                self.golden(view, "report", view, "-i", profile("demo"))
        self.golden("bottom-up", "report", "tree", "--bottom-up", "-i", profile("demo"))
        self.golden("annotate", "annotate", "fib", "-i", profile("demo"))
        self.golden("diff", "diff", profile("demo"), profile("changed"))
        self.golden("hostile", "report", "lines", "-i", profile("hostile"))
        self.golden("empty", "report", "-i", profile("empty"))
        for view in VALUE_VIEWS:
            with self.subTest(view):
                self.golden(view, "report", view, "-i", profile("values"), width=140)
        self.golden("by-caller", "report", "args", "--by-caller", "-i", profile("values"), width=140)
        self.golden("by-callsite", "report", "callgraph", "--by-callsite", "-i", profile("values"))
        self.golden("annotate-values", "annotate", "poly", "-i", profile("values"), width=140)
        self.golden("annotate-items", "annotate", "poly", "--values", "result,loaded,arg*", "--top", "1",
                    "-i", profile("values"), width=140)
        self.golden("corrupt", "report", "values", "-i", profile("corrupt"), width=140)

    def test_narrow_lines_fit(self):
        for view in VIEWS + ["tree --bottom-up"]:
            for kind in "demo", "recursive", "hostile":
                wide = text("report", *view.split(), "-i", profile(kind))
                for line in text("report", *view.split(), "-i", profile(kind), "--width",
                                 "90").split("\n\n")[0].split("\n"):
                    self.assertLessEqual(len(line), 90, view)
                self.assertNotIn("…", wide)
        for view in VALUE_VIEWS + ["args --by-caller", "callgraph --by-callsite"]:
            for line in text("report", *view.split(), "-i", profile("values"), "--width",
                             "100").split("\n\n")[0].split("\n"):
                self.assertLessEqual(len(line), 100, view)

    def test_values_are_cut_at_their_end(self):
        cut = text("annotate", "poly", "-i", profile("values"), "--width", "110")
        self.assertRegex(cut, r"\n.* target rbx: \(93.8% 0x5555.*…\n")

    def test_values_without_unicode(self):
        done = subprocess.run([ASSAY, "report", "values", "-i", profile("values")], capture_output=True,
                              env=environment(LC_ALL="C"))
        self.assertIn(b"(75+-7% NULL)", done.stdout)
        self.assertTrue(done.stdout.isascii())

    def test_hostile_names_are_harmless(self):
        for view in VIEWS:
            answer = run("report", view, "-i", profile("hostile")).stdout
            self.assertEqual([byte for byte in answer if byte < 32 and byte != 10 or byte == 127], [])
            self.assertNotIn("\u202e", answer.decode("utf-8"))
            for shown in answer, run("report", view, "--json", "-i", profile("hostile")).stdout:
                self.assertEqual([c for c in shown.decode("utf-8") if "\x7f" <= c < "\xa0"], [])
        for view in VALUE_VIEWS:
            answer = run("report", view, "-i", profile("values")).stdout
            self.assertEqual([byte for byte in answer if byte < 32 and byte != 10 or byte == 127], [])
        self.assertIn(rb"what \x1b[31m", run("report", "values", "-i", profile("values")).stdout)
        collapsed = text("export", "collapsed", "-i", profile("hostile"))
        self.assertEqual(len(collapsed.splitlines()), 2)
        self.assertEqual(collapsed.splitlines()[0].count(";"), 1)

    def test_losses_are_always_printed(self):
        for view in VIEWS:
            self.assertIn("lost 100 (10.00%): ring_full 60, throttled 40",
                          text("report", view, "-i", profile("demo")))
        for view in VALUE_VIEWS:
            self.assertIn("runs: seen 1,200 = kept 1,100 + lost 100 (8.33%): block_missing 80, ring_full 20",
                          text("report", view, "-i", profile("values")))


class Terminal(unittest.TestCase):
    def test_colour_only_on_a_terminal(self):
        args = ["report", "-i", profile("demo"), "--no-pager"]
        self.assertNotIn("\033", text(*args))
        self.assertIn("\033[", terminal(*args)[1])
        self.assertNotIn("\033", terminal(*args, NO_COLOR="1")[1])
        self.assertNotIn("\033", terminal(*args, TERM="dumb")[1])
        self.assertIn("\033[", text(*args, "--color", "always"))

    def test_width_is_the_terminals(self):
        for width in 70, 120:
            answer = terminal("report", "lines", "-i", profile("demo"), "--no-pager", width=width,
                              NO_COLOR="1")[1]
            self.assertLessEqual(max(len(line) for line in answer.split("\n\n")[0].split("\n")), width)
        self.assertIn("…", terminal("report", "lines", "-i", profile("demo"), "--no-pager", width=70)[1])

    def test_pager(self):
        args = ["report", "-i", profile("demo")]
        code, answer = terminal(*args, PAGER="sed 's/^/PAGED /'")
        self.assertEqual(code, 0)
        self.assertIn("PAGED", answer)
        self.assertNotIn("PAGED", terminal(*args, "--no-pager", PAGER="sed 's/^/PAGED /'")[1])
        self.assertNotIn("PAGED", terminal(*args, "--json", PAGER="sed 's/^/PAGED /'")[1])
        done = subprocess.run([ASSAY, *args], capture_output=True, text=True,
                              env=environment(PAGER="sed 's/^/PAGED /'"))
        self.assertNotIn("PAGED", done.stdout)

    def test_a_pager_that_quits_is_no_error(self):
        code, _ = terminal("report", "tree", "--min-share", "0", "-i", profile("recursive"), PAGER="true")
        self.assertEqual(code, 0)

    def test_a_reader_that_goes_away_is_no_error(self):
        child = subprocess.Popen([ASSAY, "report", "tree", "--min-share", "0", "--json", "-i",
                                  profile("recursive")], stdout=subprocess.PIPE, env=environment())
        child.stdout.close()
        self.assertEqual(child.wait(), 0)

    def test_pprof_not_on_a_terminal(self):
        code, answer = terminal("export", "pprof", "-i", profile("demo"))
        self.assertEqual(code, 2)
        self.assertIn("-o", answer)


def database_functions(path):
    """Self and total per (symbol, module), straight from the tables: walks every sample's stack."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    stacks = {row[0]: row[1:] for row in db.execute("select id, parent, location from stack")}
    modules = dict(db.execute("select location.id, module.name from location join module on "
                              "module.id = location.module"))
    frames = collections.defaultdict(list)
    for location, symbol, module in db.execute(
            "select location, symbol.id, symbol.name from frame join symbol on symbol.id = frame.symbol "
            "order by location, depth"):
        frames[location].append((symbol, module))
    own, total = collections.Counter(), collections.Counter()
    names = {}
    for stack, count in db.execute("select stack, sum(count) from sample group by stack"):
        path_keys = []
        while stack:
            stack, location = stacks[stack]
            for symbol, name in frames[location] or [(None, "[unknown]")]:
                key = symbol or modules[location]
                names[key] = name
                path_keys.append(key)
        own[path_keys[0]] += count
        for key in set(path_keys):
            total[key] += count
    return sorted((names[key], own[key], total[key]) for key in total)


class Json(unittest.TestCase):
    def test_functions_agree_with_the_database(self):
        for kind in "demo", "recursive":
            answer = rows("report", "-i", profile(kind))
            self.assertEqual(sorted((row["symbol"], row["self"], row["total"]) for row in answer["rows"]),
                             database_functions(profile(kind)))

    def test_every_view(self):
        for kind in "demo", "recursive", "hostile", "empty":
            for view in VIEWS:
                every = [] if view == "losses" else ["--min-share", "0"]
                answer = rows("report", view, "-i", profile(kind), *every)
                self.assertEqual(answer["view"], view)
                for row in answer["rows"]:
                    if row.get("self") is not None:
                        self.assertAlmostEqual(row["share"], row["self"] / answer["totals"]["seen"])
                if view not in ("losses",) and answer["rows"]:
                    self.assertEqual(sum(row["self"] or 0 for row in answer["rows"]),
                                     answer["totals"]["kept"], view)

    def test_filters(self):
        demo = profile("demo")
        select = lambda *args: rows("report", "threads", "-i", demo, *args)["totals"]["selected"]
        self.assertEqual(select("--pid", "100"), 825)
        self.assertEqual(select("--pid", "100,200"), 900)
        self.assertEqual(select("--tid", "101"), 170)
        self.assertEqual(select("--uid", "0"), 75)
        self.assertEqual(select("--comm", "worker"), 170)
        self.assertEqual(select("--comm", "demo"), 825)
        self.assertEqual(select("--comm", "worker", "--comm", "daemon"), 245)
        self.assertEqual(select("--symbol", "clamp"), 120)
        self.assertEqual(select("--symbol", "cl?mp"), 120)
        self.assertEqual(select("--module", "libc*"), 30)
        self.assertEqual(select("--symbol", "parse", "--module", "libc*"), 0)
        self.assertEqual(select("--symbol", "nothing"), 0)
        functions = rows("report", "-i", demo, "--symbol", "fib", "--symbol", "parse")["rows"]
        self.assertEqual([row["symbol"] for row in functions], ["fib", "parse"])

    def test_losses_of_each_recording(self):
        counts = collections.defaultdict(collections.Counter)
        for row in rows("report", "losses", "-i", profile("values"))["rows"]:
            counts[row["recording"]][row["kind"]] += row["count"]
        self.assertEqual(set(counts), {"samples", "values"})
        self.assertEqual(dict(counts["values"]), {"seen": 1200, "kept": 1100, "lost": 100, "other": 1000})
        for count in counts.values():
            self.assertEqual(count["seen"], count["kept"] + count["lost"])

    def test_sort_limit_share(self):
        answer = rows("report", "-i", profile("demo"), "--sort", "total", "--limit", "2")
        self.assertEqual([row["symbol"] for row in answer["rows"]], ["main", "fib"])
        self.assertEqual(answer["omitted"], 5)
        for share in "0.5", "50%":
            answer = rows("report", "-i", profile("demo"), "--min-share", share)
            self.assertEqual({row["symbol"] for row in answer["rows"]}, {"main", "fib"})
        answer = rows("report", "callgraph", "-i", profile("demo"), "--limit", "1")
        self.assertEqual({row["symbol"] for row in answer["rows"]}, {"main"})

    def test_callgraph_sums_agree(self):
        answer = rows("report", "callgraph", "-i", profile("recursive"), "--min-share", "0")
        stanzas = collections.defaultdict(list)
        for row in answer["rows"]:
            stanzas[row["stanza"]].append(row)
        for stanza in stanzas.values():
            whole = [row for row in stanza if row["relation"] == "self"][0]
            callers = sum(row["total"] for row in stanza if row["relation"] == "caller")
            callees = sum(row["total"] for row in stanza if row["relation"] == "callee")
            self.assertEqual(callers, whole["total"])
            self.assertEqual(callees + whole["self"], whole["total"])
            self.assertAlmostEqual(sum(row["part"] for row in stanza if row["relation"] == "caller"), 1)
            for row in stanza:
                if row["relation"] == "callee" or row["other"]:
                    self.assertRegex(row["address"], "^0x[0-9a-f]+$")

    def test_annotate(self):
        answer = rows("annotate", "fib", "-i", profile("demo"))
        self.assertEqual(sum(row["self"] for row in answer["rows"]), 550)
        hot = [row for row in answer["rows"] if row["self"] == 500][0]
        self.assertEqual((hot["address"], hot["text"], hot["file"], hot["line"]),
                         ("0x1104", "nop", "/src/demo/main.c", 3))
        self.assertEqual(hot["share"], 0.5)
        att = rows("annotate", "fib", "-i", profile("demo"), "--att")
        self.assertIn("mov %rsp, %rbp", [row["text"] for row in att["rows"]])
        limited = rows("annotate", "fib", "-i", profile("demo"), "--limit", "2")
        self.assertEqual([row["self"] for row in limited["rows"]], [500, 50])

    def test_annotate_asks_when_in_doubt(self):
        several = run("annotate", "a", "-i", profile("demo"), code=1)
        self.assertIn("145 samples  parse", several.stderr.decode())
        self.assertIn("inlined", run("annotate", "clamp", "-i", profile("demo"), code=1).stderr.decode())
        self.assertIn("neither", run("annotate", "main", "-i", profile("demo"), code=1).stderr.decode())
        self.assertIn("nosuch", run("annotate", "nosuch", "-i", profile("demo"), code=1).stderr.decode())

    def test_diff(self):
        answer = rows("diff", profile("demo"), profile("changed"))
        first = answer["rows"][0]
        self.assertEqual((first["symbol"], first["significant"]), ("fib", True))
        self.assertAlmostEqual(first["delta"], 850 / 1300 - 550 / 1000)
        self.assertEqual([row["symbol"] for row in answer["rows"] if row["significant"]], ["fib"])
        self.assertEqual(answer["totals_a"]["seen"], 1000)
        self.assertEqual(answer["totals"]["seen"], 1300)
        same = rows("diff", profile("demo"), profile("demo"))
        self.assertEqual({row["delta"] for row in same["rows"]}, {0})
        lines = rows("diff", "--lines", "--significant", profile("demo"), profile("changed"))
        self.assertEqual([row["line"] for row in lines["rows"]], [3])
        total = rows("diff", "--total", profile("demo"), profile("changed"))
        self.assertIn("main", [row["symbol"] for row in total["rows"] if row["count_a"] == 800])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
