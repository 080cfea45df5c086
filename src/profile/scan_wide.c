// SPDX-License-Identifier: BSD-2-Clause
/* Few symbols are one register here. */
#include "profile/scan_wide.h"

#include <immintrin.h>

bool scan_is_wide(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("bmi2");
}

/* For all that follows. */
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,bmi,bmi2"))), apply_to = function)
#else
#pragma GCC target("avx512f,bmi,bmi2")
#endif

#include "profile/cycles.h"

static inline bool few_same(const uint32_t *a, const uint32_t *b, uint32_t length)
{
	__mmask16 different =
		_mm512_cmpneq_epi32_mask(_mm512_loadu_si512(a), _mm512_loadu_si512(b));

	return !_bzhi_u32(different, length);
}

/* All words together. GCC's own adds the last two as numbers with a sign, which must not overflow. */
static inline uint32_t words_add(__m512i words)
{
	__m256i eight = _mm256_add_epi32(_mm512_castsi512_si256(words),
					 _mm512_extracti64x4_epi64(words, 1));
	__m128i four =
		_mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));

	four = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
	four = _mm_add_epi32(four, _mm_srli_epi64(four, 32));
	return (uint32_t)_mm_cvtsi128_si32(four);
}

static inline uint32_t few_sum(const uint32_t *symbols, uint32_t length)
{
	__m512i few = _mm512_maskz_loadu_epi32((__mmask16)_bzhi_u32(0xffff, length), symbols);

	return words_add(_mm512_mullo_epi32(few, _mm512_loadu_si512(cycles_powers)));
}

#include "profile/scan_code.h"

uint32_t scan_cycles_wide(struct scan *scan, const uint32_t *symbols, const uint32_t *origins,
			  size_t count, uint32_t max_cycle)
{
	return cycles_take(scan, symbols, origins, count, max_cycle);
}

/* Those of sixteen that are not equal to the two before and the one behind. */
static inline __mmask16 stay_of(const uint32_t *symbols)
{
	__m512i now = _mm512_loadu_si512(symbols);
	__mmask16 same = _mm512_cmpeq_epi32_mask(now, _mm512_loadu_si512(symbols - 2));

	same = _mm512_mask_cmpeq_epi32_mask(same, now, _mm512_loadu_si512(symbols - 1));
	return (__mmask16)~_mm512_mask_cmpeq_epi32_mask(same, now, _mm512_loadu_si512(symbols + 1));
}

size_t scan_fold_wide(const uint32_t *symbols, size_t count, uint32_t first, uint32_t *ret,
		      uint32_t *ret_origins)
{
	__m512i order = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
	size_t i = count < 2 ? count : 2, left = scan_copy(symbols, i, first, ret, ret_origins);

	for (; i + 17 <= count; i += 16) {
		__mmask16 stay = stay_of(symbols + i);
		__m512i origins = _mm512_add_epi32(order, _mm512_set1_epi32((int)(first + i)));

		_mm512_storeu_si512(ret + left, _mm512_maskz_compress_epi32(
							stay, _mm512_loadu_si512(symbols + i)));
		_mm512_storeu_si512(ret_origins + left, _mm512_maskz_compress_epi32(stay, origins));
		left += (size_t)__builtin_popcount(stay);
	}
	return left + scan_copy(symbols + i, count - i, first + (uint32_t)i, ret + left,
				ret_origins + left);
}

#ifdef __clang__
#pragma clang attribute pop
#endif
