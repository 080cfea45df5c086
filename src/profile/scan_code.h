/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cycles of a block, once it is known where they end. Before it is included, these are there, which do the same on every
 * processor; for at most CYCLES_SHORT symbols, where CYCLES_SLACK can be read:
 *
 *	few_different	0 if two sequences are equal
 *	few_sums	the sums that a hash is made of
 */
#include <stdbool.h>

#include "profile/cycles.h"
#include "profile/scan.h"
#include "profile/words.h"

/* Where the walk is. */
struct walk {
	struct scan_cycle *found; /* the next */
	size_t at; /* where it begins, this time */
	uint32_t before; /* symbols that were left out before its first trip, less its trips so far */
};

/*
 * A trip of a cycle, before whose end so many symbols were left out. What is found is overwritten until the next cycle is another: one of other symbols or of
 * another length, each not 0 if it is. Nobody could predict that, and GCC makes a branch of it however it is written in C. What is stored is in
 * memory before, since later it would need registers.
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

/* Whether a cycle that is not short comes again at its end. Not inlined, so that it takes no registers from the others. */
static __attribute__((noinline)) bool long_same(const uint32_t *symbols, size_t length, size_t left,
						size_t next)
{
	return next == length && left >= length && words_same(symbols, symbols + length, length);
}

/*
 * Returns where the last cycle ends; everything is found by base + index here. All that is not usual is behind one branch: a cycle that nothing ends
 * seems to be a long one.
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
				  few_different(symbols + walk.at, symbols + end, length),
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
hash_make_long(struct scan_cycle *cycle, const uint32_t *symbols, struct cycles_index index)
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
				 cycles_hash_end(few_sums(symbols + cycle->last, length), length),
				 index);
		else
			hash_make_long(cycle, symbols, index);
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
