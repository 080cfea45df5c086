/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Comparing and copying symbols. Most sequences of them are short, so that calling memcmp() or
 * memcpy() would be most of the work.
 */
#pragma once

#include <emmintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline __m128i words_four(const uint32_t *words)
{
	return _mm_loadu_si128((const __m128i *)words);
}

/* A pointer by which items are found at base + index. */
static inline const uint32_t *words_based(const uint32_t *items, size_t base)
{
	return (const uint32_t *)((uintptr_t)items - base * sizeof(*items));
}

static inline void words_four_copy(uint32_t *to, const uint32_t *from)
{
	_mm_storeu_si128((__m128i *)to, words_four(from));
}

/* The last four words may overlap those copied before. */
static inline void words_copy(uint32_t *to, const uint32_t *from, size_t count)
{
	if (count < 4) {
		for (size_t i = 0; i < count; i++)
			to[i] = from[i];
		return;
	}
	for (size_t i = 0; i < count - 4; i += 4)
		words_four_copy(to + i, from + i);
	words_four_copy(to + count - 4, from + count - 4);
}

static inline bool words_same(const uint32_t *a, const uint32_t *b, size_t count)
{
	size_t i = 0;

	for (; i + 4 <= count; i += 4)
		if (_mm_movemask_epi8(_mm_cmpeq_epi32(words_four(a + i), words_four(b + i))) !=
		    0xffff)
			return false;
	for (; i < count; i++)
		if (a[i] != b[i])
			return false;
	return true;
}

/*
 * A bit for each of at most 16 words that differ; 16 can be read. No branch depends on the count.
 * For a greater count the result means nothing.
 */
static inline uint32_t words_different_short(const uint32_t *a, const uint32_t *b, size_t count)
{
	__m128i equal[4];

#pragma GCC unroll 4
	for (unsigned i = 0; i < 4; i++)
		equal[i] = _mm_cmpeq_epi32(words_four(a + i * 4), words_four(b + i * 4));
	return ~(uint32_t)_mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(equal[0], equal[1]),
							    _mm_packs_epi32(equal[2], equal[3]))) &
	       ((1u << count % 32) - 1);
}

static inline bool words_same_short(const uint32_t *a, const uint32_t *b, size_t count)
{
	return !words_different_short(a, b, count);
}
