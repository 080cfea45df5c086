/* SPDX-License-Identifier: BSD-2-Clause */
/* Translates the ids of processes and threads between their own pid namespace and ours. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Whether the pid that the process sees of itself differs from ours. */
bool pids_differ(pid_t pid);
/*
 * Finds the process, other than `but`, whose pid is `inner` in another pid namespace than ours, and
 * which maps the shared memory with that inode; 0: there is none.
 */
pid_t pids_find(pid_t inner, uint64_t inode, pid_t but);
/* Our tid of a thread, given the tid that it sees itself; 0: there is none. */
pid_t pids_thread(pid_t pid, pid_t inner);
/* The pid that the process sees itself; 0: it is gone. */
pid_t pids_inner(pid_t pid);
/*
 * Whether the thread was killed or ends, though it may not have got to its end yet; also if it is
 * gone.
 */
bool pids_is_ending(pid_t pid, pid_t tid);
