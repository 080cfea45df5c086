// SPDX-License-Identifier: BSD-2-Clause
/*
 * The steps of writing with AVX-512. Both lists of a symbol are one register of sixteen words in
 * the order of ranks, so that one comparison finds a symbol and one permutation moves it to the
 * front.
 *
 * Worth its lines: without it the consumer of segments takes 10 to 18 % longer on each of ten
 * programs (docs/design/paths.md).
 */
#include <immintrin.h>

#include "paths/coder_private.h"

#define WIDE "avx512f,avx512bw,avx512vl,bmi,bmi2,popcnt"

bool coder_is_wide(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi") &&
	       __builtin_cpu_supports("bmi2");
}

/* Sixteen symbols, each + 1. */
static inline __attribute__((target(WIDE))) __m512i sixteen(const uint32_t *symbols)
{
	return _mm512_add_epi32(_mm512_loadu_si512(symbols), _mm512_set1_epi32(1));
}

static inline __attribute__((target(WIDE))) __m512i sixteen_longs(const uint32_t *symbols,
								  unsigned bits)
{
	static const uint32_t factors[CODER_REACH] = { ORDER3_FACTORS };
	__m128i shift = _mm_cvtsi32_si128((int)(32 - bits));
	__m512i key = _mm512_setzero_si512();

#pragma GCC unroll 4
	for (unsigned i = 0; i < CODER_REACH; i++)
		key = _mm512_add_epi32(key, _mm512_mullo_epi32(sixteen(symbols - 1 - i),
							       _mm512_set1_epi32((int)factors[i])));
	key = _mm512_mullo_epi32(_mm512_xor_si512(key, _mm512_srli_epi32(key, 15)),
				 _mm512_set1_epi32((int)ORDER3_FACTOR_LAST));
	return _mm512_slli_epi32(_mm512_srl_epi32(key, shift), ORDER3_SIZE_BITS);
}

static inline __attribute__((target(WIDE))) __m512i sixteen_shorts(const uint32_t *symbols)
{
	__m512i last = _mm512_loadu_si512(symbols - 1);

	return _mm512_srli_epi32(_mm512_slli_epi32(last, 32 - ORDER1_BITS),
				 32 - ORDER1_BITS - ORDER1_SIZE_BITS);
}

static __attribute__((target(WIDE))) void offsets_find(const uint32_t *symbols, size_t count,
						       unsigned bits, struct coder_offsets *ret)
{
	size_t i = 0;

	for (; i + 16 <= count; i += 16) {
		_mm512_storeu_si512(ret->order3 + i, sixteen_longs(symbols + i, bits));
		_mm512_storeu_si512(ret->order1 + i, sixteen_shorts(symbols + i));
		_mm256_storeu_si256((__m256i *)(ret->lows + i),
				    _mm512_cvtepi32_epi16(sixteen(symbols + i)));
	}
	for (; i < count; i++) {
		ret->order3[i] = order3_offset(symbols + i, bits);
		ret->order1[i] = order1_offset(symbols + i);
		ret->lows[i] = (uint16_t)(symbols[i] + 1);
	}
}

/*
 * The words of the order-3 context in the register; words of the second register count from 16 on.
 */
enum { ORDER3_WORDS = 7, FIRST = 16 };

/* As view_update() in coder_private.h, and returns the rank. */
static inline __attribute__((target(WIDE))) unsigned contexts_update(const struct coder *coder,
								     struct coder_order3 *order3,
								     struct coder_order1 *order1,
								     uint16_t value)
{
	const __m256i around = _mm256_setr_epi16(0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	const __m256i later =
		_mm256_setr_epi16(FIRST, 0, 1, FIRST, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14);
	__m256i first = _mm256_set1_epi16((short)value), both;
	unsigned offsets;
	size_t rank;
	__m128i longer;

	both = _mm256_mask_permutexvar_epi16(
		_mm256_load_si256((const __m256i *)order1), ORDER3_WORDS, around,
		_mm256_castsi128_si256(_mm_loadl_epi64((const __m128i *)order3)));
	/*
	 * The mask register instruction keeps GCC from going on with 16-bit registers, which is
	 * slower.
	 */
	offsets = _cvtmask16_u32(_kor_mask16(_mm256_cmpeq_epi16_mask(both, first), 1 << ESCAPE));
	rank = _tzcnt_u64(offsets);
	both = _mm256_mask_permutex2var_epi16(both, (__mmask16)_blsmsk_u32(offsets), later, first);
	_mm256_store_si256((__m256i *)order1, both);
	longer = _mm_insert_epi16(_mm256_castsi256_si128(both),
				  coder->state_next[order3->state % CODER_STATES][rank],
				  CODER_ORDER3);
	_mm_storel_epi64((__m128i *)order3, longer);
	return (unsigned)rank;
}

static __attribute__((target(WIDE))) void ranks_find(struct coder *coder,
						     const struct coder_offsets *offsets,
						     size_t count, size_t fetched, uint16_t *events)
{
	struct coder_order3 *order3 = coder->order3;
	struct coder_order1 *order1 = coder->order1;

#pragma GCC unroll 2
	for (size_t i = 0; i < count; i++) {
		size_t ahead = i + FETCH_AHEAD < fetched ? i + FETCH_AHEAD : i;
		struct coder_order3 *longer = order3_at(order3, offsets->order3[i]);
		struct coder_order1 *shorter = order1_at(order1, offsets->order1[i]);
		unsigned cdf = cdf_of_rank(longer, shorter);

		__builtin_prefetch(order3_at(order3, offsets->order3[ahead]), 1);
		__builtin_prefetch(order1_at(order1, offsets->order1[ahead]), 1);
		events[i] = (uint16_t)(cdf * 16 +
				       contexts_update(coder, longer, shorter, offsets->lows[i]));
	}
}

static __attribute__((target(WIDE))) size_t
escaped_take(const uint32_t *symbols, const uint16_t *events, size_t count, uint32_t *ret)
{
	const __m512i escaped = _mm512_set1_epi32(ESCAPE);
	size_t taken = 0, i = 0;

	for (; i + 16 <= count; i += 16) {
		__m512i sixteen =
			_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(events + i)));
		__mmask16 those =
			_mm512_cmpeq_epi32_mask(_mm512_and_si512(sixteen, escaped), escaped);

		_mm512_storeu_si512(ret + taken, _mm512_maskz_compress_epi32(
							 those, _mm512_loadu_si512(symbols + i)));
		taken += (size_t)__builtin_popcount(those);
	}
	for (; i < count; i++) {
		ret[taken] = symbols[i];
		taken += events[i] % 16 == ESCAPE;
	}
	return taken;
}

const struct coder_steps coder_steps_wide = {
	.offsets_find = offsets_find,
	.ranks_find = ranks_find,
	.escaped_take = escaped_take,
};
