#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: W1, W2, W3.
"""Processes take over translations of code that others have executed before. Nothing else changes: what they do, and what
is recorded of them, to the instruction."""

import json
import os
import shutil
import subprocess
import unittest

import lib

SECONDS = 120
TIMES = 12
TOOLS = "none", "count", "blocks", "paths", "coverage"


class Sharing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = lib.scratch("public")
        os.mkdir(cls.folder)
        folder = cls.folder
        while folder != "/":  # what everybody may read is shared
            if os.stat(folder).st_uid == os.getuid():
                os.chmod(folder, os.stat(folder).st_mode | 0o111)
            folder = os.path.dirname(folder)

    def traced(self, tool, command, at, fixed=False):
        """The run's output, how many groups of fragments were taken over, and the profile. at: the number of processes
        that have to have translated something before it is shared; 0: nothing is."""
        summary, profile = lib.scratch("summary.json"), lib.scratch("profile.db")
        prefix = ["setarch", "-R"] if fixed else []
        run = subprocess.run([*prefix, lib.ASSAY, "trace", "-q", "--tool", tool, "--summary", summary, "-o", profile, "--", *command],
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS,
                             env={"PATH": os.environ["PATH"], "ASSAY_ENGINE_SHARES": str(at)})
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        with open(summary) as file:
            return run.stdout, json.load(file)["totals"]["shared"], profile

    def rows(self, profile):
        view = subprocess.run([lib.ASSAY, "report", "executed", "-i", profile, "--format", "json", "--limit", "1000000"],
                              capture_output=True, check=True, text=True, timeout=SECONDS)
        return json.loads(view.stdout)

    def again(self, name, answer=1):
        """The program, where everybody may execute it."""
        path = os.path.join(self.folder, name)
        shutil.copy(lib.build("again.c", f"-DANSWER={answer}"), path)
        os.chmod(path, 0o755)
        return path

    def test_recorded(self):
        """The same addresses in each run: then the same instructions are executed."""
        program = self.again("recorded")
        for tool in TOOLS[1:]:
            with self.subTest(tool=tool):
                output, shared, profile = self.traced(tool, [program, str(TIMES)], 0, fixed=True)
                self.assertEqual(shared, 0)
                expected = self.rows(profile)
                for at in 1, 3:
                    again, shared, profile = self.traced(tool, [program, str(TIMES)], at, fixed=True)
                    self.assertEqual(again, output)
                    self.assertGreater(shared, 0, "nothing was shared")
                    self.assertEqual(self.rows(profile), expected)

    def test_moved(self):
        """Programs and libraries lie somewhere else in each process."""
        script = f"for i in {' '.join(map(str, range(TIMES)))}; do echo text $i | gzip -9 | gzip -d | md5sum; done"
        expected = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
        for tool in TOOLS:
            with self.subTest(tool=tool):
                output, shared, _ = self.traced(tool, ["sh", "-c", script], 1)
                self.assertEqual(output, expected)
                self.assertGreater(shared, 0, "nothing was shared")

    def test_changed(self):
        """A file that is changed in its place holds other code from then on."""
        program, other = self.again("changed"), self.again("other", answer=2)
        run = f"{program} {TIMES} && cat {other} > {program} && {program} {TIMES}"
        expected = [subprocess.run([path], capture_output=True, text=True, check=True).stdout for path in (program, other)]
        self.assertNotEqual(*expected)
        for tool in TOOLS:
            with self.subTest(tool=tool):
                shutil.copy(lib.build("again.c", "-DANSWER=1"), program)
                output, shared, _ = self.traced(tool, ["sh", "-c", run], 1)
                self.assertEqual(output, (TIMES + 1) * expected[0] + (TIMES + 1) * expected[1])
                self.assertGreater(shared, 0, "nothing was shared")

    def test_private(self):
        """All processes can read what is shared, so it is made of nothing that only some may read."""
        for mode, folder in (0o700, 0o755), (0o711, 0o755), (0o755, 0o700):
            with self.subTest(mode=oct(mode), folder=oct(folder)):
                path = os.path.join(self.folder, f"private-{mode}-{folder}")
                os.mkdir(path)
                program = os.path.join(path, "again")
                shutil.copy(lib.build("again.c", "-static", "-no-pie"), program)
                os.chmod(program, mode)
                os.chmod(path, folder)
                self.assertEqual(self.traced("none", [program, str(TIMES)], 1)[1], 0)
        os.chmod(path, 0o755)
        self.assertGreater(self.traced("none", [program, str(TIMES)], 1)[1], 0, "it would not have been shared anyhow")

    def test_signals(self):
        """They come in such code, too: the program's registers are found."""
        program = os.path.join(self.folder, "registers")
        shutil.copy(lib.build("dead_registers.c", "-static", "-no-pie"), program)
        script = f"for i in 1 2 3 4 5 6; do {program} 2000 signals; done"
        expected = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
        for tool in TOOLS:
            with self.subTest(tool=tool):
                output, shared, _ = self.traced(tool, ["sh", "-c", script], 1)
                self.assertEqual(output, expected)
                self.assertGreater(shared, 0, "nothing was shared")


if __name__ == "__main__":
    lib.main()
