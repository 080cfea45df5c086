# SPDX-License-Identifier: BSD-2-Clause
"""What the measurements share: the programs measured, the recorders, profiles, statistics, printing.

A script gets a Bench, which owns a scratch folder. Everything that is started runs to its end or is
ended with the Bench; nothing is measured beside anything else.
"""

import argparse
import bisect
import contextlib
import glob
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
SHARED = "/usr/share"
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
        parser.add_argument("--kind", default="", help="only the kinds of runs whose name has this, and what they are compared with")
        parser.add_argument("--only", metavar="PROGRAM", help="xz, python3 or povray, where a script has them")
        self.options = parser.parse_args()
        self.quick = self.options.quick
        self.assay_path = find_assay()
        os.environ["PYTHONHASHSEED"] = "0"  # the same work in each run
        self.scratch = tempfile.mkdtemp(prefix="assay-bench-")
        self.children = []

    def need(self, *tools, root=True):
        """Stops before anything is measured if the machine lacks something."""
        missing = [tool for tool in tools if not shutil.which(tool)]
        if missing:
            raise Broken(f"not installed: {', '.join(missing)}; make deps-check installs them")
        if root and os.geteuid() != 0:
            raise Broken("run as root: perf and BPF are measured")

    def runs(self, full, quick):
        return self.options.runs or (quick if self.quick else full)

    def path(self, name):
        return os.path.join(self.scratch, name)

    def compile(self, name):
        """bench/programs/NAME.c as a program with symbols and without debug information."""
        program = self.path(name)
        if not os.path.exists(program):
            source = os.path.join(PROGRAMS, name + ".c")
            self.call([os.environ.get("CC", "cc"), "-O2", "-o", program, source])
        return program

    def call(self, command, **options):
        """Runs a command to its end and returns what it printed."""
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
                   "cwd": self.scratch, "text": True, "errors": "replace", **options}
        try:
            done = subprocess.run(command, **options)
        except OSError as error:
            raise Broken(f"cannot run {command[0]}: {error.strerror}") from error
        if done.returncode != 0:
            reason = (done.stderr or "").strip()[-600:]
            raise Broken(f"{' '.join(command)}: status {done.returncode}: {reason}")
        return done.stdout

    def start(self, command):
        """Starts a command in a process group of its own, which ends with the Bench at the latest."""
        with open(self.path("stderr"), "wb") as errors:
            child = subprocess.Popen(command, cwd=self.scratch, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=errors,
                                     start_new_session=True)
        self.children.append(child)
        return child

    def stop(self, child, number=signal.SIGKILL):
        """Ends the command's process group and waits; child.usage says what it used."""
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

    def errors(self):
        """What the command started last wrote to stderr."""
        with open(self.path("stderr"), encoding="utf-8", errors="replace") as stream:
            return stream.read().strip()[-600:]

    def timed(self, prefix, command, clock=False):
        """Runs prefix + command and returns how the command itself fared."""
        result = self.path("timer.out")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(result)
        env = {**os.environ, **({"TIMER_CLOCK": "1"} if clock else {})}
        self.call(prefix + [self.compile("timer"), result] + command, stdout=subprocess.DEVNULL,
                  env=env)
        with open(result, encoding="ascii") as stream:
            return Timing(*map(int, stream.read().split()))

    def record(self, profile, rate, *more):
        """The words before a command that record it with Assay."""
        return [self.assay_path, "record", "-q", "-F", str(rate), "-o", profile, *more, "--"]

    def perf_record(self, data, rate, *more):
        """The same for perf, without its cache of binaries, which other users of perf may be writing."""
        return ["perf", "record", "-q", "-B", "-N", "-g", "-e", "cpu-clock", "-F", str(rate), "-o", data,
                *more, "--"]

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
        print(f"# {cpu_name()}, {os.cpu_count()} cores, Linux {platform.release()}; "
              f"load average before {load:.2f}"
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
        """(path, address) of the outermost user frame to the number of samples above it. The address
        is that of the call, not the one it returns to."""
        return {(path, address): count for path, address, count in self.rows("""
            with recursive walk (stack, count) as (
                select stack, sum(count) from sample group by stack
                union all
                select stack.parent, walk.count from walk join stack on stack.id = walk.stack
                where stack.parent != 0)
            select module.path, location.address, sum(walk.count)
            from walk join stack on stack.id = walk.stack
                join location on location.id = stack.location
                join module on module.id = location.module
            where stack.parent = 0 and module.kind != 'kernel'
            group by 1, 2""")}

    def close(self):
        self.db.close()


class Elf:
    """What binutils says about a file: where its code lies, its functions, where stacks begin."""

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
        frames = list(frames_read(path))
        self.functions = sorted({(start, end) for start, end, _ in frames})
        self.outermost = sorted({(start, end) for start, end, outermost in frames if outermost})
        self.aliases = {}
        for names in symbols_read(path).values():
            self.aliases.update(dict.fromkeys(names, min(names)))

    def address(self, offset):
        """The address in the file's own numbering of a place in the file."""
        for start, end, bias in self.segments:
            if start <= offset < end:
                return offset + bias
        return None

    def is_outermost(self, address):
        """Whether an address lies in a function that nobody called, such as _start."""
        return range_at(self.outermost, address) is not None

    def name(self, symbol):
        """One name for all names of a function."""
        return self.aliases.get(symbol.split("@")[0], symbol)

    def function(self, address):
        """A name for the function around an address that no symbol covers, from .eh_frame."""
        start = range_at(self.functions, address)
        return f"sub_{start:x}" if start is not None else "[no symbol]"


def range_at(ranges, address):
    """The start of the one that holds the address."""
    at = bisect.bisect(ranges, (address + 1,)) - 1
    return ranges[at][0] if at >= 0 and address < ranges[at][1] else None


def readelf(option, path, pattern):
    return re.findall("(?m)" + pattern, readelf_text(option, path))


def readelf_text(option, path):
    return subprocess.run(["readelf", option, path], capture_output=True, text=True,
                          errors="replace").stdout


def symbols_read(path):
    """Address to the names of the functions there, from the file and its separate debug file."""
    names = {}
    files = [path] + [f"/usr/lib/debug/.build-id/{build[:2]}/{build[2:]}.debug"
                      for build in readelf("-nW", path, r"Build ID: ([0-9a-f]+)")]
    for file in filter(os.path.exists, files):
        for words in readelf("-sW", file, r"^\s*\d+: (.*)$"):
            fields = words.split()
            if len(fields) >= 7 and fields[2] in ("FUNC", "IFUNC") and fields[5] != "UND":
                names.setdefault(int(fields[0], 16), set()).add(fields[6].split("@")[0])
    return names


def frames_read(path):
    """(start, end, has no caller) of each function in .eh_frame, and of what the kernel enters. A
    function has no caller when its return address is undefined."""
    for address in readelf("-hW", path, r"Entry point address:\s+0x([0-9a-f]+)"):
        yield int(address, 16), int(address, 16) + ENTRY_SIZE, True
    entry = re.compile(r"([0-9a-f]+) [0-9a-f]+ [0-9a-f]+ (?:CIE|FDE cie=(\w+) pc=(\w+)\.\.(\w+))")
    undefined, cie, bounds = set(), None, None
    for line in readelf_text("--debug-dump=frames", path).splitlines():
        head = entry.match(line)
        if head and not head.group(2):
            cie, bounds = head.group(1), None
        elif head:
            cie, bounds = None, (int(head.group(3), 16), int(head.group(4), 16))
            yield *bounds, head.group(2) in undefined
        elif re.search(r"DW_CFA_undefined: r16\b", line):
            undefined.add(cie)
            if bounds:
                yield *bounds, True


def sources(*folders):
    """The files of folders of src/, without their tests."""
    return [path for folder in folders for path in sorted(glob.glob(os.path.join(ROOT, "src", folder, "*.c")))
            if not path.endswith("_test.c")]


def compile_flow(bench):
    """bench/programs/flow.c with the parts of src/paths that it measures."""
    program = bench.path("flow")
    bench.call([os.environ.get("CC", "cc"), "-O2", "-D_GNU_SOURCE", "-fno-strict-aliasing", "-I" + os.path.join(ROOT, "src"),
                "-o", program, os.path.join(PROGRAMS, "flow.c"), *sources("paths", "base"), "-lm", "-lxxhash"])
    return program


def workloads(bench):
    """The three programs that Debian ships and the measurements are about: name to command."""
    programs = {"xz": workload_xz, "python3": workload_python, "povray": workload_povray}
    return {name: command(bench) for name, command in programs.items()
            if bench.options.only in (None, name)}


def libraries():
    return [os.path.join(LIBRARIES, name) for name in sorted(os.listdir(LIBRARIES)) if ".so" in name]


def shared_files():
    """What programs share that does not depend on the machine: documentation, texts, tables, pictures."""
    for folder, folders, names in os.walk(SHARED):
        folders.sort()
        yield from (os.path.join(folder, name) for name in sorted(names))


def workload_xz(bench, files=libraries):
    """xz reads files of this machine, the same in each run, cut at 30 MB (--quick: 3 MB)."""
    path = bench.path(f"{files.__name__}.bin")
    left = 3_000_000 if bench.quick else 30_000_000
    if not os.path.exists(path):
        with open(path, "wb") as output:
            for source in files():
                if left > 0 and os.path.isfile(source) and not os.path.islink(source):
                    with open(source, "rb") as stream:
                        left -= output.write(stream.read(left))
        if left > 0:
            raise Broken(f"not enough {files.__name__.replace('_', ' ')} on this machine")
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
