// SPDX-License-Identifier: BSD-2-Clause
// Serves: V18.
/* Values at instructions of annotate, and at call sites, of the profile of the fixture. */
#include "support/value_tables.h"

static void both_sides_of_a_comparison_are_shown(void **state)
{
	uint8_t code[FIXTURE_POLY_SIZE];
	struct fixture fixture;
	const struct profile *profile = fixture_values(&fixture);
	struct table *table;
	size_t row;

	memcpy(code, fixture_poly, sizeof(code));
	memcpy(code + 0x14, "\x44\x3b\x07", 3); /* cmp r8d, [rdi] */
	table = annotated_as(profile, &(struct view_request){}, code);
	row = row_of(table, "item", "result", "address", 0x1314);
	assert_int_equal(table->row_count, 17);
	assert_string_equal(cell_at(table, row, "text")->text, "cmp r8d, [rdi]");
	assert_string_equal(values_at(table, row)->label, "r8d");
	assert_string_equal(cell_at(table, row + 1, "item")->text, "loaded");
	assert_int_equal(cell_at(table, row + 1, "address")->number, 0x1314);
	table_destroy(table);
	array_each(&fixture.value_items, item)
		if (item->text && !strcmp(item->text, "loaded"))
			item->text = "low(loaded)";
	table = annotated_as(fixture_finish(&fixture), &(struct view_request){}, code);
	assert_int_equal(table->row_count, 17);
	table_destroy(table);
	memcpy(code + 0x14, "\x44\x39\x07", 3); /* cmp [rdi], r8d: what is loaded is the result */
	table = annotated_as(profile, &(struct view_request){}, code);
	assert_int_equal(table->row_count, 16);
	table_destroy(table);
	fixture_deinit(&fixture);
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

static uint32_t symbol_of(const struct profile *profile, const char *name)
{
	for (uint32_t i = 1; i < profile->symbol_count; i++)
		if (!strcmp(profile->symbols[i].name, name))
			return i;
	fail();
	return 0;
}

static void inlined_calls_of_one_line_are_one(void **state)
{
	const char *symbols[] = { "clamp" };
	struct fixture fixture;
	const struct profile *profile = fixture_values(&fixture);
	uint32_t clamp = symbol_of(profile, "clamp"), parse = symbol_of(profile, "parse");
	struct table *table;

	/* Another place where clamp is inlined into line 20 of parse, and one in line 21. */
	for (uint32_t line = 20; line <= 21; line++) {
		uint32_t location = fixture_location(&fixture, 1, 0x1206 + line);

		fixture_frame(&fixture, clamp, 1, 7);
		fixture_frame(&fixture, parse, 1, line);
		fixture_sample(&fixture, 1, fixture_stack(&fixture, 0, location), 130, 0);
	}
	table = run(fixture_finish(&fixture), "callgraph",
		    (struct view_request){ .by_callsite = true, .filter.symbols = { symbols, 1 } });
	assert_int_equal(table->row_count, 2);
	assert_int_equal(cell_at(table, 0, "line")->integer, 20);
	assert_int_equal(cell_at(table, 0, "total")->number, 250);
	assert_false(cell_at(table, 0, "address")->set);
	assert_int_equal(cell_at(table, 1, "total")->number, 130);
	assert_int_equal(cell_at(table, 1, "address")->number, 0x1206 + 21);
	table_destroy(table);
	fixture_deinit(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(annotate_shows_the_best_or_what_is_wanted),
		cmocka_unit_test(both_sides_of_a_comparison_are_shown),
		cmocka_unit_test(call_sites_are_told_by_return_address),
		cmocka_unit_test(inlined_calls_of_one_line_are_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
