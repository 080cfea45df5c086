# SPDX-License-Identifier: BSD-2-Clause
"""Runs inside gdb, on an attached process: the whole stack at each of STEPS instructions, as JSON into OUTPUT.

A frame is pc, name, kind (normal, inline, signal) and the start of the function by the symbol table. The newest
thread is the one that is stepped. Frames that gdb only guesses, of functions that ended in a jump, are left out.
"""

import json
import os

import gdb

SETTINGS = ("pagination off", "confirm off", "backtrace past-main on", "backtrace past-entry on",
            "scheduler-locking on")
KINDS = {gdb.NORMAL_FRAME: "normal", gdb.INLINE_FRAME: "inline", gdb.SIGTRAMP_FRAME: "signal"}
starts = {}


def start_of(address):
    if address not in starts:
        found = gdb.execute(f"info symbol {address:#x}", to_string=True)
        words = found.split(" in section")[0].split(" + ")
        starts[address] = None if "No symbol" in found else address - (int(words[1]) if len(words) > 1 else 0)
    return starts[address]


def stack():
    frame, frames = gdb.newest_frame(), []
    while frame is not None:
        pc, kind = frame.pc(), KINDS.get(frame.type())
        exact = not frames or "signal" in (kind, frames[-1]["kind"])
        if kind:
            frames.append({"pc": pc, "name": frame.name(), "kind": kind, "start": start_of(pc if exact else pc - 1)})
        frame = frame.older()
    return frames


def main():
    stacks = []
    for setting in SETTINGS:
        gdb.execute("set " + setting, to_string=True)
    max(gdb.selected_inferior().threads(), key=lambda thread: thread.num).switch()
    for _ in range(int(os.environ["STEPS"])):
        stacks.append(stack())
        gdb.execute("stepi", to_string=True)
    with open(os.environ["OUTPUT"], "w", encoding="utf-8") as file:
        json.dump(stacks, file)


main()
