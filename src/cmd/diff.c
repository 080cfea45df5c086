// SPDX-License-Identifier: BSD-2-Clause
/* assay diff: what changed from one profile to another. */
#include "analyse/diff.h"

#include <errno.h>

#include "analyse/executed_stacks.h"
#include "base/err.h"
#include "base/progress.h"
#include "cmd/view_code.h"
#include "cmd/view_options.h"

enum { READS = DOMAIN_TASKS | DOMAIN_CODE | DOMAIN_NAMES };

/* A side of the difference: a profile of samples, or one of executed code made into such. */
struct input {
	struct profile *profile;
	struct view_code code;
	struct profile made;
	bool is_made;
};

static void input_deinit(struct input *input)
{
	if (input->is_made)
		executed_stacks_deinit(&input->made);
	view_code_deinit(&input->code);
	profile_destroy(input->profile);
}

static const struct profile *input_profile(const struct input *input)
{
	return input->is_made ? &input->made : input->profile;
}

static bool is_of_executed(const struct input *input)
{
	return !profile_holds(input->profile, DOMAIN_SAMPLES) &&
	       profile_holds(input->profile, DOMAIN_EXECUTED);
}

/* The order of execution, which is most of the file, is of use only to totals. */
static int executed_load(struct input *input, const char *path, bool total)
{
	unsigned domains = READS | DOMAIN_EXECUTED | (total ? DOMAIN_PATHS : 0);
	int err = profile_holds_check(input->profile, domains);
	struct code_source source;

	err = err ? err : profile_need(input->profile, domains);
	if (err)
		return err;
	view_code_init(&input->code, path, input->profile);
	source = view_code_source(&input->code);
	input->is_made = true;
	return executed_stacks_init(&input->made, input->profile, &source);
}

static int samples_load(struct input *input)
{
	int err = profile_holds_check(input->profile, DOMAIN_SAMPLES);

	return err ? err : profile_need(input->profile, READS | DOMAIN_SAMPLES);
}

struct inputs {
	struct input of[2];
};

static void inputs_deinit(struct inputs *inputs)
{
	input_deinit(&inputs->of[0]);
	input_deinit(&inputs->of[1]);
}

static int inputs_load(struct inputs *inputs, char *const paths[2], bool total, bool *ret_exact)
{
	struct input *a = &inputs->of[0], *b = &inputs->of[1];
	int err = view_profile_open(paths[0], &a->profile);

	err = err ? err : view_profile_open(paths[1], &b->profile);
	if (err)
		return err;
	*ret_exact = is_of_executed(a) && is_of_executed(b);
	err = *ret_exact ? executed_load(a, paths[0], total) : samples_load(a);
	if (err)
		return err;
	return *ret_exact ? executed_load(b, paths[1], total) : samples_load(b);
}

static int difference_show(const struct command *command, const struct view_options *options,
			   char *const paths[2])
{
	AUTO(inputs_deinit) struct inputs inputs = {};
	AUTO(table_destroy_auto) struct table *table = NULL;
	const struct view_request *wish = &options->request.wish;
	struct diff_request request = {
		.filter = wish->filter, /* lent */
		.lines = options->lines,
		.total = options->total,
		.significant_only = options->significant,
		.min_share = wish->min_share,
		.sort = wish->sort,
		.limit = wish->limit,
	};
	struct progress progress;
	int err;

	progress_begin(&progress, "comparing the profiles");
	err = inputs_load(&inputs, paths, options->total, &request.exact);
	if (err) {
		progress_end(&progress);
		return command_failure();
	}
	err = diff_run(input_profile(&inputs.of[0]), input_profile(&inputs.of[1]), &request,
		       &table);
	progress_end(&progress);
	if (err == -EINVAL)
		return command_usage_error(command);
	if (err || view_table_print(options, table))
		return command_failure();
	return EXIT_DONE;
}

int cmd_diff(const struct command *command, int argc, char **argv)
{
	AUTO(view_options_deinit) struct view_options options;
	int first, err = view_options_parse(&options, command, argc, argv, &first);

	if (!err && options.request.options.help)
		return command_help(command);
	if (!err && argc - first != 2)
		err = err_set(-EINVAL, "diff takes two profiles as arguments, the older one first");
	return err ? command_usage_error(command)
		   : difference_show(command, &options, argv + first);
}
