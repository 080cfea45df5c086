#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""seen = kept + lost, under pressure too.

A program with a new stack at nearly every sample is recorded through resources that are too small, so that
samples are lost. They must be missing in no sum: what was seen is what the scheduler's count of the program's
CPU time promises, the losses are given by reason, and each view of the report has the same totals.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import unittest

import lib

VIEWS = ["functions", "lines", "modules", "processes", "threads", "losses", "callgraph"]
RATE = 7993
ROOMY = ["--ring", "65536", "--max-stacks", "262144"]  # hold what a collector that has to wait for a CPU leaves behind
NEAR = 0.05


def bpf_tally(pid):
    """What the BPF program of this collector has counted itself, as bpftool reads it: seen, and lost for any reason."""
    def tool(*arguments):
        return json.loads(subprocess.run([BPFTOOL, "-j", "map", *arguments], capture_output=True, check=True).stdout)

    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as file:
            found = re.search(r"^map_id:\s+(\d+)", file.read(), re.MULTILINE)
        if found and tool("show", "id", found.group(1))["name"] == "tallies":
            values = [cpu["value"] for row in tool("dump", "id", found.group(1)) for cpu in row["formatted"]["values"]]
            return sum(value["seen"] for value in values), sum(sum(value["lost"]) for value in values)
    raise AssertionError("the collector has no map of tallies")


BPFTOOL = shutil.which("bpftool", path=os.environ["PATH"] + ":/usr/sbin:/sbin")


class Accounting(unittest.TestCase):
    def check(self, run, rate):
        profile = run.profile
        lib.check_sums(self, profile)
        expected = int(run.out) / 1e9 * rate
        self.assertAlmostEqual(profile.seen, expected, delta=NEAR * expected)
        self.assertEqual(profile.value("select sum(count) from tick"), profile.kept)
        roots = profile.value("select sum(total) from stack_total join stack on id = stack where parent = 0")
        self.assertEqual(roots, profile.kept)
        self.check_words(run)
        self.check_reports(run)

    def check_words(self, run):
        """What record says at its end is what the profile holds."""
        seen, kept, lost = map(int, re.search(r"(\d+) samples in .*: (\d+) kept, (\d+) lost", run.err).groups())
        self.assertEqual((seen, kept, lost), (run.profile.seen, run.profile.kept, run.profile.lost))
        spoken = sum(int(number) for number in re.findall(r"warning: (\d+) samples lost", run.err))
        self.assertEqual(spoken, lost, run.err)

    def check_reports(self, run):
        profile = run.profile
        for view in VIEWS:
            with self.subTest(view):
                table = lib.report(run.path, view, "--min-share", "0")
                self.check_totals(table, profile)
                self.check_rows(view, table["rows"], profile)

    def check_totals(self, table, profile):
        totals = table["totals"]
        self.assertEqual((totals["seen"], totals["kept"]), (profile.seen, profile.kept))
        self.assertEqual(totals["lost"], profile.losses())

    def check_rows(self, view, rows, profile):
        seen = profile.seen
        if view in ("functions", "lines", "modules", "processes", "threads"):
            self.assertEqual(sum(row["self"] for row in rows), profile.kept)
            for row in rows:
                self.assertAlmostEqual(row["share"], row["self"] / seen, places=9)
        if view == "losses":
            lost = {row["reason"]: row["count"] for row in rows if row["reason"] in profile.losses()}
            self.assertEqual(lost, profile.losses())

    def record(self, *options):
        return lib.record("-F", str(RATE), *options, "--", lib.build("diverse.c"), "0.5")

    def test_enough_room(self):
        run = self.record(*ROOMY)
        self.check(run, RATE)
        self.assertEqual(run.profile.losses(), {})

    def test_small_ring(self):
        run = self.record("--ring", "64")
        self.check(run, RATE)
        self.assertGreater(run.profile.losses().get("ring_full", 0), 0, run.profile.losses())

    def test_few_stacks(self):
        run = self.record("--max-stacks", "64")
        self.check(run, RATE)
        self.assertGreater(run.profile.losses().get("counts_full", 0), 0, run.profile.losses())

    def test_both(self):
        run = self.record("--ring", "64", "--max-stacks", "64")
        self.check(run, RATE)
        self.assertGreater(run.profile.lost, 0)

    def test_against_the_tally_in_the_kernel(self):
        """The target is stopped; when everything has been drained the file must hold all that the kernel has seen."""
        lib.need_root(self)
        if not BPFTOOL:
            self.skipTest("no bpftool")
        for options in (ROOMY, ["--ring", "64", "--max-stacks", "64"]):
            with self.subTest(options=options), lib.Program(lib.build("diverse.c"), "60") as program, \
                    lib.Recording("-F", str(RATE), *options, "-p", str(program.pid)) as recording:
                lib.wait_until(lambda: lib.has_tables(recording.path) and lib.Profile(recording.path).seen > 3000)
                os.kill(program.pid, signal.SIGSTOP)
                lib.wait_until(lambda: bpf_tally(recording.process.pid)[0] == lib.Profile(recording.path).seen)
                seen, lost = bpf_tally(recording.process.pid)
                run = recording.stop()
                self.assertEqual((run.profile.seen, run.profile.lost), (seen, lost))
                self.assertEqual(lost > 0, options is not ROOMY)

    def test_without_bpf(self):
        """At this rate the kernel's own ring overruns, and says by how much."""
        run = self.record("--user-only")
        self.check(run, RATE)
        self.assertGreater(run.profile.losses().get("kernel_lost", 0), 0, run.profile.losses())

    def test_shallow(self):
        """A stack cut at --max-depth is kept, counted by its reason, and ends in a mark."""
        run = self.record("--max-depth", "16")
        self.check(run, RATE)
        ends = run.profile.ends()
        self.assertGreater(ends["too_deep"], 0.8 * run.profile.kept)
        marked = sum(stack.count for stack in run.profile.stacks if stack.frames[-1].kind == "mark")
        self.assertEqual(marked, sum(ends.values()) - ends.get("complete", 0) - ends.get("no_user", 0))
        tree = lib.report(run.path, "tree", "--min-share", "0")
        self.check_totals(tree, run.profile)
        self.assertEqual(sum(row["total"] for row in tree["rows"] if row["level"] == 0), run.profile.kept)
        deepest = max(len(stack.frames) for stack in run.profile.user_stacks())
        self.assertEqual(deepest, 17)


if __name__ == "__main__":
    lib.main()
