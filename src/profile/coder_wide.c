// SPDX-License-Identifier: BSD-2-Clause
/* A short context is one register here, a long one or the chances of a nibble the part of one. */
#include "profile/coder_wide.h"

#include <assert.h>
#include <immintrin.h>
#include <string.h>

#include "base/array.h"

bool coder_is_wide(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("bmi2");
}

/* For all that follows. */
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,bmi,bmi2"))),                 \
			     apply_to = function)
#else
#pragma GCC target("avx512f,avx512vl,bmi,bmi2")
#endif

#include "profile/coder_model.h"

/* So many words from the front on. */
#define FRONT(words) ((1 << ((words) > 0 ? (words) : 0)) - 1)

/* By rank: which words of the contexts are replaced by those before them; where in the long one the symbol was. */
static const struct {
	uint16_t shorts;
	uint8_t longs, place;
} moves[SPELLED + 1] = {
#define MOVE(rank)                                                                                 \
	{                                                                                          \
		FRONT((rank) < SPELLED ? (rank)-CODER_LONG + 1 : CODER_SHORT),                     \
			FRONT((rank) < CODER_LONG ? (rank) + 1 : CODER_LONG),                      \
			((rank) > 0) + ((rank) >= CODER_LONG)                                      \
	}
	SIXTEEN(MOVE)
#undef MOVE
};

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

/* Reads nothing behind the last symbol. */
static inline void long_places(const uint32_t *symbols, size_t count, unsigned bits, uint32_t *ret)
{
	static const uint32_t factors[CODER_REACH] = { LONG_FACTORS };
	__m128i shift = _mm_cvtsi32_si128((int)(32 - bits));
	size_t i = 0;

	for (; i + 16 <= count; i += 16) {
		__m512i key = _mm512_setzero_si512();

#pragma GCC unroll 4
		for (unsigned j = 0; j < CODER_REACH; j++)
			key = _mm512_add_epi32(
				key, _mm512_mullo_epi32(sixteen(symbols + i - 1 - j),
							_mm512_set1_epi32((int)factors[j])));
		key = _mm512_mullo_epi32(_mm512_xor_si512(key, _mm512_srli_epi32(key, 15)),
					 _mm512_set1_epi32((int)LONG_FACTOR_LAST));
		_mm512_storeu_si512(ret + i, _mm512_srl_epi32(key, shift));
	}
	for (; i < count; i++)
		ret[i] = long_place(symbols + i, bits);
}

struct coder_view {
	__m128i longs;
	__m512i shorts;
	unsigned state;
};

static inline void view_take(const struct coder_long *far, const struct coder_short *near,
			     struct coder_view *view)
{
	view->longs = _mm_load_si128((const __m128i *)far);
	view->shorts = _mm512_load_si512(near);
	view->state = far->state % STATES;
}

static inline void short_clear(struct coder_short *near)
{
	_mm512_store_si512(near, _mm512_setzero_si512());
}

/* What is behind the symbols of a short context is 0, which is no symbol's; behind those of a long one there is a state. */
static inline unsigned rank_of(const struct coder_view *view, uint32_t value)
{
	__m512i wanted = _mm512_set1_epi32((int)value);
	unsigned longs = _mm_cmpeq_epi32_mask(view->longs, _mm512_castsi512_si128(wanted));
	unsigned shorts = _mm512_cmpeq_epi32_mask(view->shorts, wanted);

	return (unsigned)__builtin_ctz((longs & FRONT(CODER_LONG)) | shorts << CODER_LONG |
				       1 << SPELLED);
}

static inline void view_learn(const struct coder_view *view, struct coder_long *far,
			      struct coder_short *near, unsigned rank, uint32_t value)
{
	__m512i first = _mm512_set1_epi32((int)value);
	__m128i longs = _mm_alignr_epi32(view->longs, _mm512_castsi512_si128(first), 3);
	__m512i shorts = _mm512_alignr_epi32(view->shorts, first, 15);

	longs = _mm_mask_mov_epi32(view->longs, moves[rank].longs, longs);
	longs = _mm_insert_epi32(longs, state_next[moves[rank].place][view->state], CODER_LONG);
	_mm_store_si128((__m128i *)far, longs);
	_mm512_store_si512(near, _mm512_mask_mov_epi32(view->shorts, moves[rank].shorts, shorts));
}

#include "profile/coder_code.h"

void coder_put_many_wide(struct coder *coder, const uint32_t *symbols, size_t count)
{
	put_many(coder, symbols, count);
}

#ifdef __clang__
#pragma clang attribute pop
#endif
