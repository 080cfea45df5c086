#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: V2, V5, V18.
"""Values that are addresses have names; processes with a device mapped give no values; the kernel's code is kept."""

import functools
import os
import re
import subprocess
import tempfile
import unittest

import lib

NAMES = """
    select n.value, n.text, s.name, l.address - s.address as distance from value_name n
    left join location l on l.id = n.location left join frame f on f.location = l.id
    left join symbol s on s.id = f.symbol"""


WORD = 2**64 - 1


def losses(profile):
    return {row["reason"]: row["count"] for row in profile.rows("select reason, count from losses where kind = 'values'")}


def maps(pid, path):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        return path in file.read()


def user_values(profile):
    """Values taken in user space, whose owner is known."""
    return profile.rows("select coalesce(sum(total), 0) as total from value where owner is not null")[0]["total"]


class Pointers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if lib.IS_ROOT:
            cls.program = lib.build("values_pointers.c")

    def setUp(self):
        lib.need_root(self)

    def test_names(self):
        run = lib.record("--values", "--run-every", "1", "-F", "2000", "--", self.program, "2")
        data, bss, heap, stack, memory = (int(word, 16) for word in run.out.decode().split()[:5])
        names = {row["value"]: row for row in run.profile.rows(NAMES)}
        self.assertEqual(tuple(names[data])[1:], (None, "window", 16))
        self.assertEqual(tuple(names[bss])[1:], (None, "counters", 40))
        self.assertEqual(names[heap]["text"], "[heap]")
        self.assertEqual(names[stack]["text"], "[stack]")
        self.assertEqual(names[memory]["text"], "[anon]")
        self.assertIn(("mixed", 0), {(row["name"], row["distance"]) for row in names.values()})
        for value, row in names.items():
            self.assertTrue(row["text"] or row["name"], hex(value))
            self.assertGreaterEqual(value & WORD, 0x10000)
        self.check_printed(run)

    def check_printed(self, run):
        report = subprocess.run([lib.ASSAY, "report", "args", "-i", run.path], capture_output=True, text=True,
                                check=True).stdout
        self.assertRegex(report, r"0x[0-9a-f]+ mixed\b")
        self.assertRegex(report, r"0x[0-9a-f]+ \[heap\]")

    def attach(self, mapped):
        with lib.Program(self.program, "60", mapped) as program:
            lib.wait_until(lambda: maps(program.pid, mapped))
            return lib.record("--values", "--run-every", "1", "-F", "2000", "-p", str(program.pid), "--duration", "1").profile

    def test_device(self):
        """Nothing that lies in /dev is taken for memory unless it is known to be."""
        handle, path = tempfile.mkstemp(dir="/dev")
        os.ftruncate(handle, 4096)
        os.close(handle)
        try:
            profile = self.attach(path)
        finally:
            os.unlink(path)
        lost = losses(profile)
        self.assertGreater(lost["device"], 200, lost)
        self.assertEqual(user_values(profile), 0)

    def test_memory(self):
        profile = self.attach("/dev/zero")
        self.assertNotIn("device", losses(profile))
        self.assertGreater(user_values(profile), 1000)

    def test_device_mapped_later(self):
        """Found at the next look; by then some values may have been taken."""
        handle, path = tempfile.mkstemp(dir="/dev")
        os.ftruncate(handle, 4096)
        os.close(handle)
        try:
            later = lib.record("--values", "--run-every", "1", "-F", "2000", "--", self.program, "4", path, "1.5").profile
        finally:
            os.unlink(path)
        self.assertGreater(losses(later)["device"], 500, losses(later))
        self.assertGreater(user_values(later), 1000)


class KernelCode(unittest.TestCase):
    WORK = "dd if=/dev/zero of=%s bs=64k count=2000 2>&1; dd if=%s of=/dev/null bs=1k 2>&1"

    @functools.lru_cache(maxsize=None)
    def boundaries(self, code, address):
        """Where instructions begin, by another disassembler."""
        path = lib.scratch("code")
        with open(path, "wb") as file:
            file.write(code)
        listing = subprocess.run(["objdump", "-D", "-b", "binary", "-mi386:x86-64", f"--adjust-vma={address:#x}", path],
                                 capture_output=True, text=True, check=True).stdout
        return {int(found.group(1), 16) for found in re.finditer(r"^ *([0-9a-f]+):\t", listing, re.M)}

    def check(self, *options):
        lib.need_root(self)
        file = lib.scratch("file")
        profile = lib.record("-a", "-F", "4000", *options, "--", "sh", "-c", self.WORK % (file, file)).profile
        rows = profile.rows("""
            select s.name, s.address, s.code, s.size, l.address as place, sum(c.count) as self from sample c
            join stack t on t.id = c.stack join location l on l.id = t.location
            join frame f on f.location = l.id join symbol s on s.id = f.symbol
            join module m on m.id = s.module where m.path = '[kernel]' group by l.id order by self desc
            limit 60""")
        self.assertGreater(sum(row["self"] for row in rows), 50)
        good = sum(row["self"] for row in rows
                   if row["code"] and row["place"] & WORD in self.boundaries(row["code"], row["address"] & WORD))
        self.assertGreater(good, 0.98 * sum(row["self"] for row in rows))
        self.annotate(profile, max(rows, key=lambda row: row["self"])["name"], bool(options))

    def annotate(self, profile, name, values):
        run = subprocess.run([lib.ASSAY, "annotate", name, "-i", profile.path, "--json"], capture_output=True,
                             text=True, check=True)
        answer = lib.json.loads(run.stdout)
        self.assertEqual(answer.get("unreadable"), 0 if values else None)
        self.assertGreater(sum(row["self"] for row in answer["rows"]), 0)

    def test_without_values(self):
        self.check()

    def test_with_values(self):
        self.check("--values", "--run-every", "1")


if __name__ == "__main__":
    lib.main()
