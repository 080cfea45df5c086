/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The subcommands: one file each, options and exit codes only. A command gets its own name as argv[0], prints its usage
 * on stdout for --help, and returns the exit code: 0 done, 1 failed, 2 wrong usage.
 */
#pragma once

/* In the order of the help text. A new command is one line here and one in meson.build. */
#define COMMANDS(X)                                                                                \
	X(record, "sample a command, processes or the whole system")                               \
	X(trace, "run a command in the engine, from its first instruction on")                     \
	X(report, "what took the time: functions, lines, call graph, threads, losses")             \
	X(annotate, "the instructions of a function with their samples")                           \
	X(diff, "what changed between two profiles")                                               \
	X(export, "a profile in the format of another tool")                                       \
	X(doctor, "what this machine and user can do, and the remedy")

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

#define X(name, summary) int cmd_##name(int argc, char **argv);
COMMANDS(X)
#undef X
