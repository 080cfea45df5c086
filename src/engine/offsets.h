/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the fields of struct thread lie, for assembly and for code that is emitted into the cache.
 * Both reach the thread through gs. engine.h checks every number.
 */
#pragma once

/* What program_syscall() gives for a call that was not done: wire/engine.h. */
#define PROGRAM_RESTART -4093

#define THREAD_RAX 0x00 /* registers of the program while the engine runs, in x86's numbering */
#define THREAD_RCX 0x08
#define THREAD_RDX 0x10
#define THREAD_RBX 0x18
#define THREAD_RSP 0x20
#define THREAD_RBP 0x28
#define THREAD_RSI 0x30
#define THREAD_RDI 0x38
#define THREAD_R8 0x40
#define THREAD_R9 0x48
#define THREAD_R10 0x50
#define THREAD_R11 0x58
#define THREAD_R12 0x60
#define THREAD_R13 0x68
#define THREAD_R14 0x70
#define THREAD_R15 0x78
#define THREAD_PC 0x80 /* where the program goes on */
#define THREAD_FLAGS 0x88
#define THREAD_SPILL0 0x90 /* rcx of the program within an indirect branch */
#define THREAD_SPILL1 0x98 /* rdx */
/*
 * why the cache was left: number of the exit; for engine_miss an address in the indirect
 * branch
 */
#define THREAD_EXIT 0xa0
#define THREAD_NEXT 0xa8 /* where in the cache to go on */
#define THREAD_STACK 0xb0 /* top of the engine's stack */
#define THREAD_ON_EXIT 0xb8 /* address of engine_exit: the way out of the cache */
/* address of engine_miss: an indirect branch whose target is not in the table */
#define THREAD_ON_MISS 0xc0
#define THREAD_SELF 0xc8 /* address of the thread */
#define THREAD_SCRATCH 0xd0
#define THREAD_GS 0xd8 /* gs base of the program */
#define THREAD_PENDING 0xe8 /* a signal that waits; 0 none */
#define THREAD_ON_CALL 0xf0 /* address of engine_call: the cache calls the tool */
#define THREAD_IRET 0xf8 /* what iretq takes to go on natively: rip, cs, flags, rsp, ss */
/*
 * registers that inserted code uses, by number; behind them the flags as lahf and seto give
 * them
 */
#define THREAD_SAVED 0x120
#define THREAD_SAVED_FLAGS 0x1a0
#define THREAD_ADDRESSES 0x1a8 /* of memory operands, for code behind the instruction */
#define THREAD_ARGUMENTS 0x1b8 /* of a call out of inserted code: three words */
#define THREAD_CALLED 0x1d0 /* which function: tool << 32 | number */
#define THREAD_ON_TOOL 0x1d8 /* address of engine_tool: inserted code calls a tool's function */
/* within guarded_call(): where the program's vector registers are, 0 elsewhere; and its fs */
#define THREAD_GUARDED 0x1e0
#define THREAD_GUARDED_FS 0x1e8
#define THREAD_CALL_STACK 0x1f0 /* within program_syscall(): where the engine's stack is */
/* 1 between signal_close() and signal_open(); then also the mask that was before */
#define THREAD_CLOSED 0x1f8
#define THREAD_CLOSED_MASK 0x200
#define THREAD_DISPLACED 0x208 /* whether there is anything in the second tables of targets */
#define THREAD_FS_ENGINE 0xe0 /* fs base for code that looks for a canary there */

/* Targets of indirect branches: two tables of 64 K words each, by the low 16 bits of the target. */
#define THREAD_TAGS 0x1000 /* complement of the target, or 0 */
#define THREAD_PLACES 0x81000 /* where it is in the cache */
/*
 * The same once more, by another index (dispatch.S, second_index): a target that another one has
 * displaced above is found here. Not touched before there is one.
 */
#define THREAD_TAGS2 0x101000
#define THREAD_PLACES2 0x181000
/* a page: struct stream_slot, whose first word is where the next segment goes */
#define THREAD_STREAM 0x201000
#define THREAD_ENGINE_STACK 0x202000 /* ENGINE_STACK_SIZE bytes */
#define THREAD_GATES 0x242000 /* a page: struct stream_gates */
#define THREAD_BYTES 0x243000
/* What tools keep, as in the slot behind its ring. */
#define THREAD_COUNTS 0x300000
