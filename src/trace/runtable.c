// SPDX-License-Identifier: BSD-2-Clause
/*
 * Runs by number. The runs of a fragment share its blocks: run first + i is blocks 0 to i. A run that was cut short has whole
 * blocks of a fragment and a last one of its own.
 *
 * 1. Numbers are from 1 to STREAM_RUNS_MAX - 1; each is defined once. Memory grows with what the log says, not with the
 *    numbers that it names.
 * 2. What a run refers to lies in its own table, whoever's the fragment was that it was cut from.
 */
#include "trace/runtable.h"

#include <stdlib.h>

enum {
	INSTRUCTION_BYTES_MAX = 15,
	DEPTH_MAX = 4096,
	GAP_MAX = 1 << 10, /* numbers that other threads have taken and not yet told of */
	PIECES_MAX = 2 * STREAM_RUNS_MAX,
};

const char *log_fault_text(enum log_fault fault)
{
	static const char *const texts[] = {
		[LOG_FINE] = "",
#define X(name, text) [LOG_##name] = text,
		LOG_FAULTS(X)
#undef X
	};

	return texts[fault];
}

static uint32_t depth(const struct runtable *table)
{
	uint32_t count = 0;

	for (; table; table = table->parent)
		count++;
	return count;
}

struct runtable *runtable_create(struct runtable *parent, uint32_t inherited)
{
	struct runtable *table = mem_zalloc(sizeof(*table));

	table->references = 1;
	/* Runs from 1 on; a chain of forks that is longer than any real one is cut. */
	table->inherited = 1;
	if (!parent || inherited <= 1 || depth(parent) >= DEPTH_MAX)
		return table;
	parent->references++;
	table->parent = parent;
	table->inherited = inherited < STREAM_RUNS_MAX ? inherited : STREAM_RUNS_MAX;
	return table;
}

void runtable_release(struct runtable *table)
{
	while (table && --table->references == 0) {
		struct runtable *parent = table->parent;

		array_deinit(&table->pieces);
		array_deinit(&table->marks);
		array_deinit(&table->runs);
		free(table);
		table = parent;
	}
}

uint32_t runtable_limit(const struct runtable *table)
{
	return table->inherited + (uint32_t)table->runs.count;
}

bool runtable_has_gaps(const struct runtable *table)
{
	for (; table; table = table->parent)
		if (table->gaps ||
		    (table->parent && runtable_limit(table->parent) < table->inherited))
			return true;
	return false;
}

const struct runtable *runtable_find(const struct runtable *table, uint32_t run,
				     const struct runtable_run **ret)
{
	if (run == 0)
		return NULL;
	while (table && run < table->inherited)
		table = table->parent;
	if (!table || run - table->inherited >= table->runs.count ||
	    !table->runs.items[run - table->inherited].known)
		return NULL;
	*ret = &table->runs.items[run - table->inherited];
	return table;
}

static enum log_fault number_check(const struct runtable *table, uint32_t run, uint32_t count)
{
	if (run < table->inherited || run >= STREAM_RUNS_MAX || count > STREAM_RUNS_MAX - run)
		return run && run < table->inherited ? LOG_AGAIN : LOG_NUMBER;
	if (run > runtable_limit(table) + GAP_MAX || table->pieces.count > PIECES_MAX)
		return LOG_NUMBER;
	for (uint32_t i = run - table->inherited; i < table->runs.count && count; i++, count--)
		if (table->runs.items[i].known)
			return LOG_AGAIN;
	return LOG_FINE;
}

static bool piece_fits(const struct stream_piece *piece)
{
	return piece->instructions <= STREAM_BLOCK_MAX && piece->length >= piece->instructions &&
	       piece->length <= piece->instructions * INSTRUCTION_BYTES_MAX &&
	       piece->pc + piece->length >= piece->pc;
}

static uint32_t piece_push(struct runtable *table, const struct stream_piece *piece)
{
	*array_push(&table->pieces) = *piece;
	*array_push(&table->marks) = 0;
	return (uint32_t)table->pieces.count - 1;
}

static void run_set(struct runtable *table, uint32_t number, struct runtable_run run)
{
	uint32_t index = number - table->inherited;

	while (table->runs.count <= index) {
		*array_push(&table->runs) = (struct runtable_run){};
		table->gaps++;
	}
	table->gaps--;
	run.known = true;
	table->runs.items[index] = run;
}

enum log_fault runtable_add_runs(struct runtable *table, const struct stream_runs *record)
{
	size_t room = (record->record.size - sizeof(*record)) / sizeof(struct stream_piece);
	uint32_t first = (uint32_t)table->pieces.count;
	enum log_fault fault;

	if (record->count == 0 || record->count > STREAM_PIECES_MAX || record->count > room)
		return LOG_SHORT;
	fault = number_check(table, record->first, record->count);
	if (fault)
		return fault;
	for (uint32_t i = 0; i < record->count; i++)
		if (!record->pieces[i].instructions || !piece_fits(&record->pieces[i]))
			return LOG_PIECE;
	for (uint32_t i = 0; i < record->count; i++) {
		piece_push(table, &record->pieces[i]);
		run_set(table, record->first + i,
			(struct runtable_run){ .first = first, .last = first + i, .whole = i });
	}
	return LOG_FINE;
}

/* The whole blocks of a fragment that is an ancestor's are copied; else they are shared. */
static uint32_t pieces_share(struct runtable *table, const struct runtable *owner, uint32_t first,
			     uint32_t count)
{
	uint32_t place = (uint32_t)table->pieces.count;

	if (owner == table)
		return first;
	for (uint32_t i = 0; i < count; i++)
		piece_push(table, &owner->pieces.items[first + i]);
	return place;
}

enum log_fault runtable_add_partial(struct runtable *table, const struct stream_partial *record)
{
	const struct runtable_run *longest = NULL;
	const struct runtable *owner = NULL;
	uint32_t first = 0;
	enum log_fault fault = number_check(table, record->run, 1);

	if (fault)
		return fault;
	if (!piece_fits(&record->last) || record->pieces >= STREAM_PIECES_MAX)
		return LOG_PIECE;
	if (record->pieces) {
		owner = runtable_find(table, record->first + record->pieces - 1, &longest);
		if (!owner || longest->whole != record->pieces - 1 ||
		    longest->last != longest->first + longest->whole)
			return LOG_FRAGMENT;
		first = pieces_share(table, owner, longest->first, record->pieces);
	}
	run_set(table, record->run,
		(struct runtable_run){ .first = first,
				       .last = piece_push(table, &record->last),
				       .whole = record->pieces });
	return LOG_FINE;
}
