// SPDX-License-Identifier: BSD-2-Clause
// Serves: W3, W6.
/* The course of a program: stretches of levels, paths and strata, of recordings that are known. */
#include "support/order_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "analyse/course.h"
#include "base/mem.h"

/* Each level from the beginning to the end, cycles as long as they say, parts and steps too. */
static void course_check(const struct course *course)
{
	array_each(&course->threads, thread) {
		uint64_t end[COURSE_LEVELS] = {};

		for (size_t i = 0; i < thread->count; i++) {
			const struct course_stretch *it =
				&course->stretches.items[thread->first + i];
			uint64_t length = it->end - it->begin, weight = 0;

			assert_int_equal(it->begin, end[it->level]);
			end[it->level] = it->end;
			assert_in_range(it->hot_instructions, 1, length);
			if (it->cycle && it->level == COURSE_STRATA)
				weight = course->strata.items[it->cycle - 1].weight;
			else if (it->cycle)
				weight = course->paths.items[it->cycle - 1].weight;
			assert_true(!it->cycle || length == it->trips * weight);
		}
		for (size_t i = 0; i < COURSE_LEVELS; i++)
			assert_int_equal(end[i], thread->instructions);
	}
	array_each(&course->strata, stratum) {
		uint64_t sum = 0;

		for (size_t i = 0; i < stratum->count; i++)
			sum += course->parts.items[stratum->first + i].instructions;
		assert_int_equal(sum, stratum->weight);
	}
	array_each(&course->paths, path) {
		uint64_t sum = 0;

		for (size_t i = 0; i < path->count; i++)
			sum += course->steps.items[path->first + i].instructions;
		assert_int_equal(sum, path->weight);
	}
}

/* Of the small program everything is long enough: what the comment at its blocks says. */
static void course_has_every_path(void **state)
{
	static const struct filter none;
	static const struct {
		uint64_t end, trips;
	} paths[] = { { 27, 9 }, { 44, 1 }, { 86, 3 }, { 103, 1 } };
	struct order_recording recording;
	struct course course;
	size_t seen = 0;

	order_recording_make(&recording);
	assert_int_equal(course_make(order_recording_profile(&recording), &none, 1000, &course), 0);
	course_check(&course);
	assert_int_equal(course.threads.count, 2);
	assert_int_equal(course.threads.items[0].thread, 1);
	assert_int_equal(course.threads.items[0].instructions, 103);
	for (size_t i = 0; i < course.threads.items[0].count; i++) {
		const struct course_stretch *it = &course.stretches.items[i];

		if (it->level != COURSE_PATHS)
			continue;
		assert_true(seen < FIXTURE_COUNT(paths));
		assert_true(it->cycle);
		assert_int_equal(it->end, paths[seen].end);
		assert_int_equal(it->trips, paths[seen++].trips);
	}
	assert_int_equal(seen, FIXTURE_COUNT(paths));
	course_deinit(&course);
	order_recording_free(&recording);
}

/* Many rows: a stretch that repeats (1 1 2), whose strata are one, and one that does not repeat. */
static void course_of_a_long_run(void **state)
{
	static const struct filter none;
	enum { HALF = 30000, CELLS = 100 };
	uint32_t *order = mem_alloc(2 * HALF * sizeof(*order)), seed = ORDER_SEED;
	const struct course_stretch *longest = NULL;
	struct order_recording recording;
	struct flow_space *space = order_space_make(&recording);
	struct course course;

	for (size_t i = 0; i < HALF; i++)
		order[i] = i % 3 == 2 ? 2 : 1;
	for (size_t i = HALF; i < 2 * HALF; i++) {
		seed = seed * 1664525 + 1013904223;
		order[i] = 1 + (seed >> 16) % ORDER_BLOCKS;
	}
	order_thread_record(space, 1, order, 2 * HALF);
	assert_int_equal(flow_space_finish(space), 0);
	flow_space_destroy(space);
	assert_true(recording.flows.count > 4);
	assert_int_equal(course_make(order_recording_profile(&recording), &none, CELLS, &course),
			 0);
	course_check(&course);
	assert_true(course.stretches.count < (size_t)COURSE_LEVELS * 3 * CELLS);
	array_each(&course.stretches, it)
		if (!longest || it->end - it->begin > longest->end - longest->begin)
			longest = it;
	assert_int_equal(longest->level, COURSE_STRATA);
	assert_true(longest->cycle);
	assert_in_range(longest->end - longest->begin, HALF * 10 / 3 - 100, HALF * 10 / 3);
	assert_true(course.stretches.items[course.stretches.count - 1].cycle == 0);
	course_deinit(&course);
	free(order);
	order_recording_free(&recording);
}

static void course_is_a_view(void **state)
{
	struct order_recording recording;
	struct view_request request = {};
	struct table *table;

	order_recording_make(&recording);
	*array_push(&request.filter.tids) = 11;
	table = order_view(order_recording_profile(&recording), "course", &request);
	assert_int_equal(table->totals.selected, 28);
	assert_int_equal(table->row_count, 2);
	assert_int_equal(order_number(table, 0, "end"), 28);
	assert_string_equal(order_text(table, 1, "what"), "path");
	assert_int_equal(order_number(table, 1, "trips"), 2);
	assert_int_equal(order_number(table, 1, "each"), 14);
	assert_string_equal(order_text(table, 1, "symbol"), "main");
	table_destroy(table);
	filter_deinit(&request.filter);
	order_recording_free(&recording);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(course_has_every_path),
		cmocka_unit_test(course_of_a_long_run),
		cmocka_unit_test(course_is_a_view),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
