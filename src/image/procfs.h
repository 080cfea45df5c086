/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads processes that exist already from /proc, as events. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "image/events.h"

enum { PROCFS_COMM_MAX = 16 };

/*
 * Events for one process: FORK and COMM per thread, EXEC, IDENTITY, MMAP per executable mapping,
 * with time the given one (0: before the recording). Processes may vanish at any moment: that is no
 * error. -ESRCH: gone before anything was read.
 */
int procfs_process(pid_t pid, uint64_t time, event_fn fn, void *ctx);
/* Only the MMAP events of it; none when it has gone. */
int procfs_mappings(pid_t pid, uint64_t time, event_fn fn, void *ctx);
/*
 * Everything that the process maps, executable or not, in ascending order. path is "" where there
 * is none.
 */
typedef void (*procfs_area_fn)(void *ctx, const struct event_mmap *area, bool executable);
/* None when it has ended; an error: its mappings are there but may not be read. */
int procfs_areas(pid_t pid, procfs_area_fn fn, void *ctx);
/* All of these for every process. */
int procfs_all(uint64_t time, event_fn fn, void *ctx);
/* Thread ids of a process; *ret is the caller's to free. */
int procfs_threads(pid_t pid, pid_t **ret, size_t *ret_count);
/* uid, gid, effective ids, parent and cgroup path, as an IDENTITY event. */
int procfs_identity(pid_t pid, uint64_t time, event_fn fn, void *ctx);
/*
 * Path of a cgroup by its id in the unified hierarchy; NULL when unknown. Valid until the next
 * call.
 */
const char *procfs_cgroup_path(uint64_t id);
/* A thread's name; false: it has gone. */
bool procfs_comm(pid_t pid, pid_t tid, char ret[PROCFS_COMM_MAX]);
/*
 * The pid that the process itself sees: differs in a container. pid itself when that cannot be
 * told.
 */
pid_t procfs_namespace_pid(pid_t pid);
/* Whose the process is: root's, if its own user may not look into it; -1: it has gone. */
uid_t procfs_owner(pid_t pid);
/*
 * Whether the process is the caller's own in all of its user numbers, and the kernel lets its user
 * look into it. Then no rights of the recorder's file are needed to read its memory.
 */
bool procfs_is_own(pid_t pid);
