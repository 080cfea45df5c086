/* SPDX-License-Identifier: BSD-2-Clause */
/* A path as a person reads it: neighbouring blocks of one function are one step. */
#pragma once

#include "analyse/order.h"
#include "analyse/table.h"

/* Of a path, from its blocks. */
struct step {
	size_t first, count; /* blocks, by place in the path */
	uint64_t instructions;
	uint32_t location; /* of the first block */
	uint32_t line_low, line_high; /* in the first block's file; 0 unknown */
};

struct steps {
	ARRAY(struct step) items;
};

void steps_make(const struct profile *profile, const struct order_blocks *blocks,
		struct steps *ret);

/* Of its first block; 0: unknown. */
uint32_t step_file(const struct profile *profile, const struct step *step);

/* Columns of a place in the code. */
enum {
	STEP_WHERE,
	STEP_PLACE,
	STEP_MODULE,
	STEP_SYMBOL,
	STEP_FILE,
	STEP_LINE,
	STEP_LAST,
	STEP_COLUMNS
};

#define STEP_COLUMN_LIST                                                                           \
	{ "where", "Function", COLUMN_TEXT, COLUMN_PEOPLE, true, .cut = CUT_NAME, .comfort = 20 }, \
		{ "place", "Lines", COLUMN_TEXT,      COLUMN_PEOPLE,                               \
		  true,	   true,    .cut = CUT_PLACE, .comfort = 13 },                             \
		{ "module", "", COLUMN_TEXT, COLUMN_DATA },                                        \
		{ "symbol", "", COLUMN_TEXT, COLUMN_DATA },                                        \
		{ "file", "", COLUMN_TEXT, COLUMN_DATA },                                          \
		{ "line", "", COLUMN_INTEGER, COLUMN_DATA },                                       \
	{                                                                                          \
		"last_line", "", COLUMN_INTEGER, COLUMN_DATA                                       \
	}

/* row: where these columns begin. */
void step_fill(struct table *table, const struct profile *profile, const struct step *step,
	       struct cell *row);
