#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: V2, V5.
"""Runs of real programs: kernel and recorder compute the same, nothing disappears, and the programs notice nothing.

The recorder executes each run once more from what the kernel logged and compares the states at the end. Whatever is
wrong in one of the two executors, in the log or in the publishing of translations shows as a run that disagreed.
"""

import os
import re
import subprocess
import unittest

import lib

RATE = ["-F", "4999"]
LONGEST = ["--run-length", "64", "--run-skip", "64"]
EVERYTHING = ["--values=default,operands,loaded,overwritten,address,path,caller,syscall,uid", "--run-every", "1"]
STEPS_MIN = 1000000

QUERY = """
create table t (id integer primary key, name text, weight real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000)
insert into t select i, hex(i * 7919 % 65537) || 'abc', i * 1.5 from n;
create index byname on t (name);
select count(*), sum(weight), min(name), max(name) from t where name like '3%';
select substr(name, 1, 2), count(*), avg(weight) from t group by 1 order by 2 desc, 1 limit 20;
select a.name, b.weight from t a join t b on b.name = a.name where a.id % 997 = 0 order by 1;
"""

SCRIPT = """
import hashlib, json, re
words = [hashlib.md5(str(i).encode()).hexdigest() for i in range(120000)]
table = {}
for word in words:
    table.setdefault(word[:2], []).append(int(word[2:8], 16) % 1000 / 7)
text = json.dumps({key: sorted(values)[:20] for key, values in sorted(table.items())})
print(hashlib.md5(text.encode()).hexdigest(), len(re.findall(r"[0-9]{3}\\.[0-9]+", text)))
print(sum(i * i % 7 for i in range(2000000)))
"""


def text_file():
    """Something to compress that is neither random nor trivial."""
    path = lib.scratch("text")
    with open(path, "w", encoding="utf-8") as file:
        for i in range(100000):
            file.write(f"{i * 2654435761 % 2 ** 32:x} line {i % 97} of {i * i % 1009}\n")
    return path


class Runs(unittest.TestCase):
    steps = 0

    @classmethod
    def setUpClass(cls):
        cls.text = text_file()
        cls.script = lib.scratch("script.py")
        cls.query = lib.scratch("query.sql")
        for path, content in ((cls.script, SCRIPT), (cls.query, QUERY)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)

    def setUp(self):
        lib.need_root(self)

    def check(self, profile, at_least):
        """No run disagreed, and seen = kept + lost."""
        losses = dict(profile.database.execute("select reason, count from losses where kind = 'values'"))
        ends = dict(profile.database.execute("select reason, sum(count) from run_end group by reason"))
        seen, kept = profile.total("values", "seen"), profile.total("values", "kept")
        self.assertNotIn("disagreed", losses)
        self.assertNotIn("bad_record", losses)
        self.assertNotIn("bad_block", ends)
        self.assertEqual(seen, kept + sum(losses.values()), losses)
        self.assertEqual(sum(ends.values()), kept, ends)
        self.assertGreaterEqual(kept, at_least)
        self.assertGreater(ends["length"], 0, ends)
        self.assertEqual(seen, self.taken(profile))
        self.assertLessEqual(int(profile.meta("values_kept")), int(profile.meta("values_seen")))
        self.assertGreater(int(profile.meta("values_kept")), 0)
        Runs.steps += int(profile.meta("runs_steps"))

    def taken(self, profile):
        """Samples that were taken: all but those that only count in the weight of a later one."""
        thinned = profile.value("select sum(total) from metric join recording on recording.id = recording"
                                " where kind = 'samples' and metric = 'thinned'") or 0
        return profile.total("samples", "seen") - thinned - profile.losses().get("skipped", 0)

    def compare(self, *command, at_least=500, values=("--values", "--run-every", "1"), stdin=None):
        """Records the command; its output is what it is without us."""
        def with_input(start, *arguments, **options):
            if not stdin:
                return start(*arguments, **options)
            with open(stdin, "rb") as file:
                return start(*arguments, stdin=file, **options)

        alone = with_input(subprocess.run, command, capture_output=True, check=True)
        run = with_input(lib.record, *RATE, *LONGEST, *values, "--", *command)
        self.assertEqual(run.out, alone.stdout)
        self.check(run.profile, at_least)

    def test_xz(self):
        self.compare("xz", "-6", "--stdout", self.text)

    def test_gzip(self):
        self.compare("gzip", "-9", "--stdout", "-n", self.text, values=EVERYTHING)

    def test_python(self):
        self.compare(lib.PYTHON, self.script, values=EVERYTHING)

    def test_sqlite(self):
        self.compare("sqlite3", ":memory:", stdin=self.query)

    def test_cxx(self):
        victim = lib.build(os.path.join(lib.ROOT, "tests/support/step_victim.cc"), name="victim")
        self.compare("sh", "-c", f"for i in 1 2 3 4 5 6 7 8 9; do {victim}; done")

    def test_system(self):
        """Everything on the machine, with much of it in the kernel."""
        load = "dd if=/dev/zero bs=4k count=100000 | md5sum; find /usr/lib -type f | wc -l"
        alone = subprocess.run(["sh", "-c", load], capture_output=True, check=True)
        run = lib.record(*RATE, *LONGEST, *EVERYTHING, "-a", "--", "sh", "-c", load)
        self.assertEqual(run.out, alone.stdout)
        self.check(run.profile, 1000)
        kernel = run.profile.value("select count(*) from value where owner is null")
        self.assertGreater(kernel, 500)

    def test_budget(self):
        """2 % of the time; as many are passed over at most as are captured, unless told otherwise."""
        for options, expected in (((), (256, 256, 20000)), (("--run-length", "16"), (16, 16, 20000)),
                                  (("-F", "4999", "--run-share", "0.05"), (256, 256, 50000)),
                                  (("--run-skip", "0"), (256, 0, 20000))):
            profile = lib.record("--values", *options, "--", "true").profile
            self.assertEqual(tuple(int(profile.meta(f"run_{key}")) for key in ("length", "skip", "share_ppm")),
                             expected, options)

    def test_zz_enough_steps(self):
        """After all others."""
        print(f"{Runs.steps} instructions were interpreted")
        self.assertGreater(Runs.steps, STEPS_MIN)



class Absent(unittest.TestCase):
    """A hot function without arguments says why it has none."""

    def test_a_loop_that_was_entered_before(self):
        program = lib.build("forever.c", "-DWORK=endless", name="endless")
        with lib.Program(program, ready="ready") as endless:
            run = lib.record("--values", "-F", "1999", "-p", str(endless.pid), "--duration", "2")
        table = subprocess.run([lib.ASSAY, "report", "args", "-i", run.path], capture_output=True, text=True, check=True).stdout
        found = re.search(r"endless \[endless\] +none: of (\d+) runs in it, none passed its entry", table)
        self.assertTrue(found, table)
        self.assertGreater(int(found.group(1)), 10)


class Share(unittest.TestCase):
    """How many samples have a run follows from the share of time that runs may take."""

    def runs(self, *options):
        run = lib.record("--values", *options, "--", lib.build("chain.c", "-DWORK=shared", name="shared"), "3.5")
        return run, run.profile.total("values", "seen") / run.profile.total("samples", "seen")

    def test_more_share_more_runs(self):
        """A tenth of a percent is 1 us for each of 997 samples a second, far less than a run takes."""
        little, few = self.runs("--run-share", "0.1%")
        much, many = self.runs("--run-share", "50%")
        self.assertEqual((little.profile.meta("run_share_ppm"), much.profile.meta("run_share_ppm")),
                         ("1000", "500000"))
        self.assertGreater(many, 0.8)
        self.assertLess(few, 0.2)

    def test_given_number(self):
        run, share = self.runs("--run-every", "4")
        self.assertEqual((run.profile.meta("run_every"), run.profile.meta("run_share_ppm")), ("4", "0"))
        self.assertAlmostEqual(share, 0.25, delta=0.06)


if __name__ == "__main__":
    lib.main()
