/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The source of executed code: the memory that engines share with the host (wire/stream.h) in;
 * processes, threads and the segments that these execute out, to sinks of type struct engine_sink.
 *
 *	engine_source_create(), engine_source_sink_add()
 *	engine_source_sweep()		again and again: takes what there is
 *	engine_source_wait()		sleeps until there may be more
 *	engine_source_finish()		takes the rest and ends every thread and process
 *
 * One thread makes all calls, and sinks are called from it. engine_recording.h makes a source of a
 * recorder of it.
 */
#pragma once

#include "base/memories.h"
#include "recorder/engine/catalog.h"

/* Columns: name, JSON name, text. Why a segment that was executed is not in the profile. */
#define SEGMENT_LOSSES(X)                                                                          \
	X(UNKNOWN, "unknown_segment", "segments with a number that no catalog explains")           \
	X(ABANDONED, "abandoned", "segments recorded while nobody took them")                      \
	X(ORPHAN, "orphan", "segments of threads whose process has no catalog")                    \
	X(REFUSED, "refused", "segments of threads that found no room to record in")

enum segment_loss {
#define X(name, json, text) SEGMENT_LOSS_##name,
	SEGMENT_LOSSES(X)
#undef X
		SEGMENT_LOSS_COUNT
};

/* What tools leave behind the ring of a slot. */
enum engine_counters { COUNTERS_NONE, COUNTERS_COUNTS, COUNTERS_MARKS };

/* A program: a pid between two execs. Lives until its process_end(). */
struct engine_process {
	uint32_t number; /* from 1, in the order of appearance */
	uint32_t pid;
	uint32_t parent; /* number of the process it was forked from; 0: none, or not known */
	uint32_t replaces; /* number of the program that it replaced by exec; 0: none */
	struct segment_table *segments; /* NULL until the catalog has begun */
	uint64_t ended; /* ns, CLOCK_MONOTONIC: when that was seen; 0: not before the end of all */
	void *user; /* the sink's */
};

struct engine_thread {
	struct engine_process *process;
	uint32_t number; /* from 1 */
	uint32_t tid;
	uint64_t kept; /* segments handed out */
	uint64_t lost[SEGMENT_LOSS_COUNT];
	bool ending; /* counts that are told now are the last */
	void *user; /* the sink's */
};

struct engine_totals {
	uint64_t processes, threads;
	uint64_t refused; /* threads that found no slot, as their engines say */
	uint64_t events_lost; /* events of marks that were too many, as the engines say */
	uint64_t kept; /* segments */
	uint64_t lost[SEGMENT_LOSS_COUNT];
	uint64_t unattributed[SEGMENT_LOSS_COUNT]; /* lost, of threads that no sink was told of */
	uint64_t records_seen, records_kept;
	uint64_t records_lost[CATALOG_FAULT_COUNT];
	uint64_t broken; /* slots whose positions made no sense; what they held is not known */
};

/* Any call may be NULL. */
struct engine_sink {
	void (*process_begin)(void *ctx, struct engine_process *process);
	/*
	 * A record of the process's catalog that was checked and applied; first: of the blocks that
	 * it added to the table.
	 */
	void (*record)(void *ctx, struct engine_process *process,
		       const struct stream_record *record, uint32_t first);
	void (*thread_begin)(void *ctx, struct engine_thread *thread);
	/*
	 * What the thread executed next; every number is below segment_table_limit(), though there
	 * may be gaps.
	 */
	void (*segments)(void *ctx, struct engine_thread *thread, const uint32_t *segments,
			 size_t count);
	/*
	 * How often the thread has executed segments first, first + 1, ... since its beginning: at
	 * its end, and whenever totals are told.
	 */
	void (*counts)(void *ctx, struct engine_thread *thread, uint32_t first,
		       const uint64_t *counts, size_t count);
	/*
	 * What a tool's counter says, if not 0: at the thread's end. It is the one that the
	 * process's record of that number, counted from 0, told of.
	 */
	void (*counter)(void *ctx, struct engine_thread *thread, size_t record, uint64_t value);
	/*
	 * What a tool keeps in the place of counters, at the thread's end: shared with the program,
	 * which may change it at any time. Only of tools that the registry calls ENGINE_TOOL_WHOLE.
	 */
	void (*memory)(void *ctx, struct engine_thread *thread, enum engine_tool tool,
		       const void *memory);
	/* The same of a thread that runs, whenever totals are told. */
	void (*memory_now)(void *ctx, struct engine_thread *thread, enum engine_tool tool,
			   const void *memory);
	void (*thread_end)(void *ctx, struct engine_thread *thread);
	/*
	 * All its threads have ended, and nothing more will be told of it: what only they needed
	 * can go. Not told of processes that are there when all ends.
	 */
	void (*process_over)(void *ctx, struct engine_process *process);
	void (*process_end)(void *ctx,
			    struct engine_process *process); /* some time after its end */
	/* The totals up to now. */
	void (*totals)(void *ctx, const struct engine_totals *totals);
	void *ctx;
};

struct engine_source;

/*
 * Memories have shared_size bytes. shared: one that any processes write, as tests do; NULL: see
 * engine_source_memories_set(). -EINVAL: there are no slots in so much memory.
 */
int engine_source_create(void *shared, uint64_t shared_size, enum engine_counters counters,
			 struct engine_source **ret);
/* Before the first sweep: each process has memory of its own, and they come from there. */
void engine_source_memories_set(struct engine_source *source, struct memories *memories);
void engine_source_destroy(struct engine_source *source);
DEFINE_AUTO(struct engine_source, engine_source_destroy)

/* Before the first sweep. Sinks are called in the order of this call. */
void engine_source_sink_add(struct engine_source *source, const struct engine_sink *sink);
/* Before the first sweep: the set of tools that record, by which it is known what lies where. */
void engine_source_tools_set(struct engine_source *source, uint64_t tools);
/* The three steps of a round (recorder/recorder.h): where rings are, catalogs, segments. */
void engine_source_look(struct engine_source *source);
void engine_source_events(struct engine_source *source);
/* Returns whether anything was taken. */
bool engine_source_deliver(struct engine_source *source);
/* All three. */
bool engine_source_sweep(struct engine_source *source);
/* Tells sinks the totals, and before them what counters say. */
void engine_source_tally(struct engine_source *source);
/* Segments that were handed out so far. */
uint64_t engine_source_taken(const struct engine_source *source);
/* milliseconds: at most. */
void engine_source_wait(struct engine_source *source, unsigned milliseconds);
/*
 * The same, but a ring that is not half full does not end it: for when there was little to take, or
 * nothing.
 */
void engine_source_nap(struct engine_source *source, unsigned milliseconds);
/* Wakes engine_source_wait() and engine_source_nap(), from any thread. */
void engine_source_wake(struct engine_source *source);
/* Takes what was recorded up to now; what running programs record afterwards is not taken. */
void engine_source_finish(struct engine_source *source);
const struct engine_totals *engine_source_totals(const struct engine_source *source);
