// SPDX-License-Identifier: BSD-2-Clause
#include <locale.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cmd/cmd.h"

struct command {
	const char *name;
	const char *summary;
	int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
#define X(name, summary) { #name, summary, cmd_##name },
	COMMANDS(X)
#undef X
};

enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

static void overview_print(FILE *file)
{
	fputs("usage: assay COMMAND [options]\n\n", file);
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		fprintf(file, "  %-10s %s\n", commands[i].name, commands[i].summary);
	fputs("\n"
	      "  assay help COMMAND    how to use a command\n"
	      "  assay --version\n"
	      "\n"
	      "The two to begin with:\n"
	      "  assay record -- COMMAND\n"
	      "  assay report\n",
	      file);
}

static const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

static size_t smallest(size_t a, size_t b, size_t c)
{
	size_t ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* Letters to insert, delete or replace to get from a to b; names longer than the row are as good as unlike. */
static size_t edit_distance(const char *a, const char *b)
{
	enum { LENGTH_MAX = 31 };
	size_t row[LENGTH_MAX + 1], length = strlen(b);

	if (length > LENGTH_MAX || strlen(a) > LENGTH_MAX)
		return LENGTH_MAX;
	for (size_t j = 0; j <= length; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= length; j++) {
			size_t above = row[j];

			row[j] = smallest(above + 1, row[j - 1] + 1,
					  diagonal + (a[i - 1] != b[j - 1]));
			diagonal = above;
		}
	}
	return row[length];
}

static int command_unknown(const char *name)
{
	const struct command *nearest = &commands[0];
	size_t best = SIZE_MAX;

	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		size_t distance = edit_distance(name, commands[i].name);

		if (distance < best) {
			best = distance;
			nearest = &commands[i];
		}
	}
	if (best <= 2 || !strncmp(nearest->name, name, strlen(name)))
		log_error("'%s' is not a command of assay; did you mean '%s'?", name,
			  nearest->name);
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
		return command->run(2, (char *[]){ argv[1], "--help", NULL });
	overview_print(stdout);
	return EXIT_DONE;
}

static bool is_one_of(const char *text, const char *a, const char *b)
{
	return !strcmp(text, a) || !strcmp(text, b);
}

int main(int argc, char **argv)
{
	const struct command *command;

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
		return EXIT_DONE;
	}
	command = command_find(argv[1]);
	return command ? command->run(argc - 1, argv + 1) : command_unknown(argv[1]);
}
