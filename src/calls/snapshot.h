/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A tree of calls at one moment, with everything that is a sum: cumulative and elapsed amounts of
 * each node, the nodes of each routine, and an order in which parents come before children.
 *
 * It is made from a tree that is being built, in this process or in another one. The head and the
 * nodes are checked: links to nodes that do not exist, and cycles, are errors.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "base/map.h"
#include "wire/call_area.h"
#include "wire/call_tree.h"

struct call_snapshot {
	struct call_tree_head head;
	char *nodes;
	/* the nodes that are reached, parents before children, the oldest child first */
	uint32_t *order;
	uint32_t reached;
	struct call_amount
		*sums; /* cumulative and elapsed: of node n, metric i, at n * metrics + i */
	uint64_t *samples; /* of node n and of all below it */
	uint32_t *after; /* by place in the order: the place behind the last node below */
	struct map routines; /* routine to the first node, from where `instance` leads on */
};

/*
 * room: how many nodes lie at `nodes` at most. -EAGAIN: the tree was being changed all the time;
 * try again later. -EINVAL: it is not a tree.
 */
int call_snapshot_take(struct call_snapshot *snapshot, const struct call_tree_head *head,
		       const void *nodes, uint32_t room);
void call_snapshot_deinit(struct call_snapshot *snapshot);

/*
 * Takes the cost of the measurement off the first metric: each interval between two events was
 * longer by so much. A node has an interval for each of its calls, and one for each call that came
 * back to it. What is left may be below 0.
 */
void call_snapshot_settle(struct call_snapshot *snapshot, uint64_t overhead);
/*
 * The cost of the measurement as far as it can be true. It was measured before the program ran, and
 * the same code may be cheaper within it, where a compiler has inlined it: it cannot be more than
 * the mean interval of a node, or of a routine, that has many.
 */
uint64_t call_snapshot_overhead(const struct call_snapshot *snapshot, uint64_t overhead);

/*
 * Removes routines that are not wanted: their own amounts are added to the node of the caller, and
 * their callees become children of it. Equal paths that result become one.
 */
int call_snapshot_fold(struct call_snapshot *snapshot, bool (*wanted)(void *ctx, uint64_t routine),
		       void *ctx);

static inline struct call_node *call_snapshot_node(const struct call_snapshot *snapshot,
						   uint32_t number)
{
	return (struct call_node *)(snapshot->nodes +
				    (uint64_t)number * call_node_size(snapshot->head.metrics));
}

static inline const struct call_amount *call_snapshot_sum(const struct call_snapshot *snapshot,
							  uint32_t number, uint32_t metric)
{
	return &snapshot->sums[(uint64_t)number * snapshot->head.metrics + metric];
}

/* Names of a thread's tasks, by number. */
struct call_task_names {
	char (*items)[CALL_THREAD_NAME];
	uint32_t count;
};

/* tasks: of another process, which may change it at any time. */
void call_task_names_copy(const struct call_tasks *tasks, uint32_t count,
			  struct call_task_names *ret);
/* Never NULL. */
const char *call_task_name(const struct call_task_names *names, uint64_t routine);

/* Whether any node is a task. */
bool call_snapshot_has_tasks(const struct call_snapshot *snapshot);
/*
 * The tree of a thread, or of a task, by itself: what lies below a node, without the tasks there.
 * at: place in the order; the root is at 0.
 */
int call_snapshot_part(const struct call_snapshot *snapshot, uint32_t at,
		       struct call_snapshot *ret);

/* What one thread did, up to its end or to the moment it was looked at. */
struct call_result {
	uint32_t pid;
	uint32_t tid;
	uint32_t parent; /* pid of the process that forked this one, or 0 */
	bool ended;
	uint64_t started; /* ticks */
	uint64_t lasted; /* ticks */
	char name[CALL_THREAD_NAME + 1];
	bool java; /* times are in ns, and there are the metrics of Java */
	bool untimed; /* calls were only counted, whatever metrics the tree has room for */
	double tick; /* ns for each tick of the tree's time */
	uint32_t kinds; /* how many metrics have a kind that was told; 0: the first is time */
	uint8_t metric_kinds[CALL_METRICS_MAX]; /* enum call_metric */
	uint64_t program; /* of events: a number that is the program's, growing; 0: of none */
	struct call_task_names tasks;
	struct call_snapshot snapshot;
};

struct call_results {
	struct call_result *items;
	size_t count;
	size_t capacity;
};

void call_result_deinit(struct call_result *result);
void call_results_deinit(struct call_results *results);
