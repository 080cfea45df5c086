// SPDX-License-Identifier: BSD-2-Clause
/*
 * scan.h has the theory. Where a cycle ends cannot be predicted in an irregular program, so neither
 * the pass from the end nor the walk has a branch that depends on it for short cycles.
 *
 *	in	a block of symbols
 *	out	its cycles, each with its trips and its hash, and what is left at the end
 *	owner	nobody: the caller, a layer, has the memory that it works in
 *
 * Invariants
 *  1. Entries of `places` that belong to this block are base to base + count - 1. All others are
 *     greater than base + count + CYCLES_SHORT.
 */
#include "paths/scan.h"

#include <emmintrin.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "paths/cycles.h"
#include "paths/words.h"

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

/* The bits that any of the symbols has. */
static uint32_t bits_of(const uint32_t *symbols, size_t count)
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

/* Makes sure that each symbol has a place, and takes the numbers from base on for this block. */
static void places_prepare(struct scan *scan, const uint32_t *symbols, size_t count)
{
	uint32_t bits = bits_of(symbols, count);
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

/*
 * The same array is given twice: with one pointer GCC computes the address of the place separately,
 * which takes one more instruction.
 */
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

/* For a bound that short cycles can reach; longer cycles are cut where they are walked. */
static void ends_cut(struct scan *scan, size_t count, uint32_t max_cycle)
{
	for (size_t i = 0; i + max_cycle <= count; i++) {
		uint32_t cut = scan->base + (uint32_t)i + max_cycle;

		scan->ends[i] = scan->ends[i] < cut ? scan->ends[i] : cut;
	}
}

/*
 * The two sums of a hash (cycles_hash()), of at most CYCLES_SHORT symbols. Products have 64 bits,
 * of which only the lower words count.
 */
static inline uint64_t short_sums(const uint32_t *symbols, size_t length)
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

/* The state of the walk. */
struct walk {
	struct scan_cycle *found; /* the cycle that is being filled in */
	size_t at; /* base + index where the next trip begins */
	/* Symbols that were left out before the first trip of `found`, less its trips so far. */
	uint32_t before;
};

/*
 * Takes one trip of a cycle; `skipped` symbols were left out before its end. The entry is
 * overwritten trip by trip until the next cycle is another one, which is so if `symbols` or
 * `lengths` is not 0. Only then does the walk go on to the next entry. Because that cannot be
 * predicted, and GCC makes a branch of it however it is written in C, two conditional moves are
 * written in assembly.
 */
static inline void trip_take(struct walk *walk, size_t length, uint32_t skipped, uint32_t symbols,
			     uint32_t lengths)
{
	walk->before--;
	walk->found->last = (uint32_t)walk->at;
	walk->found->length = (uint32_t)length;
	walk->found->trips = skipped - walk->before;
	walk->at += length;
	__asm__("or %3, %2\n\tcmovnz %4, %0\n\tcmovnz %5, %1"
		: "+&r"(walk->found), "+&r"(walk->before), "+&r"(symbols)
		: "r"(lengths), "r"(walk->found + 1), "r"(skipped)
		: "cc", "memory");
}

/*
 * Whether a long cycle comes again at its end. Not inlined, because the loop needs all registers.
 */
static __attribute__((noinline)) bool long_same(const uint32_t *symbols, size_t length, size_t left,
						size_t next)
{
	return next == length && left >= length && words_same(symbols, symbols + length, length);
}

/*
 * Returns base + index where the last cycle ends. A cycle that nothing ends looks like a long one,
 * so that short cycles, which are nearly all, take a single predictable branch.
 */
static inline size_t cycles_walk(struct scan *scan, const uint32_t *symbols,
				 const uint32_t *skipped, size_t end_of_all, size_t max_cycle)
{
	const uint32_t *ends = scan_based(scan, scan->ends);
	struct walk walk = { scan->cycles, scan->base, skipped[scan->base] };
	size_t end = ends[walk.at];

	while (true) {
		size_t length = end - walk.at, next;

		if (__builtin_expect(length > CYCLES_SHORT, 0)) {
			length = length < max_cycle ? length : max_cycle;
			if (length > end_of_all - walk.at)
				break;
			end = walk.at + length;
			next = ends[end];
			trip_take(&walk, length, skipped[end],
				  !long_same(symbols + walk.at, length, end_of_all - end,
					     next - end < max_cycle ? next - end : max_cycle),
				  0);
		} else {
			next = ends[end];
			trip_take(&walk, length, skipped[end],
				  words_different_short(symbols + walk.at, symbols + end, length),
				  (uint32_t)((end + length) ^ next));
		}
		end = next;
	}
	scan->count = (size_t)(walk.found - scan->cycles);
	return walk.at;
}

static inline void hash_put(struct scan_cycle *cycle, uint32_t hash, struct cycles_index index)
{
	cycle->hash = hash;
	__builtin_prefetch(cycles_place(index, hash));
}

static __attribute__((noinline)) void
long_hash_make(struct scan_cycle *cycle, const uint32_t *symbols, struct cycles_index index)
{
	hash_put(cycle, cycles_hash(symbols + cycle->last, cycle->length), index);
}

static inline void hashes_make(struct scan *scan, const uint32_t *symbols)
{
	struct scan_cycle *end = scan->cycles + scan->count;
	struct cycles_index index = cycles_index(scan->table);

	for (struct scan_cycle *cycle = scan->cycles; cycle < end; cycle++) {
		size_t length = cycle->length;

		if (__builtin_expect(length <= CYCLES_SHORT, 1))
			hash_put(cycle,
				 cycles_hash_end(short_sums(symbols + cycle->last, length), length),
				 index);
		else
			long_hash_make(cycle, symbols, index);
	}
}

static inline size_t cycles_take(struct scan *scan, const uint32_t *symbols,
				 const uint32_t *skipped, size_t count, uint32_t max_cycle)
{
	const uint32_t *based = scan_based(scan, symbols);
	size_t taken =
		cycles_walk(scan, based, scan_based(scan, skipped), scan->base + count, max_cycle);

	hashes_make(scan, based);
	return taken - scan->base;
}

size_t scan_find(struct scan *scan, const uint32_t *symbols, const uint32_t *skipped, size_t count,
		 uint32_t max_cycle)
{
	capacity_reserve(scan, count + 1);
	places_prepare(scan, symbols, count);
	ends_find(scan, symbols, count);
	if (max_cycle <= CYCLES_SHORT)
		ends_cut(scan, count, max_cycle);
	return cycles_take(scan, symbols, skipped, count, max_cycle);
}

size_t scan_memory(const struct scan *scan)
{
	size_t each = sizeof(*scan->ends) + sizeof(*scan->cycles) + sizeof(*scan->guesses);

	return scan->place_count * sizeof(*scan->places) + scan->capacity * each;
}
