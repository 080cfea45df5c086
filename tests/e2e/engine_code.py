#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: W1.
"""Code that changes runs in the engine as it does natively, and the code cache stays within its limit.

What ran outside the engine, how much code was given up and how often code was found to have changed comes from
"assay trace --summary": a program that left the engine would prove nothing.
"""

import json
import os
import shutil
import signal
import subprocess
import unittest

import lib

SECONDS = 120
CASES = ["rewrite", "toggle", "views", "processes", "self", "threads", "kernel", "forks", "mappings", "flags",
         "flags_change", "signals",
         "alignment", "stack", "blocked", "faults"]
# Those whose code changes in other ways than by the program's own writes to private memory: that has to be checked.
CHECKED = {"views", "processes", "stack"}
# Those that write often enough to find that out.
OFTEN = {"rewrite", "self", "threads", "alignment"}
# What is written is also guarded, as long as that is not too often.
GUARDED = {"rewrite", "self", "threads", "forks", "alignment", "blocked", "faults"}
SMALL = ["--cache-size", "512"]
# The interpreter itself: what is first in PATH may be a script.
PYTHON = f"{lib.PYTHON} -c 'import json, decimal, re; print(len(json.dumps([str(decimal.Decimal(i).sqrt()) for i in range(999)])))'"
LUA = """
local sums, state = {}, 1
for i = 1, 3e6 do state = state * 16807 % 2147483647; local k = state % 999; sums[k] = (sums[k] or 0) + i % 7 end
local total = 0
for k, v in pairs(sums) do total = total + k * v end
print(total, string.rep("x", 9):gsub("x", "y"))
"""
NODE = """
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) }
const rows = []
for (let i = 0; i < 50000; i++) rows.push({ key: i * 7919 % 10007, text: "row" + i })
rows.sort((a, b) => a.key - b.key || a.text.localeCompare(b.text))
console.log(fib(25), rows[777].text, JSON.stringify(rows).length, /(\\d+)w/.exec("12w34")[1])
"""


def native(*command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS)


def traced(*command, options=()):
    """The finished process, the totals of the summary, and its rows."""
    path = lib.scratch("summary.json")
    run = subprocess.run([lib.ASSAY, "trace", "-q", "--tool", "none", "--summary", path, *options, "--", *command],
                         stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS)
    with open(path) as file:
        summary = json.load(file)
    return run, summary["totals"], summary["rows"]


class ChangingCode(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("engine_code.c")

    def check(self, name, options):
        run, totals, rows = traced(self.program, name, options=options)
        self.assertEqual((run.returncode, run.stdout.decode()), (0, name + "\n"))
        self.assertEqual(rows, [], "something ran natively")
        return totals

    def test_cases(self):
        self.assertEqual(native(self.program).stdout.decode().split(), CASES)
        for name in CASES:
            with self.subTest(name=name):
                totals = self.check(name, [])
                if name in CHECKED | OFTEN:
                    self.assertGreater(totals["stale"], 100)
                if name in GUARDED:
                    self.assertGreater(totals["writes"], 3)

    def test_cases_in_a_small_cache(self):
        for name in CASES:
            with self.subTest(name=name):
                self.check(name, SMALL)

    def test_crash(self):
        run, _, _ = traced(self.program, "crash")
        self.assertEqual(native(self.program, "crash").returncode, -signal.SIGSEGV)
        self.assertEqual(run.returncode, 128 + signal.SIGSEGV)

    def test_memory_is_bounded(self):
        """Ten times more code than the limit is generated and dropped; the engine takes no more than a few times the limit."""
        run, totals, rows = traced(self.program, "churn", "8", options=["--cache-size", "1024"])
        alone = native(self.program, "churn", "8")
        self.assertEqual((run.returncode, run.stdout, rows), (0, alone.stdout, []))
        self.assertGreater(totals["evictions"], 50)
        self.assertLess(int(run.stderr) - int(alone.stderr), 16 * 1024)


class Compilers(unittest.TestCase):
    """Programs that generate code; threads, too."""

    def check(self, *command, options=()):
        if not shutil.which(command[0]):
            self.skipTest(f"{command[0]} is not installed")
        run, totals, rows = traced(*command, options=options)
        alone = native(*command)
        self.assertEqual((run.returncode, run.stdout), (alone.returncode, alone.stdout))
        self.assertEqual(rows, [], "something ran natively")
        return totals

    def java(self):
        if not os.path.exists(lib.scratch("engine_threads.class")):
            subprocess.run(["javac", "-d", lib.SCRATCH, os.path.join(lib.PROGRAMS, "engine_threads.java")], check=True)
        return "java", "-Xshare:auto", "-cp", lib.SCRATCH, "engine_threads"

    def test_luajit(self):
        self.check("luajit", "-e", LUA)

    def test_node(self):
        self.check("node", "-e", NODE)

    def test_java(self):
        self.check(*self.java())

    def test_java_in_a_small_cache(self):
        self.assertGreater(self.check(*self.java(), options=["--cache-size", "8192"])["evictions"], 10)


class SmallCache(unittest.TestCase):
    """Code is given up all the time, and nothing else is different."""

    def test_commands(self):
        answer = lib.scratch("answer")
        for command, evictions in ((PYTHON, 50),
                                   ("xz -1 -T2 -c /usr/bin/perl | xz -d | cksum", 0),
                                   (f"echo 'int main(void) {{ return 42; }}' | gcc -O2 -x c - -o {answer}; {answer}", 100),
                                   ("perl -e 'print join \",\", map { sprintf \"%o\", $_ } sort { $b <=> $a } 1 .. 5000'", 1),
                                   ("for i in 1 2 3; do (exit $i) & done; wait; seq 99 | sort -r | tail -1", 0)):
            with self.subTest(command=command):
                run, totals, rows = traced("bash", "-c", command, options=SMALL)
                alone = native("bash", "-c", command)
                self.assertEqual((run.returncode, run.stdout, run.stderr), (alone.returncode, alone.stdout, alone.stderr))
                self.assertEqual(rows, [])
                self.assertGreaterEqual(totals["evictions"], evictions)


if __name__ == "__main__":
    lib.main()
