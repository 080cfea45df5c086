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
#include "profile/scan_wide.h"
#include "profile/words.h"

#ifdef SCAN_PLAIN /* a test of what other processors do */
#define scan_is_wide() false
#endif

enum { PLACES_FIRST = 1 << 10, CAPACITY_FIRST = 1 << 12 };

void scan_deinit(struct scan *scan)
{
	free(scan->places);
	free(scan->ends);
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
	scan->cycles = mem_realloc(scan->cycles, capacity, sizeof(*scan->cycles));
	scan->guesses = mem_realloc(scan->guesses, capacity, sizeof(*scan->guesses));
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

size_t scan_copy(const uint32_t *symbols, size_t count, uint32_t first, uint32_t *ret,
		 uint32_t *ret_origins)
{
	memcpy(ret, symbols, count * sizeof(*symbols));
	for (size_t i = 0; i < count; i++)
		ret_origins[i] = first + (uint32_t)i;
	return count;
}

/* Without vectors that can be compressed, it would take longer than it saves. */
size_t scan_fold(const uint32_t *symbols, size_t count, uint32_t first, uint32_t *ret,
		 uint32_t *ret_origins)
{
	return (scan_is_wide() ? scan_fold_wide : scan_copy)(symbols, count, first, ret,
							     ret_origins);
}

/* From the last place to the first. */
static inline __attribute__((always_inline)) uint32_t
end_find(uint32_t *places, uint32_t base, uint32_t symbol, uint32_t here, uint32_t end)
{
	uint32_t again = places[symbol] - base;

	places[symbol] = base + here;
	return again < end ? again : end;
}

static void ends_find(struct scan *scan, const uint32_t *symbols, size_t count)
{
	uint32_t base = scan->base, *places = scan->places, *ends = scan->ends, end = UINT32_MAX;
	size_t i = count;

	ends[count] = end;
	for (; i % 4; i--)
		ends[i - 1] = end = end_find(places, base, symbols[i - 1], (uint32_t)i - 1, end);
	for (; i; i -= 4) {
		const uint32_t *four = symbols + i - 4;
		uint32_t here = (uint32_t)i - 4, *ret = ends + i - 4;

		ret[3] = end = end_find(places, base, four[3], here + 3, end);
		ret[2] = end = end_find(places, base, four[2], here + 2, end);
		ret[1] = end = end_find(places, base, four[1], here + 1, end);
		ret[0] = end = end_find(places, base, four[0], here, end);
	}
}

/* --- What every processor can do ---------------------------------------------------------------------- */

static inline bool few_same(const uint32_t *a, const uint32_t *b, uint32_t length)
{
	return words_same_short(a, b, length);
}

/* The products of even and odd words add up in the halves of acc, of which only the lower words count. */
static inline uint32_t few_sum(const uint32_t *symbols, uint32_t length)
{
	__m128i acc = _mm_setzero_si128(), size = _mm_set1_epi32((int)length);

#pragma GCC unroll 4
	for (unsigned i = 0; i < CYCLES_SHORT; i += 4) {
		__m128i power = words_four(cycles_powers + i), four = words_four(symbols + i);
		__m128i in = _mm_cmpgt_epi32(size, _mm_setr_epi32((int)i, (int)i + 1, (int)i + 2,
								  (int)i + 3));

		four = _mm_and_si128(four, in);
		acc = _mm_add_epi64(acc, _mm_mul_epu32(four, power));
		acc = _mm_add_epi64(acc, _mm_mul_epu32(_mm_srli_epi64(four, 32),
						       _mm_srli_epi64(power, 32)));
	}
	acc = _mm_add_epi64(acc, _mm_unpackhi_epi64(acc, acc));
	return (uint32_t)_mm_cvtsi128_si32(acc);
}

#include "profile/scan_code.h"

size_t scan_find(struct scan *scan, const uint32_t *symbols, const uint32_t *origins, size_t count,
		 uint32_t max_cycle)
{
	capacity_reserve(scan, count + 1);
	places_prepare(scan, symbols, count);
	ends_find(scan, symbols, count);
	return (scan_is_wide() ? scan_cycles_wide : cycles_take)(scan, symbols, origins, count,
								 max_cycle);
}

size_t scan_memory(const struct scan *scan)
{
	size_t each = sizeof(*scan->ends) + sizeof(*scan->cycles) + sizeof(*scan->guesses);

	return scan->place_count * sizeof(*scan->places) + scan->capacity * each;
}
