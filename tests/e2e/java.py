#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: T1, T2, T3, T7, T9.
"""assay calls on Java: counts that the program knows itself, and programs that must not notice.

Every run verifies all classes (-Xverify:all), so that a method whose frames or handlers are wrong does not run.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ASSAY = os.path.abspath(os.environ.get("ASSAY", "build/assay"))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRATCH = tempfile.mkdtemp(prefix="java-")
JAVA = ["java", "-Xverify:all", "-Xshare:auto", "-cp", SCRATCH]


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, cwd=SCRATCH, timeout=300, **options)


def calls(*options, program, code=0):
    if "--view" not in options:
        options = ("--view", "functions", *options)
    done = run([ASSAY, "calls", "--json", *options, "--", *program])
    assert done.returncode == code, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    at = done.stdout.index('{"assay"')
    found = json.loads(done.stdout[at:])
    found["before"], found["said"] = done.stdout[:at], done.stderr
    return found


def shapes(what, *options, code=0):
    return calls(*options, program=[*JAVA, "JavaShapes", what], code=code)


def counts(found):
    return {row["symbol"].removeprefix("JavaShapes").lstrip(".$"): row["calls"] for row in found["rows"]}


class Shapes(unittest.TestCase):
    def test_counts(self):
        plain = run([*JAVA, "JavaShapes", "shapes"])
        found = shapes("shapes", "--count")
        self.assertEqual(found["before"], plain.stdout)
        rows = counts(found)
        self.assertEqual({name: rows.get(name) for name in (
            "main", "shapes", "Derived.<init>(int)", "Derived.<init>(String)", "Base.<init>", "Derived.after", "checked",
            "caught", "locked", "recursive", "switches", "finals", "loop")}, {
            "main": 1, "shapes": 1, "Derived.<init>(int)": 10, "Derived.<init>(String)": 5, "Base.<init>": 9,
            "Derived.after": 8, "checked": 10, "caught": 4, "locked": 70, "recursive": 101, "switches": 5, "finals": 5,
            "loop": 1})
        self.assertEqual(found["totals"]["lost"], {})
        self.assertEqual(found["totals"]["seen"], sum(row["calls"] for row in found["rows"]))

    def test_tree_after_exceptions(self):
        """Whoever catches goes on below the method that catches, not below a constructor that has gone."""
        rows = shapes("shapes", "--count", "--view", "tree")["rows"]
        parents, levels = {}, {}
        for row in rows:
            levels[row["level"]] = row["symbol"]
            parents.setdefault(row["symbol"], set()).add(levels.get(row["level"] - 1))
        self.assertEqual(parents["JavaShapes.caught"], {"JavaShapes.shapes", "JavaShapes.finals"})
        self.assertEqual(parents["JavaShapes$Base.<init>"], {"JavaShapes$Derived.<init>(int)"})
        self.assertEqual(parents["JavaShapes.checked"], {"JavaShapes$Derived.<init>(int)"})
        self.assertEqual(parents["JavaShapes.locked"], {"JavaShapes.shapes"})
        deepest = max(row["recursion"] for row in rows if row["symbol"] == "JavaShapes.recursive")
        self.assertEqual(deepest, 101)

    def test_threads(self):
        found = shapes("threads", "--count", "--view", "tree")
        tasks = {}
        for row in found["rows"]:
            if row["symbol"] == "JavaShapes.leaf":
                tasks[row["comm"]] = tasks.get(row["comm"], 0) + row["calls"]
        self.assertEqual(tasks.pop("a thread with a long name"), 1000)
        self.assertEqual(sum(tasks.values()), 4950)
        self.assertLessEqual(set(tasks), {f"pool-1-thread-{i}" for i in range(1, 5)})
        self.assertIn("main", {row["comm"] for row in found["rows"]})

    def test_time(self):
        found = shapes("spin")
        row = next(row for row in found["rows"] if row["symbol"] == "JavaShapes.spin")
        self.assertGreaterEqual(row["elapsed"], 50_000_000)
        self.assertLessEqual(row["base"], row["elapsed"])
        self.assertGreater(row["base"], 0)
        self.assertIn("agent's own cost", found["said"])

    def test_allocation_and_pauses(self):
        found = shapes("allocate")
        rows = {row["symbol"]: row for row in found["rows"]}
        self.assertGreaterEqual(rows["[garbage collection]"]["calls"], 1)
        self.assertGreater(rows["[garbage collection]"]["elapsed"], 0)
        self.assertEqual(rows["[garbage collection]"]["base"], 0)
        self.assertIn("pauses for garbage collection", found["said"])
        # 200 MB in objects of 100 kB, sampled every 512 KiB: some 400 samples, each within a factor of two by far.
        profile = run([ASSAY, "report", "functions", "--metric", "allocated", "--json"])
        self.assertEqual(profile.returncode, 0, profile.stderr)
        bytes_of = {row["symbol"]: row["base"] for row in json.loads(profile.stdout)["rows"]}
        self.assertGreater(bytes_of["JavaShapes.allocate"], 100_000_000)
        self.assertLess(bytes_of["JavaShapes.allocate"], 400_000_000)

    def test_overflow(self):
        """An overflow of the stack may hit the helper itself; the tree finds its way back."""
        found = shapes("overflow", "--count", "--max-depth", "1000", "--view", "tree")
        rows = {(row["level"], row["symbol"]): row["calls"] for row in found["rows"]}
        self.assertEqual(rows[2, "JavaShapes.caught"], 1)
        self.assertEqual(rows[2, "JavaShapes.leaf"], 1)
        self.assertGreater(found["totals"]["lost"]["too_deep"], 0)

    def test_choice(self):
        """Methods that are not wanted are part of whoever called them."""
        found = shapes("shapes", "--count", "--only", "*recursive*")
        self.assertEqual(counts(found), {"recursive": 101})

    def test_exit(self):
        self.assertEqual(counts(shapes("exit", "--count", code=7))["leaf"], 7)

    def test_throw(self):
        found = shapes("throw", "--count", code=1)
        self.assertEqual(counts(found)["main"], 1)
        plain = run([*JAVA, "JavaShapes", "throw"])
        self.assertIn(plain.stderr, found["said"])


class Running(unittest.TestCase):
    """A machine that runs is taken and given back; it says the same as it would have."""

    def setUp(self):
        self.program = subprocess.Popen([*JAVA, "JavaShapes", "forever"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, cwd=SCRATCH)
        self.assertEqual(self.program.stdout.readline(), "runs\n")

    def tearDown(self):
        self.program.kill()
        self.program.communicate()

    def take(self, *options):
        return run([ASSAY, "calls", "--json", "--view", "functions", "--duration", "1s", "-p", str(self.program.pid), *options])

    def test_taken_and_given_back(self):
        done = self.take()
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {row["symbol"]: row["calls"] for row in json.loads(done.stdout)["rows"]}
        self.assertGreater(rows["JavaShapes.task"], 0)
        # The end may come in the middle of a task.
        self.assertAlmostEqual(rows["JavaShapes.leaf"], 10 * rows["JavaShapes.task"], delta=10)
        again = self.take()
        self.assertEqual(again.returncode, 1)
        self.assertIn("record a machine once", again.stderr)
        said, warned = self.program.communicate("\n", timeout=60)
        self.assertEqual((said, warned, self.program.returncode), ("0\n", "", 0))

    def test_no_machine(self):
        """SIGQUIT would end it."""
        other = subprocess.Popen(["sleep", "60"])
        try:
            done = run([ASSAY, "calls", "--with", "java", "-p", str(other.pid)])
            self.assertEqual(done.returncode, 1)
            self.assertIn("no Java virtual machine", done.stderr)
            self.assertIsNone(other.poll())
        finally:
            other.kill()
            other.wait()
        wrong = run([ASSAY, "calls", "-p", str(os.getpid()), "--", "true"])
        self.assertEqual(wrong.returncode, 2)


class Programs(unittest.TestCase):
    def test_javac(self):
        """The compiler makes the same classes, and says the same: 8,000 methods and more."""
        source = os.path.join(ROOT, "tests/programs/JavaShapes.java")
        outputs = []
        for name, before in ("plain", []), ("seen", [ASSAY, "calls", "--count", "--json", "--"]):
            folder = os.path.join(SCRATCH, name)
            done = run([*before, "javac", "-J-Xverify:all", "-Xlint:all", "-d", folder, source])
            self.assertEqual(done.returncode, 0, done.stderr)
            outputs.append({path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()})
        self.assertEqual(outputs[0], outputs[1])
        found = json.loads(done.stdout[done.stdout.index('{"assay"'):])
        self.assertEqual(found["totals"]["lost"], {})
        self.assertGreater(found["totals"]["seen"], 100_000)
        self.assertIn("com.sun.tools.javac.main.JavaCompiler.compile",
                      {row["symbol"].split("(")[0] for row in found["rows"]})
        self.assertNotIn("could not be rewritten", done.stderr)

    def test_script_with_several_machines(self):
        script = " & ".join(" ".join([*JAVA, "JavaShapes", what]) for what in ("shapes", "threads")) + " & wait"
        found = calls("--with", "java", "--count", program=["sh", "-c", script])
        rows = counts(found)
        self.assertEqual((rows["recursive"], rows["leaf"]), (101, 5950))
        tree = json.loads(run([ASSAY, "report", "tree", "--json", "--min-share", "0"]).stdout)["rows"]
        self.assertEqual(len({row["pid"] for row in tree}), 2)

    def test_output_is_untouched(self):
        plain = run([*JAVA, "JavaShapes", "shapes"])
        seen = run([ASSAY, "calls", "--count", "-o", "quiet.db", "--", *JAVA, "JavaShapes", "shapes"])
        self.assertTrue(seen.stdout.startswith(plain.stdout))
        self.assertEqual([line for line in seen.stderr.splitlines() if not line.startswith("assay: ")],
                         plain.stderr.splitlines())


def main():
    if not shutil.which("javac"):
        print("no JDK here")
        sys.exit(77)
    subprocess.run(["javac", "-g", "-d", SCRATCH, os.path.join(ROOT, "tests/programs/JavaShapes.java")], check=True)
    if "built without a JDK" in run([ASSAY, "calls", "--", "java", "-version"]).stderr:
        print("assay was built without a JDK")
        sys.exit(77)
    try:
        unittest.main()
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)


if __name__ == "__main__":
    main()
