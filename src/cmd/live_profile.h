/* SPDX-License-Identifier: BSD-2-Clause */
/* A profile of one moment: of a process whose calls are being recorded. */
#pragma once

#include <stdint.h>

struct live_profile {
	char *folder; /* NULL: nothing was made */
	char *path;
	uint64_t threads; /* that run and have called something */
	uint64_t bad; /* those whose trees made no sense, or were changed all the time */
};

/*
 * pid: as for live_calls_add(). Lies in a folder of its own, until live_profile_remove(), which is
 * due in either case. -ENOENT: nothing is recorded, or nothing was called so far.
 */
int live_profile_make(uint32_t pid, struct live_profile *ret);
void live_profile_remove(struct live_profile *profile);
