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
#include "profile/words_wide.h"

#define ORDER _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)

/* All words of even places together, and all of odd ones. */
static inline uint64_t words_add(__m512i words)
{
	__m256i eight = _mm256_add_epi32(_mm512_castsi512_si256(words),
					 _mm512_extracti64x4_epi64(words, 1));
	__m128i four =
		_mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));

	four = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
	return (uint64_t)_mm_cvtsi128_si64(four);
}

static inline uint64_t few_sums(const uint32_t *symbols, size_t length)
{
	__mmask16 in = _mm512_cmplt_epi32_mask(ORDER, _mm512_set1_epi32((int)length));

	return words_add(_mm512_maskz_mullo_epi32(in, _mm512_loadu_si512(cycles_powers),
						  _mm512_loadu_si512(symbols)));
}

#include "profile/scan_code.h"

size_t scan_cycles_wide(struct scan *scan, const uint32_t *symbols, const uint32_t *skipped,
			size_t count, uint32_t max_cycle)
{
	return cycles_take(scan, symbols, skipped, count, max_cycle);
}

uint32_t scan_bits_wide(const uint32_t *symbols, size_t count)
{
	__m512i bits = _mm512_setzero_si512();
	size_t i = 0;

	for (; i + 16 <= count; i += 16)
		bits = _mm512_or_si512(bits, _mm512_loadu_si512(symbols + i));
	bits = _mm512_or_si512(
		bits, _mm512_maskz_loadu_epi32((__mmask16)_bzhi_u32(0xffff, (uint32_t)(count - i)),
					       symbols + i));
	return (uint32_t)_mm512_reduce_or_epi32(bits);
}

/* Those of sixteen that are not equal to the two before and the one behind. */
static inline __mmask16 stay_of(const uint32_t *symbols)
{
	__m512i now = _mm512_loadu_si512(symbols);
	__mmask16 same = _mm512_cmpeq_epi32_mask(now, _mm512_loadu_si512(symbols - 2));

	same = _mm512_mask_cmpeq_epi32_mask(same, now, _mm512_loadu_si512(symbols - 1));
	return (__mmask16)~_mm512_mask_cmpeq_epi32_mask(same, now, _mm512_loadu_si512(symbols + 1));
}

size_t scan_fold_wide(const uint32_t *symbols, size_t count, uint32_t skipped, uint32_t *ret,
		      uint32_t *ret_skipped)
{
	__m512i order = ORDER;
	size_t i = count < 2 ? count : 2, left = scan_copy(symbols, i, skipped, ret, ret_skipped);

	for (; i + 17 <= count; i += 16) {
		__mmask16 stay = stay_of(symbols + i);
		__m512i moved = _mm512_sub_epi32(_mm512_maskz_compress_epi32(stay, order), order);
		__m512i before = _mm512_set1_epi32((int)(skipped + (uint32_t)(i - left)));

		_mm512_storeu_si512(ret + left, _mm512_maskz_compress_epi32(
							stay, _mm512_loadu_si512(symbols + i)));
		_mm512_storeu_si512(ret_skipped + left, _mm512_add_epi32(moved, before));
		left += (size_t)__builtin_popcount(stay);
	}
	return left + scan_copy(symbols + i, count - i, skipped + (uint32_t)(i - left), ret + left,
				ret_skipped + left);
}

#ifdef __clang__
#pragma clang attribute pop
#endif
