#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: W1, S1.
"""kill -9 of assay trace, and a power cut: all but the last second of what was executed is in the profile.

The program says itself how far it is, in a file that everybody can read: what must be in the profile is what it had
done one second before the blow.
"""

import contextlib
import os
import random
import shutil
import sqlite3
import struct
import subprocess
import tempfile
import time
import unittest

import lib

SEED = 20260101
KILLS = 2  # of each tool
PREFIXES = 12
PAGE = 4096  # bytes of a page of the profile
LAST = 1.0  # seconds that may be missing
TOOLS = ("blocks", "count", "paths")


class Steps:
    """A trace of a program that takes steps, and how many steps it had taken when."""

    def __init__(self, program, tool):
        self.path = tempfile.mktemp(suffix=".db", dir=lib.SCRATCH)
        self.counter = tempfile.mktemp(dir=lib.SCRATCH)
        self.process = subprocess.Popen([lib.ASSAY, "trace", "-q", "--tool", tool, "-o", self.path, "--", program,
                                         self.counter], stdin=subprocess.DEVNULL)
        lib.wait_until(lambda: self.taken() > 0)
        self.begin = time.monotonic()
        self.history = [(self.begin, 0)]

    def taken(self):
        try:
            with open(self.counter, "rb") as stream:
                return struct.unpack("Q", stream.read(8))[0]
        except (OSError, struct.error):
            return 0

    def watch(self, seconds):
        while time.monotonic() < self.begin + seconds:
            self.history.append((time.monotonic(), self.taken()))
            time.sleep(0.01)

    def taken_until(self, moment):
        return max((steps for time_, steps in self.history if time_ <= moment), default=0)

    def late(self):
        """Seconds for which threads of the recorder were ready to run and others ran instead."""
        late = 0
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            with open(f"/proc/{self.process.pid}/task/{task}/schedstat", encoding="ascii") as stream:
                late += int(stream.read().split()[1]) / 1e9
        return late

    def kill(self):
        """What it had certainly done one second ago, or longer if the recorder had to wait for a CPU."""
        certain = self.taken_until(time.monotonic() - LAST - self.late())
        self.process.kill()
        self.process.wait()
        return certain

    def end(self):
        with open(self.counter, "r+b") as stream:
            stream.seek(8)
            stream.write(b"\1")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
        self.process.kill()
        self.process.wait()


def prefix(path, size, name):
    """The profile with the first bytes of its log."""
    target = lib.scratch(name)
    shutil.copyfile(path, target)
    with open(path + "-wal", "rb") as log, open(target + "-wal", "wb") as cut:
        cut.write(log.read(size))
    return target


def copied(path):
    """Bytes of the log that SQLite has begun to copy into the file. A power cut takes later ones only.

    The number of frames is nBackfillAttempted of the index of the log (https://sqlite.org/walformat.html).
    """
    with open(path + "-shm", "rb") as index:
        frames = struct.unpack_from("I", index.read(136), 128)[0]
    return 32 + frames * (24 + PAGE) if frames else 0


class Crash(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("progress.c")
        with Steps(cls.program, "blocks") as steps:
            steps.watch(0.3)
            steps.end()
            assert steps.process.wait(timeout=60) == 42
        instructions = cls.instructions(steps.path)
        cls.per_step = instructions / steps.taken()

    @staticmethod
    def instructions(path):
        rows = {row["symbol"]: row for row in lib.report(path, "functions")["rows"]}
        return rows["step"]["instructions"] if "step" in rows else 0

    def check(self, path, least, most):
        """least and most: steps that must, and can, be there."""
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            self.assertEqual(database.execute("pragma integrity_check").fetchone()[0], "ok")
            seen, kept, lost = database.execute("select seen, kept, lost from recordings").fetchone()
        self.assertEqual(seen, kept + lost)
        steps = self.instructions(path) / self.per_step if kept else 0
        self.assertGreaterEqual(steps, 0.99 * least)
        self.assertLessEqual(steps, 1.01 * most)
        return steps

    def test_killed(self):
        moments, found = random.Random(SEED), 0
        for tool in TOOLS:
            for _ in range(KILLS):
                with self.subTest(tool), Steps(self.program, tool) as steps:
                    steps.watch(moments.uniform(1.2, 2.5))
                    certain = steps.kill()
                    found += self.check(steps.path, certain, steps.taken())
        self.assertGreater(found, 1000)

    def test_order_of_a_killed_trace(self):
        """What was done is there in order, too: paths have their blocks, and instructions add up."""
        with Steps(self.program, "paths") as steps:
            steps.watch(2.2)
            steps.kill()
        rows = lib.report(steps.path, "paths")["rows"]
        self.assertIn("step", str(rows))
        executed = lib.report(steps.path, "functions")["totals"]["kept"]
        self.assertGreater(sum(row["instructions"] for row in rows), 0.5 * executed)

    def test_power_cut(self):
        """The log of writes, cut off at any byte behind what was copied: each prefix is a profile that says what it
        holds, later ones more."""
        for tool in "blocks", "paths":
            with self.subTest(tool), Steps(self.program, tool) as steps:
                steps.watch(2.0)
                steps.kill()
                most, before = steps.taken(), 0
                size, least = os.path.getsize(steps.path + "-wal"), copied(steps.path)
                self.assertGreater(size, 0)
                for part in range(PREFIXES + 1):
                    cut = prefix(steps.path, least + (size - least) * part // PREFIXES, f"cut-{tool}-{part}")
                    if lib.has_tables(cut):
                        before = self.check(cut, before, most)
                self.assertGreater(before, 0)


if __name__ == "__main__":
    print("seed", SEED)
    lib.main()
