// SPDX-License-Identifier: BSD-2-Clause
/*
 * A table as JSON, one row a line. Rows are written one by one, so that a table of a million rows
 * needs no second copy in memory.
 *
 *	in	a table
 *	out	JSON in the envelope that all views have
 *	owner	nobody: it is a call, and the table stays with the caller
 */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>

#include "base/strbuf.h"
#include "report/json.h"
#include "report/report.h"
#include "base/utf8.h"

/*
 * The control characters from U+0080 on, which a terminal obeys: U+009B begins an escape sequence.
 */
static bool is_c1(const char *utf8)
{
	return (unsigned char)utf8[0] == 0xc2 && (unsigned char)utf8[1] < 0xa0;
}

void json_string_put(struct strbuf *buf, const char *text)
{
	struct strbuf repaired = {};

	utf8_repair(&repaired, text);
	strbuf_putc(buf, '"');
	for (const char *c = strbuf_text(&repaired); *c; c++) {
		if (*c == '"' || *c == '\\') {
			strbuf_putc(buf, '\\');
			strbuf_putc(buf, *c);
		} else if ((unsigned char)*c < 0x20 || *c == 0x7f) {
			strbuf_printf(buf, "\\u%04x", (unsigned char)*c);
		} else if (is_c1(c)) {
			strbuf_printf(buf, "\\u%04x", (unsigned char)*++c);
		} else {
			strbuf_putc(buf, *c);
		}
	}
	strbuf_putc(buf, '"');
	strbuf_deinit(&repaired);
}

/* Words are strings: JSON numbers lose bits above 2^53. */
static void words_put(struct strbuf *buf, const uint64_t *words, unsigned count)
{
	if (count != 1)
		strbuf_putc(buf, '[');
	for (unsigned i = 0; i < count; i++)
		strbuf_printf(buf, "%s\"0x%" PRIx64 "\"", i ? "," : "", words[i]);
	if (count != 1)
		strbuf_putc(buf, ']');
}

static void values_put(struct strbuf *buf, const struct common_values *values)
{
	strbuf_putc(buf, '[');
	for (size_t i = 0; i < values->count; i++) {
		const struct common_value *value = &values->items[i];

		strbuf_puts(buf, i ? ",{\"value\":" : "{\"value\":");
		words_put(buf, value->words, values->words);
		strbuf_puts(buf, ",\"text\":");
		json_string_put(buf, value->text);
		strbuf_printf(buf,
			      ",\"count\":%" PRIu64 ",\"share\":%.12g,\"low\":%.12g,\"high\":%.12g"
			      ",\"first\":%" PRIu64 "}",
			      value->count, value->share, value->low, value->high, value->first);
	}
	strbuf_putc(buf, ']');
}

static void cell_put(struct strbuf *buf, const struct cell *cell, enum column_kind kind)
{
	if (!cell->set) {
		strbuf_puts(buf, "null");
		return;
	}
	switch (kind) {
	case COLUMN_TEXT:
		json_string_put(buf, cell->text);
		break;
	case COLUMN_COUNT:
		strbuf_printf(buf, "%" PRIu64, cell->number);
		break;
	case COLUMN_INTEGER:
		strbuf_printf(buf, "%" PRId64, cell->integer);
		break;
	case COLUMN_ADDRESS:
		strbuf_printf(buf, "\"0x%" PRIx64 "\"", cell->number);
		break;
	case COLUMN_SHARE:
	case COLUMN_DELTA:
		strbuf_printf(buf, "%.12g", isfinite(cell->real) ? cell->real : 0.0);
		break;
	case COLUMN_REAL:
		strbuf_printf(buf, "%.17g", isfinite(cell->real) ? cell->real : 0.0);
		break;
	case COLUMN_BOOL:
		strbuf_puts(buf, cell->number ? "true" : "false");
		break;
	case COLUMN_VALUES:
		values_put(buf, cell->values);
		break;
	}
}

static void row_put(struct strbuf *buf, const struct table *table, const struct cell *row)
{
	const char *comma = "";

	strbuf_putc(buf, '{');
	for (size_t i = 0; i < table->column_count; i++) {
		if (table->columns[i].use == COLUMN_PEOPLE)
			continue;
		strbuf_printf(buf, "%s\"%s\":", comma, table->columns[i].name);
		cell_put(buf, &row[i], table->columns[i].kind);
		comma = ",";
	}
	strbuf_putc(buf, '}');
}

static void lost_put(struct strbuf *buf, const struct totals *totals)
{
	strbuf_puts(buf, "\"lost\":{");
	for (size_t i = 0; i < totals->loss_count; i++) {
		if (i)
			strbuf_putc(buf, ',');
		json_string_put(buf, totals->losses[i].name);
		strbuf_printf(buf, ":%" PRIu64, totals->losses[i].count);
	}
	strbuf_putc(buf, '}');
}

static void totals_put(struct strbuf *buf, const char *name, const struct totals *totals)
{
	strbuf_printf(buf,
		      "\"%s\":{\"seen\":%" PRIu64 ",\"kept\":%" PRIu64 ",\"selected\":%" PRIu64 ",",
		      name, totals->seen, totals->kept, totals->selected);
	lost_put(buf, totals);
	if (totals->event) {
		strbuf_puts(buf, ",\"event\":");
		json_string_put(buf, totals->event);
		strbuf_printf(buf, ",\"period\":%" PRIu64, totals->period);
	}
	if (totals->rate_changed)
		strbuf_puts(buf, ",\"rate_changed\":true");
	strbuf_putc(buf, '}');
}

static void runs_put(struct strbuf *buf, const struct table *table)
{
	strbuf_printf(buf, ",\n\"runs\":{\"seen\":%" PRIu64 ",\"kept\":%" PRIu64 ",",
		      table->runs.seen, table->runs.kept);
	lost_put(buf, &table->runs);
	strbuf_printf(buf, "},\"unreadable\":%zu", table->unreadable);
}

void report_json(const struct table *table, FILE *file)
{
	struct strbuf buf = {};

	strbuf_printf(&buf, "{\"assay\":1,\"view\":\"%s\",", table->view);
	totals_put(&buf, "totals", &table->totals);
	if (table->baseline.seen) {
		strbuf_puts(&buf, ",\n");
		totals_put(&buf, "totals_a", &table->baseline);
	}
	if (table->has_runs)
		runs_put(&buf, table);
	if (table->empty) {
		strbuf_puts(&buf, ",\"empty\":");
		json_string_put(&buf, table->empty);
	}
	strbuf_printf(&buf, ",\"omitted\":%zu,\"rows\":[", table->omitted);
	for (size_t i = 0; i < table->row_count && !ferror(file); i++) {
		strbuf_puts(&buf, i ? ",\n" : "\n");
		row_put(&buf, table, table_row(table, i));
		fwrite(buf.text, 1, buf.length, file);
		buf.length = 0;
	}
	strbuf_puts(&buf, "\n]}\n");
	fwrite(buf.text, 1, buf.length, file);
	strbuf_deinit(&buf);
}
