/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters of the kernel on code and data of a process: a uprobe for each place, and two hardware
 * breakpoints for each object, in each thread. Threads and processes that it creates afterwards are
 * counted with the thread that created them.
 */
#pragma once

#include "base/cleanup.h"
#include "recorder/probes/sites.h"

enum probe_what { PROBE_VISITS, PROBE_WRITES, PROBE_ACCESSES };

struct probes;

/*
 * The marks must not have been published, and outlive it. It counts from here on, in all threads.
 * -EPERM, -ENOSPC: what the kernel says, and what to do about it; otherwise the refusals of
 * sites.h.
 */
int probes_create(struct marks *marks, pid_t pid, struct probes **ret);
/* Counts in what the process has mapped since, too. Nobody else creates threads meanwhile. */
int probes_look(struct probes *probes);
void probes_destroy(struct probes *probes);
DEFINE_AUTO(struct probes, probes_destroy)

/* Threads that were created while probes were set, and may be counted twice or not at all. */
size_t probes_uncertain(const struct probes *probes);
/* What is read afterwards does not change any more. */
void probes_stop(struct probes *probes);
void probes_read(const struct probes *probes,
		 void (*tell)(void *ctx, uint32_t mark, pid_t tid, enum probe_what what,
			      uint64_t count),
		 void *ctx);
/* What a visit costs on this machine: ns, measured in this process; 0: it cannot be measured. */
double probes_cost(void);
