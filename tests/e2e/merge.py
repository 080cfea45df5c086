#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: S8, S9, S10, I12.
"""Real recordings, merged: totals are the sums, functions are one, sequences stay whole, samples and executed code stand side
by side.
"""

import collections
import json
import os
import signal
import subprocess
import tempfile
import unittest

import lib

MAKE = os.path.join(os.path.dirname(lib.ASSAY), "src/store/make_profile")

SOURCE = """
#include <stdlib.h>

__attribute__((noinline)) static unsigned spin(unsigned n)
{
	unsigned sum = 1;

	for (unsigned i = 0; i < n; i++)
		sum = sum * 1664525 + 1013904223 + (i & 7);
	return sum;
}

int main(int argc, char **argv)
{
	unsigned sum = 0;

	for (int i = 0; i < atoi(argv[1]); i++)
		sum += spin(atoi(argv[2]));
	return sum == 42;
}
"""


def assay(*arguments):
    return subprocess.run([lib.ASSAY, *arguments], check=True, capture_output=True, text=True).stdout


def view(path, name, *options):
    return json.loads(assay("report", name, "-i", path, "--json", *options))


def merged(name, *paths):
    path = lib.scratch(name)
    assay("merge", *paths, "-o", path)
    return path


def instructions(path):
    counts = collections.Counter()
    for row in view(path, "functions")["rows"]:
        counts[row["module"], row["symbol"]] += row["instructions"]
    return counts


class Merge(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        source = lib.scratch("spin.c")
        with open(source, "w", encoding="utf-8") as stream:
            stream.write(SOURCE)
        cls.program = lib.scratch("spin")
        subprocess.run(["gcc", "-O1", "-g", "-o", cls.program, source], check=True)

    def traced(self, name, tool, *arguments):
        path = lib.scratch(name)
        assay("trace", "--tool", tool, "-o", path, "--", self.program, *arguments)
        return path

    def recorded(self, name, *arguments):
        path = lib.scratch(name)
        return lib.record("-F", "997", "--", self.program, *arguments, output=path).profile, path

    def test_samples_add_up(self):
        runs = [self.recorded(f"samples{i}.db", "20", str(n)) for i, n in enumerate((1000000, 2000000, 3000000))]
        path = merged("samples.db", *(path for _, path in runs))
        whole = lib.Profile(path)
        for column in ("seen", "kept", "lost"):
            self.assertEqual(whole.total("samples", column), sum(one.total("samples", column) for one, _ in runs))
        self.assertGreater(whole.total("samples", "kept"), 30)
        lib.check_sums(self, whole)
        spins = [row for row in view(path, "functions")["rows"] if row["symbol"] == "spin"]
        self.assertEqual(len(spins), 1, "the program has one build-id, so it is one module")
        self.assertEqual(spins[0]["self"], sum(row["self"] for _, one in runs
                                               for row in view(one, "functions")["rows"] if row["symbol"] == "spin"))
        # Each run was a process of its own, on one machine.
        self.assertEqual(whole.value("select count(*) from processes where self > 0 and comm = 'spin'"), 3)
        self.assertEqual(whole.value("select count(*) from machine"), 1)
        self.assertEqual(whole.value("select parts from recordings where kind = 'samples'"), 3)
        self.assertEqual(whole.value("select sum(count) from timeline"), whole.total("samples", "kept"))

    def test_executed_code_adds_up(self):
        paths = [self.traced(f"count{i}.db", "count", "5", str(n)) for i, n in enumerate((100, 1000))]
        both = instructions(merged("count.db", *paths))
        self.assertEqual(both, instructions(paths[0]) + instructions(paths[1]))
        self.assertGreater(both["spin", "spin"], 5 * 1100 * 4)

    def test_sequences_stay_whole(self):
        paths = [self.traced(f"paths{i}.db", "paths", "4", str(n)) for i, n in enumerate((300, 500))]
        counted = self.traced("counted.db", "count", "3", "200")
        # The blocks of the second one get other numbers, twice.
        path = merged("again.db", counted, merged("paths.db", *reversed(paths)))
        self.assertEqual(instructions(path), sum((instructions(one) for one in (*paths, counted)), collections.Counter()))
        threads = lib.Profile(path).value("select count(distinct thread) from flow")
        self.assertEqual(threads, 2)

        def hottest(one):
            # Positions, numbers and shares are of the whole; what a path is and how often it was taken are its own.
            return sorted((row["symbol"], row["module"], row["trips"], row["instructions"], row["blocks"])
                          for row in view(one, "paths", "--min-share", "0", "--symbol", "spin")["rows"] if "trips" in row)

        self.assertEqual(hottest(path), sorted(hottest(paths[0]) + hottest(paths[1])))
        self.assertEqual(sum(row.get("instructions", 0) > 0 for row in view(path, "phases")["rows"]),
                         sum(row.get("instructions", 0) > 0 for one in paths for row in view(one, "phases")["rows"]))

    def test_samples_and_executed_code_side_by_side(self):
        samples, sampled = self.recorded("beside.db", "20", "2000000")
        traced = self.traced("traced.db", "count", "3", "100")
        path = merged("side.db", traced, sampled)
        self.assertEqual([tuple(row) for row in lib.Profile(path).rows("select kind, unit from recordings order by kind")],
                         [("executed", "segments"), ("samples", "samples")])
        self.assertEqual(view(path, "functions")["totals"]["kept"], samples.kept)
        self.assertEqual(view(path, "mix")["totals"], view(traced, "mix")["totals"])

    def test_lists_that_cannot_be_one(self):
        """Of each site there is one list of each kind, in whatever order the profiles come."""
        lib.need_root(self)
        paths = {}
        for name, kind in (("a", "space-saving"), ("b", "concise"), ("c", "space-saving")):
            paths[name] = lib.record("-F", "997", "--values=taken", "--run-every", "1", "--hotlist", kind, "--", self.program,
                                     "40", "2000000").path
        sites = """select location, item, ifnull(caller, 0), count(*) from value group by 1, 2, 3"""
        orders = [[row[3] for row in lib.Profile(merged(f"order_{order}.db", *(paths[name] for name in order))).rows(sites)]
                  for order in ("acb", "abc", "bac")]
        self.assertEqual(max(orders[0]), 2)
        for counts in orders:
            self.assertEqual(sorted(counts), sorted(orders[0]))

    def test_interrupted(self):
        """Nothing is left behind, and what was there stays, whoever may write in the folder."""
        large = lib.scratch("large.db")
        subprocess.run([MAKE, "-o", large, "--seconds", "600", "--stacks", "60000"], check=True, stdout=subprocess.DEVNULL)
        for mode in (0o755, 0o1777):
            folder = tempfile.mkdtemp(dir=lib.SCRATCH)
            os.chmod(folder, mode)
            with subprocess.Popen([lib.ASSAY, "merge", large, large, "-o", os.path.join(folder, "all.db")],
                                  stderr=subprocess.PIPE) as merge:
                lib.wait_until(lambda: any(name.startswith("all.db.merge") for name in os.listdir(folder)))
                merge.send_signal(signal.SIGINT)
                merge.wait(timeout=60)
            self.assertEqual(merge.returncode, -signal.SIGINT)
            self.assertEqual(os.listdir(folder), [], oct(mode))

    def test_no_such_folder(self):
        """The message has the name that was given."""
        run = subprocess.run([lib.ASSAY, "merge", "x.db", "-o", "/nowhere/at/all.db"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stderr, "^assay: /nowhere/at/all.db: ")


if __name__ == "__main__":
    lib.main()
