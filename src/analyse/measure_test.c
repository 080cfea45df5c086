// SPDX-License-Identifier: BSD-2-Clause
// Serves: W2, W7.
/* Views of a small trace that is written down here, against sums made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "support/profile_fixture_trace.h"
#include "analyse/views.h"
#include "base/err.h"

static struct profile_symbol symbols[] = {
	{ .name = "", .linkage = "" },
	{ .module = 1, .name = "outer", .linkage = "outer", .address = 0x100, .size = 64 },
	{ .module = 1, .name = "inner", .linkage = "inner", .inlined = true },
	{ .module = 2, .name = "help", .linkage = "help", .address = 0x200, .size = 64 },
};
static struct profile_file files[] = { { 0, "" }, { 1, "a.c" }, { 2, "b.c" } };
static struct profile_frame frames[] = {
	{}, { 1, 0, 1, 1, 5 }, { 2, 0, 2, 1, 2 }, { 2, 1, 1, 1, 6 }, { 3, 0, 3, 2, 9 }
};
/* outer; inner, inlined into outer; help; code without a name. */
static struct profile_location locations[] = { {},
					       { 1, 1, 0x100, 1, 1 },
					       { 2, 1, 0x108, 2, 2 },
					       { 3, 2, 0x200, 4, 1 },
					       { 4, 2, 0x900, 0, 0 } };
/* The first has three instructions of outer and two of inner. */
static struct profile_block blocks[] = {
	{}, { 1, 1, 20, 5, 0, 2 }, { 2, 3, 8, 4, 2, 1 }, { 3, 4, 1, 1, 0, 0 }
};
static struct profile_block_part parts[] = { { 1, 0, 1, 3 }, { 1, 1, 2, 2 }, { 2, 0, 3, 4 } };
static struct profile_execution executions[] = {
	{ 1, 1, 1, 100 }, { 1, 1, 2, 10 }, { 1, 2, 2, 7 }, { 1, 3, 1, 2 }
};
static struct profile_thread_segments segments[] = { { 1, 1, 60, 4 }, { 1, 2, 40, 0 } };
static struct profile_source_line lines[] = {
	{ 1, 5, 1, 110 }, { 1, 6, 1, 0 }, { 1, 6, 2, 3 }, { 1, 7, 1, 0 }, { 2, 9, 2, 0 }
};
static struct profile_named_count losses[] = { { "unknown_run", "runs", 4 } };

/* 110 * 5 + 7 * 4 + 2 instructions in 110 + 7 + 2 blocks. */
enum { INSTRUCTIONS = 580, BLOCKS = 119 };

/* What profile_make() fills in for one profile. */
struct told {
	struct profile_fact tool;
	struct fixture_trace trace;
};

static struct profile profile_make(struct told *told, const char *name)
{
	struct profile profile;

	told->tool = (struct profile_fact){ 1, "tool", name };
	told->trace = (struct fixture_trace){ .facts = &told->tool, .fact_count = 1 };
	told->trace.recordings[1] = (struct profile_recording){
		.seen = 104, .kept = 100, .losses = losses, .loss_count = FIXTURE_COUNT(losses)
	};
	profile = fixture_trace(&(struct fixture_code){ FIXTURE_CODE }, &told->trace);
	profile.executions = executions;
	profile.execution_count = FIXTURE_COUNT(executions);
	profile.thread_segments = segments;
	profile.thread_segments_count = FIXTURE_COUNT(segments);
	profile.source_lines = lines;
	profile.source_line_count = FIXTURE_COUNT(lines);
	return profile;
}

static struct table *run_by(const char *tool, const char *view, const struct filter *filter,
			    enum view_metric metric)
{
	struct told told;
	struct profile profile = profile_make(&told, tool);
	struct view_request request = { .min_share = -1, .min_invariance = -1, .metric = metric };
	struct table *table = NULL;

	if (filter)
		request.filter = *filter;
	assert_int_equal(view_run(view_find(view), &profile, &request, &table), 0);
	return table;
}

static struct table *run(const char *tool, const char *view, const struct filter *filter)
{
	return run_by(tool, view, filter, METRIC_AUTO);
}

static uint64_t sum(const struct table *table, const char *column)
{
	int index = table_column(table, column);
	uint64_t total = 0;

	assert_true(index >= 0);
	for (size_t i = 0; i < table->row_count; i++)
		total += table_row(table, i)[index].number;
	return total;
}

/* Of the row whose column `key` has that text; -1: there is none. */
static int64_t number(const struct table *table, const char *key, const char *text,
		      const char *column)
{
	for (size_t i = 0; i < table->row_count; i++) {
		const struct cell *row = table_row(table, i);

		if (!strcmp(row[table_column(table, key)].text, text))
			return (int64_t)row[table_column(table, column)].number;
	}
	return -1;
}

static void every_view_adds_up(void **state)
{
	static const char *const names[] = { "functions", "lines", "modules", "processes",
					     "threads" };

	for (size_t i = 0; i < FIXTURE_COUNT(names); i++) {
		struct table *table = run("count", names[i], NULL);

		assert_int_equal(sum(table, "instructions"), INSTRUCTIONS);
		assert_int_equal(sum(table, "blocks"), BLOCKS);
		assert_int_equal(table->totals.kept, INSTRUCTIONS);
		/* Four lost runs, of 5.8 instructions each. */
		assert_int_equal(table->totals.seen, INSTRUCTIONS + 23);
		assert_int_equal(table->totals.losses[0].count, 23);
		table_destroy(table);
	}
}

static void instructions_belong_to_inlined_functions(void **state)
{
	struct table *table = run("count", "functions", NULL);

	assert_int_equal(number(table, "symbol", "outer", "instructions"), 330);
	assert_int_equal(number(table, "symbol", "inner", "instructions"), 220);
	assert_int_equal(number(table, "symbol", "inner", "blocks"), 0);
	assert_int_equal(number(table, "symbol", "outer", "blocks"), 110);
	assert_int_equal(number(table, "symbol", "help", "instructions"), 28);
	assert_int_equal(number(table, "symbol", "[unknown]", "instructions"), 2);
	table_destroy(table);
}

static void filters_choose(void **state)
{
	const char *symbol = "inner", *module = "l";
	int64_t tid = 11;
	struct filter filter = { .tids = { &tid, 1, 1 } };
	struct table *table = run("count", "functions", &filter);

	assert_int_equal(sum(table, "instructions"), 10 * 5 + 28);
	assert_int_equal(table->totals.selected, 78);
	assert_int_equal(table->totals.kept, INSTRUCTIONS);
	table_destroy(table);
	filter = (struct filter){ .symbols = { &symbol, 1, 1 } };
	table = run("count", "threads", &filter);
	assert_int_equal(number(table, "comm", "first", "instructions"), 200);
	assert_int_equal(number(table, "comm", "second", "instructions"), 20);
	assert_int_equal(sum(table, "blocks"), 0);
	table_destroy(table);
	filter = (struct filter){ .modules = { &module, 1, 1 } };
	table = run("count", "lines", &filter);
	assert_int_equal(sum(table, "instructions"), 30);
	table_destroy(table);
}

static void marks_count_once(void **state)
{
	struct table *table = run("coverage", "processes", NULL);

	assert_int_equal(table->totals.kept, 100 + 7 + 2); /* marks are 1 in real profiles */
	assert_int_equal(table->row_count, 1);
	assert_int_equal(sum(table, "blocks"), 100 + 7 + 2);
	assert_false(table_row(table, 0)[table_column(table, "instructions")].set);
	table_destroy(table);
}

/* By blocks, help with its 7 comes before inner, in which no block begins. */
static void blocks_are_a_metric(void **state)
{
	struct table *table = run_by("count", "functions", NULL, METRIC_BLOCKS);
	const struct cell *last;

	assert_int_equal(table->totals.kept, BLOCKS);
	assert_int_equal(sum(table, "instructions"), INSTRUCTIONS);
	last = table_row(table, table->row_count - 1);
	assert_string_equal(last[table_column(table, "symbol")].text, "inner");
	assert_true(last[table_column(table, "share")].real == 0);
	table_destroy(table);
	table = run_by("count", "functions", NULL, METRIC_INSTRUCTIONS);
	last = table_row(table, table->row_count - 1);
	assert_string_equal(last[table_column(table, "symbol")].text, "[unknown]");
	table_destroy(table);
}

/* A tool that counts beside the one that marks: then there are counts. */
static void several_tools_are_a_list(void **state)
{
	struct table *table = run("opcodes,coverage", "processes", NULL);

	assert_false(table_row(table, 0)[table_column(table, "instructions")].set);
	table_destroy(table);
	table = run("count,coverage", "processes", NULL);
	assert_int_equal(sum(table, "instructions"), INSTRUCTIONS);
	table_destroy(table);
}

static void nothing_has_a_reason(void **state)
{
	const char *pattern = "nosuch";
	struct filter filter = { .symbols = { &pattern, 1, 1 } };
	struct table *table = run("count", "functions", &filter);

	assert_int_equal(table->row_count, 0);
	assert_string_equal(table->empty, "Nothing in this profile matches --symbol nosuch.");
	table_destroy(table);
	table = run("count", "functions", NULL);
	assert_null(table->empty);
	table_destroy(table);
}

/* Line 6 is in two modules, and executed in one of them. */
static void coverage_has_each_line_once(void **state)
{
	const char *module = "p";
	struct filter filter = { .modules = { &module, 1, 1 } };
	struct table *table = run("coverage", "coverage", NULL);

	assert_int_equal(table->row_count, 2);
	assert_int_equal(number(table, "file", "a.c", "lines"), 3);
	assert_int_equal(number(table, "file", "a.c", "executed"), 2);
	assert_int_equal(number(table, "file", "b.c", "executed"), 0);
	table_destroy(table);
	table = run("coverage", "coverage", &filter);
	assert_int_equal(table->row_count, 1);
	assert_int_equal(number(table, "file", "a.c", "executed"), 1);
	table_destroy(table);
}

static void views_know_what_they_are_about(void **state)
{
	const struct view_request request = { .min_share = -1, .min_invariance = -1 };
	struct told told;
	struct profile trace = profile_make(&told, "count"), samples = trace;
	struct table *table = NULL;

	samples.recording_count = 0;
	assert_int_equal(view_run(view_find("tree"), &trace, &request, &table), -ENODATA);
	assert_non_null(strstr(err_text(), "order of execution"));
	assert_int_equal(view_run(view_find("coverage"), &samples, &request, &table), -ENODATA);
	assert_string_equal(err_text(), "this profile has no lines of source; 'assay trace --tool "
					"coverage -- COMMAND' records them");
	assert_int_equal(view_run(view_find("paths"), &samples, &request, &table), -ENODATA);
	assert_string_equal(err_text(), "this profile has no order of execution; 'assay trace -- "
					"COMMAND' records it");
	assert_int_equal(view_run(view_find("losses"), &trace, &request, &table), 0);
	assert_int_equal(table->totals.seen, 104);
	table_destroy(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_view_adds_up),
		cmocka_unit_test(instructions_belong_to_inlined_functions),
		cmocka_unit_test(filters_choose),
		cmocka_unit_test(marks_count_once),
		cmocka_unit_test(blocks_are_a_metric),
		cmocka_unit_test(several_tools_are_a_list),
		cmocka_unit_test(nothing_has_a_reason),
		cmocka_unit_test(coverage_has_each_line_once),
		cmocka_unit_test(views_know_what_they_are_about),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
