#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: I3, I5, I6, I7.
"""Marks that are read and changed while the program runs, and rules that look at them.

tests/programs/marks_live.c does what it is told and says how often it has done what: so at any moment it is known what marks have to
say, whenever that is.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import threading
import time
import unittest

import lib

SECONDS = 120
CYCLES = int(os.environ.get("COUNT_LIVE_CYCLES", "8"))  # of servers


def live(pid, *options, code=0, prefix=()):
    run = subprocess.run([*prefix, lib.ASSAY, "count", "--live", str(pid), *options], capture_output=True, text=True, timeout=SECONDS)
    assert run.returncode == code, (run.returncode, run.stderr)
    return run.stderr if code else run.stdout


def marks(pid):
    return {row["mark"]: row for row in json.loads(live(pid, "--json"))["rows"]}


def is_counted(pid):
    with contextlib.suppress(AssertionError):
        live(pid)
        return True
    return False


class Counting:
    """An assay count of a process that runs, to the end of the block."""

    def __init__(self, pid, *options):
        self.path = lib.scratch(f"live-{time.monotonic_ns()}.db")
        self.process = subprocess.Popen([lib.ASSAY, "count", "-p", str(pid), "-o", self.path, *options], stdin=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)
        self.err = None
        lib.wait_until(lambda: self.process.poll() is not None or is_counted(pid))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.err is None:
            self.end()

    def end(self):
        self.process.send_signal(2)
        self.err = self.process.communicate(timeout=SECONDS)[1]
        assert self.process.returncode == 0, self.err
        return self.err

    def rows(self, view="marks"):
        run = subprocess.run([lib.ASSAY, "report", view, "-i", self.path, "--json"], capture_output=True, check=True)
        return json.loads(run.stdout)["rows"]


class Program:
    """tests/programs/marks_live.c."""

    def __init__(self, path, *arguments):
        self.process = subprocess.Popen([path, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def do(self, times):
        self.process.stdin.write(f"{times}\n")
        self.process.stdin.flush()
        return [int(word) for word in self.process.stdout.readline().split()]

    def end(self):
        out = self.process.communicate(timeout=SECONDS)[0]
        assert self.process.returncode == 0
        return [int(word) for word in out.split()]


class Live(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("marks_live.c", "-pthread")

    def test_read(self):
        """What is read is what was executed, while the program runs; the profile has it over time."""
        with Program(self.program) as program, Counting(program.pid, "-m", "work", "--every", "0.1") as count:
            done = [program.do(1000) for _ in range(3)][-1]
            self.assertEqual(done, [3000, 3])
            self.assertEqual(marks(program.pid)["work"]["visits"], 3000)
            program.do(234)
            self.assertEqual(marks(program.pid)["work"]["visits"], 3234)
            self.assertIn(" work\n", live(program.pid))
            time.sleep(0.3)
            program.do(66)
            err = count.end()
        self.assertIn("visits/s", err)
        [row] = count.rows()
        self.assertEqual((row["visits"], row["mark"]), (3300, "work"))
        samples = lib.Profile(count.path).rows("select time, visits, instructions from mark_sample order by time")
        self.assertGreaterEqual(len(samples), 2)
        self.assertEqual(sum(visits for _, visits, _ in samples), 3300)
        self.assertEqual(sum(instructions for _, _, instructions in samples), row["instructions"])
        self.assertEqual([row["visits"] for row in count.rows("marktime")], [visits for _, visits, _ in samples])
        trace = json.loads(subprocess.run([lib.ASSAY, "export", "chrome", "-i", count.path], capture_output=True, check=True).stdout)
        self.assertEqual([(event["ph"], event["name"], event["args"]["visits"]) for event in trace["traceEvents"]],
                         [("C", "work", visits) for _, visits, _ in samples])
        self.assertEqual([event["ts"] for event in trace["traceEvents"]], [time / 1000 for time, _, _ in samples])

    def test_change(self):
        """Marks come and go; each counts what was executed while it was there. With the last one the engine leaves."""
        with Program(self.program) as program, Counting(program.pid, "-m", "work") as count:
            program.do(100)
            live(program.pid, "--add", "idle")
            program.do(10)
            live(program.pid, "--remove", "work")
            program.do(1000)
            found = marks(program.pid)
            self.assertEqual((found["work"]["visits"], found["idle"]["visits"]), (110, 2))
            self.assertEqual((found["work"]["counting"], found["idle"]["counting"]), (False, True))
            self.assertIn("is counted already", live(program.pid, "--add", "idle", code=1))
            self.assertIn("there is no mark 'nothing'", live(program.pid, "--remove", "nothing", code=1))
            self.assertIn("mark 'a.c:'", live(program.pid, "--add", "a.c:", code=1))
            live(program.pid, "--remove", "idle")
            with open(f"/proc/{program.pid}/maps", encoding="utf-8") as stream:
                self.assertNotIn("memfd:assay", stream.read())
            self.assertTrue(json.loads(live(program.pid, "--json"))["native"])
            program.do(5)
            live(program.pid, "--add", "work")
            program.do(7)
            self.assertEqual(marks(program.pid)["work"]["visits"], 117)
            count.end()
        self.assertEqual({row["mark"]: row["visits"] for row in count.rows()}, {"work": 117, "idle": 2})

    def test_change_data(self):
        """Marks on data come and go; each access is counted while one is there, and none otherwise."""
        with Program(self.program) as program, Counting(program.pid, "-m", "idle") as count:
            program.do(10)
            live(program.pid, "--add", "data:worked")
            program.do(100)
            self.assertEqual([marks(program.pid)["data:worked"][what] for what in ("reads", "writes")], [101, 100])
            live(program.pid, "--add", "data:idled")
            program.do(5)
            live(program.pid, "--remove", "data:worked")
            program.do(1000)
            found = marks(program.pid)
            self.assertEqual([found["data:worked"][what] for what in ("reads", "writes")], [107, 105])
            self.assertEqual([found["data:idled"][what] for what in ("reads", "writes")], [4, 2])
            live(program.pid, "--remove", "data:idled")
            program.do(1)
            live(program.pid, "--add", "data:worked")
            program.do(20)
            live(program.pid, "--remove", "idle")
            live(program.pid, "--remove", "data:worked")
            self.assertTrue(json.loads(live(program.pid, "--json"))["native"])
            program.do(3)
            live(program.pid, "--add", "data:worked")
            program.do(2)
            self.assertEqual([marks(program.pid)["data:worked"][what] for what in ("reads", "writes")], [131, 127])
            self.assertEqual(program.do(0), [1141, 9])
            count.end()
        rows = {row["mark"]: row for row in count.rows()}
        self.assertEqual({mark: (row["reads"], row["writes"]) for mark, row in rows.items() if mark != "idle"},
                         {"data:worked": (132, 127), "data:idled": (4, 2)})
        accesses = count.rows("accesses")
        self.assertEqual(sum(row["writes"] for row in accesses if row["symbol"] == "work"), 127)

    def test_change_address(self):
        """The same of an address, which a thread writes to that makes no system call."""
        with Program(self.program, "spin") as program, Counting(program.pid, "-m", "idle") as count:
            with open(f"/proc/{program.pid}/maps", encoding="utf-8") as stream:
                where = next(line for line in stream if self.program in line)
            symbols = subprocess.run(["nm", self.program], capture_output=True, text=True, check=True).stdout
            offset = next(int(line.split()[0], 16) for line in symbols.splitlines() if line.endswith(" spun"))
            mark = f"data:{int(where.split('-')[0], 16) + offset:#x}+8"
            for _ in range(2):
                before = marks(program.pid).get(mark, {"writes": 0})["writes"]
                live(program.pid, "--add", mark)
                lib.wait_until(lambda: marks(program.pid)[mark]["writes"] > before)
                live(program.pid, "--remove", mark)
                lib.wait_until(lambda: self.rests(program.pid, mark, "writes"))
            found = marks(program.pid)[mark]
            self.assertLessEqual(abs(found["reads"] - found["writes"]), 2)
            self.assertIn("begin or cease to be timed", live(program.pid, "--add", "work+4,time", code=1))
            count.end()
            spun = program.end()[2]
        [row] = [row for row in count.rows() if row["mark"] == mark]
        self.assertLessEqual(row["writes"], spun)
        self.assertGreater(row["writes"], 0)

    def test_change_heap(self):
        """Memory that a line allocates is counted from when its mark is there until that goes."""
        program = lib.build("marks_heap.c", "-g", "-O0")
        with open(os.path.join(lib.ROOT, "tests", "programs", "marks_heap.c"), encoding="utf-8") as stream:
            line = next(number for number, text in enumerate(stream, 1) if "malloc(" in text)
        mark = f"data:heap:malloc@marks_heap.c:{line}"
        with Program(program) as running, Counting(running.pid, "-m", "main") as count:
            running.do(7)
            live(running.pid, "--add", mark)
            running.do(100)
            self.assertEqual([marks(running.pid)[mark][what] for what in ("reads", "writes")], [100, 200])
            live(running.pid, "--remove", mark)
            running.do(50)
            live(running.pid, "--add", mark)
            running.do(10)
            self.assertEqual([marks(running.pid)[mark][what] for what in ("reads", "writes")], [110, 220])
            count.end()

    def test_change_time(self):
        """Where nothing was timed from the start, and the slowest visits of a routine, twice."""
        with Program(self.program) as program, Counting(program.pid, "-m", "idle") as count:
            program.do(10)
            live(program.pid, "--add", "work,time")
            program.do(100)
            live(program.pid, "--remove", "work,time")
            program.do(10)
            self.assertEqual([marks(program.pid)["work,time"][what] for what in ("visits", "timed")], [100, 100])
            for _ in range(2):
                live(program.pid, "--add", "work,tail=5%")
                program.do(300)
                live(program.pid, "--remove", "work,tail=5%")
                program.do(10)
            self.assertEqual([marks(program.pid)["work,tail=5%"][what] for what in ("visits", "timed")], [600, 600])
            self.assertIn("are kept of one routine", live(program.pid, "--add", "idle,tail", code=1))
            self.assertEqual(program.do(0), [740, 8])
            count.end()
        rows = {row["mark"]: row for row in count.rows()}
        self.assertEqual((rows["work,tail=5%"]["timed"], rows["work,time"]["timed"]), (600, 100))
        [[kept]] = lib.Profile(count.path).rows("select count(*) from mark_visit")
        self.assertGreater(kept, 128)

    def rests(self, pid, mark, what="visits"):
        first, second = (marks(pid)[mark][what] for _ in range(2))
        return first == second

    def test_spinning(self):
        """A thread that makes no system call and never leaves its loop takes a change up, too."""
        with Program(self.program, "spin") as program, Counting(program.pid, "-m", "idle") as count:
            for _ in range(3):
                before = marks(program.pid).get("spin", {"visits": 0})["visits"]
                live(program.pid, "--add", "spin")
                lib.wait_until(lambda: marks(program.pid)["spin"]["visits"] > before)
                live(program.pid, "--remove", "spin")
                lib.wait_until(lambda: self.rests(program.pid, "spin"))
            program.do(3)
            self.assertEqual(marks(program.pid)["idle"]["visits"], 1)
            count.end()
            worked, idled, spun = program.end()
        self.assertEqual((worked, idled), (3, 1))
        self.assertGreaterEqual(spun, {row["mark"]: row["visits"] for row in count.rows()}["spin"])

    def test_command(self):
        """Of a command that assay count has started, and of a process that it forks: the same."""
        path = lib.scratch("live-command.db")
        with subprocess.Popen([lib.ASSAY, "count", "-q", "-m", "idle", "-o", path, "--", self.program], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as process:
            process.stdin.write("1\n")
            process.stdin.flush()
            process.stdout.readline()
            pid = lib.program_of(process.pid)
            lib.wait_until(lambda: is_counted(pid))
            live(pid, "--add", "work")
            process.stdin.write("20\n")
            process.stdin.flush()
            process.stdout.readline()
            self.assertEqual({mark: row["visits"] for mark, row in marks(pid).items()}, {"idle": 2, "work": 20})
            process.stdin.close()
            self.assertEqual(process.wait(SECONDS), 0)

    def test_strangers(self):
        """Nobody else reads or changes marks, and who has taken the name is not believed."""
        with Program(self.program) as program, Counting(program.pid, "-m", "work"):
            if os.geteuid() == 0 and shutil.which("setpriv"):
                nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
                self.assertTrue(live(program.pid, "--add", "idle", code=1, prefix=nobody))
                self.assertNotIn("idle", marks(program.pid))
        self.assertIn("nobody counts in process", live(1, code=1))

    def test_usage(self):
        for options, sentence in ((["--live", "1", "-m", "x"], "--live looks at"), (["--add", "x", "-m", "y", "true"], "go with --live"),
                                  (["-m", "x", "--when", "calls(x) >", "true"], "character 11"),
                                  (["-m", "x", "--when", "calls(y) > 1 -> print", "true"], "'y' is not marked"),
                                  (["-m", "x", "--when", "p99(x) > 1ms -> print", "true"], "-m 'x,time'"),
                                  (["-m", "x,time", "--when", "slower(x) > 1 -> print", "true"], "has no threshold"),
                                  (["-m", "x", "--when", "reads(x) > 1 -> print", "true"], "only data is read"),
                                  (["-m", "data:x", "--when", "calls(data:x) > 1 -> print", "true"], "reads, writes and accesses"),
                                  (["-m", "x,time", "--when", "time(x) > 1s -> start x,time", "true"], "loops are not allowed"),
                                  (["-m", "x", "--when", "calls(x) > 1 -> start x", "true"], "loops are not allowed")):
            run = subprocess.run([lib.ASSAY, "count", *options], capture_output=True, text=True, timeout=SECONDS)
            self.assertEqual(run.returncode, 2, options)
            self.assertIn(sentence, run.stderr)


class Rules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("marks_live.c", "-pthread")

    def test_escalation(self):
        """A condition that holds starts another mark, raises events, and runs a command; once, as its limit says."""
        told = lib.scratch("live-told")
        rules = ("calls(work) >= 100 every 1m -> start idle; event enough work; snapshot; print",
                 f"calls(idle) + 0*calls(work) > 2 every 1m -> run echo $ASSAY_PID >> {told}")
        with Program(self.program) as program, \
                Counting(program.pid, "-m", "work", "--every", "0.05", *(word for rule in rules for word in ("--when", rule))) as count:
            program.do(99)
            time.sleep(0.2)
            self.assertFalse(marks(program.pid)["idle"]["counting"])
            program.do(1)
            lib.wait_until(lambda: marks(program.pid)["idle"]["counting"])
            for _ in range(3):
                program.do(1)
            lib.wait_until(lambda: os.path.exists(told) and os.path.getsize(told))
            self.assertEqual(marks(program.pid)["idle"]["visits"], 3)
            err = count.end()
            with open(told, encoding="utf-8") as stream:
                self.assertEqual(stream.read(), f"{program.pid}\n")
        self.assertIn("holds: work visited 100 times", err)
        self.assertEqual(err.count("fired 1 time\n"), 2)
        events = count.rows("events")
        self.assertEqual([row["cause"] for row in events], ["rule", "snapshot"])
        self.assertEqual(events[0]["text"], "enough work")
        self.assertIn("work=100", events[0]["values"])
        self.assertIn("work=100", events[1]["values"])

    def test_times(self):
        """Times and their percentiles are read while the program runs, in rules, by others, and over time."""
        rules = ("timed(work) >= 100 && time(work) < 100s every 1m -> print timed; start idle,time",
                 "slower(work) >= 100 && p99(work) < 10s && delta(timed(work)) > 0 every 1m -> event slow",
                 "timed(idle) > 0 every 1m -> event second")
        marked = ("-m", "work,slower=1", "--every", "0.05", *(word for rule in rules for word in ("--when", rule)))
        with Program(self.program) as program, Counting(program.pid, *marked) as count:
            program.do(100)
            lib.wait_until(lambda: marks(program.pid)["idle,time"]["counting"])
            lib.wait_until(lambda: program.do(1) and "timed" in marks(program.pid)["idle,time"])
            live(program.pid, "--remove", "idle,time")
            found = marks(program.pid)["idle,time"]["visits"]
            program.do(1)
            self.assertEqual(marks(program.pid)["idle,time"]["visits"], found)
            live(program.pid, "--add", "idle,time")
            program.do(5)
            work, idle = (marks(program.pid)[mark] for mark in ("work,slower=1", "idle,time"))
            self.assertEqual((idle["visits"], idle["timed"]), (found + 1, found + 1))
            self.assertEqual((work["timed"], work["slower"]), (work["visits"], work["visits"]))
            self.assertIn("timed: ", count.end())
        self.assertEqual({row["text"] for row in count.rows("events")}, {"slow", "second"})
        rows, times = count.rows(), count.rows("marktime")
        for row in rows:
            self.assertEqual(row["timed"], row["visits"])
            mine = [sample for sample in times if sample["mark"] == row["mark"] and sample["time_ns"] is not None]
            self.assertAlmostEqual(sum(sample["time_ns"] for sample in mine), row["time_ns"], delta=row["time_ns"] / 20 + 100)
            self.assertTrue(all(sample["mean_ns"] >= 0 for sample in mine))
        text = subprocess.run([lib.ASSAY, "export", "prometheus", "-i", count.path], capture_output=True, check=True, text=True).stdout
        for row in rows:
            [count_line] = [line for line in text.splitlines() if line.startswith("assay_mark_duration_seconds_count{mark=\"" + row["mark"])]
            self.assertEqual(int(count_line.rsplit(" ", 1)[1]), row["timed"])
            buckets = [int(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                       if line.startswith("assay_mark_duration_seconds_bucket{mark=\"" + row["mark"])]
            self.assertEqual((sorted(buckets), buckets[-1]), (buckets, row["timed"]))

    def test_data(self):
        """Accesses to data are read while the program runs."""
        rule = "accesses(data:worked) >= 200 every 1m -> event enough"
        path = lib.scratch("live-data.db")
        with subprocess.Popen([lib.ASSAY, "count", "-q", "-m", "data:worked", "--every", "0.05", "--when", rule, "-o", path, "--",
                               self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            process.stdin.write("99\n")
            process.stdin.flush()
            process.stdout.readline()
            pid = lib.program_of(process.pid)
            lib.wait_until(lambda: is_counted(pid))
            row = marks(pid)["data:worked"]
            self.assertEqual((row["reads"], row["writes"]), (100, 99))  # it is printed
            process.stdin.write("1\n")
            process.stdin.flush()
            process.stdout.readline()
            time.sleep(0.2)
            process.stdin.close()
            self.assertEqual(process.wait(SECONDS), 0)
        events = json.loads(subprocess.run([lib.ASSAY, "report", "events", "-i", path, "--json"], capture_output=True, check=True).stdout)
        self.assertEqual([row["text"] for row in events["rows"]], ["enough"])
        self.assertIn("data:worked=", events["rows"][0]["values"])

    def recorded_too(self, rules, parts):
        """Rules let the process be recorded; meanwhile nothing is counted. In the end it is all one profile."""
        with Program(self.program, "spin") as program, \
                Counting(program.pid, "-m", "work,time", "--every", "0.05", *(word for rule in rules for word in ("--when", rule))) as count:
            for part in range(1, parts + 1):
                program.do(10)
                lib.wait_until(lambda n=part: [name for name in os.listdir(lib.SCRATCH) if name.startswith(os.path.basename(count.path) + ".") and
                                               name.endswith(f"-{n}")])

                def is_counted_again():
                    before = marks(program.pid)["work,time"]["visits"]
                    program.do(7)
                    return marks(program.pid)["work,time"]["visits"] == before + 7

                lib.wait_until(is_counted_again)
            visits = marks(program.pid)["work,time"]["visits"]
            err = count.end()
        self.assertIn("nothing is counted meanwhile", err)
        self.assertIn(f"{parts} recording{'s' * (parts > 1)} of rules {'are' if parts > 1 else 'is'} in the profile, too", err)
        beside = [name for name in os.listdir(lib.SCRATCH) if name.startswith(os.path.basename(count.path))]
        self.assertEqual(beside, [os.path.basename(count.path)])
        [row] = count.rows()
        self.assertEqual((row["mark"], row["visits"], row["timed"]), ("work,time", visits, visits))
        self.assertEqual({row["cause"] for row in count.rows("events")}, {"rule"})
        self.assertEqual(sum(row["visits"] for row in count.rows("marktime")), visits)
        recordings = lib.Profile(count.path).rows("select kind, seen, kept from recording")
        self.assertTrue(all(seen >= kept > 0 for _, seen, kept in recordings), [tuple(row) for row in recordings])
        return count.path, {kind for kind, _, _ in recordings}

    @unittest.skipUnless(lib.IS_ROOT, "values are root's")
    def test_values(self):
        path, kinds = self.recorded_too(["calls(work,time) >= 10 every 1m -> event much; values 1s",
                                         "calls(work,time) >= 20 every 1m -> values 500ms"], 2)
        self.assertTrue({"marks", "samples", "values"} <= kinds, kinds)
        run = subprocess.run([lib.ASSAY, "report", "functions", "-i", path, "--json"], capture_output=True, check=True)
        self.assertTrue({"spin", "spinning"} & {row["symbol"] for row in json.loads(run.stdout)["rows"]})

    def test_paths(self):
        path, kinds = self.recorded_too(["calls(work,time) >= 10 every 1m -> event much; paths 1s"], 1)
        self.assertTrue({"marks", "executed"} <= kinds, kinds)
        run = subprocess.run([lib.ASSAY, "report", "paths", "-i", path, "--json"], capture_output=True, check=True)
        self.assertIn("spin", run.stdout.decode())


class Events(unittest.TestCase):
    def test_visits(self):
        """A visit tells where it came from, and with what; what is too many is counted."""
        program, path = lib.build("marks_events.c", "-O1"), lib.scratch("events.db")
        for rounds, lost in ((20, False), (20000, True)):
            subprocess.run([lib.ASSAY, "count", "-q", "-m", "leaf,event", "-m", "first", "-o", path, "--", program, str(rounds)],
                           check=True, timeout=SECONDS)
            answer = json.loads(subprocess.run([lib.ASSAY, "report", "events", "-i", path, "--json"], capture_output=True,
                                               check=True).stdout)
            rows, totals = answer["rows"], answer["totals"]
            self.assertEqual(totals["seen"], 2 * rounds)
            self.assertEqual(totals["seen"], totals["kept"] + totals["lost"].get("events", 0))
            self.assertEqual(totals["kept"], len(rows))
            self.assertEqual(totals["kept"] < totals["seen"], lost)
            self.assertGreater(len(rows), 10)
            for i, row in enumerate(rows):
                self.assertEqual((row["cause"], row["mark"]), ("visit", "leaf,event"))
                if not lost:  # then none is missing, and they alternate
                    caller, argument = (("first", 7), ("second", 9))[i % 2]
                    self.assertTrue(row["stack"].endswith(f"main;{caller};leaf"), row["stack"])
                    self.assertIn(f"rdi={argument:#x},", row["values"])
            self.assertEqual(sorted(row["time"] for row in rows), [row["time"] for row in rows])


    def test_data(self):
        """Each access to data raises an event: what is done, where, and who called."""
        program, path = lib.build("marks_events.c", "-O0"), lib.scratch("events-data.db")
        subprocess.run([lib.ASSAY, "count", "-q", "-m", "data:sum,event", "-o", path, "--", program, "10"], check=True, timeout=SECONDS)
        rows = json.loads(subprocess.run([lib.ASSAY, "report", "events", "-i", path, "--json"], capture_output=True,
                                         check=True).stdout)["rows"]
        # leaf, its caller, leaf, its caller; each reads and writes.
        self.assertEqual([(row["text"], row["stack"].rsplit("main;", 1)[1]) for row in rows],
                         [(done, stack) for _ in range(10) for stack in ("first;leaf", "first", "second;leaf", "second")
                          for done in ("read", "written")])
        [row] = json.loads(subprocess.run([lib.ASSAY, "report", "marks", "-i", path, "--json"], capture_output=True,
                                          check=True).stdout)["rows"]
        self.assertEqual((row["reads"], row["writes"]), (40, 40))


class Load(threading.Thread):
    """Requests to a server, each checked, until it is told to stop."""

    def __init__(self, ask):
        super().__init__()
        self.ask, self.over, self.done, self.failure = ask, threading.Event(), 0, None

    def run(self):
        try:
            while not self.over.is_set():
                self.ask(self.done)
                self.done += 1
        except (OSError, AssertionError) as error:
            self.failure = error

    def stop(self):
        self.over.set()
        self.join()


def answers(path):
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        return True
    return False


NGINX = """daemon off; worker_processes 1; pid {root}/pid; error_log {root}/error; {user}
events {{ worker_connections 16; }}
http {{
    access_log off; keepalive_requests 100000000;
    client_body_temp_path {root}/1; proxy_temp_path {root}/2; fastcgi_temp_path {root}/3; uwsgi_temp_path {root}/4; scgi_temp_path {root}/5;
    server {{ listen unix:{root}/sock; root {root}; }}
}}
"""


class Servers(unittest.TestCase):
    def test_redis(self):
        """Mark, read, change, unmark and leave, again and again: no request fails."""
        if not shutil.which("redis-server"):
            self.skipTest("no redis-server")
        path = lib.scratch("live-redis.sock")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        with subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no"],
                              stdout=subprocess.DEVNULL) as server:
            try:
                lib.wait_until(lambda: answers(path))
                with socket.socket(socket.AF_UNIX) as client:
                    client.settimeout(SECONDS)
                    client.connect(path)

                    def ask(number):
                        client.sendall(b"INCR x\r\n")
                        answer = b""
                        while not answer.endswith(b"\r\n"):
                            part = client.recv(100)
                            assert part, "the server has closed"
                            answer += part
                        assert answer == f":{number + 1}\r\n".encode(), answer

                    load = Load(ask)
                    load.start()
                    self.cycles(server.pid, load)
                    load.stop()
                    self.assertIsNone(load.failure)
                    self.assertGreater(load.done, CYCLES)
            finally:
                server.kill()

    def test_nginx(self):
        """Taken and given back again and again, with marks on code and data that come and go: every page is whole."""
        if not shutil.which("nginx"):
            self.skipTest("no nginx")
        root = lib.scratch("nginx")
        os.makedirs(root, exist_ok=True)
        os.chmod(root, 0o755)
        page = b"0123456789" * 300
        with open(os.path.join(root, "page"), "wb") as stream:
            stream.write(page)
        with open(os.path.join(root, "conf"), "w", encoding="utf-8") as stream:
            stream.write(NGINX.format(root=root, user="user root;" if os.geteuid() == 0 else ""))
        sock = os.path.join(root, "sock")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(sock)
        with subprocess.Popen(["nginx", "-p", root, "-c", os.path.join(root, "conf")], stderr=subprocess.DEVNULL) as server:
            try:
                lib.wait_until(lambda: answers(sock))
                with open(f"/proc/{server.pid}/task/{server.pid}/children", encoding="utf-8") as stream:
                    worker = int(stream.read().split()[0])
                with socket.socket(socket.AF_UNIX) as client:
                    client.settimeout(SECONDS)
                    client.connect(sock)
                    answer = client.makefile("rb")

                    def ask(_):
                        client.sendall(b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n")
                        head = [answer.readline()]
                        while head[-1] not in (b"\r\n", b""):
                            head.append(answer.readline())
                        assert head[0] == b"HTTP/1.1 200 OK\r\n", head
                        assert answer.read(len(page)) == page

                    load = Load(ask)
                    load.start()
                    for _ in range(max(2, CYCLES // 4)):
                        self.taken(worker, load, "ngx_http_process_request", "data:ngx_current_msec")
                    load.stop()
                    answer.close()
                    self.assertIsNone(load.failure)
            finally:
                server.terminate()

    def taken(self, pid, load, mark, data):
        with Counting(pid, "-m", mark) as count:
            lib.wait_until(lambda: load.failure or marks(pid)[mark]["visits"] > 10)
            live(pid, "--add", data)
            lib.wait_until(lambda: load.failure or marks(pid)[data]["reads"] > 10)
            live(pid, "--remove", mark)
            live(pid, "--remove", data)
            live(pid, "--add", mark)
            self.assertIsNone(load.failure)
            count.end()
        with open(f"/proc/{pid}/maps", encoding="utf-8") as stream:
            self.assertNotIn("memfd:assay", stream.read())
        done = load.done
        lib.wait_until(lambda: load.failure or load.done > done + 10)

    def cycles(self, pid, load):
        with Counting(pid, "-m", "redis-*!processCommand"):
            for _ in range(CYCLES):
                before = marks(pid)["redis-*!processCommand"]["visits"]
                lib.wait_until(lambda: load.failure or marks(pid)["redis-*!processCommand"]["visits"] > before)
                live(pid, "--add", "redis-*!dict*")
                self.assertIsNone(load.failure)
                live(pid, "--remove", "redis-*!dict*")
                live(pid, "--remove", "redis-*!processCommand")  # and it runs by itself
                done = load.done
                lib.wait_until(lambda: load.failure or load.done > done + 10)
                live(pid, "--add", "redis-*!processCommand")
                self.assertIsNone(load.failure)


if __name__ == "__main__":
    unittest.main()
