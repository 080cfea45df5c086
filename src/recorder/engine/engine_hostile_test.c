// SPDX-License-Identifier: BSD-2-Clause
// Serves: W4, W8.
/* What an engine writes that cannot be: the source counts it, and takes no harm. */
#include "support/engine_bench.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/map.h"

static void test_unknown_segments_are_counted(void **state)
{
	struct engine_bench *bench = *state;
	const uint32_t segments[] = { 1, 0, 9, 2, UINT32_MAX, 3 }, good[] = { 1, 2, 3 };
	uint32_t thread;

	engine_bench_program(bench, (uint32_t)getpid(), &thread);
	fake_segments(&bench->engine, thread, segments, 6);
	engine_source_finish(bench->source);
	assert_int_equal(bench->heard.segments.count, 3);
	assert_memory_equal(bench->heard.segments.items, good, sizeof(good));
	assert_int_equal(engine_source_totals(bench->source)->kept, 3);
	assert_int_equal(engine_source_totals(bench->source)->lost[SEGMENT_LOSS_UNKNOWN], 3);
}

/* Segments 9 to 15 are not told of, 16 is. */
static void test_gaps_are_not_handed_out(void **state)
{
	struct engine_bench *bench = *state;
	const uint32_t segments[] = { 16, 12, 16 };
	uint32_t thread, catalog = engine_bench_program(bench, (uint32_t)getpid(), &thread);

	fake_fragment(&bench->engine, catalog, 16, 1, 0x9000);
	fake_segments(&bench->engine, thread, segments, 3);
	fake_segments(&bench->engine, thread, (uint32_t[]){ 1 }, 1);
	engine_bench_settle(bench);
	assert_int_equal(bench->heard.count, 2);
	fake_fragment(&bench->engine, catalog, 9, 7, 0x8000);
	fake_segments(&bench->engine, thread, segments, 3);
	engine_source_finish(bench->source);
	assert_int_equal(bench->heard.count, 6);
	assert_int_equal(engine_source_totals(bench->source)->lost[SEGMENT_LOSS_UNKNOWN], 1);
}

static void test_a_broken_catalog_ends_there(void **state)
{
	struct engine_bench *bench = *state;
	const struct stream_record huge = { STREAM_RECORD_MAX + 8, STREAM_RECORD_SEGMENTS };
	uint32_t thread, catalog = engine_bench_program(bench, (uint32_t)getpid(), &thread);

	fake_append(&bench->engine, catalog, &huge, sizeof(huge));
	fake_fragment(&bench->engine, catalog, 9, 1, 0x8000);
	fake_segments(&bench->engine, thread, (uint32_t[]){ 1, 9 }, 2);
	engine_source_finish(bench->source);
	assert_int_equal(bench->heard.count, 1);
	assert_int_equal(engine_source_totals(bench->source)->records_lost[CATALOG_SIZE], 1);
	assert_int_equal(engine_source_totals(bench->source)->records_seen, 3);
	assert_int_equal(engine_source_totals(bench->source)->records_kept, 2);
}

static void test_positions_out_of_range(void **state)
{
	struct engine_bench *bench = *state;
	uint32_t thread;

	engine_bench_program(bench, (uint32_t)getpid(), &thread);
	fake_slot(&bench->engine, thread)->passed = 5ull << 32;
	fake_slot(&bench->engine, thread)->next = fake_slot(&bench->engine, thread)->start;
	engine_bench_settle(bench);
	engine_source_finish(bench->source);
	assert_int_equal(bench->heard.count, 0);
	assert_int_equal(engine_source_totals(bench->source)->broken, 1);
}

static void test_threads_without_a_catalog(void **state)
{
	struct engine_bench *bench = *state;
	uint32_t thread = fake_thread_open(&bench->engine, 77, (uint32_t)getpid(), 1);

	fake_segments(&bench->engine, thread, (uint32_t[]){ 1, 2, 3 }, 3);
	fake_slot(&bench->engine, thread)->lost = 40;
	fake_thread_open(&bench->engine, UINT32_MAX, (uint32_t)getpid(), 1);
	engine_bench_settle(bench);
	engine_source_finish(bench->source);
	assert_int_equal(bench->heard.threads, 0);
	assert_int_equal(engine_source_totals(bench->source)->lost[SEGMENT_LOSS_ORPHAN], 3);
	assert_int_equal(engine_source_totals(bench->source)->lost[SEGMENT_LOSS_ABANDONED], 10);
}

/* A hostile program: random words all over the slots while the source works. */
static void test_garbage_does_no_harm(void **state)
{
	struct engine_bench *bench = *state;
	uint64_t random = 1;

	bench->heard.keep = false;
	for (int round = 0; round < 3000; round++) {
		uint32_t index = (uint32_t)(hash64(random++) % 8), *words;
		struct stream_slot *slot = fake_slot(&bench->engine, index);
		size_t word = hash64(random++) % (sizeof(*slot) / sizeof(*words));

		words = (uint32_t *)slot;
		words[word] = (uint32_t)(hash64(random) % 4 ? hash64(random) % 5 : hash64(random));
		words = (uint32_t *)((char *)slot + STREAM_RING_OFFSET);
		words[hash64(random + 1) % 64] = (uint32_t)hash64(random + 2) % 64;
		if (round % 100 == 0) {
			uint32_t thread;

			engine_bench_program(bench, 1, &thread);
		}
		random += 3;
		engine_source_sweep(bench->source);
	}
	engine_source_finish(bench->source);
	assert_true(engine_source_totals(bench->source)->records_seen >=
		    engine_source_totals(bench->source)->records_kept);
}

static void test_small_memory_is_refused(void **state)
{
	struct engine_bench *bench = *state;
	struct engine_source *source;

	assert_int_equal(engine_source_create(bench->engine.memory, ENGINE_SHARED_SIZE,
					      COUNTERS_NONE, &source),
			 -EINVAL);
}

/* No ring has such a size: nothing is taken from it. */
static void test_a_ring_of_another_size(void **state)
{
	struct engine_bench *bench = *state;
	uint32_t thread;

	engine_bench_program(bench, (uint32_t)getpid(), &thread);
	fake_segments(&bench->engine, thread, (uint32_t[]){ 1, 2, 3 }, 3);
	fake_slot(&bench->engine, thread)->ring = 0;
	engine_source_finish(bench->source);
	assert_int_equal(bench->heard.count, 0);
	assert_int_equal(engine_source_totals(bench->source)->broken, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, engine_bench_setup, engine_bench_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_unknown_segments_are_counted), TEST(test_gaps_are_not_handed_out),
		TEST(test_a_broken_catalog_ends_there),	 TEST(test_positions_out_of_range),
		TEST(test_threads_without_a_catalog),	 TEST(test_garbage_does_no_harm),
		TEST(test_small_memory_is_refused),	 TEST(test_a_ring_of_another_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
