/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables, which all analyses make and all reports print: typed columns, flat rows, and the totals
 * of which shares are parts. Column names are the names of the JSON form; the same thing has the
 * same name in every view.
 *
 * A cell starts as "nothing" (JSON null, blank in text). Strings are borrowed from the profile,
 * which must outlive the table, or given to the table by table_own().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "store/profile.h"

enum column_kind {
	COLUMN_TEXT,
	COLUMN_COUNT, /* samples; thousands separated in text */
	COLUMN_INTEGER, /* ids, lines */
	COLUMN_ADDRESS, /* a hexadecimal string in JSON too: JSON numbers lose bits above 2^53 */
	COLUMN_SHARE, /* 0 to 1; a percentage in text */
	COLUMN_DELTA, /* difference of two shares; signed */
	COLUMN_REAL, /* any number */
	COLUMN_BOOL,
	COLUMN_VALUES, /* a list of values with their shares; sorted by the share of the first */
};

enum column_use {
	COLUMN_EVERYWHERE,
	COLUMN_DATA, /* JSON and sorting only */
	COLUMN_PEOPLE, /* text only: a composition of data columns */
};

/* Which part of a text is kept that is too long for its column. */
enum column_cut {
	CUT_MIDDLE, /* beginning and end */
	CUT_NAME, /* of "name+0x4e (inlined) [module]" the offset, and what fits of the name */
	CUT_PLACE, /* of "folder/file.c:12" the line, and what fits of the file's name */
};

struct column {
	const char *name;
	const char *title;
	enum column_kind kind;
	enum column_use use;
	bool elastic; /* shortened first when the terminal is too narrow */
	bool optional; /* not shown in text where no row has it */
	bool spills; /* text that may go on over the columns behind it if they are blank */
	enum column_cut cut;
	/*
	 * Above 0: left out of text where the line is too narrow for the comfort of others, the
	 * highest first. Columns that identify a row, or by which rows are sorted, have 0.
	 */
	unsigned spare;
	unsigned comfort; /* elastic: not made narrower while something is to spare; 0: 16 */
};

/* One of the most common values somewhere. */
struct common_value {
	const uint64_t *words; /* as many as the cell says */
	const char *text; /* as a person would want to see it */
	uint64_t count; /* estimated number of occurrences */
	/* estimated number, among those received, of the first one that was counted; from 1 on */
	uint64_t first;
	double share, low,
		high; /* of the values received; with 95 % the truth lies between low and high */
};

struct common_values {
	const char *label; /* before the values in text: a register, an item; NULL none */
	unsigned words; /* of a value; more than one: tuples */
	size_t count;
	size_t shown; /* in text; JSON has all */
	struct common_value items[]; /* the most common first */
};

struct cell {
	bool set;
	union {
		const char *text;
		uint64_t number; /* COUNT, ADDRESS, BOOL */
		int64_t integer; /* INTEGER */
		double real; /* SHARE, DELTA, REAL */
		const struct common_values *values;
	};
};

/* seen = kept + the sum of losses. selected: of kept, what the filters left. */
struct totals {
	uint64_t seen, kept, selected;
	const struct profile_named_count *losses;
	size_t loss_count;
	const char *event; /* what was sampled; NULL: time, or there are no samples */
	uint64_t period; /* events to a sample, in the mean; 0: as many as gave the rate */
	bool rate_changed; /* while they were recorded: shares are of samples, not of time */
};

struct table {
	const char *view;
	const struct column *columns;
	size_t column_count;
	struct cell *cells; /* row_count * column_count */
	size_t row_count;
	size_t row_capacity;
	struct totals totals;
	struct totals baseline; /* of the older profile of a difference; seen is 0 otherwise */
	struct totals runs; /* of views of values: interpreted runs; selected is unused */
	bool has_runs;
	size_t unreadable; /* of views of values: lists that could not be read and are left out */
	bool filtered; /* totals.selected is less than kept by the user's wish */
	const char *empty; /* why there are no rows; NULL: there are some */
	const char *heading; /* a sentence above the table that concerns all rows; NULL: none */
	size_t omitted; /* rows left out by --limit or --min-share */
	bool omitted_branches; /* each of them stands for all that is below it */
	int level_column; /* nesting of the last elastic column in text; -1 none */
	int group_column; /* a blank line in text where it changes; -1 none */
	/*
	 * A line that is too long for the terminal goes on in another table below, where the first
	 * so many columns are repeated. 0: it is shortened.
	 */
	size_t repeated_columns;
	void **owned;
	size_t owned_count, owned_capacity;
};

/* columns must outlive the table. */
struct table *table_create(const char *view, const struct column *columns, size_t column_count);
/* With the columns of both, one after the other; they need not outlive the table. */
struct table *table_create_joined(const char *view, const struct column *first, size_t first_count,
				  const struct column *second, size_t second_count);
void table_destroy(struct table *table);
DEFINE_AUTO(struct table, table_destroy)

void table_totals_set(struct table *table, const struct profile *profile, uint64_t selected);
/* For views of values: also how many runs gave values and how many did not. */
void table_runs_set(struct table *table, const struct profile *profile);
/* A new last row, every cell unset; valid until the next one. */
struct cell *table_row_add(struct table *table);
struct cell *table_row(const struct table *table, size_t row);
/* Takes a heap string over; returns it. */
const char *table_own(struct table *table, char *text);
/* Memory that lives as long as the table. */
void *table_alloc(struct table *table, size_t size);
/* -1: no such column. */
int table_column(const struct table *table, const char *name);

/* Numbers fall, texts rise, unset cells come last; equal rows keep their order. */
void table_sort(struct table *table, size_t column);
/* Keeps the first rows. */
void table_limit(struct table *table, size_t limit);
/*
 * Keeps the limit rows with the most in the given column, in their order, parents before their
 * children: for rows that form a tree by level_column, where no row has more than its parent.
 */
void table_limit_tree(struct table *table, size_t weight_column, size_t limit);

double share_of(uint64_t count, uint64_t seen);

static inline struct cell cell_text(const char *text)
{
	return (struct cell){ .set = true, .text = text };
}

static inline struct cell cell_number(uint64_t number)
{
	return (struct cell){ .set = true, .number = number };
}

static inline struct cell cell_integer(int64_t integer)
{
	return (struct cell){ .set = true, .integer = integer };
}

static inline struct cell cell_real(double real)
{
	return (struct cell){ .set = true, .real = real };
}

/* NULL: nothing. */
static inline struct cell cell_text_or_unset(const char *text)
{
	return text && *text ? cell_text(text) : (struct cell){};
}

static inline struct cell cell_values(const struct common_values *values)
{
	return (struct cell){ .set = true, .values = values };
}
