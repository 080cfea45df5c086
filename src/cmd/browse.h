/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A profile on a terminal: the tables of assay report, to move about in, with the callers of a
 * function below it and its instructions one key away. Of a profile that is being recorded the
 * tables are renewed. Keys are perf's where perf has them.
 */
#pragma once

#include "cmd/served.h"

struct browse_options {
	const char *view; /* shown first */
	const char *const *views; /* those to go through, ended by NULL; NULL: every one there is */
	uint32_t window; /* of samples those of the last so many seconds; 0: of all */
	const char *title;
};

/* -ENOTTY: there is no terminal. Returns when the person quits. */
int browse_run(struct served *served, const struct browse_options *options);
