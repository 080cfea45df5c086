#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: V16.
"""Which program, which file, whose process: samples are charged to what really ran.

Programs that stand at the same addresses under different names make a wrong answer visible as a wrong name;
their own count of CPU time, or the kernel's, says how many samples there should be.
"""

import collections
import os
import shutil
import unittest

import lib

RATE = 1499
NEAR = 0.12  # of the samples that a program's own count of its CPU time promises


def build_named(source, name, *flags):
    return lib.build(source, f"-DWORK={name}", *flags, name=name)


def leaves(profile, pid=None):
    """Innermost user function -> samples."""
    counts = collections.Counter()
    for stack in profile.user_stacks(pid):
        counts[lib.frame_name(stack.frames[0])] += stack.count
    return counts


def samples_of(profile, function):
    """Samples with a function anywhere in the stack."""
    return sum(stack.count for stack in profile.stacks
               if any(function in frame.names for frame in stack.frames))


def cgroup_root():
    with open("/proc/mounts", encoding="utf-8") as file:
        for line in file:
            if line.split()[2] == "cgroup2" and os.access(line.split()[1], os.W_OK):
                return line.split()[1]
    return None


class LoadMap(unittest.TestCase):
    def assert_near(self, count, seconds, rate=RATE, near=NEAR):
        self.assertAlmostEqual(count, seconds * rate, delta=near * seconds * rate + lib.stolen() * rate)

    # --- Files ---------------------------------------------------------------------------------------

    def reload(self, *arguments):
        libraries = [build_named("reload_library.c", name, "-shared", "-fPIC") for name in ("alpha", "beta")]
        run = lib.record("-F", str(RATE), "--", lib.build("reload.c", "-ldl"), *libraries, *arguments)
        alpha, beta, same = run.out.split()
        self.assertEqual(same, b"1", "the libraries were loaded at different addresses: nothing is tested")
        lib.check_sums(self, run.profile)
        return run.profile, float(alpha), float(beta)

    def test_library_replaced_by_another(self):
        """Equal stacks, different libraries. What is counted together, one round of 100 ms, may go to either."""
        profile, alpha, beta = self.reload("1", "0.6")
        self.assertAlmostEqual(samples_of(profile, "alpha"), alpha * RATE, delta=(0.15 + lib.stolen()) * RATE)
        self.assertAlmostEqual(samples_of(profile, "beta"), beta * RATE, delta=(0.15 + lib.stolen()) * RATE)

    def test_libraries_in_turn(self):
        """Faster than the recorder's rounds; here the callers say which library it was."""
        profile, alpha, beta = self.reload("12", "0.05", "apart")
        for right, wrong, caller, seconds in (("alpha", "beta", "visit_either", alpha),
                                              ("beta", "alpha", "visit_second", beta)):
            counts = collections.Counter()
            for stack in profile.user_stacks():
                names = [name for frame in stack.frames for name in frame.names]
                if caller in names:
                    counts[right] += stack.count if right in names else 0
                    counts[wrong] += stack.count if wrong in names else 0
            self.assertEqual(counts[wrong], 0, counts)
            self.assert_near(counts[right], seconds)

    def test_deleted_attached(self):
        path = build_named("forever.c", "deleted_work")
        with lib.Program(path, "delete", ready="ready") as program:
            self.assertFalse(os.path.exists(path))
            profile = lib.record("-p", str(program.pid), "--duration", "0.5").profile
        lib.check_sums(self, profile, 40)
        self.assertGreater(samples_of(profile, "deleted_work"), 0.95 * profile.kept)
        self.assertEqual(profile.value("select deleted from module where name like 'deleted_work%'"), 1)

    def test_deleted_command(self):
        path = build_named("chain.c", "doomed_work")
        with lib.Recording("-F", str(RATE), "--", path, "1") as recording:
            lib.wait_until(lambda: recording_has(recording, "doomed_work"))
            os.unlink(path)
            profile = recording.wait().profile
        self.assert_near(samples_of(profile, "doomed_work"), 1)

    def test_replaced_attached(self):
        old, new = build_named("forever.c", "old_work"), build_named("forever.c", "new_work")
        with lib.Program(old, ready="ready") as program:
            os.replace(new, old)
            profile = lib.record("-p", str(program.pid), "--duration", "0.5").profile
        lib.check_sums(self, profile, 40)
        self.assertGreater(samples_of(profile, "old_work"), 0.95 * profile.kept)
        self.assertEqual(samples_of(profile, "new_work"), 0)

    def test_replaced_command(self):
        old, new = build_named("chain.c", "first_work"), build_named("chain.c", "other_work")
        with lib.Recording("-F", str(RATE), "--", old, "1") as recording:
            lib.wait_until(lambda: recording_has(recording, "first_work"))
            os.replace(new, old)
            profile = recording.wait().profile
        self.assert_near(samples_of(profile, "first_work"), 1)
        self.assertEqual(samples_of(profile, "other_work"), 0)

    def namespace_command(self, program, *arguments):
        """Runs the program from a file system that only it can see; outside, the same path is another program."""
        folder = lib.scratch("ns")
        os.makedirs(folder, exist_ok=True)
        shutil.copy(build_named("chain.c", "decoy_work"), f"{folder}/program")
        script = (f"mount -t tmpfs none {folder} && cp {program} {folder}/program && "
                  f"exec {folder}/program {' '.join(arguments)}")
        return ["unshare", "-m", "sh", "-c", script]

    def test_namespace_command(self):
        lib.need_root(self)
        command = self.namespace_command(build_named("chain.c", "hidden_work"), "0.5")
        profile = lib.record("-F", str(RATE), "--", *command).profile
        self.assert_near(samples_of(profile, "hidden_work"), 0.5)
        self.assertEqual(samples_of(profile, "decoy_work"), 0)

    def test_namespace_attached(self):
        lib.need_root(self)
        command = self.namespace_command(build_named("forever.c", "hidden_forever"))
        with lib.Program(*command, ready="ready") as program:
            profile = lib.record("-p", str(program.pid), "--duration", "0.5").profile
        lib.check_sums(self, profile, 40)
        self.assertGreater(samples_of(profile, "hidden_forever"), 0.95 * profile.kept)

    # --- Processes -----------------------------------------------------------------------------------

    def test_exec_chain(self):
        """Three programs at the same addresses in one process."""
        names = ["chain_one", "chain_two", "chain_three"]
        programs = [build_named("chain.c", name, "-no-pie") for name in names]
        command = [word for program in programs for word in (program, "0.3")]
        profile = lib.record("-F", str(RATE), "--", *command).profile
        lib.check_sums(self, profile)
        for name, path in zip(names, programs):
            process = profile.process(comm=name)
            self.assertEqual(process["exe"], path)
            self.assert_near(samples_of(profile, name), 0.3)
            for stack in profile.user_stacks():
                if name in [lib.frame_name(frame) for frame in stack.frames]:
                    self.assertEqual(stack.process, process["id"])
        self.assertEqual(len({row["pid"] for row in profile.rows("select pid from process")}), 1)

    def test_fork_without_exec(self):
        run = lib.record("-F", str(RATE), "--", lib.build("forks.c"))
        parent, child, grandchild = map(int, run.out.split())
        rows = {pid: run.profile.process(pid, comm="forks") for pid in (parent, child, grandchild)}
        for pid, function in ((parent, "parent_work"), (child, "child_work"), (grandchild, "grandchild_work")):
            counts = leaves(run.profile, pid)
            self.assert_near(counts[function], 0.25)
            self.assertGreater(counts[function], 0.9 * sum(counts.values()), counts)
            self.assertEqual(rows[pid]["exe"], lib.scratch("forks"))
        self.assertEqual((rows[child]["ppid"], rows[child]["parent"]), (parent, rows[parent]["id"]))
        self.assertEqual((rows[grandchild]["ppid"], rows[grandchild]["parent"]), (child, rows[child]["id"]))

    def test_parent_of_the_command(self):
        with lib.Recording("--", build_named("chain.c", "orphan_work"), "0.3") as recording:
            profile = recording.wait().profile
            self.assertEqual(profile.process(comm="orphan_work")["ppid"], recording.process.pid)

    def test_thread_names(self):
        profile = lib.record("-F", str(RATE), "--", lib.build("threads.c"), "0.2").profile
        counts = collections.Counter()
        for stack in profile.stacks:
            counts[stack.comm] += stack.count
        for name in (f"worker-{i}" for i in range(4)):
            self.assert_near(counts[name], 0.2, near=0.15)
        process = profile.process(comm="threads")
        owners = {row["process"] for row in profile.rows("select * from thread where comm like 'worker-%'")}
        self.assertEqual(owners, {process["id"]})

    def test_identity(self):
        lib.need_root(self)
        profile = lib.record("-F", str(RATE), "--", lib.build("identity.c")).profile
        process = profile.process(exe=lib.scratch("identity"))
        self.assertEqual(tuple(process[name] for name in ("uid", "gid", "euid", "egid", "comm")),
                         (65533, 65531, 65534, 65532, "renamed"))
        self.assert_near(samples_of(profile, "before"), 0.25)
        self.assert_near(samples_of(profile, "after"), 0.4)

    def test_cgroup(self):
        lib.need_root(self)
        root = cgroup_root()
        if not root:
            self.skipTest("no writable unified cgroup hierarchy")
        group = f"assay-e2e-{os.getpid()}"
        os.mkdir(os.path.join(root, group))
        self.addCleanup(os.rmdir, os.path.join(root, group))
        procs = os.path.join(root, group, "cgroup.procs")
        program = build_named("chain.c", "grouped_work")
        profile = lib.record("--", "sh", "-c", f"echo $$ >{procs} && exec {program} 0.3").profile
        self.assertEqual(profile.process(comm="grouped_work")["cgroup"], "/" + group)
        profile = lib.record("--", lib.build("identity.c"), procs).profile
        self.assertEqual(profile.process(exe=lib.scratch("identity"))["cgroup"], "/" + group)

    def test_short_lived(self):
        """Processes of about 2 ms, system-wide: each is known, and what it ran."""
        lib.need_root(self)
        rate, count = 3989, 250
        blip, blips = build_named("chain.c", "blip_work"), lib.build("blips.c")
        run = lib.record("-a", "-F", str(rate), "--", blips, str(count), blip, "0.002")
        pids, seconds = run.out.decode().splitlines()
        pids, seconds = set(map(int, pids.split())), float(seconds)
        lib.check_sums(self, run.profile)
        charged, right, wrong = 0, 0, collections.Counter()
        images = {row["id"]: row for row in run.profile.rows("select * from process")}
        for stack in run.profile.stacks:
            if stack.pid not in pids:
                continue
            charged += stack.count
            image = images[stack.process]
            # Before exec the child is still a copy of its parent.
            if (image["comm"], image["exe"]) in (("blip_work", blip), ("blips", blips)):
                right += stack.count
            else:
                wrong[(image["comm"], image["exe"])] += stack.count
        self.assertGreaterEqual(right, 0.99 * charged, wrong)
        self.assert_near(charged, seconds, rate, 0.15)
        self.assertGreater(samples_of(run.profile, "blip_work"), 0.9 * count * 0.002 * rate)
        sampled = {stack.pid for stack in run.profile.stacks} & pids
        self.assertGreater(len(sampled), 0.95 * len(pids))


def recording_has(recording, comm):
    """Whether an unfinished profile already tells of a process."""
    try:
        return lib.has_tables(recording.path) and lib.Profile(recording.path).value(
            "select count(*) from sample join thread on thread.id = thread where comm like ?", comm[:15] + "%") > 0
    except lib.sqlite3.OperationalError:
        return False


if __name__ == "__main__":
    lib.main()
