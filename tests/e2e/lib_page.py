# SPDX-License-Identifier: BSD-2-Clause
"""Pages of assay html in a browser, for tests."""

import json
import os
import subprocess
import unittest

import lib
import lib_browser

SHOTS = os.path.join(os.environ.get("BUILD", os.path.join(lib.ROOT, "build")), "screenshots")


def html(*arguments, name):
    path = lib.scratch(name + ".html")
    run = subprocess.run([lib.ASSAY, "html", "-o", path, *arguments], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, (run.args, run.stderr)
    return path


def tool(*arguments):
    run = subprocess.run([lib.ASSAY, *arguments], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, (run.args, run.stderr)
    return json.loads(run.stdout)


def number(text):
    return int(text.replace(",", ""))


class Page(unittest.TestCase):
    """One browser for all tests of a file; each opens the page it is about."""

    browser = None

    @classmethod
    def setUpClass(cls):
        why = lib_browser.missing()
        if why:
            raise unittest.SkipTest(why)
        if not Page.browser:
            Page.browser = lib_browser.Browser()
            unittest.addModuleCleanup(Page.browser.__exit__)

    def open(self, path, view=""):
        self.browser.resize(1280, 860)
        self.browser.theme("light")
        self.browser.open(path, view)

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])

    def shot(self, name):
        self.browser.screenshot(os.path.join(SHOTS, name + ".png"))

    def row_texts(self, column, table="main table"):
        """The texts of a column of the table that is shown."""
        return self.browser.run(
            "const table = document.querySelector(arguments[1]);"
            "const at = [...table.querySelectorAll('th')].findIndex(th => th.dataset.column === arguments[0]);"
            "return [...table.querySelectorAll('tbody tr')].map(tr => tr.cells[at].textContent)", column, table)
