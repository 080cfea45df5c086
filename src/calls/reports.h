/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports of a tree of calls for one metric: the tree itself, each routine, and each routine with
 * its callers and callees.
 *
 * A routine that is on a path more than once counts once: its cumulative and elapsed amounts are
 * those of its outermost calls, so that no share exceeds the whole. An amount below two calls of
 * the same routine belongs to the inner one: a child row holds what was used below the routine's
 * call of that child, down to the next call of the routine itself on the path. In each stanza then,
 * and this is checked:
 * 1. the parents' calls are the routine's calls,
 * 2. the parents' base is the routine's base,
 * 3. the parents' cumulative amounts are the routine's cumulative amount,
 * 4. the children's cumulative amounts are the routine's without its base.
 * A thread has no parent, so only the last holds for it.
 */
#pragma once

#include <stdint.h>

#include "base/array.h"
#include "base/map.h"
#include "calls/snapshot.h"

struct call_row {
	uint64_t routine;
	uint64_t calls;
	uint64_t base;
	uint64_t cum;
	uint64_t elapsed;
	uint64_t samples; /* of the node or routine itself */
	uint32_t level;
	uint32_t recursion; /* of a routine: that of its deepest call */
	uint32_t node; /* of a row of the tree */
};

struct call_rows {
	struct call_row *items;
	size_t count;
	size_t capacity;
};

struct call_stanza {
	struct call_row self;
	struct call_row *parents; /* by cumulative amount, the largest first */
	uint32_t parent_count;
	struct call_row *children; /* the same */
	uint32_t child_count;
};

/* One or more snapshots added up: all threads of a process, say. */
struct call_stanzas {
	struct call_stanza *items; /* by cumulative amount, the largest first */
	size_t count;
	struct call_row *edges; /* the rows that parents and children point to */
};

/* Rows in the tree's order. A metric that the tree has not gives amounts of 0. */
void call_report_tree(const struct call_snapshot *snapshot, uint32_t metric, struct call_rows *ret);

/* The four sums are checked; -EINVAL: they disagree. */
int call_report_stanzas(const struct call_snapshot *const *snapshots, size_t count, uint32_t metric,
			struct call_stanzas *ret);
void call_stanzas_deinit(struct call_stanzas *stanzas);
