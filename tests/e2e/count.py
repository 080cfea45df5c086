#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: I1, I2, I3, I4, I8.
"""What assay count says, against those who know: callgrind, gdb, and programs that count what they do."""

import collections
import json
import os
import re
import subprocess
import time
import unittest

import lib

SECONDS = 120


class Count:
    """A finished assay count, and what report marks says of it."""

    def __init__(self, marks, *command, options=(), code=0):
        self.path = lib.scratch(f"count-{time.monotonic_ns()}.db")
        chosen = [word for mark in marks for word in ("-m", mark)]
        run = subprocess.run([lib.ASSAY, "count", *chosen, "-o", self.path, *options, "--", *command],
                             capture_output=True, text=True, timeout=SECONDS)
        self.out, self.err = run.stdout, run.stderr
        assert run.returncode == code, (run.returncode, self.err)

    def report(self, *options):
        run = subprocess.run([lib.ASSAY, "report", "marks", "-i", self.path, "--json", *options],
                             capture_output=True, check=True)
        return json.loads(run.stdout)

    def rows(self):
        return {row["mark"]: row for row in self.report()["rows"]}

    def visits(self):
        return {mark: row["visits"] for mark, row in self.rows().items()}


def callgrind(program, *options):
    """Of each function of the program: how often it was called, and the instructions in it."""
    output = lib.scratch("callgrind-count.out")
    subprocess.run(["valgrind", "-q", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no",
                    f"--callgrind-out-file={output}", *options, program],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=SECONDS)
    calls, instructions, ours, called = collections.Counter(), collections.Counter(), None, None
    wanted = os.path.basename(program)
    skip = is_ours = callee_is_ours = False
    with open(output, encoding="utf-8", errors="replace") as stream:
        for line in stream:
            key, _, value = line.rstrip("\n").partition("=")
            if key == "ob":
                is_ours = callee_is_ours = os.path.basename(value) == wanted
            elif key == "fn":
                ours, callee_is_ours = re.sub(r"'\d+$", "", value), is_ours
            elif key == "cob":
                callee_is_ours = os.path.basename(value) == wanted
            elif key == "cfn":
                called = re.sub(r"'\d+$", "", value)
            elif key == "calls":
                if callee_is_ours:
                    calls[called] += int(value.split()[0])
                callee_is_ours, skip = is_ours, True
            elif re.match(r"^[+-]?\d+ \d+$", line):
                if not skip and is_ours:
                    instructions[ours] += int(line.split()[1])
                skip = False
    return calls, instructions


class Counts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("marks.c", "-ldl")
        cls.plugin = lib.build("marks.c", "-DPLUGIN", "-shared", "-fPIC", name="plugin.so")

    def check(self, *arguments, marks=(), say=lambda count: None):
        """The program prints what it did how often: each of it is marked, and counted as often."""
        expected = dict(line.rsplit(" ", 1) for line in
                        subprocess.run([self.program, *arguments], capture_output=True, text=True,
                                       check=True).stdout.splitlines())
        names = {name: name for name in expected}
        names.update(marks)
        count = Count(names.values(), self.program, *arguments)
        own = dict(line.rsplit(" ", 1) for line in count.out.splitlines())
        self.assertEqual(own.keys(), expected.keys())
        self.assertEqual({name: count.visits()[mark] for name, mark in names.items()},
                         {name: int(value) for name, value in own.items()})
        say(count)
        return count

    def test_threads(self):
        count = self.check("threads")
        [row] = count.report()["rows"]
        self.assertEqual(row["threads"], 8)
        self.assertEqual(row["instructions"] % row["visits"], 0)
        # One thread by itself: every thread has a number of rounds of its own.
        tids = [tid for tid, in lib.Profile(count.path).rows("select distinct tid from thread")]
        found = sorted(row["visits"] for tid in tids for row in count.report("--tid", str(tid))["rows"] if row["visits"])
        self.assertEqual(found, [1000 * i for i in range(1, 9)])

    def test_signals(self):
        """Signals come in the middle of marked blocks: what was executed of them counts, once."""
        rows = self.check("signals").rows()
        each = rows["interrupted"]["instructions"] / rows["interrupted"]["visits"]
        self.assertEqual(each, int(each))
        self.assertGreater(each, 40)
        self.assertGreaterEqual(rows["on_tick"]["visits"], 50)

    def test_fork(self):
        self.check("fork")

    def test_exec(self):
        self.check("exec")

    def test_plugin(self):
        """A library that comes and goes."""
        self.check("plugin", self.plugin, marks={"plugged": "plugin.so!plugged"})

    def test_jit(self):
        """Code that is in no file, and that changes."""
        self.check("jit")

    def test_longjmp(self):
        """Out of a routine and out of a range of lines; gdb counts arrivals at the first line, too."""
        with open(os.path.join(lib.PROGRAMS, "marks.c"), encoding="ascii") as stream:
            lines = [number for number, line in enumerate(stream, 1) if "/* RANGE" in line]
        lines_mark = f"marks.c:{lines[0]}-{lines[1]}"
        self.check("jumps", marks={"RANGE": lines_mark})
        gdb = subprocess.run(["gdb", "-q", "-batch", "-nx", "-ex", f"break marks.c:{lines[0]}", "-ex", "ignore 1 1000000",
                              "-ex", "run jumps", "-ex", "info breakpoints", self.program], capture_output=True,
                             text=True, timeout=SECONDS)
        if "already hit" in gdb.stdout:
            self.assertEqual(int(re.search(r"already hit (\d+) times", gdb.stdout)[1]), 30)

    def test_moved_parts(self):
        """Code that the compiler moved away from a routine is the routine's; who jumps there does not visit it again."""
        program = lib.build("marks_parts.cc", "-O2")
        names = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
        [part] = re.findall(r"\S*risky\S*\.cold\S*", names)
        count = Count(["risky", "risky(int),time", "risk*", part], program)
        own = int(count.out.split()[1])
        rows = count.rows()
        executed = {rows[mark]["instructions"] for mark in ("risky", "risky(int),time")}
        self.assertEqual([rows[mark]["visits"] for mark in ("risky", "risky(int),time", "risky(int)")], [own] * 3, rows)
        self.assertEqual(len(executed), 1, rows)
        self.assertGreater(rows[part]["visits"], 0)
        oracle = callgrind(program, "--skip-plt=no")[1]
        self.assertEqual(executed.pop(), sum(own for name, own in oracle.items() if name.startswith("risky(int)")))

    def test_callgrind(self):
        """Calls and instructions of all functions of a program, by one pattern.

        A repeated instruction is one, for callgrind each repetition; and it has no name for the code between a
        program and its libraries, which this program does without.
        """
        program = lib.build("functions.c", "-fno-plt", "-Wl,-z,now")
        calls, instructions = callgrind(program)
        instructions["fill"] -= 50 * 5000
        rows = Count(["functions!*"], program, code=3).rows()
        names = [name for name in instructions if name in rows and not name.startswith("_")]
        self.assertIn("main", names)
        self.assertGreater(len(names), 3)
        self.assertEqual({name: rows[name]["instructions"] for name in names},
                         {name: instructions[name] for name in names})
        self.assertEqual({name: rows[name]["visits"] for name in names},
                         {name: calls[name] for name in names})

    def test_offset(self):
        """An instruction within a routine: the return of one that has one."""
        text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", self.program], capture_output=True, text=True,
                              check=True).stdout
        body = re.search(r"<jumps_out>:\n((?:.+\n)+)", text)[1]
        addresses = [int(address, 16) for address in re.findall(r"(?m)^\s*([0-9a-f]+):", body)]
        returns = [int(address, 16) for address in re.findall(r"(?m)^\s*([0-9a-f]+):\s+ret", body)]
        marks = [f"jumps_out+0x{address - addresses[0]:x}" for address in returns]
        name = os.path.basename(self.program)
        marks += [f"{name}!0x{addresses[0]:x}", f"{name}!0x{addresses[0]:x}-0x{addresses[-1] + 1:x}", "jumps_out"]
        rows = Count(marks, self.program, "jumps").rows()
        self.assertEqual(sum(rows[mark]["visits"] for mark in marks[:len(returns)]), 10)
        self.assertEqual(rows[f"{name}!0x{addresses[0]:x}"]["visits"], 30)
        self.assertEqual(rows[marks[-2]]["visits"], 30)
        self.assertEqual(rows[marks[-2]]["instructions"], rows["jumps_out"]["instructions"])


class Attached(unittest.TestCase):
    def test_attach(self):
        """A process that runs is taken and given back, again and again, and goes on as before."""
        program = lib.build("marks.c", "-ldl")
        path = lib.scratch("attached.db")
        counted = 0
        with subprocess.Popen([program, "steady"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            for _ in range(3):
                # How long it takes until marks are found depends on the machine: more than once, if need be.
                subprocess.run([lib.ASSAY, "count", "-q", "-m", "both", "-m", "main", "-p", str(child.pid), "--duration",
                                "2s", "-o", path], check=True, timeout=SECONDS)
                report = subprocess.run([lib.ASSAY, "report", "marks", "-i", path, "--json"], capture_output=True,
                                        check=True)
                visits = {row["mark"]: row["visits"] for row in json.loads(report.stdout)["rows"]}
                self.assertEqual(visits["main"], 0)
                counted += visits["both"]
            out, _ = child.communicate("end")
        self.assertEqual(child.returncode, 0)
        self.assertGreater(counted, 0)
        self.assertLessEqual(counted, int(out.split()[1]))


class Hot(unittest.TestCase):
    def test_hot(self):
        """The functions in which most instructions were executed, as another recording says, counted alike."""
        program = lib.build("functions.c")
        path = lib.scratch("hot.db")
        subprocess.run([lib.ASSAY, "trace", "-q", "--tool", "count", "-o", path, "--", program], capture_output=True)
        before = json.loads(subprocess.run([lib.ASSAY, "report", "functions", "-i", path, "--json", "--module",
                                            "functions"], capture_output=True, check=True).stdout)
        rows = Count([], program, options=["--hot", path, "--top", "3"], code=3).rows()
        self.assertEqual(len(rows), 3)
        hottest = {f"functions!{row['symbol']}": row["instructions"] for row in before["rows"] if not row["inlined"]}
        for mark, row in rows.items():
            self.assertEqual(row["instructions"], hottest[mark], mark)

    def test_prometheus(self):
        program = lib.build("marks.c", "-ldl")
        count = Count(["both", 'no"such\\thing'], program, "fork")
        text = subprocess.run([lib.ASSAY, "export", "prometheus", "-i", count.path], capture_output=True, text=True,
                              check=True).stdout
        visits = [int(value) for value in
                  re.findall(r'(?m)^assay_mark_visits_total\{mark="both",pid="\d+",comm="marks"\} (\d+)$', text)]
        self.assertEqual(sorted(visits), [5, 7, 7, 7])
        self.assertIn("assay_marks_lost_total 0\n", text)
        for line in text.splitlines():
            self.assertRegex(line, r'^(# (HELP|TYPE) \w+ .+|\w+(\{(\w+="([^"\\]|\\.)*",?)+\})? \d+)$')


class Many(unittest.TestCase):
    def test_ten_thousand(self):
        """As many marks as there are bytes in a stretch of libc: together they count what one mark of it does."""
        text = subprocess.run(["readelf", "-W", "-S", "/lib/x86_64-linux-gnu/libc.so.6"], capture_output=True,
                              text=True, check=True).stdout
        start = int(re.search(r"\.text\s+PROGBITS\s+([0-9a-f]+)", text)[1], 16)
        path = lib.scratch("many.marks")
        with open(path, "w", encoding="ascii") as stream:
            stream.write("# one for each byte\n\n")
            stream.writelines(f"  libc.so.6!0x{start + i:x}\n" for i in range(10000))
        whole = f"libc.so.6!0x{start:x}-0x{start + 10000:x}"
        rows = Count([whole], "/bin/true", options=["-M", path]).rows()
        self.assertEqual(len(rows), 10001)
        self.assertGreater(rows[whole]["instructions"], 100)
        self.assertEqual(sum(row["visits"] for mark, row in rows.items() if mark != whole),
                         rows[whole]["instructions"])

    def test_unmarked_code_is_as_without(self):
        """Nothing is found: the profile says so, and counts nothing."""
        count = Count(["no_such_routine", "no-such-file.c:1-2"], "/bin/true")
        self.assertIn("'no_such_routine' was not found", count.err)
        self.assertEqual({(row["where"], row["visits"]) for row in count.report()["rows"]}, {("not found", 0)})
        self.assertEqual(count.report()["totals"]["seen"], 0)

    def test_engine_is_not_the_program(self):
        """The engine's own functions have names, too, and are in the same address space."""
        count = Count(["mem*"], "/bin/true")
        self.assertIn("memchr", count.rows())
        for row in count.report()["rows"]:
            self.assertNotIn("assay", row["where"] or "", row)

    def test_totals(self):
        count = Count(["insn:*"], "/bin/true")
        totals = count.report()["totals"]
        self.assertGreater(totals["seen"], 1000)
        self.assertEqual(totals["seen"], totals["kept"])


INCLUDE = os.path.join(lib.ROOT, "include")
COMPILERS = [(compiler, language, level, lto) for compiler, language in
             (("gcc", "c"), ("g++", "c++"), ("clang", "c"), ("clang", "c++")) for level in range(4)
             for lto in ((), ("-flto", "-fuse-ld=lld") if compiler == "clang" else ("-flto",))]


class Declared(unittest.TestCase):
    """Marks that a program declares itself."""

    def compile(self, compiler, language, *flags, name="declared"):
        output = lib.scratch(name)
        subprocess.run([compiler, "-x", language, f"-I{INCLUDE}", "-Wall", "-Werror", *flags, "-o", output,
                        os.path.join(lib.PROGRAMS, "declared.cc")], check=True)
        return output

    def code(self, program):
        """Its instructions as bytes, and what is loaded of it."""
        text = subprocess.run(["objdump", "-d", "-j", ".text", program], capture_output=True, text=True,
                              check=True).stdout
        loaded = subprocess.run(["readelf", "-W", "-l", program], capture_output=True, text=True, check=True).stdout
        return (re.findall(r"(?m)^\s*[0-9a-f]+:\t(.*)$", text), re.findall(r"(?m)^\s+LOAD .*$", loaded))

    def test_not_one_instruction(self):
        for compiler, language, level, lto in COMPILERS:
            with self.subTest(compiler=compiler, language=language, level=level, lto=lto):
                flags = [f"-O{level}", *lto, "-Wl,--build-id=none"]
                marked = self.compile(compiler, language, *flags)
                bare = self.compile(compiler, language, *flags, "-DASSAY_NO_MARKS", name="bare")
                sections = subprocess.run(["readelf", "-W", "-S", marked], capture_output=True, text=True,
                                          check=True).stdout
                self.assertIn(".assay.marks", sections)
                self.assertEqual(self.code(marked), self.code(bare))

    def test_counts(self):
        for compiler, level in (("gcc", 0), ("gcc", 2), ("clang", 2)):
            with self.subTest(compiler=compiler, level=level):
                program = self.compile(compiler, "c", f"-O{level}")
                count = Count(["mark:*", "mark:fifth"], program)
                own = {name: int(number) for name, number in (line.split() for line in count.out.splitlines())}
                rows = count.rows()
                self.assertEqual({name: rows[name]["visits"] for name in own}, own)
                self.assertEqual(rows["mark:fifth"]["visits"], own["fifth"])
                self.assertGreater(rows["work"]["instructions"], own["work"])

    def test_parts(self):
        """Functions that several files have, and that are not used: the linker keeps one or none of them, with its marks."""
        dropped = ("-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections")
        for compiler, flags in (("g++", ("-O0",)), ("g++", ("-O2", "-flto")), ("g++", ("-O2", *dropped)), ("clang++", ("-O1",)),
                                ("clang++", ("-O2", *dropped)), ("clang++", ("-O2", "-flto", *dropped, "-fuse-ld=lld")),
                                ("g++", ("-O2", "-fuse-ld=gold")), ("g++", ("-O2", "-fuse-ld=lld", "-fPIC")),
                                ("clang++", ("-O2", *dropped, "-static", "-fuse-ld=lld"))):
            with self.subTest(compiler=compiler, flags=flags):
                program, objects = lib.scratch("declared_parts"), []
                compiled = [flag for flag in flags if not flag.startswith(("-Wl", "-fuse"))]
                for part in ("FIRST", "SECOND"):
                    objects.append(lib.scratch(f"{part}.o"))
                    subprocess.run([compiler, f"-I{INCLUDE}", "-Wall", "-Werror", *compiled, f"-D{part}", "-c", "-o", objects[-1],
                                    os.path.join(lib.PROGRAMS, "declared_parts.cc")], check=True)
                subprocess.run([compiler, *flags, "-o", program, *objects], check=True)
                count = Count(["mark:*", "data:table"], program)
                self.assertNotIn(".assay.marks", count.err)
                own = {name: int(number) for name, number in (line.split() for line in count.out.splitlines())}
                rows = count.rows()
                self.assertEqual({name: rows[name]["visits"] for name in own}, own)
                self.assertEqual(rows["data:table"]["writes"], own["next"] // 2)
                if "-Wl,--gc-sections" in flags:
                    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
                    self.assertNotIn("unused", symbols)

    def test_broken_sections(self):
        """Whatever is in the section, the program runs as ever, and it is said what is wrong."""
        program = self.compile("gcc", "c", "-O2")
        section, broken = lib.scratch("section"), lib.scratch("broken")
        subprocess.run(["objcopy", "-O", "binary", "--only-section=.assay.marks", "--set-section-flags",
                        ".assay.marks=alloc", program, section], check=True)
        with open(section, "rb") as stream:
            good = stream.read()
        self.assertEqual(len(good) % 24, 0)  # each entry has as many
        cases = {
            "cut short": good[:32],
            "of an unknown kind": good[:8] + b"\x09" + good[9:],
            "name is empty, too long or no word": good[:16] + b"w\xffrk" + good[20:],
        }
        for message, contents in cases.items():
            with self.subTest(message=message):
                with open(section, "wb") as stream:
                    stream.write(contents)
                subprocess.run(["objcopy", "--update-section", f".assay.marks={section}", program, broken], check=True)
                count = Count(["mark:*", "main"], broken)
                self.assertIn("work 40", count.out)
                self.assertIn(message, count.err)
                self.assertIn(".assay.marks", count.err)
                self.assertEqual(count.visits(), {"main": 1})


    def test_halves(self):
        """Of a range whose end or beginning the compiler found to be unreachable, what is left; all others as ever."""
        program = self.compile("gcc", "c", "-O2", "-DHALF")
        count = Count(["mark:*"], program)
        self.assertIn("1 declared ranges begin but do not end", count.err)
        self.assertIn("such as 'endless'", count.err)
        own = {name: int(number) for name, number in (line.split() for line in count.out.splitlines())}
        self.assertEqual({mark: visits for mark, visits in count.visits().items() if mark != "endless"}, own)
        self.assertEqual(count.rows()["endless"]["visits"], 1)
        section, halved = lib.scratch("section"), lib.scratch("halved")
        subprocess.run(["objcopy", "-O", "binary", "--only-section=.assay.marks", "--set-section-flags",
                        ".assay.marks=alloc", self.compile("gcc", "c", "-O2"), section], check=True)
        with open(section, "r+b") as stream:
            stream.seek(8)
            stream.write(b"\x03")
        subprocess.run(["objcopy", "--update-section", f".assay.marks={section}", self.compile("gcc", "c", "-O2"), halved], check=True)
        count = Count(["mark:*"], halved)
        self.assertIn("2 declared ranges end but do not begin, and are not counted, such as 'work'", count.err)
        self.assertEqual(count.visits(), {"fifth": own["fifth"]})


class Refusals(unittest.TestCase):
    BAD = [
        ("deflate.c:", "a line, or two such as 10-20, must follow the colon, at character 11"),
        ("deflate.c:20-10", "the last line comes before the first"),
        ("deflate.c:0", "lines are from 1 to 4294967295"),
        ("deflate.c:1-99999999999999999999", "the last line must follow the dash"),
        ("a.c:1-2x", "something follows the lines, at character 8"),
        ("!main", "the module in front of ! is missing, at character 1"),
        ("libz.so!", "a routine, a line or an address is missing"),
        ("0x1234", "an address needs its module"),
        ("libz.so!0x", "an address has hexadecimal digits"),
        ("libz.so!0x20-0x10", "the range ends before it begins"),
        ("main+0xzz", "an offset is a number"),
        ("ma*+4", "an offset needs the name of one routine"),
        ("insn:", "the name of an instruction is missing"),
        ("a!mark:", "the name of a mark is missing, at character 8"),
        ("bell\a", "a mark has a control character, byte 0x07 at character 5"),
        ("x" * 5000, "a mark has more than 4095 bytes"),
    ]

    def refused(self, *arguments, code=2):
        run = subprocess.run([lib.ASSAY, "count", *arguments, "--", "/bin/true"], capture_output=True, text=True,
                             cwd=lib.SCRATCH, timeout=SECONDS)
        self.assertEqual(run.returncode, code, run.stderr)
        self.assertFalse(os.path.exists(lib.scratch("assay.db")))
        return run.stderr

    def test_marks(self):
        for mark, message in self.BAD:
            with self.subTest(mark=mark[:30]):
                self.assertIn(message, self.refused("-m", mark))

    def test_files(self):
        path = lib.scratch("bad.marks")
        for mark, message in self.BAD:
            with self.subTest(mark=mark[:30]), open(path, "w", encoding="ascii") as stream:
                stream.write(f"main\n# comment\n\n{mark}\n")
                stream.flush()
                said = self.refused("-M", path)
                self.assertIn("bad.marks:4: ", said)
                self.assertIn(message if len(mark) < 4096 else "the line has more than 4096 bytes", said)
        with open(path, "wb") as stream:
            stream.write(b"main\nma\0in\n")
        self.assertIn("bad.marks:2: the line holds a byte 0", self.refused("-M", path))
        with open(path, "wb") as stream:
            stream.write(b"# nothing\n")
        self.assertIn("holds no mark", self.refused("-M", path))
        self.assertIn("cannot read the marks in /no/such", self.refused("-M", "/no/such"))

    def test_nothing(self):
        self.assertIn("nothing is marked", self.refused())
        self.assertIn("no instruction has such a name", self.refused("-m", "insn:nosuchthing", code=1))


if __name__ == "__main__":
    unittest.main()
