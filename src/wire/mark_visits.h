/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory that the tool mark_visits has for each thread, in the place of its counters
 * (wire/tools.h): a sample of single visits of a routine whose slowest calls are to be explained,
 * with the calls and blocks that each of them executed.
 *
 *	0			struct mark_visits_memory
 *	MARK_VISITS_BLOCKS	counters of the routine's own blocks; inline code adds to them
 *	MARK_VISITS_TIMING	struct mark_timing: how long all visits took
 *	MARK_VISITS_KEPT	struct mark_visit: first usual ones, then slow ones
 *	MARK_VISITS_PRIVATE	the engine's own: the visit that has not ended, and its calls
 *
 * Two samples are taken: MARK_VISITS_SLOW of the slowest visits, whose share the host sets
 * (wire/marks.h), and MARK_VISITS_USUAL of the others. Usual visits are kept with the same
 * probability (reservoir sampling), slow ones with one that grows with their time (priority
 * sampling); the host knows from the times of all visits how many each of them stands for. The
 * threshold between the two is known only after some visits; those before it count as usual, and
 * the host, which has their times, sorts them anew.
 */
#pragma once

#include "wire/mark_times.h"

enum {
	MARK_VISITS_USUAL = 128,
	MARK_VISITS_SLOW = 256,
	MARK_VISITS_BLOCKS_MAX = 512,
	MARK_VISIT_NODES = 128, /* of a visit; the first is the routine itself */
	MARK_VISIT_NODE = 40, /* bytes */
	MARK_VISIT_ARGUMENTS = 6,
	MARK_VISIT_POINTED = 3, /* arguments whose memory is kept, if they are pointers */
	MARK_VISIT = 168 + MARK_VISIT_NODES * MARK_VISIT_NODE, /* bytes */
	MARK_VISITS_BLOCKS = 4096,
	MARK_VISITS_TIMING = MARK_VISITS_BLOCKS + MARK_VISITS_BLOCKS_MAX * 8,
	MARK_VISITS_KEPT = MARK_VISITS_TIMING + MARK_TIMING,
	MARK_VISITS_PRIVATE =
		MARK_VISITS_KEPT + (MARK_VISITS_USUAL + MARK_VISITS_SLOW) * MARK_VISIT,
	MARK_VISITS_PRIVATE_BYTES = 32 << 10,
	MARK_VISITS_WORDS = (MARK_VISITS_PRIVATE + MARK_VISITS_PRIVATE_BYTES) / 8,
};

struct mark_visits_memory {
	wire_u64 inside; /* 1: a visit has not ended; inline code looks at it */
	wire_u64 usual, slow; /* visits of each sort that have ended */
	wire_u64 abandoned; /* that were left by longjmp or an exception */
	wire_u64 threshold; /* ticks from which on a visit is slow; 0: not known yet */
	wire_u32 mark; /* its number */
	wire_u32 ready; /* 1: there is something to read */
};

enum mark_visit_kind {
	MARK_VISIT_CALL, /* code: a routine */
	MARK_VISIT_SYSTEM_CALL, /* code: its number; object: of a futex, its address */
	MARK_VISIT_BLOCK, /* code: a block of the marked routine itself */
	MARK_VISIT_KINDS,
};

/* A call, a system call or a block, and how often a visit executed it there. */
struct mark_visit_node {
	wire_u64 code;
	wire_u64 object;
	wire_u64 ticks; /* cumulative; 0 for blocks */
	wire_u64 count;
	wire_u32 parent; /* an earlier node */
	wire_u32 kind; /* enum mark_visit_kind */
};

struct mark_visit {
	wire_u32 valid; /* 1: the rest is whole */
	wire_u32 node_count;
	/* calls for which there was no free node; they are part of their callers */
	wire_u32 folded;
	wire_u32 asked; /* 1: the next five were read from the kernel (getrusage) */
	wire_u64 cpu_ns; /* on a processor */
	wire_u64 faults_minor, faults_major;
	wire_u64 voluntary, involuntary; /* context switches */
	wire_u64 ticks;
	wire_u64 arguments[MARK_VISIT_ARGUMENTS]; /* rdi, rsi, rdx, rcx, r8, r9 at its beginning */
	wire_u64 pointed[MARK_VISIT_POINTED][2]; /* 16 bytes there */
	wire_u64 readable; /* bit n: argument n points to memory */
	struct mark_visit_node nodes[MARK_VISIT_NODES];
};

_Static_assert(sizeof(struct mark_visit_node) == MARK_VISIT_NODE, "wire");
_Static_assert(sizeof(struct mark_visit) == MARK_VISIT, "wire");
_Static_assert(sizeof(struct mark_visits_memory) <= MARK_VISITS_BLOCKS, "wire");
