// SPDX-License-Identifier: BSD-2-Clause
/*
 * 1. Places of this block are base to base + count - 1; all others in `places` are greater than base + count + CYCLES_SHORT.
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
static uint32_t bits_plain(const uint32_t *symbols, size_t count)
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
	uint32_t bits = (scan_is_wide() ? scan_bits_wide : bits_plain)(symbols, count);
	size_t before = scan->place_count, numbers = count + 1 + CYCLES_SHORT;

	if (bits >= scan->place_count) {
		scan->place_count = scan->place_count ? scan->place_count : PLACES_FIRST;
		while (scan->place_count <= bits)
			scan->place_count *= 2;
		scan->places = mem_realloc(scan->places, scan->place_count, sizeof(*scan->places));
		places_clear(scan, before);
	}
	if (scan->base <= numbers) {
		places_clear(scan, 0);
		scan->base = UINT32_MAX;
	}
	scan->base -= (uint32_t)numbers;
}

size_t scan_copy(const uint32_t *symbols, size_t count, uint32_t skipped, uint32_t *ret,
		 uint32_t *ret_skipped)
{
	__m128i four = _mm_set1_epi32((int)skipped);

	memcpy(ret, symbols, count * sizeof(*symbols));
	for (size_t i = 0; i < count; i += 4)
		_mm_storeu_si128((__m128i *)(ret_skipped + i), four);
	return count;
}

/* Without vectors that can be compressed, it would take longer than it saves. */
size_t scan_fold(const uint32_t *symbols, size_t count, uint32_t skipped, uint32_t *ret,
		 uint32_t *ret_skipped)
{
	return (scan_is_wide() ? scan_fold_wide : scan_copy)(symbols, count, skipped, ret,
							     ret_skipped);
}

/* From the last place to the first. Places are given twice: of one pointer, GCC makes the address of the place, an instruction more. */
static inline __attribute__((always_inline)) uint32_t
end_find(const uint32_t *places, uint32_t *places_too, uint32_t symbol, uint32_t here, uint32_t end)
{
	uint32_t again = places[symbol];

	places_too[symbol] = here;
	return again < end ? again : end;
}

static void ends_find(struct scan *scan, const uint32_t *symbols, size_t count)
{
	uint32_t *places = scan->places, *too = places, *ends = scan->ends, end = UINT32_MAX;
	uint32_t here = scan->base + (uint32_t)count;
	size_t i = count;

	__asm__("" : "+r"(too));
	ends[count] = end;
	for (; i % 4; i--)
		ends[i - 1] = end = end_find(places, too, symbols[i - 1], --here, end);
	for (; i; i -= 4) {
		const uint32_t *four = symbols + i - 4;
		uint32_t *ret = ends + i - 4;

		ret[3] = end = end_find(places, too, four[3], here - 1, end);
		ret[2] = end = end_find(places, too, four[2], here - 2, end);
		ret[1] = end = end_find(places, too, four[1], here - 3, end);
		ret[0] = end = end_find(places, too, four[0], here -= 4, end);
	}
}

/* Of cycles that would be short without it: longer ones are cut where they are walked. */
static void ends_cut(struct scan *scan, size_t count, uint32_t max_cycle)
{
	for (size_t i = 0; i + max_cycle <= count; i++) {
		uint32_t cut = scan->base + (uint32_t)i + max_cycle;

		scan->ends[i] = scan->ends[i] < cut ? scan->ends[i] : cut;
	}
}

/* --- What every processor can do ---------------------------------------------------------------------- */

static inline uint32_t few_different(const uint32_t *a, const uint32_t *b, size_t length)
{
	return words_different_short(a, b, length);
}

/* Products have 64 bits, of which only the lower words count. */
static inline uint64_t few_sums(const uint32_t *symbols, size_t length)
{
	__m128i even = _mm_setzero_si128(), odd = even, size = _mm_set1_epi32((int)length);

#pragma GCC unroll 4
	for (unsigned i = 0; i < CYCLES_SHORT; i += 4) {
		__m128i power = words_four(cycles_powers + i), four = words_four(symbols + i);
		__m128i in = _mm_cmpgt_epi32(size, _mm_setr_epi32((int)i, (int)i + 1, (int)i + 2,
								  (int)i + 3));

		four = _mm_and_si128(four, in);
		even = _mm_add_epi64(even, _mm_mul_epu32(four, power));
		odd = _mm_add_epi64(odd, _mm_mul_epu32(_mm_srli_epi64(four, 32),
						       _mm_srli_epi64(power, 32)));
	}
	even = _mm_add_epi64(even, _mm_unpackhi_epi64(even, even));
	odd = _mm_add_epi64(odd, _mm_unpackhi_epi64(odd, odd));
	return (uint64_t)_mm_cvtsi128_si64(_mm_unpacklo_epi32(even, odd));
}

#include "profile/scan_code.h"

size_t scan_find(struct scan *scan, const uint32_t *symbols, const uint32_t *skipped, size_t count,
		 uint32_t max_cycle)
{
	capacity_reserve(scan, count + 1);
	places_prepare(scan, symbols, count);
	ends_find(scan, symbols, count);
	if (max_cycle <= CYCLES_SHORT)
		ends_cut(scan, count, max_cycle);
	return (scan_is_wide() ? scan_cycles_wide : cycles_take)(scan, symbols, skipped, count,
								 max_cycle);
}

size_t scan_memory(const struct scan *scan)
{
	size_t each = sizeof(*scan->ends) + sizeof(*scan->cycles) + sizeof(*scan->guesses);

	return scan->place_count * sizeof(*scan->places) + scan->capacity * each;
}
