/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Profiles in the formats of other tools. Lost samples are part of each, as an entry "[lost:
 * reason]", so that the totals are those of the reports. With a filter they are left out, because
 * it is not known whether it would select them.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "analyse/views.h"
#include "base/option.h"
#include "store/profile.h"

struct export_options {
	struct filter filter; /* symbols and modules choose the samples whose stack has such code */
	bool no_comm; /* collapsed: stacks do not begin with the name of the thread */
	bool off_cpu; /* collapsed: microseconds that threads waited instead of samples */
	enum call_cost cost; /* collapsed, speedscope: of trees of calls */
	bool binary; /* blocks: numbers instead of text */
	bool executed; /* counts are of instructions: the profile is that of executed_stacks.h */
};

/* Errors of the stream are the caller's to look at. */
typedef int (*export_fn)(const struct profile *profile, const struct export_options *options,
			 FILE *file);

/* A row of formats.def. */
struct export_format {
	const char *name;
	const char *summary;
	export_fn run;
	unsigned needs; /* domains */
	unsigned takes; /* which filters and options it looks at: enum view_takes, export_takes */
	bool binary; /* not for a terminal */
	bool executed; /* of a profile that has executed code and no samples as well */
	export_fn run_calls; /* of a profile that has calls and no samples; NULL: there is none */
};

/* Options that only some formats take, besides filters. */
enum export_takes {
	EXPORT_TAKES_NO_COMM = 1 << 30,
	EXPORT_TAKES_BINARY = 1 << 29,
	EXPORT_TAKES_OFF_CPU = 1 << 28,
	EXPORT_TAKES_COST = 1 << 27,
};

/* Ends with an entry without a name. */
extern const struct export_format export_formats[];
/* NULL: no such format. */
const struct export_format *export_find(const char *name);
/* For groups of options: the formats that take a row. */
void export_takers(const struct option_row *row, struct strbuf *ret);

int export_collapsed_calls(const struct profile *profile, const struct export_options *options,
			   FILE *file);
int export_speedscope_calls(const struct profile *profile, const struct export_options *options,
			    FILE *file);

#define FORMAT(id, ...)                                                                            \
	int export_##id(const struct profile *profile, const struct export_options *options,       \
			FILE *file);
#include "report/formats.def"
