// SPDX-License-Identifier: BSD-2-Clause
// Serves: T1, T2, T3, T5.
/*
 * Worked examples: every number was counted by hand from the pictures of the stack in the comments.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "calls/forest.h"
#include "calls/reports.h"
#include "support/call_trace.h"

static const enum call_metric metric_time[] = { CALL_METRIC_TIME };

/*
 * The stack of a thread at each time from 0 on, one letter for each routine. At time 19 it has
 * ended.
 */
static const char *const example[] = {
	"C",   "CA",   "CAB",	"CA",	  "CAB",   "CABB", "CAB", "CA", "C", "CB",
	"CBA", "CBAB", "CBABA", "CBABAX", "CBABA", "CBAB", "CBA", "CB", "C",
};

enum { EXAMPLE_TIMES = sizeof(example) / sizeof(example[0]) };

static uint64_t sp_at(size_t depth)
{
	return 0x10000 - depth * 64;
}

/* The event that leads from one stack to the next, if they differ. */
static void put_step(struct call_trace *trace, const char *from, const char *to)
{
	size_t before = strlen(from);
	size_t after = strlen(to);

	if (after > before)
		call_trace_entry(trace, (uint64_t)to[after - 1], sp_at(after));
	else if (after < before)
		call_trace_exit(trace, (uint64_t)from[before - 1], sp_at(before));
}

static void put_example(struct call_trace *trace)
{
	call_trace_begin(trace, 1, metric_time);
	call_trace_put(trace, CALL_MAJOR_THREAD, CALL_MINOR_START, 1234, 1, "pt_pidtid", 9);
	for (size_t i = 0; i < EXAMPLE_TIMES; i++) {
		call_trace_at(trace, i);
		put_step(trace, i ? example[i - 1] : "", example[i]);
	}
	call_trace_at(trace, EXAMPLE_TIMES);
	put_step(trace, "C", "");
	call_trace_put(trace, CALL_MAJOR_THREAD, CALL_MINOR_END, 1234, 1, NULL, 0);
}

static void read_trace(struct call_trace *trace, enum call_stack_rule rule,
		       struct call_forest *forest, struct call_snapshot *snapshot)
{
	struct call_forest_options options = CALL_FOREST_DEFAULTS;
	const struct call_thread *thread;

	options.rule = rule;
	options.depth_limit = 64;
	assert_int_equal(call_forest_read(forest, trace->bytes.text, trace->bytes.length, &options),
			 0);
	assert_int_equal(forest->refused, 0);
	thread = call_forest_thread(forest, 1);
	assert_non_null(thread);
	assert_int_equal(call_snapshot_take(snapshot, &thread->head, thread->tree.nodes,
					    thread->head.count),
			 0);
	strbuf_deinit(&trace->bytes);
}

static void check_tree(const struct call_snapshot *snapshot, const char *const *lines, size_t count)
{
	struct call_rows rows = {};

	call_report_tree(snapshot, 0, &rows);
	assert_int_equal(rows.count, count);
	for (size_t i = 0; i < count; i++) {
		const struct call_row *row = &rows.items[i];
		char line[100];
		char name = row->routine == CALL_ROUTINE_THREAD ? 't' : (char)row->routine;

		snprintf(line, sizeof(line), "%u %u %lu %lu %lu %lu %.*s%c", row->level,
			 row->recursion, row->calls, row->base, row->cum, row->elapsed,
			 (int)row->level, "------", name);
		assert_string_equal(line, lines[i]);
	}
	array_deinit(&rows);
}

/* level, recursion, calls, base, cum, elapsed, name */
static const char *const example_tree[] = {
	"0 1 1 0 19 19 t",    "1 1 1 3 19 19 -C",    "2 1 1 3 7 7 --A",	 "3 1 2 3 4 4 ---B",
	"4 2 1 1 1 1 ----B",  "2 1 1 2 9 9 --B",     "3 1 1 2 7 7 ---A", "4 2 1 2 5 5 ----B",
	"5 2 1 2 3 3 -----A", "6 1 1 1 1 1 ------X",
};

static void test_tree(void **state)
{
	static const enum call_stack_rule rules[] = { CALL_STACK_UNKNOWN, CALL_STACK_EXACT,
						      CALL_STACK_BOUND };

	for (size_t i = 0; i < 3; i++) {
		struct call_trace trace;
		struct call_forest forest;
		struct call_snapshot snapshot;

		put_example(&trace);
		read_trace(&trace, rules[i], &forest, &snapshot);
		check_tree(&snapshot, example_tree, sizeof(example_tree) / sizeof(char *));
		assert_string_equal(call_forest_thread(&forest, 1)->name, "pt_pidtid");
		for (int repair = 0; repair < CALL_REPAIR_COUNT; repair++)
			assert_int_equal(snapshot.head.repairs[repair], 0);
		call_snapshot_deinit(&snapshot);
		call_forest_deinit(&forest);
	}
}

/* The nodes of B, linked: C A B, C A B B, C B, C B A B. */
static void test_instances(void **state)
{
	static const uint32_t levels[] = { 3, 4, 2, 4 };
	struct call_trace trace;
	struct call_forest forest;
	struct call_snapshot snapshot;
	uint32_t at;

	put_example(&trace);
	read_trace(&trace, CALL_STACK_EXACT, &forest, &snapshot);
	at = (uint32_t)*map_find(&snapshot.routines, 'B');
	for (size_t i = 0; i < 4; i++) {
		const struct call_node *node = call_snapshot_node(&snapshot, at);

		assert_int_equal(node->routine, 'B');
		assert_int_equal(node->level, levels[i]);
		at = node->instance;
	}
	assert_int_equal(at, CALL_NONE);
	call_snapshot_deinit(&snapshot);
	call_forest_deinit(&forest);
}

static void check_row(const struct call_row *row, char routine, uint64_t calls, uint64_t base,
		      uint64_t cum)
{
	assert_int_equal(row->routine, routine);
	assert_int_equal(row->calls, calls);
	assert_int_equal(row->base, base);
	assert_int_equal(row->cum, cum);
}

/*
 * A was called three times, once by C and twice by B; 7 of its time was its own, and during 14 it
 * was on the stack. Once B is on the stack twice on account of itself, and once A on account of B.
 */
static void test_stanzas(void **state)
{
	struct call_trace trace;
	struct call_forest forest;
	struct call_snapshot snapshot;
	const struct call_snapshot *all = &snapshot;
	struct call_stanzas stanzas;
	const struct call_stanza *stanza;

	put_example(&trace);
	read_trace(&trace, CALL_STACK_EXACT, &forest, &snapshot);
	assert_int_equal(call_report_stanzas(&all, 1, 0, &stanzas), 0);
	assert_int_equal(stanzas.count, 5);
	stanza =
		/* the two with 19: C and the thread, in the order of their numbers */
		&stanzas.items[0];
	check_row(&stanza->self, 'C', 1, 3, 19);
	assert_int_equal(stanza->child_count, 2);
	check_row(&stanza->children[0], 'B', 1, 2, 9);
	check_row(&stanza->children[1], 'A', 1, 3, 7);
	stanza = &stanzas.items[2];
	check_row(&stanza->self, 'A', 3, 7, 14);
	assert_int_equal(stanza->parent_count, 2);
	check_row(&stanza->parents[0], 'B', 2, 4, 7);
	check_row(&stanza->parents[1], 'C', 1, 3, 7);
	assert_int_equal(stanza->child_count, 2);
	check_row(&stanza->children[0], 'B', 3, 5, 6);
	check_row(&stanza->children[1], 'X', 1, 1, 1);
	stanza = &stanzas.items[3];
	check_row(&stanza->self, 'B', 5, 8, 13);
	assert_int_equal(stanza->parent_count, 3);
	check_row(&stanza->parents[0], 'C', 1, 2, 9);
	check_row(&stanza->parents[1], 'A', 3, 5, 4);
	check_row(&stanza->parents[2], 'B', 1, 1, 0);
	check_row(&stanzas.items[4].self, 'X', 1, 1, 1);
	call_stanzas_deinit(&stanzas);
	call_snapshot_deinit(&snapshot);
	call_forest_deinit(&forest);
}

/* Sampled at every other time: X, which was on top at odd times only, is not seen. */
static void test_samples(void **state)
{
	/* level, samples of the node, samples below */
	static const char *const lines[] = { "0 0 10", "1 3 10", "2 0 3", "3 3 3",
					     "2 0 4",  "3 2 4",	 "4 0 2", "5 2 2" };
	struct call_trace trace;
	struct call_forest forest;
	struct call_snapshot snapshot;
	struct call_rows rows = {};

	call_trace_begin(&trace, 0, NULL);
	for (size_t i = 0; i < EXAMPLE_TIMES; i += 2) {
		uint64_t routines[8];
		size_t count = strlen(example[i]);

		for (size_t frame = 0; frame < count; frame++)
			routines[frame] = (uint64_t)example[i][frame];
		call_trace_put(&trace, CALL_MAJOR_SAMPLE_TIMER, CALL_MINOR_STACK, 0, 0, routines,
			       count * sizeof(uint64_t));
	}
	read_trace(&trace, CALL_STACK_UNKNOWN, &forest, &snapshot);
	assert_null(map_find(&snapshot.routines, 'X'));
	call_report_tree(&snapshot, 0, &rows);
	assert_int_equal(rows.count, 8);
	for (size_t i = 0; i < rows.count; i++) {
		const struct call_row *row = &rows.items[i];
		char line[100];

		snprintf(line, sizeof(line), "%u %lu %lu", row->level, row->samples,
			 snapshot.samples[row->node]);
		assert_string_equal(line, lines[i]);
		assert_int_equal(row->calls, i == 0);
	}
	array_deinit(&rows);
	call_snapshot_deinit(&snapshot);
	call_forest_deinit(&forest);
}

/* A runs for 1, calls B for 8, runs for 1; in the middle of B something else runs for `pause`. */
static void check_interrupted(uint64_t pause)
{
	struct call_trace trace;
	struct call_forest forest;
	struct call_snapshot snapshot;
	char lines[3][40];
	const char *const expected[] = { lines[0], lines[1], lines[2] };

	call_trace_begin(&trace, 1, metric_time);
	call_trace_entry(&trace, 'A', sp_at(1));
	call_trace_at(&trace, 1);
	call_trace_entry(&trace, 'B', sp_at(2));
	call_trace_at(&trace, 5);
	if (pause)
		call_trace_put(&trace, CALL_MAJOR_THREAD, CALL_MINOR_OUT, 0, 0, NULL, 0);
	call_trace_at(&trace, 5 + pause);
	if (pause)
		call_trace_put(&trace, CALL_MAJOR_THREAD, CALL_MINOR_IN, 0, 0, NULL, 0);
	call_trace_at(&trace, 9 + pause);
	call_trace_exit(&trace, 'B', sp_at(2));
	call_trace_at(&trace, 10 + pause);
	call_trace_exit(&trace, 'A', sp_at(1));
	read_trace(&trace, CALL_STACK_EXACT, &forest, &snapshot);
	snprintf(lines[0], sizeof(lines[0]), "0 1 1 0 10 %lu t", 10 + pause);
	snprintf(lines[1], sizeof(lines[1]), "1 1 1 2 10 %lu -A", 10 + pause);
	snprintf(lines[2], sizeof(lines[2]), "2 1 1 8 8 %lu --B", 8 + pause);
	check_tree(&snapshot, expected, 3);
	call_snapshot_deinit(&snapshot);
	call_forest_deinit(&forest);
}

static void test_interrupted(void **state)
{
	check_interrupted(0);
	check_interrupted(1);
}

/* A starts two transfers and B three; meanwhile others start four: the counters say it all. */
static void test_any_metric(void **state)
{
	static const enum call_metric kinds[] = { CALL_METRIC_OTHER, CALL_METRIC_OBJECTS,
						  CALL_METRIC_BYTES };
	struct call_trace trace;
	struct call_forest forest;
	struct call_snapshot snapshot;
	struct call_rows rows = {};

	call_trace_begin(&trace, 3, kinds);
	trace.now[0] = (struct call_amount){ .base = 100, .elapsed = 5000 };
	call_trace_entry(&trace, 'A', sp_at(1));
	trace.now[0] = (struct call_amount){ .base = 102, .elapsed = 5003 };
	call_trace_entry(&trace, 'B', sp_at(2));
	call_trace_put(&trace, CALL_MAJOR_ALLOCATION, CALL_MINOR_OBJECT, 48, 0x1000, NULL, 0);
	call_trace_put(&trace, CALL_MAJOR_ALLOCATION, CALL_MINOR_OBJECT, 16, 0x2000, NULL, 0);
	call_trace_put(&trace, CALL_MAJOR_ALLOCATION, CALL_MINOR_FREE, 16, 0x2000, NULL, 0);
	trace.now[0] = (struct call_amount){ .base = 105, .elapsed = 5009 };
	call_trace_exit(&trace, 'B', sp_at(2));
	call_trace_exit(&trace, 'A', sp_at(1));
	read_trace(&trace, CALL_STACK_EXACT, &forest, &snapshot);
	call_report_tree(&snapshot, 0, &rows);
	check_row(&rows.items[1], 'A', 1, 2, 5);
	assert_int_equal(rows.items[1].elapsed, 9);
	check_row(&rows.items[2], 'B', 1, 3, 3);
	assert_int_equal(rows.items[2].elapsed, 6);
	array_deinit(&rows);
	call_report_tree(&snapshot, 1, &rows);
	check_row(&rows.items[1], 'A', 1, 0, 2);
	array_deinit(&rows);
	call_report_tree(&snapshot, 2, &rows);
	check_row(&rows.items[2], 'B', 1, 64, 64);
	array_deinit(&rows);
	call_snapshot_deinit(&snapshot);
	call_forest_deinit(&forest);
}

/* Calls and samples in one tree, the sample below the node where it was taken. */
static void test_samples_and_calls(void **state)
{
	const uint64_t inner[] = { 'J', 'F' };
	struct call_trace trace;
	struct call_forest forest;
	struct call_snapshot snapshot;
	struct call_rows rows = {};

	call_trace_begin(&trace, 1, metric_time);
	call_trace_entry(&trace, 'A', sp_at(1));
	call_trace_put(&trace, CALL_MAJOR_SAMPLE_ROUTINE, CALL_MINOR_STACK, 0, 0, inner,
		       sizeof(inner));
	call_trace_at(&trace, 3);
	call_trace_entry(&trace, 'J', sp_at(2));
	call_trace_at(&trace, 4);
	call_trace_exit(&trace, 'J', sp_at(2));
	call_trace_exit(&trace, 'A', sp_at(1));
	read_trace(&trace, CALL_STACK_EXACT, &forest, &snapshot);
	call_report_tree(&snapshot, 0, &rows);
	assert_int_equal(rows.count, 4);
	check_row(&rows.items[1], 'A', 1, 3, 4);
	check_row(&rows.items[2], 'J', 1, 1, 1);
	check_row(&rows.items[3], 'F', 0, 0, 0);
	assert_int_equal(rows.items[3].samples, 1);
	assert_int_equal(snapshot.samples[rows.items[1].node], 1);
	array_deinit(&rows);
	call_snapshot_deinit(&snapshot);
	call_forest_deinit(&forest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_instances),
		cmocka_unit_test(test_stanzas),
		cmocka_unit_test(test_samples),
		cmocka_unit_test(test_interrupted),
		cmocka_unit_test(test_any_metric),
		cmocka_unit_test(test_samples_and_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
