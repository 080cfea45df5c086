/* SPDX-License-Identifier: BSD-2-Clause */
/* The model that the writer and the reader of paths/coder.h share. coder.c explains it. */
#pragma once

#include <emmintrin.h>
#include <stdbool.h>
#include <string.h>

#include "paths/coder.h"

enum {
	ORDER3_BITS_MIN = 8,
	ORDER3_BITS_MAX = 16,
	ORDER3_SIZE_BITS = 3,
	ORDER1_BITS = 16,
	ORDER1_SIZE_BITS = 5,
	ORDER1_COUNT = 1 << ORDER1_BITS,
	LOWS = UINT16_MAX, /* lower parts; a symbol below this is its lower part */
	RATE = 5, /* literals: a probability moves by 2^-5 of the difference */
	PROBABILITY_BITS = 15,
	STATE_CLASSES = 14,
	CONFIDENCE_MAX = 15,
	FEW = 6, /* an order-1 context that lists no more symbols than this knows little */
	ESCAPE = CODER_ORDER3 + CODER_ORDER1, /* the rank of a symbol that neither context lists */
	BEYOND_MAX = 8, /* bytes that a reader may take behind the end: the last of the range */
	FETCH_AHEAD = 16, /* symbols; more than CODER_REACH */
	/* events, after which the range is normalised: 3 * PROBABILITY_BITS fit into it */
	GROUP = 3,
	BATCH = 384, /* symbols that become events together; whole groups */
	/*
	 * Ranks from one change of their probabilities to the next, at first and at most. Whole
	 * groups.
	 */
	PERIOD_FIRST = 96,
	PERIOD_MAX = 3072,
	FORGET = 3, /* at each change, counts lose 2^-3 of themselves */
	/* A literal is a class and the four bits behind its highest; the rest are raw bits. */
	CLASS_FRESH = 0, /* one greater than all before */
	CLASS_SMALL = 1, /* below sixteen: four bits are all */
	CLASS_OTHER = 15, /* a number follows: the distance from the greatest before */
	SMALL_BITS = 4,
	CLASS_BITS_MAX = CLASS_OTHER - 1 + SMALL_BITS - 1, /* of a symbol that has a class */
	/*
	 * A number is its length in several parts, the four bits behind its highest, and the next
	 * four.
	 */
	PART_LAST = 15, /* of a part: another part follows */
	PARTS = 5, /* make a length up to 64 */
	LENGTHS = 65,
	LENGTHS_TOLD = 33, /* lengths by which the second four bits are told apart */
	NUMBER_OTHER = CODER_KINDS, /* the kind of the distances of CLASS_OTHER */
	/* Indices of distributions. */
	RANKS = STATE_CLASSES * 2 * 2,
	LITERAL = RANKS, /* the class of a literal, then its four bits by class */
	LITERAL_FIRST = LITERAL + 1,
	NUMBERS = LITERAL_FIRST + 16, /* of each kind: parts, four bits by length, next four */
	NUMBER_FIRST = PARTS,
	NUMBER_NEXT = NUMBER_FIRST + LENGTHS,
	NUMBER_CDFS = NUMBER_NEXT + LENGTHS_TOLD * 16,
	CDFS = NUMBERS + NUMBER_CDFS * (CODER_KINDS + 1),
	NUMBER_EVENTS = PARTS + 2, /* of a number at most */
	LITERAL_EVENTS = 1 + NUMBER_EVENTS, /* of a literal at most */
	EVENTS = BATCH * LITERAL_EVENTS,
};

/* Where the contexts of symbols are, in bytes; of a batch and some more, which are prefetched. */
struct coder_offsets {
	uint32_t order3[BATCH + FETCH_AHEAD];
	uint32_t order1[BATCH + FETCH_AHEAD];
	uint16_t lows[BATCH + FETCH_AHEAD]; /* low_of() the symbols, if they are below LOWS */
};

/*
 * What takes the most time in writing, for many symbols at a time. All implementations have the
 * same effect, so that any processor reads what another one wrote.
 */
struct coder_steps {
	/*
	 * The context of symbols[i] are the symbols before it. Nothing behind the last one is read.
	 */
	void (*offsets_find)(const uint32_t *symbols, size_t count, unsigned bits,
			     struct coder_offsets *ret);
	/*
	 * Symbols below LOWS become events of ranks, and move to the front of their contexts.
	 * Contexts of `fetched` symbols are prefetched.
	 */
	void (*ranks_find)(struct coder *coder, const struct coder_offsets *offsets, size_t count,
			   size_t fetched, uint16_t *events);
	/* Copies the symbols whose event is an escape; up to sixteen more may be written. */
	size_t (*escaped_take)(const uint32_t *symbols, const uint16_t *events, size_t count,
			       uint32_t *ret);
};

extern const struct coder_steps coder_steps_plain, coder_steps_wide;
/* Whether the processor can do coder_steps_wide. */
bool coder_is_wide(void);

/* Order-1 contexts up to that of a symbol become valid. */
void coder_order1_clear(struct coder *coder, uint32_t symbol);
/* So many ranks were coded, in whole groups: their probabilities change if it is time. */
void coder_ranks_adapt(struct coder *coder, size_t ranks);

/* The distribution of ranks under the conditions that the contexts make. */
static inline unsigned cdf_of_rank(const struct coder_order3 *order3,
				   const struct coder_order1 *order1)
{
	unsigned same = order3->symbols[0] == order1->symbols[0], few = !order1->symbols[FEW];

	return (order3->class * 2u + same) * 2 + few;
}

static inline uint16_t low_of(uint32_t symbol)
{
	return (uint16_t)(symbol % LOWS + 1);
}

static inline uint16_t high_of(uint32_t symbol)
{
	return (uint16_t)(symbol / LOWS);
}

#define ORDER3_FACTORS 0x9e3779b1u, 0x85ebca6bu, 0xc2b2ae35u
#define ORDER3_FACTOR_LAST 0x27d4eb2fu

/* Where the order-3 context of the symbols before `end` is: a hash, in bytes. */
static inline uint32_t order3_offset(const uint32_t *end, unsigned bits)
{
	static const uint32_t factors[CODER_REACH] = { ORDER3_FACTORS };
	uint32_t key = 0;

#pragma GCC unroll 4
	for (unsigned i = 0; i < CODER_REACH; i++)
		key += (end[-1 - (int)i] + 1) * factors[i];
	return (uint32_t)((key ^ key >> 15) * ORDER3_FACTOR_LAST >> (32 - bits)
									    << ORDER3_SIZE_BITS);
}

static inline struct coder_order3 *order3_at(struct coder_order3 *order3, uint32_t offset)
{
	return (struct coder_order3 *)((char *)order3 + offset);
}

/* The same for the order-1 context. */
static inline uint32_t order1_offset(const uint32_t *end)
{
	return end[-1] % ORDER1_COUNT << ORDER1_SIZE_BITS;
}

static inline struct coder_order1 *order1_at(struct coder_order1 *order1, uint32_t offset)
{
	return (struct coder_order1 *)((char *)order1 + offset);
}

/*
 * Both lists, in the order of ranks: the symbols of the order-3 context, then those of the order-1
 * context.
 */
struct coder_view {
	__m128i low, high;
};

static inline void view_take(const struct coder_order3 *order3, const struct coder_order1 *order1,
			     struct coder_view *view)
{
	__m128i longer = _mm_loadl_epi64((const __m128i *)order3);
	__m128i those = _mm_setr_epi16(-1, -1, -1, 0, 0, 0, 0, 0);
	__m128i low = _mm_load_si128((const __m128i *)order1);

	view->low = _mm_or_si128(_mm_and_si128(those, longer), _mm_andnot_si128(those, low));
	view->high = _mm_load_si128((const __m128i *)order1 + 1);
}

static inline __m128i words_choose(__m128i chosen, __m128i yes, __m128i no)
{
	return _mm_or_si128(_mm_and_si128(chosen, yes), _mm_andnot_si128(chosen, no));
}

/*
 * Move to front: words up to the symbol's rank move one place back, and the symbol goes to the
 * front of both lists. If the order-3 context has it, nothing of the order-1 context moves.
 */
static inline void view_update(const struct coder *coder, const struct coder_view *view,
			       struct coder_order3 *order3, struct coder_order1 *order1,
			       unsigned rank, uint16_t value)
{
	__m128i end = _mm_set1_epi16((short)(rank + 1));
	__m128i low = _mm_insert_epi16(_mm_slli_si128(view->low, 2), value, 0);
	__m128i high = _mm_or_si128(_mm_slli_si128(view->high, 2), _mm_srli_si128(view->low, 14));
	unsigned state = coder->state_next[order3->state % CODER_STATES][rank];

	low = _mm_insert_epi16(low, value, CODER_ORDER3);
	low = words_choose(_mm_cmpgt_epi16(end, _mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7)), low,
			   view->low);
	high = words_choose(_mm_cmpgt_epi16(end, _mm_setr_epi16(8, 9, 10, 11, 12, 13, 14, 15)),
			    high, view->high);
	_mm_store_si128((__m128i *)order1, low);
	_mm_store_si128((__m128i *)order1 + 1, high);
	_mm_storel_epi64((__m128i *)order3, _mm_insert_epi16(low, (int)state, CODER_ORDER3));
}

/*
 * A value of a literal came: below[i] moves towards i for i <= value, and towards 32768 - 16 + i
 * for the others, so that the difference of two neighbours never becomes 0.
 */
static inline void cdf_adapt(struct coder_cdf *cdf, unsigned value)
{
	static const uint16_t rest[32] = { [16 ... 31] = (1 << PROBABILITY_BITS) - 16 };
	const __m128i order[2] = { _mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7),
				   _mm_setr_epi16(8, 9, 10, 11, 12, 13, 14, 15) };

	for (unsigned i = 0; i < 2; i++) {
		__m128i old = _mm_load_si128((const __m128i *)cdf + i);
		__m128i target = _mm_loadu_si128((const __m128i *)(rest + 15 - value + i * 8));
		__m128i step = _mm_sub_epi16(_mm_add_epi16(target, order[i]), old);

		_mm_store_si128((__m128i *)cdf + i, _mm_add_epi16(old, _mm_srai_epi16(step, RATE)));
	}
}

/* The context moves along `recent`, and back to its beginning at the end. */
static inline void recent_add(struct coder *coder, uint32_t symbol)
{
	if (coder->at == CODER_RECENT) {
		memcpy(coder->recent, coder->recent + CODER_RECENT - CODER_REACH,
		       CODER_REACH * sizeof(*coder->recent));
		coder->at = CODER_REACH;
	}
	coder->recent[coder->at++] = symbol;
}
