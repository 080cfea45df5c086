#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: V7.
"""Values of the system, against what /proc says of the same process, on the kernel that is running.

What belongs to a system call exists only in one: not where user code was interrupted.
"""

import os
import subprocess
import unittest

import lib

USER = 65534
ITEMS = ["pid", "tid", "ppid", "uid", "gid", "euid", "egid", "tty", "cgroup", "cpu", "priority", "policy", "pending",
         "blocked", "interrupt", "syscall", "sysarg0", "sysarg1", "sysarg2", "usersite"]
SYS_READ, SYS_POLL = 0, 7


def status(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def cgroup_id(pid):
    """The number of its folder's inode, in the hierarchy of version 2."""
    with open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
        path = next((line.rstrip("\n").split("::", 1)[1] for line in file if line.startswith("0::")), None)
    for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        if path is not None and os.path.exists(f"{root}/cgroup.controllers"):
            return os.stat(root + path).st_ino
    return None


class System(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("values_system.c", "-O1", "-no-pie")
        os.chmod(cls.program, 0o755)
        os.chmod(os.path.dirname(cls.program), 0o755)

    def setUp(self):
        lib.need_root(self)

    def take(self):
        """(in the kernel, item) to the set of its values, with what /proc said meanwhile."""
        prefix = ["nice", "-n", "3", "setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups"]
        with lib.Program(self.program, ready="ready", prefix=prefix, stdin=subprocess.PIPE) as program:
            run = lib.record("-F", "2999", "--run-every", "1", f"--values={','.join(ITEMS)}", "-p", str(program.pid),
                             "--duration", "1.5")
            known = status(program.pid)
            with open(f"/proc/{program.pid}/stat", encoding="ascii") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            _, descriptor, buffer = program.line.split()
            known.update(descriptor=int(descriptor), buffer=int(buffer, 16), pid=program.pid, tty=int(fields[4]), priority=int(fields[15]) + 100, policy=int(fields[38]),
                         cgroup=cgroup_id(program.pid))
        values = {}
        for row in lib.report(run.path, "values", "--limit", "100000")["rows"]:
            for value in row["values"]:
                values.setdefault((row["module"] == "[kernel]", row["item"]), set()).add(int(value["value"], 16))
        return values, known

    def test_against_proc(self):
        values, known = self.take()
        users, groups = known["Uid"].split(), known["Gid"].split()
        expected = {
            "pid": known["pid"], "tid": known["pid"], "ppid": int(known["PPid"]), "uid": int(users[0]),
            "euid": int(users[1]), "gid": int(groups[0]), "egid": int(groups[1]), "tty": known["tty"],
            "priority": known["priority"], "policy": known["policy"],
            "pending": int(known["SigPnd"], 16) | int(known["ShdPnd"], 16), "blocked": int(known["SigBlk"], 16),
        }
        if known["cgroup"]:
            expected["cgroup"] = known["cgroup"]
        self.assertEqual(expected["uid"], USER)
        self.assertNotEqual(expected["pending"], 0)
        for item, value in expected.items():
            self.assertEqual(values[False, item], {value}, item)
            self.assertEqual(values[True, item], {value}, item)
        for kernel in (False, True):
            self.assertLessEqual(values[kernel, "cpu"], set(range(os.cpu_count())))
        self.assertEqual(values[False, "interrupt"], {0})
        self.assertLessEqual(values[True, "interrupt"], {0, 1, 2})

    def test_system_calls(self):
        """Only in the kernel; the site is where the program says that it calls."""
        values, known = self.take()
        for item in ("syscall", "sysarg0", "sysarg1", "sysarg2", "usersite"):
            self.assertNotIn((False, item), values)
        self.assertLessEqual(values[True, "syscall"], {SYS_READ, SYS_POLL})
        self.assertIn(SYS_READ, values[True, "syscall"])
        for item, value in (("sysarg0", known["descriptor"]), ("sysarg1", known["buffer"]), ("sysarg2", 1 << 16)):
            self.assertIn(value, values[True, item])
        listing = subprocess.run(["nm", "-S", self.program], capture_output=True, text=True, check=True).stdout
        address, size = next((int(line.split()[0], 16), int(line.split()[1], 16)) for line in listing.splitlines()
                             if line.endswith(" T main"))
        self.assertTrue(any(address < site < address + size for site in values[True, "usersite"]), values[True, "usersite"])
        self.assertNotIn(0, values[True, "usersite"])


SWITCHES = """
import os, sys, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
(there, here), (back, answer) = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(here)
    os.close(back)
    while os.read(there, 1):
        os.write(answer, b"x")
    os._exit(0)
os.close(answer)
end = time.process_time() + 0.5
while time.process_time() < end:
    os.write(here, b"x")
    os.read(back, 1)
"""


class Kernel(unittest.TestCase):
    def test_no_warning(self):
        """
        What our interrupt adds to the kernel's counts, of preemption and of RCU, is not seen by the code that is
        interpreted: switches of threads, which check both, do not run into warnings.
        """
        lib.need_root(self)
        run = lib.record("--values", "--run-every", "1", "-F", "4999", "--", lib.PYTHON, "-c", SWITCHES)
        functions = {row["symbol"] for row in lib.report(run.path, "args", "--limit", "100000")["rows"]}
        self.assertTrue(any("schedule" in name for name in functions), functions)
        self.assertEqual({name for name in functions if "warn" in name and "printk" in name}, set())


if __name__ == "__main__":
    lib.main()
