// SPDX-License-Identifier: BSD-2-Clause
/* Views of who ran: processes and threads; and of what was not kept: losses. */
#include <stdlib.h>

#include "analyse/forest.h"
#include "analyse/meta.h"
#include "analyse/names.h"
#include "analyse/views.h"
#include "base/mem.h"

struct task {
	uint32_t index; /* of the process or thread */
	uint64_t self, kernel;
};

static int task_order(const void *left, const void *right)
{
	const struct task *a = left, *b = right;

	if (a->self != b->self)
		return a->self < b->self ? 1 : -1;
	return (a->index > b->index) - (a->index < b->index);
}

/* By node, whether samples there are selected by code; NULL: all. */
static bool *nodes_selected(const struct profile *profile, const struct filter *filter)
{
	AUTO(forest_destroy_auto) struct forest *forest = NULL;
	bool *selected;

	if (!filter_has_code(filter))
		return NULL;
	forest = forest_create(profile, filter, FOREST_CODE_SAMPLES);
	selected = mem_zalloc(profile->stack_count + 1);
	for (size_t i = 0; i < profile->stack_count; i++)
		selected[i] = forest->own[i] > 0;
	return selected;
}

static uint64_t tasks_count(const struct profile *profile, const struct filter *filter,
			    bool by_process, struct task *tasks)
{
	AUTO(free_ptr) bool *nodes = nodes_selected(profile, filter);
	AUTO(free_ptr) bool *threads = mem_zalloc(profile->thread_count + 1);
	uint64_t selected = 0;

	for (uint32_t i = 0; i < profile->thread_count; i++)
		threads[i] = filter_thread(filter, profile, i);
	for (size_t i = 0; i < profile->sample_count; i++) {
		const struct profile_sample *sample = &profile->samples[i];
		uint32_t index = by_process ? profile->threads[sample->thread].process
					    : sample->thread;

		if (!threads[sample->thread] || (nodes && !nodes[sample->stack]))
			continue;
		tasks[index].self += sample->count;
		tasks[index].kernel += sample->kernel;
		selected += sample->count;
	}
	return selected;
}

/* Processes or threads with samples, the busiest first. */
static struct task *tasks_create(const struct profile *profile, const struct view_request *request,
				 bool by_process, struct table *table, size_t *ret_count)
{
	size_t all = by_process ? profile->process_count : profile->thread_count, used = 0;
	struct task *tasks = mem_zalloc((all + 1) * sizeof(*tasks));

	table_totals_set(table, profile, 0);
	table->totals.selected = tasks_count(profile, &request->filter, by_process, tasks);
	for (uint32_t i = 0; i < all; i++) {
		tasks[i].index = i;
		if (!tasks[i].self)
			continue;
		if (share_of(tasks[i].self, profile->seen) < request->min_share)
			table->omitted++;
		else
			tasks[used++] = tasks[i];
	}
	qsort(tasks, used, sizeof(*tasks), task_order);
	*ret_count = used;
	return tasks;
}

enum { SELF, SHARE, KERNEL, TASK_COLUMNS };

#define TASK_COLUMN_LIST                                                                            \
	[SELF] = { "self", "Samples", COLUMN_COUNT }, [SHARE] = { "share", "Share", COLUMN_SHARE }, \
	[KERNEL] = { "kernel", "Kernel", COLUMN_COUNT }

static struct cell *task_row_add(struct table *table, const struct task *task)
{
	struct cell *row = table_row_add(table);

	row[SELF] = cell_number(task->self);
	row[SHARE] = cell_real(share_of(task->self, table->totals.seen));
	row[KERNEL] = cell_number(task->kernel);
	return row;
}

enum {
	P_PID = TASK_COLUMNS,
	P_PPID,
	P_UID,
	P_COMM,
	P_EXE,
	P_GID,
	P_EUID,
	P_EGID,
	P_CGROUP,
	P_COLUMNS
};

static const struct column process_columns[] = {
	TASK_COLUMN_LIST,
	[P_PID] = { "pid", "PID", COLUMN_INTEGER },
	[P_PPID] = { "ppid", "PPID", COLUMN_INTEGER },
	[P_UID] = { "uid", "UID", COLUMN_INTEGER },
	[P_COMM] = { "comm", "Command", COLUMN_TEXT },
	[P_EXE] = { "exe", "Program", COLUMN_TEXT, .elastic = true },
	[P_GID] = { "gid", "", COLUMN_INTEGER, COLUMN_DATA },
	[P_EUID] = { "euid", "", COLUMN_INTEGER, COLUMN_DATA },
	[P_EGID] = { "egid", "", COLUMN_INTEGER, COLUMN_DATA },
	[P_CGROUP] = { "cgroup", "", COLUMN_TEXT, COLUMN_DATA },
};

/* -1: unknown. */
static struct cell cell_identity(int64_t id)
{
	return id < 0 ? (struct cell){} : cell_integer(id);
}

int view_processes(const struct profile *profile, const struct view_request *request,
		   struct table **ret)
{
	struct table *table = table_create("processes", process_columns, P_COLUMNS);
	size_t count;
	AUTO(free_ptr) struct task *tasks = tasks_create(profile, request, true, table, &count);

	for (size_t i = 0; i < count; i++) {
		const struct profile_process *process = &profile->processes[tasks[i].index];
		struct cell *row = task_row_add(table, &tasks[i]);

		row[P_PID] = cell_integer(process->pid);
		row[P_PPID] = cell_integer(process->ppid);
		row[P_UID] = cell_identity(process->uid);
		row[P_GID] = cell_identity(process->gid);
		row[P_EUID] = cell_identity(process->euid);
		row[P_EGID] = cell_identity(process->egid);
		row[P_COMM] = cell_text(process->comm ? process->comm : "");
		row[P_EXE] = cell_text_or_unset(process->exe);
		row[P_CGROUP] = cell_text_or_unset(process->cgroup);
	}
	*ret = table;
	return 0;
}

enum { T_PID = TASK_COLUMNS, T_TID, T_UID, T_PROCESS, T_COMM, T_COLUMNS };

static const struct column thread_columns[] = {
	TASK_COLUMN_LIST,
	[T_PID] = { "pid", "PID", COLUMN_INTEGER },
	[T_TID] = { "tid", "TID", COLUMN_INTEGER },
	[T_UID] = { "uid", "UID", COLUMN_INTEGER },
	[T_PROCESS] = { "process", "Process", COLUMN_TEXT, .elastic = true },
	[T_COMM] = { "comm", "Thread", COLUMN_TEXT, .elastic = true },
};

int view_threads(const struct profile *profile, const struct view_request *request,
		 struct table **ret)
{
	struct table *table = table_create("threads", thread_columns, T_COLUMNS);
	size_t count;
	AUTO(free_ptr) struct task *tasks = tasks_create(profile, request, false, table, &count);

	for (size_t i = 0; i < count; i++) {
		const struct profile_thread *thread = &profile->threads[tasks[i].index];
		const struct profile_process *process = &profile->processes[thread->process];
		struct cell *row = task_row_add(table, &tasks[i]);

		row[T_PID] = cell_integer(process->pid);
		row[T_TID] = cell_integer(thread->tid);
		row[T_UID] = cell_identity(process->uid);
		row[T_PROCESS] = cell_text(process->comm ? process->comm : "");
		row[T_COMM] = cell_text(thread->comm ? thread->comm : "");
	}
	*ret = table;
	return 0;
}

enum { X_COUNT, X_SHARE, X_KIND, X_REASON, X_TEXT, X_COLUMNS };

static const struct column loss_columns[] = {
	[X_COUNT] = { "count", "Count", COLUMN_COUNT },
	[X_SHARE] = { "share", "Share", COLUMN_SHARE },
	[X_KIND] = { "kind", "What", COLUMN_TEXT },
	[X_REASON] = { "reason", "Reason", COLUMN_TEXT },
	[X_TEXT] = { "text", "Meaning", COLUMN_TEXT, .elastic = true },
};

static void loss_row_add(struct table *table, const char *kind, const char *reason,
			 const char *text, uint64_t count)
{
	struct cell *row = table_row_add(table);

	row[X_COUNT] = cell_number(count);
	row[X_SHARE] = cell_real(share_of(count, table->totals.seen));
	row[X_KIND] = cell_text(kind);
	row[X_REASON] = cell_text_or_unset(reason);
	row[X_TEXT] = cell_text_or_unset(text);
}

int view_losses(const struct profile *profile, const struct view_request *request,
		struct table **ret)
{
	struct table *table = table_create("losses", loss_columns, X_COLUMNS);
	bool is_trace = profile_meta(profile, META_TOOL);

	table_totals_set(table, profile, profile->kept);
	loss_row_add(table, "seen", NULL,
		     is_trace ? "runs that threads executed"
			      : "times the sampler ran for a sample that was asked for",
		     profile->seen);
	loss_row_add(table, "kept", NULL,
		     is_trace ? "runs in this profile" : "samples in this profile", profile->kept);
	for (size_t i = 0; i < profile->loss_count; i++)
		loss_row_add(table, "lost", profile->losses[i].name, profile->losses[i].text,
			     profile->losses[i].count);
	for (size_t i = 0; i < profile->stack_end_count; i++)
		loss_row_add(table, "stack_end", profile->stack_ends[i].name,
			     profile->stack_ends[i].text, profile->stack_ends[i].count);
	*ret = table;
	return 0;
}
