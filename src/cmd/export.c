// SPDX-License-Identifier: BSD-2-Clause
/* assay export: a profile in the format of another tool. */
#include "report/export.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "analyse/views.h"
#include "base/err.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "cmd/cmd.h"
#include "cmd/view_options.h"

enum { OPTION_NO_COMM = VIEW_OWN, OPTION_BINARY };

static const struct option long_options[] = {
	VIEW_FILE_OPTIONS,
	VIEW_FILTER_OPTIONS,
	{ "no-comm", no_argument, NULL, OPTION_NO_COMM },
	{ "binary", no_argument, NULL, OPTION_BINARY },
	{},
};

static void usage_print(void)
{
	fputs("usage: assay export FORMAT [options]\n\n", stdout);
	for (const struct export_format *format = export_formats; format->name; format++)
		printf("  %-20s %s\n", format->name, format->summary);
	fputs("\n"
	      "      --no-comm        collapsed: do not begin stacks with the thread's "
	      "name\n"
	      "      --binary         blocks: numbers of blocks instead of text\n" VIEW_FILTER_HELP
		      VIEW_FILE_HELP "\n"
	      "Samples that were lost are exported as [lost: reason], so that totals are those of "
	      "the\n"
	      "reports; with a filter they are left out.\n",
	      stdout);
}

static int format_choose(int argc, char **argv, const struct export_format **ret)
{
	struct strbuf names = {};

	*ret = optind < argc ? export_find(argv[optind]) : NULL;
	if (*ret && argc - optind == 1)
		return 0;
	for (const struct export_format *format = export_formats; format->name; format++)
		strbuf_printf(&names, "%s%s", format == export_formats ? "" : ", ", format->name);
	if (optind >= argc)
		err_set(-EINVAL, "which format? There are %s", strbuf_text(&names));
	else if (!*ret)
		err_set(-EINVAL, "'%s' is not a format; there are %s", argv[optind],
			strbuf_text(&names));
	else
		err_set(-EINVAL, "'%s' is one argument too many", argv[optind + 1]);
	strbuf_deinit(&names);
	return -EINVAL;
}

static int kind_check(const struct export_format *format, const struct profile *profile)
{
	if (format->trace)
		return view_trace_check(profile);
	return view_samples_check(profile);
}

static int export_write(const struct export_format *format, const struct profile *profile,
			const struct export_options *wish, const char *path)
{
	struct output output;
	int err = output_open(&output, path, false), close_err;

	if (err)
		return err;
	err = format->run(profile, wish, output.file);
	close_err = output_close(&output, err == 0);
	return err ? err : close_err;
}

int cmd_export(int argc, char **argv)
{
	AUTO(view_options_deinit) struct view_options options = VIEW_OPTIONS_INIT;
	AUTO(profile_destroy_auto) struct profile *profile = NULL;
	struct export_options wish = {};
	const struct export_format *format;
	int option;

	while ((option = view_options_next(&options, argc, argv, long_options)) != -1) {
		if (option == '?')
			return view_usage_error("export");
		wish.no_comm |= option == OPTION_NO_COMM;
		wish.binary |= option == OPTION_BINARY;
	}
	if (options.help) {
		usage_print();
		return EXIT_DONE;
	}
	if (format_choose(argc, argv, &format))
		return view_usage_error("export");
	if ((format->binary || wish.binary) && !options.output && isatty(STDOUT_FILENO)) {
		err_set(-EINVAL, "%s is not for a terminal; give a file with -o", format->name);
		return view_usage_error("export");
	}
	wish.filter = options.request.filter; /* lent */
	if (view_profile_load(options.input, format->order, &profile) ||
	    kind_check(format, profile))
		return view_failure();
	if (!filter_is_empty(&wish.filter) && profile->loss_count)
		log_info("the samples lost are left out: nobody knows which of them the filter "
			 "would select");
	return export_write(format, profile, &wish, options.output) ? view_failure() : EXIT_DONE;
}
