/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The running processes, with parent, name, control group and CPU time; for choosing what is
 * sampled.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/array.h"

enum { PROCESSES_COMM_MAX = 64 };

struct process_entry {
	pid_t pid, parent;
	char comm[PROCESSES_COMM_MAX];
	uint64_t ticks; /* of CPU time, user and kernel */
	bool chosen;
};

/* All of them, in the order of their pids, without our own. */
struct processes {
	ARRAY(struct process_entry) entries;
};

int processes_read(struct processes *processes);
void processes_deinit(struct processes *processes);

/* These mark entries as chosen, and return how many match, whether chosen before or not. */
size_t processes_choose_comm(struct processes *processes, const char *pattern);
/*
 * Everything in the control group and below; path: as /proc/PID/cgroup has it, or where it is
 * mounted.
 */
size_t processes_choose_cgroup(struct processes *processes, const char *path);
/* Everything in a control group that has the id, or the beginning of it, in its name. */
size_t processes_choose_container(struct processes *processes, const char *id);
bool processes_choose_pid(struct processes *processes, pid_t pid);
/* Chooses all descendants of chosen processes. */
void processes_choose_children(struct processes *processes);

/* -1: there is no such process. */
ssize_t processes_find(const struct processes *processes, pid_t pid);
