// SPDX-License-Identifier: BSD-2-Clause
/*
 * Call trees by function: top-down from the outermost frame, or bottom-up from the function that
 * was running.
 *
 * Stack nodes that are different addresses of the same functions in the same order become one tree
 * node. Both directions are made by the same means. A cursor is a place on a stack, a slot of a
 * stack node, with the weight of the samples that it stands for. A tree node is a set of cursors;
 * it is expanded by moving each cursor one frame on and grouping by function. Top-down a cursor
 * stands for all samples below its stack node and moving on splits it over the children; bottom-up
 * it stands for samples that ended in one place and moves to the caller, and cursors that meet
 * become one. Nodes below the smallest share are never expanded, and the others with the largest
 * total first, up to the limit, so that the work is that of what is shown: bottom-up, an hour's
 * profile has millions of nodes.
 *
 *  1. A node's total is the sum of the weights of its cursors; its self the samples whose innermost
 *     frame it is.
 *  2. A node is expanded after its parent, and siblings are by falling total.
 *  3. Rows come in preorder.
 *  4. At --min-share 0, if nothing is beyond the limit, the sum of self over all rows is the number
 *     of selected samples.
 */
#include <stdlib.h>

#include "analyse/call_trees.h"
#include "analyse/forest.h"
#include "analyse/names.h"
#include "analyse/views.h"
#include "base/array.h"
#include "base/mem.h"

struct cursor {
	uint32_t function;
	uint32_t node; /* of the tree of stacks */
	uint32_t slot;
	uint64_t weight;
};

struct cursors {
	struct cursor *items;
	size_t count, capacity;
};

/* Rows that a tree has at most, unless --limit says otherwise. */
enum { ROWS_MAX = 20000 };

/* A tree node. */
struct branch {
	struct cursors cursors; /* until it is expanded */
	uint32_t function;
	uint32_t level;
	uint32_t parent; /* among those that are grown; NO_BRANCH none */
	uint64_t total, self;
};

enum { NO_BRANCH = UINT32_MAX };

struct branches {
	struct branch *items;
	size_t count, capacity;
};

struct tree {
	const struct forest *forest;
	struct functions functions;
	struct table *table;
	double min_share;
	bool bottom_up;
	struct branches waiting; /* to be expanded: a heap, the largest on top */
	struct branches grown; /* in the order of their expansion */
};

static void cursor_add(struct tree *tree, struct cursors *cursors, uint32_t node, uint32_t slot,
		       uint64_t weight)
{
	*array_push(cursors) = (struct cursor){ tree->functions.entity[slot], node, slot, weight };
}

static void children_add(struct tree *tree, struct cursors *next, uint32_t parent)
{
	const struct forest *forest = tree->forest;

	for (uint32_t node = forest->child[parent]; node; node = forest->sibling[node])
		if (forest->cum[node])
			cursor_add(tree, next, node, forest_slot_end(forest, node) - 1,
				   forest->cum[node]);
}

static void cursor_move_down(struct tree *tree, struct cursors *next, const struct cursor *cursor)
{
	if (cursor->slot > forest_slot_begin(tree->forest, cursor->node))
		cursor_add(tree, next, cursor->node, cursor->slot - 1, cursor->weight);
	else if (cursor->node)
		children_add(tree, next, cursor->node);
}

static void cursor_move_up(struct tree *tree, struct cursors *next, const struct cursor *cursor)
{
	uint32_t parent = cursor->node ? tree->forest->profile->stacks[cursor->node].parent : 0;

	if (cursor->slot + 1 < forest_slot_end(tree->forest, cursor->node))
		cursor_add(tree, next, cursor->node, cursor->slot + 1, cursor->weight);
	else if (parent)
		cursor_add(tree, next, parent, forest_slot_begin(tree->forest, parent),
			   cursor->weight);
}

/* The cursors of the outermost frames, or of the innermost. */
static void cursors_start(struct tree *tree, struct cursors *ret)
{
	const struct forest *forest = tree->forest;

	if (forest->own[0])
		cursor_add(tree, ret, 0, forest_slot_begin(forest, 0), forest->own[0]);
	if (!tree->bottom_up) {
		children_add(tree, ret, 0);
		return;
	}
	for (uint32_t node = 1; node < forest->profile->stack_count; node++)
		if (forest->own[node])
			cursor_add(tree, ret, node, forest_slot_begin(forest, node),
				   forest->own[node]);
}

static int cursor_order(const void *left, const void *right)
{
	const struct cursor *a = left, *b = right;

	if (a->function != b->function)
		return a->function < b->function ? -1 : 1;
	if (a->node != b->node)
		return a->node < b->node ? -1 : 1;
	return (a->slot > b->slot) - (a->slot < b->slot);
}

/* Whether a is expanded before b. */
static bool branch_precedes(const struct branch *a, const struct branch *b)
{
	if (a->total != b->total)
		return a->total > b->total;
	if (a->parent != b->parent)
		return a->parent < b->parent;
	return a->function < b->function;
}

static void branches_swap(struct branches *heap, size_t a, size_t b)
{
	struct branch branch = heap->items[a];

	heap->items[a] = heap->items[b];
	heap->items[b] = branch;
}

static void heap_push(struct branches *heap, const struct branch *branch)
{
	size_t at = heap->count, above;

	*array_push(heap) = *branch;
	for (; at && branch_precedes(&heap->items[at], &heap->items[above = (at - 1) / 2]);
	     at = above)
		branches_swap(heap, at, above);
}

static struct branch heap_pop(struct branches *heap)
{
	struct branch top = heap->items[0];
	size_t at = 0, below;

	heap->items[0] = heap->items[--heap->count];
	while ((below = 2 * at + 1) < heap->count) {
		if (below + 1 < heap->count &&
		    branch_precedes(&heap->items[below + 1], &heap->items[below]))
			below++;
		if (!branch_precedes(&heap->items[below], &heap->items[at]))
			break;
		branches_swap(heap, at, below);
		at = below;
	}
	return top;
}

/*
 * One branch from the run of cursors of the same function that starts at first; returns where the
 * run ends.
 */
static size_t branch_add(struct tree *tree, const struct cursors *cursors, size_t first,
			 uint32_t parent)
{
	struct branch branch = { .function = cursors->items[first].function, .parent = parent };
	size_t at = first;

	if (parent != NO_BRANCH)
		branch.level = tree->grown.items[parent].level + 1;
	for (; at < cursors->count && cursors->items[at].function == branch.function; at++) {
		const struct cursor *cursor = &cursors->items[at];
		struct cursor *top = branch.cursors.count
					     ? &branch.cursors.items[branch.cursors.count - 1]
					     : NULL;

		branch.total += cursor->weight;
		if (top && top->node == cursor->node && top->slot == cursor->slot)
			top->weight += cursor->weight;
		else
			*array_push(&branch.cursors) = *cursor;
	}
	if (share_of(branch.total, tree->table->totals.seen) < tree->min_share) {
		tree->table->omitted++;
		array_deinit(&branch.cursors);
	} else {
		heap_push(&tree->waiting, &branch);
	}
	return at;
}

/* parent NO_BRANCH: the outermost level. */
static void branches_add(struct tree *tree, struct cursors *cursors, uint32_t parent)
{
	if (!cursors->count)
		return;
	qsort(cursors->items, cursors->count, sizeof(*cursors->items), cursor_order);
	for (size_t at = 0; at < cursors->count;)
		at = branch_add(tree, cursors, at, parent);
}

static uint64_t branch_self(const struct tree *tree, const struct branch *branch)
{
	uint64_t self = 0;

	if (tree->bottom_up)
		return branch->level ? 0 : branch->total;
	for (size_t i = 0; i < branch->cursors.count; i++) {
		const struct cursor *cursor = &branch->cursors.items[i];

		if (cursor->slot == forest_slot_begin(tree->forest, cursor->node))
			self += tree->forest->own[cursor->node];
	}
	return self;
}

enum {
	T_TOTAL,
	T_TOTAL_SHARE,
	T_SELF,
	T_SHARE,
	T_MODULE,
	T_TEXT,
	T_SYMBOL,
	T_INLINED,
	T_LEVEL,
	T_COLUMNS
};

static const struct column tree_columns[] = {
	[T_TOTAL] = { "total", "Total", COLUMN_COUNT },
	[T_TOTAL_SHARE] = { "total_share", "Total%", COLUMN_SHARE },
	[T_SELF] = { "self", "Self", COLUMN_COUNT, .spare = 1 },
	[T_SHARE] = { "share", "Self%", COLUMN_SHARE, .spare = 2 },
	[T_MODULE] = { "module", "", COLUMN_TEXT, COLUMN_DATA },
	[T_TEXT] = { "function", "Function", COLUMN_TEXT, COLUMN_PEOPLE, true, .cut = CUT_NAME,
		     .comfort = 30 },
	[T_SYMBOL] = { "symbol", "", COLUMN_TEXT, COLUMN_DATA },
	[T_INLINED] = { "inlined", "", COLUMN_BOOL, COLUMN_DATA },
	[T_LEVEL] = { "level", "", COLUMN_INTEGER, COLUMN_DATA },
};

/* The module is said where it changes. */
static const char *branch_text(struct tree *tree, const struct branch *branch)
{
	const struct functions *functions = &tree->functions;
	const char *name = functions_name(functions, branch->function);
	uint32_t module = functions_module(functions, branch->function), above = 0;

	if (branch->parent != NO_BRANCH)
		above = functions_module(functions, tree->grown.items[branch->parent].function);
	name = view_function_text(tree->table, name,
				  functions_inlined(functions, branch->function));
	return module == above ? name
			       : view_titled_text(tree->table, name,
						  name_of_module(functions->profile, module));
}

static void branch_row_add(struct tree *tree, const struct branch *branch)
{
	struct table *table = tree->table;
	const struct functions *functions = &tree->functions;
	struct cell *row = table_row_add(table);

	row[T_TOTAL] = cell_number(branch->total);
	row[T_TOTAL_SHARE] = cell_real(share_of(branch->total, table->totals.seen));
	row[T_SELF] = cell_number(branch->self);
	row[T_SHARE] = cell_real(share_of(branch->self, table->totals.seen));
	row[T_MODULE] = cell_text(
		name_of_module(functions->profile, functions_module(functions, branch->function)));
	row[T_SYMBOL] = cell_text(functions_name(functions, branch->function));
	row[T_TEXT] = cell_text(branch_text(tree, branch));
	row[T_INLINED] = cell_number(functions_inlined(functions, branch->function));
	row[T_LEVEL] = cell_integer(branch->level);
}

/* Takes the next branch and adds those below it. */
static void branch_grow(struct tree *tree, struct cursors *next)
{
	struct branch branch = heap_pop(&tree->waiting);
	uint32_t number = (uint32_t)tree->grown.count;

	next->count = 0;
	array_each(&branch.cursors, cursor) {
		if (tree->bottom_up)
			cursor_move_up(tree, next, cursor);
		else
			cursor_move_down(tree, next, cursor);
	}
	branch.self = branch_self(tree, &branch);
	array_deinit(&branch.cursors);
	branch.cursors = (struct cursors){};
	*array_push(&tree->grown) = branch;
	branches_add(tree, next, number);
}

static void tree_grow(struct tree *tree, size_t limit)
{
	struct cursors next = {};

	cursors_start(tree, &next);
	branches_add(tree, &next, NO_BRANCH);
	while (tree->waiting.count && tree->grown.count < limit)
		branch_grow(tree, &next);
	tree->table->omitted += tree->waiting.count;
	array_each(&tree->waiting, branch)
		array_deinit(&branch->cursors);
	array_deinit(&next);
}

/* Rows in preorder; siblings were grown in their order. */
static void rows_add(struct tree *tree)
{
	size_t count = tree->grown.count;
	/* By branch; of the outermost ones in the last place. */
	AUTO(free_ptr) uint32_t *child = mem_alloc((count + 1) * sizeof(*child));
	AUTO(free_ptr) uint32_t *sibling = mem_alloc((count + 1) * sizeof(*sibling));
	uint32_t at;

	for (size_t i = 0; i <= count; i++)
		child[i] = NO_BRANCH;
	for (size_t i = count; i-- > 0;) {
		uint32_t parent = tree->grown.items[i].parent;

		parent = parent == NO_BRANCH ? (uint32_t)count : parent;
		sibling[i] = child[parent];
		child[parent] = (uint32_t)i;
	}
	for (at = child[count]; at != NO_BRANCH;) {
		branch_row_add(tree, &tree->grown.items[at]);
		if (child[at] != NO_BRANCH) {
			at = child[at];
			continue;
		}
		while (at != NO_BRANCH && sibling[at] == NO_BRANCH)
			at = tree->grown.items[at].parent;
		at = at == NO_BRANCH ? NO_BRANCH : sibling[at];
	}
}

static int samples_tree(const struct profile *profile, const struct view_request *request,
			struct table **ret)
{
	AUTO(forest_destroy_auto)
	struct forest *forest = forest_create(profile, &request->filter, FOREST_CODE_SAMPLES);
	struct tree tree = {
		.forest = forest,
		.table = table_create("tree", tree_columns, T_COLUMNS),
		.min_share = request->min_share,
		.bottom_up = request->bottom_up,
	};

	tree.table->level_column = T_LEVEL;
	tree.table->omitted_branches = true;
	table_totals_set(tree.table, profile, forest->selected);
	functions_init(&tree.functions, forest, NULL);
	tree_grow(&tree, request->limit ? request->limit : ROWS_MAX);
	rows_add(&tree);
	functions_deinit(&tree.functions);
	array_deinit(&tree.waiting);
	array_deinit(&tree.grown);
	*ret = tree.table;
	return 0;
}

int view_tree(const struct profile *profile, const struct view_request *request, struct table **ret)
{
	if (request->metric == METRIC_CALLS)
		return call_view("tree", profile, request, ret);
	return samples_tree(profile, request, ret);
}
