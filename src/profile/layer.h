/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Layers: the cyclic structure of a sequence of symbols, found while it arrives.
 *
 * A layer takes symbols. A cycle ends before the first symbol that it already holds. Equal consecutive cycles are one
 * repeated cycle, with the number of its trips. Repeated cycles are the symbols of the next layer; the same cycle with
 * another number of trips is another symbol.
 *
 *	level 0		symbols are runs		cycles are paths
 *	level 1		symbols are repeated paths	cycles are strata
 *	level 2		symbols are repeated strata	cycles are those of stratum layer 0
 *	level 3 ...					stratum layer 1 ...
 *
 * Threads of a process share what is known about its cycles, the space, and each has a stack of layers. All of a space
 * is used by one thread of ours at a time.
 *
 *	struct layer_space *space;
 *	layer_space_create(&(struct layer_space_options){ .levels = 4 }, &space);
 *	struct layer *layer = layer_create(space);	one for each thread
 *	layer_weights_set(space, instructions, count);	before runs with new numbers are pushed
 *	layer_push(layer, runs, n);			any number of times
 *	layer_finish(layer);				the thread has ended
 *	layer_space_retire(space);			hands out every cycle with its counts
 *	layer_destroy(layer); layer_space_destroy(space);
 *
 * Memory is bounded. When a level has no room for a new cycle, everything known at this and the levels above is handed
 * out (`retired`) and forgotten: what is pending is handed on first, open cycles above are cut. A cycle that comes
 * again then gets a new number. The sequence of runs can still be rebuilt from what `sink` was given; only the division
 * into repeated paths and into strata differs around that point from the definition, and `evicted` is not 0.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/cycles.h"
#include "profile/repeats.h"
#include "profile/scan.h"

enum {
	LAYER_LEVELS_MAX = 16,
	LAYER_LEVELS = 4, /* paths, strata, stratum layers 0 and 1 */
	LAYER_MAX_CYCLE = 4096,
	LAYER_MAX_CYCLE_MAX = 1 << 20,
	LAYER_BATCH = 1024, /* repeated cycles that a layer hands on at once */
};

struct layer;

struct layer_space_options {
	unsigned levels; /* 0: LAYER_LEVELS */
	uint32_t max_cycle; /* symbols of a cycle at most; 0: LAYER_MAX_CYCLE */
	bool upper; /* symbols are repeated cycles of another space */
	bool uncounted; /* who takes what the lowest level hands on will count it (layer_count()) */
	/*
	 * Of each level; memory is that of level 0, the others share a quarter as much, and so do all levels of a space that is upper;
	 * repeats take half as much again.
	 */
	struct cycles_options cycles;
	/* A cycle is forgotten: at a clearing, or at the end. May be NULL. */
	void (*retired)(void *context, unsigned level, uint64_t number, const struct cycle *cycle);
	/*
	 * Before the symbols that a level hands on lose their meaning. They and the slots are still valid, and nothing is
	 * pending at the level if slots lose theirs, too: then its base has grown afterwards. May be NULL.
	 */
	void (*clearing)(void *context, unsigned level);
	void *context;
};

/* What threads share at one level. Read it; layer.c writes it. */
struct layer_level {
	struct cycles cycles;
	struct repeats repeats; /* of its cycles: the symbols of the level above */
	uint64_t base; /* number of slot 0: the cycles of earlier clearings */
	uint32_t max_cycle;
	struct scan scan;
	uint64_t evicted; /* cycles forgotten because memory was full */
	uint64_t clearings;
};

/* Of one layer. Trips are counted when a repeated cycle is complete. */
struct layer_counts {
	uint64_t symbols; /* taken */
	uint64_t cycles; /* complete, each trip counts */
	uint64_t repeats; /* handed on */
	uint64_t length; /* symbols in those cycles */
	uint64_t weight; /* of the repeats handed on; level 0 only; instructions if runs' weights are */
	uint64_t cut; /* cycles that ended because they reached the greatest length */
	uint64_t broken; /* open cycles that a clearing ended */
};

struct layer {
	struct layer_space *space;
	struct layer_level *level;
	struct layer *next; /* the level above; NULL: the last */
	unsigned depth; /* 0: runs come in */
	ARRAY(uint32_t)
	open; /* symbols that are not in a complete cycle yet, as far as was looked */
	ARRAY(uint32_t)
	skipped; /* how many symbols were left out before each of them, and before the next one (scan_fold()) */
	uint32_t left_out; /* so far, as skipped counts them */
	size_t scanned; /* of them were looked at: the cycle that has not ended */
	uint32_t place; /* of the header of the last complete cycle; 0: none */
	uint64_t trips; /* of it, in a row */
	size_t pending; /* repeats in the batch */
	size_t unknown_count;
	struct layer_counts counts;
	/*
	 * Gets what the layer hands on, after the layer above has had it: symbols, of which level->repeats tells what they
	 * stand for. May be NULL.
	 */
	void (*sink)(void *context, const uint32_t *symbols, size_t count);
	void *sink_context;
	struct layer *sibling; /* of another thread, at the same level */
	/* The batch: repeated cycles on their way to the level above. */
	uint64_t batch_trips[LAYER_BATCH];
	uint32_t batch_places[LAYER_BATCH]; /* of the cycles' headers in words */
	uint32_t symbols[LAYER_BATCH]; /* of the same, for the level above */
	uint16_t unknown[LAYER_BATCH]; /* those that have no symbol yet */
};

struct layer_space {
	struct layer_space_options options;
	unsigned level_count;
	struct layer_level levels[LAYER_LEVELS_MAX];
	struct layer *layers[LAYER_LEVELS_MAX]; /* all threads' */
	const uint32_t *weights; /* by run */
	size_t weights_count;
};

int layer_space_create(const struct layer_space_options *options, struct layer_space **ret);
void layer_space_destroy(struct layer_space *space);
/* A stack of layers for one thread; the lowest. */
struct layer *layer_create(struct layer_space *space);
/* The lowest of a thread's; before layer_finish(), what is not handed on yet is lost. */
void layer_destroy(struct layer *layer);

/* Symbols must be below 2^31. They are not kept. */
void layer_push(struct layer *layer, const uint32_t *symbols, size_t count);
/* Looks at all that came in: `open` is the cycle that has not ended then. Of this layer alone. */
void layer_settle(struct layer *layer);
/* Hands on all that is pending, at all levels; cycles that had not ended count as they are. The layers begin anew. */
void layer_finish(struct layer *layer);

/* The same, because what comes in will mean something else: cycles that had not ended are counted as broken. */
void layer_break(struct layer *layer);
/* A cycle was handed on so many times, each time for so many trips. */
void layer_count(struct layer *layer, uint32_t slot, uint64_t trips, uint32_t times);
/* Cycles that have ended, handed on or not; each trip counts. After layer_settle(). */
uint64_t layer_ended(const struct layer *layer);
/* How much a run counts, by its number; kept by the caller. What lies beyond counts 0. Of cycles above paths nobody keeps it. */
void layer_weights_set(struct layer_space *space, const uint32_t *weights, size_t count);
/* Calls `retired` for everything, and forgets it. Every layer must be finished. */
void layer_space_retire(struct layer_space *space);
/* The same because symbols that come in mean something else from now on: open cycles are cut, and layers go on. */
void layer_space_cut(struct layer_space *space);

/* Bytes of everything but the layers themselves; of a thread's layers, the lowest of which is given. */
size_t layer_space_memory(const struct layer_space *space);
size_t layer_memory(const struct layer *layer);

/* The repeated cycle of the level below that a symbol of a level above 0 stands for. */
static inline const struct repeat *layer_symbol(const struct layer_space *space, unsigned level,
						uint32_t symbol)
{
	return &space->levels[level - 1].repeats.items.items[symbol];
}
