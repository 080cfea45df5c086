// SPDX-License-Identifier: BSD-2-Clause
/* Eight symbols at once, which every processor can; and the choice. */
#include "profile/ahead.h"

#include <emmintrin.h>

#include "profile/cycles.h"

enum { WINDOW = 8 };

#define TARGET

static inline unsigned four_equal(const uint32_t *a, __m128i b)
{
	__m128i words = _mm_loadu_si128((const __m128i *)a);

	return (unsigned)_mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(words, b)));
}

/* A bit for each that is equal. */
static inline unsigned eight_equal(const uint32_t *a, const uint32_t *b)
{
	return four_equal(a, _mm_loadu_si128((const __m128i *)b)) |
	       four_equal(a + 4, _mm_loadu_si128((const __m128i *)(b + 4))) << 4;
}

static inline unsigned window_length(const uint32_t *symbols)
{
	unsigned repeated = 0;

#pragma GCC unroll 8
	for (unsigned i = 1; i < WINDOW; i++)
		repeated |= eight_equal(symbols, symbols + i) << i;
	repeated &= (1 << WINDOW) - 1;
	return repeated ? (unsigned)__builtin_ctz(repeated) : 0;
}

static inline unsigned window_equal(const uint32_t *symbols, size_t length)
{
	return (unsigned)__builtin_ctz(~eight_equal(symbols, symbols + length));
}

static inline unsigned window_holds(const uint32_t *symbols, size_t length, uint32_t symbol)
{
	__m128i wanted = _mm_set1_epi32((int)symbol);
	unsigned equal = four_equal(symbols, wanted) | four_equal(symbols + 4, wanted) << 4;

	return (equal & ((1u << length) - 1)) != 0;
}

static inline uint64_t window_sum(const uint32_t *symbols, size_t length)
{
	uint64_t sum = 0;

#pragma GCC unroll 8
	for (size_t i = 0; i < WINDOW - 1; i++)
		sum += (i < length ? (uint64_t)symbols[i] : 0) * cycles_factors[i];
	return sum;
}

#include "profile/ahead_find.h"

size_t ahead_find_narrow(const uint32_t *symbols, size_t count, const struct ahead_long *longer,
			 struct ahead *ret)
{
	return block_find(&(struct view){ symbols, count, longer }, ret);
}

bool ahead_is_wide(void)
{
	return __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("bmi2");
}

size_t ahead_find(const uint32_t *symbols, size_t count, const struct ahead_long *longer,
		  struct ahead *ret)
{
	return ahead_is_wide() ? ahead_find_wide(symbols, count, longer, ret)
			       : ahead_find_narrow(symbols, count, longer, ret);
}
