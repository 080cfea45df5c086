#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: W3, W4, W8.
"""The order of execution that assay trace --tool paths keeps, against the raw stream of the same run.

--raw writes what the engine handed out before anything was made of it. From the profile the blocks of each thread are rebuilt and
compared with it; paths are counted again by the reference implementation, from the raw stream alone.
"""

import array
import bisect
import collections
import contextlib
import os
import re
import resource
import signal
import sqlite3
import struct
import subprocess
import sys
import time
import unittest

import lib
import lib_steps
from lib_steps import instructions_of
from trace_counts import SECONDS, Trace

sys.path.insert(0, os.path.join(lib.ROOT, "tests"))
import layers_reference  # noqa: E402

MAX_CYCLE = 4096
PROCESS, RECORD, THREAD, RUNS = 1, 2, 3, 4
RECORD_RUNS, RECORD_PARTIAL = 3, 4


class Raw:
    """By (pid, tid): the runs of a thread; by pid: what runs stand for, as (address, bytes, instructions)."""

    def __init__(self, path):
        with open(path, "rb") as stream:
            data = stream.read()
        assert data[:8] == b"assayraw"
        self.tables, self.threads = {}, {}
        tables, processes, threads = {}, {}, {}
        at = 8
        while at < len(data):
            kind, number, size = struct.unpack_from("<IIQ", data, at)
            body = data[at + 16:at + 16 + size]
            at += 16 + size
            if kind == PROCESS:
                pid, parent, _, inherited = struct.unpack("<4I", body)
                processes[number] = pid
                tables[number] = {run: pieces for run, pieces in tables.get(parent, {}).items() if run < inherited}
                self.tables[pid] = tables[number]
            elif kind == RECORD:
                self.record(tables[number], body)
            elif kind == THREAD:
                process, tid = struct.unpack("<II", body)
                threads[number] = self.threads.setdefault((processes[process], tid), array.array("I"))
            elif kind == RUNS:
                threads[number].frombytes(body)

    @staticmethod
    def record(table, body):
        _, kind = struct.unpack_from("<II", body)
        if kind == RECORD_RUNS:
            first, count = struct.unpack_from("<II", body, 8)
            pieces = [struct.unpack_from("<QII", body, 16 + 16 * i) for i in range(count)]
            for i in range(count):
                table[first + i] = pieces[:i + 1]
        elif kind == RECORD_PARTIAL:
            run, first, whole = struct.unpack_from("<III", body, 8)
            last = struct.unpack_from("<QII", body, 24)
            table[run] = (table[first + whole - 1] if whole else []) + ([last] if last[2] else [])


class Recorded(Trace):
    """A profile that is there already."""

    def __init__(self, path):  # pylint: disable=super-init-not-called
        self.path, self.db = path, sqlite3.connect(path)


def exported(path, *options):
    """By (pid, tid): the blocks of a thread."""
    output = path + ".blocks"
    subprocess.run([lib.ASSAY, "export", "blocks", "--binary", "-i", path, "-o", output, *options], check=True,
                   timeout=SECONDS)
    with open(output, "rb") as stream:
        data = stream.read()
    assert data[:8] == b"assayblk"
    at, threads = 8, {}
    while at < len(data):
        _, pid, tid, count = struct.unpack_from("<4I", data, at)
        threads.setdefault((pid, tid), array.array("I")).frombytes(data[at + 16:at + 16 + 4 * count])
        at += 16 + 4 * count
    return threads


class Order(unittest.TestCase):
    def recorded(self, *command):
        raw = lib.scratch("order.raw")
        trace = Trace("paths", *command, options=("--raw", raw))
        return trace, Raw(raw)

    def learned(self, trace, pid, runs, pieces_of, blocks):
        """Run to its blocks, as bytes: those that were exported where it comes first, if they are what the raw stream says."""
        known = {row[0]: row[1:] for row in trace.rows(
            "select block.id, module, address, length, instructions from block join location on location.id = block.location")}
        table, same, biases, at = {}, {}, {}, 0
        for run in runs:
            pieces = pieces_of[run]
            if run not in table:
                ids = blocks[at:at + len(pieces)]
                for (pc, length, instructions), block in zip(pieces, ids):
                    module, address, *size = known[block]
                    self.assertEqual([length, instructions], size)
                    self.assertEqual(same.setdefault((pc, length), block), block)
                    self.assertEqual(biases.setdefault(module, pc - address), pc - address)
                table[run] = ids.tobytes()
            at += len(pieces)
        return table

    def blocks_check(self, trace, raw):
        """The sequence of each thread, block by block."""
        ours = exported(trace.path)
        self.assertEqual(set(ours), {key for key, runs in raw.threads.items() if len(runs)})
        for (pid, tid), blocks in ours.items():
            runs = raw.threads[pid, tid]
            table = self.learned(trace, pid, runs, raw.tables[pid], blocks)
            self.assertEqual(b"".join(table[run] for run in runs), blocks.tobytes())

    def paths_check(self, trace, threads):
        """Paths of a process, given by the blocks of its threads: how often each was run, how often in a row, how long it is."""
        numbers, trips, repeats = {}, collections.Counter(), collections.Counter()
        for blocks in threads:
            for number, n in layers_reference.repeats(layers_reference.cycles(blocks, MAX_CYCLE), numbers):
                trips[number] += n
                repeats[number] += 1
        expected = collections.Counter((trips[number], repeats[number], len(path)) for path, number in numbers.items())
        report = trace.report("paths", "--min-share", "0")
        rows = [row for row in report["rows"] if row["step"] == 0]
        self.assertEqual(collections.Counter((row["trips"], row["repeats"], row["blocks"]) for row in rows), expected)
        self.assertEqual(sum(row["trips"] * row["weight"] for row in rows), report["totals"]["kept"])
        executed, = trace.rows("select sum(execution.count * block.instructions) from execution "
                               "join block on block.id = execution.block")[0]
        self.assertEqual(report["totals"]["kept"], executed)

    def program_check(self, *command):
        trace, raw = self.recorded(*command)
        self.blocks_check(trace, raw)
        self.paths_check(trace, exported(trace.path).values())
        return trace, raw

    def levels_check(self, trace, blocks, levels=4, max_cycle=MAX_CYCLE):
        """How many symbols, cycles and repeated cycles each level has; returns those."""
        lines = [line.split() for line in layers_reference.report(blocks, levels, max_cycle) if line.startswith("level")]
        ours = trace.rows("select level, symbols, cycles, repeats from layer order by level")
        self.assertEqual(ours, [(int(w[1]), int(w[3]), int(w[5]), int(w[7])) for w in lines])
        return ours

    def test_single_step(self):
        """Paths, strata and layers are those of the blocks that the processor executed one by one."""
        program = lib.build("steps.c", "-static", "-nostdlib", "-fno-pie", "-no-pie", "-fcf-protection=none")
        numbers = {}
        stepped = [numbers.setdefault(block, len(numbers)) for block in lib_steps.blocks_of(program)]
        trace, _ = self.recorded(program)
        self.paths_check(trace, [stepped])
        self.levels_check(trace, stepped)
        self.assertGreater(len(stepped), 1000)

    def test_xz(self):
        source = lib.scratch("text")
        with open(source, "w", encoding="ascii") as stream:
            stream.write("\n".join(str(i * i) for i in range(1500)))
        trace, raw = self.program_check("xz", "-6", "-c", source)
        (runs,) = raw.threads.values()
        (blocks,) = exported(trace.path).values()
        ours = self.levels_check(trace, blocks)
        self.layers_check(trace)
        self.places_check(trace, blocks)
        self.transfers_check(trace)
        (thread,) = trace.report("threads")["rows"]
        self.assertEqual((thread["segments"], thread["paths"], thread["strata"]), (len(runs), ours[0][2], ours[1][2]))

    def transfers_check(self, trace):
        """Between modules: pairs of neighbouring blocks."""
        modules = dict(trace.rows("select block.id, module.name from block join location on location.id = block.location "
                                  "join module on module.id = location.module"))
        expected = collections.Counter()
        for blocks in exported(trace.path).values():
            names = [modules[block] for block in blocks]
            expected.update(zip(names, names[1:]))
        rows = trace.report("transfers")["rows"]
        self.assertEqual({(row["from"], row["to"]): row["transfers"] for row in rows}, dict(expected))
        self.assertTrue(all(row["entries"] <= row["transfers"] for row in rows))
        text = subprocess.run([lib.ASSAY, "report", "transfers", "-i", trace.path], capture_output=True, text=True,
                              check=True).stdout.splitlines()
        self.assertEqual(len(text[0].split()), 3 + len({name for name, _ in expected}))

    def layers_check(self, trace):
        """Of each level, the cycles that are kept and those that are too rare are all there are."""
        report = trace.report("layers")
        for row in report["rows"]:
            self.assertEqual(row["kept_trips"] + row["rare_trips"], row["cycles"], row)
            self.assertEqual(row["kept_instructions"] + row["rare_instructions"], report["totals"]["kept"], row)
        strata = [row for row in trace.report("strata", "--min-share", "0")["rows"] if row["step"] == 0]
        self.assertEqual(sum(row["trips"] for row in strata), report["rows"][1]["kept_trips"])
        paths = {row["path"]: row["weight"] for row in trace.report("paths", "--min-share", "0")["rows"]}
        holds = collections.Counter()
        for row in trace.report("strata", "--min-share", "0")["rows"]:
            holds[row["number"]] += paths[row["symbol_number"]] * row["symbol_trips"]
        self.assertEqual({row["number"]: row["weight"] for row in strata}, dict(holds))

    def here(self, trace, unit, number):
        """The first instruction of the block that ran at the point, and the block."""
        rows = trace.report("at", f"--{unit}", str(number))["rows"]
        (row,) = [row for row in rows if row["here"] and row["kind"] == "block"]
        return row["instruction"], row["block"]

    def places_check(self, trace, blocks):
        """The same places by the numbers of instructions, paths and strata, counted in the blocks."""
        sizes = dict(trace.rows("select id, instructions from block"))
        begins = [0]
        for block in blocks:
            begins.append(begins[-1] + sizes[block])
        for number in (0, 1, begins[-1] // 3, begins[-1] // 2, begins[-1] - 1):
            index = bisect.bisect_right(begins, number) - 1
            self.assertEqual(self.here(trace, "instruction", number), (begins[index], blocks[index]))
        paths = list(layers_reference.cycles(blocks, MAX_CYCLE))
        starts = self.starts(paths, len)
        for number in (0, 1, len(paths) // 2, len(paths) - 1):
            self.assertEqual(self.here(trace, "path", number), (begins[starts[number]], blocks[starts[number]]))
        repeats = list(layers_reference.repeats(iter(paths), {}))
        strata = list(layers_reference.cycles(repeats, MAX_CYCLE))
        firsts = self.starts(strata, lambda stratum: sum(trips for _, trips in stratum))
        for number in (0, 1, len(strata) // 2, len(strata) - 1):
            at = starts[firsts[number]]
            self.assertEqual(self.here(trace, "stratum", number), (begins[at], blocks[at]))
        run = subprocess.run([lib.ASSAY, "report", "at", "--path", str(len(paths)), "-i", trace.path], capture_output=True,
                             text=True, check=False)
        self.assertEqual(run.returncode, 2)
        self.assertIn(f"had {len(paths)}", run.stderr)

    @staticmethod
    def starts(items, size):
        at, starts = 0, []
        for item in items:
            starts.append(at)
            at += size(item)
        return starts

    def test_python3(self):
        self.program_check(lib.PYTHON, "-I", "-S", "-c", "print(sum(i % 7 for i in range(9999)))")

    def test_sqlite3(self):
        self.program_check("sqlite3", ":memory:", "with recursive n(i) as (select 1 union all select i + 1 from n limit 3000) "
                           "select sum(i % 17), count(distinct i % 91) from n")

    def test_zstd_threads(self):
        source = lib.scratch("words")
        with open(source, "w", encoding="ascii") as stream:
            stream.write(" ".join(str(i * i % 9973) for i in range(40000)))
        trace, raw = self.program_check("zstd", "-T2", "-c", source)
        self.assertGreaterEqual(len([runs for runs in raw.threads.values() if len(runs)]), 3)
        # One of the threads alone.
        (pid, tid), blocks = max(exported(trace.path).items(), key=lambda thread: len(thread[1]))
        numbers = {}
        trips = sum(n for _, n in layers_reference.repeats(layers_reference.cycles(blocks, MAX_CYCLE), numbers))
        rows = [row for row in trace.report("paths", "--min-share", "0", "--tid", str(tid))["rows"] if row["step"] == 0]
        self.assertEqual(sum(row["trips"] for row in rows), trips)
        self.assertEqual(len(rows), len(numbers))
        self.assertEqual(list(exported(trace.path, "--tid", str(tid))), [(pid, tid)])

    def test_mix(self):
        """Kinds of instructions, by objdump: of each block, as often as it was executed."""
        program = lib.build("functions.c", "-static")
        trace = Trace("paths", program, code=3)
        code = instructions_of(program)
        addresses = sorted(code)
        kinds = {"calls": r"(notrack |addr32 )?call", "returns": r"(bnd |repz )?ret", "branches": r"(bnd )?j(?!mp)",
                 "jumps": r"(notrack |bnd )*jmp", "system": r"syscall"}
        expected, unknown = collections.Counter(), 0
        for address, instructions, known, count in trace.rows(
                "select address, instructions, exists (select 1 from frame join symbol on symbol.id = frame.symbol "
                "where frame.location = location.id and symbol.size > 0), "
                "sum(count) from execution join block on block.id = execution.block "
                "join location on location.id = block.location join module on module.id = location.module "
                "where module.name = 'functions' group by block.id"):
            index = bisect.bisect_left(addresses, address)
            expected["instructions"] += instructions * count
            if not known:  # what jumps to functions that are chosen at the start has no name
                unknown += instructions * count
                continue
            for at in addresses[index:index + instructions]:
                for kind, pattern in kinds.items():
                    expected[kind] += count * bool(re.match(pattern, code[at]))
        (row,) = trace.report("mix", "--module", "functions")["rows"]
        self.assertEqual(row["unknown"], unknown)
        self.assertLess(unknown, 100)
        self.assertEqual({kind: row[kind] for kind in expected}, dict(expected))
        self.assertGreater(expected["calls"], 1000)
        # By heat, the paths together have what the program has.
        paths = [row for row in trace.report("paths", "--min-share", "0", "--heat", "calls")["rows"] if row["step"] == 0]
        everything = sum(row["calls"] for row in trace.report("mix")["rows"])
        self.assertEqual(sum(row["heat"] for row in paths), everything)
        self.assertEqual([row["heat"] for row in paths], sorted((row["heat"] for row in paths), reverse=True))

    def test_phases(self):
        """One process that deflates and then does what bzip2 does: a phase begins where code of libbz2 begins to run."""
        script = "import zlib, bz2\nd = b''.join(b'%d ' % (i * i % 99991) for i in range(9000))\nzlib.compress(d)\nbz2.compress(d)"
        trace = Trace("paths", lib.PYTHON, "-I", "-S", "-c", script)
        modules = dict(trace.rows("select block.id, module.name like 'libbz2%' from block "
                                  "join location on location.id = block.location join module on module.id = location.module"))
        sizes = dict(trace.rows("select id, instructions from block"))
        (blocks,) = exported(trace.path).values()
        at, seen, compress = 0, 0, 0
        for block in blocks:
            seen += modules[block]
            compress = compress or (at if seen == 100 else 0)  # a few run when it is loaded
            at += sizes[block]
        rows = trace.report("phases")["rows"]
        phases = {row["phase"]: row for row in reversed(rows)}
        self.assertEqual([row["begin"] for _, row in sorted(phases.items())][1:],
                         [row["end"] for _, row in sorted(phases.items())][:-1])
        self.assertEqual(phases[len(phases) - 1]["end"], at)
        nearest = min(phases.values(), key=lambda row: abs(row["begin"] - compress))
        self.assertLess(abs(nearest["begin"] - compress), at / 100)
        self.assertIn(",", nearest["detectors"])  # two at least see it
        self.assertIn("libbz2", nearest["module"])

    def test_options(self):
        """Without a tool, paths are recorded; cycles are as long and as many as asked for."""
        path, raw = lib.scratch("options.db"), lib.scratch("options.raw")
        subprocess.run([lib.ASSAY, "trace", "-q", "--layers", "1", "--max-cycle", "4", "--memory", "8", "--raw", raw, "-o", path, "--",
                        "true"], check=True, timeout=SECONDS)
        trace = Recorded(path)
        self.assertEqual((trace.meta("tool"), trace.meta("max_cycle")), ("paths", "4"))
        self.assertEqual(max(row["blocks"] for row in trace.report("paths", "--min-share", "0")["rows"]), 4)
        self.assertEqual(max(row["length"] for row in trace.report("strata", "--min-share", "0")["rows"]), 4)
        (blocks,) = exported(path).values()
        self.levels_check(trace, blocks, 3, 4)
        for wrong in (["--layers", "0"], ["--max-cycle", "1"], ["--memory", "no"], ["--tool", "count", "--layers", "2"]):
            run = subprocess.run([lib.ASSAY, "trace", *wrong, "-o", path, "--", "true"], capture_output=True, check=False)
            self.assertEqual(run.returncode, 2, wrong)

    def test_full_disk(self):
        """The program does not notice; what was committed before can be read, and is told to be a part."""
        lib.need_root(self)
        folder, kept = lib.scratch("full"), lib.scratch("full.db")
        os.makedirs(folder, exist_ok=True)
        with open(lib.PYTHON, "rb") as stream:
            data = stream.read(2_000_000)
        script = (f"mount -t tmpfs -o size=1m none {folder} && {lib.ASSAY} trace -q -o {folder}/x.db -- xz -T1 -c; code=$?; "
                  f"real=$(readlink -f {folder}/x.db); "  # the folder is sticky: its log lies where the name leads to
                  f"for s in '' -wal; do [ ! -e $real$s ] || cp $real$s {kept}$s || exit 9; done; exit $code")
        run = subprocess.run(["unshare", "-m", "sh", "-c", script], input=data, capture_output=True, timeout=SECONDS)
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stderr.decode(), r"^assay: \S*x\.db: cannot \w+: no space left on the disk; make room.*\n$")
        self.assertEqual(run.stdout, subprocess.run(["xz", "-T1", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout)
        report = subprocess.run([lib.ASSAY, "report", "modules", "-i", kept], capture_output=True, text=True, timeout=SECONDS)
        self.assertIn("did not end as it should", report.stderr)
        self.assertNotIn("corrupt", report.stderr)

    def test_file_size_limit(self):
        """It holds for shared memory and for the profile: for one it is lifted, for the other an error like any other."""
        with open(lib.PYTHON, "rb") as stream:
            data = stream.read(2_000_000)
        native = subprocess.run(["xz", "-T1", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout
        for size, wanted in ((1 << 40, 0), (1 << 20, 1)):
            run = subprocess.run([lib.ASSAY, "trace", "-q", "-o", lib.scratch("limit.db"), "--", "xz", "-T1", "-c"], input=data,
                                 capture_output=True, timeout=SECONDS,
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY)))
            self.assertEqual((run.returncode, run.stdout == native), (wanted, True), run.stderr)
            self.assertEqual("File too large" in run.stderr.decode(), bool(wanted))
        run = subprocess.run([lib.ASSAY, "trace", "-q", "-o", lib.scratch("limit.db"), "--", "sh", "-c", "ulimit -f; kill -XFSZ $$"],
                             capture_output=True, timeout=SECONDS,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, resource.RLIM_INFINITY)))
        self.assertEqual((run.stdout.split(), run.returncode), ([b"2097152"], 128 + signal.SIGXFSZ))

    @staticmethod
    def rows_ticks(pid):
        """CPU time of the threads that work on rows, up to now."""
        ticks = 0
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/stat", encoding="utf-8") as stream:
                name, fields = stream.read().split("(", 1)[1].rsplit(")", 1)
            ticks += sum(map(int, fields.split()[11:13])) if name == "assay-rows" else 0
        return ticks

    def test_few_cpus(self):
        """The program's thread leaves its CPU to that of rows when it has to wait."""
        source = lib.scratch("python")
        with open(lib.PYTHON, "rb") as stream, open(source, "wb") as copy:
            copy.write(stream.read(5_000_000))
        native = subprocess.run(["xz", "-T1", "-c", source], stdout=subprocess.PIPE, check=True).stdout
        for count in (1, 2):
            path, cpus, ticks = lib.scratch("few.db"), sorted(os.sched_getaffinity(0))[:count], 0
            with subprocess.Popen([lib.ASSAY, "trace", "-q", "-o", path, "--", "xz", "-T1", "-c", source], stdout=subprocess.PIPE,
                                  preexec_fn=lambda cpus=cpus: os.sched_setaffinity(0, cpus)) as process:
                os.set_blocking(process.stdout.fileno(), False)
                output = b""
                while process.poll() is None:
                    output += process.stdout.read() or b""
                    with contextlib.suppress(OSError):
                        ticks = max(ticks, self.rows_ticks(process.pid))
                    time.sleep(0.02)
                output += process.stdout.read() or b""
            self.assertEqual((process.returncode, output == native), (0, True))
            if len(cpus) == 2:
                self.assertGreaterEqual(ticks, 5)
            (thread,) = Recorded(path).report("threads")["rows"]
            self.assertGreater(thread["segments"], 10_000_000)

    def test_text(self):
        """Text has the same blocks as numbers."""
        trace, _ = self.recorded("true")
        text = subprocess.run([lib.ASSAY, "export", "blocks", "-i", trace.path], capture_output=True, text=True,
                              check=True).stdout.splitlines()
        (blocks,) = exported(trace.path).values()
        known = {row[0]: row[1:] for row in trace.rows(
            "select block.id, address, instructions, name from block join location on location.id = block.location "
            "join module on module.id = location.module")}
        self.assertRegex(text[0], r"^# thread \d+ process \d+ \S+$")
        self.assertEqual(len(text), len(blocks) + 1)
        for line, block in zip(text[1:], blocks):
            address, instructions, module, _ = line.split(" ", 3)
            self.assertEqual((int(address, 16), int(instructions), module), known[block])

    def test_a_reader_that_ends_is_no_failure(self):
        """S10: export blocks | head says nothing."""
        trace, _ = self.recorded("true")
        run = subprocess.run(["bash", "-c", f"{lib.ASSAY} export blocks -i {trace.path} | head -c 1; echo ${{PIPESTATUS[0]}}"],
                             capture_output=True, text=True, check=True)
        self.assertEqual((run.stdout, run.stderr), ("#0\n", ""))

    def test_forked_processes(self):
        """A child begins with the runs that its parent knew."""
        trace, raw = self.recorded("sh", "-c", "(echo a; echo b) | (read x; echo $x) >/dev/null; true")
        self.blocks_check(trace, raw)
        self.assertGreater(len(raw.tables), 2)


if __name__ == "__main__":
    lib.main()
