#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: S3, S4, S10, T6, W2, W4, W6.
"""The page of assay html in a real browser, of what is not samples: waits, calls, marks, and the course of a run. Numbers
on the page are held against the tables of the profile and against assay report --json."""

import json
import subprocess
import unittest

import lib
from lib_page import Page, html, number

DOWN, RIGHT, ENTER, ESCAPE = "\ue015", "\ue014", "\ue007", "\ue00c"


def tool(*arguments, code=0):
    run = subprocess.run([lib.ASSAY, *arguments], capture_output=True, text=True, timeout=120)
    assert run.returncode == code, (run.args, run.stderr)


class Flame(Page):
    """A flame graph of something with a unit."""

    def total(self):
        return int(self.browser.run("return document.querySelector('canvas').dataset.total"))

    def choose(self, selector, value):
        self.browser.run("const s = document.querySelector(arguments[0]); s.value = arguments[1];"
                         "s.dispatchEvent(new Event('change'))", selector, value)
        self.browser.settle()

    def values_of(self, selector):
        return self.browser.run("return [...document.querySelectorAll(arguments[0] + ' option')].map(o => o.value)", selector)


@unittest.skipUnless(lib.IS_ROOT, "waits are recorded by root")
class Waits(Flame):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_ = lib.record("--off-cpu", lib.build("waits.c"), "5", lib.scratch("blocks"))
        cls.page = html("-i", cls.run_.path, name="waits")
        cls.profile = lib.Profile(cls.run_.path)

    def sum_of(self, column, where="1"):
        return self.profile.value(f"select sum({column}) from wait where {where}")

    def test_widths_are_the_time_waited(self):
        self.open(self.page, "#offcpu")
        self.assertEqual(self.total(), self.sum_of("total"))
        self.shot("waits-offcpu")
        for metric, column in [("queued", "queued"), ("count", "count")]:
            self.choose("#metric", metric)
            self.assertEqual(self.total(), self.sum_of(column), metric)
            self.assertIn(f"metric={metric}", self.browser.run("return location.hash"))

    def test_by_cause_and_thread(self):
        self.open(self.page, "#offcpu")
        causes = {row[0] for row in self.profile.rows("select distinct cause from wait")}
        self.assertEqual(set(self.values_of("#label")) - {""}, causes)
        for cause in causes:
            self.choose("#label", cause)
            self.assertEqual(self.total(), self.sum_of("total", f"cause = '{cause}'"), cause)
        self.choose("#label", "")
        threads = [int(text) for text in self.values_of("select[aria-label=Thread]") if text]
        self.assertGreater(len(threads), 1)
        # A page numbers threads as the profile's table does, whose first row is 1.
        for thread in threads:
            self.choose("select[aria-label=Thread]", str(thread))
            self.assertEqual(self.total(), self.sum_of("total", f"thread = {thread}"), thread)

    def test_the_table_is_that_of_the_report(self):
        rows = lib.report(self.run_.path, "waits")["rows"]
        self.open(self.page, "#waits")
        self.assertEqual([number(text) for text in self.row_texts("count")], [row["count"] for row in rows[:150]])
        self.assertEqual(self.row_texts("cause"), [row["cause"] for row in rows[:150]])


class Calls(Flame):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.path = lib.scratch("calls.db")
        tool("calls", "-o", cls.path, "--", lib.build("shares.c"), "0.2")
        cls.page = html("-i", cls.path, name="calls")

    def test_any_metric_of_the_tree(self):
        profile = lib.Profile(self.path)
        self.open(self.page, "#calls")
        self.assertEqual(self.values_of("#metric"), ["base", "elapsed", "calls"])
        for metric, query in [("base", "select sum(base) from call_amount where metric = 'time'"),
                              ("elapsed", "select sum(elapsed) from call_amount where metric = 'time'"),
                              ("calls", "select sum(base) from call_amount where metric = 'calls'")]:
            self.choose("#metric", metric)
            self.assertEqual(self.total(), profile.value(query), metric)
        self.assertIn("calls seen", self.browser.texts("#totals")[0])
        self.browser.type("main input[type=search]", "^main$")
        rows = {row["symbol"]: row for row in lib.report(self.path, "functions")["rows"]}
        self.choose("#metric", "base")
        shown = int(self.browser.run("return document.querySelector('.matched').dataset.samples"))
        self.assertEqual(shown, rows["main"]["cum"])
        self.shot("calls-tree")

    def test_threads_are_no_functions(self):
        self.open(self.page, "#tree")
        self.assertRegex(self.row_texts("function")[0], "^thread \\d+ of process")
        linked = self.browser.texts("main td a")
        self.assertIn("main", linked)
        self.assertEqual([text for text in linked if text.startswith("thread ")], [])

    def test_tables_of_a_thread(self):
        path = lib.scratch("calls-threads.db")
        tool("calls", "-o", path, "--", lib.build("threads.c"), "0.05")
        page = html("-i", path, name="calls-threads")
        ids = lib.Profile(path).rows("select thread.id, pid, tid from thread join process on process.id = thread.process")
        self.assertEqual(len(ids), 5)
        for thread, pid, tid in ids:
            choice = ["--pid", str(pid), "--tid", str(tid)]
            rows = lib.report(path, "functions", *choice)["rows"]
            self.open(page, f"#functions?thread={thread}&filter=^(burn|work|clone3)$")
            for column in ["base", "calls", "cum", "elapsed"]:
                self.assertEqual(sorted(number(text) for text in self.row_texts(column)),
                                 sorted(row[column] for row in rows if row["symbol"] in ("burn", "work", "clone3")), column)
            self.open(page, f"#threads?thread={thread}")
            self.assertEqual([number(text) for text in self.row_texts("tid")], [tid])
            self.open(page, f"#callgraph?thread={thread}")
            self.assertIn(" ".join(choice), self.browser.texts("[data-note=whole] pre")[0])

    def test_what_was_allocated(self):
        """calls_tails.c allocates 3 objects of 450 bytes in allocator()."""
        path = lib.scratch("allocations.db")
        tool("calls", "--with", "engine", "--allocations", "-o", path, "--", lib.build("calls_tails.c", "-O2"), code=5)
        profile = lib.Profile(path)
        self.open(html("-i", path, name="allocations"), "#calls?search=^allocator$")
        self.assertEqual(self.values_of("#metric"), ["base", "elapsed", "calls", "bytes", "objects"])
        for metric, amount in [("bytes", 450), ("objects", 3)]:
            self.choose("#metric", metric)
            self.assertEqual(self.total(), profile.value(f"select sum(base) from call_amount where metric = '{metric}'"))
            self.assertEqual(self.browser.run("return document.querySelector('.matched').dataset.samples"), str(amount))


class Marks(Page):
    def test_marks(self):
        path = lib.scratch("marks.db")
        tool("count", "-m", "forty", "-m", "ten", "-o", path, "--", lib.build("shares.c"), "0.2")
        self.open(html("-i", path, name="marks"), "#marks")
        rows = lib.report(path, "marks")["rows"]
        self.assertEqual([number(text) for text in self.row_texts("visits")], [row["visits"] for row in rows])
        self.assertEqual(self.row_texts("mark"), [row["mark"] for row in rows])
        self.shot("marks")
        headings = self.browser.run("return [...document.querySelectorAll('nav section')].filter(one => one.querySelector("
                                    "'[data-view=marks],[data-view=events],[data-view=marktime],[data-view=accesses]'))"
                                    ".map(one => one.querySelector('h2').textContent)")
        self.assertEqual(headings, ["Marks"])


class Course(Page):
    """A program that does one thing and then another: what it repeated when."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.path = lib.scratch("course.db")
        tool("trace", "-q", "-o", cls.path, "--", lib.build("course.c", "-O1"))
        cls.page = html("-i", cls.path, name="course")
        cls.answer = lib.report(cls.path, "course")
        cls.longest = max((row for row in cls.answer["rows"] if row["what"] == "stratum"),
                          key=lambda row: row["end"] - row["begin"])

    def test_the_flame_graph_is_the_tree_of_instructions(self):
        """It is what the page begins with; a function has its callers and callees from it."""
        rows = lib.report(self.path, "tree", "--min-share", "0")["rows"]
        self.open(self.page)
        self.assertEqual(self.browser.run("return document.querySelector('main').dataset.view"), "instructions")
        self.assertEqual(int(self.browser.run("return document.querySelector('canvas').dataset.total")),
                         self.answer["totals"]["seen"])
        self.browser.type("main input[type=search]", "^fill$")
        fill = next(row for row in lib.report(self.path, "functions")["rows"] if row["symbol"] == "fill")
        self.assertIn(f"{fill['instructions']:,} instructions", self.browser.texts(".matched")[0])
        self.shot("course-instructions")
        self.open(self.page, "#functions")
        self.browser.run("[...document.querySelectorAll('td a')].find(a => a.textContent === 'main').click()")
        self.browser.wait("return document.querySelector('[data-neighbours=callees]')")
        wanted, depth = {}, None
        for row in rows:
            if row["symbol"] == "main":
                depth = row["level"]
            elif depth is not None and row["level"] == depth + 1:
                wanted[row["symbol"]] = row["total"]
            elif depth is not None and row["level"] <= depth:
                depth = None
        shown = self.browser.run("return [...document.querySelectorAll('[data-neighbours=callees] tbody tr')]"
                                 ".map(tr => [tr.cells[2].textContent, tr.cells[1].textContent])")
        self.assertEqual({name: number(amount) for name, amount in shown}, wanted)

    def test_an_empty_view_says_why(self):
        self.open(self.page, "#coverage")
        self.assertIn("--tool coverage", self.browser.texts("[data-empty]")[0])
        self.assertTrue(self.browser.run("return document.querySelector('nav a[data-view=coverage].nothing') !== null"))

    def range(self):
        shown = self.browser.run("return {...document.querySelector('canvas').dataset}")
        return int(shown["from"]), int(shown["to"])

    def test_levels_cover_the_run(self):
        """Both levels, from 0 to what the thread executed, without gaps."""
        for level in (0, 1):
            end = 0
            for row in self.answer["rows"]:
                if row["level"] == level:
                    self.assertEqual(row["begin"], end)
                    end = row["end"]
                    self.assertTrue(row["cycle"] is None or row["end"] - row["begin"] == row["trips"] * row["each"])
            self.assertEqual(end, self.answer["totals"]["kept"])

    def click_on(self, row, lane):
        box = self.browser.run("const b = document.querySelector('canvas').getBoundingClientRect();"
                               "return [b.left, b.top, b.width]")
        middle = (row["begin"] + row["end"]) / 2 / self.answer["totals"]["kept"]
        self.browser.pointer([("pointerMove", round(box[0] + middle * box[2]), round(box[1] + lane * 52 + 30)),
                              ("pointerDown",), ("pointerUp",)])

    def test_a_click_looks_into_a_stretch_and_leads_to_the_code(self):
        self.open(self.page, "#course")
        self.assertEqual(self.range(), (0, self.answer["totals"]["kept"]))
        self.shot("course")
        self.click_on(self.longest, 1)
        self.assertEqual(self.range(), (self.longest["begin"], self.longest["end"]))
        detail = self.browser.texts(".flame-detail")[0]
        self.assertIn(self.longest["symbol"], detail)
        self.assertIn(f"{self.longest['trips']:,} trips", detail)
        link = self.browser.run("return location.hash")
        self.open(self.page, link)
        self.assertEqual(self.range(), (self.longest["begin"], self.longest["end"]))
        self.browser.type("canvas", DOWN + DOWN + ENTER)
        begin, end = self.range()
        self.assertLess(end - begin, self.longest["end"] - self.longest["begin"])
        self.shot("course-enlarged")
        self.browser.click(".flame-detail a.open")
        self.assertEqual(self.browser.texts(".function-name")[0], self.longest["symbol"])

    def test_keys(self):
        self.open(self.page, "#course")
        self.browser.type("canvas", RIGHT + RIGHT)
        self.assertTrue(self.browser.texts(".flame-detail a.open"))
        self.browser.type("canvas", DOWN + ENTER)
        self.assertNotEqual(self.range(), (0, self.answer["totals"]["kept"]))
        self.browser.type("canvas", ESCAPE * 12)
        self.assertEqual(self.range(), (0, self.answer["totals"]["kept"]))

    def test_the_command_shows_the_same_place(self):
        begin, end = self.longest["begin"], self.longest["end"]
        self.open(self.page, f"#course?begin={begin}&end={end}")
        command = self.browser.texts(".command pre")[0].split()
        self.assertEqual(command[:3], ["assay", "report", "at"])
        rows = lib.report(self.path, *command[2:])["rows"]
        here = next(row for row in rows if row["kind"] == "path" and row["here"])
        self.assertEqual(here["instruction"], begin)

    def annotated(self, function):
        run = subprocess.run([lib.ASSAY, "annotate", function, "-i", self.path, "--json"], capture_output=True, text=True,
                             timeout=60)
        self.assertEqual(run.returncode, 0, run.stderr)
        return json.loads(run.stdout)["rows"]

    def test_code_with_how_often_it_was_executed(self):
        """course.c calls fill 300 times, which goes round 1,024 times in each."""
        rows = self.annotated("fill")
        function = next(row for row in lib.report(self.path, "functions")["rows"] if row["symbol"] == "fill")
        self.assertEqual(sum(row["executed"] for row in rows), function["instructions"])
        self.assertEqual(rows[0]["executed"], 300)
        self.assertEqual(max(row["executed"] for row in rows), 300 * 1024)
        self.open(self.page, "#functions")
        self.browser.run("[...document.querySelectorAll('td a')].find(a => a.textContent === 'fill').click()")
        self.browser.wait("return document.querySelector('.function-name')")
        shown = self.browser.run("return [...document.querySelectorAll('[data-card=code] tbody tr:not(.source)')]"
                                 ".map(tr => tr.cells[0].textContent)")
        self.assertEqual([number(text) if text else 0 for text in shown], [row["executed"] for row in rows])
        self.shot("course-code")

    def test_blocks_with_their_code_and_heat(self):
        """Blocks add up to what was executed, and what they read of memory to the mix of instructions."""
        answer = lib.report(self.path, "executed", "--min-share", "0")
        blocks = {row["block"]: row for row in answer["rows"]}
        self.assertEqual(sum(row["executed"] * row["instructions"] for row in blocks.values()), answer["totals"]["kept"])
        top = [row for row in answer["rows"] if row["block"] == answer["rows"][0]["block"]]
        self.assertEqual(len(top), top[0]["instructions"])
        self.assertIn(top[0]["symbol"], ("fill", "odd", "add"))
        annotated = {row["address"]: row for row in self.annotated(top[0]["symbol"])}
        self.assertEqual([row["text"] for row in top], [annotated[row["address"]]["text"] for row in top])
        loads = lib.report(self.path, "executed", "--heat", "loads", "--min-share", "0")["rows"]
        heats = {row["block"]: row["heat"] for row in loads}
        self.assertEqual(sum(heats.values()), sum(row["loads"] for row in lib.report(self.path, "mix")["rows"]))
        self.open(self.page, "#executed")
        self.assertEqual(self.row_texts("text")[0], top[0]["text"])

    def test_text(self):
        run = subprocess.run([lib.ASSAY, "report", "course", "-i", self.path, "--limit", "10"], capture_output=True,
                             text=True, timeout=60)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, r"(?m)^\d+ .* [.]*#+[.]* .*stratum")

    def test_small_and_dark(self):
        self.open(self.page, "#course")
        self.browser.resize(400, 800)
        self.browser.theme("dark")
        self.browser.open(self.page, "#course")
        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 400)
        self.shot("small-course")


class Changes(Flame):
    """Two profiles of what is not samples."""

    def test_executed_code(self):
        program, paths = lib.build("nested.c", "-O1", "-g"), [lib.scratch("fewer.db"), lib.scratch("more.db")]
        for path, arguments in zip(paths, ([], ["10"])):
            tool("trace", "-q", "-o", path, "--", program, *arguments)
        self.open(html(*paths, name="executed-change"))
        rows = json.loads(subprocess.run([lib.ASSAY, "diff", *paths, "--json"], capture_output=True, text=True, timeout=120,
                                         check=True).stdout)["rows"]
        kept = lib.report(paths[1], "functions")["totals"]["kept"]
        self.assertEqual(self.browser.run("return document.querySelector('main').dataset.view"), "instructions")
        self.assertEqual(self.total(), kept)
        self.assertIn("since fewer.db", self.browser.texts(".metric")[-1])
        self.browser.run("[...document.querySelectorAll('button')].find(b => b.textContent === 'Width of the older').click()")
        self.browser.settle()
        self.assertIn("width=older", self.browser.run("return location.hash"))
        self.shot("executed-change")
        self.open(html(*paths, name="executed-change"), "#difference")
        self.assertEqual([number(text) for text in self.row_texts("count_b")], [row["count_b"] or 0 for row in rows[:150]])

    def test_calls(self):
        """Of a program that does the same again; calls have no table of changes."""
        program, paths = lib.build("nested.c", "-O1", "-g"), [lib.scratch("few.db"), lib.scratch("many.db")]
        for path in paths:
            tool("calls", "-o", path, "--", program)
        self.open(html(*paths, name="calls-change"), "#calls?metric=calls")
        self.assertIn("0.00% since few.db", self.browser.texts(".metric")[-1])
        self.assertNotIn("difference", self.values_of_views())

    def values_of_views(self):
        return self.browser.run("return [...document.querySelectorAll('nav a')].map(a => a.dataset.view)")

    def test_nothing_in_common_is_refused(self):
        paths = [lib.scratch("traced.db"), lib.scratch("counted.db")]
        tool("trace", "-q", "-o", paths[0], "--", "true")
        tool("count", "-m", "main", "-o", paths[1], "--", lib.build("shares.c"), "0.1")
        run = subprocess.run([lib.ASSAY, "html", *paths, "-o", lib.scratch("no.html")], capture_output=True, text=True,
                             timeout=60)
        self.assertEqual(run.returncode, 1)
        self.assertIn("no samples", run.stderr)


if __name__ == "__main__":
    lib.main()
