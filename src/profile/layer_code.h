/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Most cycles are known, and are where their hashes lead to at first: what is done for those. Before it is included, few_different() is there, which
 * does the same on every processor (scan_code.h).
 */
#include <stdbool.h>

#include "profile/layer.h"
#include "profile/words.h"

/* Whether a header is that of a cycle, and of a short one: of others it has another length. */
static inline bool header_is_short(const uint32_t *header, const uint32_t *symbols, size_t length)
{
	return !(few_different(header + CYCLES_HEADER, symbols, length) |
		 (header[CYCLES_LENGTH] ^ (uint32_t)length));
}

/* Of so many trips or more no symbol is kept. */
#define TRIPS_MANY UINT32_MAX

/*
 * The symbol + 1 of a repeated cycle if its header has it; otherwise 0. Without branches: trips are hard to predict. What is not
 * kept is taken from the header that is no cycle's.
 */
static inline uint32_t symbol_kept(const uint32_t *words, size_t place, size_t trips)
{
	size_t at = trips <= CYCLES_FEW_TRIPS ? place + trips : 0;

	_Static_assert(CYCLES_LAST_SYMBOL + 1 == CYCLES_FEW, "it is that of 0 trips");
	at = words[place + CYCLES_LAST_TRIPS] == (uint32_t)trips ? place : at;
	return words[at + CYCLES_LAST_SYMBOL];
}

/*
 * Hands on short cycles that are where their hashes led to, as long as there is room in the batch; the last one may still be going on, for less than TRIPS_MANY
 * trips. Returns the first that is long or not there, or that there is no room for. No two in a row are equal. Nearly all are handed on here,
 * so nothing is in memory that need not be.
 */
static inline size_t guesses_take(struct layer *layer, const struct scan *scan, size_t i)
{
	const uint32_t *words = layer->level->cycles.words.items;
	const uint32_t *open = scan_based(scan, layer->open.items);
	const struct scan_cycle *found = scan->cycles + i;
	size_t at = layer->pending, unknown = layer->unknown_count, place = layer->place;
	size_t left = scan->count - i, end = left < LAYER_BATCH - at ? at + left : LAYER_BATCH;
	const uint32_t *guesses = words_based(scan->guesses, at - i);
	uint64_t trips = layer->trips;

	for (; at < end; at++, found++) {
		size_t guess = guesses[at];
		uint32_t kept;

		__asm__("" : "+r"(guess)); /* or GCC keeps it in two registers */
		if (!header_is_short(words + guess, open + found->last, found->length))
			break;
		kept = symbol_kept(words, place, trips);
		layer->batch_trips[at] = trips;
		layer->batch_places[at] = (uint32_t)place;
		layer->symbols[at] = kept - 1;
		layer->unknown[unknown] = (uint16_t)at;
		unknown += kept < 1;
		place = guess;
		trips = found->trips;
	}
	layer->pending = at;
	layer->unknown_count = unknown;
	layer->place = (uint32_t)place;
	layer->trips = trips;
	return (size_t)(found - scan->cycles);
}
