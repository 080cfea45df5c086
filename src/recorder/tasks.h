/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel charged to threads, told apart by the tasks that they worked on. A notice has a
 * thread's sums as of when a task begins or ends; the change since the last notice is charged to
 * the task that ran until then, by the rules of calls/reuse.h. What a thread uses between tasks is
 * charged to the thread itself.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "calls/reuse.h"
#include "wire/waits.h"

enum { TASKS_MAX = 1 << 14 }; /* of a thread; further ones are part of who begins them */

struct task {
	struct reuse_thread turn; /* first */
	struct task *outer; /* in which it was begun; NULL: none */
	uint64_t begun, ended; /* CLOCK_MONOTONIC */
	uint64_t sums[THREAD_METRIC_COUNT];
	char name[TASK_NAME_MAX];
};

struct tasks;

void tasks_create(struct tasks **ret);
void tasks_destroy(struct tasks *tasks);

void tasks_notice(struct tasks *tasks, const struct task_notice *notice);

/*
 * A thread has ended, or recording has, at the time and with these sums: hands them out. Calls fn
 * for each of its tasks, and leaves in sums what is the thread's own. false: it told of no task,
 * and sums are left alone.
 */
typedef int (*task_fn)(void *ctx, const struct task *task);
bool tasks_settle(struct tasks *tasks, const struct thread_slot *slot, uint64_t time,
		  uint64_t *sums, task_fn fn, void *ctx, int *ret_err);

/* How many tasks were not told apart, because a thread had too many. */
uint64_t tasks_merged(const struct tasks *tasks);
