/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Signs of life: what a command is doing that takes longer than a second, how far it is, and how
 * much longer it will take.
 *
 *	AUTO(progress_end) struct progress progress;
 *
 *	progress_begin(&progress, "finding names");
 *	for (i = 0; i < count; i++) {
 *		progress_set(&progress, i, count);
 *		...
 *	}
 *
 * One line on stderr, rewritten in place and gone at the end:
 *
 *	assay: finding names: 12,000 of 30,000 (40 %), about 3 s more
 *
 * Nothing is said in the first second, with --quiet, or where stderr is no terminal. A thread of
 * its own draws the line, so that it lives on while one call takes long, and so progress_set()
 * costs two stores. What log.h says in between stands above the line. Data for stdout comes after
 * progress_end().
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct progress {
	char what[128];
	uint64_t began; /* clock_monotonic() */
	_Atomic uint64_t done, total; /* total 0: it is not known */
	struct progress *outer; /* what it is a part of: shown again when this one ends */
};

/* what: "finding names". A step may begin within another, in the same thread. */
void progress_begin(struct progress *progress, const char *what, ...)
	__attribute__((format(printf, 2, 3)));
/* Whether the line is shown; otherwise numbers that are only for it need not be computed. */
bool progress_is_seen(void);
/* From any thread. */
void progress_set(struct progress *progress, uint64_t done, uint64_t total);
/* Replaces the text, for steps of which a number says too little. From any thread. */
void progress_tell(struct progress *progress, const char *what, ...)
	__attribute__((format(printf, 2, 3)));
void progress_end(struct progress *progress);

/* For log.c: the line makes room for another one, and waits until that is written. */
void progress_pause(void);
void progress_resume(void);
