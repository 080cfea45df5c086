// SPDX-License-Identifier: BSD-2-Clause
/* JSON is written as it comes, a row a line: a table of a million rows needs no second copy in memory. */
#include <inttypes.h>
#include <math.h>

#include "base/strbuf.h"
#include "report/report.h"
#include "report/utf8.h"

static void string_put(struct strbuf *buf, const char *text)
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
		} else {
			strbuf_putc(buf, *c);
		}
	}
	strbuf_putc(buf, '"');
	strbuf_deinit(&repaired);
}

static void cell_put(struct strbuf *buf, const struct cell *cell, enum column_kind kind)
{
	if (!cell->set) {
		strbuf_puts(buf, "null");
		return;
	}
	switch (kind) {
	case COLUMN_TEXT:
		string_put(buf, cell->text);
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
	case COLUMN_BOOL:
		strbuf_puts(buf, cell->number ? "true" : "false");
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

static void totals_put(struct strbuf *buf, const char *name, const struct totals *totals)
{
	strbuf_printf(buf,
		      "\"%s\":{\"seen\":%" PRIu64 ",\"kept\":%" PRIu64 ",\"selected\":%" PRIu64
		      ",\"lost\":{",
		      name, totals->seen, totals->kept, totals->selected);
	for (size_t i = 0; i < totals->loss_count; i++) {
		if (i)
			strbuf_putc(buf, ',');
		string_put(buf, totals->losses[i].name);
		strbuf_printf(buf, ":%" PRIu64, totals->losses[i].count);
	}
	strbuf_puts(buf, "}}");
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
