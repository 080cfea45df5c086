// SPDX-License-Identifier: BSD-2-Clause
/*
 * Segments by number. The segments of a fragment share its blocks: segment first + i is blocks 0 to
 * i. A segment that was cut short has whole blocks of a fragment and a last one of its own.
 *
 *	in	fragments and segments, as a catalog explains them
 *	out	the blocks of a segment, by its number
 *	owner	the catalog of the process; a child shares what its parent knew
 *
 * 1. Numbers are from 1 to STREAM_SEGMENTS_MAX - 1; each is defined once. Memory grows with what
 *    the catalog says, not with the numbers that it names.
 * 2. A segment refers only to its own table, also if it was cut from a fragment of an ancestor's
 *    table.
 */
#include "recorder/engine/segment_table.h"

#include <stdlib.h>
#include <string.h>

enum {
	INSTRUCTION_BYTES_MAX = 15,
	DEPTH_MAX = 4096,
	GAP_MAX = 1 << 10, /* numbers that other threads have taken and not yet told of */
	BLOCKS_MAX = 2 * STREAM_SEGMENTS_MAX,
};

const char *catalog_fault_text(enum catalog_fault fault)
{
	static const char *const texts[] = {
		[CATALOG_FINE] = "",
#define X(name, text) [CATALOG_##name] = text,
		CATALOG_FAULTS(X)
#undef X
	};

	return texts[fault];
}

static uint32_t depth(const struct segment_table *table)
{
	uint32_t count = 0;

	for (; table; table = table->parent)
		count++;
	return count;
}

struct segment_table *segment_table_create(struct segment_table *parent, uint32_t inherited)
{
	struct segment_table *table = mem_zalloc(sizeof(*table));

	table->references = 1;
	/* Segments from 1 on; a chain of forks that is longer than any real one is cut. */
	table->inherited = 1;
	if (!parent || inherited <= 1 || depth(parent) >= DEPTH_MAX)
		return table;
	parent->references++;
	table->parent = parent;
	table->inherited = inherited < STREAM_SEGMENTS_MAX ? inherited : STREAM_SEGMENTS_MAX;
	return table;
}

void segment_table_release(struct segment_table *table)
{
	while (table && --table->references == 0) {
		struct segment_table *parent = table->parent;

		array_deinit(&table->blocks);
		array_deinit(&table->marks);
		array_deinit(&table->segments);
		free(table);
		table = parent;
	}
}

#define array_trim(array)                                                                          \
	do {                                                                                       \
		if ((array)->count) {                                                              \
			(array)->capacity = (array)->count;                                        \
			(array)->items = mem_realloc((array)->items, (array)->count,               \
						     sizeof(*(array)->items));                     \
		}                                                                                  \
	} while (0)

void segment_table_trim(struct segment_table *table)
{
	array_trim(&table->blocks);
	array_trim(&table->marks);
	array_trim(&table->segments);
}

size_t segment_table_memory(const struct segment_table *table)
{
	return sizeof(*table) + table->blocks.capacity * sizeof(*table->blocks.items) +
	       table->marks.capacity * sizeof(*table->marks.items) +
	       table->segments.capacity * sizeof(*table->segments.items);
}

uint32_t segment_table_limit(const struct segment_table *table)
{
	return table->inherited + (uint32_t)table->segments.count;
}

bool segment_table_has_gaps(const struct segment_table *table)
{
	for (; table; table = table->parent)
		if (table->gaps ||
		    (table->parent && segment_table_limit(table->parent) < table->inherited))
			return true;
	return false;
}

const struct segment_table *segment_table_find(const struct segment_table *table, uint32_t segment,
					       const struct segment **ret)
{
	if (segment == 0)
		return NULL;
	while (table && segment < table->inherited)
		table = table->parent;
	if (!table || segment - table->inherited >= table->segments.count ||
	    !table->segments.items[segment - table->inherited].known)
		return NULL;
	*ret = &table->segments.items[segment - table->inherited];
	return table;
}

static enum catalog_fault number_check(const struct segment_table *table, uint32_t segment,
				       uint32_t count)
{
	if (segment < table->inherited || segment >= STREAM_SEGMENTS_MAX ||
	    count > STREAM_SEGMENTS_MAX - segment)
		return segment && segment < table->inherited ? CATALOG_AGAIN : CATALOG_NUMBER;
	if (segment > segment_table_limit(table) + GAP_MAX || table->blocks.count > BLOCKS_MAX)
		return CATALOG_NUMBER;
	for (uint32_t i = segment - table->inherited; i < table->segments.count && count;
	     i++, count--)
		if (table->segments.items[i].known)
			return CATALOG_AGAIN;
	return CATALOG_FINE;
}

static bool block_fits(const struct stream_block *block)
{
	return block->instructions <= STREAM_BLOCK_INSTRUCTIONS_MAX &&
	       block->length >= block->instructions &&
	       block->length <= block->instructions * INSTRUCTION_BYTES_MAX &&
	       block->pc + block->length >= block->pc;
}

static uint32_t block_push(struct segment_table *table, const struct stream_block *block)
{
	*array_push(&table->blocks) = *block;
	*array_push(&table->marks) = 0;
	return (uint32_t)table->blocks.count - 1;
}

static void segment_set(struct segment_table *table, uint32_t number, struct segment segment)
{
	uint32_t index = number - table->inherited;

	while (table->segments.count <= index) {
		*array_push(&table->segments) = (struct segment){};
		table->gaps++;
	}
	table->gaps--;
	segment.known = true;
	table->segments.items[index] = segment;
}

enum catalog_fault segment_table_add(struct segment_table *table,
				     const struct stream_segments *record)
{
	size_t room = (record->record.size - sizeof(*record)) / sizeof(struct stream_block);
	uint32_t first = (uint32_t)table->blocks.count;
	enum catalog_fault fault;

	if (record->count == 0 || record->count > STREAM_SEGMENT_BLOCKS_MAX || record->count > room)
		return CATALOG_SHORT;
	fault = number_check(table, record->first, record->count);
	if (fault)
		return fault;
	for (uint32_t i = 0; i < record->count; i++)
		if (!record->blocks[i].instructions || !block_fits(&record->blocks[i]))
			return CATALOG_BLOCK;
	for (uint32_t i = 0; i < record->count; i++) {
		block_push(table, &record->blocks[i]);
		segment_set(table, record->first + i,
			    (struct segment){ .first = first, .last = first + i, .whole = i });
	}
	return CATALOG_FINE;
}

/* The whole blocks of a fragment that is an ancestor's are copied; else they are shared. */
static uint32_t blocks_share(struct segment_table *table, const struct segment_table *owner,
			     uint32_t first, uint32_t count)
{
	uint32_t place = (uint32_t)table->blocks.count;

	if (owner == table)
		return first;
	for (uint32_t i = 0; i < count; i++)
		block_push(table, &owner->blocks.items[first + i]);
	return place;
}

enum catalog_fault segment_table_add_partial(struct segment_table *table,
					     const struct stream_partial *record)
{
	const struct segment *longest = NULL;
	const struct segment_table *owner = NULL;
	uint32_t first = 0;
	enum catalog_fault fault = number_check(table, record->segment, 1);

	if (fault)
		return fault;
	if (!block_fits(&record->last) || record->blocks >= STREAM_SEGMENT_BLOCKS_MAX)
		return CATALOG_BLOCK;
	if (record->blocks) {
		owner = segment_table_find(table, record->first + record->blocks - 1, &longest);
		if (!owner || longest->whole != record->blocks - 1 ||
		    longest->last != longest->first + longest->whole)
			return CATALOG_FRAGMENT;
		first = blocks_share(table, owner, longest->first, record->blocks);
	}
	segment_set(table, record->segment,
		    (struct segment){ .first = first,
				      .last = block_push(table, &record->last),
				      .whole = record->blocks });
	return CATALOG_FINE;
}

typedef uint32_t eight __attribute__((vector_size(32)));

/* Whether any of them is not from 1 to the last. */
static inline __attribute__((always_inline)) bool segments_beyond(const uint32_t *segments,
								  size_t count, uint32_t last)
{
	eight beyond = {}, some;
	bool any = false;
	size_t i = 0;

#pragma GCC unroll 4
	for (; i + 8 <= count; i += 8) {
		memcpy(&some, segments + i, sizeof(some));
		beyond |= (eight)(some - 1 >= last);
	}
	for (; i < count; i++)
		any |= segments[i] - 1 >= last;
	for (size_t j = 0; j < 8; j++)
		any |= beyond[j];
	return any;
}

static __attribute__((target("avx2"))) bool segments_beyond_wide(const uint32_t *segments,
								 size_t count, uint32_t last)
{
	return segments_beyond(segments, count, last);
}

bool segment_table_knows(const struct segment_table *table, const uint32_t *segments, size_t count)
{
	uint32_t last = segment_table_limit(table) - 1;
	bool beyond = __builtin_cpu_supports("avx2") ? segments_beyond_wide(segments, count, last)
						     : segments_beyond(segments, count, last);

	return !beyond && !segment_table_has_gaps(table);
}
