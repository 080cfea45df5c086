#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: W1.
"""assay trace -p: the engine comes into processes that run and leaves them, and nothing they do is any different.

tests/programs/attach_threads.c checks itself what its threads do, and says the same whether an engine came or not. Real programs
have the same output as without. What the kernel says about a process is the same before and after.
"""

import contextlib
import ctypes
import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest

import lib

CYCLES = 20
MAPPED = "/memfd:assay "
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def attach(pid, *options, code=0, prefix=()):
    """For a moment."""
    run = subprocess.run([*prefix, lib.ASSAY, "trace", "-q", "--tool", "none", "-p", str(pid), "--duration", "0.03", *options],
                         capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert run.returncode == code, (run.returncode, run.stderr)
    return run.stderr


def read(pid, name):
    with open(f"/proc/{pid}/{name}", encoding="utf-8") as stream:
        return stream.read()


def has_engine(pid):
    return MAPPED in read(pid, "maps")


def state(pid):
    """What the kernel knows about a process and its threads."""
    keep = ("Tgid", "PPid", "TracerPid", "Threads", "SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd")
    threads = {tid: [line for line in read(pid, f"task/{tid}/status").splitlines() if line.split(":")[0] in keep]
               for tid in sorted(os.listdir(f"/proc/{pid}/task"))}
    return threads, read(pid, "maps"), sorted(os.listdir(f"/proc/{pid}/fd"))


class Attached:
    """assay trace -p in the background; the process is in the engine until the end of the block."""

    def __init__(self, pid, *options):
        self.pid = pid
        self.process = subprocess.Popen([lib.ASSAY, "trace", "--tool", "none", "-p", str(pid), *options], stdin=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        self.line = self.process.stderr.readline()
        assert "is in the engine" in self.line, self.line
        return self

    def stop(self, number=signal.SIGINT, code=0):
        self.process.send_signal(number)
        err = self.process.communicate(timeout=60)[1]
        assert self.process.returncode == code, (self.process.returncode, err)
        return err

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop()


@contextlib.contextmanager
def program(*command, ready="ready", **options):
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options) as process:
        try:
            line = process.stdout.readline() if ready else ""
            assert not ready or line.startswith(ready), line
            yield process
        finally:
            process.kill()


def end(process):
    """Its input ends, and so does it; the rest of what it says."""
    out = process.communicate(timeout=60)[0]
    assert process.returncode == 0, (process.returncode, out)
    return out


class Threads(unittest.TestCase):
    EXPECTED = re.compile(r"(slept\n)?main: read 0\n([a-z ]+: done, 0 wrong\n){22}rseq: as before\n")

    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("attach_threads.c")

    def test_cycles(self):
        """Long waits end only if they go on where they were: each is longer than what lies between two attaches."""
        with program(self.program) as process:
            cycles = slept = 0
            os.set_blocking(process.stdout.fileno(), False)
            while cycles < CYCLES or not slept:
                attach(process.pid)
                cycles += 1
                slept += process.stdout.readline() == "slept\n"
                self.assertLess(cycles, 1000)
            os.set_blocking(process.stdout.fileno(), True)
            self.assertFalse(has_engine(process.pid))
            self.assertRegex(end(process), self.EXPECTED)

    def test_end_in_engine(self):
        with program(self.program) as process, Attached(process.pid) as attached:
            self.assertTrue(has_engine(process.pid))
            time.sleep(0.3)
            out = process.communicate(timeout=60)[0]
            self.assertIn("count: done, 0 wrong\n", out)
            self.assertIn("has ended", attached.process.communicate(timeout=60)[1])
            self.assertEqual(attached.process.returncode, 0)

    def check_killed(self, out):
        """A program that is being taken at that very moment dies with the host (docs/design/engine.md)."""
        self.assertRegex(out, r"\nspawn: done, [0-8] wrong\n")
        right = [line for line in out.splitlines() if line.endswith("done, 0 wrong") and not line.startswith("spawn")]
        self.assertEqual(len(right), 21, out)

    def test_host_killed(self):
        with program(self.program) as process, Attached(process.pid) as attached:
            attached.stop(signal.SIGKILL, code=-signal.SIGKILL)
            time.sleep(2)
            self.assertTrue(has_engine(process.pid))
            out = end(process)
            self.assertIn("slept\n", out)
            self.check_killed(out)

    def test_release(self):
        """Out of an engine whose host was killed, and only then."""
        release = [lib.ASSAY, "trace", "--release", "-p"]
        with program(self.program) as process, Attached(process.pid) as attached:
            run = subprocess.run([*release, str(process.pid)], capture_output=True, text=True, timeout=60)
            self.assertEqual((run.returncode, has_engine(process.pid)), (1, True))
            self.assertIn(f"is traced by process {attached.process.pid}, which is alive", run.stderr)
            attached.stop(signal.SIGKILL, code=-signal.SIGKILL)
            run = subprocess.run([*release, str(process.pid)], capture_output=True, text=True, timeout=60)
            self.assertEqual((run.returncode, run.stderr), (0, f"assay: process {process.pid} runs by itself again\n"))
            self.assertFalse(has_engine(process.pid))
            run = subprocess.run([*release, str(process.pid)], capture_output=True, text=True, timeout=60)
            self.assertEqual(run.returncode, 1)
            self.assertIn("has no engine", run.stderr)
            attach(process.pid)
            out = end(process)
            self.check_killed(out)

    def test_host_killed_at_any_time(self):
        """While it comes in: the process goes on, in the engine or without, and can be released."""
        with program(self.program) as process:
            for i in range(8):
                host = subprocess.Popen([lib.ASSAY, "trace", "-q", "--tool", "none", "-p", str(process.pid)],
                                        stdin=subprocess.DEVNULL, start_new_session=True)
                time.sleep(0.003 * i)
                os.killpg(host.pid, signal.SIGKILL)
                host.wait()
                # what was under way comes to its end by itself
                lib.wait_until(lambda: "TracerPid:\t0" in read(process.pid, "status"))
                subprocess.run([lib.ASSAY, "trace", "-q", "--release", "-p", str(process.pid)], timeout=60,
                               stderr=subprocess.DEVNULL)
                self.assertIsNone(process.poll())
            out = end(process)
            self.check_killed(out)


class Same(unittest.TestCase):
    def test_state(self):
        command = ["import signal, threading, time, sys", "signal.signal(signal.SIGUSR1, lambda *a: print('caught'))",
                   "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])",
                   "[threading.Thread(target=time.sleep, args=(1000,), daemon=True).start() for i in range(3)]",
                   "print('ready', flush=True)", "sys.stdin.read()", "print('done')"]
        with program(lib.PYTHON, "-c", "\n".join(command)) as process:
            before = state(process.pid)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                with Attached(process.pid) as attached:
                    self.assertTrue(has_engine(process.pid))
                    self.assertEqual(int(re.search(r"TracerPid:\s*(\d+)", read(process.pid, "status")).group(1)), 0)
                    self.assertEqual(attached.stop(number), "")
                self.assertEqual(state(process.pid), before)
            process.send_signal(signal.SIGUSR1)
            self.assertEqual(process.stdout.readline(), "caught\n")
            self.assertEqual(end(process), "done\n")

    def test_at_once(self):
        """It is to leave before its threads have all come in."""
        command = ["import threading, time, sys",
                   "[threading.Thread(target=time.sleep, args=(1000,), daemon=True).start() for i in range(60)]",
                   "print('ready', flush=True)", "sys.stdin.read()", "print('done')"]
        with program(lib.PYTHON, "-c", "\n".join(command)) as process:
            before = state(process.pid)
            for _ in range(3):
                with Attached(process.pid) as attached:
                    self.assertEqual(attached.stop(), "")
                self.assertEqual(state(process.pid), before)
            self.assertEqual(end(process), "done\n")

    def same(self, *command, cycles=CYCLES, pause=0.02):
        alone = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout
        output = lib.scratch("output")
        with open(output, "wb") as stream, \
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream) as process:
            time.sleep(0.1)
            count = 0
            while process.poll() is None and count < cycles:
                run = subprocess.run([lib.ASSAY, "trace", "-q", "--tool", "none", "-p", str(process.pid), "--duration", "0.05"],
                                     capture_output=True, text=True, timeout=60)
                if "has ended" in run.stderr:
                    process.wait(timeout=10)
                if process.poll() is None:
                    self.assertEqual((run.returncode, run.stderr), (0, ""))
                    count += 1
                time.sleep(pause)
            self.assertEqual(process.wait(timeout=120), 0)
        with open(output, "rb") as stream:
            self.assertEqual(hashlib.sha256(stream.read()).digest(), hashlib.sha256(alone).digest())
        self.assertGreater(count, 0)

    def test_python(self):
        self.same(lib.PYTHON, "-c", "import hashlib, threading\nr = {}\ndef f(i):\n x = b''\n for k in range(30000):\n"
                                    "  x = hashlib.md5(x + str(i * k).encode()).digest()\n r[i] = x.hex()\n"
                                    "t = [threading.Thread(target=f, args=(i,)) for i in range(12)]\n"
                                    "[x.start() for x in t]\n[x.join() for x in t]\nprint(sorted(r.items()))")

    def test_xz(self):
        source = lib.scratch("source")
        with open(lib.ASSAY, "rb") as stream, open(source, "wb") as out:
            out.write((stream.read() * 10)[:8000000])
        self.same("xz", "-T2", "--block-size=1MiB", "-3", "-c", source)

    def test_java(self):
        if not shutil.which("javac"):
            self.skipTest("no java")
        source = os.path.join(lib.PROGRAMS, "Attach.java")
        subprocess.run(["javac", "-d", lib.SCRATCH, source], check=True)
        self.same("java", "-cp", lib.SCRATCH, "Attach", cycles=5)

    def test_redis(self):
        if not shutil.which("redis-server"):
            self.skipTest("no redis-server")
        path = lib.scratch("redis.sock")
        with subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no",
                               "--io-threads", "2"], cwd=lib.SCRATCH, stdout=subprocess.DEVNULL) as server:
            with socket.socket(socket.AF_UNIX) as client:
                # The file is there before anybody listens.
                lib.wait_until(lambda: not client.connect_ex(path))
                stream = client.makefile("rb")
                value = 0
                for _ in range(CYCLES):
                    with subprocess.Popen([lib.ASSAY, "trace", "-q", "--tool", "none", "-p", str(server.pid), "--duration",
                                           "0.05"]) as host:
                        while host.poll() is None:
                            client.sendall(b"INCR x\r\n" * 100)
                            for _ in range(100):
                                value += 1
                                self.assertEqual(stream.readline(), b":%d\r\n" % value)
                        self.assertEqual(host.returncode, 0)
                self.assertFalse(has_engine(server.pid))
                client.sendall(b"SHUTDOWN NOSAVE\r\n")
            self.assertEqual(server.wait(timeout=60), 0)


class Children(unittest.TestCase):
    def test_children(self):
        """What is forked and executed while the engine is there has it, and loses it with its parent."""
        command = ["import os, subprocess, sys", "print('ready', flush=True)", "sys.stdin.readline()", "p = os.fork()",
                   "if not p:", " sys.stdin.read(); print('child'); sys.stdout.flush(); os._exit(0)",
                   "s = subprocess.Popen(['sh', '-c', 'read x; read x; echo shell'], stdin=subprocess.PIPE)",
                   "print(p, s.pid, flush=True)", "os.waitpid(p, 0)", "s.communicate()", "print('parent')"]
        with program(lib.PYTHON, "-c", "\n".join(command)) as process:
            with Attached(process.pid):
                process.stdin.write("go\n")
                process.stdin.flush()
                children = [int(word) for word in process.stdout.readline().split()]
                for pid in children:
                    lib.wait_until(lambda: has_engine(pid))
            for pid in (process.pid, *children):
                self.assertFalse(has_engine(pid))
                self.assertEqual(re.search(r"TracerPid:\s*(\d+)", read(pid, "status")).group(1), "0")
            self.assertEqual(end(process), "child\nshell\nparent\n")

    def test_no_children(self):
        command = "print('ready', flush=True); import os, sys; sys.stdin.readline(); os.execlp('cat', 'cat', '-u')"
        with program(lib.PYTHON, "-c", command) as process, Attached(process.pid, "--no-children"):
            process.stdin.write("go\n")
            process.stdin.flush()
            lib.wait_until(lambda: read(process.pid, "comm") == "cat\n")
            self.assertFalse(has_engine(process.pid))
            self.assertEqual(end(process), "")


class Refused(unittest.TestCase):
    def refused(self, pid, text, **options):
        self.assertRegex(attach(pid, code=1, **options), text)

    def untouched(self, *command, text, before=lambda pid: None, after=lambda pid: None, **options):
        with program(*command, ready="ready") as process:
            before(process.pid)
            self.refused(process.pid, text, **options)
            self.refused(process.pid, text, **options)
            self.assertNotIn(MAPPED, read(process.pid, "maps"))
            after(process.pid)
            self.assertEqual(end(process), "untouched\n")

    def test_programs(self):
        lib.build("attach_refused.c")
        refused = lib.scratch("attach_refused")
        self.untouched(refused, "strict", text="seccomp")
        self.untouched(refused, "leader", text="first thread")
        self.untouched(refused, "plain", text="is stopped; continue it",
                       before=lambda pid: (os.kill(pid, signal.SIGSTOP), lib.wait_until(
                           lambda: "State:\tT" in read(pid, "status"))),
                       after=lambda pid: os.kill(pid, signal.SIGCONT))
        if lib.IS_ROOT:
            self.untouched(refused, "plain", text="belongs to another user", prefix=NOBODY)

    def test_traced(self):
        libc = ctypes.CDLL(None, use_errno=True)
        seize, interrupt, detach = 0x4206, 0x4207, 17

        def begin(pid):
            self.assertEqual(libc.ptrace(seize, pid, None, None), 0)

        def release(pid):
            libc.ptrace(interrupt, pid, None, None)
            os.waitpid(pid, 0x40000000)  # __WALL
            libc.ptrace(detach, pid, None, None)

        lib.build("attach_refused.c")
        self.untouched(lib.scratch("attach_refused"), "plain", text=f"process {os.getpid()} traces process", before=begin,
                       after=release)

    def test_32_bit(self):
        source = lib.scratch("narrow.S")
        with open(source, "w", encoding="utf-8") as stream:
            stream.write(".globl _start\n_start: mov $4, %eax\n mov $1, %ebx\n mov $text, %ecx\n mov $6, %edx\n int $0x80\n"
                         "mov $3, %eax\n xor %ebx, %ebx\n mov $space, %ecx\n mov $1, %edx\n int $0x80\n mov $4, %eax\n"
                         "mov $1, %ebx\n mov $after, %ecx\n mov $10, %edx\n int $0x80\n mov $1, %eax\n xor %ebx, %ebx\n"
                         "int $0x80\n.data\ntext: .ascii \"ready\\n\"\nafter: .ascii \"untouched\\n\"\nspace: .byte 0\n")
        narrow = lib.scratch("narrow")
        subprocess.run(["gcc", "-m32", "-nostdlib", "-static", "-o", narrow, source], check=True)
        try:
            subprocess.run([narrow], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
        except OSError:
            self.skipTest("no 32-bit programs here")
        self.untouched(narrow, text="64-bit")

    def test_others(self):
        self.refused(2 ** 22 - 1, "there is no process")
        if os.path.exists("/proc/2/status") and "VmSize" not in read(2, "status"):
            self.refused(2, "thread of the kernel")
        with program(lib.PYTHON, "-c", "import threading; threading.Thread(target=input).start(); print('ready', flush=True)") \
                as process:
            thread = max(int(tid) for tid in os.listdir(f"/proc/{process.pid}/task"))
            self.refused(thread, f"is a thread of process {process.pid}; attach to that")
            process.stdin.write("\n")
            self.assertEqual(end(process), "")
        with subprocess.Popen(["true"]) as ended:
            lib.wait_until(lambda: "State:\tZ" in read(ended.pid, "status"))
            self.refused(ended.pid, "has ended")
        for arguments in (["-p", "x"], ["-p", "1", "true"], ["--duration", "1", "true"], ["-p", "1", "--duration", "no"]):
            run = subprocess.run([lib.ASSAY, "trace", *arguments], capture_output=True, check=False)
            self.assertEqual(run.returncode, 2, run.stderr)

    def test_twice(self):
        with program(lib.PYTHON, "-c", "print('ready', flush=True); input()") as process, Attached(process.pid):
            self.refused(process.pid, "has an engine already")
            process.stdin.write("\n")
            self.assertEqual(end(process), "")


if __name__ == "__main__":
    lib.main()
