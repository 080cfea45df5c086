#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: W1, S1.
"""A process that writes over all the memory that it shares with the host harms itself at most.

tests/programs/hostile.c has a sibling, which works and forks meanwhile: its work, its end and what is recorded of it are as
without. The host ends when the command does, and obeys signals.
"""

import contextlib
import os
import signal
import subprocess
import unittest

import lib

SECONDS = 60
NOBODY = 65534


class Hostile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("hostile.c")

    def check(self, tool, user):
        path = lib.scratch("hostile.db")
        run = subprocess.run([lib.ASSAY, "trace", "--tool", tool, "-o", path, "--", self.program, str(user)],
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(run.returncode, 0, run.stderr)
        lines = run.stdout.splitlines()
        self.assertIn("ranges some", lines)
        self.assertEqual(lines[-1], "sibling 42", run.stderr)
        if user:
            self.assertIn("reached 0 0 0", lines)
        return path

    def user(self):
        return NOBODY if lib.IS_ROOT else 0

    def test_none(self):
        self.check("none", self.user())

    def test_blocks(self):
        """What is recorded of the sibling is all of it: each of its children is there."""
        path = self.check("blocks", self.user())
        functions = {row["symbol"]: row for row in lib.report(path, "functions")["rows"]}
        # 40 rounds of 100,000 steps of at least four instructions
        self.assertGreaterEqual(functions["sibling_run"]["instructions"], 40 * 100000 * 4)
        self.assertGreater(lib.Profile(path).value("select count(*) from process"), 40)

    def test_paths(self):
        self.check("paths", self.user())

    def test_host_obeys(self):
        """While somebody writes over its memory, the host hears a signal, and ends in time."""
        host = subprocess.Popen([lib.ASSAY, "trace", "-q", "--tool", "none", "--", "sh", "-c",
                                 f"echo $$; while :; do {self.program} 0; done"],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True)
        try:
            self.assertTrue(int(host.stdout.readline()))
            lib.wait_until(lambda: "sibling 42" in host.stdout.readline())
            host.send_signal(signal.SIGTERM)
            host.wait(timeout=SECONDS)
            self.assertEqual(host.returncode, 128 + signal.SIGTERM)
        finally:
            with contextlib.suppress(ProcessLookupError):  # all have ended
                os.killpg(host.pid, signal.SIGKILL)
            host.stdout.close()
            host.wait()


if __name__ == "__main__":
    lib.main()
