/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Profiles in the formats of others. Samples that were lost are part of each, as an entry "[lost: reason]", so that the
 * totals are those of the reports; with a filter they are left out, as nobody knows whose they were.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "analyse/filter.h"
#include "store/profile.h"

struct export_options {
	struct filter filter; /* symbols and modules choose the samples whose stack has such code */
	bool no_comm; /* collapsed: stacks do not begin with the name of the thread */
	bool binary; /* blocks: numbers instead of text */
};

/* Errors of the stream are the caller's to look at. */
typedef int (*export_fn)(const struct profile *profile, const struct export_options *options,
			 FILE *file);

struct export_format {
	const char *name;
	const char *summary;
	export_fn run;
	bool binary; /* not for a terminal */
	bool trace; /* of executed code; otherwise of samples */
	bool order; /* of the order of execution, which must have been loaded */
};

/* Ends with an entry without a name. */
extern const struct export_format export_formats[];
/* NULL: no such format. */
const struct export_format *export_find(const char *name);

int export_blocks(const struct profile *profile, const struct export_options *options, FILE *file);
int export_collapsed(const struct profile *profile, const struct export_options *options,
		     FILE *file);
int export_lcov(const struct profile *profile, const struct export_options *options, FILE *file);
int export_pprof(const struct profile *profile, const struct export_options *options, FILE *file);
