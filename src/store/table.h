/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables of a profile as data: what tables.def declares, for who writes, reads, checks and
 * documents any of them.
 */
#pragma once

#include "base/strbuf.h"
#include "store/rows.h"

/* How the rows of a table are told apart, and how they lie in memory. */
enum store_style {
	STORE_DENSE, /* by ids without gaps from 1 on: array index = id */
	STORE_SPARSE, /* by ids: array index = id */
	STORE_NUMBERED, /* by ids that nothing refers to: an array from 0 */
	STORE_KEYED, /* by the first columns: an array from 0 */
	STORE_BULKY, /* the same, with long rows that lie beside their keys */
	STORE_APPENDED, /* not at all: an array from 0, in the order of writing */
};

enum store_type {
	STORE_ID, /* of the row */
	STORE_REF, /* id of a row of another table */
	STORE_REF_OR_NULL,
	STORE_REF_OR_ZERO, /* for keys, which are never NULL */
	STORE_PARENT, /* of a row of the same table, which may come later or be missing; or NULL */
	STORE_ABOVE, /* of an earlier row of the same table; or 0 */
	STORE_HERE, /* of a machine; who writes may leave it to the store; or NULL */
	STORE_OF, /* of a recording of one kind; who writes may leave it to the store */
	STORE_U32,
	STORE_FROM_ONE,
	STORE_COUNT,
	STORE_SUM,
	STORE_MOST,
	STORE_BITS,
	STORE_FLAG,
	STORE_USER,
	STORE_TEXT,
	STORE_TEXT_OR_NULL,
	STORE_LAST_PART, /* text; who writes may leave it out: the last part of another column */
	STORE_NAMED,
	STORE_SIGNED_IF,
	STORE_REAL_IF,
	STORE_BYTES,
	STORE_LIST,
	STORE_LATER,
};

enum store_table_id {
#define TABLE(name, array, count, style, keys, domain, text) STORE_TABLE_##name,
#define COLUMN(type, name, argument, text)
#define FIELD(type, name, text)
#define END
#include "store/tables.def"
	STORE_TABLE_COUNT
};

struct store_column {
	const char *name; /* NULL: the end */
	enum store_type type;
	size_t offset; /* in the row */
	enum store_table_id table; /* that references are of */
	size_t other; /* offset of the size of bytes, of the flag, or of the whole text */
	uint64_t max; /* of numbers and bytes; STORE_OF: the kind */
	const char *const *names; /* of an enum, NULL behind the last */
	const char *text;
};

struct store_table {
	const char *name;
	size_t array, array_count; /* offsets in struct profile */
	size_t row_size;
	enum store_style style;
	unsigned keys; /* columns that tell rows apart */
	unsigned domain; /* of enum profile_domain; 0: loaded when a profile is opened */
	const char *text;
	const struct store_column *(*columns)(void);
};

extern const struct store_table store_tables[STORE_TABLE_COUNT];

bool store_type_is_reference(enum store_type type);
/* Whether array indexes are ids. */
bool store_style_has_ids(enum store_style style);

/* "create table ..." of each, as it stands in the file. */
void store_table_sql_create(const struct store_table *table, struct strbuf *out);
/*
 * A statement that takes all columns but those of STORE_LATER and replaces the row of the same key.
 */
void store_table_sql_put(const struct store_table *table, struct strbuf *out);
/* The same for so many rows at once. */
void store_table_sql_put_many(const struct store_table *table, unsigned rows, struct strbuf *out);
/*
 * The same, which adds to the columns of STORE_SUM of the row that is there, and keeps the greater
 * one of STORE_MOST.
 */
void store_table_sql_add(const struct store_table *table, struct strbuf *out);
/* Its rows in the order of their keys; the last column is the rowid if the rows are appended. */
void store_table_sql_read(const struct store_table *table, struct strbuf *out);
/* Its section of docs/profile-format.md. */
void store_table_page(const struct store_table *table, struct strbuf *out);
