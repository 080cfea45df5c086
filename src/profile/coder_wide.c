// SPDX-License-Identifier: BSD-2-Clause
/* Both contexts of a symbol are one register here, the chances of a nibble the part of one. */
#include "profile/coder_wide.h"

#include <assert.h>
#include <immintrin.h>
#include <string.h>

#include "base/array.h"

/* lzcnt, for which there is no name that all compilers know, came before all of these. */
bool coder_is_wide(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi") &&
	       __builtin_cpu_supports("bmi2");
}

/* For all that follows. */
#ifdef __clang__
#pragma clang attribute push(                                                                      \
	__attribute__((target("avx512f,avx512bw,avx512vl,bmi,bmi2,lzcnt,popcnt"))),                \
	apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512vl,bmi,bmi2,lzcnt,popcnt")
#endif

#include "profile/coder_model.h"

/* Both contexts are one register: the long one's symbols lie before those of the short one. */
enum { LONG_WORDS = 7, FIRST = 16 }; /* words of a second register are numbered from 16 on */

static inline void nibble_learn(struct coder_nibble *nibble, unsigned value)
{
	__m256i old = _mm256_load_si256((const __m256i *)nibble);
	__m256i target = _mm256_load_si256((const __m256i *)&targets[value]);
	__m256i step = _mm256_srai_epi16(_mm256_sub_epi16(target, old), RATE);

	_mm256_store_si256((__m256i *)nibble, _mm256_add_epi16(old, step));
}

/* The symbols before 16 places. */
static inline __m512i sixteen(const uint32_t *symbols)
{
	return _mm512_add_epi32(_mm512_loadu_si512(symbols), _mm512_set1_epi32(1));
}

static inline __m512i sixteen_longs(const uint32_t *symbols, unsigned bits)
{
	static const uint32_t factors[CODER_REACH] = { LONG_FACTORS };
	__m128i shift = _mm_cvtsi32_si128((int)(32 - bits));
	__m512i key = _mm512_setzero_si512();

#pragma GCC unroll 4
	for (unsigned i = 0; i < CODER_REACH; i++)
		key = _mm512_add_epi32(key, _mm512_mullo_epi32(sixteen(symbols - 1 - i),
							       _mm512_set1_epi32((int)factors[i])));
	key = _mm512_mullo_epi32(_mm512_xor_si512(key, _mm512_srli_epi32(key, 15)),
				 _mm512_set1_epi32((int)LONG_FACTOR_LAST));
	return _mm512_slli_epi32(_mm512_srl_epi32(key, shift), LONG_SIZE_BITS);
}

static inline __m512i sixteen_shorts(const uint32_t *symbols)
{
	__m512i last = _mm512_loadu_si512(symbols - 1);

	return _mm512_srli_epi32(_mm512_slli_epi32(last, 32 - SHORT_BITS),
				 32 - SHORT_BITS - SHORT_SIZE_BITS);
}

/* Reads nothing behind the last symbol. */
static inline void places_find(const uint32_t *symbols, size_t count, unsigned bits,
			       struct coder_places *ret)
{
	size_t i = 0;

	for (; i + 16 <= count; i += 16) {
		_mm512_storeu_si512(ret->longs + i, sixteen_longs(symbols + i, bits));
		_mm512_storeu_si512(ret->shorts + i, sixteen_shorts(symbols + i));
		_mm256_storeu_si256((__m256i *)(ret->lows + i),
				    _mm512_cvtepi32_epi16(sixteen(symbols + i)));
	}
	for (; i < count; i++) {
		ret->longs[i] = long_place(symbols + i, bits);
		ret->shorts[i] = short_place(symbols + i);
		ret->lows[i] = (uint16_t)(symbols[i] + 1);
	}
}

static inline uint32_t greatest_of(const uint32_t *symbols, size_t count, uint32_t greatest)
{
	__m512i most = _mm512_set1_epi32((int)greatest);
	size_t i = 0;

	for (; i + 16 <= count; i += 16)
		most = _mm512_max_epu32(most, _mm512_loadu_si512(symbols + i));
	most = _mm512_mask_max_epu32(
		most, (__mmask16)_bzhi_u32(0xffff, (unsigned)(count - i)), most,
		_mm512_maskz_loadu_epi32((__mmask16)_bzhi_u32(0xffff, (unsigned)(count - i)),
					 symbols + i));
	return _mm512_reduce_max_epu32(most);
}

/* As in coder.c, where view_learn() explains it. */
static inline unsigned contexts_put(struct coder_long *far, struct coder_short *near,
				    uint16_t value, bool named)
{
	const __m256i around = _mm256_setr_epi16(0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	const __m256i later =
		_mm256_setr_epi16(FIRST, 0, 1, FIRST, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14);
	__m256i first = _mm256_set1_epi16((short)value), both;
	unsigned places;
	size_t rank;
	__m128i longs;

	both = _mm256_mask_permutexvar_epi16(
		_mm256_load_si256((const __m256i *)near), LONG_WORDS, around,
		_mm256_castsi128_si256(_mm_loadl_epi64((const __m128i *)far)));
	/* Put together where masks are: GCC would go on with 16 bits elsewhere, which takes more. */
	places = _cvtmask16_u32(
		_kor_mask16(named ? _mm256_cmpeq_epi16_mask(both, first) : 0, 1 << SPELLED));
	rank = _tzcnt_u64(places);
	both = _mm256_mask_permutex2var_epi16(both, (__mmask16)_blsmsk_u32(places), later, first);
	_mm256_store_si256((__m256i *)near, both);
	longs = _mm_insert_epi16(_mm256_castsi256_si128(both), state_next[far->state][rank],
				 CODER_LONG);
	_mm_storel_epi64((__m128i *)far, longs);
	return (unsigned)rank;
}

/* Up to sixteen more than are taken are written. */
static inline size_t spelled_take(const uint32_t *symbols, const uint16_t *events, size_t count,
				  uint32_t *ret)
{
	const __m512i spelled = _mm512_set1_epi32(SPELLED);
	size_t taken = 0, i = 0;

	for (; i + 16 <= count; i += 16) {
		__m512i sixteen =
			_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(events + i)));
		__mmask16 those =
			_mm512_cmpeq_epi32_mask(_mm512_and_si512(sixteen, spelled), spelled);

		_mm512_storeu_si512(ret + taken, _mm512_maskz_compress_epi32(
							 those, _mm512_loadu_si512(symbols + i)));
		taken += (size_t)__builtin_popcount(those);
	}
	for (; i < count; i++) {
		ret[taken] = symbols[i];
		taken += events[i] % 16 == SPELLED;
	}
	return taken;
}

#include "profile/coder_code.h"

void coder_put_many_wide(struct coder *coder, const uint32_t *symbols, size_t count)
{
	put_many(coder, symbols, count);
}

#ifdef __clang__
#pragma clang attribute pop
#endif
