/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The call tree of a profile by function, as a flame graph draws it. Stacks that differ only in
 * addresses are one node, and each sample is at the node that it was taken in.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyse/forest.h"
#include "base/array.h"

struct calltree_node {
	uint32_t parent; /* comes before; 0: the root, which is no function */
	uint32_t function; /* as numbered by calltree.functions */
};

/* One for each node, thread and moment that has any, in this order. */
struct calltree_sample {
	uint32_t node, thread;
	uint32_t second; /* at which the moment begins; 0 without time */
	uint64_t count;
};

struct calltree {
	struct forest *forest;
	struct functions functions;
	ARRAY(struct calltree_node)
	nodes; /* [0] is the root; each is followed by what is below it */
	ARRAY(struct calltree_sample) samples;
};

/*
 * Makes the tree of the samples that the filter selects; symbols and modules select those with such
 * a frame. by_time: moments are kept apart; the profile must have some.
 */
void calltree_init(struct calltree *tree, const struct profile *profile,
		   const struct filter *filter, bool by_time);
void calltree_deinit(struct calltree *tree);
