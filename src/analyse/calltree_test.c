// SPDX-License-Identifier: BSD-2-Clause
// Serves: S3.
/* The call tree of flame graphs has the samples of the forest that it is made from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "analyse/calltree.h"
#include "analyse/moments.h"
#include "base/mem.h"
#include "support/profile_fixture.h"

/* Samples at nodes of a function, and at nodes with the function above them, by function. */
static void totals_check(const struct calltree *tree)
{
	struct costs costs;

	costs_init(&costs, tree->forest, tree->functions.entity, tree->functions.count);
	for (uint32_t function = 1; function < tree->functions.count; function++) {
		uint64_t self = 0, total = 0;

		array_each(&tree->samples, sample) {
			uint32_t node = sample->node;

			self += tree->nodes.items[node].function == function ? sample->count : 0;
			while (node && tree->nodes.items[node].function != function)
				node = tree->nodes.items[node].parent;
			total += node ? sample->count : 0;
		}
		assert_int_equal(self, costs.self[function]);
		assert_int_equal(total, costs.total[function]);
	}
	costs_deinit(&costs);
}

/* Siblings differ in their function, and what is below a node follows it. */
static void shape_check(const struct calltree *tree)
{
	for (uint32_t i = 1; i < tree->nodes.count; i++) {
		const struct calltree_node *node = &tree->nodes.items[i];
		uint32_t above = i - 1;

		assert_true(node->parent < i);
		while (above != node->parent && above)
			above = tree->nodes.items[above].parent;
		assert_int_equal(above, node->parent);
		for (uint32_t other = 1; other < i; other++)
			assert_false(tree->nodes.items[other].parent == node->parent &&
				     tree->nodes.items[other].function == node->function);
	}
}

static void has_the_samples_of_the_forest(void **state)
{
	struct fixture fixture;
	struct calltree tree;

	calltree_init(&tree, fixture_demo(&fixture), &(struct filter){}, false);
	assert_true(tree.nodes.count > 4 && tree.forest->selected > 0);
	totals_check(&tree);
	shape_check(&tree);
	calltree_deinit(&tree);
	fixture_deinit(&fixture);
}

static void filters_choose_samples(void **state)
{
	struct fixture fixture;
	const struct profile *profile = fixture_demo(&fixture);
	int64_t tid = profile->threads[profile->samples[0].thread].tid;
	struct filter filter = { .tids = { &tid, 1, 1 } };
	uint64_t wanted = 0, got = 0;
	struct calltree tree;

	for (size_t i = 0; i < profile->sample_count; i++)
		if (profile->threads[profile->samples[i].thread].tid == (uint32_t)tid)
			wanted += profile->samples[i].count;
	calltree_init(&tree, profile, &filter, false);
	array_each(&tree.samples, sample)
		got += sample->count;
	assert_true(wanted > 0 && wanted < profile->kept);
	assert_int_equal(got, wanted);
	totals_check(&tree);
	calltree_deinit(&tree);
	fixture_deinit(&fixture);
}

/* By time it has the same samples, and of a part of the time those of its moments. */
static void moments_are_told_apart(void **state)
{
	struct fixture fixture;
	struct profile profile = *fixture_demo(&fixture), part;
	struct profile_moment *moments = mem_zalloc(2 * profile.sample_count * sizeof(*moments));
	uint64_t late = 0, got = 0, all = 0;
	struct calltree tree;

	for (size_t i = 0; i < profile.sample_count; i++) {
		const struct profile_sample *it = &profile.samples[i];

		moments[i] =
			(struct profile_moment){ it->recording, 1, it->stack, it->thread, 1, 0 };
		moments[profile.sample_count + i] =
			(struct profile_moment){ it->recording, 5, it->stack, it->thread,
						 it->count - 1, 0 };
		late += it->count - 1;
	}
	profile.moments = moments;
	profile.moment_count = 2 * profile.sample_count;
	calltree_init(&tree, &profile, &(struct filter){}, true);
	totals_check(&tree);
	array_each(&tree.samples, sample)
		got += sample->second == 5 ? sample->count : 0;
	assert_int_equal(got, late);
	calltree_deinit(&tree);
	moments_init(&part, &profile, 2, 6);
	for (size_t i = 0; i < part.sample_count; i++)
		all += part.samples[i].count;
	assert_int_equal(all, late);
	moments_deinit(&part);
	free(moments);
	fixture_deinit(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(has_the_samples_of_the_forest),
		cmocka_unit_test(filters_choose_samples),
		cmocka_unit_test(moments_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
