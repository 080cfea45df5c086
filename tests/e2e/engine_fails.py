#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: W1.
"""What goes wrong within the engine itself does not reach the program.

ASSAY_ENGINE_FAILS makes the n-th store or load of the translator fault, the n-th request for memory fail, or a fault
come where the lock was just taken, is about to be released, or a system call was just done. The program, whose output
tells of every call and signal, must not notice, wherever it happens.
"""

import json
import os
import subprocess
import unittest

import lib

SECONDS = 60
# Which ones: the first ones singly, then further and further apart.
STEPS = {"store": [1, 40, 1500, 9000],
         "load": [1, 2, 60, 250],
         "memory": [1, 2, 3, 4, 5, 6, 7],
         "lock": [1, 2, 90, 400],
         "unlock": [1, 3, 90, 400],
         "called": [1, 9, 70]}


class Fails(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("engine_fails.c")
        cls.expected = subprocess.run([cls.program], capture_output=True, timeout=SECONDS)

    def traced(self, fails, tool, *arguments):
        """The finished process, and the summary."""
        summary = lib.scratch("summary.json")
        run = subprocess.run([lib.ASSAY, "trace", "--tool", tool, "--summary", summary,
                              "-o", lib.scratch("profile"), "--", self.program, *arguments],
                             stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS,
                             env={**os.environ, "ASSAY_ENGINE_FAILS": fails})
        with open(summary) as file:
            return run, json.load(file)

    def check(self, kind, tool):
        happened = 0
        for which in STEPS[kind]:
            fails = f"{kind}:{which}"
            with self.subTest(fails=fails, tool=tool):
                run, summary = self.traced(fails, tool)
                self.assertEqual((run.returncode, run.stdout), (7, self.expected.stdout), run.stderr)
                faults = summary["totals"]["faults"]
                happened += faults + sum(row["count"] for row in summary["rows"] if row["reason"] == "fault")
                self.assertEqual(faults > 0, b"Please report: version" in run.stderr, run.stderr)
        self.assertGreater(happened, 1, "hardly anything went wrong: this tests nothing")

    def test_stores(self):
        self.check("store", "none")
        self.check("store", "paths")

    def test_loads(self):
        self.check("load", "none")

    def test_memory(self):
        self.check("memory", "none")
        self.check("memory", "blocks")

    def test_locks(self):
        self.check("lock", "none")
        self.check("unlock", "blocks")

    def test_closed(self):
        """While the engine lets no signal come: each lock of a round, after the program has begun."""
        for what, first, count in ("actions", 2000, 6), ("moves", 2000, 6), ("threads", 2500, 16):
            expected = subprocess.run([self.program, what], capture_output=True, timeout=SECONDS)
            happened = 0
            for which in range(first, first + count):
                fails = f"lock:{which}"
                with self.subTest(fails=fails, what=what):
                    run, summary = self.traced(fails, "none", what)
                    self.assertEqual((run.returncode, run.stdout), (7, expected.stdout), run.stderr)
                    happened += summary["totals"]["faults"]
            self.assertGreater(happened, count // 2, f"{what}: this tests nothing")

    def test_calls(self):
        self.check("called", "none")

    def test_nothing(self):
        self.assertEqual(self.expected.returncode, 7)
        run, summary = self.traced("store:0", "none")
        self.assertEqual((run.returncode, run.stdout), (7, self.expected.stdout))
        self.assertEqual((summary["totals"]["faults"], summary["rows"]), (0, []))


if __name__ == "__main__":
    lib.main()
