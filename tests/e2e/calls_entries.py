#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: T1, T2, T3.
"""assay calls on programs that tell entries only: -pg, -pg -mfentry, -fpatchable-function-entry.

What they print is what they print by themselves, whatever happens to their stacks, and their calls are callgrind's.
"""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

ASSAY = os.path.abspath(os.environ.get("ASSAY", "build/assay"))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRATCH = tempfile.mkdtemp(prefix="calls-entries-")
KINDS = {"pg": ["-pg"], "fentry": ["-pg", "-mfentry"], "patched": ["-fpatchable-function-entry=5"],
         "front": ["-fpatchable-function-entry=16,14"], "endbr": ["-fcf-protection", "-fpatchable-function-entry=9,3"],
         "wide": ["-fpatchable-function-entry=8"], "wide-front": ["-fpatchable-function-entry=11,7"]}
CALLS = {"catcher": 100, "thrower": 395, "lands": 100, "jumper": 600, "cancelled": 20, "wait_for_cancel": 20, "exits": 20,
         "exit_leaf": 20, "coroutine": 1, "coroutine_step": 10, "resume": 11, "yield": 10, "floats": 1, "handler": 50,
         "tail_begin": 100, "tail_end": 100, "walk_leaf": 1, "walk_middle": 1}


def build(source, name, *flags, compiler="gcc"):
    path = os.path.join(SCRATCH, name)
    if not os.path.exists(path):
        subprocess.run([compiler, "-g", "-pthread", *flags, "-o", path, os.path.join(ROOT, "tests/programs", source)], check=True)
    return path


def run(*words, code=0):
    done = subprocess.run(words, capture_output=True, text=True, cwd=SCRATCH, timeout=120)
    assert done.returncode == code, (words, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done


def calls(*options, program, code):
    done = run(ASSAY, "calls", "--json", *options, "--", *program, code=code)
    at = done.stdout.index('{"assay"')
    return done.stdout[:at], json.loads(done.stdout[at:]), done.stderr


def name(row):
    return row["symbol"].split("(")[0]


def counts(found):
    return {name(row): row["calls"] for row in found["rows"]}


class Stacks(unittest.TestCase):
    def check(self, program, *options):
        native = run(program, code=3).stdout
        printed, found, said = calls("--view", "functions", *options, program=[program], code=3)
        self.assertEqual(printed, native)
        seen = counts(found)
        self.assertEqual({routine: seen.get(routine) for routine in CALLS}, CALLS)
        self.assertIn("hooks' own cost" if "--count" not in options else "", said)

    def test_gcc(self):
        for kind, flags in KINDS.items():
            with self.subTest(kind):
                self.check(build("calls_entries.cc", "gcc-" + kind, "-O2", *flags, compiler="g++"))

    def test_without_optimisation(self):
        self.check(build("calls_entries.cc", "gcc-O0", "-O0", "-pg", compiler="g++"), "--count")

    @unittest.skipUnless(shutil.which("clang++"), "clang is not installed")
    def test_clang(self):
        for kind in ("pg", "patched", "front", "wide", "wide-front"):  # in wide ones a nop is longer than what replaces it
            with self.subTest(kind):
                self.check(build("calls_entries.cc", "clang-" + kind, "-O2", *KINDS[kind], compiler="clang++"), "--count")

    @unittest.skipUnless(shutil.which("valgrind"), "valgrind is not installed")
    def test_callgrind_agrees(self):
        program = build("calls_entries.cc", "gcc-pg", "-O2", "-pg", compiler="g++")
        out = os.path.join(SCRATCH, "callgrind.out")
        # Valgrind may deliver a last SIGPROF when libc has already put back what it found there for the signal.
        run("env", "--ignore-signal=PROF", "valgrind", "--tool=callgrind", "--compress-strings=no",
            f"--callgrind-out-file={out}", program, code=3)
        expected = {}
        with open(out, encoding="utf-8", errors="replace") as file:
            callee = None
            for line in file:
                if line.startswith("cfn="):
                    # control comes to a cold part from a handler of exceptions, which is no call
                    callee = "cold" if "cold" in line else line[4:].strip().split("'")[0].split("(")[0]
                elif line.startswith("calls="):
                    expected[callee] = expected.get(callee, 0) + int(line[6:].split()[0])
        seen = counts(calls("--view", "functions", "--count", program=[program], code=3)[1])
        # switches of stacks, and where longjmp comes back, look like calls to callgrind; handlers do not
        for routine in ("catcher", "thrower", "jumper", "floats", "tail_begin", "tail_end", "walk_leaf"):
            self.assertEqual(seen[routine], expected[routine], routine)


class Trees(unittest.TestCase):
    def tree(self, *flags):
        program = build("calls_shapes.c", "shapes" + "".join(flags), "-O1", *flags)
        return calls("--view", "tree", program=[program, "example"], code=5)[1]["rows"]

    def test_example(self):
        """The same tree as with hooks at exits."""
        def shape(rows):
            return [(row["level"], row["recursion"], row["calls"], row["symbol"]) for row in rows if row["level"]]
        expected = shape(self.tree("-finstrument-functions"))
        self.assertEqual(len(expected), 10)
        for kind, flags in KINDS.items():
            rows = self.tree(*flags)
            self.assertEqual(sorted(shape(rows)), sorted(expected), kind)
            total = sum(row["base"] for row in rows)
            self.assertAlmostEqual(total, rows[0]["cum"], delta=2000 + total / 100)

    def test_ends_are_seen(self):
        """What a function does after a call is its own, which entries alone would not tell."""
        source = os.path.join(SCRATCH, "ends.c")
        with open(source, "w", encoding="ascii") as file:
            file.write("static volatile long n;\n"
                       "__attribute__((noinline)) static void quick(void) { n++; }\n"
                       "__attribute__((noinline)) static void slow(void) { quick(); for (long i = 0; i < 30000000; i++) n++; }\n"
                       "int main(void) { slow(); return 0; }\n")
        program = os.path.join(SCRATCH, "ends")
        for flags in KINDS.values():
            run("gcc", "-O1", *flags, "-o", program, source)
            rows = {name(row): row for row in calls("--view", "functions", program=[program], code=0)[1]["rows"]}
            self.assertGreater(rows["slow"]["base"], 100 * rows["quick"]["base"])

    def test_pruned_and_deep(self):
        for what, options in (("wide", ("--max-nodes", "400")), ("deep", ("--max-depth", "100"))):
            for count in ((), ("--count",)):
                found = []
                for flags in ("-pg", "-finstrument-functions"):
                    program = build("calls_shapes.c", "shapes" + flags, "-O1", flags)
                    found.append(calls("--view", "functions", *options, *count, program=[program, what], code=5)[1])
                self.assertEqual(found[0]["totals"]["seen"], found[1]["totals"]["seen"], what)

    def test_threads_and_forks(self):
        for what in ("tasks", "forks", "handler", "many"):
            found = []
            for flags in ("-pg", "-finstrument-functions"):
                program = build("calls_shapes.c", "shapes" + flags, "-O1", "-pthread", flags)
                found.append(counts(calls("--view", "functions", "--count", program=[program, what], code=5)[1]))
            self.assertEqual(found[0], found[1], what)

    def test_memory_of_forks(self):
        """The code of a child's ways back is not its parent's memory, and the child returns through it."""
        source = os.path.join(SCRATCH, "memory.c")
        with open(source, "w", encoding="ascii") as file:
            file.write("#include <stdio.h>\n#include <string.h>\n#include <sys/wait.h>\n#include <unistd.h>\n"
                       "__attribute__((noinline)) int maps(int in_child) {\n"
                       "    char line[4096]; FILE *file = fopen(\"/proc/self/maps\", \"r\");\n"
                       "    while (fgets(line, sizeof(line), file))\n"
                       "        if (strstr(line, \"assay-ways\")) printf(\"%d %s\", in_child, line);\n"
                       "    fclose(file); fflush(stdout); return in_child; }\n"
                       "__attribute__((noinline)) int family(void) {\n"
                       "    int status; pid_t pid = fork();\n"
                       "    if (!pid) return maps(1) + 1;\n"
                       "    waitpid(pid, &status, 0); return maps(0); }\n"
                       "int main(void) { return family() ? 0 : 7; }\n")
        program = os.path.join(SCRATCH, "memory")
        run("gcc", "-O1", "-pg", "-o", program, source)
        printed, found, _ = calls("--view", "functions", program=[program], code=7)
        lines = [line.split() for line in printed.splitlines()]
        inodes = [{line[5] for line in lines if line[0] == who} for who in "01"]
        places = [sorted((line[1], line[2]) for line in lines if line[0] == who) for who in "01"]
        self.assertEqual([len(inode) for inode in inodes], [1, 1], printed)
        self.assertNotEqual(inodes[0], inodes[1])
        self.assertEqual(places[0], places[1])
        self.assertEqual(counts(found)["maps"], 2)

    def test_events(self):
        program = build("calls_shapes.c", "shapes-mfentry", "-O1", "-pg", "-mfentry")
        for what in ("example", "jumps"):
            live = calls("--events", "e", "--view", "tree", program=[program, what], code=5)[1]
            later = json.loads(run(ASSAY, "calls", "--from-events", "e", "--view", "tree", "--json", "-o", "later.db").stdout)
            self.assertGreater(len(live["rows"]), 5)
            self.assertEqual(live["rows"], later["rows"], what)
            self.assertEqual(live["totals"], later["totals"], what)


class Places(unittest.TestCase):
    def test_plugin(self):
        """A library that is loaded while the program runs."""
        for kind, flags in KINDS.items():
            library = build("calls_plugin.c", "plugin-" + kind + ".so", "-O1", "-shared", "-fPIC", *flags)
            program = build("calls_entries.cc", "gcc-" + kind, "-O2", *flags, compiler="g++")
            native = run(program, library, code=3).stdout
            printed, found, _ = calls("--view", "functions", program=[program, library], code=3)
            self.assertEqual(printed, native)
            seen = counts(found)
            self.assertEqual((seen.get("plugin_work"), seen.get("plugin_part")), (30, 60), kind)

    def test_plugin_that_registers(self):
        """A library in which nothing is looked up: its calls end where they end, and it keeps its names."""
        hooks = {kind: KINDS[kind] for kind in ("pg", "fentry")} | {"cyg": ["-finstrument-functions"]}
        for kind, flags in hooks.items():
            build("calls_host.c", "registers-" + kind + ".so", "-O1", "-shared", "-fPIC", "-DPLUGIN", *flags)
            program = build("calls_host.c", "host-" + kind, "-O1", "-rdynamic", *flags)
            _, found, said = calls("--view", "tree", program=[program, f"./registers-{kind}.so"], code=3)
            rows = [(row["level"], row["calls"], name(row)) for row in found["rows"]]
            for row in ((1, 1, "main"), (2, 50, "host_round"), (3, 50, "plugin_work"), (4, 100, "plugin_step")):
                self.assertIn(row, rows, kind)
            self.assertNotIn("could not be seen", said)

    def test_plugin_that_is_not_patched(self):
        build("calls_host.c", "registers-patched.so", "-O1", "-shared", "-fPIC", "-DPLUGIN", *KINDS["patched"])
        program = build("calls_host.c", "host-patched", "-O1", "-rdynamic", *KINDS["patched"])
        _, found, said = calls("--view", "functions", program=[program, "./registers-patched.so"], code=3)
        self.assertEqual(counts(found)["host_round"], 50)
        self.assertIn("3 patchable entries are not recorded", said)

    def test_far_away(self):
        """Calls from a program that is not within reach of the hooks, at a fixed place."""
        program = build("calls_shapes.c", "fixed", "-O1", "-no-pie", "-fno-pie", *KINDS["patched"])
        self.assertEqual(counts(calls("--view", "functions", program=[program, "example"], code=5)[1])["B"], 5000)

    def test_too_short(self):
        """Two bytes hold no call: it is said, and nothing is changed."""
        program = build("calls_shapes.c", "short", "-O1", "-fpatchable-function-entry=2")
        _, found, said = calls("--view", "functions", program=[program, "example"], code=5)
        self.assertEqual(found["rows"], [])
        self.assertIn("patchable entries are not recorded", said)

    def test_static(self):
        """Nothing can be preloaded, so the engine sees it."""
        program = build("calls_shapes.c", "static", "-O1", "-static", "-pg")
        _, found, said = calls("--view", "functions", "--only", "B", program=[program, "example"], code=5)
        self.assertEqual(counts(found)["B"], 5000)
        self.assertNotIn("hooks", said)

    def test_both(self):
        """Functions that tell both are counted once."""
        program = build("calls_shapes.c", "both", "-O1", "-pg", "-finstrument-functions")
        found = counts(calls("--view", "functions", program=[program, "example"], code=5)[1])
        self.assertEqual((found["A"], found["B"]), (3000, 5000))


if __name__ == "__main__":
    try:
        unittest.main(verbosity=2)
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
