#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: V18, W7, T5, S3, S10.
"""Every view of profiles of a real program, as a person meets it: no line is wider than the terminal, the first column
is the one that rows are sorted by, --limit limits, and an empty answer has a reason."""

import re
import subprocess
import unittest

import lib

WIDTHS = (80, 100)
# How many lines --limit 2 may give: what it counts has several rows in some views.
LINES_OF_TWO = {"paths": 2 * 13, "timeline": 2 * 6, "strata": 2 * 13, "phases": 2 * 4, "callgraph": 60, "args": 2 * 7,
                "blocks": 2 * 128, "executed": 2 * 13}
NOTHING_AT_ALL = {"accesses": "no data that is marked was read or written", "events": "nothing raised an event",
                  "tail": "no visits were kept: mark a routine with ,tail"}
SORTED = {"functions", "lines", "modules", "processes", "threads", "cpus", "waits", "coverage", "mix", "invariants",
          "values", "marks"}
VIEWS = subprocess.run([lib.ASSAY, "help", "report"], capture_output=True, text=True, check=True).stdout
VIEWS = re.findall(r"^  ([a-z]+) {2,}\S", VIEWS, re.MULTILINE)


def run(*arguments, code=0):
    done = subprocess.run([lib.ASSAY, *arguments], capture_output=True, text=True, timeout=60,
                          env={**lib.os.environ, "LC_ALL": "C.UTF-8"})
    assert code is None or done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done


def number(cell):
    return float(cell.replace(",", "").rstrip("%"))


class Reports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        program = lib.build("coverage.c")
        cls.profiles = {}
        for name, *command in (("paths", "trace"), ("coverage", "trace", "--tool", "coverage"), ("calls", "calls"),
                               ("marks", "count", "-m", "main", "-m", "insn:lock*")):
            path = lib.scratch(name + ".db")
            run(*command, "-o", path, "--", program)
            cls.profiles[name] = path
        values = ["--values", "--off-cpu"] if lib.IS_ROOT else []
        script = "sum(len(str(i)) * hash(str(i % 7)) for i in range(700000))"
        cls.profiles["samples"] = lib.record("-F", "1999", *values, "--", lib.PYTHON, "-c", script).path

        cls.tables = []  # (profile, view, its arguments, the table) of all that can be shown
        for name, path in cls.profiles.items():
            for view in VIEWS:
                arguments = ["report", view, "-i", path, "--no-pager", *(["--path", "3"] if view == "at" else [])]
                done = run(*arguments, code=None)
                if done.returncode == 0:
                    cls.tables.append((name, view, arguments, done.stdout))

    def test_lines_fit(self):
        for name, view, arguments, _ in self.tables:
            for width in WIDTHS:
                with self.subTest(profile=name, view=view):
                    for line in run(*arguments, "--width", str(width)).stdout.splitlines():
                        self.assertLessEqual(len(line), width, line)

    def test_names_are_read_on_a_phone(self):
        """At 40 columns numbers that can be had elsewhere make room for names, and the footer says which."""
        for view in ("functions", "lines", "tree", "callgraph"):
            done = run("report", view, "-i", self.profiles["samples"], "--no-pager", "--limit", "3", "--width", "40")
            with self.subTest(view=view):
                header = done.stdout.splitlines()[0]
                self.assertLessEqual(header.index("Function"), 26, done.stdout)
                self.assertIn("too narrow for the columns", done.stdout)
                self.assertLessEqual(max(map(len, done.stdout.splitlines())), 40, done.stdout)

    def test_limit_limits(self):
        for name, view, arguments, _ in self.tables:
            with self.subTest(profile=name, view=view):
                limited = run(*arguments, "--limit", "2").stdout
                table = limited.split("\nseen ")[0].splitlines()
                self.assertLessEqual(len(table), LINES_OF_TWO.get(view, 2) + 4, limited)

    def test_sorted_by_the_first_column(self):
        for name, view, _, table in self.tables:
            with self.subTest(profile=name, view=view):
                body = table.split("\n\n")[0].splitlines()[1:]
                if view in SORTED and not body[0].endswith("."):
                    first = [number(re.match(r" *(\S+)", line)[1]) for line in body]
                    self.assertEqual(first, sorted(first, reverse=True))

    def test_every_view_was_seen(self):
        absent = set(VIEWS) - {view for _, view, _, _ in self.tables}
        roots = {"cpus", "waits", "invariants", "args", "blocks", "values", "runs"}
        self.assertLessEqual(absent, set() if lib.IS_ROOT else roots)

    def test_nothing_has_a_reason(self):
        refused = "does not take it|no thread that is selected|not kept by process|leave out --symbol and --module"
        for name, view, arguments, _ in self.tables:
            for option, wish in (("--pid", "1"), ("--module", "nosuch"), ("--symbol", "nosuch")):
                if view == "marks" or name == "coverage":
                    continue  # a mark that nobody has visited is an answer; coverage has the views of paths
                done = run(*arguments, option, wish, code=None)
                with self.subTest(profile=name, view=view, option=option):
                    if done.returncode:
                        self.assertRegex(done.stderr, refused)
                    elif (view, name) == ("coverage", "paths"):
                        self.assertIn("--tool coverage", done.stdout)
                    elif view in NOTHING_AT_ALL:
                        self.assertIn(NOTHING_AT_ALL[view], done.stdout)
                    else:
                        self.assertRegex(done.stdout, f"(matches|what) {option}")

    def test_no_sample_has_a_reason(self):
        """A command that is over before the first sample."""
        cases = [(("-F", "1"), "functions", "less of a CPU than the 1000.0 ms between two samples")]
        if lib.IS_ROOT:
            cases += [(("-F", "1", "--values"), "args", "less of a CPU than the 1000.0 ms"),
                      (("-e", "page-faults", "-c", "1000000000"), "functions", "too few page-faults"),
                      (("-e", "major-faults"), "functions", "there were no major-faults; record longer."),
                      (("-F", "4999", "--values", "--run-every", "1048576"), "values", "with --run-every 1.")]
        for options, view, reason in cases:
            with self.subTest(options=options):
                runs = "--run-every" in options
                recorded = lib.record(*options, "--", *([lib.build("shares.c"), "0.05"] if runs else ["true"]))
                if not runs:
                    self.assertIn("no sample was taken: ", recorded.err)
                self.assertIn(reason, run("report", view, "-i", recorded.path).stdout)

    def test_a_lack_says_what_there_is(self):
        lacking = run("report", "args", "-i", self.profiles["marks"], code=1).stderr
        self.assertIn("has no values; 'assay record --values -- COMMAND' records them", lacking)
        self.assertIn("It has marks ('assay report marks')", lacking)
        # Who names no view gets one that the profile can show.
        self.assertIn("insn:lock*", run("report", "-i", self.profiles["marks"]).stdout)

    def test_a_summary_that_cannot_be_written(self):
        failed = run("trace", "--summary", "/nosuch/file", "-o", lib.scratch("summary.db"), "--", "true", code=1)
        self.assertIn("/nosuch/file: cannot write the summary", failed.stderr)
        self.assertIn("with --summary", failed.stderr)

    def test_output_that_cannot_be_written(self):
        """The reason is told whether the first or the last bytes fail; a reader who has enough is no failure."""
        for command in ("report", "report values --json" if lib.IS_ROOT else "report tree --json", "html -o -", "doctor"):
            profile = "" if command == "doctor" else " -i " + self.profiles["samples"]
            for target, code, reason in ((">/dev/full", 1, "No space left on device"), (">&-", 1, "Bad file descriptor"),
                                         ("| head -c 10", 0, "")):
                with self.subTest(command=command, target=target):
                    done = subprocess.run(["bash", "-c", f"set -o pipefail; {lib.ASSAY} {command}{profile} {target}"],
                                          capture_output=True, text=True)
                    self.assertIn(reason, done.stderr)
                    if command != "doctor" or target != "| head -c 10":
                        self.assertEqual(done.returncode, code, done.stderr)


if __name__ == "__main__":
    lib.main()
