// SPDX-License-Identifier: BSD-2-Clause
/*
 * Tables as text. Every cell is formatted once into one buffer; its place and width are kept, so
 * that columns can be fitted to the terminal before anything is printed. Numbers are never
 * shortened. Where a line is too long,
 *
 * 1. elastic columns are made narrower, in the proportion of their comfort and down to it;
 * 2. columns that are to spare are left out, and the footer names them; or, where the table says
 *    so, the line goes on in another table below, with the first columns repeated;
 * 3. elastic columns are made narrower than is comfortable;
 * 4. what is still too long is cut off: no line is longer than the terminal is wide.
 *
 * A cell that spills into empty ones has the rest of the line and does not make its column wider.
 *
 *	in	a table
 *	out	lines of text, as wide as was asked for
 *	owner	nobody: it is a call, and the table stays with the caller
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "report/cut.h"
#include "report/footer.h"
#include "report/report.h"
#include "base/utf8.h"

enum {
	GAP = 2, /* blanks between columns */
	COMFORT = 16, /* of elastic columns, unless they say otherwise */
	ELASTIC_MIN = 6, /* columns are not made narrower */
	SPILL_MIN = 48, /* what spills begins further left if it had less */
	CELL_MAX = 4096, /* a longer text is shown without its middle; --json has all of it */
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
	size_t *columns; /* of the table, that can be shown; what follows is by their number */
	size_t *widths;
	bool *dropped; /* left out for want of width */
	size_t count;
	size_t *line; /* the columns of the table in hand, from left to right */
	size_t line_count;
	size_t wanted; /* width at which no column is left out */
	bool color;
	struct piece *pieces; /* row by row */
	struct strbuf texts; /* NUL after each */
};

static bool is_right(const struct column *column)
{
	return column->kind != COLUMN_TEXT && column->kind != COLUMN_BOOL &&
	       column->kind != COLUMN_VALUES;
}

/* In percentage points. */
static double share_error(const struct common_value *value)
{
	return fmax(value->high - value->share, value->share - value->low) * 100;
}

/*
 * Whether the error of a value's share is small or smaller than the share. Otherwise nothing is
 * known about how common the value is.
 */
static bool is_significant(const struct common_value *value)
{
	double error = share_error(value);

	return error <= ERROR_SHOWN || error < value->share * 100;
}

/* "62.1%"; where the error is large "62±8%", so that the digits do not look exact. */
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

/* Six digits, and none behind the point of millions. */
static void real_put(struct strbuf *buf, double real)
{
	if (real >= 1e6 && real < 1e15)
		count_put(buf, (uint64_t)(real + 0.5));
	else
		strbuf_printf(buf, "%.6g", real);
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
		real_put(buf, cell->real);
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

static const struct column *column_of(const struct layout *layout, size_t number)
{
	return &layout->table->columns[layout->columns[number]];
}

static bool is_last(const struct layout *layout, size_t number)
{
	return number + 1 == layout->count;
}

/* Whether the column's cell has all the rest of the line. */
static bool is_spilling(const struct layout *layout, size_t row, size_t number)
{
	const struct cell *cells = table_row(layout->table, row);

	if (!column_of(layout, number)->spills)
		return false;
	while (++number < layout->count)
		if (cells[layout->columns[number]].set)
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
		if (is_last(layout, i))
			width += row_indent(layout, row);
		if (width > layout->widths[i] && !is_spilling(layout, row, i))
			layout->widths[i] = width;
	}
}

/* --- Fitting ---------------------------------------------------------------------------------- */

static size_t line_width(const struct layout *layout)
{
	size_t total = 0, count = 0;

	for (size_t i = 0; i < layout->count; i++)
		if (!layout->dropped[i]) {
			total += layout->widths[i];
			count++;
		}
	return total + (count ? (count - 1) * GAP : 0);
}

static size_t comfort_of(const struct layout *layout, size_t number)
{
	unsigned comfort = column_of(layout, number)->comfort;

	return comfort ? comfort : COMFORT;
}

/* The elastic column that has the most in proportion to its comfort; count: none can give. */
static size_t giver_find(const struct layout *layout, bool comfortable)
{
	size_t found = layout->count;

	for (size_t i = 0; i < layout->count; i++) {
		size_t floor = comfortable ? comfort_of(layout, i) : ELASTIC_MIN;

		if (layout->dropped[i] || !column_of(layout, i)->elastic ||
		    layout->widths[i] <= floor)
			continue;
		if (found == layout->count || layout->widths[i] * comfort_of(layout, found) >
						      layout->widths[found] * comfort_of(layout, i))
			found = i;
	}
	return found;
}

/* Returns whether the line fits. */
static bool widths_shrink(struct layout *layout, size_t *widths, bool comfortable)
{
	size_t total, giver;

	memcpy(layout->widths, widths, layout->count * sizeof(*widths));
	total = line_width(layout);
	while (total > layout->options->width &&
	       (giver = giver_find(layout, comfortable)) < layout->count) {
		layout->widths[giver]--;
		total--;
	}
	return total <= layout->options->width;
}

/* The next column to leave out; count: all that are left are needed. */
static size_t spare_find(const struct layout *layout)
{
	size_t found = layout->count;

	for (size_t i = 0; i < layout->count; i++) {
		unsigned spare = layout->dropped[i] ? 0 : column_of(layout, i)->spare;

		if (spare && (found == layout->count || spare > column_of(layout, found)->spare))
			found = i;
	}
	return found;
}

static size_t comfortable_width(const struct layout *layout)
{
	size_t total = line_width(layout);

	for (size_t i = 0; i < layout->count; i++)
		if (column_of(layout, i)->elastic && layout->widths[i] > comfort_of(layout, i))
			total -= layout->widths[i] - comfort_of(layout, i);
	return total;
}

/* Returns whether the line fits, or is to be made into several. */
static bool widths_fit(struct layout *layout)
{
	AUTO(free_ptr) size_t *natural = mem_alloc((layout->count + 1) * sizeof(*natural));
	size_t spare;

	layout->wanted = comfortable_width(layout);
	memcpy(natural, layout->widths, layout->count * sizeof(*natural));
	if (!layout->options->width)
		return true;
	while (!widths_shrink(layout, natural, true)) {
		if (layout->table->repeated_columns)
			return true;
		spare = spare_find(layout);
		if (spare == layout->count)
			return widths_shrink(layout, natural, false);
		layout->dropped[spare] = true;
	}
	return true;
}

/*
 * The columns of the next table: those that are repeated, and from the given one on as many as fit,
 * but at least one. Returns where the one after it begins.
 */
static size_t line_make(struct layout *layout, size_t from)
{
	size_t limit = layout->options->width, total = 0, repeated, i;

	repeated = from ? layout->table->repeated_columns : 0;
	layout->line_count = 0;
	for (i = 0; i < layout->count; i = i + 1 == repeated && from > i + 1 ? from : i + 1) {
		if (layout->dropped[i])
			continue;
		total += layout->widths[i] + (layout->line_count ? GAP : 0);
		if (layout->table->repeated_columns && limit && total > limit &&
		    layout->line_count > repeated)
			break;
		layout->line[layout->line_count++] = i;
	}
	return i;
}

/* --- A layout's life -------------------------------------------------------------------------- */

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
	layout->dropped = mem_zalloc((table->column_count + 1) * sizeof(*layout->dropped));
	layout->line = mem_zalloc((table->column_count + 1) * sizeof(*layout->line));
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
	/* Otherwise one name of megabytes makes all other rows as long. */
	for (size_t i = 0; i < layout->count; i++)
		if (layout->widths[i] > CELL_MAX)
			layout->widths[i] = CELL_MAX;
	/* What has to be cut off has no colours: the end of one could be cut off with it. */
	layout->color = widths_fit(layout) && layout->options->color;
}

static void layout_deinit(struct layout *layout)
{
	free(layout->columns);
	free(layout->widths);
	free(layout->dropped);
	free(layout->line);
	free(layout->pieces);
	strbuf_deinit(&layout->texts);
}

static const char *cut_mark(const struct layout *layout)
{
	return layout->options->utf8 ? "\xe2\x80\xa6" : "...";
}

static void blanks_put(struct strbuf *line, size_t count)
{
	while (count--)
		strbuf_putc(line, ' ');
}

static const char *cell_color(const struct layout *layout, const struct column *column,
			      const struct cell *cell)
{
	if (!layout->color || column->kind != COLUMN_SHARE || !cell->set)
		return NULL;
	if (cell->real >= SHARE_HOT)
		return COLOR_HOT;
	return cell->real >= SHARE_WARM ? COLOR_WARM : NULL;
}

static void padded_put(struct strbuf *line, const struct layout *layout, size_t number,
		       const char *text, size_t text_width, const char *color)
{
	const struct column *column = column_of(layout, number);
	size_t width = layout->widths[number];
	size_t pad = width > text_width ? width - text_width : 0;
	size_t before = line->length;

	if (is_right(column))
		blanks_put(line, pad);
	if (color)
		strbuf_puts(line, color);
	if (column->kind == COLUMN_VALUES)
		utf8_cut(line, text, width, cut_mark(layout));
	else
		cut_put(line, text, width, column->cut, cut_mark(layout));
	if (color)
		strbuf_puts(line, COLOR_OFF);
	/* A text that was cut may leave more room than it had to. */
	if (text_width > width)
		pad = width - utf8_width(line->text + before);
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
 * A nested name: blanks, then the name in what is left. Where the blanks would take more than two
 * fifths of the column they are cut off there and end in the level's number.
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
		indent += (size_t)length;
	} else {
		blanks_put(line, indent);
	}
	cut_put(line, layout->texts.text + piece->offset, width > indent ? width - indent : 0,
		column_of(layout, layout->count - 1)->cut, cut_mark(layout));
}

/* The end of a line. Where little is left of it, it begins further left if nothing is there. */
static void spill_put(struct strbuf *line, const struct layout *layout, const struct piece *piece,
		      size_t place, bool blank_before)
{
	size_t start = place * GAP, width = layout->options->width;

	for (size_t i = 0; i < place; i++)
		start += layout->widths[layout->line[i]];
	if (width && blank_before && start + SPILL_MIN > width) {
		start = width > SPILL_MIN ? width - SPILL_MIN : 0;
		line->length = start;
	}
	utf8_cut(line, layout->texts.text + piece->offset,
		 !width		 ? SIZE_MAX
		 : width > start ? width - start
				 : 0,
		 cut_mark(layout));
}

/* Only numbers that leave no room for anything else make a line too long. */
static void line_clip(struct strbuf *line, const struct layout *layout)
{
	struct strbuf clipped = {};

	if (!layout->options->width || layout->color ||
	    utf8_width(strbuf_text(line)) <= layout->options->width)
		return;
	utf8_cut(&clipped, line->text, layout->options->width, cut_mark(layout));
	strbuf_deinit(line);
	*line = clipped;
}

static void row_write(const struct layout *layout, size_t row, struct strbuf *line, FILE *file)
{
	const struct cell *cells = table_row(layout->table, row);
	bool blank = true;

	for (size_t i = 0; i < layout->line_count; i++) {
		size_t number = layout->line[i];
		const struct piece *piece = &layout->pieces[row * layout->count + number];

		if (i)
			blanks_put(line, GAP);
		if (is_spilling(layout, row, number)) {
			spill_put(line, layout, piece, i, blank);
			break;
		}
		if (is_last(layout, number) && layout->table->level_column >= 0)
			nested_put(line, layout, row, piece);
		else
			padded_put(line, layout, number, layout->texts.text + piece->offset,
				   piece->width,
				   cell_color(layout, column_of(layout, number),
					      &cells[layout->columns[number]]));
		blank = blank && !piece->width;
	}
	line_clip(line, layout);
	line_write(line, file);
}

static void header_write(const struct layout *layout, struct strbuf *line, FILE *file)
{
	if (layout->color)
		strbuf_puts(line, COLOR_HEADER);
	for (size_t i = 0; i < layout->line_count; i++) {
		size_t number = layout->line[i];
		const char *title = column_of(layout, number)->title;

		if (i)
			blanks_put(line, GAP);
		padded_put(line, layout, number, title, utf8_width(title), NULL);
	}
	if (layout->color)
		strbuf_puts(line, COLOR_OFF);
	line_clip(line, layout);
	line_write(line, file);
}

static bool group_changes(const struct table *table, size_t row)
{
	int column = table->group_column;

	return column >= 0 && row > 0 &&
	       table_row(table, row)[column].integer != table_row(table, row - 1)[column].integer;
}

/* What the footer says about columns that are not there. */
static void dropped_put(const struct layout *layout, struct strbuf *ret)
{
	for (size_t i = 0; i < layout->count; i++)
		if (layout->dropped[i])
			strbuf_printf(ret, "%s%s",
				      ret->length ? ", " : "too narrow for the columns ",
				      column_of(layout, i)->title);
	if (ret->length)
		strbuf_printf(ret, "; --width %zu shows all", layout->wanted);
}

void report_text(const struct table *table, const struct text_options *options, FILE *file)
{
	struct layout layout = { .table = table, .options = options };
	struct strbuf line = {}, dropped = {};
	size_t next = 0;

	layout_init(&layout);
	heading_write(table, options->width, file);
	do {
		if (next)
			line_write(&line, file);
		next = line_make(&layout, next);
		header_write(&layout, &line, file);
		for (size_t row = 0; row < table->row_count && !ferror(file); row++) {
			if (group_changes(table, row))
				line_write(&line, file);
			row_write(&layout, row, &line, file);
		}
	} while (next < layout.count);
	dropped_put(&layout, &dropped);
	footer_write(table, strbuf_text(&dropped), options->width, file);
	layout_deinit(&layout);
	strbuf_deinit(&line);
	strbuf_deinit(&dropped);
}
