// SPDX-License-Identifier: BSD-2-Clause
/*
 * A sink: waits, and what threads and processors were charged. Waits become rows as they come: the
 * store adds them up. Of threads, sums come that only grow: the newest replace those before.
 *
 * Invariants
 * 1. The sum of `total` over a thread's waits of a cause is its metric of that cause and that of
 *    its tasks, but for waits that were lost; when recording ends, waits that go on are kept as far
 *    as they have come.
 * 2. `lifetime` is the sum of a thread's times.
 * 3. When recording has ended, the sum of a metric over threads is its sum over processors.
 */
#include "recorder/waits_sink.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"
#include "base/mem.h"
#include "recorder/stacks.h"
#include "recorder/tasks.h"

struct waits_sink {
	struct recorder *recorder;
	struct store *store;
	struct loadmap *loadmap;
	struct locations *locations;
	struct stacks *stacks;
	struct tasks *tasks;
	uint32_t max_depth;
	struct map by_hash; /* hash to stack id */
	uint64_t readings; /* the source's */
	ARRAY(struct thread_cpu) last; /* by processor: last intervals of threads that go on */
	struct wait_tally tally; /* the source's */
	uint64_t kept;
	uint64_t open; /* kept ones that still went on when recording ended */
};

static const char *const cause_names[] = {
#define X(name, json, text) json,
	WAIT_CAUSES(X)
#undef X
};

static const char *const metric_names[] = {
#define X(name, json, unit, text) [THREAD_##name] = json,
	THREAD_TIMES(X) THREAD_COUNTERS(X)
#undef X
#define X(name, json, text) [THREAD_OFF_##name] = "off_" json,
		WAIT_CAUSES(X)
#undef X
			[THREAD_SYSTEM_CALLS] = "system_calls",
};

const char *thread_metric_name(enum thread_metric metric)
{
	return metric_names[metric];
}

void waits_sink_create(struct recorder *recorder, struct samples *samples, uint32_t max_depth,
		       struct waits_sink **ret)
{
	struct waits_sink *sink = mem_zalloc(sizeof(*sink));

	sink->recorder = recorder;
	sink->store = recorder_store(recorder);
	sink->loadmap = recorder_loadmap(recorder);
	sink->locations = recorder_locations(recorder);
	sink->stacks = samples_stacks(samples);
	sink->max_depth = max_depth;
	tasks_create(&sink->tasks);
	*ret = sink;
}

void waits_sink_destroy(struct waits_sink *sink)
{
	if (!sink)
		return;
	map_deinit(&sink->by_hash);
	array_deinit(&sink->last);
	tasks_destroy(sink->tasks);
	free(sink);
}

/* --- Stacks ----------------------------------------------------------------------------------- */

int waits_sink_stack(struct waits_sink *sink, const struct sample_stack *stack)
{
	const struct sample_record *record = &stack->record;
	struct stack_frames frames = {
		.kernel = stack->frames,
		.kernel_count = stack->kernel_count,
		.user = stack->frames + stack->kernel_count,
		.user_count = stack->user_count,
		.end = stack->end,
	};
	struct loadmap_process *process =
		loadmap_process_at(sink->loadmap, record->image.tgid, record->time);
	struct stack_id id;
	int err = stacks_add(sink->stacks, process, record->time, &frames, &id);

	if (!err)
		*map_at(&sink->by_hash, stack->hash, NULL) = id.v;
	return err;
}

int waits_sink_dump(struct waits_sink *sink, const struct sample_dump *dump)
{
	const struct sample_record *record = &dump->record;
	struct loadmap_process *process =
		loadmap_process_at(sink->loadmap, record->image.tgid, record->time);
	struct stack_memory memory = stack_memory_of_dump(dump, sink->max_depth);
	enum stack_end end;
	struct stack_id id;
	int err = stacks_walk(sink->stacks, process, record->time, &memory, &end, &id);

	if (!err)
		*map_at(&sink->by_hash, waits_dump_hash(record->time, record->tid), NULL) = id.v;
	return err;
}

static struct stack_id stack_find(const struct waits_sink *sink, uint64_t hash)
{
	const uint64_t *id = hash ? map_find(&sink->by_hash, hash) : NULL;

	return (struct stack_id){ id ? (uint32_t)*id : 0 };
}

/* --- Waits ------------------------------------------------------------------------------------ */

/* Where the object lies, if that is the memory of a module: it may have a name there. */
static int place_find(struct waits_sink *sink, const struct loadmap_process *process,
		      uint64_t object, struct location_id *ret)
{
	struct module_id module;
	uint64_t address;

	if (!object || !loadmap_data_find(process, object, &module, &address))
		return 0;
	return locations_add(sink->locations, module, address, ret);
}

static struct thread_id thread_find(struct waits_sink *sink, uint32_t tgid, uint32_t tid,
				    uint64_t time)
{
	return loadmap_thread(sink->loadmap, loadmap_process_at(sink->loadmap, tgid, time), tid,
			      time);
}

/*
 * A thread is found by the time when it began to run its program, as in waits_sink_thread(): a wait
 * in the middle of an exec belongs to the old program.
 */
int waits_sink_count(struct waits_sink *sink, const struct wait_key *key,
		     const struct wait_count *count)
{
	struct loadmap_process *process = loadmap_process_at(sink->loadmap, key->tgid, key->begun);
	struct store_wait row = {
		.thread = loadmap_thread(sink->loadmap, process, key->tid, key->begun),
		.cause = cause_names[key->cause < WAIT_CAUSE_COUNT ? key->cause : WAIT_OTHER],
		.stack = stack_find(sink, key->stack),
		.waker_stack = stack_find(sink, key->waker_stack),
		.object = key->object,
		.count = count->count,
		.total = count->total,
		.longest = count->longest,
		.queued = count->queued,
	};
	int err = place_find(sink, process, key->object, &row.place);

	if (key->waker == WAKER_TASK)
		row.waker = thread_find(sink, key->waker_tgid, key->waker_tid, count->last);
	if (!err)
		err = store_add(sink->store, STORE_TABLE_wait, &row);
	if (!err)
		sink->kept += count->count;
	return err;
}

/* --- Threads ---------------------------------------------------------------------------------- */

static uint64_t since(uint64_t from, uint64_t to)
{
	return to > from ? to - from : 0;
}

/* Adds what the thread has been doing up to the time. */
static void sums_complete(const struct thread_slot *slot, uint64_t time, uint64_t *sums)
{
	uint32_t cause = slot->cause < WAIT_CAUSE_COUNT ? slot->cause : WAIT_OTHER;
	uint64_t off = slot->off_since, woken = slot->woken;

	if (slot->running_since) {
		sums[THREAD_ON_CPU] += since(slot->running_since, time);
	} else if (off) {
		if (cause == WAIT_PREEMPTED || !woken || woken > time)
			woken = time;
		sums[THREAD_OFF_PREEMPTED + cause] += since(off, woken);
		sums[THREAD_QUEUED] += since(woken > off ? woken : off, time);
	} else if (!slot->record.time) {
		sums[THREAD_QUEUED] += since(slot->begun, time); /* it has yet to run */
	}
}

/* A metric of which there is nothing has a row only if it may have one already. */
static int metrics_put(struct waits_sink *sink, struct thread_id thread, const uint64_t *sums,
		       uint64_t lifetime, bool replace)
{
	struct store_thread_metric row = { .thread = thread,
					   .metric = "lifetime",
					   .amount = lifetime };
	int err = store_thread_metric_put(sink->store, &row);

	for (unsigned i = 0; i < THREAD_METRIC_COUNT && !err; i++) {
		row.metric = metric_names[i];
		row.amount = sums[i];
		if (sums[i] || replace)
			err = store_thread_metric_put(sink->store, &row);
	}
	return err;
}

/* A wait that goes on when recording ends. */
static int open_wait_keep(struct waits_sink *sink, const struct thread_slot *slot, uint64_t time)
{
	uint64_t sums[THREAD_METRIC_COUNT] = {};
	struct wait_key key = {
		.begun = slot->begun,
		.stack = slot->stack,
		.object = slot->object,
		.tgid = slot->record.image.tgid,
		.tid = slot->record.tid,
		.cause = slot->cause,
	};
	struct wait_count count = { .count = 1, .last = time };

	if (slot->running_since || !slot->off_since)
		return 0;
	sums_complete(slot, time, sums);
	for (unsigned i = 0; i < WAIT_CAUSE_COUNT; i++)
		count.total += sums[THREAD_OFF_PREEMPTED + i];
	count.longest = count.total;
	count.queued = sums[THREAD_QUEUED];
	sink->open++;
	return waits_sink_count(sink, &key, &count);
}

void waits_sink_task(struct waits_sink *sink, const struct task_notice *notice)
{
	tasks_notice(sink->tasks, notice);
}

static uint64_t times_of(const uint64_t *sums)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < THREAD_TIME_COUNT; i++)
		all += sums[i];
	return all;
}

/* The task that a row belongs to. */
struct task_row {
	struct waits_sink *sink;
	const struct thread_slot *slot;
};

static int task_put(void *ctx, const struct task *task)
{
	const struct task_row *row = ctx;
	const struct sample_record *record = &row->slot->record;
	struct loadmap *loadmap = row->sink->loadmap;
	struct loadmap_process *process =
		loadmap_process_at(loadmap, record->image.tgid, row->slot->begun);
	struct thread_id id =
		loadmap_task(loadmap, process, record->tid, task->name, task->begun, task->ended);

	return metrics_put(row->sink, id, task->sums, times_of(task->sums), false);
}

static struct thread_cpu *open_at(struct waits_sink *sink, uint32_t cpu)
{
	while (sink->last.count <= cpu)
		*array_push(&sink->last) = (struct thread_cpu){};
	return &sink->last.items[cpu];
}

/* Adds what sums_complete() has added to the processor where the thread was last charged. */
static void open_interval_keep(struct waits_sink *sink, const struct thread_slot *slot,
			       const uint64_t *sums)
{
	struct thread_cpu *open = open_at(sink, slot->cpu);

	for (unsigned i = 0; i < THREAD_METRIC_COUNT; i++)
		open->sums[i] += sums[i] - slot->sums[i];
}

int waits_sink_cpu(struct waits_sink *sink, uint32_t cpu, const struct thread_cpu *charged)
{
	const struct thread_cpu *open = open_at(sink, cpu);
	struct store_cpu_metric row = { .cpu = cpu };
	int err = 0;

	for (unsigned i = 0; i < THREAD_METRIC_COUNT && !err; i++) {
		row.metric = metric_names[i];
		row.amount = charged->sums[i] + open->sums[i];
		if (row.amount)
			err = store_cpu_metric_put(sink->store, &row);
	}
	return err;
}

int waits_sink_thread(struct waits_sink *sink, const struct thread_slot *slot, uint64_t time,
		      bool last)
{
	uint64_t sums[THREAD_METRIC_COUNT];
	struct thread_id thread =
		thread_find(sink, slot->record.image.tgid, slot->record.tid, slot->begun);
	uint64_t lifetime = since(slot->begun, time);
	struct task_row row = { sink, slot };
	bool split;
	int err = 0;

	memcpy(sums, slot->sums, sizeof(sums));
	sums_complete(slot, time, sums);
	if (last)
		open_interval_keep(sink, slot, sums);
	split = last && tasks_settle(sink->tasks, slot, time, sums, task_put, &row, &err);
	if (split)
		lifetime = times_of(sums);
	err = err ? err : metrics_put(sink, thread, sums, lifetime, split);
	return err || !last ? err : open_wait_keep(sink, slot, time);
}

/* --- The recorder's side ---------------------------------------------------------------------- */

void waits_sink_tally_set(struct waits_sink *sink, const struct wait_tally *tally,
			  uint64_t readings)
{
	sink->tally = *tally;
	sink->readings = readings;
}

static int flush(void *ctx, bool last)
{
	struct waits_sink *sink = ctx;
	const struct {
		const char *metric, *unit;
		uint64_t total;
	} metrics[] = {
		{ "without_stack", "waits", sink->tally.stacks_lost },
		{ "threads_lost", "threads", sink->tally.threads_lost },
		{ "missed_switches", "switches", sink->tally.missed },
		{ "switches", "switches", sink->tally.runs },
		{ "cost", "ns", sink->tally.nanoseconds },
		{ "open", "waits", sink->open },
		{ "readings", "threads", sink->readings },
		{ "notices_lost", "notices", sink->tally.notices_lost },
		{ "tasks_merged", "tasks", tasks_merged(sink->tasks) },
	};
	int err = 0;

	for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]) && !err; i++)
		err = recorder_metric_set(sink->recorder, RECORDING_WAITS, metrics[i].metric,
					  metrics[i].unit, metrics[i].total);
	return err;
}

static void totals(void *ctx, struct sink_totals *ret)
{
	const struct waits_sink *sink = ctx;

	ret->kept = sink->kept;
	sink_totals_add(ret, "counts_full", "table of waits was full (raise --max-stacks)",
			sink->tally.lost);
}

static void destroy(void *ctx)
{
	waits_sink_destroy(ctx);
}

struct sink waits_sink_interface(struct waits_sink *sink)
{
	return (struct sink){
		.ctx = sink,
		.kind = RECORDING_WAITS,
		.flush = flush,
		.totals = totals,
		.destroy = destroy,
	};
}
