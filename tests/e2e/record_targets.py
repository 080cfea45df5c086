#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: V1, S2, S6, S7.
"""assay record: what it samples, how often, how it ends, and that the command does not notice.

Rates are checked against the time that the scheduler says the program ran (schedstat).
"""

import os
import pty
import random
import re
import signal
import subprocess
import tempfile
import unittest

import lib

NEAR = 0.05


def samples_of(profile, function):
    return sum(stack.count for stack in profile.stacks if any(function in frame.names for frame in stack.frames))


def chain(name):
    return lib.build("chain.c", f"-DWORK={name}", name=name)


def on_terminal(arguments, **options):
    """Runs with a terminal as stderr and stdin; returns the process and the terminal's other end."""
    master, slave = pty.openpty()
    process = subprocess.Popen([lib.ASSAY, "record", *arguments], stdin=slave, stderr=slave,
                               start_new_session=True, **{"stdout": subprocess.DEVNULL, **options})
    os.close(slave)
    return process, master


def terminal_read(master):
    """Everything until the other side is closed."""
    text = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            part = b""
        if not part:
            os.close(master)
            return text.decode()
        text += part


class Targets(unittest.TestCase):
    def near(self, count, expected, near=NEAR, rate=997):
        self.assertAlmostEqual(count, expected, delta=near * expected + lib.stolen() * rate)

    def check_rate(self, rate, *options, seconds="0.6"):
        run = lib.record(*options, "--", lib.build("spend.c"), seconds)
        lib.check_sums(self, run.profile)
        mine = sum(stack.count for stack in run.profile.stacks) + run.profile.lost
        self.near(mine, int(run.out) / 1e9 * rate, rate=rate)
        return run

    def test_frequency_default(self):
        run = self.check_rate(997, seconds="1")
        self.assertEqual(run.profile.meta("frequency"), "997")

    def test_frequency(self):
        self.check_rate(3989, "-F", "3989")

    def test_frequency_low(self):
        self.check_rate(499, "--freq", "499", seconds="1.5")

    def test_count(self):
        self.check_rate(2000, "-c", "500000")

    def test_all_cpus(self):
        lib.need_root(self)
        with lib.Program(lib.build("forever.c", "-DWORK=beside", name="beside"), ready="ready") as beside:
            run = lib.record("-a", "-F", "1997", "--", lib.build("spend.c"), "0.6")
        lib.check_sums(self, run.profile)
        mine = sum(stack.count for stack in run.profile.stacks if stack.comm == "spend")
        self.near(mine, int(run.out) / 1e9 * 1997, rate=1997)
        others = sum(stack.count for stack in run.profile.stacks if stack.pid == beside.pid)
        self.assertGreater(others, 100)
        self.assertGreater(samples_of(run.profile, "beside"), 0.9 * others)
        self.assertIn(beside.pid, [row["pid"] for row in run.profile.rows("select pid from processes")])

    def test_cpu(self):
        lib.need_root(self)
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            self.skipTest("only one CPU")
        first, second = cpus[0], cpus[-1]
        program = lib.build("forever.c", "-DWORK=pinned", name="pinned")
        with lib.Program("taskset", "-c", str(first), program, ready="ready") as here, \
                lib.Program("taskset", "-c", str(second), program, ready="ready") as there:
            profile = lib.record("-C", str(second), "--duration", "2").profile
        lib.check_sums(self, profile)
        counts = [sum(stack.count for stack in profile.stacks if stack.pid == program.pid)
                  for program in (here, there)]
        self.assertEqual(counts[0], 0)
        self.assertGreater(counts[1], 100)

    def test_cpu_of_command(self):
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            self.skipTest("only one CPU")
        for cpu, other in ((cpus[0], cpus[-1]), (cpus[-1], cpus[0])):
            profile = lib.record("-C", str(cpu), "--", "taskset", "-c", str(other), chain("elsewhere"), "0.3").profile
            self.assertEqual(samples_of(profile, "elsewhere"), 0)
        profile = lib.record("-C", f"{cpus[0]}-{cpus[-1]}", "--", chain("anywhere"), "0.3").profile
        self.near(samples_of(profile, "anywhere"), 0.3 * 997, 0.12)

    def test_attach(self):
        with lib.Program(lib.build("later.c"), chain("later_program"), "0.3", ready="ready",
                         stdin=subprocess.PIPE) as program:
            with lib.Recording("-F", "1997", "-p", str(program.pid)) as recording:
                recording.wait_begun()
                program.process.stdin.write("\n")
                program.process.stdin.flush()
                run = recording.wait()
            program.process.stdin.close()
        lib.check_sums(self, run.profile)
        self.assertIsNone(run.profile.meta("process_events_lost"), "the perf rings were too small for this machine")
        for function in ("late_work", "child_work", "child_thread_work", "later_program"):
            with self.subTest(function):
                self.near(samples_of(run.profile, function), 0.3 * 1997, 0.12, rate=1997)
        self.assertGreater(samples_of(run.profile, "early_work"), 300)
        self.assertEqual(run.profile.process(comm="later_program")["exe"], lib.scratch("later_program"))
        for row in run.profile.rows("select started, ended from process where parent is not null"):
            self.assertGreater(row["ended"], row["started"])

    def test_attach_ends_with_duration(self):
        with lib.Program(lib.build("forever.c", "-DWORK=endless", name="endless"), ready="ready") as program:
            profile = lib.record("-p", str(program.pid), "--duration", "0.5").profile
            self.assertIsNone(program.process.poll(), "the attached process must go on")
        self.assertGreater(samples_of(profile, "endless"), 40)

    def test_a_command_that_outlives_the_duration_is_told(self):
        """S10: it goes on, and is not left behind without a word."""
        program = lib.build("forever.c", "-DWORK=endless", name="endless")
        # Not a pipe, which the command would keep open.
        with open(lib.scratch("outlived.log"), "w+", encoding="utf-8") as log:
            run = subprocess.run([lib.ASSAY, "record", "--duration", "0.5", "-o", lib.scratch("outlived.db"), "--", program],
                                 stdout=subprocess.DEVNULL, stderr=log, timeout=60)
            log.seek(0)
            said = log.read()
        [pid] = re.findall(r"the command goes on without being recorded, as process (\d+)", said)
        os.kill(int(pid), signal.SIGKILL)
        self.assertEqual(run.returncode, 0, said)



WORKERS = """
import os, sys, time
for _ in range(2):
    if os.fork() == 0:
        while True:
            sum(range(1000))
print("ready", flush=True)
time.sleep(60)
"""


@unittest.skipUnless(lib.IS_ROOT, "only root can make PID namespaces")
class Namespace(unittest.TestCase):
    """In a PID namespace BPF programs see other process numbers than /proc and the kernel's events."""

    WITHIN = ["unshare", "--pid", "--fork", "--mount-proc"]

    def record(self, *arguments, code=0):
        run = lib.record(*arguments, prefix=self.WITHIN, code=code)
        self.assertIn("in a PID namespace of its own", run.err)
        return run

    def test_command(self):
        run = self.record("--", lib.build("spend.c"), "0.5")
        self.assertGreater(run.profile.kept, 250)
        self.assertGreater(samples_of(run.profile, "work"), 0.3 * run.profile.kept)

    def test_everything(self):
        """Processes outside have no number: what is sampled there is told apart from what is known."""
        with lib.Program(lib.build("forever.c", "-DWORK=outside", name="outside"), ready="ready"):
            run = self.record("-a", "--", lib.build("spend.c"), "0.5")
        lib.check_sums(self, run.profile)
        self.assertGreater(run.profile.value("select sum(count) from loss where reason = 'no_process'"), 0)
        self.assertEqual([stack for stack in run.profile.user_stacks(0)], [])
        self.assertGreater(samples_of(run.profile, "work"), 0)

    def test_refused(self):
        for option in ("--values", "--off-cpu"):
            run = self.record(option, "--", "echo", "ran", code=1)
            self.assertIn("outside of containers", run.err)
            self.assertEqual(run.out, b"")

    def test_doctor(self):
        out = subprocess.run([*self.WITHIN, lib.ASSAY, "doctor"], capture_output=True, text=True, check=True).stdout
        self.assertRegex(out, "no +BPF programs on perf events +in a PID namespace")


@unittest.skipUnless(lib.IS_ROOT, "needs BPF")
class Selecting(unittest.TestCase):
    """A master process that waits, and two workers that were there before."""

    def setUp(self):
        self.master = lib.Program(lib.PYTHON, "-c", WORKERS, ready="ready", start_new_session=True)
        self.addCleanup(lambda: (os.killpg(self.master.pid, signal.SIGKILL), self.master.__exit__()))
        with open(f"/proc/{self.master.pid}/task/{self.master.pid}/children", encoding="ascii") as file:
            self.workers = {int(pid) for pid in file.read().split()}

    def pids(self, run):
        return {stack.pid for stack in run.profile.stacks}

    def test_master_alone(self):
        run = lib.record("-p", str(self.master.pid), "--duration", "1")
        self.assertFalse(self.pids(run) & self.workers)
        self.assertRegex(run.err, r"2 processes that it had created before took [0-9.]+ s: --children")

    def test_children(self):
        run = lib.record("-p", str(self.master.pid), "--children", "--duration", "0.5")
        self.assertEqual(self.pids(run), self.workers)
        self.assertNotIn("created before", run.err)

    def test_name(self):
        name = os.path.basename(os.path.realpath(lib.PYTHON))
        run = lib.record("--comm", name[:-1] + "?", "--duration", "0.5")
        self.assertLessEqual(self.workers, self.pids(run))
        self.assertIn("no process has that name", lib.record("--comm", "nosuchname", code=1).err)

    def test_cgroup(self):
        """One of the workers is moved to a group of its own, where containers are."""
        root = "/sys/fs/cgroup"
        worker = min(self.workers)
        with open(f"/proc/{worker}/cgroup", encoding="ascii") as file:
            lines = file.read().split()
        if not any(line.startswith("0::") for line in lines) or not os.path.exists(f"{root}/cgroup.procs"):
            self.skipTest("no unified control groups")
        identity = "1f2e3d4c5b6a" + "0" * 52
        path = f"{root}/assay-{identity}"
        os.mkdir(path)
        self.addCleanup(lambda: os.rmdir(path))
        self.addCleanup(lambda: (os.killpg(self.master.pid, signal.SIGKILL),
                                 lib.wait_until(lambda: not open(f"{path}/cgroup.procs", encoding="ascii").read())))
        with open(f"{path}/cgroup.procs", "w", encoding="ascii") as file:
            file.write(str(worker))
        for option in (["--cgroup", path], ["--container", identity[:12]]):
            self.assertEqual(self.pids(lib.record(*option, "--duration", "0.3")), {worker})
        self.assertIn("no process is in", lib.record("--container", "feedfacecafe", code=1).err)

    def test_usage(self):
        self.assertIn("leave out", lib.record("-a", "--comm", "sh", code=2).err)
        self.assertIn("--children", lib.record("--children", "--", "true", code=2).err)


class Endings(unittest.TestCase):
    def test_exit_codes(self):
        for script, code in (("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -TERM $$", 143),
                             ("kill -SEGV $$", 139), ("kill -KILL $$", 137)):
            with self.subTest(script):
                run = lib.record("--", "sh", "-c", script, code=code)
                self.assertEqual(run.profile.meta("finished"), "1")

    def test_a_late_collector_ends(self):
        """One whose rounds all take longer than they may still hears that the command has ended."""
        lib.need_root(self)
        late = lib.build("late_batches.c", "-shared", "-fPIC", name="late_batches.so")
        run = lib.record("--", "sleep", "1", env={**os.environ, "LD_PRELOAD": late})
        self.assertEqual(run.profile.meta("finished"), "1")

    def check_finished(self, run, function):
        self.assertEqual(run.profile.meta("finished"), "1")
        lib.check_sums(self, run.profile, 40)
        self.assertGreater(samples_of(run.profile, function), 0.8 * run.profile.kept)

    def test_signals_stop_an_attached_recording(self):
        program = lib.build("forever.c", "-DWORK=watched", name="watched")
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number), lib.Program(program, ready="ready") as target:
                with lib.Recording("-p", str(target.pid)) as recording:
                    lib.wait_until(lambda: has_samples(recording, 60))
                    run = recording.stop(number)
                self.check_finished(run, "watched")
                self.assertIsNone(target.process.poll())

    def test_signals_stop_the_command_too(self):
        program = lib.build("forever.c", "-DWORK=stopped", name="stopped")
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number), lib.Recording("--", program) as recording:
                lib.wait_until(lambda: has_samples(recording, 60))
                run = recording.stop(number, code=None)
                self.assertIn(run.code, (128 + number, 128 + signal.SIGTERM))
                self.check_finished(run, "stopped")
                pid = run.profile.process(comm="stopped")["pid"]
                self.assertFalse(os.path.exists(f"/proc/{pid}"))

    def test_command_may_handle_the_signal(self):
        script = "trap 'exit 5' TERM; while :; do :; done"
        with lib.Recording("--", "sh", "-c", script) as recording:
            lib.wait_until(lambda: has_samples(recording, 60))
            run = recording.stop(signal.SIGTERM, code=5)
        self.assertEqual(run.profile.meta("finished"), "1")

    def test_control_c(self):
        """The terminal signals the whole foreground group: the command decides itself."""
        path = tempfile.mktemp(suffix=".db", dir=lib.SCRATCH)
        script = "trap 'exit 6' INT; trap 'exit 7' TERM; while :; do :; done"
        child, master = pty.fork()
        if child == 0:
            os.execv(lib.ASSAY, [lib.ASSAY, "record", "-o", path, "--", "sh", "-c", script])
        lib.wait_until(lambda: lib.has_tables(path) and lib.Profile(path).value("select kept from totals") > 60)
        os.write(master, b"\x03")
        terminal_read(master)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 6)
        self.assertEqual(lib.Profile(path).meta("finished"), "1")

    def test_progress_on_a_terminal_only(self):
        path = tempfile.mktemp(suffix=".db", dir=lib.SCRATCH)
        command = ["-o", path, "--", chain("shown"), "1.3"]
        process, master = on_terminal(command)
        text = terminal_read(master)
        self.assertEqual(process.wait(), 0)
        numbers = [int(number) for number in re.findall(r"\r[^\r\n]*?(\d+) samples", text)]
        self.assertGreaterEqual(len(numbers), 2, text)
        self.assertEqual(numbers, sorted(numbers))
        process, master = on_terminal(["-q", *command])
        self.assertNotIn("samples", terminal_read(master))
        self.assertEqual(process.wait(), 0)
        run = lib.record("--", chain("shown"), "1.3")
        self.assertNotIn("\r", run.err)
        self.assertNotIn("\033", run.err)
        self.assertEqual(run.err.count("samples"), 1, run.err)
        self.assertEqual(lib.record("-q", "--", "true").err, "")


def has_samples(recording, count):
    return lib.has_tables(recording.path) and lib.Profile(recording.path).value("select kept from totals") >= count


def contents(path):
    with open(path, "rb") as file:
        return file.read()


class Refusals(unittest.TestCase):
    def refused(self, code, arguments, *words, output=None):
        """Fails with a sentence that has the words, and leaves nothing behind."""
        with self.subTest(arguments=arguments), tempfile.TemporaryDirectory(dir=lib.SCRATCH) as folder:
            path = output or os.path.join(folder, "x.db")
            run = lib.record(*arguments, output=path, code=code, cwd=folder)
            self.assertEqual(run.out, b"")
            for word in words:
                self.assertIn(word, run.err)
            self.assertEqual(os.listdir(folder), [], run.err)

    def test_wrong_usage(self):
        for arguments in (["--nonsense", "--", "true"], [], ["-p"], ["-p", "x"], ["-p", "-3"], ["-a", "-p", "1"],
                          ["-F", "0", "true"], ["-F", "many", "true"], ["-F", "-5", "true"], ["-c", "1x", "true"],
                          ["-C", "1-", "true"], ["-C", "x", "true"], ["-e", "nonsense", "true"],
                          ["--duration", "-1", "true"], ["--duration", "x", "true"], ["--ring", "0", "true"],
                          ["--max-stacks", "1", "true"], ["--max-depth", "100000", "true"]):
            names = {"-F": "--freq", "-C": "--cpu"}
            word = "nothing to profile" if not arguments else "nonsense" if "nonsense" in arguments else \
                names.get(arguments[0], arguments[0])
            self.refused(2, arguments, word)

    def test_no_such_command(self):
        self.refused(1, ["--", "/no/such/program"], "/no/such/program", "No such file")
        self.refused(1, ["--", "no-such-program-anywhere"], "no-such-program-anywhere")
        self.refused(1, ["--", "/etc/passwd"], "/etc/passwd", "Permission denied")
        script = lib.scratch("no-interpreter")
        with open(script, "w", encoding="ascii") as file:
            file.write("#!/no/such/interpreter\n")
        os.chmod(script, 0o755)
        self.refused(1, ["--", script], script)

    def test_no_such_process(self):
        with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
            pid = int(file.read()) - 1
        self.refused(1, ["-p", str(pid)], str(pid))

    def test_no_such_cpu(self):
        self.refused(1, ["-C", "8000", "--duration", "0.1"], "8000")

    def test_outputs_that_cannot_be(self):
        folder = tempfile.mkdtemp(dir=lib.SCRATCH)
        os.mkdir(os.path.join(folder, "taken"))
        witness = lib.scratch("witness")
        for output in (os.path.join(folder, "missing/x.db"), "/proc/x.db", os.path.join(folder, "taken")):
            self.refused(1, ["--", "touch", witness], output, output=output)
            self.assertFalse(os.path.exists(witness), "the command ran although nothing could be written")
        self.assertEqual(os.listdir(folder), ["taken"])

    @unittest.skipUnless(lib.IS_ROOT, "mounts a small disk")
    def test_disk_that_is_full_at_the_start(self):
        """Nothing stays on it, and the command does not run."""
        folder, witness = tempfile.mkdtemp(dir=lib.SCRATCH), lib.scratch("began")
        for size in ("16k", "200k", "300k"):  # fails at the folder, the file, the log's index
            script = (f"mount -t tmpfs -o size={size} none {folder} && {lib.ASSAY} record -o {folder}/x.db -- touch {witness}; "
                      f"code=$?; ls -A {folder}; exit $code")
            done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True)
            with self.subTest(size=size):
                self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                self.assertRegex(done.stderr, "(?i)no space left on")
                self.assertFalse(os.path.exists(witness))

    @unittest.skipUnless(lib.IS_ROOT, "mounts a small disk")
    def test_disk_that_becomes_full(self):
        """The command goes on to its end, and who waits for both does so as long; the failure is said at once."""
        folder, witness = tempfile.mkdtemp(dir=lib.SCRATCH), lib.scratch("ended")
        said = lib.scratch("said")
        command = (f"dd if=/dev/zero of={folder}/fill bs=4k 2>/dev/null; until grep -q goes.on {said}; do :; done; "
                   f"echo end >{witness}; exit 3")
        script = f"mount -t tmpfs -o size=8m none {folder} && exec {lib.ASSAY} record -o {folder}/x.db -- sh -c '{command}'"
        with open(said, "wb") as errors:
            done = subprocess.run(["unshare", "-m", "sh", "-c", script], stdout=subprocess.DEVNULL, stderr=errors,
                                  timeout=60)
        words = contents(said).decode()
        self.assertEqual(done.returncode, 1, words)
        self.assertEqual(contents(witness), b"end\n", words)
        self.assertRegex(words, "warning: .*space left on .*the command goes on without being recorded")

    def test_limit_of_file_sizes(self):
        """It is an error that is said, not a signal; the command has the signal as it was."""
        limited = lib.scratch("limited.db")
        for command in (f"record -o {limited} -- true", f"html -i {self.spent()} -o {limited}",
                        f"merge {self.spent()} {self.spent()} -o {limited}"):
            done = subprocess.run(["sh", "-c", f"ulimit -f 8; {lib.ASSAY} {command}"], capture_output=True, text=True)
            with self.subTest(command=command):
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertRegex(done.stderr, "limited.db.*(too large|too big|[Ll]imit)")
        for default in (True, False):
            done = subprocess.run([lib.ASSAY, "record", "-q", "-o", lib.scratch("state.db"), "--", "grep", "SigIgn",
                                   "/proc/self/status"], capture_output=True, text=True, check=True,
                                  preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_DFL if default
                                                                   else signal.SIG_IGN))
            ignored = int(done.stdout.split()[1], 16) >> (signal.SIGXFSZ - 1) & 1
            self.assertEqual(ignored, 0 if default else 1)

    def spent(self):
        path = lib.scratch("spent.db")
        if not os.path.exists(path):
            lib.record("-F", "997", "--", lib.build("spend.c"), "0.2", output=path)
        return path

    def test_failure_keeps_the_existing_profile(self):
        path = lib.scratch("kept.db")
        with open(path, "wb") as file:
            file.write(b"precious")
        lib.record("--", "/no/such/program", output=path, code=1)
        self.assertEqual(contents(path), b"precious")
        self.assertFalse(os.path.exists(path + ".old"))

    def test_existing_profile_becomes_old(self):
        path = lib.scratch("again.db")
        for round_ in range(3):
            before = contents(path) if round_ else None
            lib.record("--", "sh", "-c", f"exit {round_}", output=path, code=round_)
            if before:
                self.assertEqual(contents(path + ".old"), before)
        names = sorted(name for name in os.listdir(lib.SCRATCH) if name.startswith("again.db"))
        self.assertEqual(names, ["again.db", "again.db.old"])

    def test_default_output(self):
        with tempfile.TemporaryDirectory(dir=lib.SCRATCH) as folder:
            subprocess.run([lib.ASSAY, "record", "-q", "--", "true"], check=True, cwd=folder)
            self.assertEqual(os.listdir(folder), ["assay.db"])


WITNESS = """
import os, resource, signal, sys
print(sys.argv[1:], sorted(os.environ.items()), os.getcwd(), os.getsid(0) == os.getsid(os.getppid()))
print(os.umask(0o22), signal.pthread_sigmask(signal.SIG_BLOCK, []), os.nice(0), os.sched_getaffinity(0))
print([signal.getsignal(n) for n in range(1, 32)])
print([resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith('RLIMIT_')])
print([fd for fd in range(64) if os.path.exists('/proc/self/fd/%d' % fd)])
# SigQ, the signals that wait for all of the user's processes, is not the command's own.
print([line for line in open('/proc/self/status') if line.startswith(('SigP', 'SigB', 'SigI', 'SigC', 'Cap', 'NoNewPrivs', 'Seccomp', 'TracerPid'))])
"""


class Transparency(unittest.TestCase):
    """The command cannot tell."""

    def test_standard_streams(self):
        data = random.Random(1).randbytes(3000000)
        run = lib.record("-F", "3989", "--", "sh", "-c", "cat; echo to stderr >&2", stdin=None, input=data)
        self.assertEqual(run.out, data)
        self.assertEqual(run.err.splitlines()[0], "to stderr")

    def test_surroundings(self):
        command = [lib.PYTHON, "-c", WITNESS, "two words", "", "--", "-o", "a\nb"]
        alone = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=True)
        run = lib.record("--", *command)
        self.assertEqual(run.out.decode(), alone.stdout.decode())

    def test_without_dashes(self):
        self.assertEqual(lib.record("echo", "-n", "-a").out, b"-a")


if __name__ == "__main__":
    lib.main()
