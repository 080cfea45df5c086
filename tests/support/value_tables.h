/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests: views of the values of a fixture (profile_fixture.h), and cells of their tables. */
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyse/annotate.h"
#include "analyse/views.h"
#include "base/mem.h"
#include "support/profile_fixture.h"

/* The only function whose code is known is poly. */
static inline int code_get(void *ctx, uint32_t symbol, void **ret, size_t *ret_size)
{
	const struct profile *profile = ctx;

	if (strcmp(profile->symbols[symbol].name, "poly"))
		return -ENOENT;
	*ret = mem_dup(fixture_poly, FIXTURE_POLY_SIZE);
	*ret_size = FIXTURE_POLY_SIZE;
	return 0;
}

static inline struct table *run(const struct profile *profile, const char *view,
				struct view_request request)
{
	struct table *table = NULL;

	request.code = (struct code_source){ code_get, (void *)profile };
	if (request.min_invariance == 0)
		request.min_invariance = -1;
	assert_int_equal(view_run(view_find(view), profile, &request, &table), 0);
	return table;
}

static inline const struct cell *cell_at(const struct table *table, size_t row, const char *column)
{
	int index = table_column(table, column);

	assert_true(index >= 0);
	assert_true(row < table->row_count);
	return &table_row(table, row)[index];
}

/* The number of the row with these; the last of the names is NULL. */
static inline size_t row_of(const struct table *table, const char *column, const char *text,
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

static inline const struct common_values *values_at(const struct table *table, size_t row)
{
	return cell_at(table, row, "values")->values;
}

static inline void assert_value(const struct common_values *values, size_t rank, uint64_t value,
				uint64_t count, double share)
{
	assert_true(rank < values->count);
	assert_int_equal(values->items[rank].words[0], value);
	assert_int_equal(values->items[rank].count, count);
	assert_true(values->items[rank].share > share - 1e-9);
	assert_true(values->items[rank].share < share + 1e-9);
	assert_true(values->items[rank].low <= share && values->items[rank].high >= share);
}

static inline struct table *annotated_as(const struct profile *profile,
					 const struct view_request *values, const uint8_t *code)
{
	struct annotate_request request = {
		.filter = &values->filter, .code = code, .size = FIXTURE_POLY_SIZE, .values = values
	};

	for (uint32_t i = 1; i < profile->symbol_count; i++)
		if (!strcmp(profile->symbols[i].name, "poly"))
			request.symbol = i;
	return annotate(profile, &request);
}

static inline struct table *annotated(const struct profile *profile,
				      const struct view_request *values)
{
	return annotated_as(profile, values, fixture_poly);
}
