// SPDX-License-Identifier: BSD-2-Clause
/* assay report: a profile as one of the views. */
#include <errno.h>
#include <stdio.h>

#include "analyse/views.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "cmd/cmd.h"
#include "cmd/view_code.h"
#include "cmd/view_options.h"
#include "profile/layer.h"

enum {
	OPTION_BOTTOM_UP = VIEW_OWN,
	OPTION_BY_CALLSITE,
	OPTION_BY_CALLER,
	OPTION_HEAT,
	OPTION_LEVEL,
	OPTION_UNIT
};

static const struct option long_options[] = {
	VIEW_FILE_OPTIONS,
	VIEW_SHOW_OPTIONS,
	VIEW_FILTER_OPTIONS,
	VIEW_ROW_OPTIONS,
	{ "bottom-up", no_argument, NULL, OPTION_BOTTOM_UP },
	{ "inverted", no_argument, NULL, OPTION_BOTTOM_UP },
	{ "by-callsite", no_argument, NULL, OPTION_BY_CALLSITE },
	{ "by-caller", no_argument, NULL, OPTION_BY_CALLER },
	{ "item", required_argument, NULL, VIEW_ITEM },
	{ "min-invariance", required_argument, NULL, VIEW_MIN_INVARIANCE },
	{ "top", required_argument, NULL, VIEW_TOP },
	{ "heat", required_argument, NULL, OPTION_HEAT },
	{ "level", required_argument, NULL, OPTION_LEVEL },
	{ "instruction", required_argument, NULL, OPTION_UNIT + SEQUENCE_INSTRUCTION },
	{ "path", required_argument, NULL, OPTION_UNIT + SEQUENCE_PATH },
	{ "stratum", required_argument, NULL, OPTION_UNIT + SEQUENCE_STRATUM },
	{},
};

static void usage_print(void)
{
	fputs("usage: assay report [VIEW] [options]\n\n", stdout);
	for (const struct view *view = views; view->name; view++)
		printf("  %-20s %s%s\n", view->name, view->summary,
		       view == views ? " (default)" : "");
	fputs("\n" VIEW_ROW_HELP
	      "                       (tree, callgraph, paths: 0.5% unless given)\n"
	      "      --bottom-up      tree: from the running function to its "
	      "callers\n"
	      "      --by-callsite    callgraph: only where each function is called from\n"
	      "      --by-caller      args, invariants: call sites apart\n"
	      "      --item ITEM      values, invariants: these values only (result, arg0, ...)\n"
	      "      --min-invariance S\n"
	      "                       share of the most common value: 0.5 in invariants,\n"
	      "                       0.9 in blocks unless given\n"
	      "      --heat KIND      paths: hottest by loads, stores, branches, calls, ...\n"
	      "      --level N        strata: cycles of this level; 2 are those of strata (1)\n"
	      "      --instruction N, --path N, --stratum N\n"
	      "                       at: the point, counted from 0 in each thread\n"
	      "      --top N          values shown at each place (3); paths: lines of each "
	      "(12)\n" VIEW_FILTER_HELP VIEW_SHOW_HELP VIEW_FILE_HELP
	      "\nEvery percentage is of the samples seen, "
	      "those lost included; of values, of those\n"
	      "received at the place; Runs% is of the runs begun.\n",
	      stdout);
}

static int view_choose(int argc, char **argv, const struct view **ret)
{
	struct strbuf names = {};

	*ret = optind < argc ? view_find(argv[optind]) : &views[0];
	if (*ret && argc - optind <= 1)
		return 0;
	for (const struct view *view = views; view->name; view++)
		strbuf_printf(&names, "%s%s", view == views ? "" : ", ", view->name);
	if (!*ret)
		err_set(-EINVAL, "'%s' is not a view; there are %s", argv[optind],
			strbuf_text(&names));
	else
		err_set(-EINVAL, "'%s' is one argument too many", argv[optind + 1]);
	strbuf_deinit(&names);
	return -EINVAL;
}

static int level_take(struct view_request *request, int64_t number)
{
	if (!number)
		return err_set(-EINVAL, "--level 0: these are the paths; see the view paths");
	request->level = number < LAYER_LEVELS_MAX ? (unsigned)number : LAYER_LEVELS_MAX;
	return 0;
}

/* Options with a number; others are left to the caller. */
static int number_take(struct view_request *request, int option)
{
	enum sequence_unit unit = (enum sequence_unit)(option - OPTION_UNIT);
	const char *name;
	int64_t number;
	int err;

	if (option < OPTION_LEVEL)
		return 0;
	name = option == OPTION_LEVEL ? "level" : sequence_unit_text(unit);
	err = view_number_parse(name, optarg, &number);
	if (err || option == OPTION_LEVEL)
		return err ? err : level_take(request, number);
	request->has_position = true;
	request->unit = unit;
	request->position = (uint64_t)number;
	return 0;
}

static int options_parse(struct view_options *options, int argc, char **argv)
{
	struct view_request *request = &options->request;
	int option;

	while ((option = view_options_next(options, argc, argv, long_options)) != -1) {
		if (option == '?' || number_take(request, option))
			return -EINVAL;
		if (option == OPTION_HEAT && heat_kind_parse(optarg, &request->heat))
			return -EINVAL;
		request->has_heat |= option == OPTION_HEAT;
		request->bottom_up |= option == OPTION_BOTTOM_UP;
		request->by_callsite |= option == OPTION_BY_CALLSITE;
		request->by_caller |= option == OPTION_BY_CALLER;
	}
	request->people = !options->json;
	return 0;
}

static int run(struct view_options *options, const struct view *view, const struct profile *profile)
{
	AUTO(table_destroy_auto) struct table *table = NULL;
	AUTO(view_code_deinit) struct view_code code;
	int err;

	view_code_init(&code, options->input, profile);
	options->request.code = view_code_source(&code);
	err = view_run(view, profile, &options->request, &table);
	if (err == -EINVAL)
		return view_usage_error("report");
	if (err || view_table_print(options, table))
		return view_failure();
	return EXIT_DONE;
}

int cmd_report(int argc, char **argv)
{
	AUTO(view_options_deinit) struct view_options options = VIEW_OPTIONS_INIT;
	AUTO(profile_destroy_auto) struct profile *profile = NULL;
	const struct view *view;

	if (options_parse(&options, argc, argv))
		return view_usage_error("report");
	if (options.help) {
		usage_print();
		return EXIT_DONE;
	}
	if (view_choose(argc, argv, &view))
		return view_usage_error("report");
	if (view_profile_load(options.input, view->order != VIEW_ORDER_NONE, &profile))
		return view_failure();
	return run(&options, view, profile);
}
