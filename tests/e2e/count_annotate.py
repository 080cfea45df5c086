#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: I4.
"""Annotated code of a profile of marks, against those who know: assay trace, gdb, and programs that count themselves."""

import json
import os
import re
import sqlite3
import subprocess
import unittest

import lib

SECONDS = 120


def count(marks, *command, name, code=0, options=()):
    path = lib.scratch(name)
    chosen = [word for mark in marks for word in ("-m", mark)]
    run = subprocess.run([lib.ASSAY, "count", "-q", *chosen, *options, "-o", path, "--", *command],
                         capture_output=True, text=True, timeout=SECONDS)
    assert run.returncode == code, (run.returncode, run.stderr)
    return path, run.stdout


def annotate(path, symbol, *options):
    """Rows by address."""
    run = subprocess.run([lib.ASSAY, "annotate", symbol, "-i", path, "--json", *options], capture_output=True, text=True,
                         timeout=SECONDS)
    assert run.returncode == 0, run.stderr
    return {row["address"]: row for row in json.loads(run.stdout)["rows"]}


def executed(path, symbol, *options):
    return {address: row["executed"] for address, row in annotate(path, symbol, *options).items()}


class Functions(unittest.TestCase):
    """A program that does the same each time."""

    FUNCTIONS = ("collatz", "fibonacci", "hash", "fill", "choose")

    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("functions.c", "-O1", "-fno-inline", "-fno-ipa-cp", name="functions-annotated")
        cls.trace = lib.scratch("functions-annotated-trace.db")
        subprocess.run([lib.ASSAY, "trace", "-q", "--tool", "count", "-o", cls.trace, "--", cls.program],
                       capture_output=True, timeout=SECONDS)
        with open(os.path.join(lib.PROGRAMS, "functions.c"), encoding="ascii") as stream:
            lines = stream.read().splitlines()
        cls.loop = next(number for number, line in enumerate(lines, 1) if "value != 1" in line)

    def test_routines(self):
        """Every instruction of a marked routine has the trace's count, one that was not executed has 0."""
        path, _ = count([*self.FUNCTIONS, "hash"], self.program, name="routines.db", code=3)
        for name in self.FUNCTIONS:
            expected = executed(self.trace, name)
            self.assertGreater(max(expected.values()), 0, name)
            self.assertEqual(executed(path, name), expected, name)
        report = subprocess.run([lib.ASSAY, "report", "marks", "-i", path, "--json"], capture_output=True, check=True)
        sums = {row["mark"]: row["instructions"] for row in json.loads(report.stdout)["rows"]}
        for name in self.FUNCTIONS:
            self.assertEqual(sum(executed(path, name).values()), sums[name], name)

    def test_lines(self):
        """Two marks that overlap: what both cover counts once, and what none covers has no count."""
        marks = [f"functions.c:{self.loop}", f"functions.c:{self.loop}-{self.loop + 1}"]
        path, _ = count(marks, self.program, name="lines.db", code=3)
        expected = executed(self.trace, "collatz")
        rows = annotate(path, "collatz")
        self.assertEqual(rows.keys(), expected.keys())
        marked = {address for address, row in rows.items() if row["line"] in (self.loop, self.loop + 1)}
        self.assertGreater(len(marked), 5)
        self.assertLess(len(marked), len(rows))
        self.assertEqual({address: row["executed"] for address, row in rows.items()},
                         {address: expected[address] if address in marked else None for address in rows})

    def test_text(self):
        """People are told that there are marks only; a line of the source has its most executed instruction's count."""
        path, _ = count([f"functions.c:{self.loop}-{self.loop + 1}"], self.program, name="text.db", code=3)
        text = subprocess.run([lib.ASSAY, "annotate", "collatz", "-i", path], capture_output=True, text=True,
                              check=True).stdout
        self.assertTrue(text.startswith("Counts of marked code only"), text)
        rows = annotate(path, "collatz").values()
        for line in (self.loop, self.loop + 1):
            most = max(row["executed"] for row in rows if row["line"] == line)
            found = re.findall(rf"(?m)^ *([\d,]*) +; functions\.c:{line}  ", text)
            self.assertEqual({int(number.replace(",", "")) for number in found}, {most}, text)
        blank = [row for row in rows if row["executed"] is None]
        self.assertTrue(blank)
        for row in blank:
            self.assertRegex(text, rf"(?m)^ +{row['address']}  ")

    def test_kind(self):
        """All instructions, by their kind: every function of the program is as the trace has it."""
        path, _ = count(["insn:*"], self.program, name="kind.db", code=3)
        for name in (*self.FUNCTIONS, "main"):
            self.assertEqual({address: number or 0 for address, number in executed(path, name).items()},
                             executed(self.trace, name), name)

    def test_gdb(self):
        """Breakpoints at three instructions of a routine, counted by gdb."""
        path, _ = count(["choose"], self.program, name="gdb.db", code=3)
        rows = executed(path, "choose")
        base = min(int(address, 16) for address in rows)
        chosen = sorted(rows, key=lambda address: (rows[address], address))[::len(rows) // 3][:3]
        breaks = [word for number, address in enumerate(chosen, 1) for word in
                  ("-ex", f"break *((char *)&choose + {int(address, 16) - base})", "-ex", f"ignore {number} 1000000")]
        gdb = subprocess.run(["gdb", "-q", "-batch", "-nx", *breaks, "-ex", "run", "-ex", "info breakpoints",
                              self.program], capture_output=True, text=True, timeout=SECONDS)
        hits = {int(number): int(times) for number, times in
                re.findall(r"(?m)^(\d+) .*\n(?:\s+.*\n)*?\s+breakpoint already hit (\d+) time", gdb.stdout)}
        if not hits:
            self.skipTest("gdb cannot run programs here")
        self.assertEqual(hits, {number: rows[address] for number, address in enumerate(chosen, 1) if rows[address]})

    def test_merge(self):
        paths = [count(["hash"], self.program, name=f"part{i}.db", code=3)[0] for i in range(2)]
        merged = lib.scratch("merged-marks.db")
        subprocess.run([lib.ASSAY, "merge", "-o", merged, *paths], check=True, capture_output=True)
        self.assertEqual(executed(merged, "hash"),
                         {address: 2 * number for address, number in executed(paths[0], "hash").items()})

    def test_nothing(self):
        """What was not marked is refused with the reason."""
        path, _ = count(["hash"], self.program, name="nothing.db", code=3)
        run = subprocess.run([lib.ASSAY, "annotate", "collatz", "-i", path], capture_output=True, text=True)
        self.assertEqual(run.returncode, 1)
        self.assertIn("no marked code of a function called 'collatz'", run.stderr)


class Programs(unittest.TestCase):
    """Programs that print what they did how often."""

    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("marks.c", "-ldl")
        cls.plugin = lib.build("marks.c", "-DPLUGIN", "-shared", "-fPIC", name="plugin.so")

    def check(self, routine, *arguments):
        path, out = count([routine], self.program, *arguments, name=f"{routine}.db")
        rows = executed(path, routine)
        own = int(re.search(rf"(?m)^{routine} (\d+)$", out)[1])
        return path, rows, own

    def test_threads(self):
        path, rows, own = self.check("shared_work", "threads")
        self.assertEqual(set(rows.values()), {own})
        tids = [tid for tid, in sqlite3.connect(path).execute("select distinct tid from thread")]
        each = [executed(path, "shared_work", "--tid", str(tid)) for tid in tids]
        self.assertEqual(sorted(max(one.values()) for one in each if max(one.values())),
                         [1000 * i for i in range(1, 9)])

    def test_signals(self):
        """Blocks that signals cut short: every instruction counts once for each call."""
        _, rows, own = self.check("interrupted", "signals")
        self.assertGreater(len(rows), 40)
        self.assertEqual(set(rows.values()), {own})

    def test_fork(self):
        _, rows, own = self.check("both", "fork")
        self.assertEqual(set(rows.values()), {own})

    def test_plugin(self):
        """A library that comes and goes, at whatever address."""
        path, out = count(["plugin.so!plugged"], self.program, "plugin", self.plugin, name="plugged.db")
        self.assertEqual(set(executed(path, "plugged").values()), {int(out.split()[1])})


if __name__ == "__main__":
    unittest.main()
