// SPDX-License-Identifier: BSD-2-Clause
// Serves: V18.
/*
 * Views of values on profiles whose numbers are known, and on damaged ones. The fixture's table
 * says what is in them.
 */
#include "support/value_tables.h"

#include <stdio.h>

#include "analyse/sites.h"
#include "base/err.h"
#include "base/map.h"

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

/* V18: a run that met several call sites is in the runs of each, and no share exceeds the whole. */
static void merged_runs_are_no_more_than_all(void **state)
{
	struct fixture fixture;
	const struct profile *profile = fixture_values(&fixture);
	struct table *table;
	size_t row;

	array_each(&fixture.values, value)
		value->runs = 1000;
	table = run(profile, "invariants", (struct view_request){});
	row = row_of(table, "item", "result", "address", 0x130a);
	assert_true(cell_at(table, row, "runs")->number > 1200);
	assert_true(cell_at(table, row, "share")->real == 1);
	table_destroy(table);
	fixture_deinit(&fixture);
}

static double width_at(const struct profile *profile, uint64_t address)
{
	struct table *table = run(profile, "values", (struct view_request){});
	const struct common_values *values =
		values_at(table, row_of(table, "item", "result", "address", address));
	double width = values->items[0].high - values->items[0].low;

	table_destroy(table);
	return width;
}

/* Samples by time lean to what follows slow code, the more the shorter the runs are. */
static void bounds_know_about_time(void **state)
{
	struct fixture fixture;
	double without = width_at(fixture_values(&fixture), 0x1304), length;

	fixture_fact(&fixture, RECORDING_VALUES, "run_length", "256");
	fixture_fact(&fixture, RECORDING_VALUES, "run_skip", "256");
	length = width_at(fixture_finish(&fixture), 0x1304);
	assert_true(length > 1.01 * without);
	/* 20 a run: most end early. */
	fixture_metric(&fixture, RECORDING_VALUES, "runs_steps", 24000);
	assert_true(width_at(fixture_finish(&fixture), 0x1304) > 1.5 * length);
	array_each(&fixture.facts, row)
		if (strcmp(row->key, "event") == 0)
			row->value = "instructions";
	assert_true(width_at(fixture_finish(&fixture), 0x1304) == without);
	fixture_deinit(&fixture);
}

/*
 * The errors of values that come two by two from a run are larger than those of as many independent
 * ones.
 */
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
	const char *nothing[] = { "overwritten" };
	struct view_request wrong = { .items = { nothing, 1 } };
	struct fixture fixture;
	const struct profile *profile = fixture_values(&fixture);
	struct table *table = NULL;

	assert_int_equal(view_run(view_find("values"), profile, &wrong, &table), -EINVAL);
	assert_null(table);
	fixture_deinit(&fixture);
	profile = fixture_demo(&fixture);
	for (const struct view *view = views; view->name; view++)
		if (view->needs & DOMAIN_VALUES) {
			assert_int_equal(view_run(view, profile, &(struct view_request){}, &table),
					 -ENODATA);
			assert_string_equal(err_text(),
					    "this profile has no values; 'assay record --values -- "
					    "COMMAND' records them. It has samples ('assay report "
					    "functions')");
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

/* Count times 65, in place of what the fixture has. */
static void values_replace(struct fixture *f, uint64_t address, const char *item, unsigned count)
{
	static uint8_t blobs[2][HOTLIST_BLOB_MAX];
	uint8_t *blob = blobs[!strcmp(item, "result")];
	uint64_t value = 65;
	struct hotlist list;

	hotlist_init(&list, &(struct hotlist_config){ .seed = 1 });
	for (unsigned i = 0; i < count; i++)
		hotlist_add(&list, &value);
	array_each(&f->values, row)
		if (f->locations.items[row->location].address == address &&
		    !strcmp(f->value_items.items[row->item].text, item)) {
			row->list = blob;
			row->list_size = hotlist_encode(&list, blob);
			row->total = row->runs = count;
		}
	hotlist_deinit(&list);
}

/*
 * The address of the first block, where a shorter one with more samples has so many values at each
 * instruction.
 */
static uint64_t first_block(unsigned count)
{
	struct fixture fixture;
	struct table *table;
	uint64_t address;

	fixture_values(&fixture);
	values_replace(&fixture, 0x1314, "result", count);
	values_replace(&fixture, 0x1317, "stored", count);
	for (uint32_t i = 1; i < fixture.locations.count; i++)
		if (fixture.locations.items[i].address == 0x1317)
			fixture_sample(&fixture, 1, fixture_stack(&fixture, 0, i), 120, 0);
	table = run(fixture_finish(&fixture), "blocks", (struct view_request){});
	assert_int_equal(table->row_count, 6);
	address = cell_at(table, 0, "address")->number;
	table_destroy(table);
	fixture_deinit(&fixture);
	return address;
}

static void blocks_are_ranked_by_samples_and_certainty(void **state)
{
	assert_int_equal(first_block(1000), 0x1314);
	assert_int_equal(first_block(10), 0x1304);
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
	/*
	 * At 75 % the store joins; trivial instructions around it do not, and the call ends it: one
	 * alone is no block.
	 */
	table = run(profile, "blocks", (struct view_request){ .min_invariance = 0.75 });
	assert_int_equal(table->row_count, 4);
	table_destroy(table);
	fixture_deinit(&fixture);
}

static void functions_come_by_their_samples(void **state)
{
	struct fixture fixture;
	const struct profile *profile = fixture_values(&fixture);
	struct table *table;

	/* The kernel's function has hardly any values and now the most samples. */
	for (uint32_t i = 1; i < fixture.locations.count; i++)
		if (fixture.locations.items[i].address == 0xffffffff81000020)
			fixture_sample(&fixture, 1, fixture_stack(&fixture, 0, i), 500, 0);
	fixture_finish(&fixture);
	table = run(profile, "args", (struct view_request){});
	assert_string_equal(cell_at(table, 0, "symbol")->text, "do_syscall");
	for (size_t i = 1; i < table->row_count; i++)
		assert_true(cell_at(table, i, "samples")->number <=
			    cell_at(table, i - 1, "samples")->number);
	table_destroy(table);
	fixture_deinit(&fixture);
}

static void text_of_arguments_is_brief(void **state)
{
	struct fixture fixture;
	const struct profile *profile = fixture_values(&fixture);
	struct table *table;
	size_t functions = 0;

	array_each(&fixture.symbols, symbol) {
		if (symbol->name && !strcmp(symbol->name, "parse"))
			symbol->name = "__x86_indirect_thunk_rax";
		if (symbol->name && !strcmp(symbol->name, "poly"))
			symbol->name = "ns::poly(form*, int) const";
	}
	fixture_finish(&fixture);
	table = run(profile, "args", (struct view_request){ .people = true, .by_caller = true });
	for (size_t i = 0; i < table->row_count; i++) {
		const struct cell *function = cell_at(table, i, "function");

		if (function->set)
			assert_string_equal(function->text, "ns::poly [demo]");
		assert_int_equal(function->set, cell_at(table, i, "shown_samples")->set);
		functions += function->set;
	}
	/* Two call sites, of which the second says neither the function nor its samples again. */
	assert_int_equal(table->row_count, 5);
	assert_int_equal(functions, 1);
	assert_int_equal(cell_at(table, 0, "entries")->number, 200);
	assert_int_equal(cell_at(table, 3, "entries")->number, 100);
	table_destroy(table);
	fixture_deinit(&fixture);
}

static void paths_have_no_mean(void **state)
{
	struct fixture fixture;
	const struct profile *profile;
	struct table *table;
	size_t row;

	fixture_values(&fixture);
	array_each(&fixture.value_items, item)
		if (item->text && !strcmp(item->text, "stored"))
			*item = (struct profile_value_item){ item->id, item->recording, "path:6",
							     "run", 1 };
	profile = fixture_finish(&fixture);
	table = run(profile, "values", (struct view_request){});
	row = row_of(table, "item", "path:6", "address", 0x1317);
	assert_false(cell_at(table, row, "range")->set);
	row = row_of(table, "item", "log2(result)", "address", 0x1304);
	assert_string_equal(cell_at(table, row, "range")->text, "32..127");
	row = row_of(table, "item", "result", "address", 0x1314);
	assert_string_equal(cell_at(table, row, "range")->text, "10..65, mean 37.50, sd 27.51");
	table_destroy(table);
	fixture_deinit(&fixture);
}

/* Hot functions without arguments; as many as expected. Programs are not told of them. */
static size_t absent_count(const struct table *people, size_t expected)
{
	size_t count = 0;

	for (size_t i = 0; i < people->row_count; i++) {
		const char *what = cell_at(people, i, "what")->text;

		if (strncmp(what, "none: ", 6) && strncmp(what, "too few ", 8))
			continue;
		assert_true(cell_at(people, i, "function")->set);
		assert_true(cell_at(people, i, "share")->real >= 0.01);
		assert_false(cell_at(people, i, "argument")->set);
		count++;
	}
	assert_int_equal(count, expected);
	return count;
}

static void arguments_that_nobody_reads_are_for_programs(void **state)
{
	struct fixture fixture;
	const struct profile *profile = fixture_values(&fixture);
	struct table *all = run(profile, "args", (struct view_request){});
	struct table *people = run(profile, "args", (struct view_request){ .people = true });

	/*
	 * poly has three parameters by name and a fourth register; parse has no code, and noise in
	 * its fourth; the kernel's function was entered three times only.
	 */
	assert_int_equal(all->row_count, 8);
	assert_int_equal(people->row_count, 5 + absent_count(people, 3));
	for (size_t i = 0; i < people->row_count; i++)
		assert_true(cell_at(people, i, "argument")->integer != 3);
	table_destroy(people);
	fixture.profile.parameter_count = 0;
	people = run(profile, "args", (struct view_request){ .people = true });
	assert_int_equal(people->row_count, 5 + absent_count(people, 3));
	table_destroy(people);
	people = run(profile, "args", (struct view_request){ .people = true, .limit = 1 });
	assert_int_equal(people->omitted, 4); /* two others have arguments, two have none */
	table_destroy(people);
	table_destroy(all);
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
	row = row_of(table, "kind", "place", "count", 90);
	assert_string_equal(cell_at(table, row, "reason")->text, "unsupported");
	assert_true(cell_at(table, row, "share")->real == 90.0 / 1200);
	assert_non_null(cell_at(table, row, "symbol")->text);
	row_of(table, "kind", "place", "count", 2);
	table_destroy(table);
	/* Places of few runs are left out, and counted. */
	table = run(&fixture.profile, "runs", (struct view_request){ .min_share = 0.05 });
	assert_string_equal(cell_at(table, table->row_count - 1, "kind")->text, "place");
	assert_int_equal(cell_at(table, table->row_count - 1, "count")->number, 90);
	assert_int_equal(table->omitted, 1);
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

/*
 * Changes a few bytes of lists, items and rows; whatever they then say, the views must get through.
 */
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
			struct table *table;

			if (view->needs & (DOMAIN_EXECUTED | DOMAIN_WAITS | DOMAIN_MARKS))
				continue; /* of executed code only */
			table = run(profile, view->name,
				    (struct view_request){
					    .by_caller = view->takes &
							 (round % 2 ? 0 : TAKES_BY_CALLER) });

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
		cmocka_unit_test(merged_runs_are_no_more_than_all),
		cmocka_unit_test(bounds_know_about_runs),
		cmocka_unit_test(bounds_know_about_time),
		cmocka_unit_test(sites_are_shown_one_by_one),
		cmocka_unit_test(filters_choose_sites),
		cmocka_unit_test(what_cannot_be_answered_is_refused),
		cmocka_unit_test(invariants_leave_out_what_the_code_says),
		cmocka_unit_test(the_stack_is_never_invariant),
		cmocka_unit_test(blocks_are_invariant_together),
		cmocka_unit_test(blocks_are_ranked_by_samples_and_certainty),
		cmocka_unit_test(functions_come_by_their_samples),
		cmocka_unit_test(text_of_arguments_is_brief),
		cmocka_unit_test(paths_have_no_mean),
		cmocka_unit_test(arguments_that_nobody_reads_are_for_programs),
		cmocka_unit_test(runs_add_up),
		cmocka_unit_test(damaged_lists_are_counted),
		cmocka_unit_test(any_profile_gives_views),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
