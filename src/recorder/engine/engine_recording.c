// SPDX-License-Identifier: BSD-2-Clause
/*
 * Engines as a source of a recorder.
 *
 * While programs record, their rings are looked at every now and then: to be woken for each chunk
 * would cost the programs an interrupt each time, and to look all the time would take the memory
 * that they write to away from their CPUs. Between two looks, sinks do work that was put off. Only
 * if nothing comes for a while does the source sleep on the bell of the shared memory.
 */
#include "recorder/engine/engine_recording.h"

#include "base/mem.h"
#include "paths/flow.h"
#include "recorder/engine/raw.h"

enum {
	SLEEP_MS = 20,
	NAP_MS = 4,
	NAPS = 10, /* visits without segments before it sleeps until the bell rings */
	VISIT_WORTH = 1 << 14, /* segments: with as many, the next visit follows at once */
};

struct engine_recording {
	struct engine_source *source;
	struct executed *executed; /* NULL: the recorder makes no profile */
	struct counters *counters;
	struct calltree *trees; /* NULL: there are none */
	bool events; /* of calls are written, too: threads wait for them to be taken */
	struct mark_counts *marks; /* NULL: nothing is marked */
	struct paths *paths; /* NULL: the order of execution is not kept */
	unsigned empty; /* visits in a row that brought no segments */
	bool any; /* the last visit brought something */
};

/* --- Source ----------------------------------------------------------------------------------- */

static int look(void *ctx)
{
	struct engine_recording *recording = ctx;

	engine_source_look(recording->source);
	return 0;
}

static int events(void *ctx)
{
	struct engine_recording *recording = ctx;

	engine_source_events(recording->source);
	return 0;
}

static int deliver(void *ctx, bool last, bool *ret_more)
{
	struct engine_recording *recording = ctx;
	uint64_t before = engine_source_taken(recording->source), taken;

	recording->any = engine_source_deliver(recording->source);
	taken = engine_source_taken(recording->source) - before;
	recording->empty = taken ? 0 : recording->empty + 1;
	*ret_more |= taken >= VISIT_WORTH;
	if (recording->events || (recording->marks && mark_counts_due(recording->marks)))
		engine_source_tally(recording->source);
	if (recording->events && calltree_events_came(recording->trees))
		recording->empty = 0;
	return 0;
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

static void wait(void *ctx, unsigned milliseconds)
{
	struct engine_recording *recording = ctx;

	if (recording->empty < NAPS)
		engine_source_nap(recording->source, least(milliseconds, NAP_MS));
	else if (!recording->any)
		engine_source_wait(recording->source, least(milliseconds, SLEEP_MS));
}

static void wake(void *ctx)
{
	struct engine_recording *recording = ctx;

	engine_source_wake(recording->source);
}

static int tally(void *ctx)
{
	struct engine_recording *recording = ctx;

	engine_source_tally(recording->source);
	return 0;
}

static int finish(void *ctx)
{
	struct engine_recording *recording = ctx;

	engine_source_finish(recording->source);
	if (recording->marks)
		mark_counts_last(recording->marks);
	return 0;
}

static void destroy(void *ctx)
{
	struct engine_recording *recording = ctx;

	engine_source_destroy(recording->source);
	free(recording);
}

static void source_add(struct recorder *recorder, struct engine_recording *recording)
{
	const struct source source = {
		.ctx = recording,
		.fd = -1,
		.look = look,
		.events = events,
		.deliver = deliver,
		.tally = tally,
		.finish = finish,
		.wait = wait,
		.wake = wake,
		.destroy = destroy,
	};

	recorder_source_add(recorder, &source);
}

/* --- Sinks ------------------------------------------------------------------------------------ */

static void executed_add(struct recorder *recorder, struct engine_recording *recording,
			 const struct engine_recording_options *options, struct paths *paths)
{
	const struct executed_options how = { .marks = options->counters == COUNTERS_MARKS,
					      .lines = options->lines,
					      .tasks_only = options->marks || options->calls,
					      .kind = options->marks   ? RECORDING_MARKS
						      : options->calls ? RECORDING_CALLS
								       : RECORDING_EXECUTED,
					      .paths = paths };
	struct engine_sink engine_sink;
	struct sink sink;

	executed_create(recorder, &how, &recording->executed);
	engine_sink = executed_engine_sink(recording->executed);
	engine_source_sink_add(recording->source, &engine_sink);
	sink = executed_sink(recording->executed);
	recorder_sink_add(recorder, &sink);
}

/*
 * Before the sink of executed code, which keeps the threads: what is told to both is told here
 * first, so that a thread that ends is still known.
 */
static void marks_add_sink(struct recorder *recorder, struct engine_recording *recording,
			   const struct engine_recording_options *options)
{
	struct engine_sink engine_sink;
	struct sink sink;
	struct mark_counts *counts = mark_counts_create(recorder, options->marks, options->live);

	engine_sink = mark_counts_engine_sink(counts);
	engine_source_sink_add(recording->source, &engine_sink);
	sink = mark_counts_sink(counts);
	recorder_sink_add(recorder, &sink);
	recording->marks = counts;
}

static struct paths *paths_add(struct recorder *recorder, const struct paths_options *options)
{
	struct paths *paths;
	struct sink sink;

	paths_create(recorder_store(recorder), options, &paths);
	sink = paths_sink(paths);
	recorder_sink_add(recorder, &sink);
	return paths;
}

static void counters_add(struct recorder *recorder, struct engine_recording *recording)
{
	struct engine_sink engine_sink;
	struct sink sink;

	recording->counters = counters_create();
	engine_sink = counters_engine_sink(recording->counters);
	engine_source_sink_add(recording->source, &engine_sink);
	sink = counters_sink(recording->counters);
	recorder_sink_add(recorder, &sink);
}

static int raw_add(struct recorder *recorder, struct engine_recording *recording, const char *path)
{
	struct engine_sink engine_sink;
	struct raw *raw;
	struct sink sink;
	int err = raw_create(path, &raw);

	if (err)
		return err;
	engine_sink = raw_engine_sink(raw);
	engine_source_sink_add(recording->source, &engine_sink);
	sink = raw_sink(raw);
	recorder_sink_add(recorder, &sink);
	return 0;
}

static int facts_set(struct recorder *recorder, const struct engine_recording_options *options)
{
	const struct paths_options *paths = options->paths;
	uint32_t max_cycle = paths && paths->max_cycle ? paths->max_cycle : LAYER_MAX_CYCLE;
	int err = recorder_fact_set(recorder, RECORDING_EXECUTED, "tool", options->tool);

	if (!err && paths)
		err = recorder_number_set(recorder, RECORDING_EXECUTED, "max_cycle", max_cycle);
	if (!err && paths)
		err = recorder_number_set(recorder, RECORDING_EXECUTED, "order_format",
					  FLOW_FORMAT);
	return err;
}

/* Behind the sink of executed code, which knows who threads are. */
static void calls_add(struct recorder *recorder, struct engine_recording *recording,
		      const struct engine_recording_options *options)
{
	struct engine_sink engine_sink;
	struct sink sink;

	calltree_create(recorder, options->calls, options->events, &recording->trees);
	recording->events = options->events;
	engine_sink = calltree_engine_sink(recording->trees);
	engine_source_sink_add(recording->source, &engine_sink);
	sink = calltree_sink(recording->trees);
	recorder_sink_add(recorder, &sink);
}

/* What goes into the profile. */
static int profile_sinks_add(struct recorder *recorder, struct engine_recording *recording,
			     const struct engine_recording_options *options)
{
	struct paths *paths = NULL;

	if (options->marks) {
		marks_add_sink(recorder, recording, options);
		executed_add(recorder, recording, options, NULL);
		return 0;
	}
	if (options->paths)
		recording->paths = paths = paths_add(recorder, options->paths);
	executed_add(recorder, recording, options, paths);
	if (options->calls) {
		calls_add(recorder, recording, options);
		return 0;
	}
	return facts_set(recorder, options);
}

int engine_recording_add(struct recorder *recorder, const struct engine_recording_options *options,
			 struct engine_recording **ret)
{
	struct engine_recording *recording;
	struct engine_source *source;
	int err = engine_source_create(options->shared, options->shared_size, options->counters,
				       &source);

	if (err)
		return err;
	recording = mem_zalloc(sizeof(*recording));
	recording->source = source;
	source_add(recorder, recording);
	engine_source_tools_set(source, options->tools);
	if (options->memories)
		engine_source_memories_set(source, options->memories);
	counters_add(recorder, recording);
	if (recorder_store(recorder))
		err = profile_sinks_add(recorder, recording, options);
	if (!err && options->raw)
		err = raw_add(recorder, recording, options->raw);
	if (!err)
		*ret = recording;
	return err;
}

void engine_recording_result(struct engine_recording *recording,
			     struct engine_recording_result *ret)
{
	*ret = (struct engine_recording_result){ .totals =
							 *engine_source_totals(recording->source) };
	ret->counters = counters_rows(recording->counters, &ret->counter_count);
	if (recording->trees)
		ret->trees = *calltree_totals(recording->trees);
	if (recording->executed)
		executed_sums(recording->executed, &ret->sums);
	if (recording->paths)
		ret->lookups = *paths_lookups(recording->paths);
}
