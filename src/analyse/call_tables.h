/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Trees of calls as tables: the tree of each thread, each function, and each between its callers
 * and callees.
 */
#pragma once

#include "analyse/call_samples.h"
#include "analyse/table.h"
#include "calls/snapshot.h"
#include "calls/reports.h"

struct call_name {
	const char *symbol;
	const char *module; /* NULL: unknown */
	/*
	 * symbol is a text that was made in place of a missing name; it lives as long as the input
	 */
	bool unnamed;
	uint32_t symbol_id, module_id; /* of the profile; 0: unknown */
};

struct call_input {
	/* routines of nodes are numbers of names, but for the special ones */
	struct call_result **results;
	size_t count;
	const struct call_name *names;
	double tick; /* ns */
	bool plain; /* what calls cost is not time; tick is 1 */
	bool sampled; /* tree: there is a recording of samples, if perhaps none on a path */
	struct call_samples_off off; /* tree: samples on no path */
	/* tree: by result and node, ns that were waited there; NULL: nobody looked */
	uint64_t *const *waited;
	struct call_samples_off waited_off; /* ns on no path */
	uint64_t kept; /* calls of all threads, whatever was selected; 0: those of the results */
	const struct profile_named_count *losses;
	size_t loss_count;
	double min_share; /* tree, callgraph: rows with less are left out */
	size_t limit; /* tree: rows; callgraph: functions; 0: all */
	/* tree, callgraph: rows that have to do with such routines; NULL: all */
	bool (*wanted)(const void *ctx, const struct call_name *name);
	const void *wanted_ctx;
};

/*
 * View "tree", "functions" or "callgraph". Fails if there is no such view, or if sums do not agree.
 */
int call_table_make(const char *view, const struct call_input *input, struct table **ret);

/* All threads together, by routine. -EINVAL: sums do not agree. */
int call_input_stanzas(const struct call_input *input, struct call_stanzas *ret);
/* calls: those that were selected. */
void call_totals_set(struct table *table, const struct call_input *input, uint64_t calls);
/* The name, which lives as long as the table. */
const char *call_name_text(struct table *table, const struct call_name *name);
