/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What becomes of rows, in threads of its own: whoever records should not wait for it. A row goes through two steps. The first takes
 * rows in order, one at a time, the second several at once. Rows come back in the order they went in.
 *
 *	job = rowworks_place(works)		below 0: all places are taken; collect first
 *	...					fill what belongs to the job
 *	rowworks_submit(works)
 *	job = rowworks_collect(works, wait)	the oldest, once it is done; below 0: none, or not yet
 *	rowworks_release(works)			its place is free again
 *
 * Who would have to wait for a row works, too; and whoever else has nothing better to do can help.
 */
#pragma once

#include <stdbool.h>

#include "base/relay.h"

enum {
	ROWWORKS_JOBS = 8,
	ROWWORKS_THREADS = 2,
	ROWWORKS_WORKERS = ROWWORKS_THREADS + 1, /* with who waits */
};

struct rowworks;

/* worker: below ROWWORKS_WORKERS; no other has the same number meanwhile. */
typedef void rowworks_step_fn(void *context, int job, unsigned worker);

/* threaded: false does the work in rowworks_submit(). relay: whose reserve the threads are; NULL: there are CPUs for all. */
void rowworks_create(bool threaded, struct relay *relay, rowworks_step_fn *first,
		     rowworks_step_fn *second, void *context, struct rowworks **ret);
/* What was not collected is forgotten. */
void rowworks_destroy(struct rowworks *works);

int rowworks_place(struct rowworks *works);
void rowworks_submit(struct rowworks *works);
int rowworks_collect(struct rowworks *works, bool wait);
void rowworks_release(struct rowworks *works);
/* A step of some row, by the caller. False: there is nothing to do now. */
bool rowworks_help(struct rowworks *works);
