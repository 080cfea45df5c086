// SPDX-License-Identifier: BSD-2-Clause
/*
 * The table of an annotated function for people: the heaviest instructions, and source lines.
 *
 *	in	the table that annotate() has made
 *	out	the same with fewer rows, or with rows of source lines before instructions
 *	owner	the caller
 */
#include "analyse/annotate_private.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

/* The row of the instruction itself; rows of further values come after it. */
static bool is_instruction(const struct cell *row)
{
	return row[A_TEXT].set;
}

struct weighted_row {
	uint64_t weight;
	size_t row;
};

static int weighted_row_order(const void *left, const void *right)
{
	const struct weighted_row *a = left, *b = right;

	if (a->weight != b->weight)
		return a->weight < b->weight ? 1 : -1;
	return (a->row > b->row) - (a->row < b->row);
}

/* By row: whether it is one of the limit instructions with the most samples. */
static bool *heaviest_choose(const struct table *table, size_t limit)
{
	AUTO(free_ptr)
	struct weighted_row *rows = mem_alloc((table->row_count + 1) * sizeof(*rows));
	bool *keep = mem_zalloc(table->row_count + 1);
	size_t count = 0;

	for (size_t i = 0; i < table->row_count; i++)
		if (is_instruction(table_row(table, i)))
			rows[count++] =
				(struct weighted_row){ table_row(table, i)[A_SELF].number, i };
	qsort(rows, count, sizeof(*rows), weighted_row_order);
	for (size_t i = 0; i < count && i < limit; i++)
		keep[rows[i].row] = true;
	return keep;
}

void annotate_limit(struct table *table, size_t limit)
{
	AUTO(free_ptr) bool *keep = heaviest_choose(table, limit);
	size_t size = table->column_count * sizeof(struct cell), kept = 0;
	bool with = false;

	for (size_t i = 0; i < table->row_count; i++) {
		bool instruction = is_instruction(table_row(table, i));

		if (instruction)
			with = keep[i];
		if (with)
			memmove(table_row(table, kept++), table_row(table, i), size);
		else
			table->omitted += instruction;
	}
	table->row_count = kept;
}

static bool same_line(const struct cell *a, const struct cell *b)
{
	return a[A_FILE].set == b[A_FILE].set && a[A_LINE].set == b[A_LINE].set &&
	       (!a[A_FILE].set || !strcmp(a[A_FILE].text, b[A_FILE].text)) &&
	       (!a[A_LINE].set || a[A_LINE].integer == b[A_LINE].integer);
}

/* "; file.c:12  text": the last part of the path is enough beside the text. */
static struct cell *source_row_add(struct table *table, const struct cell *from,
				   annotate_source_fn source, void *ctx)
{
	const char *file = from[A_FILE].text, *slash = strrchr(file, '/');
	uint32_t line = from[A_LINE].set ? (uint32_t)from[A_LINE].integer : 0;
	const char *place = view_place_text(table, slash ? slash + 1 : file, line);
	const char *text = line ? source(ctx, file, line) : NULL;
	struct cell *row = table_row_add(table);

	row[A_TEXT] = cell_text(table_own(table, mem_printf("; %s%s%s", place, text ? "  " : "",
							    text ? text : "")));
	return row;
}

static uint64_t line_key(const struct cell *row)
{
	return hash64_pair(hash_bytes(row[A_FILE].text, strlen(row[A_FILE].text)),
			   row[A_LINE].set ? (uint64_t)row[A_LINE].integer : 0);
}

/* By line_key(): executions of the line's most executed instruction. */
static void lines_count(const struct table *table, struct map *ret)
{
	for (size_t i = 0; i < table->row_count; i++) {
		const struct cell *row = table_row(table, i);
		uint64_t *most;

		if (!row[A_FILE].set || !row[A_SELF].set)
			continue;
		most = map_at(ret, line_key(row), NULL);
		*most = row[A_SELF].number > *most ? row[A_SELF].number : *most;
	}
}

static void line_count_fill(const struct map *counts, const struct cell *from, struct cell *row)
{
	const uint64_t *count = map_find(counts, line_key(from));

	if (count)
		row[A_SELF] = cell_number(*count);
}

struct table *annotate_interleave(const struct table *table, annotate_source_fn source, void *ctx)
{
	struct table *people = table_create(table->view, table->columns, table->column_count);
	const struct cell *previous = NULL;
	bool marked = annotate_table_is_marked(table);
	AUTO(map_deinit) struct map counts = {};

	if (marked)
		lines_count(table, &counts);
	people->heading = table->heading;
	people->totals = table->totals;
	people->runs = table->runs;
	people->has_runs = table->has_runs;
	people->unreadable = table->unreadable;
	people->omitted = table->omitted;
	people->filtered = table->filtered;
	for (size_t i = 0; i < table->row_count; i++) {
		const struct cell *from = table_row(table, i);
		struct cell *row;

		if (from[A_FILE].set && (!previous || !same_line(previous, from)))
			line_count_fill(&counts, from, source_row_add(people, from, source, ctx));
		if (from[A_FILE].set)
			previous = from;
		row = table_row_add(people);
		memcpy(row, from, table->column_count * sizeof(*row));
		if (!is_instruction(from))
			row[A_ADDRESS] = (struct cell){};
		else
			row[A_TEXT] = cell_text(
				table_own(people, mem_printf("    %s", from[A_TEXT].text)));
		if (row[A_SELF].number == 0 && !marked)
			row[A_SELF] = row[A_SHARE] = row[A_PART] = (struct cell){};
	}
	return people;
}
