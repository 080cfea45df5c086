// SPDX-License-Identifier: BSD-2-Clause
#include "analyse/table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/meta.h"
#include "base/mem.h"

struct table *table_create(const char *view, const struct column *columns, size_t column_count)
{
	struct table *table = mem_zalloc(sizeof(*table));

	table->view = view;
	table->columns = columns;
	table->column_count = column_count;
	table->level_column = -1;
	table->group_column = -1;
	return table;
}

void table_destroy(struct table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->owned_count; i++)
		free(table->owned[i]);
	free(table->owned);
	free(table->cells);
	free(table);
}

/* Time needs no mention: it is what everybody expects. */
static const char *event_of(const struct profile *profile)
{
	const char *event = profile_fact(profile, RECORDING_SAMPLES, META_EVENT);

	return event && strcmp(event, "cpu-clock") != 0 ? event : NULL;
}

void table_totals_set(struct table *table, const struct profile *profile, uint64_t selected)
{
	table->totals = (struct totals){
		.seen = profile->seen,
		.kept = profile->kept,
		.selected = selected,
		.losses = profile->losses,
		.loss_count = profile->loss_count,
		.event = event_of(profile),
		.period = meta_period(profile),
		.rate_changed = meta_rate_changed(profile),
	};
}

void table_runs_set(struct table *table, const struct profile *profile)
{
	const struct profile_recording *values = profile_recording(profile, RECORDING_VALUES);

	table->has_runs = true;
	if (values)
		table->runs = (struct totals){
			.seen = values->seen,
			.kept = values->kept,
			.losses = values->losses,
			.loss_count = values->loss_count,
		};
}

struct cell *table_row_add(struct table *table)
{
	struct cell *row;

	if (table->row_count == table->row_capacity) {
		table->row_capacity = table->row_capacity ? table->row_capacity * 2 : 16;
		table->cells = mem_realloc(table->cells, table->row_capacity * table->column_count,
					   sizeof(*table->cells));
	}
	row = table_row(table, table->row_count++);
	memset(row, 0, table->column_count * sizeof(*row));
	return row;
}

struct cell *table_row(const struct table *table, size_t row)
{
	return table->cells + row * table->column_count;
}

static void *memory_own(struct table *table, void *memory)
{
	if (table->owned_count == table->owned_capacity) {
		table->owned_capacity = table->owned_capacity ? table->owned_capacity * 2 : 16;
		table->owned = mem_realloc(table->owned, table->owned_capacity, sizeof(void *));
	}
	return table->owned[table->owned_count++] = memory;
}

const char *table_own(struct table *table, char *text)
{
	return memory_own(table, text);
}

void *table_alloc(struct table *table, size_t size)
{
	return memory_own(table, mem_zalloc(size));
}

struct table *table_create_joined(const char *view, const struct column *first, size_t first_count,
				  const struct column *second, size_t second_count)
{
	struct table *table = table_create(view, NULL, first_count + second_count);
	struct column *columns = table_alloc(table, table->column_count * sizeof(*columns));

	memcpy(columns, first, first_count * sizeof(*columns));
	memcpy(columns + first_count, second, second_count * sizeof(*columns));
	table->columns = columns;
	return table;
}

int table_column(const struct table *table, const char *name)
{
	for (size_t i = 0; i < table->column_count; i++)
		if (!strcmp(table->columns[i].name, name))
			return (int)i;
	return -1;
}

struct sort_key {
	struct cell cell;
	enum column_kind kind;
	size_t row;
};

static double top_share(const struct common_values *values)
{
	return values->count ? values->items[0].share : 0;
}

/* Below 0 when a comes first. */
static int cell_order(const struct cell *a, const struct cell *b, enum column_kind kind)
{
	switch (kind) {
	case COLUMN_TEXT:
		return strcmp(a->text, b->text);
	case COLUMN_INTEGER:
		return (a->integer < b->integer) - (a->integer > b->integer);
	case COLUMN_SHARE:
	case COLUMN_DELTA:
	case COLUMN_REAL:
		return (a->real < b->real) - (a->real > b->real);
	case COLUMN_VALUES:
		return (top_share(a->values) < top_share(b->values)) -
		       (top_share(a->values) > top_share(b->values));
	default:
		return (a->number < b->number) - (a->number > b->number);
	}
}

static int sort_key_order(const void *left, const void *right)
{
	const struct sort_key *a = left, *b = right;
	int order = b->cell.set - a->cell.set;

	if (!order && a->cell.set)
		order = cell_order(&a->cell, &b->cell, a->kind);
	return order ? order : (a->row > b->row) - (a->row < b->row);
}

void table_sort(struct table *table, size_t column)
{
	AUTO(free_ptr) struct sort_key *keys = mem_alloc((table->row_count + 1) * sizeof(*keys));
	size_t row_size = table->column_count * sizeof(struct cell);
	struct cell *sorted = mem_alloc((table->row_count + 1) * row_size);

	assert(column < table->column_count);
	for (size_t i = 0; i < table->row_count; i++)
		keys[i] = (struct sort_key){ table_row(table, i)[column],
					     table->columns[column].kind, i };
	qsort(keys, table->row_count, sizeof(*keys), sort_key_order);
	for (size_t i = 0; i < table->row_count; i++)
		memcpy(sorted + i * table->column_count, table_row(table, keys[i].row), row_size);
	free(table->cells);
	table->cells = sorted;
	table->row_capacity = table->row_count + 1;
}

void table_limit(struct table *table, size_t limit)
{
	if (table->row_count <= limit)
		return;
	table->omitted += table->row_count - limit;
	table->row_count = limit;
}

void table_limit_tree(struct table *table, size_t weight_column, size_t limit)
{
	AUTO(free_ptr) struct sort_key *keys = mem_alloc((table->row_count + 1) * sizeof(*keys));
	AUTO(free_ptr) bool *keep = mem_zalloc(table->row_count + 1);
	size_t row_size = table->column_count * sizeof(struct cell), kept = 0;

	if (table->row_count <= limit)
		return;
	for (size_t i = 0; i < table->row_count; i++)
		keys[i] = (struct sort_key){ table_row(table, i)[weight_column], COLUMN_COUNT, i };
	qsort(keys, table->row_count, sizeof(*keys), sort_key_order);
	for (size_t i = 0; i < limit; i++)
		keep[keys[i].row] = true;
	for (size_t i = 0; i < table->row_count; i++)
		if (keep[i])
			memmove(table_row(table, kept++), table_row(table, i), row_size);
	table->omitted += table->row_count - kept;
	table->row_count = kept;
}

double share_of(uint64_t count, uint64_t seen)
{
	return seen ? (double)count / (double)seen : 0;
}
