// SPDX-License-Identifier: BSD-2-Clause
/*
 * 1. Places of this block are base to base + count - 1; all others in `places` are greater than base + count.
 */
#include "profile/scan.h"

#include <emmintrin.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "profile/cycles.h"

enum { PLACES_FIRST = 1 << 10, CAPACITY_FIRST = 1 << 12 };

void scan_deinit(struct scan *scan)
{
	free(scan->places);
	free(scan->ends);
	free(scan->block);
	free(scan->powers);
	free(scan->cycles);
	free(scan->guesses);
	*scan = (struct scan){};
}

static void capacity_reserve(struct scan *scan, size_t wanted)
{
	size_t capacity = scan->capacity ? scan->capacity : CAPACITY_FIRST;

	if (wanted <= scan->capacity)
		return;
	while (capacity < wanted)
		capacity *= 2;
	scan->ends = mem_realloc(scan->ends, capacity, sizeof(*scan->ends));
	scan->block = mem_realloc(scan->block, capacity, sizeof(*scan->block));
	scan->cycles = mem_realloc(scan->cycles, capacity, sizeof(*scan->cycles));
	scan->guesses = mem_realloc(scan->guesses, capacity, sizeof(*scan->guesses));
	scan->powers = mem_realloc(scan->powers, capacity, sizeof(*scan->powers));
	scan->powers[0] = 1;
	for (size_t i = 1; i < capacity; i++)
		scan->powers[i] = scan->powers[i - 1] * CYCLES_FACTOR;
	scan->capacity = capacity;
}

/* All bits that any of them has. */
static uint32_t symbols_bits(const uint32_t *symbols, size_t count)
{
	__m128i bits = _mm_setzero_si128();
	uint32_t fours[4], rest = 0;
	size_t i = 0;

	for (; i + 4 <= count; i += 4)
		bits = _mm_or_si128(bits, _mm_loadu_si128((const __m128i *)(symbols + i)));
	for (; i < count; i++)
		rest |= symbols[i];
	_mm_storeu_si128((__m128i *)fours, bits);
	return fours[0] | fours[1] | fours[2] | fours[3] | rest;
}

static void places_clear(struct scan *scan, size_t from)
{
	memset(scan->places + from, 0xff, (scan->place_count - from) * sizeof(*scan->places));
}

/* All symbols have a place, and the block has numbers for its own. */
static void places_prepare(struct scan *scan, const uint32_t *symbols, size_t count)
{
	uint32_t bits = symbols_bits(symbols, count);
	size_t before = scan->place_count;

	if (bits >= scan->place_count) {
		scan->place_count = scan->place_count ? scan->place_count : PLACES_FIRST;
		while (scan->place_count <= bits)
			scan->place_count *= 2;
		scan->places = mem_realloc(scan->places, scan->place_count, sizeof(*scan->places));
		places_clear(scan, before);
	}
	if (scan->base <= count + 1) {
		places_clear(scan, 0);
		scan->base = UINT32_MAX;
	}
	scan->base -= (uint32_t)count + 1;
}

/* What is carried from place to place, from the last to the first. */
struct pass {
	uint32_t end;
	uint32_t steady;
	uint32_t again; /* of the place behind */
	uint32_t sum;
};

static inline __attribute__((always_inline)) void place_pass(struct pass *pass, uint32_t *places,
							     uint32_t base, uint32_t symbol,
							     uint32_t here, uint32_t *ret_end,
							     struct scan_place *ret)
{
	uint32_t again = places[symbol] - base;

	places[symbol] = base + here;
	pass->steady = again + 1 == pass->again ? pass->steady : here + 1;
	pass->again = again;
	pass->end = again < pass->end ? again : pass->end;
	pass->sum = pass->sum * CYCLES_FACTOR + symbol;
	*ret_end = pass->end;
	ret->steady = pass->steady;
	ret->sum = pass->sum;
}

static void places_find(struct scan *scan, const uint32_t *symbols, size_t count)
{
	struct scan_place *block = scan->block;
	uint32_t base = scan->base, *places = scan->places, *ends = scan->ends;
	struct pass pass = { .end = UINT32_MAX };
	size_t i = count;

	ends[count] = UINT32_MAX;
	block[count].sum = 0;
	for (; i % 4; i--)
		place_pass(&pass, places, base, symbols[i - 1], (uint32_t)i - 1, &ends[i - 1],
			   &block[i - 1]);
	for (; i; i -= 4) {
		const uint32_t *four = symbols + i - 4;
		struct scan_place *ret = block + i - 4;
		uint32_t here = (uint32_t)i - 4, *end = ends + i - 4;

		place_pass(&pass, places, base, four[3], here + 3, &end[3], &ret[3]);
		place_pass(&pass, places, base, four[2], here + 2, &end[2], &ret[2]);
		place_pass(&pass, places, base, four[1], here + 1, &end[1], &ret[1]);
		place_pass(&pass, places, base, four[0], here, &end[0], &ret[0]);
	}
}

/* All ones, or 0. What is not known to be one of these, GCC does not make a branch of, which nobody could predict. */
static inline uint32_t mask_of(bool condition)
{
	uint32_t mask = -(uint32_t)condition;

	__asm__("" : "+r"(mask));
	return mask;
}

/* Returns where the last cycle ends. */
static uint32_t cycles_walk(struct scan *scan, size_t count, uint32_t max_cycle)
{
	const struct scan_place *block = scan->block;
	const uint32_t *ends = scan->ends;
	struct scan_cycle *found = scan->cycles;
	uint32_t at = 0, first = 0, trips = 0, end = ends[0];

	while (true) {
		uint32_t length = end - at, steady = block[at].steady, next, mask;
		bool same;

		if (length > max_cycle) {
			end = at + max_cycle;
			length = max_cycle;
			steady = 0;
		}
		if (end > count)
			break;
		next = ends[end];
		same = (next - end == length) & (steady >= end);
		mask = mask_of(same);
		trips++;
		found->first = first;
		found->length = length;
		found->trips = trips;
		found += 1 + (int32_t)mask;
		trips &= mask;
		first = (first & mask) | (end & ~mask);
		at = end;
		end = next;
	}
	scan->count = (size_t)(found - scan->cycles) + (trips > 0);
	return at;
}

static void hashes_make(struct scan *scan)
{
	const struct scan_place *block = scan->block;
	const uint32_t *powers = scan->powers;
	struct scan_cycle *end = scan->cycles + scan->count;

	for (struct scan_cycle *cycle = scan->cycles; cycle < end; cycle++) {
		uint32_t behind = block[cycle->first + cycle->length].sum;
		uint32_t sum = block[cycle->first].sum - behind * powers[cycle->length];

		cycle->hash = cycles_hash_end(sum, cycle->length);
	}
}

size_t scan_find(struct scan *scan, const uint32_t *symbols, size_t count, uint32_t max_cycle)
{
	size_t taken;

	capacity_reserve(scan, count + 1);
	places_prepare(scan, symbols, count);
	places_find(scan, symbols, count);
	taken = cycles_walk(scan, count, max_cycle);
	hashes_make(scan);
	return taken;
}

size_t scan_memory(const struct scan *scan)
{
	size_t each = sizeof(*scan->ends) + sizeof(*scan->block) + sizeof(*scan->powers) +
		      sizeof(*scan->cycles) + sizeof(*scan->guesses);

	return scan->place_count * sizeof(*scan->places) + scan->capacity * each;
}
