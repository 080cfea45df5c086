/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cycles in a block of symbols.
 *
 * A cycle ends before the first symbol that it already holds. Let again(i) be the next index that
 * has the symbol of index i. A cycle that begins at i then ends at
 *
 *	end(i) = min(again(i), end(i + 1))
 *
 * because it meets everything that a cycle from i + 1 on would meet, and the symbol of i besides.
 * So one pass from the end of the block to its beginning tells for each index where a cycle that
 * begins there would end: a few instructions for each symbol, and no branch that depends on them.
 * Then the cycles are walked from one end to the next. Equal cycles in a row become one, with its
 * trips and its hash.
 *
 *	index		0 1 2 3 4 5 6 7
 *	symbol		A B C A B C B D
 *	again		3 4 5 - 6 - - -
 *	end		3 4 5 6 6 - - -		ABC 0 to 3, ABC 3 to 6, and one that has not ended
 *
 * Many cycles are a single symbol that comes again and again. Where a symbol comes more than three
 * times in a row, its first two and its last occurrence make the same cycles as all of them, except
 * that the second is a cycle of more trips. The others can be left out beforehand (scan_fold()), if
 * it is known how many they were.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "paths/cycles.h"

/* A cycle and how often it comes in a row. */
struct scan_cycle {
	uint32_t last; /* base + index in the block where its last trip begins (scan_based()) */
	uint32_t length;
	uint32_t trips;
	uint32_t hash; /* as cycles_hash() gives it */
};

struct scan {
	/*
	 * The table in which cycles will be looked up: what that needs is prefetched. May be NULL.
	 */
	const struct cycles *table;
	/*
	 * By symbol: base + the index of its next occurrence in the block. Each block has a lower
	 * base than the one before, so that entries which earlier blocks left seem to lie far
	 * behind its end.
	 */
	uint32_t *places;
	size_t place_count; /* a power of two */
	uint32_t base;
	/*
	 * By index in the block: base + end of a cycle that begins there. A cycle that nothing ends
	 * seems to end more than CYCLES_SHORT symbols behind the block.
	 */
	uint32_t *ends;
	size_t capacity; /* of ends, cycles and guesses */
	struct scan_cycle *cycles; /* what was found */
	uint32_t *guesses; /* room for the caller: one for each cycle */
	size_t count; /* of cycles */
};

/* A pointer by which items of the block are found at base + index. */
static inline const uint32_t *scan_based(const struct scan *scan, const uint32_t *items)
{
	return words_based(items, scan->base);
}

void scan_deinit(struct scan *scan);
/*
 * Copies symbols without those that can be left out. ret_skipped gets, for each, how many symbols
 * were left out before it, counted from `skipped` on. Returns how many symbols there are in `ret`;
 * CYCLES_SLACK more may be written.
 */
size_t scan_fold(const uint32_t *symbols, size_t count, uint32_t skipped, uint32_t *ret,
		 uint32_t *ret_skipped);
/* The same, but leaves none out. */
size_t scan_copy(const uint32_t *symbols, size_t count, uint32_t skipped, uint32_t *ret,
		 uint32_t *ret_skipped);
/*
 * Finds the cycles from the first symbol on that end in the block or have the greatest length;
 * returns where the last one ends. CYCLES_SLACK symbols behind the block can be read. `skipped`
 * has, for each symbol and for the next one that will come, how many symbols were left out before
 * it.
 */
size_t scan_find(struct scan *scan, const uint32_t *symbols, const uint32_t *skipped, size_t count,
		 uint32_t max_cycle);
size_t scan_memory(const struct scan *scan);
