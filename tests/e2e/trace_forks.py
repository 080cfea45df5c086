#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: W1, S1.
"""Processes that live one after the other are all recorded, and the recorder's memory is that of what is alive."""

import os
import subprocess
import tempfile
import unittest

import lib

FORKS = 4000  # more than there are slots: each process has two of them
SOME = 1000  # memory of what has ended is kept for a second, in which so many may end
BESIDE = 120
KILLED = 400  # more than there are slots for requests


def trace(program, count, tool):
    """The profile, and the recorder's greatest resident memory in KB."""
    path = tempfile.mktemp(suffix=".db", dir=lib.SCRATCH)
    pid = os.spawnv(os.P_NOWAIT, lib.ASSAY,
                    [lib.ASSAY, "trace", "-q", "--tool", tool, "-o", path, "--", program, str(count)])
    _, status, usage = os.wait4(pid, 0)
    assert status == 0, status
    return path, usage.ru_maxrss


class Forks(unittest.TestCase):
    def test_one_after_the_other(self):
        program = lib.build("many_forks.c")
        _, some = trace(program, SOME, "blocks")
        path, many = trace(program, FORKS, "blocks")
        profile = lib.Profile(path)
        self.assertEqual(profile.value("select count(*) from process"), FORKS + 1)
        self.assertEqual(profile.total("executed", "lost"), 0)
        self.assertIsNone(profile.meta("threads_refused"))
        functions = {row["symbol"]: row for row in lib.report(path, "functions")["rows"]}
        self.assertGreaterEqual(functions["child_works"]["instructions"], FORKS * 1000)
        self.assertLess(many, 2 * some, (some, many))

    def test_side_by_side(self):
        """Processes that fork, execute a program and end beside each other: none is given up for another."""
        path = tempfile.mktemp(suffix=".db", dir=lib.SCRATCH)
        run = subprocess.run([lib.ASSAY, "trace", "-q", "--tool", "blocks", "-o", path, "--", "sh", "-c",
                              f"seq {BESIDE} | xargs -P4 -n1 echo"], capture_output=True, text=True, timeout=120, check=True)
        self.assertEqual(sorted(int(line) for line in run.stdout.split()), list(range(1, BESIDE + 1)), run.stderr)
        self.assertEqual(lib.Profile(path).value("select count(*) from process where comm = 'echo'"), BESIDE)

    def test_killed(self):
        """Children that are killed while they ask for memory take nothing away from the next one, and are no loss."""
        path = tempfile.mktemp(suffix=".db", dir=lib.SCRATCH)
        run = subprocess.run([lib.ASSAY, "trace", "-q", "--tool", "blocks", "-o", path, "--", lib.build("killed_forks.c"),
                              str(KILLED)], capture_output=True, text=True, timeout=120, check=True)
        self.assertEqual(run.stderr, "")
        functions = {row["symbol"]: row for row in lib.report(path, "functions")["rows"]}
        self.assertGreaterEqual(functions["child_works"]["instructions"], 1000)


if __name__ == "__main__":
    lib.main()
