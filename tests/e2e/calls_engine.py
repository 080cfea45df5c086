#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: T1, T2, T3, T4, T5.
"""assay calls on programs as they are: the engine sees every call and return.

Counts are compared with callgrind's. The tree is compared with what the source says. What longjmp, exceptions, signal
handlers, tail calls and switches of stacks do is found by the stack pointer, and each repair is counted.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock

ASSAY = os.path.abspath(os.environ.get("ASSAY", "build/assay"))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRATCH = tempfile.mkdtemp(prefix="calls-engine-")
EXAMPLE = [(0, 1, 1000, "C"), (1, 1, 1000, "A"), (2, 1, 2000, "B"), (3, 2, 1000, "B"), (1, 1, 1000, "B"), (2, 1, 1000, "A"),
           (3, 2, 1000, "B"), (4, 2, 1000, "A"), (5, 1, 1000, "X")]


def build(source, compiler="gcc", flags=("-O1", "-g", "-pthread", "-fno-optimize-sibling-calls")):
    path = os.path.join(SCRATCH, os.path.basename(source) + ".bin")
    if not os.path.exists(path):
        subprocess.run([compiler, *flags, "-o", path, os.path.join(ROOT, "tests/programs", source)], check=True)
    return path


def calls(*options, program, code=5, output=None):
    run = subprocess.run([ASSAY, "calls", "--with", "engine", "--json", *options, "--", *program], capture_output=True,
                         text=True, cwd=SCRATCH, timeout=120)
    assert run.returncode == code, (run.returncode, run.stdout[-2000:], run.stderr[-2000:])
    at = run.stdout.index('{"assay"')
    if output is not None:
        assert run.stdout[:at] == output, run.stdout[:200]
    found = json.loads(run.stdout[at:])
    found["said"] = run.stderr
    return found


def shapes(what, *options, code=5):
    return calls(*options, program=[build("calls_shapes.c"), what], code=code)


def below(rows, name):
    """The rows from the first of that name on, with levels relative to it."""
    first = next(i for i, row in enumerate(rows) if row["symbol"] == name)
    level, result = rows[first]["level"], []
    for row in rows[first:]:
        if result and row["level"] <= level:
            break
        result.append((row["level"] - level, row["recursion"], row["calls"], row["symbol"]))
    return result


def callgrind_counts(program):
    """Calls of each function, as callgrind has them: by the name of the file and of the function."""
    out = os.path.join(SCRATCH, "callgrind.out")
    run = subprocess.run(["valgrind", "-q", "--tool=callgrind", "--compress-strings=no", f"--callgrind-out-file={out}", *program],
                         capture_output=True, cwd=SCRATCH)
    counts, where, there, callee = {}, "", None, None
    with open(out, encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("ob="):
                where = line[3:].strip()
            elif line.startswith("cob="):
                there = line[4:].strip()
            elif line.startswith("cfn="):
                callee = re.sub(r"'\d+$", "", line[4:].strip())
                callee = re.sub(r"^0x0*(?=[0-9a-f])", "sub_", callee)  # without a symbol
            elif line.startswith("calls="):
                key = os.path.basename(there or where), callee
                counts[key] = counts.get(key, 0) + int(line[6:].split()[0])
                there = None
    return counts, run.returncode


def is_comparable(module):
    """The C library and the loader choose functions by what the processor can do, and valgrind's can do less."""
    return not re.match(r"ld-linux|libc\.so|libm\.so|vgpreload|\[|\?\?\?", module or "[")


class Shapes(unittest.TestCase):
    def test_example(self):
        for options in ((), ("--count",)):
            found = shapes("example", "--view", "tree", *options)
            self.assertEqual(below(found["rows"], "C"), EXAMPLE)
            self.assertEqual(found["totals"]["lost"], {})

    def test_sums(self):
        rows = shapes("burn", "--view", "tree")["rows"]
        for i, row in enumerate(rows):
            inside = 0
            for other in rows[i + 1:]:
                if other["level"] <= row["level"]:
                    break
                inside += other["cum"] if other["level"] == row["level"] + 1 else 0
            self.assertEqual(row["cum"], row["base"] + inside)
        self.assertEqual(sum(row["base"] for row in rows), rows[0]["cum"])

    def test_time(self):
        """Time on a processor is the program's own, whatever else the machine does; a nap only passes."""
        rows = {row["symbol"]: row for row in shapes("burn", "--view", "functions")["rows"]}
        self.assertGreater(rows["heavy"]["cum"], 2 * rows["light"]["cum"])
        self.assertLess(rows["heavy"]["cum"], 4 * rows["light"]["cum"])
        self.assertGreater(rows["nap"]["elapsed"], 200e6)
        self.assertLess(rows["nap"]["cum"], 20e6)

    def test_longjmp(self):
        found = shapes("jumps", "--view", "tree", "--count")
        rows = below(found["rows"], "jump")
        self.assertEqual([(level, count) for level, _, count, symbol in rows if symbol == "fall"],
                         [(level, 100) for level in range(1, 7)])
        self.assertIn((1, 1, 100, "X"), rows)  # below jump(), not below fall()
        self.assertIn("left without an exit", found["said"])

    def test_exceptions(self):
        found = calls("--view", "tree", "--count", program=[build("calls_throws.cc", "g++")], code=0)
        rows = {(row["level"], row["symbol"].split("(")[0]): row["calls"] for row in found["rows"]}
        after = [(level, count) for (level, name), count in rows.items() if name == "after"]
        self.assertEqual([count for _, count in after], [50])
        level = after[0][0]
        self.assertEqual([rows[at, "thrower"] for at in range(level, level + 5)], [50] * 5)

    def test_threads(self):
        rows = shapes("tasks", "--view", "tree", "--count")["rows"]
        self.assertEqual({row["comm"]: row["calls"] for row in rows if row["symbol"] == "X"},
                         {f"task{i}": 100 * (i + 1) for i in range(4)})

    def test_short_threads(self):
        """None is merged with another, and each is there or counted."""
        found = shapes("many", "--view", "tree", "--count")
        brief = [row["calls"] for row in found["rows"] if row["symbol"] == "brief"]
        self.assertEqual(set(brief), {1})
        self.assertEqual(len(brief) + found["totals"]["lost"].get("no_thread", 0), 2000)

    def test_fork(self):
        rows = shapes("forks", "--view", "tree", "--count")["rows"]
        counts = {}
        for row in rows:
            if row["symbol"] == "X":
                counts.setdefault(row["pid"], []).append(row["calls"])
        self.assertEqual(sorted(sum(found) for found in counts.values()), [5, 7])

    def test_depth(self):
        found = shapes("deep", "--view", "functions", "--count")
        deep = next(row["calls"] for row in found["rows"] if row["symbol"] == "deep")
        self.assertEqual(deep + found["totals"]["lost"]["too_deep"], 10000)

    def test_killed(self):
        rows = shapes("killed", "--view", "functions", "--count", code=128 + 9)["rows"]
        self.assertEqual(next(row["calls"] for row in rows if row["symbol"] == "X"), 1000)

    def test_signal_handler(self):
        rows = shapes("handler", "--view", "functions", "--count")["rows"]
        counts = {row["symbol"]: row["calls"] for row in rows}
        self.assertEqual((counts["X"], counts["on_signal"]), (31, 10))

    def test_contexts(self):
        """Routines that nobody calls: a handler, and contexts on stacks of their own, which go on below what they were in."""
        for options in ((), ("--count",)):
            found = calls("--view", "tree", *options, program=[build("calls_contexts.c")])
            counts, path = {}, []
            for row in found["rows"]:
                path = path[:row["level"]] + [row["symbol"]]
                key = row["symbol"], path[-2] if len(path) > 1 else None
                counts[key] = counts.get(key, 0) + row["calls"]
            ours = {key: count for key, count in counts.items() if key[0] in ("handler", "context", "deeper", "inner", "outer")}
            contexts = {key: ours.pop(key) for key in list(ours) if key[0] in ("handler", "context")}
            self.assertEqual(sum(count for key, count in contexts.items() if key[0] == "handler"), 30)
            self.assertEqual(sum(count for key, count in contexts.items() if key[0] == "context"), 2)
            self.assertEqual(ours, {("deeper", "context"): 400, ("inner", "deeper"): 800, ("inner", "context"): 400,
                                    ("outer", "main"): 201})
            self.assertGreater(int(re.search(r"(\d+) calls on another stack", found["said"])[1]), 300)


class Tails(unittest.TestCase):
    """A function that is jumped to from another takes its place, and is counted."""

    def tails(self, *options):
        path = os.path.join(SCRATCH, "calls_tails.c.bin")
        program = path if os.path.exists(path) else build("calls_tails.c", flags=("-O2", "-g"))
        return calls(*options, program=[program])

    def counts(self, *options):
        rows = self.tails("--view", "functions", *options)["rows"]
        return {row["symbol"]: row["calls"] for row in rows if row["module"] == "calls_tails.c.bin"}

    def test_counts(self):
        for options in ((), ("--count",)):
            counts = self.counts(*options)
            expected = {"main": 1, "tailer": 1000, "indirect": 1000, "chooser": 1000, "down": 4000, "again": 4000,
                        "framed": 4000, "other": 500, "leaf": 1000 + 500 + 500 + 500 + 4000}
            self.assertEqual({name: counts[name] for name in expected}, expected)

    def test_place(self):
        """Below the caller of the function that made the tail call."""
        rows = below(self.tails("--view", "tree", "--count")["rows"], "main")
        self.assertIn((1, 1, 2000, "leaf"), rows)
        self.assertIn((1, 1, 500, "other"), rows)
        self.assertIn((2, 1, 500, "leaf"), rows)

    def test_only(self):
        self.assertEqual(self.counts("--only", "leaf"), {"leaf": 6500})
        self.assertEqual(self.counts("--only", "main", "--only", "tail*"), {"main": 1, "tailer": 1000})
        self.assertEqual(below(self.tails("--only", "main", "--only", "leaf", "--view", "tree")["rows"], "main"),
                         [(0, 1, 1, "main"), (1, 1, 6500, "leaf")])

    def test_skip(self):
        counts = self.counts("--skip", "leaf", "--skip", "o?her")
        self.assertNotIn("leaf", counts)
        self.assertNotIn("other", counts)
        self.assertEqual((counts["tailer"], counts["down"]), (1000, 4000))
        found = self.tails("--only", "main", "--view", "tree")  # nothing of what others use is lost
        self.assertEqual(sum(row["base"] for row in found["rows"]), found["rows"][0]["cum"])

    def test_depth(self):
        found = shapes("deep", "--view", "functions", "--count", "--max-depth", "100")
        deep = next(row["calls"] for row in found["rows"] if row["symbol"] == "deep")
        self.assertLess(deep, 100)
        self.assertEqual(deep + found["totals"]["lost"]["too_deep"], 10000)


    def test_allocations(self):
        """Objects and bytes belong to who calls the allocator."""
        self.tails("--allocations", "-o", "allocations.db")

        def report(view, cost):
            run = subprocess.run([ASSAY, "report", view, "-i", "allocations.db", "--cost", cost, "--json", "--min-share", "0"],
                                 capture_output=True, text=True, cwd=SCRATCH, timeout=60)
            self.assertEqual(run.returncode, 0, run.stderr)
            return json.loads(run.stdout)["rows"]

        for cost, amount in (("objects", 3), ("bytes", 100 + 200 + 150)):
            rows = {row["symbol"]: row for row in report("functions", cost)}
            self.assertEqual((rows["allocator"]["base"], rows["allocator"]["cum"]), (amount, amount))
            self.assertEqual((rows["main"]["base"], rows["main"]["cum"]), (0, amount))
            tree = report("tree", cost)
            self.assertEqual(sum(row["base"] for row in tree), tree[0]["cum"])
        run = subprocess.run([ASSAY, "report", "tree", "-i", "allocations.db", "--cost", "samples"], capture_output=True, text=True,
                             cwd=SCRATCH, timeout=60)
        self.assertEqual(run.returncode, 1)
        self.assertIn("--from-events", run.stderr)


class Resources(unittest.TestCase):
    """What the kernel counts, by the function that caused it (tests/programs/calls_resources.c)."""

    @classmethod
    def setUpClass(cls):
        cls.program = build("calls_resources.c")
        run = subprocess.run([ASSAY, "calls", "--resources", "-o", "resources.db", "--", cls.program], capture_output=True,
                             text=True, cwd=SCRATCH, timeout=120)
        assert run.returncode == 5, run.stderr
        cls.told, cls.said = [int(number) for number in run.stdout.split()[:2]], run.stderr
        cls.native = [int(number) for number in subprocess.run([cls.program], capture_output=True, text=True).stdout.split()]

    def rows(self, cost, view="functions"):
        run = subprocess.run([ASSAY, "report", view, "-i", "resources.db", "--cost", cost, "--json", "--min-share", "0"],
                             capture_output=True, text=True, cwd=SCRATCH, timeout=60)
        self.assertEqual(run.returncode, 0, run.stderr)
        return json.loads(run.stdout)["rows"]

    def found(self, cost):
        """{function: (base, cum)}"""
        return {row["symbol"]: (row["base"], row["cum"]) for row in self.rows(cost)}

    def test_faults(self):
        """To the page, although the engine has faults of its own."""
        found = self.found("faults_minor")
        self.assertEqual(found["touch_few"], (100, 100))
        self.assertEqual(found["step"], (700, 700))
        self.assertEqual(found["touch_many"][1] - found["touch_many"][0], 700)
        self.assertEqual(found["quiet"], (0, 0))
        thread = next(row for row in self.rows("faults_minor", "tree")
                      if row["level"] == 1 and row["symbol"] in ("start_thread", "clone3"))
        self.assertLessEqual(abs(thread["cum"] - self.native[0]), 40)
        self.assertGreater(self.told[0], thread["cum"], "the engine's own are in what the kernel tells")
        self.assertRegex(self.said, "[0-9]+ page faults were the engine's own")

    def test_switches(self):
        found = self.found("voluntary")
        self.assertEqual(found["nap"][1], 20)
        self.assertGreaterEqual(self.told[1], 20, "the thread may wait elsewhere, too: for memory, or for the engine")
        self.assertEqual(found["transfer"], (0, 0))

    def test_transfers(self):
        for cost, function, amount in (("read", "transfer", 30 * 1000), ("written", "transfer", 30 * 500), ("sent", "talk", 300),
                                       ("received", "talk", 300), ("system_calls", "transfer", 60), ("system_calls", "talk", 60),
                                       ("system_calls", "nap", 20), ("system_calls", "quiet", 0)):
            with self.subTest(cost=cost, function=function):
                self.assertEqual(self.found(cost)[function][1], amount)

    def test_system_calls(self):
        """All but the one that ends the process."""
        counted = sum(row["base"] for row in self.rows("system_calls"))
        log = os.path.join(SCRATCH, "strace.out")
        if not shutil.which("strace"):
            self.skipTest("there is no strace to compare with")
        subprocess.run(["strace", "-f", "-e", "trace=all", "-e", "signal=none", "-o", log, self.program], capture_output=True)
        with open(log, encoding="utf-8", errors="replace") as file:
            calls = [line for line in file if "resumed>" not in line and re.match(r"\d+ +\w+\(", line)
                     and not re.match(r"\d+ +(execve|exit|exit_group)\(", line)]
        self.assertLessEqual(abs(counted - len(calls)), 4)  # how often they wait for each other

    def test_sums(self):
        for cost in ("faults_minor", "system_calls", "read"):
            rows = self.rows(cost, "tree")
            self.assertEqual(sum(row["base"] for row in rows), sum(row["cum"] for row in rows if row["level"] == 0))

    def test_exports(self):
        """Flame graphs of any cost."""
        def export(*words, code=0):
            run = subprocess.run([ASSAY, "export", *words, "-i", "resources.db"], capture_output=True, text=True, cwd=SCRATCH,
                                 timeout=60)
            self.assertEqual(run.returncode, code, run.stderr)
            return run.stdout if not code else run.stderr

        lines = [line.rsplit(" ", 1) for line in export("collapsed", "--cost", "faults_minor").splitlines()]
        self.assertEqual(sum(int(count) for _, count in lines), sum(row["base"] for row in self.rows("faults_minor")) +
                         sum(row["base"] for row in self.rows("faults_minor", "tree") if row["level"] == 0))
        self.assertEqual([int(count) for stack, count in lines if stack.endswith(";work;touch_many;step")], [700])
        scopes = json.loads(export("speedscope", "--cost", "read"))["profiles"]
        self.assertEqual({scope["unit"] for scope in scopes}, {"bytes"})
        self.assertEqual(sum(sum(scope["weights"]) for scope in scopes), sum(row["base"] for row in self.rows("read")))
        self.assertIn("assay calls --allocations", export("collapsed", "--cost", "bytes", code=1))

    def test_refused(self):
        for options, words in ((("--count",), "time stamps"), (("--with", "hooks"), "--with engine")):
            run = subprocess.run([ASSAY, "calls", "--resources", *options, "--", "true"], capture_output=True, text=True, cwd=SCRATCH)
            self.assertEqual(run.returncode, 1, run.stderr)
            self.assertIn(words, run.stderr)
        run = subprocess.run([ASSAY, "report", "tree", "-i", "resources.db", "--cost", "bytes"], capture_output=True, text=True,
                             cwd=SCRATCH, timeout=60)
        self.assertEqual(run.returncode, 1)
        self.assertIn("assay calls --allocations", run.stderr)


class Programs(unittest.TestCase):
    def test_output_is_the_same(self):
        script = "print(sum(hash(str(i)) % 7 for i in range(2000)))"
        os.environ["PYTHONHASHSEED"] = "0"
        output = subprocess.run(["python3", "-S", "-c", script], capture_output=True, text=True).stdout
        calls(program=["python3", "-S", "-c", script], code=0, output=output)

    def test_forbidden_clock(self):
        """A program that may not read the time stamp counter goes on natively, and does not notice that we do."""
        program = [build("../conformance/machine.c"), "clock"]
        output = subprocess.run(program, capture_output=True, text=True).stdout
        self.assertIn("signal 11", output)
        said = calls(program=program, code=0, output=output)["said"]
        self.assertIn("left the engine", said)

    def compare(self, program, code=0):
        """(functions in both, those that differ as {key: (callgrind's, ours)}, calls in all)"""
        theirs, their_code = callgrind_counts(program)
        self.assertEqual(their_code, code)
        ours = {}
        for row in calls("--count", "--view", "functions", program=program, code=code)["rows"]:
            ours[row["module"], row["symbol"]] = row["calls"]
        both = [key for key in theirs if key in ours and is_comparable(key[0])]
        different = {key: (theirs[key], ours[key]) for key in both if theirs[key] != ours[key]}
        return both, different, sum(theirs[key] for key in both)

    def as_callgrind(self, different):
        """Functions that have a name agree. Where others begin, only we know, so that we see more tail calls of them."""
        self.assertEqual({key for key in different if not key[1].startswith("sub_")}, set(), different)
        self.assertTrue(all(theirs < ours for theirs, ours in different.values()), different)

    @unittest.skipUnless(shutil.which("valgrind"), "valgrind is not installed")
    def test_callgrind_agrees(self):
        both, different, _ = self.compare([build("calls_shapes.c"), "example"], code=5)
        self.assertEqual(different, {})
        self.assertLessEqual({"A", "B", "C", "X", "main"}, {name for _, name in both})

    @unittest.skipUnless(shutil.which("valgrind") and shutil.which("xz"), "valgrind or xz is not installed")
    def test_xz_as_callgrind(self):
        with open(os.path.join(SCRATCH, "data"), "wb") as file:
            file.write(bytes((i * i >> 5) % 251 for i in range(100000)))
        both, different, total = self.compare(["xz", "-0", "-k", "-f", "data"])
        self.assertGreater(len(both), 90)
        self.assertGreater(total, 100000)
        self.as_callgrind(different)

    @unittest.skipUnless(shutil.which("valgrind") and shutil.which("sqlite3"), "valgrind or sqlite3 is not installed")
    def test_sqlite_as_callgrind(self):
        sql = ("create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<300) "
               "insert into t select x,x*x%97 from c; select sum(a*b),count(distinct b) from t;")
        both, different, total = self.compare(["sqlite3", ":memory:", sql])
        self.assertGreater(len(both), 500)
        self.as_callgrind(different)

    @unittest.skipUnless(shutil.which("valgrind"), "valgrind is not installed")
    def test_python_as_callgrind(self):
        """An interpreter whose functions mostly have no name. It looks at its environment, which has as many variables
        more here as valgrind puts into it."""
        script = "def f(n): return n if n < 2 else f(n - 1) + f(n - 2)\nprint(f(9), sorted({str(i): i for i in range(99)})[:3])"
        plain = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | {"PYTHONHASHSEED": "0"}
        listed = subprocess.run(["valgrind", "-q", "--tool=none", "env"], env=plain, capture_output=True, text=True).stdout
        more = {f"ADDED_{i}": "1" for i in range(len(listed.splitlines()) - len(plain))}
        with unittest.mock.patch.dict(os.environ, plain, clear=True):
            program = ["/usr/bin/python3", "-I", "-S", "-c", script]
            theirs, _ = callgrind_counts(program)
            os.environ.update(more)
            ours = {(row["module"], row["symbol"]): row["calls"]
                    for row in calls("--count", "--view", "functions", program=program, code=0)["rows"]}
        both = [key for key in theirs if key in ours and is_comparable(key[0])]
        named = [key for key in both if not key[1].startswith("sub_")]
        different = {key: (theirs[key], ours[key]) for key in both if theirs[key] != ours[key]}
        self.assertGreater(len(named), 200)
        self.assertGreater(len(both) - len(different), len(both) * 9 // 10, different)
        # Callgrind takes a jump out of code without a name for no call.
        odd = {key: different[key] for key in named if key in different}
        self.assertLessEqual(len(odd), len(named) // 50, odd)
        self.assertLess(sum(abs(one - other) for one, other in odd.values()), sum(theirs[key] for key in named) / 500, odd)


if __name__ == "__main__":
    try:
        unittest.main(verbosity=2)
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
