/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the programs of the test of value profiles share. Each calls work() for ever, and each call
 * does exactly the same, so that the values of one call, counted one by one, are those of any
 * sample.
 */
#pragma once

#include <stdint.h>

#define APART __attribute__((noinline, noclone))

static inline uint32_t random_next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

APART void work(void);
