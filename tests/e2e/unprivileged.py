#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""An ordinary user: what the kernel allows is done, and one line says what is missing and how to get it."""

import os
import shutil
import subprocess
import unittest

import lib

NOBODY = 65534
PREFIX = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env", f"HOME={lib.scratch('nobody')}"]
PARANOID = "/proc/sys/kernel/perf_event_paranoid"
SCRIPT = "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nfor i in range(120): fib(23)"


def folder():
    return lib.scratch("nobody")


def record(*arguments, **options):
    """As nobody, into nobody's folder, with a copy of assay that nobody may read."""
    path = os.path.join(folder(), f"{len(os.listdir(folder()))}.db")
    return lib.record(*arguments, prefix=PREFIX, assay=lib.scratch("assay"), output=path, cwd=folder(), **options)


def setUpModule():
    if not lib.IS_ROOT:
        raise unittest.SkipTest("only root can become somebody else")
    os.mkdir(folder())
    os.chown(folder(), NOBODY, NOBODY)
    os.environ["ASSAY_CACHE_DIR"] = os.path.join(folder(), "cache")
    shutil.copy(lib.ASSAY, lib.scratch("assay"))
    os.chmod(lib.scratch("assay"), 0o755)
    with open(PARANOID, encoding="ascii") as file:
        level = file.read()
    if int(level) > 2:
        unittest.addModuleCleanup(paranoid_set, level)
        paranoid_set("2")


def paranoid_set(level):
    with open(PARANOID, "w", encoding="ascii") as file:
        file.write(level)


def warnings_of(text):
    """Besides those of samples lost, which a busy machine may bring."""
    return [line for line in text.splitlines() if "warning" in line and "samples lost" not in line]


class Unprivileged(unittest.TestCase):
    def warned(self, text):
        """The one line: what is missing, what it means, the remedy."""
        warnings = warnings_of(text)
        self.assertEqual(len(warnings), 1, text)
        for word in ("BPF", "Operation not permitted", "own processes", "root", "setcap"):
            self.assertIn(word, warnings[0])

    def test_command(self):
        run = record("-F", "1997", "--", lib.PYTHON, "-c", SCRIPT)
        self.warned(run.err)
        lib.check_sums(self, run.profile, 300)
        ends = run.profile.ends()
        self.assertGreaterEqual(ends["complete"], 0.95 * run.profile.kept, ends)
        rooted = sum(stack.count for stack in run.profile.user_stacks() if lib.is_root(stack.frames[-1]))
        self.assertGreaterEqual(rooted, 0.95 * run.profile.kept)
        self.assertGreater(run.profile.self_counts()["_PyEval_EvalFrameDefault"], 0.2 * run.profile.kept)
        self.assertEqual([stack for stack in run.profile.stacks if stack.frames[0].kind == "kernel"], [])

    def test_rate(self):
        run = record("-F", "1997", "--", lib.build("spend.c"), "0.5")
        expected = int(run.out) / 1e9 * 1997
        self.assertAlmostEqual(run.profile.seen, expected, delta=0.06 * expected)
        lib.check_sums(self, run.profile)

    def test_identity(self):
        run = record("--", lib.build("chain.c", "-DWORK=mine", name="mine"), "0.3")
        process = run.profile.process(comm="mine")
        self.assertEqual(tuple(process[name] for name in ("uid", "gid", "euid", "egid")), (NOBODY,) * 4)
        self.assertEqual(process["exe"], lib.scratch("mine"))
        self.assertGreater(process["ppid"], 1)

    def test_exit_code(self):
        record("--", "sh", "-c", "exit 9", code=9)

    def test_attach_own(self):
        program = lib.build("later.c")
        with lib.Program(program, ready="ready", prefix=PREFIX, stdin=subprocess.PIPE) as target:
            run = record("-p", str(target.pid), "--duration", "0.5")
            target.process.stdin.close()
        lib.check_sums(self, run.profile, 40)
        early = sum(stack.count for stack in run.profile.stacks
                    if any("early_work" in frame.names for frame in stack.frames))
        self.assertGreater(early, 0.9 * run.profile.kept)

    def refused(self, arguments, *words):
        before = sorted(os.listdir(folder()))
        run = record(*arguments, code=1)
        last = run.err.splitlines()[-1]
        for word in words:
            self.assertIn(word, last)
        self.assertEqual(sorted(os.listdir(folder())), before)
        self.assertEqual(run.out, b"")
        return last

    def test_system_refused(self):
        self.refused(["-a", "--", "echo", "ran"], "whole system", "root")
        self.refused(["-C", "0", "--duration", "0.1"], "whole system", "root")

    def test_other_users_process_refused(self):
        with lib.Program(lib.build("forever.c", "-DWORK=others", name="others"), ready="ready") as target:
            text = self.refused(["-p", str(target.pid), "--duration", "0.2"], str(target.pid), "root")
        with open(PARANOID, encoding="ascii") as file:
            level = file.read().strip()
        self.assertNotIn(f"set it to {level}", text, "a remedy that changes nothing")

    def test_user_only_by_choice(self):
        """Root may ask for the same; nothing is missing, so nothing is said."""
        run = lib.record("--user-only", "-F", "1997", "--", lib.build("spend.c"), "0.3")
        self.assertEqual(warnings_of(run.err), [])
        self.assertEqual(run.profile.meta("sampler"), "perf ring")
        expected = int(run.out) / 1e9 * 1997
        self.assertAlmostEqual(run.profile.seen, expected, delta=0.06 * expected)


if __name__ == "__main__":
    lib.main()
