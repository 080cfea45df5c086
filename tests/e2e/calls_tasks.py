#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: T7, T9.
"""Tasks of a pool, announced by assay/client.h: each is a thread of its own, whichever thread ran it.

None is lost or merged with another, what they cost adds up with their threads to the whole, and each is charged about
what it measured itself.
"""

import collections
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import unittest

ASSAY = os.path.abspath(os.environ.get("ASSAY", "build/assay"))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRATCH = tempfile.mkdtemp(prefix="calls-tasks-")
TASKS = 1000


def build(*flags):
    path = os.path.join(SCRATCH, "pool" + "".join(flags))
    subprocess.run(["gcc", "-O1", "-g", "-pthread", *flags, "-I", os.path.join(ROOT, "include"), "-o", path,
                    os.path.join(ROOT, "tests/programs/calls_pool.c")], check=True)
    return path


class Pool(unittest.TestCase):
    def check(self, program, way):
        run = subprocess.run([ASSAY, "calls", "--with", way, "--view", "tree", "--json", "--", program], capture_output=True,
                             text=True, cwd=SCRATCH, timeout=120)
        self.assertEqual(run.returncode, 5, run.stderr)
        at = run.stdout.index('{"assay"')
        measured = dict(line.split() for line in run.stdout[:at].splitlines())
        self.assertEqual(len(measured), TASKS)
        found = json.loads(run.stdout[at:])
        trees, tree = {}, None
        names = collections.Counter()
        for row in found["rows"]:
            if row["level"] == 0:
                tree = trees.setdefault((row["comm"], row["tid"]), {"cum": row["cum"], "base": 0, "calls": {}})
                names[row["comm"]] += 1
            tree["base"] += row["base"]
            if row["level"]:
                tree["calls"][row["symbol"]] = tree["calls"].get(row["symbol"], 0) + row["calls"]
        tasks = {name: tree for (name, _), tree in trees.items() if name.startswith("task-")}
        self.assertEqual({name for name, count in names.items() if name.startswith("task-") and count == 1}, set(measured))
        for name, tree in tasks.items():
            number = int(name.split("-")[1])
            self.assertEqual((tree["calls"]["work"], tree["calls"]["burn"]), (1, number % 3 + 1), name)
            self.assertEqual(tree["base"], tree["cum"])
        others = [tree for (name, _), tree in trees.items() if not name.startswith("task-")]
        self.assertFalse([tree for tree in others if "burn" in tree["calls"]])  # all of it is the tasks'
        self.assertLessEqual(len({tid for name, tid in trees if name.startswith("task-")}), 4)
        ratio = statistics.median(tree["cum"] / int(measured[name]) for name, tree in tasks.items())
        self.assertTrue(0.7 < ratio < 1.3, ratio)

    def test_hooks(self):
        self.check(build("-finstrument-functions"), "hooks")

    def test_engine(self):
        self.check(build(), "engine")

    def test_alone(self):
        """Nobody records: the program is as it was, also without the header's help."""
        for flags in ((), ("-DASSAY_NO_CLIENT",)):
            run = subprocess.run([build(*flags)], capture_output=True, text=True, timeout=60)
            self.assertEqual((run.returncode, len(run.stdout.splitlines())), (5, TASKS))


if __name__ == "__main__":
    try:
        unittest.main(verbosity=2)
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
