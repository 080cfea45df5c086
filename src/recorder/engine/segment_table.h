/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the segments of a process stand for (wire/stream.h), as its catalog told. A child's table
 * begins with what its parent knew when it forked; that part is shared.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "wire/stream.h"

/* Columns: name, text. Why a record of a catalog was not believed. */
#define CATALOG_FAULTS(X)                                                                          \
	X(SIZE, "records of an impossible size; the rest of their catalog could not be read")      \
	X(TYPE, "records of an unknown type")                                                      \
	X(SHORT, "records that are too short for what they say")                                   \
	X(ORDER, "records that say which process it is, not at the beginning")                     \
	X(NUMBER, "segments with a number that cannot be")                                         \
	X(AGAIN, "segments that were known already")                                               \
	X(BLOCK, "segments of blocks that cannot be")                                              \
	X(FRAGMENT, "segments cut short that never began")                                         \
	X(COUNTER, "counters that no tool has, or without an end of their name")                   \
	X(RANGE, "modules without an extent, or without an end of their name")

enum catalog_fault {
	CATALOG_FINE,
#define X(name, text) CATALOG_##name,
	CATALOG_FAULTS(X)
#undef X
		CATALOG_FAULT_COUNT
};

const char *catalog_fault_text(enum catalog_fault fault);

/* Blocks first to first + whole - 1, then last. */
struct segment {
	uint32_t first;
	uint32_t last;
	uint32_t whole;
	bool known;
};

struct segment_table {
	unsigned references;
	struct segment_table *parent; /* NULL: none */
	uint32_t inherited; /* segments below are the parent's */
	ARRAY(struct stream_block) blocks;
	ARRAY(uint32_t) marks; /* one for each block; the owner's to use, 0 at first */
	ARRAY(struct segment) segments; /* by number - inherited */
	size_t gaps; /* of segments, not known yet */
};

/* Takes a reference on the parent, which may be NULL. */
struct segment_table *segment_table_create(struct segment_table *parent, uint32_t inherited);
void segment_table_release(struct segment_table *table);
DEFINE_AUTO(struct segment_table, segment_table_release)

/* Nothing will be added any more: gives back the memory that was for that. */
void segment_table_trim(struct segment_table *table);
/* Bytes, without what is shared with the parent. */
size_t segment_table_memory(const struct segment_table *table);

/* Every segment that is known has a smaller number. */
uint32_t segment_table_limit(const struct segment_table *table);
/* false: every number from 1 to the limit is known. */
bool segment_table_has_gaps(const struct segment_table *table);
/* The table that holds the segment, this one or one that it inherits from; NULL: no table does. */
const struct segment_table *segment_table_find(const struct segment_table *table, uint32_t segment,
					       const struct segment **ret);

/* Whether all of these are known: for many at once, in a fraction of a nanosecond each. */
bool segment_table_knows(const struct segment_table *table, const uint32_t *segments, size_t count);

static inline uint32_t segment_block(const struct segment *segment, uint32_t i)
{
	return i < segment->whole ? segment->first + i : segment->last;
}

/* The record is in private memory and as long as it says. */
enum catalog_fault segment_table_add(struct segment_table *table,
				     const struct stream_segments *record);
enum catalog_fault segment_table_add_partial(struct segment_table *table,
					     const struct stream_partial *record);
