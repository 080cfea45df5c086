#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Serves: V1, V2, S2.

Sampling by event. The program causes a known number of page faults, context switches and migrations in functions of
their own; the kernel's own counts, getrusage() and `perf record -e` say the same.
"""

import os
import re
import subprocess
import unittest

import lib

FAULTS, SWITCHES, MIGRATIONS = 3000, 400, 100


def program():
    if not os.path.exists(lib.scratch("events")):
        lib.build("events.c")
    return lib.scratch("events")


def command(faults=FAULTS, switches=SWITCHES, migrations=MIGRATIONS):
    return [program(), str(faults), str(switches), str(migrations)]


def samples_with(profile, name):
    return sum(stack.count for stack in profile.stacks if any(name in frame.names for frame in stack.frames))


def has_counter(event):
    run = subprocess.run(["perf", "stat", "-x,", "-e", event, "true"], capture_output=True, text=True)
    return "not supported" not in run.stderr and "not counted" not in run.stderr


def perf_samples(event, name):
    """How many of the samples of perf record -c 1 have the function on their stack."""
    path = lib.scratch("perf.data")
    subprocess.run(["perf", "record", "-e", event, "-c", "1", "-g", "-o", path, "--", *command()],
                   check=True, capture_output=True)
    script = subprocess.run(["perf", "script", "-i", path, "-F", "ip,sym"], check=True, capture_output=True,
                            text=True).stdout
    return sum(1 for sample in script.strip().split("\n\n") if re.search(rf"\b{name}\b", sample))


@unittest.skipUnless(lib.IS_ROOT, "events of the kernel need BPF and privilege")
class Kernel(unittest.TestCase):
    def record_all(self, event):
        run = lib.record("-e", event, "--", *command())
        self.assertEqual(run.profile.meta("event"), event)
        self.assertEqual(run.profile.meta("period"), "1")
        self.assertEqual(run.profile.total("samples", "lost"), 0, run.err)
        return run

    def check(self, event, function, expected):
        """Every event is a sample, at the place that causes it; perf, which walks by frame pointers, sees the place
        where it is a leaf."""
        run = self.record_all(event)
        got = samples_with(run.profile, function)
        self.assertGreaterEqual(got, expected)
        return run, got

    def check_switches(self, event):
        """As many samples as the kernel counted switches around the function; it may be preempted between the two
        readings and the function."""
        run = self.record_all(event)
        switches = int(run.out.split()[2])
        self.assertAlmostEqual(samples_with(run.profile, "sleep_often"), switches, delta=2)
        self.assertGreater(switches, 0.9 * SWITCHES)
        return run

    def test_page_faults(self):
        run, got = self.check("page-faults", "touch_pages", FAULTS)
        self.assertEqual(got, FAULTS)
        self.assertEqual(got, perf_samples("page-faults", "touch_pages"))
        faults = int(run.out.split()[0])
        # exec's own faults come before the program counts, those of its end after
        self.assertAlmostEqual(run.profile.total("samples", "seen"), faults, delta=60)

    def test_context_switches(self):
        run = self.check_switches("context-switches")
        kernel = [stack for stack in run.profile.stacks if stack.frames[0].kind == "kernel"]
        self.assertEqual(sum(stack.count for stack in kernel), run.profile.total("samples", "kept"))

    @unittest.skipIf(os.cpu_count() < 2, "one CPU")
    def test_migrations(self):
        run, got = self.check("cpu-migrations", "change_cpu", MIGRATIONS - 1)
        self.assertLessEqual(got, MIGRATIONS + 1)

    def test_tracepoint(self):
        self.check_switches("sched:sched_switch")

    def test_tracepoint_on_one_cpu(self):
        """Half of the migrations begin on each of two CPUs."""
        if os.cpu_count() < 2:
            self.skipTest("one CPU")
        both = samples_with(lib.record("-e", "syscalls:sys_enter_sched_setaffinity", "--", *command()).profile,
                            "change_cpu")
        one = samples_with(lib.record("-e", "syscalls:sys_enter_sched_setaffinity", "-C", "0", "--",
                                      *command()).profile, "change_cpu")
        self.assertEqual(both, MIGRATIONS)
        self.assertAlmostEqual(one, MIGRATIONS / 2, delta=2)

    def test_random_period(self):
        """-c N: the numbers of samples add up to N events each, and are not always the same."""
        for period, event in ((10, "page-faults"), (100, "page-faults"), (10, "sched:sched_switch")):
            with self.subTest(event=event, period=period):
                function = "touch_pages" if event == "page-faults" else "sleep_often"
                events = 40000 if event == "page-faults" else 3000
                run = lib.record("-e", event, "-c", str(period), "--",
                                 *command(events if event == "page-faults" else 0,
                                          0 if event == "page-faults" else events, 0))
                self.assertEqual(run.profile.meta("period"), str(period))
                got = samples_with(run.profile, function)
                # the number of random intervals, with a relative spread below 0.6 each
                spread = 5 * 0.6 * (events / period) ** 0.5 + 4
                self.assertAlmostEqual(got, events / period, delta=spread)

    def test_rate(self):
        """-F: the kernel adapts the period, so that fewer than all events are samples."""
        run = lib.record("-e", "page-faults", "-F", "997", "--", *command(200000, 0, 0))
        self.assertLess(samples_with(run.profile, "touch_pages"), 20000)
        self.assertGreater(samples_with(run.profile, "touch_pages"), 0)

    def test_report_says_what_was_sampled(self):
        run = lib.record("-e", "page-faults", "-c", "5", "--", *command())
        report = lib.report(run.path, "functions")
        self.assertEqual((report["totals"]["event"], report["totals"]["period"]), ("page-faults", 5))
        self.assertEqual(report["rows"][0]["symbol"], "touch_pages")
        text = subprocess.run([lib.ASSAY, "report", "-i", run.path], capture_output=True, text=True, check=True).stdout
        self.assertIn("event page-faults, one sample for 5", text)

    def test_values_of_faults(self):
        """A run begins at the store that faults: what it stores, and the addresses a page apart."""
        # thirty rounds in three seconds: the first ones come before the code of the function has been translated
        run = lib.record("-e", "page-faults", "--values=stored,address", "--run-every", "1", "--run-skip", "0",
                         "--", *command(FAULTS, 0, 0), "30")
        rows = [row for row in lib.report(run.path, "values", "--symbol", "touch_pages")["rows"]
                if row["item"] == "stored"]
        self.assertTrue(rows, run.err)
        self.assertEqual({value["value"] for row in rows for value in row["values"]}, {"0x1"})
        self.assertGreater(sum(value["count"] for row in rows for value in row["values"]), FAULTS)

    def test_values_at_places_in_the_kernel(self):
        """Nothing is interpreted in a system call, whose result is not known; what was left out is counted."""
        run = lib.record("-e", "sched:sched_switch", "--values", "--run-every", "1", "--", *command(0, SWITCHES, 0))
        losses = dict(run.profile.rows("select reason, count from losses where kind = 'values'"))
        self.assertGreater(losses.get("in_kernel", 0), 0.9 * SWITCHES)
        seen, kept = (run.profile.total("values", column) for column in ("seen", "kept"))
        self.assertEqual(seen, kept + sum(losses.values()))


class Refusals(unittest.TestCase):
    def test_counter_that_is_missing(self):
        for event in ("cache-misses", "cycles", "r1c2"):
            if has_counter(event):
                continue
            run = lib.record("-e", event, "--", "true", code=1)
            self.assertIn(f"{event} cannot be counted here", run.err)
            self.assertFalse(os.path.exists(run.path))

    @unittest.skipUnless(has_counter("cycles"), "this CPU has no counters")
    def test_counter_that_is_there(self):
        run = lib.record("-e", "cycles", "-c", "1000000", "--", *command(0, 0, 0))
        self.assertEqual(run.profile.meta("event"), "cycles")

    def test_names(self):
        for event, words in (("nosuch", "unknown event 'nosuch'"), ("sched:", "unknown event"),
                             ("a:b:c", "unknown event"), ("x" * 200, "at most")):
            run = lib.record("-e", event, "--", "true", code=2)
            self.assertIn(words, run.err)
        if lib.IS_ROOT:
            self.assertIn("no tracepoint sched:nosuch", lib.record("-e", "sched:nosuch", "--", "true", code=1).err)
        self.assertIn("--count", lib.record("-e", "sched:sched_switch", "-F", "97", "--", "true", code=2).err)
        self.assertIn("nanoseconds", lib.record("-c", "5", "--", "true", code=2).err)
        help_text = subprocess.run([lib.ASSAY, "record", "-e", "help"], capture_output=True, text=True, check=True)
        self.assertIn("page-faults", help_text.stdout)

    def test_without_bpf(self):
        """Page faults of user code are there for everybody; switches are not."""
        run = lib.record("--user-only", "-e", "page-faults", "-c", "60", "--", *command())
        self.assertAlmostEqual(run.profile.total("samples", "seen"), FAULTS / 60, delta=3)
        self.assertGreater(samples_with(run.profile, "touch_pages"), 0)
        err = lib.record("--user-only", "-e", "context-switches", "--", "true", code=1).err
        self.assertIn("need BPF", err)


if __name__ == "__main__":
    unittest.main()
