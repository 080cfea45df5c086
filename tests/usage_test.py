#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: S3.
"""Exit codes, refusals, help, manual pages and completion, from outside.

    usage_test.py ASSAY FIXTURE_WRITE [TEST...]

Oracles: the manual pages, and the shells themselves.
"""

import os
import re
import shutil
import subprocess
import sys
import unittest

from view_lib import ASSAY, MAN, SCRATCH, environment, profile, rows, run, text


class Usage(unittest.TestCase):
    COMMANDS = ["report", "annotate", "diff", "export"]

    def commands(self):
        """All that the overview lists."""
        return re.findall(r"(?m)^  ([a-z]+) +\S", text("help").split("\n\n")[1])

    def test_exit_codes(self):
        demo = profile("demo")
        run(code=2)
        run("repotr", code=2)
        run("report", "nonsense", "-i", demo, code=2)
        run("report", "functions", "lines", "-i", demo, code=2)
        run("report", "--nonsense", code=2)
        run("report", "--limit", code=2)
        run("report", "--limit", "0", "-i", demo, code=2)
        run("report", "--limit", "x", "-i", demo, code=2)
        run("report", "--pid", "1,x", "-i", demo, code=2)
        run("report", "--min-share", "7", "-i", demo, code=2)
        run("report", "--sort", "nonsense", "-i", demo, code=2)
        run("report", "tree", "--sort", "self", "-i", demo, code=2)
        run("report", "--color", "red", "-i", demo, code=2)
        run("annotate", "-i", demo, code=2)
        run("annotate", "--symbol", "fib", "-i", demo, code=2)
        run("diff", demo, code=2)
        run("diff", "-i", demo, demo, demo, code=2)
        run("export", code=2)
        run("export", "nonsense", "-i", demo, code=2)
        run("help", "nonsense", code=2)

    def test_suggestions(self):
        self.assertIn("did you mean 'report'", run("repotr", code=2).stderr.decode())
        self.assertNotIn("did you mean", run("xyzzy", code=2).stderr.decode())
        self.assertIn("total_share", run("report", "--sort", "x", "-i", profile("demo"),
                                         code=2).stderr.decode())

    def test_help(self):
        self.assertRegex(text("--version"), r"^assay \d+\.\d+")
        for args in ["help"], ["--help"]:
            for command in self.COMMANDS:
                self.assertIn(command, text(*args))
        for command in self.commands():
            self.assertLessEqual(max(map(len, text("help", command).splitlines())), 90, command)
        for command in self.COMMANDS:
            self.assertEqual(text("help", command), text(command, "--help"))
            self.assertIn(f"usage: assay {command}", text("help", command))

    def manual(self, command):
        with open(os.path.join(MAN, command + ".1"), encoding="utf-8") as stream:
            return stream.read()

    def test_manual(self):
        commands = self.commands()
        self.assertIn("completion", commands)
        for command in ["assay"] + ["assay-" + command for command in commands]:
            lint = subprocess.run(["mandoc", "-Tlint", "-Wwarning", os.path.join(MAN, command + ".1")],
                                  capture_output=True, text=True)
            self.assertEqual(lint.stdout, "")
        for command in commands:
            for option in re.findall(r"--[a-z-]+", text("help", command)):
                self.assertRegex(self.manual("assay-" + command), r"\bFl -" + option[2:] + r"\b", command)
            self.assertIn(f".Xr assay-{command} 1", self.manual("assay"))
            self.assertIn(f".It Cm {command}\n", self.manual("assay"))

    def test_manual_has_all_views(self):
        listed = re.findall(r"(?m)^  ([a-z]+) +\S", text("help", "report").split("What to show")[0])
        self.assertGreater(len(listed), 20)
        described = re.findall(r"[a-z]+", " ".join(re.findall(r"(?m)^\.It Cm (.*)$", self.manual("assay-report"))))
        self.assertEqual([view for view in listed if view not in described], [])


class Options(unittest.TestCase):
    """Every option has one row; what follows from it is seen here from outside."""

    def refused(self, *args):
        return run(*args, code=2).stderr.decode().strip()

    def test_one_form_of_refusal(self):
        self.assertEqual(self.refused("report", "--limit", "many"),
                         "assay: --limit many: takes a whole number from 1 on; see 'assay help report'")
        self.assertEqual(self.refused("report", "--bottom-up"),
                         "assay: --bottom-up: the view functions does not take it; it is for tree; "
                         "see 'assay help report'")
        self.assertEqual(self.refused("export", "lcov", "--symbol", "x"),
                         "assay: --symbol: the format lcov does not take it; it is for collapsed, pprof, speedscope, "
                         "firefox and callgrind; see 'assay help export'")
        self.assertIn("--no-comm: the format pprof does not take it; it is for collapsed",
                      self.refused("export", "pprof", "--no-comm", "-o", "x"))
        self.assertIn("--width: changes nothing without --format text", self.refused("report", "--width", "9", "--json"))
        self.assertIn("did you mean --symbol?", self.refused("report", "--symbl", "x"))

    def test_a_request_is_a_view(self):
        demo = profile("demo")
        self.assertEqual(text("report", "functions?symbol=fib&limit=1", "-i", demo, "--json"),
                         text("report", "functions", "--symbol", "fib", "--limit", "1", "-i", demo, "--json"))
        self.assertEqual(text("report", "tree?bottom-up&json", "-i", demo),
                         text("report", "tree", "--bottom-up", "--json", "-i", demo))
        self.assertIn("output: there is no such option of a request",
                      self.refused("report", "functions?output=x", "-i", demo))

    def test_what_a_profile_lacks_is_said(self):
        for view, command in (("paths", "assay trace -- COMMAND"), ("mix", "assay trace --tool count -- COMMAND"),
                              ("coverage", "assay trace --tool coverage -- COMMAND"),
                              ("args", "assay record --values -- COMMAND"),
                              ("functions?metric=blocks", "assay trace --tool count -- COMMAND")):
            failed = run("report", view, "-i", profile("demo"), code=1)
            self.assertIn(f"'{command}' records", failed.stderr.decode(), view)

    def test_a_full_disk_is_an_error(self):
        for args in ([], ["help"], ["--version"], ["help", "report"], ["report", "--help"], ["completion", "bash"]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([ASSAY, *args], stdout=full, stderr=subprocess.PIPE, env=environment())
            self.assertEqual(done.returncode, 1 if args else 2, args)

    def test_where_to_begin(self):
        said = run(code=2).stderr.decode()
        self.assertIn("Where to begin:\n  assay record -- COMMAND", said)


class Completion(unittest.TestCase):
    def script(self, shell):
        path = os.path.join(SCRATCH.name, "completion." + shell)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text("completion", shell))
        return path

    def bash(self, *words):
        line = " ".join(f"'{word}'" for word in words)
        done = subprocess.run(["bash", "-c", f"source {self.script('bash')}; COMP_WORDS=({line}); "
                               f"COMP_CWORD={len(words) - 1}; _assay; printf '%s\\n' \"${{COMPREPLY[@]}}\""],
                              capture_output=True, text=True, check=True, cwd=SCRATCH.name)
        return done.stdout.split("\n")[:-1]

    def test_bash(self):
        self.assertEqual(self.bash("assay", "re"), ["record", "report"])
        self.assertEqual(self.bash("assay", "help", "an"), ["annotate"])
        self.assertEqual(self.bash("assay", "report", "tr"), ["tree", "transfers"])
        self.assertEqual(self.bash("assay", "report", "--bo"), ["--bottom-up"])
        self.assertEqual(self.bash("assay", "report", "--metric", "b"), ["blocks"])
        self.assertEqual(self.bash("assay", "export", "p"), ["pprof", "prometheus"])
        self.assertEqual(self.bash("assay", "record", "--freq", "-"), [""])
        with open(os.path.join(SCRATCH.name, "a profile.db"), "w", encoding="utf-8"):
            self.assertEqual(self.bash("assay", "report", "-i", "a p"), ["a profile.db"])

    def test_bash_has_every_option(self):
        for command in re.findall(r"(?m)^  ([a-z]+) +\S", text("help").split("\n\n")[1]):
            listed = re.findall(r"(?m)^  (?:-., |    )(--[a-z-]+)", text("help", command))
            self.assertIn("--help", listed)
            self.assertEqual(self.bash("assay", command, "--"), listed)

    @unittest.skipUnless(shutil.which("fish"), "no fish")
    def test_fish(self):
        def fish(line):
            done = subprocess.run(["fish", "-c", f"source {self.script('fish')}; complete -C '{line}'"],
                                  capture_output=True, text=True, check=True,
                                  env=environment(HOME=SCRATCH.name))
            return [answer.split("\t")[0] for answer in done.stdout.splitlines()]
        self.assertEqual(fish("assay rep"), ["report"])
        self.assertEqual(fish("assay report tree --bott"), ["--bottom-up"])
        self.assertEqual(fish("assay report --metric "), ["allocated", "auto", "blocks", "calls", "instructions", "samples"])
        self.assertIn("mix", fish("assay report m"))

    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_zsh(self):
        path = self.script("zsh")
        subprocess.run(["zsh", "-n", path], check=True)
        with open(path, encoding="utf-8") as stream:
            script = stream.read()
        self.assertTrue(script.startswith("#compdef assay\n"))
        self.assertIn("'*--metric=[Choose what rows are measured by]:METRIC:(auto samples instructions blocks calls allocated)'", script)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
