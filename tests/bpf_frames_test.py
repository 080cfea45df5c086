#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""tools/bpf-frames on objects whose frames, callbacks and loops are known."""

import os
import subprocess
import sys
import tempfile
import unittest

TOOL = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools/bpf-frames")

HEAD = """
#define NOINLINE __attribute__((noinline))
static long (*loop)(unsigned, void *, void *, unsigned long long) = (void *)181;
static long (*fill)(void *, unsigned, const void *) = (void *)113;
"""
PROGRAM = "__attribute__((section(\"perf_event\"), used)) int program(void *ctx)"


def frame(size):
    return f"char room[{size}]; fill(room, {size}, ctx);"


class Frames(unittest.TestCase):
    def run_on(self, code, *options):
        with tempfile.TemporaryDirectory() as folder:
            source, item = os.path.join(folder, "x.c"), os.path.join(folder, "x.o")
            with open(source, "w", encoding="utf-8") as file:
                file.write(HEAD + code)
            subprocess.run(["clang", "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-c", source, "-o",
                            item], check=True)
            return subprocess.run([sys.executable, TOOL, *options, item], capture_output=True,
                                  text=True, check=False)

    def test_frame_is_rounded_up(self):
        code = PROGRAM + " {" + frame(100) + " return 0; }"
        run = self.run_on(code, "--limit", "128")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("program           128 bytes: program 100", run.stdout)
        self.assertEqual(self.run_on(code, "--limit", "127").returncode, 1)

    def test_calls_add_up(self):
        code = "static NOINLINE int inner(void *ctx) {" + frame(200) + " return room[3]; }\n"
        code += PROGRAM + " {" + frame(300) + " return inner(ctx) + room[1]; }"
        run = self.run_on(code)
        self.assertEqual(run.returncode, 1)
        self.assertIn("544 bytes of stack, the limit is 512", run.stderr)

    def test_callback_is_a_call(self):
        code = "static long step(unsigned i, void *ctx) {" + frame(240) + " return room[3] & 1; }\n"
        code += PROGRAM + " {" + frame(300) + " return loop(8, step, room, 0); }"
        run = self.run_on(code)
        self.assertEqual(run.returncode, 1)
        self.assertIn("program 300 > step 240", run.stderr)

    def test_functions_one_after_the_other_share(self):
        code = "static NOINLINE int a(void *ctx) {" + frame(200) + " return room[3]; }\n"
        code += "static NOINLINE int b(void *ctx) {" + frame(210) + " return room[3]; }\n"
        code += PROGRAM + " { return a(ctx) + b(ctx); }"
        run = self.run_on(code)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("> b 210", run.stdout)

    def test_loops_are_granted(self):
        code = PROGRAM + "{ int *p = ctx, sum = 0;\n#pragma clang loop unroll(disable)\n"
        code += "for (int i = 0; i < 100; i++) sum += p[i & 3] ^ i; return sum; }"
        self.assertIn("program: 1 loops, 0 granted", self.run_on(code).stderr)
        self.assertEqual(self.run_on(code, "--loops", "program=1").returncode, 0)

    def test_what_is_no_object_is_refused(self):
        run = subprocess.run([sys.executable, TOOL, __file__], capture_output=True, check=False)
        self.assertNotEqual(run.returncode, 0)


if __name__ == "__main__":
    unittest.main()
