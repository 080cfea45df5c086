// SPDX-License-Identifier: BSD-2-Clause
/*
 * Weights on the tree of stacks, in time linear in nodes and frames and without recursion on depth.
 *
 * Samples are first added up per node (own). Because a node comes after its parent, one pass from
 * the last node to the first gives what lies below each (cum), and links the children. An entity's
 * total is the sum of cum over its outermost occurrences: a depth-first walk keeps how often each
 * entity is on the current path, and adds cum only when that rises from 0.
 *
 *  1. own[n] > 0 only for nodes that a selected sample points at; the sum of own is selected.
 *  2. cum[n] = own[n] + the sum of cum over n's children; the sum of cum over outermost nodes plus
 *     own[0] is selected.
 *  3. Siblings are linked in rising order of node.
 *  4. The walk leaves each node it entered; at its end every on-path counter is 0.
 */
#include "analyse/forest.h"

#include <assert.h>

#include "analyse/names.h"
#include "base/mem.h"
#include "wire/unwind.h"

/*
 * Each process has a module of its own for code that it made. Without names such code of one
 * process looks like that of another: all of it is one module then, and one row of a table.
 */
static uint32_t module_of(const struct profile *profile, const struct profile_location *row,
			  uint32_t anonymous)
{
	return !row->frame_count && profile->modules[row->module].kind == MODULE_ANON ? anonymous
										      : row->module;
}

/* The first module of code without a file; 0: there is none. */
static uint32_t anonymous_find(const struct profile *profile)
{
	for (uint32_t i = 1; i < profile->module_count; i++)
		if (profile->modules[i].kind == MODULE_ANON)
			return i;
	return 0;
}

static void slots_of_location(struct forest *forest, uint32_t location, uint32_t anonymous)
{
	const struct profile *profile = forest->profile;
	const struct profile_location *row = &profile->locations[location];
	struct slot *slot = forest->slots + forest->slot_count;

	forest->first[location] = (uint32_t)forest->slot_count;
	forest->slot_count += location && row->frame_count ? row->frame_count : 1;
	*slot = (struct slot){ .location = location };
	if (location)
		slot->module = module_of(profile, row, anonymous);
	for (uint32_t i = 0; location && i < row->frame_count; i++) {
		const struct profile_frame *frame = &profile->frames[row->first_frame + i];

		slot[i] = (struct slot){ location, row->module, frame->symbol, frame->file,
					 frame->line };
	}
}

static void slots_build(struct forest *forest)
{
	const struct profile *profile = forest->profile;
	size_t locations = profile->location_count ? profile->location_count : 1, slots = 1;
	uint32_t anonymous = anonymous_find(profile);

	for (size_t i = 1; i < locations; i++)
		slots += profile->locations[i].frame_count ? profile->locations[i].frame_count : 1;
	assert(slots < UINT32_MAX);
	forest->slots = mem_alloc(slots * sizeof(*forest->slots));
	forest->first = mem_alloc((locations + 1) * sizeof(*forest->first));
	for (size_t i = 0; i < locations; i++)
		slots_of_location(forest, (uint32_t)i, anonymous);
	forest->first[locations] = (uint32_t)forest->slot_count;
}

/* By node: whether it or a frame around it is code that the filter names. */
bool *forest_nodes_with_code(const struct forest *forest, const struct filter *filter)
{
	struct functions functions;
	bool *has = mem_zalloc(forest->profile->stack_count + 1);

	functions_init(&functions, forest, filter);
	for (uint32_t node = 1; node < forest->profile->stack_count; node++) {
		has[node] = has[forest->profile->stacks[node].parent];
		for (uint32_t s = forest_slot_begin(forest, node);
		     s < forest_slot_end(forest, node); s++)
			has[node] |= functions.entity[s] != 0;
	}
	functions_deinit(&functions);
	return has;
}

static void samples_add(struct forest *forest, const struct filter *filter, const bool *has_code)
{
	const struct profile *profile = forest->profile;
	AUTO(free_ptr) bool *thread_ok = mem_zalloc(profile->thread_count + 1);

	for (uint32_t i = 0; i < profile->thread_count; i++)
		thread_ok[i] = filter_thread(filter, profile, i);
	for (size_t i = 0; i < profile->sample_count; i++) {
		const struct profile_sample *sample = &profile->samples[i];

		if (!thread_ok[sample->thread] || (has_code && !has_code[sample->stack]))
			continue;
		forest->own[sample->stack] += sample->count;
		forest->kernel[sample->stack] += sample->kernel;
		forest->selected += sample->count;
	}
}

static void nodes_link(struct forest *forest)
{
	for (uint32_t node = (uint32_t)forest->profile->stack_count - 1; node > 0; node--) {
		uint32_t parent = forest->profile->stacks[node].parent;

		forest->cum[node] += forest->own[node];
		if (parent)
			forest->cum[parent] += forest->cum[node];
		forest->sibling[node] = forest->child[parent];
		forest->child[parent] = node;
	}
}

struct forest *forest_create(const struct profile *profile, const struct filter *filter,
			     enum forest_code_filter code)
{
	struct forest *forest = mem_zalloc(sizeof(*forest));
	size_t nodes = profile->stack_count + 1;
	AUTO(free_ptr) bool *has_code = NULL;

	forest->profile = profile;
	forest->own = mem_zalloc(nodes * sizeof(*forest->own));
	forest->kernel = mem_zalloc(nodes * sizeof(*forest->kernel));
	forest->cum = mem_zalloc(nodes * sizeof(*forest->cum));
	forest->child = mem_zalloc(nodes * sizeof(*forest->child));
	forest->sibling = mem_zalloc(nodes * sizeof(*forest->sibling));
	slots_build(forest);
	if (code == FOREST_CODE_SAMPLES && filter_has_code(filter))
		has_code = forest_nodes_with_code(forest, filter);
	samples_add(forest, filter, has_code);
	if (profile->stack_count > 1)
		nodes_link(forest);
	return forest;
}

void forest_destroy(struct forest *forest)
{
	if (!forest)
		return;
	free(forest->slots);
	free(forest->first);
	free(forest->own);
	free(forest->kernel);
	free(forest->cum);
	free(forest->child);
	free(forest->sibling);
	free(forest);
}

/* The next node with samples among node and its later siblings. */
static uint32_t live(const struct forest *forest, uint32_t node)
{
	while (node && !forest->cum[node])
		node = forest->sibling[node];
	return node;
}

void forest_walk(const struct forest *forest, forest_visit_fn enter, forest_visit_fn leave,
		 void *ctx)
{
	uint32_t node = live(forest, forest->child[0]), next;

	if (forest->own[0]) {
		enter(ctx, 0);
		if (leave)
			leave(ctx, 0);
	}
	while (node) {
		enter(ctx, node);
		next = live(forest, forest->child[node]);
		while (!next && node) {
			if (leave)
				leave(ctx, node);
			next = live(forest, forest->sibling[node]);
			node = forest->profile->stacks[node].parent;
		}
		node = next;
	}
}

static uint32_t function_of_slot(const struct profile *profile, const struct slot *slot)
{
	uint64_t address = profile->locations[slot->location].address;

	if (slot->symbol)
		return slot->symbol;
	if (!slot->module || profile->modules[slot->module].kind != MODULE_MARK)
		return (uint32_t)(profile->symbol_count + slot->module + 1);
	return (uint32_t)(profile->symbol_count + profile->module_count + 1 +
			  (address < STACK_END_COUNT ? address : STACK_END_COUNT));
}

void functions_init(struct functions *functions, const struct forest *forest,
		    const struct filter *filter)
{
	const struct profile *profile = forest->profile;

	functions->profile = profile;
	functions->count = profile->symbol_count + profile->module_count + STACK_END_COUNT + 3;
	functions->entity = mem_zalloc((forest->slot_count + 1) * sizeof(*functions->entity));
	for (size_t i = 0; i < forest->slot_count; i++) {
		const struct slot *slot = &forest->slots[i];

		if (!filter || (filter_symbol(filter, profile, slot->symbol) &&
				filter_module(filter, profile, slot->module)))
			functions->entity[i] = function_of_slot(profile, slot);
	}
}

void functions_deinit(struct functions *functions)
{
	free(functions->entity);
	functions->entity = NULL;
}

uint32_t functions_symbol(const struct functions *functions, uint32_t entity)
{
	return entity < functions->profile->symbol_count ? entity : 0;
}

/* The module of marks: there is one at most. */
static uint32_t mark_module(const struct profile *profile)
{
	for (uint32_t i = 1; i < profile->module_count; i++)
		if (profile->modules[i].kind == MODULE_MARK)
			return i;
	return 0;
}

uint32_t functions_module(const struct functions *functions, uint32_t entity)
{
	const struct profile *profile = functions->profile;

	if (entity < profile->symbol_count)
		return profile->symbols[entity].module;
	entity -= (uint32_t)profile->symbol_count + 1;
	return entity < profile->module_count ? entity : mark_module(profile);
}

const char *functions_name(const struct functions *functions, uint32_t entity)
{
	const struct profile *profile = functions->profile;
	size_t marks = profile->symbol_count + profile->module_count + 1;

	if (entity >= marks)
		return name_of_mark(entity - marks);
	return name_of_symbol(profile, functions_symbol(functions, entity));
}

bool functions_inlined(const struct functions *functions, uint32_t entity)
{
	uint32_t symbol = functions_symbol(functions, entity);

	return symbol && functions->profile->symbols[symbol].inlined;
}

struct cost_walk {
	const struct forest *forest;
	const uint32_t *entity;
	struct costs *costs;
	uint32_t *on_path; /* by entity: occurrences among the frames entered and not left */
};

static void cost_enter(void *ctx, uint32_t node)
{
	struct cost_walk *walk = ctx;
	uint32_t begin = forest_slot_begin(walk->forest, node);
	uint32_t end = forest_slot_end(walk->forest, node);
	uint64_t cum = node ? walk->forest->cum[node] : walk->forest->own[0];

	for (uint32_t s = begin; s < end; s++) {
		uint32_t entity = walk->entity[s];

		if (entity && walk->on_path[entity]++ == 0)
			walk->costs->total[entity] += cum;
	}
	if (walk->entity[begin])
		walk->costs->self[walk->entity[begin]] += walk->forest->own[node];
}

static void cost_leave(void *ctx, uint32_t node)
{
	struct cost_walk *walk = ctx;
	uint32_t end = forest_slot_end(walk->forest, node);

	for (uint32_t s = forest_slot_begin(walk->forest, node); s < end; s++)
		if (walk->entity[s])
			walk->on_path[walk->entity[s]]--;
}

void costs_init(struct costs *costs, const struct forest *forest, const uint32_t *entity,
		size_t count)
{
	struct cost_walk walk = { forest, entity, costs };

	costs->self = mem_zalloc((count + 1) * sizeof(*costs->self));
	costs->total = mem_zalloc((count + 1) * sizeof(*costs->total));
	walk.on_path = mem_zalloc((count + 1) * sizeof(*walk.on_path));
	forest_walk(forest, cost_enter, cost_leave, &walk);
	free(walk.on_path);
}

void costs_deinit(struct costs *costs)
{
	free(costs->self);
	free(costs->total);
}
