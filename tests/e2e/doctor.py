#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: S6, S7.
"""Each answer of assay doctor must agree with what perf, bpftool and gdb can do as the same user.

Asked as root, as an ordinary user, as an ordinary user after the setcap remedy, and under other settings of
the kernel, which are put back. An ordinary user who runs this is only asked as himself.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ASSAY = os.environ.get("ASSAY", "build/assay")
SCRATCH = tempfile.mkdtemp(prefix="doctor-")
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
RIGHTS = ["perfmon", "bpf", "sys_ptrace", "syslog", "checkpoint_restore"]
AMBIENT = ",".join("+" + right for right in RIGHTS)
ROOT = os.geteuid() == 0
os.environ["PATH"] += ":/usr/sbin:/sbin"

BPF_PROGRAMS = {
    "bpf_sampler": "perf_event",
    "bpf_tracepoint": "tp_btf/sched_process_exec",
    "bpf_fentry": "fentry/wake_up_new_task",
}


class Identity:
    """Somebody who runs commands: a prefix for other programs, and one's own copy of assay."""

    def __init__(self, name, prefix, prefix_assay, assay):
        self.name, self.prefix, self.prefix_assay, self.assay = name, prefix, prefix_assay, assay

    def run(self, *command, **options):
        return subprocess.run(self.prefix + list(command), capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, cwd=SCRATCH, timeout=120, **options)

    def succeeds(self, *command):
        return self.run(*command).returncode == 0

    def doctor(self, *options, env=None):
        run = subprocess.run(self.prefix_assay + [self.assay, "doctor", *options], text=True,
                             capture_output=True, cwd=SCRATCH, timeout=120,
                             env={**os.environ, "ASSAY_CACHE_DIR": SCRATCH, **(env or {})})
        assert run.returncode == 0, run
        return run.stdout

    def answers(self, env=None):
        return {row["ability"]: row for row in json.loads(self.doctor("--json", env=env))["rows"]}


def perf_record(who, *options):
    return who.succeeds("perf", "record", "-q", "-o", "/dev/null", *options)


def perf_counts(who, event):
    run = who.run("perf", "stat", "-x,", "-e", event + ":u", "true")
    return run.returncode == 0 and "not supported" not in run.stderr and "not counted" not in run.stderr


def bpf_program_loads(who, ability):
    pin = os.path.join(SCRATCH, "bpf", ability)
    loaded = who.succeeds("bpftool", "prog", "load", os.path.join(SCRATCH, ability + ".o"), pin)
    if os.path.exists(pin):
        os.unlink(pin)
    return loaded


def bpf_ring_made(who):
    pin = os.path.join(SCRATCH, "bpf", "ring")
    made = who.succeeds("bpftool", "map", "create", pin, "type", "ringbuf", "key", "0", "value", "0",
                        "entries", "4096", "name", "ring")
    if os.path.exists(pin):
        os.unlink(pin)
    return made


@contextlib.contextmanager
def sleeper(prefix):
    """It sleeps already: what runs before that has other files mapped."""
    process = subprocess.Popen(prefix + ["sleep", "600"])
    try:
        for _ in range(1000):
            with open(f"/proc/{process.pid}/comm", encoding="utf-8") as name:
                if name.read() == "sleep\n":
                    break
            time.sleep(0.01)
        yield str(process.pid)
    finally:
        process.kill()
        process.wait()


def gdb_attaches(who, prefix):
    with sleeper(prefix) as pid:
        run = who.run("gdb", "-nx", "-batch", "-p", pid, "-ex", "info registers rip",
                      env={**os.environ, "DEBUGINFOD_URLS": ""})
        return bool(re.search(r"^rip +0x", run.stdout, re.MULTILINE))


def map_file_opens(who):
    with sleeper(who.prefix_assay) as pid:
        return who.succeeds("sh", "-c", f"cd /proc/{pid}/map_files && : <$(ls | head -n 1)")


def sysctl_path(name):
    return "/proc/sys/" + name.replace(".", "/")


@contextlib.contextmanager
def sysctl(**settings):
    """Sets kernel.NAME to value and puts the old value back."""
    old = {}
    try:
        for name, value in settings.items():
            with open(sysctl_path("kernel." + name), encoding="ascii") as file:
                old[name] = file.read().strip()
            with open(sysctl_path("kernel." + name), "w", encoding="ascii") as file:
                file.write(str(value))
        yield
    finally:
        for name, value in old.items():
            with open(sysctl_path("kernel." + name), "w", encoding="ascii") as file:
                file.write(value)


# What else can tell: ability -> who -> whether it works.
ORACLES = {
    "sample_own": lambda who: perf_record(who, "-e", "cpu-clock:u", "true"),
    "sample_kernel": lambda who: perf_record(who, "-e", "cpu-clock:k", "true"),
    "sample_system": lambda who: perf_record(who, "-a", "-e", "cpu-clock:k", "true"),
    "sample_rate": lambda who: perf_record(who, "--strict-freq", "-F", "4999", "-e", "cpu-clock:u", "true"),
    "cycles": lambda who: perf_counts(who, "cycles"),
    "instructions": lambda who: perf_counts(who, "instructions"),
    "btf": lambda who: who.succeeds("bpftool", "btf", "dump", "file", "/sys/kernel/btf/vmlinux"),
    "kernel_symbols": lambda who: who.succeeds(
        "sh", "-c", "grep -q '^[1-9a-f][0-9a-f]* [tT] ' /proc/kallsyms"),
    "attach_own": lambda who: gdb_attaches(who, who.prefix_assay),
    "engine": lambda who: who.succeeds("grep", "-qw", "fsgsbase", "/proc/cpuinfo"),
    "map_files": map_file_opens,
    "cache": lambda who: who.succeeds("touch", os.path.join(SCRATCH, "touched")),
}
# These need root to prepare the ground: a mounted bpffs, a process of somebody else.
ORACLES_ROOT = {
    "bpf_ring": bpf_ring_made,
    **{name: (lambda who, name=name: bpf_program_loads(who, name)) for name in BPF_PROGRAMS},
    "attach_others": lambda who: gdb_attaches(who, NOBODY if who.name == "root" else []),
}


def setUpModule():
    unittest.addModuleCleanup(shutil.rmtree, SCRATCH, ignore_errors=True)
    os.chmod(SCRATCH, 0o777)
    shutil.copy(ASSAY, os.path.join(SCRATCH, "assay"))
    os.chmod(os.path.join(SCRATCH, "assay"), 0o755)
    if not ROOT:
        return
    for name, section in BPF_PROGRAMS.items():
        source = (f'char LICENSE[] __attribute__((section("license"), used)) = "GPL";\n'
                  f'__attribute__((section("{section}"), used)) int program(void *c) {{ return 0; }}\n')
        subprocess.run(["clang", "-O2", "-g", "-target", "bpf", "-c", "-x", "c", "-", "-o",
                        os.path.join(SCRATCH, name + ".o")], input=source, text=True, check=True)
    os.mkdir(os.path.join(SCRATCH, "bpf"))
    subprocess.run(["mount", "-t", "bpf", "-o", "mode=0777", "bpf", os.path.join(SCRATCH, "bpf")],
                   check=True)
    unittest.addModuleCleanup(subprocess.run, ["umount", os.path.join(SCRATCH, "bpf")])


def identity_self():
    return Identity("root" if ROOT else "self", [], [], os.path.join(SCRATCH, "assay"))


def identity_nobody():
    return Identity("nobody", NOBODY, NOBODY, os.path.join(SCRATCH, "assay"))


def identity_rights():
    """Nobody, with assay after the remedy; the other programs get the same rights another way."""
    assay = os.path.join(SCRATCH, "assay-rights")
    shutil.copy(os.path.join(SCRATCH, "assay"), assay)
    subprocess.run(["setcap", ",".join("cap_" + right for right in RIGHTS) + "+ep", assay], check=True)
    prefix = NOBODY + ["--inh-caps", AMBIENT, "--ambient-caps", AMBIENT]
    return Identity("rights", prefix, NOBODY, assay)


class DoctorTest(unittest.TestCase):
    def compare(self, who, names=None):
        oracles = {**ORACLES, **(ORACLES_ROOT if ROOT else {})}
        # Somebody else's process must exist for an ordinary user to knock at.
        with sleeper([]):
            answers = who.answers()
        for name in names or oracles:
            with self.subTest(who=who.name, ability=name):
                self.assertEqual(answers[name]["yes"], oracles[name](who), answers[name])
        return answers

    def need_root(self):
        if not ROOT:
            self.skipTest("only root can become somebody else")

    def test_as_oneself(self):
        answers = self.compare(identity_self())
        if ROOT:
            self.assertTrue(answers["sample_system"]["yes"], answers["sample_system"])

    def test_as_nobody(self):
        self.need_root()
        answers = self.compare(identity_nobody())
        for name in ("bpf_sampler", "attach_others", "map_files"):
            self.assertFalse(answers[name]["yes"])

    def test_setcap_remedy(self):
        self.need_root()
        who = identity_rights()
        others = ("sample_system", "attach_others")  # the rights of the file are not for these
        answers = self.compare(who, [name for name in {**ORACLES, **ORACLES_ROOT} if name not in others])
        for name in others:
            self.assertEqual((answers[name]["yes"], "/etc/assay.conf" in answers[name]["remedy"]), (False, True))
        as_root, as_nobody = identity_self().answers(), identity_nobody().answers()
        for name, row in as_nobody.items():
            if name in others:
                self.assertIn("setcap alone needs 'other-users = yes' in /etc/assay.conf", row["remedy"])
            elif "setcap" in row["remedy"] and as_root[name]["yes"]:
                self.assertTrue(answers[name]["yes"], answers[name])

    def test_other_settings(self):
        self.need_root()
        names = ["sample_own", "sample_kernel", "sample_system", "kernel_symbols"]
        for paranoid, restrict in ((-1, 0), (0, 0), (1, 0), (2, 0), (3, 0), (1, 1), (-1, 2)):
            with sysctl(perf_event_paranoid=paranoid, kptr_restrict=restrict):
                self.compare(identity_nobody(), names)

    def test_sysctl_remedies(self):
        self.need_root()
        tried = 0
        for name, row in identity_nobody().answers().items():
            settings = dict(re.findall(r"kernel\.([a-z_]+)=(-?\d+)", row["remedy"]))
            if settings:
                with self.subTest(ability=name, settings=settings), sysctl(**settings):
                    self.assertTrue(identity_nobody().answers()[name]["yes"])
                    tried += 1
        self.assertGreater(tried, 0)

    def test_limits_of_rate_and_memory(self):
        self.need_root()
        with sysctl(perf_event_max_sample_rate=3000):
            answers = self.compare(identity_nobody(), ["sample_rate"])
            self.assertFalse(answers["sample_rate"]["yes"])
            self.assertIn("3000 Hz", answers["sample_rate"]["detail"])
        with sysctl(perf_event_max_sample_rate=25000):
            self.assertIn("25000 Hz", identity_nobody().answers()["sample_rate"]["detail"])
        self.check_ring(identity_nobody())

    def check_ring(self, who):
        row = who.answers()["locked_memory"]
        kilobytes = int(re.search(r"a ring of (\d+) KB", row["detail"]).group(1))
        ring = ["--per-thread", "-e", "cpu-clock:u", "true"]
        self.assertEqual(row["yes"], perf_record(who, "-m", f"{kilobytes}K", *ring))
        if "most that was tried" not in row["detail"]:
            self.assertFalse(perf_record(who, "-m", f"{2 * kilobytes}K", *ring))

    def test_environment(self):
        who = identity_self()
        self.assertFalse(who.answers(env={"DEBUGINFOD_URLS": ""})["debuginfod"]["yes"])
        self.assertFalse(who.answers(env={"ASSAY_CACHE_DIR": "/proc/none"})["cache"]["yes"])

    def test_no_escape_codes(self):
        """What it says of the environment cannot control a terminal."""
        hostile = "/none\x1b[1m\u009b1m"
        text = identity_self().doctor(env={"ASSAY_CACHE_DIR": hostile, "DEBUGINFOD_URLS": hostile})
        self.assertIn("none", text)
        self.assertNotRegex(text, "[\x00-\x09\x0b-\x1f\x7f-\x9f]")

    def test_text_says_the_same(self):
        who = identity_self()
        rows = list(who.answers().values())
        lines = who.doctor().splitlines()
        self.assertEqual([line.split()[0] == "yes" for line in lines if not line.startswith(" ")],
                         [row["yes"] for row in rows])
        self.assertEqual([line.strip()[3:] for line in lines if line.startswith(" ")],
                         [row["remedy"] for row in rows if not row["yes"]])

    def test_wrong_usage(self):
        run = subprocess.run([ASSAY, "doctor", "--nonsense"], capture_output=True)
        self.assertEqual((run.returncode, run.stdout), (2, b""))
        run = subprocess.run([ASSAY, "doctor", "extra"], capture_output=True)
        self.assertEqual((run.returncode, run.stdout), (2, b""))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
