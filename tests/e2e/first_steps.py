#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: S3.
"""The first five minutes, as README has them: its commands, word by word, lead from a program of one's own to a flame
graph with values. Only the first, which builds, is taken as done: the tests run after it."""

import os
import re
import shutil
import subprocess
import unittest

import lib
import lib_browser


def readme_commands():
    with open(os.path.join(lib.ROOT, "README.md"), encoding="utf-8") as stream:
        text = re.search(r"<!-- first:begin -->\n(.*?)<!-- first:end -->", stream.read(), re.DOTALL).group(1)
    return [line.split("#")[0].strip() for line in text.splitlines() if line.strip()]


class FirstSteps(unittest.TestCase):
    def setUp(self):
        lib.need_root(self)
        why = lib_browser.missing()
        if why:
            self.skipTest(why)

    def test_three_commands(self):
        build, *rest = readme_commands()
        self.assertEqual((build, len(rest)), ("make build", 2))
        folder = lib.scratch("clone")
        os.makedirs(os.path.join(folder, "build"))
        os.symlink(lib.ASSAY, os.path.join(folder, "build/assay"))
        shutil.copy(lib.build("values_polynomial.c"), os.path.join(folder, "program"))
        # The program runs until it is ended: what a person would do with Ctrl-C, timeout does here.
        for command in rest:
            words = [word for word in command.split() if word != "sudo"]
            if "./program" in words:
                words = words[:-1] + ["timeout", "2", words[-1]]
            run = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120)
            self.assertIn(run.returncode, (0, 124), (words, run.stderr))
        with lib_browser.Browser() as browser:
            browser.open(os.path.join(folder, "assay.html"))
            self.assertEqual(browser.run("return document.querySelector('main').dataset.view"), "flame")
            self.assertGreater(int(browser.run("return document.querySelector('canvas').dataset.frames")), 3)
            browser.go("#args")
            self.assertGreater(len(browser.texts(".value")), 0)

    def test_alone_it_says_where_to_begin(self):
        run = subprocess.run([lib.ASSAY], capture_output=True, text=True, timeout=60)
        self.assertEqual(run.returncode, 2)
        begin = run.stderr[run.stderr.index("Where to begin:"):]
        for command in ["record", "report", "html", "doctor"]:
            self.assertIn(f"assay {command}", begin)


if __name__ == "__main__":
    lib.main()
