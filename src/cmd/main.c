// SPDX-License-Identifier: BSD-2-Clause
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log.h"
#include "base/option_text.h"
#include "cmd/cmd.h"

static void overview_print(FILE *file)
{
	fputs("usage: assay COMMAND [options]\n\n", file);
	for (const struct command *command = commands; command->name; command++)
		help_row_print(command->name, command->summary, file);
	fputs("\n"
	      "  assay help COMMAND    how to use a command\n"
	      "  assay --version\n"
	      "\n"
	      "Where to begin:\n"
	      "  assay record -- COMMAND             sample a command of yours\n"
	      "  assay report                        see which functions took the time\n"
	      "  assay html                          see it in a browser: a flame graph and more\n"
	      "  assay record --serve -- COMMAND     see it there while it runs\n"
	      "  assay doctor                        see why something does not work here\n",
	      file);
}

static int command_unknown(const char *name)
{
	ARRAY(const char *) names = {};
	const char *nearest;

	for (const struct command *command = commands; command->name; command++)
		*array_push(&names) = command->name;
	*array_push(&names) = NULL;
	nearest = option_nearest(name, names.items);
	array_deinit(&names);
	if (nearest)
		log_error("'%s' is not a command of assay; did you mean '%s'?", name, nearest);
	else
		log_error("'%s' is not a command of assay; 'assay help' lists them", name);
	return EXIT_USAGE;
}

static int help(int argc, char **argv)
{
	const struct command *command = argc > 1 ? command_find(argv[1]) : NULL;

	if (argc > 1 && !command)
		return command_unknown(argv[1]);
	if (command)
		return command_help(command);
	overview_print(stdout);
	return command_output_check();
}

static bool is_one_of(const char *text, const char *a, const char *b)
{
	return !strcmp(text, a) || !strcmp(text, b);
}

static void on_file_size(int number)
{
}

/*
 * A file that may not grow is an error like others. A handler, unlike SIG_IGN, ends at an exec: the
 * programs that are run have what they would have without us.
 */
static void file_size_handle(void)
{
	struct sigaction action = { .sa_handler = on_file_size, .sa_flags = SA_RESTART }, old;

	if (sigaction(SIGXFSZ, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
		sigaction(SIGXFSZ, &action, NULL);
}

/*
 * No file that is opened gets the number of a standard stream that is closed, where messages would
 * be written into it. Reading and writing there fail as before, and programs that are executed have
 * it closed.
 */
static void closed_streams_fill(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

int main(int argc, char **argv)
{
	const struct command *command;

	closed_streams_fill();
	file_size_handle();
	setlocale(LC_CTYPE, "");
	if (argc < 2) {
		overview_print(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "help"))
		return help(argc - 1, argv + 1);
	if (is_one_of(argv[1], "--help", "-h"))
		return help(1, argv);
	if (is_one_of(argv[1], "--version", "-V")) {
		puts("assay " ASSAY_VERSION);
		return command_output_check();
	}
	command = command_find(argv[1]);
	return command ? command->run(command, argc - 1, argv + 1) : command_unknown(argv[1]);
}
