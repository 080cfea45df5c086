// SPDX-License-Identifier: BSD-2-Clause
/* assay html: a profile, or what changed between two, as one page for a browser. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/html.h"
#include "report/output.h"

static int page_output(const struct page_content *content, void *path)
{
	struct output output;
	int err = output_open(&output, path, false), close_err;

	if (err)
		return err;
	err = page_write(content, output.file);
	close_err = output_close(&output, err == 0);
	return err ? err : close_err;
}

static int paths_choose(const struct options *options, const struct html_options *wish, char **argv,
			int count, const char **ret)
{
	if (count == 0) {
		ret[0] = wish->input;
		return 0;
	}
	if (count != 2 || options_given(options, "input"))
		return err_set(-EINVAL,
			       "html takes one profile with -i, or two as arguments, the older "
			       "one first");
	ret[0] = argv[0];
	ret[1] = argv[1];
	return 0;
}

static int page_make(const struct html_options *wish, const char *const paths[], size_t count)
{
	struct page_wish page = wish->page;
	struct progress progress;
	int err;

	progress_begin(&progress, "making the page");
	page.progress = &progress;
	err = page_build(&page, paths, count, page_output, (void *)wish->output);
	progress_end(&progress);
	if (err)
		return command_failure();
	if (strcmp(wish->output, "-"))
		log_info("the page is %s; open it in a browser", wish->output);
	return EXIT_DONE;
}

int cmd_html(const struct command *command, int argc, char **argv)
{
	struct html_options wish = {};
	struct options options;
	const char *paths[2];
	int first, code, err;

	options_init(&options, command->groups, &wish);
	err = options_parse(&options, OPTIONS_ANYWHERE, argc, argv, &first);
	if (!err && options.help)
		code = command_help(command);
	else if (err || paths_choose(&options, &wish, argv + first, argc - first, paths))
		code = command_usage_error(command);
	else
		code = page_make(&wish, paths, argc - first == 2 ? 2 : 1);
	options_deinit(&options);
	return code;
}
