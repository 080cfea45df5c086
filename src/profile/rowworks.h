/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What becomes of rows, in threads of its own: whoever records should not wait for it. A row goes through steps that do not
 * depend on each other; each has a thread and takes the rows in order. Rows come back in the order they went in.
 *
 *	job = rowworks_place(works)		below 0: all places are taken; collect first
 *	...					fill what belongs to the job
 *	rowworks_submit(works)
 *	job = rowworks_collect(works, wait)	the oldest, once all steps are done; below 0: none, or not yet
 *	rowworks_release(works)			its place is free again
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { ROWWORKS_JOBS = 8, ROWWORKS_STEPS = 2 };

struct rowworks;

typedef void rowworks_step_fn(void *context, int job);

/* threaded: false does the work in rowworks_submit(). */
void rowworks_create(bool threaded, rowworks_step_fn *const steps[ROWWORKS_STEPS], void *context,
		     struct rowworks **ret);
/* What was not collected is forgotten. */
void rowworks_destroy(struct rowworks *works);

int rowworks_place(struct rowworks *works);
void rowworks_submit(struct rowworks *works);
int rowworks_collect(struct rowworks *works, bool wait);
void rowworks_release(struct rowworks *works);
