// SPDX-License-Identifier: BSD-2-Clause
/*
 * Stack nodes come after their parents, so that one pass over them finds the place of each: that of
 * its parent, followed by the functions at its own address, the outermost first.
 *
 *  1. A node comes after its parent.
 *  2. The counts of the samples add up to the samples that the filter selects.
 */
#include "analyse/calltree.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/mem.h"

static uint32_t child_at(struct calltree *tree, struct map *children, uint32_t parent,
			 uint32_t function)
{
	bool fresh;
	uint64_t *id = map_at(children, (uint64_t)parent << 32 | function, &fresh);

	if (fresh) {
		*id = tree->nodes.count;
		*array_push(&tree->nodes) = (struct calltree_node){ parent, function };
	}
	return (uint32_t)*id;
}

static uint32_t place_below(struct calltree *tree, struct map *children, uint32_t place,
			    uint32_t stack)
{
	uint32_t begin = forest_slot_begin(tree->forest, stack);

	for (uint32_t slot = forest_slot_end(tree->forest, stack); slot > begin; slot--)
		place = child_at(tree, children, place, tree->functions.entity[slot - 1]);
	return place;
}

/* By stack: its node. Stacks without samples at or below them get none. */
static uint32_t *stacks_place(struct calltree *tree)
{
	const struct profile *profile = tree->forest->profile;
	uint32_t *places = mem_zalloc((profile->stack_count + 1) * sizeof(*places));
	struct map children = {};

	if (profile->stack_count && tree->forest->own[0])
		places[0] = place_below(tree, &children, 0, 0);
	for (uint32_t i = 1; i < profile->stack_count; i++) {
		uint32_t parent = profile->stacks[i].parent;

		if (tree->forest->cum[i])
			places[i] = place_below(tree, &children, parent ? places[parent] : 0, i);
	}
	map_deinit(&children);
	return places;
}

/* By node: its number when each is followed by what is below it. */
static uint32_t *nodes_number(const struct calltree *tree)
{
	const struct calltree_node *nodes = tree->nodes.items;
	AUTO(free_ptr) uint32_t *child = mem_zalloc(tree->nodes.count * sizeof(*child));
	AUTO(free_ptr) uint32_t *sibling = mem_zalloc(tree->nodes.count * sizeof(*sibling));
	uint32_t *numbers = mem_zalloc(tree->nodes.count * sizeof(*numbers));
	uint32_t node, number = 0;

	for (node = (uint32_t)tree->nodes.count - 1; node > 0; node--) {
		sibling[node] = child[nodes[node].parent];
		child[nodes[node].parent] = node;
	}
	node = child[0];
	while (node) {
		numbers[node] = ++number;
		if (child[node]) {
			node = child[node];
			continue;
		}
		while (node && !sibling[node])
			node = nodes[node].parent;
		node = sibling[node];
	}
	return numbers;
}

/* Puts each node right before what is below it: then most are next to their parent. */
static void nodes_sort(struct calltree *tree)
{
	AUTO(free_ptr) uint32_t *numbers = nodes_number(tree);
	struct calltree_node *sorted = mem_zalloc(tree->nodes.capacity * sizeof(*sorted));

	for (size_t i = 1; i < tree->nodes.count; i++)
		sorted[numbers[i]] = (struct calltree_node){ numbers[tree->nodes.items[i].parent],
							     tree->nodes.items[i].function };
	free(tree->nodes.items);
	tree->nodes.items = sorted;
	array_each(&tree->samples, sample)
		sample->node = numbers[sample->node];
}

static int sample_compare(const void *left, const void *right)
{
	const struct calltree_sample *a = left, *b = right;

	if (a->node != b->node)
		return a->node < b->node ? -1 : 1;
	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	return (a->second > b->second) - (a->second < b->second);
}

/* Several stacks of a thread may have the same functions. */
static void samples_merge(struct calltree *tree)
{
	size_t kept = 0;

	if (!tree->samples.count)
		return;
	qsort(tree->samples.items, tree->samples.count, sizeof(*tree->samples.items),
	      sample_compare);
	for (size_t i = 1; i < tree->samples.count; i++) {
		struct calltree_sample *last = &tree->samples.items[kept];

		if (sample_compare(last, &tree->samples.items[i]) == 0)
			last->count += tree->samples.items[i].count;
		else
			tree->samples.items[++kept] = tree->samples.items[i];
	}
	tree->samples.count = kept + 1;
}

static void sample_add(struct calltree *tree, const struct filter *filter, uint32_t stack,
		       const struct calltree_sample *sample)
{
	if (tree->forest->own[stack] &&
	    filter_thread(filter, tree->forest->profile, sample->thread))
		*array_push(&tree->samples) = *sample;
}

static void samples_add(struct calltree *tree, const struct filter *filter, bool by_time)
{
	const struct profile *profile = tree->forest->profile;
	AUTO(free_ptr) uint32_t *places = stacks_place(tree);

	for (size_t i = 0; i < profile->sample_count && !by_time; i++) {
		const struct profile_sample *it = &profile->samples[i];

		sample_add(tree, filter, it->stack,
			   &(struct calltree_sample){ places[it->stack], it->thread, 0,
						      it->count });
	}
	for (size_t i = 0; i < profile->moment_count && by_time; i++) {
		const struct profile_moment *it = &profile->moments[i];

		sample_add(tree, filter, it->stack,
			   &(struct calltree_sample){ places[it->stack], it->thread, it->second,
						      it->count });
	}
	nodes_sort(tree);
	samples_merge(tree);
}

void calltree_init(struct calltree *tree, const struct profile *profile,
		   const struct filter *filter, bool by_time)
{
	*tree = (struct calltree){ .forest = forest_create(profile, filter, FOREST_CODE_SAMPLES) };
	functions_init(&tree->functions, tree->forest, NULL);
	*array_push(&tree->nodes) = (struct calltree_node){};
	samples_add(tree, filter, by_time);
}

void calltree_deinit(struct calltree *tree)
{
	functions_deinit(&tree->functions);
	forest_destroy(tree->forest);
	array_deinit(&tree->nodes);
	array_deinit(&tree->samples);
}
