/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Paths of blocks, from cycles of segments.
 *
 * A path ends before the first block that it already holds. Which segments a block came in does not
 * matter: they depend on where the engine stitched code together, and the same execution must give
 * the same paths however that was.
 *
 * The rule is a deterministic automaton over blocks, whose state is the open path. Going through it
 * block by block would take longer than the program. But cycles of segments, which a layer finds
 * quickly, repeat; so what a cycle of segments does to an open path is computed once and kept:
 *
 *	(open path, cycle of segments) -> paths that end, next open path
 *
 *	blocks of segments	s = A B C	t = B D
 *	cycles of segments	s t, s t, ...
 *	(nothing, s t)		A B C ends; B D is open
 *	(B D, s t)		B D A ends at B; B C ends at the next B; B D is open
 *	(B D, s t)		as before, and so on: the state is the same before and after
 *
 * When a cycle is repeated and the state does not change any more, each further trip ends the same
 * paths.
 */
#pragma once

#include "base/map.h"
#include "paths/layer.h"

enum { BLOCK_PATHS_FEW = 4 }; /* paths that end in a transition and are copied without a branch */

/* The open path of a thread. */
struct block_path {
	struct layer *paths; /* gets the paths that end */
	uint32_t state; /* of the open path; 0: it is empty */
	struct block_path *next;
};

struct block_paths_options {
	struct layer_space *segments; /* whose cycles come in */
	struct layer_space *paths; /* in whose table paths are */
	/* Returns how many blocks a segment has, and where they are until the next call. */
	size_t (*blocks)(void *context, uint32_t segment, const uint32_t **ret);
	void *context;
	uint32_t max_cycle; /* blocks of a path at most */
	size_t memory; /* bytes for states, and as many for what is known of them */
};

/* Of all threads of a process. */
struct block_paths {
	struct block_paths_options options;
	struct cycles states; /* open paths */
	struct map transitions; /* state << 32 | place of a cycle to next state << 32 | index */
	/*
	 * At an index: how many paths end, then those (struct layer_taken). BLOCK_PATHS_FEW of them
	 * can be read behind each index.
	 */
	ARRAY(uint32_t) ended;
	ARRAY(uint32_t) open; /* the path that is followed, and room behind it */
	size_t length; /* of that path */
	uint32_t loaded; /* the state that it is */
	/* By block: whether the path holds it, which is so if it has the present mark. */
	ARRAY(uint32_t) marks;
	uint32_t mark;
	bool paths_full; /* the table of paths is to be cleared */
	bool states_full; /* and what is here */
	struct block_path *threads;
	/* Paths that have ended and are to be handed on. */
	size_t out_count;
	struct layer_taken out[LAYER_BATCH + BLOCK_PATHS_FEW];
};

int block_paths_init(struct block_paths *all, const struct block_paths_options *options);
void block_paths_deinit(struct block_paths *all);
void block_path_begin(struct block_paths *all, struct block_path *path, struct layer *paths);
/* The sink of a layer of segments (struct layer). */
void block_path_take(struct block_paths *all, struct block_path *path, const uint32_t *places,
		     const uint64_t *trips, size_t count);
/* The open path ends as it is. */
void block_path_finish(struct block_paths *all, struct block_path *path);
void block_path_end(struct block_paths *all, struct block_path *path);
/* The table of segments' cycles is about to be cleared. */
void block_paths_cycles_clearing(struct block_paths *all);
size_t block_paths_memory(const struct block_paths *all);
