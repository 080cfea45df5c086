#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: W1.
"""Code that a tool puts in between uses registers that the program does not need; those that it needs keep their values."""

import subprocess
import unittest

import lib

SECONDS = 120
ROUNDS = "20000"  # each fills a chunk of the ring


class Registers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("dead_registers.c", "-static", "-no-pie")
        cls.native = cls.run_it().splitlines()

    @classmethod
    def run_it(cls, *arguments, prefix=()):
        return subprocess.run([*prefix, cls.program, ROUNDS, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=True, timeout=SECONDS).stdout

    def check(self, *arguments):
        for tool in ("none", "count", "blocks", "paths", "opcodes,accesses,calls"):
            output = [] if tool == "none" else ["-o", lib.scratch(f"{tool}.db")]
            with self.subTest(tool=tool):
                lines = self.run_it(*arguments, prefix=[lib.ASSAY, "trace", "-q", "--tool", tool, *output, "--"])
                self.assertEqual(lines.splitlines(), self.native)

    def test_each_way_to_write_one(self):
        self.check()

    def test_signals(self):
        """They come in such code, too, and the program goes on behind them as if they had not."""
        self.check("signals")

    def test_replaced(self):
        """What is dead at an address is found out anew when other code is mapped there."""
        program = lib.build("dead_replaced.c")
        for tool in ("none", "count", "blocks", "paths"):
            with self.subTest(tool=tool):
                run = subprocess.run([lib.ASSAY, "trace", "-q", "--tool", tool, "-o", lib.scratch(f"{tool}-replaced.db"), "--", program],
                                     stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
                self.assertEqual((run.returncode, run.stdout), (0, "0 7\n1 7\n" * 2))


if __name__ == "__main__":
    lib.main()
