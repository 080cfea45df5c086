// SPDX-License-Identifier: BSD-2-Clause
/*
 * What a thread of an engine has recorded goes to the sinks: the segments in its ring, and its
 * counters in the shared memory. The program can write there what it likes: a segment that its
 * process has not told of is lost (SEGMENT_LOSS_UNKNOWN), and so is what a counter claims beyond
 * COUNT_MAX.
 *
 *	in	the rings and counters of threads, and what the catalog of their process says
 *	out	calls of the sinks of engines
 *	owner	the source (engine_source.c), which begins and ends threads
 */
#include "recorder/engine/engine_source_private.h"

#include <string.h>

static void span_tell(struct engine_source *source, struct thread *thread, const uint32_t *segments,
		      size_t count)
{
	if (!count)
		return;
	thread->told.kept += count;
	source->taken += count;
	sinks_tell(source, segments, &thread->told, segments, count);
}

/* Hands out the segments around those that are not known. */
static void span_sort_out(struct engine_source *source, struct thread *thread, size_t count)
{
	const struct segment_table *table = thread->process->catalog.table;
	const struct segment *segment;
	size_t from = 0;

	for (size_t i = 0; i < count; i++) {
		if (segment_table_find(table, source->span[i], &segment))
			continue;
		span_tell(source, thread, source->span + from, i - from);
		thread->told.lost[SEGMENT_LOSS_UNKNOWN]++;
		from = i + 1;
	}
	span_tell(source, thread, source->span + from, count - from);
}

bool engine_thread_drain(struct engine_source *source, struct thread *thread)
{
	bool any = false;
	size_t size;

	if (!thread->begun)
		return false;
	while ((size = ring_take(&thread->ring, source->span, sizeof(source->span)))) {
		size_t count = size / sizeof(uint32_t);

		if (segment_table_knows(thread->process->catalog.table, source->span, count))
			span_tell(source, thread, source->span, count);
		else
			span_sort_out(source, thread, count);
		any = true;
	}
	return any;
}

static uint64_t take_u64(uint64_t *value)
{
	uint64_t had = *value;

	*value = 0;
	return had;
}

/* Counters, or marks as counters of 1, from the shared memory. */
static void counts_read(struct engine_source *source, const struct thread *thread, uint32_t first,
			size_t count)
{
	bool marks = source->tools & ENGINE_TOOL_BIT(ENGINE_TOOL_MARKS);
	enum engine_tool tool = source->counters != COUNTERS_COUNTS ? ENGINE_TOOL_COVERAGE
				: marks				    ? ENGINE_TOOL_MARKS
								    : ENGINE_TOOL_COUNT;
	const char *counters = (const char *)thread->ring.slot + STREAM_COUNTS_OFFSET +
			       engine_tools_segments_at(source->tools, tool, STREAM_SEGMENTS_MAX);

	if (source->counters == COUNTERS_COUNTS)
		memcpy(source->counts, counters + first * sizeof(uint64_t),
		       count * sizeof(uint64_t));
	else
		for (size_t i = 0; i < count; i++)
			source->counts[i] = counters[first + i] != 0;
}

/*
 * Adds up what the counters count as kept and as lost; the caller has subtracted what they said
 * before.
 */
static void counts_check(struct engine_source *source, struct thread *thread, uint32_t first,
			 size_t count)
{
	const struct segment_table *table = thread->process->catalog.table;
	const struct segment *segment;

	for (size_t i = 0; i < count; i++) {
		uint64_t *counter = &source->counts[i];

		if (!*counter)
			continue;
		if (*counter < COUNT_MAX &&
		    segment_table_find(table, first + (uint32_t)i, &segment)) {
			thread->counted += *counter;
			continue;
		}
		thread->uncounted += *counter < COUNT_MAX ? *counter : 1;
		*counter = 0;
	}
}

void engine_thread_counts_tell(struct engine_source *source, struct thread *thread)
{
	uint32_t limit = segment_table_limit(thread->process->catalog.table);

	thread->told.kept -= take_u64(&thread->counted);
	thread->told.lost[SEGMENT_LOSS_UNKNOWN] -= take_u64(&thread->uncounted);
	for (uint32_t first = 0; first < limit; first += COUNTS_SPAN) {
		size_t count = limit - first < COUNTS_SPAN ? limit - first : COUNTS_SPAN;

		counts_read(source, thread, first, count);
		counts_check(source, thread, first, count);
		sinks_tell(source, counts, &thread->told, first, source->counts, count);
	}
	thread->told.kept += thread->counted;
	thread->told.lost[SEGMENT_LOSS_UNKNOWN] += thread->uncounted;
}

/* A tool that is not in use has no counters, whatever a catalog says. */
void engine_thread_counters_tell(struct engine_source *source, struct thread *thread)
{
	const char *kept = (const char *)thread->ring.slot + STREAM_COUNTS_OFFSET;

	for (size_t i = 0; i < thread->process->counters.count; i++) {
		const struct counter *counter = &thread->process->counters.items[i];
		uint64_t at = engine_tools_counters_at(source->tools, counter->tool,
						       STREAM_SEGMENTS_MAX) +
			      (uint64_t)counter->index * sizeof(uint64_t);
		uint64_t value;

		if (!(source->tools & ENGINE_TOOL_BIT(counter->tool)))
			continue;
		memcpy(&value, kept + at, sizeof(value));
		if (value)
			sinks_tell(source, counter, &thread->told, i, value);
	}
}

void engine_thread_memory_tell(struct engine_source *source, struct thread *thread)
{
	const char *kept = (const char *)thread->ring.slot + STREAM_COUNTS_OFFSET;

	for (unsigned i = 0; i < ENGINE_TOOLS_END; i++) {
		const char *memory =
			kept + engine_tools_counters_at(source->tools, i, STREAM_SEGMENTS_MAX);

		if (!(source->tools & ENGINE_TOOL_BIT(i)) ||
		    !(engine_tool_row(i)->flags & ENGINE_TOOL_WHOLE))
			continue;
		if (thread->told.ending)
			sinks_tell(source, memory, &thread->told, (enum engine_tool)i, memory);
		else
			sinks_tell(source, memory_now, &thread->told, (enum engine_tool)i, memory);
	}
}

void engine_thread_account(struct engine_source *source, struct thread *thread)
{
	uint64_t lost =
		__atomic_load_n(&thread->ring.slot->lost, __ATOMIC_RELAXED) / sizeof(uint32_t);

	thread->told.lost[SEGMENT_LOSS_ABANDONED] += lost < LOSS_MAX ? lost : LOSS_MAX;
	if (!thread->begun)
		thread->told.lost[SEGMENT_LOSS_ORPHAN] +=
			(thread->ring.position - thread->ring.taken) / sizeof(uint32_t);
	source->totals.broken += thread->ring.broken;
	source->totals.kept += thread->told.kept;
	for (size_t i = 0; i < SEGMENT_LOSS_COUNT; i++) {
		source->totals.lost[i] += thread->told.lost[i];
		source->totals.unattributed[i] += thread->begun ? 0 : thread->told.lost[i];
	}
}
