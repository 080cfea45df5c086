/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Trees of calls as they are now, of a process that an assay calls records meanwhile: as a source
 * of a recorder of our own, which makes a profile of one moment.
 *
 * The process and who records it share memory: that of hooks and of Java's agent
 * (wire/call_area.h), or of the engine (wire/stream.h). It has no name, but whoever records has it
 * open. Neither of them is disturbed, or knows. Nothing in the memory is trusted.
 */
#pragma once

#include <sys/types.h>

#include "recorder/calls_sink.h"

struct live_calls_totals {
	const char *events; /* who builds the trees, as a recording of calls calls it */
	bool timed;
	uint64_t threads; /* that run and have called something */
	uint64_t bad; /* trees that made no sense, or were changed all the time */
};

/*
 * The trees are copied here, and delivered in the first round. pid: a process that is recorded; of
 * the one that records, all its processes. -ESRCH: there is no such process. -ENOENT: its calls are
 * not recorded.
 */
int live_calls_add(struct recorder *recorder, struct calls_sink *calls, pid_t pid,
		   struct live_calls_totals *ret);
