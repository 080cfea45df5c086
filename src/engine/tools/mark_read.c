// SPDX-License-Identifier: BSD-2-Clause
/*
 * Marks that the program itself reads (include/assay/client.h), without a system call. What marks
 * on data have counted is in mark_data_read.c.
 *
 * What is counted are executions of segments. The spans of marked instructions in each block are
 * kept here as they are told to the host, and a reading is the sum that the host makes: the block
 * with segment n is executed whenever a segment from n to the last of its fragment is.
 *
 * 1. A segment begins at the instruction that reads, so that the reading thread's counts are exact
 *    up to there. Of other threads, it sums what they have counted so far.
 * 2. A mark that does not fit into the tables cannot be read at all: a reading is right, or there
 *    is none.
 */
#include "engine/stream.h"
#include "engine/tools/marks.h"

enum {
	KEPT = 1 << 20, /* spans */
	PARTIALS_KEPT = 1 << 16,
};

static struct kept {
	uint32_t segment, last; /* last is 0: not known yet, or of no fragment */
	struct stream_mark mark;
} * kept;
static uint32_t kept_count, kept_fragment; /* all; where those of the fragment in hand begin */

static struct partial {
	uint32_t segment, first, of;
	uint32_t instructions; /* of the last block */
} * partials;
static uint32_t partial_count;

static uint64_t *ended; /* by segment: what threads that are no more have counted */
static bool is_full;

/* --- What is marked ---------------------------------------------------------------------- */

void mark_read_add(uint32_t segment, const struct stream_mark *mark)
{
	if (!kept)
		kept = memory_map(KEPT * sizeof(*kept));
	if (!kept || kept_count == KEPT) {
		is_full = true;
		return;
	}
	kept[kept_count++] = (struct kept){ segment, 0, *mark };
}

/* A fragment that was given up half made has spans as well, of segments that are never executed. */
void mark_read_fragment(uint32_t first, uint32_t last)
{
	for (uint32_t i = kept_fragment; i < kept_count; i++)
		kept[i].last = kept[i].segment >= first ? last : 0;
	kept_fragment = kept_count;
}

void mark_read_partial(const struct stream_partial *partial)
{
	if (!partials)
		partials = memory_map(PARTIALS_KEPT * sizeof(*partials));
	if (!partials || partial_count == PARTIALS_KEPT) {
		is_full = true;
		return;
	}
	partials[partial_count++] = (struct partial){ partial->segment, partial->first,
						      partial->first + partial->blocks,
						      partial->last.instructions };
}

/* --- What was counted -------------------------------------------------------------------- */

static const uint64_t *counts_of(struct thread *thread)
{
	return (const uint64_t *)(stream_counts(thread) + counter_by_segment(ENGINE_TOOL_MARKS, 0));
}

void mark_read_thread_end(struct thread *thread, uint32_t limit, bool (*is)(uint32_t segment))
{
	const uint64_t *counts = counts_of(thread);

	if (!ended)
		ended = memory_map(STREAM_SEGMENTS_MAX * sizeof(*ended));
	if (!ended)
		is_full = true;
	for (uint32_t i = 1; i < limit && ended; i++)
		if (is(i))
			ended[i] += counts[i];
	thread->counting |= MARK_COUNTING_ENDED;
}

/* The child is a process of its own, which has counted nothing. */
void mark_read_forked(void)
{
	if (ended)
		memory_map_at((uint64_t)ended, STREAM_SEGMENTS_MAX * sizeof(*ended));
}

static void span_sum(const uint64_t *counts, const struct kept *span, uint64_t *ret)
{
	uint64_t times = 0, instructions;

	for (uint32_t i = span->segment; i <= span->last; i++)
		times += counts[i];
	instructions = times * span->mark.instructions;
	for (uint32_t i = 0; i < partial_count; i++) {
		const struct partial *part = &partials[i];
		uint32_t executed = span->mark.instructions;

		if (span->segment < part->first || span->segment > part->of)
			continue;
		if (span->segment == part->of && part->instructions < span->mark.first + executed)
			executed = part->instructions > span->mark.first
					   ? part->instructions - span->mark.first
					   : 0;
		instructions += counts[part->segment] * executed;
	}
	ret[!(span->mark.mark & 1)] += instructions;
}

/* Visits, and instructions. */
static void counts_sum(const uint64_t *counts, uint32_t mark, uint64_t ret[2])
{
	for (uint32_t i = 0; i < kept_count; i++)
		if (kept[i].mark.mark >> 1 == mark && kept[i].last)
			span_sum(counts, &kept[i], ret);
}

static void mark_sum(struct thread *reader, uint32_t mark, struct mark_reading *ret)
{
	uint64_t all[2] = {}, own[2] = {};

	if (ended)
		counts_sum(ended, mark, all);
	for (struct thread *thread = thread_next(NULL); thread; thread = thread_next(thread))
		if (thread != reader && mark_is_counting(thread))
			counts_sum(counts_of(thread), mark, all);
	counts_sum(counts_of(reader), mark, own);
	ret->visits += all[0] + own[0];
	ret->instructions += all[1] + own[1];
	ret->thread_visits += own[0];
	ret->thread_instructions += own[1];
}

static bool mark_take(struct thread *reader, uint32_t mark, struct mark_reading *ret)
{
	mark_sum(reader, mark, ret);
	return mark_data_read(reader, mark, ret);
}

/* The program has written to *ret itself, just before. */
void mark_read(struct thread *thread, uint64_t hash, struct mark_reading *ret)
{
	const struct mark_names *names =
		(const struct mark_names *)marks_table(marks_area()->names);
	uint32_t count = names ? __atomic_load_n(&names->count, __ATOMIC_ACQUIRE) : 0;
	uint32_t of = 0;

	*ret = (struct mark_reading){};
	for (uint32_t i = 0; i < count && !is_full; i++) {
		const struct mark_name *name = &names->items[i];

		if (name->hash == hash && !of)
			of = name->mark;
		if (name->hash != hash && (!of || name->of != of))
			continue;
		if (!mark_take(thread, name->mark, ret)) {
			*ret = (struct mark_reading){};
			return;
		}
		ret->counted = 1;
	}
}
