// SPDX-License-Identifier: BSD-2-Clause
/*
 * Tables as text. Every cell is formatted once into one buffer; its place and width are kept, so that columns can be
 * fitted to the terminal before anything is printed. Numbers are never shortened: elastic columns are, the widest first.
 * A cell that spills into empty ones has the rest of the line and does not make its column wider.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "report/report.h"
#include "report/utf8.h"

enum {
	GAP = 2, /* blanks between columns */
	ELASTIC_MIN = 10, /* columns are not made narrower */
	SPILL_MIN =
		48, /* what spills has at least that much, even if the line gets too long: a file and a line */
	INDENT = 2, /* blanks per level */
	INDENT_MAX = 60,
	ERROR_SHOWN = 5, /* percentage points; smaller errors of a value's share are not printed */
};

#define COLOR_HEADER "\033[1m"
#define COLOR_HOT "\033[31m"
#define COLOR_WARM "\033[32m"
#define COLOR_OFF "\033[m"

/* The colours of perf: hot from 5 %, warm from 0.5 %. */
#define SHARE_HOT 0.05
#define SHARE_WARM 0.005

struct piece {
	size_t offset; /* in texts */
	uint32_t width; /* terminal columns */
};

struct layout {
	const struct table *table;
	const struct text_options *options;
	size_t *columns; /* of the table, that are shown */
	size_t *widths; /* by shown column */
	size_t count;
	struct piece *pieces; /* row by row */
	struct strbuf texts; /* NUL after each */
};

static bool is_right(const struct column *column)
{
	return column->kind != COLUMN_TEXT && column->kind != COLUMN_BOOL &&
	       column->kind != COLUMN_VALUES;
}

static void count_put(struct strbuf *buf, uint64_t count)
{
	char digits[24];
	int length = snprintf(digits, sizeof(digits), "%" PRIu64, count);

	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			strbuf_putc(buf, ',');
		strbuf_putc(buf, digits[i]);
	}
}

/* In percentage points. */
static double share_error(const struct common_value *value)
{
	return fmax(value->high - value->share, value->share - value->low) * 100;
}

/* Where the error is larger than the share, the value may be as rare as any other. */
static bool is_significant(const struct common_value *value)
{
	double error = share_error(value);

	return error <= ERROR_SHOWN || error < value->share * 100;
}

/* "62.1%"; where the error is large "62±8%", so that nobody builds on the digits. */
static void share_put(struct strbuf *buf, const struct common_value *value, bool utf8)
{
	double error = share_error(value);

	if (error > ERROR_SHOWN)
		strbuf_printf(buf, "%.0f%s%.0f%%", value->share * 100, utf8 ? "\u00b1" : "+-",
			      error);
	else
		strbuf_printf(buf, "%.1f%%", value->share * 100);
}

/* "eax: (62.1% 4) (20.0% 1) ..."; returns the width. */
static size_t values_put(struct strbuf *buf, const struct common_values *values, bool utf8)
{
	size_t before = buf->length, shown = 0;

	if (values->label) {
		utf8_escape(buf, values->label);
		strbuf_puts(buf, ": ");
	}
	for (; shown < values->shown && is_significant(&values->items[shown]); shown++) {
		strbuf_putc(buf, '(');
		share_put(buf, &values->items[shown], utf8);
		strbuf_putc(buf, ' ');
		utf8_escape(buf, values->items[shown].text);
		strbuf_puts(buf, ") ");
	}
	if (!shown)
		strbuf_puts(buf, "various");
	else if (shown < values->count)
		strbuf_puts(buf, "...");
	else
		buf->text[--buf->length] = '\0';
	return utf8_width(strbuf_text(buf) + before);
}

/* Appends the cell; returns its width. */
static size_t cell_put(struct strbuf *buf, const struct cell *cell, enum column_kind kind,
		       bool utf8)
{
	size_t before = buf->length;

	if (!cell->set)
		return 0;
	switch (kind) {
	case COLUMN_TEXT:
		return utf8_escape(buf, cell->text);
	case COLUMN_COUNT:
		count_put(buf, cell->number);
		break;
	case COLUMN_INTEGER:
		strbuf_printf(buf, "%" PRId64, cell->integer);
		break;
	case COLUMN_ADDRESS:
		strbuf_printf(buf, "0x%" PRIx64, cell->number);
		break;
	case COLUMN_SHARE:
		strbuf_printf(buf, "%.2f%%", cell->real * 100);
		break;
	case COLUMN_DELTA:
		strbuf_printf(buf, "%+.2f%%", cell->real * 100);
		break;
	case COLUMN_BOOL:
		strbuf_puts(buf, cell->number ? "yes" : "");
		break;
	case COLUMN_REAL:
		strbuf_printf(buf, "%.6g", cell->real);
		break;
	case COLUMN_VALUES:
		return values_put(buf, cell->values, utf8);
	}
	return buf->length - before;
}

static size_t row_indent(const struct layout *layout, size_t row)
{
	const struct table *table = layout->table;
	int64_t level;

	if (table->level_column < 0)
		return 0;
	level = table_row(table, row)[table->level_column].integer * INDENT;
	return level < INDENT_MAX ? (size_t)level : INDENT_MAX;
}

/* Whether the shown column's cell has all the rest of the line. */
static bool is_spilling(const struct layout *layout, size_t row, size_t shown)
{
	const struct cell *cells = table_row(layout->table, row);

	if (!layout->table->columns[layout->columns[shown]].spills)
		return false;
	while (++shown < layout->count)
		if (cells[layout->columns[shown]].set)
			return false;
	return true;
}

static void row_format(struct layout *layout, size_t row)
{
	const struct cell *cells = table_row(layout->table, row);

	for (size_t i = 0; i < layout->count; i++) {
		size_t column = layout->columns[i];
		struct piece *piece = &layout->pieces[row * layout->count + i];
		size_t width;

		piece->offset = layout->texts.length;
		width = cell_put(&layout->texts, &cells[column],
				 layout->table->columns[column].kind, layout->options->utf8);
		strbuf_putc(&layout->texts, '\0');
		piece->width = (uint32_t)width;
		if (i + 1 == layout->count)
			width += row_indent(layout, row);
		if (width > layout->widths[i] && !is_spilling(layout, row, i))
			layout->widths[i] = width;
	}
}

/* Takes from the widest elastic column until the line fits or nothing is left to take. */
static void widths_fit(struct layout *layout)
{
	size_t total = layout->count ? (layout->count - 1) * GAP : 0;

	for (size_t i = 0; i < layout->count; i++)
		total += layout->widths[i];
	while (layout->options->width && total > layout->options->width) {
		size_t widest = layout->count;

		for (size_t i = 0; i < layout->count; i++)
			if (layout->table->columns[layout->columns[i]].elastic &&
			    layout->widths[i] > ELASTIC_MIN &&
			    (widest == layout->count || layout->widths[i] > layout->widths[widest]))
				widest = i;
		if (widest == layout->count)
			return;
		layout->widths[widest]--;
		total--;
	}
}

static bool is_shown(const struct table *table, size_t column)
{
	if (table->columns[column].use == COLUMN_DATA)
		return false;
	for (size_t row = 0; table->columns[column].optional && row < table->row_count; row++)
		if (table_row(table, row)[column].set)
			return true;
	return !table->columns[column].optional;
}

static void layout_init(struct layout *layout)
{
	const struct table *table = layout->table;

	layout->columns = mem_alloc((table->column_count + 1) * sizeof(*layout->columns));
	layout->widths = mem_zalloc((table->column_count + 1) * sizeof(*layout->widths));
	for (size_t i = 0; i < table->column_count; i++) {
		if (!is_shown(table, i))
			continue;
		layout->widths[layout->count] = utf8_width(table->columns[i].title);
		layout->columns[layout->count++] = i;
	}
	layout->pieces =
		mem_alloc((table->row_count * layout->count + 1) * sizeof(*layout->pieces));
	for (size_t row = 0; row < table->row_count; row++)
		row_format(layout, row);
	widths_fit(layout);
}

static void layout_deinit(struct layout *layout)
{
	free(layout->columns);
	free(layout->widths);
	free(layout->pieces);
	strbuf_deinit(&layout->texts);
}

static void blanks_put(struct strbuf *line, size_t count)
{
	while (count--)
		strbuf_putc(line, ' ');
}

static const char *cell_color(const struct layout *layout, const struct column *column,
			      const struct cell *cell)
{
	if (!layout->options->color || column->kind != COLUMN_SHARE || !cell->set)
		return NULL;
	if (cell->real >= SHARE_HOT)
		return COLOR_HOT;
	return cell->real >= SHARE_WARM ? COLOR_WARM : NULL;
}

static void padded_put(struct strbuf *line, const struct layout *layout, size_t shown,
		       const char *text, size_t text_width, const char *color)
{
	const struct column *column = &layout->table->columns[layout->columns[shown]];
	size_t width = layout->widths[shown];
	size_t pad = width > text_width ? width - text_width : 0;
	const char *mark = layout->options->utf8 ? "\xe2\x80\xa6" : "...";

	if (is_right(column))
		blanks_put(line, pad);
	if (color)
		strbuf_puts(line, color);
	if (column->kind == COLUMN_VALUES)
		utf8_cut(line, text, width, mark);
	else
		utf8_shorten(line, text, width > text_width ? text_width : width, mark);
	if (color)
		strbuf_puts(line, COLOR_OFF);
	if (!is_right(column))
		blanks_put(line, pad);
}

static void line_write(struct strbuf *line, FILE *file)
{
	while (line->length && line->text[line->length - 1] == ' ')
		line->length--;
	strbuf_putc(line, '\n');
	fwrite(line->text, 1, line->length, file);
	line->length = 0;
}

/*
 * A nested name: blanks, then the name in what is left. Where the blanks would take more than two fifths of the column they
 * are cut off there and end in the level's number.
 */
static void nested_put(struct strbuf *line, const struct layout *layout, size_t row,
		       const struct piece *piece)
{
	const struct table *table = layout->table;
	int64_t level = table_row(table, row)[table->level_column].integer;
	size_t width = layout->widths[layout->count - 1];
	size_t indent = (size_t)level * INDENT, limit = width * 2 / 5;
	char number[24] = "";

	if (indent > limit) {
		int length = snprintf(number, sizeof(number), "%" PRId64 ": ", level);

		indent = limit > (size_t)length ? limit - (size_t)length : 0;
		strbuf_printf(line, "%*s%s", (int)indent, "", number);
		indent = limit;
	} else {
		blanks_put(line, indent);
	}
	utf8_shorten(line, layout->texts.text + piece->offset, width - indent,
		     layout->options->utf8 ? "\xe2\x80\xa6" : "...");
}

/* The end of a line, from the shown column on. */
static void spill_put(struct strbuf *line, const struct layout *layout, const struct piece *piece,
		      size_t shown)
{
	size_t start = shown * GAP, width = layout->options->width;

	for (size_t i = 0; i < shown; i++)
		start += layout->widths[i];
	width = width > start + SPILL_MIN ? width - start : SPILL_MIN;
	utf8_cut(line, layout->texts.text + piece->offset,
		 layout->options->width ? width : SIZE_MAX,
		 layout->options->utf8 ? "\xe2\x80\xa6" : "...");
}

static void row_write(const struct layout *layout, size_t row, struct strbuf *line, FILE *file)
{
	const struct cell *cells = table_row(layout->table, row);

	for (size_t i = 0; i < layout->count; i++) {
		const struct column *column = &layout->table->columns[layout->columns[i]];
		const struct piece *piece = &layout->pieces[row * layout->count + i];

		if (i)
			blanks_put(line, GAP);
		if (is_spilling(layout, row, i)) {
			spill_put(line, layout, piece, i);
			break;
		}
		if (i + 1 == layout->count && layout->table->level_column >= 0)
			nested_put(line, layout, row, piece);
		else
			padded_put(line, layout, i, layout->texts.text + piece->offset,
				   piece->width,
				   cell_color(layout, column, &cells[layout->columns[i]]));
	}
	line_write(line, file);
}

static void header_write(const struct layout *layout, struct strbuf *line, FILE *file)
{
	if (layout->options->color)
		strbuf_puts(line, COLOR_HEADER);
	for (size_t i = 0; i < layout->count; i++) {
		const char *title = layout->table->columns[layout->columns[i]].title;

		if (i)
			blanks_put(line, GAP);
		padded_put(line, layout, i, title, utf8_width(title), NULL);
	}
	if (layout->options->color)
		strbuf_puts(line, COLOR_OFF);
	line_write(line, file);
}

static uint64_t losses_sum(const struct totals *totals)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < totals->loss_count; i++)
		sum += totals->losses[i].count;
	return sum;
}

static void totals_write(const char *label, const struct totals *totals, bool filtered,
			 struct strbuf *line, FILE *file)
{
	uint64_t lost = losses_sum(totals);
	double share = share_of(lost, totals->seen);

	strbuf_printf(line, "%sseen ", label);
	count_put(line, totals->seen);
	strbuf_puts(line, " = kept ");
	count_put(line, totals->kept);
	strbuf_puts(line, " + lost ");
	count_put(line, lost);
	if (lost)
		strbuf_printf(line, " (%.2f%%)", share * 100);
	for (size_t i = 0; i < totals->loss_count; i++) {
		strbuf_puts(line, i ? ", " : ": ");
		utf8_escape(line, totals->losses[i].name);
		strbuf_putc(line, ' ');
		count_put(line, totals->losses[i].count);
	}
	if (totals->seen != totals->kept + lost) {
		strbuf_puts(line, "; NOT ACCOUNTED FOR ");
		count_put(line, totals->seen - totals->kept - lost);
	}
	if (filtered) {
		strbuf_puts(line, "; selected ");
		count_put(line, totals->selected);
		strbuf_printf(line, " (%.2f%%)", share_of(totals->selected, totals->seen) * 100);
	}
	line_write(line, file);
}

static void footer_write(const struct table *table, struct strbuf *line, FILE *file)
{
	line_write(line, file);
	if (table->omitted) {
		strbuf_printf(line, "%zu more %s not shown", table->omitted,
			      table->omitted == 1 ? "entry" : "entries");
		line_write(line, file);
	}
	if (table->baseline.seen)
		totals_write("A: ", &table->baseline, table->filtered, line, file);
	totals_write(table->baseline.seen ? "B: " : "", &table->totals, table->filtered, line,
		     file);
	if (table->has_runs)
		totals_write("runs: ", &table->runs, false, line, file);
	if (table->unreadable) {
		strbuf_printf(line,
			      "%zu list%s of values could not be read and %s left out: the "
			      "profile is damaged",
			      table->unreadable, table->unreadable == 1 ? "" : "s",
			      table->unreadable == 1 ? "is" : "are");
		line_write(line, file);
	}
}

static bool group_changes(const struct table *table, size_t row)
{
	int column = table->group_column;

	return column >= 0 && row > 0 &&
	       table_row(table, row)[column].integer != table_row(table, row - 1)[column].integer;
}

void report_text(const struct table *table, const struct text_options *options, FILE *file)
{
	struct layout layout = { .table = table, .options = options };
	struct strbuf line = {};

	layout_init(&layout);
	header_write(&layout, &line, file);
	for (size_t row = 0; row < table->row_count && !ferror(file); row++) {
		if (group_changes(table, row))
			line_write(&line, file);
		row_write(&layout, row, &line, file);
	}
	footer_write(table, &line, file);
	layout_deinit(&layout);
	strbuf_deinit(&line);
}
