#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: S1, S8.
"""Root works in folders where another user has planted files, with the kernel's protections off.

Each attack is first shown to work on a program that does not defend itself (sqlite3, cat), where that is possible:
a test that attacks wrongly would pass for nothing.
"""

import base64
import gzip
import os
import re
import shutil
import signal
import sqlite3
import stat
import struct
import subprocess
import tempfile
import unittest

import lib

ATTACKER = 65534
PROTECTIONS = [f"/proc/sys/fs/protected_{name}" for name in ("fifos", "hardlinks", "regular", "symlinks")]
MAGIC = bytes.fromhex("d9d505f920a163d7")
MAKE = os.path.join(os.path.dirname(lib.ASSAY), "src/store/make_profile")
READERS = [["report"], ["report", "lines"], ["export", "collapsed"], ["annotate", "main"], ["html", "-o", "{out}"],
           ["diff", "{mine}"], ["merge", "{mine}", "-o", "{out}"]]


def setUpModule():
    if not lib.IS_ROOT:
        raise unittest.SkipTest("only root can become somebody else")
    for path in PROTECTIONS:
        with open(path, encoding="ascii") as file:
            unittest.addModuleCleanup(setting_put, path, file.read())
        setting_put(path, "0")
    subprocess.run([MAKE, "-o", lib.scratch("mine.db"), "--seconds", "2", "--stacks", "50"], check=True,
                   stdout=subprocess.DEVNULL)


def setting_put(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def folder(mode):
    path = tempfile.mkdtemp(prefix="shared-", dir=lib.SCRATCH)
    os.chmod(path, mode)
    return path


def as_attacker(function, *arguments):
    """Runs the function in a process of the attacker's."""
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(ATTACKER)
        os.setuid(ATTACKER)
        code = 1
        try:
            function(*arguments)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0, (function, arguments)


def assay(*arguments, code=0):
    run = subprocess.run([lib.ASSAY, *arguments], capture_output=True, text=True, timeout=60)
    assert code is None or run.returncode == code, (run.args, run.returncode, run.stderr)
    return run


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


def bytes_put(path, content):
    with open(path, "wb") as file:
        file.write(content)


def tree(path):
    """All that lies there: kind, mode, owner, content."""
    found = {}
    for top, folders, files in os.walk(path):
        for name in folders + files:
            full = os.path.join(top, name)
            info = os.lstat(full)
            found[full] = (info.st_mode, info.st_uid,
                           os.readlink(full) if stat.S_ISLNK(info.st_mode) else
                           bytes_of(full) if stat.S_ISREG(info.st_mode) else None)
    return found


def journal_with_super(name):
    """A journal that has nothing to roll back and names another file, as SQLite's format page has it."""
    pages = os.path.getsize(lib.scratch("mine.db")) // 4096
    header = MAGIC + struct.pack(">IIIII", 0, 1, pages, 512, 4096)
    name = name.encode()
    end = struct.pack(">I", 1) + name + struct.pack(">II", len(name), sum(name)) + MAGIC
    return header.ljust(512, b"\0") + end


class Reading(unittest.TestCase):
    """A profile of the attacker's, with a journal or a log beside it."""

    def plant(self, mode, journal=None, owner=ATTACKER):
        shared = folder(mode)
        path = os.path.join(shared, "assay.db")
        shutil.copy(lib.scratch("mine.db"), path)
        if journal:
            bytes_put(path + "-journal", journal)
            os.chown(path + "-journal", owner, owner)
        os.chown(path, owner, owner)
        return path

    def victim(self):
        path = tempfile.mktemp(prefix="victim-", dir=lib.SCRATCH)
        bytes_put(path, b"precious\0")
        return path

    def test_the_attack_works(self):
        victim = self.victim()
        path = self.plant(0o1777, journal_with_super(victim))
        sqlite3.connect(path).execute("select count(*) from meta").fetchall()
        self.assertFalse(os.path.exists(victim), "SQLite has not deleted the file that the journal names")

    def check_reader(self, path, arguments, victim):
        out = tempfile.mktemp(prefix="out-", dir=lib.SCRATCH)
        words = [word.format(mine=lib.scratch("mine.db"), out=out) for word in arguments]
        before = tree(os.path.dirname(path))
        given = [words[0], path, *words[1:]] if words[0] in ("diff", "merge") else [*words, "-i", path]
        run = assay(*given, code=None)
        self.assertEqual(bytes_of(victim), b"precious\0", arguments)
        self.assertEqual(tree(os.path.dirname(path)), before, arguments)
        return run

    def test_planted_journal(self):
        victim = self.victim()
        for mode in (0o1777, 0o777, 0o700):
            for owner in (ATTACKER, 0):  # root's own: as unpacked from an archive
                path = self.plant(mode, journal_with_super(victim), owner)
                for arguments in READERS if mode == 0o1777 else READERS[:1]:
                    run = self.check_reader(path, arguments, victim)
                    self.assertEqual(run.returncode, 1, (arguments, run.stderr))
                    self.assertIn("names another file", run.stderr)

    def test_record_over_a_planted_journal(self):
        victim = self.victim()
        for mode in (0o1777, 0o777):
            path = self.plant(mode, journal_with_super(victim))
            for command in (["record", "-o", path, "--", "true"], ["merge", lib.scratch("mine.db"), "-o", path]):
                assay(*command)
                self.assertEqual(bytes_of(victim), b"precious\0")
                assay("report", "-i", path)
                self.assertEqual(os.lstat(path).st_uid, 0)

    def unfinished(self, mode):
        """What a kill leaves: a file and its log."""
        path = os.path.join(folder(0o700), "assay.db")
        shutil.copy(lib.scratch("mine.db"), path)
        writer = subprocess.run([lib.PYTHON, "-c", f"""
import os, sqlite3
db = sqlite3.connect({path!r})
db.execute("pragma journal_mode = wal")
db.execute("pragma wal_autocheckpoint = 0")
db.execute("update meta set value = '0' where key = 'finished'")
db.execute("update thread set comm = 'in-the-log'")
db.commit()
os.kill(os.getpid(), 9)
"""], check=False)
        self.assertEqual(writer.returncode, -signal.SIGKILL)
        os.chmod(os.path.dirname(path), mode)
        return path

    def test_log_is_read(self):
        """In another user's folder nothing is changed; in one's own the profile is completed."""
        for mode, owner in ((0o1777, ATTACKER), (0o1777, 0), (0o700, ATTACKER)):
            path = self.unfinished(mode)
            os.remove(path + "-shm")
            for suffix in ("", "-wal"):
                os.chown(path + suffix, owner, owner)
            before = tree(os.path.dirname(path))
            for arguments in (["report", "threads"], ["report", "threads", "--json"]):
                run = assay(*arguments, "-i", path)
                self.assertIn("in-the-log", run.stdout)
                self.assertIn("folder of your own", run.stderr)
                self.assertEqual(tree(os.path.dirname(path)), before)
        path = self.unfinished(0o700)
        self.assertIn("in-the-log", assay("report", "threads", "-i", path).stdout)
        self.assertEqual(os.listdir(os.path.dirname(path)), ["assay.db"])

    def test_log_that_cannot_be_written(self):
        """Another user's killed recording that may be read and nothing more."""
        path = self.unfinished(0o755)
        for suffix in ("", "-wal"):
            os.chmod(path + suffix, 0o644)
        binary = lib.scratch("assay")
        shutil.copy(lib.ASSAY, binary)
        run = subprocess.run(["setpriv", f"--reuid={ATTACKER}", f"--regid={ATTACKER}", "--clear-groups", binary,
                              "report", "threads", "-i", path], capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("in-the-log", run.stdout)

    def test_log_of_somebody_else(self):
        path = self.unfinished(0o1777)
        os.chown(path + "-wal", ATTACKER, ATTACKER)
        run = assay("report", "threads", "-i", path)
        self.assertNotIn("in-the-log", run.stdout)
        self.assertIn("-wal is not a file of the profile's owner", run.stderr)

    def test_log_that_is_a_link(self):
        path = self.plant(0o1777)
        os.mkfifo(path + "-journal")
        os.symlink(lib.scratch("mine.db"), path + "-wal")
        assay("report", "-i", path)

    def test_pipe(self):
        path = os.path.join(folder(0o1777), "assay.db")
        as_attacker(os.mkfifo, path)
        self.assertIn("not an ordinary file", assay("report", "-i", path, code=1).stderr)
        self.assertIn("not an ordinary file", assay("record", "-o", path, "--", "true", code=1).stderr)


SPY = """
import os, sys, time
held = []
for suffix in ("-wal", "-shm", "-journal", "-new", ".old"):
    held.append(os.open(sys.argv[1] + suffix, os.O_RDWR | os.O_CREAT, 0o666))
    os.chmod(sys.argv[1] + suffix, 0o666)
print("ready", flush=True)
while not os.path.exists(sys.argv[2]):
    for suffix in ("-wal", "-shm", "-journal", "-new"):
        try:
            held.append(os.open(sys.argv[1] + suffix, os.O_RDWR | os.O_CREAT, 0o666))
            if len(held) > 200:
                if not os.fstat(held[5]).st_size: os.close(held.pop(5))
        except OSError:
            pass
    for top, folders, files in os.walk(os.path.dirname(sys.argv[1])):
        for name in files:
            try:
                held.append(os.open(os.path.join(top, name), os.O_RDONLY | os.O_NONBLOCK))
            except OSError:
                pass
sizes = [size for size in (os.fstat(fd).st_size for fd in held) if size]
print(sizes)
"""


def kept_of(path):
    """With the file closed afterwards: who has it open keeps it where it is. -1: there is nothing yet."""
    database = None
    try:
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        return sum(row[0] for row in database.execute("select kept from recording"))
    except sqlite3.OperationalError:
        return -1
    finally:
        if database:
            database.close()


EVIL = """
int main(void)
{
	for (volatile long i = 0; i < 300000000;)
#line 1 "%s"
		i += 2;
}
"""


class Source(unittest.TestCase):
    """A program says itself what its source is called, and can name a file that its user may not read."""

    @classmethod
    def setUpClass(cls):
        cls.secret, cls.profile = lib.scratch("secret"), lib.scratch("evil.db")
        cls.folder = folder(0o1777)
        program = os.path.join(cls.folder, "evil")
        bytes_put(cls.secret, b"precious words\n")
        os.chmod(cls.secret, 0o600)
        source = lib.scratch("evil.c")
        bytes_put(source, (EVIL % cls.secret).encode())
        subprocess.run(["gcc", "-g", "-O1", "-o", program, source], check=True)
        os.chown(program, ATTACKER, ATTACKER)
        assay("record", "-q", "-o", cls.profile, "--", program)

    def annotated(self, profile=None):
        return assay("annotate", "main", "-i", profile or self.profile, "--module", "evil")

    def test_what_not_everybody_may_read(self):
        run = self.annotated()
        self.assertNotIn("precious", run.stdout)
        self.assertIn("secret:1", run.stdout)
        self.assertIn("not shown as source", run.stderr)
        path = lib.scratch("evil.html")
        assay("html", "-i", self.profile, "-o", path)
        packed = re.search(rb'id="profile">([A-Za-z0-9+/=]+)<', bytes_of(path))[1]
        page = gzip.decompress(base64.b64decode(packed))
        self.assertIn(b'"evil"', page)
        self.assertNotIn(b"precious", page)

    def test_what_everybody_may_read(self):
        place = os.path.dirname(self.secret)
        modes = [stat.S_IMODE(os.stat(path).st_mode) for path in (self.secret, place)]
        try:
            os.chmod(self.secret, 0o644)
            os.chmod(place, 0o700)
            self.assertNotIn("precious", self.annotated().stdout, "nobody else comes into its folder")
            os.chmod(place, 0o755)
            self.assertIn("precious", self.annotated().stdout)
        finally:
            os.chmod(self.secret, modes[0])
            os.chmod(place, modes[1])

    def test_a_program_of_ones_own(self):
        program, profile = lib.scratch("mine"), lib.scratch("mine_evil.db")
        shutil.copy(os.path.join(self.folder, "evil"), program)
        assay("record", "-q", "-o", profile, "--", program)
        self.assertIn("precious", assay("annotate", "main", "-i", profile, "--module", "mine").stdout)
        os.chown(profile, ATTACKER, ATTACKER)
        self.assertNotIn("precious", assay("annotate", "main", "-i", profile, "--module", "mine").stdout,
                         "another user's profile may say anything")


class Writing(unittest.TestCase):
    def spied(self, mode, *command):
        """What an attacker gets to see who makes and opens files all the time while the command runs."""
        path, end = os.path.join(folder(mode), "assay.db"), tempfile.mktemp(dir=lib.SCRATCH)
        with subprocess.Popen(["setpriv", f"--reuid={ATTACKER}", f"--regid={ATTACKER}", "--clear-groups",
                               lib.PYTHON, "-c", SPY, path, end], stdout=subprocess.PIPE, text=True) as spy:
            self.assertEqual(spy.stdout.readline(), "ready\n")
            run = assay(*[word.format(path=path) for word in command], code=None)
            bytes_put(end, b"")
            sizes = spy.stdout.read().strip()
        return path, run, sizes

    def test_nobody_sees_what_is_recorded(self):
        program = lib.build("spend.c")
        for command in (["record", "-F", "997", "-o", "{path}", "--", program, "0.7"],
                        ["trace", "-o", "{path}", "--", program, "0.1"],
                        ["merge", lib.scratch("mine.db"), "-o", "{path}"]):
            path, run, sizes = self.spied(0o1777, *command)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(sizes, "[]", command)
            info = os.lstat(path)
            self.assertEqual((info.st_mode, info.st_uid), (stat.S_IFREG | 0o600, 0))
            self.assertGreater(kept_of(path), 0)
            self.assertEqual([name for name in os.listdir(os.path.dirname(path)) if name.startswith(".")], [])

    def test_killed_recorder(self):
        """The profile lies where nobody else can go, and is found by its name."""
        path = os.path.join(folder(0o1777), "assay.db")
        with lib.Recording("-F", "997", "--", lib.build("spend.c"), "2", output=path) as recording:
            lib.wait_until(lambda: kept_of(path) > 100)
            recording.process.kill()
            recording.process.wait()
        kept = kept_of(path)
        self.assertTrue(os.path.islink(path))
        self.assertEqual(lib.report(path, "functions")["totals"]["kept"], kept)
        self.assertFalse(os.path.islink(path), "the profile is complete now and lies at its place")
        self.assertEqual(os.listdir(os.path.dirname(path)), ["assay.db"])

    def test_planted_links(self):
        """Every file that a command is told to write."""
        victim = lib.scratch("victim")
        program = lib.build("spend.c")
        for option in (["record", "-o", "{path}", "--", "true"], ["merge", lib.scratch("mine.db"), "-o", "{path}"],
                       ["report", "-i", lib.scratch("mine.db"), "-o", "{path}"],
                       ["export", "collapsed", "-i", lib.scratch("mine.db"), "-o", "{path}"],
                       ["trace", "-o", lib.scratch("t.db"), "--summary", "{path}", "--", program, "0.01"],
                       ["trace", "-o", lib.scratch("t.db"), "--raw", "{path}", "--", program, "0.01"]):
            for mode in (0o1777, 0o777):
                path = os.path.join(folder(mode), "file")
                bytes_put(victim, b"precious")
                as_attacker(os.symlink, victim, path)
                run = assay(*[word.format(path=path) for word in option], code=None)
                self.assertEqual(bytes_of(victim), b"precious", option)
                self.assertEqual(run.returncode, 1, (option, run.stderr))
                self.assertIn("of another user", run.stderr)


if __name__ == "__main__":
    lib.main()
