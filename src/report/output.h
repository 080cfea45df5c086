/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a report goes: a file that appears only when it is whole, a pager, or standard output. */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/newfile.h"

struct output {
	FILE *file; /* write here */
	bool terminal; /* a person looks at it, directly or through the pager */
	char *path; /* NULL: standard output */
	struct newfile target; /* with path: the file, which gets its name at the end */
	pid_t pager; /* 0: none */
};

/* path NULL: standard output, through a pager when wanted and it is a terminal. */
int output_open(struct output *output, const char *path, bool pager);
/*
 * Ends the output. ok false: the content is not whole, and a file is not left behind. A reader who
 * went away (head, a pager that was quit) is no error.
 */
int output_close(struct output *output, bool ok);

/* 0, or why not all that was written has left; a reason that came earlier is found again. */
int output_stream_check(FILE *file);

enum output_color { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };
/* AUTO: on a terminal, unless NO_COLOR is set or TERM is dumb. */
bool output_color(const struct output *output, enum output_color wish);
/* wish, or else $COLUMNS, or else the terminal's width; 0: not limited. */
size_t output_width(const struct output *output, size_t wish);
