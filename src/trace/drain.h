/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Drains what engines record (wire/stream.h): the memory that is shared with programs in, processes, threads and their runs out.
 *
 *	drain_create()
 *	drain_sweep()		again and again: takes what there is
 *	drain_wait()		sleeps until there may be more
 *	drain_finish()		takes the rest and ends every thread and process
 *
 * All calls, and all calls to sinks, are of one thread.
 */
#pragma once

#include "base/relay.h"
#include "trace/log.h"

/* Columns: name, JSON name, text. Why a run that was executed is not in the profile. */
#define DRAIN_LOSSES(X)                                                                            \
	X(UNKNOWN, "unknown_run", "runs with a number that no log explains")                       \
	X(ABANDONED, "abandoned", "runs recorded while nobody took them")                          \
	X(ORPHAN, "orphan", "runs of threads whose process has no log")

enum drain_loss {
#define X(name, json, text) DRAIN_LOSS_##name,
	DRAIN_LOSSES(X)
#undef X
		DRAIN_LOSS_COUNT
};

/* What tools leave behind the ring of a slot. */
enum drain_counters { DRAIN_NO_COUNTERS, DRAIN_COUNTS, DRAIN_MARKS };

/* A program: a pid between two execs. Lives until its process_end(). */
struct drain_process {
	uint32_t number; /* from 1, in the order of appearance */
	uint32_t pid;
	uint32_t parent; /* number of the process it was forked from; 0: none, or not known */
	uint32_t replaces; /* number of the program that it replaced by exec; 0: none */
	struct runtable *runs; /* NULL until the log has begun */
	uint64_t ended; /* ns, CLOCK_MONOTONIC: when that was seen; 0: not before the end of all */
	void *user; /* the sink's */
};

struct drain_thread {
	struct drain_process *process;
	uint32_t number; /* from 1 */
	uint32_t tid;
	uint64_t kept; /* runs handed out */
	uint64_t lost[DRAIN_LOSS_COUNT];
	void *user; /* the sink's */
};

/* Any call may be NULL. */
struct drain_sink {
	void (*process_begin)(void *ctx, struct drain_process *process);
	/* A record of the process's log that was checked and applied; first: of the pieces that it added to the table. */
	void (*record)(void *ctx, struct drain_process *process, const struct stream_record *record,
		       uint32_t first);
	void (*thread_begin)(void *ctx, struct drain_thread *thread);
	/* What the thread executed next; every number is below runtable_limit(), though there may be gaps. */
	void (*runs)(void *ctx, struct drain_thread *thread, const uint32_t *runs, size_t count);
	/* How often the thread executed runs first, first + 1, ...: once, at its end. */
	void (*counts)(void *ctx, struct drain_thread *thread, uint32_t first,
		       const uint64_t *counts, size_t count);
	void (*thread_end)(void *ctx, struct drain_thread *thread);
	void (*process_end)(void *ctx, struct drain_process *process); /* some time after its end */
	void *ctx;
};

struct drain_totals {
	uint64_t processes, threads;
	uint64_t refused; /* threads that found no slot, as their engines say */
	uint64_t kept; /* runs */
	uint64_t lost[DRAIN_LOSS_COUNT];
	uint64_t records_seen, records_kept;
	uint64_t records_lost[LOG_FAULT_COUNT];
	uint64_t broken; /* slots whose positions made no sense; what they held is not known */
};

struct drain;

/*
 * shared: as inject made it, of shared_size bytes. sinks are called in their order. -EINVAL: there are no slots in the
 * memory.
 */
int drain_create(void *shared, uint64_t shared_size, enum drain_counters counters,
		 const struct drain_sink *sinks, size_t sink_count, struct drain **ret);
void drain_destroy(struct drain *drain);
DEFINE_AUTO(struct drain, drain_destroy)

/* Before the first sweep, if at all: one over the memory's words for it. */
void drain_relay_set(struct drain *drain, struct relay *relay);
/* true: something was taken. */
bool drain_sweep(struct drain *drain);
/* Runs that were handed out so far. */
uint64_t drain_taken(const struct drain *drain);
/* milliseconds: at most. */
void drain_wait(struct drain *drain, unsigned milliseconds);
/* The same, but only until some ring is half full. Nothing may have been there to take, or not worth it. */
void drain_nap(struct drain *drain, unsigned milliseconds);
/* Wakes both, from any thread. */
void drain_wake(struct drain *drain);
/* What was recorded up to now is taken; what the programs that still run record afterwards is not. */
void drain_finish(struct drain *drain);
const struct drain_totals *drain_totals(const struct drain *drain);
