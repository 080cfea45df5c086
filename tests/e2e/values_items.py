#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Serves: V2, V5, V6, V8, V14, V17, V18.
"""Everything that an instruction has: second results, all operands, both addresses, targets of direct branches.

The program has these instructions at places with names, with values that its source says.
"""

import os
import subprocess
import unittest

import lib

ITEMS = "result,result2,operands,address,address2,loaded,stored,taken,target,taken+target,target+pid,path:2"


def symbols(path):
    listing = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    return {line.split()[2]: int(line.split()[0], 16) for line in listing.splitlines() if len(line.split()) == 3}


class Items(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = lib.build("values_items.c", "-O1", "-no-pie", "-fno-unroll-loops")
        cls.places = symbols(cls.program)

    def setUp(self):
        lib.need_root(self)

    def values(self, run):
        """(place, item) to the set of values."""
        names = {address: name for name, address in self.places.items() if name.startswith("place_")}
        found = {}
        for row in lib.report(run.path, "values", "--limit", "100000")["rows"]:
            place = names.get(int(row["address"], 16))
            if place and row["module"] == "values_items":
                found[place, row["item"]] = {
                    tuple(int(word, 16) for word in (value["value"] if isinstance(value["value"], list)
                                                     else [value["value"]])) for value in row["values"]}
        return found

    def test_items(self):
        run = lib.record("-F", "2999", "--run-every", "1", f"--values={ITEMS}", "--", self.program, "1")
        values = self.values(run)
        expected = {
            ("place_div", "result"): 142, ("place_div", "result2"): 6, ("place_div", "operand1"): 7,
            ("place_div", "operand2"): 1000, ("place_div", "operand3"): 0,
            ("place_xchg", "result"): 11, ("place_xchg", "result2"): 13, ("place_xchg", "operand1"): 13,
            ("place_xchg", "operand2"): 11, ("place_movs", "address"): self.places["from"],
            ("place_movs", "address2"): self.places["to"], ("place_movs", "loaded"): ord("t"),
            ("place_movs", "stored"): ord("t"),
        }
        for key, value in expected.items():
            self.assertEqual(values.get(key), {(value,)}, key)
        after = self.places["place_after"]
        fall = self.places["place_branch"] + 2
        self.assertEqual(values["place_branch", "taken+target"], {(1, after), (0, fall)})
        self.assertEqual(values["place_branch", "taken"], {(0,), (1,)})
        # Alone, only of branches whose target is computed.
        self.assertNotIn(("place_branch", "target"), values)
        self.assertNotIn(("place_branch", "target+pid"), values)

    def shown(self, program, *options):
        """Arguments of take() as a person reads them: number to text."""
        run = lib.record("-F", "2999", "--run-every", "1", "--values", *options, "--", program, "2.5")
        return run, {row["argument"]: {value["text"] for value in row["values"]}
                     for row in lib.report(run.path, "args", "--symbol", "take")["rows"]}

    def test_texts(self):
        """Pointers to text show it, with types and without; numbers of enumerations show their names."""
        run, shown = self.shown(self.program)
        address = run.out.decode().split()[2]
        self.assertEqual({text.split(" ", 1)[1] for text in shown[0]}, {'"user:1001"', '"say \\"a\\\\b\\"\\n"'})
        self.assertIn(f'{address} "user:1001"', shown[0])
        self.assertEqual(shown[1], {"GREEN", "BLUE"})
        self.assertEqual(shown[2], {"READ|RUN", "WRITE"})
        self.assertEqual({text.split(" ", 1)[1] for text in shown[3]}, {"[heap]"})  # bytes that are no text
        stripped = lib.build("values_items.c", "-O1", "-no-pie", "-g0", name="untyped")
        _, shown = self.shown(stripped)
        self.assertTrue(any(text.endswith('"user:1001"') for text in shown[0]), shown)

    def test_other_users(self):
        """Root does not read what lies in other users' memory either."""
        os.chmod(self.program, 0o755)
        os.chmod(os.path.dirname(self.program), 0o755)
        program = lib.Program(self.program, "60", ready="0x", prefix=["setpriv", "--reuid", "65534", "--clear-groups"])
        with program:
            run = lib.record("-F", "2999", "--run-every", "1", "--values", "-p", str(program.pid), "--duration", "1.5")
        self.assertGreater(run.profile.value("select count(*) from value_name where text = '[heap]'"), 0)
        self.assertEqual(run.profile.rows("select text from value_name where text like '%\"%'"), [])

    def test_processes_that_hide_from_their_user(self):
        """Nor what the kernel would refuse to the user whose process it is, even if that is root."""
        for arguments, expected in (([], True), (["reserved"], False)):
            with lib.Program(self.program, "60", *arguments, ready="0x") as program:
                run = lib.record("-F", "2999", "--run-every", "1", "--values", "-p", str(program.pid), "--duration", "1.5")
            texts = run.profile.rows("select text from value_name where text like '%\"%'")
            self.assertEqual(bool(texts), expected, arguments)
            self.assertGreater(run.profile.value("select count(*) from value"), 0)

    def test_absent(self):
        """Memory that is not there gives no value, and is counted; where it is there, nothing is."""
        program = lib.build("values_absent.c", "-O1")
        run = lib.record("-F", "2999", "--run-every", "1", "--values=loaded", "--", program, "1")
        unread = {row["reason"]: row["count"] for row in lib.report(run.path, "runs")["rows"] if row["kind"] == "unread"}
        self.assertGreater(unread.get("absent", 0), 20, unread)
        run = lib.record("-F", "2999", "--run-every", "1", "--values", "--", self.program, "0.5")
        unread = {row["reason"]: row["count"] for row in lib.report(run.path, "runs")["rows"] if row["kind"] == "unread"}
        self.assertLess(unread.get("absent", 0), 20, unread)

    def test_kinds_of_lists(self):
        """Each kind gives the same values, and says how sure and since when it counts them."""
        for kind in ("space-saving", "counting", "concise", "switching"):
            run = lib.record("-F", "2999", "--run-every", "1", "--values=result", "--hotlist", kind,
                             "--hotlist-size", "4", "--", self.program, "0.6")
            rows = lib.report(run.path, "values", "--limit", "100000")["rows"]
            self.assertEqual({row["hotlist"] for row in rows}, {kind})
            for row in rows:
                self.assertTrue(0 < row["probability"] <= 1, row)
                for value in row["values"]:
                    self.assertTrue(1 <= value["first"] <= row["total"], (kind, row["total"], value))
            varied = [row for row in rows if row["distinct"] == 4 and row["total"] > 1000]
            self.assertEqual(any(row["probability"] < 1 for row in varied), kind != "space-saving", kind)
            div = [row for row in rows if int(row["address"], 16) == self.places["place_div"]]
            self.assertEqual([value["value"] for value in div[0]["values"]], ["0x8e"])
            text = subprocess.run([lib.ASSAY, "report", "values", "-i", run.path], capture_output=True, text=True,
                                  check=True).stdout
            self.assertEqual(f"{kind}, p " in text and "first " in text, kind != "space-saving", text)

    def test_impossible(self):
        """What can never give a value is refused before anything is recorded, with the reason."""
        for items, reason in (("taken+stored", "memory"), ("target+overwritten", "return"),
                              ("loaded2+stored", "cmps"), ("arg0+result", "entered")):
            run = lib.record(f"--values=result,{items}", "--", "true", code=2)
            self.assertIn(items, run.err)
            self.assertIn(reason, run.err)


if __name__ == "__main__":
    lib.main()
