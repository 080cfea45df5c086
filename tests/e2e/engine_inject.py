#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: W1.
"""The way into a process: with the tool "native", which hands the program back at once, everything is as without it.

The oracle is the same command by itself: output, exit status, and what the program can see of its own start. Addresses are
compared with randomisation turned off (setarch -R).
"""

import fcntl
import json
import os
import pty
import resource
import shutil
import signal
import subprocess
import termios
import time
import unittest

import lib

TRACE = [lib.ASSAY, "trace", "--tool", "native", "--"]
FIXED = ["setarch", "-R"]
FREESTANDING = ["-nostdlib", "-fno-stack-protector"]
ENGINE = range(0x7e8000000000, 0x7f0000000000)
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

# What a process can see of itself, as JSON.
MIRROR = r"""
import json, os, struct, sys
def read(name):
    with open("/proc/self/" + name, "rb") as stream:
        return stream.read()
words = struct.unpack(f"{len(read('auxv')) // 8}Q", read("auxv"))
status = dict(line.split(":", 1) for line in read("status").decode().splitlines())
keep = ["Name", "Umask", "State", "TracerPid", "Uid", "Gid", "Groups", "Threads", "SigPnd", "ShdPnd", "SigBlk", "SigIgn",
        "SigCgt", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters", "THP_enabled",
        "x86_Thread_features"]
print(json.dumps({
    "arguments": sys.argv, "command": read("cmdline").decode(), "environment": dict(os.environ),
    "executable": os.readlink("/proc/self/exe"), "auxiliary": list(zip(words[::2], words[1::2])),
    "status": {key: status[key].strip() for key in keep if key in status},
    "files": {fd: os.readlink("/proc/self/fd/" + fd) for fd in sorted(os.listdir("/proc/self/fd"))
              if os.path.exists("/proc/self/fd/" + fd)},
    "maps": [line for line in read("maps").decode().splitlines()],
    "limits": read("limits").decode(), "folder": os.getcwd(), "slack": read("timerslack_ns").decode(),
    "oom": read("oom_score_adj").decode(), "personality": read("personality").decode(),
}))
"""


def run(*command, prefix=(), **options):
    return subprocess.run([*prefix, *command], capture_output=True, timeout=60,
                          **{"stdin": subprocess.DEVNULL, **options})


def script(name, text, mode=0o755):
    path = lib.scratch(name)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.chmod(path, mode)
    return path


def core_size(folder, *prefix):
    """Bytes of the core file of a shell that aborts; what the engine and its tools have mapped is not in it."""
    os.makedirs(folder)
    run(*prefix, "bash", "-c", "kill -ABRT $$", cwd=folder,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)))
    sizes = [os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder) if name.startswith("core")]
    return sizes[0] if sizes else None


def engine_lines(maps):
    return [line for line in maps if int(line.split("-")[0], 16) in ENGINE]


class Same(unittest.TestCase):
    def same(self, *command, prefix=(), **options):
        alone = run(*command, prefix=prefix, **options)
        traced = run(*TRACE, *command, prefix=prefix, **options)
        self.assertEqual((traced.stdout, traced.stderr), (alone.stdout, alone.stderr))
        # As a shell has it.
        code = alone.returncode if alone.returncode >= 0 else 128 - alone.returncode
        self.assertEqual(traced.returncode, code)
        return traced

    def test_programs(self):
        self.same("true")
        self.same("false")
        self.same("ls", "-l", "/usr")
        self.same("/bin/echo", "-n", "", "two words", "ü")
        self.same("sort", "-R", "--random-source=/bin/ls", "/etc/passwd")
        self.same(lib.PYTHON, "-c", "import threading, math; t = threading.Thread(target=print, args=(math.pi,)); "
                                    "t.start(); t.join()")
        self.same("bash", "-c", "for i in {1..20}; do echo $((i * i)) | tr 0-9 a-j; done; exit 42")

    def test_linking(self):
        source = script("hello.c", '#include <stdio.h>\n#include <errno.h>\nint main(int argc, char **argv)\n'
                                   '{ return printf("%s %d\\n", program_invocation_short_name, argc); }\n')
        for flags in [["-static"], ["-static-pie"], ["-no-pie"], ["-pie"], ["-static", "-Wl,-z,noseparate-code"]]:
            with self.subTest(flags=flags):
                program = lib.scratch("hello")
                subprocess.run(["gcc", "-D_GNU_SOURCE", "-O1", *flags, "-o", program, source], check=True)
                self.assertEqual(self.same(program, "x").returncode, len("hello 2\n"))

    def test_scripts(self):
        self.same(script("dash", "#!/bin/sh\necho $0 $# \"$@\"\nexit 3\n"), "a", "b c")
        self.same(script("python", f"#!{lib.PYTHON}\nimport sys\nprint(sys.argv)\n"), "a")
        self.same(script("env", "#!/usr/bin/env -S bash -e\nfalse\n"))
        # Without a first line for the kernel: execvp() gives it to the shell.
        bare = script("bare", "echo $0 is for the shell\n")
        self.assertEqual(run(*TRACE, bare).stdout, run("env", bare).stdout)
        self.assertIn(b"for the shell", run(*TRACE, bare).stdout)

    def test_input_and_signals(self):
        self.same("cat", stdin=None, input=b"x" * 200000)
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
            self.same("sh", "-c", f"kill -{int(number)} $$")
        self.same("sh", "-c", "echo out; echo err >&2; exit 255")


class State(unittest.TestCase):
    def test_first_instruction(self):
        """Registers and stack of a program without libc."""
        for kind in ("-static", "-static-pie"):
            with self.subTest(kind=kind):
                program = lib.build("start_state.c", *FREESTANDING, kind)
                command = [program, "one", "two"]
                environment = {"A": "b", "LONG": "x" * 5000}
                alone = run(*FIXED, *command, env={**environment, "PATH": os.environ["PATH"]})
                traced = run(*FIXED, *TRACE, *command, env={**environment, "PATH": os.environ["PATH"]})
                self.assertEqual(traced.stdout.decode().splitlines(), alone.stdout.decode().splitlines())
                state = dict(line.split() for line in alone.stdout.decode().splitlines())
                self.assertEqual(int(state["rsp"], 16) % 16, 0)
                self.assertGreater(alone.stdout.count(b"stack"), 600)

    def mirror(self, *prefix, **options):
        result = run(*FIXED, *prefix, lib.PYTHON, "-c", MIRROR, "argument", **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def compare(self, **options):
        alone, traced = self.mirror(**options), self.mirror(*TRACE, **options)
        engine = engine_lines(traced["maps"])
        traced["maps"] = [line for line in traced["maps"] if line not in engine]
        # The pipe is another one each time.
        for view in (alone, traced):
            view["files"] = {fd: target.split(":")[0] for fd, target in view["files"].items()}
        for key in alone:
            self.assertEqual(traced[key], alone[key], key)
        self.assertEqual(traced["status"]["TracerPid"], "0")
        return engine, traced

    def test_mirror(self):
        engine, traced = self.compare()
        self.assertEqual(sum("memfd:assay" in line and " rw-s " in line for line in engine), 1)
        modes = [line.split()[1] for line in engine]
        self.assertEqual(sum(mode == "r-xp" for mode in modes), 2)
        # Code is the same memory in all processes, not a copy in each.
        self.assertEqual(sum("/memfd:assay-code " in line and " r-xp " in line for line in engine), 2)
        self.assertEqual(sum(mode == "---p" for mode in modes), 1)
        self.assertFalse([mode for mode in modes if "w" in mode and "x" in mode])
        self.assertTrue(all(int(line.split("-")[0], 16) < ENGINE.stop for line in engine))
        self.assertEqual(set(traced["files"]), {"0", "1", "2"})

    def test_signals_inherited(self):
        def prepare():
            for number in (signal.SIGINT, signal.SIGTRAP, signal.SIGCHLD, signal.SIGUSR1):
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGTRAP, signal.SIGRTMIN + 3])

        _, traced = self.compare(preexec_fn=prepare)
        self.assertNotEqual(int(traced["status"]["SigBlk"], 16) & 1 << signal.SIGTRAP - 1, 0)
        self.assertNotEqual(int(traced["status"]["SigIgn"], 16) & 1 << signal.SIGTRAP - 1, 0)

    def test_limits_and_layouts(self):
        """Other places for mmap, and little memory."""
        self.compare(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (resource.RLIM_INFINITY,) * 2))
        self.compare(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))

    def test_addresses_differ(self):
        """Randomised like everything else in an address space."""
        places = {engine_lines(run(*TRACE, "cat", "/proc/self/maps").stdout.decode().splitlines())[0].split("-")[0]
                  for _ in range(3)}
        self.assertEqual(len(places), 3)


class Refused(unittest.TestCase):
    def refuse(self, code, *command, message="", prefix=(), assay=lib.ASSAY):
        result = run(assay, "trace", "--tool", "native", "--", *command, prefix=prefix)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertIn(message, result.stderr.decode())
        self.assertEqual(result.stdout, b"")

    def test_not_there(self):
        for command in ("no-such-command", "./no-such-command"):
            self.refuse(127, command, message=f"cannot run '{command}': No such file or directory")
            said = run(lib.ASSAY, "record", "-o", lib.scratch("x.db"), "--", command).stderr
            self.assertEqual(run(*TRACE, command).stderr, said)

    def test_not_to_be_run(self):
        self.refuse(126, "/etc/passwd", message="cannot run '/etc/passwd': Permission denied")
        self.refuse(126, "/tmp", message="cannot run '/tmp': Permission denied")
        self.refuse(127, script("lost", "#!/no/such/interpreter\n"), message="No such file or directory")
        self.refuse(126, script("garbage", "\x7fELF" + "\0" * 100), message="cannot run")

    def test_usage(self):
        for arguments in ([], ["--tool", "no-such-tool", "true"], ["--no-such-option", "true"], ["--tool"]):
            result = run(lib.ASSAY, "trace", *arguments)
            self.assertEqual(result.returncode, 2, arguments)

    def test_privileged(self):
        lib.need_root(self)
        program = lib.scratch("privileged")
        shutil.copy("/bin/cat", program)
        os.chown(program, 65534, 65534)
        for mode in (0o4755, 0o2755):
            os.chmod(program, mode)
            self.refuse(126, program, "/etc/passwd", message="change their user, group or capabilities")
        # The first line of a script does not help.
        self.refuse(126, script("indirect", f"#!{program}\n"), message="change their user")
        # No change, no reason.
        os.chown(program, 0, 0)
        os.chmod(program, 0o6755)
        self.assertEqual(run(*TRACE, program, "/etc/hostname").returncode, run("cat", "/etc/hostname").returncode)

    def test_foreign(self):
        with open("/bin/true", "rb") as stream:
            head = bytearray(stream.read(4096))
        head[4] = 1  # 32 bits
        path = script("foreign", "")
        with open(path, "wb") as stream:
            stream.write(head)
        self.refuse(126, path, message="not 64-bit x86 code")


class Unprivileged(unittest.TestCase):
    def setUp(self):
        lib.need_root(self)
        self.assay = lib.scratch("assay")
        shutil.copy(lib.ASSAY, self.assay)
        os.chmod(self.assay, 0o755)

    def trace(self, *command, prefix=NOBODY):
        return run(self.assay, "trace", "--tool", "native", "--", *command, prefix=prefix)

    def test_nobody(self):
        result = self.trace("sh", "-c", "id -u; exit 4")
        self.assertEqual((result.stdout, result.returncode), (b"65534\n", 4), result.stderr)

    def test_privileges_of_the_binary(self):
        """They are not handed to the command, and do not stand in its way."""
        subprocess.run(["setcap", "cap_sys_ptrace,cap_perfmon+ep", self.assay], check=True)
        result = self.trace("grep", "-E", "CapEff|CapPrm", "/proc/self/status")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual({int(line.split()[1], 16) for line in result.stdout.splitlines()}, {0})

    def test_capable(self):
        program = lib.scratch("capable")
        shutil.copy("/bin/cat", program)
        subprocess.run(["setcap", "cap_net_raw+ep", program], check=True)
        self.assertEqual(self.trace(program, "/etc/passwd").returncode, 126)
        self.assertEqual(self.trace(program, "/etc/hostname", prefix=()).returncode, 0)
        # What the kernel says of it, even if it gains nothing.
        self.assertEqual(self.trace(program, "/etc/hostname", prefix=[*NOBODY, "--no-new-privs"]).returncode, 126)

    def test_unreadable(self):
        program = lib.scratch("unreadable")
        shutil.copy("/bin/cat", program)
        os.chmod(program, 0o711)
        result = self.trace(program, "/etc/hostname")
        self.assertEqual(result.returncode, 126)
        self.assertIn("not read", result.stderr.decode())


class Ends(unittest.TestCase):
    WAITER = "trap 'echo got it; exit 5' {0}; echo ready; for i in {{1..500}}; do sleep 0.02; done"

    def start(self, *command, **options):
        process = subprocess.Popen([*TRACE, *command], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, **options)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def test_signals_are_handed_on(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            name = number.name[3:]
            process = self.start("bash", "-c", self.WAITER.format(name))
            process.send_signal(number)
            self.assertEqual(process.communicate(timeout=20)[0], b"got it\n", name)
            self.assertEqual(process.returncode, 5, name)

    def test_interrupt_from_terminal(self):
        """The terminal signals the whole group: the command must not get it twice."""
        counter = ("trap 'n=$((n+1))' INT; echo ready; i=0; while [ $i -lt 40 ]; do sleep 0.01; i=$((i+1)); done; exit $n")
        master, slave = pty.openpty()
        process = subprocess.Popen([*TRACE, "bash", "-c", counter], stdin=slave, stdout=slave, stderr=slave,
                                   start_new_session=True, preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.assertIn(b"ready", os.read(master, 100))
        os.write(master, b"\x03")
        self.assertEqual(process.wait(timeout=20), 1)
        os.close(master)

    def test_host_dies(self):
        """The program goes on."""
        process = self.start("bash", "-c", "echo ready; sleep 0.3; echo still here")
        process.kill()
        process.wait()
        self.assertEqual(process.stdout.read(), b"still here\n")

    def test_background(self):
        """What outlives the command does not keep us."""
        begin = time.monotonic()
        result = run(*TRACE, "sh", "-c", "sleep 30 >/dev/null 2>&1 & echo $!; exit 6")
        self.assertEqual(result.returncode, 6)
        self.assertLess(time.monotonic() - begin, 25)
        os.kill(int(result.stdout), signal.SIGKILL)

    def test_nobody_attached(self):
        process = self.start("sh", "-c", "echo ready; exec sleep 5")
        child = lib.program_of(process.pid)
        with open(f"/proc/{child}/status", encoding="ascii") as stream:
            self.assertIn("TracerPid:\t0\n", stream.read())
        gdb = shutil.which("gdb")
        if gdb:
            out = run(gdb, "-p", str(child), "-batch", "-ex", "info registers rip").stdout
            self.assertIn(b"rip ", out)
        os.kill(child, signal.SIGTERM)
        self.assertEqual(process.wait(timeout=20), 128 + signal.SIGTERM)


class CoreDump(unittest.TestCase):
    def test_core_dumps_hold_nothing_of_the_engine(self):
        with open("/proc/sys/kernel/core_pattern", encoding="ascii") as stream:
            pattern = stream.read().strip()
        if pattern.startswith(("|", "/")):
            self.skipTest(f"core dumps go elsewhere: {pattern}")
        alone = core_size(lib.scratch("core-alone"))
        self.assertIsNotNone(alone)
        for tool in "none", "count", "paths":
            traced = core_size(lib.scratch(f"core-{tool}"), lib.ASSAY, "trace", "-q", "--tool", tool, "-o",
                               lib.scratch(f"core-{tool}.db"), "--")
            self.assertLess(traced, alone + (256 << 10), tool)


class AddressSpace(unittest.TestCase):
    """RLIMIT_AS and RLIMIT_DATA count the engine's memory too, with tools that record gigabytes."""

    def trace(self, tool, command, limit=None, kind="as"):
        summary = lib.scratch("limit.json")
        limits = [] if limit is None else ["prlimit", f"--{kind}={limit}"]
        result = run(*limits, lib.ASSAY, "trace", "-q", "--tool", tool, "--summary", summary, "-o",
                     lib.scratch("limit.db"), "--", "bash", "-c", command)
        rows = []
        if os.path.exists(summary):
            with open(summary, encoding="utf-8") as stream:
                rows = json.load(stream)["rows"]
        return result, {row["reason"]: row["count"] for row in rows}

    def test_a_program_that_limits_itself_goes_on_and_what_it_executes_runs_natively(self):
        result, left = self.trace("paths", "ulimit -v 400000; ulimit -v; echo $(echo sub); /bin/echo hi")
        self.assertEqual((result.stdout, result.stderr, result.returncode), (b"400000\nsub\nhi\n", b"", 0))
        self.assertEqual(left, {"limited": 1})

    def test_without_recording_it_fits(self):
        result, left = self.trace("none", "ulimit -v; /bin/echo hi", 600_000 << 10)
        self.assertEqual((result.stdout, result.stderr, result.returncode), (b"600000\nhi\n", b"", 0))
        self.assertEqual(left, {})

    def test_a_recording_that_does_not_fit_is_refused_before_the_program_starts(self):
        result, _ = self.trace("paths", "echo started", 600_000 << 10)
        self.assertEqual((result.stdout, result.returncode), (b"", 1))
        self.assertIn(b"ulimit -v", result.stderr)

    def test_data_is_limited_in_the_same_way(self):
        result, left = self.trace("paths", "ulimit -d 400000; ulimit -d; echo $(echo sub); /bin/echo hi")
        self.assertEqual((result.stdout, result.stderr, result.returncode), (b"400000\nsub\nhi\n", b"", 0))
        self.assertEqual(left, {"limited": 1})
        result, left = self.trace("none", "ulimit -d; /bin/echo hi", 600_000 << 10, "data")
        self.assertEqual((result.stdout, result.stderr, result.returncode), (b"600000\nhi\n", b"", 0))
        self.assertEqual(left, {})
        result, _ = self.trace("none", "echo started", 100_000 << 10, "data")
        self.assertEqual(result.stdout, b"")
        self.assertIn(b"ulimit -d", result.stderr)


if __name__ == "__main__":
    lib.main()
