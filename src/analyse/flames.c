// SPDX-License-Identifier: BSD-2-Clause
/*
 * Waits: stacks come after their parents, so that a stack is placed below the place of its parent
 * when it is first needed. Calls: the trees of threads are laid over each other; a path of
 * routines is one node, with a row for each thread that took it.
 *
 *  1. A node comes after its parent.
 *  2. The amounts of the rows of a thread add up to what the profile has of it.
 *  3. The trees of one profile number routines alike, whatever cost they are asked for.
 *
 * Executed code: the call tree of its stacks as it is, and what was lost.
 */
#include "analyse/flames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/call_trees.h"
#include "analyse/executed_stacks.h"
#include "analyse/names.h"
#include "base/mem.h"

struct making {
	struct flame *flame;
	struct map children; /* parent and function to node */
	/* number of a function in its source (profile or call tree) to its number here */
	struct map functions;
};

static void making_deinit(struct making *making)
{
	map_deinit(&making->children);
	map_deinit(&making->functions);
}

static void flame_init(struct flame *flame, const char *name)
{
	*flame = (struct flame){ .name = name };
	strtab_add(&flame->texts, "");
	*array_push(&flame->nodes) = (struct calltree_node){};
}

static uint32_t node_below(struct making *making, uint32_t parent, uint32_t function)
{
	struct flame *flame = making->flame;
	bool fresh;
	uint64_t *node = map_at(&making->children, (uint64_t)parent << 32 | function, &fresh);

	if (fresh) {
		*node = flame->nodes.count;
		*array_push(&flame->nodes) = (struct calltree_node){ parent, function };
	}
	return (uint32_t)*node;
}

static uint32_t function_number(struct making *making, uint64_t key, const char *name,
				const char *module)
{
	struct flame *flame = making->flame;
	bool fresh;
	uint64_t *number = map_at(&making->functions, key, &fresh);

	if (fresh) {
		*number = flame->functions.count;
		*array_push(&flame->functions) =
			(struct flame_function){ strtab_add(&flame->texts, name),
						 strtab_add(&flame->texts, module) };
	}
	return (uint32_t)*number;
}

static int row_compare(const void *left, const void *right)
{
	const struct flame_row *a = left, *b = right;

	if (a->node != b->node)
		return a->node < b->node ? -1 : 1;
	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	return (a->label > b->label) - (a->label < b->label);
}

static void rows_merge(struct flame *flame)
{
	size_t kept = 0;

	if (!flame->rows.count)
		return;
	qsort(flame->rows.items, flame->rows.count, sizeof(*flame->rows.items), row_compare);
	for (size_t i = 1; i < flame->rows.count; i++) {
		const struct flame_row *row = &flame->rows.items[i];
		struct flame_row *last = &flame->rows.items[kept];

		if (row_compare(last, row)) {
			flame->rows.items[++kept] = *row;
			continue;
		}
		for (size_t metric = 0; metric < flame->metric_count; metric++)
			last->amounts[metric] += row->amounts[metric];
	}
	flame->rows.count = kept + 1;
}

void flame_deinit(struct flame *flame)
{
	strtab_deinit(&flame->texts);
	array_deinit(&flame->functions);
	array_deinit(&flame->nodes);
	array_deinit(&flame->rows);
}

/* --- Waits ------------------------------------------------------------------------------------ */

struct stacks {
	struct making making;
	struct forest *forest;
	struct functions functions;
	uint32_t *places; /* by stack: its node + 1; 0: not yet */
};

static uint32_t slot_function(struct stacks *stacks, uint32_t slot)
{
	const struct functions *functions = &stacks->functions;
	uint32_t entity = functions->entity[slot];

	return function_number(&stacks->making, entity, functions_name(functions, entity),
			       name_of_module(functions->profile,
					      functions_module(functions, entity)));
}

static uint32_t slots_below(struct stacks *stacks, uint32_t place, uint32_t stack)
{
	uint32_t begin = forest_slot_begin(stacks->forest, stack);

	for (uint32_t slot = forest_slot_end(stacks->forest, stack); slot > begin; slot--)
		place = node_below(&stacks->making, place, slot_function(stacks, slot - 1));
	return place;
}

/* Stack 0, which stands for unknown stacks, has a name as well. */
static uint32_t stack_place(struct stacks *stacks, uint32_t stack)
{
	const struct profile_stack *all = stacks->forest->profile->stacks;
	ARRAY(uint32_t) missing = {};
	uint32_t place = 0;

	for (uint32_t at = stack; !stacks->places[at]; at = all[at].parent) {
		*array_push(&missing) = at;
		if (!at || !all[at].parent)
			break;
	}
	for (size_t i = missing.count; i-- > 0;) {
		uint32_t at = missing.items[i], parent = at ? all[at].parent : 0;

		place = slots_below(stacks, parent ? stacks->places[parent] - 1 : 0, at);
		stacks->places[at] = place + 1;
	}
	array_deinit(&missing);
	return stacks->places[stack] - 1;
}

void flame_waits(struct flame *flame, const struct profile *profile)
{
	static const struct filter none;
	struct stacks stacks = { .making = { .flame = flame } };

	flame_init(flame, "waits");
	flame->metrics[0] = (struct flame_metric){ "waited", "Time waited", "ns" };
	flame->metrics[1] =
		(struct flame_metric){ "queued", "Time until a processor was free", "ns" };
	flame->metrics[2] = (struct flame_metric){ "count", "Number of waits", "waits" };
	flame->metric_count = 3;
	stacks.forest = forest_create(profile, &none, FOREST_CODE_SAMPLES);
	functions_init(&stacks.functions, stacks.forest, NULL);
	stacks.places = mem_zalloc((profile->stack_count + 1) * sizeof(*stacks.places));
	for (size_t i = 0; i < profile->wait_count; i++) {
		const struct profile_wait *wait = &profile->waits[i];

		*array_push(&flame->rows) = (struct flame_row){
			stack_place(&stacks, wait->stack),
			wait->thread,
			strtab_add(&flame->texts, wait->cause),
			{ wait->total, wait->queued, wait->count },
		};
	}
	rows_merge(flame);
	free(stacks.places);
	functions_deinit(&stacks.functions);
	forest_destroy(stacks.forest);
	making_deinit(&stacks.making);
}

/* --- Calls ------------------------------------------------------------------------------------ */

static uint32_t routine_function(struct making *making, const struct call_trees *trees,
				 uint64_t routine)
{
	if (routine >= trees->name_count)
		return function_number(making, UINT64_MAX - 1, "[pruned]", "");
	return function_number(making, routine, trees->names[routine].symbol,
			       trees->names[routine].module ? trees->names[routine].module : "");
}

/* Puts what a node used into the amounts of its row, from the metric on. */
typedef void (*amounts_fn)(const struct call_snapshot *snapshot, const struct call_node *node,
			   size_t metric, struct flame_row *row);

static void time_put(const struct call_snapshot *snapshot, const struct call_node *node,
		     size_t metric, struct flame_row *row)
{
	if (snapshot->head.metrics) {
		row->amounts[metric++] = node->amounts[0].base;
		row->amounts[metric++] = node->amounts[0].elapsed;
	}
	row->amounts[metric] = node->parent == CALL_NONE ? 0 : node->calls;
}

static void cost_put(const struct call_snapshot *snapshot, const struct call_node *node,
		     size_t metric, struct flame_row *row)
{
	row->amounts[metric] = node->amounts[0].base;
}

/* The thread itself is the root: what it used outside of all calls is there. */
static void tree_add(struct making *making, const struct call_trees *trees, size_t result,
		     amounts_fn put, size_t metric)
{
	const struct call_snapshot *snapshot = &trees->results.items[result].snapshot;
	AUTO(free_ptr) uint32_t *places = mem_zalloc((snapshot->head.used + 1) * sizeof(*places));

	for (uint32_t at = 0; at < snapshot->reached; at++) {
		uint32_t number = snapshot->order[at];
		const struct call_node *node = call_snapshot_node(snapshot, number);
		struct flame_row row = { .thread = trees->threads[result] };

		if (at)
			places[number] = node_below(making, places[node->parent],
						    routine_function(making, trees, node->routine));
		row.node = places[number];
		put(snapshot, node, metric, &row);
		*array_push(&making->flame->rows) = row;
	}
}

static void trees_add(struct making *making, const struct call_trees *trees, amounts_fn put,
		      size_t metric)
{
	for (size_t i = 0; i < trees->results.count; i++)
		tree_add(making, trees, i, put, metric);
}

/* Without time stamps there are calls only. */
static void call_metrics_set(struct flame *flame, const struct call_trees *trees)
{
	bool timed = false;

	array_each(&trees->results, result)
		timed |= result->snapshot.head.metrics;
	if (timed) {
		flame->metrics[0] = (struct flame_metric){ "base", "Time on a processor", "ns" };
		flame->metrics[1] = (struct flame_metric){ "elapsed", "Time on the clock", "ns" };
		flame->metric_count = 2;
	}
	flame->metrics[flame->metric_count++] = (struct flame_metric){ "calls", "Calls", "calls" };
}

/* What calls cost besides time. */
static const struct {
	enum call_cost cost;
	struct flame_metric metric;
} further_costs[] = {
	{ COST_BYTES, { "bytes", "Bytes allocated", "bytes" } },
	{ COST_OBJECTS, { "objects", "Objects allocated", "objects" } },
	{ COST_SAMPLES, { "samples", "Samples", "samples" } },
};

enum { FURTHER_COSTS = sizeof(further_costs) / sizeof(further_costs[0]) };

/* Nothing, where the profile does not say. */
static int cost_add(struct making *making, const struct profile *profile, size_t which)
{
	struct flame *flame = making->flame;
	struct call_trees trees;
	int err = call_trees_init(&trees, profile, NULL, further_costs[which].cost);

	if (err)
		return err == -ENOENT ? 0 : err;
	flame->metrics[flame->metric_count++] = further_costs[which].metric;
	trees_add(making, &trees, cost_put, flame->metric_count - 1);
	call_trees_deinit(&trees);
	return 0;
}

int flame_calls(struct flame *flame, const struct profile *profile)
{
	AUTO(making_deinit) struct making making = { .flame = flame };
	struct call_trees trees;
	int err;

	flame_init(flame, "calls");
	err = call_trees_init(&trees, profile, NULL, COST_TIME);
	if (err)
		return err;
	call_metrics_set(flame, &trees);
	trees_add(&making, &trees, time_put, 0);
	call_trees_deinit(&trees);
	for (size_t i = 0; i < FURTHER_COSTS && !err; i++)
		err = cost_add(&making, profile, i);
	rows_merge(flame);
	return err;
}

/* --- Executed code ---------------------------------------------------------------------------- */

/* Losses are rows of their own, of thread 0, which stands for no thread. */
static void losses_take(struct making *making, const struct profile *part)
{
	for (size_t i = 0; i < part->loss_count; i++) {
		AUTO(free_ptr) char *name = mem_printf("[lost: %s]", part->losses[i].name);
		uint32_t function = function_number(making, UINT64_MAX - 1 - i, name, "[lost]");

		*array_push(&making->flame->rows) =
			(struct flame_row){ .node = node_below(making, 0, function),
					    .amounts = { part->losses[i].count } };
	}
}

static void calltree_take(struct flame *flame, const struct calltree *tree)
{
	AUTO(making_deinit) struct making making = { .flame = flame };
	const struct functions *functions = &tree->functions;

	for (size_t i = 1; i < tree->nodes.count; i++) {
		uint32_t entity = tree->nodes.items[i].function;
		uint32_t number = function_number(
			&making, entity, functions_name(functions, entity),
			name_of_module(functions->profile, functions_module(functions, entity)));

		*array_push(&flame->nodes) =
			(struct calltree_node){ tree->nodes.items[i].parent, number };
	}
	array_each(&tree->samples, sample)
		*array_push(&flame->rows) = (struct flame_row){ .node = sample->node,
								.thread = sample->thread,
								.amounts = { sample->count } };
	losses_take(&making, functions->profile);
}

int flame_executed(struct flame *flame, const struct profile *profile,
		   const struct code_source *code)
{
	static const struct filter none;
	struct calltree tree;
	struct profile part;
	int err;

	flame_init(flame, "executed");
	flame->metrics[0] =
		(struct flame_metric){ "instructions", "Instructions executed", "instructions" };
	flame->metric_count = 1;
	err = executed_stacks_init(&part, profile, code);
	if (!err) {
		calltree_init(&tree, &part, &none, false);
		calltree_take(flame, &tree);
		calltree_deinit(&tree);
	}
	executed_stacks_deinit(&part);
	return err;
}
