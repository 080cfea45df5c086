#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: V1.
"""At least 99 of 100 user stacks reach their root, and what they end in is a root.

The profile's own count (stack_end) is not believed: the last frame of each stack is compared with the entry
point of its ELF file and with the places whose unwind tables, as readelf prints them, have no return address.
"""

import collections
import glob
import os
import shutil
import subprocess
import unittest

import lib

ENOUGH = 0.99
AT_LEAST = 300  # samples: below, 99 % means little
SCRIPT = """
import re
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
fib(22); sorted(range(200000), key=lambda i: -i); re.sub('a+', 'b', 'aab' * 100000)
import time
while time.process_time() < 0.6: fib(21); sum(j * j for j in range(300000))
"""
SCENES = ["/usr/share/doc/povray/examples/advanced/woodbox.pov",
          *sorted(glob.glob("/usr/share/doc/povray/examples/advanced/*.pov"))]
# A goroutine starts in goexit; what runs on a thread's own stack starts in the others.
GO_ROOTS = {"runtime.goexit", "runtime.mstart", "runtime.rt0_go", "_rt0_amd64_linux", "_rt0_amd64",
            "runtime.clone"}


def root_share(profile, is_root):
    """The share of user stacks with a true root, and what the others end in."""
    good, all_, wrong = 0, 0, collections.Counter()
    for stack in profile.user_stacks():
        all_ += stack.count
        if is_root(stack.frames[-1]):
            good += stack.count
        else:
            wrong[(lib.frame_name(stack.frames[0]), lib.frame_name(stack.frames[-1]),
                   stack.frames[-1].module)] += stack.count
    return lib.share(good, all_), wrong


class StacksComplete(unittest.TestCase):
    def check(self, *command, is_root=lib.is_root, rate="1997", **options):
        profile = lib.record("-F", rate, "--", *command, **options).profile
        lib.check_sums(self, profile, AT_LEAST)
        ends = profile.ends()
        walked = sum(ends.values()) - ends.get("no_user", 0)
        self.assertGreaterEqual(walked, 0.9 * profile.kept)
        self.assertGreaterEqual(lib.share(ends.get("complete", 0), walked), ENOUGH, ends)
        truly, wrong = root_share(profile, is_root)
        self.assertGreaterEqual(truly, ENOUGH, wrong.most_common(10))
        return profile

    def test_python(self):
        self.check(lib.PYTHON, "-c", SCRIPT)

    def test_xz(self):
        path = lib.scratch("data")
        with open(path, "wb") as file:
            for _ in range(14):
                with open(os.path.realpath(lib.PYTHON), "rb") as source:
                    file.write(source.read(400000))
        self.check("xz", "-T1", "-6", "-k", "-c", path)

    def test_povray(self):
        scenes = [scene for scene in SCENES if os.path.exists(scene)]
        if not shutil.which("povray") or not scenes:
            self.skipTest("no povray or no example scenes")
        self.check("povray", "+I" + scenes[0], "+W640", "+H640", "-D", "+O/dev/null", "-GA",
                   rate="997", cwd=lib.SCRATCH)

    def test_cxx_throws_and_catches(self):
        profile = self.check(lib.build("throws.cc"), "0.6")
        names = {name for stack in profile.stacks for frame in stack.frames for name in frame.names}
        self.assertTrue(any("_Unwind" in name for name in names), "no sample within a throw")
        deepest = max(sum(lib.frame_name(frame).startswith("dive") for frame in stack.frames)
                      for stack in profile.stacks)
        self.assertEqual(deepest, 41)

    def test_threads(self):
        profile = self.check(lib.build("threads.c"), "0.15")
        roots = collections.Counter()
        for stack in profile.user_stacks():
            names = [lib.frame_name(frame) for frame in stack.frames]
            if "burn" in names:
                self.assertEqual(names.count("work"), 1)
                self.assertNotIn("main", names)
                roots[stack.frames[-1].address] += 1
        self.assertEqual(len(roots), 1, roots)

    def test_go(self):
        if not shutil.which("go"):
            self.skipTest("no go")
        self.check(build_go(), is_root=is_go_root)

    def test_rust(self):
        program = build_rust()
        if not program:
            self.skipTest("no rustc that links statically")
        self.check(program)

    def test_go_or_rust(self):
        """One of the two may be missing, not both."""
        self.assertTrue(shutil.which("go") or build_rust(), "neither Go nor Rust: install golang-go")


def is_go_root(frame):
    return lib.frame_name(frame).removesuffix(".abi0") in GO_ROOTS


def build_go():
    output = lib.scratch("sorts-go")
    subprocess.run(["go", "build", "-o", output, os.path.join(lib.PROGRAMS, "sorts.go")], check=True,
                   env={**os.environ, "CGO_ENABLED": "0", "GOCACHE": lib.scratch("gocache"),
                        "GO111MODULE": "off", "GOFLAGS": ""})
    return output


def build_rust():
    """None without a compiler."""
    for compiler in ("/usr/bin/rustc", "rustc"):
        output = lib.scratch("sorts-rust")
        if shutil.which(compiler) and subprocess.run(
                [compiler, "-O", "-C", "target-feature=+crt-static", "-o", output,
                 os.path.join(lib.PROGRAMS, "sorts.rs")]).returncode == 0:
            return output
    return None


if __name__ == "__main__":
    lib.main()
