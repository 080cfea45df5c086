/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cycles in a block of symbols.
 *
 * A cycle ends before the first symbol that it already holds. Let again(i) be the next place that has the symbol of place i. A
 * cycle that begins at i then ends at
 *
 *	end(i) = min(again(i), end(i + 1))
 *
 * because it meets all that one from i + 1 on would meet, and the symbol of i besides. So one pass from the end of the block to its
 * beginning tells for each place where a cycle from there on ends, whether or not one begins there: a few instructions for
 * each symbol, and no branch that depends on them. The same pass counts for how many symbols in a row again(i) - i stays the same,
 * which tells how often a cycle is repeated, and adds up what hashes are made of. Then the cycles are walked, from end to end.
 *
 *	place		0 1 2 3 4 5 6 7
 *	symbol		A B C A B C B D
 *	again		3 4 5 - 6 - - -
 *	end		3 4 5 6 6 - - -		ABC 0 to 3, ABC to 6, and one that has not ended
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/array.h"

/* A cycle and how often it comes in a row. */
struct scan_cycle {
	uint32_t first; /* its first symbol: place in the block */
	uint32_t length;
	uint32_t trips;
	uint32_t hash; /* as cycles_hash() gives it */
};

/* What is known of a place in the block. */
struct scan_place {
	uint32_t steady; /* up to there, symbols come again at the same distance as this one */
	uint32_t sum; /* of the symbols from there on, for hashes */
};

struct scan {
	/* By symbol: base + the place where it comes next. Each block has a lower base, so that what earlier ones left is far behind its end. */
	uint32_t *places;
	size_t place_count; /* a power of two */
	uint32_t base;
	/* By place in the block. */
	uint32_t *ends; /* of a cycle that begins there; greater than the number of symbols: nothing ends it */
	struct scan_place *block;
	uint32_t *powers; /* of the hash's factor */
	size_t capacity; /* of all these */
	struct scan_cycle *cycles; /* what was found */
	uint32_t *guesses; /* room for who looks them up */
	size_t count;
};

void scan_deinit(struct scan *scan);
/*
 * Finds the cycles from the first symbol on that end in the block or have the greatest length; returns where the last
 * one ends. Consecutive ones that are equal are one repeated cycle.
 */
size_t scan_find(struct scan *scan, const uint32_t *symbols, size_t count, uint32_t max_cycle);
size_t scan_memory(const struct scan *scan);
