#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: W1, S1.
"""However assay trace is told to end, it does, and what was recorded up to then is in the profile."""

import contextlib
import fcntl
import os
import pty
import signal
import sqlite3
import subprocess
import tempfile
import termios
import time
import unittest

import lib

STUBBORN = "trap '' INT TERM HUP QUIT; echo ready $$; while :; do :; done"


class Trace:
    """assay trace of a script that says that it is ready, and then its pid."""

    def __init__(self, script, tool="blocks", **options):
        self.path = tempfile.mktemp(suffix=".db", dir=lib.SCRATCH)
        command = [lib.ASSAY, "trace", "--tool", tool, "-o", self.path, "--", "bash", "-c", script]
        self.messages = tempfile.TemporaryFile(dir=lib.SCRATCH)
        self.process = subprocess.Popen(command, **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                                                    "stderr": self.messages, **options})

    def ready(self, stream=None):
        line = (stream or self.process.stdout).readline().split()
        assert line[0] == b"ready", line
        self.pid = int(line[1])
        lib.wait_until(lambda: self.committed() > 0)
        return self

    def committed(self):
        if not lib.has_tables(self.path):
            return 0
        with contextlib.closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=5)) as database:
            return database.execute("select count(*) from block").fetchone()[0]

    def end(self, code):
        self.process.wait(timeout=60)  # its pipes may be open: the command may still be there
        self.messages.seek(0)
        messages = self.messages.read()
        assert self.process.returncode == code, (self.process.returncode, code, messages)
        return messages

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        if hasattr(self, "pid") and os.path.exists(f"/proc/{self.pid}"):
            os.kill(self.pid, signal.SIGKILL)
        self.process.communicate()
        self.messages.close()


class Ends(unittest.TestCase):
    def check_profile(self, trace):
        profile = lib.Profile(trace.path)
        self.assertEqual(profile.meta("finished"), "1")
        kept, seen = profile.total("executed", "kept"), profile.total("executed", "seen")
        self.assertGreater(kept, 1000)
        self.assertEqual(seen, kept + profile.total("executed", "lost"))
        table = lib.report(trace.path, "functions")
        self.assertGreater(sum(row["instructions"] for row in table["rows"]), 1000)

    def test_a_command_that_does_not_obey_is_left(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number), Trace(STUBBORN) as trace:
                trace.ready().process.send_signal(number)
                self.assertIn(b"was given three seconds", trace.end(128 + number))
                self.check_profile(trace)
                os.kill(trace.pid, 0)

    def test_a_second_signal_does_not_wait(self):
        with Trace(STUBBORN) as trace:
            trace.ready().process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            trace.process.send_signal(signal.SIGTERM)
            self.assertIn(b"was told twice", trace.end(128 + signal.SIGTERM))
            self.check_profile(trace)

    def test_once_to_the_group_is_not_twice(self):
        """As timeout(1) does it: to the child, then to everybody."""
        with Trace("trap 'sleep 0.3; exit 5' TERM; echo ready $$; while :; do :; done", start_new_session=True) as trace:
            trace.ready().process.send_signal(signal.SIGTERM)
            os.killpg(trace.process.pid, signal.SIGTERM)
            trace.end(5)

    def test_interrupt_where_interrupts_are_ignored(self):
        """A job in the background of a script: assay record obeys there, too."""
        ignore = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)}
        with Trace("echo ready $$; while :; do :; done", **ignore) as trace:
            trace.ready().process.send_signal(signal.SIGINT)
            trace.end(128 + signal.SIGTERM)
            self.check_profile(trace)

    def terminal(self, script):
        master, slave = pty.openpty()
        trace = Trace(script, stdin=slave, stdout=subprocess.PIPE, stderr=slave, start_new_session=True,
                      preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0))
        os.close(slave)
        return trace.ready(), master

    def test_control_c(self):
        trace, master = self.terminal(STUBBORN)
        with trace:
            os.write(master, b"\x03")
            trace.end(128 + signal.SIGINT)
            self.check_profile(trace)
        os.close(master)

    def test_the_terminal_goes_away(self):
        trace, master = self.terminal("echo ready $$; while :; do :; done")
        with trace:
            os.close(master)
            trace.end(128 + signal.SIGHUP)
            self.check_profile(trace)

    def test_nobody_reads_messages(self):
        reader, writer = os.pipe()
        with Trace("echo ready $$; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 3", stderr=writer) as trace:
            os.close(writer)
            os.close(reader)
            trace.ready()
            trace.end(3)
            self.check_profile(trace)


if __name__ == "__main__":
    lib.main()
