# SPDX-License-Identifier: BSD-2-Clause
"""Pages of assay html in a browser, for tests."""

import collections
import json
import os
import re
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

    def check_tables_of_choice(self, page, profile, choice, arguments):
        """Tables of samples where threads or a time are chosen are those of a report with these arguments. Returns the last
        one. The page takes functions of one name in one module, and calls of one function from another, for one."""
        for view in ["functions", "modules", "threads", "processes"]:
            answer = lib.report(profile, view, *arguments)
            self.open(page, f"#{view}?{choice}")
            expected = collections.Counter()
            for number_of_row, row in enumerate(answer["rows"]):
                if row.get("total", row["self"]):
                    expected[(row["symbol"], row["module"]) if view == "functions" else number_of_row] += row["self"]
            self.assertEqual([number(text) for text in self.row_texts("self")],
                             sorted(expected.values(), reverse=True)[:150], view)
        rows = lib.report(profile, "tree", *arguments)["rows"]
        self.open(page, f"#tree?{choice}")
        self.assertEqual(sorted(zip(self.row_texts("total"), self.row_texts("self"))),
                         sorted((f"{row['total']:,}", f"{row['self']:,}") for row in rows))
        edges = collections.Counter()
        for row in lib.report(profile, "callgraph", *arguments)["rows"]:
            edges[row["symbol"], row["relation"], row["other"]] += row["total"]
        words = {"caller": "from", "callee": "to"}
        expected = sorted((f"{words[relation]} {other or 'outside'}" if relation in words else
                           symbol if relation == "self" else "more than once on the stack", f"{total:,}")
                          for (symbol, relation, other), total in edges.items())
        self.open(page, f"#callgraph?{choice}")
        shown = [re.sub(r" \[.*\]$", "", text.strip()) for text in self.row_texts("function")]
        self.assertEqual(sorted(zip(shown, self.row_texts("total"))), expected)
        return answer
