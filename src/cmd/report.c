// SPDX-License-Identifier: BSD-2-Clause
/* assay report: a profile as one of the views. */
#include <errno.h>

#include "base/err.h"
#include "base/log.h"
#include "base/progress.h"
#include "cmd/browse.h"
#include "cmd/live_profile.h"
#include "cmd/served.h"
#include "cmd/view_code.h"
#include "cmd/view_options.h"

/* A request without a view: of what the profile holds. */
static bool is_open(const struct request *request, const char *argument)
{
	return !argument && request->wish.metric == METRIC_AUTO;
}

/* The request as its options and its argument say; the argument may be a request as text. */
static int request_settle(struct view_options *options, int count, char **arguments)
{
	struct request *request = &options->request;
	int err = count ? request_take(request, arguments[0]) : 0;

	if (!err && count > 1)
		err = err_set(-EINVAL, "'%s': one view at a time", arguments[1]);
	request->wish.people = request->format == FORMAT_TEXT;
	return err ? err : request_check(request);
}

static int domains_load(const struct request *request, struct profile *profile)
{
	unsigned domains = 0;
	int err = view_domains(request->view, profile, &request->wish, &domains);

	return err ? err : profile_need(profile, domains);
}

/* Filters and options of the view are left to the keys. */
static int tui_show(struct view_options *options)
{
	AUTO(served_destroy_auto) struct served *served = NULL;
	const struct page_wish none = {};
	const struct browse_options how = { .view = options->request.view->name,
					    .title = options->input };
	int err = served_create(options->input, &none, &served);

	err = err ? err : browse_run(served, &how);
	return err ? command_failure() : EXIT_DONE;
}

/* The sources of a table; code and profile outlive it. */
struct shown {
	struct profile *profile;
	struct view_code code;
	struct table *table;
};

static void shown_deinit(struct shown *shown)
{
	table_destroy(shown->table);
	view_code_deinit(&shown->code);
	profile_destroy(shown->profile);
}

/* The exit code; what went wrong has been said. */
static int table_make(const struct command *command, struct view_options *options, bool open,
		      struct shown *shown)
{
	AUTO(progress_end) struct progress progress;
	struct request *request = &options->request;
	int err;

	progress_begin(&progress, "making the report");
	if (view_profile_open(options->input, &shown->profile))
		return command_failure();
	if (open)
		request->view = profile_view(shown->profile);
	if (request_check(request))
		return command_usage_error(command);
	if (domains_load(request, shown->profile))
		return command_failure();
	view_code_init(&shown->code, options->input, shown->profile);
	request->wish.code = view_code_source(&shown->code);
	err = view_run(request->view, shown->profile, &request->wish, &shown->table);
	if (err == -EINVAL)
		return command_usage_error(command);
	return err ? command_failure() : EXIT_DONE;
}

static int view_show(const struct command *command, struct view_options *options, bool open)
{
	AUTO(shown_deinit) struct shown shown = {};
	int code = table_make(command, options, open, &shown);

	if (code == EXIT_DONE && view_table_print(options, shown.table))
		code = command_failure();
	return code;
}

/*
 * Shows calls that are being recorded: makes a profile of this moment, which is shown as any other.
 */
static int live_show(const struct command *command, struct view_options *options, bool open)
{
	AUTO(live_profile_remove) struct live_profile live = {};

	if (live_profile_make(options->live, &live))
		return command_failure();
	log_info("%lu threads that run now, of process %u; what has ended is in the profile of its "
		 "recording",
		 live.threads, options->live);
	if (live.bad)
		log_warn(
			"%lu trees made no sense, or changed too fast, and are left out; try again",
			live.bad);
	options->input = live.path;
	return view_show(command, options, open);
}

static int options_check(const struct view_options *options)
{
	const struct options *given = &options->request.options;

	if (options->live && options_given(given, "input"))
		return err_set(-EINVAL, "--live and --input: either what is recorded now, or a "
					"profile");
	if (options->live && options->tui)
		return err_set(-EINVAL, "--live shows one moment: not with --tui");
	if (options->tui && given->given.count - options_given(given, "input") > 1)
		return err_set(-EINVAL,
			       "with --tui the keys choose; of the options only -i and the "
			       "view count");
	return 0;
}

int cmd_report(const struct command *command, int argc, char **argv)
{
	AUTO(view_options_deinit) struct view_options options;
	int first, err = view_options_parse(&options, command, argc, argv, &first);
	bool open;

	if (!err && options.request.options.help)
		return command_help(command);
	err = err ? err : request_settle(&options, argc - first, argv + first);
	err = err ? err : options_check(&options);
	if (err)
		return command_usage_error(command);
	open = is_open(&options.request, first < argc ? argv[first] : NULL);
	if (options.tui)
		return tui_show(&options);
	return options.live ? live_show(command, &options, open)
			    : view_show(command, &options, open);
}
