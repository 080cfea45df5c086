// SPDX-License-Identifier: BSD-2-Clause
/* assay export: a profile in the format of another tool. */
#include "report/export.h"

#include <errno.h>
#include <unistd.h>

#include "analyse/executed_stacks.h"
#include "base/err.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/strbuf.h"
#include "cmd/view_code.h"
#include "cmd/view_options.h"

static int format_refuse(const char *text)
{
	struct strbuf names = {};
	int err;

	for (const struct export_format *format = export_formats; format->name; format++)
		strbuf_printf(&names, "%s%s", format == export_formats ? "" : ", ", format->name);
	err = text ? err_set(-EINVAL, "'%s' is not a format; there are %s", text,
			     strbuf_text(&names))
		   : err_set(-EINVAL, "export takes the name of a format; there are %s",
			     strbuf_text(&names));
	strbuf_deinit(&names);
	return err;
}

static int format_choose(const struct view_options *options, int count, char **arguments,
			 const struct export_format **ret)
{
	const struct export_format *format = count ? export_find(arguments[0]) : NULL;
	AUTO(free_ptr) char *who = NULL;

	if (!format)
		return format_refuse(count ? arguments[0] : NULL);
	if (count > 1)
		return err_set(-EINVAL, "'%s': one format at a time", arguments[1]);
	if ((format->binary || options->binary) && !options->output && isatty(STDOUT_FILENO))
		return err_set(-EINVAL, "%s is not for a terminal; give a file with -o",
			       format->name);
	*ret = format;
	who = mem_printf("the format %s", format->name);
	return options_takes_check(&options->request.options, format->takes, who);
}

enum { READS_CALLS = DOMAIN_TASKS | DOMAIN_CODE | DOMAIN_NAMES | DOMAIN_CALLS };

static bool is_of_calls(const struct export_format *format, const struct profile *profile)
{
	return format->run_calls && !profile_holds(profile, DOMAIN_SAMPLES) &&
	       profile_holds(profile, DOMAIN_CALLS);
}

static bool is_of_executed(const struct export_format *format, const struct profile *profile)
{
	return format->executed && !profile_holds(profile, DOMAIN_SAMPLES) &&
	       profile_holds(profile, DOMAIN_EXECUTED);
}

/* What a format reads of this profile. */
static unsigned domains_of(const struct view_options *options, const struct export_format *format,
			   const struct profile *profile)
{
	if (is_of_calls(format, profile))
		return READS_CALLS;
	if (is_of_executed(format, profile) && !options->off_cpu)
		return (format->needs & ~(unsigned)DOMAIN_SAMPLES) | DOMAIN_EXECUTED |
		       (profile_holds(profile, DOMAIN_PATHS) ? DOMAIN_PATHS : 0);
	return format->needs | (options->off_cpu ? DOMAIN_WAITS : 0);
}

/* Stacks of executed code are made first. */
static int executed_write(const struct export_format *format, const char *path,
			  const struct profile *profile, struct export_options *wish, FILE *file)
{
	AUTO(view_code_deinit) struct view_code code = {};
	struct code_source source;
	struct profile part;
	int err;

	view_code_init(&code, path, profile);
	source = view_code_source(&code);
	wish->executed = true;
	err = executed_stacks_init(&part, profile, &source);
	err = err ? err : format->run(&part, wish, file);
	executed_stacks_deinit(&part);
	return err;
}

static int format_write(const struct view_options *options, const struct export_format *format,
			const struct profile *profile, struct export_options *wish, FILE *file)
{
	if (is_of_calls(format, profile))
		return format->run_calls(profile, wish, file);
	if (wish->cost != COST_TIME)
		return err_set(-EINVAL,
			       "%s: --cost is of calls, and this profile has none; "
			       "record some with 'assay calls'",
			       options->input);
	if (is_of_executed(format, profile))
		return executed_write(format, options->input, profile, wish, file);
	return format->run(profile, wish, file);
}

static int profile_write(const struct view_options *options, const struct export_format *format,
			 const struct profile *profile)
{
	struct export_options wish = { .filter = options->request.wish.filter, /* lent */
				       .no_comm = options->no_comm,
				       .off_cpu = options->off_cpu,
				       .cost = options->cost,
				       .binary = options->binary };
	/* Text that goes to the terminal would stand in the middle of the line. */
	bool told = options->output || !isatty(STDOUT_FILENO);
	struct progress progress;
	struct output output;
	int err, close_err;

	if (!filter_is_empty(&wish.filter) && profile->loss_count)
		log_info("what was lost is left out: nobody knows what the filter would select "
			 "of it");
	if (told)
		progress_begin(&progress, "writing %s", format->name);
	err = output_open(&output, options->output, false);
	if (!err) {
		err = format_write(options, format, profile, &wish, output.file);
		close_err = output_close(&output, err == 0);
		err = err ? err : close_err;
	}
	if (told)
		progress_end(&progress);
	return err;
}

static int profile_export(const struct view_options *options, const struct export_format *format)
{
	AUTO(profile_destroy_auto) struct profile *profile = NULL;
	int err = view_profile_open(options->input, &profile);
	unsigned needs = err ? 0 : domains_of(options, format, profile);

	err = err ? err : profile_holds_check(profile, needs);
	err = err ? err : profile_need(profile, needs);
	return err ? err : profile_write(options, format, profile);
}

int cmd_export(const struct command *command, int argc, char **argv)
{
	AUTO(view_options_deinit) struct view_options options;
	const struct export_format *format = NULL;
	int first, err = view_options_parse(&options, command, argc, argv, &first);

	if (!err && options.request.options.help)
		return command_help(command);
	err = err ? err : format_choose(&options, argc - first, argv + first, &format);
	if (err)
		return command_usage_error(command);
	return profile_export(&options, format) ? command_failure() : EXIT_DONE;
}
