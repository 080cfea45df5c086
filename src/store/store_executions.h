/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the rows of execution_recent are coded: blocks in ascending order, each with what is added to
 * its count. That may be negative: a program can write anything to counters that are its own.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct execution_cursor {
	const uint8_t *at, *end;
	uint32_t block; /* the one before, and then the one that was read; 0 at first */
	uint64_t count; /* modulo 2^64 */
};

/* Seven bits in each byte, the lowest first; all but the last byte have the eighth bit. */
static inline bool execution_number(struct execution_cursor *cursor, uint64_t *ret)
{
	uint64_t number = 0;

	for (unsigned shift = 0; cursor->at < cursor->end && shift < 64; shift += 7) {
		uint8_t byte = *cursor->at++;

		number |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*ret = number;
			return true;
		}
	}
	return false;
}

/* The next block and its count; false: there is none, or what is there makes no sense. */
static inline bool execution_next(struct execution_cursor *cursor)
{
	uint64_t step, folded;

	if (!execution_number(cursor, &step) || !step || step > UINT32_MAX - cursor->block ||
	    !execution_number(cursor, &folded))
		return false;
	cursor->block += (uint32_t)step;
	cursor->count = folded >> 1 ^ -(folded & 1);
	return true;
}

/* The number that stands for a count: small for small ones of either sign. */
static inline uint64_t execution_folded(uint64_t count)
{
	return count << 1 ^ -(count >> 63);
}
