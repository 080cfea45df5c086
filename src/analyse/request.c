// SPDX-License-Identifier: BSD-2-Clause
/*
 * From words to a request: the table of the options that requests have, and the parser of their
 * form as text.
 *
 *	in	the words of a command line, or one text as in an address
 *	out	struct view_request: view, filters, order, limit, metric
 *	owner	the caller: a command or the server
 */
#include "analyse/request.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "paths/layer.h"
#include "phases/phases.h"

static const struct option_choice metrics[] = {
#define X(name, text, domain, help) [METRIC_##name] = { text, help },
	VIEW_METRICS(X)
#undef X
		{},
};

const struct option_choice request_costs[] = {
#define X(name, text, option, help) [COST_##name] = { text, help },
	CALL_COSTS(X)
#undef X
		{},
};

static const struct option_choice heats[] = {
#define X(name, text, what, amount) [HEAT_##name] = { text },
	HEAT_KINDS(X)
#undef X
		{},
};

static const struct option_choice detectors[] = {
#define X(name, text, what) [PHASES_##name] = { text, what },
	PHASES_DETECTORS(X)
#undef X
		{},
};

static const struct option_choice formats[] = {
	[FORMAT_TEXT] = { "text" },
	[FORMAT_JSON] = { "json" },
	{},
};

#define WISH(member) OPTION_FIELD(struct request, wish.member)
#define NUMBERS "N[,N...]"
#define NOT_BY_THREAD "what it shows is not kept by process or thread"
#define ROWS_BELONG_TOGETHER "its rows belong together"

/* clang-format off */
const struct option_row request_rows[] = {
	{ "sort", 0, OPTION_TEXT, WISH(sort), .argument = "COLUMN", .only = TAKES_SORT,
	  .refusal = ROWS_BELONG_TOGETHER, .otherwise = "the order of the view",
	  .help = "Sort by a column, named as in JSON",
	  .more = "Numbers fall and texts rise." },
	{ "limit", 0, OPTION_NUMBER, WISH(limit), .argument = "N", .low = 1,
	  .help = "Show the first N rows",
	  .more = "In `callgraph` and `args` these are functions, in `blocks` and `executed` "
		  "blocks, in `paths` paths, in `phases` phases, and in `tree` the rows with the "
		  "largest total, with their parents: 20,000 unless it is given. In `course` what "
		  "is shorter than the N-th part of a thread is put together." },
	{ "min-share", 0, OPTION_SHARE, WISH(min_share), .argument = "S", .only = TAKES_MIN_SHARE,
	  .otherwise = "0.5% in views of trees, paths and phases, otherwise 0",
	  .help = "Leave out rows below this share of everything seen",
	  .more = "In `invariants` and `values` it is a share of the runs begun, in `coverage` of "
		  "the lines of the file, and in `phases` of the thread." },
	{ "metric", 0, OPTION_CHOICE, WISH(metric), .argument = "METRIC", .only = TAKES_METRIC,
	  .choices = metrics, .initial = "auto", .help = "Choose what rows are measured by" },
	{ "cost", 0, OPTION_CHOICE, WISH(cost), .argument = "COST", .only = TAKES_METRIC,
	  .choices = request_costs, .initial = "time",
	  .help = "Choose which cost of calls is shown" },
	{ "bottom-up", 0, OPTION_FLAG, WISH(bottom_up), .only = TAKES_BOTTOM_UP,
	  .help = "Begin with the function that was running, and go up to its callers" },
	{ "inverted", 0, OPTION_FLAG, WISH(bottom_up), .only = TAKES_BOTTOM_UP, .hidden = true,
	  .help = "The same as --bottom-up" },
	{ "by-callsite", 0, OPTION_FLAG, WISH(by_callsite), .only = TAKES_BY_CALLSITE,
	  .help = "Show only where each function is called from" },
	{ "by-caller", 0, OPTION_FLAG, WISH(by_caller), .only = TAKES_BY_CALLER,
	  .help = "Tell call sites apart" },
	{ "item", 0, OPTION_LIST, WISH(items), .argument = "ITEM[,ITEM...]", .only = TAKES_ITEM,
	  .help = "Show these values only, such as `result` or `arg0`",
	  .more = "Items are named as in assay-record(1). `arg0` means `arg0@caller` as well; `*` "
		  "and `?` stand for any text and any one byte." },
	{ "min-invariance", 0, OPTION_SHARE, WISH(min_invariance), .argument = "S",
	  .only = TAKES_INVARIANCE, .otherwise = "0.5 in invariants and 0.9 in blocks",
	  .help = "Call a place invariant from this share of its most common value on",
	  .more = "In `invariants` the value must have it with 95 % certainty." },
	{ "top", 0, OPTION_NUMBER, WISH(top), .argument = "N", .low = 1, .only = TAKES_TOP,
	  .otherwise = "3 values; 12 lines of a path",
	  .help = "Show N values at each place, or N lines of each path",
	  .more = "JSON always has all." },
	{ "heat", 0, OPTION_CHOICE, WISH(heat), .argument = "KIND", .only = TAKES_HEAT,
	  OPTION_ALSO(struct request, wish.has_heat, true), .choices = heats,
	  .initial = "instructions",
	  .help = "Show the hottest first by what they do",
	  .more = "Heat is the amount of all trips." },
	{ "level", 0, OPTION_NUMBER, WISH(level), .argument = "N", .low = 1,
	  .high = LAYER_LEVELS_MAX, .only = TAKES_LEVEL, .initial = "1",
	  .help = "Show the cycles of this level; those of level 2 hold strata" },
	{ "detectors", 0, OPTION_CHOICES, WISH(detectors), .argument = "NAME[,NAME...]",
	  .only = TAKES_DETECTORS, .choices = detectors, .otherwise = "all",
	  .help = "Look for phases with these detectors only" },
	{ "agree", 0, OPTION_NUMBER, WISH(agree), .argument = "N", .low = 1,
	  .high = PHASES_DETECTOR_COUNT, .only = TAKES_DETECTORS,
	  .otherwise = "2, or 1 with a single detector",
	  .help = "Begin a phase where N of the detectors see a change" },
	{ "by-phase", 0, OPTION_FLAG, WISH(by_phase), .only = TAKES_BY_PHASE,
	  .help = "Show the phases of threads instead of modules",
	  .more = "It needs the order of execution, and takes filters of threads only." },
	{ "instruction", 0, OPTION_NUMBER, WISH(position), .argument = "N", .only = TAKES_POSITION,
	  OPTION_ALSO(struct request, wish.at, AT_INSTRUCTION),
	  .help = "Show what each thread did at its instruction N, counted from 0" },
	{ "path", 0, OPTION_NUMBER, WISH(position), .argument = "N", .only = TAKES_POSITION,
	  OPTION_ALSO(struct request, wish.at, AT_PATH),
	  .help = "Show what each thread did at its path N, counted from 0" },
	{ "stratum", 0, OPTION_NUMBER, WISH(position), .argument = "N", .only = TAKES_POSITION,
	  OPTION_ALSO(struct request, wish.at, AT_STRATUM),
	  .help = "Show what each thread did at its stratum N, counted from 0" },
	{ "pid", 0, OPTION_NUMBERS, WISH(filter.pids), .argument = NUMBERS, .only = TAKES_THREADS,
	  .high = UINT32_MAX, .refusal = NOT_BY_THREAD, .help = "Choose processes" },
	{ "tid", 0, OPTION_NUMBERS, WISH(filter.tids), .argument = NUMBERS, .only = TAKES_THREADS,
	  .high = UINT32_MAX, .refusal = NOT_BY_THREAD, .help = "Choose threads" },
	{ "uid", 0, OPTION_NUMBERS, WISH(filter.uids), .argument = NUMBERS, .only = TAKES_USERS,
	  .high = UINT32_MAX, .help = "Choose the processes of these users" },
	{ "comm", 0, OPTION_PATTERN, WISH(filter.comms), .argument = "PATTERN",
	  .only = TAKES_THREADS, .refusal = NOT_BY_THREAD,
	  .help = "Choose threads whose own name, or whose process's name, matches" },
	{ "symbol", 0, OPTION_PATTERN, WISH(filter.symbols), .argument = "PATTERN",
	  .only = TAKES_SYMBOLS,
	  .help = "Choose functions by name; in views without code, samples that have one on the "
		  "stack",
	  .more = "Symbols are compared by the name shown and by the name in the object file. In "
		  "`paths` it chooses the paths that have such code anywhere." },
	{ "module", 0, OPTION_PATTERN, WISH(filter.modules), .argument = "PATTERN",
	  .only = TAKES_MODULES,
	  .help = "Choose programs, libraries and kernel modules, by path or by its last part",
	  .more = "A PATTERN matches when it is a part of the name. If it holds `*` or `?` it must "
		  "match the whole name, the former standing for any text and the latter for any "
		  "one byte; nothing else is special. Such options may be repeated, and then any "
		  "of the patterns may match. Shares remain shares of everything seen, whatever is "
		  "chosen." },
	{ "from", 0, OPTION_NUMBER, WISH(from), .argument = "SECOND", .only = TAKES_TIME,
	  .high = UINT32_MAX, OPTION_ALSO(struct request, wish.has_time, true),
	  .help = "Choose samples from this second of the recording on",
	  .more = "A profile keeps when samples were taken for the last 256 seconds of its "
		  "recording." },
	{ "to", 0, OPTION_NUMBER, WISH(to), .argument = "SECOND", .only = TAKES_TIME, .low = 1,
	  .high = UINT32_MAX, OPTION_ALSO(struct request, wish.has_time, true),
	  .otherwise = "the end", .help = "Choose samples from before this second" },
	{ "format", 0, OPTION_CHOICE, OPTION_FIELD(struct request, format), .argument = "FORMAT",
	  .choices = formats, .initial = "text",
	  .help = "Print text for people or JSON for programs" },
	{ "json", 0, OPTION_FLAG, OPTION_ALSO(struct request, format, FORMAT_JSON),
	  .help = "The same as --format `json`" },
	{},
};
/* clang-format on */

static const struct option_group own_groups[] = {
	{ .rows = request_rows, .takers = request_takers },
	{},
};

static bool takes(const struct view *view, const struct option_row *row)
{
	return !row->only || view->takes & row->only;
}

/* Appends the names of the views for which takes() is `wanted`; returns how many. */
static size_t views_print(const struct option_row *row, bool wanted, struct strbuf *ret)
{
	const struct view *last = NULL;
	size_t count = 0;

	for (const struct view *view = views; view->name; view++)
		if (takes(view, row) == wanted)
			last = view;
	for (const struct view *view = views; view->name; view++)
		if (takes(view, row) == wanted)
			strbuf_printf(ret, "%s%s",
				      !count++	     ? ""
				      : view == last ? " and "
						     : ", ",
				      view->name);
	return count;
}

void request_takers(const struct option_row *row, struct strbuf *ret)
{
	struct strbuf with = {}, without = {};
	size_t count = views_print(row, true, &with), others = views_print(row, false, &without);

	if (others && count <= others)
		strbuf_puts(ret, strbuf_text(&with));
	else if (others)
		strbuf_printf(ret, "all views but %s", strbuf_text(&without));
	strbuf_deinit(&with);
	strbuf_deinit(&without);
}

void request_init(struct request *request, const struct option_group *groups)
{
	memset(request, 0, sizeof(*request));
	request->view = &views[0];
	request->wish.min_share = request->wish.min_invariance = -1;
	options_init(&request->options, groups ? groups : own_groups, request);
}

void request_deinit(struct request *request)
{
	options_deinit(&request->options);
}

/* --- Text in ---------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
	if (!isxdigit((unsigned char)c))
		return -1;
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

/* In place; false: a % without two digits, or a byte 0, which no name has. */
static bool percent_decode(char *text)
{
	char *to = text;

	for (const char *from = text; *from; from++) {
		int high, low;

		if (*from != '%') {
			*to++ = *from;
			continue;
		}
		high = hex_digit(from[1]);
		low = high < 0 ? -1 : hex_digit(from[2]);
		if (low < 0 || !(high | low))
			return false;
		*to++ = (char)(high << 4 | low);
		from += 2;
	}
	*to = '\0';
	return true;
}

static const struct option_row *row_find(const char *name)
{
	for (const struct option_row *row = request_rows; row->name; row++)
		if (!strcmp(row->name, name))
			return row;
	return NULL;
}

/* "name=value" or "name". */
static int pair_take(struct request *request, char *pair)
{
	char *value = strchr(pair, '=');
	const struct option_row *row;

	if (value)
		*value++ = '\0';
	if (!percent_decode(pair) || (value && !percent_decode(value)))
		return err_set(-EINVAL, "%s: after a %% come the two digits of a byte, not 00",
			       pair);
	row = row_find(pair);
	if (!row)
		return err_set(-EINVAL, "%s: there is no such option of a request", pair);
	return options_take(&request->options, row, value);
}

static int view_unknown(const char *name)
{
	struct strbuf names = {};
	int err;

	for (const struct view *view = views; view->name; view++)
		strbuf_printf(&names, "%s%s", view == views ? "" : ", ", view->name);
	err = err_set(-EINVAL, "'%s' is not a view; there are %s", name, strbuf_text(&names));
	strbuf_deinit(&names);
	return err;
}

int request_take(struct request *request, const char *text)
{
	char *rest = mem_strdup(text), *name, *pair;
	int err = 0;

	*array_push(&request->options.owned) = rest;
	name = strsep(&rest, "?");
	if (!percent_decode(name))
		return err_set(-EINVAL, "%s: after a %% come the two digits of a byte, not 00",
			       name);
	request->view = *name ? view_find(name) : &views[0];
	if (!request->view) {
		request->view = &views[0];
		return view_unknown(name);
	}
	while (!err && rest && *rest && (pair = strsep(&rest, "&")))
		err = pair_take(request, pair);
	return err;
}

int request_parse(const char *text, struct request *ret)
{
	int err;

	request_init(ret, NULL);
	err = request_take(ret, text);
	err = err ? err : request_check(ret);
	if (err)
		request_deinit(ret);
	return err;
}

int request_check(const struct request *request)
{
	AUTO(free_ptr) char *who = mem_printf("the view %s", request->view->name);
	int err = options_takes_check(&request->options, request->view->takes, who);

	return err ? err : options_needs_check(&request->options);
}

/* --- Text out --------------------------------------------------------------------------------- */

static void percent_encode(const char *text, struct strbuf *ret)
{
	for (; *text; text++) {
		if (isalnum((unsigned char)*text) || strchr("-_.*,:@()[]/", *text))
			strbuf_putc(ret, *text);
		else
			strbuf_printf(ret, "%%%02x", (unsigned char)*text);
	}
}

void request_print(const struct request *request, struct strbuf *ret)
{
	const char *separator = "?";

	strbuf_puts(ret, request->view->name);
	array_each(&request->options.given, given) {
		const struct option_row *row = *given;

		if (row_find(row->name) != row)
			continue; /* of the command, not of the request */
		for (size_t i = 0; i < option_value_count(row, request); i++) {
			struct strbuf value = {};

			option_value_print(row, request, i, &value);
			strbuf_printf(ret, "%s%s%s", separator, row->name,
				      row->type == OPTION_FLAG ? "" : "=");
			percent_encode(strbuf_text(&value), ret);
			strbuf_deinit(&value);
			separator = "&";
		}
	}
}
