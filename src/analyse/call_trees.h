/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The trees of calls of a profile: rows of call_node and call_amount in; out, trees for
 * calls/reports.h and call_tables.h.
 */
#pragma once

#include "analyse/call_tables.h"
#include "analyse/views.h"
#include "base/array.h"

struct call_trees {
	struct call_input input; /* the trees of the threads that the filter leaves */
	uint32_t *threads; /* of each result: index in the profile */
	struct call_results results; /* owned */
	struct call_name *names; /* owned */
	uint64_t **waited; /* of each result, by node; owned; NULL: not asked for */
	size_t name_count;
	ARRAY(char *) texts; /* of names that were made */
	const struct profile *profile;
	const struct filter *filter;
};

/*
 * Fails if the rows are no trees, or have no such cost. filter must outlive the trees; NULL: all
 * threads, all code.
 */
int call_trees_init(struct call_trees *trees, const struct profile *profile,
		    const struct filter *filter, enum call_cost cost);
void call_trees_deinit(struct call_trees *trees);

/* The view "tree" or "callgraph" of a profile's calls. */
int call_view(const char *view, const struct profile *profile, const struct view_request *request,
	      struct table **ret);
