/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The call paths of a profile, weighted by the samples that a filter selects: the common ground of
 * the views.
 *
 * A stack node is one code address; a slot is one source-level frame of it, so that a function
 * inlined there is a frame like any other. Every location has at least one slot. What a view counts
 * by (functions, lines, modules) is an entity: a dense number per slot, 0 for slots that the view
 * leaves out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyse/filter.h"
#include "base/cleanup.h"
#include "store/profile.h"

struct slot {
	uint32_t location;
	uint32_t module;
	uint32_t symbol; /* 0: unknown */
	uint32_t file; /* 0: unknown */
	uint32_t line; /* 0: unknown */
};

struct forest {
	const struct profile *profile;
	struct slot *slots; /* of location l: from slots[first[l]] on, innermost first */
	size_t slot_count;
	uint32_t *first; /* by location */
	uint64_t *own; /* by stack node: selected samples that end there; [0]: without a stack */
	uint64_t *kernel; /* of own */
	uint64_t *cum; /* own and everything below; [0]: unused */
	uint32_t *child; /* by stack node, first child; [0]: first outermost frame; 0 none */
	uint32_t *sibling; /* next child of the same parent; 0 none */
	uint64_t selected;
};

/*
 * How the filter's symbols and modules are used: to choose the rows of a view that lists code, or
 * to choose the samples that have such code anywhere in their stack.
 */
enum forest_code_filter { FOREST_CODE_ROWS, FOREST_CODE_SAMPLES };

struct forest *forest_create(const struct profile *profile, const struct filter *filter,
			     enum forest_code_filter code);
void forest_destroy(struct forest *forest);
DEFINE_AUTO(struct forest, forest_destroy)

/* By stack node: whether it or a node above has code that the filter selects; heap memory. */
bool *forest_nodes_with_code(const struct forest *forest, const struct filter *filter);

/* The location of a node and the range of its slots, innermost first. */
static inline uint32_t forest_slot_begin(const struct forest *forest, uint32_t node)
{
	return forest->first[forest->profile->stacks[node].location];
}

static inline uint32_t forest_slot_end(const struct forest *forest, uint32_t node)
{
	return forest->first[forest->profile->stacks[node].location + 1];
}

/* Calls enter and leave for each node with samples, as a depth-first walk; leave may be NULL. */
typedef void (*forest_visit_fn)(void *ctx, uint32_t node);
void forest_walk(const struct forest *forest, forest_visit_fn enter, forest_visit_fn leave,
		 void *ctx);

/*
 * Functions as entities: a symbol; or all nameless code of a module; or a mark. Filtered: slots
 * whose symbol or module the filter rejects get 0; filter NULL: none do.
 */
struct functions {
	uint32_t *entity; /* by slot */
	size_t count; /* entities are below this */
	const struct profile *profile;
};

void functions_init(struct functions *functions, const struct forest *forest,
		    const struct filter *filter);
void functions_deinit(struct functions *functions);
const char *functions_name(const struct functions *functions, uint32_t entity);
uint32_t functions_module(const struct functions *functions, uint32_t entity);
/* 0 when the function has no symbol. */
uint32_t functions_symbol(const struct functions *functions, uint32_t entity);
bool functions_inlined(const struct functions *functions, uint32_t entity);

/*
 * Samples per entity: self when the innermost slot is of it, total when any is. A sample counts
 * once in a total however often a recursion puts the entity on its stack.
 */
struct costs {
	uint64_t *self;
	uint64_t *total;
};

void costs_init(struct costs *costs, const struct forest *forest, const uint32_t *entity,
		size_t count);
void costs_deinit(struct costs *costs);
