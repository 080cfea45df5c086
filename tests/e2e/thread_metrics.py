#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: T3, T6, T7, B1.
"""What the kernel charges to threads under heavy switching, and to the tasks that they work on.

For each metric the sum over threads is the sum over processors, exactly. What is charged to a thread is compared with
what the kernel tells the thread itself: /proc/thread-self/status, io and schedstat, and getrusage().
"""

import os
import statistics
import subprocess
import unittest

import lib

ROUNDS, MESSAGE, PAGES, CALLS_MORE, TASKS = 10000, {"ping": 7, "pong": 7, "tick": 64, "tock": 64}, 3000, 50000, 400
COUNTERS = ("voluntary", "involuntary", "faults_minor", "faults_major", "read", "written", "system_calls")
TOLD = ("voluntary", "involuntary", "faults_minor", "faults_major", "read", "written", "running", "waiting", "lived")
WAKING = 20000  # ns from a waker's word to the queue
LATE = 40  # switches and faults between a thread's last look at itself and its end


def metrics_of(row):
    return {key: value or 0 for key, value in row.items()
            if key in COUNTERS or key.endswith("_ns") and key not in ("lifetime_ns", "charged_ns", "unaccounted_ns")}


def sums_of(rows):
    sums = {}
    for row in rows:
        for key, value in metrics_of(row).items():
            sums[key] = sums.get(key, 0) + value
    return sums


class ThreadMetrics(unittest.TestCase):
    def setUp(self):
        lib.need_root(self)

    def check_sums(self, path):
        """Over threads = over processors; each thread's times are its life. Returns both."""
        threads = lib.report(path, "threads", "--min-share", "0")["rows"]
        cpus = lib.report(path, "cpus")["rows"]
        self.assertEqual(sums_of(threads), sums_of(cpus))
        for row in threads:
            times = sum(value for key, value in metrics_of(row).items() if key.endswith("_ns"))
            self.assertEqual(times, row["lifetime_ns"], row["comm"])
        for row in cpus:
            times = sum(value for key, value in metrics_of(row).items() if key.endswith("_ns"))
            self.assertEqual(times, row["charged_ns"], row["cpu"])
        return threads, cpus

    def test_switching(self):
        run = lib.record("--off-cpu", "--system-calls", lib.build("thread_metrics.c"))
        threads, cpus = self.check_sums(run.path)
        if len(os.sched_getaffinity(0)) > 1:
            self.assertGreater(len([row for row in cpus if row["on_cpu_ns"]]), 1)
        threads = {row["comm"]: row for row in threads}
        told = {name: dict(zip(TOLD, map(int, numbers))) for name, *numbers in
                (line.split() for line in run.out.decode().splitlines())}
        self.assertEqual(len(told), 9)
        self.assertGreater(sum(one["voluntary"] + one["involuntary"] for one in told.values()), ROUNDS)
        for name, one in told.items():
            with self.subTest(thread=name):
                self.check_thread(metrics_of(threads[name]), one, threads[name]["lifetime_ns"])
        for name, size in MESSAGE.items():
            self.assertEqual(threads[name]["written"], ROUNDS * size)
        self.assertGreaterEqual(threads["touches"]["faults_minor"], PAGES)
        more = threads["many_calls"]["system_calls"] - threads["few_calls"]["system_calls"]
        self.assertAlmostEqual(more, CALLS_MORE, delta=10)

    def check_thread(self, charged, told, life):
        for metric in ("read", "written"):
            self.assertEqual(charged[metric], told[metric], metric)
        for metric in ("voluntary", "involuntary", "faults_minor", "faults_major"):
            self.assertGreaterEqual(charged[metric], told[metric], metric)
            self.assertLessEqual(charged[metric], told[metric] + LATE, metric)
        self.check_times(charged, told, life)

    def check_times(self, charged, told, life):
        """
        The scheduler's clock leaves out interrupts and what the hypervisor took, and is read when it last ticked. It
        counts from when a thread is in the queue, which is a little after it was woken.
        """
        slack = 0.05e9 + 1e9 * lib.stolen()
        late = life - told["lived"]  # before its first look at the clock, and after its last
        self.assertGreaterEqual(late, 0)
        waiting = charged["queued_ns"] + charged["off_preempted_ns"]
        for got, want in ((charged["on_cpu_ns"], told["running"]), (waiting, told["waiting"])):
            self.assertGreater(got, 0.9 * want - slack)
            self.assertLess(got, 1.1 * want + slack + late + WAKING * charged["voluntary"])

    def test_attached(self):
        """Threads that go on when recording ends: the sums agree, and have what they did last."""
        script = ("import os, threading\n"
                  "def spin():\n"
                  "    while True: os.sched_yield()\n"
                  "threading.Thread(target=spin, daemon=True).start()\n"
                  "print('ready', flush=True)\n"
                  "source, sink = os.open('/dev/zero', 0), os.open('/dev/null', 1)\n"
                  "while True: os.write(sink, os.read(source, 4096))\n")
        with lib.Program(lib.PYTHON, "-c", script, ready="ready") as program:
            run = lib.record("--off-cpu", "-p", str(program.pid), "--duration", "0.5s")
        threads, _ = self.check_sums(run.path)
        sums = sums_of(threads)
        self.assertGreater(sums["written"], 4096)
        self.assertLessEqual(abs(sums["read"] - sums["written"]), 4096)

    def test_only_changes_are_read(self):
        """Threads that sleep are read once when recording begins and once when it ends, not with each commit."""
        script = ("import threading, time\n"
                  "for _ in range(200): threading.Thread(target=time.sleep, args=(100,), daemon=True).start()\n"
                  "print('ready', flush=True)\n"
                  "while True: time.sleep(0.01)\n")
        with lib.Program(lib.PYTHON, "-c", script, ready="ready") as program:
            run = lib.record("--off-cpu", "-p", str(program.pid), "--duration", "3s")
        threads, _ = self.check_sums(run.path)
        self.assertEqual(len(threads), 201)
        readings = run.profile.value("select total from metric where metric = 'readings'")
        self.assertGreaterEqual(readings, 2 * 201)
        self.assertLess(readings, 3 * 201)

    def test_text(self):
        run = lib.record("--off-cpu", lib.PYTHON, "-c", "import time; time.sleep(0.05)")
        for view, titles in (("threads", ("On CPU", "Queued", "voluntary", "faults_minor", "read")),
                             ("cpus", ("Charged ms", "CPU", "On CPU", "Queued", "faults_minor"))):
            text = subprocess.run([lib.ASSAY, "report", view, "-i", run.path, "--no-pager", "--width", "300"],
                                  check=True, capture_output=True, text=True).stdout
            for title in titles:
                self.assertIn(title, text.splitlines()[0])

    def test_tasks(self):
        """A pool of four threads works on many tasks: each is charged what it used, and with their threads it is all."""
        program = lib.build("tasks.c", "-I", os.path.join(lib.ROOT, "include"))
        run = lib.record("--off-cpu", "--system-calls", program)
        threads, _ = self.check_sums(run.path)
        measured = {name: int(used) for name, used in (line.split() for line in run.out.decode().splitlines())}
        tasks = {row["comm"]: row for row in threads if row["comm"].startswith(("task-", "inner-"))}
        others = [row for row in threads if row["comm"] not in tasks]
        self.assertEqual(len(threads), len(tasks) + len(others))
        self.assertEqual(set(tasks), set(measured) | {f"inner-{n}" for n in range(0, TASKS, 8)})
        self.assertEqual(len(others), 5)
        self.assertLessEqual({row["tid"] for row in tasks.values()}, {row["tid"] for row in others})
        self.assertEqual(sum(row["written"] or 0 for row in others), 3 * TASKS + len(run.out))
        for n in range(TASKS):
            with self.subTest(task=n):
                self.check_task(n, tasks)
        slept = [n for n in range(0, TASKS, 10) if tasks[f"task-{n}"]["off_sleep_ns"] > 0.5e6]
        self.assertGreater(len(slept), TASKS / 20)
        calls = {tasks[f"task-{n}"]["system_calls"] - n % 5 - n % 11 for n in range(TASKS) if n % 8 and n % 10}
        self.assertEqual(len(calls), 1, calls)  # those that all make
        for name, used in measured.items():
            self.assertGreater(tasks[name]["on_cpu_ns"], 0.9 * used - 1e6)
        ratio = statistics.median(tasks[name]["on_cpu_ns"] / used for name, used in measured.items())
        self.assertTrue(0.9 < ratio < 1.2, ratio)
        self.check_lives(run.profile, tasks)

    def check_task(self, n, tasks):
        task = tasks[f"task-{n}"]
        self.assertEqual(task["written"] or 0, n % 5 * 100)
        self.assertIsNone(task["read"])
        self.assertGreaterEqual(task["faults_minor"] or 0, n % 7)
        if n % 10:
            self.assertEqual(task["off_sleep_ns"], 0)
        else:  # asleep, and until it ran again
            self.assertGreaterEqual(task["lifetime_ns"] - task["on_cpu_ns"], 0.5e6)
        if n % 8 == 0:
            self.assertEqual(tasks[f"inner-{n}"]["written"], 7)
            self.assertEqual(tasks[f"inner-{n}"]["tid"], task["tid"])

    def check_lives(self, profile, tasks):
        """A task's life is from its beginning to its end; where the kernel did not tell of a switch, about."""
        lives = profile.rows("select comm, ended - started from thread where comm like 'inner-%' "
                             "or comm like 'task-%' and substr(comm, 6) % 8")
        exact = [name for name, life in lives if life == tasks[name]["lifetime_ns"]]
        self.assertGreater(len(exact), 0.9 * len(lives))
        self.assertEqual(profile.value("select total from metric where metric = 'notices_lost'"), 0)


if __name__ == "__main__":
    lib.main()
