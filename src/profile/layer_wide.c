// SPDX-License-Identifier: BSD-2-Clause
/* Few symbols are one register here. */
#include "profile/layer_wide.h"

#include <immintrin.h>

/* For all that follows. */
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,bmi,bmi2"))), apply_to = function)
#else
#pragma GCC target("avx512f,bmi,bmi2")
#endif

#include "profile/words_wide.h"

#include "profile/layer_code.h"

size_t layer_take_wide(struct layer *layer, const struct scan *scan, size_t i)
{
	return guesses_take(layer, scan, i);
}

#ifdef __clang__
#pragma clang attribute pop
#endif
