/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The heat of blocks (how many instructions, loads, branches ... one execution does), from the code
 * that can still be found.
 */
#pragma once

#include "analyse/instruction.h"
#include "phases/heat.h"
#include "store/profile.h"

struct heats {
	const struct profile *profile;
	struct code_cache code;
	struct heat *items; /* by block */
	uint8_t *states; /* by block */
};

void heats_init(struct heats *heats, const struct profile *profile,
		const struct code_source *source);
void heats_deinit(struct heats *heats);
/*
 * *ret_known is false where the code is nowhere: then only instructions are counted. May be NULL.
 */
const struct heat *heats_of(struct heats *heats, uint32_t block, bool *ret_known);
