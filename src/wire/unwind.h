/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compact unwind tables, shared by the host (which builds them from .eh_frame) and the BPF sampler
 * (which walks stacks with them). docs/design/unwinding.md explains the choice.
 *
 * A module's table is an array of rows sorted by pc. A row holds from its pc up to the next row's
 * pc. A return address is looked up as address - 1, an interrupted address as itself.
 *
 * How the rows of each kind recover the caller; the CFA is the caller's stack pointer:
 *
 *	NONE	no information: walk by frame pointer
 *	END	the outermost frame: the walk is complete
 *	SP	cfa = sp + cfa * 8
 *	BP	cfa = bp + cfa * 8
 *	PLT	cfa = sp + 8 + ((ip & 15) >= cfa ? 8 : 0)	(lazy binding stubs)
 *	DRAP	cfa = load(bp + bp * 8), caller's bp = load(bp)	(realigned stacks)
 *	REG	cfa = register(bp & 15) + cfa * 8; leaf frames only, rbx aside: elsewhere the
 *		register is unknown. The caller's bp was saved at cfa - n * 8, n being the upper
 *		four bits of bp; 0 says bp is unchanged.
 *	LINK	cfa = sp + cfa * 8; the return address is in register(bp & 15), the rest of bp is
 *		as in REG; leaf frames only	(vfork, which must not leave it on a stack that
 *		two processes share)
 *	DEREF	cfa = load(sp + (cfa >> 3) * 8) + (cfa & 7) * 8	(hand-written cryptography)
 *	SIGNAL	ip, sp, bp, rbx are loaded from the ucontext at sp; the caller was interrupted, not
 *		calling
 *	HARD	a rule that these tables cannot express: the walk stops here, counted
 *
 * In all but END, LINK, SIGNAL and HARD rows the return address is at cfa - 8. In SP, BP, PLT and
 * DEREF rows, bp != 0 says that the caller's bp was saved at cfa + bp * 8 (always negative); 0 says
 * bp is unchanged.
 *
 * rbx is followed for the REG rows of the dynamic linker, which is on the stack whenever a symbol
 * is bound. Hardly any walk meets one, so a walk only keeps the address of the newest saved rbx
 * (unwind_rbx_place()) and loads it when it does.
 */
#pragma once

#ifndef __bpf__
#include <stdint.h>
typedef uint8_t wire_u8;
typedef int8_t wire_s8;
typedef uint16_t wire_u16;
typedef int16_t wire_s16;
typedef uint32_t wire_u32;
typedef uint64_t wire_u64;
#else
typedef unsigned char wire_u8;
typedef signed char wire_s8;
typedef unsigned short wire_u16;
typedef signed short wire_s16;
typedef unsigned int wire_u32;
typedef unsigned long long wire_u64;
#endif

#define UNWIND_KINDS(X)                                                                            \
	X(NONE)                                                                                    \
	X(END)                                                                                     \
	X(SP)                                                                                      \
	X(BP)                                                                                      \
	X(PLT)                                                                                     \
	X(DRAP)                                                                                    \
	X(REG)                                                                                     \
	X(LINK)                                                                                    \
	X(DEREF)                                                                                   \
	X(SIGNAL)                                                                                  \
	X(HARD)

enum unwind_kind {
#define X(name) UNWIND_##name,
	UNWIND_KINDS(X)
#undef X
		UNWIND_KIND_COUNT
};

struct unwind_row {
	wire_u32 pc; /* offset from the module's lowest PT_LOAD address */
	wire_u8 kind : 4; /* enum unwind_kind */
	/* the caller's was saved so many words below the cfa; 0: unchanged; or UNWIND_RBX_LOST */
	wire_u8 rbx : 4;
	/* in words; meaning by kind; in REG and LINK rows also the DWARF register number */
	wire_s8 bp;
	wire_s16 cfa; /* in words; meaning by kind */
};

_Static_assert(sizeof(struct unwind_row) == 8, "eight rows a cache line");
_Static_assert(UNWIND_KIND_COUNT <= 16, "four bits");

#define UNWIND_RBX_LOST 15 /* saved in a place that a row cannot say */
#define UNWIND_RBX_NOWHERE (~0ull)

/*
 * Where the newest saved rbx lies, once a frame is left: 0 while it is still the interrupted
 * register itself.
 */
static inline wire_u64 unwind_rbx_place(wire_u64 place, const struct unwind_row *row, wire_u64 cfa)
{
	if (!row->rbx)
		return place;
	return row->rbx == UNWIND_RBX_LOST ? UNWIND_RBX_NOWHERE : cfa - row->rbx * 8ull;
}

/*
 * A user frame that was interrupted at its address (the innermost one, and the one below a signal
 * handler) carries this bit, and so does the trampoline that a handler returns to: it lies at the
 * start of its code, and was not called. Every other user frame is a return address.
 */
#define UNWIND_EXACT (1ull << 63)

/* Offsets of the saved registers in the ucontext that the kernel pushes for a signal. */
enum {
	UCONTEXT_RBP = 120,
	UCONTEXT_RBX = 128,
	UCONTEXT_RSP = 160,
	UCONTEXT_RIP = 168,
};

#define UNWIND_ROWS_ABSENT 0xffffffffu

/* One executable mapping of a process. A process's mappings lie side by side, sorted by start. */
struct unwind_mapping {
	wire_u64 start;
	wire_u64 end;
	wire_u64 bias; /* run-time address - bias = offset that rows use */
	wire_u32 first_row; /* in the rows map; UNWIND_ROWS_ABSENT: only the host has the table */
	wire_u32 row_count; /* 0: no table, walk by frame pointer */
	/* number of the module in keys of blocks (wire/run.h); 0: no values are taken there */
	wire_u32 module;
	wire_u32 reserved;
};

_Static_assert(sizeof(struct unwind_mapping) == 40, "read by BPF");

/*
 * Why a user stack walk ended. COMPLETE is the only good one; every other is counted and shown.
 * Columns: name, JSON name, what a person reads.
 */
#define STACK_ENDS(X)                                                                              \
	X(COMPLETE, "complete", "walked to its root")                                              \
	X(NO_USER, "no_user", "kernel thread, exec or exit: no user stack")                        \
	X(FRAME_POINTER, "frame_pointer", "frame-pointer chain broke where there is no table")     \
	X(NO_MAPPING, "no_mapping", "return address lies in no executable mapping")                \
	X(UNREADABLE, "unreadable", "stack memory was not present")                                \
	X(BAD_CFA, "bad_cfa", "stack pointer did not grow")                                        \
	X(HARD_RULE, "hard_rule", "unwind rule beyond the compact tables")                         \
	X(TOO_DEEP, "too_deep", "more frames than --max-depth")                                    \
	X(DUMP_SHORT, "dump_short", "stack longer than the copied part")                           \
	X(CROWDED, "crowded", "recorder was behind: only the innermost frames were kept")

enum stack_end {
#define X(name, json, text) STACK_END_##name,
	STACK_ENDS(X)
#undef X
		STACK_END_COUNT
};
