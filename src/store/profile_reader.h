/* SPDX-License-Identifier: BSD-2-Clause */
/* How profile.c reads tables, and what profile_checks.c adds for some of them. */
#pragma once

#include <sqlite3.h>

#include "base/progress.h"
#include "store/profile.h"
#include "store/table.h"

enum { READER_SUMS = 16 /* columns of type SUM that a table may have; asserted */ };

/*
 * The first error in a row is kept in `wrong` until the row has been read, so that the functions
 * that read its columns need not check for errors.
 */
struct reader {
	struct profile *profile;
	const char *path;
	sqlite3 *db;
	sqlite3_stmt *row;
	const char *wrong; /* NULL: the row is good so far */
	size_t rows; /* of this table, with the present one */
	uint64_t last; /* id or rowid of the row before */
	uint64_t sums[READER_SUMS]; /* of the columns of type SUM, up to the present row */
	bool has_if; /* a column that depends on a flag has been read in this row */
	size_t memory_left; /* bytes that texts and lists may still take */
	struct progress *progress;
	uint64_t read, expected; /* rows of tables before this one; of all, 0: not known */
};

void reader_wrong(struct reader *reader, const char *what);
/* Adds to a sum, which must not exceed INT64_MAX. */
void reader_sum(struct reader *reader, uint64_t *sum, uint64_t count);
/* Memory that lives as long as the profile. */
void *reader_memory(struct reader *reader, size_t size);

/* Makes array[index] exist, with zeroes from the old end on. */
void *reader_grow(void *array, size_t *array_count, size_t index, size_t size);

/* Every array of rows with ids has its entry 0, also before its table is read. */
void reader_arrays_begin(struct profile *profile);
/* Reads a table; the tables that it refers to have been read. */
int reader_table(struct reader *reader, enum store_table_id table);
/* Adds what execution_recent has to the executions that were read: profile_executions.c. */
int reader_executions(struct reader *reader);
/* What the readers of a profile allocated for its texts and lists: profile.memory. */
void reader_memory_free(void *memory);

/* What the types of a table's columns do not say. */
struct reader_check {
	void (*row)(struct reader *reader, void *row); /* after each row; NULL: nothing */
	int (*done)(struct reader *reader); /* after the last row; NULL: nothing */
};
extern const struct reader_check reader_checks[STORE_TABLE_COUNT];
