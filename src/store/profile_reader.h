/* SPDX-License-Identifier: BSD-2-Clause */
/* How profile.c, profile_values.c, profile_trace.c and profile_flow.c read rows. Private to store/. */
#pragma once

#include <sqlite3.h>

#include "store/profile.h"

/*
 * What goes wrong in a row is kept in `wrong` until the row has been read, so that the row
 * functions need no ifs.
 */
struct reader {
	struct profile *profile;
	const char *path;
	sqlite3 *db;
	sqlite3_stmt *row;
	const char *wrong; /* NULL: the row is good so far */
	size_t rows; /* of this table, with the present one */
	uint64_t last[2]; /* key of the row before */
	uint64_t sums[2]; /* of this table, up to the present row */
	size_t memory_left; /* bytes that strings and lists may still take */
};

void reader_wrong(struct reader *reader, const char *what);
bool reader_is_null(struct reader *reader, int column);
/* Each gives something harmless in place of what is wrong. */
const char *reader_text(struct reader *reader, int column);
/* "" for NULL. */
const char *reader_optional_text(struct reader *reader, int column);
const uint8_t *reader_blob(struct reader *reader, int column, size_t max, size_t *ret_size);
/* Any 64 bits. */
uint64_t reader_bits(struct reader *reader, int column);
uint64_t reader_number(struct reader *reader, int column, uint64_t max);
uint64_t reader_count(struct reader *reader, int column);
uint32_t reader_number32(struct reader *reader, int column);
/* Finite. */
double reader_real(struct reader *reader, int column);
/* -1 for NULL. */
int64_t reader_user_id(struct reader *reader, int column);
/* The id in column 0, or 0 if it cannot be. */
uint32_t reader_id(struct reader *reader);
/* Rows come in the order of their keys, each key once. */
void reader_key_check(struct reader *reader, uint64_t major, uint64_t minor);
/* Adds to one of the sums of this table, which must not exceed INT64_MAX. */
void reader_sum(struct reader *reader, int which, uint64_t count);
/* A row of name, text and count, in the order of names. */
void reader_named_count(struct reader *reader, struct profile_named_count **array,
			size_t *array_count);

/* The index of an entry that must have been read already; there tells. */
#define reader_reference(reader, column, array, array_count, there)                                \
	({                                                                                         \
		uint64_t id_ = reader_bits((reader), (column));                                    \
		if (id_ == 0 || id_ >= (array_count) || !(array)[id_].there) {                     \
			reader_wrong((reader), "a reference points nowhere");                      \
			id_ = 0;                                                                   \
		}                                                                                  \
		(uint32_t) id_;                                                                    \
	})

/* Makes array[index] exist, with zeroes from the old end on. */
void *reader_grow(void *array, size_t *array_count, size_t index, size_t size);

#define entry_at(array, array_count, index)                                                        \
	({                                                                                         \
		size_t index_ = (index);                                                           \
		(array) = reader_grow((array), &(array_count), index_, sizeof(*(array)));          \
		&(array)[index_];                                                                  \
	})

struct reader_table {
	const char *name, *sql;
	void (*row_read)(struct reader *);
};

/* In that order; refers to rows that were read before. */
int reader_tables(struct reader *reader, const struct reader_table tables[], size_t count);
/* The tables of values, once all others are read. */
int reader_values(struct reader *reader);
/* The tables of executed code; before the totals, of which their runs are a part. */
int reader_trace(struct reader *reader);
/* The tables of the order of execution, after those. */
int reader_flow(struct reader *reader);
/* What the readers of a profile allocated for its strings and lists: profile.memory. */
void reader_memory_free(void *memory);
