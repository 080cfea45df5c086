#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: W2, W7.
"""Trees, call graphs, differences and exports of executed code, against callgrind's own counts of the same program."""

import collections
import json
import re
import subprocess
import unittest

import lib
from trace_counts import FIXED, SECONDS, Trace

OURS = ("main", "leaf", "left", "right", "recur", "deep")


def run(*arguments, code=0):
    done = subprocess.run([lib.ASSAY, *arguments], capture_output=True, timeout=SECONDS)
    assert done.returncode == code, (arguments, done.returncode, done.stderr)
    return done


def callgrind(program):
    """By function: its own instructions; by pair of functions: instructions in the calls of one by the other."""
    output = lib.scratch("callgrind.out")
    subprocess.run([*FIXED, "valgrind", "-q", "--tool=callgrind", "--skip-plt=no", f"--callgrind-out-file={output}",
                    program],
                   capture_output=True, timeout=SECONDS, check=True)
    names, own, calls, function, callee = {}, collections.Counter(), collections.Counter(), None, None
    with open(output) as stream:
        for line in stream:
            named = re.match(r"(c?fn)=(\(\d+\))(?: (.*))?", line)
            if named:
                names.setdefault(named[2], re.sub(r"'\d+$", "", named[3] or ""))
                if named[1] == "fn":
                    function = names[named[2]]
                else:
                    callee = names[named[2]]
            elif re.match(r"[+\-*\d]\S* \d+$", line):
                count = int(line.split()[1])
                if callee:
                    calls[function, callee] += count
                else:
                    own[function] += count
                callee = None
    return own, calls


class Stacks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("nested.c", "-O1", "-g")
        cls.trace = Trace("paths", cls.program)
        cls.shorter = Trace("paths", cls.program, "10")
        cls.counted = Trace("count", cls.program)
        cls.own, cls.calls = callgrind(cls.program)

    def test_tree(self):
        """Every function is where the source says, left without a return or not, and all instructions are in the tree."""
        report = self.trace.report("tree", "--min-share", "0")
        path, selves, below = [], collections.Counter(), collections.Counter()
        for row in report["rows"]:
            path[row["level"]:] = [row["symbol"]]
            selves[row["symbol"]] += row["self"]
            if "main" in path and row["symbol"] in OURS:
                below[tuple(path[path.index("main"):])] += row["total"]
        self.assertEqual(sum(selves.values()), report["totals"]["kept"])
        for name in OURS:
            self.assertEqual(selves[name], self.own[name], name)
        self.assertEqual(below["main", "left", "leaf"], self.calls["left", "leaf"])
        self.assertEqual(below["main", "right", "leaf"], self.calls["right", "leaf"])
        self.assertEqual(below["main", "left"], self.calls["main", "left"])
        self.assertEqual(below["main", "recur"], self.calls["main", "recur"])
        self.assertEqual({path[1] for path in below if len(path) > 1}, set(OURS) - {"main", "leaf"})

    def test_callgraph(self):
        """A function's callers, by call site, with what their calls executed."""
        rows = self.trace.report("callgraph", "--symbol", "leaf", "--min-share", "0")["rows"]
        callers = collections.Counter()
        for row in rows:
            if row["relation"] == "caller" and row["symbol"] == "leaf":
                callers[row["other"]] += row["total"]
        self.assertEqual(callers, {"left": self.calls["left", "leaf"], "right": self.calls["right", "leaf"]})
        self.assertEqual(sum(row["relation"] == "caller" for row in rows), 3, "one row for each call site")

    def test_filters(self):
        tid = self.trace.rows("select tid from thread")[0][0]
        self.assertEqual(self.trace.report("tree", "--tid", str(tid))["totals"]["selected"],
                         self.trace.report("tree")["totals"]["kept"])

    def test_exports(self):
        """Other tools get the same sums, in instructions."""
        kept = self.trace.report("functions")["totals"]["kept"]
        collapsed = run("export", "collapsed", "-i", self.trace.path).stdout.decode()
        counts = collections.Counter()
        for line in collapsed.splitlines():
            stack, count = line.rsplit(" ", 1)
            counts[stack.split(";")[-2:][0], stack.split(";")[-1]] += int(count)
        self.assertEqual(sum(counts.values()), kept)
        self.assertEqual(counts["right", "leaf"], self.calls["right", "leaf"])
        grind = lib.scratch("our.callgrind")
        run("export", "callgrind", "-i", self.trace.path, "-o", grind)
        text = subprocess.run(["callgrind_annotate", "--inclusive=yes", grind], capture_output=True, text=True,
                              check=True).stdout
        self.assertIn("Events recorded:  Instructions", text)
        found = re.search(r"(?m)^\s*([\d,]+) .*:right \[", text)
        self.assertEqual(int(found[1].replace(",", "")), self.calls["main", "right"])
        scope = json.loads(run("export", "speedscope", "-i", self.trace.path).stdout)
        self.assertEqual(sum(sum(profile["weights"]) for profile in scope["profiles"]), kept)
        path = lib.scratch("our.pprof")
        run("export", "pprof", "-i", self.trace.path, "-o", path)
        with open(path, "rb") as stream:
            self.assertEqual(stream.read(2), b"\x1f\x8b")
        self.assertIn(b"no samples", run("export", "firefox", "-i", self.trace.path, code=1).stderr)

    def test_diff(self):
        """Counts are exact: half the rounds execute half the instructions, and the same run is no difference."""
        report = json.loads(run("diff", "--json", self.trace.path, self.shorter.path).stdout)
        rows = {row["symbol"]: row for row in report["rows"]}
        self.assertEqual(rows["leaf"]["count_a"], self.own["leaf"])
        self.assertEqual(rows["leaf"]["count_b"] * 2, rows["leaf"]["count_a"])
        self.assertTrue(rows["leaf"]["significant"])
        self.assertFalse(rows["recur"]["significant"])
        same = json.loads(run("diff", "--json", "--significant", self.trace.path, self.trace.path).stdout)
        self.assertEqual(same["rows"], [])
        total = json.loads(run("diff", "--json", "--total", self.trace.path, self.shorter.path).stdout)
        rows = {row["symbol"]: row for row in total["rows"]}
        self.assertEqual(rows["right"]["count_a"], self.calls["main", "right"])

    def test_without_order(self):
        """Counts alone have no stacks: views of stacks say so, the rest has one frame each."""
        for view in ("tree", "callgraph"):
            self.assertIn(b"no order of execution", run("report", view, "-i", self.counted.path, code=1).stderr)
        self.assertIn(b"no order of execution",
                      run("diff", "--total", self.counted.path, self.trace.path, code=1).stderr)
        collapsed = run("export", "collapsed", "--no-comm", "-i", self.counted.path).stdout.decode()
        counts = dict(line.rsplit(" ", 1) for line in collapsed.splitlines())
        self.assertEqual(int(counts["leaf"]), self.own["leaf"])
        report = json.loads(run("diff", "--json", "--significant", "--module", "nested", self.trace.path,
                                self.counted.path).stdout)
        self.assertEqual(report["rows"], [])


if __name__ == "__main__":
    lib.main()
