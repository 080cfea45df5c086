// SPDX-License-Identifier: BSD-2-Clause
/*
 * Stands in for what the commands that read profiles do not need, so that they can be tested
 * without a sampler.
 */
#include <stdio.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/live_profile.h"
#include "recorder/symbolise.h"
#include "store/store.h"

int cmd_calls(const struct command *command, int argc, char **argv)
{
	return EXIT_FAILED;
}

int cmd_record(const struct command *command, int argc, char **argv)
{
	return EXIT_FAILED;
}

int cmd_ctl(const struct command *command, int argc, char **argv)
{
	return EXIT_FAILED;
}

int cmd_trace(const struct command *command, int argc, char **argv)
{
	return EXIT_FAILED;
}

int cmd_top(const struct command *command, int argc, char **argv)
{
	return EXIT_FAILED;
}

int cmd_serve(const struct command *command, int argc, char **argv)
{
	return EXIT_FAILED;
}

int cmd_count(const struct command *command, int argc, char **argv)
{
	return EXIT_FAILED;
}

int cmd_doctor(const struct command *command, int argc, char **argv)
{
	return EXIT_FAILED;
}

/* Only marks the profile finished. */
int symbolise_unfinished(const char *path)
{
	AUTO(store_destroy_auto) struct store *store = NULL;
	int err = store_reopen(path, &store);

	fputs("symbolise_unfinished\n", stderr);
	return err ? err : store_finish(store);
}

int live_profile_make(uint32_t pid, struct live_profile *ret)
{
	return -1;
}

void live_profile_remove(struct live_profile *profile)
{
}
