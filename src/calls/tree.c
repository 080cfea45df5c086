// SPDX-License-Identifier: BSD-2-Clause
/*
 * The slow parts of building a tree of call paths: new nodes, repairs, pruning.
 *
 * Repairs. Stacks grow downwards, so a frame called by another has a lower stack pointer. At an
 * entry, frames that are not above the new stack pointer are gone: the one at the same place was
 * replaced (a tail call, or an exception and a new call), lower ones were abandoned. At an exit,
 * lower frames were abandoned. On another stack than the thread's own (a signal handler's, a
 * coroutine's) nothing follows from comparing with frames of the other, so nothing is dropped until
 * an exit names a routine.
 *
 * Pruning. Above the limit, each exit compares the node's cumulative amount with its parent's, so
 * far, and folds the subtree into the parent's "pruned" child if the share is small. At the
 * capacity, a sweep does the same for the whole tree, then with twice the share, and so on, until
 * no more than the limit is used. With the whole as share only the stack and its pruned children
 * remain, which always fit.
 */
#include "calls/tree.h"

#include <stddef.h>

static struct call_node *node_at(const struct call_tree *tree, uint32_t number)
{
	return call_tree_node(tree, number);
}

static void node_init(struct call_node *node, uint32_t metrics, uint64_t routine)
{
	*node = (struct call_node){ .routine = routine,
				    .parent = CALL_NONE,
				    .child = CALL_NONE,
				    .sibling = CALL_NONE,
				    .instance = CALL_NONE,
				    .last = CALL_ROOT,
				    .recursion = 1 };
	for (uint32_t i = 0; i < metrics; i++)
		node->amounts[i] = (struct call_amount){ 0 };
}

void call_tree_init(struct call_tree *tree, const struct call_tree_options *options)
{
	tree->node_size = call_node_size(options->metrics);
	tree->rule = options->rule;
	tree->deep = 0;
	tree->top = tree->frames;
	tree->deepest = tree->frames + options->depth_limit;
	*tree->top = (struct call_frame){ .at = node_at(tree, CALL_ROOT),
					  .sp = UINT64_MAX,
					  .node = CALL_ROOT };
	for (uint32_t i = 0; i < CALL_CACHE_SLOTS; i++)
		tree->cache[i] = CALL_ROOT;
	*tree->head = (struct call_tree_head){ .metrics = options->metrics,
					       .limit = options->limit,
					       .capacity = call_tree_capacity(options->limit),
					       .prune_permille = options->prune_permille,
					       .free = CALL_NONE };
	node_init(node_at(tree, CALL_ROOT), options->metrics, CALL_ROUTINE_THREAD);
	node_at(tree, CALL_ROOT)->calls = 1;
	tree->head->used = 1;
	__atomic_store_n(&tree->head->count, 1, __ATOMIC_RELEASE);
}

void call_tree_start(struct call_tree *tree, const struct call_amount *now)
{
	for (uint32_t i = 0; i < tree->head->metrics; i++)
		tree->head->last[i] = now[i];
}

void call_tree_resume(struct call_tree *tree, const struct call_amount *now)
{
	struct call_tree_head *head = tree->head;
	struct call_node *node = call_tree_current(tree);

	for (uint32_t i = 0; i < head->metrics; i++) {
		call_tree_step(head, &head->last[i].base, now[i].base);
		node->amounts[i].elapsed +=
			call_tree_step(head, &head->last[i].elapsed, now[i].elapsed);
	}
}

void call_tree_add(struct call_tree *tree, uint32_t i, uint64_t amount)
{
	struct call_node *node = call_tree_current(tree);

	node->amounts[i].base += amount;
	node->amounts[i].elapsed += amount;
	if (i == 0)
		tree->head->total += amount;
}

/* Removal. A reader that copies at the same time sees `change` and looks again. */

static void change_begin(struct call_tree *tree)
{
	__atomic_store_n(&tree->head->change, tree->head->change + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static void change_end(struct call_tree *tree)
{
	__atomic_store_n(&tree->head->change, tree->head->change + 1, __ATOMIC_RELEASE);
}

static void node_release(struct call_tree *tree, uint32_t number)
{
	struct call_node *node = node_at(tree, number);

	node->flags = CALL_NODE_FREE;
	node->parent = CALL_NONE;
	node->sibling = tree->head->free;
	tree->head->free = number;
	tree->head->used--;
	tree->head->pruned++;
}

static void node_add(const struct call_tree *tree, struct call_node *sum,
		     const struct call_node *node)
{
	sum->calls += node->calls;
	sum->samples += node->samples;
	for (uint32_t i = 0; i < tree->head->metrics; i++) {
		sum->amounts[i].base += node->amounts[i].base;
		sum->amounts[i].elapsed += node->amounts[i].elapsed;
	}
}

/* Adds everything below `number` to `sum` and releases it: leaves first, going up by parents. */
static void release_below(struct call_tree *tree, uint32_t number, struct call_node *sum)
{
	uint32_t at = number;

	for (;;) {
		struct call_node *node = node_at(tree, at);

		if (node->child != CALL_NONE) {
			at = node->child;
			continue;
		}
		if (at == number)
			return;
		node_at(tree, node->parent)->child = node->sibling;
		at = node->parent;
		node_add(tree, sum, node);
		node_release(tree, call_tree_number(tree, node));
	}
}

static struct call_node *pruned_child(const struct call_tree *tree, const struct call_node *parent)
{
	for (uint32_t at = parent->child; at != CALL_NONE; at = node_at(tree, at)->sibling)
		if (node_at(tree, at)->flags & CALL_NODE_PRUNED)
			return node_at(tree, at);
	return NULL;
}

static void unlink_child(struct call_tree *tree, struct call_node *parent, uint32_t number)
{
	uint32_t *link = &parent->child;

	while (*link != number)
		link = &node_at(tree, *link)->sibling;
	*link = node_at(tree, number)->sibling;
}

/* Folds a node that is not on the stack, and all below it, into its parent's "pruned" child. */
static void fold(struct call_tree *tree, struct call_node *node)
{
	struct call_node *parent = node_at(tree, node->parent);
	struct call_node *sum = pruned_child(tree, parent);
	uint32_t number = call_tree_number(tree, node);

	change_begin(tree);
	release_below(tree, number, sum ? sum : node);
	if (sum) {
		sum->weight += node->weight;
		node_add(tree, sum, node);
		unlink_child(tree, parent, number);
		node_release(tree, number);
	} else {
		node->routine = CALL_ROUTINE_PRUNED;
		node->flags = CALL_NODE_PRUNED;
		node->recursion = 1;
		node->last = CALL_ROOT;
	}
	change_end(tree);
}

static bool is_small(uint64_t part, uint64_t whole, uint32_t permille)
{
	return (unsigned __int128)part * CALL_PERMILLE <= (unsigned __int128)whole * permille;
}

void call_tree_prune_exit(struct call_tree *tree, struct call_node *node)
{
	const struct call_node *parent = call_tree_current(tree);
	uint64_t whole = parent->weight + (tree->head->total - tree->top->entry);

	if (node->flags & CALL_NODE_PRUNED)
		return;
	if (is_small(node->weight, whole, tree->head->prune_permille))
		fold(tree, node);
}

static void prune_children(struct call_tree *tree, struct call_node *node, uint32_t permille)
{
	for (uint32_t at = node->child, next; at != CALL_NONE; at = next) {
		struct call_node *child = node_at(tree, at);

		next = child->sibling;
		if (!(child->flags & (CALL_NODE_PRUNED | CALL_NODE_ACTIVE)) &&
		    is_small(child->weight, node->weight, permille))
			fold(tree, child);
	}
}

static uint32_t next_preorder(const struct call_tree *tree, uint32_t at)
{
	if (node_at(tree, at)->child != CALL_NONE)
		return node_at(tree, at)->child;
	while (at != CALL_ROOT && node_at(tree, at)->sibling == CALL_NONE)
		at = node_at(tree, at)->parent;
	return at == CALL_ROOT ? CALL_NONE : node_at(tree, at)->sibling;
}

/*
 * A frame of a stack that was left, and is in use again, need not lie below the one before it: so
 * all nodes above a frame's are marked as well.
 */
static void mark_path(struct call_tree *tree, uint32_t at, bool on)
{
	for (; at != CALL_NONE; at = node_at(tree, at)->parent) {
		struct call_node *node = node_at(tree, at);

		if (!(node->flags & CALL_NODE_ACTIVE) == !on)
			return;
		node->flags ^= CALL_NODE_ACTIVE;
	}
}

/* Calls that have not ended count up to now while a sweep compares weights that exits have made. */
static void mark_stack(struct call_tree *tree, bool on)
{
	for (struct call_frame *frame = tree->frames; frame <= tree->top; frame++) {
		struct call_node *node = node_at(tree, frame->node);
		uint64_t part = tree->weighs_itself ? 0 : tree->head->total - frame->entry;

		node->weight = on ? node->weight + part : node->weight - part;
		mark_path(tree, frame->node, on);
	}
}

/*
 * Computes the weight of each node with all below it: elapsed time, or calls where there are no
 * times.
 */
static void weigh(struct call_tree *tree)
{
	for (uint32_t at = CALL_ROOT; at != CALL_NONE; at = next_preorder(tree, at))
		node_at(tree, at)->weight = 0;
	for (uint32_t at = CALL_ROOT; at != CALL_NONE; at = next_preorder(tree, at)) {
		const struct call_node *node = node_at(tree, at);
		uint64_t own = node->calls + (tree->head->metrics ? node->amounts[0].elapsed : 0);

		for (uint32_t above = at; above != CALL_NONE; above = node_at(tree, above)->parent)
			node_at(tree, above)->weight += own;
	}
}

static void sweep(struct call_tree *tree)
{
	uint32_t permille = tree->head->prune_permille ? tree->head->prune_permille : 1;

	if (tree->weighs_itself)
		weigh(tree);
	mark_stack(tree, true);
	tree->head->sweeps++;
	for (;;) {
		for (uint32_t at = CALL_ROOT; at != CALL_NONE; at = next_preorder(tree, at))
			prune_children(tree, node_at(tree, at), permille);
		if (tree->head->used <= tree->head->limit || permille >= CALL_PERMILLE)
			break;
		permille = permille * 2 < CALL_PERMILLE ? permille * 2 : CALL_PERMILLE;
	}
	mark_stack(tree, false);
}

/* New nodes. */

/* Nodes may lie elsewhere then; what lies behind the top is only a hint and is forgotten. */
static void grow(struct call_tree *tree)
{
	tree->grow(tree);
	for (struct call_frame *frame = tree->frames; frame <= tree->deepest + 1; frame++)
		frame->at = frame <= tree->top ? node_at(tree, frame->node) : NULL;
}

static uint32_t node_take(struct call_tree *tree)
{
	struct call_tree_head *head = tree->head;
	uint32_t number = head->free;

	if (head->used >= head->capacity) {
		sweep(tree);
		number = head->free;
	}
	head->used++;
	if (number != CALL_NONE) {
		head->free = node_at(tree, number)->sibling;
		return number;
	}
	if (tree->grow)
		grow(tree);
	return head->count;
}

static uint16_t recursion_of(const struct call_tree *tree, uint32_t parent, uint64_t routine)
{
	for (uint32_t at = parent; at != CALL_NONE; at = node_at(tree, at)->parent) {
		const struct call_node *node = node_at(tree, at);

		if (node->routine == routine)
			return (uint16_t)(node->recursion + (node->recursion < UINT16_MAX));
	}
	return 1;
}

static uint32_t make_child(struct call_tree *tree, uint32_t parent, uint64_t routine)
{
	uint32_t number = node_take(tree);
	struct call_node *above = node_at(tree, parent);
	struct call_node *node = node_at(tree, number);

	node_init(node, tree->head->metrics, routine);
	node->recursion = recursion_of(tree, parent, routine);
	node->level = above->level + 1;
	node->sibling = above->child;
	node->parent = parent;
	if (number == tree->head->count)
		__atomic_store_n(&tree->head->count, number + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&above->child, number, __ATOMIC_RELEASE);
	return number;
}

static uint32_t look_up(const struct call_tree *tree, uint32_t hint, uint32_t parent,
			uint64_t routine)
{
	uint32_t at = hint;

	if (node_at(tree, at)->parent == parent && node_at(tree, at)->routine == routine)
		return at;
	for (at = node_at(tree, parent)->child; at != CALL_NONE; at = node_at(tree, at)->sibling)
		if (node_at(tree, at)->routine == routine)
			break;
	return at;
}

struct call_node *call_tree_find(struct call_tree *tree, uint32_t parent, uint64_t routine)
{
	uint64_t hash = (routine ^ (uint64_t)parent << 32) * 0x9e3779b97f4a7c15;
	uint32_t *slot = &tree->cache[hash >> 54];
	uint32_t number = look_up(tree, *slot, parent, routine);

	_Static_assert(CALL_CACHE_SLOTS == 1 << 10, "the hash has ten bits");
	if (number == CALL_NONE)
		number = make_child(tree, parent, routine);
	*slot = number;
	node_at(tree, parent)->last = number;
	return node_at(tree, number);
}

/* Repairs. */

static void drop(struct call_tree *tree, enum call_repair repair)
{
	tree->head->repairs[repair]++;
	call_tree_pop(tree);
}

static bool is_foreign(const struct call_tree *tree, uint64_t sp)
{
	return tree->stack_high && (sp < tree->stack_low || sp >= tree->stack_high);
}

/* Whether the top frame, if there is one, lies on the same stack as sp. */
static bool same_stack(const struct call_tree *tree, uint64_t sp)
{
	return is_foreign(tree, tree->top->sp) == is_foreign(tree, sp);
}

/* Says whether the entry can be made. */
bool call_tree_enter_repair(struct call_tree *tree, uint64_t sp)
{
	if (tree->rule != CALL_STACK_UNKNOWN)
		while (call_tree_depth(tree) && tree->top->sp <= sp && same_stack(tree, sp)) {
			tree->deep = 0;
			drop(tree,
			     tree->top->sp == sp ? CALL_REPAIR_REPLACED : CALL_REPAIR_ABANDONED);
		}
	if (tree->top < tree->deepest)
		return true;
	tree->deep++;
	tree->head->repairs[CALL_REPAIR_TOO_DEEP]++;
	return false;
}

bool call_tree_unwind(struct call_tree *tree, uint64_t routine)
{
	struct call_frame *frame = tree->top;

	while (frame > tree->frames && node_at(tree, frame->node)->routine != routine)
		frame--;
	if (frame == tree->frames)
		return false;
	while (tree->top > frame)
		drop(tree, CALL_REPAIR_ABANDONED);
	return true;
}

/* Drops the frames above the newest one of the routine, and that one too, if there is any. */
static bool leave_by_routine(struct call_tree *tree, uint64_t routine)
{
	if (!call_tree_unwind(tree, routine))
		return false;
	call_tree_pop(tree);
	return true;
}

static bool leave_by_place(struct call_tree *tree, uint64_t routine, uint64_t sp)
{
	if (!call_tree_depth(tree) || tree->top->sp != sp)
		return false;
	if (call_tree_current(tree)->routine != routine)
		tree->head->repairs[CALL_REPAIR_REPLACED]++;
	call_tree_pop(tree);
	return true;
}

void call_tree_leave_repair(struct call_tree *tree, uint64_t routine, uint64_t sp)
{
	bool done;

	if (tree->deep && (tree->rule == CALL_STACK_UNKNOWN || sp < tree->top->sp)) {
		tree->deep--;
		return;
	}
	tree->deep = 0;
	if (tree->rule != CALL_STACK_UNKNOWN)
		while (call_tree_depth(tree) && tree->top->sp < sp && same_stack(tree, sp))
			drop(tree, CALL_REPAIR_ABANDONED);
	done = tree->rule == CALL_STACK_EXACT ? leave_by_place(tree, routine, sp)
					      : leave_by_routine(tree, routine);
	if (!done)
		tree->head->repairs[CALL_REPAIR_NO_ENTRY]++;
}

void call_tree_tail(struct call_tree *tree, uint64_t routine, uint64_t sp)
{
	if (call_tree_depth(tree) && !tree->deep)
		call_tree_pop(tree);
	call_tree_enter(tree, routine, sp);
}

uint64_t call_tasks_add(struct call_tasks *tasks, const char *name)
{
	uint32_t number = tasks->count;
	char *to = tasks->names[number % CALL_TASKS_MAX];
	uint32_t length = 0;

	if (number >= CALL_TASKS_MAX) {
		tasks->refused++;
		return 0;
	}
	for (; name && name[length] && length < CALL_THREAD_NAME - 1; length++)
		to[length] = name[length];
	to[length] = 0;
	__atomic_store_n(&tasks->count, number + 1, __ATOMIC_RELEASE);
	return CALL_ROUTINE_TASKS + number;
}

/* Calls that the task has not left are dropped. */
void call_tree_task_end(struct call_tree *tree)
{
	struct call_frame *frame = tree->top;

	while (frame > tree->frames && !call_is_task(node_at(tree, frame->node)->routine))
		frame--;
	if (frame == tree->frames) {
		tree->head->repairs[CALL_REPAIR_NO_ENTRY]++;
		return;
	}
	tree->deep = 0;
	while (tree->top > frame)
		drop(tree, CALL_REPAIR_ABANDONED);
	call_tree_pop(tree);
}

/*
 * The nodes of the sample are on the stack while they are looked for, so that no sweep removes
 * them.
 */
void call_tree_sample(struct call_tree *tree, const uint64_t *routines, uint32_t count, bool below)
{
	struct call_frame *top = tree->top;
	uint32_t node = below ? top->node : CALL_ROOT;

	for (uint32_t i = 0; i < count; i++) {
		if (tree->top == tree->deepest) {
			tree->head->repairs[CALL_REPAIR_TOO_DEEP]++;
			break;
		}
		node = call_tree_number(tree, call_tree_find(tree, node, routines[i]));
		*++tree->top = (struct call_frame){ .at = node_at(tree, node),
						    .entry = tree->head->total,
						    .node = node };
	}
	node_at(tree, node)->samples++;
	tree->top = top;
}

bool call_tree_gone(struct call_tree *tree, enum call_repair repair)
{
	if (tree->deep)
		tree->deep--;
	else if (call_tree_depth(tree))
		call_tree_pop(tree);
	else
		return false;
	tree->head->repairs[repair]++;
	return true;
}

bool call_tree_take_back(struct call_tree *tree, uint64_t routine)
{
	if (tree->deep) {
		tree->deep--;
		return true;
	}
	if (!call_tree_depth(tree) || call_tree_current(tree)->routine != routine ||
	    !call_tree_current(tree)->calls)
		return false;
	call_tree_take_off(tree)->calls--;
	return true;
}

/* Looks for the node as for that of a sample, with all of the path on the stack meanwhile. */
bool call_tree_stand(struct call_tree *tree, const uint64_t *routines, uint32_t count)
{
	struct call_frame *top = tree->top;
	uint32_t node = CALL_ROOT;

	if (!count || tree->deep || (uint64_t)(tree->deepest - top) < count)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		node = call_tree_number(tree, call_tree_find(tree, node, routines[i]));
		*++tree->top = (struct call_frame){ .at = node_at(tree, node),
						    .sp = UINT64_MAX,
						    .entry = tree->head->total,
						    .node = node };
	}
	top[1] = *tree->top;
	tree->top = top + 1;
	return true;
}

void call_tree_end(struct call_tree *tree)
{
	tree->deep = 0;
	while (call_tree_depth(tree))
		call_tree_pop(tree);
}
