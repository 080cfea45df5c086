#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: W1.
"""Processes in pid namespaces of their own, as containers and sandboxes have them, know themselves, and assay, by other
numbers than we do. They are followed and recorded like others, and notice when assay is gone."""

import json
import os
import signal
import subprocess
import unittest

import lib

SECONDS = 60
ONE = ["unshare", "--fork", "--pid"]
WORK = "for i in 1 2 3; do (exit $i) & wait $!; echo $?; done; PROGRAM; echo $?; /bin/echo end"


class Namespaces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("engine_fails.c")
        if subprocess.run([*ONE, "true"], capture_output=True).returncode:
            raise unittest.SkipTest("may not make a pid namespace")

    def command(self, *around):
        return [*around, "sh", "-c", WORK.replace("PROGRAM", self.program)]

    def traced(self, tool, command):
        """The finished process, the summary, and the instructions that were recorded."""
        summary, profile = lib.scratch("summary.json"), lib.scratch(f"profile-{tool}")
        run = subprocess.run([lib.ASSAY, "trace", "--tool", tool, "--summary", summary, "-o", profile, "--", *command],
                             stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS)
        with open(summary) as file:
            summary = json.load(file)
        if tool == "none":
            return run, summary, 0
        view = subprocess.run([lib.ASSAY, "report", "-i", profile, "--format", "json"], capture_output=True,
                              check=True, timeout=SECONDS)
        return run, summary, sum(row["instructions"] for row in json.loads(view.stdout)["rows"])

    def test_followed(self):
        plain, outside, total = self.traced("blocks", self.command())
        for around in ONE, [*ONE, *ONE], [*ONE, "--mount-proc"]:
            for tool in "none", "blocks":
                with self.subTest(around=around, tool=tool):
                    run, summary, recorded = self.traced(tool, self.command(*around))
                    self.assertEqual((run.returncode, run.stdout), (plain.returncode, plain.stdout), run.stderr)
                    taken = outside["totals"]["taken"] + around.count("unshare")
                    self.assertEqual((summary["totals"]["taken"], summary["totals"]["alone"], summary["rows"]),
                                     (taken, 0, []), run.stderr)
                    if tool == "blocks":
                        self.assertGreater(recorded, total, "something in there was not recorded")

    def test_host_killed(self):
        """Nobody in there knows a pid of assay's by which to ask whether it lives."""
        script = "read go; " + WORK.replace("PROGRAM", self.program)
        trace = subprocess.Popen([lib.ASSAY, "trace", "--tool", "blocks", "-o", lib.scratch("killed"), "--",
                                  *ONE, "sh", "-c", "echo begun; " + script],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(trace.stdout.readline(), b"begun\n")
        os.kill(trace.pid, signal.SIGKILL)
        trace.wait()
        trace.stdin.write(b"go\n")
        trace.stdin.close()
        native = subprocess.run(self.command(), capture_output=True, timeout=SECONDS)
        self.assertEqual(trace.stdout.read(), native.stdout)


if __name__ == "__main__":
    lib.main()
