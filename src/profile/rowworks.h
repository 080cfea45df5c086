/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compresses rows in a thread of its own: finding paths and compressing them take about as long, and whoever records should
 * not wait for the second. Rows come back in the order they went in.
 *
 *	job = rowworks_place(works)		NULL: all places are taken; collect first
 *	sequence_job_prepare(job, ...)
 *	rowworks_submit(works)
 *	job = rowworks_collect(works, wait)	the oldest, once it is done; NULL: none, or not yet
 *	rowworks_release(works)			its place is free again
 */
#pragma once

#include <stdbool.h>

#include "profile/sequence.h"

struct rowworks;

/* threaded: false does the work in rowworks_submit(). */
void rowworks_create(bool threaded, struct rowworks **ret);
/* What was not collected is forgotten. */
void rowworks_destroy(struct rowworks *works);

struct sequence_job *rowworks_place(struct rowworks *works);
void rowworks_submit(struct rowworks *works);
struct sequence_job *rowworks_collect(struct rowworks *works, bool wait);
void rowworks_release(struct rowworks *works);

size_t rowworks_memory(const struct rowworks *works);
