/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sink turns records into rows of the profile. Samples, values, executed code, calls, waits and
 * marks have a sink each. Each sink makes one recording of the profile.
 *
 * Sources hand their records to a sink by the sink's own functions (samples_count(), values_run(),
 * ...). What all sinks have in common is how their work gets into the profile, and that is this
 * interface. The recorder calls the functions, all from one thread.
 *
 * Every function may be NULL, except totals() of a sink that has a recording. Functions that return
 * int return 0 or a negative errno.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/rows.h"

/* The kind of a sink that adds to the recording of another sink, or writes another file. */
#define SINK_NO_RECORDING RECORDING_KIND_COUNT

enum { SINK_LOSSES_MAX = 32 };

struct sink_loss {
	const char *reason; /* a name that does not change; see docs/profile-format.md */
	const char *text; /* the same for people */
	uint64_t count;
};

/* What a recording holds; everything that was seen is either kept or lost. */
struct sink_totals {
	uint64_t kept;
	size_t loss_count;
	struct sink_loss losses[SINK_LOSSES_MAX]; /* those above 0 */
};

struct sink {
	void *ctx; /* given to every function */
	enum recording_kind kind; /* of the profile's recording that it makes */

	/*
	 * Does some work that was put off, when no source has more to deliver. last: all of it.
	 * Sets *ret_more if there may be more of it; leaves it alone otherwise.
	 */
	int (*work)(void *ctx, bool last, bool *ret_more);
	/* Writes what it keeps in memory. Comes before each commit; last: recording has ended. */
	int (*flush)(void *ctx, bool last);
	/*
	 * What the sink has written so far, and what was lost: seen = kept + lost holds in the file
	 * at any time.
	 */
	void (*totals)(void *ctx, struct sink_totals *ret);

	/* Adds locations that need names, when everything has been flushed for the last time. */
	int (*name)(void *ctx);
	/* Writes what can only be known when locations have names. */
	int (*complete)(void *ctx);

	void (*destroy)(void *ctx);
};

/* Adds a loss unless its count is 0. */
void sink_totals_add(struct sink_totals *totals, const char *reason, const char *text,
		     uint64_t count);
uint64_t sink_totals_lost(const struct sink_totals *totals);
