// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/cmd.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/option_text.h"
#include "report/output.h"

const struct command *command_find(const char *name)
{
	for (const struct command *command = commands; command->name; command++)
		if (!strcmp(command->name, name))
			return command;
	return NULL;
}

static void usage_print(const struct command *command)
{
	AUTO(free_ptr) char *copy = mem_strdup(command->usage);
	char *rest = copy, *form;
	const char *head = "usage:";

	while ((form = strsep(&rest, "\n"))) {
		printf("%s assay %s%s%s\n", head, command->name, *form ? " " : "", form);
		head = "      ";
	}
}

int command_help(const struct command *command)
{
	const char *name, *summary;

	usage_print(command);
	printf("\n%s\n", command->about);
	for (size_t i = 0; command->names && (name = command->names(i, &summary)); i++) {
		if (!i)
			putchar('\n');
		help_row_print(name, summary, stdout);
	}
	if (!command->groups[0].title)
		putchar('\n');
	options_help_print(command->groups, stdout);
	return command_output_check();
}

int command_usage_error(const struct command *command)
{
	log_error("%s; see 'assay help %s'", err_text(), command->name);
	return EXIT_USAGE;
}

int command_failure(void)
{
	log_error("%s", err_text());
	return EXIT_FAILED;
}

int command_output_check(void)
{
	int err = output_stream_check(stdout);

	if (err)
		log_error("standard output: cannot be written: %s", strerror(err));
	return err ? EXIT_FAILED : EXIT_DONE;
}

void command_signals_ignore(void)
{
	signal(SIGPIPE, SIG_IGN);
}

void command_signals_allow(void)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	const struct timespec now = {};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		sigaddset(&set, ends[i]);
	while (sigtimedwait(&set, NULL, &now) > 0)
		;
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}
