#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: W1, W4, S1.
"""Recordings of hundreds of processes, as builds have them: memory is that of what is alive, and code is the same code."""

import os
import subprocess
import tempfile
import time
import unittest

import lib

SOME = 150  # as much as ever is kept of processes that have ended within the last seconds
MANY = 400
GROWTH_KB = 200  # of the recorder's memory for each further process, which has rows in the profile; peaks differ by 100
PERL = "my %h = map { $_ => 1 } 1 .. 500"  # some thousands of blocks and paths
TIMES = 5


def peak_of(pid):
    """The most memory that the process itself has had, in KB, when it has ended; its status."""
    peak = 0
    while not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
        with open(f"/proc/{pid}/status", encoding="ascii") as stream:
            peak = max([peak, *(int(line.split()[1]) for line in stream if line.startswith("VmHWM"))])
        time.sleep(0.01)
    return peak, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def runs_trace(count, tool):
    """A recording of so many runs, one after the other: the profile's path, and the recorder's peak in KB."""
    path = tempfile.mktemp(suffix=".db", dir=lib.SCRATCH)
    script = f"i=0; while [ $i -lt {count} ]; do perl -e '{PERL}'; i=$((i + 1)); done"
    pid = os.spawnv(os.P_NOWAIT, lib.ASSAY,
                    [lib.ASSAY, "trace", "-q", "--tool", tool, "-o", path, "--", "sh", "-c", script])
    peak, status = peak_of(pid)
    assert status == 0, status
    return path, peak


class Builds(unittest.TestCase):
    def check_memory(self, tool):
        _, some = runs_trace(SOME, tool)
        path, many = runs_trace(MANY, tool)
        profile = lib.Profile(path)
        self.assertEqual(profile.value("select count(*) from process where comm = 'perl'"), MANY)
        self.assertEqual(profile.total("executed", "lost"), 0)
        self.assertLess(many - some, (MANY - SOME) * GROWTH_KB, (tool, some, many))

    def test_memory_with_blocks(self):
        self.check_memory("blocks")

    def test_memory_with_paths(self):
        self.check_memory("paths")

    def test_same_code(self):
        """Each process of a program has executed the same blocks as often, in paths with the same numbers."""
        program = lib.build("same_again.c", "-static")
        path = tempfile.mktemp(suffix=".db", dir=lib.SCRATCH)
        subprocess.run([lib.ASSAY, "trace", "-q", "-o", path, "--", "sh", "-c", f"{program}; " * TIMES],
                       check=True, timeout=120)
        profile = lib.Profile(path)
        executed = profile.rows("""
            select process.id, group_concat(execution.block || ' ' || execution.count, ',')
            from process join thread on thread.process = process.id join execution on execution.thread = thread.id
                join block on block.id = execution.block join frame on frame.location = block.location
                join symbol on symbol.id = frame.symbol
            where symbol.name = 'work_once' group by process.id""")
        self.assertEqual(len(executed), TIMES)
        self.assertEqual(len({counts for _, counts in executed}), 1, executed)
        rows = [row for row in lib.report(path, "paths", "--symbol", "work_once")["rows"] if row["trips"] > 5000]
        self.assertEqual(len({row["pid"] for row in rows}), TIMES)
        self.assertEqual(len({(row["path"], row["trips"]) for row in rows}), 2, rows)

    def test_nothing_of_the_writer_stays(self):
        path, _ = runs_trace(2, "blocks")
        self.assertIsNone(lib.Profile(path).value("select count(*) from sqlite_schema where name = 'execution_recent'") or None)


if __name__ == "__main__":
    lib.main()
