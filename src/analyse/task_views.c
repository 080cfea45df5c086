// SPDX-License-Identifier: BSD-2-Clause
/* Views of who ran: processes and threads; and of what was not kept: losses. */
#include "analyse/measure.h"
#include "analyse/meta.h"
#include "analyse/wait_views.h"
#include "base/clock.h"

/* -1: unknown. */
static struct cell cell_identity(int64_t id)
{
	return id < 0 ? (struct cell){} : cell_integer(id);
}

enum { P_PID, P_PPID, P_UID, P_COMM, P_EXE, P_GID, P_EUID, P_EGID, P_CGROUP, P_COLUMNS };

static const struct column process_columns[] = {
	[P_PID] = { "pid", "PID", COLUMN_INTEGER },
	[P_PPID] = { "ppid", "PPID", COLUMN_INTEGER, .spare = 2 },
	[P_UID] = { "uid", "UID", COLUMN_INTEGER, .spare = 1 },
	[P_COMM] = { "comm", "Command", COLUMN_TEXT, .elastic = true, .comfort = 15 },
	[P_EXE] = { "exe", "Program", COLUMN_TEXT, .elastic = true, .cut = CUT_PLACE },
	[P_GID] = { "gid", "", COLUMN_INTEGER, COLUMN_DATA },
	[P_EUID] = { "euid", "", COLUMN_INTEGER, COLUMN_DATA },
	[P_EGID] = { "egid", "", COLUMN_INTEGER, COLUMN_DATA },
	[P_CGROUP] = { "cgroup", "", COLUMN_TEXT, COLUMN_DATA },
};

static void process_fill(const struct profile *profile, const struct measured *from,
			 struct table *table, struct cell *row)
{
	const struct profile_process *process = &profile->processes[from->task];

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

int view_processes(const struct profile *profile, const struct view_request *request,
		   struct table **ret)
{
	static const struct shape shape = { "processes", BY_PROCESS, process_columns, P_COLUMNS,
					    process_fill };

	return measured_view(&shape, profile, request, ret);
}

enum { T_PID, T_TID, T_UID, T_PROCESS, T_COMM, T_COLUMNS };

static const struct column thread_columns[] = {
	[T_PID] = { "pid", "PID", COLUMN_INTEGER },
	[T_TID] = { "tid", "TID", COLUMN_INTEGER },
	[T_UID] = { "uid", "UID", COLUMN_INTEGER, .spare = 1 },
	[T_PROCESS] = { "process", "Process", COLUMN_TEXT, .elastic = true },
	[T_COMM] = { "comm", "Thread", COLUMN_TEXT, .elastic = true },
};

static void thread_fill(const struct profile *profile, const struct measured *from,
			struct table *table, struct cell *row)
{
	const struct profile_thread *thread = &profile->threads[from->task];
	const struct profile_process *process = &profile->processes[thread->process];

	row[T_PID] = cell_integer(process->pid);
	row[T_TID] = cell_integer(thread->tid);
	row[T_UID] = cell_identity(process->uid);
	row[T_PROCESS] = cell_text(process->comm ? process->comm : "");
	row[T_COMM] = cell_text(thread->comm ? thread->comm : "");
}

int view_threads(const struct profile *profile, const struct view_request *request,
		 struct table **ret)
{
	static const struct shape shape = { "threads", BY_THREAD, thread_columns, T_COLUMNS,
					    thread_fill };

	/* A thread's life is not kept by code; its samples are. */
	if (request->metric == METRIC_SAMPLES && profile_holds(profile, DOMAIN_WAITS) &&
	    !filter_has_code(&request->filter))
		return view_thread_times(profile, request, ret);
	return measured_view(&shape, profile, request, ret);
}

enum { X_COUNT, X_SHARE, X_RECORDING, X_KIND, X_REASON, X_TEXT, X_COLUMNS };

static const struct column loss_columns[] = {
	[X_COUNT] = { "count", "Count", COLUMN_COUNT },
	[X_SHARE] = { "share", "Share", COLUMN_SHARE },
	[X_RECORDING] = { "recording", "Recording", COLUMN_TEXT },
	[X_KIND] = { "kind", "What", COLUMN_TEXT },
	[X_REASON] = { "reason", "Reason", COLUMN_TEXT },
	[X_TEXT] = { "text", "Meaning", COLUMN_TEXT, .elastic = true },
};

/* The totals of one recording. */
struct recorded {
	const char *name;
	const char *seen_text, *kept_text;
	uint64_t seen, kept;
	const struct profile_named_count *losses;
	size_t loss_count;
};

static struct cell *loss_row_add(struct table *table, const struct recorded *recorded,
				 const char *kind, const char *reason, const char *text,
				 uint64_t count)
{
	struct cell *row = table_row_add(table);

	row[X_COUNT] = cell_number(count);
	row[X_SHARE] = cell_real(share_of(count, recorded->seen));
	row[X_RECORDING] = cell_text(recorded->name);
	row[X_KIND] = cell_text(kind);
	row[X_REASON] = cell_text_or_unset(reason);
	row[X_TEXT] = cell_text_or_unset(text);
	return row;
}

static void recorded_add(struct table *table, const struct recorded *recorded)
{
	loss_row_add(table, recorded, "seen", NULL, recorded->seen_text, recorded->seen);
	loss_row_add(table, recorded, "kept", NULL, recorded->kept_text, recorded->kept);
	for (size_t i = 0; i < recorded->loss_count; i++)
		loss_row_add(table, recorded, "lost", recorded->losses[i].name,
			     recorded->losses[i].text, recorded->losses[i].count);
}

static void stack_ends_add(struct table *table, const struct profile *profile,
			   const struct recorded *samples)
{
	for (size_t i = 0; i < profile->stack_end_count; i++)
		loss_row_add(table, samples, "stack_end", profile->stack_ends[i].reason,
			     profile->stack_ends[i].text, profile->stack_ends[i].count);
}

/* Things that were lost and are not what a recording counts; they have no share. */
static void others_add(struct table *table, const struct profile *profile, enum recording_kind kind,
		       const struct recorded *recorded)
{
	static const struct {
		enum recording_kind kind;
		const char *metric, *text;
		uint64_t unit; /* of the row, in that of the metric; 0: the same */
	} others[] = {
		{ RECORDING_SAMPLES, "process_events_lost",
		  "events of processes that the kernel dropped: names may be missing" },
		{ RECORDING_SAMPLES, METRIC_THINNED,
		  "samples kept in the weight of a later one: the recorder was behind (lower -F)" },
		{ RECORDING_SAMPLES, "identities_lost",
		  "times that a user and parent could not be told (raise --ring)" },
		{ RECORDING_SAMPLES, "children_lost",
		  "processes that could not be followed: there were too many" },
		{ RECORDING_SAMPLES, METRIC_PAUSED,
		  "milliseconds in which nothing was sampled: 'assay ctl pause'", NS_PER_MS },
		{ RECORDING_WAITS, "notices_lost",
		  "beginnings and ends of tasks: what they used is another task's (raise --ring)" },
		{ RECORDING_WAITS, "tasks_merged",
		  "tasks that are part of their thread: it had too many" },
		{ RECORDING_EXECUTED, "threads_refused",
		  "threads that ran without being recorded: there were too many" },
		{ RECORDING_EXECUTED, "threads_native",
		  "threads that left the engine, and were not recorded from then on" },
		{ RECORDING_MARKS, "threads_refused",
		  "threads that ran without being counted: there were too many" },
		{ RECORDING_MARKS, "threads_native",
		  "threads that left the engine, and were not counted from then on" },
		{ RECORDING_WAITS, "threads_lost",
		  "threads that were not counted: there were too many" },
		{ RECORDING_WAITS, "without_stack",
		  "waits kept whose stack found no room in the ring (raise --ring)" },
		{ RECORDING_WAITS, "missed_switches",
		  "switches that the kernel did not tell of, and that were made up for" },
	};
	uint64_t seen = profile_metric(profile, RECORDING_VALUES, METRIC_VALUES_SEEN);
	uint64_t kept = profile_metric(profile, RECORDING_VALUES, METRIC_VALUES_KEPT);

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		uint64_t count = profile_metric(profile, kind, others[i].metric);

		if (others[i].unit)
			count = (count + others[i].unit - 1) / others[i].unit;
		if (others[i].kind == kind && count)
			loss_row_add(table, recorded, "other", others[i].metric, others[i].text,
				     count)[X_SHARE] = (struct cell){};
	}
	if (kind == RECORDING_VALUES && seen > kept)
		loss_row_add(table, recorded, "other", "values_beyond_limit",
			     "values at places beyond the limit (raise --max-sites)",
			     seen - kept)[X_SHARE] = cell_real(share_of(seen - kept, seen));
}

/* A profile without any recording shows that nothing was sampled. */
static struct recorded recorded_of(const struct profile *profile, enum recording_kind kind)
{
	const struct profile_recording *recording = profile_recording(profile, kind);
	const struct recording_kind_row *row = recording_kind_row(kind);
	struct recorded recorded = { row->text, row->seen_text, row->kept_text };

	if (recording) {
		recorded.seen = recording->seen;
		recorded.kept = recording->kept;
		recorded.losses = recording->losses;
		recorded.loss_count = recording->loss_count;
	}
	return recorded;
}

int view_losses(const struct profile *profile, const struct view_request *request,
		struct table **ret)
{
	static const enum profile_domain domains[] = {
#define X(name, ...) DOMAIN_##name,
		RECORDING_KINDS(X)
#undef X
	};
	struct table *table = table_create("losses", loss_columns, X_COLUMNS);

	table_totals_set(table, profile, profile->kept);
	for (unsigned kind = 0; kind < RECORDING_KIND_COUNT; kind++) {
		struct recorded recorded = recorded_of(profile, (enum recording_kind)kind);

		if (!profile_holds(profile, domains[kind]))
			continue;
		recorded_add(table, &recorded);
		if (kind == RECORDING_SAMPLES)
			stack_ends_add(table, profile, &recorded);
		others_add(table, profile, (enum recording_kind)kind, &recorded);
	}
	*ret = table;
	return 0;
}
