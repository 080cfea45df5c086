#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: I8, S10.
"""A sweep gives each page of a program its turn, again and again, and what it found is one table."""

import json
import os
import re
import signal
import subprocess
import unittest

import lib

SECONDS = 30
PAGE = 4096


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def pages_of(path):
    """All pages of code in the file, by readelf, as marks."""
    found = set()
    for start, size in re.findall(r"LOAD\s+\S+\s+(0x\w+)\s+\S+\s+\S+\s+(0x\w+)\s+R E", output("readelf", "-lW", path)):
        start, end = int(start, 16), int(start, 16) + int(size, 16)
        for page in range(start - start % PAGE, end, PAGE):
            found.add(f"{os.path.basename(path)}!0x{max(page, start):x}-0x{min(page + PAGE, end):x}")
    return found


class Sweep(unittest.TestCase):
    def test_pages(self):
        """Functions that run have a page each: all of them count, and no page is left out."""
        program = lib.build("marks_events.c", "-O1", "-falign-functions=4096", name="swept")
        path = lib.scratch("sweep.db")
        pages = pages_of(program)
        self.assertGreater(len(pages), 4)
        symbols = {name: int(address, 16) for address, name in re.findall(r"(?m)^(\w+) T (\w+)$", output("nm", program))}
        executed = {page for page in pages for name in ("leaf", "first", "second", "main")
                    if int(page.split("!")[1].split("-")[0], 16) // PAGE == symbols[name] // PAGE}
        self.assertEqual(len(executed), 4)

        def counted(pid):
            run = subprocess.run([lib.ASSAY, "count", "--live", str(pid), "--json"], capture_output=True, text=True)
            rows = json.loads(run.stdout)["rows"] if run.returncode == 0 else []
            return {row["mark"]: row["instructions"] for row in rows}

        with subprocess.Popen([lib.ASSAY, "count", "-q", "--sweep", "swept", "--every", "100ms", "-o", path, "--", program,
                               str(10**15)]) as count:
            lib.wait_until(lambda: lib.program_of(count.pid))
            child = lib.program_of(count.pid)
            try:
                lib.wait_until(lambda: all(counted(child).get(page) for page in executed) and counted(child).keys() == pages,
                               SECONDS)
                before = counted(child)
                # The next round goes on with the same marks.
                lib.wait_until(lambda: all(counted(child)[page] > before[page] for page in executed), SECONDS)
            finally:
                os.kill(child, signal.SIGTERM)
            count.wait(SECONDS)
        rows = json.loads(output(lib.ASSAY, "report", "marks", "-i", path, "--json"))["rows"]
        self.assertEqual({row["mark"] for row in rows}, pages)
        for row in rows:
            if row["mark"] in executed:
                self.assertGreater(row["instructions"], before[row["mark"]])

    def test_other_modules_are_left_alone(self):
        """A module that is not there: nothing is marked, which is said, and the program runs as ever."""
        path = lib.scratch("none.db")
        run = subprocess.run([lib.ASSAY, "count", "--sweep", "no-such-module", "-o", path, "--", "/bin/echo", "done"],
                             capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual((run.returncode, run.stdout), (0, "done\n"))
        self.assertIn("no page of 'no-such-module' had its turn", run.stderr)
        self.assertEqual(json.loads(output(lib.ASSAY, "report", "marks", "-i", path, "--json"))["rows"], [])


if __name__ == "__main__":
    unittest.main()
