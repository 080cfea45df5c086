// SPDX-License-Identifier: BSD-2-Clause
/* assay diff: what changed from one profile to another. */
#include "analyse/diff.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "cmd/view_options.h"

enum { OPTION_LINES = VIEW_OWN, OPTION_TOTAL, OPTION_SIGNIFICANT };

static const struct option long_options[] = {
	{ "output", required_argument, NULL, 'o' },
	{ "help", no_argument, NULL, 'h' },
	VIEW_SHOW_OPTIONS,
	VIEW_FILTER_OPTIONS,
	VIEW_ROW_OPTIONS,
	{ "lines", no_argument, NULL, OPTION_LINES },
	{ "total", no_argument, NULL, OPTION_TOTAL },
	{ "significant", no_argument, NULL, OPTION_SIGNIFICANT },
	{},
};

static const char usage[] =
	"usage: assay diff [options] A B\n"
	"\n"
	"Shares of functions in profile A and profile B, the largest change first. A change beyond "
	"three\n"
	"standard errors is marked as real; others are what sampling the same program twice would "
	"show.\n"
	"\n"
	"      --lines          by source line\n"
	"      --total          compare functions with what they called\n"
	"      --significant    only real changes\n" VIEW_ROW_HELP VIEW_FILTER_HELP VIEW_SHOW_HELP
	"  -o, --output FILE    write to FILE, which appears only when it is whole\n"
	"  -h, --help           this text\n";

static void own_option(struct diff_request *request, int option)
{
	switch (option) {
	case OPTION_LINES:
		request->lines = true;
		break;
	case OPTION_TOTAL:
		request->total = true;
		break;
	case OPTION_SIGNIFICANT:
		request->significant_only = true;
		break;
	}
}

static int compare(const struct view_options *options, struct diff_request *request,
		   const char *path_a, const char *path_b)
{
	AUTO(profile_destroy_auto) struct profile *a = NULL;
	AUTO(profile_destroy_auto) struct profile *b = NULL;
	AUTO(table_destroy_auto) struct table *table = NULL;
	int err;

	request->filter = options->request.filter; /* lent */
	request->sort = options->request.sort;
	request->limit = options->request.limit;
	request->min_share = options->request.min_share;
	if (view_profile_load(path_a, false, &a) || view_profile_load(path_b, false, &b) ||
	    view_samples_check(a) || view_samples_check(b))
		return view_failure();
	err = diff_run(a, b, request, &table);
	if (err == -EINVAL)
		return view_usage_error("diff");
	if (err || view_table_print(options, table))
		return view_failure();
	return EXIT_DONE;
}

int cmd_diff(int argc, char **argv)
{
	AUTO(view_options_deinit) struct view_options options = VIEW_OPTIONS_INIT;
	struct diff_request request = {};
	int option;

	while ((option = view_options_next(&options, argc, argv, long_options)) != -1) {
		if (option == '?')
			return view_usage_error("diff");
		own_option(&request, option);
	}
	if (options.help) {
		fputs(usage, stdout);
		return EXIT_DONE;
	}
	if (argc - optind != 2 || options.input_given) {
		err_set(-EINVAL, "diff takes two profiles as arguments, the older one first");
		return view_usage_error("diff");
	}
	return compare(&options, &request, argv[optind], argv[optind + 1]);
}
