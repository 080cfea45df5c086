/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is sampled: everything, or some processes with all their threads and later children, on some
 * CPUs or on all.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/array.h"

struct targets {
	bool everything; /* every process of the machine */
	/* a child of ours that has not called exec yet, and is a target from then on; 0: none */
	pid_t command;
	ARRAY(pid_t) pids; /* processes that run already */
	ARRAY(pid_t) tids; /* the threads that these had when they were found; the command */
	ARRAY(int) cpus; /* at least one */
};

void targets_deinit(struct targets *targets);

/* cpus NULL: all that are online. */
int targets_cpus_set(struct targets *targets, const int *cpus, size_t count);
/* -EPERM: it is another user's, and only own processes can be sampled. */
/* Whether it is another user's, or hides from its own; never for root. */
bool targets_is_foreign(pid_t pid);
int targets_process_add(struct targets *targets, pid_t pid, bool own_only);
void targets_command_set(struct targets *targets, pid_t pid);
/* Adds a thread; false: it was known. */
bool targets_thread_add(struct targets *targets, pid_t tid);
