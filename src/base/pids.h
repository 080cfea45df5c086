/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes and threads in pid namespaces of their own: by which numbers we know them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The process knows itself by another number than we do. */
bool pids_differ(pid_t pid);
/*
 * A process but this one that calls itself `inner`, in another pid namespace than ours, and maps
 * memory of that inode that an engine shares with us; 0: there is none.
 */
pid_t pids_find(pid_t inner, uint64_t inode, pid_t but);
/* A thread of a process, by what it calls itself; 0: there is none. */
pid_t pids_thread(pid_t pid, pid_t inner);
/* What the process calls itself; 0: it is gone. */
pid_t pids_inner(pid_t pid);
