/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control flow of threads: segments in, rows for the profile out.
 *
 *	struct flow_space *space;			one for each process
 *	flow_space_create(&(struct flow_space_options){ .row = store_row,
 *		.definitions = store_definitions, .cycle = store_cycle, .context = store }, &space);
 *	struct flow *flow = flow_create(space, thread);	one for each thread
 *
 *	flow_weights_set(space, instructions, count);	whenever blocks were added
 *	err = flow_push(flow, segments, n);		as they come, any number of times
 *	err = flow_finish(flow);			the thread has ended
 *	flow_destroy(flow);
 *
 *	err = flow_space_finish(space);			all threads have ended: hands out the cycles
 *	flow_space_destroy(space);
 *
 * What comes out, in an order in which it can be stored and read at any time:
 *
 *	definitions	paths, numbered from 1 on, as blocks; always before the first row that
 *			uses them
 *	row		a stretch of a thread (paths/sequence.h)
 *	cycle		a cycle of any level and its counts: at the end, or earlier if memory is
 *			full; strata and above only if they were run more than once
 *
 * A number of a level is given to one cycle only. A cycle that comes again after it was forgotten
 * has another number; to add up counts by content, add up both.
 *
 * One thread of ours at a time uses a space and its flows.
 */
#pragma once

#include "paths/block_paths.h"
#include "paths/layer.h"
#include "paths/row_writer.h"
#include "paths/sequence.h"

enum {
	/*
	 * The format of the bytes that sequence.h and cyclepack.h write, as a profile
	 * states it. Raise it whenever one of them writes something else.
	 */
	FLOW_FORMAT = 6,
	FLOW_ROW = 1 << 18, /* repeated paths */
	FLOW_MIN_TRIPS = 2,
	FLOW_ROOM = 4 << 20, /* symbols that all threads of a space collect for rows, at most */
};

/* One symbol of a cycle above paths: a repeated cycle of the level below. */
struct flow_symbol {
	uint64_t number; /* of the cycle below */
	uint64_t trips;
};

struct flow_cycle {
	unsigned level; /* 0: path; 1: stratum; 2 + n: of stratum layer n */
	uint64_t number;
	uint64_t trips; /* how often it was run */
	uint64_t repeats; /* how often it began after another cycle; stops at 2^32 - 1 */
	uint64_t weight; /* instructions of one trip */
	uint32_t length;
	const struct flow_symbol *symbols; /* NULL for paths: their definitions tell */
};

struct flow;

/*
 * A callback that returns an error stops the flow, and the call that was made returns it. All
 * callbacks but `counted` are needed.
 */
struct flow_space_options {
	unsigned levels; /* 0: LAYER_LEVELS; at least 2 */
	uint32_t max_cycle; /* 0: LAYER_MAX_CYCLE */
	uint32_t row_repeats; /* repeated paths of a row, about; 0: FLOW_ROW */
	/*
	 * Rows are written in another thread. Callbacks are still called in the caller's, somewhat
	 * later.
	 */
	bool threaded;
	/* cycles above paths that were run less often are only counted; 0: FLOW_MIN_TRIPS */
	uint64_t min_trips;
	struct cycles_options
		cycles; /* memory is that of paths; everything together takes about twice as much */
	/*
	 * Returns how many blocks a segment that was pushed has, and where they are until the next
	 * call. Blocks are below 2^31.
	 */
	size_t (*blocks)(void *context, uint32_t segment, const uint32_t **ret);
	int (*row)(void *context, struct flow *flow, const struct sequence_row *row);
	/*
	 * Tells that the thread ran a path, given by its blocks, so many times: when the thread
	 * has ended, with flow_space_flush(), or earlier if memory is full. The same path may be
	 * told several times, and what was told of one that goes on may be taken back: sums are
	 * modulo 2^64. May be NULL.
	 */
	void (*counted)(void *context, struct flow *flow, const uint32_t *blocks, size_t count,
			uint64_t trips);
	int (*definitions)(void *context, const struct sequence_definitions *definitions);
	int (*cycle)(void *context, const struct flow_cycle *cycle);
	void *context;
};

/*
 * Cycles that were forgotten and not handed out, because they were run less often than min_trips.
 */
struct flow_rare {
	uint64_t cycles;
	uint64_t trips;
	uint64_t weight; /* of all trips */
};

/* Cycles above paths that were forgotten while a row went through the layers. */
struct flow_retired {
	ARRAY(struct flow_cycle) cycles; /* their symbols are below */
	/*
	 * The symbols of all cycles, one after the other. Those of a stratum are still symbols of
	 * the paths' layer, not numbers of paths.
	 */
	ARRAY(struct flow_symbol) symbols;
};

/* A copy of a repeated path for the row writer, which must not read the table of paths. */
struct flow_known {
	uint64_t trips;
	uint64_t weight; /* of all trips */
	uint32_t slot;
};

enum { FLOW_KNOWN_BITS = 14, FLOW_KNOWN_BLOCKS = 1 << (31 - FLOW_KNOWN_BITS) };

/* A row on its way to the profile. */
struct flow_row {
	struct flow *flow;
	bool last; /* the last row of the flow */
	/* its symbols are about to lose their meaning, so that no stratum continues after it */
	bool cut;
	struct sequence_row row;
	struct sequence_encoded encoded;
	ARRAY(uint32_t) symbols; /* its repeated paths */
	uint32_t limit; /* symbols of the row are below this, and known */
	struct flow_retired retired;
};

struct flow_space {
	struct flow_space_options options;
	struct layer_space *segments; /* cycles of segments, which become paths of blocks */
	struct block_paths blocks;
	struct layer_space *paths; /* the space of level 0 */
	struct layer_space *strata; /* the levels above; the writer's while it has rows */
	struct flow_retired *retired; /* where stratum_retired() puts what is forgotten */
	struct flow_known **known; /* by symbol, in blocks of memory that never move */
	uint32_t known_count;
	struct sequence_row_encoder row_encoder;
	struct sequence_encoder encoder;
	struct row_writer *writer;
	struct flow_row rows[ROW_WRITER_JOBS];
	size_t rows_busy; /* rows that the writer has */
	struct flow *flows;
	uint64_t defined; /* number of the last path whose definition was handed out */
	size_t room; /* symbols that all flows have memory for */
	/* by level; their weight is known when the space is finished */
	struct flow_rare rare[LAYER_LEVELS_MAX];
	uint64_t weight; /* weight of all flows that are finished */
	uint64_t kept_weight[LAYER_LEVELS_MAX]; /* weight of the cycles handed out, by level */
	bool clearing; /* paths are about to be forgotten */
	int err; /* the first error of a callback */
};

struct flow {
	struct flow_space *space;
	struct flow *next;
	struct layer *segments;
	struct block_path open;
	struct layer *paths; /* level 0; its counts may be read when the flow is finished */
	struct layer *
		/* level 1, and ->next; their counts may be read when the flow is finished */
		strata;
	void *owner; /* the caller's */
	ARRAY(uint32_t) row; /* symbols since the last row */
	ARRAY(uint64_t) trips; /* by the slot of a path: trips that `counted` was not told yet */
	bool finishing; /* what comes now is the last row */
};

int flow_space_create(const struct flow_space_options *options, struct flow_space **ret);
void flow_space_destroy(struct flow_space *space);
struct flow *flow_create(struct flow_space *space, void *owner);
void flow_destroy(struct flow *flow);

/*
 * Sets instructions by block, in memory of the caller. A path's weight is added up when it first
 * ends.
 */
void flow_weights_set(struct flow_space *space, const uint32_t *weights, size_t count);
int flow_push(struct flow *flow, const uint32_t *segments, size_t count);
/* Hands out rows and counts of all that has been pushed, but for paths that have not ended. */
int flow_space_flush(struct flow_space *space);
int flow_finish(struct flow *flow);
int flow_space_finish(struct flow_space *space);
/* Returns the bytes of everything. All flows must be finished. */
size_t flow_space_memory(const struct flow_space *space);
