#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: S6, S8.
"""An ordinary user: what the kernel allows is done, and one line says what is missing and how to get it."""

import json
import os
import shutil
import signal
import subprocess
import unittest

import lib

NOBODY = 65534
PREFIX = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env", f"HOME={lib.scratch('nobody')}"]
PARANOID = "/proc/sys/kernel/perf_event_paranoid"
SCRIPT = "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nfor i in range(240): fib(23)"


def folder():
    return lib.scratch("nobody")


def record(*arguments, **options):
    """As nobody, into nobody's folder, with a copy of assay that nobody may read."""
    path = os.path.join(folder(), f"{len(os.listdir(folder()))}.db")
    return lib.record(*arguments, prefix=PREFIX, assay=lib.scratch("assay"), output=path, cwd=folder(), **options)


def setUpModule():
    if not lib.IS_ROOT:
        raise unittest.SkipTest("only root can become somebody else")
    os.mkdir(folder())
    os.chown(folder(), NOBODY, NOBODY)
    os.environ["ASSAY_CACHE_DIR"] = os.path.join(folder(), "cache")
    shutil.copy(lib.ASSAY, lib.scratch("assay"))
    os.chmod(lib.scratch("assay"), 0o755)
    with open(PARANOID, encoding="ascii") as file:
        level = file.read()
    if int(level) > 2:
        unittest.addModuleCleanup(paranoid_set, level)
        paranoid_set("2")


def paranoid_set(level):
    with open(PARANOID, "w", encoding="ascii") as file:
        file.write(level)


def used(pid):
    """CPU time of the process, in seconds."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def warnings_of(text):
    """Besides those of samples lost, which a busy machine may bring."""
    return [line for line in text.splitlines() if "warning" in line and " lost: " not in line]


class Unprivileged(unittest.TestCase):
    def warned(self, text):
        """The one line: what is missing, what it means, the remedy."""
        warnings = warnings_of(text)
        self.assertEqual(len(warnings), 1, text)
        for word in ("BPF", "Operation not permitted", "own processes", "root", "setcap"):
            self.assertIn(word, warnings[0])

    def test_command(self):
        run = record("-F", "1997", "--", lib.PYTHON, "-c", SCRIPT)
        self.warned(run.err)
        lib.check_sums(self, run.profile, 300)
        ends = run.profile.ends()
        self.assertGreaterEqual(ends["complete"], 0.95 * run.profile.kept, ends)
        rooted = sum(stack.count for stack in run.profile.user_stacks() if lib.is_root(stack.frames[-1]))
        self.assertGreaterEqual(rooted, 0.95 * run.profile.kept)
        self.assertGreater(run.profile.self_counts()["_PyEval_EvalFrameDefault"], 0.2 * run.profile.kept)
        self.assertEqual([stack for stack in run.profile.stacks if stack.frames[0].kind == "kernel"], [])

    def test_rate(self):
        run = record("-F", "1997", "--", lib.build("spend.c"), "0.5")
        expected = int(run.out) / 1e9 * 1997
        self.assertAlmostEqual(run.profile.seen, expected, delta=0.06 * expected + lib.stolen() * 1997)
        lib.check_sums(self, run.profile)

    def test_recorder_that_gets_no_cpu(self):
        """For a while: what the kernel samples meanwhile is kept, with 16 KB of stack each."""
        path = os.path.join(folder(), f"run{len(os.listdir(folder()))}.db")
        program = lib.build("spend.c")
        with subprocess.Popen([*PREFIX, lib.scratch("assay"), "record", "-F", "997", "-o", path, "--", program, "1"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as recorder:
            lib.wait_until(lambda: lib.program_of(recorder.pid))
            child = lib.program_of(recorder.pid)
            lib.wait_until(lambda: used(child) > 0.3)
            recorder.send_signal(signal.SIGSTOP)
            before = used(child)
            lib.wait_until(lambda: used(child) >= before + 0.15)
            recorder.send_signal(signal.SIGCONT)
            err = recorder.communicate(timeout=60)[1].decode()
        self.assertEqual(recorder.returncode, 0, err)
        lib.check_sums(self, lib.Profile(path), 500)
        self.assertEqual(lib.Profile(path).total("samples", "lost"), 0, err)

    def test_identity(self):
        run = record("--", lib.build("chain.c", "-DWORK=mine", name="mine"), "0.3")
        process = run.profile.process(comm="mine")
        self.assertEqual(tuple(process[name] for name in ("uid", "gid", "euid", "egid")), (NOBODY,) * 4)
        self.assertEqual(process["exe"], lib.scratch("mine"))
        self.assertGreater(process["ppid"], 1)

    def test_exit_code(self):
        record("--", "sh", "-c", "exit 9", code=9)

    def test_attach_own(self):
        program = lib.build("later.c")
        with lib.Program(program, ready="ready", prefix=PREFIX, stdin=subprocess.PIPE) as target:
            run = record("-p", str(target.pid), "--duration", "0.5")
            target.process.stdin.close()
        lib.check_sums(self, run.profile, 40)
        early = sum(stack.count for stack in run.profile.stacks
                    if any("early_work" in frame.names for frame in stack.frames))
        self.assertGreater(early, 0.9 * run.profile.kept)

    def refused(self, arguments, *words):
        before = sorted(os.listdir(folder()))
        run = record(*arguments, code=1)
        last = run.err.splitlines()[-1]
        for word in words:
            self.assertIn(word, last)
        self.assertEqual(sorted(os.listdir(folder())), before)
        self.assertEqual(run.out, b"")
        return last

    def test_system_refused(self):
        self.refused(["-a", "--", "echo", "ran"], "whole system", "root")
        self.refused(["-C", "0", "--duration", "0.1"], "whole system", "root")

    def test_what_needs_bpf_is_refused(self):
        """It is not left out without a word, neither where BPF is not allowed nor where it is not wanted."""
        for option, what in (("--values", "values"), ("--off-cpu", "waits")):
            self.refused([option, "--", "echo", "ran"], f"{what} need BPF and privilege", "root")
            path = lib.scratch("not_wanted.db")
            run = lib.record("--user-only", option, "--", "echo", "ran", output=path, code=1)
            self.assertIn(f"leave out one of --user-only and {option}", run.err)
            self.assertEqual(run.out, b"")
            self.assertFalse(os.path.exists(path))

    def doctor(self, *abilities):
        """What doctor says, as nobody."""
        out = subprocess.run([*PREFIX, lib.scratch("assay"), "doctor", "--json"], capture_output=True, text=True,
                             check=True).stdout
        found = {row["ability"]: row["yes"] for row in json.loads(out)["rows"]}
        return tuple(found[ability] for ability in abilities)

    def allow(self, level):
        with open(PARANOID, encoding="ascii") as file:
            self.addCleanup(paranoid_set, file.read())
        paranoid_set(level)

    def test_kernel_where_allowed(self):
        """Without BPF, kernel code is sampled where the kernel says so; doctor says the same before."""
        command = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=20000"]
        self.assertEqual(self.doctor("sample_kernel", "sample_system"), (False, False))
        self.allow("1")
        self.assertEqual(self.doctor("sample_kernel", "sample_system"), (True, False))
        run = record("-F", "1997", "--", *command)
        lib.check_sums(self, run.profile, 100)
        self.assertEqual(len(warnings_of(run.err)), 1, run.err)
        self.assertIn("at a higher cost", run.err)
        inside = [stack for stack in run.profile.stacks if stack.frames[0].kind == "kernel"]
        count = sum(stack.count for stack in inside)
        self.assertGreater(count, 0.5 * run.profile.kept)
        rooted = sum(stack.count for stack in inside if lib.is_root(stack.frames[-1]))
        self.assertGreater(rooted, 0.8 * count, "the user's part lies below the kernel's")
        names = {name for stack in inside for frame in stack.frames for name in frame.names if frame.kind == "kernel"}
        self.assertTrue(any("read" in name for name in names), names)
        self.refused(["-a", "--duration", "0.1"], "whole system", "root")

    def test_system_where_allowed(self):
        self.allow("0")
        self.assertEqual(self.doctor("sample_kernel", "sample_system"), (True, True))
        with lib.Program(lib.build("forever.c", "-DWORK=others", name="others"), ready="ready") as target:
            run = record("-a", "--duration", "1")
        lib.check_sums(self, run.profile, 100)
        process = run.profile.process(comm="others")
        self.assertEqual((process["pid"], process["uid"]), (target.pid, 0))
        # Its code has no names: what another user's process maps is not shown.
        self.assertGreater(run.profile.value(f"""select sum(count) from sample join thread on thread.id = sample.thread
                           where thread.process = {process["id"]}"""), 20)

    def test_other_users_process_refused(self):
        with lib.Program(lib.build("forever.c", "-DWORK=others", name="others"), ready="ready") as target:
            text = self.refused(["-p", str(target.pid), "--duration", "0.2"], str(target.pid), "root")
        with open(PARANOID, encoding="ascii") as file:
            level = file.read().strip()
        self.assertNotIn(f"set it to {level}", text, "a remedy that changes nothing")

    def test_user_only_by_choice(self):
        """Root may ask for the same; nothing is missing, so nothing is said."""
        run = lib.record("--user-only", "-F", "1997", "--", lib.build("spend.c"), "0.3")
        self.assertEqual(warnings_of(run.err), [])
        self.assertEqual(run.profile.meta("sampler"), "perf ring")
        expected = int(run.out) / 1e9 * 1997
        self.assertAlmostEqual(run.profile.seen, expected, delta=0.06 * expected + lib.stolen() * 1997)


GUARDED = """
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) unsigned long work(unsigned long secret)
{
	for (int i = 0; i < 100000; i++)
		secret = secret * 6364136223846793005ul + 1442695040888963407ul;
	return secret;
}

int main(int argc, char **argv)
{
	unsigned long secret = 4711;

	if (seteuid(getuid()))
		return 1;
	if (strstr(argv[0], "reserved"))
		prctl(PR_SET_DUMPABLE, 0);
	puts("ready");
	fflush(stdout);
	while (argc > 1 || clock() < CLOCKS_PER_SEC / 2)
		secret = work(secret);
	return secret == 0;
}
"""


MAKER = """
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* 1: dec rdi; jne 1b; ret */
static const unsigned char loop[] = { 0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3 };

int main(int argc, char **argv)
{
	char *code = mmap(NULL, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), path[64];
	FILE *file;

	if (seteuid(getuid()))
		return 1;
	if (strstr(argv[0], "reserved"))
		prctl(PR_SET_DUMPABLE, 0);
	signal(SIGTERM, SIG_IGN); /* it is there when the recording ends */
	memcpy(code, loop, sizeof(loop));
	strcpy(code + 100, "secret words");
	sprintf(path, "/tmp/perf-%d.map", getpid());
	file = fopen(path, "w");
	fprintf(file, "%lx 1000 made\\n", (unsigned long)code);
	fclose(file);
	for (time_t end = time(NULL) + 4; time(NULL) < end;)
		((void (*)(long))code)(100000);
	unlink(path);
	return 0;
}
"""


class WithRights(unittest.TestCase):
    """The file has the rights that the manual tells to give it: the kernel refuses its users nothing."""

    RIGHTS = "cap_perfmon,cap_bpf,cap_sys_ptrace,cap_syslog,cap_checkpoint_restore+ep"
    CONFIGURATION = "/etc/assay.conf"

    @classmethod
    def setUpClass(cls):
        if not shutil.which("setcap"):
            raise unittest.SkipTest("there is no setcap")
        cls.assay = lib.scratch("assay-with-rights")
        shutil.copy(lib.ASSAY, cls.assay)
        os.chmod(cls.assay, 0o755)
        if subprocess.run(["setcap", cls.RIGHTS, cls.assay], capture_output=True).returncode:
            raise unittest.SkipTest("this file system keeps no rights of files")
        if os.path.exists(cls.CONFIGURATION):
            raise unittest.SkipTest(f"this machine has a {cls.CONFIGURATION}")

    def allow(self, text):
        self.addCleanup(lambda: os.path.exists(self.CONFIGURATION) and os.remove(self.CONFIGURATION))
        with open(self.CONFIGURATION, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(self.CONFIGURATION, 0o644)

    def record(self, *arguments, code=0):
        path = os.path.join(folder(), f"rights-{len(os.listdir(folder()))}.db")
        return lib.record(*arguments, prefix=PREFIX, assay=self.assay, output=path, cwd=folder(), code=code)

    def doctor(self):
        out = subprocess.run([*PREFIX, self.assay, "doctor", "--json"], capture_output=True, text=True, check=True)
        found = {row["ability"]: row["yes"] for row in json.loads(out.stdout)["rows"]}
        return found["sample_system"], found["attach_others"]

    def test_other_users(self):
        program = lib.build("forever.c", "-DWORK=others", name="others")
        with lib.Program(program, ready="ready") as target:
            process = ["-p", str(target.pid), "--duration", "0.3"]
            for arguments in (process, ["-a", "--duration", "0.1"], ["--values", *process]):
                run = self.record(*arguments, code=1)
                self.assertIn("other-users = yes", run.err)
                self.assertFalse(os.path.exists(run.path))
            self.assertEqual(self.doctor(), (False, False))
            self.allow("other-users = yes\n")
            self.assertEqual(self.doctor(), (True, True))
            run = self.record(*process)
            self.assertEqual(run.profile.meta("sampler"), "bpf", "with the rights of the file")
            self.assertGreater(run.profile.kept, 0)
            os.chmod(self.CONFIGURATION, 0o666)
            self.assertIn("allows nothing", self.record(*process, code=1).err)

    def test_kernel_values(self):
        """
        Runs of the kernel are withheld, and told; what root sees shows that there are some. Where it is allowed they
        are kept.
        """
        busy = ["--values", "--run-every", "1", "-F", "1997", "--", "dd", "if=/dev/zero", "of=/dev/null", "bs=64",
                "count=1500000"]
        query = """select count(*) from value join location on location.id = value.location
                   join module on module.id = location.module where module.kind = 'kernel'"""
        withheld = "select coalesce(sum(count), 0) from loss where reason = 'withheld'"
        self.assertGreater(lib.record(*busy).profile.value(query), 0)
        run = self.record(*busy)
        self.assertEqual(run.profile.value(query), 0)
        self.assertGreater(run.profile.value(withheld), 0)
        self.assertGreater(run.profile.value("select count(*) from value"), 0, "own values are there")
        kept = run.profile.value("select kept from recording where kind = 'values'")
        self.allow("kernel-values = yes\n")
        run = self.record(*busy)
        self.assertEqual(run.profile.value(withheld), 0)
        self.assertGreater(run.profile.value("select kept from recording where kind = 'values'"), kept)

    def guarded(self, name, prepare, text=None):
        """A program that computes in `work`, and that may do more than the user who starts it."""
        path = os.path.join(folder(), name)
        source = path + ".c"
        with open(source, "w", encoding="ascii") as file:
            file.write(text or GUARDED)
        subprocess.run(["gcc", "-O1", "-o", path, source], check=True)
        os.chown(path, 0, 0)
        prepare(path)
        return path

    def values_of(self, path):
        """Of the program's own code: values, and runs that were withheld."""
        profile = self.record("--values", "--run-every", "1", "-F", "1997", "--", path).profile
        name = os.path.basename(path)
        self.assertGreater(profile.value("""select count(*) from sample join thread on thread.id = thread
            join process on process.id = process where process.comm = ?""", name), 0, "its stacks are recorded")
        return (profile.value("""select count(*) from value join location on location.id = value.location
                              join module on module.id = module where module.name = ?""", name),
                profile.value("select coalesce(sum(count), 0) from loss where reason = 'withheld'"))

    def test_programs_with_rights_of_their_own(self):
        """
        What a setuid program computes is not for who starts it, even while it acts as that user; nor is what one
        computes that is setgid, has capabilities, cannot be read, or does not want it.
        """
        self.assertGreater(self.values_of(self.guarded("plain", lambda path: os.chmod(path, 0o755)))[0], 0)
        ways = {"setuid": lambda path: os.chmod(path, 0o4755), "setgid": lambda path: os.chmod(path, 0o2755),
                "unreadable": lambda path: os.chmod(path, 0o711), "reserved": lambda path: os.chmod(path, 0o755),
                "capable": lambda path: subprocess.run(["setcap", "cap_net_raw+ep", path], check=True)}
        for name, prepare in ways.items():
            values, withheld = self.values_of(self.guarded(name, prepare))
            self.assertEqual(values, 0, name)
            self.assertGreater(withheld, 0, name)

    def test_processes_that_hide_from_their_user(self):
        program = self.guarded("reserved_process", lambda path: os.chmod(path, 0o755))
        with lib.Program(*PREFIX, program, "attach", ready="ready") as target:
            run = self.record("-p", str(target.pid), "--duration", "0.3", code=1)
        self.assertIn("may not look into it", run.err)

    def test_memory_of_programs_with_rights_of_their_own(self):
        """A perf map is its user's, and may say that code is where something else is."""
        for name, mode, found in (("maker", 0o755, True), ("maker_setuid", 0o4755, False), ("maker_reserved", 0o755, False)):
            program = self.guarded(name, lambda path, mode=mode: os.chmod(path, mode), MAKER)
            profile = self.record("--duration", "1", "--", program).profile
            code = profile.value("select code from symbol where name = 'made'")
            self.assertEqual(b"secret words" in (code or b""), found, name)

    def test_engine(self):
        """No rights of the file for the engine: other users' processes are not taken."""
        program = lib.build("forever.c", "-DWORK=others", name="others")
        with lib.Program(program, ready="ready") as target:
            run = subprocess.run([*PREFIX, self.assay, "trace", "-o", os.path.join(folder(), "t.db"), "-p",
                                  str(target.pid), "--duration", "0.2"], capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 1, run.stderr)
            self.assertIsNone(target.process.poll())


if __name__ == "__main__":
    lib.main()
