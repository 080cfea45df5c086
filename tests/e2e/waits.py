#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: T6, B1.
"""record --off-cpu: where the time of threads goes, what they wait for, and who wakes them.

The program plants its causes and measures them with its own clock. What the kernel side charges must add up to
each thread's life exactly, waits must add up to what was charged, and causes, places and wakers must be those
that were planted. getrusage() says what the scheduler itself counted.
"""

import os
import re
import subprocess
import time
import unittest

import lib

ROUNDS = 40
NAP_HOLDER, NAP_WRITER = 20e6, 15e6  # ns, as in waits.c


def rows_of(view, **want):
    return [row for row in view if all(row[key] == value for key, value in want.items())]


def row_of(view, **want):
    """The only such row, but for waits that ended before the recorder knew the program: their waker has no stack."""
    row, = [row for row in rows_of(view, **want) if row["waker_stack"]]
    return row


def threads_of(path):
    """Rows of `report threads` by the name of the thread."""
    return {row["comm"]: row for row in lib.report(path, "threads", "--min-share", "0")["rows"]}


def off_columns(row):
    return [key for key in row if key.startswith("off_") and key.endswith("_ns")]


class Waits(unittest.TestCase):
    def setUp(self):
        lib.need_root(self)

    def check_sums(self, path):
        """On a processor + queued + off by cause = life, for each thread; waits = what was charged."""
        profile = lib.Profile(path)
        for row in lib.report(path, "threads", "--min-share", "0")["rows"]:
            with self.subTest(thread=row["comm"]):
                spent = row["on_cpu_ns"] + row["queued_ns"] + sum(row[key] for key in off_columns(row))
                self.assertEqual(spent, row["lifetime_ns"])
                self.assertIsNone(row["unaccounted_ns"])
        for thread, cause, total in profile.rows("select thread, cause, sum(total) from wait group by thread, cause"):
            charged = profile.value("select sum(amount) from thread_metric where thread = ? and metric = 'off_' || ?",
                                    thread, cause)
            self.assertEqual(total, charged or 0, f"{thread} {cause}")
        kept = profile.value("select sum(count) from wait")
        self.assertEqual(profile.value("select kept from recording where kind = 'waits'"), kept)
        self.assertEqual(profile.value("select seen from recording where kind = 'waits'"), kept)

    def test_planted(self):
        run = lib.record("--off-cpu", lib.build("waits.c"), str(ROUNDS), os.path.join(lib.SCRATCH, "blocks"))
        told = {who: int(waited) for who, _, waited in re.findall(r"(\w+) (\d+) (\d+)", run.out.decode())}
        self.check_sums(run.path)
        threads = threads_of(run.path)
        waits = lib.report(run.path, "waits", "--min-share", "0")["rows"]
        self.check_lock(waits, threads, told["locker"])
        self.check_pipe(waits, threads, told["reader"])
        self.check_sleep(waits, threads)
        self.check_disk(waits, threads, told["disk"])
        self.check_life(run.profile, threads)

    def near(self, thread, cause, told):
        """The program's clock runs from before the wait until after it: the wait, queueing and little else."""
        waited = thread[f"off_{cause}_ns"] + thread["queued_ns"] + thread["on_cpu_ns"] + thread["off_preempted_ns"]
        self.assertLessEqual(thread[f"off_{cause}_ns"], told * 1.02 + 1e6)
        self.assertGreaterEqual(waited, told * 0.98)

    def check_lock(self, waits, threads, told):
        row = row_of(waits, cause="lock", object="planted_lock", waker="holder")
        self.assertGreater(row["count"], ROUNDS * 0.8)
        self.assertIn(";take;", row["stack"])
        self.assertIn(";hold;", row["waker_stack"])
        self.assertRegex(row["waker_stack"], "unlock")
        self.assertGreater(row["longest_ns"], NAP_HOLDER * 0.5)
        self.assertLessEqual(row["total_ns"], told)
        self.assertGreater(row["total_ns"], ROUNDS * NAP_HOLDER * 0.7)
        self.near(threads["locker"], "lock", told)

    def check_pipe(self, waits, threads, told):
        row = row_of(waits, cause="pipe", waker="writer")
        self.assertIn(";drink;", row["stack"])
        self.assertIn(";pour;", row["waker_stack"])
        self.assertGreater(row["count"], ROUNDS * 0.8)
        self.near(threads["reader"], "pipe", told)

    def check_sleep(self, waits, threads):
        for thread, nap in (("holder", NAP_HOLDER), ("writer", NAP_WRITER)):
            slept = threads[thread]["off_sleep_ns"]
            self.assertGreaterEqual(slept, ROUNDS * nap)
            self.assertLess(slept, ROUNDS * nap * 1.5)
        self.assertEqual({row["waker"] for row in rows_of(waits, cause="sleep")} - {None}, {"interrupt"})
        for row in rows_of(waits, cause="sleep"):
            self.assertIn(";nap;", row["stack"])

    def check_disk(self, waits, threads, told):
        self.assertGreater(threads["disk"]["off_disk_ns"], 0)
        self.assertLessEqual(threads["disk"]["off_disk_ns"], told)
        self.assertEqual(threads["disk"]["written"], ROUNDS << 20)
        stacks = [row["stack"] for row in rows_of(waits, cause="disk")]
        self.assertTrue(any(";put_down;" in stack and "fsync" in stack for stack in stacks), stacks)

    def check_life(self, profile, threads):
        """What the load map knows of a thread's life, from other records, is what was charged."""
        for tid, started, ended in profile.rows("select tid, started, ended from thread where started and ended"):
            row = next((row for row in threads.values() if row["tid"] == tid), None)
            if row and row["pid"] != tid:
                self.assertLess(abs(row["lifetime_ns"] - (ended - started)), 0.001 * (ended - started) + 2e6)

    def test_collapsed(self):
        run = lib.record("--off-cpu", lib.build("waits.c"), "10", os.path.join(lib.SCRATCH, "blocks"))
        text = subprocess.run([lib.ASSAY, "export", "collapsed", "--off-cpu", "-i", run.path], check=True,
                              capture_output=True, text=True).stdout
        lines = [line.rsplit(" ", 1) for line in text.splitlines()]
        total = run.profile.value("select sum(total) from wait") / 1000
        self.assertAlmostEqual(sum(int(count) for _, count in lines), total, delta=len(lines) + 1)
        self.assertTrue(any(stack.startswith("reader;") and ";drink;" in stack and stack.endswith(";[pipe]")
                            for stack, _ in lines), text)
        only = subprocess.run([lib.ASSAY, "export", "collapsed", "--off-cpu", "--symbol", "drink", "-i", run.path],
                              check=True, capture_output=True, text=True).stdout.splitlines()
        self.assertTrue(only and all(";drink;" in line for line in only), only)

    def test_merge(self):
        """Merged with itself: twice the times, the same longest wait."""
        run = lib.record("--off-cpu", lib.build("waits.c"), "5", os.path.join(lib.SCRATCH, "blocks"))
        both = lib.scratch("both.db")
        subprocess.run([lib.ASSAY, "merge", run.path, run.path, "-o", both], check=True, capture_output=True)
        sums = "select sum(total), sum(count), sum(queued) from wait"
        once = run.profile.rows(sums)[0]
        self.assertEqual(list(lib.Profile(both).rows(sums)[0]), [2 * part for part in once])
        longest = "select max(longest) from wait"
        self.assertEqual(lib.Profile(both).value(longest), run.profile.value(longest))
        self.check_sums(both)

    def test_getrusage(self):
        """A busy program: time on processors, switches and faults are what the scheduler says itself."""
        run = lib.record("--off-cpu", lib.PYTHON, "-c", "import os, resource, time\n"
                         "end = time.monotonic() + 1\n"
                         "while time.monotonic() < end: sum(range(20000)); os.sched_yield()\n"
                         "u = resource.getrusage(resource.RUSAGE_SELF)\n"
                         "print(u.ru_utime + u.ru_stime, u.ru_nvcsw, u.ru_nivcsw, u.ru_minflt)")
        used, voluntary, involuntary, faults = map(float, run.out.split())
        self.check_sums(run.path)
        row = threads_of(run.path)["python3"]
        self.assertAlmostEqual(row["on_cpu_ns"] / 1e9, used, delta=0.02 * used + 0.05 + lib.stolen())
        # The program asks a little before its end, and what it did before exec is not in the profile.
        self.assertAlmostEqual(row["voluntary"] or 0, voluntary, delta=20)
        self.assertAlmostEqual(row["involuntary"] or 0, involuntary, delta=20)
        self.assertAlmostEqual(row["faults_minor"], faults, delta=0.25 * faults)

    def test_attached(self):
        """Threads that sleep when recording begins and when it ends are in it all the same."""
        with lib.Program("sleep", "60") as program:
            begin = time.monotonic()
            run = lib.record("--off-cpu", "-p", str(program.pid), "--duration", "1s")
            around = time.monotonic() - begin
        self.check_sums(run.path)
        row = threads_of(run.path)["sleep"]
        self.assertEqual(row["off_sleep_ns"], row["lifetime_ns"])
        self.assertGreater(row["lifetime_ns"], 0.9e9)
        self.assertLess(row["lifetime_ns"], around * 1e9)
        wait, = lib.report(run.path, "waits", "--min-share", "0")["rows"]
        self.assertEqual((wait["cause"], wait["count"], wait["waker"]), ("sleep", 1, None))

    def test_exec(self):
        """What a shell used before it executes another program is the shell's."""
        run = lib.record("--off-cpu", "--system-calls", "sh", "-c", "sleep 0.2; exec sleep 0.3")
        self.check_sums(run.path)
        rows = lib.report(run.path, "threads", "--min-share", "0")["rows"]
        shell, = (row for row in rows if row["comm"] == "sh" and row["off_child_ns"])
        self.assertGreater(shell["off_child_ns"], 0.15e9)
        last, = (row for row in rows if row["comm"] == "sleep" and row["tid"] == shell["tid"])
        # the timer runs from the call on, in which the thread may still wait for a processor
        self.assertGreater(last["off_sleep_ns"], 0.25e9)
        self.assertLess(last["lifetime_ns"], 0.3e9 + shell["lifetime_ns"])
        self.assertTrue(all(row["system_calls"] for row in (shell, last)))

    def test_calls(self):
        """Locks that are no futexes, and a child that its parent waits for until it executes a program."""
        folder = lib.scratch("wait-calls")
        os.mkdir(folder)
        run = lib.record("--off-cpu", lib.build("wait_calls.c"), folder)
        self.check_sums(run.path)
        threads = threads_of(run.path)
        for name in ("file-lock", "record-lock", "semaphore-lock", "spawn-child"):
            with self.subTest(name):
                self.assertGreater(threads[name][f"off_{name.split('-')[1]}_ns"], 0.15e9)

    def test_calls_of_32_bits(self):
        """Their numbers are others: 162 sleeps, and is sync() elsewhere."""
        program = lib.build("wait_calls.c")
        if subprocess.run([program], check=False).returncode:
            self.skipTest("no 32-bit system calls here")
        run = lib.record("--off-cpu", program)
        self.check_sums(run.path)
        self.assertGreater(threads_of(run.path)["wait_calls"]["off_sleep_ns"], 0.15e9)

    def test_refused(self):
        plain = lib.record("true")
        said = subprocess.run([lib.ASSAY, "report", "waits", "-i", plain.path], capture_output=True, text=True,
                              check=False)
        self.assertEqual(said.returncode, 1)
        self.assertIn("has no waits; 'assay record --off-cpu -- COMMAND' records them", said.stderr)


if __name__ == "__main__":
    lib.main()
