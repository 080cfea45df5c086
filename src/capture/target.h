/* SPDX-License-Identifier: BSD-2-Clause */
/* What is profiled. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct capture_target {
	bool system_wide; /* every process; needs privilege */
	const pid_t *tids; /* otherwise these threads and what they create */
	size_t tid_count;
	const int *cpus; /* only these; NULL: all online ones */
	size_t cpu_count;
	bool enable_on_exec; /* the target is a child of ours that has not yet called exec */
};
