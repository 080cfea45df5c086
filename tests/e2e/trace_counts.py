#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: W2, W8.
"""What assay trace says was executed, against those who know: callgrind, single-stepping with ptrace, gcov.

count and blocks go different ways (counters in the program; a stream that the host counts) and must agree in every block.
"""

import collections
import itertools
import json
import os
import re
import signal
import sqlite3
import struct
import subprocess
import time
import unittest

import lib
import lib_steps

SECONDS = 120
FIXED = ["setarch", "-R", "env", "-i", "PATH=/usr/bin:/bin"]  # the same addresses and environment every time


class Trace:
    """A finished assay trace and its profile."""

    def __init__(self, tool, *command, prefix=FIXED, options=(), code=0):
        self.path = lib.scratch(f"{tool}-{time.monotonic_ns()}.db")
        run = subprocess.run([*prefix, lib.ASSAY, "trace", "--tool", tool, "-o", self.path, *options, "--", *command],
                             capture_output=True, timeout=SECONDS)
        self.out, self.err = run.stdout, run.stderr.decode()
        assert code is None or run.returncode == code, (run.returncode, self.err)
        self.code = run.returncode
        self.db = sqlite3.connect(self.path)

    def rows(self, query, *values):
        return self.db.execute(query, values).fetchall()

    def functions(self):
        return {(module, symbol): instructions for symbol, module, instructions
                in self.rows("select symbol, module, instructions from executed_functions")}

    def blocks(self):
        """(module, address, bytes, instructions) to executions."""
        return {row[:4]: row[4] for row in self.rows(
            "select module.name, location.address, block.length, block.instructions, sum(execution.count) "
            "from execution join block on block.id = execution.block join location on location.id = block.location "
            "join module on module.id = location.module group by block.id")}

    def meta(self, key):
        found = self.rows("select value from facts where key = ?1 union all select value from meta where key = ?1", key)
        return found[0][0] if found else None

    def report(self, view, *options):
        run = subprocess.run([lib.ASSAY, "report", view, "-i", self.path, "--json", *options], capture_output=True,
                             check=True)
        return json.loads(run.stdout)


def callgrind(program):
    """Function to instructions, of the program itself."""
    output = lib.scratch("callgrind.out")
    subprocess.run(["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={output}", program],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=SECONDS)
    text = subprocess.run(["callgrind_annotate", "--threshold=100", output], capture_output=True, text=True,
                          check=True).stdout
    counts = collections.Counter()
    for number, function in re.findall(r"(?m)^\s*([\d,]+) \([ \d.]+%\)\s+\S*:(\S+) \[\S*/functions\]", text):
        counts[re.sub(r"'\d+$", "", function)] += int(number.replace(",", ""))  # fibonacci'2: recursion
    return counts


class Counts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("functions.c", "-static")

    def test_callgrind(self):
        """The same number of instructions in every function; a repeated instruction is one, for callgrind each repetition."""
        expected = callgrind(self.program)
        ours = Trace("count", self.program, code=3).functions()
        self.assertEqual(expected["fill"] - 50 * 5000, ours["functions", "fill"])
        for function in ("collatz", "fibonacci", "hash", "choose", "main"):
            names = [name for name in expected if name.split(".")[0] == function]
            self.assertTrue(names, function)
            self.assertEqual(sum(expected[name] for name in names),
                             sum(count for (module, name), count in ours.items() if name in names), function)

    def test_single_step(self):
        program = lib.build("steps.c", "-static", "-nostdlib", "-fno-pie", "-no-pie", "-fcf-protection=none")
        expected = collections.Counter(lib_steps.blocks_of(program))
        for tool in ("count", "blocks"):
            trace = Trace(tool, program)
            ours = collections.Counter()
            for (module, address, _, instructions), count in trace.blocks().items():
                ours[address, instructions] += count
            self.assertEqual(expected, ours, tool)
            self.assertEqual(trace.out, b"done\n")
        self.assertGreater(sum(expected.values()), 1000)

    def test_two_ways(self):
        for command in ([self.program], ["/usr/bin/xz", "-0", "-c", "/bin/ls"]):
            code = 3 if command == [self.program] else 0
            raw = lib.scratch("raw")
            counted = Trace("count", *command, code=code)
            streamed = Trace("blocks", *command, code=code, options=["--raw", raw])
            self.assertEqual(counted.out, streamed.out)
            self.assertEqual(self.repeatable(counted), self.repeatable(streamed))
            self.assertEqual(streamed.rows("select count(*) from loss")[0][0], 0)
            self.assertEqual(raw_blocks(raw), self.by_length(streamed))
            covered = Trace("coverage", *command, code=code)
            self.assertEqual(set(self.repeatable(covered)), set(self.repeatable(counted)))

    @staticmethod
    def repeatable(trace):
        """Without the vdso: it reads the clock again if the kernel has just changed it."""
        return {block: count for block, count in trace.blocks().items() if block[0] != "[vdso]"}

    @staticmethod
    def by_length(trace):
        counts = collections.Counter()
        for (_, _, length, instructions), count in trace.blocks().items():
            counts[length, instructions] += count
        return counts

    def test_totals(self):
        trace = Trace("count", self.program, code=3)
        instructions, blocks = (int(number) for number in
                                re.search(r"(\d+) instructions in (\d+) blocks", trace.err).groups())
        for view in ("functions", "lines", "modules", "processes", "threads"):
            report = trace.report(view)
            self.assertEqual(sum(row["instructions"] for row in report["rows"]), instructions, view)
            self.assertEqual(sum(row["blocks"] for row in report["rows"]), blocks, view)
            self.assertEqual(report["totals"], {"seen": instructions, "kept": instructions, "selected": instructions,
                                                "lost": {}})
        parts = trace.rows("select count(*) from block where instructions <> (select sum(instructions) from block_part "
                           "where block_part.block = block.id)")
        self.assertEqual(parts[0][0], 0)
        self.assertEqual(trace.meta("finished"), "1")

    def test_lines(self):
        """A line of the loop in hash() is executed as often as there are bytes."""
        trace = Trace("count", self.program, code=3)
        with open(os.path.join(lib.PROGRAMS, "functions.c"), encoding="utf-8") as stream:
            lines = stream.read().splitlines()
        line = 1 + next(i for i, text in enumerate(lines) if "sum * 33" in text)
        count = trace.rows("select max(count) from source_line join file on file.id = file where path like '%functions.c' "
                           "and line = ?", line)[0][0]
        self.assertEqual(count, 50 * 5000)


def raw_blocks(path):
    """Bytes and instructions of blocks to executions, by the file of --raw alone."""
    with open(path, "rb") as stream:
        data = stream.read()
    assert data[:8] == b"assayraw"
    at, tables, threads, counts = 8, {}, {}, collections.Counter()
    runs_seen = {}
    while at < len(data):
        kind, number, size = struct.unpack_from("<IIQ", data, at)
        body = data[at + 16:at + 16 + size]
        at += 16 + size
        if kind == 1:
            _, parent, _, inherited = struct.unpack("<4I", body)
            tables[number] = {run: pieces for run, pieces in tables.get(parent, {}).items() if run < inherited}
        elif kind == 2:
            _, record = struct.unpack_from("<II", body)
            if record == 3:  # the runs of a fragment
                first, count = struct.unpack_from("<II", body, 8)
                pieces = [struct.unpack_from("<QII", body, 16 + 16 * i) for i in range(count)]
                for i in range(count):
                    tables[number][first + i] = pieces[:i + 1]
            elif record == 4:  # one that was cut short
                run, first, whole = struct.unpack_from("<III", body, 8)
                before = tables[number][first + whole - 1] if whole else []
                tables[number][run] = before + [struct.unpack_from("<QII", body, 24)]
        elif kind == 3:
            threads[number] = struct.unpack("<II", body)[0]
        elif kind == 4:
            for run in struct.unpack(f"<{size // 4}I", body):
                runs_seen[threads[number], run] = runs_seen.get((threads[number], run), 0) + 1
    for (process, run), times in runs_seen.items():
        for _, length, instructions in tables[process][run]:
            if instructions:
                counts[length, instructions] += times
    return counts


def content(path):
    with open(path, "rb") as stream:
        return stream.read()


class Processes(unittest.TestCase):
    def test_threads(self):
        source = lib.scratch("input")
        with open(source, "wb") as stream, open(lib.PYTHON, "rb") as python:
            stream.write(python.read(3 << 20))
        native = subprocess.run(["zstd", "-T3", "-c", source], capture_output=True, check=True).stdout
        for tool in ("count", "blocks"):
            trace = Trace(tool, "zstd", "-T3", "-c", source)
            self.assertEqual(trace.out, native)
            threads = trace.rows("select segments, instructions, lost from executed_threads")
            self.assertGreaterEqual(len(threads), 2)
            self.assertTrue(all(lost == 0 for _, _, lost in threads))
            self.assertGreater(sum(instructions for _, instructions, _ in threads), 1000000)

    def test_a_tree_of_processes(self):
        script = "for i in 1 2 3; do /bin/true; done; (exec ls / | wc -l); exec cat /dev/null"
        for tool in ("count", "blocks"):
            trace = Trace(tool, "sh", "-c", script)
            names = collections.Counter(row["exe"].rsplit("/", 1)[-1] for row in trace.report("processes")["rows"])
            self.assertEqual(names["true"], 3)
            self.assertEqual(names["ls"], 1)
            self.assertEqual(names["wc"], 1)
            self.assertEqual(names["cat"], 1)
            self.assertGreaterEqual(names["dash"], 1)
            self.assertEqual(trace.rows("select count(*) from loss")[0][0], 0)

    def test_a_child_goes_on_with_what_its_parent_knows(self):
        """Forked without exec: the child executes code that only its parent's log explains."""
        trace = Trace("blocks", lib.PYTHON, "-c", "import os\nfor i in range(5):\n if os.fork() == 0: os._exit(0)\n os.wait()")
        self.assertGreaterEqual(len(trace.report("processes")["rows"]), 6)
        self.assertEqual(trace.rows("select count(*) from loss")[0][0], 0)

    def test_what_was_recorded_survives_its_program(self):
        program = lib.build("killed.c")
        for tool, number in (("count", signal.SIGKILL), ("blocks", signal.SIGKILL), ("blocks", signal.SIGSEGV)):
            trace = Trace(tool, program, "1000003", str(int(number)), code=128 + number)
            entries = trace.rows(
                "select sum(count) from execution join block on block.id = block join location on location.id = "
                "block.location join symbol on symbol.address = location.address and symbol.module = "
                "location.module where symbol.name = 'work'")
            self.assertEqual(entries[0][0], 1000003, (tool, number))

    def test_the_program_survives_its_host(self):
        code = "print('begun', flush=True)\nprint(sum(i * i for i in range(3000000)), flush=True)"
        result = str(sum(i * i for i in range(3000000))).encode()
        for tool, reaped in itertools.product(("count", "blocks"), (True, False)):
            output = lib.scratch("survivor")
            with open(output, "wb") as stream:
                host = subprocess.Popen([lib.ASSAY, "trace", "-q", "--tool", tool, "-o", lib.scratch("gone.db"), "--",
                                         lib.PYTHON, "-c", code], stdout=stream, stderr=subprocess.DEVNULL)
            lib.wait_until(lambda: b"begun" in content(output))
            host.kill()
            if reaped:
                host.wait()
            lib.wait_until(lambda: result in content(output))
            host.wait()  # otherwise it has been a zombie until now

    def test_exit_status(self):
        self.assertEqual(Trace("count", "sh", "-c", "exit 42", code=None).code, 42)
        run = subprocess.run([lib.ASSAY, "trace", "--tool", "count", "-o", lib.scratch("none.db"), "--", "/no/such"],
                             capture_output=True)
        self.assertEqual(run.returncode, 127)
        self.assertFalse(os.path.exists(lib.scratch("none.db")))


class Traces(unittest.TestCase):
    """Fragments that follow what a thread has recorded: count has none of them, and must agree."""

    ROUNDS = 2_000_000

    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("traces.c", "-O1")
        cls.native = subprocess.run([cls.program, str(cls.ROUNDS)], capture_output=True, check=True).stdout

    @staticmethod
    def runs(trace):
        return trace.rows("select sum(segments) from executed_threads")[0][0]

    def test_fewer_runs(self):
        counted = Trace("count", self.program, str(self.ROUNDS))
        for tool in ("blocks", "paths"):
            trace = Trace(tool, self.program, str(self.ROUNDS))
            self.assertEqual(trace.out, self.native)
            self.assertEqual(trace.blocks(), counted.blocks())
            self.assertLess(self.runs(trace), 0.5 * self.runs(counted))
            self.assertEqual(trace.rows("select count(*) from loss")[0][0], 0)

    def test_rare_ways(self):
        """Where a loop goes four ways, traces begin on each of them, too."""
        program = lib.build("ways.c", "-O1", "-fno-toplevel-reorder")
        counted = Trace("count", program, str(self.ROUNDS))
        for tool in ("blocks", "paths"):
            trace = Trace(tool, program, str(self.ROUNDS))
            self.assertEqual(trace.out, counted.out)
            self.assertEqual(trace.blocks(), counted.blocks())
            self.assertLess(self.runs(trace), 0.5 * self.runs(counted))

    def test_signals(self):
        """They cut traces short anywhere; each call of step() is counted all the same."""
        for tool in ("blocks", "paths"):
            trace = Trace(tool, self.program, str(self.ROUNDS), "signals")
            self.assertEqual(trace.out, self.native)
            entries = trace.rows(
                "select sum(count) from execution join block on block.id = block join location on location.id = "
                "block.location join symbol on symbol.address = location.address and symbol.module = "
                "location.module where symbol.name = 'step'")
            self.assertEqual(entries[0][0], self.ROUNDS)


class Coverage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("coverage.c", "-O0")
        cls.trace = Trace("coverage", cls.program)

    def gcov(self):
        """Line to whether it was executed."""
        folder = lib.scratch("gcov")
        os.makedirs(folder, exist_ok=True)
        source = os.path.join(lib.PROGRAMS, "coverage.c")
        subprocess.run(["gcc", "-O0", "-g", "--coverage", "-o", "instrumented", source], cwd=folder, check=True)
        subprocess.run(["./instrumented"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        data = next(name for name in os.listdir(folder) if name.endswith(".gcda"))
        text = subprocess.run(["gcov", "-t", data], cwd=folder, check=True, capture_output=True, text=True).stdout
        return {int(line): not count.startswith("#") for count, line in
                re.findall(r"(?m)^\s*([\d#*=]+):\s*(\d+):", text)}

    def lcov(self):
        text = subprocess.run([lib.ASSAY, "export", "lcov", "-i", self.trace.path], capture_output=True, text=True,
                              check=True).stdout
        record = next(part for part in text.split("end_of_record") if "programs/coverage.c\n" in part)
        lines = {int(line): int(count) > 0 for line, count in re.findall(r"(?m)^DA:(\d+),(\d+)$", record)}
        self.assertEqual(int(re.search(r"LF:(\d+)", record).group(1)), len(lines))
        self.assertEqual(int(re.search(r"LH:(\d+)", record).group(1)), sum(lines.values()))
        return lines

    def test_gcov(self):
        """
        The same lines, executed or not. The compiler gives code to a function's braces where gcov counts its name, and none
        to the labels of a switch.
        """
        expected, ours = self.gcov(), self.lcov()
        both = sorted(set(expected) & set(ours))
        self.assertEqual([ours[line] for line in both], [expected[line] for line in both])
        with open(os.path.join(lib.PROGRAMS, "coverage.c"), encoding="utf-8") as stream:
            lines = [""] + stream.read().splitlines()
        self.assertEqual({lines[line].strip() for line in set(ours) - set(expected)}, {"{", "}"})
        for line in set(expected) - set(ours):
            self.assertRegex(lines[line], r"^\t(case .*|default):$|^(static )?(int|void) \w+\(")
        self.assertGreater(sum(expected[line] for line in both), 10)
        self.assertGreater(sum(not expected[line] for line in both), 5)

    def test_report(self):
        ours = self.lcov()
        row = next(row for row in self.trace.report("coverage")["rows"] if row["file"].endswith("programs/coverage.c"))
        self.assertEqual((row["lines"], row["executed"]), (len(ours), sum(ours.values())))
        names = {row["symbol"] for row in self.trace.report("functions")["rows"] if row["module"] == "coverage"}
        self.assertIn("classify", names)
        self.assertNotIn("unused", names)

    def test_wrong_kind(self):
        order = "has no order of execution; 'assay trace -- COMMAND' records it"
        samples = "has no samples; 'assay record -- COMMAND' records them"
        for command, words in ((["report", "callgraph"], order), (["annotate", "main"], samples),
                               (["export", "firefox"], samples)):
            run = subprocess.run([lib.ASSAY, *command, "-i", self.trace.path], capture_output=True, text=True)
            self.assertEqual(run.returncode, 1, command)
            self.assertIn(words, run.stderr, command)


if __name__ == "__main__":
    lib.main()
