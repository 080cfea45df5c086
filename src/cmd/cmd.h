/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The commands. What they are called and what they are for is data, in commands.c, and so are the
 * options that they take (options.h). The overview, the help, the completion of shells and the
 * option lists of the manual come from it. The files of the commands hold what follows from the
 * options, and exit codes.
 */
#pragma once

#include "base/option.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* What the arguments of a command are, for completion. */
enum command_arguments {
	ARGUMENTS_NONE,
	ARGUMENTS_COMMAND, /* another command with its own arguments, which ends the options */
	ARGUMENTS_FILES,
	ARGUMENTS_NAMES, /* one of the names that command.names gives */
};

struct command {
	const char *name; /* NULL: the end of the commands */
	const char *summary; /* one line of the overview */
	const char *usage; /* what may follow the name; several forms are separated by line feeds */
	const char *about; /* what the help says before the options */
	const struct option_group *groups;
	enum command_arguments arguments;
	/*
	 * The index-th name that the argument may have; *ret_summary says what it is. NULL: the
	 * end.
	 */
	const char *(*names)(size_t index, const char **ret_summary);
	/* Gets the name of the command as argv[0]; returns the exit code. */
	int (*run)(const struct command *command, int argc, char **argv);
};

/* In the order of the overview. */
extern const struct command commands[];

/* NULL: there is none. */
const struct command *command_find(const char *name);
/* Prints the help; returns the exit code. */
int command_help(const struct command *command);
/* Prints the sentence that was set, and where the help is; returns EXIT_USAGE. */
int command_usage_error(const struct command *command);
/* Prints the sentence that was set; returns EXIT_FAILED. */
int command_failure(void);
/* Whether everything went to standard output; returns the exit code. */
int command_output_check(void);
/*
 * For a command that records, after it has forked the program, which keeps its own signal settings:
 * ignores SIGXFSZ and SIGPIPE, so that a file size limit and a closed pipe become ordinary errors.
 */
void command_signals_ignore(void);
/*
 * The profile is written: signals that end this process do so again. Those that came before are
 * dropped, because they asked for this end.
 */
void command_signals_allow(void);

int cmd_record(const struct command *command, int argc, char **argv);
int cmd_ctl(const struct command *command, int argc, char **argv);
int cmd_trace(const struct command *command, int argc, char **argv);
int cmd_count(const struct command *command, int argc, char **argv);
int cmd_calls(const struct command *command, int argc, char **argv);
int cmd_report(const struct command *command, int argc, char **argv);
int cmd_annotate(const struct command *command, int argc, char **argv);
int cmd_diff(const struct command *command, int argc, char **argv);
int cmd_merge(const struct command *command, int argc, char **argv);
int cmd_export(const struct command *command, int argc, char **argv);
int cmd_html(const struct command *command, int argc, char **argv);
int cmd_top(const struct command *command, int argc, char **argv);
int cmd_serve(const struct command *command, int argc, char **argv);
int cmd_doctor(const struct command *command, int argc, char **argv);
int cmd_completion(const struct command *command, int argc, char **argv);
