/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Probes on user code, as definitions in tracefs: type PERF_TYPE_TRACEPOINT of perf_event_open().
 *
 * The kernel has another type for it, for which nothing has to be defined. But a counter of that
 * type must not be inherited: at a fork, and when a thread is created, the kernel reads the path
 * once more, from the memory of the process that forks, and lets the fork fail.
 */
#pragma once

#include <stdint.h>

#include "base/cleanup.h"

struct uprobes;

/* Definitions that others of us have left, who are no more, are removed. -EPERM, -ENOTSUP. */
int uprobes_create(struct uprobes **ret);
/* Nobody counts with them any more. */
void uprobes_destroy(struct uprobes *probes);
DEFINE_AUTO(struct uprobes, uprobes_destroy)

/* path: without spaces. *ret: the number for perf_event_open(). */
int uprobes_add(struct uprobes *probes, const char *path, uint64_t offset, uint64_t *ret);
