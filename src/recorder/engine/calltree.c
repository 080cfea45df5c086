// SPDX-License-Identifier: BSD-2-Clause
#include "recorder/engine/calltree.h"

#include <errno.h>
#include <string.h>
#include <x86intrin.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "calls/engine_memory.h"
#include "recorder/engine/executed.h"

struct calltree {
	struct recorder *recorder;
	struct calls_sink *calls;
	struct call_events *events; /* NULL: none are written */
	bool came; /* events, since it was last asked */
	struct calltree_totals totals;
	uint64_t start_ticks, start_ns;
	int err; /* the first failure */
	char *err_sentence;
};

void calltree_create(struct recorder *recorder, struct calls_sink *calls,
		     struct call_events *events, struct calltree **ret)
{
	struct calltree *trees = mem_zalloc(sizeof(*trees));

	trees->recorder = recorder;
	trees->calls = calls;
	trees->events = events;
	trees->start_ns = clock_monotonic();
	trees->start_ticks = __rdtsc();
	*ret = trees;
}

const struct calltree_totals *calltree_totals(const struct calltree *trees)
{
	return &trees->totals;
}

bool calltree_events_came(struct calltree *trees)
{
	bool came = trees->came;

	trees->came = false;
	return came;
}

static double tick_now(const struct calltree *trees)
{
	uint64_t ns = clock_monotonic(), ticks = __rdtsc();

	return (double)(ns - trees->start_ns) / (double)(ticks - trees->start_ticks);
}

static void fail(struct calltree *trees, int err)
{
	if (!err || trees->err)
		return;
	trees->err = err;
	trees->err_sentence = mem_strdup(err_text());
}

/* Notes the thread's name as of its end; the host could read it from /proc only before. */
static void name_tell(struct calltree *trees, const struct engine_thread *thread,
		      const struct calltree_memory *memory)
{
	char name[sizeof(memory->name) + 1] = "";
	const struct event event = { .kind = EVENT_COMM,
				     .pid = thread->process->pid,
				     .tid = thread->tid,
				     .time = clock_monotonic(),
				     .comm = name };

	memcpy(name, memory->name, sizeof(memory->name));
	if (*name)
		fail(trees, loadmap_apply(recorder_loadmap(trees->recorder), &event));
}

static int tree_deliver(struct calltree *trees, const struct engine_thread *thread,
			const struct calltree_memory *memory, const struct call_snapshot *snapshot,
			const void *shared)
{
	const struct calls_thread calls = { .process = executed_image(thread->process),
					    .thread = executed_thread_id(thread),
					    .time = clock_monotonic(),
					    .snapshot = snapshot,
					    .tick = tick_now(trees),
					    .kinds = call_engine_kinds,
					    .untimed = !memory->timed };
	struct call_task_names names;
	int err;

	if (memory->timed && !trees->totals.overhead)
		trees->totals.overhead = (double)memory->overhead * calls.tick;
	trees->totals.trees++;
	trees->totals.own_faults += memory->own[CALLTREE_FAULTS_MINOR - CALLTREE_USAGE] +
				    memory->own[CALLTREE_FAULTS_MAJOR - CALLTREE_USAGE];
	call_engine_tasks(shared, &names);
	err = calls_sink_tasks(trees->calls, &calls, thread->tid, &names);
	free(names.items);
	if (trees->events)
		call_events_end(trees->events, thread, (struct calltree_memory *)shared,
				loadmap_thread_comm(recorder_loadmap(trees->recorder),
						    calls.process, thread->tid),
				calls.tick);
	return err;
}

static void on_memory(void *ctx, struct engine_thread *thread, enum engine_tool tool,
		      const void *shared)
{
	struct calltree *trees = ctx;
	struct calltree_memory memory;
	struct call_snapshot snapshot;
	int err;

	if (tool != ENGINE_TOOL_CALLTREE)
		return;
	err = call_engine_take(shared, &snapshot, &memory);
	trees->totals.bad += err && err != -ENOENT;
	if (err)
		return;
	name_tell(trees, thread, &memory);
	fail(trees, tree_deliver(trees, thread, &memory, &snapshot, shared));
	call_snapshot_deinit(&snapshot);
}

static void on_memory_now(void *ctx, struct engine_thread *thread, enum engine_tool tool,
			  const void *shared)
{
	struct calltree *trees = ctx;

	if (tool == ENGINE_TOOL_CALLTREE && trees->events)
		trees->came |=
			call_events_drain(trees->events, thread, (struct calltree_memory *)shared);
}

static void on_process(void *ctx, struct engine_process *process)
{
	const struct calltree *trees = ctx;

	if (trees->events)
		call_events_process(trees->events, process);
}

static void on_record(void *ctx, struct engine_process *process, const struct stream_record *record,
		      uint32_t first)
{
	const struct calltree *trees = ctx;

	if (trees->events && record->type == STREAM_RECORD_MODULE)
		call_events_module(trees->events, process, (const void *)record);
}

static void on_totals(void *ctx, const struct engine_totals *totals)
{
	struct calltree *trees = ctx;

	calls_sink_lost(trees->calls, CALL_LOSS_NO_THREAD, totals->refused);
}

struct engine_sink calltree_engine_sink(struct calltree *trees)
{
	return (struct engine_sink){ .process_begin = on_process,
				     .record = on_record,
				     .memory = on_memory,
				     .memory_now = on_memory_now,
				     .totals = on_totals,
				     .ctx = trees };
}

static int flush(void *ctx, bool last)
{
	struct calltree *trees = ctx;
	int err = trees->events && last ? call_events_flush(trees->events) : 0;

	if (trees->events)
		trees->totals.events_lost = call_events_lost(trees->events);
	fail(trees, err);
	return trees->err ? err_set(trees->err, "%s", trees->err_sentence) : 0;
}

static void destroy(void *ctx)
{
	struct calltree *trees = ctx;

	call_events_destroy(trees->events);
	free(trees->err_sentence);
	free(trees);
}

struct sink calltree_sink(struct calltree *trees)
{
	return (struct sink){
		.ctx = trees, .kind = SINK_NO_RECORDING, .flush = flush, .destroy = destroy
	};
}
