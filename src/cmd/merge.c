// SPDX-License-Identifier: BSD-2-Clause
/* assay merge: one profile made of several. */
#include "store/merge.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "cmd/cmd.h"
#include "values/hotlist.h"

static int arguments_check(const char *output, int count)
{
	if (!count)
		return err_set(-EINVAL, "merge takes the profiles as arguments");
	if (!output)
		return err_set(-EINVAL,
			       "merge needs a name for the merged profile: give it with -o");
	return 0;
}

int cmd_merge(const struct command *command, int argc, char **argv)
{
	const struct merge_options how = { .lists_merge = hotlist_blob_merge };
	AUTO(options_deinit) struct options options;
	const char *output = NULL;
	int first, err;

	options_init(&options, command->groups, &output);
	err = options_parse(&options, OPTIONS_ANYWHERE, argc, argv, &first);
	if (!err && options.help)
		return command_help(command);
	err = err ? err : arguments_check(output, argc - first);
	if (err)
		return command_usage_error(command);
	err = merge_profiles((const char *const *)argv + first, (size_t)(argc - first), output,
			     &how);
	return err ? command_failure() : EXIT_DONE;
}
