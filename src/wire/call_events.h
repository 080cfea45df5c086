/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events from which trees of calls are built: what a trace of them holds, and what a living source
 * hands on. A trace is a head and records, all multiples of 8 bytes:
 *
 *	struct call_trace_head
 *	struct call_event, then `metrics` x struct call_amount (counters of the thread and of
 *	everybody, since any beginning), then the payload up to `size`
 *
 * A record's major code says who produced it, its minor code what happened:
 *
 *	major			minor			routine		sp	payload
 *	THREAD			PROCESS			pid		its parent's, or 0
 *				START			kernel tid	generation	name
 *				END			kernel tid	generation
 *				OUT, IN			the thread stops, and goes on, running
 *				NAME						name
 *				TASK			routine			name
 *				SCALE			(a)		(b)
 *	CODE			LOAD, UNLOAD		address		size	bias (8 bytes), path
 *				NAME			routine			name
 *				PROGRAM
 *	INTERPRETED, ENGINE,	ENTRY, EXIT, TAIL,	routine		stack pointer
 *	COMPILED		INSIDE
 *	ENGINE			TAKEN_BACK		routine
 *				GONE, REPAIR		repair
 *				BACK			routine			(e)
 *	SAMPLE_TIMER		STACK					(c)
 *	SAMPLE_ROUTINE		STACK					(d)
 *	ALLOCATION		OBJECT			bytes		address
 *				FREE			bytes		address
 *				ASKED			bytes		levels up
 *
 * (a) ns for each tick, a double; (b) the ticks by which each interval was longer for being
 * measured: SCALE may come after END. (c) Routines, outermost first, from the root; (d) the same,
 * below the current node. Of CODE, `thread` is the pid. A PROGRAM is what it executes from here on:
 * the code that is loaded and the threads that are told afterwards are of that program.
 *
 * TAIL is the entry of a routine in the place of the one that called it. INSIDE is where a thread
 * begins within a routine that it has not called, as the child of a fork does. `sp` is 0 where it
 * is not known.
 *
 * The engine knows where frames are, and tells what it has done about those that do not match
 * (enum call_repair): the innermost one is GONE without an exit; a REPAIR is counted, and changes
 * no frame; a frame that was gone has come BACK, and its call was counted before; the innermost
 * one's entry is TAKEN_BACK, because a signal came before the call. (e) Empty if the routine lies
 * below the innermost one; otherwise all routines of its path, outermost first. Of what is ASKED of
 * an allocator, base belongs to the innermost routine, or to the one that called it (1 level up).
 * TASK gives the name of a task, which is entered and left like a routine.
 *
 * In the head, numbers that are 0 leave the choice to who reads.
 */
#pragma once

#include <stdint.h>

#include "wire/call_tree.h"

enum {
	CALL_TRACE_MAGIC = 0x4c4c4143, /* "CALL" */
	CALL_TRACE_VERSION = 3,
	CALL_STACK_MAX = 1024, /* routines of a stack sample */
	CALL_NAME_MAX = 4096,
};

enum call_major {
	CALL_MAJOR_THREAD = 0x10,
	CALL_MAJOR_CODE = 0x20,
	CALL_MAJOR_INTERPRETED = 0x30,
	CALL_MAJOR_ENGINE = 0x31,
	CALL_MAJOR_SAMPLE_TIMER = 0x40,
	CALL_MAJOR_SAMPLE_ROUTINE = 0x41,
	CALL_MAJOR_COMPILED = 0x50,
	CALL_MAJOR_ALLOCATION = 0x60,
};

enum call_minor {
	CALL_MINOR_ENTRY = 1,
	CALL_MINOR_EXIT = 2,
	CALL_MINOR_TAIL = 3,
	CALL_MINOR_START = 4,
	CALL_MINOR_END = 5,
	CALL_MINOR_OUT = 6,
	CALL_MINOR_IN = 7,
	CALL_MINOR_NAME = 8,
	CALL_MINOR_LOAD = 9,
	CALL_MINOR_UNLOAD = 10,
	CALL_MINOR_OBJECT = 11,
	CALL_MINOR_FREE = 12,
	CALL_MINOR_PROCESS = 13,
	CALL_MINOR_SCALE = 14,
	CALL_MINOR_INSIDE = 15,
	CALL_MINOR_GONE = 16,
	CALL_MINOR_BACK = 17,
	CALL_MINOR_TAKEN_BACK = 18,
	CALL_MINOR_REPAIR = 19,
	CALL_MINOR_TASK = 20,
	CALL_MINOR_ASKED = 21,
	CALL_MINOR_PROGRAM = 22,
	CALL_MINOR_STACK = 0x7fffffff,
};

struct call_trace_head {
	uint32_t magic;
	uint16_t version;
	uint16_t metrics; /* at most CALL_METRICS_MAX */
	uint8_t kinds[CALL_METRICS_MAX]; /* enum call_metric */
	uint32_t rule; /* enum call_stack_rule (calls/tree.h) */
	/* of a thread's tree, so that it becomes what it was when it was recorded */
	uint32_t node_limit, depth_limit, prune_permille;
	uint32_t weighs_itself; /* 1: paths were pruned by sweeps only */
	uint32_t untimed; /* 1: calls were only counted, and all amounts of time are 0 */
};

struct call_event {
	uint32_t size; /* of the whole record */
	uint16_t major;
	uint16_t reserved;
	uint32_t minor;
	uint32_t thread; /* number of the language thread, never used again */
	uint64_t routine;
	uint64_t sp;
};

_Static_assert(sizeof(struct call_trace_head) == 48, "in traces");
_Static_assert(sizeof(struct call_event) == 32, "in traces");
