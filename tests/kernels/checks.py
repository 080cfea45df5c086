# SPDX-License-Identifier: BSD-2-Clause
"""What must hold of what an emulated machine sent (S7). Nothing here depends on how fast it is.

A check is a function of a Machine; it raises Failure with the reason. Its title is a column of the table.
"""

import json
import math
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

import lib  # noqa: E402

BPF_SINCE = (5, 17)  # bpf_loop()
ENOUGH = 25  # samples; each step has some ten times as many
CHECKS = []


class Failure(Exception):
    pass


def need(condition, *reason):
    if not condition:
        raise Failure(" ".join(str(part) for part in reason))


def check(title):
    def add(function):
        CHECKS.append((title, function))
        return function
    return add


class Machine:
    """What a machine sent: a folder with NAME.out, NAME.err, NAME.code and NAME.db of each step."""

    def __init__(self, folder):
        self.folder = folder
        self.release = self.read("release").strip()
        self.version = tuple(int(part) for part in re.findall(r"\d+", self.release)[:2])
        self.flags = set(self.read("flags").split())
        self.has_bpf = self.version >= BPF_SINCE

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        try:
            with open(self.path(name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def code(self, step):
        text = self.read(step + ".code").strip()
        need(text, step, "did not end")
        return int(text)

    def ended_well(self, step):
        need(self.code(step) == 0, step, "ended with", self.code(step), "|", self.read(step + ".err")[-300:])

    def profile(self, step, file=None):
        """The profile of a step that ended well; everything in it adds up."""
        self.ended_well(step)
        profile = lib.Profile(self.path(file or step + ".db"))
        need(profile.seen == profile.kept + profile.lost, "seen", profile.seen, "is not kept", profile.kept, "and lost")
        need(sum(stack.count for stack in profile.stacks) == profile.kept, "stacks do not add up to what is kept")
        need(profile.kept >= ENOUGH, "only", profile.kept, "samples")
        return profile

    def report(self, step, view):
        run = subprocess.run([lib.ASSAY, "report", view, "-i", self.path(step + ".db"), "--json"], capture_output=True,
                             text=True, check=False)
        need(run.returncode == 0, run.stderr)
        return json.loads(run.stdout)

    def doctor(self):
        self.ended_well("doctor")
        return {row["ability"]: row for row in json.loads(self.read("doctor.out"))["rows"]}


def names_of(stack):
    return [lib.frame_name(frame) for frame in stack.frames if frame.kind != "kernel"]


def count_where(profile, condition):
    return sum(stack.count for stack in profile.stacks if condition(stack))


def warnings_of(text):
    return [line for line in text.splitlines() if "warning" in line and "lost" not in line]


def left_out(machine, step):
    """A kernel without bpf_loop(): one line says so, and user code is recorded."""
    profile = machine.profile(step)
    warnings = warnings_of(machine.read(step + ".err"))
    need(profile.meta("sampler") == "perf ring", "the sampler is", profile.meta("sampler"))
    need(warnings and "refuses" in warnings[0] and "only user code" in warnings[0], "no clear line:", warnings)
    return profile


def spins(profile):
    """Nearly all user samples are in inner, called by outer, called by main."""
    inside = count_where(profile, lambda stack: names_of(stack)[:3] == ["inner", "outer", "main"])
    user = count_where(profile, lambda stack: names_of(stack)[-1:] == ["_start"] and "main" in names_of(stack))
    need(inside >= ENOUGH, "only", inside, "samples of inner, outer, main")
    need(inside >= 0.9 * user, inside, "of", user, "samples of main are in inner")


@check("doctor")
def doctor_answers(machine):
    rows = machine.doctor()
    parts = ["sampler_user", "sampler_kernel", "sampler_kernel_text", "sampler_values", "waits"]
    always = ["sample_own", "sample_kernel", "sample_system", "bpf_ring", "btf", "attach_own"]
    for name in always + (parts if machine.has_bpf else []):
        need(rows[name]["yes"], name, "is refused:", rows[name]["detail"])
    if not machine.has_bpf:
        need(not rows["sampler_user"]["yes"] and rows["sampler_user"]["log"], "the reason is not told")


@check("record")
def record_is_right(machine):
    if not machine.has_bpf:
        spins(left_out(machine, "record"))
        return "user code only"
    profile = machine.profile("record")
    need(not warnings_of(machine.read("record.err")), machine.read("record.err"))
    need(profile.meta("sampler") == "bpf" and profile.meta("left_out") == "", "left out:", profile.meta("left_out"))
    spins(profile)
    return None


@check("kernel code")
def kernel_code_is_seen(machine):
    if not machine.has_bpf:
        return "no"
    profile = machine.profile("calls")
    both = count_where(profile, lambda stack: stack.frames[0].kind == "kernel" and "ask" in names_of(stack))
    named = count_where(profile, lambda stack: any(
        frame.kind == "kernel" and any("statx" in name or "newfstatat" in name or "newstat" in name
                                       for name in frame.names) for frame in stack.frames))
    need(both >= ENOUGH, "only", both, "samples have kernel and user frames")
    need(named >= ENOUGH, "only", named, "samples are below the system call's function")
    return None


@check("`-a`")
def system_is_seen(machine):
    if not machine.has_bpf:
        need(machine.code("system") == 1 and "refuses" in machine.read("system.err"), machine.read("system.err"))
        return "no"
    profile = machine.profile("system")
    spinning = count_where(profile, lambda stack: stack.comm == "work" and "inner" in names_of(stack))
    need(spinning >= ENOUGH, "only", spinning, "samples of the busy process")
    need(len({stack.pid for stack in profile.stacks}) > 1, "only one process was seen")
    return None


@check("`-p`")
def process_is_seen(machine):
    profile = machine.profile("attach") if machine.has_bpf else left_out(machine, "attach")
    need({stack.comm for stack in profile.stacks} == {"work"}, "others were seen")
    spins(profile)
    return None if machine.has_bpf else "user code only"


@check("values")
def values_are_right(machine):
    if not machine.has_bpf:
        left_out(machine, "values")
        return "no"
    profile = machine.profile("values")
    need(not warnings_of(machine.read("values.err")), machine.read("values.err"))
    need(profile.meta("values") == "arg0,arg1", "values are", profile.meta("values"))
    report = machine.report("values", "args")
    rows = {row["argument"]: row for row in report["rows"] if row["symbol"] == "held"}
    need(set(rows) == {0, 1}, "arguments of held:", sorted(rows), "of", report["totals"], "runs", report["runs"])
    need([value["text"] for value in rows[0]["values"]] == ["7"], "the first argument is", rows[0]["values"])
    need({value["text"] for value in rows[1]["values"]} == {"3", "5"}, "the second is", rows[1]["values"])
    runs_agree(machine, "values")
    return None


def charged_sums_agree(machine, profile):
    """Over threads as over processors, and a task has what was charged while it ran."""
    sums = "select metric, sum(amount) from %s where metric != 'lifetime' group by metric having sum(amount) order by metric"
    threads, cpus = ([tuple(row) for row in profile.rows(sums % table)] for table in ("thread_metric", "cpu_metric"))
    need(threads == cpus, "charged to threads", threads, "and on processors", cpus)
    tasks = [row for row in machine.report("waits", "threads")["rows"] if row["comm"] == "drinks"]
    need(len(tasks) == 1, "tasks:", tasks)
    need(tasks[0]["off_pipe_ns"] > 0 and (tasks[0]["read"] or 0) >= 20, "task:", tasks)


@check("waits")
def waits_are_right(machine):
    if not machine.has_bpf:
        left_out(machine, "waits")
        return "no"
    profile = machine.profile("waits")
    need(not warnings_of(machine.read("waits.err")), machine.read("waits.err"))
    for row in machine.report("waits", "threads")["rows"]:
        spent = row["on_cpu_ns"] + row["queued_ns"] + sum(row[key] for key in row if re.fullmatch("off_.*_ns", key))
        need(spent == row["lifetime_ns"], row["comm"], "lived", row["lifetime_ns"], "and spent", spent)
    need(profile.value("select total from metric where metric = 'missed_switches'") == 0, "switches were missed")
    charged_sums_agree(machine, profile)
    rows = machine.report("waits", "waits")["rows"]
    pipes = [row for row in rows if row["cause"] == "pipe" and "drink" in row["stack"]]
    need(sum(row["count"] for row in pipes) >= 20, "waits for the pipe:", pipes)
    need(any(row["waker"] == "work" and "pour" in (row["waker_stack"] or "") for row in pipes), "wakers:", pipes)
    sleeps = [row for row in rows if row["cause"] == "sleep" and "usleep" in row["stack"]]
    need(sum(row["total_ns"] for row in sleeps) >= 30 * 20e6, "sleeps:", sleeps)
    # A kernel for real time runs timers in threads, ktimers/0 and so on.
    timers = [row for row in sleeps if row["waker"].split("/")[0] in ("interrupt", "ktimers")]
    need(sum(row["count"] for row in timers) >= 0.9 * sum(row["count"] for row in sleeps), "sleeps:", sleeps)
    return None


def runs_agree(machine, step):
    """The host executed each run once more and came to the same."""
    runs = machine.report(step, "values")["runs"]
    need(runs["seen"] == runs["kept"] + sum(runs["lost"].values()), "runs do not add up:", runs)
    need(runs["kept"] > 0 and not runs["lost"].get("disagreed"), "runs:", runs)


@check("values in the kernel")
def kernel_values_are_taken(machine):
    if not machine.has_bpf:
        return "no"
    machine.profile("kernel_values")
    rows = machine.report("kernel_values", "values")["rows"]
    inside = [row for row in rows if row["module"] == "[kernel]"]
    need(len(inside) > ENOUGH, "only", len(inside), "places of the kernel have values")
    runs_agree(machine, "kernel_values")
    return None


def engine_refused(machine, step):
    """Without FSGSBASE one line says so, and nothing is done to any program."""
    need(machine.code(step) == 1 and "FSGSBASE" in machine.read(step + ".err"), machine.read(step + ".err"))
    return "no FSGSBASE"


@check("`trace`")
def trace_is_exact(machine):
    if "fsgsbase" not in machine.flags:
        return engine_refused(machine, "trace")
    machine.ended_well("trace")
    profile = lib.Profile(machine.path("trace.db"))
    counts = dict(profile.rows("select symbol, instructions from executed_functions where module = 'work'"))
    need(counts.get("step") == 2000, "step has", counts.get("step"), "instructions, not 2 in each of 1000 calls")
    return None


@check("`trace -p`")
def trace_takes_and_gives_back(machine):
    need(machine.read("trace_attach.out") == "wrong 0\n", "the process says", machine.read("trace_attach.out"))
    if "fsgsbase" not in machine.flags:
        return engine_refused(machine, "trace_attach")
    machine.ended_well("trace_attach")
    profile = lib.Profile(machine.path("trace_attach.db"))
    counts = dict(profile.rows("select symbol, instructions from executed_functions where module = 'work'"))
    need(counts.get("inner", 0) > 1000, "nothing of inner was seen:", counts)
    return None


@check("ordinary user")
def user_can_record(machine):
    if machine.code("user_refused") != 0:  # only some kernels know a setting of 3
        need("perf_event_paranoid to 2" in machine.read("user_refused.err"), machine.read("user_refused.err"))
    profile = machine.profile("user", "user/user.db")
    warnings = warnings_of(machine.read("user.err"))
    need(profile.meta("sampler") == "perf ring", "the sampler is", profile.meta("sampler"))
    need(len(warnings) == 1 and "setcap" in warnings[0], "no clear line:", warnings)
    spins(profile)


def units_pass(machine):
    """The unit tests of what runs in the kernel."""
    names = sorted(name[5:-5] for name in os.listdir(machine.folder) if re.fullmatch(r"unit_.*\.code", name))
    need(len(names) == 3, "only these unit tests ended:", names)
    failed = [name for name in names if name != "sampler_test" and machine.code("unit_" + name) != 0]
    need(not failed, "unit tests fail:", *failed, "|", machine.read(f"unit_{failed[0]}.out")[-600:] if failed else "")
    rates_hold(machine.read("unit_sampler_test.out") + machine.read("unit_sampler_test.err"))


def rates_hold(said):
    """
    The rate is exact. Intervals cannot be shorter than a sample takes, and here a sample takes long: copying a stack is an
    instruction for each byte. So the short ones are too long; but nothing may be off by more than they are.
    """
    need(re.search(r"OK \] only_the_target_is_sampled_at_the_stated_rate", said), "the rate is not as stated:", said)
    found = re.search(r"distribution of (\d+) intervals: ([\d.]+); shortest [\d.]+ us, 1 in 20 below ([\d.]+) us", said)
    need(found, "no intervals:", said)
    short = 1 - math.exp(-float(found[3]) * 1e-6 * 997) - 0.05  # close to clocks_survival() there
    explained = short + 1.63 / math.sqrt(int(found[1]))
    need(float(found[2]) <= explained, "intervals are off by", found[2], "and", explained, "is explained:", said)
