#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: BSD-2-Clause
"""Layers of random, generated and recorded streams, compared line by line with tests/layers_reference.py."""

import array
import glob
import lzma
import os
import random
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
import layers_reference  # noqa: E402

KINDS = ("open", "bounded")


def loops(rng, depth, names):
    """A program: nested loops whose bodies take one of some ways."""
    if depth == 0:
        return [[next(names) for _ in range(rng.randint(1, 9))] for _ in range(rng.randint(1, 4))]
    return [loops(rng, depth - 1, names) for _ in range(rng.randint(1, 3))]


def walk(rng, program, out):
    for _ in range(rng.choice((1, 2, 3, 5, 40))):
        for part in program:
            if isinstance(part[0], int):
                out.extend(rng.choice(program))
                break
            walk(rng, part, out)
        if len(out) > 30000:
            return


def streams():
    rng = random.Random(5)
    yield "empty", []
    yield "one", [7]
    yield "same", [7] * 1000
    for alphabet in (2, 3, 5, 20, 500, 100000):
        yield f"random {alphabet}", [rng.randrange(alphabet) for _ in range(20000)]
    for seed in range(8):
        out = []
        walk(rng, loops(rng, 3, iter(range(10**6))), out)
        yield f"loops {seed}", out
    paths = [[rng.randrange(60) for _ in range(rng.randint(1, 70))] for _ in range(6)]
    yield "long", sum((rng.choice(paths) for _ in range(2000)), [])
    for path in sorted(glob.glob(os.path.join(ROOT, "tests", "streams", "*.xz"))):
        with lzma.open(path) as file:
            yield os.path.basename(path), array.array("I", file.read()).tolist()


def main():
    rng = random.Random(6)
    failed = checked = 0
    for index, (name, symbols) in enumerate(streams()):
        for max_cycle in (4096, 4):
            expected = layers_reference.report(symbols, 4, max_cycle)
            kind = KINDS[(index + max_cycle // 4) % len(KINDS)]
            for batch in (rng.choice((1, 2, 3, 7, 11)), rng.choice((64, 1000)), 1 << 20):
                done = subprocess.run([sys.argv[1], "4", str(max_cycle), str(batch), kind],
                                      input=array.array("I", symbols).tobytes(),
                                      stdout=subprocess.PIPE, check=True)
                got = done.stdout.decode().splitlines()
                checked += 1
                if got != expected:
                    failed += 1
                    differ = next((pair for pair in zip(got, expected) if pair[0] != pair[1]),
                                  (len(got), len(expected)))
                    print(f"{name} max {max_cycle} batch {batch} {kind}: {differ}")
    print(f"{checked} checked, {failed} differ")
    sys.exit(failed > 0 or checked < 120)


if __name__ == "__main__":
    main()
