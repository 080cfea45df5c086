// SPDX-License-Identifier: BSD-2-Clause
/*
 * A sink: how often marks were visited, and what was executed in them. A block has a list of spans:
 * neighbouring instructions that a mark covers. The list of a block is found by the number that the
 * segment table keeps for it. A segment that was cut short has a last block of its own, which has
 * the list of the one that it was cut from; of that, only the instructions count that the block
 * still has.
 */
#include "recorder/engine/mark_counts.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "image/loadmap.h"
#include "recorder/engine/executed.h"
#include "recorder/engine/mark_code.h"
#include "recorder/engine/mark_events.h"
#include "recorder/engine/mark_memory.h"
#include "recorder/engine/mark_readings.h"

struct mark_counts {
	struct store *store;
	struct marks *marks;
	ARRAY(struct mark_span) spans;
	struct mark_code code; /* what the ending thread executed of each */
	struct loadmap *loadmap;
	struct mark_memory memory;
	struct mark_readings *readings; /* sums of times and data, while programs run */
	struct mark_events *events;
	struct marks_live *live; /* NULL: marks are not read while programs run */
	uint64_t began; /* CLOCK_MONOTONIC: second 0 of the recording */
	struct mark_sums sums; /* what the ending thread executed */
	struct mark_sums ended; /* what all that have ended executed */
	/* what running threads have executed; only while counters are read */
	struct mark_sums running;
	struct mark_sums sampled; /* what rows of samples say so far */
	bool last; /* nothing is counted any more */
	struct engine_totals totals;
	uint32_t marks_written; /* those below have a row */
	size_t places_written;
	int err; /* the first failure */
	char *err_sentence;
};

static void fail(struct mark_counts *counts, int err)
{
	if (!err || counts->err)
		return;
	counts->err = err;
	counts->err_sentence = mem_strdup(err_text());
}

struct mark_counts *mark_counts_create(struct recorder *recorder, struct marks *marks,
				       struct marks_live *live)
{
	struct mark_counts *counts = mem_zalloc(sizeof(*counts));

	mark_memory_init(&counts->memory, recorder, marks);
	counts->readings = mark_readings_create(&counts->memory);
	mark_code_init(&counts->code, recorder);
	counts->store = recorder_store(recorder);
	counts->loadmap = recorder_loadmap(recorder);
	counts->events = mark_events_create(recorder, live);
	counts->marks = marks;
	counts->live = live;
	counts->began = recorder_created(recorder);
	counts->marks_written = 1;
	return counts;
}

static void destroy(void *ctx)
{
	struct mark_counts *counts = ctx;

	mark_events_destroy(counts->events);
	mark_readings_destroy(counts->readings);
	mark_code_deinit(&counts->code);
	array_deinit(&counts->spans);
	array_deinit(&counts->sums.items);
	array_deinit(&counts->ended.items);
	array_deinit(&counts->running.items);
	array_deinit(&counts->sampled.items);
	free(counts->err_sentence);
	free(counts);
}

/* --- Which instructions are marked ------------------------------------------------------------ */

static void marked_learn(struct mark_counts *counts, const struct engine_process *process,
			 const struct stream_marked *marked)
{
	struct segment_table *table = process->segments;
	const struct segment *segment = NULL;
	struct mark_span span = {};
	uint32_t *list;

	segment_table_find(table, marked->segment, &segment);
	list = &table->marks.items[segment->last];
	/* Now: later something else may be mapped there. */
	loadmap_resolve(counts->loadmap, executed_image(process),
			table->blocks.items[segment->last].pc, clock_monotonic(), &span.module,
			&span.block);
	for (uint32_t i = 0; i < marked->count; i++) {
		uint32_t number = marked->marks[i].mark >> 1;

		if (!number || number >= MARKS_MAX)
			continue;
		span.mark = marked->marks[i];
		span.next = *list;
		*array_push(&counts->spans) = span;
		*list = (uint32_t)counts->spans.count;
	}
}

/* Blocks of an ancestor's fragment have been copied, without their lists. */
static void partial_learn(struct segment_table *table, const struct stream_partial *partial)
{
	const struct segment *segment = NULL, *from;

	segment_table_find(table, partial->segment, &segment);
	for (uint32_t i = 0; i <= partial->blocks; i++) {
		const struct segment_table *owner =
			segment_table_find(table, partial->first + i, &from);

		if (owner)
			table->marks.items[segment_block(segment, i)] =
				owner->marks.items[from->last];
	}
}

static void on_record(void *ctx, struct engine_process *process, const struct stream_record *record,
		      uint32_t first)
{
	if (record->type == STREAM_RECORD_MARKED)
		marked_learn(ctx, process, (const void *)record);
	else if (record->type == STREAM_RECORD_PARTIAL)
		partial_learn(process->segments, (const void *)record);
	else if (record->type == STREAM_RECORD_EVENT)
		mark_events_add(((struct mark_counts *)ctx)->events, process, (const void *)record);
}

static void on_thread_begin(void *ctx, struct engine_thread *thread)
{
	mark_events_thread_begin(((struct mark_counts *)ctx)->events, thread);
}

/* --- How often they were executed ------------------------------------------------------------- */

static void span_count(struct mark_sums *sums, const struct stream_mark *span,
		       uint32_t instructions, uint64_t times)
{
	uint32_t executed = span->first < instructions ? instructions - span->first : 0;
	struct mark_sum *sum;

	executed = executed < span->instructions ? executed : span->instructions;
	if (!executed)
		return;
	sum = mark_sums_at(sums, span->mark >> 1);
	if (span->mark & 1)
		sum->visits += times * executed;
	else
		sum->instructions += times * executed;
}

static void block_count(struct mark_counts *counts, struct mark_sums *sums, uint32_t list,
			const struct stream_block *block, uint64_t times)
{
	if (list && sums == &counts->sums)
		mark_code_count(&counts->code, list, block, times);
	for (uint32_t at = list; at; at = counts->spans.items[at - 1].next)
		span_count(sums, &counts->spans.items[at - 1].mark, block->instructions, times);
}

static void segment_count(struct mark_counts *counts, struct mark_sums *sums,
			  const struct segment_table *segments, uint32_t number, uint64_t times)
{
	const struct segment *segment = NULL;
	const struct segment_table *table = segment_table_find(segments, number, &segment);

	for (uint32_t i = 0; table && i <= segment->whole; i++) {
		uint32_t block = segment_block(segment, i);

		block_count(counts, sums, table->marks.items[block], &table->blocks.items[block],
			    times);
	}
}

static void on_counts(void *ctx, struct engine_thread *thread, uint32_t first,
		      const uint64_t *counted, size_t count)
{
	struct mark_counts *counts = ctx;
	struct mark_sums *sums = thread->ending ? &counts->sums : &counts->running;

	for (size_t i = 0; i < count; i++)
		if (counted[i])
			segment_count(counts, sums, thread->process->segments, first + (uint32_t)i,
				      counted[i]);
}

/* --- Rows ------------------------------------------------------------------------------------- */

static void mark_write(void *ctx, const struct mark *mark)
{
	struct mark_counts *counts = ctx;
	const struct store_mark row = { .id = { mark->number },
					.kind = mark->kind,
					.pattern = mark->pattern,
					.text = mark->text };

	fail(counts, store_mark_put(counts->store, &row));
	counts->marks_written = mark->number + 1;
}

static void place_write(void *ctx, uint32_t number, const struct mark_place *place)
{
	struct mark_counts *counts = ctx;
	const struct store_mark_place row = { .mark = { number },
					      .module = place->module,
					      .address = place->address,
					      .begins = place->begins,
					      .size = place->size };

	fail(counts, store_mark_place_put(counts->store, &row));
	counts->places_written++;
}

/* Writes the marks that are new since the last time. */
static void marks_write(struct mark_counts *counts)
{
	marks_each(counts->marks, counts->marks_written, mark_write, counts);
	marks_places_each(counts->marks, counts->places_written, place_write, counts);
}

static void on_memory(void *ctx, struct engine_thread *thread, enum engine_tool tool,
		      const void *memory)
{
	struct mark_counts *counts = ctx;

	marks_write(counts);
	fail(counts,
	     mark_memory_write(&counts->memory, thread, tool, memory, counts->marks_written - 1));
	if (counts->live)
		mark_readings_take(counts->readings, tool, memory, counts->marks_written - 1, true,
				   &counts->sums);
}

static void on_memory_now(void *ctx, struct engine_thread *thread, enum engine_tool tool,
			  const void *memory)
{
	struct mark_counts *counts = ctx;

	marks_write(counts);
	if (counts->live)
		mark_readings_take(counts->readings, tool, memory, counts->marks_written - 1, false,
				   &counts->running);
}

static void on_thread_end(void *ctx, struct engine_thread *thread)
{
	struct mark_counts *counts = ctx;
	struct thread_id id = executed_thread_id(thread);

	marks_write(counts);
	mark_events_flush(counts->events, counts->marks_written);
	mark_events_thread_end(counts->events, thread);
	for (uint32_t i = 1; i < counts->sums.items.count; i++) {
		const struct mark_sum *sum = &counts->sums.items.items[i];
		const struct store_mark_execution row = { .mark = { i },
							  .thread = id,
							  .visits = sum->visits,
							  .instructions = sum->instructions };

		/* A number that we never gave: the program has overwritten the catalog. */
		if ((sum->visits || sum->instructions) && i < counts->marks_written)
			fail(counts, store_add(counts->store, STORE_TABLE_mark_execution, &row));
	}
	fail(counts, mark_code_write(&counts->code, counts->spans.items, id));
	mark_sums_add(&counts->ended, &counts->sums);
	counts->sums.items.count = 0;
}

/* --- While programs run ----------------------------------------------------------------------- */

static uint64_t grown(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

static void sample_write(struct mark_counts *counts, uint32_t mark, const struct mark_sum *now,
			 uint64_t time)
{
	struct mark_sum *before = mark_sums_at(&counts->sampled, mark);
	const struct store_mark_sample row = {
		.mark = { mark },
		.time = time,
		.visits = now->visits - before->visits,
		.instructions = now->instructions - before->instructions,
		.timed = grown(now->timed, before->timed),
		.time_ns = grown(now->time_ns, before->time_ns),
		.slower = grown(now->slower, before->slower),
		.reads = grown(now->reads, before->reads),
		.writes = grown(now->writes, before->writes),
	};

	/* A signal may have taken back what a counter said. */
	if (now->visits < before->visits || now->instructions < before->instructions)
		return;
	if (!row.visits && !row.instructions && !row.timed && !row.reads && !row.writes)
		return;
	fail(counts, store_add(counts->store, STORE_TABLE_mark_sample, &row));
	*before = *now;
}

static void samples_write(struct mark_counts *counts, const struct mark_sums *sums, uint64_t now)
{
	marks_write(counts);
	for (uint32_t i = 1; i < sums->items.count && i < counts->marks_written; i++)
		sample_write(counts, i, &sums->items.items[i], now - counts->began);
}

bool mark_counts_due(struct mark_counts *counts)
{
	bool kept;

	return counts->live && marks_live_due(counts->live, clock_monotonic(), &kept);
}

void mark_counts_last(struct mark_counts *counts)
{
	counts->last = true;
}

/*
 * The counters of all threads have been read: adds up what they say and what threads that have
 * ended have counted.
 */
static void fold(struct mark_counts *counts)
{
	uint64_t now = clock_monotonic();
	bool kept = false;

	mark_sums_add(&counts->running, &counts->ended);
	marks_live_due(counts->live, now, &kept);
	kept |= counts->last;
	mark_readings_fold(counts->readings, kept, &counts->running);
	if (kept)
		samples_write(counts, &counts->running, now);
	marks_live_fold(counts->live, now, kept, counts->running.items.items,
			counts->running.items.count);
}

static void on_totals(void *ctx, const struct engine_totals *totals)
{
	struct mark_counts *counts = ctx;

	counts->totals = *totals;
	if (counts->live)
		fold(counts);
	counts->running.items.count = 0;
}

struct engine_sink mark_counts_engine_sink(struct mark_counts *counts)
{
	return (struct engine_sink){
		.record = on_record,
		.thread_begin = on_thread_begin,
		.counts = on_counts,
		.memory = on_memory,
		.memory_now = on_memory_now,
		.thread_end = on_thread_end,
		.totals = on_totals,
		.ctx = counts,
	};
}

/* --- The recorder's side ---------------------------------------------------------------------- */

static const char *const mark_losses[][2] = {
#define X(name, json, text) [MARK_LOSS_##name] = { json, text },
	MARK_LOSSES(X)
#undef X
};

static void totals(void *ctx, struct sink_totals *ret)
{
	static const char *const names[][2] = {
#define X(name, json, text) [SEGMENT_LOSS_##name] = { json, text },
		SEGMENT_LOSSES(X)
#undef X
	};
	const struct mark_counts *counts = ctx;

	ret->kept = counts->totals.kept + counts->memory.accesses;
	for (size_t i = 0; i < SEGMENT_LOSS_COUNT; i++)
		sink_totals_add(ret, names[i][0], names[i][1], counts->totals.lost[i]);
	for (size_t i = 0; i < MARK_LOSS_COUNT; i++)
		sink_totals_add(ret, mark_losses[i][0], mark_losses[i][1], counts->memory.lost[i]);
}

static void losses_say(const struct mark_counts *counts)
{
	for (size_t i = 0; i < MARK_LOSS_COUNT; i++)
		if (counts->memory.lost[i])
			log_warn("lost: %llu %s", (unsigned long long)counts->memory.lost[i],
				 mark_losses[i][1]);
}

static int flush(void *ctx, bool last)
{
	struct mark_counts *counts = ctx;

	marks_write(counts);
	fail(counts, mark_events_flush(counts->events, counts->marks_written));
	if (last) {
		losses_say(counts);
		fail(counts, mark_events_finish(counts->events, counts->totals.events_lost));
	}
	return counts->err ? err_set(counts->err, "%s", counts->err_sentence) : 0;
}

struct sink mark_counts_sink(struct mark_counts *counts)
{
	return (struct sink){
		.ctx = counts,
		.kind = RECORDING_MARKS,
		.flush = flush,
		.totals = totals,
		.destroy = destroy,
	};
}
