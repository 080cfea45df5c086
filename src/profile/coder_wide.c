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
	       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("bmi2");
}

/* For all that follows. */
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx512bw,bmi,bmi2"))),        \
			     apply_to = function)
#else
#pragma GCC target("avx512f,avx512vl,avx512bw,bmi,bmi2")
#endif

#include "profile/coder_model.h"

/* So many words from the front on. */
#define FRONT(words) ((1 << ((words) > 0 ? (words) : 0)) - 1)

/* By rank: which words of the contexts are replaced by those before them. */
static const struct {
	uint16_t longs, shorts;
} moves[SPELLED + 1] = {
#define MOVE(rank)                                                                                 \
	{                                                                                          \
		FRONT((rank) < CODER_LONG ? (rank) + 1 : CODER_LONG),                              \
			FRONT((rank) < SPELLED ? (rank)-CODER_LONG + 1 : CODER_SHORT)              \
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

struct coder_view {
	__m128i longs;
	__m512i shorts;
	unsigned state;
	struct coder_nibble *nibble;
};

static inline void view_take(struct coder *coder, const struct coder_long *far,
			     const struct coder_short *near, struct coder_view *view)
{
	view->longs = _mm_load_si128((const __m128i *)far);
	view->shorts = _mm512_load_si512(near);
	view->state = far->state % STATES;
	view->nibble = nibble_of(coder, far, near);
}

static inline unsigned rank_of(const struct coder_view *view, uint32_t value)
{
	unsigned longs = _mm_mask_cmpeq_epi32_mask(FRONT(CODER_LONG), view->longs,
						   _mm_set1_epi32((int)value));
	unsigned shorts = _mm512_mask_cmpeq_epi32_mask(FRONT(CODER_SHORT), view->shorts,
						       _mm512_set1_epi32((int)value));

	return (unsigned)__builtin_ctz(longs | shorts << CODER_LONG | 1 << SPELLED);
}

static inline void view_learn(const struct coder_view *view, struct coder_long *far,
			      struct coder_short *near, unsigned rank, uint32_t value)
{
	__m512i first = _mm512_set1_epi32((int)value);
	unsigned place = (rank > 0) + (rank >= CODER_LONG);
	__m128i longs = _mm_alignr_epi32(view->longs, _mm512_castsi512_si128(first), 3);
	__m512i shorts = _mm512_alignr_epi32(view->shorts, first, 15);

	longs = _mm_mask_mov_epi32(view->longs, (__mmask8)moves[rank].longs, longs);
	longs = _mm_insert_epi32(longs, state_next[place][view->state], CODER_LONG);
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
