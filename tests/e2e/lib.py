# SPDX-License-Identifier: BSD-2-Clause
"""What the end-to-end tests share: building the programs, recording, reading a profile, what ELF files say.

A profile is read with Python's sqlite3 straight from the tables, so that a test does not depend on the reader
that it tests.
"""

import atexit
import collections
import functools
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ASSAY = os.path.abspath(os.environ.get("ASSAY", os.path.join(ROOT, "build/assay")))
PROGRAMS = os.path.join(ROOT, "tests/programs")
SCRATCH = tempfile.mkdtemp(prefix="e2e-")
os.chmod(SCRATCH, 0o755)
PYTHON = "/usr/bin/python3"
SKIPPED = 77
IS_ROOT = os.geteuid() == 0

os.environ["ASSAY_CACHE_DIR"] = os.path.join(SCRATCH, "cache")
os.environ["DEBUGINFOD_URLS"] = ""
os.environ["ASSAY_ENGINE_CHECKS"] = "1"  # the engine dies if a thread goes from one state to another that cannot follow
os.makedirs(os.environ["ASSAY_CACHE_DIR"])
atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)


# Whoever runs the tests in the background may ignore these, and what is ignored is inherited.
for ignored in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    signal.signal(ignored, signal.SIG_DFL)


def scratch(name):
    return os.path.join(SCRATCH, name)


# --- Programs --------------------------------------------------------------------------------------------

COMPILERS = {".c": ["gcc", "-std=gnu11"], ".cc": ["g++", "-std=c++17"], ".S": ["gcc"]}
# As Debian builds: optimised, without frame pointers; with names and lines.
FLAGS = ["-D_GNU_SOURCE", "-O2", "-g", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-fno-ipa-icf",
         "-Wall", "-Werror", "-pthread"]


def build(source, *flags, name=None):
    """Builds tests/programs/SOURCE; flags come last, so libraries can be among them."""
    stem, suffix = os.path.splitext(source)
    output = scratch(name or stem)
    subprocess.run(COMPILERS[suffix] + FLAGS + ["-o", output, os.path.join(PROGRAMS, source), *flags],
                   check=True)
    return output


# --- Recording -------------------------------------------------------------------------------------------

class Run:
    """A finished assay record."""

    def __init__(self, code, out, err, path):
        self.code, self.out, self.err, self.path = code, out, err, path

    @functools.cached_property
    def profile(self):
        return Profile(self.path)


def stolen_seconds():
    """CPU time that the hypervisor has given to others, of all CPUs since the machine's start."""
    with open("/proc/stat", encoding="ascii") as stream:
        return int(stream.readline().split()[8]) / os.sysconf("SC_CLK_TCK")


STOLEN = {"before": stolen_seconds()}


def stolen():
    """
    The same since the last recording began. The sampling clock goes on meanwhile, and the scheduler does not charge it:
    by so much the number of samples may differ from what the CPU time of a program promises.
    """
    return stolen_seconds() - STOLEN["before"]


def record(*arguments, output=None, code=0, prefix=(), assay=ASSAY, **options):
    """assay record ARGUMENTS; the code must be as expected unless it is None."""
    path = output or tempfile.mktemp(suffix=".db", dir=SCRATCH)
    STOLEN["before"] = stolen_seconds()
    run = subprocess.run([*prefix, assay, "record", "-o", path, *arguments], capture_output=True,
                         timeout=120, **{"stdin": subprocess.DEVNULL, **options})
    if code is not None:
        assert run.returncode == code, (run.args, run.returncode, run.stderr)
    return Run(run.returncode, run.stdout, run.stderr.decode(), path)


def report(path, *arguments):
    """The JSON of assay report."""
    run = subprocess.run([ASSAY, "report", "-i", path, "--json", *arguments], capture_output=True, text=True,
                         timeout=60)
    assert run.returncode == 0, (run.args, run.returncode, run.stderr)
    return json.loads(run.stdout)


class Program:
    """A program that runs by itself until the end of the block; what it prints says when it is ready."""

    def __init__(self, *command, ready=None, prefix=(), **options):
        self.process = subprocess.Popen([*prefix, *command], stdout=subprocess.PIPE, text=True,
                                        **{"stdin": subprocess.DEVNULL, **options})
        self.pid = self.process.pid
        if ready:
            self.line = self.process.stdout.readline().strip()
            assert self.line.startswith(ready), (command, self.line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def wait_until(condition, seconds=30):
    """Polls; a condition that never comes true is a failure."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def program_of(pid):
    """The process that an assay with this id has started; 0: none executes a program yet."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as stream:
            for child in map(int, stream.read().split()):
                # Besides, it may have processes that read symbols.
                if not os.path.samefile(f"/proc/{child}/exe", ASSAY):
                    return child
    except OSError:
        pass
    return 0


def has_tables(path):
    """Whether the recording has begun: the file holds its row."""
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5) as database:
            return database.execute("select count(*) from recording").fetchone()[0] == 1
    except sqlite3.OperationalError:
        return False


class Recording:
    """assay record in the background."""

    def __init__(self, *arguments, output=None, prefix=(), **options):
        self.path = output or tempfile.mktemp(suffix=".db", dir=SCRATCH)
        self.process = subprocess.Popen(
            [*prefix, ASSAY, "record", "-o", self.path, *arguments],
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})

    def wait_begun(self):
        wait_until(lambda: has_tables(self.path) or self.process.poll() is not None)
        assert self.process.poll() is None, self.process.communicate()

    def stop(self, number=signal.SIGINT, code=0):
        self.process.send_signal(number)
        return self.wait(code)

    def wait(self, code=0):
        out, err = self.process.communicate(timeout=60)
        if code is not None:
            assert self.process.returncode == code, (self.process.returncode, err)
        return Run(self.process.returncode, out, err.decode(), self.path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


# --- Profiles --------------------------------------------------------------------------------------------

# names: innermost inlined function first, the function itself last; empty when nothing is known.
Frame = collections.namedtuple("Frame", "names module path kind address start")
# frames: innermost first, kernel frames included.
Stack = collections.namedtuple("Stack", "frames count pid tid comm process")


def frame_name(frame):
    return frame.names[-1] if frame.names else "[unknown]"


class Profile:
    def __init__(self, path):
        self.path = path
        self.database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self.database.row_factory = sqlite3.Row

    def rows(self, query, *values):
        return self.database.execute(query, values).fetchall()

    def value(self, query, *values):
        return self.database.execute(query, values).fetchone()[0]

    def meta(self, key):
        """A fact or a metric of any recording, as text; or whether the file is finished."""
        rows = self.rows("select value from facts where key = ?1 union all select value from meta where key = ?1", key)
        return rows[0][0] if rows else None

    def total(self, kind, column):
        """seen, kept or lost of the recording of that kind."""
        return self.value(f"select {column} from recordings where kind = ?", kind)

    @functools.cached_property
    def frames(self):
        """Location -> Frame."""
        names, starts = collections.defaultdict(list), {}
        for row in self.rows("select location, name, symbol.address from frame join symbol on symbol.id = symbol "
                             "order by location, depth"):
            names[row[0]].append(row[1])
            starts[row[0]] = row[2]
        return {row["id"]: Frame(tuple(names[row["id"]]), row["name"], row["path"], row["kind"],
                                 row["address"] % 2 ** 64, starts.get(row["id"]))
                for row in self.rows("select location.id, name, path, kind, address from location "
                                     "join module on module.id = module")}

    @functools.cached_property
    def stacks(self):
        nodes = {row[0]: (row[1], row[2]) for row in self.rows("select id, parent, location from stack")}

        def walk(node):
            while node:
                node, location = nodes[node]
                yield self.frames[location]

        return [Stack(tuple(walk(row["stack"])), row["count"], row["pid"], row["tid"], row["comm"], row["process"])
                for row in self.rows("select stack, count, pid, tid, thread.comm, process from sample "
                                     "join thread on thread.id = thread join process on process.id = process")]

    def user_stacks(self, pid=None):
        """Without their kernel frames; those of kernel threads and exiting tasks are left out."""
        for stack in self.stacks:
            frames = tuple(frame for frame in stack.frames if frame.kind != "kernel")
            if frames and (pid is None or stack.pid == pid):
                yield stack._replace(frames=frames)

    @property
    def kept(self):
        return self.value("select kept from totals")

    @property
    def seen(self):
        return self.value("select seen from totals")

    @property
    def lost(self):
        return self.value("select lost from totals")

    def ends(self):
        return dict(self.database.execute("select reason, count from stack_end"))

    def losses(self):
        return dict(self.database.execute("select reason, count from losses where kind = 'samples'"))

    def self_counts(self, pid=None):
        """Innermost function -> samples."""
        counts = collections.Counter()
        for stack in self.stacks:
            if pid is None or stack.pid == pid:
                counts[frame_name(stack.frames[0])] += stack.count
        return counts

    def process(self, pid=None, **columns):
        """The one process with these values."""
        columns = {**columns, **({"pid": pid} if pid is not None else {})}
        where = " and ".join(f"{name} = ?" for name in columns)
        rows = self.rows(f"select * from process where {where}", *columns.values())
        assert len(rows) == 1, (columns, [tuple(row) for row in self.rows("select * from process")])
        return rows[0]


def share(part, whole):
    return part / whole if whole else 0.0


def check_sums(test, profile, at_least=1):
    """What must hold in every profile: nothing disappears."""
    test.assertEqual(profile.seen, profile.kept + profile.lost)
    test.assertEqual(profile.total("samples", "seen"), profile.seen)
    test.assertEqual(sum(profile.ends().values()), profile.kept)
    test.assertEqual(sum(stack.count for stack in profile.stacks), profile.kept)
    test.assertGreaterEqual(profile.kept, at_least)


# --- What ELF files say ----------------------------------------------------------------------------------

@functools.lru_cache(maxsize=None)
def elf_entry(path):
    run = subprocess.run(["readelf", "-hW", path], capture_output=True, text=True, check=True)
    return int(re.search(r"Entry point address:\s+(0x[0-9a-f]+)", run.stdout).group(1), 16)


@functools.lru_cache(maxsize=None)
def elf_outermost(path):
    """Ranges whose unwind tables say that there is no return address: by that a root is known."""
    run = subprocess.run(["readelf", "-wF", path], capture_output=True, text=True)
    ranges, current = [], None
    for line in run.stdout.splitlines():
        found = re.search(r"FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)", line)
        if found:
            current = (int(found.group(1), 16), int(found.group(2), 16))
        elif current and re.fullmatch(r"[0-9a-f]{16} .*\bu\s*", line):
            ranges.append(current)
            current = None
    return ranges


def is_root(frame):
    """_start of the program or of the dynamic loader, or the start of a thread (clone)."""
    if frame.kind != "elf" or not os.path.exists(frame.path):
        return False
    if 0 <= frame.address - elf_entry(frame.path) < 64:
        return True
    return any(start <= frame.address < end for start, end in elf_outermost(frame.path))


@functools.lru_cache(maxsize=None)
def elf_segments(path):
    """(offset, address, bytes in the file) of each segment that is loaded."""
    run = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True, check=True)
    return [(int(fields[1], 16), int(fields[2], 16), int(fields[4], 16))
            for fields in map(str.split, run.stdout.splitlines()) if fields[:1] == ["LOAD"]]


# --- Running ---------------------------------------------------------------------------------------------

def need_root(test):
    if not IS_ROOT:
        test.skipTest("needs root")


def main():
    """unittest.main() that ends with 77 when there was nothing but skipping."""
    if not os.access(ASSAY, os.X_OK):
        print(f"{ASSAY} does not exist: build first")
        sys.exit(1)
    program = unittest.main(argv=[sys.argv[0], "-v"] + sys.argv[1:], exit=False)
    result = program.result
    sys.stderr.flush()
    if not result.wasSuccessful():
        sys.exit(1)
    if result.testsRun and len(result.skipped) == result.testsRun:
        print("; ".join(sorted({reason for _, reason in result.skipped})))
        sys.exit(SKIPPED)
