#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: V18, S3, S4.
"""The commands that read profiles, from outside: text, JSON, exports, exit codes, files, terminals.

    view_test.py ASSAY FIXTURE_WRITE [TEST...]

Oracles: sqlite3 and this file's own arithmetic for the numbers, protoc for pprof, json for JSON. Text is
compared with the files in golden/; ASSAY_REBASE=1 writes them anew.
"""

import collections
import gzip
import json
import os
import pty
import re
import select
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import unittest

ASSAY, FIXTURE_WRITE = (os.path.abspath(path) for path in sys.argv[1:3])
HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "golden")
MAN = os.path.join(HERE, "../docs/man")
SCRATCH = tempfile.TemporaryDirectory()
VIEWS = ["functions", "lines", "modules", "processes", "threads", "callgraph", "tree", "losses"]
VALUE_VIEWS = ["invariants", "args", "blocks", "values", "runs"]


def profile(kind):
    path = os.path.join(SCRATCH.name, kind + ".db")
    if not os.path.exists(path):
        subprocess.run([FIXTURE_WRITE, kind, path], check=True)
    return path


def environment(**changes):
    env = {key: value for key, value in os.environ.items()
           if key not in ("NO_COLOR", "PAGER", "COLUMNS", "LESS")}
    env.update(LC_ALL="C.UTF-8", TERM="xterm")
    env.update(changes)
    return env


def run(*args, code=0, **options):
    done = subprocess.run([ASSAY, *args], capture_output=True, env=environment(), cwd=SCRATCH.name,
                          **options)
    if done.returncode != code:
        raise AssertionError(f"{args}: exit {done.returncode}, expected {code}\n"
                             f"{done.stdout.decode(errors='replace')}{done.stderr.decode(errors='replace')}")
    return done


def text(*args, **options):
    return run(*args, **options).stdout.decode("utf-8")


def rows(*args):
    answer = json.loads(text(*args, "--json"))
    assert answer["assay"] == 1
    totals = answer["totals"]
    assert totals["seen"] == totals["kept"] + sum(totals["lost"].values())
    return answer


def terminal(*args, width=80, **changes):
    """Runs with a terminal of the given width as standard output; returns what arrives there."""
    master, slave = pty.openpty()
    import fcntl
    import struct
    import termios
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    child = subprocess.Popen([ASSAY, *args], stdout=slave, stderr=slave, stdin=subprocess.DEVNULL,
                             env=environment(**changes))
    os.close(slave)
    output = b""
    while True:
        try:
            select.select([master], [], [])
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        output += piece
    os.close(master)
    child.wait()
    return child.returncode, output.decode("utf-8").replace("\r\n", "\n")


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


def protobuf_text(lines):
    """protoc's text form as a list of (field, value or list)."""
    message = []
    for line in lines:
        line = line.strip()
        if line == "}":
            break
        if line.endswith("{"):
            message.append((line[:-1].strip(), protobuf_text(lines)))
        else:
            field, value = line.split(": ", 1)
            message.append((field, value if value[0] == '"' else value == "true" or
                            (0 if value == "false" else int(value))))
    return message


def fields(message, name):
    return [value for field, value in message if field == name]


def field(message, name):
    return (fields(message, name) or [0])[0]


class Pprof(unittest.TestCase):
    def decode(self, *args):
        packed = run("export", "pprof", *args).stdout
        decoded = subprocess.run(["protoc", "--decode=pprof.Profile", "--proto_path=" + os.path.join(HERE, "support"), "pprof.proto"],
                                 input=gzip.decompress(packed), capture_output=True, check=True)
        message = protobuf_text(iter(decoded.stdout.decode("utf-8").splitlines()))
        self.assertNotIn(True, [name.isdigit() for name, _ in message], "unknown fields")
        self.strings = [value[1:-1] for value in fields(message, "string_table")]
        self.assertEqual(self.strings[0], "")
        return message

    def check(self, message):
        """Every id exists and is not 0; every string is in the table."""
        functions = {field(f, "id"): self.strings[field(f, "name")] for f in fields(message, "function")}
        mappings = {field(m, "id") for m in fields(message, "mapping")}
        locations = {field(l, "id"): l for l in fields(message, "location")}
        self.assertNotIn(0, functions)
        self.assertNotIn(0, mappings)
        self.assertNotIn(0, locations)
        self.assertEqual(len(functions), len(fields(message, "function")))
        self.assertEqual(len(locations), len(fields(message, "location")))
        for location in locations.values():
            self.assertIn(field(location, "mapping_id"), mappings | {0})
            for line in fields(location, "line"):
                self.assertIn(field(line, "function_id"), functions)
        own, total = collections.Counter(), collections.Counter()
        for sample in fields(message, "sample"):
            values = fields(sample, "value")
            names = []
            for id in fields(sample, "location_id"):
                names += [functions[field(line, "function_id")] for line in
                          fields(locations[id], "line")] or ["[unknown]"]
            own[names[0]] += values[0]
            for name in set(names):
                total[name] += values[0]
        return own, total

    def test_totals_equal_the_reports(self):
        for kind in "demo", "recursive":
            message = self.decode("-i", profile(kind))
            own, total = self.check(message)
            report = rows("report", "-i", profile(kind))
            expected = collections.Counter()
            for row in report["rows"]:
                expected[row["symbol"]] += row["self"]
            for reason, count in report["totals"]["lost"].items():
                expected[f"[lost: {reason}]"] += count
            self.assertEqual(+expected, +own)
            self.assertEqual(sum(own.values()), report["totals"]["seen"])
            for row in report["rows"]:
                if row["symbol"] != "[unknown]":
                    self.assertEqual(total[row["symbol"]], row["total"])

    def test_head(self):
        message = self.decode("-i", profile("demo"))
        types = [(self.strings[field(t, "type")], self.strings[field(t, "unit")])
                 for t in fields(message, "sample_type")]
        self.assertEqual(types, [("samples", "count"), ("cpu", "nanoseconds")])
        self.assertEqual(field(message, "period"), 1000000)
        self.assertEqual(field(message, "time_nanos"), 1700000000000000000)
        self.assertEqual(field(message, "duration_nanos"), 1000000000)
        for sample in fields(message, "sample"):
            values = fields(sample, "value")
            self.assertEqual(values[1], values[0] * 1000000)
        comments = [self.strings[id] for id in fields(message, "comment")]
        self.assertTrue(any("ring_full 60" in comment for comment in comments))
        mappings = {self.strings[field(m, "filename")]: self.strings[field(m, "build_id")]
                    for m in fields(message, "mapping")}
        self.assertEqual(mappings["/usr/bin/demo"], "0123456789abcdef")
        self.assertNotIn("[assay]", mappings)

    def test_inlined_lines_and_labels(self):
        message = self.decode("-i", profile("demo"))
        functions = {field(f, "id"): (self.strings[field(f, "name")], self.strings[field(f, "filename")])
                     for f in fields(message, "function")}
        inlined = [l for l in fields(message, "location") if field(l, "address") == 0x1204][0]
        self.assertEqual([(*functions[field(line, "function_id")], field(line, "line"))
                          for line in fields(inlined, "line")],
                         [("clamp", "/src/demo/clamp.h", 40), ("parse", "/src/demo/main.c", 20)])
        labels = set()
        for sample in fields(message, "sample"):
            found = {self.strings[field(l, "key")]: self.strings[field(l, "str")] or field(l, "num")
                     for l in fields(sample, "label")}
            labels.add(tuple(sorted(found.items())))
        self.assertIn((("comm", "demo-worker"), ("pid", 100), ("tid", 101), ("uid", 1000)), labels)
        self.assertIn((), labels)  # lost samples belong to nobody

    @unittest.skipUnless(shutil.which("go"), "no go")
    def test_go_tool_pprof_reads_it(self):
        path = os.path.join(SCRATCH.name, "demo.pb.gz")
        run("export", "pprof", "-i", profile("demo"), "-o", path)
        command = ["go", "tool", "pprof", "-symbolize=none"]
        top = subprocess.run([*command, "-top", "-sample_index=samples", path], capture_output=True,
                             text=True, check=True).stdout
        self.assertIn("Total samples = 1000", top)
        self.assertIn("File: demo\n", top)
        self.assertRegex(top, r"\b550 55.00% 55.00% +550 55.00%  fib\n")
        self.assertRegex(top, r"\b100 10.00% .* 800 80.00%  main\n")
        self.assertRegex(top, r"clamp \(inline\)\n")
        self.assertRegex(top, r"\b60  6.00% .*\[lost: ring_full\]\n")
        tags = subprocess.run([*command, "-tags", "-sample_index=samples", path], capture_output=True,
                              text=True, check=True).stdout
        self.assertRegex(tags, r"75\.0 .*: 0\n")

    def test_filtered_and_hostile(self):
        own, _ = self.check(self.decode("-i", profile("demo"), "--tid", "101"))
        self.assertEqual(own, {"fib": 50, "clamp": 120})
        self.check(self.decode("-i", profile("hostile")))
        self.check(self.decode("-i", profile("empty")))


class Collapsed(unittest.TestCase):
    def lines(self, *args):
        counts = {}
        for line in text("export", "collapsed", *args).splitlines():
            stack, count = line.rsplit(" ", 1)
            self.assertNotIn(stack, counts)
            counts[stack] = int(count)
        return counts

    def test_totals_equal_the_reports(self):
        for kind in "demo", "recursive":
            lines = self.lines("-i", profile(kind))
            report = rows("report", "-i", profile(kind))
            self.assertEqual(sum(lines.values()), report["totals"]["seen"])
            own = collections.Counter()
            for stack, count in lines.items():
                own[stack.split(";")[-1]] += count
            for row in report["rows"]:
                if row["symbol"] != "[unknown]":
                    self.assertEqual(own[row["symbol"]], row["self"])

    def test_shape(self):
        lines = self.lines("-i", profile("demo"))
        self.assertEqual(lines["demo;main;fib;fib"], 300)
        self.assertEqual(lines["demo-worker;main;parse;clamp"], 120)
        self.assertEqual(lines["demo;main;parse;[libc.so.6]"], 30)
        self.assertEqual(lines["[lost: ring_full]"], 60)
        self.assertEqual(self.lines("-i", profile("demo"), "--no-comm")["main;fib;fib"], 350)
        self.assertEqual(self.lines("-i", profile("demo"), "--pid", "200"), {"daemon;do_syscall": 75})


class Files(unittest.TestCase):
    def test_output_is_whole_or_not_there(self):
        folder = tempfile.mkdtemp(dir=SCRATCH.name)
        path = os.path.join(folder, "out.json")
        run("report", "-i", profile("demo"), "--json", "-o", path)
        with open(path, encoding="utf-8") as stream:
            self.assertEqual(json.load(stream)["view"], "functions")
        self.assertEqual(os.listdir(folder), ["out.json"])
        umask = os.umask(0)
        os.umask(umask)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o666 & ~umask)
        run("report", "-i", profile("demo"), "-o", os.path.join(folder, "no/such"), code=1)
        self.assertEqual(os.listdir(folder), ["out.json"])

    def test_links_and_devices_are_not_replaced(self):
        folder = tempfile.mkdtemp(dir=SCRATCH.name)
        target, link = os.path.join(folder, "target"), os.path.join(folder, "link")
        with open(target, "w", encoding="utf-8") as stream:
            stream.write("old")
        os.symlink(target, link)
        run("export", "collapsed", "-i", profile("demo"), "-o", link)
        self.assertTrue(os.path.islink(link))
        with open(target, encoding="utf-8") as stream:
            self.assertIn("demo;main 100", stream.read())
        full = run("export", "pprof", "-i", profile("demo"), "-o", "/dev/full", code=1)
        self.assertIn("/dev/full", full.stderr.decode())
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/full").st_mode))

    def test_a_full_standard_output_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([ASSAY, "report", "-i", profile("demo")], stdout=full,
                                  stderr=subprocess.PIPE, env=environment())
        self.assertEqual(done.returncode, 1)

    def test_input(self):
        run("report", "-i", os.path.join(SCRATCH.name, "missing.db"), code=1)
        run("report", "-i", "/etc/passwd", code=1)
        folder = tempfile.mkdtemp(dir=SCRATCH.name)
        os.link(profile("demo"), os.path.join(folder, "assay.db"))
        done = subprocess.run([ASSAY, "report"], capture_output=True, text=True, cwd=folder,
                              env=environment())
        self.assertIn("fib", done.stdout)

    def test_unfinished_profiles_are_completed_once(self):
        path = profile("unfinished")
        first = run("report", "-i", path)
        self.assertIn("did not end", first.stderr.decode())
        self.assertIn("fib", first.stdout.decode())
        self.assertEqual(run("report", "-i", path).stderr, b"")


class Usage(unittest.TestCase):
    COMMANDS = ["report", "annotate", "diff", "export"]

    def commands(self):
        """All that the overview lists."""
        return re.findall(r"(?m)^  ([a-z]+) +\S", text("help").split("\n\n")[1])

    def test_exit_codes(self):
        demo = profile("demo")
        run(code=2)
        run("repotr", code=2)
        run("report", "nonsense", "-i", demo, code=2)
        run("report", "functions", "lines", "-i", demo, code=2)
        run("report", "--nonsense", code=2)
        run("report", "--limit", code=2)
        run("report", "--limit", "0", "-i", demo, code=2)
        run("report", "--limit", "x", "-i", demo, code=2)
        run("report", "--pid", "1,x", "-i", demo, code=2)
        run("report", "--min-share", "7", "-i", demo, code=2)
        run("report", "--sort", "nonsense", "-i", demo, code=2)
        run("report", "tree", "--sort", "self", "-i", demo, code=2)
        run("report", "--color", "red", "-i", demo, code=2)
        run("annotate", "-i", demo, code=2)
        run("annotate", "--symbol", "fib", "-i", demo, code=2)
        run("diff", demo, code=2)
        run("diff", "-i", demo, demo, demo, code=2)
        run("export", code=2)
        run("export", "nonsense", "-i", demo, code=2)
        run("help", "nonsense", code=2)

    def test_suggestions(self):
        self.assertIn("did you mean 'report'", run("repotr", code=2).stderr.decode())
        self.assertNotIn("did you mean", run("xyzzy", code=2).stderr.decode())
        self.assertIn("total_share", run("report", "--sort", "x", "-i", profile("demo"),
                                         code=2).stderr.decode())

    def test_help(self):
        self.assertRegex(text("--version"), r"^assay \d+\.\d+")
        for args in ["help"], ["--help"]:
            for command in self.COMMANDS:
                self.assertIn(command, text(*args))
        for command in self.commands():
            self.assertLessEqual(max(map(len, text("help", command).splitlines())), 90, command)
        for command in self.COMMANDS:
            self.assertEqual(text("help", command), text(command, "--help"))
            self.assertIn(f"usage: assay {command}", text("help", command))

    def manual(self, command):
        with open(os.path.join(MAN, command + ".1"), encoding="utf-8") as stream:
            return stream.read()

    def test_manual(self):
        commands = self.commands()
        self.assertIn("completion", commands)
        for command in ["assay"] + ["assay-" + command for command in commands]:
            lint = subprocess.run(["mandoc", "-Tlint", "-Wwarning", os.path.join(MAN, command + ".1")],
                                  capture_output=True, text=True)
            self.assertEqual(lint.stdout, "")
        for command in commands:
            for option in re.findall(r"--[a-z-]+", text("help", command)):
                self.assertRegex(self.manual("assay-" + command), r"\bFl -" + option[2:] + r"\b", command)
            self.assertIn(f".Xr assay-{command} 1", self.manual("assay"))
            self.assertIn(f".It Cm {command}\n", self.manual("assay"))

    def test_manual_has_all_views(self):
        listed = re.findall(r"(?m)^  ([a-z]+) +\S", text("help", "report").split("What to show")[0])
        self.assertGreater(len(listed), 20)
        described = re.findall(r"[a-z]+", " ".join(re.findall(r"(?m)^\.It Cm (.*)$", self.manual("assay-report"))))
        self.assertEqual([view for view in listed if view not in described], [])


class Options(unittest.TestCase):
    """Every option has one row; what follows from it is seen here from outside."""

    def refused(self, *args):
        return run(*args, code=2).stderr.decode().strip()

    def test_one_form_of_refusal(self):
        self.assertEqual(self.refused("report", "--limit", "many"),
                         "assay: --limit many: takes a whole number from 1 on; see 'assay help report'")
        self.assertEqual(self.refused("report", "--bottom-up"),
                         "assay: --bottom-up: the view functions does not take it; it is for tree; "
                         "see 'assay help report'")
        self.assertEqual(self.refused("export", "lcov", "--symbol", "x"),
                         "assay: --symbol: the format lcov does not take it; it is for collapsed, pprof, speedscope, "
                         "firefox and callgrind; see 'assay help export'")
        self.assertIn("--no-comm: the format pprof does not take it; it is for collapsed",
                      self.refused("export", "pprof", "--no-comm", "-o", "x"))
        self.assertIn("--width: changes nothing without --format text", self.refused("report", "--width", "9", "--json"))
        self.assertIn("did you mean --symbol?", self.refused("report", "--symbl", "x"))

    def test_a_request_is_a_view(self):
        demo = profile("demo")
        self.assertEqual(text("report", "functions?symbol=fib&limit=1", "-i", demo, "--json"),
                         text("report", "functions", "--symbol", "fib", "--limit", "1", "-i", demo, "--json"))
        self.assertEqual(text("report", "tree?bottom-up&json", "-i", demo),
                         text("report", "tree", "--bottom-up", "--json", "-i", demo))
        self.assertIn("output: there is no such option of a request",
                      self.refused("report", "functions?output=x", "-i", demo))

    def test_what_a_profile_lacks_is_said(self):
        for view, command in (("paths", "assay trace -- COMMAND"), ("mix", "assay trace --tool count -- COMMAND"),
                              ("coverage", "assay trace --tool coverage -- COMMAND"),
                              ("args", "assay record --values -- COMMAND"),
                              ("functions?metric=blocks", "assay trace --tool count -- COMMAND")):
            failed = run("report", view, "-i", profile("demo"), code=1)
            self.assertIn(f"'{command}' records", failed.stderr.decode(), view)

    def test_a_full_disk_is_an_error(self):
        for args in ([], ["help"], ["--version"], ["help", "report"], ["report", "--help"], ["completion", "bash"]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([ASSAY, *args], stdout=full, stderr=subprocess.PIPE, env=environment())
            self.assertEqual(done.returncode, 1 if args else 2, args)

    def test_where_to_begin(self):
        said = run(code=2).stderr.decode()
        self.assertIn("Where to begin:\n  assay record -- COMMAND", said)


class Completion(unittest.TestCase):
    def script(self, shell):
        path = os.path.join(SCRATCH.name, "completion." + shell)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text("completion", shell))
        return path

    def bash(self, *words):
        line = " ".join(f"'{word}'" for word in words)
        done = subprocess.run(["bash", "-c", f"source {self.script('bash')}; COMP_WORDS=({line}); "
                               f"COMP_CWORD={len(words) - 1}; _assay; printf '%s\\n' \"${{COMPREPLY[@]}}\""],
                              capture_output=True, text=True, check=True, cwd=SCRATCH.name)
        return done.stdout.split("\n")[:-1]

    def test_bash(self):
        self.assertEqual(self.bash("assay", "re"), ["record", "report"])
        self.assertEqual(self.bash("assay", "help", "an"), ["annotate"])
        self.assertEqual(self.bash("assay", "report", "tr"), ["tree", "transfers"])
        self.assertEqual(self.bash("assay", "report", "--bo"), ["--bottom-up"])
        self.assertEqual(self.bash("assay", "report", "--metric", "b"), ["blocks"])
        self.assertEqual(self.bash("assay", "export", "p"), ["pprof", "prometheus"])
        self.assertEqual(self.bash("assay", "record", "--freq", "-"), [""])
        with open(os.path.join(SCRATCH.name, "a profile.db"), "w", encoding="utf-8"):
            self.assertEqual(self.bash("assay", "report", "-i", "a p"), ["a profile.db"])

    def test_bash_has_every_option(self):
        for command in re.findall(r"(?m)^  ([a-z]+) +\S", text("help").split("\n\n")[1]):
            listed = re.findall(r"(?m)^  (?:-., |    )(--[a-z-]+)", text("help", command))
            self.assertIn("--help", listed)
            self.assertEqual(self.bash("assay", command, "--"), listed)

    @unittest.skipUnless(shutil.which("fish"), "no fish")
    def test_fish(self):
        def fish(line):
            done = subprocess.run(["fish", "-c", f"source {self.script('fish')}; complete -C '{line}'"],
                                  capture_output=True, text=True, check=True,
                                  env=environment(HOME=SCRATCH.name))
            return [answer.split("\t")[0] for answer in done.stdout.splitlines()]
        self.assertEqual(fish("assay rep"), ["report"])
        self.assertEqual(fish("assay report tree --bott"), ["--bottom-up"])
        self.assertEqual(fish("assay report --metric "), ["allocated", "auto", "blocks", "calls", "instructions", "samples"])
        self.assertIn("mix", fish("assay report m"))

    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_zsh(self):
        path = self.script("zsh")
        subprocess.run(["zsh", "-n", path], check=True)
        with open(path, encoding="utf-8") as stream:
            script = stream.read()
        self.assertTrue(script.startswith("#compdef assay\n"))
        self.assertIn("'*--metric=[Choose what rows are measured by]:METRIC:(auto samples instructions blocks calls allocated)'", script)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
