#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The runner itself: a failure must show in the line, the total and the exit status."""

import os
import subprocess
import tempfile
import unittest

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run")

UNSTEADY = "== unsteady: passed at the second attempt, failed at the first"

SCRIPTS = {
    "good": ("exit 0", "passed"),
    "bad": ("echo because; exit 3", "failed"),
    "killed": ("kill -9 $$", "failed"),
    "slow": ("sleep 100 & sleep 100", "failed"),
    "skips": ("echo not on Tuesdays; exit 77", "skipped"),
    "mute": ("exit 77", "failed"),
    "unsteady": ('test -e "$BUILD/seen" && exit 0; touch "$BUILD/seen"; echo first; exit 1', "failed"),
    "environment": ('test -d "$TMPDIR" && test -d "$SRC/tests" && test -n "$ASSAY"', "passed"),
}


class RunTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def script(self, name):
        path = os.path.join(self.folder.name, name + ".sh")
        with open(path, "w", encoding="utf-8") as stream:
            stream.write("#!/bin/sh\n" + SCRIPTS[name][0] + "\n")
        os.chmod(path, 0o755)
        return path

    def run_scripts(self, *names, options=()):
        run = subprocess.run([RUN, *options] + [self.script(name) for name in names], text=True,
                             capture_output=True, timeout=60,
                             env={**os.environ, "BUILD": self.folder.name, "E2E_SECONDS": "1"})
        return run.returncode, run.stdout.splitlines()

    def test_each_verdict(self):
        for name, (_, verdict) in SCRIPTS.items():
            with self.subTest(name=name):
                status, lines = self.run_scripts(name)
                self.assertTrue(lines[0].startswith(f"{verdict:8}e2e/{name} "), lines)
                self.assertEqual(status, 1 if verdict == "failed" else 0)

    def test_total(self):
        status, lines = self.run_scripts(*SCRIPTS)
        self.assertEqual((status, lines[-1]), (1, "2 passed, 5 failed, 1 skipped"))
        self.assertTrue(any("not on Tuesdays" in line for line in lines))
        self.assertTrue(any("because" in line for line in lines))

    def test_failures_are_repeated_at_the_end(self):
        _, lines = self.run_scripts("bad", "good")
        end = lines[lines.index("== failed"):]
        self.assertTrue(end[1].startswith("failed  e2e/bad "), end)
        self.assertIn("        | because", end)
        self.assertNotIn("== failed", self.run_scripts("good")[1])

    def test_repeated(self):
        status, lines = self.run_scripts("unsteady", "good", options=["--repeat"])
        self.assertEqual((status, lines[-1]), (0, "2 passed, 0 failed, 0 skipped"))
        self.assertIn("        | first", lines[lines.index(UNSTEADY):])

    def test_repeated_and_failed_again(self):
        status, lines = self.run_scripts("bad", "good", options=["--repeat"])
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertNotIn(UNSTEADY, lines)

    def run_unit_tests(self, *names, options=()):
        """The scripts as unit tests of a meson project of their own."""
        tests = "".join(f"test('{name}', find_program('{self.script(name)}'))\n" for name in names)
        with open(os.path.join(self.folder.name, "meson.build"), "w", encoding="utf-8") as stream:
            stream.write("project('scripts')\n" + tests)
        build = os.path.join(self.folder.name, "build")
        subprocess.run(["meson", "setup", build, self.folder.name], check=True, capture_output=True)
        run = subprocess.run([RUN, *options, "unit"], text=True, capture_output=True, timeout=60,
                             env={**os.environ, "BUILD": build})
        return run.returncode, run.stdout.splitlines()

    def test_unit_tests(self):
        status, lines = self.run_unit_tests("unsteady", "good", "skips")
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed, 1 skipped"))

    def test_unit_tests_repeated(self):
        status, lines = self.run_unit_tests("unsteady", "good", options=["--repeat"])
        self.assertEqual((status, lines[-1]), (0, "2 passed, 0 failed, 0 skipped"))
        self.assertIn("        | first", lines[lines.index(UNSTEADY):])

    def test_unit_tests_repeated_and_failed_again(self):
        status, lines = self.run_unit_tests("bad", "good", options=["--repeat"])
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))

    def test_unknown_phase(self):
        self.assertEqual(subprocess.run([RUN, "nonsense"], capture_output=True).returncode, 2)


if __name__ == "__main__":
    unittest.main()
