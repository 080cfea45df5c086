/* SPDX-License-Identifier: BSD-2-Clause */
/* What runs in a process of its own, for those who fork it. */
#pragma once

#include "symbols/worker.h"

/*
 * A process that was forked becomes one that holds nothing of its parent's: no handlers, no
 * descriptors but the one that is given, whose new number is returned.
 */
int worker_process_begin(int socket);
/* The worker. All descriptors but these two are closed. */
_Noreturn void worker_main(int fd, int socket, const char *path, bool with_dwarf,
			   const struct worker_limits *limits);
