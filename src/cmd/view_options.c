// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/view_options.h"

#include <langinfo.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "recorder/symbolise.h"
#include "report/report.h"
#include "store/snapshot.h"

_Static_assert(offsetof(struct view_options, request) == 0, "rows of requests fill its fields");

int view_options_parse(struct view_options *options, const struct command *command, int argc,
		       char **argv, int *ret)
{
	int err;

	memset(options, 0, sizeof(*options));
	request_init(&options->request, command->groups);
	err = options_parse(&options->request.options, OPTIONS_ANYWHERE, argc, argv, ret);
	options->request.wish.people = options->request.format == FORMAT_TEXT;
	return err;
}

void view_options_deinit(struct view_options *options)
{
	request_deinit(&options->request);
}

/* A recording that goes on finds names at its end. */
static void going_on_say(const char *path, const struct profile *profile)
{
	bool answers = profile_recording(profile, RECORDING_SAMPLES);

	log_info("%s is being recorded: this is what it holds until now; functions get their names "
		 "when the recording ends%s%s%s",
		 path, answers ? ", or in a copy: assay ctl -i " : "", answers ? path : "",
		 answers ? " snapshot -o COPY" : "");
}

/* Finds the names that its recorder could not find any more, and opens it again. */
static int profile_complete(const char *path, struct profile **profile)
{
	log_warn("%s: the recording did not end as it should, or this is a copy of one that goes "
		 "on; it holds what was written until then",
		 path);
	/* Closed first: SQLite cannot check its log in while another connection reads. */
	profile_destroy(take_ptr(*profile));
	if (symbolise_unfinished(path))
		log_warn("%s; names may be missing", err_text());
	return profile_open(path, profile);
}

int view_profile_open(const char *path, struct profile **ret)
{
	AUTO(profile_destroy_auto) struct profile *profile = NULL;
	int err = profile_open(path, &profile);

	if (err)
		return err;
	if (!profile->finished && store_is_written(path))
		going_on_say(path, profile);
	else if (!profile->finished && (err = profile_complete(path, &profile)))
		return err;
	*ret = take_ptr(profile);
	return 0;
}

int view_table_print(const struct view_options *options, const struct table *table)
{
	bool json = options->request.format == FORMAT_JSON;
	struct output output;
	int err = output_open(&output, options->output, !json && !options->no_pager);

	if (err)
		return err;
	if (json)
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
