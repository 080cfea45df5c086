/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of an engine's source, for engine_source.c and engine_threads.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "recorder/engine/engine_source.h"
#include "recorder/engine/ring.h"

enum {
	SPAN = STREAM_CHUNK / sizeof(uint32_t), /* segments handed out at a time */
	COUNTS_SPAN = 4096,
	LOSS_MAX = 1 << 30, /* of segments that a single thread may claim to have lost */
	SLOTS = STREAM_SLOT_COUNT,
};

#define COUNT_MAX (UINT64_C(1) << 52)

struct counter {
	enum engine_tool tool;
	uint32_t index;
};

struct process {
	struct engine_process told; /* to sinks */
	struct catalog catalog;
	struct ring ring;
	uint32_t slot;
	unsigned waited; /* sweeps, for its parent */
	bool waits; /* now */
	bool was_there; /* its pid, which is one of ours */
	bool gone;
	bool final; /* the ring was looked at after that */
	bool over; /* nothing comes any more; waits for being given back */
	uint32_t rings; /* threads that have not ended */
	ARRAY(struct counter) counters; /* that its catalog has told of */
	struct engine_source *source;
};

struct thread {
	struct engine_thread told;
	struct process *process; /* NULL: not known yet */
	struct ring ring;
	uint32_t slot, catalog, pid;
	bool gone, final;
	bool begun;
	uint64_t counted, uncounted; /* of told.kept and of what is lost: as counters last said */
};

/* What is known of a slot. At most one of the two is set. */
struct place {
	struct process *process;
	struct thread *thread;
};

/* The memory of a process. */
struct view {
	char *bytes; /* NULL: the place in the list is free */
	struct stream_area *area;
	struct memory *made; /* as it was handed to us; NULL: in tests */
	uint32_t number; /* of the memory; 0 in tests */
	uint32_t pid; /* 0: what the memory says */
	uint32_t used; /* places */
	uint32_t window; /* slots from here on were never used */
	uint32_t hint; /* where slots were taken when we last looked */
	uint32_t bell; /* as it was then */
	bool final; /* its process had ended when slots were looked at */
	struct place *places; /* SLOTS */
};

struct engine_source {
	struct memories *memories; /* NULL: in tests */
	uint32_t seen; /* number of the last one that was taken from there */
	ARRAY(struct view) views;
	uint32_t woken, woken_before; /* a bell of our own; as it was at the last look */
	uint64_t slot_bytes;
	uint64_t refused, unrecorded, events_lost; /* as said in memories that are gone */
	enum engine_counters counters;
	uint32_t pid_space; /* inode of our pid namespace; 0: not known */
	uint64_t tools; /* a set: ENGINE_TOOL_BIT */
	ARRAY(struct engine_sink) sinks;
	ARRAY(struct process *) processes;
	ARRAY(struct thread *) threads;
	ARRAY(struct process *) kept; /* that are over; the oldest first */
	size_t kept_bytes; /* that they take */
	uint64_t taken; /* segments that were handed out */
	uint64_t scanned, buried; /* when */
	uint64_t now; /* of this visit, as are the next two */
	bool scans; /* slots that are new were looked for */
	bool any; /* catalogs had something */
	struct engine_totals totals;
	uint32_t span[SPAN];
	uint64_t counts[COUNTS_SPAN];
	_Alignas(8) char records[STREAM_RING];
};

#define sinks_tell(source, call, ...)                                                              \
	do {                                                                                       \
		array_each(&(source)->sinks, sink_)                                                \
			if (sink_->call)                                                           \
				sink_->call(sink_->ctx, __VA_ARGS__);                              \
	} while (0)

static inline struct view *view_of(struct engine_source *source, uint32_t index)
{
	return &source->views.items[index / SLOTS];
}

static inline struct place *place_of(struct engine_source *source, uint32_t index)
{
	return &view_of(source, index)->places[index % SLOTS];
}

static inline struct stream_slot *slot_at(struct engine_source *source, uint32_t index)
{
	return (void *)(view_of(source, index)->bytes + STREAM_SLOTS +
			index % SLOTS * source->slot_bytes);
}

/* What the ring of a thread that has begun holds goes to the sinks; whether there was anything. */
bool engine_thread_drain(struct engine_source *source, struct thread *thread);
/* The counters of segments, as they are now. */
void engine_thread_counts_tell(struct engine_source *source, struct thread *thread);
/* The counters of tools; once, at the thread's end. */
void engine_thread_counters_tell(struct engine_source *source, struct thread *thread);
/* The memory of tools that is read as a whole. */
void engine_thread_memory_tell(struct engine_source *source, struct thread *thread);
/* What a thread that ends has kept and lost is added to the totals. */
void engine_thread_account(struct engine_source *source, struct thread *thread);
