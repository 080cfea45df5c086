/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cycles that a profile keeps, unpacked: what they hold, how often they were run, and what a
 * trip of them is in instructions.
 *
 *	struct order_cycles cycles;
 *	order_cycles_init(&cycles);
 *	err = order_cycles_add(&cycles, &code, levels);		for each process, in order
 *	order_cycles_deinit(&cycles);
 */
#pragma once

#include "analyse/order.h"
#include "paths/cyclepack.h"

struct order_cycle {
	uint32_t process;
	unsigned level; /* 0 paths, 1 strata, 2 + n stratum layer n */
	uint64_t number;
	uint64_t trips, repeats;
	uint64_t weight; /* instructions of a trip; all trips of a level fit in an int64_t */
	uint64_t symbols; /* index of its first */
	uint32_t length;
};

struct order_cycles {
	ARRAY(struct order_cycle) items; /* by process, level, number */
	struct cyclepack_reader reader;
};

void order_cycles_init(struct order_cycles *cycles);
void order_cycles_deinit(struct order_cycles *cycles);
/*
 * Those of a process and of levels below `levels`. A cycle that holds another which is not in the
 * profile is left out: a recorder that is killed has written those above and not those below.
 */
int order_cycles_add(struct order_cycles *cycles, const struct order_code *code, unsigned levels);
/* NULL: it is not kept. */
const struct order_cycle *order_cycle_find(const struct order_cycles *cycles, uint32_t process,
					   unsigned level, uint64_t number);
/* NULL for paths; there are `length` of them, at least one. */
const struct flow_symbol *order_cycle_symbols(const struct order_cycles *cycles,
					      const struct order_cycle *cycle);
