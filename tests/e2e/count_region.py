#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: I1, I3.
"""Regions in which a thread counts, and marks that a program reads itself, against a program that counts along."""

import json
import os
import subprocess
import time
import unittest

import lib

SECONDS = 120
REGION = ["open_region,start", "close_region,stop"]


def count(marks, *command):
    """What the program says, and the rows of report marks."""
    path = lib.scratch(f"region-{time.monotonic_ns()}.db")
    chosen = [word for mark in marks for word in ("-m", mark)]
    run = subprocess.run([lib.ASSAY, "count", *chosen, "-o", path, "--", *command], capture_output=True, text=True,
                         timeout=SECONDS)
    assert run.returncode == 0, (run.returncode, run.stderr)
    report = subprocess.run([lib.ASSAY, "report", "marks", "-i", path, "--json"], capture_output=True, check=True)
    own = dict(line.split(" ", 1) for line in run.stdout.splitlines())
    return own, {row["mark"].split(",")[0]: row for row in json.loads(report.stdout)["rows"]}


class Regions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("marks_region.c", f"-I{os.path.join(lib.ROOT, 'include')}")

    def within(self, what, *more):
        own, rows = count(["work", *REGION, *more], self.program, what)
        self.assertEqual(rows["work"]["visits"], int(own["work"]))
        return rows

    def test_threads(self):
        """Each thread for itself, whatever the one that started it does; instructions as well as visits."""
        rows = self.within("threads")
        _, all_rows = count(["work"], self.program, "threads")
        self.assertGreater(all_rows["work"]["visits"], rows["work"]["visits"])
        # Five calls, with 0 to 4 rounds of the loop, are what each region does.
        self.assertEqual(rows["work"]["instructions"] % (rows["work"]["visits"] // 5), 0)
        self.assertEqual(rows["open_region"]["visits"], rows["work"]["visits"] // 5 + 1)

    def test_signals(self):
        """A signal in the middle of a region, or of what is none, changes neither."""
        rows = self.within("signals", "on_tick")
        self.assertEqual(rows["work"]["instructions"] % (rows["work"]["visits"] // 5), 0)
        self.assertLessEqual(rows["on_tick"]["visits"], 400)

    def test_fork(self):
        self.within("fork")

    def test_data_and_time(self):
        own, rows = count(["data:object", "touch,time", *REGION], self.program, "data")
        self.assertEqual((rows["data:object"]["reads"], rows["data:object"]["writes"]),
                         (int(own["reads"]), int(own["writes"])))
        self.assertEqual((rows["touch"]["visits"], rows["touch"]["timed"]), (20, 20))

    def test_stop_alone(self):
        """Without anything that starts, threads count from their beginning on."""
        _, rows = count(["work", "close_region,stop"], self.program, "fork")
        self.assertEqual(rows["work"]["visits"], 3)

    def test_instructions_of_a_kind(self):
        """Everything is what is counted, also where it has no name."""
        _, rows = count(["insn:*", *REGION], self.program, "data")
        _, whole = count(["insn:*"], self.program, "data")
        self.assertLess(rows["insn:*"]["visits"] * 10, whole["insn:*"]["visits"])
        self.assertGreater(rows["insn:*"]["visits"], 10 * 20)

    def test_refused(self):
        for mark, message in (("main,start,stop", "cannot both start and stop"),
                              ("data:object,start", "only code that has a place"),
                              ("insn:lock*,stop", "only code that has a place")):
            with self.subTest(mark=mark):
                run = subprocess.run([lib.ASSAY, "count", "-m", mark, "--", "/bin/true"], capture_output=True, text=True,
                                     cwd=lib.SCRATCH)
                self.assertEqual(run.returncode, 2)
                self.assertIn(message, run.stderr)


class Reading(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("marks_region.c", f"-I{os.path.join(lib.ROOT, 'include')}")

    def test_read(self):
        """What it reads has grown by what it has done, each time; and is what the report says."""
        own, rows = count(["work", "open_r*"], self.program, "read")
        self.assertEqual(own["wrong"], "0")
        visits, instructions = rows["work"]["visits"], rows["work"]["instructions"]
        self.assertEqual(own["work"], f"1 {visits} {instructions} {visits}")
        self.assertEqual((visits, own["nothing"]), (4500, "0 0 0 0"))
        instructions = rows["open_region"]["instructions"]
        self.assertEqual(own["pattern"], f"1 1 {instructions} 1")  # a pattern, with what it has found

    def test_threads_that_ended(self):
        own, rows = count(["work"], self.program, "ended")
        self.assertEqual(own["work"], f"1 {rows['work']['visits']} {rows['work']['instructions']} 0")

    def test_data(self):
        """Of data reads and writes, up to the moment; a child begins anew, and its parent goes on."""
        own, rows = count(["data:object"], self.program, "read_data")
        self.assertEqual(own["wrong"], "0")
        self.assertEqual(own["object"], "1 9000 9000 9000 9000")
        self.assertEqual((own["child"], own["parent"]), ("1 2 2 2 2", own["object"]))
        self.assertEqual((rows["data:object"]["reads"], rows["data:object"]["writes"]), (9002, 9002))

    def test_data_of_threads(self):
        """What threads did that have ended, and what one has done that has not; each once."""
        own, rows = count(["data:object"], self.program, "ended_data")
        done = 2 * (9 * 200 + 1)
        self.assertEqual(own["object"], f"1 {done} {done} 2 2")
        self.assertEqual(own["later"], own["object"])
        self.assertEqual((rows["data:object"]["reads"], rows["data:object"]["writes"]), (done, done))

    def test_nobody_counts(self):
        """Natively, and where something else is counted."""
        native = subprocess.run([self.program, "read"], capture_output=True, text=True, check=True).stdout
        self.assertIn("work 0 0 0 0", native)
        native = subprocess.run([self.program, "read_data"], capture_output=True, text=True, check=True).stdout
        self.assertIn("object 0 0 0 0 0\n", native)
        own, _ = count(["main"], self.program, "read")
        self.assertEqual(own["work"], "0 0 0 0")


if __name__ == "__main__":
    unittest.main()
