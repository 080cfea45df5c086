/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Repeated cycles as symbols: a pair of cycle and trips gets a number, dense from 0 on. That number is the symbol which
 * the next layer sees: two repeated cycles are the same symbol if they are the same cycle the same number of times.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/array.h"

#define REPEATS_FULL UINT32_MAX

struct repeat {
	uint64_t trips;
	uint32_t slot; /* of the cycle in its table */
};

struct repeats {
	ARRAY(struct repeat) items; /* by symbol */
	uint64_t few; /* who uses it finds pairs of so many trips by himself */
	uint32_t *places; /* of the others: symbol + 1; 0: free; at most half in use */
	size_t mask;
	size_t placed;
	size_t memory; /* bytes of both */
};

void repeats_init(struct repeats *repeats, uint64_t few, size_t memory);
void repeats_deinit(struct repeats *repeats);
/* A pair that is new; REPEATS_FULL if there is no memory for it. */
uint32_t repeats_add(struct repeats *repeats, uint32_t slot, uint64_t trips);
/* The same if it is new; of more than few trips. */
uint32_t repeats_intern(struct repeats *repeats, uint32_t slot, uint64_t trips);
/* In steps, for who has several: where the pair belongs, fetched; then the repeat that is there. */
uint32_t repeats_hash(uint32_t slot, uint64_t trips);
void repeats_fetch(const struct repeats *repeats, uint32_t hash);
void repeats_fetch_item(const struct repeats *repeats, uint32_t hash);
void repeats_clear(struct repeats *repeats);
size_t repeats_memory(const struct repeats *repeats);
