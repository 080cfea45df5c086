#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: V2, V5.
"""Runs go through the C library's string functions, whichever vectors these use, and say where they end.

A function chooses by what a vector comparison found. A run that has seen the memory that is compared knows that too;
one that begins between the load and the branch cannot. So most runs reach their length; none did while vectors of
more than 128 bits and mask registers were not followed.
"""

import os
import unittest

import lib

SECONDS = "0.8"
# Kinds of vectors, by what the library is to do without.
KINDS = {"as the processor has them": "", "256 bits": "-AVX512VL,-AVX512BW,-AVX512F",
         "128 bits": "-AVX512VL,-AVX512BW,-AVX512F,-AVX2,-AVX2_Usable"}


class Strings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("strings.c", "-O1", "-fno-builtin")

    def setUp(self):
        lib.need_root(self)

    def record(self, without):
        environment = dict(os.environ, GLIBC_TUNABLES=f"glibc.cpu.hwcaps={without}") if without else os.environ
        return lib.record("-F", "2999", "--values", "--run-every", "1", "--", self.program, SECONDS, env=environment)

    def test_runs_go_through(self):
        for kind, without in KINDS.items():
            with self.subTest(kind):
                profile = self.record(without).profile
                ends = dict(profile.rows("select reason, sum(count) from run_end group by 1"))
                runs = sum(ends.values())
                self.assertGreater(runs, 100)
                self.assertEqual(profile.rows("select count from losses where reason = 'disagreed' and count > 0"), [])
                self.assertGreater(ends.get("length", 0), 0.5 * runs, ends)

    def test_places(self):
        """Every run that did not reach its length is at a place, and the places are in the report."""
        run = self.record("")
        early = {reason: count for reason, count in run.profile.rows("select reason, sum(count) from run_end group by 1")
                 if reason != "length"}
        self.assertEqual(dict(run.profile.rows("select reason, sum(count) from run_place group by 1")), early)
        rows = [row for row in lib.report(run.path, "runs", "--min-share", "0")["rows"] if row["kind"] == "place"]
        self.assertEqual(sum(row["count"] for row in rows), sum(early.values()))
        self.assertEqual([row["count"] for row in rows], sorted((row["count"] for row in rows), reverse=True))
        for row in rows:
            if row["reason"] == "unknown_branch":
                self.assertTrue(row["mnemonic"].startswith("j") or row["mnemonic"] in ("ret", "call"), row)


if __name__ == "__main__":
    lib.main()
