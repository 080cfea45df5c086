#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: S4.
"""Exports and the files that commands write, from outside.

    export_test.py ASSAY FIXTURE_WRITE [TEST...]

Oracles: protoc and go for pprof, the reports' own totals.
"""

import collections
import gzip
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

from view_lib import ASSAY, HERE, SCRATCH, environment, profile, rows, run, text


def protobuf_text(lines):
    """protoc's text form as a list of (field, value or list)."""
    message = []
    for line in lines:
        line = line.strip()
        if line == "}":
            break
        if line.endswith("{"):
            message.append((line[:-1].strip(), protobuf_text(lines)))
        else:
            field, value = line.split(": ", 1)
            message.append((field, value if value[0] == '"' else value == "true" or
                            (0 if value == "false" else int(value))))
    return message


def fields(message, name):
    return [value for field, value in message if field == name]


def field(message, name):
    return (fields(message, name) or [0])[0]


class Pprof(unittest.TestCase):
    def decode(self, *args):
        packed = run("export", "pprof", *args).stdout
        decoded = subprocess.run(["protoc", "--decode=pprof.Profile", "--proto_path=" + os.path.join(HERE, "support"), "pprof.proto"],
                                 input=gzip.decompress(packed), capture_output=True, check=True)
        message = protobuf_text(iter(decoded.stdout.decode("utf-8").splitlines()))
        self.assertNotIn(True, [name.isdigit() for name, _ in message], "unknown fields")
        self.strings = [value[1:-1] for value in fields(message, "string_table")]
        self.assertEqual(self.strings[0], "")
        return message

    def check(self, message):
        """Every id exists and is not 0; every string is in the table."""
        functions = {field(f, "id"): self.strings[field(f, "name")] for f in fields(message, "function")}
        mappings = {field(m, "id") for m in fields(message, "mapping")}
        locations = {field(l, "id"): l for l in fields(message, "location")}
        self.assertNotIn(0, functions)
        self.assertNotIn(0, mappings)
        self.assertNotIn(0, locations)
        self.assertEqual(len(functions), len(fields(message, "function")))
        self.assertEqual(len(locations), len(fields(message, "location")))
        for location in locations.values():
            self.assertIn(field(location, "mapping_id"), mappings | {0})
            for line in fields(location, "line"):
                self.assertIn(field(line, "function_id"), functions)
        own, total = collections.Counter(), collections.Counter()
        for sample in fields(message, "sample"):
            values = fields(sample, "value")
            names = []
            for id in fields(sample, "location_id"):
                names += [functions[field(line, "function_id")] for line in
                          fields(locations[id], "line")] or ["[unknown]"]
            own[names[0]] += values[0]
            for name in set(names):
                total[name] += values[0]
        return own, total

    def test_totals_equal_the_reports(self):
        for kind in "demo", "recursive":
            message = self.decode("-i", profile(kind))
            own, total = self.check(message)
            report = rows("report", "-i", profile(kind))
            expected = collections.Counter()
            for row in report["rows"]:
                expected[row["symbol"]] += row["self"]
            for reason, count in report["totals"]["lost"].items():
                expected[f"[lost: {reason}]"] += count
            self.assertEqual(+expected, +own)
            self.assertEqual(sum(own.values()), report["totals"]["seen"])
            for row in report["rows"]:
                if row["symbol"] != "[unknown]":
                    self.assertEqual(total[row["symbol"]], row["total"])

    def test_head(self):
        message = self.decode("-i", profile("demo"))
        types = [(self.strings[field(t, "type")], self.strings[field(t, "unit")])
                 for t in fields(message, "sample_type")]
        self.assertEqual(types, [("samples", "count"), ("cpu", "nanoseconds")])
        self.assertEqual(field(message, "period"), 1000000)
        self.assertEqual(field(message, "time_nanos"), 1700000000000000000)
        self.assertEqual(field(message, "duration_nanos"), 1000000000)
        for sample in fields(message, "sample"):
            values = fields(sample, "value")
            self.assertEqual(values[1], values[0] * 1000000)
        comments = [self.strings[id] for id in fields(message, "comment")]
        self.assertTrue(any("ring_full 60" in comment for comment in comments))
        mappings = {self.strings[field(m, "filename")]: self.strings[field(m, "build_id")]
                    for m in fields(message, "mapping")}
        self.assertEqual(mappings["/usr/bin/demo"], "0123456789abcdef")
        self.assertNotIn("[assay]", mappings)

    def test_inlined_lines_and_labels(self):
        message = self.decode("-i", profile("demo"))
        functions = {field(f, "id"): (self.strings[field(f, "name")], self.strings[field(f, "filename")])
                     for f in fields(message, "function")}
        inlined = [l for l in fields(message, "location") if field(l, "address") == 0x1204][0]
        self.assertEqual([(*functions[field(line, "function_id")], field(line, "line"))
                          for line in fields(inlined, "line")],
                         [("clamp", "/src/demo/clamp.h", 40), ("parse", "/src/demo/main.c", 20)])
        labels = set()
        for sample in fields(message, "sample"):
            found = {self.strings[field(l, "key")]: self.strings[field(l, "str")] or field(l, "num")
                     for l in fields(sample, "label")}
            labels.add(tuple(sorted(found.items())))
        self.assertIn((("comm", "demo-worker"), ("pid", 100), ("tid", 101), ("uid", 1000)), labels)
        self.assertIn((), labels)  # lost samples belong to nobody

    @unittest.skipUnless(shutil.which("go"), "no go")
    def test_go_tool_pprof_reads_it(self):
        path = os.path.join(SCRATCH.name, "demo.pb.gz")
        run("export", "pprof", "-i", profile("demo"), "-o", path)
        command = ["go", "tool", "pprof", "-symbolize=none"]
        top = subprocess.run([*command, "-top", "-sample_index=samples", path], capture_output=True,
                             text=True, check=True).stdout
        self.assertIn("Total samples = 1000", top)
        self.assertIn("File: demo\n", top)
        self.assertRegex(top, r"\b550 55.00% 55.00% +550 55.00%  fib\n")
        self.assertRegex(top, r"\b100 10.00% .* 800 80.00%  main\n")
        self.assertRegex(top, r"clamp \(inline\)\n")
        self.assertRegex(top, r"\b60  6.00% .*\[lost: ring_full\]\n")
        tags = subprocess.run([*command, "-tags", "-sample_index=samples", path], capture_output=True,
                              text=True, check=True).stdout
        self.assertRegex(tags, r"75\.0 .*: 0\n")

    def test_filtered_and_hostile(self):
        own, _ = self.check(self.decode("-i", profile("demo"), "--tid", "101"))
        self.assertEqual(own, {"fib": 50, "clamp": 120})
        self.check(self.decode("-i", profile("hostile")))
        self.check(self.decode("-i", profile("empty")))


class Collapsed(unittest.TestCase):
    def lines(self, *args):
        counts = {}
        for line in text("export", "collapsed", *args).splitlines():
            stack, count = line.rsplit(" ", 1)
            self.assertNotIn(stack, counts)
            counts[stack] = int(count)
        return counts

    def test_totals_equal_the_reports(self):
        for kind in "demo", "recursive":
            lines = self.lines("-i", profile(kind))
            report = rows("report", "-i", profile(kind))
            self.assertEqual(sum(lines.values()), report["totals"]["seen"])
            own = collections.Counter()
            for stack, count in lines.items():
                own[stack.split(";")[-1]] += count
            for row in report["rows"]:
                if row["symbol"] != "[unknown]":
                    self.assertEqual(own[row["symbol"]], row["self"])

    def test_shape(self):
        lines = self.lines("-i", profile("demo"))
        self.assertEqual(lines["demo;main;fib;fib"], 300)
        self.assertEqual(lines["demo-worker;main;parse;clamp"], 120)
        self.assertEqual(lines["demo;main;parse;[libc.so.6]"], 30)
        self.assertEqual(lines["[lost: ring_full]"], 60)
        self.assertEqual(self.lines("-i", profile("demo"), "--no-comm")["main;fib;fib"], 350)
        self.assertEqual(self.lines("-i", profile("demo"), "--pid", "200"), {"daemon;do_syscall": 75})


class Files(unittest.TestCase):
    def test_output_is_whole_or_not_there(self):
        folder = tempfile.mkdtemp(dir=SCRATCH.name)
        path = os.path.join(folder, "out.json")
        run("report", "-i", profile("demo"), "--json", "-o", path)
        with open(path, encoding="utf-8") as stream:
            self.assertEqual(json.load(stream)["view"], "functions")
        self.assertEqual(os.listdir(folder), ["out.json"])
        umask = os.umask(0)
        os.umask(umask)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o666 & ~umask)
        run("report", "-i", profile("demo"), "-o", os.path.join(folder, "no/such"), code=1)
        self.assertEqual(os.listdir(folder), ["out.json"])

    def test_links_and_devices_are_not_replaced(self):
        folder = tempfile.mkdtemp(dir=SCRATCH.name)
        target, link = os.path.join(folder, "target"), os.path.join(folder, "link")
        with open(target, "w", encoding="utf-8") as stream:
            stream.write("old")
        os.symlink(target, link)
        run("export", "collapsed", "-i", profile("demo"), "-o", link)
        self.assertTrue(os.path.islink(link))
        with open(target, encoding="utf-8") as stream:
            self.assertIn("demo;main 100", stream.read())
        full = run("export", "pprof", "-i", profile("demo"), "-o", "/dev/full", code=1)
        self.assertIn("/dev/full", full.stderr.decode())
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/full").st_mode))

    def test_a_full_standard_output_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([ASSAY, "report", "-i", profile("demo")], stdout=full,
                                  stderr=subprocess.PIPE, env=environment())
        self.assertEqual(done.returncode, 1)

    def test_input(self):
        run("report", "-i", os.path.join(SCRATCH.name, "missing.db"), code=1)
        run("report", "-i", "/etc/passwd", code=1)
        folder = tempfile.mkdtemp(dir=SCRATCH.name)
        os.link(profile("demo"), os.path.join(folder, "assay.db"))
        done = subprocess.run([ASSAY, "report"], capture_output=True, text=True, cwd=folder,
                              env=environment())
        self.assertIn("fib", done.stdout)

    def test_unfinished_profiles_are_completed_once(self):
        path = profile("unfinished")
        first = run("report", "-i", path)
        self.assertIn("did not end", first.stderr.decode())
        self.assertIn("fib", first.stdout.decode())
        self.assertEqual(run("report", "-i", path).stderr, b"")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
