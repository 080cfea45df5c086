// SPDX-License-Identifier: BSD-2-Clause
/*
 * The help and the manual are written from the same sentences. In them `words` in backquotes are
 * literal, and words in capitals that are the option's argument stand for the value. The help drops
 * the quotes; the manual sets literal words bold and arguments in italics.
 */
#include "base/option_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"

enum { WIDTH = 80, TEXT_COLUMN = 24, TAKERS_SHOWN = 32 };

/* Wraps a text that begins at a column; its later lines begin there, too. */
static void wrapped_print(const char *text, size_t column, FILE *file)
{
	size_t at = column;

	while (*text) {
		size_t length = strcspn(text, " ");

		if (at > column && at + 1 + length > WIDTH) {
			fprintf(file, "\n%*s", (int)column, "");
			at = column;
		} else if (at > column) {
			fputc(' ', file);
			at++;
		}
		fwrite(text, 1, length, file);
		at += length;
		text += length + strspn(text + length, " ");
	}
	fputc('\n', file);
}

void help_row_print(const char *name, const char *text, FILE *file)
{
	fprintf(file, "  %-*s", TEXT_COLUMN - 2, name);
	if (strlen(name) > TEXT_COLUMN - 3)
		fprintf(file, "\n%*s", TEXT_COLUMN, "");
	wrapped_print(text, TEXT_COLUMN, file);
}

/* Without the quotes. */
static void sentence_help(const char *text, struct strbuf *ret)
{
	for (const char *c = text; *c; c++)
		if (*c != '`')
			strbuf_putc(ret, *c);
}

static void row_help_print(const struct option_group *group, const struct option_row *row,
			   FILE *file)
{
	struct strbuf name = {}, text = {};

	if (row->letter)
		strbuf_printf(&name, "-%c, ", row->letter);
	else
		strbuf_puts(&name, "    ");
	strbuf_printf(&name, "--%s", row->name);
	if (row->type != OPTION_FLAG)
		strbuf_printf(&name, row->implied ? "[=%s]" : " %s", row->argument);
	if (group->takers)
		group->takers(row, &text);
	if (text.length > TAKERS_SHOWN)
		text.length = 0; /* the manual has them all */
	if (text.length)
		strbuf_puts(&text, ": ");
	sentence_help(row->help, &text);
	if (row->choices && !row->choices->help) {
		strbuf_puts(&text, ": ");
		option_choices_join(row, "", ", ", " or ", &text);
	}
	if (row->initial)
		strbuf_printf(&text, " (default: %s)", row->initial);
	else if (row->otherwise)
		strbuf_printf(&text, " (default: %s)", row->otherwise);
	help_row_print(strbuf_text(&name), strbuf_text(&text), file);
	for (const struct option_choice *choice = row->choices; choice && choice->help; choice++) {
		if (choice->hidden)
			continue;
		fprintf(file, "%*s%s: ", TEXT_COLUMN + 2, "", choice->name);
		wrapped_print(choice->help, TEXT_COLUMN + 4 + strlen(choice->name), file);
	}
	strbuf_deinit(&name);
	strbuf_deinit(&text);
}

void options_help_print(const struct option_group *groups, FILE *file)
{
	for (const struct option_group *group = groups; group->rows; group++) {
		if (group->title)
			fprintf(file, "\n%s\n", group->title);
		else if (group != groups)
			fputc('\n', file);
		for (const struct option_row *row = group->rows; row->name; row++)
			if (!row->hidden && option_is_taken(group, row))
				row_help_print(group, row, file);
	}
	help_row_print("-h, --help", "Print this text", file);
}

/* --- The manual ------------------------------------------------------------------------------- */

void option_range_print(const struct option_row *row, struct strbuf *ret)
{
	switch (row->type) {
	case OPTION_NUMBER:
	case OPTION_NUMBERS:
		strbuf_puts(ret, row->type == OPTION_NUMBER ? "a whole number" : "whole numbers");
		strbuf_printf(ret, " from %" PRIu64, row->low);
		if (row->high)
			strbuf_printf(ret, " to %" PRIu64, row->high);
		else
			strbuf_puts(ret, " on");
		if (row->ranges)
			strbuf_puts(ret, ", or ranges of them");
		break;
	case OPTION_SIZE:
		strbuf_printf(ret,
			      "a number from %" PRIu64 " to %" PRIu64 ", or a size such as `64M`",
			      row->low / row->unit, row->high / row->unit);
		break;
	case OPTION_DURATION:
		strbuf_puts(ret, "a number of seconds, or a time such as `500ms`, `2m` or `1h`");
		break;
	case OPTION_SHARE:
		strbuf_puts(ret, "a number from 0 to 1, or a percentage such as `0.5%`");
		break;
	default:
		break;
	}
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-';
}

/* A piece of text, with what mdoc would take for a command made harmless. */
static void mdoc_escape(const char *text, size_t length, struct strbuf *ret)
{
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '\\')
			strbuf_puts(ret, "\\e");
		else if (text[i] == '-')
			strbuf_puts(ret, "\\-");
		else
			strbuf_putc(ret, text[i]);
	}
}

/* Prints the next piece in backquotes, or the next word; returns its end. */
static const char *piece_print(const char *text, const char *argument, struct strbuf *ret)
{
	size_t length = 0;

	if (*text == '`') {
		const char *end = strchr(text + 1, '`');

		strbuf_puts(ret, "\\fB");
		mdoc_escape(text + 1, (size_t)(end - text - 1), ret);
		strbuf_puts(ret, "\\fR");
		return end + 1;
	}
	while (is_word(text[length]))
		length++;
	if (!length) {
		mdoc_escape(text, 1, ret);
		return text + 1;
	}
	if (argument && length == strcspn(argument, ",[") && !strncmp(text, argument, length))
		strbuf_printf(ret, "\\fI%.*s\\fR", (int)length, text);
	else if (!strncmp(text, "--", 2))
		strbuf_printf(ret, "\\fB\\-\\-%.*s\\fR", (int)length - 2, text + 2);
	else
		strbuf_add(ret, text, length);
	return text + length;
}

/* One sentence a line, as mdoc wants it, and lines of at most 80 columns. */
static void mdoc_print(const char *text, const char *argument, FILE *file)
{
	size_t column = 0;

	while (*text) {
		struct strbuf word = {};
		bool ended;

		while (*text && *text != ' ')
			text = piece_print(text, argument, &word);
		ended = text[-1] == '.' || text[-1] == ':';
		if (column && column + 1 + word.length > WIDTH) {
			fputc('\n', file);
			column = 0;
		}
		if (!column && (*strbuf_text(&word) == '.' || *strbuf_text(&word) == '\''))
			fputs("\\&", file);
		fprintf(file, "%s%s", column ? " " : "", strbuf_text(&word));
		column += word.length + 1;
		text += strspn(text, " ");
		if (ended && *text) {
			fputc('\n', file);
			column = 0;
		}
		strbuf_deinit(&word);
	}
	fputc('\n', file);
}

static void choices_mdoc_print(const struct option_row *row, FILE *file)
{
	if (!row->choices->help) {
		struct strbuf text = {};

		strbuf_puts(&text, "The value is one of ");
		option_choices_join(row, "`", ", ", " and ", &text);
		strbuf_puts(&text, ".");
		mdoc_print(strbuf_text(&text), NULL, file);
		strbuf_deinit(&text);
		return;
	}
	fputs(".Bl -tag -width Ds\n", file);
	for (const struct option_choice *choice = row->choices; choice->name; choice++) {
		if (choice->hidden)
			continue;
		fprintf(file, ".It Cm %s\n", choice->name);
		mdoc_print(choice->help, NULL, file);
	}
	fputs(".El\n", file);
}

static void heading_mdoc_print(const struct option_row *row, FILE *file)
{
	fputs(".It ", file);
	if (row->letter)
		fprintf(file, "Fl %c", row->letter);
	if (row->letter && option_has_value(row))
		fprintf(file, " Ar %s", row->argument);
	fprintf(file, "%sFl -%s", row->letter ? " , " : "", row->name);
	if (row->type != OPTION_FLAG)
		fprintf(file, row->implied ? " Ns Op = Ns Ar %s" : " Ar %s", row->argument);
	fputc('\n', file);
}

/*
 * Prints the sentences that follow from the row itself: which views take it, which option it needs,
 * its values, and its value if it is not given.
 */
static void facts_mdoc_print(const struct option_group *group, const struct option_row *row,
			     FILE *file)
{
	struct strbuf range = {}, text = {};

	option_range_print(row, &range);
	if (range.length)
		strbuf_printf(&text, "The value is %s.", strbuf_text(&range));
	if (row->implied)
		strbuf_printf(&text, " Without a value it is `%s`.", row->implied);
	if (row->initial)
		strbuf_printf(&text, " The default is `%s`.", row->initial);
	else if (row->otherwise)
		strbuf_printf(&text, " The default is %s.", row->otherwise);
	if (row->needs) {
		size_t length = strcspn(row->needs, "=");

		strbuf_printf(&text, " It is of use only with --%.*s%s%s%s.", (int)length,
			      row->needs, row->needs[length] ? " `" : "",
			      row->needs[length] ? row->needs + length + 1 : "",
			      row->needs[length] ? "`" : "");
	}
	if (text.length)
		mdoc_print(strbuf_text(&text) + (text.text[0] == ' '), row->argument, file);
	text.length = range.length = 0;
	if (group->takers)
		group->takers(row, &text);
	if (text.length) {
		strbuf_printf(&range, "It is taken by %s.", strbuf_text(&text));
		mdoc_print(strbuf_text(&range), NULL, file);
	}
	strbuf_deinit(&range);
	strbuf_deinit(&text);
}

static void row_mdoc_print(const struct option_group *group, const struct option_row *row,
			   FILE *file)
{
	struct strbuf text = {};

	heading_mdoc_print(row, file);
	strbuf_printf(&text, "%s.", row->help);
	mdoc_print(strbuf_text(&text), row->argument, file);
	if (row->more)
		mdoc_print(row->more, row->argument, file);
	if (row->choices)
		choices_mdoc_print(row, file);
	facts_mdoc_print(group, row, file);
	strbuf_deinit(&text);
}

void options_mdoc_print(const struct option_group *groups, FILE *file)
{
	for (const struct option_group *group = groups; group->rows; group++) {
		bool last = !group[1].rows;

		if (group->title)
			fprintf(file, ".Ss %s\n", group->title);
		fputs(".Bl -tag -width Ds\n", file);
		for (const struct option_row *row = group->rows; row->name; row++)
			if (!row->hidden && option_is_taken(group, row))
				row_mdoc_print(group, row, file);
		if (last)
			fputs(".It Fl h , Fl -help\nPrint the options of the command.\n", file);
		fputs(".El\n", file);
	}
}
