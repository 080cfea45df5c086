/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Repeated cycles as symbols: a pair of cycle and trips gets a number, dense from 0 on. That number
 * is the symbol which the next layer sees: two repeated cycles are the same symbol if they are the
 * same cycle the same number of times.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/array.h"

#define REPEATS_FULL UINT32_MAX

struct repeat {
	uint64_t trips;
	uint32_t slot; /* slot of the cycle in its table */
};

struct repeats {
	ARRAY(struct repeat) items; /* by symbol */
	uint64_t few; /* pairs of at most so many trips have no place: the user finds them */
	uint32_t *places; /* open addressing: symbol + 1; 0: free; at most half in use */
	size_t mask;
	size_t placed;
	size_t memory; /* bytes that items and places may take */
};

void repeats_init(struct repeats *repeats, uint64_t few, size_t memory);
void repeats_deinit(struct repeats *repeats);
/* Adds a pair that is new; REPEATS_FULL if there is no memory for it. */
uint32_t repeats_add(struct repeats *repeats, uint32_t slot, uint64_t trips);
/* Finds a pair of more than `few` trips, or adds it. */
uint32_t repeats_intern(struct repeats *repeats, uint32_t slot, uint64_t trips);
/*
 * The same in steps, for a user who has several: prefetch where a pair belongs, then the pair that
 * is there.
 */
uint32_t repeats_hash(uint32_t slot, uint64_t trips);
void repeats_fetch(const struct repeats *repeats, uint32_t hash);
void repeats_fetch_item(const struct repeats *repeats, uint32_t hash);
void repeats_clear(struct repeats *repeats);
size_t repeats_memory(const struct repeats *repeats);
