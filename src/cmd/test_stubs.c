// SPDX-License-Identifier: BSD-2-Clause
/* Stands in for what the commands that read profiles do not need, so that they can be tested without a sampler. */
#include <stdio.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "ingest/symbolise.h"
#include "store/store.h"

int cmd_record(int argc, char **argv)
{
	return EXIT_FAILED;
}

int cmd_trace(int argc, char **argv)
{
	return EXIT_FAILED;
}

int cmd_doctor(int argc, char **argv)
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
