/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A tree of call paths, built call by call: by the thread that runs, or from a trace of events.
 *
 * This file and tree.c need no library, take no lock and allocate nothing, so that they can live in
 * a hook inside the profiled program. Memory comes from the caller: head and nodes (which may be
 * shared with another process), frames and the cache of children (which are private).
 *
 * Invariants:
 * 1. The current node is the node of the top frame; each frame's node is a child of the node of the
 *    frame below it. Frame 0 is the thread's own node and is never popped.
 * 2. The amounts of all nodes add up to what was charged; pruning moves amounts, it never drops
 *    any.
 * 3. A node on the stack is never removed.
 * 4. Pruning happens only while more nodes are used than `limit`.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/call_tree.h"

/* What the stack pointers of entries and exits mean. */
enum call_stack_rule {
	CALL_STACK_UNKNOWN, /* there are none: exits are matched by routine */
	CALL_STACK_EXACT, /* equal at entry and exit of a frame; lower in the frames it calls */
	/* lower in the frames it calls; at the exit equal to the entry's, or lower */
	CALL_STACK_BOUND,
};

struct call_frame {
	/* the node; behind the top, of the call that was there last, or NULL */
	struct call_node *at;
	uint64_t sp;
	uint64_t entry; /* the head's total at the entry */
	uint32_t node;
};

enum { CALL_CACHE_SLOTS = 1024 };

struct call_tree {
	struct call_tree_head *head;
	char *nodes;
	struct call_frame *frames; /* as many as the limit of depth, and two; zeroes at first */
	struct call_frame *top;
	struct call_frame *deepest; /* the last one there is room for */
	uint32_t node_size;
	uint32_t deep; /* entries below the limit of depth that have no exit yet */
	enum call_stack_rule rule;
	uint64_t stack_low; /* bounds of the thread's own stack; both 0 if unknown */
	uint64_t stack_high;
	/*
	 * Room for more nodes, up to the capacity, or NULL if there is room for all from the start.
	 */
	void (*grow)(struct call_tree *tree);
	bool weighs_itself; /* nothing is pruned on exit: a sweep finds out what paths weigh */
	uint32_t cache[CALL_CACHE_SLOTS]; /* (parent, routine) to node; a hint */
};

struct call_tree_options {
	uint32_t metrics;
	uint32_t limit; /* nodes, at least 4 * depth_limit + 16 */
	uint32_t depth_limit;
	uint32_t prune_permille;
	enum call_stack_rule rule;
};

/* How many nodes there may be in all with this limit. */
static inline uint32_t call_tree_capacity(uint32_t limit)
{
	return limit + limit / 4;
}

/*
 * head, nodes and frames were set by the caller. Frames are zeroes; nodes has room for one node at
 * least if grow is set, for the whole capacity otherwise.
 */
void call_tree_init(struct call_tree *tree, const struct call_tree_options *options);

static inline struct call_node *call_tree_node(const struct call_tree *tree, uint32_t number)
{
	return (struct call_node *)(tree->nodes + (uint64_t)number * tree->node_size);
}

static inline struct call_node *call_tree_current(const struct call_tree *tree)
{
	return tree->top->at;
}

static inline uint32_t call_tree_depth(const struct call_tree *tree)
{
	return (uint32_t)(tree->top - tree->frames);
}

/* How far a counter went since it was last looked at. One that goes back has not changed. */
static inline uint64_t call_tree_step(struct call_tree_head *head, uint64_t *last, uint64_t now)
{
	uint64_t step = now - *last;

	if (__builtin_expect(now < *last, 0)) {
		head->repairs[CALL_REPAIR_WENT_BACK]++;
		return 0;
	}
	*last = now;
	return step;
}

/* Charges what the counters went on since the last time to the current node. */
static inline void call_tree_charge(struct call_tree *tree, const struct call_amount *now)
{
	struct call_tree_head *head = tree->head;
	struct call_node *node = call_tree_current(tree);

	for (uint32_t i = 0; i < head->metrics; i++) {
		uint64_t base = call_tree_step(head, &head->last[i].base, now[i].base);

		node->amounts[i].base += base;
		node->amounts[i].elapsed +=
			call_tree_step(head, &head->last[i].elapsed, now[i].elapsed);
		if (i == 0)
			head->total += base;
	}
}

/*
 * The thread runs again: of the increase of the counters since the last event, only elapsed amounts
 * are charged.
 */
void call_tree_resume(struct call_tree *tree, const struct call_amount *now);
/* The counters begin here, with nothing charged. */
void call_tree_start(struct call_tree *tree, const struct call_amount *now);
/* Adds to metric i of the current node something that no counter shows. */
void call_tree_add(struct call_tree *tree, uint32_t i, uint64_t amount);

/* Drops the frames above the newest one of the routine; false: it has none, and nothing is done. */
bool call_tree_unwind(struct call_tree *tree, uint64_t routine);

/* The slow parts of the two functions below, and of samples. */
struct call_node *call_tree_find(struct call_tree *tree, uint32_t parent, uint64_t routine);
bool call_tree_enter_repair(struct call_tree *tree, uint64_t sp);
void call_tree_leave_repair(struct call_tree *tree, uint64_t routine, uint64_t sp);
void call_tree_prune_exit(struct call_tree *tree, struct call_node *node);

static inline uint32_t call_tree_number(const struct call_tree *tree, const struct call_node *node)
{
	return (uint32_t)((uint64_t)((const char *)node - tree->nodes) / tree->node_size);
}

/* An entry into the node that is behind the top. */
static inline void call_tree_push(struct call_tree *tree, uint64_t sp)
{
	struct call_frame *top = ++tree->top;

	top->at->calls++;
	top->sp = tree->rule == CALL_STACK_UNKNOWN ? UINT64_MAX : sp;
	top->entry = tree->head->total;
	if (!tree->head->metrics)
		tree->head->total++;
}

/* An entry; amounts were charged before. */
static inline void call_tree_enter(struct call_tree *tree, uint64_t routine, uint64_t sp)
{
	struct call_frame *top = tree->top;
	struct call_node *node;

	if (__builtin_expect(top->sp <= sp || top == tree->deepest, 0)) {
		if (!call_tree_enter_repair(tree, sp))
			return;
		top = tree->top;
	}
	/* Very often it is what was called from here before; its frame is still there. */
	node = top[1].at;
	if (__builtin_expect(!node || node->routine != routine || node->parent != top->node, 0)) {
		node = call_tree_find(tree, top->node, routine);
		top[1].at = node;
		top[1].node = call_tree_number(tree, node);
	}
	call_tree_push(tree, sp);
}

/* The innermost frame is gone, and nothing is pruned. */
static inline struct call_node *call_tree_take_off(struct call_tree *tree)
{
	struct call_frame *top = tree->top--;
	struct call_node *node = top->at;

	node->weight += tree->head->total - top->entry;
	return node;
}

static inline void call_tree_pop(struct call_tree *tree)
{
	struct call_node *node = call_tree_take_off(tree);

	if (__builtin_expect(tree->head->used > tree->head->limit && !tree->weighs_itself, 0))
		call_tree_prune_exit(tree, node);
}

static inline bool call_tree_matches(const struct call_tree *tree, uint64_t routine, uint64_t sp)
{
	if (tree->deep || tree->top == tree->frames)
		return false;
	if (call_tree_current(tree)->routine != routine)
		return false;
	return tree->rule == CALL_STACK_BOUND	? tree->top->sp >= sp
	       : tree->rule == CALL_STACK_EXACT ? tree->top->sp == sp
						: true;
}

/* An exit; amounts were charged before. */
static inline void call_tree_leave(struct call_tree *tree, uint64_t routine, uint64_t sp)
{
	if (__builtin_expect(call_tree_matches(tree, routine, sp), 1))
		call_tree_pop(tree);
	else
		call_tree_leave_repair(tree, routine, sp);
}

/* The routine on top ends by becoming another one. */
void call_tree_tail(struct call_tree *tree, uint64_t routine, uint64_t sp);
/*
 * The innermost task ends; amounts were charged before. If there is none, that is a repair. A task
 * begins as a routine is entered, with a stack pointer below the one of who begins it.
 */
void call_tree_task_end(struct call_tree *tree);
/* The task's routine; 0: there are too many. */
uint64_t call_tasks_add(struct call_tasks *tasks, const char *name);
/* A stack sample: routines from the outermost on, below the root or below the current node. */
void call_tree_sample(struct call_tree *tree, const uint64_t *routines, uint32_t count, bool below);
/*
 * For events of a source that repairs by itself, and tells how: the innermost frame is gone without
 * an exit; the innermost entry has not happened; a frame stands again, on the path of these
 * routines from the root. The latter two return false, and do nothing, if that cannot be.
 */
bool call_tree_gone(struct call_tree *tree, enum call_repair repair);
bool call_tree_take_back(struct call_tree *tree, uint64_t routine);
bool call_tree_stand(struct call_tree *tree, const uint64_t *routines, uint32_t count);
/* Takes everything off the stack: the thread has ended. */
void call_tree_end(struct call_tree *tree);
