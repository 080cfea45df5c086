#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: S3, S4.
"""What is only there on a terminal: signs of life of record and trace, assay report --tui, assay top. tmux is the
terminal, so that what is tested is what a person would see."""

import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import time
import unittest

import lib


class Terminal:
    """A command on a terminal of tmux, with a server of its own."""

    def __init__(self, command, width=120, height=30):
        self.socket = lib.scratch(f"tmux-{time.monotonic_ns()}")
        environment = "LC_ALL=C.UTF-8 TERM=screen-256color"
        # What the command has left on the screen can still be read after its end.
        script = f"{environment} {shlex.join(command)}; echo ended with $?; read line"
        self.tmux("new-session", "-d", "-x", str(width), "-y", str(height), script)

    def tmux(self, *arguments):
        run = subprocess.run(["tmux", "-S", self.socket, "-f", "/dev/null", *arguments], capture_output=True, text=True,
                             timeout=60)
        assert run.returncode == 0, (run.args, run.stderr)
        return run.stdout

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], capture_output=True)

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def wait(self, pattern):
        """Until the screen has it; returns the screen."""
        found = []

        def look():
            found.append(self.screen())
            return re.search(pattern, found[-1], re.MULTILINE)
        try:
            lib.wait_until(look)
        except AssertionError:
            raise AssertionError(f"{pattern} is not on the screen:\n{found[-1]}") from None
        return found[-1]


def line_with(screen, text):
    """The line that has the text, not as a part of a longer name."""
    return next(line for line in screen.splitlines() if re.search(rf"(?<!\w){re.escape(text)}(?!\w)", line))


class OnTerminal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("tmux"):
            raise unittest.SkipTest("tmux is not installed")


class Tui(OnTerminal):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        values = ["--values", "--run-every", "2"] if lib.IS_ROOT else []
        with lib.Program(lib.build("values_polynomial.c")) as program:
            cls.profile = lib.record("-F", "1999", *values, "--duration", "2", "-p", str(program.pid)).path
        cls.functions = lib.report(cls.profile, "functions")["rows"]

    def open(self, *arguments):
        return Terminal([lib.ASSAY, "report", "--tui", "-i", self.profile, *arguments])

    def test_tables_are_those_of_the_report(self):
        with self.open() as terminal:
            screen = terminal.wait(r"^\s*Self\s+Self%")
            for row in self.functions[:3]:
                self.assertIn(f"{row['self']:,}", line_with(screen, row["symbol"]))
            totals = lib.report(self.profile, "functions")["totals"]
            terminal.wait(rf"seen {totals['seen']:,} = kept {totals['kept']:,} \+ lost [\d,]+\s*$")
            terminal.keys("Tab")
            terminal.wait(r": lines, ")
            terminal.keys("BTab", "BTab")
            terminal.wait(r"^(?!.*: functions,).*: \w+, ")
            terminal.keys("q")
            terminal.wait("ended with 0")

    def test_callers_and_code(self):
        graph = lib.report(self.profile, "callgraph", "--min-share", "0")["rows"]
        busiest = self.functions[0]["symbol"]
        caller = next(row for row in graph if row["symbol"] == busiest and row["relation"] == "caller")
        with self.open() as terminal:
            terminal.wait(r"^\s*Self\s+Self%")
            terminal.keys("Enter")
            self.assertIn(f"{caller['total']:,}", line_with(terminal.wait("called by"), f"called by {caller['other']}"))
            # Below the caller, who calls that.
            above = next(row for row in graph if row["symbol"] == caller["other"] and row["relation"] == "caller"
                         and row["other"])
            terminal.keys("Down", "Enter")
            line = line_with(terminal.wait(rf"called by {re.escape(above['other'])}\b"), f"called by {above['other']}")
            self.assertIn(f"{above['total']:,}", line)
            terminal.keys("Up", "Enter")
            lib.wait_until(lambda: "called by" not in terminal.screen())
            terminal.keys("a")
            screen = terminal.wait(f"code of {re.escape(busiest)}")
            self.assertRegex(screen, r"0x[0-9a-f]+ ")
            if lib.IS_ROOT:
                terminal.keys("End")
                terminal.keys("Home")
                self.assertIn("Value profile", screen)
            terminal.keys("q")
            terminal.wait(r"functions, ")

    def test_code_that_was_executed(self):
        path = lib.scratch("executed.db")
        subprocess.run([lib.ASSAY, "trace", "-q", "-o", path, "--", lib.build("course.c", "-O1")], check=True,
                       stdout=subprocess.DEVNULL, timeout=120)
        busiest = lib.report(path, "functions")["rows"][0]["symbol"]
        run = subprocess.run([lib.ASSAY, "annotate", busiest, "-i", path, "--json"], capture_output=True, text=True, timeout=60)
        most = max(row["executed"] for row in json.loads(run.stdout)["rows"])
        with Terminal([lib.ASSAY, "report", "--tui", "-i", path]) as terminal:
            terminal.wait(r": functions, ")
            terminal.keys("a")
            terminal.wait(f"code of {re.escape(busiest)}")
            terminal.wait(rf"(?<![\d,]){most:,}(?![\d,])")
            terminal.keys("q")
            terminal.wait(r": functions, ")
            caller = next(row for row in lib.report(path, "callgraph", "--min-share", "0")["rows"]
                          if row["symbol"] == busiest and row["relation"] == "caller")
            terminal.keys("Enter")
            terminal.wait(rf"{caller['total']:,}  called by {re.escape(caller['other'])}(?!\w)")

    def test_search_and_help(self):
        with self.open() as terminal:
            terminal.wait(r"^\s*Self\s+Self%")
            terminal.keys("/", "evaluate", "Enter")
            # The rows may come to the screen a moment after the title.
            terminal.wait(r"\A(?![\s\S]*\bmain\b)[\s\S]*\(only evaluate\)")
            terminal.keys("h")
            terminal.wait("Any key goes back")
            terminal.keys("x")
            terminal.wait(r"\(only evaluate\)")
            terminal.keys("C-c")
            terminal.wait("ended with 0")

    def test_without_a_terminal(self):
        run = subprocess.run([lib.ASSAY, "report", "--tui", "-i", self.profile], stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, timeout=60)
        self.assertEqual(run.returncode, 1)
        self.assertIn("terminal", run.stderr)
        run = subprocess.run([lib.ASSAY, "report", "--tui", "--limit", "3", "-i", self.profile], capture_output=True,
                             text=True, timeout=60)
        self.assertEqual(run.returncode, 2)


class Top(OnTerminal):
    def test_what_runs_comes_first_and_nothing_is_left(self):
        folder = lib.scratch("top")
        os.makedirs(folder, exist_ok=True)
        with lib.Program(lib.build("halves.c"), "1000") as program, \
                Terminal(["env", f"TMPDIR={folder}", lib.ASSAY, "top", "--window", "2", "-p", str(program.pid)]) as terminal:
            terminal.wait(r"^.*\bearly\b")
            os.kill(program.pid, signal.SIGUSR1)
            terminal.wait(r"^.*\blate\b")
            lib.wait_until(lambda: not re.search(r"\bearly\b", terminal.screen()))
            terminal.keys("Tab")
            terminal.wait(": lines|: modules|: processes")
            terminal.keys("q")
            terminal.wait("ended with 0")
        self.assertEqual(os.listdir(folder), [])

    def test_what_cannot_be_recorded_is_said(self):
        with Terminal([lib.ASSAY, "top", "-p", "999999999"]) as terminal:
            terminal.wait("ended with [12]")
            self.assertIn("999999999", terminal.screen())


def said_on_a_terminal(command):
    """What a command writes to a terminal."""
    parent, child = pty.openpty()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=child)
    os.close(child)
    said = b""
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:
            break
        if not piece:
            break
        said += piece
    process.wait()
    os.close(parent)
    return said.decode().replace("\r\n", "\n")


class SignsOfLife(unittest.TestCase):
    """On a terminal a recording tells how it goes; elsewhere it says nothing but its end."""

    LINE = r"[\d,]+ {}, [\d.]+ a second, \d+ lost, [\d.]+ MB: \d+ s"

    def test_record(self):
        command = [lib.ASSAY, "record", "-o", lib.scratch("life.db"), "--", lib.build("shares.c"), "3"]
        said = said_on_a_terminal(command)
        self.assertRegex(said, self.LINE.format("samples"))
        self.assertRegex(said.split("\r")[-1], "samples in .* written to")
        self.assertNotRegex(lib.record("--", lib.build("shares.c"), "2").err, "a second")

    def test_trace(self):
        command = [lib.ASSAY, "trace", "-o", lib.scratch("trace.db"), "--", lib.build("halves.c"), "2"]
        self.assertRegex(said_on_a_terminal(command), self.LINE.format("segments"))


    def slowed(self, *arguments):
        """What a command says on a terminal when one read of the profile takes 2.5 s."""
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        return said_on_a_terminal(["strace", "-f", "-o", "/dev/null", "-e", "trace=pread64",
                                   "-e", "inject=pread64:delay_exit=2500000:when=25", lib.ASSAY, *arguments])

    def test_what_reads_a_profile(self):
        path = lib.record("-F", "997", "--", lib.build("shares.c"), "0.5").path
        for what, arguments in [("making the report", ["report", "-i", path]),
                                ("looking at forty", ["annotate", "forty", "-i", path]),
                                ("comparing the profiles", ["diff", path, path]),
                                ("merging", ["merge", "-o", lib.scratch("merged.db"), path, path])]:
            said = self.slowed(*arguments)
            self.assertRegex(said, rf"\rassay: (reading {re.escape(path)}|{what}): .*\d")
            self.assertTrue(said.endswith("\r"), said)

    def blocked(self, output, word, *arguments):
        """What a command says, and writes, whose output goes into a pipe that nobody reads before it has said the word:
        it takes as long as the test likes."""
        os.mkfifo(output)
        child, master = pty.fork()
        if child == 0:
            os.execv(lib.ASSAY, [lib.ASSAY, *arguments, "-o", output])
        text = b""
        while word.encode() not in text:
            text += os.read(master, 4096)
        with open(output, encoding="utf-8") as stream:
            written = stream.read()
        try:
            while chunk := os.read(master, 4096):
                text += chunk
        except OSError:  # the end of a terminal
            pass
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        return text.decode(), written

    def test_html(self):
        path = lib.record("--", "true").path
        said, page = self.blocked(lib.scratch("page.html"), "making the page", "html", "-i", path)
        self.assertIn("</html>", page)
        self.assertRegex(said, r"making the page: \d+ of \d+")

    def test_export(self):
        path = lib.record("--", lib.build("shares.c"), "0.2").path
        said, text = self.blocked(lib.scratch("collapsed"), "writing collapsed", "export", "collapsed", "-i", path)
        self.assertIn("main", text)
        self.assertTrue(said.endswith("\r"), said)


if __name__ == "__main__":
    lib.main()
