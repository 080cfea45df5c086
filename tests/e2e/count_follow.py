#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: I5.
"""Callers of what raises events are marked, level by level, while the program runs."""

import json
import os
import signal
import subprocess
import unittest

import lib

SECONDS = 120
FOREVER = str(10**15)


def marks_now(pid):
    run = subprocess.run([lib.ASSAY, "count", "--live", str(pid), "--json"], capture_output=True, text=True)
    if run.returncode:
        return set()
    return {row["mark"] for row in json.loads(run.stdout)["rows"] if row["visits"] or "main" in row["mark"]}


class Follow(unittest.TestCase):
    def follow(self, levels, wanted, unwanted):
        """Counts until all that is wanted has been marked and has counted; what it said, and the events."""
        program, path = lib.build("marks_events.c", "-O1"), lib.scratch(f"follow-{levels}.db")
        name = os.path.basename(program)
        with subprocess.Popen([lib.ASSAY, "count", "-m", "leaf,event", "--follow-callers", str(levels), "-o", path, "--",
                               program, FOREVER], stderr=subprocess.PIPE, text=True) as count:
            lib.wait_until(lambda: lib.program_of(count.pid))
            child = lib.program_of(count.pid)
            try:
                wanted = {f"{name}!{routine},event" for routine in wanted} | {"leaf,event"}
                lib.wait_until(lambda: marks_now(child) >= wanted, SECONDS)
                marked = marks_now(child)
            finally:
                os.kill(child, signal.SIGTERM)
            _, said = count.communicate(timeout=SECONDS)
        self.assertFalse(marked & {f"{name}!{routine},event" for routine in unwanted}, marked)
        rows = json.loads(subprocess.run([lib.ASSAY, "report", "events", "-i", path, "--json"], capture_output=True,
                                         check=True).stdout)["rows"]
        return said, {row["text"]: row["values"] for row in rows if row["cause"] == "caller"}

    def test_two_levels(self):
        said, callers = self.follow(2, ["first", "second", "main"], [])
        for text, level in (("marks_events!first calls leaf", 1), ("marks_events!second calls leaf", 1),
                            ("marks_events!main calls marks_events!first", 2),
                            ("marks_events!main calls marks_events!second", 2)):
            self.assertIn(text, said)
            self.assertRegex(callers[text], rf"\blevel={level}\b")
            self.assertRegex(callers[text], r"\bevents=[1-9]")

    def test_one_level(self):
        """No further than it was told."""
        _, callers = self.follow(1, ["first", "second"], ["main"])
        self.assertEqual(callers.keys(), {"marks_events!first calls leaf", "marks_events!second calls leaf"})

    def slow_rows(self, *options):
        program, path = lib.build("marks_slow.c", "-O1"), lib.scratch("slow.db")
        run = subprocess.run([lib.ASSAY, "count", "-m", "leaf,slower=1ms,event", *options, "-o", path, "--", program, "300"],
                             capture_output=True, text=True, check=True, timeout=SECONDS)
        answer = subprocess.run([lib.ASSAY, "report", "events", "-i", path, "--json"], capture_output=True, check=True).stdout
        return run.stderr, json.loads(answer)

    def test_slow_events(self):
        """With a threshold only a visit that exceeds it raises an event, at its end: who called, and how long it took."""
        _, answer = self.slow_rows()
        slow = [row for row in answer["rows"] if "main;slow;leaf" in row["stack"]]
        self.assertGreater(len(slow), 10)
        self.assertGreaterEqual(answer["totals"]["seen"], 300)
        for row in answer["rows"]:
            self.assertGreaterEqual(row["took_ns"], 1000000)
        for row in slow:
            self.assertGreaterEqual(row["took_ns"], 2000000)
            self.assertEqual((row["cause"], row["mark"]), ("visit", "leaf,slower=1ms,event"))
        # A quick visit is slow where the processor was taken from it; most are not.
        self.assertLess(len(answer["rows"]) - len(slow), len(slow))

    def test_slow_callers(self):
        """Callers of what exceeded its threshold are marked with the same threshold."""
        said, answer = self.slow_rows("--follow-callers", "2")
        self.assertIn("marks_slow!slow calls leaf", said)
        callers = {row["text"]: row["values"] for row in answer["rows"] if row["cause"] == "caller"}
        self.assertRegex(callers["marks_slow!slow calls leaf"], r"\blevel=1\b")
        marks = {row["mark"] for row in answer["rows"] if row["cause"] == "visit"}
        self.assertIn("marks_slow!slow,slower=1ms,event", marks)
        self.assertTrue(marks <= {"leaf,slower=1ms,event", "marks_slow!slow,slower=1ms,event", "marks_slow!quick,slower=1ms,event",
                                  "marks_slow!main,slower=1ms,event"}, marks)

    def test_refused(self):
        run = subprocess.run([lib.ASSAY, "count", "-m", "leaf", "--follow-callers", "2", "--", "/bin/true"],
                             capture_output=True, text=True, cwd=lib.SCRATCH)
        self.assertEqual(run.returncode, 2)
        self.assertIn("callers of routines that raise events", run.stderr)


if __name__ == "__main__":
    unittest.main()
