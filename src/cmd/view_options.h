/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of the commands that read profiles, which the rows in options_read.c fill. */
#pragma once

#include "analyse/request.h"
#include "analyse/table.h"
#include "cmd/cmd.h"
#include "report/output.h"
#include "store/profile.h"

/* Begins with the request, whose rows have their fields there. */
struct view_options {
	struct request request;
	const char *input;
	const char *output; /* NULL: standard output */
	enum output_color color;
	size_t width; /* 0: the terminal's */
	bool no_pager;
	bool tui; /* report */
	uint32_t live; /* report: a process whose calls are recorded now; 0: none */
	bool att; /* annotate */
	bool lines, total, significant; /* diff */
	bool no_comm, off_cpu, binary; /* export */
	enum call_cost cost; /* export */
};

/*
 * Takes the options in; argv[*ret] and what follows are the arguments. -EINVAL: they are wrong.
 * view_options_deinit() is due in either case.
 */
int view_options_parse(struct view_options *options, const struct command *command, int argc,
		       char **argv, int *ret);
void view_options_deinit(struct view_options *options);

/* Opens a profile; one whose recording was killed is completed first. */
int view_profile_open(const char *path, struct profile **ret);
/* Prints the table as the options say. */
int view_table_print(const struct view_options *options, const struct table *table);
