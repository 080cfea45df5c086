#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
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
MAN = os.path.join(HERE, "../../docs/man")
SCRATCH = tempfile.TemporaryDirectory()
VIEWS = ["functions", "lines", "modules", "processes", "threads", "callgraph", "tree", "losses"]


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
    def golden(self, name, *args):
        actual = text(*args, "--width", "100")
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

    def test_narrow_lines_fit(self):
        for view in VIEWS + ["tree --bottom-up"]:
            for kind in "demo", "recursive", "hostile":
                wide = text("report", *view.split(), "-i", profile(kind))
                for line in text("report", *view.split(), "-i", profile(kind), "--width",
                                 "90").split("\n\n")[0].split("\n"):
                    self.assertLessEqual(len(line), 90, view)
                self.assertNotIn("…", wide)

    def test_hostile_names_are_harmless(self):
        for view in VIEWS:
            answer = run("report", view, "-i", profile("hostile")).stdout
            self.assertEqual([byte for byte in answer if byte < 32 and byte != 10 or byte == 127], [])
            self.assertNotIn("\u202e", answer.decode("utf-8"))
        collapsed = text("export", "collapsed", "-i", profile("hostile"))
        self.assertEqual(len(collapsed.splitlines()), 2)
        self.assertEqual(collapsed.splitlines()[0].count(";"), 1)

    def test_losses_are_always_printed(self):
        for view in VIEWS:
            self.assertIn("lost 100 (10.00%): ring_full 60, throttled 40",
                          text("report", view, "-i", profile("demo")))


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
                answer = rows("report", view, "-i", profile(kind), "--min-share", "0")
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
        decoded = subprocess.run(["protoc", "--decode=pprof.Profile", "--proto_path=" + HERE, "pprof.proto"],
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
        for command in self.COMMANDS:
            self.assertEqual(text("help", command), text(command, "--help"))
            self.assertIn(f"usage: assay {command}", text("help", command))

    def test_manual(self):
        for command in ["assay"] + ["assay-" + command for command in self.COMMANDS]:
            path = os.path.join(MAN, command + ".1")
            lint = subprocess.run(["mandoc", "-Tlint", "-Wwarning", path], capture_output=True, text=True)
            self.assertEqual(lint.stdout, "")
        for command in self.COMMANDS:
            with open(os.path.join(MAN, f"assay-{command}.1"), encoding="utf-8") as stream:
                manual = stream.read()
            for option in re.findall(r"--[a-z-]+", text("help", command)):
                self.assertRegex(manual, r"\bFl -" + option[2:] + r"\b", command)
        with open(os.path.join(MAN, "assay.1"), encoding="utf-8") as stream:
            manual = stream.read()
        for command in self.COMMANDS:
            self.assertIn(f".Xr assay-{command} 1", manual)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
