#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: V1.
"""Stacks go through frames that are found from other registers than rsp and rbp, down to the right callers.

The frames are those of tests/programs/registers.c; without the registers, the walk ends there.
"""

import unittest

import lib

ENOUGH = 0.99
AT_LEAST = 300


class StacksRegisters(unittest.TestCase):
    def check(self, which, callers):
        """callers: innermost first, as they must follow the first of them wherever it is."""
        profile = lib.record("-F", "1997", "--", lib.build("registers.c"), which).profile
        lib.check_sums(self, profile, AT_LEAST)
        ends = profile.ends()
        walked = sum(ends.values()) - ends.get("no_user", 0)
        self.assertGreaterEqual(lib.share(ends.get("complete", 0), walked), ENOUGH, ends)
        met = 0
        for stack in profile.user_stacks():
            names = [lib.frame_name(frame) for frame in stack.frames]
            if callers[0] not in names or not lib.is_root(stack.frames[-1]):
                continue
            at = names.index(callers[0])
            self.assertEqual(names[at:at + len(callers)], callers)
            met += stack.count
        return met / profile.kept

    def test_cfa_in_a_scratch_register(self):
        self.assertGreater(self.check("scratch", ["counts_from_rax", "middle", "main"]), 0.9)

    def test_cfa_in_rbx(self):
        self.assertGreater(self.check("rbx", ["saves_rbx", "counts_from_rbx", "middle", "main"]), 0.9)

    def test_return_address_in_a_register(self):
        self.assertGreater(self.check("vfork", ["forks", "middle", "main"]), 0.3)


if __name__ == "__main__":
    lib.main()
