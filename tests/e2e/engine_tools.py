#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: W1, W4.
"""Counters of tools are exact: beside valgrind's, beside what a program is known to execute, alone and together.

What is interrupted by a timer or faults is counted when it is executed, once; threads and children are counted, too.
"""

import json
import mmap
import os
import re
import subprocess
import unittest

import lib

SECONDS = 200
THREADS, ROUNDS, FAULTS = 3, 3_000_000, 500
SINGLE = ("opcodes", "accesses", "calls", "probe")
# Of valgrind's types, those that the program has; F and V types are of the sizes that they say.
SIZES = {"I8": 1, "I16": 2, "I32": 4, "I64": 8, "V128": 16}


def counters(tools, *command, **options):
    """What the tools say, by tool and name."""
    path = lib.scratch("tools.json")
    subprocess.run([lib.ASSAY, "trace", "-q", "--tool", tools, "-o", lib.scratch("tools.db"), "--summary", path, "--", *command],
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, timeout=SECONDS, **options)
    with open(path, encoding="utf-8") as file:
        summary = json.load(file)
    if summary["rows"]:
        raise AssertionError(f"something left the engine: {summary['rows']}")
    return {(row["tool"], row["name"]): row["count"] for row in summary["counters"]}


def of(tool, told):
    return {name: count for (one, name), count in told.items() if one == tool}


def symbol(program, name):
    for line in subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout.splitlines():
        if line.split()[-1] == name:
            return int(line.split()[0], 16)
    raise AssertionError(f"no symbol {name}")


class Tools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("tools.c", "-static-pie", "-fPIE", name="tools")
        cls.alone = lib.build("tools_alone.c", "-static", "-nostdlib", "-nostartfiles", name="tools_alone")

    def site(self, name):
        """An instruction of the program, as counters name it: an offset in the file."""
        return f"tools+{symbol(self.program, name):#x}"

    def test_known_numbers(self):
        """Threads, a child, and a timer that interrupts all of them 2,000 times a second."""
        told = counters("opcodes,calls", self.program, "work", str(THREADS), str(ROUNDS))
        wanted = (THREADS + 1) * ROUNDS
        self.assertEqual(of("opcodes", told)["bswap"], wanted)
        self.assertEqual(of("calls", told)[self.site("rare_call")], wanted)

    def test_faults(self):
        """An instruction that faults has not been executed; done again, it has."""
        told = counters("opcodes,accesses", self.program, "faults", str(FAULTS))
        self.assertEqual(of("opcodes", told)["movbe"], FAULTS)

    def test_valgrind(self):
        run = subprocess.run(["valgrind", "--tool=lackey", "--basic-counts=yes", "--detailed-counts=yes", self.alone],
                             capture_output=True, text=True, check=True, timeout=SECONDS).stderr.replace(",", "")
        theirs = {}
        for kind, loads, stores in re.findall(r"==\s+(I\d+|V128)\s+(\d+)\s+(\d+)\s+\d+", run):
            theirs[f"read {SIZES.get(kind)}"], theirs[f"write {SIZES.get(kind)}"] = int(loads), int(stores)
        theirs = {name: count for name, count in theirs.items() if count}
        told = counters("opcodes,accesses,calls", self.alone)
        self.assertEqual(len(theirs), 10)
        self.assertEqual(of("accesses", told), theirs)
        self.assertEqual(sum(of("opcodes", told).values()), int(re.search(r"guest instrs:\s+(\d+)", run)[1]))
        self.assertEqual(sum(of("calls", told).values()), 5000)
        self.assertEqual(sorted(of("calls", told).values()), [1250, 3750])

    def test_probe(self):
        """All insertion points and operations, beside other tools and beside valgrind's list of addresses."""
        told = counters("probe,opcodes,accesses", self.alone)
        probe, opcodes = of("probe", told), of("opcodes", told)
        transfers = sum(opcodes[name] for name in ("call", "ret", "jmp", "jz", "jnz", "syscall"))
        self.assertEqual(probe["before"], sum(opcodes.values()))
        self.assertEqual(probe["after"], sum(opcodes.values()) - transfers)
        both = 2 * 5000  # operands that are read and written
        self.assertEqual(probe["access"], sum(of("accesses", told).values()) - both)
        self.assertEqual((probe["call"], probe["return"], probe["branch"]), (5000, 5000, 5000))
        self.assertEqual(probe["sum of call targets"], 5000 * symbol(self.alone, "leaf"))
        calls = [int(line.split(":")[0], 16) for line in
                 subprocess.run(["objdump", "-d", self.alone], capture_output=True, text=True, check=True).stdout.splitlines()
                 if re.search(r"\tcall", line)]
        self.assertEqual(len(calls), 2)
        self.assertEqual(probe["sum of return targets"], 3750 * (calls[0] + 5) + 1250 * (calls[1] + 3))
        self.assertEqual((probe["system call"], probe["thread start"]), (3, 1))
        run = subprocess.run(["valgrind", "--tool=lackey", "--trace-mem=yes", "--log-file=" + lib.scratch("trace"), self.alone],
                             check=True, timeout=SECONDS)
        with open(lib.scratch("trace"), encoding="utf-8") as file:
            accesses = re.findall(r"^ [LSM] ([0-9a-f]+),(\d+)$", file.read(), re.MULTILINE)
        crossed = sum(int(address, 16) % 64 + int(size) > 64 for address, size in accesses)
        self.assertEqual(crossed, 3 * 5000)
        self.assertEqual((probe["crossed"], probe["crossed, looked at afterwards"]), (crossed, crossed))

    def test_together(self):
        """Tools in one run say what each says by itself. How segments are cut depends on who else looks at them."""
        together = counters("count,blocks,coverage," + ",".join(SINGLE), self.alone)
        for tool in SINGLE:
            ours, alone = of(tool, together), of(tool, counters(tool, self.alone))
            self.assertEqual(ours.pop("segment", 0) > 0, alone.pop("segment", 0) > 0)
            self.assertEqual(ours, alone, tool)

    def test_instructions(self):
        """The sum of opcodes is what the profile has executed, with a C library and threads."""
        told = counters("count,opcodes", lib.PYTHON, "-c", "print(sum(x * x for x in range(100000)))")
        run = subprocess.run([lib.ASSAY, "report", "modules", "--json", "-i", lib.scratch("tools.db")],
                             capture_output=True, check=True, timeout=SECONDS)
        self.assertEqual(sum(row["instructions"] for row in json.loads(run.stdout)["rows"]), sum(of("opcodes", told).values()))

    def test_gates(self):
        """A tool's code is switched on and off by a word in shared memory, while the program stays in the cache."""
        layout = lib.build("tools_layout.c", "-I", os.path.join(lib.ROOT, "src"), name="tools_layout")
        gates = dict(line.split() for line in subprocess.run([layout], capture_output=True, text=True, check=True).stdout.splitlines())
        path = lib.scratch("gates.json")
        with subprocess.Popen([lib.ASSAY, "trace", "-q", "--tool", "opcodes,calls", "--summary", path, "--", self.program, "gates", "1000"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
            def step():
                run.stdin.write("\n")
                run.stdin.flush()
                self.assertEqual(run.stdout.readline(), "done\n")
            step()
            # The file is sealed: only the host can write there, so it is done in its memory.
            with open(f"/proc/{run.pid}/maps", encoding="utf-8") as maps:
                start = next(int(line.split("-")[0], 16) for line in maps if "/memfd:assay " in line)
            with open(f"/proc/{run.pid}/mem", "r+b", buffering=0) as memory:
                def gate(tool, closed):
                    memory.seek(start + int(gates[tool]) % mmap.PAGESIZE)
                    memory.write(int(closed).to_bytes(4, "little"))
                gate("opcodes", True)
                step()
                step()
                gate("calls", True)
                gate("opcodes", False)
                step()
                gate("opcodes", True)
            run.stdin.close()
            self.assertEqual(run.wait(SECONDS), 0)
        with open(path, encoding="utf-8") as file:
            told = {(row["tool"], row["name"]): row["count"] for row in json.load(file)["counters"]}
        self.assertEqual(of("opcodes", told)["bswap"], 2 * 1000)
        self.assertEqual(of("calls", told)[self.site("rare_call")], 3 * 1000)

    def test_maps(self):
        """What tools need is not in the maps that the program sees, nor is the rest of its last page: valgrind aborts at that."""
        for tools in ("none", "count", "blocks", "paths", "coverage", *SINGLE, ",".join(SINGLE)):
            run = subprocess.run([lib.ASSAY, "trace", "-q", "--tool", tools, "-o", lib.scratch("maps.db"), "--", "cat",
                                  "/proc/self/maps"], capture_output=True, text=True, check=True, timeout=SECONDS)
            parts = [line for line in run.stdout.splitlines()
                     if any(int(end, 16) % mmap.PAGESIZE for end in line.split()[0].split("-"))]
            self.assertIn("[stack]", run.stdout)
            self.assertEqual(parts, [], tools)

    def test_wrong_usage(self):
        for tools, text in (("opcodes,nothing", "--tool opcodes,nothing: takes native, none, count"),
                            ("none,count", "cannot be combined"), ("count,", "--tool count,: takes native")):
            run = subprocess.run([lib.ASSAY, "trace", "--tool", tools, "--", "true"], capture_output=True, text=True, timeout=SECONDS)
            self.assertEqual(run.returncode, 2)
            self.assertIn(text, run.stderr)


if __name__ == "__main__":
    lib.main()
