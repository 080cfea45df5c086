/* SPDX-License-Identifier: BSD-2-Clause */
/* Options that the commands which read profiles have in common, and what follows from them. */
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>

#include "analyse/table.h"
#include "analyse/views.h"
#include "report/output.h"
#include "store/profile.h"

enum view_option {
	VIEW_JSON = 1000,
	VIEW_COLOR,
	VIEW_WIDTH,
	VIEW_NO_PAGER,
	VIEW_PID,
	VIEW_TID,
	VIEW_UID,
	VIEW_COMM,
	VIEW_SYMBOL,
	VIEW_MODULE,
	VIEW_SORT,
	VIEW_LIMIT,
	VIEW_MIN_SHARE,
	VIEW_TOP,
	VIEW_ITEM,
	VIEW_MIN_INVARIANCE,
	VIEW_OWN, /* the command's own options begin here */
};

#define VIEW_SHORT_OPTIONS "hi:o:"

#define VIEW_FILE_OPTIONS                                                                          \
	{ "input", required_argument, NULL, 'i' }, { "output", required_argument, NULL, 'o' },     \
	{                                                                                          \
		"help", no_argument, NULL, 'h'                                                     \
	}
#define VIEW_SHOW_OPTIONS                                                                          \
	{ "json", no_argument, NULL, VIEW_JSON },                                                  \
		{ "color", required_argument, NULL, VIEW_COLOR },                                  \
		{ "width", required_argument, NULL, VIEW_WIDTH },                                  \
	{                                                                                          \
		"no-pager", no_argument, NULL, VIEW_NO_PAGER                                       \
	}
#define VIEW_FILTER_OPTIONS                                                                        \
	{ "pid", required_argument, NULL, VIEW_PID },                                              \
		{ "tid", required_argument, NULL, VIEW_TID },                                      \
		{ "uid", required_argument, NULL, VIEW_UID },                                      \
		{ "comm", required_argument, NULL, VIEW_COMM },                                    \
		{ "symbol", required_argument, NULL, VIEW_SYMBOL },                                \
	{                                                                                          \
		"module", required_argument, NULL, VIEW_MODULE                                     \
	}
#define VIEW_ROW_OPTIONS                                                                           \
	{ "sort", required_argument, NULL, VIEW_SORT },                                            \
		{ "limit", required_argument, NULL, VIEW_LIMIT },                                  \
	{                                                                                          \
		"min-share", required_argument, NULL, VIEW_MIN_SHARE                               \
	}

#define VIEW_FILE_HELP                                                                             \
	"  -i, --input FILE     the profile (assay.db)\n"                                          \
	"  -o, --output FILE    write to FILE, which appears only when it is whole\n"              \
	"  -h, --help           this text\n"
#define VIEW_SHOW_HELP                                                                             \
	"      --json           for programs\n"                                                    \
	"      --color WHEN     auto, always or never\n"                                           \
	"      --width N        columns of text (the terminal's)\n"                                \
	"      --no-pager       do not run $PAGER\n"
#define VIEW_FILTER_HELP                                                                           \
	"      --pid, --tid, --uid N[,N...]\n"                                                     \
	"                       samples of these processes, threads, users\n"                      \
	"      --comm PATTERN   samples of threads or processes with this name\n"                  \
	"      --symbol PATTERN, --module PATTERN\n"                                               \
	"                       this code; in views without code, samples with it on the stack\n"  \
	"A PATTERN is a part of the name; with * or ? in it, it must match the whole name.\n"
#define VIEW_ROW_HELP                                                                              \
	"      --sort COLUMN    by a column, named as in JSON\n"                                   \
	"      --limit N        the first N rows\n"                                                \
	"      --min-share S    rows from this share of all samples on: 0.01 or 1%\n"

struct view_options {
	const char *input;
	bool input_given;
	const char *output; /* NULL: standard output */
	struct view_request request;
	bool json;
	bool no_pager;
	bool help;
	enum output_color color;
	size_t width; /* 0: the terminal's */
	ARRAY(char *) owned;
};

#define VIEW_OPTIONS_INIT                                                                          \
	{                                                                                          \
		.input = "assay.db", .request.min_share = -1, .request.min_invariance = -1         \
	}

void view_options_deinit(struct view_options *options);

/*
 * The next option that is not common, or -1 at the end, or '?' after an error that has been set. Common ones are
 * taken in. long_options: the command's, made of the groups above and its own.
 */
int view_options_next(struct view_options *options, int argc, char **argv,
		      const struct option *long_options);
/* A whole number, 0 or more. */
int view_number_parse(const char *option, const char *text, int64_t *ret);
/* Prints the sentence that was set and where to find help; returns EXIT_USAGE. */
int view_usage_error(const char *command);
/* Prints the sentence that was set; returns EXIT_FAILED. */
int view_failure(void);

/* Loads a profile, with the order of execution or without; one whose collector was killed is completed first. */
int view_profile_load(const char *path, bool order, struct profile **ret);
/* Prints the table as the options say. */
int view_table_print(const struct view_options *options, const struct table *table);
