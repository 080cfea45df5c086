/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that were compiled with hooks as a source of a recorder: the trees that their threads
 * build in shared memory (calls/recording.h) go to the sink of calls when a thread has ended.
 */
#pragma once

#include "calls/recording.h"
#include "recorder/calls_sink.h"

/*
 * Which routines get nodes of their own; the others count as part of their callers. wanted NULL:
 * all do.
 */
struct hooks_filter {
	bool (*wanted)(void *ctx, uint32_t pid, uint64_t routine);
	void *ctx;
};

/* The recording, the sink and what the filter needs must outlive the recorder. filter: or NULL. */
void hooks_source_add(struct recorder *recorder, struct call_recording *recording,
		      struct calls_sink *calls, const struct hooks_filter *filter);
