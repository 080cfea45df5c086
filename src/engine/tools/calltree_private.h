/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the tool calltree share: the state of a thread behind the memory that the host
 * reads (wire/calltree.h).
 *
 *	calltree.c		the tool: inline code, and what it calls
 *	calltree_frames.c	calls, returns and tasks that inline code cannot handle
 *	calltree_time.c		charges time to routines
 *	calltree_events.c	tells the host each of these events, if it wants them
 */
#pragma once

#include "calls/tree.h"
#include "engine/stream.h"
#include "engine/tool.h"
#include "engine/tools/calltree_resources.h"
#include "engine/tools/calltree_stacks.h"
#include "engine/tools/routines.h"
#include "wire/call_events.h"
#include "wire/calltree.h"

enum {
	CALLTREE_PAGE = 4096,
	CALLTREE_LONG_BITS = 15, /* intervals of so many ticks are looked at, as a power of two */
	CALLTREE_BACK_MAX = CALL_STACK_MAX, /* routines of a path that an event names */
};

/* State that the host does not read. */
struct calltree_state {
	struct call_tree tree;
	uint64_t checked; /* ticks, when the clocks were last asked */
	uint64_t cpu, wall; /* ns, then */
	uint64_t look; /* ticks that reading them takes */
	struct resources resources; /* if they are asked for */
	bool resyncs; /* the thread ran before: routines are found by where they return to */
	/*
	 * Code of a routine without a frame, and the stack pointer there; 0: none. What the host
	 * knows of the code is here when it has been executed, at the next event.
	 */
	uint64_t resync_pc, resync_sp;
	/* Where the stack pointer was after a return that had no entry; 0: something came since. */
	uint64_t returned;
	struct kept_stacks stacks;
	uint64_t path[CALLTREE_BACK_MAX]; /* while an event with a path is written */
};

_Static_assert(sizeof(struct calltree_state) <= CALLTREE_PRIVATE_BYTES, "it has its place");

/* Where the tool's memory lies among a thread's counters: found by adding up those before it. */
uint32_t calltree_place_find(void);
extern uint32_t calltree_place_known __attribute__((visibility("hidden"))); /* 0: not yet */

static inline uint32_t calltree_place(void)
{
	if (!calltree_place_known)
		calltree_place_known = calltree_place_find();
	return calltree_place_known;
}

static inline struct calltree_memory *calltree_memory_of(struct thread *thread)
{
	return (struct calltree_memory *)(stream_counts(thread) + calltree_place());
}

static inline struct calltree_state *calltree_state_of(struct thread *thread)
{
	return (struct calltree_state *)((uint8_t *)calltree_memory_of(thread) + CALLTREE_PRIVATE);
}

static inline bool calltree_is_timed(void)
{
	return engine_boot.flags & ENGINE_CALLS_TIMED;
}

static inline bool calltree_has_resources(void)
{
	return routines_area()->resources;
}

static inline bool calltree_has_events(void)
{
	return routines_area()->events;
}

/* From how many ticks on an interval is looked at: as a power of two. */
static inline unsigned calltree_interval_bits(void)
{
	return calltree_has_resources() ? RESOURCES_INTERVAL_BITS : CALLTREE_LONG_BITS;
}

static inline uint64_t calltree_ticks(void)
{
	return __builtin_ia32_rdtsc();
}

static inline struct call_node *calltree_innermost(struct thread *thread)
{
	return ((struct call_frame *)calltree_memory_of(thread)->top)->at;
}

/* Where the call is not direct, only now it is known where it leads to. */
static inline bool calltree_is_unwanted(uint64_t routine)
{
	return routines_area()->filters && routine_is_skipped(routine);
}

/* --- calltree_frames.c ------------------------------------------------------------------- */
/* The routine is entered; sp: the address of its return address. */
void calltree_enter(struct thread *thread, uint64_t routine, uint64_t sp);
/* A call from a site: values are the routine and the number of the site. */
void calltree_enter_from(struct thread *thread, const uint64_t *values, uint64_t sp);
/* The routine ends whose return address is on top of the stack. */
void calltree_leave(struct thread *thread);
/* A jump that ends a routine: the one whose return address is on top of the stack. */
void calltree_tail(struct thread *thread, uint64_t routine);
/*
 * Control is at the beginning of a routine that is not the innermost one. It has come by a tail
 * call from the innermost one, or from one that is skipped and has no frame; or it was sent there.
 */
void calltree_arrive(struct thread *thread, uint64_t routine);
/*
 * Makes the frame that a return to a routine without one has left open. It does not count as a
 * call, because the call was not seen.
 */
void calltree_resync_end(struct thread *thread);
/* The program announces that a task begins, or ends (include/assay/client.h). */
void calltree_task_begin(struct thread *thread, uint64_t name);
void calltree_task_end(struct thread *thread);
/* A signal came before the instruction that was to enter, or to leave, a routine. */
void calltree_enter_undo(struct thread *thread, uint64_t routine, uint64_t sp);
void calltree_leave_undo(struct thread *thread);

/* --- calltree_events.c ------------------------------------------------------------------- */
/* Appends a record; major, minor, routine and sp are those of the event. */
void calltree_event_put(struct thread *thread, const struct call_event *like, const void *payload,
			uint32_t size);
/* A frame stands again: it lies in front of where its own stack went on. */
void calltree_event_back(struct thread *thread, const struct call_frame *frame);

static inline void calltree_event(struct thread *thread, enum call_minor minor, uint64_t routine,
				  uint64_t sp)
{
	const struct call_event event = {
		.major = CALL_MAJOR_ENGINE, .minor = minor, .routine = routine, .sp = sp
	};

	if (calltree_has_events())
		calltree_event_put(thread, &event, NULL, 0);
}

/* --- calltree_time.c --------------------------------------------------------------------- */
/*
 * Charges an interval in which the kernel may have been entered to the innermost routine. The time
 * that reading the clocks takes is charged to none.
 */
void calltree_charge_long(struct thread *thread, uint64_t interval);
/* Charges the time up to now, for entries and exits that inline code does not handle. */
void calltree_charge_now(struct thread *thread);
/*
 * The tool has done something that took time, right behind a charge: that is charged to no routine.
 */
void calltree_time_skip(struct thread *thread);
/* The thread has waited for the host: neither is that, nor that it was off a processor. */
void calltree_clocks_renew(struct thread *thread);
/* Measures the ticks that reading the clocks takes: the minimum of some tries. */
void calltree_look_measure(struct calltree_state *own);
/* Measures the ticks between two time stamps of inline code. */
uint64_t calltree_calibrate(struct thread *thread);
