#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: T1, T2, T3, T4, T5, T7, T8, T9.
"""assay calls on programs whose calls are known, and beside callgrind.

Counts are exact, whatever the program does: longjmp, exceptions, fork, threads, signals, SIGKILL.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

ASSAY = os.path.abspath(os.environ.get("ASSAY", "build/assay"))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRATCH = tempfile.mkdtemp(prefix="calls-")
HOOKS = ["-O1", "-g", "-pthread", "-finstrument-functions"]


def build(source, compiler="gcc", flags=()):
    path = os.path.join(SCRATCH, source + "".join(flags).replace("/", "_"))
    if not os.path.exists(path):
        subprocess.run([compiler, *(flags or HOOKS), "-o", path, os.path.join(ROOT, "tests/programs", source)], check=True)
    return path


def calls(*options, program, code=5):
    if "--view" not in options:
        options = ("--view", "functions", *options)
    run = subprocess.run([ASSAY, "calls", "--json", *options, "--", *program], capture_output=True, text=True,
                         cwd=SCRATCH, timeout=120)
    assert run.returncode == code, (run.returncode, run.stdout[-2000:], run.stderr[-2000:])
    found = json.loads(run.stdout[run.stdout.index('{"assay"'):])
    assert found["assay"] == 1
    found["said"] = run.stderr
    return found


def shapes(what, *options, code=5):
    return calls(*options, program=[build("calls_shapes.c"), what], code=code)


def by_symbol(found):
    return {row["symbol"]: row for row in found["rows"]}


class Shapes(unittest.TestCase):
    def test_example_as_a_tree(self):
        rows = shapes("example", "--view", "tree")["rows"]
        n = 1000
        self.assertEqual([(row["level"], row["recursion"], row["calls"], row["symbol"]) for row in rows[1:]],
                         [(1, 1, 1, "main"), (2, 1, n, "C"), (3, 1, n, "A"), (4, 1, 2 * n, "B"), (5, 2, n, "B"),
                          (3, 1, n, "B"), (4, 1, n, "A"), (5, 2, n, "B"), (6, 2, n, "A"), (7, 1, n, "X")])
        self.assertEqual(rows[0]["level"], 0)
        for i, row in enumerate(rows):  # a node's cumulative time is its own and that of the nodes right below it
            below = 0
            for other in rows[i + 1:]:
                if other["level"] <= row["level"]:
                    break
                below += other["cum"] if other["level"] == row["level"] + 1 else 0
            self.assertAlmostEqual(row["cum"], row["base"] + below, delta=2000 + row["cum"] / 100)

    def test_example_by_function(self):
        found = shapes("example")
        rows = by_symbol(found)
        self.assertEqual({name: row["calls"] for name, row in rows.items()},
                         {"main": 1, "C": 1000, "A": 3000, "B": 5000, "X": 1000})
        self.assertEqual(found["totals"]["seen"], 10001)
        self.assertEqual(found["totals"]["lost"], {})
        self.assertEqual(rows["B"]["recursion"], 2)
        self.assertIn("hooks' own cost", found["said"])

    def test_example_between_callers(self):
        rows = shapes("example", "--view", "callgraph")["rows"]
        groups = {}
        for row in rows:
            groups.setdefault(row["group"], []).append(row)
        for group in groups.values():
            own = [row for row in group if row["role"] == "self"]
            self.assertEqual(len(own), 1)
            if own[0]["symbol"] != "[thread]":
                self.assertEqual(sum(row["calls"] for row in group if row["role"] == "parent"), own[0]["calls"])
        stanza = next(group for group in groups.values() if any(row["role"] == "self" and row["symbol"] == "A" for row in group))
        self.assertEqual(sorted((row["role"], row["symbol"], row["calls"]) for row in stanza),
                         [("child", "B", 3000), ("child", "X", 1000), ("parent", "B", 2000), ("parent", "C", 1000),
                          ("self", "A", 3000)])

    def test_longjmp(self):
        found = shapes("jumps", "--view", "tree")
        self.assertIn("500 frames that were left without an exit", found["said"])
        self.assertIn("100 frames in whose place another one appeared", found["said"])  # X() where fall() was
        rows = {(row["level"], row["symbol"]): row["calls"] for row in found["rows"]}
        self.assertEqual(rows[3, "X"], 100)  # below jump(), not below fall()
        self.assertEqual([rows[level, "fall"] for level in range(3, 9)], [100] * 6)

    def test_exceptions(self):
        found = calls("--view", "tree", program=[build("calls_throws.cc", "g++")], code=0)
        rows = {(row["level"], row["symbol"].split("(")[0]): row["calls"] for row in found["rows"]}
        self.assertEqual(rows[3, "after"], 50)
        self.assertEqual([rows[level, "thrower"] for level in range(3, 8)], [50] * 5)

    def test_threads(self):
        rows = shapes("tasks", "--view", "tree", "--count")["rows"]
        found = {row["comm"]: row["calls"] for row in rows if row["symbol"] == "X"}
        self.assertEqual(found, {f"task{i}": 100 * (i + 1) for i in range(4)})
        self.assertEqual(len({row["tid"] for row in rows}), 5)

    def test_short_threads(self):
        """More than there is room for at the same time; none is merged, and none is lost."""
        found = shapes("many", "--view", "tree", "--count", "--max-threads", "32")
        brief = [row["calls"] for row in found["rows"] if row["symbol"] == "brief"]
        self.assertEqual(brief, [1] * 2000)
        self.assertEqual(found["totals"]["lost"], {})

    def test_fork(self):
        rows = shapes("forks", "--view", "tree", "--count")["rows"]
        pids = {row["pid"] for row in rows}
        self.assertEqual(len(pids), 2)
        first = rows[0]["pid"]
        by_path = {(row["pid"] == first, row["level"], row["symbol"]): row["calls"] for row in rows[1:]}
        child = not by_path.get((True, 3, "work"))
        self.assertEqual(by_path[not child, 4, "X"], 5)
        self.assertEqual(by_path[child, 2, "parent"], 0)  # the child is there, but did not call it
        self.assertEqual(by_path[child, 3, "child"], 1)
        self.assertEqual(by_path[child, 5, "X"], 7)

    def test_depth(self):
        found = shapes("deep", "--count", "--max-depth", "100")
        self.assertEqual(by_symbol(found)["deep"]["calls"], 99)
        self.assertEqual(found["totals"]["lost"], {"too_deep": 9901})
        self.assertEqual(by_symbol(shapes("deep", "--count", "--max-depth", "16000"))["deep"]["calls"], 10000)

    def test_pruning(self):
        whole = shapes("wide", "--view", "tree", "--count")
        few = shapes("wide", "--view", "tree", "--count", "--max-nodes", "400")
        self.assertNotIn("[pruned]", by_symbol(whole))
        self.assertIn("[pruned]", by_symbol(few))
        self.assertGreater(len(whole["rows"]), 20000)
        self.assertLess(len(few["rows"]), 501)
        self.assertEqual(sum(row["calls"] for row in few["rows"]), sum(row["calls"] for row in whole["rows"]))
        self.assertEqual(whole["totals"]["seen"], 20000 * 6 + 1)

    def test_only_and_skip(self):
        """Functions that are not told apart are part of who calls them; nothing is lost."""
        rows = shapes("example", "--view", "tree", "--only", "A", "--only", "main")["rows"]
        self.assertEqual([(row["level"], row["calls"], row["symbol"]) for row in rows[1:]],
                         [(1, 1, "main"), (2, 2000, "A"), (3, 1000, "A")])
        self.assertEqual(sum(row["base"] for row in rows), rows[0]["cum"])
        rows = shapes("example", "--skip", "B", "--skip", "X")["rows"]
        self.assertEqual({row["symbol"]: row["calls"] for row in rows}, {"main": 1, "C": 1000, "A": 3000})

    def test_time(self):
        """Time on a processor is the program's own, whatever else the machine does; a nap only passes."""
        rows = by_symbol(shapes("burn"))
        self.assertAlmostEqual(rows["light"]["cum"], 100e6, delta=5e6)
        self.assertAlmostEqual(rows["heavy"]["cum"], 300e6, delta=15e6)
        self.assertGreater(rows["nap"]["elapsed"], 200e6)
        self.assertLess(rows["nap"]["cum"], 5e6)
        self.assertGreaterEqual(rows["main"]["elapsed"], 600e6)

    def test_killed(self):
        rows = by_symbol(shapes("killed", "--count", code=128 + 9))
        self.assertEqual(rows["X"]["calls"], 1000)

    def test_signal_handler(self):
        rows = shapes("handler", "--view", "tree", "--count")
        found = {(row["level"], row["symbol"]): row["calls"] for row in rows["rows"]}
        self.assertEqual(found[3, "on_signal"], 10)
        self.assertEqual(found[5, "X"], 30)
        self.assertEqual(found[3, "X"], 1)

    def test_snapshots(self):
        run = subprocess.run([ASSAY, "calls", "--snapshot-every", "0.1", "--view", "tree", "--json", "--",
                              build("calls_shapes.c"), "burn"], capture_output=True, text=True, timeout=120)
        self.assertEqual(run.returncode, 5)
        heavy = [json.loads(text)["rows"] for text in re.findall(r'\{"assay".*?\]\}\n', run.stdout, re.S)]
        self.assertGreater(len(heavy), 2)
        sizes = [len(rows) for rows in heavy]
        self.assertEqual(sizes, sorted(sizes))  # more and more paths


class Profile(unittest.TestCase):
    """What assay calls writes is a profile like others."""

    @classmethod
    def setUpClass(cls):
        calls("-o", "example.db", program=[build("calls_shapes.c"), "example"])
        calls("-o", "tasks.db", "--count", program=[build("calls_shapes.c"), "tasks"])

    def report(self, *words, code=0):
        run = subprocess.run([ASSAY, *words], capture_output=True, text=True, cwd=SCRATCH, timeout=60)
        self.assertEqual(run.returncode, code, run.stderr)
        return run.stdout

    def rows(self, view, *options, name="example.db"):
        return json.loads(self.report("report", view, "-i", name, "--json", *options))["rows"]

    def test_tree(self):
        rows = self.rows("tree", "--min-share", "0")
        self.assertEqual([(row["level"], row["recursion"], row["calls"], row["symbol"]) for row in rows[1:]],
                         [(1, 1, 1, "main"), (2, 1, 1000, "C"), (3, 1, 1000, "A"), (4, 1, 2000, "B"), (5, 2, 1000, "B"),
                          (3, 1, 1000, "B"), (4, 1, 1000, "A"), (5, 2, 1000, "B"), (6, 2, 1000, "A"), (7, 1, 1000, "X")])
        for i, row in enumerate(rows):  # in the profile these are whole nanoseconds, so sums are exact
            below = 0
            for other in rows[i + 1:]:
                if other["level"] <= row["level"]:
                    break
                below += other["cum"] if other["level"] == row["level"] + 1 else 0
            self.assertEqual(row["cum"], row["base"] + below)
        self.assertEqual(sum(row["base"] for row in rows), rows[0]["cum"])

    def test_filters(self):
        self.assertEqual([row["symbol"] for row in self.rows("tree", "--min-share", "0", "--symbol", "X")][1:],
                         ["main", "C", "B", "A", "B", "A", "X"])
        self.assertEqual({row["symbol"] for row in self.rows("functions", "--symbol", "B")}, {"B"})
        self.assertEqual({row["comm"] for row in self.rows("tree", "--comm", "task2", name="tasks.db")}, {"task2"})

    def test_stanzas_add_up(self):
        groups = {}
        for row in self.rows("callgraph", "--min-share", "0"):
            groups.setdefault(row["group"], {}).setdefault(row["role"], []).append(row)
        self.assertEqual(len(groups), 6)
        for group in groups.values():
            own = group["self"][0]
            self.assertEqual(sum(row["cum"] for row in group.get("child", [])), own["cum"] - own["base"])
            for what in ("calls", "base", "cum", "elapsed") if "parent" in group else ():
                self.assertEqual(sum(row[what] for row in group["parent"]), own[what])

    def test_tasks_and_modules(self):
        threads = {row["comm"]: row["calls"] for row in self.rows("threads", name="tasks.db")}
        for i in range(4):  # X 100 * (i + 1) times, and what calls it
            self.assertGreaterEqual(threads[f"task{i}"], 100 * (i + 1))
        self.assertEqual(sum(threads.values()), self.rows("processes", name="tasks.db")[0]["calls"])
        self.assertEqual(self.rows("modules")[0]["calls"], 10001)

    def test_merge(self):
        self.report("merge", "example.db", "example.db", "-o", "both.db")
        once = {row["symbol"]: row for row in self.rows("functions")}
        twice = {row["symbol"]: row for row in self.rows("functions", name="both.db")}
        for name, row in once.items():
            for what in ("calls", "base", "cum", "elapsed"):
                self.assertEqual(twice[name][what], 2 * row[what], (name, what))

    def test_exports(self):
        lines = self.report("export", "collapsed", "-i", "example.db").splitlines()
        weights = {tuple(line.rsplit(" ", 1)[0].split(";")[1:]): int(line.rsplit(" ", 1)[1]) for line in lines}
        rows = self.rows("tree", "--min-share", "0")
        self.assertEqual(sum(weights.values()), rows[0]["cum"])
        self.assertEqual(weights["main", "C", "B"], next(row["base"] for row in rows if row["level"] == 3 and row["symbol"] == "B"))
        counts = self.report("export", "collapsed", "-i", "tasks.db").splitlines()
        self.assertEqual({line.split("/")[0]: int(line.rsplit(" ", 1)[1]) for line in counts if line.rsplit(" ", 1)[0].endswith(";X")},
                         {f"task{i}": 100 * (i + 1) for i in range(4)})
        scope = json.loads(self.report("export", "speedscope", "-i", "tasks.db"))
        self.assertEqual(len(scope["profiles"]), 5)
        for profile in scope["profiles"]:
            self.assertEqual(sum(profile["weights"]), profile["endValue"])
            self.assertEqual(len(profile["samples"]), len(profile["weights"]))
        frames = [frame["name"] for frame in scope["shared"]["frames"]]
        one = next(profile for profile in scope["profiles"] if profile["name"].startswith("task1 "))
        self.assertEqual([weight for path, weight in zip(one["samples"], one["weights"]) if frames[path[-1]] == "X"], [200])

    def test_what_it_has_not(self):
        self.report("report", "lines", "-i", "example.db", code=1)
        self.report("report", "tree", "--metric", "instructions", "-i", "example.db", code=1)
        self.report("report", "tree", "--bottom-up", "-i", "example.db", code=2)


class Samples(unittest.TestCase):
    """Calls of one run and samples of another, in one tree."""

    @staticmethod
    def run_assay(*words, code=0):
        run = subprocess.run([ASSAY, *words], capture_output=True, text=True, cwd=SCRATCH, timeout=60)
        assert run.returncode == code, (words, run.returncode, run.stderr)
        return run.stdout

    def report(self, view, name, *options):
        return json.loads(self.run_assay("report", view, "-i", name, "--json", "--min-share", "0", *options))

    def one_tree(self, way):
        program = [build("calls_shapes.c"), "burn"]
        calls("--with", way, "-o", f"{way}.db", program=program)
        self.run_assay("record", "-o", f"{way}-samples.db", "--", *program, code=5)
        self.run_assay("merge", f"{way}.db", f"{way}-samples.db", "-o", f"{way}-both.db")
        sampled = self.report("functions", f"{way}-samples.db")
        found = self.report("tree", f"{way}-both.db")
        rows = found["rows"]
        known = by_symbol(sampled)
        self.assertEqual(found["totals"]["kept"], self.report("tree", f"{way}.db")["totals"]["kept"])  # calls
        self.assertEqual(sum(row["self_samples"] for row in rows), sampled["totals"]["kept"])
        self.assertEqual(sum(row["samples"] for row in rows if row["level"] == 0), sampled["totals"]["kept"])
        main = next(row for row in rows if row["symbol"] == "main")
        paths = {row["symbol"]: row for row in rows if row["level"] == main["level"] + 1 and row["calls"]}
        # A sample in the dynamic linker may be on a path that the other run did not take.
        off = sum(row["samples"] for row in rows if "no call took" in row["symbol"])
        self.assertLess(off, 0.05 * sampled["totals"]["kept"])
        for name in ("heavy", "light"):
            self.assertEqual(paths[name]["calls"], 1)
            self.assertLessEqual(known[name]["total"] - off, paths[name]["samples"], name)
            self.assertLessEqual(paths[name]["samples"], known[name]["total"], name)
        share = paths["heavy"]["samples"] / (paths["heavy"]["samples"] + paths["light"]["samples"])
        self.assertAlmostEqual(share, 0.75, delta=0.08)  # it burns three times as much
        return rows

    def test_hooks(self):
        self.one_tree("hooks")
        self.assertRegex(self.run_assay("report", "tree", "-i", "hooks-both.db"), r"Calls +Samples")
        self.assertIn("Total%", self.run_assay("report", "tree", "-i", "hooks-both.db", "--metric", "samples"))
        self.assertNotIn("Samples", self.run_assay("report", "tree", "-i", "hooks.db"))

    def test_engine(self):
        symbols = [row["symbol"] for row in self.one_tree("engine")]
        self.assertIn("__libc_start_call_main", symbols)

    def test_waits(self):
        """What record --off-cpu saw is on the paths as well; a nap uses no processor, and is shown all the same."""
        program = [build("calls_shapes.c"), "burn"]
        calls("-o", "waiting.db", program=program)
        self.run_assay("record", "--off-cpu", "-o", "waits.db", "--", *program, code=5)
        self.run_assay("merge", "waiting.db", "waits.db", "-o", "waited.db")
        rows = self.report("tree", "waited.db")["rows"]
        waited = sum(row["total_ns"] + row["queued_ns"] for row in self.report("waits", "waits.db")["rows"])
        self.assertEqual(sum(row["self_waited_ns"] for row in rows), waited)
        nap = next(row for row in rows if row["symbol"] == "nap" and row["calls"])
        self.assertGreaterEqual(nap["waited_ns"], 195e6)  # of 200 ms
        self.assertRegex(self.run_assay("report", "tree", "-i", "waited.db"), r"Waited ns(.*\n)+.* nap\n")

    def test_of_another_program(self):
        """Samples that belong to none of the trees are said, so that sums hold."""
        calls("-o", "calls.db", program=[build("calls_shapes.c"), "example"])
        self.run_assay("record", "-o", "other.db", "--", shutil.which("python3"), "-c", "sum(range(10000000))")
        self.run_assay("merge", "calls.db", "other.db", "-o", "apart.db")
        rows = self.report("tree", "apart.db")["rows"]
        kept = self.report("functions", "other.db")["totals"]["kept"]
        self.assertEqual([(row["symbol"], row["samples"]) for row in rows if row["samples"]],
                         [("[of threads whose calls are not known]", kept)])


class Others(unittest.TestCase):
    def test_without_hooks(self):
        found = calls("--count", "--with", "hooks", program=["/bin/true"], code=0)
        self.assertEqual(found["rows"], [])
        self.assertIn("-finstrument-functions", found["said"])

    def test_usage(self):
        for options in (["--view", "nonsense", "--", "true"], ["--max-nodes", "5", "--", "true"], ["--limit", "x", "--", "true"],
                        ["--nonsense"], []):
            run = subprocess.run([ASSAY, "calls", *options], capture_output=True, text=True)
            self.assertEqual(run.returncode, 2, options)
            self.assertEqual(run.stdout, "")
        run = subprocess.run([ASSAY, "calls", "--", "/nonexistent"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 1)

    @unittest.skipUnless(shutil.which("valgrind"), "valgrind is not installed")
    def test_callgrind_agrees(self):
        """Calls of each function, from an uninstrumented build of the same source."""
        plain = build("calls_shapes.c", flags=("-O1", "-g", "-pthread"))
        out = os.path.join(SCRATCH, "callgrind.out")
        run = subprocess.run(["valgrind", "--tool=callgrind", "--compress-strings=no", f"--callgrind-out-file={out}", plain,
                              "example"], capture_output=True)
        self.assertEqual(run.returncode, 5)
        counts = {}
        with open(out, encoding="utf-8", errors="replace") as file:
            callee = None
            for line in file:
                if line.startswith("cfn="):
                    callee = line[4:].strip().split("'")[0]
                elif line.startswith("calls="):
                    counts[callee] = counts.get(callee, 0) + int(line[6:].split()[0])
        found = {name: row["calls"] for name, row in by_symbol(shapes("example", "--count")).items()}
        for name in ("A", "B", "C", "X"):
            self.assertEqual(found[name], counts[name], name)


if __name__ == "__main__":
    try:
        unittest.main(verbosity=2)
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
