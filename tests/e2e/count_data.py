#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: I1, I2, I3, S2.
"""Marks that are timed and marks on data, against a single-stepping observer and programs that count what they do."""

import ctypes
import json
import os
import re
import subprocess
import time
import unittest

import lib
import lib_steps

SECONDS = 120


class Count:
    """A finished assay count."""

    def __init__(self, marks, *command, options=()):
        self.path = lib.scratch(f"count-data-{time.monotonic_ns()}.db")
        chosen = [word for mark in marks for word in ("-m", mark)]
        run = subprocess.run([lib.ASSAY, "count", *chosen, *options, "-o", self.path, "--", *command], capture_output=True, text=True,
                             timeout=SECONDS)
        assert run.returncode == 0, (run.returncode, run.stderr)
        self.said = run.stderr
        self.own = {name: int(value) for name, value in (line.rsplit(" ", 1) for line in run.stdout.splitlines())}

    def read(self, view):
        run = subprocess.run([lib.ASSAY, "report", view, "-i", self.path, "--json"], capture_output=True, check=True)
        return json.loads(run.stdout)

    def report(self, view):
        return self.read(view)["rows"]

    def totals(self, view):
        return self.read(view)["totals"]

    def rows(self):
        return {row["mark"].split(",")[0]: row for row in self.report("marks")}


def address_of_symbol(program, name):
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    return int(re.search(rf"(?m)^(\w+) B {name}$", symbols)[1], 16)


# --- The observer ---------------------------------------------------------------------------------------------------

NAMES = ["r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi", "orig",
         "rip", "cs", "flags", "rsp"]
WRITES = re.compile(r"^(mov\w*|push|pop|stos|set\w+)$")
CHANGES = re.compile(r"^(add|adc|sub|xchg|cmpxchg|inc|dec|not|neg|xadd)[bwlq]?$")
READS = re.compile(r"^(cmp|test)[bwlq]?$")
SUFFIXES = {"b": 1, "w": 2, "l": 4, "q": 8}
VECTORS = {"movdqu": 16, "movups": 16, "movaps": 16, "paddq": 16, "movss": 4, "movzbl": 1}


def address_of(operand, registers):
    match = re.fullmatch(r"(-?0x[0-9a-f]+)?\((%\w+)?(?:,(%\w+)(?:,(\d))?)?\)", operand)
    if not match:
        return None
    value = int(match[1], 16) if match[1] else 0
    value += registers[match[2][1:]] if match[2] else 0
    return value + (registers[match[3][1:]] * int(match[4] or 1) if match[3] else 0)


def register_size(operand):
    name = operand[1:]
    if name in ("al", "bl", "cl", "dl"):
        return 1
    return {"e": 4, "r": 8, "x": 16}.get(name[0])


def accesses_of(text, registers):
    """(address, size, reads, writes) of an instruction in the syntax of AT&T."""
    text = re.sub(r"^(lock|rep|repz|repnz)\s+", "", text.split("#")[0].split("<")[0].strip())
    name, _, rest = text.partition(" ")
    operands = re.findall(r"(?:[^,(]|\([^)]*\))+", rest.strip())
    if name in ("lea", "syscall") or not operands:
        return
    if re.match(r"(movs|stos|lods|scas|cmps)[bwlq]?$", name) and "%ds:" in rest + "%es:" in rest or "%es:" in rest:
        size = SUFFIXES.get(name[-1]) or next(register_size(item) for item in operands if item[0] == "%" and ":" not in item)
        if "%ds:(%rsi)" in rest:
            yield registers["rsi"], size, True, False
        yield registers["rdi"], size, not re.match("movs|stos", name), bool(re.match("movs|stos", name))
        return
    if name.startswith("lods"):
        yield registers["rsi"], SUFFIXES.get(name[-1], 1), True, False
        return
    size = VECTORS.get(name) or next((register_size(item) for item in operands if item[0] == "%"), None)
    size = SUFFIXES.get(name[-1], size) if size is None else size
    if name == "movq":
        size = 8
    if name.startswith("push"):
        yield registers["rsp"] - 8, 8, False, True
    if name.startswith("pop"):
        yield registers["rsp"], 8, True, False
    for number, operand in enumerate(operands):
        address = address_of(operand, registers)
        if address is None:
            continue
        last = number == len(operands) - 1
        if name.startswith("push"):
            yield address, 8, True, False
        elif name.startswith("pop"):
            yield address, 8, False, True
        elif CHANGES.match(name) and (last or name.startswith("xchg")):
            yield address, size, True, True
        elif last and WRITES.match(name):
            yield address, size, False, True
        else:
            assert not last or READS.match(name), text
            yield address, size, True, False


def observe(program, start, end):
    """Reads and writes of the memory, by the address of the instruction."""
    code = lib_steps.instructions_of(program)
    values = (ctypes.c_ulonglong * 27)()
    found = {}
    pid = os.fork()
    if pid == 0:
        lib_steps.ptrace(lib_steps.TRACEME, 0)
        os.execv(program, [program])
    while True:
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            return found
        lib_steps.ptrace(lib_steps.GETREGS, pid, values)
        registers = dict(zip(NAMES, values))
        text = code[registers["rip"]]
        if not (text.startswith("rep") and registers["rcx"] == 0):
            for address, size, reads, writes in accesses_of(text, registers):
                if address < end and address + size > start:
                    counts = found.setdefault(registers["rip"], [0, 0])
                    counts[0] += reads
                    counts[1] += writes
        lib_steps.ptrace(lib_steps.SINGLESTEP, pid)


class Data(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.touches = lib.build("touches.c", "-nostdlib", "-static", "-no-pie")
        cls.timed = lib.build("timed.c", "-g", "-O2", "-pthread", "-I", os.path.join(lib.ROOT, "include"))

    def test_observed(self):
        """Every kind of access, by each instruction, as a single-stepping observer sees it."""
        symbols = subprocess.run(["nm", self.touches], capture_output=True, text=True, check=True).stdout
        start = int(re.search(r"([0-9a-f]+) \w marked\n", symbols)[1], 16)
        expected = observe(self.touches, start, start + 192)
        self.assertGreater(len(expected), 40)
        for mark in ("data:marked", f"data:{start:#x}+192"):
            rows = Count([mark], self.touches).report("accesses")
            found = {int(row["address"], 16): [row["reads"], row["writes"]] for row in rows}
            self.assertEqual(found, expected, mark)

    def test_parts(self):
        """Marks that overlap each count what is theirs; all together are seen as if each were alone."""
        marks = {f"data:0x{at:x}+{size}": (at, size) for at, size in self.places()}
        rows = Count(marks, self.touches).rows()
        for mark, (at, size) in marks.items():
            expected = observe(self.touches, at, at + size).values()
            self.assertEqual([rows[mark]["reads"], rows[mark]["writes"]],
                             [sum(counts[0] for counts in expected), sum(counts[1] for counts in expected)], mark)

    def places(self):
        symbols = subprocess.run(["nm", self.touches], capture_output=True, text=True, check=True).stdout
        start = int(re.search(r"([0-9a-f]+) \w marked\n", symbols)[1], 16)
        return [(start, 8), (start + 4, 16), (start - 64, 100), (start + 64, 1), (start - 4096, 1 << 21)]

    def check(self, how, more=()):
        """What the program prints: of data the writes, of routines visits, all of which have a time."""
        expected = dict(
            line.rsplit(" ", 1) for line in subprocess.run([self.timed, how], capture_output=True, text=True,
                                                           check=True).stdout.splitlines())
        marks = [name if name.startswith("data:") else f"{name},time" for name in expected if name != "abandoned"]
        count = Count([*marks, *more], self.timed, how)
        rows = count.rows()
        for name, value in count.own.items():
            if name == "abandoned":
                self.assertEqual(sum(row["abandoned"] or 0 for row in rows.values()), value)
            elif name.startswith("data:"):
                self.assertEqual(rows[name]["writes"], value, name)
                self.assertEqual(rows[name]["count"], rows[name]["reads"] + value)
            else:
                self.assertEqual(rows[name]["visits"], value, name)
                self.assertEqual(rows[name]["timed"] + rows[name]["abandoned"], value, name)
                self.assertEqual(rows[name]["untimed"], rows[name]["abandoned"], name)
        return count

    def test_open(self):
        """Visits that never end are untimed, also where no visit of the mark ever did."""
        count = Count(["main,time"], self.timed, "exits")
        row, = count.rows().values()
        self.assertEqual((row["visits"], row["timed"], row["untimed"]), (1, 0, 1))

    def test_threads(self):
        count = self.check("threads")
        self.assertEqual(count.rows()["data:shared_counter"]["reads"], count.own["data:shared_counter"] + 1)
        self.assertEqual(sum(row["writes"] for row in count.report("accesses")), count.own["data:shared_counter"])

    def test_fork(self):
        """Parent and child; and what a program without symbols has declared itself."""
        self.check("fork")
        stripped = lib.scratch("timed-stripped")
        subprocess.run(["strip", "-o", stripped, self.timed], check=True)
        self.assertEqual(Count(["data:declared_word"], stripped, "fork").rows()["data:declared_word"]["writes"], 1)

    def test_signals(self):
        """Accesses are interrupted at any instruction and in the middle of string instructions: each counts once."""
        count = self.check("signals")
        self.assertGreaterEqual(count.own["data:ticked"], 60)

    def test_shapes(self):
        """Visits that end with a return, a jump, a jump by pointer, in recursion, in loops and by longjmp."""
        self.check("shapes")

    def test_sleeps(self):
        """Times are at least what was slept, and thresholds divide them."""
        [row] = Count(["slept,slower=15ms"], self.timed, "sleeps").report("marks")
        self.assertEqual([row["visits"], row["timed"]], [10, 10])
        self.assertGreaterEqual(row["time_ns"], 5 * 20_000_000)
        self.assertGreaterEqual(row["slower"], 5)
        self.assertEqual(row["count"], row["slower"])
        self.assertGreaterEqual(row["max_ns"], 20_000_000)
        self.assertGreaterEqual(row["max_ns"] * 1.04, row["p99_ns"])
        self.assertLessEqual(row["min_ns"], row["p50_ns"])
        self.assertGreaterEqual(row["p90_ns"], 19_000_000)  # a bucket begins up to 3 % below what it holds
        self.assertLess(row["overhead_ns"], 10_000)

    def test_instruction(self):
        """One instruction, by a pair of time stamps around it: the first of a routine, and a call."""
        code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "--disassemble=tail", self.timed], capture_output=True,
                              text=True, check=True).stdout
        first = re.search(r"(?m)^\s+([0-9a-f]+):\t", code)[1]
        marks = [f"timed!0x{first},time", "recursive+0,time"]
        rows = Count(marks, self.timed, "shapes").rows()
        self.assertEqual([rows[f"timed!0x{first}"]["visits"], rows[f"timed!0x{first}"]["timed"]], [300, 300])
        self.assertEqual([rows["recursive+0"]["visits"], rows["recursive+0"]["timed"]], [1800, 1800])

    def test_lines(self):
        """Source lines from a function's first on, of which it leaves by a return among them and behind them."""
        with open(os.path.join(lib.PROGRAMS, "timed.c"), encoding="ascii") as stream:
            text = stream.read().split("\n")
        first = text.index("ROUTINE int thrown(int x)") + 1
        mark = f"timed.c:{first + 2}-{first + 4}"
        row = Count([f"{mark},time"], self.timed, "shapes").rows()[mark]
        self.assertEqual([row["visits"], row["timed"], row["abandoned"]], [301, 151, 150])

    def test_heap(self):
        """What a line allocates, until it is given back; other blocks at the same places are not."""
        with open(os.path.join(lib.PROGRAMS, "timed.c"), encoding="ascii") as stream:
            line = next(number for number, text in enumerate(stream, 1) if "/* HERE */" in text)
        mark = f"data:heap:malloc@timed.c:{line}"
        count = Count([mark], self.timed, "heap")
        ours = [row for row in count.report("accesses") if row["symbol"] in ("heap", "main")]
        self.assertEqual(sum(row["writes"] for row in ours), count.own["heap"])
        self.assertEqual(sum(row["reads"] for row in ours), count.own["heap"])

    REFUSED = (
        ("data:", "the name of an object is missing"),
        ("data:0x1000", "a + and the number of bytes must follow the address"),
        ("data:0x1000+0", "a number of bytes must follow the +"),
        ("libz.so!data:0x1000+8", "an address in memory has no module"),
        ("data:heap:malloc", "a function that allocates and a line are missing"),
        ("data:heap:malloc@x.c:y", "a line must follow the colon"),
        ("main,slower=", "a threshold is a number of cycles"),
        ("main,slower=5h", "units are ns, us, ms and s"),
        ("data:x,time", "data cannot be timed"),
        ("insn:lock*,time", "instructions of a kind cannot be timed"),
    )

    def many(self, size, *options):
        """(finished Count, what it said) of so many marks of a byte, each written and read once."""
        program = lib.build("marks_many.c", "-O0", "-no-pie", "-I", os.path.join(lib.ROOT, "include"))
        marks = lib.scratch("many.marks")
        start = address_of_symbol(program, "table")
        with open(marks, "w", encoding="ascii") as stream:
            stream.writelines(f"data:{start + i:#x}+1\n" for i in range(size))
        count = Count([], program, f"data:{start:#x}+1", options=["-q", "-M", marks, *options])
        return count, count.said

    def test_many(self):
        """Ten thousand objects, each accessed by two instructions: none is missing."""
        size = 10000
        count, said = self.many(size)
        self.assertEqual(said, "")
        self.assertEqual([(row["reads"], row["writes"]) for row in count.report("marks")], [(1, 1)] * size)
        accesses = [(row["reads"], row["writes"]) for row in count.report("accesses") if row["symbol"] == "main"]
        self.assertEqual(sorted(accesses), [(0, 1)] * size + [(1, 0)] * size)
        self.assertEqual(count.own, {"counted": 1, "reads": 1, "writes": 1})
        self.assertEqual(count.totals("marks"), {"seen": 2 * size, "kept": 2 * size, "selected": 2 * size, "lost": {}})

    def test_full(self):
        """
        More than may be told apart. Half of the rows are of an instruction, each of another object. The other
        half are of the objects behind these, by whatever instruction. Everything else is lost, and nothing more.
        """
        size, room = 17000, 16384
        lost = 2 * (size - room) + room // 2
        count, said = self.many(size, "--max-accesses", str(room))
        self.assertIn(f"lost: {lost} accesses to marked data", said)
        self.assertEqual([sum(row[kind] for row in count.report("marks")) for kind in ("reads", "writes")],
                         [room // 2, room])
        accesses = count.report("accesses")
        self.assertEqual(len(accesses), room)
        self.assertEqual([(row["reads"], row["writes"]) for row in accesses if row["symbol"] == "main"], [(0, 1)] * (room // 2))
        self.check_lost(count, 2 * size - lost, {"uncounted_access": lost})
        self.assertEqual(count.own, {"counted": 0, "reads": 0, "writes": 0})

    def check_lost(self, count, kept, lost):
        seen = kept + sum(lost.values())
        for view in ("marks", "accesses", "losses"):
            totals = count.totals(view)
            self.assertEqual([totals["seen"], totals["kept"], totals["lost"]], [seen, kept, lost], view)
        rows = {row["reason"] or row["kind"]: row["count"] for row in count.report("losses")}
        self.assertEqual(rows, {"seen": seen, "kept": kept, **lost})

    def test_large(self):
        """Large objects find room for 64; what was given back makes room again."""
        program, large, room = lib.build("marks_large.c", "-g", "-O1", "-no-pie"), 100, 64
        with open(os.path.join(lib.PROGRAMS, "marks_large.c"), encoding="ascii") as stream:
            line = next(number for number, text in enumerate(stream, 1) if "/* HERE */" in text)
        heap = f"data:heap:malloc@marks_large.c:{line}"
        size, start = 2 << 20, address_of_symbol(program, "objects")
        objects = [f"data:{start + i * size:#x}+{size}" for i in range(large)]
        for how, marks, kept in (("free", [heap], large), ("keep", [heap], room), ("objects", objects, room)):
            with self.subTest(how=how):
                count = Count(marks, program, how)
                self.assertEqual(sum(row["writes"] for row in count.report("accesses") if row["symbol"] != "malloc"), kept)
                self.assertEqual(count.totals("marks")["lost"], {"unmarked_object": large - kept} if kept < large else {})

    def test_refused(self):
        for mark, sentence in self.REFUSED:
            run = subprocess.run([lib.ASSAY, "count", "-m", mark, "--", "true"], capture_output=True, text=True)
            self.assertEqual(run.returncode, 2, mark)
            self.assertIn(sentence, run.stderr)
        run = subprocess.run([lib.ASSAY, "count", "-m", "data:heap:malloc@src/x.c:7", "-m", "data:heap:grab@x.c:7", "--", "true"],
                             capture_output=True, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn("of one line, the allocations of one function", run.stderr)

    def test_not_found(self):
        """A variable of threads has no address that could be marked; a wrong option is none."""
        count = Count(["data:of_threads", "shapes,tiem"], self.timed, "exits")
        self.assertRegex(count.said, "'data:of_threads' was not found.*thread_local")
        self.assertRegex(count.said, "'shapes,tiem' was not found.*no option of marks")


if __name__ == "__main__":
    unittest.main()
