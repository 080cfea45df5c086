/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cycles in what lies ahead.
 *
 * Where a cycle begins, the processor compares each of the next symbols with all before it at once. The first that came
 * already ends the cycle: most cycles of programs have a few symbols only. The sequence is then compared with itself, that
 * many symbols later, which says how often the cycle comes in a row. Nothing is guessed and hardly anything is branched upon, so
 * that irregular programs cost no more than regular ones.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	AHEAD_BLOCK = 1024, /* symbols that are looked at together */
	AHEAD_WINDOW = 16, /* a cycle that is seen at once has fewer */
};

/* A cycle and how often it comes in a row. */
struct ahead_cycle {
	uint32_t first; /* its first symbol: place in the sequence */
	uint32_t length;
	uint64_t trips;
	uint32_t hash; /* as cycles_hash() gives it */
};

struct ahead {
	size_t count;
	struct ahead_cycle cycles[AHEAD_BLOCK];
};

/* The length of a longer cycle, found in another way. As many as there are symbols: it does not end there. */
struct ahead_long {
	size_t (*length)(void *context, const uint32_t *symbols, size_t count);
	void *context;
};

/*
 * The cycles from the first symbol on, one after the other: some of them, or none if the sequence's end is near. Returns where the last one
 * ends. Each ends before a symbol that it holds.
 */
size_t ahead_find(const uint32_t *symbols, size_t count, const struct ahead_long *longer,
		  struct ahead *ret);

/* The ways to do it: the second needs AVX-512. */
size_t ahead_find_narrow(const uint32_t *symbols, size_t count, const struct ahead_long *longer,
			 struct ahead *ret);
size_t ahead_find_wide(const uint32_t *symbols, size_t count, const struct ahead_long *longer,
		       struct ahead *ret);
bool ahead_is_wide(void);
