#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: S2.
"""seen = kept + lost, under pressure too.

A program with a new stack at nearly every sample is recorded through resources that are too small, so that
samples are lost. They must be missing in no sum: what was seen is what the scheduler's count of the program's
CPU time promises, the losses are given by reason, and each view of the report has the same totals.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import unittest

import lib

VIEWS = ["functions", "lines", "modules", "processes", "threads", "losses", "callgraph"]
RATE = 7993
ROOMY = ["--ring", "65536", "--max-stacks", "262144"]  # hold what a recorder that has to wait for a CPU leaves behind
NEAR = 0.05


def bpf_tally(pid):
    """What the BPF program of this recorder has counted itself, as bpftool reads it: seen, lost for any reason, and of
    the lost what a later sample may still count for."""
    def tool(*arguments):
        return json.loads(subprocess.run([BPFTOOL, "-j", "map", *arguments], capture_output=True, check=True).stdout)

    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as file:
            found = re.search(r"^map_id:\s+(\d+)", file.read(), re.MULTILINE)
        if found and tool("show", "id", found.group(1))["name"] == "tallies":
            values = [cpu["value"] for row in tool("dump", "id", found.group(1)) for cpu in row["formatted"]["values"]]
            return (sum(value["seen"] for value in values), sum(sum(value["lost"]) for value in values),
                    sum(value["lost"][-1] for value in values))
    raise AssertionError("the recorder has no map of tallies")


BPFTOOL = shutil.which("bpftool", path=os.environ["PATH"] + ":/usr/sbin:/sbin")


class Accounting(unittest.TestCase):
    def check(self, run, rate):
        profile = run.profile
        lib.check_sums(self, profile)
        expected = int(run.out) / 1e9 * rate
        self.assertAlmostEqual(profile.seen, expected, delta=NEAR * expected + lib.stolen() * rate)
        self.assertEqual(profile.value("select sum(count) from tick"), profile.kept)
        roots = profile.value("select sum(total) from stack_total join stack on id = stack where parent = 0")
        self.assertEqual(roots, profile.kept)
        self.check_words(run)
        self.check_reports(run)

    def check_words(self, run):
        """What record says at its end is what the profile holds."""
        seen, kept, lost = map(int, re.search(r"(\d+) samples in .*: (\d+) kept, (\d+) lost", run.err).groups())
        self.assertEqual((seen, kept, lost), (run.profile.seen, run.profile.kept, run.profile.lost))
        spoken = sum(int(number) for number in re.findall(r"warning: (\d+) samples? lost", run.err))
        self.assertEqual(spoken, lost, run.err)

    def check_reports(self, run):
        profile = run.profile
        for view in VIEWS:
            with self.subTest(view):
                table = lib.report(run.path, view, *([] if view == "losses" else ["--min-share", "0"]))
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
            lost = {row["reason"]: row["count"] for row in rows
                    if row["recording"] == "samples" and row["kind"] == "lost"}
            self.assertEqual(lost, profile.losses())

    def record(self, *options):
        return lib.record("-F", str(RATE), *options, "--", lib.build("diverse.c"), "0.5")

    def test_enough_room(self):
        run = self.record(*ROOMY)
        self.check(run, RATE)
        self.assertEqual(run.profile.losses(), {})

    def test_small_ring(self):
        """Fewer samples are taken, which count for the others: none is lost but the last few of a CPU."""
        run = self.record("--ring", "64")
        self.check(run, RATE)
        self.check_thinned(run)

    def check_thinned(self, run):
        rows = {row["reason"]: row["count"] for row in lib.report(run.path, "losses")["rows"]}
        self.assertGreater(rows.get("thinned", 0), 0)
        self.assertIn("in the weight of a later one", run.err)
        self.assertNotIn("ring_full", rows)
        self.assertLess(rows.get("skipped", 0), 0.05 * run.profile.seen)

    def test_a_recorder_that_does_not_get_a_cpu(self):
        """Its ring would hold a tenth of the stacks that come meanwhile."""
        with lib.Recording("-F", "20000", "--ring", "2048", "--", lib.build("diverse.c"), "1") as recording:
            lib.wait_until(lambda: lib.has_tables(recording.path) and lib.Profile(recording.path).seen > 2000)
            recording.process.send_signal(signal.SIGSTOP)
            used = recording.process.stdout.readline()
            recording.process.send_signal(signal.SIGCONT)
            run = recording.wait()
        run.out = used
        self.check(run, 20000)
        self.check_thinned(run)

    def test_few_stacks(self):
        run = self.record("--max-stacks", "64")
        self.check(run, RATE)
        self.assertGreater(run.profile.losses().get("counts_full", 0), 0, run.profile.losses())

    def test_both(self):
        run = self.record("--ring", "64", "--max-stacks", "64")
        self.check(run, RATE)
        self.assertGreater(run.profile.lost, 0)

    def is_drained(self, recording):
        seen, _, open_still = bpf_tally(recording.process.pid)
        return lib.Profile(recording.path).seen == seen - open_still

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
                lib.wait_until(lambda: self.is_drained(recording))
                seen, lost, _ = bpf_tally(recording.process.pid)
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
        # nearly every stack is different here, and there may be more rows than are shown by default
        tree = lib.report(run.path, "tree", "--min-share", "0", "--limit", "1000000")
        self.check_totals(tree, run.profile)
        self.assertEqual(sum(row["total"] for row in tree["rows"] if row["level"] == 0), run.profile.kept)
        deepest = max(len(stack.frames) for stack in run.profile.user_stacks())
        self.assertEqual(deepest, 17)



@unittest.skipUnless(lib.IS_ROOT, "needs BPF")
class Others(unittest.TestCase):
    """What is lost and is no sample has a row of its own."""

    def test_a_recorder_that_stands_still(self):
        """While it is stopped, thousands of processes come and go, more than its rings hold."""
        script = "echo ready; read go; i=0; while [ $i -lt 6000 ]; do /bin/true; i=$((i+1)); done; echo end"
        with lib.Recording("--ring", "64", "--", "sh", "-c", script, stdin=subprocess.PIPE) as recording:
            self.assertEqual(recording.process.stdout.readline(), b"ready\n")
            recording.process.send_signal(signal.SIGSTOP)
            recording.process.stdin.write(b"go\n")
            recording.process.stdin.flush()
            self.assertEqual(recording.process.stdout.readline(), b"end\n")
            recording.process.send_signal(signal.SIGCONT)
            run = recording.wait()
        rows = {row["reason"]: row for row in lib.report(run.path, "losses")["rows"] if row["kind"] == "other"}
        self.assertGreater(rows["identities_lost"]["count"], 1000)
        self.assertGreater(rows["process_events_lost"]["count"], 0)
        lib.check_sums(self, run.profile)

    def test_everything_that_is_counted_is_shown(self):
        """Losses that are hard to provoke are put into a profile by hand: each has its row, none is in a sum."""
        run = lib.record("--off-cpu", "--", "true")
        counts = {("samples", "paused"): 2_500_000, ("waits", "threads_lost"): 3, ("waits", "without_stack"): 5,
                  ("waits", "missed_switches"): 7}
        with contextlib.closing(sqlite3.connect(run.path)) as database, database:
            for (kind, metric), count in counts.items():
                database.execute("insert or replace into metric select id, ?, 'of a test', ? from recording where kind = ?",
                                 (metric, count, kind))
        rows = lib.report(run.path, "losses")["rows"]
        others = {(row["recording"], row["reason"]): row["count"] for row in rows if row["kind"] == "other"}
        for key, count in counts.items():
            self.assertEqual(others[key], 3 if key[1] == "paused" else count)

    def test_values_beyond_the_limit(self):
        run = lib.record("--values=result", "--max-sites", "2", "--run-every", "1", "--",
                         lib.build("chain.c", "-DWORK=limited", name="limited"), "1")
        rows = {row["reason"]: row for row in lib.report(run.path, "losses")["rows"] if row["kind"] == "other"}
        seen, kept = (int(run.profile.value("select value from facts where key = ?", key))
                      for key in ("values_seen", "values_kept"))
        self.assertGreater(seen, kept)
        self.assertEqual(rows["values_beyond_limit"]["count"], seen - kept)

    def test_ring_space_at_a_high_rate(self):
        """A small ring and many new processes: stacks are cut while the recorder is behind, and none is lost."""
        script = "i=0; while [ $i -lt 150 ]; do /bin/true; i=$((i+1)); done"
        run = lib.record("-F", "20000", "--ring", "256", "--", "sh", "-c", script)
        self.assertNotIn("ring_full", run.profile.losses())
        self.assertGreater(run.profile.seen, 1000)


if __name__ == "__main__":
    lib.main()
