/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory that the tool mark_times has for each thread, in the place of its counters
 * (wire/tools.h): how long visits of timed marks took.
 *
 *	0			struct mark_times_memory
 *	MARK_TIMES_FRAMES	visits that have not ended, outermost first; the engine's own
 *	MARK_TIMES_TIMERS	struct mark_timing of each timer
 *
 * Times are in ticks of the time stamp counter, as they were measured: `overhead` is what lies
 * between the two time stamps of a visit that does nothing, and is to be taken off each.
 *
 * A histogram has log-linear buckets: below 2 * MARK_TIMES_PARTS ticks one for each, above that
 * each power of two in MARK_TIMES_PARTS equal parts, so that a bucket is about 3 % wide.
 */
#pragma once

#include "wire/unwind.h"

enum {
	MARK_TIMERS_MAX = 1024, /* numbers are from 0 on */
	MARK_TIMES_PARTS_BITS = 5,
	MARK_TIMES_PARTS = 1 << MARK_TIMES_PARTS_BITS,
	MARK_TIMES_BITS = 44, /* of the longest time; longer ones count as that */
	MARK_TIMES_BUCKETS = (MARK_TIMES_BITS - MARK_TIMES_PARTS_BITS - 1) * MARK_TIMES_PARTS +
			     2 * MARK_TIMES_PARTS,
	MARK_TIMES_DEPTH = 4096,
	MARK_TIMES_FRAME = 32, /* bytes */
	MARK_TIMES_FRAMES = 4096,
	MARK_TIMES_TIMERS = MARK_TIMES_FRAMES + (MARK_TIMES_DEPTH + 2) * MARK_TIMES_FRAME,
	MARK_TIMING = 64 + MARK_TIMES_BUCKETS * 8, /* bytes */
	MARK_TIMES_WORDS = (MARK_TIMES_TIMERS + MARK_TIMERS_MAX * MARK_TIMING) / 8,
};

struct mark_times_memory {
	wire_u64 top; /* the innermost visit: an address in the producer's memory */
	wire_u64 deepest; /* the last frame that there is room for */
	wire_u64 overhead; /* ticks; measured at the thread's start */
	wire_u64 undone; /* ticks of a visit that is being undone */
	wire_u32 ready; /* 1: there is something to read */
	wire_u32 reserved;
};

/* A visit that has not ended. */
struct mark_times_frame {
	wire_u64 sp; /* at its beginning */
	wire_u64 start; /* ticks */
	wire_u64 ticks; /* that it took; 0 until its end */
	wire_u32 timer;
	wire_u32 reserved;
};

struct mark_timing {
	wire_u64 sum;
	wire_u64 most;
	wire_u64 least; /* the complement of the shortest time; 0: nothing was timed */
	wire_u64 slower; /* than the timer's threshold */
	wire_u64 abandoned; /* visits whose end was not seen: longjmp, exceptions */
	wire_u64 too_deep; /* visits within more than MARK_TIMES_DEPTH others */
	wire_u64 reserved[2];
	wire_u64 buckets[MARK_TIMES_BUCKETS];
};

enum mark_timer_flag {
	MARK_TIMER_EXACT = 1, /* a routine, whose end has the stack pointer of its beginning */
	MARK_TIMER_EVENT = 2, /* a visit that is slower than the threshold raises an event */
};

/* How a timer works; written by the host before the answer that first names it. */
struct mark_timer {
	wire_u64 slower; /* ticks; 0: there is no threshold */
	wire_u32 mark; /* its number */
	wire_u32 flags; /* enum mark_timer_flag */
};

/* The bucket of a time. */
static inline unsigned mark_times_bucket(wire_u64 ticks)
{
	unsigned shift;

	if (ticks >> MARK_TIMES_BITS)
		ticks = (1ull << MARK_TIMES_BITS) - 1;
	shift = 63u - (unsigned)__builtin_clzll(ticks | MARK_TIMES_PARTS) - MARK_TIMES_PARTS_BITS;
	return (shift << MARK_TIMES_PARTS_BITS) + (unsigned)(ticks >> shift);
}

/* The least time that is in it. */
static inline wire_u64 mark_times_bucket_low(unsigned bucket)
{
	unsigned shift = bucket < 2 * MARK_TIMES_PARTS ? 0 : bucket / MARK_TIMES_PARTS - 1;

	return (wire_u64)(bucket - shift * MARK_TIMES_PARTS) << shift;
}

_Static_assert(sizeof(struct mark_times_frame) == MARK_TIMES_FRAME, "wire");
_Static_assert(sizeof(struct mark_timing) == MARK_TIMING, "wire");
_Static_assert(sizeof(struct mark_times_memory) <= MARK_TIMES_FRAMES, "wire");
_Static_assert(sizeof(struct mark_timer) == 16, "wire");
