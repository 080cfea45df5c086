/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Call trees for flame graphs of other things than samples: the time that threads waited, by the
 * stack at which they left the processor; the calls of threads, by path; and the instructions that
 * were executed, by their stack. Each thread has rows of its own, so that a picture can be of one
 * of them, and of any metric.
 */
#pragma once

#include "analyse/calltree.h"
#include "analyse/instruction.h"
#include "base/map.h"

enum { FLAME_METRICS = 6 };

struct flame_metric {
	const char *name, *title;
	const char *unit; /* "ns", or what is counted */
};

struct flame_function {
	uint32_t name, module; /* in `texts` */
};

/* One for each node, thread and label that has any, in this order. */
struct flame_row {
	uint32_t node, thread;
	uint32_t label; /* in `texts`: why a thread waited; else "" */
	uint64_t amounts[FLAME_METRICS]; /* without what is below the node */
};

struct flame {
	const char *name; /* "waits", "calls" or "executed" */
	struct flame_metric metrics[FLAME_METRICS];
	size_t metric_count;
	struct strtab texts;
	ARRAY(struct flame_function) functions;
	/* [0] is the root; parents come first; functions are those above */
	ARRAY(struct calltree_node) nodes;
	ARRAY(struct flame_row) rows;
};

/* All need flame_deinit() also after a failure. */
void flame_waits(struct flame *flame, const struct profile *profile);
int flame_calls(struct flame *flame, const struct profile *profile);
/* Needs what executed_stacks_init() needs. */
int flame_executed(struct flame *flame, const struct profile *profile,
		   const struct code_source *code);
void flame_deinit(struct flame *flame);
