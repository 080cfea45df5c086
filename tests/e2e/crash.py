#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: S1, V2.
"""kill -9 of the recorder or of the target: what was recorded stays, and the target never notices.

How many samples there must be is computed from the CPU time that the scheduler charged to the target up to one
second before the blow, which is read from outside while it runs.
"""

import os
import random
import signal
import subprocess
import time
import unittest

import lib

SEED = 20260101
RATE = 997
KILLS = 20
VALUE_KILLS, VALUE_RATE = 4, 199
LATEST = 1.9  # seconds; the last blow
LONG = "60"  # seconds of CPU time that nobody waits for
FLUSH = 1.0  # seconds that may be missing
SLACK = 0.05  # relative, of the rate


def charged(pid):
    """Seconds of CPU time of the main thread; None when it is gone."""
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[0]) / 1e9
    except (OSError, IndexError):
        return None


def child_of(pid, comm):
    """The one child, once it runs the program."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            for child in map(int, file.read().split()):
                with open(f"/proc/{child}/comm", encoding="ascii") as name:
                    if name.read().strip() == comm:
                        return child
    except OSError:
        pass
    return None


class Watched:
    """A recording of crunch, with the history of its CPU time."""

    def __init__(self, program, *options, rate=RATE):
        self.recording = lib.Recording("-F", str(rate), *options, "--", program, LONG)
        lib.wait_until(lambda: child_of(self.recording.process.pid, "crunch") is not None)
        self.pid = child_of(self.recording.process.pid, "crunch")
        self.begin = time.monotonic()
        self.history = [(self.begin, 0.0)]

    def watch(self, seconds):
        while time.monotonic() < self.begin + seconds:
            now, cpu = time.monotonic(), charged(self.pid)
            assert cpu is not None, "crunch ended too early"
            self.history.append((now, cpu))
            time.sleep(0.01)

    def charged_until(self, moment):
        return max((cpu for time_, cpu in self.history if time_ <= moment), default=0.0)

    def kill_collector(self):
        self.history.append((time.monotonic(), charged(self.pid)))
        self.recording.process.kill()
        self.recording.process.wait()
        return time.monotonic()

    def finish(self):
        """The target has lived on; it is asked to come to its end. Returns what it says."""
        before = charged(self.pid)
        lib.wait_until(lambda: charged(self.pid) > before + 0.02)
        os.kill(self.pid, signal.SIGUSR1)
        return self.recording.process.communicate(timeout=30)


class Crash(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("crunch.c")
        run = subprocess.run([cls.program, "0.1"], capture_output=True)
        assert run.returncode == 42, run
        cls.answer = run.stdout

    def check_left_behind(self, watched, moment):
        profile = lib.Profile(watched.recording.path)
        self.assertEqual(profile.value("pragma integrity_check"), "ok")
        self.assertNotEqual(profile.meta("finished"), "1")
        self.assertEqual(profile.seen, profile.kept + profile.lost)
        least = watched.charged_until(moment - FLUSH) * RATE * (1 - SLACK) - 5
        most = watched.charged_until(moment) * RATE * (1 + SLACK) + 20
        self.assertGreaterEqual(profile.seen, least, moment - watched.begin)
        self.assertLessEqual(profile.seen, most, moment - watched.begin)
        if profile.kept >= 50:
            self.check_report(watched.recording.path, profile.seen, profile.kept)
        return profile.kept

    def check_report(self, path, seen, kept):
        table = lib.report(path, "functions")
        self.assertEqual((table["totals"]["seen"], table["totals"]["kept"]), (seen, kept))
        rows = {row["symbol"]: row for row in table["rows"]}
        self.assertGreater(rows["mix"]["self"], 0.8 * kept)
        self.assertGreaterEqual(rows["main"]["total"], rows["mix"]["self"])

    def test_collector_killed(self):
        moments, kept = random.Random(SEED), 0
        for _ in range(KILLS):
            watched = Watched(self.program)
            watched.watch(moments.uniform(0.02, LATEST))
            moment = watched.kill_collector()
            self.assertEqual(watched.finish(), (self.answer, b""))
            kept += self.check_left_behind(watched, moment)
        self.assertGreater(kept, 1000)

    def test_values_of_a_collector_killed(self):
        """Runs, one for each sample, are in the file but for those of the last second."""
        moments = random.Random(SEED + 2)
        for _ in range(VALUE_KILLS):
            watched = Watched(self.program, "--values", "--run-every", "1", rate=VALUE_RATE)
            watched.watch(moments.uniform(1.5, 2.5))
            moment = watched.kill_collector()
            self.assertEqual(watched.finish(), (self.answer, b""))
            profile = lib.Profile(watched.recording.path)
            seen, kept = (profile.total("values", column) for column in ("seen", "kept"))
            least = watched.charged_until(moment - FLUSH) * VALUE_RATE * (1 - SLACK) - 5
            self.assertGreaterEqual(seen, least, moment - watched.begin)
            self.assertGreater(kept, 0.5 * least)
            self.assertEqual(profile.value("select sum(count) from run_end"), kept)
            self.assertGreater(profile.value("select count(*) from value where runs > 1"), 0)

    def test_collector_killed_while_attached(self):
        with lib.Program(self.program, "1.6") as program:
            recording = lib.Recording("-p", str(program.pid))
            lib.wait_until(lambda: lib.has_tables(recording.path) and lib.Profile(recording.path).kept > 50)
            with recording:
                pass
            self.assertEqual(program.process.wait(timeout=30), 42)
            self.assertEqual(program.process.stdout.read().encode(), self.answer)
        self.assertGreater(lib.Profile(recording.path).kept, 50)

    def test_collector_killed_at_the_start(self):
        """Before the command was let go: it must neither run nor stay."""
        moments = random.Random(SEED + 1)
        witness = lib.scratch("ran")
        for _ in range(10):
            with lib.Recording("--", "sh", "-c", f"echo $$ >>{witness}; sleep 0.1") as recording:
                time.sleep(moments.uniform(0, 0.05))
                recording.process.kill()
                out, _ = recording.process.communicate(timeout=30)  # until nobody has the pipe any more
            self.assertEqual(out, b"")
            if os.path.exists(recording.path) and lib.has_tables(recording.path):
                lib.report(recording.path, "functions")

    def test_target_killed(self):
        watched = Watched(self.program)
        watched.watch(0.9)
        os.kill(watched.pid, signal.SIGSTOP)
        lib.wait_until(lambda: stopped(watched.pid))
        cpu = charged(watched.pid)
        os.kill(watched.pid, signal.SIGKILL)
        run = watched.recording.wait(code=137)
        self.assertEqual(run.profile.meta("finished"), "1")
        lib.check_sums(self, run.profile)
        self.assertAlmostEqual(run.profile.seen, cpu * RATE, delta=SLACK * cpu * RATE)
        self.check_report(run.path, run.profile.seen, run.profile.kept)


def stopped(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "T"


if __name__ == "__main__":
    print("seed", SEED)
    lib.main()
