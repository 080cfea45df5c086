/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The trees of calls, as they are now, of a process that another `assay calls` is recording; a
 * source of a recorder of our own, which makes a profile of one moment.
 *
 * The process and its recorder share memory: that of hooks and of Java's agent (wire/call_area.h),
 * or of the engine (wire/stream.h). The memory has no name, but the recorder has it open. Neither
 * process is disturbed. Everything in the memory is checked.
 */
#pragma once

#include <sys/types.h>

#include "recorder/calls_sink.h"

struct live_calls_totals {
	const char *events; /* what builds the trees, as a recording of calls names it */
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
