#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: V16, S1.
"""Code made at run time: named by /tmp/perf-PID.map, and walked through by frame pointers into its callers."""

import collections
import os
import shutil
import subprocess
import tempfile
import unittest

import lib

INNER, OUTER, LATE = (f"{name} made at run time" for name in ("inner", "outer", "late"))


def names(stack):
    return [lib.frame_name(frame) for frame in stack.frames]


class Jit(unittest.TestCase):
    def record(self, *command):
        profile = lib.record("-F", "1997", "--", *command, cwd=lib.SCRATCH).profile
        for row in profile.rows("select pid from process"):
            path = f"/tmp/perf-{row['pid']}.map"
            if os.path.exists(path):
                os.unlink(path)
        lib.check_sums(self, profile, 500)
        return profile

    def shapes(self, profile):
        """The functions from the innermost to main -> samples; each of these stacks has a true root."""
        counts = collections.Counter()
        for stack in profile.user_stacks():
            found = names(stack)
            if "main" in found and "run" in found:
                self.assertTrue(lib.is_root(stack.frames[-1]), found)
                counts[tuple(found[:found.index("main") + 1])] += stack.count
        return counts

    def test_perf_map(self):
        profile = self.record(lib.build("jit.c"), "map")
        counts = self.shapes(profile)
        # About 0.4 s of each of the two loops.
        self.assertGreater(counts[(INNER, OUTER, "run", "main")], 400, counts)
        self.assertGreater(counts[("callback", LATE, "run", "main")], 400, counts)
        kept = sum(stack.count for stack in profile.user_stacks())
        named = sum(count for names, count in counts.items() if INNER in names or "callback" in names)
        self.assertGreater(named, 0.95 * kept, counts)
        kinds = {frame.kind for stack in profile.stacks for frame in stack.frames
                 if lib.frame_name(frame) in (INNER, OUTER, LATE)}
        self.assertEqual(kinds, {"jit"})

    def test_map_at_exit(self):
        """As a JVM with -XX:+DumpPerfMapAtExit writes it: what was found before has names, too."""
        profile = self.record(lib.build("jit.c"), "exit")
        counts = self.shapes(profile)
        self.assertGreater(counts[(INNER, OUTER, "run", "main")], 400, counts)
        self.assertGreater(counts[("callback", LATE, "run", "main")], 400, counts)

    def test_java(self):
        """Without a map the recording says how to get one; a map made at the end gives names."""
        if not shutil.which("java"):
            self.skipTest("no java")
        source = lib.scratch("Burn.java")
        with open(source, "w", encoding="ascii") as file:
            file.write("public class Burn { static long burnTime(long n) { long s = 0; for (long i = 0; i < n; i++) "
                       "s += i * i ^ s; return s; } public static void main(String[] a) { long end = "
                       "System.nanoTime() + 1500000000L, s = 0; while (System.nanoTime() < end) "
                       "s += burnTime(100000); System.out.println(s); } }")
        plain = lib.record("--", "java", "-Xshare:auto", source)
        self.assertRegex(plain.err, r"\(java\): code that it made has no names; 'jcmd \d+ Compiler.perfmap'")
        self.assertEqual(plain.err.count("has no names"), 1)  # said once
        named = lib.record("--", "java", "-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit", source)
        self.assertNotIn("has no names", named.err)
        burnt = sum(stack.count for stack in named.profile.stacks if any("burnTime" in name for name in names(stack)))
        self.assertGreater(burnt, 50)
        for row in named.profile.rows("select pid from process"):
            if os.path.exists(f"/tmp/perf-{row['pid']}.map"):
                os.unlink(f"/tmp/perf-{row['pid']}.map")

    def test_no_map(self):
        """Nameless, but not the end of the stack."""
        profile = self.record(lib.build("jit.c"), "nothing")
        counts = self.shapes(profile)
        self.assertGreater(counts[("[unknown]", "[unknown]", "run", "main")], 400, counts)
        self.assertGreater(counts[("callback", "[unknown]", "run", "main")], 400, counts)
        ends = profile.ends()
        self.assertGreaterEqual(ends["complete"], 0.99 * profile.kept, ends)

    def test_node(self):
        if not shutil.which("node"):
            self.skipTest("no node")
        profile = self.record("node", "--perf-basic-prof", os.path.join(lib.PROGRAMS, "jit.js"))
        burning = through = 0
        for stack in profile.user_stacks():
            if any("callBurnTime" in name for name in names(stack)):
                burning += stack.count
                through += stack.count if lib.is_root(stack.frames[-1]) else 0
        self.assertGreater(burning, 0.5 * profile.kept)
        self.assertGreaterEqual(through, 0.99 * burning)
        jit = {lib.frame_name(frame) for stack in profile.stacks for frame in stack.frames if frame.kind == "jit"}
        self.assertTrue(any("burnTime " in name for name in jit), jit)

    def test_jitdump(self):
        """Node's other file has the code, too: it can be annotated when the process has gone."""
        if not shutil.which("node"):
            self.skipTest("no node")
        folder = lib.scratch("jitdump")
        os.mkdir(folder)
        run = lib.record("-F", "1997", "--", "node", "--perf-prof", os.path.join(lib.PROGRAMS, "jit.js"), cwd=folder)
        self.assertNotIn("has no names", run.err)
        jit = {frame.kind: lib.frame_name(frame) for stack in run.profile.stacks for frame in stack.frames
               if "burnTime" in lib.frame_name(frame)}
        self.assertIn("jit", jit)
        listing = subprocess.run([lib.ASSAY, "annotate", jit["jit"], "-i", run.path], capture_output=True, text=True,
                                 timeout=60, check=True).stdout
        self.assertRegex(listing, r"0x[0-9a-f]+ +[a-z]{2,}")

    def node(self, option):
        """A node that burns until the test is over, attached to when it has made code."""
        if not shutil.which("node"):
            self.skipTest("no node")
        source, folder = lib.scratch("living.js"), tempfile.mkdtemp(dir=lib.SCRATCH)
        with open(source, "w", encoding="ascii") as file:
            file.write("function burn(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) % 65521; return s; }\n"
                       "let t = 0; for (let i = 0; i < 2000; i++) t += burn(20000);\n"
                       "console.log('ready'); for (;;) t += burn(20000);\n")
        with lib.Program("node", option, source, ready="ready", cwd=folder) as program:
            run = lib.record("-F", "1997", "-p", str(program.pid), "--duration", "2")
        if os.path.exists(f"/tmp/perf-{program.pid}.map"):
            os.unlink(f"/tmp/perf-{program.pid}.map")
        return run

    def test_code_of_a_living_process(self):
        """A perf map has no code, but the process has."""
        run = self.node("--perf-basic-prof")
        name = next(row["symbol"] for row in lib.report(run.path, "functions")["rows"] if "burn " in row["symbol"])
        listing = subprocess.run([lib.ASSAY, "annotate", name, "-i", run.path], capture_output=True, text=True,
                                 timeout=60, check=True).stdout
        self.assertRegex(listing, r"0x[0-9a-f]+ +[a-z]{2,}")
        self.assertIn("imul", listing)  # s * 31, or its remainder

    def test_jitdump_that_is_not_written_yet(self):
        run = self.node("--perf-prof")
        self.assertRegex(run.err, r"jit-\d+\.dump does not have all code .* a perf map \(node: --perf-basic-prof\)")


if __name__ == "__main__":
    lib.main()
