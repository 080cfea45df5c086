# SPDX-License-Identifier: BSD-2-Clause
"""For tests of the commands that read profiles: fixtures, runs of the command, terminals.

A test is run as NAME_test.py ASSAY FIXTURE_WRITE [TEST...].
"""

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios

ASSAY, FIXTURE_WRITE = (os.path.abspath(path) for path in sys.argv[1:3])
HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "golden")
MAN = os.path.join(HERE, "../docs/man")
SCRATCH = tempfile.TemporaryDirectory()
VIEWS = ["functions", "lines", "modules", "processes", "threads", "callgraph", "tree", "losses"]
VALUE_VIEWS = ["invariants", "args", "blocks", "values", "runs"]


def profile(kind):
    path = os.path.join(SCRATCH.name, kind + ".db")
    if not os.path.exists(path):
        subprocess.run([FIXTURE_WRITE, kind, path], check=True)
    return path


def environment(**changes):
    env = {key: value for key, value in os.environ.items()
           if key not in ("NO_COLOR", "PAGER", "COLUMNS", "LESS")}
    env.update(LC_ALL="C.UTF-8", TERM="xterm")
    env.update(changes)
    return env


def run(*args, code=0, **options):
    done = subprocess.run([ASSAY, *args], capture_output=True, env=environment(), cwd=SCRATCH.name,
                          **options)
    if done.returncode != code:
        raise AssertionError(f"{args}: exit {done.returncode}, expected {code}\n"
                             f"{done.stdout.decode(errors='replace')}{done.stderr.decode(errors='replace')}")
    return done


def text(*args, **options):
    return run(*args, **options).stdout.decode("utf-8")


def rows(*args):
    answer = json.loads(text(*args, "--json"))
    assert answer["assay"] == 1
    totals = answer["totals"]
    assert totals["seen"] == totals["kept"] + sum(totals["lost"].values())
    return answer


def terminal(*args, width=80, **changes):
    """Runs with a terminal of the given width as standard output; returns what arrives there."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    child = subprocess.Popen([ASSAY, *args], stdout=slave, stderr=slave, stdin=subprocess.DEVNULL,
                             env=environment(**changes))
    os.close(slave)
    output = b""
    while True:
        try:
            select.select([master], [], [])
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        output += piece
    os.close(master)
    child.wait()
    return child.returncode, output.decode("utf-8").replace("\r\n", "\n")
