/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A small process that starts symbol readers (worker.h) for a large one: to fork a recorder that
 * has grown to some hundred megabytes takes as long as reading most files.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "symbols/worker.h"

/*
 * From here on, workers of this process are forked from what it is now. Begins count: for each
 * there is one end. Without it, or where it cannot be started, workers are forked as usual.
 */
void spawner_begin(void);
void spawner_end(void);

/* A worker whose end of the socket is given; it is a child of the caller. False: fork it. */
bool spawner_fork(int fd, int socket, const char *path, bool with_dwarf,
		  const struct worker_limits *limits, pid_t *ret);
