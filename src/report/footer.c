// SPDX-License-Identifier: BSD-2-Clause
#include "report/footer.h"

#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"

struct footer {
	struct strbuf line;
	size_t width;
	FILE *file;
};

void count_put(struct strbuf *buf, uint64_t count)
{
	char digits[24];
	int length = snprintf(digits, sizeof(digits), "%" PRIu64, count);

	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			strbuf_putc(buf, ',');
		strbuf_putc(buf, digits[i]);
	}
}

/* How many bytes of the text go on the next line: up to the last blank that still fits. */
static size_t fold_length(const char *text, size_t width)
{
	size_t best = 0, used = 0, length;
	uint32_t point;

	for (size_t at = 0; (length = utf8_next(text + at, &point)); at += length) {
		if (text[at] == ' ')
			best = at;
		if (++used > width)
			return best ? best : at;
	}
	return strlen(text);
}

/* Writes the line, folded: what does not fit goes on below, indented. */
static void line_end(struct footer *footer)
{
	const char *rest = strbuf_text(&footer->line), *indent = "";

	while (footer->width > 2 && utf8_width(rest) + strlen(indent) > footer->width) {
		size_t length = fold_length(rest, footer->width - strlen(indent));

		fprintf(footer->file, "%s%.*s\n", indent, (int)length, rest);
		rest += length;
		rest += *rest == ' ';
		indent = "  ";
	}
	fprintf(footer->file, "%s%s\n", indent, rest);
	footer->line.length = 0;
	if (footer->line.text)
		footer->line.text[0] = '\0';
}

static uint64_t losses_sum(const struct totals *totals)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < totals->loss_count; i++)
		sum += totals->losses[i].count;
	return sum;
}

/* What the samples are samples of. */
static void event_put(struct strbuf *line, const struct totals *totals)
{
	strbuf_puts(line, "; event ");
	utf8_escape(line, totals->event);
	if (totals->period > 1) {
		strbuf_puts(line, ", one sample for ");
		count_put(line, totals->period);
	}
}

static void totals_write(struct footer *footer, const char *label, const struct totals *totals,
			 bool filtered)
{
	struct strbuf *line = &footer->line;
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
	if (totals->event)
		event_put(line, totals);
	if (totals->rate_changed)
		strbuf_puts(line, "; the rate was changed while recording, so shares are of "
				  "samples, not of time");
	if (filtered) {
		strbuf_puts(line, "; selected ");
		count_put(line, totals->selected);
		strbuf_printf(line, " (%.2f%%)", share_of(totals->selected, totals->seen) * 100);
	}
	line_end(footer);
}

static void omitted_put(struct strbuf *line, const struct table *table)
{
	const char *one = table->omitted_branches ? "branch" : "entry";
	const char *many = table->omitted_branches ? "branches" : "entries";

	count_put(line, table->omitted);
	strbuf_printf(line, " more %s not shown", table->omitted == 1 ? one : many);
}

void heading_write(const struct table *table, size_t width, FILE *file)
{
	struct footer heading = { .width = width, .file = file };

	if (!table->heading)
		return;
	utf8_escape(&heading.line, table->heading);
	line_end(&heading);
	line_end(&heading);
	strbuf_deinit(&heading.line);
}

void footer_write(const struct table *table, const char *note, size_t width, FILE *file)
{
	struct footer footer = { .width = width, .file = file };

	if (table->empty) {
		utf8_escape(&footer.line, table->empty);
		line_end(&footer);
	}
	line_end(&footer);
	if (table->omitted) {
		omitted_put(&footer.line, table);
		line_end(&footer);
	}
	if (*note) {
		utf8_escape(&footer.line, note);
		line_end(&footer);
	}
	if (table->baseline.seen)
		totals_write(&footer, "A: ", &table->baseline, table->filtered);
	totals_write(&footer, table->baseline.seen ? "B: " : "", &table->totals, table->filtered);
	if (table->has_runs)
		totals_write(&footer, "runs: ", &table->runs, false);
	if (table->unreadable) {
		strbuf_printf(&footer.line,
			      "%zu list%s of values could not be read and %s left out: the "
			      "profile is damaged",
			      table->unreadable, table->unreadable == 1 ? "" : "s",
			      table->unreadable == 1 ? "is" : "are");
		line_end(&footer);
	}
	strbuf_deinit(&footer.line);
}
