#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: W5, W6, W7.
"""Phases as the user chooses them: detectors by name, the timeline that says who saw what, the mix of each phase; and strata by heat.

The program is sort, which reads, sorts, and writes while it merges.
"""

import re
import subprocess
import unittest

import lib
from trace_counts import Trace

DETECTORS = ["blocks", "functions", "branches", "order", "working-set"]


def positions(row):
    return [int(text) for text in row["positions"].split(",") if text]


class Phases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        numbers = lib.scratch("numbers")
        with open(numbers, "w") as stream:
            stream.write("".join(f"{i}\n"[::-1].strip() + "\n" for i in range(1, 60000, 3)))
        cls.trace = Trace("paths", "sort", "-o", lib.scratch("sorted"), numbers)

    def phases(self, *options):
        rows = self.trace.report("phases", *options)["rows"]
        return {row["begin"]: row for row in rows if row["rank"] == 0}

    def timeline(self, *options):
        return {row["what"]: row for row in self.trace.report("timeline", *options)["rows"]}

    def test_timeline(self):
        """Each boundary of a phase is one that at least two detectors saw, as their lines say."""
        rows, phases = self.timeline(), self.phases()
        self.assertEqual(list(rows), ["phases", *DETECTORS])
        self.assertEqual(positions(rows["phases"]), sorted(phases)[1:])
        self.assertGreaterEqual(len(phases), 3)
        for begin in sorted(phases)[1:]:
            seen = [name for name in DETECTORS if begin in positions(rows[name])]
            self.assertEqual(seen, phases[begin]["detectors"].split(", "))
            self.assertGreaterEqual(len(seen), 2)
        text = subprocess.run([lib.ASSAY, "report", "timeline", "-i", self.trace.path], capture_output=True, text=True,
                              check=True).stdout
        self.assertRegex(text, r"phases +\d+ +A+B+C*")
        self.assertRegex(text, r"order +\d+ +[.:|]{60}")

    def test_detectors(self):
        """Only those that are named look, and one alone decides alone."""
        for name in DETECTORS:
            rows = self.timeline("--detectors", name)
            self.assertEqual(list(rows), ["phases", name])
            self.assertEqual(positions(rows["phases"]), positions(rows[name]))
            self.assertLessEqual({row["detectors"] for row in self.phases("--detectors", name).values()}, {"", name})
        some = self.timeline("--detectors", "blocks,order", "--agree", "1")
        self.assertEqual(list(some), ["phases", "blocks", "order"])
        self.assertLessEqual(set(positions(some["phases"])), set(positions(some["blocks"]) + positions(some["order"])))
        self.assertLessEqual(len(self.phases("--agree", "5")), len(self.phases("--agree", "1")))
        wrong = subprocess.run([lib.ASSAY, "report", "phases", "--detectors", "luck", "-i", self.trace.path],
                               capture_output=True)
        self.assertEqual(wrong.returncode, 2)

    def test_mix(self):
        """A phase's mix is that of the view phases, and all phases are everything."""
        report, phases = self.trace.report("mix", "--by-phase"), self.phases()
        self.assertEqual(sum(row["end"] - row["begin"] for row in report["rows"]), report["totals"]["kept"])
        self.assertEqual([row["begin"] for row in report["rows"]], sorted(phases))
        for row in report["rows"]:
            self.assertEqual(row["loads"], phases[row["begin"]]["phase_loads"])
            self.assertGreater(row["loads"], 0)
        for options in (["--by-phase", "--module", "sort"], ["--agree", "2"]):
            run = subprocess.run([lib.ASSAY, "report", "mix", *options, "-i", self.trace.path], capture_output=True)
            self.assertEqual(run.returncode, 2, options)

    def test_strata_by_heat(self):
        """Heat is that of the paths that a stratum holds, times its trips."""
        loads = {row["path"]: row["heat"] // row["trips"] for row in
                 self.trace.report("paths", "--heat", "loads", "--min-share", "0")["rows"] if row.get("heat")}
        rows = self.trace.report("strata", "--heat", "loads", "--limit", "20", "--min-share", "0")["rows"]
        heats, each = [], {}
        for row in rows:
            each[row["number"]] = each.get(row["number"], 0) + loads[row["symbol_number"]] * row["symbol_trips"]
            if row["step"] == 0:
                heats.append((row["number"], row["trips"], row["heat"]))
        self.assertEqual([heat for _, _, heat in heats], sorted((heat for _, _, heat in heats), reverse=True))
        for number, trips, heat in heats:
            self.assertEqual(each[number] * trips, heat)


class Tables(unittest.TestCase):
    def test_bounded_sorting(self):
        """Sorting deep buckets finds cycles earlier, says so, and changes nothing of what is found."""
        program = lib.build("functions.c", "-static")
        looked, found = {}, {}
        for name, *options in (("open", "--table", "open"),
                               ("never", "--table", "bounded", "--buckets", "16", "--sort-period", "4294967295"),
                               ("sorted", "--table", "bounded", "--buckets", "16", "--sort-period", "1000",
                                "--sort-depth", "1", "--sort-frequency", "2")):
            trace = Trace("paths", program, options=options, code=3)
            said = re.search(r"looked at ([\d.]+) entries each; sorted (\d+) times", trace.err)
            looked[name] = (float(said[1]), int(said[2])) if said else None
            found[name] = [(row["path"], row["trips"], row["weight"]) for row in
                           trace.report("paths", "--min-share", "0")["rows"] if row["step"] == 0]
        self.assertIsNone(looked["open"])
        self.assertEqual(looked["never"][1], 0)
        self.assertGreater(looked["sorted"][1], 0)
        self.assertLess(looked["sorted"][0], looked["never"][0])
        self.assertEqual(found["sorted"], found["never"])
        self.assertEqual(sorted(trips[1:] for trips in found["open"]), sorted(trips[1:] for trips in found["never"]))
        for wrong in (["--table", "bounded", "--buckets", "63"], ["--table", "open", "--sort-depth", "2"]):
            run = subprocess.run([lib.ASSAY, "trace", "-o", lib.scratch("wrong.db"), *wrong, "--", program],
                                 capture_output=True)
            self.assertEqual((run.returncode, run.stdout), (2, b""), wrong)


class Threads(unittest.TestCase):
    def test_strata_of_some_threads(self):
        """The strata of each thread by itself add up to those of all, of those that the process keeps."""
        trace = Trace("paths", lib.build("tools.c"), "work", "2", "500")
        tids = [tid for tid, in trace.rows("select tid from thread where id in (select thread from flow)")]
        self.assertGreater(len(tids), 1)

        def trips(*options):
            return {(row["pid"], row["number"]): row["trips"] for row in
                    trace.report("strata", "--min-share", "0", *options)["rows"] if row["step"] == 0}

        every, sums = trips(), {}
        for tid in tids:
            for number, count in trips("--tid", str(tid)).items():
                sums[number] = sums.get(number, 0) + count
        self.assertGreater(len(every), 3)
        self.assertEqual(sums, every)
        above = subprocess.run([lib.ASSAY, "report", "strata", "--level", "2", "--tid", str(tids[0]), "-i", trace.path],
                               capture_output=True)
        self.assertEqual(above.returncode, 2)
        self.assertIn(b"kept by process", above.stderr)

    def test_no_stratum(self):
        """S10: an empty table says that what was run once is counted, not that filters exclude each other."""
        trace = Trace("paths", lib.build("tools.c"), "work", "2", "500")
        run = subprocess.run([lib.ASSAY, "report", "strata", "--level", "9", "--min-share", "0", "-i", trace.path],
                             capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertIn("only counted", run.stdout)


if __name__ == "__main__":
    lib.main()
