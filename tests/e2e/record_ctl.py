#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: V1, V8, S2, S8.
"""A recording that is asked, paused and changed while it runs.

What the recorder says of itself is compared with the file that it writes, and rates with the CPU time that the kernel says the program
has used.
"""

import contextlib
import json
import os
import socket
import subprocess
import time
import unittest

import lib

SECONDS = 60
ATTACKER = 65534
TICKS = os.sysconf("SC_CLK_TCK")


def setUpModule():
    lib.build("forever.c")


def ctl(*arguments, code=0, prefix=()):
    run = subprocess.run([*prefix, lib.ASSAY, "ctl", *arguments], capture_output=True, text=True, timeout=SECONDS)
    assert run.returncode == code, (run.args, run.returncode, run.stderr)
    return run.stderr if code else run.stdout


def status(path, verb="status", *more):
    return json.loads(ctl("-i", path, "--json", verb, *more))


def answers(path):
    return subprocess.run([lib.ASSAY, "ctl", "-i", path, "status"], capture_output=True).returncode == 0


@contextlib.contextmanager
def recording(*options):
    """A program that runs for ever, and the recording of it, which answers."""
    with lib.Program(lib.scratch("forever"), ready="ready") as program, lib.Recording("-p", str(program.pid), *options) as record:
        lib.wait_until(lambda: record.process.poll() is not None or answers(record.path))
        assert record.process.poll() is None, record.process.communicate()
        yield program, record


def cpu_seconds(program):
    with open(f"/proc/{program.pid}/stat", encoding="ascii") as stream:
        fields = stream.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def burn(program, seconds):
    """Until the program has used so much more, however busy the machine is."""
    end = cpu_seconds(program) + seconds
    lib.wait_until(lambda: cpu_seconds(program) >= end, SECONDS)


def kept(path, kind="samples"):
    """As of the last commit."""
    return lib.Profile(path).total(kind, "kept")


def metric(path, name):
    return lib.Profile(path).value("select coalesce(sum(total), 0) from metric where metric = ?", name)


def rate(program, path):
    """Samples for a second of the program's time, of half a second or more."""
    before, used = status(path, "snapshot")["samples"]["kept"], cpu_seconds(program)
    burn(program, 0.4)
    after = status(path, "snapshot")["samples"]["kept"]
    return (after - before) / (cpu_seconds(program) - used)


def facts(path, key):
    return {row[0] for row in lib.Profile(path).rows("select value from fact where key = ?", key)}


class Pause(unittest.TestCase):
    def check(self, *options):
        with recording(*options) as (program, record):
            burn(program, 0.3)
            self.assertEqual(status(record.path, "pause")["state"], "paused")
            before = status(record.path, "snapshot")["samples"]["kept"]
            self.assertGreater(before, 0)
            burn(program, 1)
            paused = status(record.path, "snapshot")
            self.assertEqual(paused["samples"]["kept"], before)
            self.assertEqual(kept(record.path), before)
            self.assertIn("paused already", ctl("-i", record.path, "pause", code=1))
            self.assertEqual(status(record.path, "resume")["state"], "recording")
            lib.wait_until(lambda: status(record.path)["samples"]["kept"] > before + 10)
            run = record.stop()
        lib.check_sums(self, run.profile)
        rows = {row["reason"]: row for row in lib.report(run.path, "losses")["rows"] if row["kind"] == "other"}
        self.assertGreaterEqual(rows["paused"]["count"], 1000)
        self.assertGreaterEqual(metric(run.path, "paused"), 10**9)
        self.assertFalse(lib.report(run.path, "functions")["totals"].get("rate_changed"))

    @unittest.skipUnless(lib.IS_ROOT, "needs BPF and privilege")
    def test_bpf(self):
        self.check()

    def test_perf_ring(self):
        self.check("--user-only")

    @unittest.skipUnless(lib.IS_ROOT, "needs BPF and privilege")
    def test_waits(self):
        with recording("--off-cpu") as (_, record):
            self.assertIn("--off-cpu cannot be paused", ctl("-i", record.path, "pause", code=1))


@unittest.skipUnless(lib.IS_ROOT, "needs BPF and privilege")
class Settings(unittest.TestCase):
    def test_rate(self):
        with recording("-F", "99") as (program, record):
            slow = rate(program, record.path)
            self.assertEqual(status(record.path, "set", "freq=1999")["freq"], 1999)
            fast = rate(program, record.path)
            run = record.stop()
        self.assertGreater(fast, 4 * slow)
        self.assertEqual(facts(run.path, "frequency"), {"99", "1999"})
        self.assertEqual(len(facts(run.path, "period")), 2)
        self.assertTrue(lib.report(run.path, "functions")["totals"]["rate_changed"])
        text = subprocess.run([lib.ASSAY, "report", "-i", run.path], capture_output=True, text=True, check=True).stdout
        self.assertIn("shares are of samples, not of time", " ".join(text.split()))
        merge = subprocess.run([lib.ASSAY, "merge", run.path, run.path, "-o", lib.scratch("both.db")], capture_output=True, text=True)
        self.assertEqual(merge.returncode, 1)
        self.assertIn("was changed while it was recorded", merge.stderr)

    def steps_of_runs(self, program, path):
        """Instructions of a run, in the mean, of those that begin from now on."""
        def totals():
            status(path, "snapshot")
            return metric(path, "runs_steps"), lib.Profile(path).total("values", "seen")

        before = totals()
        burn(program, 0.4)
        after = totals()
        self.assertGreater(after[1], before[1] + 20)
        return (after[0] - before[0]) / (after[1] - before[1])

    def test_runs(self):
        with recording("--values", "--run-length", "8", "--run-skip", "0", "--run-every", "1") as (program, record):
            lib.wait_until(lambda: kept(record.path, "values") > 100)
            short = self.steps_of_runs(program, record.path)
            changed = status(record.path, "set", "run-length=200", "run-skip=0", "run-share=50%")["runs"]
            self.assertEqual((changed["run_length"], changed["run_skip"], changed["run_share"]), (200, 0, 0.5))
            long = self.steps_of_runs(program, record.path)
            few = status(record.path, "set", "run-every=1000000")["runs"]
            self.assertEqual(few["run_every"], 1000000)
            status(record.path, "snapshot")
            before = lib.Profile(record.path).total("values", "seen")
            burn(program, 0.3)
            status(record.path, "snapshot")
            self.assertLess(lib.Profile(record.path).total("values", "seen") - before, 20)
            run = record.stop()
        self.assertLessEqual(short, 9)
        self.assertGreater(long, 50)
        self.assertEqual(facts(run.path, "run_length"), {"8", "200"})
        self.assertEqual(facts(run.path, "run_every"), {"0", "1", "1000000"})
        lib.check_sums(self, run.profile)

    def test_refusals(self):
        with recording("-F", "99") as (_, record):
            for words, sentence in ((["run-length=10"], "takes no values"), (["output=x"], "output cannot be changed while recording"),
                                    (["freq=0"], "takes a whole number"),
                                    (["freq=500", "run-every=2"], "takes no values"), (["freq"], "NAME=VALUE")):
                self.assertIn(sentence, ctl("-i", record.path, "set", *words, code=1))
            self.assertEqual(status(record.path)["freq"], 99)
        with recording("-e", "page-faults", "-c", "100") as (_, record):
            self.assertIn("has no rate", ctl("-i", record.path, "set", "freq=500", code=1))
            self.assertEqual(status(record.path)["count"], 100)


class Snapshot(unittest.TestCase):
    def test_original(self):
        """What goes on is not taken for what was killed; where there are names is said."""
        with recording(*([] if lib.IS_ROOT else ["--user-only"])) as (program, record):
            burn(program, 0.3)
            status(record.path, "snapshot")
            run = subprocess.run([lib.ASSAY, "report", "-i", record.path], capture_output=True, text=True, timeout=SECONDS)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertRegex(run.stderr, r"is being recorded.* assay ctl -i \S+ snapshot -o COPY\n$")
            self.assertNotIn("warning", run.stderr)
            record.stop()

    def test_copy(self):
        """A copy has what was seen before, with names, and the recording goes on."""
        options = [] if lib.IS_ROOT else ["--user-only"]
        with recording(*options) as (program, record):
            burn(program, 0.3)
            copy = lib.scratch("copy.db")
            said = ctl("-p", str(record.process.pid), "snapshot", "-o", copy)
            self.assertEqual(said, "")
            rows = lib.report(copy, "functions")["rows"]
            self.assertIn("WORK", [row["symbol"] for row in rows])
            least = lib.report(copy, "functions")["totals"]["kept"]
            lib.wait_until(lambda: kept(record.path) > least)
            run = record.stop()
        lib.check_sums(self, run.profile, least + 1)
        self.assertFalse(answers(run.path))
        self.assertIn("nobody records it", ctl("-i", run.path, "status", code=1))


@unittest.skipUnless(lib.IS_ROOT, "only root can become somebody else")
class Strangers(unittest.TestCase):
    def as_attacker(self, *arguments):
        return ctl(*arguments, code=1, prefix=["setpriv", f"--reuid={ATTACKER}", f"--regid={ATTACKER}", "--clear-groups"])

    def test_request(self):
        """Nobody else is served."""
        os.chmod(lib.SCRATCH, 0o755)
        with recording() as (_, record):
            os.chmod(record.path, 0o644)
            self.assertIn("only its own user and root", self.as_attacker("-p", str(record.process.pid), "pause"))
            self.assertIn("only its own user and root", self.as_attacker("-i", record.path, "pause"))
            self.assertEqual(status(record.path)["state"], "recording")

    def test_planted(self):
        """Who has taken the name of a recorder or a profile is not believed, also by root."""
        profile = lib.scratch("planted.db")
        with open(profile, "w", encoding="ascii"):
            pass
        file = os.stat(profile)
        for name, arguments in ((f"record.{os.getpid()}", ["-p", str(os.getpid())]),
                                (f"record.{file.st_dev:x}.{file.st_ino:x}", ["-i", profile])):
            ready, tell = os.pipe()
            child = os.fork()
            if child == 0:
                os.setgid(ATTACKER)
                os.setuid(ATTACKER)
                with socket.socket(socket.AF_UNIX) as server:
                    server.bind(f"\0assay.{name}")
                    server.listen()
                    os.write(tell, b"x")
                    with server.accept()[0] as client:
                        client.sendall(b'{"assay":1,"state":"paused"}')
                        time.sleep(SECONDS)
                os._exit(0)
            os.read(ready, 1)
            os.close(ready)
            os.close(tell)
            try:
                self.assertIn("another user", ctl(*arguments, "status", code=1))
            finally:
                os.kill(child, 9)
                os.waitpid(child, 0)


class Usage(unittest.TestCase):
    def test_usage(self):
        for words, sentence in (([], "ctl takes what to do"), (["halt"], "ctl takes what to do"), (["set"], "set takes settings"),
                                (["status", "now"], "takes no arguments"), (["-o", "x", "status"], "only with snapshot"),
                                (["-i", "x", "-p", "1", "status"], "exclude each other"), (["set", "a b=c"], "NAME=VALUE")):
            self.assertIn(sentence, ctl(*words, code=2))
        self.assertIn("no such profile", ctl("-i", lib.scratch("nothing.db"), "status", code=1))
        self.assertIn("is no assay record", ctl("-p", str(os.getpid()), "status", code=1))


if __name__ == "__main__":
    lib.main()
