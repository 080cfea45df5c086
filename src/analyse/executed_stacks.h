/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Presents executed code as if every instruction had been a sample: for trees, call graphs,
 * differences and exports, which are written for samples.
 */
#pragma once

#include "analyse/instruction.h"
#include "analyse/table.h"
#include "store/profile.h"

/*
 * The profile with stacks and samples made of what was executed; seen, kept and losses are in
 * instructions, or in blocks where these were only marked. Stacks are rebuilt from the order of
 * execution; what has none is one frame. Needs DOMAIN_EXECUTED and names, and DOMAIN_PATHS where
 * the profile has it. It lives as long as the profile and ends with executed_stacks_deinit(), also
 * after a failure. -EBADMSG: the order is damaged.
 */
int executed_stacks_init(struct profile *part, const struct profile *profile,
			 const struct code_source *code);
void executed_stacks_deinit(struct profile *part);
/* Totals of a table that came from such a profile, so that it may live longer. */
void executed_totals_own(struct table *table);
