#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: S9, I12.
"""Merging profiles: tests/merge_test.py COMMANDS MAKE_PROFILE FIXTURE_WRITE

A profile is cut into ten parts with SQL, each with other ids, and merged again: every view must say of the result what it
says of the whole. Profiles that do not fit together are refused, and nothing is left behind.
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

COMMANDS, MAKE_PROFILE, FIXTURE_WRITE = (os.path.abspath(path) for path in sys.argv[1:4])
PARTS = 10
VIEWS = (("functions",), ("lines",), ("modules",), ("processes",), ("threads",), ("losses",),
         ("callgraph", "--min-share", "0"), ("tree", "--min-share", "0"))
VALUE_VIEWS = (("values",), ("args",), ("invariants",), ("blocks",), ("runs",))

# What refers to the ids of a table, besides itself.
REFERENCES = {
    "process": ("process.parent", "thread.process", "module.process", "mapping.process"),
    "thread": ("sample.thread", "tick.thread", "moment.thread"),
    "module": ("mapping.module", "location.module", "symbol.module"),
    "symbol": ("frame.symbol", "parameter.symbol"),
    "file": ("frame.file",),
}


def run(*args, code=0):
    done = subprocess.run([COMMANDS, *args], capture_output=True, text=True)
    assert done.returncode == code, (args, done.returncode, done.stderr)
    return done.stderr if code else done.stdout


def answer(path, view):
    """The totals and the rows, in an order that does not depend on ids."""
    told = json.loads(run("report", *view, "-i", path, "--json"))
    return told["totals"], sorted(json.dumps(row, sort_keys=True) for row in told["rows"])


def ids_shift(database, table, by):
    """Gives every row of a table another id."""
    database.execute(f"update {table} set id = -id - {by}")
    database.execute(f"update {table} set id = -id")
    for reference in REFERENCES[table]:
        where, column = reference.split(".")
        database.execute(f"update or rollback {where} set {column} = -{column} - {by} where {column} is not null")
        database.execute(f"update {where} set {column} = -{column} where {column} is not null")


def part_make(whole, path, number):
    """One part in ten of the samples, ticks and values; all of what does not add up by rows is in the first."""
    shutil.copy(whole, path)
    database = sqlite3.connect(path)
    database.execute(f"delete from sample where (stack * 3 + thread) % {PARTS} <> {number}")
    database.execute(f"delete from tick where (second + thread) % {PARTS} <> {number}")
    database.execute(f"delete from moment where (second + thread) % {PARTS} <> {number}")
    database.execute(f"delete from value where id % {PARTS} <> {number}")
    if number:
        for table in ("stack_end", "run_end", "run_place", "metric", "loss"):
            database.execute(f"delete from {table}")
        database.execute("update recording set kept = 0, seen = 0, duration = 0")
    database.execute("update recording set kept = (select coalesce(sum(count), 0) from sample) where kind = 'samples'")
    database.execute("update recording set seen = kept + (select coalesce(sum(count), 0) from loss "
                     "where recording = recording.id) where kind = 'samples'")
    for table in REFERENCES:
        ids_shift(database, table, (number * 7) % 13)
    database.commit()
    database.close()


class Merge(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def made(self, name, *options):
        subprocess.run([MAKE_PROFILE, "-o", self.path(name), *options], check=True, stdout=subprocess.DEVNULL)
        return self.path(name)

    def fixture(self, kind):
        subprocess.run([FIXTURE_WRITE, kind, self.path(kind)], check=True)
        return self.path(kind)

    def parts(self, whole):
        paths = [self.path(f"part{i}") for i in range(PARTS)]
        for i, path in enumerate(paths):
            part_make(whole, path, i)
        return paths

    def assert_same(self, merged, whole, views):
        for view in views:
            self.assertEqual(answer(merged, view), answer(whole, view), view)

    def assert_parts_make_the_whole(self, whole, views, twins=False):
        """twins: the whole has rows that are the same, which are one once they are merged."""
        parts = self.parts(whole)
        run("merge", *parts, "-o", self.path("merged"))
        self.assert_same(self.path("merged"), whole, views)
        # In another order, and by way of two halves.
        run("merge", *parts[7:], *parts[3:5], "-o", self.path("half"))
        run("merge", *reversed(parts[:3]), self.path("half"), *parts[5:7], "-o", self.path("again"))
        self.assert_same(self.path("again"), whole, views)
        tables = ("process", "thread", "module", "location", "symbol", "file", "frame", "stack", "sample", "tick", "loss",
                  "stack_end", "metric", "fact", "mapping", "value_item", "parameter", "value_name", "stack_total")
        with sqlite3.connect(whole) as one, sqlite3.connect(self.path("again")) as other:
            for table in () if twins else tables:
                count = f"select count(*) from {table}"
                self.assertEqual(other.execute(count).fetchone(), one.execute(count).fetchone(), table)
            totals = "select kind, unit, seen, kept, started, duration from recording order by kind"
            self.assertEqual(other.execute(totals).fetchall(), one.execute(totals).fetchall())
            for view in ("functions", "edges", "timeline", "threads", "losses"):
                rows = f"select * from {view}"
                self.assertEqual(sorted(map(repr, other.execute(rows))), sorted(map(repr, one.execute(rows))), view)
            self.assertEqual(other.execute("select parts from recording").fetchone()[0], PARTS)

    def test_ten_parts_of_an_hour_in_small(self):
        self.assert_parts_make_the_whole(self.made("whole", "--seconds", "20", "--stacks", "2000", "--values", "500"), VIEWS)

    def test_ten_parts_of_values(self):
        self.assert_parts_make_the_whole(self.fixture("values"), VIEWS + VALUE_VIEWS)

    def test_ten_parts_with_recursion(self):
        self.assert_parts_make_the_whole(self.fixture("recursive"), VIEWS, twins=True)

    def test_a_profile_twice_is_twice_the_profile(self):
        one = self.fixture("values")
        run("merge", one, one, "-o", self.path("two"))
        totals, _ = answer(self.path("two"), ("functions",))
        once, _ = answer(one, ("functions",))
        self.assertEqual([totals[key] for key in ("seen", "kept")], [2 * once[key] for key in ("seen", "kept")])
        self.assertEqual(totals["lost"], {key: 2 * count for key, count in once["lost"].items()})
        with sqlite3.connect(one) as a, sqlite3.connect(self.path("two")) as b:
            sums = "select sum(total), sum(runs), count(*), min(minimum), max(maximum), round(sum(mean), 6) from value"
            single, double = a.execute(sums).fetchone(), b.execute(sums).fetchone()
            metrics = "select metric, total from metric order by 1"
            self.assertEqual(b.execute(metrics).fetchall(), [(m, 2 * n) for m, n in a.execute(metrics)])
        self.assertEqual(double, (2 * single[0], 2 * single[1], *single[2:]))
        # Lists that are exact stay exact: each value twice as often, with the same share.
        for before, after in zip(*(sorted(map(self.shares, json.loads(run("report", "values", "-i", path, "--json"))["rows"]))
                                   for path in (one, self.path("two")))):
            self.assertEqual(before, after)

    @staticmethod
    def shares(row):
        return (row["address"], row["item"], row.get("caller", ""), row.get("uid") or -1,
                sorted((str(value["value"]), round(value["share"], 6)) for value in row["values"]))

    def test_machines_stay_apart(self):
        here, there = self.made("here", "--seconds", "3", "--stacks", "100"), self.path("there")
        shutil.copy(here, there)
        with sqlite3.connect(there) as database:
            database.execute("update machine set host = 'other', boot = 'other'")
            database.execute("update module set path = '/opt' || path where kind = 'elf'")
        run("merge", here, there, "-o", self.path("both"))
        with sqlite3.connect(self.path("both")) as both, sqlite3.connect(here) as one:
            for table in ("process", "thread", "machine"):
                count = f"select count(*) from {table}"
                self.assertEqual(both.execute(count).fetchone()[0], 2 * one.execute(count).fetchone()[0], table)
            # The same build-id is the same module, wherever it lies; each machine has a kernel of its own.
            elf = "select count(*), min(path like '/opt%') from module where kind = 'elf'"
            self.assertEqual(both.execute(elf).fetchone(), (one.execute(elf).fetchone()[0], 1))
            self.assertEqual(both.execute("select count(*) from module where kind = 'kernel'").fetchone()[0], 2)
            self.assertEqual(both.execute("select count(*) from location where module in "
                                          "(select id from module where kind = 'elf')").fetchone(),
                             one.execute("select count(*) from location where module in "
                                         "(select id from module where kind = 'elf')").fetchone())

    def refused(self, words, *paths, code=1):
        told = run("merge", *paths, "-o", self.path("out"), code=code)
        self.assertIn(words, told)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("out")], [])

    def test_refusals(self):
        demo, other = self.fixture("demo"), self.path("cycles")
        shutil.copy(demo, other)
        with sqlite3.connect(other) as database:
            database.execute("update fact set value = 'cycles' where key = 'event'")
        self.refused("has event cycles", demo, other)
        with sqlite3.connect(other) as database:
            database.execute("update fact set value = 'cpu-clock' where key = 'event'")
            database.execute("update fact set value = '5' where key = 'period'")
        self.refused("has period 5", demo, other)
        self.refused("no such profile", demo, self.path("nothing"))
        self.refused("has not ended", demo, self.fixture("unfinished"))
        self.assertIn("-o", run("merge", demo, code=2))
        self.assertIn("takes the profiles", run("merge", "-o", self.path("out"), code=2))

    def test_what_was_there_is_kept(self):
        demo, changed = self.fixture("demo"), self.fixture("changed")
        run("merge", demo, changed, "-o", demo)
        self.assertEqual(answer(demo + ".old", ("functions",))[0]["seen"] + answer(changed, ("functions",))[0]["seen"],
                         answer(demo, ("functions",))[0]["seen"])
        with open(self.path("text"), "w", encoding="utf-8") as stream:
            stream.write("mine")
        self.assertIn("left alone", run("merge", changed, "-o", self.path("text"), code=1))
        with open(self.path("text"), encoding="utf-8") as stream:
            self.assertEqual(stream.read(), "mine")
        self.assertEqual([name for name in os.listdir(self.folder) if "merge-" in name], [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
