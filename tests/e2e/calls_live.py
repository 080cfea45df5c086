#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: T1, T2, T5, T8, T9.
"""Trees of programs that run: assay report --live while assay calls records, and assay calls -p.

tests/programs/calls_live.c calls what its input says and answers when that is over. So how often each function was called is
known at every moment at which the test looks, while the recording goes on.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import unittest

import lib

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


class Program:
    """The program, by itself or started by assay calls; says what it is told, and waits for the answer."""

    def __init__(self, command, cwd):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        cwd=cwd)
        self.pid = self.answer("ready")

    def answer(self, word):
        line = self.process.stdout.readline()
        assert line.startswith(word), (line, self.process.poll())
        return int(line.split()[1])

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer("done")

    def end(self):
        out, err = self.process.communicate(timeout=200)
        assert self.process.returncode == 5, (self.process.returncode, out, err)
        assert out.startswith("over 1\n"), out
        return out[len("over 1\n"):], err


@contextlib.contextmanager
def started(*command):
    program = Program(command, lib.SCRATCH)
    try:
        yield program
    finally:
        program.process.kill()
        program.process.communicate()


def report(*options, code=0, prefix=()):
    run = subprocess.run([*prefix, lib.ASSAY, "report", *options], capture_output=True, text=True, timeout=200, cwd=lib.SCRATCH)
    assert run.returncode == code, (run.returncode, run.stdout[-2000:], run.stderr[-2000:])
    return json.loads(run.stdout) if code == 0 and "--json" in options else run


def live(pid, view="tree", *options):
    return report(view, "--live", str(pid), "--json", "--min-share", "0", *options)


def counts(found, *names):
    """Calls of each name, over all paths."""
    sums = dict.fromkeys(names, 0)
    for row in found["rows"]:
        if row["symbol"] in sums:
            sums[row["symbol"]] += row["calls"]
    return sums


def parents(found, name):
    """The names of the rows right above those of that name."""
    path, above = [], set()
    for row in found["rows"]:
        del path[row["level"]:]
        path.append(row["symbol"])
        if row["symbol"] == name:
            above.add(path[-2])
    return above


class Live(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plain = lib.build("calls_live.c")
        cls.hooked = lib.build("calls_live.c", "-finstrument-functions", name="calls_live_hooked")

    def recorded(self, way, *options):
        program = self.hooked if way == "hooks" else self.plain
        return started(lib.ASSAY, "calls", "--with", way, "-o", f"{way}.db", "--json", *options, "--", program)

    def grows(self, way):
        """What is seen is what was called so far, and in the end the profile has all of it; columns are those of a profile."""
        with self.recorded(way) as program:
            for number, total in ((7, 7), (0, 7), (100, 107)):
                self.assertEqual(program.tell(str(number)), number)
                found = live(program.pid)
                self.assertEqual(counts(found, "work", "leaf"), {"work": total, "leaf": 3 * total})
                self.assertEqual(found["totals"]["seen"], sum(row["calls"] for row in found["rows"] if row["level"]))
                self.assertEqual({row["pid"] for row in found["rows"]}, {program.pid})
                self.assertEqual(found["rows"][0]["base"], found["rows"][0]["cum"] - sum(
                    row["cum"] for row in found["rows"] if row["level"] == 1))
            functions = {row["symbol"]: row["calls"] for row in live(program.pid, "functions")["rows"]}
            self.assertEqual((functions["work"], functions["leaf"], functions["serve"]), (107, 321, 3))
            self.assertIn("main", report("tree", "--live", str(program.pid)).stdout)
            out, _ = program.end()
        profile = report("tree", "-i", f"{way}.db", "--json", "--min-share", "0")
        self.assertEqual(counts(profile, "work", "leaf"), {"work": 107, "leaf": 321})
        self.assertEqual(set(profile["rows"][0]), set(found["rows"][0]))
        self.assertEqual(counts(json.loads(out), "work"), {"work": 107})
        self.assertEqual(os.listdir(self.folder), [])

    def setUp(self):
        """Nothing is left where a report makes its files."""
        self.folder = lib.scratch("live-" + self.id().split(".")[-1])
        os.makedirs(self.folder)
        os.environ["TMPDIR"] = self.folder

    def tearDown(self):
        del os.environ["TMPDIR"]

    def test_engine(self):
        self.grows("engine")

    def test_hooks(self):
        self.grows("hooks")

    def while_it_runs(self, way):
        """Of a thread that never stops: no less than before, each leaf below a turn, and sums agree or the report fails."""
        with self.recorded(way, "--count") as program:
            program.tell("spin")
            last = 0
            for _ in range(5):
                found = live(program.pid)
                turns = counts(found, "turn")["turn"]
                self.assertGreater(turns, last)
                self.assertEqual(parents(found, "turn"), {"spin"})
                self.assertEqual(parents(found, "leaf"), {"turn"})
                last = turns
            program.end()
        self.assertGreaterEqual(counts(report("tree", "-i", f"{way}.db", "--json", "--min-share", "0"), "turn")["turn"], last)

    def test_engine_runs(self):
        self.while_it_runs("engine")

    def test_hooks_run(self):
        self.while_it_runs("hooks")

    def processes(self, way):
        """A child has its own tree, and by the process that records all are seen."""
        with self.recorded(way) as program:
            program.tell("3")
            child = program.tell("fork")
            program.tell("5")
            self.assertEqual(counts(live(program.pid), "work"), {"work": 3})
            self.assertEqual(counts(live(child), "work"), {"work": 5})
            found = live(program.process.pid)
            self.assertEqual({row["pid"] for row in found["rows"]}, {program.pid, child})
            self.assertEqual(counts(found, "work"), {"work": 8})
            program.end()

    def test_engine_processes(self):
        self.processes("engine")

    def test_hooks_processes(self):
        self.processes("hooks")

    def test_snapshots(self):
        """Of the engine, at intervals: while the program is idle, the next one has all that it has called."""
        command = [lib.ASSAY, "calls", "--with", "engine", "--snapshot-every", "0.2", "--view", "functions", "--count", "--json",
                   "-o", "snapshots.db", "--", self.plain]
        row = re.compile(r'"calls": ?42,[^{}]*"symbol": ?"work"')
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=lib.SCRATCH) as assay:
            assay.stdin.write("42\n")
            assay.stdin.flush()
            while True:
                line = assay.stdout.readline()
                self.assertTrue(line)
                if row.search(line):
                    break
            rest = assay.communicate(timeout=200)[0]
        self.assertEqual(assay.returncode, 5)
        self.assertRegex(rest[rest.index("over 1\n"):], row)

    def test_refusals(self):
        with started(self.plain) as program:
            run = report("tree", "--live", str(program.pid), code=1)
            self.assertIn(f"the calls of process {program.pid} are not recorded now", run.stderr)
            self.assertIn("either", report("tree", "--live", str(program.pid), "-i", "x.db", code=2).stderr)
            self.assertIn("--tui", report("tree", "--live", str(program.pid), "--tui", code=2).stderr)
            program.end()
        self.assertIn("does not exist", report("tree", "--live", str(program.pid), code=1).stderr)
        with started(lib.ASSAY, "trace", "-q", "--tool", "count", "--", self.plain) as program:
            self.assertIn("not for its calls", report("tree", "--live", str(program.pid), code=1).stderr)
            program.end()
        self.assertEqual(os.listdir(self.folder), [])

    def test_forged(self):
        """Memory that only has the name."""
        script = ("import fcntl, mmap, os, sys\n"
                  "fd = os.memfd_create(sys.argv[1], os.MFD_ALLOW_SEALING)\n"
                  "os.truncate(fd, 1 << 25)\n"
                  "os.pwrite(fd, os.urandom(1 << 21) if sys.argv[2] == 'noise' else bytes(9), 0)\n"
                  "memory = mmap.mmap(fd, 1 << 25)\n"
                  "fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)\n"
                  "print('ready', flush=True)\n"
                  "input()\n")
        for name in ("assay-own", "assay-calls"):
            for content in ("noise", "nothing"):
                with lib.Program(lib.PYTHON, "-c", script, name, content, ready="ready", stdin=subprocess.PIPE) as program:
                    self.assertIn("version of assay", report("tree", "--live", str(program.pid), code=1).stderr)

    @unittest.skipUnless(lib.IS_ROOT, "needs another user")
    def test_another_user(self):
        os.chmod(self.folder, 0o777)
        with self.recorded("engine") as program:
            program.tell("3")
            report("tree", "--live", str(program.pid), code=1, prefix=NOBODY)
            self.assertEqual(counts(live(program.pid), "work"), {"work": 3})
            program.end()


class Compiled(unittest.TestCase):
    """What compilers put at the beginning of functions for others does not matter: the engine sees calls, those among them."""

    def test_flags(self):
        for flags in (("-pg",), ("-pg", "-mfentry"), ("-fpatchable-function-entry=5",)):
            program = lib.build("calls_live.c", "-fno-omit-frame-pointer", *flags, name="calls_live" + "".join(flags))
            skip = ["--skip", "*mcount*", "--skip", "__fentry__"]
            with started(lib.ASSAY, "calls", "--count", *skip, "-o", "flags.db", "--json", "--", program) as run:
                run.tell("10")
                found = json.loads(run.end()[0])
            self.assertEqual(counts(found, "serve", "work", "leaf", "mcount", "__fentry__"),
                             {"serve": 1, "work": 10, "leaf": 30, "mcount": 0, "__fentry__": 0})
            self.assertEqual((parents(found, "leaf"), parents(found, "work")), ({"work"}, {"serve"}))


class Java(unittest.TestCase):
    """Methods have the names that their machine gives them, also while it runs."""

    @unittest.skipUnless(shutil.which("javac"), "there is no javac")
    def test_java(self):
        subprocess.run(["javac", "-d", lib.SCRATCH, os.path.join(lib.PROGRAMS, "CallsLive.java")], check=True)
        with started(lib.ASSAY, "calls", "-o", "java.db", "--", "java", "-cp", lib.SCRATCH, "CallsLive") as program:
            for number, total in ((7, 7), (100, 107)):
                program.tell(str(number))
                found = live(program.pid)
                self.assertEqual(counts(found, "CallsLive.work", "CallsLive.leaf"),
                                 {"CallsLive.work": total, "CallsLive.leaf": 3 * total})
                self.assertEqual(parents(found, "CallsLive.work"), {"CallsLive.main"})
            program.end()


class Attached(unittest.TestCase):
    """assay calls -p: a process that runs comes into the engine and is given back."""

    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("calls_live.c")

    @contextlib.contextmanager
    def attached(self, pid, *options):
        command = [lib.ASSAY, "calls", "-p", str(pid), "-o", "attached.db", "--json", *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=lib.SCRATCH) as assay:
            try:
                line = assay.stderr.readline()
                self.assertIn("is in the engine", line)
                yield assay
            finally:
                assay.kill()

    def stop(self, assay, number=signal.SIGINT):
        if number:
            assay.send_signal(number)
        out, err = assay.communicate(timeout=200)
        self.assertEqual(assay.returncode, 0, err)
        return json.loads(out), err

    def left_alone(self, pid):
        with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
            self.assertNotIn("/memfd:assay", maps.read())
        with open(f"/proc/{pid}/status", encoding="utf-8") as status:
            self.assertIn("TracerPid:\t0\n", status.read())

    def test_once_and_again(self):
        """Exactly the calls in between; who had called before is found by its returns."""
        with started(self.program) as program:
            program.tell("1000")
            for number in (7, 11):
                with self.attached(program.pid, "--view", "tree") as assay:
                    program.tell(str(number))
                    now = live(program.pid)
                    self.assertEqual(counts(now, "serve", "work", "leaf"), {"serve": 1, "work": number, "leaf": 3 * number})
                    self.assertEqual(parents(now, "serve"), {"main"})
                    found, said = self.stop(assay)
                self.assertEqual(counts(found, "serve", "work", "leaf"), {"serve": 1, "work": number, "leaf": 3 * number})
                self.assertEqual((parents(found, "serve"), parents(found, "work")), ({"main"}, {"serve"}))
                main = [row["calls"] for row in found["rows"] if row["symbol"] == "main"]
                self.assertEqual(main, [0])  # nobody saw it being called
                self.assertIn("exits without an entry", said)
                self.left_alone(program.pid)
                program.tell("500")
            program.end()

    def test_threads_and_duration(self):
        with started(self.program) as program:
            program.tell("spin")
            with self.attached(program.pid, "--duration", "0.5", "--count", "--view", "tree") as assay:
                found, _ = self.stop(assay, number=None)
            self.assertGreater(counts(found, "turn")["turn"], 0)
            self.assertEqual(parents(found, "turn"), {"spin"})
            self.left_alone(program.pid)
            program.end()

    def test_its_end(self):
        with started(self.program) as program:
            with self.attached(program.pid) as assay:
                program.tell("5")
                program.end()
                found, said = self.stop(assay, number=None)
            self.assertEqual(counts(found, "work"), {"work": 5})
            self.assertIn("has ended", said)

    def test_only(self):
        with started(self.program) as program:
            with self.attached(program.pid, "--only", "work", "--view", "tree") as assay:
                program.tell("9")
                found, _ = self.stop(assay)
            self.assertEqual({row["symbol"]: row["calls"] for row in found["rows"] if row["level"]}, {"work": 9})
            program.end()

    def test_events(self):
        """The same tree from its events, of a thread that was in the middle of calls."""
        with started(self.program) as program:
            with self.attached(program.pid, "--events", "attached", "--view", "tree") as assay:
                program.tell("9")
                found, _ = self.stop(assay)
            program.end()
        run = subprocess.run([lib.ASSAY, "calls", "--from-events", "attached", "-o", "later.db", "--json"], capture_output=True,
                             text=True, cwd=lib.SCRATCH, timeout=200)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(found["rows"], json.loads(run.stdout)["rows"])
        self.assertEqual(sum(row["calls"] for row in found["rows"] if row["symbol"] == "work"), 9)

    def test_refusals(self):
        with started(self.program) as program:
            for options, code, text in ((("--with", "hooks"), 1, "cannot be given hooks"), (("--", "true"), 2, "one of both"),
                                        (("--resources", "--events", "x"), 1, "--resources")):
                run = subprocess.run([lib.ASSAY, "calls", "-p", str(program.pid), *options], capture_output=True, text=True,
                                     cwd=lib.SCRATCH, timeout=200)
                self.assertEqual(run.returncode, code, run.stderr)
                self.assertIn(text, run.stderr)
            program.tell("3")
            program.end()
        run = subprocess.run([lib.ASSAY, "calls", "-p", str(program.pid)], capture_output=True, text=True, cwd=lib.SCRATCH,
                             timeout=200)
        self.assertEqual(run.returncode, 1, run.stderr)


if __name__ == "__main__":
    lib.main()
