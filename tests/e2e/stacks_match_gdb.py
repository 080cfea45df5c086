#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: V1.
"""Stacks taken at known places are those that gdb sees, frame by frame.

Each tests/programs/place_* goes to a spot and stays in a small loop there. All of them are sampled together;
then gdb attaches to one after the other, steps instruction by instruction through the loop and writes down the
whole stack at each. A sample's stack must be one that gdb saw at the same instruction: the same return
addresses down to the root, and the same functions, inlined ones included.
"""

import collections
import json
import os
import re
import signal
import subprocess
import unittest

import lib

STEPS = 160
# Place: how it is built.
PLACES = {
    "main": [],
    "plt": ["-Wl,-z,lazy"],
    "signal": [],
    "altstack": [],
    "altstack_thread": [],
    "alloca": [],
    "aligned": [],
    "vdso": [],
    "syscall": [],
    "cleanup": [],
    "terminate": [],
    "thread": [],
    "mainless": [],
    "noreturn": ["-falign-functions=1"],
    "tailcall": ["-foptimize-sibling-calls"],
    "qsort": [],
    "dlopen": [],
    "inline": [],
}
# What must have been met in the innermost frame of a sample, or the place was missed.
MUST_SHOW = {
    "plt": lambda frame: lib.frame_name(frame).endswith("@plt"),
    "vdso": lambda frame: frame.kind == "vdso",
}


def build_place(name):
    """The command that runs a place."""
    source = f"place_{name}" + (".cc" if os.path.exists(f"{lib.PROGRAMS}/place_{name}.cc") else ".c")
    libraries, arguments = [], []
    if os.path.exists(f"{lib.PROGRAMS}/place_{name}_library.c"):
        library = lib.build(f"place_{name}_library.c", "-shared", "-fPIC", name=f"libplace_{name}.so")
        libraries, arguments = ([library], []) if name == "plt" else ([], [library])
    with open("/proc/cpuinfo", encoding="ascii") as file:
        if name == "aligned" and " avx " in file.read():
            libraries.append("-mavx")
    return [lib.build(source, *PLACES[name], *libraries), *arguments]


def newest_thread(pid):
    """What a process whose main thread has ended is asked by: it is a zombie for gdb, and its maps are empty."""
    return max(map(int, os.listdir(f"/proc/{pid}/task")))


def gdb_stacks(pid):
    """What gdb sees at each of STEPS consecutive instructions."""
    output = lib.scratch("steps.json")
    run = subprocess.run(["gdb", "-nx", "-batch", "-p", str(newest_thread(pid)), "-x", f"{lib.ROOT}/tests/e2e/lib_gdb.py"],
                         env={**os.environ, "STEPS": str(STEPS), "OUTPUT": output}, capture_output=True,
                         text=True, timeout=120)
    assert os.path.exists(output), (run.stdout, run.stderr)
    with open(output, encoding="utf-8") as file:
        stacks = json.load(file)
    os.unlink(output)
    return stacks


class Maps:
    """Run-time addresses of a process as (file, address in the file)."""

    def __init__(self, pid):
        self.areas = []
        with open(f"/proc/{newest_thread(pid)}/maps", encoding="utf-8") as file:
            for line in file:
                found = re.match(r"([0-9a-f]+)-([0-9a-f]+) ..x. ([0-9a-f]+) \S+ \d+ +(\S+)", line)
                if found:
                    start, end, offset = (int(found.group(i), 16) for i in (1, 2, 3))
                    self.areas.append((start, end, offset, found.group(4)))

    def find(self, address):
        for start, end, offset, path in self.areas:
            if start <= address < end and path == "[vdso]":
                return path, address - start
            if start <= address < end:
                at = address - start + offset
                for segment, virtual, size in lib.elf_segments(path):
                    if segment // 4096 * 4096 <= at < segment + size:
                        return path, at - segment + virtual
        return None


def physical(frames, maps):
    """gdb's frames as (place, names, start): inlined functions are part of the frame that they were inlined into."""
    result, names = [], []
    for frame in frames:
        names.append(frame["name"])
        if frame["kind"] == "inline":
            continue
        # What a signal interrupted has not made a call, and its trampoline begins at its return address.
        exact = not result or "signal" in (frame["kind"], result[-1][3])
        start = maps.find(frame["start"]) if frame["start"] is not None else None
        result.append((maps.find(frame["pc"] - (0 if exact else 1)), tuple(names), start, frame["kind"]))
        names = []
    return result


def plain(name):
    """Without parameters, template arguments and clone suffixes, which everybody writes differently."""
    return re.sub(r"(\.(constprop|isra|part|cold)\.?\d*)+$|@@?[A-Z].*$", "", re.sub(r"[(<].*", "", name))


def names_agree(seen, expected, start):
    """By name, or by the start of the function when it has several names."""
    if expected[-1] is None:
        return True
    if [plain(name) for name in seen.names] == [plain(name) for name in expected]:
        return True
    return len(seen.names) == len(expected) and start is not None and start[1] == seen.start and \
        [plain(name) for name in seen.names[:-1]] == [plain(name) for name in expected[:-1]]


def stacks_agree(seen, expected):
    """None, or what is different. Of a stack that says it was cut, what there is."""
    if seen[-1].kind == "mark":
        seen, expected = seen[:-1], expected[:len(seen) - 1]
    for depth, (frame, (place, names, start, _)) in enumerate(zip(seen, expected)):
        if place is None or os.path.realpath(place[0]) != os.path.realpath(frame.path):
            return f"frame {depth}: {frame} in another file than gdb's {place}"
        if place[1] != frame.address:
            return f"frame {depth}: {frame} at another address than gdb's {place[0]} {place[1]:#x} {names}"
        if not names_agree(frame, names, start):
            return f"frame {depth}: {frame} named differently from gdb's {names}"
    if len(seen) != len(expected):
        return f"{len(seen)} frames, gdb has {len(expected)}"
    return None


class StacksMatchGdb(unittest.TestCase):
    compared = 0  # distinct stacks

    @classmethod
    def setUpClass(cls):
        cls.programs = {}
        for name, command in [(name, build_place(name)) for name in PLACES]:
            program = lib.Program(*command, ready="ready")
            cls.addClassCleanup(program.__exit__)
            cls.programs[name] = program
        pids = ",".join(str(program.pid) for program in cls.programs.values())
        cls.profile = lib.record("-p", pids, "--duration", "2", "-F", "1499").profile
        for program in cls.programs.values():
            os.kill(program.pid, signal.SIGSTOP)

    def check(self, name):
        pid = self.programs[name].pid
        os.kill(pid, signal.SIGCONT)
        maps, known = Maps(pid), collections.defaultdict(list)
        for frames in gdb_stacks(pid):
            expected = physical(frames, maps)
            if expected not in known[expected[0][0]]:
                known[expected[0][0]].append(expected)
        os.kill(pid, signal.SIGSTOP)
        met, samples, cut, shown, distinct = 0, 0, 0, False, set()
        for stack in self.profile.user_stacks(pid):
            samples += stack.count
            cut += stack.count if stack.frames[-1].kind == "mark" else 0
            leaf = stack.frames[0]
            candidates = known.get((leaf.path, leaf.address), [])
            if candidates:
                met += stack.count
                distinct.add(stack.frames)
                shown = shown or name not in MUST_SHOW or MUST_SHOW[name](leaf)
                problems = [stacks_agree(stack.frames, expected) for expected in candidates]
                self.assertIn(None, problems, [lib.frame_name(frame) for frame in stack.frames])
        self.assertGreaterEqual(samples, 20)
        self.assertGreaterEqual(met, 0.7 * samples, "gdb did not come to where the samples are")
        self.assertTrue(shown)
        # Before the kernel has the unwind tables, a stack in two parts can only be told to be one.
        self.assertLessEqual(cut, 0.2 * samples if name.startswith("altstack") else 0)
        type(self).compared += len(distinct)

    def test_zz_compared_a_hundred(self):
        """Runs last: the others have counted what they compared."""
        self.assertGreaterEqual(self.compared, 100)


def test_add(name):
    setattr(StacksMatchGdb, f"test_{name}", lambda self: self.check(name))


for place in PLACES:
    test_add(place)

if __name__ == "__main__":
    lib.main()
