// SPDX-License-Identifier: BSD-2-Clause
/*
 * Writes trees of calls as rows of the profile. Nodes get ids in the order of the snapshot, in
 * which parents come first. Amounts of time become nanoseconds here. An amount below 0 is noise,
 * because the mean cost of the measurement was subtracted. The deficit is taken from the parent,
 * whose time adjoins that of the node, so that the thread's sum stays as measured.
 */
#include "recorder/calls_sink.h"

#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "wire/call_area.h"

#define METRIC_CALLS "calls"
#define METRIC_SAMPLES "samples"

struct calls_sink {
	struct recorder *recorder;
	struct store *store;
	uint32_t nodes; /* ids given */
	struct calls_totals totals;
};

void calls_sink_create(struct recorder *recorder, struct calls_sink **ret)
{
	struct calls_sink *calls = mem_zalloc(sizeof(*calls));

	calls->recorder = recorder;
	calls->store = recorder_store(recorder);
	*ret = calls;
}

void calls_sink_lost(struct calls_sink *calls, enum call_loss loss, uint64_t count)
{
	calls->totals.lost[loss] = count;
}

const struct calls_totals *calls_sink_totals(const struct calls_sink *calls)
{
	return &calls->totals;
}

struct calls_thread calls_thread_of(const struct call_result *result)
{
	static const uint8_t java_kinds[] = {
		[CALL_JAVA_TIME] = CALL_METRIC_TIME, [CALL_JAVA_BYTES] = CALL_METRIC_BYTES
	};

	return (struct calls_thread){ .snapshot = &result->snapshot,
				      .time = clock_monotonic(),
				      .kinds = result->java    ? java_kinds
					       : result->kinds ? result->metric_kinds
							       : NULL,
				      .tick = result->tick,
				      .untimed = result->untimed };
}

/* --- A tree ----------------------------------------------------------------------------------- */

struct writing {
	struct calls_sink *calls;
	const struct calls_thread *from;
	const struct call_snapshot *snapshot;
	struct call_node_id *ids; /* by node */
	int64_t *base; /* by node, ns */
	struct map locations; /* routine to location */
};

static enum call_metric kind_of(const struct writing *writing, uint32_t metric)
{
	return writing->from->kinds ? (enum call_metric)writing->from->kinds[metric]
				    : CALL_METRIC_TIME;
}

static bool is_timed(const struct writing *writing)
{
	return writing->snapshot->head.metrics && !writing->from->untimed &&
	       kind_of(writing, 0) == CALL_METRIC_TIME;
}

static int location_find(struct writing *writing, uint64_t routine, struct location_id *ret)
{
	struct recorder *recorder = writing->calls->recorder;
	bool fresh;
	uint64_t *known = map_at(&writing->locations, routine, &fresh);
	struct module_id module;
	uint64_t address;
	int err = 0;

	if (fresh && writing->from->java.v && routine < CALL_JAVA_END) {
		err = locations_add(recorder_locations(recorder), writing->from->java, routine,
				    ret);
		*known = ret->v;
	} else if (fresh) {
		loadmap_resolve(recorder_loadmap(recorder), writing->from->process, routine,
				writing->from->time, &module, &address);
		err = locations_add(recorder_locations(recorder), module, address, ret);
		*known = ret->v;
	}
	ret->v = (uint32_t)*known;
	return err;
}

/* One that is 0 is left out, but for time, whose rows say that it was taken. */
static int amount_put(struct writing *writing, struct store_call_amount *row, uint32_t number,
		      uint32_t metric)
{
	const struct call_amount *amount =
		&call_snapshot_node(writing->snapshot, number)->amounts[metric];
	static const char *const names[] = {
#define X(name, json, unit) json,
		CALL_METRICS(X)
#undef X
	};
	bool time = !metric && is_timed(writing);

	if (!time &&
	    (kind_of(writing, metric) == CALL_METRIC_TIME || (!amount->base && !amount->elapsed)))
		return 0;
	row->metric = names[kind_of(writing, metric)];
	row->base = time ? (uint64_t)writing->base[number] : amount->base;
	row->elapsed = time ? (uint64_t)((double)amount->elapsed * writing->from->tick + 0.5)
			    : amount->elapsed;
	return store_call_amount_put(writing->calls->store, row);
}

static int amounts_put(struct writing *writing, uint32_t number, const struct call_node *node)
{
	struct store_call_amount row = { .node = writing->ids[number], .metric = METRIC_CALLS };
	int err = 0;

	if (number != CALL_ROOT && node->calls) {
		row.base = node->calls;
		err = store_call_amount_put(writing->calls->store, &row);
		writing->calls->totals.calls += node->calls;
	}
	if (!err && node->samples) {
		row.metric = METRIC_SAMPLES;
		row.base = node->samples;
		err = store_call_amount_put(writing->calls->store, &row);
	}
	for (uint32_t i = 0; i < writing->snapshot->head.metrics && !err; i++)
		err = amount_put(writing, &row, number, i);
	return err;
}

static int node_put(struct writing *writing, uint32_t number)
{
	const struct call_node *node = call_snapshot_node(writing->snapshot, number);
	struct store_call_node row = { .id = { ++writing->calls->nodes },
				       .thread = writing->from->thread,
				       .pruned = node->routine == CALL_ROUTINE_PRUNED };
	int err = 0;

	writing->ids[number] = row.id;
	if (number != CALL_ROOT)
		row.parent = writing->ids[node->parent];
	if (node->routine < CALL_ROUTINE_PRUNED)
		err = location_find(writing, node->routine, &row.location);
	err = err ? err : store_call_node_put(writing->calls->store, &row);
	return err ? err : amounts_put(writing, number, node);
}

/* Children come first, so that a parent has what they lack when it is looked at. */
static void bases_make(struct writing *writing)
{
	const struct call_snapshot *snapshot = writing->snapshot;

	for (uint32_t i = snapshot->reached; i-- > 0 && is_timed(writing);) {
		uint32_t number = snapshot->order[i];
		const struct call_node *node = call_snapshot_node(snapshot, number);
		int64_t *base = &writing->base[number];
		double ns = (double)(int64_t)node->amounts[0].base * writing->from->tick;

		*base += (int64_t)(ns + (ns < 0 ? -0.5 : 0.5));
		if (*base >= 0)
			continue;
		if (number != CALL_ROOT)
			writing->base[node->parent] += *base;
		*base = 0;
	}
}

int calls_sink_thread(struct calls_sink *calls, const struct calls_thread *thread)
{
	const struct call_snapshot *snapshot = thread->snapshot;
	struct writing writing = { .calls = calls, .from = thread, .snapshot = snapshot };
	int err = 0;

	writing.ids = mem_zalloc(snapshot->head.count * sizeof(*writing.ids));
	writing.base = mem_zalloc(snapshot->head.count * sizeof(*writing.base));
	bases_make(&writing);
	for (uint32_t i = 0; i < snapshot->reached && !err; i++)
		err = node_put(&writing, snapshot->order[i]);
	free(writing.ids);
	free(writing.base);
	map_deinit(&writing.locations);
	calls->totals.threads++;
	calls->totals.pruned += snapshot->head.pruned;
	for (int i = 0; i < CALL_REPAIR_COUNT; i++)
		calls->totals.repairs[i] += snapshot->head.repairs[i];
	calls->totals.lost[CALL_LOSS_TOO_DEEP] += snapshot->head.repairs[CALL_REPAIR_TOO_DEEP];
	return err;
}

/* A part of the tree that begins at a place of its order. */
static int part_put(struct calls_sink *calls, const struct calls_thread *whole,
		    struct thread_id thread, uint32_t at)
{
	struct call_snapshot part;
	struct calls_thread own = *whole;
	int err = call_snapshot_part(whole->snapshot, at, &part);

	if (err)
		return err;
	if (at) /* repairs and what was pruned are the thread's */
		memset(part.head.repairs, 0, sizeof(part.head.repairs));
	part.head.pruned = at ? 0 : part.head.pruned;
	own.snapshot = &part;
	own.thread = thread;
	err = calls_sink_thread(calls, &own);
	call_snapshot_deinit(&part);
	return err;
}

int calls_sink_tasks(struct calls_sink *calls, const struct calls_thread *thread, uint32_t tid,
		     const struct call_task_names *names)
{
	const struct call_snapshot *snapshot = thread->snapshot;
	struct loadmap *loadmap = recorder_loadmap(calls->recorder);
	int err;

	if (!call_snapshot_has_tasks(snapshot))
		return calls_sink_thread(calls, thread);
	err = part_put(calls, thread, thread->thread, 0);
	for (uint32_t i = 1; i < snapshot->reached && !err; i++) {
		uint64_t routine = call_snapshot_node(snapshot, snapshot->order[i])->routine;

		if (call_is_task(routine))
			err = part_put(calls, thread,
				       loadmap_task(loadmap, thread->process, tid,
						    call_task_name(names, routine), thread->time,
						    thread->time),
				       i);
	}
	return err;
}

/* --- Sink ------------------------------------------------------------------------------------- */

static int flush(void *ctx, bool last)
{
	static const char *const names[] = {
#define X(name, json, text) json,
		CALL_REPAIRS(X)
#undef X
	};
	struct calls_sink *calls = ctx;
	int err = recorder_metric_set(calls->recorder, RECORDING_CALLS, "pruned", "paths",
				      calls->totals.pruned);

	for (int i = 0; i < CALL_REPAIR_COUNT && !err; i++)
		err = recorder_metric_set(calls->recorder, RECORDING_CALLS, names[i], "repairs",
					  calls->totals.repairs[i]);
	return err;
}

static void totals(void *ctx, struct sink_totals *ret)
{
	static const struct {
		const char *reason, *text;
	} losses[] = {
#define X(name, json, text) { json, text },
		CALL_LOSSES(X)
#undef X
	};
	const struct calls_sink *calls = ctx;

	ret->kept = calls->totals.calls;
	for (int i = 0; i < CALL_LOSS_COUNT; i++)
		sink_totals_add(ret, losses[i].reason, losses[i].text, calls->totals.lost[i]);
}

static void destroy(void *ctx)
{
	free(ctx);
}

struct sink calls_sink(struct calls_sink *calls)
{
	return (struct sink){ .ctx = calls,
			      .kind = RECORDING_CALLS,
			      .flush = flush,
			      .totals = totals,
			      .destroy = destroy };
}
