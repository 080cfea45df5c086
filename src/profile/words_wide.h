/* SPDX-License-Identifier: BSD-2-Clause */
/* Comparing a few symbols, for code that is compiled for AVX-512: they are one register. */
#pragma once

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

/* As words_different_short(). */
static inline uint32_t few_different(const uint32_t *a, const uint32_t *b, size_t count)
{
	__mmask16 different =
		_mm512_cmpneq_epi32_mask(_mm512_loadu_si512(a), _mm512_loadu_si512(b));

	return _bzhi_u32(different, (uint32_t)count);
}
