// SPDX-License-Identifier: BSD-2-Clause
/*
 * A table of every type of option: what is taken, what is refused and how, and the texts made from
 * it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/option_text.h"

struct wish {
	bool flag;
	uint32_t number;
	uint64_t wide;
	uint64_t size;
	double duration;
	double share;
	const char *text;
	const char *what;
	const char *file;
	enum { RED, GREEN, INFRARED, BLUE } colour;
	uint64_t colours;
	struct option_numbers pids, cpus;
	struct option_texts symbols, items;
	uint32_t rate;
};

static const struct option_choice colours[] = {
	{ "red" }, { "green" }, { "infrared", .hidden = true }, { "blue" }, {},
};
static const char *const some[] = { "flag", NULL };

static const struct option_row rows[] = {
	{ "flag", 'f', OPTION_FLAG, OPTION_FIELD(struct wish, flag), .help = "Raise the flag" },
	{ "number", 'n', OPTION_NUMBER, OPTION_FIELD(struct wish, number), .argument = "N",
	  .initial = "7", .low = 1, .high = 512, .help = "Count to N",
	  .more = "N may be large. Others are as `--flag` says." },
	{ "wide", 0, OPTION_NUMBER, OPTION_FIELD(struct wish, wide), .argument = "N",
	  OPTION_ALSO(struct wish, rate, 5), .help = "Be wide", .needs = "flag" },
	{ "size", 0, OPTION_SIZE, OPTION_FIELD(struct wish, size), .argument = "KIB",
	  .initial = "64", .low = 1 << 10, .high = 1 << 30, .unit = 1 << 10, .help = "Be large" },
	{ "duration", 0, OPTION_DURATION, OPTION_FIELD(struct wish, duration), .argument = "TIME",
	  .otherwise = "for ever", .help = "Last" },
	{ "share", 0, OPTION_SHARE, OPTION_FIELD(struct wish, share), .argument = "S",
	  .help = "Share" },
	{ "text", 't', OPTION_TEXT, OPTION_FIELD(struct wish, text), .argument = "TEXT",
	  .help = "Say" },
	{ "what", 0, OPTION_TEXT, OPTION_FIELD(struct wish, what), .argument = "WHAT",
	  .implied = "default", .help = "Name" },
	{ "file", 0, OPTION_FILE, OPTION_FIELD(struct wish, file), .argument = "FILE",
	  .help = "Write" },
	{ "colour", 0, OPTION_CHOICE, OPTION_FIELD(struct wish, colour), .argument = "COLOUR",
	  .choices = colours, .initial = "green", .help = "Paint" },
	{ "mix", 0, OPTION_CHOICES, OPTION_FIELD(struct wish, colours), .argument = "COLOUR",
	  .choices = colours, .initial = "red", .help = "Mix" },
	{ "stir", 0, OPTION_FLAG, .needs = "mix=green", .help = "Stir" },
	{ "deep", 0, OPTION_FLAG, .needs = "colour=blue", .help = "Paint deeply" },
	{ "pid", 'p', OPTION_NUMBERS, OPTION_FIELD(struct wish, pids), .argument = "PID[,PID...]",
	  .low = 1, .help = "Choose PID" },
	{ "cpu", 0, OPTION_NUMBERS, OPTION_FIELD(struct wish, cpus), .argument = "CPUS",
	  .high = 8192, .ranges = true, .help = "Choose" },
	{ "symbol", 0, OPTION_PATTERN, OPTION_FIELD(struct wish, symbols), .argument = "PATTERN",
	  .help = "Match" },
	{ "item", 0, OPTION_LIST, OPTION_FIELD(struct wish, items), .argument = "ITEM",
	  .help = "Take" },
	{ "secret", 0, OPTION_FLAG, .hidden = true, .help = "Hide" },
	{},
};

static const struct option_group groups[] = { { "All", rows }, {} };
static const struct option_group few[] = { { .rows = rows, .taken = some }, {} };

/* Takes the words in; returns the error, or else how many arguments are left. */
static int parse(struct options *options, struct wish *wish, enum option_order order,
		 const char *words)
{
	static char line[256];
	char *argv[32] = { "command" }, *rest = line;
	int argc = 1, first, err;

	memset(wish, 0, sizeof(*wish));
	options_init(options, groups, wish);
	snprintf(line, sizeof(line), "%s", words);
	while ((argv[argc] = strsep(&rest, " ")))
		argc++;
	err = options_parse(options, order, argc, argv, &first);
	return err ? err : argc - first;
}

static void assert_refused(const char *words, const char *sentence)
{
	struct options options;
	struct wish wish;

	assert_int_equal(parse(&options, &wish, OPTIONS_ANYWHERE, words), -EINVAL);
	assert_string_equal(err_text(), sentence);
	options_deinit(&options);
}

static void every_type_is_taken(void **state)
{
	struct options options;
	struct wish wish;

	assert_int_equal(parse(&options, &wish, OPTIONS_ANYWHERE,
			       "-f -n 512 --wide 18446744073709551615 --size 2M --duration 500ms "
			       "--share 0.5% -tx --what --file=a --colour blue --deep -p 1,20 "
			       "--cpu 0,2-4 --symbol a --symbol b* --item f(a,b),c left"),
			 1);
	assert_true(wish.flag);
	assert_int_equal(wish.number, 512);
	assert_true(wish.wide == UINT64_MAX);
	assert_int_equal(wish.rate, 5);
	assert_int_equal(wish.size, 2 << 20);
	assert_true(wish.duration == 0.5);
	assert_true(fabs(wish.share - 0.005) < 1e-12);
	assert_string_equal(wish.text, "x");
	assert_string_equal(wish.what, "default");
	assert_string_equal(wish.file, "a");
	assert_int_equal(wish.colour, BLUE);
	assert_int_equal(wish.pids.count, 2);
	assert_int_equal(wish.pids.items[1], 20);
	assert_int_equal(wish.cpus.count, 4);
	assert_int_equal(wish.cpus.items[3], 4);
	assert_string_equal(wish.symbols.items[1], "b*");
	assert_int_equal(wish.items.count, 2);
	assert_string_equal(wish.items.items[0], "f(a,b)");
	assert_true(options_given(&options, "wide"));
	assert_false(options_given(&options, "secret"));
	options_deinit(&options);
}

static void sets_replace_the_default_and_grow(void **state)
{
	struct options options;
	struct wish wish;

	assert_int_equal(parse(&options, &wish, OPTIONS_ANYWHERE, "--mix green,blue --stir"), 0);
	assert_int_equal(wish.colours, 1 << GREEN | 1 << BLUE);
	options_deinit(&options);
	assert_int_equal(parse(&options, &wish, OPTIONS_ANYWHERE, "--mix blue --mix red"), 0);
	assert_int_equal(wish.colours, 1 << RED | 1 << BLUE);
	options_deinit(&options);
	/* What is not offered is understood: whoever reads the field says why it cannot be. */
	assert_int_equal(parse(&options, &wish, OPTIONS_ANYWHERE, "--mix infrared"), 0);
	assert_int_equal(wish.colours, 1 << INFRARED);
	options_deinit(&options);
	assert_int_equal(parse(&options, &wish, OPTIONS_ANYWHERE, ""), 1);
	assert_int_equal(wish.colours, 1 << RED);
	options_deinit(&options);
	assert_refused("--mix red,", "--mix red,: takes red, green or blue");
	assert_refused("--mix redd", "--mix redd: takes red, green or blue");
	assert_refused("--stir", "--stir: changes nothing without --mix green");
}

static void fields_begin_with_what_the_rows_say(void **state)
{
	struct options options;
	struct wish wish;

	assert_int_equal(parse(&options, &wish, OPTIONS_ANYWHERE, "--num 8"), 0);
	assert_int_equal(wish.number, 8);
	assert_int_equal(wish.size, 64 << 10);
	assert_int_equal(wish.colour, GREEN);
	assert_int_equal(wish.rate, 0);
	options_deinit(&options);
}

static void what_is_wrong_is_said(void **state)
{
	assert_refused("--number 513", "--number 513: takes a whole number from 1 to 512");
	assert_refused("--number -1", "--number -1: takes a whole number from 1 to 512");
	assert_refused("-n 1x", "--number 1x: takes a whole number from 1 to 512");
	assert_refused("--size 2G",
		       "--size 2G: takes a size from 1 to 1048576, or one such as 64M");
	assert_refused("--duration 0",
		       "--duration 0: takes seconds such as 10 or 1.5, or a time such as 500ms, 2m "
		       "or 1h");
	assert_refused("--share nan",
		       "--share nan: takes a share from 0 to 1, or a percentage such as 0.5%");
	assert_refused("--share 101%",
		       "--share 101%: takes a share from 0 to 1, or a percentage such as 0.5%");
	assert_refused("--colour pink", "--colour pink: takes red, green or blue");
	assert_refused("--pid 1,x", "--pid 1,x: takes whole numbers separated by commas");
	assert_refused("--cpu 3-1", "--cpu 3-1: takes numbers and ranges such as 0,2-3");
	assert_refused("--cpu 9000", "--cpu 9000: takes numbers and ranges such as 0,2-3");
	assert_refused("--item a,,b", "--item a,,b: takes names separated by commas");
	assert_refused("--text=", "--text '': takes a text that is not empty");
	assert_refused("--text", "--text: needs a value, TEXT");
	assert_refused("-t", "-t: needs a value, TEXT");
	assert_refused("--flag=1", "--flag: takes no value");
	assert_refused("--help=1", "--help: takes no value");
	assert_refused("--colur red",
		       "--colur: there is no such option here; did you mean --colour?");
	assert_refused("--qqqqqq", "--qqqqqq: there is no such option here");
	assert_refused("-q", "-q: there is no such option here");
	assert_refused("--s 1", "--s: is short for --size, --share and others");
}

/* An option that would change nothing is refused, with what is missing (R 21.4). */
static void what_is_missing_is_said(void **state)
{
	struct options options;
	struct wish wish;

	assert_refused("--wide 1", "--wide: changes nothing without --flag");
	assert_refused("--deep", "--deep: changes nothing without --colour blue");
	assert_int_equal(parse(&options, &wish, OPTIONS_ANYWHERE, "--wide 1 --help --qqq"), 1);
	assert_true(options.help);
	options_deinit(&options);
}

static void a_command_ends_the_options(void **state)
{
	struct options options;
	struct wish wish;

	assert_int_equal(parse(&options, &wish, OPTIONS_FIRST, "-f ls --number 9"), 3);
	assert_int_equal(wish.number, 7);
	options_deinit(&options);
	assert_int_equal(parse(&options, &wish, OPTIONS_FIRST, "-- -f"), 1);
	assert_false(wish.flag);
	options_deinit(&options);
}

static void a_group_may_take_some_rows_only(void **state)
{
	assert_non_null(options_find(few, "flag"));
	assert_null(options_find(few, "number"));
}

static void values_go_back_to_text(void **state)
{
	struct options options;
	struct wish wish;
	struct strbuf text = {};

	assert_int_equal(parse(&options, &wish, OPTIONS_ANYWHERE,
			       "--size 1M --cpu 1-3 --item a,b --share 25% --colour red"),
			 0);
	for (size_t i = 0; i < options.given.count; i++)
		for (size_t j = 0; j < option_value_count(options.given.items[i], &wish); j++) {
			option_value_print(options.given.items[i], &wish, j, &text);
			strbuf_putc(&text, ' ');
		}
	assert_string_equal(strbuf_text(&text), "1024 1,2,3 a b 0.25000000000000000 red ");
	strbuf_deinit(&text);
	options_deinit(&options);
}

static void takers_name(const struct option_row *row, struct strbuf *ret)
{
	if (row->letter == 'f')
		strbuf_puts(ret, "tree");
}

static void text_is_made_from_the_rows(void **state)
{
	static const struct option_group named[] = { { "All", rows, .takers = takers_name }, {} };
	char *help = NULL, *mdoc = NULL;
	size_t size;
	FILE *file = open_memstream(&help, &size);

	options_help_print(named, file);
	fclose(file);
	assert_non_null(strstr(help, "\nAll\n  -f, --flag            tree: Raise the flag\n"));
	assert_non_null(strstr(help, "  -n, --number N        Count to N (default: 7)\n"));
	assert_non_null(strstr(help, "      --what[=WHAT]     Name\n"));
	assert_non_null(strstr(help, "      --duration TIME   Last (default: for ever)\n"));
	assert_non_null(strstr(help, "Paint: red, green or blue (default: green)\n"));
	assert_null(strstr(help, "secret"));
	free(help);
	file = open_memstream(&mdoc, &size);
	options_mdoc_print(named, file);
	fclose(file);
	assert_non_null(strstr(mdoc, ".Ss All\n.Bl -tag -width Ds\n.It Fl f , Fl -flag\n"
				     "Raise the flag.\nIt is taken by tree.\n"));
	assert_non_null(strstr(mdoc, ".It Fl n Ar N , Fl -number Ar N\nCount to \\fIN\\fR.\n"
				     "\\fIN\\fR may be large.\nOthers are as "
				     "\\fB\\-\\-flag\\fR says.\nThe value is a whole number from "
				     "1 to 512.\nThe default is \\fB7\\fR.\n"));
	assert_non_null(strstr(mdoc, "It is of use only with \\fB\\-\\-colour\\fR \\fBblue\\fR."));
	assert_non_null(strstr(mdoc, "The value is one of \\fBred\\fR, \\fBgreen\\fR and "
				     "\\fBblue\\fR.\n"));
	assert_null(strstr(mdoc, "secret"));
	free(mdoc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_is_taken),
		cmocka_unit_test(sets_replace_the_default_and_grow),
		cmocka_unit_test(fields_begin_with_what_the_rows_say),
		cmocka_unit_test(what_is_wrong_is_said),
		cmocka_unit_test(what_is_missing_is_said),
		cmocka_unit_test(a_command_ends_the_options),
		cmocka_unit_test(a_group_may_take_some_rows_only),
		cmocka_unit_test(values_go_back_to_text),
		cmocka_unit_test(text_is_made_from_the_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
