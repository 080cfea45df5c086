#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: V1.
"""Self-time shares agree with perf's, and with what the program was written to do.

A share p of n samples has a standard error of sqrt(p (1 - p) / n); the difference of two shares that of the sum
of both variances. Each function above 2 % must agree within three of them. For about twelve comparisons of
correct programs the chance that one falls outside is about 3 %, so one repetition is allowed: both failing by
chance is below 0.1 %.
"""

import collections
import math
import os
import shutil
import signal
import subprocess
import unittest

import lib

RATE = 997
PERF_TRIES = 5
SECONDS = "2"
KNOWN = {"forty": 0.40, "twenty_five": 0.25, "fifteen": 0.15, "ten": 0.10, "six": 0.06, "four": 0.04}


def variance(share, count):
    return share * (1 - share) / count


def perf_counts(*command):
    """Function -> samples, as perf script prints them."""
    path = lib.scratch("perf.data")
    for _ in range(PERF_TRIES):
        run = subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", str(RATE), "-o", path, "--", *command],
                             check=False, capture_output=True)
        if run.returncode != -signal.SIGABRT:  # perf itself aborts now and then beside much work
            break
    run.check_returncode()
    run = subprocess.run(["perf", "script", "-i", path, "-F", "ip,sym"], check=True, capture_output=True, text=True)
    os.unlink(path)
    return collections.Counter(line.split()[-1] for line in run.stdout.splitlines() if line.strip())


def outside(first, second, names):
    """The functions whose shares differ by more than three standard errors."""
    a, b = sum(first.values()), sum(second.values())
    found = {}
    for name in names:
        p, q = first[name] / a, second[name] / b
        pooled = (first[name] + second[name]) / (a + b)
        error = math.sqrt(variance(pooled, a) + variance(pooled, b))
        if abs(p - q) > 3 * error:
            found[name] = (p, q, error)
    return found


def above(counts, least):
    return {name for name, count in counts.items() if count > least * sum(counts.values())}


class SelfTime(unittest.TestCase):
    def twice(self, attempt):
        """One repetition because of chance."""
        wrong = attempt()
        if wrong:
            print("repeated:", wrong)
            wrong = attempt()
        self.assertEqual(wrong, {})

    def record(self, *command):
        run = lib.record("-F", str(RATE), "--", *command)
        lib.check_sums(self, run.profile, 1000)
        return run

    def test_known_shares(self):
        program = lib.build("shares.c")

        def attempt():
            counts = self.record(program, SECONDS).profile.self_counts()
            total = sum(counts[name] for name in KNOWN)
            self.assertGreater(total, 0.9 * sum(counts.values()))
            return {name: (counts[name] / total, share) for name, share in KNOWN.items()
                    if abs(counts[name] / total - share) > 3 * math.sqrt(variance(share, total))}

        self.twice(attempt)

    def compare_with_perf(self, *command):
        if not shutil.which("perf"):
            self.skipTest("no perf")

        def attempt():
            ours, perfs = self.record(*command).profile.self_counts(), perf_counts(*command)
            names = (above(ours, 0.02) | above(perfs, 0.02)) - {"[unknown]"}
            named = {name for name in names if perfs[name]}
            self.assertGreaterEqual(len(named), 3, (ours.most_common(8), perfs.most_common(8)))
            return outside(ours, perfs, named)

        self.twice(attempt)

    def test_against_perf(self):
        self.compare_with_perf(lib.build("shares.c"), SECONDS)

    def test_report_says_the_same(self):
        run = self.record(lib.build("shares.c"), "1.2")
        counts = run.profile.self_counts()
        rows = {row["symbol"]: row for row in lib.report(run.path, "functions")["rows"]}
        for name in KNOWN:
            self.assertEqual(rows[name]["self"], counts[name])
            self.assertAlmostEqual(rows[name]["share"], counts[name] / run.profile.seen, places=9)


if __name__ == "__main__":
    lib.main()
