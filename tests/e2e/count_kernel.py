#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: I1, I2, I3.
"""Marks of programs that never enter the engine: the kernel counts visits, reads and writes."""

import json
import os
import subprocess
import time
import unittest

import lib
from count_live import Program, is_counted, live, marks

SECONDS = 120


def count_start(pid, path, *options):
    return subprocess.Popen([lib.ASSAY, "count", "-p", str(pid), "-o", path, *options], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            text=True)


def count_end(process):
    process.send_signal(2)
    err = process.communicate(timeout=SECONDS)[1]
    assert process.returncode == 0, err
    return err


def report(view, path):
    return json.loads(subprocess.run([lib.ASSAY, "report", view, "-i", path, "--json"], capture_output=True, check=True).stdout)["rows"]


def refused(pid, *options):
    run = subprocess.run([lib.ASSAY, "count", "-p", str(pid), *options], capture_output=True, text=True, timeout=SECONDS)
    assert run.returncode in (1, 2), run
    return run.stderr


@unittest.skipUnless(lib.IS_ROOT, "probes are root's")
class Kernel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not os.path.exists("/sys/bus/event_source/devices/uprobe"):
            raise unittest.SkipTest("this kernel has no probes on user code")
        cls.program = lib.build("marks_live.c", "-pthread")

    def test_visits(self):
        """Exactly what the program says that it did, read while it runs and in the profile, in rules and over time."""
        path = lib.scratch("kernel.db")
        with Program(self.program) as program:
            rule = "calls(work) >= 30 every 1m -> event enough; snapshot"
            process = count_start(program.pid, path, "--by", "kernel", "-m", "work", "-m", "idl*", "--every", "0.1", "--when", rule)
            lib.wait_until(lambda: process.poll() is not None or is_counted(program.pid))
            program.do(20)
            program.do(13)
            lib.wait_until(lambda: [marks(program.pid)[mark]["visits"] for mark in ("work", "idle")] == [33, 2])
            self.assertIn("its marks cannot be changed", live(program.pid, "--add", "spin", code=1))
            with open(f"/proc/{program.pid}/maps", encoding="utf-8") as stream:
                self.assertNotIn("memfd:assay", stream.read())
            time.sleep(0.3)
            count_end(process)
            program.do(5)  # and goes on by itself
        rows = {row["mark"]: row for row in report("marks", path)}
        self.assertEqual({mark: row["visits"] for mark, row in rows.items()}, {"work": 33, "idle": 2})
        self.assertIsNone(rows["work"]["instructions"])
        times = report("marktime", path)
        self.assertEqual(sum(row["visits"] for row in times if row["mark"] == "work"), 33)
        self.assertEqual([row["cause"] for row in report("events", path)], ["rule", "snapshot"])

    def test_data(self):
        """Of data: what one instruction reads and another writes, with breakpoints of the processor."""
        path = lib.scratch("kernel-data.db")
        with Program(self.program) as program:
            process = count_start(program.pid, path, "--by", "kernel", "-m", "data:worked")
            lib.wait_until(lambda: process.poll() is not None or is_counted(program.pid))
            if process.poll() is not None:
                self.assertIn("breakpoints of the processor are in use", process.communicate()[1])
                self.skipTest("the processor has no free breakpoint")
            program.do(50)
            lib.wait_until(lambda: marks(program.pid)["data:worked"]["writes"] == 50)
            found = marks(program.pid)["data:worked"]
            count_end(process)
        # worked is read and written by each call, by one instruction or by two, and read to be printed.
        self.assertIn(found["reads"], (1, 51))
        [row] = report("marks", path)
        self.assertEqual((row["reads"], row["writes"]), (found["reads"], found["writes"]))

    def test_threads(self):
        """All threads that there are count; the program's own counter says the same."""
        path = lib.scratch("kernel-threads.db")
        with Program(self.program, "spin") as program:
            process = count_start(program.pid, path, "--by", "kernel", "-m", "spin", "-m", "work")
            lib.wait_until(lambda: process.poll() is not None or is_counted(program.pid))
            program.do(9)
            lib.wait_until(lambda: marks(program.pid)["spin"]["visits"] > 100)
            count_end(process)
            spun = program.end()[2]
        rows = {row["mark"]: row for row in report("marks", path)}
        self.assertEqual(rows["work"]["visits"], 9)
        self.assertTrue(100 < rows["spin"]["visits"] <= spun)

    def test_threads_later(self):
        """Threads and processes that are created afterwards: none fails for our sake, and each visit is counted."""
        path = lib.scratch("kernel-later.db")
        program = lib.build("marks_started.c", "-pthread")
        with subprocess.Popen([program, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            with open(f"/proc/{process.pid}/stat", encoding="utf-8") as stream:
                lib.wait_until(lambda: stream.seek(0) is not None and ") S " in stream.read())
            counting = count_start(process.pid, path, "--by", "kernel", "-m", "work", "-m", "data:worked")
            lib.wait_until(lambda: counting.poll() is not None or is_counted(process.pid))
            out = process.communicate("go\n", timeout=SECONDS)[0]
            counting.communicate(timeout=SECONDS)
        self.assertEqual(out, "failed 0, worked 26\n")
        rows = {row["mark"]: row for row in report("marks", path)}
        self.assertEqual((rows["work"]["visits"], rows["data:worked"]["writes"]), (25, 25))

    def test_command(self):
        """A command is counted from its first instruction on: what runs before main(), its threads, its children; with its code."""
        path = lib.scratch("kernel-command.db")
        for flags in (("-pthread",), ("-pthread", "-static"), ("-pthread", "-no-pie"), ("-pthread", "-fpatchable-function-entry=5"),
                      ("-pthread", "-fpatchable-function-entry=9,4")):
            program = lib.build("marks_started.c", *flags, name="marks_started" + "".join(flags).replace("=", "-").replace(",", "-"))
            run = subprocess.run([lib.ASSAY, "count", "--by", "kernel", "-m", "work", "-m", "main", "-m", "data:worked", "-o", path, "--",
                                  program], capture_output=True, text=True, timeout=SECONDS)
            self.assertEqual((run.returncode, run.stdout), (7, "failed 0, worked 26\n"), run.stderr)
            rows = {row["mark"]: row for row in report("marks", path)}
            self.assertEqual((rows["work"]["visits"], rows["main"]["visits"], rows["data:worked"]["writes"]), (26, 1, 26), flags)

    def test_command_libraries(self):
        """In libraries and in the dynamic linker itself the kernel counts what the engine does, in a program nobody here wrote."""
        chosen = ["-m", "libc*!malloc", "-m", "libc*!free", "-m", "ld-linux*!_dl_map_*", "-m", "ld-linux*!_dl_relocate_object", "-m",
                  "ld-linux*!_dl_init"]
        found = []
        for who in ("kernel", "engine"):
            path = lib.scratch(f"kernel-libraries-{who}.db")
            subprocess.run([lib.ASSAY, "count", "-q", "--by", who, *chosen, "-o", path, "--", "/bin/ls", "-l", "/"], check=True,
                           stdout=subprocess.DEVNULL, timeout=SECONDS)
            found.append({row["mark"]: row["visits"] for row in report("marks", path)})
        self.assertEqual(*found)
        self.assertGreater(found[0]["libc*!malloc"], 10)
        self.assertGreater(found[0]["_dl_map_object"], 1)

    def test_command_ends(self):
        """A signal for us alone reaches the command; what cannot be run says so, and counts that cannot be taken run nothing."""
        path = lib.scratch("kernel-ends.db")
        program = lib.build("marks_started.c", "-pthread")
        with subprocess.Popen([lib.ASSAY, "count", "-q", "--by", "kernel", "-m", "main", "-o", path, "--", program, "signal"],
                              stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "waiting\n")
            process.terminate()
            self.assertEqual(process.wait(SECONDS), 3)
        self.assertEqual(report("marks", path)[0]["visits"], 1)
        for command, marks_, code, sentence in ((["/no/such/program"], ["main"], 127, "No such file"), (["/"], ["main"], 126, "cannot run"),
                                                ([program], ["work,time"], 1, "does not time them"),
                                                ([program], ["*"], 1, "more than 256 places")):
            run = subprocess.run([lib.ASSAY, "count", "--by", "kernel", *(word for mark in marks_ for word in ("-m", mark)), "-o", path, "--",
                                  *command], capture_output=True, text=True, timeout=SECONDS)
            self.assertEqual((run.returncode, run.stdout), (code, ""), run.stderr)
            self.assertIn(sentence, run.stderr)
        run = subprocess.run([lib.ASSAY, "count", "--by", "auto", "-m", "main", "--", program], capture_output=True, text=True,
                             timeout=SECONDS)
        self.assertEqual(run.returncode, 2)
        self.assertIn("give it with -p PID", run.stderr)

    def test_auto(self):
        """Who counts is said, with both figures: a mark that is hardly visited is the kernel's, one that is all the time the engine's."""
        path = lib.scratch("kernel-auto.db")
        with Program(self.program, "spin") as program:
            for mark, who in (("idle", "kernel"), ("spin", "engine")):
                process = count_start(program.pid, path, "--by", "auto", "-m", mark)
                lib.wait_until(lambda p=process: p.poll() is not None or is_counted(program.pid))
                program.do(1)
                lib.wait_until(lambda m=mark: marks(program.pid)[m]["visits"] >= 1)
                err = count_end(process)
                self.assertRegex(err, rf"visits a second, at \d+ ns for a probe, .*: the {who} counts")

    def test_refused(self):
        with Program(self.program) as program:
            for options, sentence in ((["-m", "work,time"], "does not time them"), (["-m", "insn:nop"], "everywhere"),
                                      (["-m", "data:0x1000+3"], "1, 2, 4 or 8"),
                                      (["-m", "work", "--when", "calls(work) > 1 -> start idle"], "cannot start or stop marks"),
                                      (["-m", "work", "--sweep", "x"], "stay as they are")):
                self.assertIn(sentence, refused(program.pid, "--by", "kernel", *options))
            self.assertIn("it is engine, kernel or auto", refused(program.pid, "--by", "nobody", "-m", "work"))
            self.assertIn("no process", refused(999999999, "--by", "kernel", "-m", "work").lower().replace("such ", ""))


if __name__ == "__main__":
    unittest.main()
