#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: B4, I1, I5.
"""What the slowest calls of a routine do that usual ones do not: a server with three planted causes."""

import contextlib
import json
import shutil
import signal
import socket
import sqlite3
import subprocess
import unittest

import lib

SECONDS = 120
FEW = 5  # of 40: where the machine is busy, some visits are slow for lack of a processor


def assay(*arguments, **options):
    return subprocess.run([lib.ASSAY, *arguments], capture_output=True, text=True, timeout=SECONDS, **options)


class Tail(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("tail.c")
        cls.path = lib.scratch("tail.db")
        # Two commands, as a person would give them. 3 % are planted; 5 % leave room for what a busy machine adds.
        cls.recipe = lib.scratch("my-recipe")
        with open(cls.recipe, "w", encoding="utf-8") as stream:
            stream.write("# the slowest twentieth of a routine's calls\n\n  mark $1,tail=5%\n")
        cls.run_ = assay("count", "--recipe", f"{cls.recipe}=handle", "-o", cls.path, "--", cls.program)
        assert cls.run_.returncode == 0, cls.run_.stderr
        cls.planted = dict(line.split(" ") for line in cls.run_.stdout.splitlines())
        report = assay("report", "tail", "-i", cls.path, "--json")
        assert report.returncode == 0, report.stderr
        cls.rows = json.loads(report.stdout)["rows"]

    def row(self, cause, place):
        found = [row for row in self.rows if row["cause"] == cause and place in row["where"]]
        self.assertEqual(len(found), 1, self.rows)
        return found[0]

    def test_program(self):
        """It does what it does by itself."""
        alone = subprocess.run([self.program], capture_output=True, text=True, check=True, timeout=SECONDS)
        self.assertEqual(alone.stdout, self.run_.stdout)

    def test_lock(self):
        """The lock has its name, and the chain of calls that leads to it."""
        row = self.row("lock", "handle > update_table > ")
        self.assertEqual(row["object"], "table_lock")
        self.assertGreaterEqual(row["visits"], FEW)
        self.assertLessEqual(row["visits"], int(self.planted["locked"]))
        self.assertGreater(row["off_ns"], row["longer_ns"] // 2)
        self.assertIsNone(row["value"])

    def test_page_faults(self):
        row = self.row("page faults", "refresh_cache")
        self.assertEqual(row["where"], "handle > refresh_cache")
        self.assertGreaterEqual(row["visits"], FEW)
        self.assertLessEqual(row["visits"], int(self.planted["faulted"]))
        self.assertGreaterEqual(row["faults"], 2000)
        self.assertLess(row["faults"], 2500)

    def test_slow_path(self):
        """The value that all slow ones have, and the function that only they call."""
        row = self.row("slow path", "rebuild_index")
        self.assertEqual(row["where"], "handle > rebuild_index")
        self.assertEqual(row["only"], "rebuild_index")
        self.assertEqual(row["value"], '*request = "report-2019"')
        self.assertEqual(row["value_share"], 1)
        self.assertEqual(row["value_usual_share"], 0)
        self.assertGreaterEqual(row["visits"], FEW)
        self.assertLessEqual(row["visits"], int(self.planted["slow"]))

    def test_times(self):
        """All visits are counted and timed, as for any other mark."""
        report = assay("report", "marks", "-i", self.path, "--json", check=True)
        (row,) = json.loads(report.stdout)["rows"]
        self.assertEqual((row["visits"], row["timed"], row["abandoned"]), (4000, 4000, 0))
        self.assertLess(row["p50_ns"], self.rows[0]["slow_from_ns"])

    def test_said(self):
        """The command itself says the causes; the report is for the rest."""
        for text in ("lock table_lock", "page faults", "slow path", "rebuild_index"):
            self.assertIn(text, self.run_.stderr)

    def test_recipes(self):
        """Those that come along are listed, readable, and work."""
        listed = assay("count", "--recipe", "help", check=True).stdout
        self.assertEqual([line.split()[0] for line in listed.splitlines()], ["tail", "slow-calls", "cost"])
        path = lib.scratch("recipes.db")
        bare = lib.build("tail.c", "-g0", name="tail-bare")  # what takes arguments is known by the code alone
        run = assay("count", "--recipe", "tail=handle", "-o", path, "--", bare, check=True)
        self.assertIn("handle,tail", run.stderr)
        self.assertIn("the slowest visits are longer", run.stderr)
        self.assertNotIn("rsi =", run.stderr)
        assay("count", "--recipe", "slow-calls=1ms", "-o", path, "--", self.program, check=True)
        rows = json.loads(assay("report", "marks", "-i", path, "--json", check=True).stdout)["rows"]
        slower = {row["mark"]: row["slower"] for row in rows if row.get("slower")}
        self.assertEqual(slower["libc.so.6!nanosleep,slower=1ms"], int(self.planted["locked"]))
        assay("count", "--recipe", "cost=handle", "-o", path, "--", self.program, check=True)
        (row,) = json.loads(assay("report", "marks", "-i", path, "--json", check=True).stdout)["rows"]
        self.assertEqual((row["mark"], row["timed"]), ("handle,time", 4000))

    def test_recipes_refused(self):
        bad = lib.scratch("bad-recipe")
        with open(bad, "w", encoding="utf-8") as stream:
            stream.write("# bad\nmark main\nmarkk main\n")
        binary = lib.scratch("binary-recipe")
        with open(binary, "wb") as stream:
            stream.write(b"mark a\0b\n")
        for recipe, why in (("tail", "needs an argument"), ("tial=handle", "did you mean 'tail'"), (bad, "line 3: 'markk'"),
                            (binary, "is not a recipe"), ("./absent=x", "cannot open the recipe ./absent"),
                            ("slow-calls=soon", "a threshold is")):
            run = assay("count", "--recipe", recipe, "--", "/bin/true")
            self.assertEqual(run.returncode, 2, recipe)
            self.assertIn(why, run.stderr)

    def test_first_time(self):
        """What is done once for each kind of request did not make the slow one slow, though no other slow one did it."""
        path = lib.scratch("tail-first.db")
        program = lib.build("tail_first.c", "-O1")
        assay("count", "-m", "handle,tail", "-o", path, "--", program, check=True)
        rows = json.loads(assay("report", "tail", "-i", path, "--json", check=True).stdout)["rows"]
        [row] = [row for row in rows if row["cause"] == "slow path" and "slow_request" in row["where"]]
        self.assertEqual((row["where"], row["only"], row["visits"]), ("handle > slow_request", "slow_request", 1))

    def test_rare(self):
        """Three requests that take far longer than hundreds of slow ones are all kept, and the others have their share."""
        path = lib.scratch("tail-rare.db")
        program = lib.build("tail_rare.c", "-O1")
        assay("count", "-m", "handle,tail=5%", "-o", path, "--", program, check=True)
        rows = json.loads(assay("report", "tail", "-i", path, "--json", check=True).stdout)["rows"]
        [rare] = [row for row in rows if row["cause"] == "slow path" and "rare_path" in row["where"]]
        self.assertEqual((rare["where"], rare["only"], rare["visits"]), ("handle > rare_path", "rare_path", 3))
        with contextlib.closing(sqlite3.connect(path)) as profile:
            [[excess]] = profile.execute("select sum(visits * (from_ns - ?)) from mark_time_bucket where from_ns >= ?",
                                         (rare["p50_ns"], rare["slow_from_ns"]))
        self.assertAlmostEqual(3 * rare["longer_ns"] / rare["share"] / excess, 1, delta=0.2)

    def test_refused(self):
        for mark, why in (("handle*,tail", "no pattern"), ("handle,time,tail", "alone"),
                          ("handle,tail=90%", "0.1% to 50%"), ("insn:lock*,tail", "one routine"),
                          ("data:sink,tail", "one routine")):
            run = assay("count", "-m", mark, "--", "/bin/true")
            self.assertEqual(run.returncode, 2, mark)
            self.assertIn(why, run.stderr)
        run = assay("count", "-m", "handle,tail", "-m", "main,tail", "--", "/bin/true")
        self.assertEqual(run.returncode, 2)
        self.assertIn("of one routine", run.stderr)


def asked(client, request):
    """One request, one answer that ends a line."""
    client.sendall(request + b"\r\n")
    answer = b""
    while not answer.endswith(b"\r\n"):
        part = client.recv(4096)
        assert part, "the server has closed"
        answer += part
    return answer


def connected(path):
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(SECONDS)

    def is_connected():
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            client.connect(path)
            return True
        return False

    lib.wait_until(is_connected)
    return client


class Redis(unittest.TestCase):
    def test_keys(self):
        """A running server, most of whose requests are quick: the ones that are not are named, and all are answered."""
        if not shutil.which("redis-server"):
            self.skipTest("no redis-server")
        path, profile, recipe = lib.scratch("tail-redis.sock"), lib.scratch("tail-redis.db"), lib.scratch("redis-recipe")
        with open(recipe, "w", encoding="utf-8") as stream:
            stream.write("mark $1,tail=5%\n")
        with subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no"],
                              stdout=subprocess.DEVNULL) as server:
            try:
                client = connected(path)
                asked(client, b"EVAL \"for i=1,10000 do redis.call('set','k'..i,i) end\" 0")
                with subprocess.Popen([lib.ASSAY, "count", "--recipe", f"{recipe}=processCommand", "-p", str(server.pid),
                                       "-o", profile], stderr=subprocess.PIPE, text=True) as counting:
                    while "is in the engine" not in counting.stderr.readline():
                        self.assertIsNone(counting.poll())
                    for number in range(300):
                        self.assertEqual(asked(client, b"INCR x"), f":{number + 1}\r\n".encode())
                        if number % 30 == 7:
                            self.assertEqual(asked(client, b"KEYS nothing*"), b"*0\r\n")
                    counting.send_signal(signal.SIGINT)
                    said = counting.communicate(timeout=SECONDS)[1]
                    self.assertEqual(counting.returncode, 0, said)
                self.assertEqual(asked(client, b"INCR x"), b":301\r\n")
                client.close()
            finally:
                server.kill()
        rows = json.loads(assay("report", "tail", "-i", profile, "--json", check=True).stdout)["rows"]
        found = [row for row in rows if row["cause"] == "slow path" and "processCommand > call > keysCommand" in row["where"]]
        self.assertTrue(found, rows)
        self.assertEqual({row["only"] for row in found}, {"keysCommand"}, rows)


if __name__ == "__main__":
    unittest.main()
