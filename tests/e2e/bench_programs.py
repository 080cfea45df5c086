#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: S2.
"""What the measurements in bench/ compile can be compiled: a script that nobody can run again proves nothing."""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import unittest

import lib

BENCH = os.path.join(os.path.dirname(lib.PROGRAMS), "..", "bench")
sys.dont_write_bytecode = True
sys.path.insert(0, BENCH)

import common  # noqa: E402


def script(name):
    """A script of bench/, as a module."""
    loader = importlib.machinery.SourceFileLoader("bench_" + name.replace("-", "_"), os.path.join(BENCH, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class Compiler:
    """As much of a bench as compiling needs."""

    def path(self, name):
        return lib.scratch(name)

    def call(self, words):
        subprocess.run(words, check=True)


class Programs(unittest.TestCase):
    def test_flow(self):
        self.assertTrue(os.access(common.compile_flow(Compiler()), os.X_OK))

    def test_hotlists(self):
        self.assertTrue(os.access(script("hotlists").compile_program(Compiler()), os.X_OK))


if __name__ == "__main__":
    lib.main()
