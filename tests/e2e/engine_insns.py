#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: W1.
"""Random instruction sequences leave the same state behind natively and in the engine.

tests/engine/insnfuzz makes the sequences from a seed and prints a hash for each batch of 1024. Where two hashes differ, the
sequence is searched for and shown with what came of it. A part of them is interrupted by a timer, whose handler looks at
where it has interrupted; in a part of the processes a tool has put code in between. INSNFUZZ_SEQUENCES is how many sequences to run; what is run is the same each time.
"""

import json
import os
import subprocess
import unittest

import lib

PROGRAM = os.path.join(os.environ.get("BUILD", os.path.join(lib.ROOT, "build")), "tests/engine/insnfuzz/insnfuzz")
SEQUENCES = int(os.environ.get("INSNFUZZ_SEQUENCES", "60000"))
BATCH = 1024
BATCHES = 32 # of a process
TIMER_EVERY = 4 # of that many processes one has a timer
TIMER = ["-t", "400"] # microseconds
TOOLS = ["none", "none", "opcodes,accesses,calls", "none", "none", "blocks", "count", "coverage"] # of the processes, in turn
SECONDS = 300
SHOWN = 60 # lines: more than the longest sequence


def native(arguments):
    return subprocess.run([PROGRAM, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)


def traced(tool, arguments):
    """The finished process, and what of it left the engine."""
    path = lib.scratch("summary.json")
    run = subprocess.run([lib.ASSAY, "trace", "-q", "--tool", tool, "-o", lib.scratch("insns.assay"), "--summary", path,
                          "--", PROGRAM, *arguments],
                         stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
    with open(path, encoding="utf-8") as file:
        return run, json.load(file)["rows"]


def first_difference(tool, arguments):
    """The first sequence whose hashes differ: its batch, and its number in the batch; None."""
    batch = int(arguments[arguments.index("-b") + 1])
    lines = zip(native([*arguments, "-e"]).stdout.splitlines(), traced(tool, [*arguments, "-e"])[0].stdout.splitlines())
    for ours, theirs in lines:
        if ours.startswith("batch"):
            batch += 1
        elif ours != theirs:
            return batch, ours.split()[0]
    return None


def difference(tool, arguments, batch):
    """What differs, in words: by itself if it does, otherwise behind all that ran before it."""
    for first in batch, 0:
        found = first_difference(tool, [*arguments, "-b", str(first), "-n", str(batch - first + 1)])
        if found:
            show = [*arguments, "-b", str(first), "-n", str(found[0] - first + 1), "-p", found[1]]
            return "\n".join(["natively:", *native(show).stdout.splitlines()[-SHOWN:],
                              "in the engine:", *traced(tool, show)[0].stdout.splitlines()[-SHOWN:]])
    return "the same when it is run again"


class Instructions(unittest.TestCase):
    def compare(self, seed, tool, extra):
        """How many interrupts came while sequences ran in the engine."""
        arguments = ["-s", str(seed), *extra]
        wanted = native([*arguments, "-n", str(BATCHES)])
        got, left = traced(tool, [*arguments, "-n", str(BATCHES)])
        for ours, theirs in zip(wanted.stdout.splitlines(), got.stdout.splitlines()):
            if ours != theirs:
                self.fail(f"seed {seed}, {tool}, {ours}: {difference(tool, arguments, int(ours.split()[1]))}")
        self.assertEqual((wanted.returncode, wanted.stdout), (got.returncode, got.stdout), got.stderr)
        self.assertEqual(left, [], f"seed {seed}: a thread left the engine")
        return int(got.stderr.rsplit("interrupted ", 1)[1])

    def test_sequences(self):
        interrupts = 0
        for i in range(max(2, -(-SEQUENCES // (BATCH * BATCHES)))):
            interrupts += self.compare(i + 1, TOOLS[i % len(TOOLS)], TIMER if i % TIMER_EVERY == 1 else [])
        self.assertGreater(interrupts, 100)


if __name__ == "__main__":
    lib.main()
