/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control flow of threads: runs in, rows for the profile out.
 *
 *	struct flow_space *space;			one for each process
 *	flow_space_create(&(struct flow_space_options){
 *		.row = store_row, .definitions = store_definitions, .cycle = store_cycle, .context = store }, &space);
 *	struct flow *flow = flow_create(space, thread);	one for each thread
 *
 *	flow_weights_set(space, instructions, count);	whenever runs were added
 *	err = flow_push(flow, runs, n);			as they come, any number of times
 *	err = flow_finish(flow);			the thread has ended
 *	flow_destroy(flow);
 *
 *	err = flow_space_finish(space);			all threads have: hands out the cycles
 *	flow_space_destroy(space);
 *
 * What comes out, in an order in which it can be stored and read at any time:
 *
 *	definitions	paths, numbered from 1 on; always before the first row that uses them
 *	row		a stretch of a thread (profile/sequence.h)
 *	cycle		a cycle of any level and its counts: at the end, or earlier if memory is full; strata and above
 *			only if they were run more than once
 *
 * A number is given to a cycle of a level once. A cycle that comes again after it was forgotten has another number;
 * who adds up counts by content has to add up both.
 *
 * One thread of ours at a time uses a space, its flows included.
 */
#pragma once

#include "profile/layer.h"
#include "profile/rowworks.h"
#include "profile/sequence.h"

enum {
	/*
	 * Of the bytes that runs.h, sequence.h and cyclepack.h write: a profile says in which format they are. Raise it whenever any of
	 * them writes something else.
	 */
	FLOW_FORMAT = 5,
	FLOW_ROW = 1 << 18, /* repeated paths */
	FLOW_MIN_TRIPS = 2,
	FLOW_ROOM = 4 << 20, /* symbols that all threads of a space collect for rows, at most */
};

/* One symbol of a cycle: a run, or a repeated cycle of the level below. */
struct flow_symbol {
	uint64_t number; /* of the run, or of the cycle below */
	uint64_t trips; /* of a run: 1 */
};

struct flow_cycle {
	unsigned level; /* 0: path; 1: stratum; 2 + n: of stratum layer n */
	uint64_t number;
	uint64_t trips; /* how often it was run */
	uint64_t repeats; /* how often in a row; stops at 2^32 - 1 */
	uint64_t weight; /* of one trip, instructions */
	uint32_t length;
	const struct flow_symbol *symbols; /* NULL for paths: their definitions tell */
};

struct flow;

/* What returns an error stops the flow, and is returned by whatever was called. All but context and counted are needed. */
struct flow_space_options {
	unsigned levels; /* 0: LAYER_LEVELS; at least 2 */
	uint32_t max_cycle; /* 0: LAYER_MAX_CYCLE */
	uint32_t row_repeats; /* repeated paths of a row, about; 0: FLOW_ROW */
	bool threaded; /* what becomes of rows is done in other threads; callbacks are called in the caller's all the same, somewhat later */
	struct relay *relay; /* of which those threads are reserves; may be NULL */
	uint64_t min_trips; /* cycles above paths that were run less often are only counted; 0: FLOW_MIN_TRIPS */
	struct cycles_options
		cycles; /* memory is that of paths; everything together takes about twice as much */
	int (*row)(void *context, struct flow *flow, const struct sequence_row *row);
	/*
	 * The thread ran a path, given by its runs, so many times: when it has ended, or earlier if memory is full. The same path may
	 * be told several times. May be NULL.
	 */
	void (*counted)(void *context, struct flow *flow, const uint32_t *runs, size_t count,
			uint64_t trips);
	int (*definitions)(void *context, const struct sequence_definitions *definitions);
	int (*cycle)(void *context, const struct flow_cycle *cycle);
	void *context;
};

/* Cycles that were forgotten and not handed out, because they were run too seldom. */
struct flow_rare {
	uint64_t cycles;
	uint64_t trips;
	uint64_t weight; /* of all trips */
};

/* Cycles above paths that were forgotten while a row went through the layers. */
struct flow_retired {
	ARRAY(struct flow_cycle) cycles; /* without their symbols */
	/* Of all of them, one after the other. Those of a stratum are not numbers yet, but symbols of the paths' layer. */
	ARRAY(struct flow_symbol) symbols;
};

/* A repeated path, for who must not look at the table of paths. */
struct flow_known {
	uint64_t trips;
	uint64_t weight; /* of all trips */
	uint32_t slot;
};

enum { FLOW_KNOWN_BITS = 14, FLOW_KNOWN_BLOCKS = 1 << (31 - FLOW_KNOWN_BITS) };

/* A row on its way to the profile. */
struct flow_row {
	struct flow *flow;
	bool last; /* of the flow */
	bool cut; /* its repeated paths will have no meaning any more: no stratum goes on after it */
	struct sequence_row row;
	struct sequence_job job;
	ARRAY(uint32_t) symbols; /* its repeated paths */
	uint32_t limit; /* of them: what is known of all below */
	struct flow_retired retired;
};

struct flow_space {
	struct flow_space_options options;
	struct layer_space *paths; /* level 0 */
	struct layer_space *strata; /* the levels above, used by works while that has rows */
	struct flow_retired *retired; /* where strata puts what it forgets */
	struct flow_known **known; /* by symbol, in blocks that stay where they are */
	uint32_t known_count;
	struct sequence_namer namer;
	struct coder coders[ROWWORKS_WORKERS];
	struct sequence_encoder encoder;
	struct rowworks *works;
	struct flow_row rows[ROWWORKS_JOBS];
	size_t rows_busy; /* that works has */
	struct flow *flows;
	uint64_t defined; /* paths whose definitions were handed out */
	size_t room; /* symbols there is memory for, in all flows */
	struct flow_rare rare[LAYER_LEVELS_MAX]; /* by level; weights when the space is finished */
	uint64_t weight; /* of all flows that are finished */
	uint64_t kept_weight[LAYER_LEVELS_MAX]; /* of what was handed out, by level */
	bool clearing; /* paths are about to be forgotten */
	int err; /* the first of a callback */
};

struct flow {
	struct flow_space *space;
	struct flow *next;
	struct layer *paths; /* level 0; its counts may be read */
	struct layer *
		strata; /* level 1, and ->next; their counts may be read when the flow is finished */
	void *owner; /* the caller's */
	ARRAY(uint32_t) row; /* symbols since the last row */
	ARRAY(uint64_t) trips; /* by the slot of a path, of all rows; not told yet */
	bool finishing; /* what comes now is the last row */
};

int flow_space_create(const struct flow_space_options *options, struct flow_space **ret);
void flow_space_destroy(struct flow_space *space);
struct flow *flow_create(struct flow_space *space, void *owner);
void flow_destroy(struct flow *flow);

/* Instructions by run; kept by the caller. A path's weight is added up when it first ends. */
void flow_weights_set(struct flow_space *space, const uint32_t *weights, size_t count);
int flow_push(struct flow *flow, const uint32_t *runs, size_t count);
/* The caller has nothing else to do: some of the work of those threads. False: there is none. */
bool flow_space_help(struct flow_space *space);
int flow_finish(struct flow *flow);
int flow_space_finish(struct flow_space *space);
/* Bytes of everything. All flows are finished. */
size_t flow_space_memory(const struct flow_space *space);
