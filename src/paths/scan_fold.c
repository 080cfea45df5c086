// SPDX-License-Identifier: BSD-2-Clause
/*
 * Folding: symbols that come more than three times in a row are left out on their way into a block.
 *
 * It needs vectors whose chosen elements can be stored next to each other (AVX-512's vpcompressd).
 * With scalar code it takes longer than it saves, so other processors copy all symbols.
 *
 * Worth its lines: finding paths takes 1.9 times as long without it on gzip, 1.3 to 1.4 times on
 * xz, bzip2 and zstd, whose loops are often one segment (docs/design/paths.md).
 */
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "paths/scan.h"

enum { LANES = 16 };

size_t scan_copy(const uint32_t *symbols, size_t count, uint32_t skipped, uint32_t *ret,
		 uint32_t *ret_skipped)
{
	__m128i four = _mm_set1_epi32((int)skipped);

	memcpy(ret, symbols, count * sizeof(*symbols));
	for (size_t i = 0; i < count; i += 4)
		_mm_storeu_si128((__m128i *)(ret_skipped + i), four);
	return count;
}

/*
 * A bit for each of sixteen symbols: those that differ from one of the two before or from the next.
 */
static inline __attribute__((target("avx512f"))) __mmask16 kept_of(const uint32_t *symbols)
{
	__m512i now = _mm512_loadu_si512(symbols);
	__mmask16 same = _mm512_cmpeq_epi32_mask(now, _mm512_loadu_si512(symbols - 2));

	same = _mm512_mask_cmpeq_epi32_mask(same, now, _mm512_loadu_si512(symbols - 1));
	return (__mmask16)~_mm512_mask_cmpeq_epi32_mask(same, now, _mm512_loadu_si512(symbols + 1));
}

static __attribute__((target("avx512f,popcnt"))) size_t fold_wide(const uint32_t *symbols,
								  size_t count, uint32_t skipped,
								  uint32_t *ret,
								  uint32_t *ret_skipped)
{
	__m512i order = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
	size_t i = count < 2 ? count : 2, left = scan_copy(symbols, i, skipped, ret, ret_skipped);

	for (; i + LANES + 1 <= count; i += LANES) {
		__mmask16 kept = kept_of(symbols + i);
		__m512i moved = _mm512_sub_epi32(_mm512_maskz_compress_epi32(kept, order), order);
		__m512i before = _mm512_set1_epi32((int)(skipped + (uint32_t)(i - left)));

		_mm512_storeu_si512(ret + left, _mm512_maskz_compress_epi32(
							kept, _mm512_loadu_si512(symbols + i)));
		_mm512_storeu_si512(ret_skipped + left, _mm512_add_epi32(moved, before));
		left += (size_t)__builtin_popcount(kept);
	}
	return left + scan_copy(symbols + i, count - i, skipped + (uint32_t)(i - left), ret + left,
				ret_skipped + left);
}

#ifdef SCAN_PLAIN /* a test of what other processors do */
#define is_wide() false
#else
#define is_wide() __builtin_cpu_supports("avx512f")
#endif

size_t scan_fold(const uint32_t *symbols, size_t count, uint32_t skipped, uint32_t *ret,
		 uint32_t *ret_skipped)
{
	return (is_wide() ? fold_wide : scan_copy)(symbols, count, skipped, ret, ret_skipped);
}
