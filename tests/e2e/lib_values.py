# SPDX-License-Identifier: BSD-2-Clause
"""Value profiles against exact counts.

tests/programs/values_*.c call a function work() for ever, and each call does exactly the same. values_counter steps
one call instruction by instruction and counts every value; a recording of the running program samples them. What
the report says about a place is then held against the counts.

A place is judged if at least RUNS of the interpreted runs came by: the values of one run are no independent samples.
"""

import collections
import concurrent.futures
import subprocess
import sys

import lib

PROGRAMS = ("interpreter", "table", "polynomial", "parser", "shares")
RUNS = 200
NEAR = 0.03
TIE = 0.01

# Ends when process argv[1] has used argv[2] seconds of CPU time, or after a minute.
CPU_WAIT = """
import os, sys, time
def used():
    fields = open(f"/proc/{sys.argv[1]}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
begun, end = used(), time.monotonic() + 60
while used() - begun < float(sys.argv[2]) and time.monotonic() < end:
    time.sleep(0.02)
"""

# item: result, arg0, ...; address of the instruction or function; caller: last byte of the call, or 0
Site = collections.namedtuple("Site", "item address caller")
# share: that of the value shown first; true: its real share; best: that of the value that really is the first
Verdict = collections.namedtuple("Verdict", "site runs total share low high true best")


def is_near(verdict):
    return abs(verdict.share - verdict.true) <= NEAR


def is_right(verdict):
    return verdict.best - verdict.true <= TIE


def is_bounded(verdict):
    return verdict.low - 1e-9 <= verdict.true <= verdict.high + 1e-9


def symbol_address(path, name):
    symbols = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    return next(int(line.split()[0], 16) for line in symbols.splitlines() if line.split()[-1] == name)


class Subject:
    """A program and the truth about it: site to the counts of its values."""

    def __init__(self, name):
        self.name = name
        # No string instructions: what their result is, is a matter of taste.
        self.path = lib.build(f"values_{name}.c", "-fno-tree-loop-distribute-patterns")
        self.work = symbol_address(self.path, "work")
        self.counts = collections.defaultdict(dict)
        count = subprocess.run([counter(), "count", self.path, f"{self.work:x}"], capture_output=True, text=True,
                               timeout=300)
        assert count.returncode == 0, (name, count.stderr)
        self.steps = int(count.stderr.split()[0])
        for line in count.stdout.splitlines():
            item, *numbers, times = line.split()
            address, caller, value = (int(number, 16) for number in numbers)
            self.counts[Site(item, address, caller)][value] = int(times)

    def record(self, seconds, *options, rate=4999):
        """The rows of the report on a recording of so many seconds of the program's CPU time, and thus as many
        samples however busy the machine is."""
        with lib.Program(counter(), "run", self.path) as program:
            run = lib.record("-F", str(rate), "-p", str(program.pid), *options, "--", sys.executable, "-c", CPU_WAIT,
                             str(program.pid), str(seconds))
        rows = lib.report(run.path, "values")["rows"]
        return [row for row in rows if row["module"] == f"values_{self.name}" and self.is_counted(row)]

    def is_counted(self, row):
        """Only one call of work() was counted: what comes before and after it was not."""
        returns = row["symbol"] == "work" and row["item"] == "target"
        return "main" not in (row["symbol"], row["caller_symbol"]) and not returns

    def judge(self, rows):
        """Verdicts on the places with enough runs."""
        for row in rows:
            if row["runs"] < RUNS:
                continue
            site, first = row_site(row), row["values"][0]
            counts = self.counts[site]
            total = sum(counts.values())
            yield Verdict(site, row["runs"], row["total"], first["share"], first["low"], first["high"],
                          counts.get(int(first["value"], 16), 0) / total, max(counts.values()) / total)


def row_site(row):
    return Site(row["item"].split("@")[0], int(row["address"], 16), int(row["caller"] or "0", 16))


def counter():
    """Built when first asked for."""
    if not counter.path:
        counter.path = lib.build("values_counter.c", "-lZydis")
    return counter.path


counter.path = None


def subjects(names=PROGRAMS):
    """Two are counted at a time: stepping is slow."""
    counter()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(Subject, names))


def ratio(verdicts, test):
    return sum(map(test, verdicts)) / len(verdicts)
