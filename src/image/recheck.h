/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A second look at what processes map, about once a second, in /proc/PID/maps of processes that are
 * sampled.
 *
 * The kernel's event stream tells of mmap() but not of munmap(), and hooks on munmap() would slow
 * down every system call or are not allowed on stock kernels. What replaces a mapping is in the
 * stream, so samples are never charged to a mapping that is gone; this keeps the load map's end
 * times true. It also finds mappings whose event the kernel dropped because its ring was full.
 */
#pragma once

#include <stdint.h>

#include "base/cleanup.h"
#include "image/loadmap.h"

struct recheck;

void recheck_create(struct loadmap *loadmap, struct recheck **ret);
void recheck_destroy(struct recheck *recheck);
DEFINE_AUTO(struct recheck, recheck_destroy)

/* The process was sampled since the last check. */
void recheck_note(struct recheck *recheck, uint32_t pid);
/*
 * Looks at a bounded number of the noted processes, those that have waited longest first, and ends
 * the mappings that are gone. fn is called for each of them; NULL: nothing is.
 */
int recheck_run(struct recheck *recheck, loadmap_changed_fn fn, void *ctx);
