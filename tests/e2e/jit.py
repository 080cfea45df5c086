#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Code made at run time: named by /tmp/perf-PID.map, and walked through by frame pointers into its callers."""

import collections
import os
import shutil
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


if __name__ == "__main__":
    lib.main()
