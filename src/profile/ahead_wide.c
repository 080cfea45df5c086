// SPDX-License-Identifier: BSD-2-Clause
/* Sixteen symbols at once. One instruction compares all of them with all before them. */
#include <immintrin.h>

#include "profile/cycles.h"

enum { WINDOW = 16 };

#define TARGET __attribute__((target("avx512f,avx512cd,bmi,bmi2")))

TARGET static inline unsigned window_length(const uint32_t *symbols)
{
	__m512i before = _mm512_conflict_epi32(_mm512_loadu_si512(symbols));
	unsigned repeated = _mm512_test_epi32_mask(before, before);

	return repeated ? (unsigned)__builtin_ctz(repeated) : 0;
}

TARGET static inline unsigned window_equal(const uint32_t *symbols, size_t length)
{
	unsigned differ = _mm512_cmpneq_epi32_mask(_mm512_loadu_si512(symbols),
						   _mm512_loadu_si512(symbols + length));

	return (unsigned)__builtin_ctz(differ | 1 << WINDOW);
}

TARGET static inline unsigned window_holds(const uint32_t *symbols, size_t length, uint32_t symbol)
{
	return _mm512_mask_cmpeq_epi32_mask((__mmask16)((1u << length) - 1),
					    _mm512_loadu_si512(symbols),
					    _mm512_set1_epi32((int)symbol)) != 0;
}

TARGET static inline uint64_t window_sum(const uint32_t *symbols, size_t length)
{
	__m512i words = _mm512_maskz_loadu_epi32((__mmask16)((1u << length) - 1), symbols);
	__m512i factors = _mm512_loadu_si512(cycles_factors);
	__m512i even = _mm512_mul_epu32(words, factors);
	__m512i odd =
		_mm512_mul_epu32(_mm512_srli_epi64(words, 32), _mm512_srli_epi64(factors, 32));

	return (uint64_t)_mm512_reduce_add_epi64(_mm512_add_epi64(even, odd));
}

#include "profile/ahead_find.h"

TARGET size_t ahead_find_wide(const uint32_t *symbols, size_t count,
			      const struct ahead_long *longer, struct ahead *ret)
{
	return block_find(&(struct view){ symbols, count, longer }, ret);
}
