/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cycles of a block, once it is known where they end. Before it is included, these are there, which do the same on every
 * processor; for at most CYCLES_SHORT symbols, where CYCLES_SLACK can be read:
 *
 *	few_same	whether two sequences are equal
 *	few_sum		the sum that a hash is made of
 */
#include <stdbool.h>

#include "profile/cycles.h"
#include "profile/scan.h"
#include "profile/words.h"

/* All ones, or 0. What is not known to be one of these, GCC does not make a branch of, which nobody could predict. */
static inline uint32_t mask_of(bool condition)
{
	uint32_t mask = -(uint32_t)condition;

	__asm__("" : "+r"(mask));
	return mask;
}

/* Returns where the last cycle ends. */
static inline uint32_t cycles_walk(struct scan *scan, const uint32_t *symbols,
				   const uint32_t *origins, size_t count, uint32_t max_cycle)
{
	const uint32_t *ends = scan->ends;
	struct scan_cycle *found = scan->cycles;
	uint32_t at = 0, first = 0, trips = 0, end = ends[0];

	while (true) {
		uint32_t length = end - at, next, mask;
		bool same;

		if (length > max_cycle) {
			end = at + max_cycle;
			length = max_cycle;
		}
		if (end > count)
			break;
		next = ends[end];
		same = next - end == length;
		if (__builtin_expect(length <= CYCLES_SHORT, 1))
			same &= few_same(symbols + at, symbols + end, length);
		else
			same = same && words_same(symbols + at, symbols + end, length);
		mask = mask_of(same);
		trips += 1 + origins[end] - origins[at] - length;
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

static inline void hashes_make(struct scan *scan, const uint32_t *symbols)
{
	struct scan_cycle *end = scan->cycles + scan->count;

	for (struct scan_cycle *cycle = scan->cycles; cycle < end; cycle++) {
		const uint32_t *first = symbols + cycle->first;

		cycle->hash =
			__builtin_expect(cycle->length <= CYCLES_SHORT, 1)
				? cycles_hash_end(few_sum(first, cycle->length), cycle->length)
				: cycles_hash(first, cycle->length);
	}
}

static inline uint32_t cycles_take(struct scan *scan, const uint32_t *symbols,
				   const uint32_t *origins, size_t count, uint32_t max_cycle)
{
	uint32_t taken = cycles_walk(scan, symbols, origins, count, max_cycle);

	hashes_make(scan, symbols);
	return taken;
}
