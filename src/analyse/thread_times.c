// SPDX-License-Identifier: BSD-2-Clause
/*
 * Where the time of each thread went, as the kernel charged it: on a processor, queued for one, or
 * off for a cause. These add up to its lifetime; where they do not, the row says by how much.
 * And the same charges by the processor on which they were made.
 */
#include <stdlib.h>
#include <string.h>

#include "analyse/wait_views.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/mem.h"
#include "wire/waits.h"

#define MS_PER_NS 1e-6

/* Columns of the metrics, behind others. Times have two: ms for people, ns for programs. */
enum {
	OTHERS = 2 * THREAD_TIME_COUNT,
	METRIC_COLUMNS = OTHERS + THREAD_METRIC_COUNT - THREAD_TIME_COUNT,
};

// clang-format off
#define TIME(number, json, title)                                                                  \
	[FIRST + 2 * (number)] = { json "_ms", title, COLUMN_REAL, COLUMN_PEOPLE, false, true },   \
	[FIRST + 2 * (number) + 1] = { json "_ns", "", COLUMN_COUNT, COLUMN_DATA },
#define OFF(name, json, text) TIME(THREAD_OFF_##name, "off_" json, json)
#define COUNTER(name, json, unit, text)                                                            \
	[FIRST + OTHERS + THREAD_##name - THREAD_TIME_COUNT] = { json, json, COLUMN_COUNT,         \
								 .optional = true, .spare = 4 },
#define METRICS                                                                                    \
	TIME(THREAD_ON_CPU, "on_cpu", "On CPU")                                                    \
	TIME(THREAD_QUEUED, "queued", "Queued")                                                    \
	WAIT_CAUSES(OFF)                                                                           \
	THREAD_COUNTERS(COUNTER)                                                                   \
	[FIRST + OTHERS + THREAD_SYSTEM_CALLS - THREAD_TIME_COUNT] = { "system_calls", "Calls",    \
								       COLUMN_COUNT,               \
								       .optional = true,           \
								       .spare = 3 },
// clang-format on

enum {
	H_LIFETIME_MS,
	H_LIFETIME,
	H_PID,
	H_TID,
	H_UID,
	H_PROCESS,
	H_COMM,
	H_METRICS,
	H_SAMPLES = H_METRICS + METRIC_COLUMNS,
	H_UNACCOUNTED,
	H_COLUMNS,
};

#define FIRST H_METRICS
static const struct column thread_columns[] = {
	[H_LIFETIME_MS] = { "lifetime_ms", "Life ms", COLUMN_REAL, COLUMN_PEOPLE },
	[H_LIFETIME] = { "lifetime_ns", "", COLUMN_COUNT, COLUMN_DATA },
	[H_PID] = { "pid", "PID", COLUMN_INTEGER, .spare = 1 },
	[H_TID] = { "tid", "TID", COLUMN_INTEGER },
	[H_UID] = { "uid", "", COLUMN_INTEGER, COLUMN_DATA },
	[H_PROCESS] = { "process", "Process", COLUMN_TEXT, .elastic = true, .spare = 3,
			.comfort = 12 },
	[H_COMM] = { "comm", "Thread", COLUMN_TEXT, .elastic = true, .comfort = 12 },
	[H_SAMPLES] = { "samples", "Samples", COLUMN_COUNT, .optional = true, .spare = 2 },
	[H_UNACCOUNTED] = { "unaccounted_ns", "Unaccounted", COLUMN_INTEGER, .optional = true },
	METRICS
};
#undef FIRST

enum { C_CHARGED_MS, C_CHARGED, C_CPU, C_METRICS, C_COLUMNS = C_METRICS + METRIC_COLUMNS };

#define FIRST C_METRICS
static const struct column cpu_columns[] = {
	[C_CHARGED_MS] = { "charged_ms", "Charged ms", COLUMN_REAL, COLUMN_PEOPLE },
	[C_CHARGED] = { "charged_ns", "", COLUMN_COUNT, COLUMN_DATA },
	[C_CPU] = { "cpu", "CPU", COLUMN_INTEGER },
	METRICS
};
#undef FIRST

_Static_assert(sizeof(thread_columns) / sizeof(thread_columns[0]) == H_COLUMNS, "titles");
_Static_assert(sizeof(cpu_columns) / sizeof(cpu_columns[0]) == C_COLUMNS, "titles");

struct thread_times {
	uint32_t thread;
	uint64_t lifetime;
	uint64_t samples;
	uint64_t sums[THREAD_METRIC_COUNT];
};

/* -1: none of those that have a column. */
static int metric_find(const char *name)
{
	static const char *const names[] = {
#define X(name, json, unit, text) [THREAD_##name] = json,
		THREAD_TIMES(X) THREAD_COUNTERS(X)
#undef X
#define X(name, json, text) [THREAD_OFF_##name] = "off_" json,
			WAIT_CAUSES(X)
#undef X
				[THREAD_SYSTEM_CALLS] = "system_calls",
	};

	for (int i = 0; i < THREAD_METRIC_COUNT; i++)
		if (!strcmp(name, names[i]))
			return i;
	return -1;
}

/* By thread; those without any metric stay zero. */
static struct thread_times *times_collect(const struct profile *profile)
{
	struct thread_times *times = mem_zalloc((profile->thread_count + 1) * sizeof(*times));

	for (size_t i = 0; i < profile->thread_metric_count; i++) {
		const struct profile_thread_metric *row = &profile->thread_metrics[i];
		int metric = metric_find(row->metric);

		if (!strcmp(row->metric, "lifetime"))
			times[row->thread].lifetime += row->amount;
		else if (metric >= 0)
			times[row->thread].sums[metric] += row->amount;
	}
	for (size_t i = 0; i < profile->sample_count; i++)
		times[profile->samples[i].thread].samples += profile->samples[i].count;
	for (uint32_t i = 0; i < profile->thread_count; i++)
		times[i].thread = i;
	return times;
}

static int compare(const void *a, const void *b)
{
	const struct thread_times *left = a, *right = b;

	if (left->lifetime != right->lifetime)
		return left->lifetime < right->lifetime ? 1 : -1;
	return (left->thread > right->thread) - (left->thread < right->thread);
}

/* Returns the sum of all times. */
static uint64_t metrics_write(const uint64_t *sums, struct cell *cells)
{
	uint64_t all = 0;

	for (int i = 0; i < THREAD_TIME_COUNT; i++) {
		all += sums[i];
		if (sums[i] || i == THREAD_ON_CPU || i == THREAD_QUEUED)
			cells[2 * i] = cell_real((double)sums[i] * MS_PER_NS);
		cells[2 * i + 1] = cell_number(sums[i]);
	}
	for (int i = THREAD_TIME_COUNT; i < THREAD_METRIC_COUNT; i++)
		if (sums[i])
			cells[OTHERS + i - THREAD_TIME_COUNT] = cell_number(sums[i]);
	return all;
}

static void times_write(const struct thread_times *from, struct cell *row)
{
	int64_t left = (int64_t)(from->lifetime - metrics_write(from->sums, row + H_METRICS));

	row[H_LIFETIME_MS] = cell_real((double)from->lifetime * MS_PER_NS);
	row[H_LIFETIME] = cell_number(from->lifetime);
	if (left)
		row[H_UNACCOUNTED] = cell_integer(left);
}

static void row_write(const struct profile *profile, const struct thread_times *from,
		      struct table *table)
{
	const struct profile_thread *thread = &profile->threads[from->thread];
	const struct profile_process *process = &profile->processes[thread->process];
	struct cell *row = table_row_add(table);

	row[H_PID] = cell_integer(process->pid);
	row[H_TID] = cell_integer(thread->tid);
	if (process->uid >= 0)
		row[H_UID] = cell_integer(process->uid);
	row[H_PROCESS] = cell_text(process->comm ? process->comm : "");
	row[H_COMM] = cell_text(thread->comm ? thread->comm : "");
	times_write(from, row);
	if (from->samples)
		row[H_SAMPLES] = cell_number(from->samples);
}

int view_thread_times(const struct profile *profile, const struct view_request *request,
		      struct table **ret)
{
	AUTO(free_ptr) struct thread_times *times = times_collect(profile);
	struct table *table = table_create("threads", thread_columns, H_COLUMNS);
	uint64_t selected = 0, life = 0;

	qsort(times, profile->thread_count, sizeof(*times), compare);
	for (size_t i = 0; i < profile->thread_count; i++)
		life += times[i].lifetime;
	for (size_t i = 0; i < profile->thread_count; i++) {
		if (!times[i].lifetime ||
		    !filter_thread(&request->filter, profile, times[i].thread))
			continue;
		selected += times[i].samples;
		if (share_of(times[i].lifetime, life) < request->min_share)
			table->omitted++;
		else
			row_write(profile, &times[i], table);
	}
	table_totals_set(table, profile, selected);
	*ret = table;
	return 0;
}

/* --- By processor ----------------------------------------------------------------------------- */

struct cpu_times {
	uint32_t cpu;
	uint64_t charged; /* ns, of all times */
	uint64_t sums[THREAD_METRIC_COUNT];
};

struct cpus {
	ARRAY(struct cpu_times) all;
	struct map places; /* number of a processor to its place in all */
};

static void cpus_deinit(struct cpus *cpus)
{
	array_deinit(&cpus->all);
	map_deinit(&cpus->places);
}

static struct cpu_times *cpu_at(struct cpus *cpus, uint32_t cpu)
{
	bool fresh;
	uint64_t *place = map_at(&cpus->places, cpu, &fresh);

	if (fresh) {
		*place = cpus->all.count;
		*array_push(&cpus->all) = (struct cpu_times){ .cpu = cpu };
	}
	return &cpus->all.items[*place];
}

static void cpus_collect(const struct profile *profile, struct cpus *cpus)
{
	for (size_t i = 0; i < profile->cpu_metric_count; i++) {
		const struct profile_cpu_metric *row = &profile->cpu_metrics[i];
		struct cpu_times *times = cpu_at(cpus, row->cpu);
		int metric = metric_find(row->metric);

		if (metric < 0)
			continue;
		times->sums[metric] += row->amount;
		if (metric < THREAD_TIME_COUNT)
			times->charged += row->amount;
	}
}

static int cpu_compare(const void *a, const void *b)
{
	const struct cpu_times *left = a, *right = b;

	if (left->charged != right->charged)
		return left->charged < right->charged ? 1 : -1;
	return (left->cpu > right->cpu) - (left->cpu < right->cpu);
}

int view_cpus(const struct profile *profile, const struct view_request *request, struct table **ret)
{
	AUTO(cpus_deinit) struct cpus cpus = {};
	struct table *table = table_create("cpus", cpu_columns, C_COLUMNS);

	cpus_collect(profile, &cpus);
	if (cpus.all.count)
		qsort(cpus.all.items, cpus.all.count, sizeof(*cpus.all.items), cpu_compare);
	array_each(&cpus.all, times) {
		struct cell *row = table_row_add(table);

		row[C_CHARGED_MS] = cell_real((double)times->charged * MS_PER_NS);
		row[C_CHARGED] = cell_number(times->charged);
		row[C_CPU] = cell_integer(times->cpu);
		metrics_write(times->sums, row + C_METRICS);
	}
	table_totals_set(table, profile, 0);
	*ret = table;
	return 0;
}
