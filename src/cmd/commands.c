// SPDX-License-Identifier: BSD-2-Clause
/*
 * Every command. The options of each are in options_record.c, options_engine.c and options_read.c;
 * those of requests, which scripts and commands share, are in analyse/request.c. An option is one
 * row there, a field of the struct that it fills, and its use; a command is one entry of `commands`
 * and its file. What the manual pages list of options is made from here by `make docs`.
 */
#include "analyse/views.h"
#include "cmd/cmd.h"
#include "cmd/doctor.h"
#include "cmd/options.h"
#include "report/export.h"

/* clang-format off */

static const struct option_row doctor_rows[] = {
	{ "json", 0, OPTION_FLAG, OPTION_FIELD(struct doctor_options, json), .help = "Print JSON" },
	{ "verbose", 'v', OPTION_FLAG, OPTION_FIELD(struct doctor_options, verbose),
	  .help = "Print on standard error what the kernel says of programs that it refuses" },
	{},
};

static const struct option_group doctor_groups[] = { { .rows = doctor_rows }, {} };
static const struct option_row no_rows[] = { {} };
static const struct option_group no_groups[] = { { .rows = no_rows }, {} };

static const char *view_name(size_t index, const char **ret_summary)
{
	*ret_summary = views[index].summary;
	return views[index].name;
}

static const char *format_name(size_t index, const char **ret_summary)
{
	*ret_summary = export_formats[index].summary;
	return export_formats[index].name;
}

static const char *ctl_name(size_t index, const char **ret_summary)
{
	static const struct option_choice verbs[] = {
		{ "status", "tell what the recording does, and how much it has" },
		{ "pause", "take no samples until resume" },
		{ "resume", "go on after pause" },
		{ "snapshot", "write what was recorded up to now; with -o, copy the profile" },
		{ "set", "change freq, run-length, run-skip, run-share or run-every" },
		{},
	};

	*ret_summary = verbs[index].help;
	return verbs[index].name;
}

static const char *shell_name(size_t index, const char **ret_summary)
{
	static const struct option_choice shells[] = {
		{ "bash", "for a file in ~/.local/share/bash-completion/completions" },
		{ "zsh", "for a file _assay in a folder of $fpath" },
		{ "fish", "for a file in ~/.config/fish/completions" },
		{},
	};

	*ret_summary = shells[index].help;
	return shells[index].name;
}

const struct command commands[] = {
	{ "record", "sample a command, processes or the whole system",
	  "[options] [--] COMMAND [ARGUMENT...]\n"
	  "[options] -p PID[,PID...]\n"
	  "[options] --comm PATTERN | --cgroup PATH | --container ID\n"
	  "[options] -a | -C CPUS [[--] COMMAND]",
	  "Samples where a program spends its time, with kernel and user stacks. COMMAND is\n"
	  "profiled with everything that it starts.",
	  record_groups, ARGUMENTS_COMMAND, NULL, cmd_record },
	{ "ctl", "pause and adjust a recording that runs, or take a snapshot of it",
	  "[-i FILE | -p PID] status | pause | resume\n"
	  "[-i FILE | -p PID] snapshot [-o FILE]\n"
	  "[-i FILE | -p PID] set NAME=VALUE [NAME=VALUE...]",
	  "Talks to an assay record that runs, of the same user or by root.",
	  ctl_groups, ARGUMENTS_NAMES, ctl_name, cmd_ctl },
	{ "trace", "run a command in the engine, from its first instruction on",
	  "[options] [--] COMMAND [ARGUMENT...]\n"
	  "[options] -p PID",
	  "Runs a command in the engine: every instruction from the first one on. Or takes a\n"
	  "running process, with all its threads, and gives it back on an interrupt (Ctrl-C).",
	  trace_groups, ARGUMENTS_COMMAND, NULL, cmd_trace },
	{ "count", "count marked routines, lines and instructions, exactly",
	  "-m MARK [-m MARK...] [options] [--] COMMAND [ARGUMENT...]\n"
	  "-m MARK [-m MARK...] [options] -p PID\n"
	  "--recipe NAME=ARGUMENT [options] [--] COMMAND [ARGUMENT...]\n"
	  "--live PID [--add MARK] [--remove MARK] [--every TIME]",
	  "Runs a command in the engine, or takes a running process, and counts what is marked in\n"
	  "it: how often it was visited, and how many instructions were executed in it. Code that\n"
	  "is not marked runs without any counting.",
	  count_groups, ARGUMENTS_COMMAND, NULL, cmd_count },
	{ "calls", "every call, by thread and call path, with what it cost",
	  "[options] [--] COMMAND [ARGUMENT...]\n"
	  "[options] -p PID",
	  "Counts every call, by thread and call path, in any program and in the processes that\n"
	  "it starts. Methods of Java are counted by an agent in its virtual machine; a program\n"
	  "that was compiled with -finstrument-functions, -pg or -fpatchable-function-entry is\n"
	  "recorded by its hooks; others in the engine.",
	  calls_groups, ARGUMENTS_COMMAND, NULL, cmd_calls },
	{ "report", "what took the time: functions, lines, call graph, values, paths, losses",
	  "[VIEW] [options]",
	  "Prints one view of a profile: functions, unless another is named. VIEW may also be a\n"
	  "request such as 'functions?symbol=deflate*&limit=20'.\n"
	  "\n"
	  "Every percentage is of everything seen, what was lost included; of values, of those\n"
	  "received at the place; Runs% is of the runs begun.",
	  report_groups, ARGUMENTS_NAMES, view_name, cmd_report },
	{ "top", "what takes the time right now, on the terminal",
	  "[options]\n"
	  "[options] [--] COMMAND [ARGUMENT...]",
	  "Shows which functions, processes and threads take the time, renewed as it passes: of\n"
	  "the whole system, of processes, or of a command. The key h lists the others.",
	  top_groups, ARGUMENTS_COMMAND, NULL, cmd_top },
	{ "annotate", "the instructions of a function with their samples and values",
	  "SYMBOL [options]",
	  "Prints the instructions of a function with the samples and the values taken at each,\n"
	  "and its source lines where the files can be read. SYMBOL is the function's name, or a\n"
	  "part of it that only one function has.",
	  annotate_groups, ARGUMENTS_NONE, NULL, cmd_annotate },
	{ "diff", "what changed between two profiles", "[options] A B",
	  "Prints the shares of functions in profile A and profile B, the largest change first. A\n"
	  "change beyond three standard errors is marked as real; others are what sampling the\n"
	  "same program twice would show.",
	  diff_groups, ARGUMENTS_FILES, NULL, cmd_diff },
	{ "merge", "one profile made of several, of one machine or of many", "FILE... -o FILE",
	  "Makes one profile of several, which may be of several runs and machines. Counts,\n"
	  "losses and metrics are the sums; modules are the same if their build-ids are.",
	  merge_groups, ARGUMENTS_FILES, NULL, cmd_merge },
	{ "export", "a profile in the format of another tool", "FORMAT [options]",
	  "Writes a profile in another format. What was lost is exported as [lost: reason], so\n"
	  "that totals are those of the reports; with a filter it is left out.",
	  export_groups, ARGUMENTS_NAMES, format_name, cmd_export },
	{ "html", "a profile as one page for a browser: flame graph, tables, code, values",
	  "[options]\n"
	  "[options] OLDER NEWER",
	  "Writes one page that shows a profile in a browser: flame graph, tables, code and\n"
	  "values. It needs neither the profile nor a network. Of two profiles it also shows what\n"
	  "changed.",
	  html_groups, ARGUMENTS_FILES, NULL, cmd_html },
	{ "serve", "a profile, or a running recording, live in the browser",
	  "[options]\n"
	  "[options] --allow-start [--] COMMAND [ARGUMENT...]",
	  "Shows a profile in a browser on this machine, with the page of assay html. Of a\n"
	  "profile that is being recorded the page is renewed as it grows. The address has a\n"
	  "random token, without which nothing is shown.",
	  serve_groups, ARGUMENTS_COMMAND, NULL, cmd_serve },
	{ "doctor", "what this machine and user can do, and the remedy", "[options]",
	  "Tries what a recording needs, as the user who runs it, and says what to do where it\n"
	  "fails.",
	  doctor_groups, ARGUMENTS_NONE, NULL, cmd_doctor },
	{ "completion", "a script that completes commands and options in a shell", "SHELL",
	  "Prints a script by which a shell completes commands, options and their values. It is\n"
	  "installed with assay; this is for shells that do not look there.",
	  no_groups, ARGUMENTS_NAMES, shell_name, cmd_completion },
	{},
};
/* clang-format on */
