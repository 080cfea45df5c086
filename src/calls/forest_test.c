// SPDX-License-Identifier: BSD-2-Clause
// Serves: T1, T2.
/*
 * Traces of calls: several threads, what is refused, and that pieces of any size give the same
 * trees.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "calls/forest.h"
#include "support/call_trace.h"

enum { THREADS = 3, SEED = 4711 };

static const enum call_metric kinds[] = { CALL_METRIC_TIME };

static void put_random(struct call_trace *trace, uint64_t seed)
{
	uint64_t depths[THREADS] = {};
	struct rng rng;

	rng_init(&rng, seed);
	call_trace_begin(trace, 1, kinds);
	for (uint64_t i = 0; i < 3000; i++) {
		uint64_t *depth;

		trace->thread = (uint32_t)(rng_next(&rng) % THREADS);
		depth = &depths[trace->thread];
		call_trace_at(trace, i);
		if (!*depth || (*depth < 20 && rng_trial(&rng, 0.5)))
			call_trace_entry(trace, rng_next(&rng) % 5, 5000 - 10 * ++*depth);
		else
			call_trace_exit(trace, 99, 5000 - 10 * (*depth)--);
	}
}

static struct call_forest_options options_small(void)
{
	struct call_forest_options options = CALL_FOREST_DEFAULTS;

	options.depth_limit = 32;
	options.rule = CALL_STACK_EXACT;
	return options;
}

/* Live, records come in pieces; a trace is read at once. The nodes are the same, byte by byte. */
static void test_pieces(void **state)
{
	struct call_forest_options options = options_small();
	struct call_trace trace;
	struct call_forest whole;
	struct call_forest pieces;
	size_t at = sizeof(struct call_trace_head);
	struct rng rng;

	put_random(&trace, SEED);
	rng_init(&rng, SEED);
	assert_int_equal(call_forest_read(&whole, trace.bytes.text, trace.bytes.length, &options),
			 0);
	assert_int_equal(call_forest_init(&pieces, (void *)trace.bytes.text, &options), 0);
	for (size_t end = at; at < trace.bytes.length;) {
		size_t used;

		end += rng_next(&rng) % 200;
		end = end < trace.bytes.length ? end : trace.bytes.length;
		assert_int_equal(call_forest_take(&pieces, trace.bytes.text + at, end - at, &used),
				 0);
		at += used;
	}
	assert_int_equal(whole.threads.count, THREADS);
	assert_int_equal(whole.events, 3000);
	for (uint32_t i = 0; i < THREADS; i++) {
		const struct call_thread *a = call_forest_thread(&whole, i);
		const struct call_thread *b = call_forest_thread(&pieces, i);

		assert_true(a->head.count > 50);
		assert_memory_equal(&a->head, &b->head, sizeof(a->head));
		assert_memory_equal(a->tree.nodes, b->tree.nodes,
				    (size_t)a->head.count * a->tree.node_size);
	}
	strbuf_deinit(&trace.bytes);
	call_forest_deinit(&whole);
	call_forest_deinit(&pieces);
}

static int read_changed(struct call_trace *trace, size_t offset, uint8_t value)
{
	struct call_forest_options options = options_small();
	struct call_forest forest;
	char old = trace->bytes.text[offset];
	int err;

	trace->bytes.text[offset] = (char)value;
	err = call_forest_read(&forest, trace->bytes.text, trace->bytes.length, &options);
	trace->bytes.text[offset] = old;
	if (!err)
		call_forest_deinit(&forest);
	return err;
}

static void test_bad_heads(void **state)
{
	struct call_forest_options options = options_small();
	struct call_forest forest;
	struct call_trace trace;

	put_random(&trace, SEED);
	assert_int_equal(read_changed(&trace, 0, 'C'), 0);
	assert_int_equal(read_changed(&trace, 0, 'D'), -EINVAL);
	assert_int_equal(read_changed(&trace, 4, 9), -EINVAL);
	assert_int_equal(read_changed(&trace, 6, CALL_METRICS_MAX + 1), -EINVAL);
	assert_int_equal(read_changed(&trace, 8, CALL_METRIC_COUNT), -EINVAL);
	assert_int_equal(read_changed(&trace, sizeof(struct call_trace_head), 40),
			 -EINVAL); /* no room for the counters */
	assert_int_equal(read_changed(&trace, sizeof(struct call_trace_head), 49), -EINVAL);
	assert_int_equal(call_forest_read(&forest, trace.bytes.text, 23, &options), -EINVAL);
	assert_int_equal(call_forest_read(&forest, trace.bytes.text, trace.bytes.length - 1,
					  &options),
			 -EINVAL);
	strbuf_deinit(&trace.bytes);
}

static void test_refused(void **state)
{
	struct call_forest_options options = options_small();
	struct call_forest forest;
	struct call_trace trace;

	options.thread_limit = 2;
	call_trace_begin(&trace, 1, kinds);
	call_trace_entry(&trace, 'A', 100);
	call_trace_put(&trace, CALL_MAJOR_THREAD, CALL_MINOR_END, 0, 0, NULL, 0);
	call_trace_entry(&trace, 'B', 100); /* after the end */
	trace.thread = 2;
	call_trace_put(&trace, 0x99, CALL_MINOR_ENTRY, 'A', 100, NULL, 0);
	call_trace_put(&trace, CALL_MAJOR_ENGINE, CALL_MINOR_STACK, 'A', 100, NULL, 0);
	call_trace_put(&trace, CALL_MAJOR_SAMPLE_TIMER, CALL_MINOR_ENTRY, 'A', 100, NULL, 0);
	call_trace_put(&trace, CALL_MAJOR_ALLOCATION, CALL_MINOR_ENTRY, 'A', 100, NULL, 0);
	call_trace_put(&trace, CALL_MAJOR_CODE, CALL_MINOR_ENTRY, 'A', 100, NULL, 0);
	call_trace_put(&trace, CALL_MAJOR_THREAD, CALL_MINOR_ENTRY, 'A', 100, NULL, 0);
	trace.thread = 3; /* beyond the limit */
	call_trace_entry(&trace, 'A', 100);
	call_trace_put(&trace, CALL_MAJOR_CODE, CALL_MINOR_NAME, 'A', 0, "alpha", 5);
	assert_int_equal(call_forest_read(&forest, trace.bytes.text, trace.bytes.length, &options),
			 0);
	assert_int_equal(forest.events, 11);
	assert_int_equal(forest.refused, 8);
	assert_int_equal(forest.threads.count, 2);
	assert_string_equal(call_forest_name(&forest, 'A'), "alpha");
	assert_null(call_forest_name(&forest, 'B'));
	strbuf_deinit(&trace.bytes);
	call_forest_deinit(&forest);
}

/* What a source tells that repairs by itself. */
static void put_repairs(struct call_trace *trace)
{
	static const uint64_t path[] = { 'A', 'B', 'C' };

	for (size_t i = 0; i < 3; i++)
		call_trace_put(trace, CALL_MAJOR_ENGINE, CALL_MINOR_ENTRY, path[i], 0, NULL, 0);
	call_trace_put(trace, CALL_MAJOR_ENGINE, CALL_MINOR_GONE, CALL_REPAIR_ABANDONED, 0, NULL,
		       0);
	call_trace_put(trace, CALL_MAJOR_ENGINE, CALL_MINOR_GONE, CALL_REPAIR_ABANDONED, 0, NULL,
		       0);
	call_trace_put(trace, CALL_MAJOR_ENGINE, CALL_MINOR_ENTRY, 'D', 0, NULL, 0);
	call_trace_put(trace, CALL_MAJOR_ENGINE, CALL_MINOR_REPAIR, CALL_REPAIR_SWITCHED, 0, NULL,
		       0);
	call_trace_put(trace, CALL_MAJOR_ENGINE, CALL_MINOR_BACK, 'C', 0, path, sizeof(path));
	call_trace_put(trace, CALL_MAJOR_ENGINE, CALL_MINOR_ENTRY, 'E', 0, NULL, 0);
	call_trace_put(trace, CALL_MAJOR_ENGINE, CALL_MINOR_TAKEN_BACK, 'E', 0, NULL, 0);
	call_trace_put(trace, CALL_MAJOR_ENGINE, CALL_MINOR_ENTRY, 'E', 0, NULL, 0);
	call_trace_put(trace, CALL_MAJOR_ALLOCATION, CALL_MINOR_ASKED, 100, 1, NULL, 0);
	call_trace_put(trace, CALL_MAJOR_THREAD, CALL_MINOR_TASK, CALL_ROUTINE_TASKS, 0, "first",
		       5);
}

static const struct call_node *node_of(const struct call_thread *thread, uint64_t routine)
{
	for (uint32_t i = 0; i < thread->head.count; i++)
		if (call_tree_node(&thread->tree, i)->routine == routine)
			return call_tree_node(&thread->tree, i);
	return NULL;
}

static void test_repairs(void **state)
{
	static const enum call_metric both[] = { CALL_METRIC_TIME, CALL_METRIC_BYTES };
	struct call_forest_options options = options_small();
	const struct call_thread *thread;
	struct call_forest forest;
	struct call_trace trace;

	options.rule = CALL_STACK_UNKNOWN;
	call_trace_begin(&trace, 2, both);
	((struct call_trace_head *)trace.bytes.text)->weighs_itself = 1;
	put_repairs(&trace);
	assert_int_equal(call_forest_read(&forest, trace.bytes.text, trace.bytes.length, &options),
			 0);
	assert_int_equal(forest.refused, 0);
	thread = call_forest_thread(&forest, 1);
	assert_int_equal(thread->head.repairs[CALL_REPAIR_ABANDONED], 1);
	assert_int_equal(thread->head.repairs[CALL_REPAIR_SWITCHED], 1);
	assert_int_equal(node_of(thread, 'C')->calls, 1);
	assert_int_equal(node_of(thread, 'E')->calls, 1);
	assert_ptr_equal(call_tree_node(&thread->tree, node_of(thread, 'E')->parent),
			 node_of(thread, 'C'));
	assert_int_equal(node_of(thread, 'C')->amounts[1].base, 100);
	assert_int_equal(node_of(thread, 'D')->calls, 1);
	assert_string_equal(thread->tasks.items[0], "first");
	call_forest_deinit(&forest);
	strbuf_deinit(&trace.bytes);
}

/* Records that do not fit what came before. */
static void test_repairs_refused(void **state)
{
	static const uint64_t path[] = { 'A' };
	struct call_forest_options options = options_small();
	struct call_forest forest;
	struct call_trace trace;

	call_trace_begin(&trace, 1, kinds);
	call_trace_put(&trace, CALL_MAJOR_ENGINE, CALL_MINOR_GONE, CALL_REPAIR_ABANDONED, 0, NULL,
		       0); /* there is no frame */
	call_trace_put(&trace, CALL_MAJOR_ENGINE, CALL_MINOR_REPAIR, CALL_REPAIR_COUNT, 0, NULL, 0);
	call_trace_put(&trace, CALL_MAJOR_ENGINE, CALL_MINOR_TAKEN_BACK, 'A', 0, NULL, 0);
	call_trace_put(&trace, CALL_MAJOR_ENGINE, CALL_MINOR_BACK, 'A', 0, path,
		       sizeof(path)); /* paths are pruned on exits here */
	call_trace_put(&trace, CALL_MAJOR_ALLOCATION, CALL_MINOR_ASKED, 100, 1, NULL, 0);
	call_trace_put(&trace, CALL_MAJOR_THREAD, CALL_MINOR_TASK, CALL_ROUTINE_TASKS + 1, 0, "x",
		       1); /* the first one is missing */
	assert_int_equal(call_forest_read(&forest, trace.bytes.text, trace.bytes.length, &options),
			 0);
	assert_int_equal(forest.refused, 6);
	call_forest_deinit(&forest);
	strbuf_deinit(&trace.bytes);
}

/* A process executes another program: what is loaded then, and threads from then on, are its. */
static void test_programs(void **state)
{
	const struct {
		uint64_t bias;
		char path[8];
	} load = { 0, "/a" };
	struct call_forest_options options = options_small();
	struct call_forest forest;
	struct call_trace trace;

	call_trace_begin(&trace, 1, kinds);
	for (uint32_t i = 0; i < 2; i++) {
		trace.thread = 7; /* the pid */
		call_trace_put(&trace, CALL_MAJOR_CODE, CALL_MINOR_PROGRAM, 0, 0, NULL, 0);
		call_trace_put(&trace, CALL_MAJOR_CODE, CALL_MINOR_LOAD, 4096, 4096, &load,
			       sizeof(load));
		trace.thread = 1 + i;
		call_trace_put(&trace, CALL_MAJOR_THREAD, CALL_MINOR_PROCESS, 7, 0, NULL, 0);
	}
	assert_int_equal(call_forest_read(&forest, trace.bytes.text, trace.bytes.length, &options),
			 0);
	assert_int_equal(forest.refused, 0);
	assert_int_equal(forest.loads.items[0].program, call_forest_thread(&forest, 1)->program);
	assert_int_equal(forest.loads.items[1].program, call_forest_thread(&forest, 2)->program);
	assert_true(forest.loads.items[0].program < forest.loads.items[1].program);
	call_forest_deinit(&forest);
	strbuf_deinit(&trace.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces),		cmocka_unit_test(test_bad_heads),
		cmocka_unit_test(test_refused),		cmocka_unit_test(test_repairs),
		cmocka_unit_test(test_repairs_refused), cmocka_unit_test(test_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
