# SPDX-License-Identifier: BSD-2-Clause
"""What the measurements share: the programs measured, the recorders, profiles, statistics and how results are printed.

A script makes a Bench, which owns a scratch folder and prints. Everything that is started runs to its end or is ended
with the Bench; nothing is measured beside anything else.
"""

import argparse
import bisect
import contextlib
import os
import platform
import re
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = os.path.join(ROOT, "bench/programs")
SCENE = "/usr/share/doc/povray/examples/advanced/chess2.pov"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
ENTRY_SIZE = 64  # bytes of code at an entry point, where the dynamic linker has no .eh_frame


class Broken(Exception):
    """The measurement could not be made: no verdict, exit status 1."""


class Bench:
    def __init__(self, description):
        parser = argparse.ArgumentParser(description=description.split("\n")[0])
        parser.add_argument("--quick", action="store_true",
                            help="few and short runs: shows that the script works, decides nothing")
        parser.add_argument("--runs", type=int, help="runs of each kind")
        parser.add_argument("--keep", action="store_true", help="keep the scratch folder")
        self.options = parser.parse_args()
        self.quick = self.options.quick
        self.assay_path = find_assay()
        self.scratch = tempfile.mkdtemp(prefix="assay-bench-")
        self.children = []

    def runs(self, full, quick):
        return self.options.runs or (quick if self.quick else full)

    def path(self, name):
        return os.path.join(self.scratch, name)

    def compile(self, name):
        """The path of bench/programs/NAME.c as a program with symbols and without debug information."""
        program = self.path(name)
        if not os.path.exists(program):
            source = os.path.join(PROGRAMS, name + ".c")
            self.call([os.environ.get("CC", "cc"), "-O2", "-o", program, source])
        return program

    def call(self, command, statuses=(0,), **options):
        """Runs a command to its end and returns what it printed."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL,
                   "cwd": self.scratch, "text": True, "errors": "replace", **options}
        try:
            done = subprocess.run(command, **options)
        except OSError as error:
            raise Broken(f"cannot run {command[0]}: {error.strerror}") from error
        if done.returncode not in statuses:
            raise Broken(f"{' '.join(command)}: status {done.returncode}: {(done.stderr or '').strip()[-600:]}")
        return done.stdout

    def start(self, command, **options):
        """Starts a command in a process group of its own; stop() or the end of the Bench ends it."""
        child = subprocess.Popen(command, cwd=self.scratch, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 start_new_session=True, **options)
        self.children.append(child)
        return child

    def stop(self, child, number=signal.SIGKILL):
        """Ends the command's process group and waits. Returns the status; rusage stays in child.usage."""
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, number)
        return self.wait(child)

    def wait(self, child):
        if child.returncode is None:
            _, status, child.usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        if child in self.children:
            self.children.remove(child)
        return child.returncode

    def timed(self, prefix, command, clock=False):
        """Runs prefix + command and returns how the command itself fared, whatever the prefix did around it."""
        result = self.path("timer.out")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(result)
        env = {**os.environ, **({"TIMER_CLOCK": "1"} if clock else {})}
        self.call(prefix + [self.compile("timer"), result] + command, stdout=subprocess.DEVNULL, env=env)
        with open(result, encoding="ascii") as stream:
            return Timing(*map(int, stream.read().split()))

    def record(self, profile, rate, *more):
        """The words before a command that record it with Assay."""
        return [self.assay_path, "record", "-q", "-F", str(rate), "-o", profile, *more, "--"]

    def perf_record(self, data, rate, *more):
        """The same for perf."""
        return ["perf", "record", "-q", "-g", "-e", "cpu-clock", "-F", str(rate), "-o", data, *more, "--"]

    def profile(self, path):
        return Profile(path)

    def close(self):
        for child in list(self.children):
            self.stop(child)
        if self.options.keep:
            print(f"kept {self.scratch}")
        else:
            shutil.rmtree(self.scratch, ignore_errors=True)

    def title(self, question):
        print(f"# {question}")
        load = os.getloadavg()[0]
        print(f"# {cpu_name()}, {os.cpu_count()} cores, Linux {platform.release()}; load average before {load:.2f}"
              + (" (NOT QUIET: timings are worth little)" if load > 0.5 else "")
              + ("; --quick: numbers decide nothing" if self.quick else ""), flush=True)


class Timing:
    """How a command fared, in seconds."""

    def __init__(self, wall, user, system, clock, status):
        self.wall, self.cpu, self.clock = wall / 1e9, (user + system) / 1e9, clock / 1e9
        self.status = status


class Profile:
    """A finished profile, read with SQL."""

    def __init__(self, path):
        self.path = path
        try:
            self.db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
            self.seen, self.kept, self.lost = self.rows("select seen, kept, lost from totals")[0]
        except sqlite3.Error as error:
            raise Broken(f"{path}: {error}") from error
        if self.value("select value from meta where key = 'finished'") != "1":
            raise Broken(f"{path}: the recording did not finish")

    def rows(self, sql, *values):
        return self.db.execute(sql, values).fetchall()

    def value(self, sql, *values):
        row = self.db.execute(sql, values).fetchone()
        return row[0] if row else None

    def ends(self):
        """How user stacks ended: reason to count."""
        return dict(self.rows("select reason, count from stack_end"))

    def roots(self):
        """(path, address) of the outermost frame to the number of samples below it; kernel-only stacks left out."""
        return {(path, address): count for path, address, count in self.rows("""
            with recursive walk (stack, count) as (
                select stack, sum(count) from sample group by stack
                union all
                select stack.parent, walk.count from walk join stack on stack.id = walk.stack
                where stack.parent != 0)
            select module.path, location.address, sum(walk.count)
            from walk join stack on stack.id = walk.stack join location on location.id = stack.location
                join module on module.id = location.module
            where stack.parent = 0 and module.kind != 'kernel'
            group by 1, 2""")}

    def close(self):
        self.db.close()


class Elf:
    """What binutils says about a file: where its code lies and where its stacks begin."""

    cache = {}

    def __new__(cls, path):
        if path not in cls.cache:
            cls.cache[path] = super().__new__(cls)
            cls.cache[path].read(path)
        return cls.cache[path]

    def read(self, path):
        self.segments = []
        for words in readelf("-lW", path, r"^\s+LOAD\s+(.*)$"):
            offset, address, _, size = (int(word, 16) for word in words.split()[:4])
            self.segments.append((offset, offset + size, address - offset))
        self.outermost = sorted(outermost_functions(path))
        self.aliases = {}
        by_address = {}
        for words in readelf("-sW", path, r"^\s*\d+: (.*)$"):
            fields = words.split()
            if len(fields) >= 7 and fields[2] in ("FUNC", "IFUNC") and fields[5] != "UND":
                by_address.setdefault(int(fields[0], 16), set()).add(fields[6].split("@")[0])
        for names in by_address.values():
            first = min(names)
            self.aliases.update(dict.fromkeys(names, first))

    def address(self, offset):
        """The address in the file's own numbering of a place in the file."""
        for start, end, bias in self.segments:
            if start <= offset < end:
                return offset + bias
        return None

    def is_outermost(self, address):
        """Whether a return address lies in a function that nobody called, such as _start."""
        at = bisect.bisect(self.outermost, (address, 0)) - 1
        return at >= 0 and self.outermost[at][0] < address <= self.outermost[at][1]


def readelf(option, path, pattern):
    done = subprocess.run(["readelf", option, path], capture_output=True, text=True, errors="replace")
    return re.findall("(?m)" + pattern, done.stdout)


def outermost_functions(path):
    """(start, end) of each function without a caller: .eh_frame says that its return address is undefined, or the
    kernel enters the file there."""
    for entry in readelf("-hW", path, r"Entry point address:\s+0x([0-9a-f]+)"):
        yield int(entry, 16), int(entry, 16) + ENTRY_SIZE
    done = subprocess.run(["readelf", "--debug-dump=frames", path], capture_output=True, text=True,
                          errors="replace")
    undefined, current, bounds = set(), None, None
    for line in done.stdout.splitlines():
        cie = re.match(r"([0-9a-f]+) [0-9a-f]+ [0-9a-f]+ CIE", line)
        fde = re.match(r"[0-9a-f]+ [0-9a-f]+ [0-9a-f]+ FDE cie=([0-9a-f]+) pc=([0-9a-f]+)\.\.([0-9a-f]+)", line)
        if cie:
            current, bounds = cie.group(1), None
        elif fde:
            current, bounds = None, (int(fde.group(2), 16), int(fde.group(3), 16))
            if fde.group(1) in undefined:
                yield bounds
        elif re.search(r"DW_CFA_undefined: r16\b", line):
            undefined.add(current)
            if bounds:
                yield bounds


def workloads(bench):
    """The three programs that Debian ships and the measurements are about: name to command."""
    return {"xz": workload_xz(bench), "python3": workload_python(bench), "povray": workload_povray(bench)}


def workload_xz(bench):
    """xz reads libraries of this machine, the same in each run, cut at 30 MB (--quick: 3 MB)."""
    path = bench.path("libraries.bin")
    left = 3_000_000 if bench.quick else 30_000_000
    if not os.path.exists(path):
        with open(path, "wb") as output:
            for name in sorted(os.listdir(LIBRARIES)):
                source = os.path.join(LIBRARIES, name)
                if left > 0 and ".so" in name and os.path.isfile(source) and not os.path.islink(source):
                    with open(source, "rb") as stream:
                        left -= output.write(stream.read(left))
        if left > 0:
            raise Broken(f"not enough libraries in {LIBRARIES}")
    return ["/usr/bin/xz", "-T1", "-6", "-k", "-c", path]


def workload_python(bench):
    return ["/usr/bin/python3", os.path.join(PROGRAMS, "work.py"), "50" if bench.quick else "500"]


def workload_povray(bench, width=0):
    """One of povray's own scenes with two threads; width 0 takes about 3 s on two cores."""
    if not os.path.exists(SCENE):
        raise Broken(f"{SCENE} is not there; install povray-examples")
    width = width or (100 if bench.quick else 320)
    return ["/usr/bin/povray", f"+I{SCENE}", f"+O{bench.path('scene.png')}", f"+W{width}",
            f"+H{width * 3 // 4}", "-D", "-GA", "+WT2"]


def find_assay():
    path = os.path.abspath(os.environ.get("ASSAY") or os.path.join(ROOT, "build/assay"))
    if not os.access(path, os.X_OK):
        sys.exit(f"{sys.argv[0]}: no {path}; run make build, or set ASSAY")
    return path


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as stream:
        match = re.search(r"model name\s*: (.*)", stream.read())
    return match.group(1) if match else platform.machine()


def median(values):
    return statistics.median(values)


def spread(values):
    """The distance between the quartiles."""
    if len(values) < 2:
        return 0.0
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return third - first


def table(heads, rows):
    """Prints rows under heads; the first column to the left, the others to the right."""
    lines = [heads] + [[str(cell) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    print()
    for line in lines:
        cells = [line[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(line[1:], widths[1:])]
        print("  ".join(cells).rstrip())
    sys.stdout.flush()


def percent(part, whole, digits=2):
    return f"{100 * part / whole:.{digits}f} %" if whole else "-"


def verdict(holds, claim, measured, bound):
    """The line that says whether a claim holds. Not a test: the exit status stays 0."""
    print(f"{'PASS' if holds else 'FAIL'} {claim}: {measured} vs {bound}", flush=True)


def main(measure, description):
    bench = Bench(description)
    try:
        measure(bench)
    except Broken as error:
        print(f"{os.path.basename(sys.argv[0])}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        bench.close()
    return 0
