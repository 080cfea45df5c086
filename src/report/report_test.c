// SPDX-License-Identifier: BSD-2-Clause
// Serves: S3, S4.
#include <jansson.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/profile_fixture.h"
#include "analyse/views.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "report/cut.h"
#include "report/export.h"
#include "report/protobuf.h"
#include "report/report.h"
#include "base/utf8.h"

static void escaped_is(const char *text, const char *expected)
{
	struct strbuf buf = {};
	size_t width = utf8_escape(&buf, text);

	assert_string_equal(strbuf_text(&buf), expected);
	assert_int_equal(width, utf8_width(expected));
	strbuf_deinit(&buf);
}

static void escapes_what_a_terminal_would_act_on(void **state)
{
	escaped_is("plain", "plain");
	escaped_is("\x1b[2J\x07\r\n\t", "\\x1b[2J\\x07\\x0d\\x0a\\x09");
	escaped_is("\x7f", "\\x7f");
	escaped_is("\xc2\x9b"
		   "31m",
		   "\\u009b31m"); /* the one-character CSI */
	escaped_is("a\xe2\x80\xae"
		   "b",
		   "a\\u202eb");
	escaped_is("gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f");
	escaped_is("\xff\xc3", "\\xff\\xc3");
}

static void repaired_is(const char *text, const char *expected)
{
	struct strbuf buf = {};

	utf8_repair(&buf, text);
	assert_string_equal(strbuf_text(&buf), expected);
	strbuf_deinit(&buf);
}

static void repairs_to_valid_utf8(void **state)
{
	repaired_is("\xe4\xb8\xad", "\xe4\xb8\xad");
	repaired_is("\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"); /* overlong */
	repaired_is("\xe0\x80\xaf", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	repaired_is("\xed\xa0\x80x", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx"); /* surrogate */
	repaired_is("\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	repaired_is("\xe4\xb8", "\xef\xbf\xbd\xef\xbf\xbd"); /* cut off */
}

static void shortened_is(const char *text, size_t width, const char *expected)
{
	struct strbuf buf = {};

	utf8_shorten(&buf, text, width, "..");
	assert_string_equal(strbuf_text(&buf), expected);
	strbuf_deinit(&buf);
}

static void shortens_in_the_middle(void **state)
{
	shortened_is("abcdef", 6, "abcdef");
	shortened_is("abcdefgh", 6, "ab..gh");
	shortened_is("abcdefghi", 7, "abc..hi");
	shortened_is("\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f\xc3\xa9", 4, "\xc3\xa4..\xc3\xa9");
	shortened_is("abcdef", 2, "ab");
	shortened_is("abcdef", 0, "");
}

static void cut_is(const char *text, size_t width, enum column_cut cut, const char *expected)
{
	struct strbuf buf = {};

	cut_put(&buf, text, width, cut, "..");
	assert_string_equal(strbuf_text(&buf), expected);
	strbuf_deinit(&buf);
}

/* What tells rows apart stays: the offset in the function, the line of the file. */
static void names_and_places_keep_what_tells_them_apart(void **state)
{
	cut_is("parse_number+0x4e [libjson.so]", 40, CUT_NAME, "parse_number+0x4e [libjson.so]");
	cut_is("parse_number+0x4e [libjson.so]", 20, CUT_NAME, "parse_number+0x4e");
	cut_is("parse_number+0x4e [libjson.so]", 13, CUT_NAME, "parse_..+0x4e");
	cut_is("parse_number+0x4e [libjson.so]", 7, CUT_NAME, "+0x4e");
	cut_is("parse (inlined) [libjson.so]", 15, CUT_NAME, "parse (inlined)");
	cut_is("parse (inlined) [libjson.so]", 8, CUT_NAME, "parse");
	cut_is("from [stack cut: page not there]", 20, CUT_NAME, "from [sta..ot there]");
	cut_is("[unknown] [libjson.so]", 10, CUT_NAME, "[unknown]");
	cut_is("src/deep/lib/number.c:120", 25, CUT_PLACE, "src/deep/lib/number.c:120");
	cut_is("src/deep/lib/number.c:120", 19, CUT_PLACE,
	       "../lib/number.c:120"); /* whole folders */
	cut_is("src/deep/lib/number.c:120", 12, CUT_PLACE, "number.c:120");
	cut_is("src/deep/lib/number.c:120", 10, CUT_PLACE, "numb..:120");
	cut_is("number.c:120-137", 13, CUT_PLACE, "num..:120-137");
	cut_is("+0x1234", 5, CUT_PLACE, "+0..4");
	cut_is("", 0, CUT_NAME, "");
}

static void varints(void **state)
{
	static const struct {
		uint64_t value;
		const char *bytes;
		size_t size;
	} cases[] = {
		{ 0, "\0", 1 },
		{ 127, "\x7f", 1 },
		{ 300, "\xac\x02", 2 },
		{ UINT64_MAX, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct strbuf buf = {};

		protobuf_varint(&buf, cases[i].value);
		assert_int_equal(buf.length, cases[i].size);
		assert_memory_equal(buf.text, cases[i].bytes, buf.length);
		strbuf_deinit(&buf);
	}
}

/*
 * Random bytes as every name: JSON must parse (jansson checks UTF-8), text must be free of control
 * characters.
 */
static void random_names_are_always_safe(void **state)
{
	uint64_t seed = 99;

	for (int round = 0; round < 300; round++) {
		struct fixture fixture;
		struct table *table;
		char name[24] = "", *text = NULL;
		size_t size = 0;
		FILE *file;
		json_t *json;

		for (size_t i = 0; i + 1 < sizeof(name); i++)
			name[i] = (char)((seed = hash64(seed + 1)) % 255 + 1);
		fixture_demo(&fixture);
		fixture.symbols.items[1].name = name;
		fixture.modules.items[1].name = name;
		fixture.files.items[1].path = name;
		assert_int_equal(view_run(view_find("lines"), &fixture.profile,
					  &(struct view_request){}, &table),
				 0);
		file = open_memstream(&text, &size);
		report_json(table, file);
		fclose(file);
		json = json_loads(text, 0, NULL);
		assert_non_null(json);
		json_decref(json);
		free(text);
		file = open_memstream(&text, &size);
		report_text(table, &(struct text_options){ .width = 70, .utf8 = true }, file);
		fclose(file);
		for (size_t i = 0; i < size; i++)
			assert_true(text[i] == '\n' || (unsigned char)text[i] >= 0x20);
		free(text);
		table_destroy(table);
		fixture_deinit(&fixture);
	}
}

static void unaccounted_samples_are_said(void **state)
{
	struct fixture fixture;
	struct table *table;
	char *text = NULL;
	size_t size;
	FILE *file;

	fixture_demo(&fixture);
	fixture.profile.seen += 7;
	assert_int_equal(view_run(view_find("functions"), &fixture.profile,
				  &(struct view_request){}, &table),
			 0);
	file = open_memstream(&text, &size);
	report_text(table, &(struct text_options){}, file);
	fclose(file);
	assert_non_null(strstr(text, "NOT ACCOUNTED FOR 7"));
	free(text);
	table_destroy(table);
	fixture_deinit(&fixture);
}

/* One name of a megabyte does not make every line as long. */
static void giant_name_costs_its_own_row(void **state)
{
	enum { ROWS = 50, NAME = 1 << 20 };
	static const struct column columns[] = {
		{ "symbol", "Function", COLUMN_TEXT, .elastic = true },
		{ "self", "Self", COLUMN_COUNT },
	};
	struct table *table = table_create("functions", columns, 2);
	AUTO(free_ptr) char *name = mem_alloc(NAME + 1);
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	memset(name, 'x', NAME);
	name[NAME] = 0;
	for (int i = 0; i < ROWS; i++) {
		struct cell *row = table_row_add(table);

		row[0] = cell_text(i ? "main" : name);
		row[1] = cell_number(7);
	}
	report_text(table, &(struct text_options){}, file);
	fclose(file);
	assert_true(size > ROWS * 7 && size < NAME);
	assert_non_null(strstr(text, "xxx...xxx"));
	free(text);
	table_destroy(table);
}

/*
 * A cell with nothing after it takes the rest of the line, is cut at its end, and makes no column
 * wider.
 */
static void long_lines_spill(void **state)
{
	static const struct column columns[] = {
		{ "self", "Self", COLUMN_COUNT },
		{ "text", "Text", COLUMN_TEXT, .elastic = true, .spills = true },
		{ "total", "Total", COLUMN_COUNT },
	};
	struct table *table = table_create("annotate", columns, 3);
	struct cell *row = table_row_add(table);
	char *text = NULL;
	size_t size;
	FILE *file;

	row[1] = cell_text("; file.c:12  for (i = 0; i < 10; i++) { something(i); another(i); }");
	row = table_row_add(table);
	row[1] = cell_text("add");
	row[2] = cell_number(7);
	for (size_t width = 30; width <= 60; width += 30) {
		file = open_memstream(&text, &size);
		report_text(table, &(struct text_options){ .width = width }, file);
		fclose(file);
		assert_non_null(strstr(text, "Self  Text  Total\n"));
		assert_non_null(strstr(text, "      add       7\n"));
		/* However narrow, the place can be read. */
		assert_non_null(strstr(text, "; file.c:12  for (i = 0;"));
		assert_int_equal(
			width == 60,
			!!strstr(text,
				 "      ; file.c:12  for (i = 0; i < 10; i++) { something(i...\n"));
		free(text);
	}
	table_destroy(table);
}

static size_t longest_line(const char *text)
{
	size_t longest = 0;

	for (const char *end; (end = strchr(text, '\n')); text = end + 1)
		if ((size_t)(end - text) > longest)
			longest = (size_t)(end - text);
	return longest;
}

static char *text_of(const struct table *table, size_t width)
{
	char *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	report_text(table, &(struct text_options){ .width = width }, file);
	fclose(file);
	return text;
}

/* Columns to spare go first, and the footer names them; then names are cut; no line is too long. */
static void narrow_tables_fit(void **state)
{
	static const struct column columns[] = {
		{ "self", "Self", COLUMN_COUNT },
		{ "address", "Address", COLUMN_ADDRESS, .spare = 2 },
		{ "received", "Received", COLUMN_COUNT, .spare = 1 },
		{ "where", "Where", COLUMN_TEXT, .elastic = true, .cut = CUT_NAME, .comfort = 14 },
	};
	static const struct profile_named_count losses[] = {
		{ .name = "one_reason", .count = 1 }, { .name = "another_reason", .count = 2 }
	};
	struct table *table = table_create("functions", columns, 4);
	struct cell *row = table_row_add(table);

	row[0] = cell_number(123456);
	row[1] = cell_number(0xffffffff81234567);
	row[2] = cell_number(12);
	row[3] = cell_text("a_function_with_a_name+0x4e [kernel]");
	table->totals = (struct totals){ .seen = 4, .kept = 1, .losses = losses, .loss_count = 2 };
	for (size_t width = 8; width < 90; width++) {
		AUTO(free_ptr) char *text = text_of(table, width);

		assert_true(longest_line(text) <= width);
		/* 7 + 18 + 8 + 14 columns and the gaps between them */
		assert_int_equal(width >= 53, !!strstr(text, " Address  Received  W"));
		assert_int_equal(width >= 33, !!strstr(text, "Received  W"));
		if (width >= 46)
			assert_int_equal(width < 53, !!strstr(text, "columns Address; --width"));
		if (width >= 23)
			assert_non_null(strstr(text, "+0x4e"));
	}
	table_destroy(table);
}

/* A matrix goes on below, with its first column once more; nothing of it is left out. */
static void wide_matrix_goes_on_below(void **state)
{
	static const struct column columns[] = {
		{ "from", "From", COLUMN_TEXT, .elastic = true },
		{ "a", "first", COLUMN_COUNT },
		{ "b", "second", COLUMN_COUNT },
		{ "c", "third", COLUMN_COUNT },
		{ "d", "fourth", COLUMN_COUNT },
	};
	struct table *table = table_create("transfers", columns, 5);
	struct cell *row = table_row_add(table);
	AUTO(free_ptr) char *text = NULL;

	row[0] = cell_text("libc");
	for (unsigned i = 1; i < 5; i++)
		row[i] = cell_number(i);
	table->repeated_columns = 1;
	text = text_of(table, 20);
	assert_non_null(strstr(text, "From  first  second\n"
				     "libc      1       2\n"
				     "\n"
				     "From  third  fourth\n"
				     "libc      3       4\n"));
	table_destroy(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(escapes_what_a_terminal_would_act_on),
		cmocka_unit_test(repairs_to_valid_utf8),
		cmocka_unit_test(shortens_in_the_middle),
		cmocka_unit_test(names_and_places_keep_what_tells_them_apart),
		cmocka_unit_test(varints),
		cmocka_unit_test(random_names_are_always_safe),
		cmocka_unit_test(unaccounted_samples_are_said),
		cmocka_unit_test(long_lines_spill),
		cmocka_unit_test(narrow_tables_fit),
		cmocka_unit_test(wide_matrix_goes_on_below),
		cmocka_unit_test(giant_name_costs_its_own_row),
	};

	setlocale(LC_CTYPE, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
