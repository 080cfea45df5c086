# SPDX-License-Identifier: BSD-2-Clause
"""What a static program executes, by single-stepping it: an oracle that has nothing to do with the engine."""

import ctypes
import os
import re
import subprocess

TRACEME, SINGLESTEP, GETREGS = 0, 9, 12
libc = ctypes.CDLL(None, use_errno=True)


def ptrace(request, pid, data=None):
    return libc.ptrace(ctypes.c_long(request), ctypes.c_long(pid), None, data)


def steps_of(program):
    """The addresses of the instructions that the program executes, in order."""
    registers = (ctypes.c_ulonglong * 27)()
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
        ptrace(TRACEME, 0)
        os.execv(program, [program])
    while True:
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            return
        ptrace(GETREGS, pid, registers)
        yield registers[16]  # rip
        ptrace(SINGLESTEP, pid)


TRANSFERS = re.compile(r"^(j\w+|call|ret|loop\w*|syscall|leave.*ret|bnd|notrack)\b")


def instructions_of(program):
    """Address to mnemonic, by objdump."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", program], capture_output=True, text=True,
                          check=True).stdout
    return {int(address, 16): rest for address, rest in re.findall(r"(?m)^\s*([0-9a-f]+):\t(.*)$", text)}


def blocks_of(program):
    """The blocks that it executes, as wire/stream.h defines them: first address and number of instructions, in order."""
    code = instructions_of(program)
    start, length, previous = None, 0, None
    for pc in steps_of(program):
        if pc == previous and code[pc].startswith("rep"):
            continue  # each step is one repetition
        if start is None:
            start, length = pc, 0
        length += 1
        previous = pc
        if TRANSFERS.match(code[pc]) or length == 128:
            yield start, length
            start = None
