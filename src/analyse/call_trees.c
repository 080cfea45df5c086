// SPDX-License-Identifier: BSD-2-Clause
/*
 * A tree of calls is made from its rows as a source makes it from calls: nodes are linked in the
 * order of their ids, in which parents come first, and the snapshot that is taken of it checks the
 * links and adds up. Routines become numbers of names: a function has one, wherever it is called.
 * Stack samples and waits of the same profile are put on the paths before.
 */
#include "analyse/call_trees.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyse/names.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"

static const char *const costs[] = {
#define X(name, text, option, help) text,
	CALL_COSTS(X)
#undef X
};

/* Options of assay calls that record them. */
static const char *const cost_options[] = {
#define X(name, text, option, help) option,
	CALL_COSTS(X)
#undef X
};

struct making {
	struct call_trees *trees;
	const struct profile *profile;
	struct map by_routine; /* symbol, or location with the top bit set, to number of a name */
	ARRAY(struct call_name) names;
	uint32_t *tree_of; /* by node: number of its tree + 1 */
	uint32_t *number; /* by node: in its tree */
	uint32_t *sizes; /* by tree: nodes */
	uint32_t *roots; /* by tree: the first node */
	uint32_t tree_count;
	uint64_t *calls, *base, *elapsed, *samples, *waited; /* by node */
	bool timed; /* there are rows of the cost */
	enum call_cost cost;
};

/* --- Names ------------------------------------------------------------------------------------ */

static const char *unnamed_text(struct call_trees *trees, uint32_t module, uint64_t address)
{
	char *text = mem_printf("%s+0x%" PRIx64, name_of_module(trees->profile, module), address);

	*array_push(&trees->texts) = text;
	return text;
}

static uint64_t routine_number(struct making *making, uint32_t location)
{
	const struct profile *profile = making->profile;
	uint32_t symbol = location_function(profile, location);
	uint32_t module = profile->locations[location].module;
	bool fresh;
	uint64_t *number =
		map_at(&making->by_routine, symbol ? symbol : UINT64_C(1) << 63 | location, &fresh);

	if (!fresh)
		return *number;
	*number = making->names.count;
	*array_push(&making->names) = (struct call_name){
		.symbol = symbol ? name_of_symbol(profile, symbol)
				 : unnamed_text(making->trees, module,
						profile->locations[location].address),
		.module = name_of_module(profile, module),
		.unnamed = !symbol,
		.symbol_id = symbol,
		.module_id = module,
	};
	return *number;
}

/* --- Nodes ------------------------------------------------------------------------------------ */

static void amounts_read(struct making *making)
{
	const struct profile *p = making->profile;

	for (size_t i = 0; i < p->call_amount_count; i++) {
		const struct profile_call_amount *row = &p->call_amounts[i];

		if (!strcmp(row->metric, "calls")) {
			making->calls[row->node] += row->base;
			continue;
		}
		if (!strcmp(row->metric, costs[COST_SAMPLES]))
			making->samples[row->node] += row->base;
		if (!strcmp(row->metric, costs[making->cost])) {
			making->timed = true;
			making->base[row->node] += row->base;
			making->elapsed[row->node] += row->elapsed;
		}
	}
}

/* Which tree each node belongs to: that of its parent, or one of its own. */
static void trees_number(struct making *making)
{
	const struct profile *p = making->profile;

	for (uint32_t i = 1; i < p->call_node_count; i++) {
		uint32_t parent = p->call_nodes[i].parent;

		if (!parent) {
			making->roots[making->tree_count] = i;
			making->tree_of[i] = ++making->tree_count;
		} else {
			making->tree_of[i] = making->tree_of[parent];
		}
		making->number[i] = making->sizes[making->tree_of[i] - 1]++;
	}
}

static struct call_node *node_at(char *nodes, uint32_t number, uint32_t metrics)
{
	return (struct call_node *)(nodes + (size_t)number * call_node_size(metrics));
}

static void node_make(struct making *making, uint32_t id, char *nodes)
{
	const struct profile_call_node *row = &making->profile->call_nodes[id];
	uint32_t number = making->number[id], parent = making->number[row->parent];
	struct call_node *node = node_at(nodes, number, making->timed);

	*node = (struct call_node){ .routine = row->location ? routine_number(making, row->location)
					       : row->pruned ? CALL_ROUTINE_PRUNED
							     : CALL_ROUTINE_THREAD,
				    .flags = row->pruned ? CALL_NODE_PRUNED : 0,
				    .parent = row->parent ? parent : CALL_NONE,
				    .child = CALL_NONE,
				    .sibling = CALL_NONE,
				    .instance = CALL_NONE,
				    .calls = row->parent ? making->calls[id] : 1,
				    .samples = making->samples[id] };
	if (making->timed)
		node->amounts[0] = (struct call_amount){ making->base[id], making->elapsed[id] };
	if (!row->parent)
		return;
	node->sibling = node_at(nodes, parent, making->timed)->child;
	node_at(nodes, parent, making->timed)->child = number;
}

static uint64_t *waited_make(const struct making *making, uint32_t tree)
{
	uint64_t *waited = mem_zalloc(((size_t)making->sizes[tree] + 1) * sizeof(*waited));

	for (uint32_t i = making->roots[tree], left = making->sizes[tree]; left; i++) {
		if (making->tree_of[i] != tree + 1)
			continue;
		waited[making->number[i]] = making->waited[i];
		left--;
	}
	return waited;
}

static int tree_make(struct making *making, uint32_t tree)
{
	const struct profile *p = making->profile;
	uint32_t thread = p->call_nodes[making->roots[tree]].thread, size = making->sizes[tree];
	AUTO(free_ptr) char *nodes = mem_zalloc((size_t)size * call_node_size(making->timed));
	struct call_tree_head head = {
		.metrics = making->timed, .count = size, .used = size, .free = CALL_NONE
	};
	struct call_result result = { .pid = p->processes[p->threads[thread].process].pid,
				      .tid = p->threads[thread].tid,
				      .ended = true };
	int err;

	for (uint32_t i = making->roots[tree], left = size; left; i++) {
		if (making->tree_of[i] != tree + 1)
			continue;
		node_make(making, i, nodes);
		left--;
	}
	snprintf(result.name, sizeof(result.name), "%s", p->threads[thread].comm);
	err = call_snapshot_take(&result.snapshot, &head, nodes, size);
	if (err)
		return err;
	*array_push(&making->trees->results) = result;
	making->trees->threads[making->trees->results.count - 1] = thread;
	if (making->trees->waited)
		making->trees->waited[making->trees->results.count - 1] = waited_make(making, tree);
	return 0;
}

/* --- All -------------------------------------------------------------------------------------- */

static uint32_t *numbers_make(size_t count)
{
	return mem_zalloc((count + 1) * sizeof(uint32_t));
}

static uint64_t *sums_make(size_t count)
{
	return mem_zalloc((count + 1) * sizeof(uint64_t));
}

static void making_deinit(struct making *making)
{
	map_deinit(&making->by_routine);
	free(making->tree_of);
	free(making->number);
	free(making->sizes);
	free(making->roots);
	free(making->calls);
	free(making->base);
	free(making->elapsed);
	free(making->samples);
	free(making->waited);
}

static void input_make(struct call_trees *trees)
{
	const struct profile_recording *recording =
		profile_recording(trees->profile, RECORDING_CALLS);

	trees->input.results =
		mem_alloc((trees->results.count + 1) * sizeof(*trees->input.results));
	trees->input.count = trees->results.count;
	for (size_t i = 0; i < trees->results.count; i++)
		trees->input.results[i] = &trees->results.items[i];
	trees->input.names = trees->names;
	trees->input.tick = 1;
	if (!recording)
		return;
	trees->input.kept = recording->kept;
	trees->input.losses = recording->losses;
	trees->input.loss_count = recording->loss_count;
}

/* What else the profile has of threads and their stacks. */
static void stacks_add(struct making *making)
{
	struct call_trees *trees = making->trees;
	const struct profile *profile = trees->profile;

	if (profile_recording(profile, RECORDING_SAMPLES)) {
		trees->input.sampled = true;
		trees->input.off = call_samples_place(profile, trees->filter, making->samples);
	}
	if (profile_recording(profile, RECORDING_WAITS)) {
		trees->waited = mem_zalloc((making->tree_count + 1) * sizeof(*trees->waited));
		trees->input.waited = trees->waited;
		trees->input.waited_off = call_waits_place(profile, trees->filter, making->waited);
	}
}

static int trees_make(struct call_trees *trees, const struct profile *profile,
		      const struct filter *filter, enum call_cost cost, bool with_stacks)
{
	size_t count = profile->call_node_count;
	AUTO(making_deinit)
	struct making making = { .trees = trees,
				 .profile = profile,
				 .cost = cost,
				 .tree_of = numbers_make(count),
				 .number = numbers_make(count),
				 .sizes = numbers_make(count),
				 .roots = numbers_make(count),
				 .calls = sums_make(count),
				 .base = sums_make(count),
				 .elapsed = sums_make(count),
				 .samples = sums_make(count),
				 .waited = sums_make(count) };
	int err = 0;

	*trees = (struct call_trees){ .profile = profile, .filter = filter };
	trees->threads = numbers_make(count);
	amounts_read(&making);
	if (cost != COST_TIME && !making.timed) {
		call_trees_deinit(trees);
		return err_set(-ENOENT,
			       "the profile does not say what calls cost in %s: none cost any, or "
			       "they were not recorded by 'assay calls %s'",
			       costs[cost], cost_options[cost]);
	}
	trees_number(&making);
	if (with_stacks)
		stacks_add(&making);
	for (uint32_t i = 0; i < making.tree_count && !err; i++) {
		uint32_t thread = profile->call_nodes[making.roots[i]].thread;

		if (!filter || filter_thread(filter, profile, thread))
			err = tree_make(&making, i);
	}
	trees->names = making.names.items;
	trees->name_count = making.names.count;
	if (err) {
		call_trees_deinit(trees);
		return err;
	}
	input_make(trees);
	return 0;
}

int call_trees_init(struct call_trees *trees, const struct profile *profile,
		    const struct filter *filter, enum call_cost cost)
{
	return trees_make(trees, profile, filter, cost, false);
}

void call_trees_deinit(struct call_trees *trees)
{
	for (size_t i = 0; trees->waited && i < trees->results.count; i++)
		free(trees->waited[i]);
	free(trees->waited);
	call_results_deinit(&trees->results);
	array_each(&trees->texts, text)
		free(*text);
	array_deinit(&trees->texts);
	free(trees->input.results);
	free(trees->names);
	free(trees->threads);
	*trees = (struct call_trees){};
}

/* --- Views ------------------------------------------------------------------------------------ */

static bool is_wanted(const void *ctx, const struct call_name *name)
{
	const struct call_trees *trees = ctx;

	return filter_symbol(trees->filter, trees->profile, name->symbol_id) &&
	       filter_module(trees->filter, trees->profile, name->module_id);
}

int call_view(const char *view, const struct profile *profile, const struct view_request *request,
	      struct table **ret)
{
	struct call_trees trees;
	int err;

	if (request->bottom_up || request->by_callsite)
		return err_set(-EINVAL, "--%s: of samples only; calls are told apart by their path",
			       request->bottom_up ? "bottom-up" : "by-callsite");
	err = trees_make(&trees, profile, &request->filter, request->cost, !strcmp(view, "tree"));
	if (err)
		return err;
	trees.input.plain = request->cost != COST_TIME;
	trees.input.min_share = request->min_share;
	trees.input.limit = request->limit;
	if (filter_has_code(&request->filter)) {
		trees.input.wanted = is_wanted;
		trees.input.wanted_ctx = &trees;
	}
	err = call_table_make(view, &trees.input, ret);
	call_trees_deinit(&trees);
	return err;
}
