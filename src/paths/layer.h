/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Layers: the cyclic structure of a sequence of symbols, found while it arrives.
 *
 * A layer takes symbols. A cycle ends before the first symbol that it already holds. Equal
 * consecutive cycles are one repeated cycle, with the number of its trips. Repeated cycles are the
 * symbols of the next layer; the same cycle with another number of trips is another symbol.
 *
 *	level 0		symbols are blocks		cycles are paths
 *	level 1		symbols are repeated paths	cycles are strata
 *	level 2		symbols are repeated strata	cycles are those of stratum layer 0
 *	level 3 ...					stratum layer 1 ...
 *
 * Threads of a process share a space, which holds what is known about cycles, and each has a stack
 * of layers. One thread of ours at a time uses a space.
 *
 *	struct layer_space *space;
 *	layer_space_create(&(struct layer_space_options){ .levels = 4 }, &space);
 *	struct layer *layer = layer_create(space);	one for each thread
 *	layer_weights_set(space, instructions, count);	before new blocks are pushed
 *	layer_push(layer, blocks, n);			any number of times
 *	layer_finish(layer);				the thread has ended
 *	layer_space_retire(space);			hands out every cycle with its counts
 *	layer_destroy(layer); layer_space_destroy(space);
 *
 * Memory is bounded. When a level has no room for a new cycle, everything known at this and the
 * levels above is handed out (`retired`) and forgotten; what is pending is handed on first, and
 * open cycles above are cut. A cycle that comes again then gets a new number. The sequence of
 * blocks can still be rebuilt from what `sink` was given; only the division into repeated paths
 * and strata differs from the definition around that point, and `evicted` is not 0.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "paths/cycles.h"
#include "paths/repeats.h"
#include "paths/scan.h"

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
	bool upper; /* the symbols of level 0 are repeated cycles of another space */
	bool uncounted; /* the sink of level 0 counts what it gets, with layer_count() */
	/*
	 * The options of each level. The memory is that of level 0; the other levels share a
	 * quarter as much, and so do all levels of a space that is `upper`. Repeats take half as
	 * much again.
	 */
	struct cycles_options cycles;
	/* Called when a cycle is forgotten: at a clearing, or at the end. May be NULL. */
	void (*retired)(void *context, unsigned level, uint64_t number, const struct cycle *cycle);
	/*
	 * Called before the symbols that a level hands on lose their meaning. They and the slots
	 * are still valid. If slots lose their meaning as well, which a greater base shows
	 * afterwards, nothing is pending at the level. May be NULL.
	 */
	void (*clearing)(void *context, unsigned level);
	void *context;
};

/* What threads share at one level. layer.c writes it; others may read it. */
struct layer_level {
	struct cycles cycles;
	struct repeats repeats; /* repeated cycles: the symbols of the level above */
	uint64_t base; /* number of slot 0: how many cycles earlier clearings have forgotten */
	uint32_t max_cycle;
	struct scan scan;
	uint64_t evicted; /* cycles forgotten because memory was full */
	uint64_t clearings;
};

/* Counts of one layer. Trips are counted when a repeated cycle is complete. */
struct layer_counts {
	uint64_t symbols; /* symbols that came in */
	uint64_t cycles; /* complete cycles; each trip counts */
	uint64_t repeats; /* repeated cycles handed on */
	uint64_t length; /* symbols in those cycles */
	/*
	 * weight of the repeats handed on, at level 0 only: instructions, if blocks have those as
	 * weights
	 */
	uint64_t weight;
	uint64_t cut; /* cycles that ended because they reached the greatest length */
	uint64_t broken; /* open cycles that a clearing ended */
};

struct layer {
	struct layer_space *space;
	struct layer_level *level;
	struct layer *next; /* the level above; NULL: the last */
	unsigned depth; /* 0: the lowest */
	ARRAY(uint32_t)
	open; /* symbols that are not in a complete cycle yet, as far as was scanned */
	ARRAY(uint32_t)
	/*
	 * for each symbol in open, and the next one: how many were left out before it (scan_fold())
	 */
	skipped;
	uint32_t left_out; /* symbols left out so far, as skipped counts them */
	size_t scanned; /* so many symbols of open were scanned: a cycle that has not ended */
	/* index of the header of the pending cycle, the last complete one; 0: none */
	uint32_t place;
	uint64_t trips; /* trips of the pending cycle */
	size_t pending; /* repeats in the batch */
	size_t unknown_count;
	struct layer_counts counts;
	/*
	 * Gets the symbols that the layer hands on, after the layer above has had them;
	 * level->repeats tells what they stand for. May be NULL.
	 */
	void (*sink)(void *context, const uint32_t *symbols, size_t count);
	/*
	 * Instead of it, of a space with one level: gets repeated cycles by the indices of their
	 * headers. They are not counted, and the words of headers from CYCLES_KEPT on are its own.
	 */
	void (*cycles_sink)(void *context, const uint32_t *places, const uint64_t *trips,
			    size_t count);
	void *sink_context;
	struct layer *sibling; /* the layer of another thread at the same level */
	/* The batch: repeated cycles on their way to the level above. */
	uint64_t batch_trips[LAYER_BATCH];
	uint32_t batch_places[LAYER_BATCH]; /* indices of the cycles' headers in words */
	uint32_t symbols[LAYER_BATCH]; /* symbols for the level above */
	uint16_t unknown[LAYER_BATCH]; /* entries that have no symbol yet */
};

struct layer_space {
	struct layer_space_options options;
	unsigned level_count;
	struct layer_level levels[LAYER_LEVELS_MAX];
	struct layer *layers[LAYER_LEVELS_MAX]; /* those of all threads, by level */
	const uint32_t *weights; /* weights by block */
	size_t weights_count;
};

/* A cycle that comes into a layer. */
struct layer_taken {
	uint32_t place; /* index of its header */
	uint32_t trips;
};

int layer_space_create(const struct layer_space_options *options, struct layer_space **ret);
void layer_space_destroy(struct layer_space *space);
/* Makes a stack of layers for one thread, and returns the lowest. */
struct layer *layer_create(struct layer_space *space);
/* Takes the lowest layer of a thread. Without layer_finish(), what is not handed on yet is lost. */
void layer_destroy(struct layer *layer);

/* Symbols must be below 2^31. They are not kept. */
void layer_push(struct layer *layer, const uint32_t *symbols, size_t count);
/* Scans all that came into this one layer; afterwards `open` is the cycle that has not ended. */
void layer_settle(struct layer *layer);
/*
 * The same, and hands on what has ended. The last complete cycle stays pending: the next one might
 * continue it.
 */
void layer_flush(struct layer *layer);
/* The slot of the pending cycle, which has layer->trips by now; 0: there is none. */
uint32_t layer_pending_slot(const struct layer *layer);
/*
 * For a lowest layer into which cycles come, instead of symbols. layer_intern() returns the index
 * of the header of a cycle, behind whose symbols CYCLES_SLACK words can be read; *ret_full is set
 * if there was no room for it, and room had to be made: layer_space_clear() is due then.
 */
uint32_t layer_intern(struct layer *layer, const uint32_t *symbols, size_t length, bool *ret_full);
void layer_take(struct layer *layer, const struct layer_taken *taken, size_t count);
/* Hands out and forgets everything, because a table is full. */
void layer_space_clear(struct layer_space *space);
/*
 * Hands on all that is pending, at all levels; cycles that had not ended count as they are. The
 * layers begin anew.
 */
void layer_finish(struct layer *layer);

/*
 * The same, because symbols will have another meaning: cycles that had not ended are counted as
 * broken.
 */
void layer_break(struct layer *layer);
/* Counts that a cycle was handed on `times` times, each time with so many trips. */
void layer_count(struct layer *layer, uint32_t slot, uint64_t trips, uint32_t times);
/* How many cycles have ended, handed on or not; each trip counts. Call layer_settle() before. */
uint64_t layer_ended(const struct layer *layer);
/*
 * Sets the weights of blocks, by number, in memory of the caller; blocks beyond have weight 0.
 * Only paths get a weight from it.
 */
void layer_weights_set(struct layer_space *space, const uint32_t *weights, size_t count);
/* Calls `retired` for everything, and forgets it. Every layer must be finished. */
void layer_space_retire(struct layer_space *space);
/*
 * The same, because symbols have another meaning from now on: open cycles are cut, and layers go
 * on.
 */
void layer_space_cut(struct layer_space *space);

/*
 * Bytes of everything but the layers themselves; bytes of a thread's layers, of which the lowest is
 * given.
 */
size_t layer_space_memory(const struct layer_space *space);
size_t layer_memory(const struct layer *layer);

/* Returns what a symbol of a level above 0 stands for: a repeated cycle of the level below. */
static inline const struct repeat *layer_symbol(const struct layer_space *space, unsigned level,
						uint32_t symbol)
{
	return &space->levels[level - 1].repeats.items.items[symbol];
}
