#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""S7: a part of the sampler that the kernel refuses is left out with one clear line; the rest is recorded.

A preloaded library plays the kernel that refuses (tests/programs/bpf_refuser.c). Each part is tried with the hash maps
as they are and with all their memory from the start, so that a refusal that lasts takes two.
"""

import json
import os
import subprocess
import unittest

import lib

BUSY = [lib.PYTHON, "-c", "import os\nfor i in range(60000): os.getpid(); os.stat('/')\nfor i in range(2000000): pass"]


def setUpModule():
    if not lib.IS_ROOT:
        raise unittest.SkipTest("only root can load BPF programs")
    os.environ["REFUSER"] = lib.build("bpf_refuser.c", "-shared", "-fPIC", "-ldl")


def environment(refused):
    return {**os.environ, "LD_PRELOAD": os.environ["REFUSER"], "REFUSE": refused}


def record(refused, *options, code=0):
    """The command runs without the library."""
    return lib.record(*options, "--", "env", "-u", "LD_PRELOAD", *BUSY, env=environment(refused), code=code)


def warnings_of(run):
    return [line for line in run.err.splitlines() if "warning" in line and "lost" not in line]


def meta(run, key):
    return run.profile.meta(key) or ""


def kernel_samples(run):
    return sum(stack.count for stack in run.profile.stacks if any(frame.kind == "kernel" for frame in stack.frames))


class RefusedParts(unittest.TestCase):
    def test_nothing_is_refused(self):
        run = record("", "--values")
        self.assertEqual(warnings_of(run), [])
        self.assertEqual(meta(run, "left_out"), "")
        self.assertGreater(kernel_samples(run), 0)

    def test_values_are_left_out(self):
        run = record("sample:2", "--values")
        self.assertEqual(len(warnings_of(run)), 1, run.err)
        self.assertIn("the test refuses sample", warnings_of(run)[0])
        self.assertIn("values are left out", warnings_of(run)[0])
        self.assertEqual((meta(run, "left_out"), meta(run, "values")), ("sampler_values", ""))
        self.assertEqual(meta(run, "sampler"), "bpf")
        self.assertNotIn("runs interpreted", run.err)

    def test_kernel_instructions_are_left_out(self):
        run = record("text_read:2", "--values")
        self.assertEqual(len(warnings_of(run)), 1, run.err)
        self.assertIn("instructions of the kernel are left out", warnings_of(run)[0])
        self.assertEqual((meta(run, "left_out"), meta(run, "values")), ("sampler_kernel_text", "default"))
        self.assertIn("runs interpreted", run.err)

    def test_kernel_code_is_left_out(self):
        run = record("sample:2")
        self.assertEqual(len(warnings_of(run)), 1, run.err)
        self.assertIn("only user code is sampled", warnings_of(run)[0])
        self.assertEqual((meta(run, "left_out"), meta(run, "sampler")), ("sampler_kernel", "bpf"))
        lib.check_sums(self, run.profile)
        self.assertEqual(kernel_samples(run), 0)
        self.assertGreater(run.profile.kept, 20)

    def test_without_bpf_user_code_is_recorded(self):
        run = record("sample:9", "--values")
        self.assertIn("the test refuses sample", warnings_of(run)[0])
        self.assertIn("values are left out", run.err)
        self.assertEqual((meta(run, "sampler"), meta(run, "values")), ("perf ring", ""))
        self.assertGreater(run.profile.kept, 20)

    def test_the_whole_system_without_bpf(self):
        """Where the kernel lets its ring show it, as root, it is recorded from there, kernel code included."""
        run = record("sample:9", "-a")
        self.assertEqual(len(warnings_of(run)), 1, run.err)
        self.assertIn("the test refuses sample", warnings_of(run)[0])
        self.assertEqual(meta(run, "sampler"), "perf ring")
        self.assertGreater(run.profile.kept, 20)
        self.assertGreater(kernel_samples(run), 0)

    def test_preallocated_maps_are_tried_before_anything_is_left_out(self):
        run = record("sample:1", "--values")
        self.assertEqual(warnings_of(run), [])
        self.assertIn("runs interpreted", run.err)

    def test_verbose_shows_the_whole_log(self):
        run = record("sample:2", "--values", "-v")
        for line in ("0: (b7) r0 = 0", "the test refuses sample", "processed 1 insns"):
            self.assertIn("assay: libbpf: " + line + "\n", run.err)

    def test_waits_are_left_out(self):
        run = record("on_switch:1", "--off-cpu", "-v")
        self.assertEqual(len(warnings_of(run)), 1, run.err)
        self.assertIn("on_switch: the test refuses on_switch; what threads wait for is left out", warnings_of(run)[0])
        self.assertIn("assay: libbpf: processed 1 insns\n", run.err)
        self.assertEqual(meta(run, "left_out"), "waits")
        self.assertGreater(run.profile.kept, 20)

    def test_doctor_tries_the_programs_of_waits(self):
        for refused, yes, detail in (("", True, "loaded it"),
                                     ("on_waking:9", False, "on_waking: the test refuses on_waking")):
            text = subprocess.run([lib.ASSAY, "doctor", "--json"], env=environment(refused), check=True,
                                  capture_output=True, text=True).stdout
            row = {row["ability"]: row for row in json.loads(text)["rows"]}["waits"]
            self.assertEqual((row["yes"], row["detail"]), (yes, detail))

    def test_doctor_says_which_part_fails_and_why(self):
        text = subprocess.run([lib.ASSAY, "doctor", "--json"], env=environment("text_read:9"), check=True,
                              capture_output=True, text=True).stdout
        rows = {row["ability"]: row for row in json.loads(text)["rows"]}
        for name in ("sampler_user", "sampler_kernel", "sampler_values"):
            self.assertTrue(rows[name]["yes"], rows[name])
        self.assertFalse(rows["sampler_kernel_text"]["yes"])
        self.assertEqual(rows["sampler_kernel_text"]["detail"], "text_read: the test refuses text_read")
        self.assertEqual(rows["sampler_kernel_text"]["log"],
                         "0: (b7) r0 = 0\nthe test refuses text_read\nprocessed 1 insns\n")
        text = subprocess.run([lib.ASSAY, "doctor"], env=environment("sample:9"), check=True, capture_output=True,
                              text=True).stdout
        self.assertIn("     | the test refuses sample\n", text)


if __name__ == "__main__":
    lib.main()
