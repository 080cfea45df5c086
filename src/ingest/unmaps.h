/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mappings that went away. The kernel's event stream tells of mmap() but not of munmap(), and hooks on munmap() would
 * slow down every system call or are not allowed on stock kernels. What replaces a mapping is in the stream, so samples
 * are never charged to a mapping that is gone; this only keeps the load map's end times true, by looking at
 * /proc/PID/maps of sampled processes about once a second.
 */
#pragma once

#include <stdint.h>

#include "base/cleanup.h"
#include "ingest/loadmap.h"

struct unmaps;

void unmaps_create(struct loadmap *loadmap, struct unmaps **ret);
void unmaps_destroy(struct unmaps *unmaps);
DEFINE_AUTO(struct unmaps, unmaps_destroy)

/* The process was sampled since the last check. */
void unmaps_note(struct unmaps *unmaps, uint32_t pid);
/* Looks at a bounded number of the noted processes and ends the mappings that are gone. */
int unmaps_check(struct unmaps *unmaps);
