#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: T1, T2, T3.
"""Events of calls as a file: made by hand from the worked example, and written by programs.

The tree that is made of the file afterwards is the one that the program built while it ran, to the nanosecond: with hooks, and
in the engine, which repairs what does not match by itself and tells how.
"""

import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest

ASSAY = os.path.abspath(os.environ.get("ASSAY", "build/assay"))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRATCH = tempfile.mkdtemp(prefix="calls-events-")
THREAD, CODE, SAMPLE, COMPILED, ALLOCATION = 0x10, 0x20, 0x40, 0x50, 0x60
ENTRY, EXIT, START, END, NAME, OBJECT, STACK = 1, 2, 4, 5, 8, 11, 0x7fffffff
TIME, OBJECTS, BYTES = 0, 3, 4
# What is on the stack of the thread at each time from 0 on. At time 19 it has ended.
EXAMPLE = ["C", "CA", "CAB", "CA", "CAB", "CABB", "CAB", "CA", "C", "CB", "CBA", "CBAB", "CBABA", "CBABAX", "CBABA",
           "CBAB", "CBA", "CB", "C", ""]
# level, recursion level, calls, base, cum
EXAMPLE_TREE = [(0, 1, 1, 0, 19), (1, 1, 1, 3, 19, "C"), (2, 1, 1, 3, 7, "A"), (3, 1, 2, 3, 4, "B"), (4, 2, 1, 1, 1, "B"),
                (2, 1, 1, 2, 9, "B"), (3, 1, 1, 2, 7, "A"), (4, 2, 1, 2, 5, "B"), (5, 2, 1, 2, 3, "A"), (6, 1, 1, 1, 1, "X")]


def run(*words, code=0):
    done = subprocess.run([ASSAY, *words], capture_output=True, text=True, cwd=SCRATCH, timeout=120)
    assert done.returncode == code, (words, done.returncode, done.stdout[-1000:], done.stderr[-1000:])
    return done


def found(text):
    return json.loads(text[text.index('{"assay"'):])


class Trace:
    """The bytes of a file of events, as src/wire/call_events.h has them."""

    def __init__(self, kinds=(TIME,)):
        self.kinds = kinds
        self.bytes = struct.pack("<IHH16s6I", 0x4c4c4143, 3, len(kinds), bytes(kinds), 0, 0, 0, 0, 0, 0)
        self.time = 0

    def put(self, major, minor, routine=0, sp=0, payload=b""):
        payload += bytes(-len(payload) % 8)
        now = b"".join(struct.pack("<QQ", *((self.time, self.time) if kind == TIME else (0, 0))) for kind in self.kinds)
        self.bytes += struct.pack("<IHHIIQQ", 32 + len(now) + len(payload), major, 0, minor, 7, routine, sp) + now + payload

    def names(self, letters):
        for letter in letters:
            self.put(CODE, NAME, ord(letter), 0, letter.encode())

    def step(self, before, after):
        if len(after) > len(before):
            self.put(COMPILED, ENTRY, ord(after[-1]))
        elif len(after) < len(before):
            self.put(COMPILED, EXIT, ord(before[-1]))

    def write(self, name, size=None):
        path = os.path.join(SCRATCH, name)
        with open(path, "wb") as file:
            file.write(self.bytes[:size])
        return path


def example():
    trace = Trace()
    trace.names("CABX")
    trace.put(THREAD, START, 1234, 1, b"pt_pidtid")
    for time, stack in enumerate(EXAMPLE):
        trace.time = time
        trace.step(EXAMPLE[time - 1] if time else "", stack)
    trace.put(THREAD, END, 1234, 1)
    return trace


class Example(unittest.TestCase):
    """Routines C, A, B and X, with the table of level, recursion level, calls, base and cum."""

    @classmethod
    def setUpClass(cls):
        cls.path = example().write("example.events")
        cls.tree = found(run("calls", "--from-events", cls.path, "-o", "example.db", "--json").stdout)

    def test_tree(self):
        rows = [(row["level"], row["recursion"], row["calls"], row["base"], row["cum"], row["symbol"]) for row in self.tree["rows"]]
        self.assertEqual(rows[0][:5], EXAMPLE_TREE[0])
        self.assertEqual(rows[1:], EXAMPLE_TREE[1:])
        self.assertEqual([row["elapsed"] for row in self.tree["rows"]], [row["cum"] for row in self.tree["rows"]])
        self.assertEqual((self.tree["rows"][0]["tid"], self.tree["rows"][0]["comm"]), (1234, "pt_pidtid"))

    def test_profile_has_it(self):
        """By function and between callers, as the specification has it: A is called three times, base 7, cum 14."""
        rows = {row["symbol"]: row for row in found(run("report", "functions", "-i", "example.db", "--json").stdout)["rows"]}
        self.assertEqual({name: (row["calls"], row["base"], row["cum"]) for name, row in rows.items()},
                         {"C": (1, 3, 19), "A": (3, 7, 14), "B": (5, 8, 13), "X": (1, 1, 1)})
        stanza = [row for row in found(run("report", "callgraph", "-i", "example.db", "--json", "--min-share", "0").stdout)["rows"]]
        group = next(row["group"] for row in stanza if row["role"] == "self" and row["symbol"] == "A")
        self.assertIn(("parent", "C", 1, 3, 7), [(row["role"], row["symbol"], row["calls"], row["base"], row["cum"])
                                                 for row in stanza if row["group"] == group])

    def test_samples_and_allocation(self):
        """Stack samples and allocation go to the same nodes."""
        trace = Trace((TIME, OBJECTS, BYTES))
        trace.names("CA")
        trace.put(COMPILED, ENTRY, ord("C"))
        trace.put(COMPILED, ENTRY, ord("A"))
        trace.put(ALLOCATION, OBJECT, 100, 0x5000)
        trace.put(ALLOCATION, OBJECT, 28, 0x6000)
        trace.time = 5
        trace.put(SAMPLE, STACK, 0, 0, struct.pack("<QQ", ord("C"), ord("A")))
        trace.put(COMPILED, EXIT, ord("A"))
        trace.put(SAMPLE, STACK, 0, 0, struct.pack("<Q", ord("C")))
        run("calls", "--from-events", trace.write("mixed.events"), "-o", "mixed.db")
        import sqlite3
        rows = sqlite3.connect(os.path.join(SCRATCH, "mixed.db")).execute(
            "select metric, base from call_amount join call_node on call_node.id = node where parent != 0 and base > 0").fetchall()
        self.assertEqual(sorted(rows), sorted([("calls", 1), ("calls", 1), ("samples", 1), ("samples", 1), ("time", 5),
                                               ("objects", 2), ("bytes", 128)]))
        rows = found(run("report", "tree", "-i", "mixed.db", "--json", "--min-share", "0").stdout)["rows"]
        self.assertEqual([(row["level"], row["calls"], row["samples"], row["self_samples"]) for row in rows[1:]],
                         [(1, 1, 2, 1), (2, 1, 1, 1)])

    def test_bad_files(self):
        whole = example()
        for name, size, words in (("short", len(whole.bytes) - 4, "ends within a record"), ("head", 20, "bytes"), ("empty", 0, "empty")):
            done = run("calls", "--from-events", whole.write(name, size), "-o", "bad.db", code=1)
            self.assertIn(words, done.stderr)
            self.assertIn(name, done.stderr)
        whole.bytes = b"x" + whole.bytes[1:]
        self.assertIn("not a trace of calls", run("calls", "--from-events", whole.write("other"), code=1).stderr)
        self.assertIn("/nonexistent", run("calls", "--from-events", "/nonexistent", code=1).stderr)
        run("calls", "--from-events", self.path, "--", "true", code=2)

    def test_records_that_make_no_sense(self):
        trace = example()
        trace.put(0x77, 1)
        trace.put(COMPILED, 99)
        done = run("calls", "--from-events", trace.write("odd.events"), "-o", "odd.db", "--json")
        self.assertIn("2 records made no sense", done.stderr)
        self.assertEqual(found(done.stdout)["rows"][0]["cum"], 19)


class Live(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = os.path.join(SCRATCH, "shapes")
        subprocess.run(["gcc", "-O1", "-g", "-pthread", "-finstrument-functions", "-o", cls.program,
                        os.path.join(ROOT, "tests/programs/calls_shapes.c")], check=True)

    def test_same_tree(self):
        for what, options in (("example", ()), ("tasks", ()), ("forks", ()), ("jumps", ()), ("handler", ("--count",)),
                              ("wide", ("--count", "--max-nodes", "400")), ("deep", ("--max-depth", "100"))):
            live = run("calls", *options, "--events", what, "-o", what + ".db", "--json", "--", self.program, what, code=5)
            later = run("calls", "--from-events", what, "-o", what + "2.db", "--json")
            live, later = found(live.stdout), found(later.stdout)
            self.assertGreater(len(live["rows"]), 5)
            self.assertEqual(live["rows"], later["rows"], what)
            self.assertEqual(live["totals"], later["totals"], what)

    def test_killed(self):
        live = found(run("calls", "--events", "killed", "-o", "killed.db", "--json", "--", self.program, "killed", code=137).stdout)
        later = found(run("calls", "--from-events", "killed", "-o", "killed2.db", "--json").stdout)
        self.assertEqual(live["rows"], later["rows"])
        self.assertEqual(next(row["calls"] for row in later["rows"] if row["symbol"] == "X"), 1000)

    def test_nowhere_to_write(self):
        self.assertIn("/nonexistent/e", run("calls", "--events", "/nonexistent/e", "--", self.program, "example", code=1).stderr)
        self.assertIn("/nonexistent", run("calls", "--with", "engine", "--events", "/nonexistent/e", "--", self.program, "example",
                                          code=1).stderr)
        self.assertIn("--resources", run("calls", "--resources", "--events", "e", "--", "/bin/true", code=1).stderr)


class Engine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for name, flags in (("calls_shapes", ("-O1", "-fno-optimize-sibling-calls")), ("calls_contexts", ("-O1",)),
                            ("calls_tails", ("-O2",)), ("calls_pool", ("-O1", "-I" + os.path.join(ROOT, "include"))),
                            ("calls_timer", ("-O1",))):
            subprocess.run(["gcc", "-g", "-pthread", *flags, "-o", os.path.join(SCRATCH, name),
                            os.path.join(ROOT, "tests/programs", name + ".c")], check=True)

    def compare(self, *program, options=(), code=5):
        """The tree that the engine builds, after it was found to be that of its events."""
        live = run("calls", "--with", "engine", *options, "--events", "engine", "-o", "live.db", "--json", "--", *program, code=code)
        later = run("calls", "--from-events", "engine", "-o", "later.db", "--json")
        for done in (live, later):
            self.assertNotIn("not written", done.stderr)
            self.assertNotIn("made no sense", done.stderr)
        live, later = found(live.stdout), found(later.stdout)
        self.assertGreater(len(live["rows"]), 3)
        self.assertEqual(live["rows"], later["rows"], program)
        self.assertEqual(live["totals"], later["totals"], program)
        return live["rows"]

    def test_same_tree(self):
        for what, options in (("example", ()), ("tasks", ()), ("forks", ()), ("jumps", ()), ("handler", ("--count",)),
                              ("wide", ("--max-nodes", "2000")), ("deep", ("--max-depth", "100")),
                              ("example", ("--only", "main", "--only", "A"))):
            rows = self.compare("./calls_shapes", what, options=options)
            if "A" in options:
                self.assertEqual({row["symbol"] for row in rows if row["level"]}, {"main", "A"})
            if what == "wide":
                self.assertIn("[pruned]", {row["symbol"] for row in rows})

    def test_contexts(self):
        """Frames of a stack that was left are brought back, on their own paths."""
        rows = self.compare("./calls_contexts")
        self.assertEqual(sum(row["calls"] for row in rows if row["symbol"] == "inner"), 1200)

    def test_programs(self):
        """A process that executes another program has the code of that one; its child has its own."""
        rows = self.compare("sh", "-c", "./calls_shapes example; exec ./calls_shapes jumps")
        names = {row["comm"] for row in rows}
        self.assertEqual(names, {"sh", "calls_shapes"})
        self.assertEqual(sum(row["calls"] for row in rows if row["symbol"] == "X"), 1100)

    def test_tasks(self):
        rows = self.compare("./calls_pool")
        self.assertGreater(len({row["comm"] for row in rows}), 5)

    def test_allocations(self):
        self.compare("./calls_tails", options=("--allocations",))
        both = [found(run("report", "tree", "-i", name, "--cost", "bytes", "--json", "--min-share", "0").stdout)["rows"]
                for name in ("live.db", "later.db")]
        self.assertEqual(*both)
        self.assertEqual(next(row["base"] for row in both[0] if row["symbol"] == "allocator"), 450)

    def test_interrupted(self):
        """An entry that a signal has kept from happening is taken back."""
        rows = self.compare("./calls_timer", options=("--count",))
        calls = {name: sum(row["calls"] for row in rows if row["symbol"] == name) for name in ("step", "leap", "handler", "tick")}
        self.assertEqual((calls["step"], calls["leap"]), (100000, 100000))
        self.assertGreater(calls["tick"], 20)
        self.assertEqual(calls["handler"], calls["tick"])


if __name__ == "__main__":
    try:
        unittest.main(verbosity=2)
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
