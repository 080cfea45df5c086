#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: V2, V14.
"""Value profiles say what really happened, as counted by stepping the same programs instruction by instruction.

Two kinds of things are asked. What needs no luck: a value that is shown has occurred, extremes lie within the real
ones, and no busy place is missing. And how close shares come, and whether the stated bounds hold. There are as many runs as
make that no matter of luck either: with a quarter of them, two values of 50.7 and 49.3 % change places now and then.
"""

import unittest

import lib
import lib_values

SECONDS = 3  # of CPU time
OPTIONS = ("--values", "--run-every", "2")
NEAR_LEAST = 0.95
RIGHT_LEAST = 0.98
HELD_LEAST = 0.95
BUSY = 0.001  # of all instructions


def as_signed(value, width):
    return value - (1 << width) if width > 1 and value >> (width - 1) else value


class Accuracy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not lib.IS_ROOT:
            raise unittest.SkipTest("needs root")
        cls.subjects = lib_values.subjects()
        cls.rows = {subject: subject.record(SECONDS, *OPTIONS) for subject in cls.subjects}
        cls.verdicts = [verdict for subject, rows in cls.rows.items() for verdict in subject.judge(rows)]

    def places(self):
        """(subject, row of the report, real counts) of every place."""
        for subject, rows in self.rows.items():
            for row in rows:
                site = lib_values.row_site(row)
                self.assertIn(site, subject.counts, f"{subject.name}: {site.address:x} never ran")
                yield subject, row, subject.counts[site]

    def test_every_value_occurred(self):
        shown = 0
        for subject, row, counts in self.places():
            for value in row["values"]:
                self.assertIn(int(value["value"], 16), counts, (subject.name, row))
                shown += 1
        self.assertGreater(shown, 2000)

    def test_extremes_occurred(self):
        for subject, row, counts in self.places():
            real = [as_signed(value, row["width"]) for value in counts]
            self.assertGreaterEqual(row["min"], min(real), (subject.name, row))
            self.assertLessEqual(row["max"], max(real), (subject.name, row))

    def test_no_busy_place_is_missing(self):
        """Results in vector registers are not all known; there are few of them here."""
        for subject, rows in self.rows.items():
            there = {lib_values.row_site(row) for row in rows}
            busy = {site for site, counts in subject.counts.items() if sum(counts.values()) > BUSY * subject.steps}
            self.assertGreater(len(busy), 50)
            self.assertGreater(len(busy & there), 0.9 * len(busy), (subject.name, busy - there))

    def test_shares(self):
        self.assertGreater(len(self.verdicts), 300)
        far = [verdict for verdict in self.verdicts if not lib_values.is_near(verdict)]
        loose = [verdict for verdict in self.verdicts if not lib_values.is_bounded(verdict)]
        wrong = [verdict for verdict in self.verdicts if not lib_values.is_right(verdict)]
        self.assertLess(len(far), (1 - NEAR_LEAST) * len(self.verdicts), far)
        self.assertLess(len(wrong), (1 - RIGHT_LEAST) * len(self.verdicts), wrong)
        self.assertLess(len(loose), (1 - HELD_LEAST) * len(self.verdicts), loose)


if __name__ == "__main__":
    lib.main()
