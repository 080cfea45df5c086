// SPDX-License-Identifier: BSD-2-Clause
/*
 * Invariants
 * 1. The sums of a thread's tasks and its own are, after tasks_settle(), the thread's: each change
 *    has one payee.
 * 2. A kernel thread is its tid and when its slot began: a tid that comes again, or a thread that
 *    executes another program, has another entry.
 * 3. Tasks that lie within each other end in the reverse order. While one runs, those around it are
 *    charged nothing.
 */
#include "recorder/tasks.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"
#include "base/mem.h"

/* A kernel thread. */
struct worker {
	struct reuse_entry entry;
	struct task own; /* what it uses between tasks */
	struct task *innermost; /* that has begun and not ended; NULL: none */
	uint32_t unnamed; /* within that: begun, and not told apart */
	uint64_t seen[THREAD_METRIC_COUNT]; /* handed out so far */
	ARRAY(struct task *) all;
};

struct tasks {
	struct map workers; /* slot to struct worker */
	uint64_t merged;
};

void tasks_create(struct tasks **ret)
{
	*ret = mem_zalloc(sizeof(**ret));
}

static void worker_destroy(struct worker *worker)
{
	array_each(&worker->all, task)
		free(*task);
	array_deinit(&worker->all);
	free(worker);
}

void tasks_destroy(struct tasks *tasks)
{
	if (!tasks)
		return;
	map_each(&tasks->workers, slot)
		worker_destroy((struct worker *)(uintptr_t)slot->value);
	map_deinit(&tasks->workers);
	free(tasks);
}

static uint64_t key_of(uint32_t tid, uint64_t begun)
{
	return hash64_pair(tid, begun);
}

static struct worker *worker_of(struct tasks *tasks, const struct task_notice *notice)
{
	bool fresh;
	uint64_t *slot = map_at(&tasks->workers, key_of(notice->record.tid, notice->begun), &fresh);

	if (fresh) {
		struct worker *worker = mem_zalloc(sizeof(*worker));

		worker->entry.own = &worker->own.turn;
		*slot = (uintptr_t)worker;
	}
	return (struct worker *)(uintptr_t)*slot;
}

/* A reading that is behind the last one changes nothing: the next one is ahead again. */
static void change_charge(struct worker *worker, struct reuse_turn turn, const uint64_t *sums)
{
	struct task *payee = (struct task *)turn.payee;

	for (unsigned i = 0; i < THREAD_METRIC_COUNT; i++)
		if (sums[i] > worker->seen[i]) {
			payee->sums[i] += sums[i] - worker->seen[i];
			worker->seen[i] = sums[i];
		}
}

/* What the thread has used up to the notice. */
static void sums_complete(const struct task_notice *notice, uint64_t *ret)
{
	uint32_t cause = notice->cause < WAIT_CAUSE_COUNT ? notice->cause : WAIT_OTHER;

	memcpy(ret, notice->sums, sizeof(notice->sums));
	ret[THREAD_ON_CPU] += notice->on_cpu;
	ret[THREAD_QUEUED] += notice->queued;
	ret[THREAD_OFF_PREEMPTED + cause] += notice->off;
	for (unsigned i = 0; i < THREAD_COUNTER_COUNT; i++)
		ret[THREAD_VOLUNTARY + i] += notice->counters[i];
}

static void task_begin(struct tasks *tasks, struct worker *worker, const struct task_notice *notice)
{
	uint64_t sums[THREAD_METRIC_COUNT];
	struct task *task;

	if (worker->all.count >= TASKS_MAX) {
		worker->unnamed++;
		tasks->merged++;
		return;
	}
	task = mem_zalloc(sizeof(*task));
	task->begun = notice->record.time;
	memcpy(task->name, notice->name, sizeof(task->name) - 1);
	task->outer = worker->innermost;
	worker->innermost = task;
	*array_push(&worker->all) = task;
	sums_complete(notice, sums);
	change_charge(worker, reuse_start(&worker->entry, &task->turn), sums);
}

/* An end without a beginning is of a task that began before the recording. */
static void task_end(struct worker *worker, const struct task_notice *notice)
{
	uint64_t sums[THREAD_METRIC_COUNT];
	struct task *task = worker->innermost;

	if (worker->unnamed) {
		worker->unnamed--;
		return;
	}
	if (!task)
		return;
	sums_complete(notice, sums);
	change_charge(worker, reuse_end(&worker->entry, &task->turn), sums);
	task->ended = notice->record.time;
	worker->innermost = task->outer;
	if (task->outer)
		reuse_start(&worker->entry, &task->outer->turn); /* from here on: no change yet */
}

void tasks_notice(struct tasks *tasks, const struct task_notice *notice)
{
	struct worker *worker = worker_of(tasks, notice);

	if (notice->begins)
		task_begin(tasks, worker, notice);
	else
		task_end(worker, notice);
}

static int tasks_tell(const struct worker *worker, uint64_t time, task_fn fn, void *ctx)
{
	int err = 0;

	array_each(&worker->all, task) {
		if (!(*task)->ended)
			(*task)->ended = time;
		err = err ? err : fn(ctx, *task);
	}
	return err;
}

bool tasks_settle(struct tasks *tasks, const struct thread_slot *slot, uint64_t time,
		  uint64_t *sums, task_fn fn, void *ctx, int *ret_err)
{
	uint64_t key = key_of(slot->record.tid, slot->begun);
	uint64_t *found = map_find(&tasks->workers, key);
	struct worker *worker;

	if (!found)
		return false;
	worker = (struct worker *)(uintptr_t)*found;
	change_charge(worker, reuse_exit(&worker->entry), sums);
	*ret_err = tasks_tell(worker, time, fn, ctx);
	memcpy(sums, worker->own.sums, sizeof(worker->own.sums));
	map_remove(&tasks->workers, key);
	worker_destroy(worker);
	return true;
}

uint64_t tasks_merged(const struct tasks *tasks)
{
	return tasks->merged;
}
