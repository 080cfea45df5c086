// SPDX-License-Identifier: BSD-2-Clause
// Serves: S3.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyse/annotate.h"
#include "analyse/diff.h"
#include "support/profile_fixture.h"
#include "analyse/forest.h"
#include "analyse/views.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"

static struct table *run(const struct profile *profile, const char *view,
			 const struct view_request *request)
{
	struct table *table = NULL;

	assert_int_equal(view_run(view_find(view), profile, request, &table), 0);
	return table;
}

static struct table *run_all(const struct profile *profile, const char *view)
{
	return run(profile, view, &(struct view_request){});
}

static const struct cell *cell_at(const struct table *table, size_t row, const char *column)
{
	int index = table_column(table, column);

	assert_true(index >= 0);
	return &table_row(table, row)[index];
}

static uint64_t number_at(const struct table *table, size_t row, const char *column)
{
	return cell_at(table, row, column)->number;
}

static const char *text_at(const struct table *table, size_t row, const char *column)
{
	const struct cell *cell = cell_at(table, row, column);

	return cell->set ? cell->text : "-";
}

static uint64_t sum_of(const struct table *table, const char *column)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < table->row_count; i++)
		if (cell_at(table, i, column)->set)
			sum += number_at(table, i, column);
	return sum;
}

/* "symbol self total" of each row. */
static void assert_costs(const struct table *table, const char *const *expected, size_t count)
{
	assert_int_equal(table->row_count, count);
	for (size_t i = 0; i < count; i++) {
		AUTO(free_ptr)
		char *line = mem_printf("%s %llu %llu", text_at(table, i, "symbol"),
					(unsigned long long)number_at(table, i, "self"),
					(unsigned long long)number_at(table, i, "total"));

		assert_string_equal(line, expected[i]);
	}
}

static void functions_have_self_and_total_with_recursion_once(void **state)
{
	static const char *const expected[] = {
		"fib 550 550",
		"clamp 120 120",
		"main 100 800",
		"do_syscall 75 75",
		"[unknown] 30 30",
		"parse 25 175",
		"[stack cut: stack memory was not present] 0 25",
	};
	struct fixture fixture;
	struct table *table = run_all(fixture_demo(&fixture), "functions");

	assert_costs(table, expected, 7);
	assert_int_equal(table->totals.seen, 1000);
	assert_int_equal(table->totals.kept, 900);
	assert_int_equal(sum_of(table, "self"), 900);
	assert_true(cell_at(table, 0, "share")->real == 0.55); /* losses are in the total */
	assert_int_equal(number_at(table, 1, "inlined"), 1);
	assert_string_equal(text_at(table, 4, "module"), "libc.so.6");
	table_destroy(table);
	fixture_deinit(&fixture);
}

static void lines_group_by_file_and_line(void **state)
{
	struct fixture fixture;
	struct table *table = run_all(fixture_demo(&fixture), "lines");

	assert_int_equal(sum_of(table, "self"), 900);
	assert_string_equal(text_at(table, 0, "file"), "/src/demo/main.c");
	assert_int_equal(cell_at(table, 0, "line")->integer, 3);
	assert_int_equal(number_at(table, 0, "self"), 500);
	assert_int_equal(number_at(table, 0, "total"), 500);
	assert_string_equal(text_at(table, 1, "file"), "/src/demo/clamp.h");
	assert_string_equal(text_at(table, 1, "symbol"), "clamp");
	for (size_t i = 0; i < table->row_count; i++) {
		if (cell_at(table, i, "line")->integer == 4) {
			assert_int_equal(number_at(table, i, "self"), 50);
			assert_int_equal(number_at(table, i, "total"), 350);
		}
	}
	table_destroy(table);
	fixture_deinit(&fixture);
}

static void modules_processes_threads(void **state)
{
	struct fixture fixture;
	const struct profile *profile = fixture_demo(&fixture);
	struct table *table = run_all(profile, "modules");

	assert_string_equal(text_at(table, 0, "module"), "demo");
	assert_int_equal(number_at(table, 0, "self"), 795);
	assert_int_equal(number_at(table, 0, "total"), 825);
	assert_int_equal(sum_of(table, "self"), 900);
	table_destroy(table);
	table = run_all(profile, "processes");
	assert_int_equal(table->row_count, 2);
	assert_int_equal(number_at(table, 0, "self"), 825);
	assert_int_equal(cell_at(table, 1, "pid")->integer, 200);
	assert_int_equal(number_at(table, 1, "kernel"), 75);
	table_destroy(table);
	table = run_all(profile, "threads");
	assert_int_equal(table->row_count, 3);
	assert_int_equal(cell_at(table, 1, "tid")->integer, 101);
	assert_int_equal(number_at(table, 1, "self"), 170);
	table_destroy(table);
	fixture_deinit(&fixture);
}

/* "relation other address total" of each row of one function's stanza. */
static void assert_stanza(const struct table *table, const char *symbol,
			  const char *const *expected)
{
	for (size_t i = 0; i < table->row_count; i++) {
		const struct cell *address = cell_at(table, i, "address");
		AUTO(free_ptr) char *line = NULL;

		if (strcmp(text_at(table, i, "symbol"), symbol))
			continue;
		line = mem_printf("%s %s %llx %llu", text_at(table, i, "relation"),
				  text_at(table, i, "other"),
				  (unsigned long long)(address->set ? address->number : 0),
				  (unsigned long long)number_at(table, i, "total"));
		assert_non_null(*expected);
		assert_string_equal(line, *expected++);
	}
	assert_null(*expected);
}

static void callgraph_names_call_sites(void **state)
{
	static const char *const main_rows[] = { "caller - 0 800", "self - 1000 800",
						 "callee fib 1020 550", "callee parse 1030 150",
						 NULL };
	static const char *const fib_rows[] = { "caller main 1020 550", "self - 1100 550",
						"recursion - 0 350", NULL };
	static const char *const parse_rows[] = {
		"caller main 1030 150",	    "caller [stack cut: stack memory was not present] 0 25",
		"self - 1200 175",	    "callee clamp 1204 120",
		"callee [unknown] 1210 30", NULL
	};
	static const char *const clamp_rows[] = { "caller parse 1204 120", "self - 0 120", NULL };
	struct fixture fixture;
	struct table *table = run_all(fixture_demo(&fixture), "callgraph");

	assert_stanza(table, "main", main_rows);
	assert_stanza(table, "fib", fib_rows);
	assert_stanza(table, "parse", parse_rows);
	assert_stanza(table, "clamp", clamp_rows);
	table_destroy(table);
	fixture_deinit(&fixture);
}

static void tree_goes_down_and_up(void **state)
{
	static const char *const down[] = {
		"main 100 800",	    "fib 200 550",
		"fib 350 350",	    "parse 0 150",
		"clamp 120 120",    "[unknown] 30 30",
		"do_syscall 75 75", "[stack cut: stack memory was not present] 0 25",
		"parse 25 25",
	};
	static const char *const up[] = {
		"fib 550 550",	    "fib 0 350",
		"main 0 350",	    "main 0 200",
		"clamp 120 120",    "parse 0 120",
		"main 0 120",	    "main 100 100",
		"do_syscall 75 75", "[unknown] 30 30",
		"parse 0 30",	    "main 0 30",
		"parse 25 25",	    "[stack cut: stack memory was not present] 0 25",
	};
	static const int64_t levels[] = { 0, 1, 2, 1, 2, 2, 0, 0, 1 };
	struct view_request upward = { .bottom_up = true };
	struct fixture fixture;
	const struct profile *profile = fixture_demo(&fixture);
	struct table *table = run_all(profile, "tree");

	assert_costs(table, down, 9);
	for (size_t i = 0; i < 9; i++)
		assert_int_equal(cell_at(table, i, "level")->integer, levels[i]);
	table_destroy(table);
	table = run(profile, "tree", &upward);
	assert_costs(table, up, 14);
	table_destroy(table);
	fixture_deinit(&fixture);
}

static void tree_limit_keeps_parents(void **state)
{
	static const char *const expected[] = { "main 100 800", "fib 200 550", "fib 350 350" };
	struct fixture fixture;
	struct table *table =
		run(fixture_demo(&fixture), "tree", &(struct view_request){ .limit = 3 });

	assert_costs(table, expected, 3);
	/* Branches: nobody has looked at what is below them. */
	assert_int_equal(table->omitted, 3);
	assert_true(table->omitted_branches);
	table_destroy(table);
	table = run(&fixture.profile, "tree", &(struct view_request){ .min_share = 0.3 });
	assert_costs(table, expected, 3);
	table_destroy(table);
	fixture_deinit(&fixture);
}

static void losses_add_up(void **state)
{
	struct fixture fixture;
	struct table *table = run_all(fixture_demo(&fixture), "losses");

	assert_int_equal(table->row_count, 6);
	assert_int_equal(number_at(table, 0, "count"), number_at(table, 1, "count") +
							       number_at(table, 2, "count") +
							       number_at(table, 3, "count"));
	assert_string_equal(text_at(table, 2, "reason"), "ring_full");
	assert_string_equal(text_at(table, 5, "kind"), "stack_end");
	table_destroy(table);
	fixture_deinit(&fixture);
}

static void filters_choose_samples_and_rows(void **state)
{
	struct fixture fixture;
	const struct profile *profile = fixture_demo(&fixture);
	struct view_request request = {};
	struct table *table;

	*array_push(&request.filter.tids) = 101;
	table = run(profile, "functions", &request);
	assert_int_equal(table->totals.selected, 170);
	assert_int_equal(table->totals.seen, 1000);
	assert_true(table->filtered);
	assert_int_equal(sum_of(table, "self"), 170);
	table_destroy(table);
	request.filter.tids.count = 0;
	*array_push(&request.filter.symbols) = "ars";
	table = run(profile, "functions", &request);
	assert_int_equal(table->row_count, 1);
	assert_int_equal(number_at(table, 0, "total"), 175);
	table_destroy(table);
	table = run(profile, "tree", &request); /* the samples that have it on their stack */
	assert_int_equal(table->totals.selected, 175);
	table_destroy(table);
	table = run(profile, "processes", &request);
	assert_int_equal(sum_of(table, "self"), 175);
	table_destroy(table);
	request.filter.symbols.count = 0;
	*array_push(&request.filter.modules) = "/usr/lib/*";
	table = run(profile, "functions", &request);
	assert_int_equal(table->row_count, 1);
	table_destroy(table);
	request.filter.modules.count = 0;
	*array_push(&request.filter.uids) = 0;
	table = run(profile, "threads", &request);
	assert_int_equal(table->row_count, 1);
	table_destroy(table);
	filter_deinit(&request.filter);
	fixture_deinit(&fixture);
}

static void patterns(void **state)
{
	assert_true(pattern_match("oo", "foo"));
	assert_false(pattern_match("oo*", "foo"));
	assert_true(pattern_match("*oo", "foo"));
	assert_true(pattern_match("f?o", "foo"));
	assert_false(pattern_match("f?o", "fooo"));
	assert_true(pattern_match("a*b*c", "aXbXbXc"));
	assert_false(pattern_match("a*b*c", "aXbXbX"));
	assert_true(pattern_match("operator[]", "T::operator[](int)"));
	assert_true(pattern_match("*", ""));
	assert_true(pattern_match("[kernel]", "[kernel]"));
}

static void sort_and_limit(void **state)
{
	struct fixture fixture;
	const struct profile *profile = fixture_demo(&fixture);
	struct view_request request = { .sort = "symbol", .limit = 2 };
	struct table *table = run(profile, "functions", &request);

	assert_int_equal(table->row_count, 2);
	assert_int_equal(table->omitted, 5);
	assert_string_equal(text_at(table, 0, "symbol"),
			    "[stack cut: stack memory was not present]");
	assert_string_equal(text_at(table, 1, "symbol"), "[unknown]");
	table_destroy(table);
	request.sort = "nonsense";
	assert_int_equal(view_run(view_find("functions"), profile, &request, &table), -EINVAL);
	assert_non_null(strstr(err_text(), "total_share"));
	fixture_deinit(&fixture);
}

/* The naive way, from the definition: for each sample, the set of functions on its stack. */
struct naive {
	uint64_t *self, *total;
	uint64_t *stamp; /* of the last sample that counted the function */
};

static void naive_frame(struct naive *naive, uint32_t function, uint64_t stamp, uint64_t count)
{
	if (naive->stamp[function] != stamp)
		naive->total[function] += count;
	naive->stamp[function] = stamp;
}

static void naive_count(struct naive *naive, const struct profile *p)
{
	size_t size = (p->symbol_count + p->module_count + 1) * sizeof(uint64_t);

	naive->self = mem_zalloc(size);
	naive->total = mem_zalloc(size);
	naive->stamp = mem_zalloc(size);
	for (size_t i = 0; i < p->sample_count; i++) {
		bool leaf = true;

		for (uint32_t node = p->samples[i].stack; node; node = p->stacks[node].parent) {
			const struct profile_location *at = &p->locations[p->stacks[node].location];
			uint32_t unknown = (uint32_t)p->symbol_count + at->module;
			uint32_t first = at->frame_count ? p->frames[at->first_frame].symbol
							 : unknown;

			if (leaf)
				naive->self[first] += p->samples[i].count;
			leaf = false;
			if (!at->frame_count)
				naive_frame(naive, unknown, i + 1, p->samples[i].count);
			for (uint32_t k = 0; k < at->frame_count; k++)
				naive_frame(naive, p->frames[at->first_frame + k].symbol, i + 1,
					    p->samples[i].count);
		}
	}
}

static void naive_free(struct naive *naive)
{
	free(naive->self);
	free(naive->total);
	free(naive->stamp);
}

/*
 * Name and module of a row of the naive count; modules of symbols are random, so both are needed.
 */
static uint32_t naive_index(const struct profile *p, const struct table *table, size_t row)
{
	const char *symbol = text_at(table, row, "symbol");
	uint32_t number;

	if (sscanf(symbol, "s%u", &number) == 1)
		return number + 1;
	assert_int_equal(sscanf(text_at(table, row, "module"), "m%u", &number), 1);
	return (uint32_t)p->symbol_count + number + 1;
}

static void functions_agree_with_the_naive_count(void **state)
{
	struct fixture_size sizes[] = { { 3, 5, 20, 60, 40, 2 },
					{ 4, 12, 80, 500, 400, 5 },
					{ 10, 200, 3000, 20000, 20000, 9 } };

	for (uint64_t seed = 1; seed <= 30; seed++) {
		struct fixture fixture;
		const struct profile *p = fixture_random(&fixture, seed, &sizes[seed % 3]);
		struct table *table = run_all(p, "functions");
		struct naive naive;
		uint64_t self = 0, total = 0, naive_self = 0, naive_total = 0;

		naive_count(&naive, p);
		for (size_t i = 0; i < table->row_count; i++) {
			uint32_t index = naive_index(p, table, i);

			assert_int_equal(number_at(table, i, "self"), naive.self[index]);
			assert_int_equal(number_at(table, i, "total"), naive.total[index]);
			self += naive.self[index];
			total += naive.total[index];
		}
		for (size_t i = 0; i < p->symbol_count + p->module_count; i++) {
			naive_self += naive.self[i];
			naive_total += naive.total[i];
		}
		assert_int_equal(self, p->kept);
		assert_int_equal(naive_self, p->kept);
		assert_int_equal(total, naive_total);
		naive_free(&naive);
		table_destroy(table);
		fixture_deinit(&fixture);
	}
}

static void stanzas_and_trees_add_up(void **state)
{
	struct fixture_size size = { 3, 7, 30, 400, 300, 3 };

	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct fixture fixture;
		const struct profile *p = fixture_random(&fixture, seed, &size);
		struct table *graph = run_all(p, "callgraph"), *flat = run_all(p, "functions");
		struct table *down = run_all(p, "tree"), *lines = run_all(p, "lines");
		struct table *up = run(p, "tree", &(struct view_request){ .bottom_up = true });
		uint64_t callers = 0, callees = 0, level0 = 0, stanzas = 0;

		for (size_t i = 0; i < graph->row_count; i++) {
			const char *relation = text_at(graph, i, "relation");
			uint64_t total = number_at(graph, i, "total");

			callers += !strcmp(relation, "caller") ? total : 0;
			callees += !strcmp(relation, "callee") ? total : 0;
			if (!strcmp(relation, "self")) {
				callees += number_at(graph, i, "self");
				stanzas += total;
				assert_int_equal(callers, stanzas); /* stanza by stanza */
			}
			if (i + 1 == graph->row_count ||
			    cell_at(graph, i, "stanza")->integer !=
				    cell_at(graph, i + 1, "stanza")->integer)
				assert_int_equal(callees, stanzas);
		}
		assert_int_equal(stanzas, sum_of(flat, "total"));
		for (size_t i = 0; i < down->row_count; i++)
			if (cell_at(down, i, "level")->integer == 0)
				level0 += number_at(down, i, "total");
		assert_int_equal(level0, p->kept);
		assert_int_equal(sum_of(down, "self"), p->kept);
		assert_int_equal(sum_of(up, "self"), p->kept);
		assert_int_equal(sum_of(lines, "self"), p->kept);
		table_destroy(graph);
		table_destroy(flat);
		table_destroy(down);
		table_destroy(up);
		table_destroy(lines);
		fixture_deinit(&fixture);
	}
}

static void deep_stacks_need_no_recursion(void **state)
{
	enum { DEPTH = 300000 };
	struct fixture f;
	uint32_t node = 0, location;
	struct table *table;

	fixture_init(&f);
	fixture_thread(&f, fixture_process(&f, 1, 0, "deep"), 1, "deep");
	fixture_symbol(&f, fixture_module(&f, MODULE_ELF, "/bin/deep", ""), "deep", 0, 16);
	location = fixture_location(&f, 1, 4);
	fixture_frame(&f, 1, 0, 0);
	for (uint32_t i = 0; i < DEPTH; i++)
		node = fixture_stack(&f, node, location);
	fixture_sample(&f, 1, node, 5, 0);
	fixture_finish(&f);
	table = run_all(&f.profile, "functions");
	assert_int_equal(number_at(table, 0, "total"), 5);
	table_destroy(table);
	table = run_all(&f.profile, "callgraph");
	assert_int_equal(number_at(table, 0, "total"), 5);
	table_destroy(table);
	table = run(&f.profile, "tree", &(struct view_request){ .limit = DEPTH });
	assert_int_equal(table->row_count, DEPTH);
	assert_int_equal(table->omitted, 0);
	table_destroy(table);
	/* Nobody reads so many rows; that they are there is said. */
	table = run_all(&f.profile, "tree");
	assert_in_range(table->row_count, 1000, DEPTH / 10);
	assert_int_equal(table->omitted, 1);
	table_destroy(table);
	fixture_deinit(&f);
}

/* Each process has its own module of code that it made; without names it is one row. */
static void nameless_code_is_one_row(void **state)
{
	enum { PROCESSES = 5 };
	static const char *const views_of_code[] = { "functions", "lines", "modules", "tree" };
	struct fixture f;

	fixture_init(&f);
	for (uint32_t i = 1; i <= PROCESSES; i++) {
		uint32_t process = fixture_process(&f, i, 0, "java");
		uint32_t module = fixture_module(&f, MODULE_ANON, "[anon]", "");

		fixture_thread(&f, process, i, "java");
		fixture_sample(&f, i, fixture_stack(&f, 0, fixture_location(&f, module, 4 * i)), 3,
			       0);
	}
	fixture_finish(&f);
	for (size_t i = 0; i < 4; i++) {
		struct table *table = run_all(&f.profile, views_of_code[i]);

		assert_int_equal(table->row_count, 1);
		assert_int_equal(number_at(table, 0, "self"), 3 * PROCESSES);
		table_destroy(table);
	}
	fixture_deinit(&f);
}

static void an_empty_profile_gives_empty_views(void **state)
{
	struct fixture fixture;

	fixture_init(&fixture);
	fixture_fact(&fixture, RECORDING_VALUES, "values", "default");
	fixture_finish(&fixture);
	for (const struct view *view = views; view->name; view++) {
		struct table *table;

		if (view->needs & (DOMAIN_EXECUTED | DOMAIN_WAITS | DOMAIN_MARKS))
			continue;
		table = run_all(&fixture.profile, view->name);

		if (!strcmp(view->name, "losses"))
			assert_int_equal(table->row_count, 4);
		else if (!strcmp(view->name, "runs"))
			assert_int_equal(table->row_count, 5);
		else
			assert_int_equal(table->row_count, 0);
		table_destroy(table);
	}
	fixture_deinit(&fixture);
}

static void a_sample_without_a_stack_is_counted(void **state)
{
	struct fixture fixture;
	struct table *table;

	fixture_demo(&fixture);
	fixture_sample(&fixture, 1, 0, 11, 0);
	fixture_finish(&fixture);
	for (const struct view *view = views; view->name; view++) {
		if (view->needs & (DOMAIN_VALUES | DOMAIN_EXECUTED | DOMAIN_WAITS | DOMAIN_MARKS))
			continue;
		table = run_all(&fixture.profile, view->name);
		if (table_column(table, "self") >= 0)
			assert_int_equal(sum_of(table, "self"), 911);
		table_destroy(table);
	}
	fixture_deinit(&fixture);
}

static bool lines_of_addresses(void *ctx, uint64_t address, const char **ret_file,
			       uint32_t *ret_line)
{
	*ret_file = "other.c";
	*ret_line = (uint32_t)(address & 0xff);
	return address == 0x1100;
}

static void annotate_counts_per_instruction(void **state)
{
	/* push rbp; mov rbp,rsp; nop; call 0x1000 (main); (bad) */
	static const uint8_t code[] = { 0x55, 0x48, 0x89, 0xe5, 0x90, 0xe8,
					0xf6, 0xfe, 0xff, 0xff, 0x06 };
	struct filter filter = {};
	struct fixture fixture;
	const struct profile *profile = fixture_demo(&fixture);
	struct annotate_request request = { .filter = &filter,
					    .symbol = 2,
					    .code = code,
					    .size = sizeof(code),
					    .line = lines_of_addresses };
	struct table *table = annotate(profile, &request);

	assert_int_equal(table->row_count, 6);
	assert_string_equal(text_at(table, 0, "text"), "push rbp");
	assert_string_equal(text_at(table, 0, "file"), "other.c");
	assert_int_equal(number_at(table, 2, "address"), 0x1104);
	assert_int_equal(number_at(table, 2, "self"), 500);
	assert_int_equal(cell_at(table, 2, "line")->integer, 3);
	assert_non_null(strstr(text_at(table, 3, "text"), "call 0x"));
	assert_non_null(strstr(text_at(table, 3, "text"), "<main>"));
	assert_string_equal(text_at(table, 4, "text"), ".byte 0x06");
	assert_string_equal(text_at(table, 5, "text"), "[outside the stored code]");
	assert_int_equal(sum_of(table, "self"), 550);
	table_destroy(table);
	request.att = true;
	table = annotate(profile, &request);
	assert_non_null(strstr(text_at(table, 1, "text"), "%rsp, %rbp"));
	table_destroy(table);
	fixture_deinit(&fixture);
}

static size_t row_of(const struct table *table, const char *symbol)
{
	for (size_t i = 0; i < table->row_count; i++)
		if (!strcmp(text_at(table, i, "symbol"), symbol))
			return i;
	fail_msg("no row for %s", symbol);
	return 0;
}

static void diff_tells_change_from_noise(void **state)
{
	struct fixture a, b;
	struct table *table;
	struct diff_request request = {};

	fixture_demo(&a);
	fixture_demo(&b);
	b.samples.items[1].count = 500; /* fib, from 200 */
	b.samples.items[0].count = 110; /* main, from 100 */
	fixture_finish(&b);
	assert_int_equal(diff_run(&a.profile, &b.profile, &request, &table), 0);
	assert_string_equal(text_at(table, 0, "symbol"), "fib");
	assert_int_equal(number_at(table, 0, "count_a"), 550);
	assert_int_equal(number_at(table, 0, "count_b"), 850);
	assert_true(number_at(table, 0, "significant"));
	assert_false(number_at(table, row_of(table, "main"), "significant"));
	assert_int_equal(table->baseline.seen, 1000);
	assert_int_equal(table->totals.seen, 1310);
	table_destroy(table);
	request.significant_only = true;
	request.lines = true;
	assert_int_equal(diff_run(&a.profile, &b.profile, &request, &table), 0);
	assert_int_equal(cell_at(table, 0, "line")->integer, 3);
	for (size_t i = 0; i < table->row_count; i++)
		assert_true(number_at(table, i, "significant"));
	table_destroy(table);
	fixture_deinit(&a);
	fixture_deinit(&b);
}

/* The same file, once with names and inlined functions and once without: nothing has changed. */
static void debug_symbols_are_no_change(void **state)
{
	static const struct {
		const char *name, *stripped;
	} names[] = { { "main", "sub_1000" }, { "fib", "sub_1100" }, { "parse", "sub_1200" } };
	struct fixture a, b;
	struct table *table;

	fixture_demo(&a);
	fixture_demo(&b);
	for (size_t i = 1; i < b.symbols.count; i++)
		for (size_t j = 0; j < 3; j++)
			if (!strcmp(b.symbols.items[i].name, names[j].name))
				b.symbols.items[i].name = names[j].stripped;
	for (size_t i = 1; i < b.locations.count; i++) {
		struct profile_location *location = &b.locations.items[i];

		for (; location->frame_count > 1; location->frame_count--)
			location->first_frame++;
	}
	fixture_finish(&b);
	for (int turn = 0; turn < 2; turn++) {
		const struct profile *first = turn ? &b.profile : &a.profile;
		const struct profile *second = turn ? &a.profile : &b.profile;

		assert_int_equal(diff_run(first, second, &(struct diff_request){}, &table), 0);
		for (size_t i = 0; i < table->row_count; i++)
			assert_true(cell_at(table, i, "delta")->real == 0);
		assert_int_equal(number_at(table, row_of(table, "fib"), "count_a"), 550);
		/* With what is inlined into it, as only one side could tell it apart. */
		assert_int_equal(number_at(table, row_of(table, "parse"), "count_b"), 145);
		table_destroy(table);
	}
	fixture_deinit(&a);
	fixture_deinit(&b);
}

/* Two samplings of the same program: of all rows, at most a handful may look changed. */
static void diff_of_equal_programs_is_quiet(void **state)
{
	uint64_t seed = 7, false_alarms = 0, rows = 0;

	for (int round = 0; round < 40; round++) {
		struct fixture sides[2];
		struct table *table;

		for (int side = 0; side < 2; side++) {
			fixture_demo(&sides[side]);
			array_each(&sides[side].samples, sample)
				sample->count = 0;
			for (int i = 0; i < 2000; i++)
				sides[side].samples.items[(seed = hash64(seed + 1)) % 8].count++;
			fixture_finish(&sides[side]);
		}
		assert_int_equal(diff_run(&sides[0].profile, &sides[1].profile,
					  &(struct diff_request){}, &table),
				 0);
		for (size_t i = 0; i < table->row_count; i++)
			false_alarms += number_at(table, i, "significant");
		rows += table->row_count;
		table_destroy(table);
		fixture_deinit(&sides[0]);
		fixture_deinit(&sides[1]);
	}
	assert_true(rows > 200);
	assert_true(false_alarms <= 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_have_self_and_total_with_recursion_once),
		cmocka_unit_test(lines_group_by_file_and_line),
		cmocka_unit_test(modules_processes_threads),
		cmocka_unit_test(callgraph_names_call_sites),
		cmocka_unit_test(tree_goes_down_and_up),
		cmocka_unit_test(tree_limit_keeps_parents),
		cmocka_unit_test(losses_add_up),
		cmocka_unit_test(filters_choose_samples_and_rows),
		cmocka_unit_test(patterns),
		cmocka_unit_test(sort_and_limit),
		cmocka_unit_test(functions_agree_with_the_naive_count),
		cmocka_unit_test(stanzas_and_trees_add_up),
		cmocka_unit_test(deep_stacks_need_no_recursion),
		cmocka_unit_test(nameless_code_is_one_row),
		cmocka_unit_test(an_empty_profile_gives_empty_views),
		cmocka_unit_test(a_sample_without_a_stack_is_counted),
		cmocka_unit_test(annotate_counts_per_instruction),
		cmocka_unit_test(diff_tells_change_from_noise),
		cmocka_unit_test(debug_symbols_are_no_change),
		cmocka_unit_test(diff_of_equal_programs_is_quiet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
