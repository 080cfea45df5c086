// SPDX-License-Identifier: BSD-2-Clause
#include "base/option.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <inttypes.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"

/* Values of getopt_long() for rows begin here, above all letters. */
enum { ROW_FIRST = 1000, HELP = ROW_FIRST - 1 };

bool option_has_value(const struct option_row *row)
{
	return row->type != OPTION_FLAG && !row->implied;
}

bool option_is_taken(const struct option_group *group, const struct option_row *row)
{
	if (!group->taken)
		return true;
	for (const char *const *name = group->taken; *name; name++)
		if (!strcmp(*name, row->name))
			return true;
	return false;
}

struct row_list {
	const struct option_row **items;
	size_t count, capacity;
};

static void rows_collect(const struct option_group *groups, struct row_list *ret)
{
	for (const struct option_group *group = groups; group->rows; group++)
		for (const struct option_row *row = group->rows; row->name; row++)
			if (option_is_taken(group, row))
				*array_push(ret) = row;
}

const struct option_row *options_find(const struct option_group *groups, const char *name)
{
	for (const struct option_group *group = groups; group->rows; group++)
		for (const struct option_row *row = group->rows; row->name; row++)
			if (!strcmp(row->name, name) && option_is_taken(group, row))
				return row;
	return NULL;
}

/* --- Values ----------------------------------------------------------------------------------- */

static void field_set(void *target, size_t at, size_t size, uint64_t value)
{
	uint8_t *field = (uint8_t *)target + at;

	switch (size) {
	case 1:
		*field = (uint8_t)value;
		break;
	case 4:
		*(uint32_t *)field = (uint32_t)value;
		break;
	default:
		*(uint64_t *)field = value;
	}
}

static uint64_t field_get(const void *target, size_t at, size_t size)
{
	const uint8_t *field = (const uint8_t *)target + at;

	if (size == 1)
		return *field;
	return size == 4 ? *(const uint32_t *)field : *(const uint64_t *)field;
}

static int refuse(const struct option_row *row, const char *text, const char *what)
{
	return err_set(-EINVAL, "--%s %s: takes %s", row->name, text, what);
}

static int number_refuse(const struct option_row *row, const char *text)
{
	AUTO(free_ptr)
	char *what = row->high ? mem_printf("a whole number from %" PRIu64 " to %" PRIu64, row->low,
					    row->high)
			       : mem_printf("a whole number from %" PRIu64 " on", row->low);

	return refuse(row, text, what);
}

/* Digits and nothing else; strtoull() would also take blanks and signs. */
static bool digits_parse(const char *text, const char **ret_end, uint64_t *ret)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*ret = strtoull(text, &end, 10);
	*ret_end = end;
	return errno == 0;
}

static bool in_range(const struct option_row *row, uint64_t number)
{
	return number >= row->low && (!row->high || number <= row->high);
}

static int number_take(const struct option_row *row, const char *text, void *target)
{
	const char *end;
	uint64_t number;

	if (!digits_parse(text, &end, &number) || *end || !in_range(row, number))
		return number_refuse(row, text);
	field_set(target, row->at, row->size, number);
	return 0;
}

static int size_refuse(const struct option_row *row, const char *text)
{
	AUTO(free_ptr)
	char *what = mem_printf("a size from %" PRIu64 " to %" PRIu64 ", or one such as %dM",
				row->low / row->unit, row->high / row->unit, 64);

	return refuse(row, text, what);
}

static int size_take(const struct option_row *row, const char *text, void *target)
{
	static const char letters[] = "KMG";
	const char *end, *letter;
	uint64_t number, unit = row->unit;

	if (!digits_parse(text, &end, &number))
		return size_refuse(row, text);
	letter = *end ? strchr(letters, *end) : NULL;
	if (letter) {
		unit = UINT64_C(1024) << 10 * (letter - letters);
		end++;
	}
	if (*end || number > row->high / unit || number * unit < row->low)
		return size_refuse(row, text);
	field_set(target, row->at, row->size, number * unit);
	return 0;
}

/* A number as people write it: no blanks, no signs, no "inf", no hexadecimal. */
static bool decimal_parse(const char *text, const char **ret_end, double *ret)
{
	size_t length = strspn(text, "0123456789.");
	char *end;

	if (!length || text[length] == 'e' || text[length] == 'x')
		return false;
	*ret = strtod(text, &end);
	*ret_end = end;
	return end == text + length && isfinite(*ret);
}

static int duration_take(const struct option_row *row, const char *text, void *target)
{
	static const struct {
		const char *name;
		double seconds;
	} units[] = { { "", 1 }, { "s", 1 }, { "ms", 1e-3 }, { "m", 60 }, { "h", 3600 } };
	const char *end;
	double number;

	for (size_t i = 0; decimal_parse(text, &end, &number) && i < 5; i++)
		if (!strcmp(end, units[i].name) && number > 0 && number * units[i].seconds < 1e9) {
			*(double *)((uint8_t *)target + row->at) = number * units[i].seconds;
			return 0;
		}
	return refuse(row, text, "seconds such as 10 or 1.5, or a time such as 500ms, 2m or 1h");
}

static int share_take(const struct option_row *row, const char *text, void *target)
{
	const char *end;
	double share;

	if (decimal_parse(text, &end, &share)) {
		share /= !strcmp(end, "%") ? 100 : 1;
		if ((!*end || !strcmp(end, "%")) && share <= 1) {
			*(double *)((uint8_t *)target + row->at) = share;
			return 0;
		}
	}
	return refuse(row, text, "a share from 0 to 1, or a percentage such as 0.5%");
}

/* The number of the choice that the text begins with, which ends there or before a comma. */
static int choice_find(const struct option_row *row, const char *text, unsigned *ret)
{
	size_t length = strcspn(text, row->type == OPTION_CHOICES ? "," : "");

	for (unsigned i = 0; row->choices[i].name; i++)
		if (strlen(row->choices[i].name) == length &&
		    !strncmp(row->choices[i].name, text, length)) {
			*ret = i;
			return 0;
		}
	return -EINVAL;
}

const struct option_choice *option_choice_offered(const struct option_choice *choice)
{
	while (choice->name && choice->hidden)
		choice++;
	return choice;
}

void option_choices_join(const struct option_row *row, const char *quote, const char *between,
			 const char *last, struct strbuf *ret)
{
	const struct option_choice *choice = option_choice_offered(row->choices), *next;
	const char *before = "";

	for (; choice->name; choice = next) {
		next = option_choice_offered(choice + 1);
		strbuf_printf(ret, "%s%s%s%s", before, quote, choice->name, quote);
		before = option_choice_offered(next->name ? next + 1 : next)->name ? between : last;
	}
}

static int choice_refuse(const struct option_row *row, const char *text)
{
	struct strbuf names = {};
	int err;

	option_choices_join(row, "", ", ", " or ", &names);
	err = refuse(row, text, strbuf_text(&names));
	strbuf_deinit(&names);
	return err;
}

static int choice_take(const struct option_row *row, const char *text, void *target)
{
	unsigned choice;

	if (choice_find(row, text, &choice))
		return choice_refuse(row, text);
	field_set(target, row->at, row->size, choice);
	return 0;
}

/* again: the option was given before, and adds to what it said then. */
static int choices_take(const struct option_row *row, const char *text, bool again, void *target)
{
	uint64_t set = again ? field_get(target, row->at, row->size) : 0;

	for (const char *at = text;; at++) {
		unsigned choice;

		if (choice_find(row, at, &choice))
			return choice_refuse(row, text);
		set |= UINT64_C(1) << choice;
		at += strcspn(at, ",");
		if (!*at)
			break;
	}
	field_set(target, row->at, row->size, set);
	return 0;
}

static int numbers_take(const struct option_row *row, const char *text, void *target)
{
	struct option_numbers *numbers = (void *)((uint8_t *)target + row->at);
	const char *at = text;

	for (;;) {
		uint64_t first, last;

		if (!digits_parse(at, &at, &first) || !in_range(row, first))
			break;
		last = first;
		if (row->ranges && *at == '-' &&
		    (!digits_parse(at + 1, &at, &last) || !in_range(row, last) || last < first))
			break;
		for (uint64_t number = first; number <= last; number++)
			*array_push(numbers) = (int64_t)number;
		if (!*at)
			return 0;
		if (*at++ != ',')
			break;
	}
	return refuse(row, text,
		      row->ranges ? "numbers and ranges such as 0,2-3"
				  : "whole numbers separated by commas");
}

/* Like strsep(), but commas in parentheses belong to the item. */
static char *item_next(char **rest)
{
	char *item = *rest;
	unsigned depth = 0;

	*rest = NULL;
	for (char *at = item; at && *at; at++) {
		if (*at == '(') {
			depth++;
		} else if (*at == ')' && depth) {
			depth--;
		} else if (*at == ',' && !depth) {
			*at = '\0';
			*rest = at + 1;
			break;
		}
	}
	return item;
}

static int list_take(struct options *options, const struct option_row *row, const char *text)
{
	struct option_texts *texts = (void *)((uint8_t *)options->target + row->at);
	char *rest = mem_strdup(text), *item;

	*array_push(&options->owned) = rest;
	while ((item = item_next(&rest))) {
		if (!*item)
			return refuse(row, text, "names separated by commas");
		*array_push(texts) = item;
	}
	return 0;
}

static int text_take(const struct option_row *row, const char *text, void *target)
{
	uint8_t *field = (uint8_t *)target + row->at;

	if (!*text)
		return refuse(row, "''", "a text that is not empty");
	if (row->type == OPTION_PATTERN)
		*array_push((struct option_texts *)(void *)field) = text;
	else
		*(const char **)(void *)field = text;
	return 0;
}

static int value_take(struct options *options, const struct option_row *row, const char *text)
{
	switch (row->type) {
	case OPTION_FLAG:
		if (row->size)
			field_set(options->target, row->at, row->size, true);
		return 0;
	case OPTION_NUMBER:
		return number_take(row, text, options->target);
	case OPTION_SIZE:
		return size_take(row, text, options->target);
	case OPTION_DURATION:
		return duration_take(row, text, options->target);
	case OPTION_SHARE:
		return share_take(row, text, options->target);
	case OPTION_CHOICE:
		return choice_take(row, text, options->target);
	case OPTION_CHOICES:
		return choices_take(row, text, options_given(options, row->name), options->target);
	case OPTION_NUMBERS:
		return numbers_take(row, text, options->target);
	case OPTION_LIST:
		return list_take(options, row, text);
	case OPTION_TEXT:
	case OPTION_FILE:
	case OPTION_PATTERN:
		break;
	}
	return text_take(row, text, options->target);
}

static void given_forget(struct options *options, const struct option_row *row)
{
	size_t kept = 0;

	for (size_t i = 0; i < options->given.count; i++)
		if (options->given.items[i] != row)
			options->given.items[kept++] = options->given.items[i];
	options->given.count = kept;
}

int options_take(struct options *options, const struct option_row *row, const char *text)
{
	int err;

	if (!text)
		text = row->implied;
	if (row->type == OPTION_FLAG && text)
		return err_set(-EINVAL, "--%s %s: takes no value", row->name, text);
	if (row->type != OPTION_FLAG && !text)
		return err_set(-EINVAL, "--%s: needs a value, %s", row->name, row->argument);
	err = value_take(options, row, text);
	if (err)
		return err;
	if (row->also_size)
		field_set(options->target, row->also_at, row->also_size, row->also);
	given_forget(options, row);
	*array_push(&options->given) = row;
	return 0;
}

bool options_given(const struct options *options, const char *name)
{
	for (size_t i = 0; i < options->given.count; i++)
		if (!strcmp(options->given.items[i]->name, name))
			return true;
	return false;
}

/* --- The whole -------------------------------------------------------------------------------- */

void options_init(struct options *options, const struct option_group *groups, void *target)
{
	struct row_list rows = {};

	*options = (struct options){ .groups = groups, .target = target };
	rows_collect(groups, &rows);
	array_each(&rows, row) {
		/* A value of our own that its own row refuses is a mistake in the table. */
		if ((*row)->initial && value_take(options, *row, (*row)->initial))
			abort();
	}
	array_deinit(&rows);
}

void options_deinit(struct options *options)
{
	struct row_list rows = {};

	if (options->groups)
		rows_collect(options->groups, &rows);
	array_each(&rows, row) {
		void *field = (uint8_t *)options->target + (*row)->at;

		if ((*row)->type == OPTION_NUMBERS)
			array_deinit((struct option_numbers *)field);
		else if ((*row)->type == OPTION_PATTERN || (*row)->type == OPTION_LIST)
			array_deinit((struct option_texts *)field);
	}
	array_deinit(&rows);
	array_each(&options->owned, text)
		free(*text);
	array_deinit(&options->owned);
	array_deinit(&options->given);
}

static bool is_chosen(const struct option_row *row, const char *name, const void *target)
{
	uint64_t field = field_get(target, row->at, row->size);
	unsigned choice;

	if (choice_find(row, name, &choice))
		return false;
	return row->type == OPTION_CHOICES ? field >> choice & 1 : field == choice;
}

static int needs_check(const struct options *options, const struct option_row *row)
{
	const char *equals = strchr(row->needs, '=');
	AUTO(free_ptr)
	char *name = equals ? mem_strndup(row->needs, (size_t)(equals - row->needs))
			    : mem_strdup(row->needs);
	const struct option_row *other = options_find(options->groups, name);

	if (equals && other) {
		if (is_chosen(other, equals + 1, options->target))
			return 0;
	} else if (options_given(options, name)) {
		return 0;
	}
	return err_set(-EINVAL, "--%s: changes nothing without --%s%s%s", row->name, name,
		       equals ? " " : "", equals ? equals + 1 : "");
}

int options_needs_check(const struct options *options)
{
	int err = 0;

	for (size_t i = 0; !err && i < options->given.count; i++)
		if (options->given.items[i]->needs)
			err = needs_check(options, options->given.items[i]);
	return err;
}

static void takers_print(const struct options *options, const struct option_row *row,
			 struct strbuf *ret)
{
	for (const struct option_group *group = options->groups; group->rows; group++)
		for (const struct option_row *other = group->rows; other->name; other++)
			if (other == row && group->takers)
				group->takers(row, ret);
}

static int row_refuse(const struct options *options, const struct option_row *row, const char *who)
{
	struct strbuf takers = {};
	int err;

	takers_print(options, row, &takers);
	err = err_set(-EINVAL, "--%s: %s does not take it%s%s; it is for %s", row->name, who,
		      row->refusal ? ", because " : "", row->refusal ? row->refusal : "",
		      strbuf_text(&takers));
	strbuf_deinit(&takers);
	return err;
}

int options_takes_check(const struct options *options, unsigned takes, const char *who)
{
	array_each(&options->given, row) {
		if ((*row)->only && !((*row)->only & takes))
			return row_refuse(options, *row, who);
	}
	return 0;
}

static size_t smallest(size_t a, size_t b, size_t c)
{
	size_t ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* Letters to insert, delete or replace to get from a to b; names longer than the row are unlike. */
static size_t edit_distance(const char *a, const char *b)
{
	enum { LENGTH_MAX = 31 };
	size_t row[LENGTH_MAX + 1], length = strlen(b);

	if (length > LENGTH_MAX || strlen(a) > LENGTH_MAX)
		return LENGTH_MAX;
	for (size_t j = 0; j <= length; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= length; j++) {
			size_t above = row[j];

			row[j] = smallest(above + 1, row[j - 1] + 1,
					  diagonal + (a[i - 1] != b[j - 1]));
			diagonal = above;
		}
	}
	return row[length];
}

const char *option_nearest(const char *name, const char *const *names)
{
	const char *nearest = NULL;
	size_t best = SIZE_MAX;

	for (; *names; names++) {
		size_t distance = edit_distance(name, *names);

		if (*name && !strncmp(*names, name, strlen(name)))
			distance = distance < 1 ? distance : 1;
		if (distance < best) {
			best = distance;
			nearest = *names;
		}
	}
	return best <= 2 ? nearest : NULL;
}

static int unknown_refuse(const struct row_list *rows, const char *text)
{
	ARRAY(const char *) names = {};
	size_t length = strcspn(text + 2, "="), count = 0;
	AUTO(free_ptr) char *name = mem_strndup(text + 2, length);
	const char *near[2] = {}, *nearest;

	array_each(rows, row) {
		*array_push(&names) = (*row)->name;
		if (!strncmp((*row)->name, name, length) && count++ < 2)
			near[count - 1] = (*row)->name;
	}
	*array_push(&names) = NULL;
	nearest = option_nearest(name, names.items);
	array_deinit(&names);
	if (length && count > 1)
		return err_set(-EINVAL, "--%s: is short for --%s, --%s%s", name, near[0], near[1],
			       count > 2 ? " and others" : "");
	if (nearest)
		return err_set(-EINVAL, "--%s: there is no such option here; did you mean --%s?",
			       name, nearest);
	return err_set(-EINVAL, "--%s: there is no such option here", name);
}

static int getopt_refuse(const struct row_list *rows, int answer, char *const *argv)
{
	if (optopt >= ROW_FIRST) {
		const struct option_row *row = rows->items[optopt - ROW_FIRST];

		if (answer == ':')
			return err_set(-EINVAL, "--%s: needs a value, %s", row->name,
				       row->argument);
		return err_set(-EINVAL, "--%s: takes no value", row->name);
	}
	if (optopt == HELP)
		return err_set(-EINVAL, "--help: takes no value");
	if (!optopt)
		return unknown_refuse(rows, argv[optind - 1]);
	array_each(rows, row) {
		if ((*row)->letter == optopt)
			return err_set(-EINVAL, "-%c: needs a value, %s", optopt, (*row)->argument);
	}
	return err_set(-EINVAL, "-%c: there is no such option here", optopt);
}

/* The tables for getopt_long(). */
struct getopt_tables {
	ARRAY(struct option) names;
	struct strbuf letters;
};

static void tables_make(struct getopt_tables *tables, const struct row_list *rows,
			enum option_order order)
{
	strbuf_puts(&tables->letters, order == OPTIONS_FIRST ? "+:h" : ":h");
	for (size_t i = 0; i < rows->count; i++) {
		const struct option_row *row = rows->items[i];
		int value = row->type == OPTION_FLAG ? no_argument
			    : row->implied	     ? optional_argument
						     : required_argument;

		*array_push(&tables->names) =
			(struct option){ row->name, value, NULL, ROW_FIRST + (int)i };
		if (row->letter)
			strbuf_printf(&tables->letters, "%c%s", row->letter,
				      value == required_argument ? ":" : "");
	}
	*array_push(&tables->names) = (struct option){ "help", no_argument, NULL, HELP };
	*array_push(&tables->names) = (struct option){};
}

static const struct option_row *row_of(const struct row_list *rows, int answer)
{
	if (answer >= ROW_FIRST)
		return rows->items[answer - ROW_FIRST];
	array_each(rows, row) {
		if ((*row)->letter == answer)
			return *row;
	}
	return NULL;
}

static int answers_take(struct options *options, const struct row_list *rows,
			const struct getopt_tables *tables, int argc, char **argv)
{
	int answer, err = 0;

	optind = 0; /* glibc: begin anew, also with another order */
	opterr = 0;
	while (!err && (answer = getopt_long(argc, argv, strbuf_text(&tables->letters),
					     tables->names.items, NULL)) != -1) {
		if (answer == 'h' || answer == HELP) {
			options->help = true;
			return 0;
		}
		err = answer == '?' || answer == ':'
			      ? getopt_refuse(rows, answer, argv)
			      : options_take(options, row_of(rows, answer), optarg);
	}
	return err ? err : options_needs_check(options);
}

int options_parse(struct options *options, enum option_order order, int argc, char **argv, int *ret)
{
	struct getopt_tables tables = {};
	struct row_list rows = {};
	int err;

	rows_collect(options->groups, &rows);
	tables_make(&tables, &rows, order);
	err = answers_take(options, &rows, &tables, argc, argv);
	array_deinit(&tables.names);
	strbuf_deinit(&tables.letters);
	array_deinit(&rows);
	if (!err)
		*ret = optind;
	return err;
}

/* --- Back to text ----------------------------------------------------------------------------- */

size_t option_value_count(const struct option_row *row, const void *target)
{
	const void *field = (const uint8_t *)target + row->at;

	if (row->type == OPTION_PATTERN || row->type == OPTION_LIST)
		return ((const struct option_texts *)field)->count;
	return 1;
}

static void numbers_print(const struct option_numbers *numbers, struct strbuf *ret)
{
	for (size_t i = 0; i < numbers->count; i++)
		strbuf_printf(ret, "%s%" PRId64, i ? "," : "", numbers->items[i]);
}

static void choices_print(const struct option_row *row, uint64_t set, struct strbuf *ret)
{
	const char *comma = "";

	for (unsigned i = 0; row->choices[i].name; i++)
		if (set >> i & 1) {
			strbuf_printf(ret, "%s%s", comma, row->choices[i].name);
			comma = ",";
		}
}

void option_value_print(const struct option_row *row, const void *target, size_t index,
			struct strbuf *ret)
{
	const void *field = (const uint8_t *)target + row->at;

	switch (row->type) {
	case OPTION_FLAG:
		break;
	case OPTION_NUMBER:
		strbuf_printf(ret, "%" PRIu64, field_get(target, row->at, row->size));
		break;
	case OPTION_SIZE:
		strbuf_printf(ret, "%" PRIu64, field_get(target, row->at, row->size) / row->unit);
		break;
	case OPTION_DURATION:
	case OPTION_SHARE:
		strbuf_printf(ret, "%.17f", *(const double *)field);
		break;
	case OPTION_CHOICE:
		strbuf_puts(ret, row->choices[field_get(target, row->at, row->size)].name);
		break;
	case OPTION_CHOICES:
		choices_print(row, field_get(target, row->at, row->size), ret);
		break;
	case OPTION_NUMBERS:
		numbers_print(field, ret);
		break;
	case OPTION_PATTERN:
	case OPTION_LIST:
		strbuf_puts(ret, ((const struct option_texts *)field)->items[index]);
		break;
	case OPTION_TEXT:
	case OPTION_FILE:
		strbuf_puts(ret, *(const char *const *)field);
		break;
	}
}
