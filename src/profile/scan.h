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
 * each symbol, and no branch that depends on them. Then the cycles are walked, from end to end; equal ones in a row are one, which has
 * a hash.
 *
 * Many cycles are a single symbol that comes again and again. Where one comes more than three times in a row, the first two and the
 * last make the same cycles as all of them, but that the second is one of more trips: the others can be left out before
 * (scan_fold()), if it is known how many.
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
#include "profile/cycles.h"

/* A cycle and how often it comes in a row. */
struct scan_cycle {
	uint32_t last; /* base + where in the block it begins the last time (scan_based()) */
	uint32_t length;
	uint32_t trips;
	uint32_t hash; /* as cycles_hash() gives it */
};

struct scan {
	const struct cycles *
		table; /* where what is found will be looked up: memory that this needs is fetched; may be NULL */
	/* By symbol: base + where in the block it comes next. Each block has a lower base, so that what earlier ones left is far behind its end. */
	uint32_t *places;
	size_t place_count; /* a power of two */
	uint32_t base;
	uint32_t *ends; /* by place in the block: base + end of a cycle that begins there; more than CYCLES_SHORT beyond the block: nothing ends it */
	size_t capacity; /* of all that follows, too */
	struct scan_cycle *cycles; /* what was found */
	uint32_t *guesses; /* room for who looks them up */
	size_t count;
};

/* Where items of a block are found by base + index. */
static inline const uint32_t *scan_based(const struct scan *scan, const uint32_t *items)
{
	return words_based(items, scan->base);
}

void scan_deinit(struct scan *scan);
/*
 * Copies symbols without those that can be left out, and tells for each how many were before it, counted from `skipped` on. Returns how
 * many are left; CYCLES_SLACK more may be written.
 */
size_t scan_fold(const uint32_t *symbols, size_t count, uint32_t skipped, uint32_t *ret,
		 uint32_t *ret_skipped);
/* The same, and leaves none out. */
size_t scan_copy(const uint32_t *symbols, size_t count, uint32_t skipped, uint32_t *ret,
		 uint32_t *ret_skipped);
/*
 * Finds the cycles from the first symbol on that end in the block or have the greatest length; returns where the last
 * one ends. Consecutive ones that are equal are one repeated cycle. CYCLES_SLACK symbols behind the block can be read. `skipped` tells how
 * many symbols were left out before each, and before the next one that will come.
 */
size_t scan_find(struct scan *scan, const uint32_t *symbols, const uint32_t *skipped, size_t count,
		 uint32_t max_cycle);
size_t scan_memory(const struct scan *scan);
