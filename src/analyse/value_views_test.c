// SPDX-License-Identifier: BSD-2-Clause
/* Views of values on profiles whose numbers are known, and on damaged ones. The fixture's table says what is in them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyse/annotate.h"
#include "analyse/fixture.h"
#include "analyse/sites.h"
#include "analyse/views.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"

static int code_get(void *ctx, uint32_t symbol, void **ret, size_t *ret_size)
{
	const struct profile *profile = ctx;

	if (strcmp(profile->symbols[symbol].name, "poly"))
		return -ENOENT;
	*ret = mem_dup(fixture_poly, FIXTURE_POLY_SIZE);
	*ret_size = FIXTURE_POLY_SIZE;
	return 0;
}

static struct table *run(const struct profile *profile, const char *view,
			 struct view_request request)
{
	struct table *table = NULL;

	request.code = (struct code_source){ code_get, (void *)profile };
	if (request.min_invariance == 0)
		request.min_invariance = -1;
	assert_int_equal(view_run(view_find(view), profile, &request, &table), 0);
	return table;
}

static const struct cell *cell_at(const struct table *table, size_t row, const char *column)
{
	int index = table_column(table, column);

	assert_true(index >= 0);
	assert_true(row < table->row_count);
	return &table_row(table, row)[index];
}

/* The number of the row with these; the last of the names is NULL. */
static size_t row_of(const struct table *table, const char *column, const char *text,
		     const char *other_column, uint64_t number)
{
	for (size_t i = 0; i < table->row_count; i++) {
		const struct cell *cell = cell_at(table, i, column);

		if (cell->set && !strcmp(cell->text, text) &&
		    cell_at(table, i, other_column)->number == number)
			return i;
	}
	print_message("%s %s, %s %llu\n", column, text, other_column, (unsigned long long)number);
	fail();
	return 0;
}

static const struct common_values *values_at(const struct table *table, size_t row)
{
	return cell_at(table, row, "values")->values;
}

static void assert_value(const struct common_values *values, size_t rank, uint64_t value,
			 uint64_t count, double share)
{
	assert_true(rank < values->count);
	assert_int_equal(values->items[rank].words[0], value);
	assert_int_equal(values->items[rank].count, count);
	assert_true(values->items[rank].share > share - 1e-9);
	assert_true(values->items[rank].share < share + 1e-9);
	assert_true(values->items[rank].low <= share && values->items[rank].high >= share);
}

static void owners_and_callers_are_merged_exactly(void **state)
{
	struct fixture fixture;
	const struct profile *profile = fixture_values(&fixture);
	struct table *table = run(profile, "invariants", (struct view_request){});
	size_t row = row_of(table, "item", "result", "address", 0x130a);

	assert_int_equal(cell_at(table, row, "total")->number, 1000);
	assert_int_equal(cell_at(table, row, "runs")->number, 500);
	assert_value(values_at(table, row), 0, 3, 950, 0.95);
	assert_value(values_at(table, row), 1, 5, 50, 0.05);
	assert_true(cell_at(table, row, "share")->real == 500.0 / 1200);
	table_destroy(table);
	table = run(profile, "args", (struct view_request){});
	row = row_of(table, "symbol", "poly", "argument", 1);
	assert_value(values_at(table, row), 0, 3, 200, 200.0 / 300);
	assert_value(values_at(table, row), 1, 5, 75, 75.0 / 300);
	assert_string_equal(values_at(table, row)->items[2].text, "-3");
	table_destroy(table);
	table = run(profile, "args", (struct view_request){ .by_caller = true });
	row = row_of(table, "symbol", "poly", "caller", 0x1044);
	assert_value(values_at(table, row), 0, 0x7ffe00001000, 180, 0.9);
	assert_value(values_at(table, row + 1), 0, 3, 200, 1);
	row = row_of(table, "symbol", "poly", "caller", 0x104c);
	assert_value(values_at(table, row), 0, 0x555555570010, 100, 1);
	table_destroy(table);
	fixture_deinit(&fixture);
}

/* The errors of values that come two by two from a run are larger than those of as many independent ones. */
static void bounds_know_about_runs(void **state)
{
	struct fixture fixture;
	const struct profile *profile = fixture_values(&fixture);
	struct table *table = run(profile, "values", (struct view_request){});
	const struct common_values *pairs =
		values_at(table, row_of(table, "item", "result", "address", 0x1304));
	double width = pairs->items[0].high - pairs->items[0].low;

	table_destroy(table);
	array_each(&fixture.values, value)
		value->runs = value->total;
	table = run(profile, "values", (struct view_request){});
	pairs = values_at(table, row_of(table, "item", "result", "address", 0x1304));
	assert_true(pairs->items[0].high - pairs->items[0].low < width);
	table_destroy(table);
	array_each(&fixture.values, value)
		value->runs = 0;
	table_destroy(run(profile, "values", (struct view_request){}));
	fixture_deinit(&fixture);
}

static void sites_are_shown_one_by_one(void **state)
{
	struct fixture fixture;
	const struct profile *profile = fixture_values(&fixture);
	struct table *table = run(profile, "values", (struct view_request){});
	size_t row = row_of(table, "item", "stored", "address", 0x1317);

	assert_int_equal(table->row_count, profile->value_count);
	assert_int_equal(cell_at(table, row, "min")->integer, -1);
	assert_int_equal(cell_at(table, row, "max")->integer, 65);
	assert_float_equal(cell_at(table, row, "mean")->real, (65 * 240 - 720) / 960.0, 1e-9);
	assert_int_equal(cell_at(table, row, "owner")->integer, 1000);
	assert_int_equal(cell_at(table, row, "line")->integer, 34);
	row = row_of(table, "symbol", "do_syscall", "total", 75);
	assert_false(cell_at(table, row, "owner")->set);
	row = row_of(table, "item", "caller+arg1", "total", 200);
	assert_int_equal(values_at(table, row)->words, 2);
	assert_int_equal(values_at(table, row)->items[0].words[1], 3);
	assert_int_equal(values_at(table, row)->items[0].count, 150);
	assert_string_equal(values_at(table, row)->items[0].text, "0x555555555045, 3");
	assert_false(cell_at(table, row, "mean")->set);
	table_destroy(table);
	fixture_deinit(&fixture);
}

static size_t row_count(const struct profile *profile, struct view_request request)
{
	struct table *table = run(profile, "values", request);
	size_t count = table->row_count;

	table_destroy(table);
	return count;
}

static void filters_choose_sites(void **state)
{
	const char *patterns[] = { "arg0", "stored" }, *stars[] = { "*result*" },
		   *symbols[] = { "poly" }, *modules[] = { "kernel" };
	int64_t root = 0;
	struct fixture fixture;
	const struct profile *profile = fixture_values(&fixture);

	assert_int_equal(row_count(profile, (struct view_request){ .items = { patterns, 1 } }), 4);
	assert_int_equal(row_count(profile, (struct view_request){ .items = { patterns, 2 } }), 5);
	assert_int_equal(row_count(profile, (struct view_request){ .items = { stars, 1 } }), 11);
	assert_int_equal(row_count(profile, (struct view_request){ .filter.uids = { &root, 1 } }),
			 1);
	assert_int_equal(row_count(profile,
				   (struct view_request){ .filter.symbols = { symbols, 1 } }),
			 profile->value_count - 5);
	assert_int_equal(
		row_count(profile, (struct view_request){ .filter.modules = { modules, 1 } }), 2);
	fixture_deinit(&fixture);
}

static void what_cannot_be_answered_is_refused(void **state)
{
	const char *nothing[] = { "overwritten" }, *comm[] = { "x" };
	int64_t one = 1;
	struct view_request wrong[] = {
		{ .filter.pids = { &one, 1 } },	 { .filter.tids = { &one, 1 } },
		{ .filter.comms = { comm, 1 } }, { .items = { nothing, 1 } },
		{ .by_callsite = true },	 { .by_caller = true },
	};
	struct fixture fixture;
	const struct profile *profile = fixture_values(&fixture);
	struct table *table = NULL;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(view_run(view_find("values"), profile, &wrong[i], &table),
				 -EINVAL);
	assert_null(table);
	fixture_deinit(&fixture);
	profile = fixture_demo(&fixture);
	for (const struct view *view = views; view->name; view++)
		if (view->values) {
			assert_int_equal(view_run(view, profile, &(struct view_request){}, &table),
					 -ENODATA);
			assert_string_equal(err_text(),
					    "this profile has no values; record with --values");
		}
	fixture_deinit(&fixture);
}

static void invariants_leave_out_what_the_code_says(void **state)
{
	const char *taken[] = { "taken" };
	struct fixture fixture;
	const struct profile *profile = fixture_values(&fixture);
	struct table *table = run(profile, "invariants", (struct view_request){});

	for (size_t i = 0; i < table->row_count; i++) {
		uint64_t address = cell_at(table, i, "address")->number;

		assert_true(address != 0x131a && address != 0x1321 && address != 0x130d);
		assert_string_not_equal(cell_at(table, i, "item")->text, "arg3@caller");
		assert_true(values_at(table, i)->items[0].low >= 0.5);
		if (i)
			assert_true(cell_at(table, i, "score")->real <=
				    cell_at(table, i - 1, "score")->real);
	}
	assert_string_equal(cell_at(table, 0, "text")->text, "shl ecx, 0x4");
	table_destroy(table);
	table = run(profile, "invariants", (struct view_request){ .items = { taken, 1 } });
	assert_int_equal(table->row_count, 1);
	assert_string_equal(values_at(table, 0)->items[0].text, "no");
	table_destroy(table);
	table = run(profile, "invariants", (struct view_request){ .min_invariance = 0.97 });
	assert_int_equal(table->row_count, 2);
	table_destroy(table);
	fixture_deinit(&fixture);
}

/* A hundred times the same pair at an address of poly; its item is the last one of the fixture. */
static void pairs_add(struct fixture *f, uint64_t address, const uint64_t words[2])
{
	struct profile_value row = { .item = (uint32_t)f->value_items.count - 1,
				     .owner = 1000,
				     .width = 64,
				     .total = 100,
				     .runs = 100 };
	uint8_t blob[HOTLIST_BLOB_MAX];
	struct hotlist list;

	hotlist_init(&list, &(struct hotlist_config){ .words = 2 });
	for (unsigned i = 0; i < 100; i++)
		hotlist_add(&list, words);
	for (uint32_t i = 1; i < f->locations.count; i++)
		if (f->locations.items[i].address == address)
			row.location = i;
	fixture_value(f, &row, blob, hotlist_encode(&list, blob));
	hotlist_deinit(&list);
}

static void the_stack_is_never_invariant(void **state)
{
	const char *pattern[] = { "address*" };
	const uint64_t stack[] = { 0x7ffe00001000, 5 }, heap[] = { 0x555555570010, 5 };
	struct fixture fixture;
	struct table *table;

	fixture_values(&fixture);
	fixture_item(&fixture, "address+loaded", "instruction", 2);
	pairs_add(&fixture, 0x1317, stack);
	pairs_add(&fixture, 0x1314, heap);
	table = run(fixture_finish(&fixture), "invariants",
		    (struct view_request){ .items = { pattern, 1 } });
	assert_int_equal(table->row_count, 1);
	assert_int_equal(cell_at(table, 0, "address")->number, 0x1314);
	table_destroy(table);
	fixture_deinit(&fixture);
}

static void blocks_are_invariant_together(void **state)
{
	struct fixture fixture;
	const struct profile *profile = fixture_values(&fixture);
	static const uint64_t addresses[] = { 0x1304, 0x1307, 0x130a, 0x130d };
	struct table *table = run(profile, "blocks", (struct view_request){});

	assert_int_equal(table->row_count, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(cell_at(table, i, "address")->number, addresses[i]);
		assert_int_equal(cell_at(table, i, "block_self")->number, 90);
		assert_int_equal(cell_at(table, i, "length")->number, 4);
	}
	assert_value(values_at(table, 1), 0, 0x30, 990, 0.99);
	table_destroy(table);
	/* At 96 % the branch and the comparison before it are not part of it. */
	table = run(profile, "blocks", (struct view_request){ .min_invariance = 0.98 });
	assert_int_equal(table->row_count, 2);
	table_destroy(table);
	/* At 75 % the store joins; trivial instructions around it do not, and the call ends it: one alone is no block. */
	table = run(profile, "blocks", (struct view_request){ .min_invariance = 0.75 });
	assert_int_equal(table->row_count, 4);
	table_destroy(table);
	fixture_deinit(&fixture);
}

static void arguments_that_nobody_reads_are_for_programs(void **state)
{
	struct fixture fixture;
	const struct profile *profile = fixture_values(&fixture);
	struct table *all = run(profile, "args", (struct view_request){});
	struct table *people = run(profile, "args", (struct view_request){ .people = true });

	/*
	 * poly has three parameters by name and a fourth register; parse has no code, and noise in its fourth; the
	 * kernel's function was entered three times only.
	 */
	assert_int_equal(all->row_count, 8);
	assert_int_equal(people->row_count, 5);
	for (size_t i = 0; i < people->row_count; i++)
		assert_true(cell_at(people, i, "argument")->integer != 3);
	table_destroy(people);
	fixture.profile.parameter_count = 0;
	people = run(profile, "args", (struct view_request){ .people = true });
	assert_int_equal(people->row_count, 5);
	table_destroy(people);
	people = run(profile, "args", (struct view_request){ .people = true, .limit = 1 });
	assert_int_equal(people->omitted, 2);
	table_destroy(people);
	table_destroy(all);
	fixture_deinit(&fixture);
}

static struct table *annotated(const struct profile *profile, const struct view_request *values)
{
	struct annotate_request request = { .filter = &values->filter,
					    .code = fixture_poly,
					    .size = FIXTURE_POLY_SIZE,
					    .values = values };

	for (uint32_t i = 1; i < profile->symbol_count; i++)
		if (!strcmp(profile->symbols[i].name, "poly"))
			request.symbol = i;
	return annotate(profile, &request);
}

static void annotate_shows_the_best_or_what_is_wanted(void **state)
{
	const char *both[] = { "result", "loaded" };
	struct fixture fixture;
	const struct profile *profile = fixture_values(&fixture);
	struct table *table = annotated(profile, &(struct view_request){});
	size_t row = row_of(table, "item", "result", "address", 0x1314);

	assert_int_equal(table->row_count, 16);
	assert_int_equal(cell_at(table, row, "total")->number, 960);
	assert_string_equal(cell_at(table, row, "register")->text, "eax");
	assert_string_equal(values_at(table, row)->items[0].text, "65 'A'");
	row = row_of(table, "item", "loaded", "address", 0x130f);
	assert_string_equal(values_at(table, row)->items[0].text, "0.5");
	row = row_of(table, "item", "target", "address", 0x1324);
	assert_string_equal(values_at(table, row)->items[0].text, "0x555555555100 fib");
	assert_false(cell_at(table, 0, "item")->set);
	table_destroy(table);
	table = annotated(profile, &(struct view_request){ .items = { both, 2 } });
	assert_int_equal(table->row_count, 17);
	row = row_of(table, "item", "loaded", "address", 0x1314);
	assert_false(cell_at(table, row, "self")->set);
	annotate_limit(table, 1);
	assert_int_equal(table->row_count, 1);
	assert_int_equal(cell_at(table, 0, "address")->number, 0x1304);
	assert_int_equal(table->omitted, 15);
	table_destroy(table);
	fixture_deinit(&fixture);
}

static void call_sites_are_told_by_return_address(void **state)
{
	const char *symbols[] = { "poly", "clamp" };
	struct fixture fixture;
	const struct profile *profile = fixture_values(&fixture);
	struct table *table =
		run(profile, "callgraph",
		    (struct view_request){ .by_callsite = true, .filter.symbols = { symbols, 2 } });
	size_t row = row_of(table, "symbol", "poly", "return_address", 0x1045);

	assert_int_equal(table->row_count, 3);
	assert_true(cell_at(table, row, "part")->real == 0.8);
	assert_string_equal(cell_at(table, row, "other")->text, "main");
	assert_int_equal(cell_at(table, row, "line")->integer, 16);
	row = row_of(table, "symbol", "poly", "return_address", 0x104d);
	assert_true(cell_at(table, row, "part")->real == 0.2);
	row = row_of(table, "symbol", "clamp", "address", 0x1204);
	assert_false(cell_at(table, row, "return_address")->set);
	table_destroy(table);
	fixture_deinit(&fixture);
}

static void runs_add_up(void **state)
{
	struct fixture fixture;
	struct table *table = run(fixture_values(&fixture), "runs", (struct view_request){});
	size_t row = row_of(table, "reason", "unsupported", "count", 90);

	assert_int_equal(table->runs.seen, 1200);
	assert_int_equal(table->runs.seen, table->runs.kept + table->runs.losses[0].count +
						   table->runs.losses[1].count);
	assert_string_equal(cell_at(table, row, "mnemonic")->text, "cpuid");
	assert_true(cell_at(table, row, "step_share")->real == 90.0 / 9000);
	assert_true(cell_at(table, row, "share")->real == 90.0 / 1200);
	row_of(table, "kind", "values_kept", "count", 19000);
	table_destroy(table);
	fixture_deinit(&fixture);
}

static void damaged_lists_are_counted(void **state)
{
	struct fixture fixture;
	const struct profile *profile = fixture_corrupt(&fixture);
	struct table *table = run(profile, "values", (struct view_request){});

	/* A truncated one, an empty one, one that is none, and one of two words. */
	assert_int_equal(table->unreadable, 4);
	assert_int_equal(table->row_count, profile->value_count - 4);
	table_destroy(table);
	table = run(profile, "invariants", (struct view_request){});
	assert_value(values_at(table, row_of(table, "item", "result", "address", 0x130a)), 0, 3,
		     900, 900.0 / 950);
	table_destroy(table);
	table = annotated(profile, &(struct view_request){});
	assert_int_equal(table->unreadable, 4);
	table_destroy(table);
	table = run(profile, "blocks", (struct view_request){});
	assert_int_equal(table->unreadable, 3); /* does not look at targets */
	table_destroy(table);
	fixture_deinit(&fixture);
}

static void assert_shares_are_shares(const struct table *table)
{
	int column = table_column(table, "values");

	for (size_t i = 0; column >= 0 && i < table->row_count; i++) {
		const struct cell *cell = &table_row(table, i)[column];

		for (size_t j = 0; cell->set && j < cell->values->count; j++) {
			const struct common_value *value = &cell->values->items[j];

			assert_true(value->low >= 0 && value->low <= value->share);
			assert_true(value->share <= value->high && value->high <= 1);
		}
	}
}

/* Changes a few bytes of lists, items and rows; whatever they then say, the views must get through. */
static void any_profile_gives_views(void **state)
{
	enum { ROUNDS = 400 };
	size_t unreadable = 0, rows = 0;
	uint64_t seed = 7;

	for (unsigned round = 0; round < ROUNDS; round++) {
		struct fixture fixture;
		const struct profile *profile = fixture_values(&fixture);

		for (unsigned i = 0; i < 40; i++) {
			struct profile_value *value;

			seed = hash64(seed + 1);
			value = &fixture.values.items[seed % fixture.values.count];
			if (value->list_size)
				((uint8_t *)value->list)[(seed >> 8) % value->list_size] =
					(uint8_t)(seed >> 32);
			value->width = 1 + (unsigned)(seed >> 40) % 64;
			value->runs = seed >> 50 & 1 ? seed >> 1 : value->runs;
			if ((seed >> 52 & 7) == 0)
				value->item = 1 + (uint32_t)(seed >> 20) %
							  (uint32_t)(fixture.value_items.count - 1);
		}
		fixture_finish(&fixture);
		for (const struct view *view = views; view->name; view++) {
			struct table *table =
				run(profile, view->name,
				    (struct view_request){
					    .by_caller = view->takes &
							 (round % 2 ? 0 : VIEW_TAKES_BY_CALLER) });

			assert_shares_are_shares(table);
			unreadable += table->unreadable;
			rows += table->row_count;
			table_destroy(table);
		}
		table_destroy(annotated(profile, &(struct view_request){}));
		fixture_deinit(&fixture);
	}
	assert_true(unreadable > ROUNDS);
	assert_true(rows > ROUNDS * 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(owners_and_callers_are_merged_exactly),
		cmocka_unit_test(bounds_know_about_runs),
		cmocka_unit_test(sites_are_shown_one_by_one),
		cmocka_unit_test(filters_choose_sites),
		cmocka_unit_test(what_cannot_be_answered_is_refused),
		cmocka_unit_test(invariants_leave_out_what_the_code_says),
		cmocka_unit_test(the_stack_is_never_invariant),
		cmocka_unit_test(blocks_are_invariant_together),
		cmocka_unit_test(arguments_that_nobody_reads_are_for_programs),
		cmocka_unit_test(annotate_shows_the_best_or_what_is_wanted),
		cmocka_unit_test(call_sites_are_told_by_return_address),
		cmocka_unit_test(runs_add_up),
		cmocka_unit_test(damaged_lists_are_counted),
		cmocka_unit_test(any_profile_gives_views),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
