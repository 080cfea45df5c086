/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The row writer: a thread that takes rows through the upper layers and the coder, so that the
 * thread which drains the program does not wait for either. Rows are written in the order in which
 * they are submitted, and come back in the same order. What a row consists of is the owner's
 * business: a job is an index below ROW_WRITER_JOBS.
 *
 *	job = row_writer_place(writer)		below 0: all jobs are taken; collect one first
 *	...					the owner fills in what belongs to the job
 *	row_writer_submit(writer)
 *	job = row_writer_collect(writer, wait)	the oldest job, if it is written; else below 0
 *	row_writer_release(writer)		the job may be used again
 *
 * One thread is enough: finding paths takes about as long as everything that follows
 * (docs/design/paths.md).
 */
#pragma once

#include <stdbool.h>

enum { ROW_WRITER_JOBS = 8 };

struct row_writer;

typedef void row_writer_fn(void *context, int job);

/* threaded: if it is false, row_writer_submit() calls `write` itself. */
void row_writer_create(bool threaded, row_writer_fn *write, void *context, struct row_writer **ret);
/* Jobs that were not collected are forgotten. */
void row_writer_destroy(struct row_writer *writer);

int row_writer_place(const struct row_writer *writer);
void row_writer_submit(struct row_writer *writer);
int row_writer_collect(struct row_writer *writer, bool wait);
void row_writer_release(struct row_writer *writer);
