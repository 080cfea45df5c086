#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: S3, S4, V20.
"""The page of assay html in a real browser: every view of real profiles is opened and clicked through, and the numbers
on the page are held against those of assay report --json. Screenshots are left in BUILD/screenshots."""

import collections
import json
import re
import shlex
import signal
import sqlite3
import subprocess
import time
import unittest

import lib
from lib_page import Page, html, number, tool

HOSTILE = ["</script><script>window.owned = 1</script>", "\"'><img src=x onerror=window.owned=1>",
           "\u202edesrever\u202c", "n" * 10000, "&lt;b&gt; ${window.owned = 1} `\\"]


class Samples(Page):
    """Samples with values, of several functions and threads."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        values = ["--values", "--run-every", "2"] if lib.IS_ROOT else []
        with lib.Program(lib.build("values_polynomial.c")) as program:
            cls.profile = lib.record("-F", "2999", *values, "--duration", "3", "-p", str(program.pid)).path
        cls.page = html("-i", cls.profile, name="samples")
        cls.functions = lib.report(cls.profile, "functions")

    def test_totals_are_on_every_view(self):
        totals = self.functions["totals"]
        self.open(self.page)
        views = self.browser.run("return [...document.querySelectorAll('nav a')].map(a => a.dataset.view)")
        self.assertLessEqual({"flame", "timeline", "functions", "lines", "modules", "processes", "threads", "callgraph",
                              "tree", "losses", "about"}, set(views))
        for view in views:
            self.browser.click(f"nav a[data-view={view}]")
            self.browser.wait("return document.querySelector('main').dataset.view === arguments[0]", view)
            shown = self.browser.run("return {...document.getElementById('totals').dataset}")
            self.assertEqual([int(shown[name]) for name in ("seen", "kept", "lost")],
                             [totals["seen"], totals["kept"], sum(totals["lost"].values())])
            self.shot(f"samples-{view}")

    def test_tables_are_those_of_the_report(self):
        for view in ["functions", "lines", "modules", "processes", "threads", "losses"]:
            answer = lib.report(self.profile, view)
            self.open(self.page, f"#{view}")
            column = "count" if view == "losses" else "self"
            self.assertEqual([number(text) for text in self.row_texts(column)],
                             [row[column] for row in answer["rows"][:150]], view)
            sums = self.browser.texts(".sums")[0]
            self.assertIn(f"seen {answer['totals']['seen']:,} = kept {answer['totals']['kept']:,}", sums)

    def test_sorting_and_filtering(self):
        self.open(self.page, "#functions")
        self.browser.click("th[data-column=total] button")
        totals = [number(text) for text in self.row_texts("total")]
        self.assertEqual(totals, sorted(totals, reverse=True))
        self.browser.click("th[data-column=total] button")
        self.assertEqual([number(text) for text in self.row_texts("total")], sorted(totals))
        self.assertEqual(self.browser.run("return document.querySelector('th[aria-sort]').ariaSort"), "ascending")
        self.browser.type("main input[type=search]", "^evaluate$")
        self.assertEqual(set(self.row_texts("function")), {"evaluate"})
        self.assertIn("filter=%5Eevaluate%24", self.browser.run("return location.hash"))

    def test_sorting_a_tree_keeps_branches_together(self):
        rows = lib.report(self.profile, "tree")["rows"]

        def branch(begin, level):
            """[(row, what is below it)] of the rows from one on that have this level."""
            found = []
            while begin < len(rows) and rows[begin]["level"] == level:
                below, end = branch(begin + 1, level + 1)
                found.append((rows[begin], below))
                begin = end
            return found, begin

        def flat(branches):
            return [each for row, below in sorted(branches, key=lambda one: one[0]["self"])
                    for each in [row, *flat(below)]]
        expected = flat(branch(0, 0)[0])
        self.assertNotEqual([row["self"] for row in expected], [row["self"] for row in rows])
        self.open(self.page, "#tree")
        self.browser.click("th[data-column=self] button")
        self.browser.click("th[data-column=self] button")
        for column in ("self", "total"):
            self.assertEqual([number(text) for text in self.row_texts(column)], [row[column] for row in expected[:150]])
        self.assertIn("sort=self%3Aup", self.browser.run("return location.hash"))

    def test_sorting_a_call_graph_keeps_functions_together(self):
        rows = [row for row in lib.report(self.profile, "callgraph")["rows"] if row["relation"] == "self"]
        self.open(self.page, "#callgraph")
        self.browser.click("th[data-column=self] button")
        heads = self.browser.run("return [...document.querySelectorAll('tr.head')].map(tr => tr.cells[3].textContent)")
        expected = sorted((row["self"] for row in rows), reverse=True)
        self.assertGreater(len(heads), 1)
        self.assertEqual([number(text) for text in heads], expected[:len(heads)])

    @unittest.skipUnless(lib.IS_ROOT, "values are recorded by root")
    def test_arguments_by_call_site(self):
        """One of the two places that call changes() always passes the degree 4, the other 3."""
        entries = collections.Counter()
        for row in tool("report", "args", "--by-caller", "-i", self.profile, "--json")["rows"]:
            if row["symbol"] == "changes" and row["caller"]:
                entries[row["caller"]] = max(entries[row["caller"]], row["total"])
        self.assertEqual(len(entries), 2)
        self.function_page("changes")
        table = "[data-card=args-by-caller] table"
        self.assertEqual([number(text) for text in self.row_texts("entries", table) if text],
                         sorted(entries.values(), reverse=True))
        values = self.browser.run("return [...document.querySelectorAll(arguments[0] + ' tbody tr')].map("
                                  "tr => [...tr.querySelectorAll('.value-text')].map(one => one.textContent))", table)
        degrees = [texts for what, texts in zip(self.row_texts("what", table), values) if "degree" in what]
        self.assertEqual(sorted(degrees), [["3"], ["4"]])
        self.shot("samples-callers")
        self.open(self.page, "#args-by-caller")
        self.assertIn("changes", " ".join(self.row_texts("function")))

    def test_the_view_is_told(self):
        """To those who do not see it: by the title, and by a message that is read aloud."""
        self.open(self.page, "#flame")
        self.browser.click("nav a[data-view=modules]")
        self.browser.settle()
        self.assertTrue(self.browser.run("return document.title").startswith("Modules · "))
        self.assertIn("Modules", self.browser.run("return [...document.querySelectorAll('[role=status]')]"
                                                  ".map(one => one.textContent)"))

    def test_search_gives_the_total_of_matches(self):
        row = next(row for row in self.functions["rows"] if row["symbol"] == "evaluate")
        self.open(self.page, "#flame")
        self.assertEqual(self.browser.run("return document.querySelector('.matched').textContent"), "")
        self.browser.type("main input[type=search]", "^evaluate$")
        self.assertEqual(int(self.browser.run("return document.querySelector('.matched').dataset.samples")), row["total"])
        self.shot("samples-flame-search")

    def detail(self):
        return self.browser.run("return document.querySelector('.flame-name').textContent")

    def test_zoom_by_mouse_and_keyboard_and_link(self):
        self.open(self.page, "#flame")
        self.browser.click_at("canvas", 300, 30)
        outermost = self.detail()
        self.assertEqual(outermost, max(lib.report(self.profile, "tree")["rows"],
                                        key=lambda row: (row["level"] == 0, row["total"]))["symbol"])
        link = self.browser.run("return location.hash")
        self.assertRegex(link, r"zoom=\d+")
        self.open(self.page, link)
        self.assertEqual(self.detail(), outermost)
        self.browser.type("canvas", "\ue015")  # arrow down
        self.browser.type("canvas", "\ue00c")  # escape
        self.assertNotIn("zoom", self.browser.run("return location.hash"))

    def test_back_undoes_a_step(self):
        """Each zoom is a step; the letters of a search are none."""
        self.open(self.page, "#flame")
        self.browser.click_at("canvas", 300, 30)
        first = self.browser.run("return location.hash")
        self.browser.click_at("canvas", 300, 51)
        self.assertNotEqual(self.browser.run("return location.hash"), first)
        self.browser.type("main input[type=search]", "evaluate")
        self.browser.run("history.back()")
        self.browser.wait("return location.hash === arguments[0]", first)
        self.browser.wait("return document.querySelector('main input[type=search]').value === ''")
        self.browser.run("history.back()")
        self.browser.wait("return !location.hash.includes('zoom')")

    def test_columns_are_explained(self):
        self.open(self.page, "#functions")
        self.browser.click("details.help summary")
        self.assertIn("not in what it called", self.browser.texts("details.help[open] dd")[0])
        self.assertTrue(self.browser.run("return document.querySelector('th[data-column=total]').title"))

    def test_callers_first(self):
        row = max(self.functions["rows"], key=lambda row: row["self"])
        self.open(self.page, "#flame?order=up")
        self.browser.click_at("canvas", 5, 30)
        self.assertEqual(self.detail(), row["symbol"])
        self.assertIn(f" {row['self']:,} in total", self.browser.run("return document.querySelector('.metric').textContent"))
        self.shot("samples-flame-callers")

    def function_page(self, name):
        self.open(self.page, "#functions")
        self.browser.run("[...document.querySelectorAll('td a')].find(a => a.textContent === arguments[0]).click()", name)
        self.browser.wait("return document.querySelector('.function-name')")

    def test_function_with_callers_and_callees(self):
        self.function_page("work")
        rows = [row for row in lib.report(self.profile, "callgraph", "--min-share", "0")["rows"] if row["symbol"] == "work"]
        for relation, title in [("caller", "callers"), ("callee", "callees")]:
            wanted = {}
            for row in rows:
                if row["relation"] == relation:
                    wanted[row["other"]] = wanted.get(row["other"], 0) + row["total"]
            shown = self.browser.run("return [...document.querySelectorAll('[data-neighbours=' + arguments[0] + '] tbody tr')]"
                                     ".map(tr => [tr.cells[2].textContent, tr.cells[1].textContent])", title)
            self.assertEqual({name: number(count) for name, count in shown}, wanted)
        self.shot("samples-function")

    def test_code_with_samples_and_values(self):
        annotated = tool("annotate", "evaluate", "-i", self.profile, "--json")["rows"]
        self.function_page("evaluate")
        shown = self.browser.run("return [...document.querySelectorAll('[data-card=code] tbody tr:not(.source)')]"
                                 ".map(tr => [...tr.cells].map(td => td.textContent))")
        self.assertEqual([row[2] for row in shown], [row["text"] or "" for row in annotated])
        self.assertEqual(sum(number(row[0]) for row in shown if row[0]), sum(row["self"] or 0 for row in annotated))
        self.assertTrue(any("y * x + coefficient" in text for text in self.browser.texts(".source .code")))
        if lib.IS_ROOT:
            best = max((row for row in annotated if row["values"]), key=lambda row: row["values"][0]["share"])
            cell = shown[annotated.index(best)][3]
            self.assertIn(best["values"][0]["text"], cell)
            self.assertGreater(len(self.browser.texts("[data-card=args] .value")), 0)

    def test_parts_of_a_function_are_reached_from_its_head(self):
        annotated = tool("annotate", "evaluate", "-i", self.profile, "--json")["rows"]
        self.function_page("evaluate")
        parts = self.browser.texts(".contents button")
        self.assertIn("Code", parts)
        self.assertEqual(parts[-1], "Record more about it")
        self.browser.run("[...document.querySelectorAll('.contents button')].at(-1).click()")
        self.browser.settle()
        self.assertEqual(self.browser.run("return document.activeElement.parentNode.dataset.card"), "commands")
        self.browser.run("document.querySelector('button.hottest').click()")
        most = max(row["self"] or 0 for row in annotated)
        self.assertIn(self.browser.run("return document.activeElement.dataset.at"),
                      [f"{row['address']}" for row in annotated if row["self"] == most])

    def test_commands_that_record_more(self):
        self.function_page("evaluate")
        commands = self.browser.texts("[data-card=commands] pre")
        self.assertTrue(any("assay record --values -- " in text and "assay annotate evaluate" in text for text in commands))
        self.assertTrue(any("assay trace -- " in text for text in commands))
        self.assertTrue(any("assay count -m evaluate -- " in text for text in commands))

    def test_a_click_on_an_instruction_gives_commands(self):
        """The command that marks is run, and counts the instruction that was clicked."""
        self.function_page("evaluate")
        address, text = self.browser.run("const b = [...document.querySelectorAll('button.place')][2];"
                                         "b.click(); return [b.dataset.at, b.closest('tr').cells[2].textContent]")
        self.browser.settle()
        self.assertEqual(self.browser.run("return document.querySelector('tr.advice').previousSibling.cells[2].textContent"),
                         text)
        self.assertEqual(self.browser.run("return document.querySelectorAll('button.place[aria-expanded=true]').length"), 1)
        self.shot("samples-instruction")
        link = self.browser.run("return location.hash")
        self.assertIn(f"at={address}", link)
        self.open(self.page, link)
        commands = self.browser.texts("tr.advice pre")
        self.assertTrue(any("assay record --values=result,operands," in one for one in commands), commands)
        self.assertTrue(any("assay trace -- " in one for one in commands), commands)
        mark = next(shlex.split(one)[3] for one in commands if one.startswith("assay count -m "))
        path = lib.scratch("clicked.db")
        with lib.Program(lib.build("values_polynomial.c")) as program:
            run = subprocess.run([lib.ASSAY, "count", "-m", mark, "-o", path, "-p", str(program.pid), "--duration", "1"],
                                 capture_output=True, text=True, timeout=60)
        row = lib.report(path, "marks")["rows"][0]
        self.assertEqual(row["kind"], "instruction", run.stderr)
        self.assertGreater(row["visits"], 0, run.stderr)
        self.browser.click("button.place[aria-expanded=true]")
        self.assertEqual(self.browser.texts("tr.advice"), [])
        self.assertNotIn("at=", self.browser.run("return location.hash"))

    def test_everything_that_is_operated_has_a_name(self):
        """As a screen reader sees it: the tree of accessibility that Chromium makes of each view."""
        self.function_page("evaluate")
        views = self.browser.run("return [...document.querySelectorAll('nav a')].map(a => a.dataset.view)")
        links = ["#" + view for view in views] + [self.browser.run("return location.hash")]
        for link in links:
            self.open(self.page, link)
            nodes = [node for node in self.browser.cdp("Accessibility.getFullAXTree", {})["nodes"] if not node["ignored"]]
            roles = [node["role"]["value"] for node in nodes]
            for node in nodes:
                focusable = any(one["name"] == "focusable" and one["value"]["value"] for one in node.get("properties", []))
                if focusable and node["role"]["value"] not in ("RootWebArea", "main"):
                    self.assertTrue(node["name"]["value"].strip(), (link, node))
            for role in ("banner", "main", "navigation"):
                self.assertEqual(roles.count(role), 1, (link, role))
            self.assertEqual(self.browser.run("return document.querySelectorAll('h1').length"), 1, link)

    def test_timeline_selects_a_stretch(self):
        ticks = dict(sqlite3.connect(self.profile).execute("select second, sum(count) from tick group by second"))
        self.open(self.page, "#timeline")
        samples = "return Number(document.querySelector('main .card').dataset.samples)"
        self.assertEqual(self.browser.run(samples), sum(ticks.values()))
        self.open(self.page, "#timeline?from=0&to=1")
        self.assertEqual(self.browser.run(samples), ticks[min(ticks)])

    def test_small_and_dark(self):
        self.open(self.page, "#flame")
        light = self.browser.run("return getComputedStyle(document.body).backgroundColor")
        for view in ["flame", "functions", "timeline"]:
            self.browser.resize(400, 800)
            self.browser.theme("dark")
            self.browser.open(self.page, f"#{view}")
            self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 400, view)
            self.assertNotEqual(self.browser.run("return getComputedStyle(document.body).backgroundColor"), light)
            self.shot(f"small-{view}")
            # Losses stay in sight, however far down one is.
            top, bottom = self.browser.run("document.getElementById('app').style.minHeight = '4000px'; window.scrollTo(0, 2000);"
                                           "const box = document.getElementById('totals').getBoundingClientRect();"
                                           "return [box.top, box.bottom]")
            self.assertGreaterEqual(top, 0, view)
            self.assertLessEqual(bottom, 800, view)

    def test_nothing_is_loaded(self):
        self.open(self.page)
        self.assertEqual(self.browser.run("return performance.getEntriesByType('resource').map(one => one.name)"), [])
        with open(self.page, encoding="utf-8") as stream:
            text = stream.read()
        self.assertRegex(text, r"default-src 'none'; script-src 'sha256-[\w+/=]+'; style-src 'sha256-[\w+/=]+';")
        self.assertNotRegex(text, r"(src|href)\s*=\s*[\"']?(https?:)?//")

    def test_hostile_names(self):
        """A profile is a file from anywhere: whatever its names hold, they are text."""
        path = lib.scratch("hostile.db")
        with sqlite3.connect(self.profile) as source, sqlite3.connect(path) as target:
            source.backup(target)
            ids = [row[0] for row in target.execute("select id from symbol where id in (select symbol from frame) limit 6")]
            for symbol, name in zip(ids, HOSTILE):
                target.execute("update symbol set name = ?, linkage = null where id = ?", (name, symbol))
            if len(ids) > len(HOSTILE):
                target.execute("update symbol set name = cast(x'ff3c623ec0af' as text) where id = ?", (ids[-1],))
            target.execute("update thread set comm = ?", (HOSTILE[0],))
            target.execute("update fact set value = ? where key = 'command'", ("</title>" + HOSTILE[1],))
        page = html("-i", path, name="hostile")
        for view in ["flame", "threads", "callgraph", "about", "functions"]:
            self.open(page, f"#{view}")
            self.assertFalse(self.browser.run("return 'owned' in window || document.querySelectorAll('main img').length > 0"))
            self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 1280)
        names = " ".join(self.browser.texts("td"))
        self.assertIn(HOSTILE[0], names)
        self.assertNotIn("\u202e", names)
        self.shot("hostile-functions")


class Threads(Page):
    """By thread, and what changed from one profile to another."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        program = lib.build("threads.c")
        cls.older = lib.record("-F", "997", "--", lib.build("shares.c"), "1").path
        cls.newer = lib.record("-F", "997", "--", program, "0.5").path

    def test_flame_graph_of_one_thread(self):
        self.open(html("-i", self.newer, name="threads"), "#flame")
        rows = [row for row in lib.report(self.newer, "threads")["rows"] if row["self"]]
        self.assertGreater(len(rows), 1)
        choices = self.browser.texts("select option")
        self.assertEqual(len(choices), len(rows) + 1)
        self.browser.run("const s = document.querySelector('select'); s.selectedIndex = 1; s.dispatchEvent(new Event('change'))")
        self.assertIn(f" {rows[0]['self']:,} in total", self.browser.texts(".metric")[0])
        self.browser.run("history.back()")
        self.browser.wait("return document.querySelector('select').selectedIndex === 0")

    def test_a_thread_filters_every_view(self):
        page = html("-i", self.newer, name="threads")
        self.open(page, "#flame")
        threads = self.browser.run("return [...document.querySelectorAll('#thread option')].map(o => o.value)")[1:3]
        profile = lib.Profile(self.newer)
        for thread in threads:
            pid, tid = profile.rows("select pid, tid from thread join process on process.id = thread.process "
                                    f"where thread.id = {thread}")[0]
            arguments = ["--pid", str(pid), "--tid", str(tid)]
            self.check_tables_of_choice(page, self.newer, f"thread={thread}", arguments)
            self.open(page, f"#timeline?thread={thread}")
            self.assertEqual(self.browser.run("return [...document.querySelectorAll('.timeline-lane:not(.cpu):not([hidden])')]"
                                              ".map(lane => lane.dataset.thread)"), [thread])
            [row] = lib.report(self.newer, "threads", *arguments)["rows"]
            self.assertEqual(self.browser.run("return document.querySelector('main .card').dataset.samples"), str(row["self"]))
            self.open(page, f"#lines?thread={thread}")
            command = shlex.split(self.browser.texts("[data-note=whole] pre")[0])
            self.assertEqual(command[:3] + command[-4:], ["assay", "report", "lines", *arguments])
        self.browser.click("#all-threads")
        self.assertEqual(self.browser.texts("[data-note=whole]"), [])
        self.assertNotIn("thread", self.browser.run("return location.hash"))

    @unittest.skipUnless(lib.IS_ROOT, "the whole machine is recorded by root")
    def test_flame_graph_of_a_program(self):
        """All processes of it together, as assay report --comm has them."""
        shell = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"
        path = lib.record("-F", "1999", "--", "sh", "-c", f"{lib.build('shares.c')} 0.3; sh -c '{shell}'; sh -c '{shell}'").path
        samples = collections.Counter()
        for row in lib.report(path, "processes")["rows"]:
            samples[row["comm"]] += row["self"]
        self.open(html("-i", path, name="programs"), "#flame")
        choices = self.browser.run("return [...document.querySelectorAll('#program option')].map(o => o.value)")
        self.assertEqual(sorted(choices[1:]), sorted(name for name, count in samples.items() if count))
        self.browser.run("const s = document.querySelector('#program'); s.value = 'sh';"
                         "s.dispatchEvent(new Event('change'))")
        self.browser.settle()
        self.assertIn(f" {samples['sh']:,} in total", self.browser.texts(".metric")[0])
        link = self.browser.run("return location.hash")
        self.assertIn("program=sh", link)
        self.open(html("-i", path, name="programs"), link)
        self.assertIn(f" {samples['sh']:,} in total", self.browser.texts(".metric")[0])
        self.assertEqual(self.browser.run("return document.querySelector('#program').value"), "sh")
        self.browser.click("nav a[data-view=processes]")
        self.assertEqual(sum(number(text) for text in self.row_texts("self")), samples["sh"])

    def test_difference(self):
        page = html(self.older, self.newer, name="difference")
        answer = tool("diff", self.older, self.newer, "--json")
        self.open(page, "#difference")
        shown = self.row_texts("share_b")
        self.assertEqual([f"{row['share_b'] * 100:.2f}%" for row in answer["rows"][:150]], shown)
        self.open(page, "#flame")
        self.browser.type("main input[type=search]", "^main$")
        rows = {row["symbol"]: row for row in tool("diff", self.older, self.newer, "--total", "--json")["rows"]}
        self.browser.click_at("canvas", 300, 10)
        self.assertIn("0.00%", self.browser.texts(".metric")[-1])
        self.assertIn(f"{rows['main']['share_b'] * 100:.2f}%", self.browser.texts(".matched")[0])
        self.shot("difference-flame")


class Time(Page):
    """A program that does one thing and then another."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.profile = lib.record("-F", "997", "--", lib.build("halves.c"), "2.5").path
        cls.page = html("-i", cls.profile, name="halves")

    def test_moments_are_the_samples(self):
        profile = lib.Profile(self.profile)
        for moments, others in [("select thread, stack, sum(count), sum(kernel) from moment group by thread, stack",
                                 "select thread, stack, count, kernel from sample"),
                                ("select second, sum(count) from moment group by second",
                                 "select second, sum(count) from tick group by second")]:
            self.assertEqual(sorted(map(tuple, profile.rows(moments))), sorted(map(tuple, profile.rows(others))))
        if lib.IS_ROOT:
            self.assertEqual(profile.value("select sum(count) from cpu_tick"), profile.seen)

    @unittest.skipUnless(lib.IS_ROOT, "processors are counted by root")
    def test_a_late_recorder_is_no_idle_processor(self):
        """It is stopped for two whole seconds, in which the kernel goes on counting."""
        path = lib.scratch("late.db")
        with lib.Program(lib.build("values_polynomial.c")) as program:
            with lib.Recording("-F", "997", "-p", str(program.pid), output=path) as recording:
                recording.wait_begun()
                lib.wait_until(lambda: sqlite3.connect(path).execute("select count(*) from cpu_tick").fetchone()[0])
                recording.process.send_signal(signal.SIGSTOP)
                time.sleep(3.2)
                recording.process.send_signal(signal.SIGCONT)
                time.sleep(1)
                recording.stop()
        ticks = dict(sqlite3.connect(path).execute("select second, sum(count) from cpu_tick group by second"))
        self.assertEqual(sorted(ticks), list(range(min(ticks), max(ticks) + 1)))
        self.assertEqual(sum(ticks.values()), lib.Profile(path).seen)

    def names(self, *arguments):
        return {row["symbol"] for row in lib.report(self.profile, "functions", *arguments)["rows"]}

    def seconds_of(self, name):
        """The seconds in which the function was on a stack, straight from the tables."""
        profile = lib.Profile(self.profile)
        nodes = {row[0]: (row[1], row[2]) for row in profile.rows("select id, parent, location from stack")}

        def is_on(stack):
            while stack:
                stack, location = nodes[stack]
                if name in profile.frames[location].names:
                    return True
            return False
        return {row[0] for row in profile.rows("select second, stack from moment") if is_on(row[1])}

    def test_reports_of_a_stretch(self):
        turn, last = min(self.seconds_of("late")), max(self.seconds_of("early"))
        self.assertIn("early", self.names("--to", str(turn)))
        self.assertNotIn("late", self.names("--to", str(turn)))
        self.assertIn("late", self.names("--from", str(last + 1)))
        self.assertNotIn("early", self.names("--from", str(last + 1)))
        whole, first, rest = [lib.report(self.profile, "functions", *arguments)["totals"]["selected"]
                              for arguments in ([], ["--to", str(turn)], ["--from", str(turn)])]
        self.assertEqual(whole, first + rest)
        run = subprocess.run([lib.ASSAY, "report", "-i", self.profile, "--from", "3", "--to", "2"], capture_output=True,
                             text=True, timeout=60)
        self.assertEqual(run.returncode, 2, run.stderr)

    def test_a_stretch_filters_every_view(self):
        first = min(row[0] for row in lib.Profile(self.profile).rows("select second from tick"))
        arguments = ["--from", str(first), "--to", str(first + 2)]
        answer = self.check_tables_of_choice(self.page, self.profile, "from=0&to=2", arguments)
        self.open(self.page, "#flame?from=0&to=2")
        self.assertIn(f" {answer['totals']['selected']:,} in total", self.browser.texts(".metric")[0])
        self.browser.type("main input[type=search]", "^late$")
        self.assertEqual(self.browser.run("return document.querySelector('.matched').dataset.samples"), "0")
        self.open(self.page, "#lines?from=0&to=2")
        self.assertEqual(len(self.browser.texts("[data-note=whole]")), 1)
        command = shlex.split(self.browser.texts("[data-note=whole] pre")[0])
        self.assertEqual(command[:3] + command[-4:], ["assay", "report", "lines", *arguments])
        self.browser.click("#all-time")
        self.assertEqual(self.browser.texts("[data-note=whole]"), [])

    def test_dragging_on_the_timeline_chooses(self):
        self.open(self.page, "#timeline")
        left, top, width = self.browser.run("const box = document.querySelector('.timeline-lanes').getBoundingClientRect();"
                                            "return [box.left, box.top, box.width]")
        self.browser.pointer([("pointerMove", left + 2, top + 5), ("pointerDown",),
                              ("pointerMove", left + width * 0.3, top + 5), ("pointerUp",)])
        self.assertRegex(self.browser.run("return location.hash"), r"to=\d")
        self.browser.click("nav a[data-view=flame]")
        self.assertRegex(self.browser.texts(".flame-name")[0], r"^seconds 0 to \d: [\d,]+ samples")
        self.shot("time-flame")
        if lib.IS_ROOT:
            self.open(self.page, "#timeline")
            lanes = self.browser.run("return [...document.querySelectorAll('.timeline-lane.cpu')].map(e => e.dataset.samples)")
            self.assertEqual(sum(map(int, lanes)), lib.Profile(self.profile).seen)
            self.shot("time-timeline")


class Executed(Page):
    """A trace: no samples, but everything that was executed."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.profile = lib.scratch("trace.db")
        subprocess.run([lib.ASSAY, "trace", "-o", cls.profile, "--", lib.build("functions.c")], capture_output=True,
                       timeout=300)
        cls.page = html("-i", cls.profile, name="trace")

    def test_views_of_executed_code(self):
        self.open(self.page)
        views = self.browser.run("return [...document.querySelectorAll('nav a')].map(a => a.dataset.view)")
        self.assertLessEqual({"functions", "paths", "strata", "layers", "phases", "transfers", "mix"}, set(views))
        self.assertNotIn("flame", views)
        for view in views:
            self.browser.click(f"nav a[data-view={view}]")
            self.shot(f"trace-{view}")

    def test_functions_are_those_of_the_report(self):
        answer = lib.report(self.profile, "functions")
        self.open(self.page, "#functions")
        self.assertEqual([number(text) for text in self.row_texts("instructions")],
                         [row["instructions"] for row in answer["rows"][:150]])
        shown = self.browser.run("return document.getElementById('totals').dataset.seen")
        self.assertEqual(int(shown), answer["totals"]["seen"])

    def test_phases_are_bands(self):
        rows = lib.report(self.profile, "phases")["rows"]
        self.open(self.page, "#phases")
        self.assertEqual(len(self.browser.texts(".phase")), len({(row["tid"], row["begin"]) for row in rows}))


# Version 47 of the processed format of the Firefox Profiler, as its changelog and types document it: the columns of each
# table, and what those that are numbers of rows are of.
FIREFOX_TABLES = {
    "samples": {"stack": "stackTable", "time": None, "weight": None},
    "stackTable": {"frame": "frameTable", "prefix": "stackTable", "category": None, "subcategory": None},
    "frameTable": {"func": "funcTable", "address": None, "inlineDepth": None, "category": None, "subcategory": None,
                   "nativeSymbol": "nativeSymbols", "innerWindowID": None, "implementation": "strings", "line": None,
                   "column": None},
    "funcTable": {"name": "strings", "isJS": None, "relevantForJS": None, "resource": "resourceTable",
                  "fileName": "strings", "lineNumber": None, "columnNumber": None},
    "resourceTable": {"lib": "libs", "name": "strings", "host": "strings", "type": None},
    "nativeSymbols": {"libIndex": "libs", "address": None, "name": "strings", "functionSize": None},
    "markers": {"data": None, "name": "strings", "startTime": None, "endTime": None, "phase": None, "category": None},
}


class Exports(unittest.TestCase):
    """Formats of others, read by others or checked against what they document."""

    @classmethod
    def setUpClass(cls):
        cls.profile = lib.record("-F", "1999", "--", lib.build("shares.c"), "1").path
        cls.functions = lib.report(cls.profile, "functions")

    def export(self, name):
        run = subprocess.run([lib.ASSAY, "export", name, "-i", self.profile], capture_output=True, text=True, timeout=60)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def test_speedscope(self):
        data = json.loads(self.export("speedscope"))
        self.assertEqual(data["$schema"], "https://www.speedscope.app/file-format-schema.json")
        frames, total, selfs = data["shared"]["frames"], 0, {}
        for profile in data["profiles"]:
            self.assertEqual((profile["type"], profile["unit"], profile["startValue"]), ("sampled", "none", 0))
            self.assertEqual(len(profile["samples"]), len(profile["weights"]))
            self.assertEqual(profile["endValue"], sum(profile["weights"]))
            total += profile["endValue"]
            for stack, weight in zip(profile["samples"], profile["weights"]):
                self.assertTrue(all(0 <= index < len(frames) for index in stack))
                leaf = frames[stack[-1]]["name"]
                selfs[leaf] = selfs.get(leaf, 0) + weight
        self.assertEqual(total, self.functions["totals"]["seen"])
        for row in self.functions["rows"][:3]:
            self.assertEqual(selfs[row["symbol"]], row["self"])

    def test_firefox(self):
        """Every table has its columns, of its length, and numbers that are within the tables they are of."""
        data = json.loads(self.export("firefox"))
        self.assertEqual(data["meta"]["preprocessedProfileVersion"], 47)
        total, selfs = 0, {}
        for thread in data["threads"]:
            for name, columns in FIREFOX_TABLES.items():
                table = thread[name]
                self.assertLessEqual(set(columns), set(table), name)
                for column, values in table.items():
                    if isinstance(values, list):
                        self.assertEqual(len(values), table["length"], (name, column))
                for column, target in columns.items():
                    size = len(thread["stringArray"]) if target == "strings" else len(data["libs"]) if target == "libs" else \
                        thread[target]["length"] if target else None
                    if size is not None:
                        self.assertTrue(all(value is None or -1 <= value < size for value in table[column]), (name, column))
            self.assertIsInstance(thread["pid"], str)
            stacks, samples = thread["stackTable"], thread["samples"]
            self.assertTrue(all(prefix is None or prefix < i for i, prefix in enumerate(stacks["prefix"])))
            self.assertEqual(samples["time"], sorted(samples["time"]))
            for stack, weight in zip(samples["stack"], samples["weight"]):
                function = thread["frameTable"]["func"][stacks["frame"][stack]]
                leaf = thread["stringArray"][thread["funcTable"]["name"][function]]
                selfs[leaf] = selfs.get(leaf, 0) + weight
                total += weight
        self.assertEqual(total, self.functions["totals"]["seen"])
        for row in self.functions["rows"][:3]:
            self.assertEqual(selfs[row["symbol"]], row["self"])

    def test_callgrind(self):
        path = lib.scratch("callgrind.out")
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(self.export("callgrind"))
        run = subprocess.run(["callgrind_annotate", "--threshold=100", "--inclusive=yes", "--auto=no", path],
                             capture_output=True, text=True, timeout=60)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, rf"{self.functions['totals']['seen']:,} \(100\.0%\)\s+PROGRAM TOTALS")
        inclusive = {name: number(count) for count, name in
                     re.findall(r"^\s*([\d,]+) \([^)]*\)\s+\S*?:(\w+)(?: \[|$)", run.stdout, re.MULTILINE)}
        for row in self.functions["rows"]:
            if row["symbol"] in ("main", "forty", "ten"):
                self.assertEqual(inclusive[row["symbol"]], row["total"])
        self.assertIn("main", inclusive)


if __name__ == "__main__":
    lib.main()
