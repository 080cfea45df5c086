// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/view_options.h"

#include <errno.h>
#include <langinfo.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "ingest/symbolise.h"
#include "report/report.h"

void view_options_deinit(struct view_options *options)
{
	filter_deinit(&options->request.filter);
	array_deinit(&options->request.items);
	array_each(&options->owned, text)
		free(*text);
	array_deinit(&options->owned);
}

int view_number_parse(const char *option, const char *text, int64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoll(text, &end, 10);
	if (errno || end == text || *end || *ret < 0)
		return err_set(-EINVAL, "--%s takes a whole number, not '%s'", option, text);
	return 0;
}

static int size_parse(const char *option, const char *text, size_t *ret)
{
	int64_t number;
	int err = view_number_parse(option, text, &number);

	if (!err && !number)
		err = err_set(-EINVAL, "--%s takes a number from 1 on", option);
	if (!err)
		*ret = (size_t)number;
	return err;
}

static int numbers_parse(const char *option, const char *text, struct filter_numbers *numbers)
{
	AUTO(free_ptr) char *copy = mem_strdup(text);
	char *rest = copy, *item;
	int64_t number;

	while ((item = strsep(&rest, ","))) {
		int err = view_number_parse(option, item, &number);

		if (err)
			return err;
		*array_push(numbers) = number;
	}
	return 0;
}

static int share_parse(const char *option, const char *text, double *ret)
{
	char *end;
	double share = strtod(text, &end);

	if (!strcmp(end, "%"))
		share /= 100;
	else if (*end)
		end = (char *)text;
	if (end == text || !(share >= 0 && share <= 1))
		return err_set(-EINVAL, "--%s takes 0 to 1 or a percentage such as 0.5%%, not '%s'",
			       option, text);
	*ret = share;
	return 0;
}

static int color_parse(const char *text, enum output_color *ret)
{
	static const char *const names[] = {
		[COLOR_AUTO] = "auto", [COLOR_ALWAYS] = "always", [COLOR_NEVER] = "never"
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i], text)) {
			*ret = (enum output_color)i;
			return 0;
		}
	return err_set(-EINVAL, "--color takes auto, always or never, not '%s'", text);
}

/* 1: not a filter. */
static int filter_option(struct filter *filter, int option, const char *text)
{
	switch (option) {
	case VIEW_PID:
		return numbers_parse("pid", text, &filter->pids);
	case VIEW_TID:
		return numbers_parse("tid", text, &filter->tids);
	case VIEW_UID:
		return numbers_parse("uid", text, &filter->uids);
	case VIEW_COMM:
		*array_push(&filter->comms) = text;
		return 0;
	case VIEW_SYMBOL:
		*array_push(&filter->symbols) = text;
		return 0;
	case VIEW_MODULE:
		*array_push(&filter->modules) = text;
		return 0;
	default:
		return 1;
	}
}

/* Like strsep(), but commas in parentheses belong to the item. */
static char *item_take(char **rest)
{
	char *item = *rest;
	unsigned depth = 0;

	*rest = NULL;
	for (char *at = item; at && *at; at++) {
		if (*at == '(')
			depth++;
		else if (*at == ')' && depth)
			depth--;
		else if (*at == ',' && !depth) {
			*at = '\0';
			*rest = at + 1;
			break;
		}
	}
	return item;
}

static void items_parse(struct view_options *options, const char *text)
{
	char *rest = mem_strdup(text), *item;

	*array_push(&options->owned) = rest;
	while ((item = item_take(&rest)))
		*array_push(&options->request.items) = item;
}

/* 1: not a common option. */
static int common_option(struct view_options *options, int option, char *text)
{
	switch (option) {
	case 'i':
		options->input = text;
		options->input_given = true;
		return 0;
	case 'o':
		options->output = text;
		return 0;
	case 'h':
		options->help = true;
		return 0;
	case VIEW_JSON:
		options->json = true;
		return 0;
	case VIEW_COLOR:
		return color_parse(text, &options->color);
	case VIEW_WIDTH:
		return size_parse("width", text, &options->width);
	case VIEW_NO_PAGER:
		options->no_pager = true;
		return 0;
	case VIEW_SORT:
		options->request.sort = text;
		return 0;
	case VIEW_LIMIT:
		return size_parse("limit", text, &options->request.limit);
	case VIEW_MIN_SHARE:
		return share_parse("min-share", text, &options->request.min_share);
	case VIEW_MIN_INVARIANCE:
		return share_parse("min-invariance", text, &options->request.min_invariance);
	case VIEW_TOP:
		return size_parse("top", text, &options->request.top);
	case VIEW_ITEM:
		items_parse(options, text);
		return 0;
	default:
		return filter_option(&options->request.filter, option, text);
	}
}

int view_options_next(struct view_options *options, int argc, char **argv,
		      const struct option *long_options)
{
	int option, taken = 0;

	opterr = 0;
	while (!taken) {
		const char *text = optind < argc ? argv[optind] : "";

		option = getopt_long(argc, argv, ":" VIEW_SHORT_OPTIONS, long_options, NULL);
		if (option == -1)
			return -1;
		if (option == ':')
			err_set(-EINVAL, "%s needs a value", text);
		if (option == '?')
			err_set(-EINVAL, "%s is not an option here, or is short for several", text);
		if (option == ':' || option == '?')
			return '?';
		taken = common_option(options, option, optarg);
	}
	return taken < 0 ? '?' : option;
}

int view_usage_error(const char *command)
{
	log_error("%s (assay help %s)", err_text(), command);
	return EXIT_USAGE;
}

int view_failure(void)
{
	log_error("%s", err_text());
	return EXIT_FAILED;
}

static int profile_read(const char *path, bool order, struct profile **ret)
{
	return order ? profile_load_flow(path, ret) : profile_load(path, ret);
}

int view_profile_load(const char *path, bool order, struct profile **ret)
{
	AUTO(profile_destroy_auto) struct profile *profile = NULL;
	int err = profile_read(path, order, &profile);

	if (err)
		return err;
	if (!profile->finished) {
		log_warn("%s: the recording did not end as it should; it holds what was written "
			 "until then",
			 path);
		if (symbolise_unfinished(path)) {
			log_warn("%s; names may be missing", err_text());
		} else {
			profile_destroy(take_ptr(profile));
			err = profile_read(path, order, &profile);
			if (err)
				return err;
		}
	}
	*ret = take_ptr(profile);
	return 0;
}

int view_table_print(const struct view_options *options, const struct table *table)
{
	struct output output;
	int err = output_open(&output, options->output, !options->json && !options->no_pager);

	if (err)
		return err;
	if (options->json)
		report_json(table, output.file);
	else
		report_text(table,
			    &(struct text_options){
				    .width = output_width(&output, options->width),
				    .color = output_color(&output, options->color),
				    .utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8"),
			    },
			    output.file);
	return output_close(&output, true);
}
