// SPDX-License-Identifier: BSD-2-Clause
/*
 * The rows of a profile that is written: any table, by its description; and what is more than one
 * row.
 *
 *	in	a struct for each row, and the description of its table
 *	out	statements of SQLite, in the transaction of the commit
 *	owner	the store
 *
 * SQLite's integers are signed, so that an address of the kernel is stored as a negative number;
 * casting back gives the same 64 bits. Texts and bytes are only read before the row has been
 * written.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"
#include "base/mem.h"
#include "store/container.h"
#include "store/store.h"
#include "store/store_private.h"

#define field(row, offset, type) (*(const type *)((const char *)(row) + (offset)))

static void bind_text(sqlite3_stmt *statement, int at, const char *text)
{
	sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
}

static void bind_unless(sqlite3_stmt *statement, int at, uint64_t value, bool null)
{
	if (null)
		sqlite3_bind_null(statement, at);
	else
		sqlite3_bind_int64(statement, at, (sqlite3_int64)value);
}

/* Empty bytes are no NULL; none are. */
static void bind_bytes(sqlite3_stmt *statement, int at, const void *bytes, size_t size)
{
	sqlite3_bind_blob64(statement, at, bytes || size ? bytes : "", size, SQLITE_STATIC);
}

static const char *last_part(const char *name, const char *path)
{
	const char *slash = strrchr(path, '/');

	if (name)
		return name;
	return slash && slash[1] ? slash + 1 : path;
}

static uint32_t recording_of(struct store *store, uint32_t given, enum recording_kind kind)
{
	return given ? given : store_recording(store, kind)->id.v;
}

static bool user_unknown(int64_t user)
{
	return user < 0 || user == UINT32_MAX;
}

static void column_bind(struct store *store, sqlite3_stmt *statement, int at,
			const struct store_column *column, const void *row)
{
	const size_t offset = column->offset, other = column->other;
	uint32_t number;
	const char *text;

	switch (column->type) {
	case STORE_ID:
	case STORE_REF:
		number = field(row, offset, uint32_t);
		assert(number);
		bind_unless(statement, at, number, false);
		break;
	case STORE_OF:
		number = recording_of(store, field(row, offset, uint32_t),
				      (enum recording_kind)column->max);
		bind_unless(statement, at, number, false);
		break;
	case STORE_REF_OR_NULL:
	case STORE_PARENT:
		number = field(row, offset, uint32_t);
		bind_unless(statement, at, number, !number);
		break;
	case STORE_HERE:
		number = field(row, offset, uint32_t);
		number = number ? number : store->machine.v;
		bind_unless(statement, at, number, !number);
		break;
	case STORE_ABOVE:
	case STORE_REF_OR_ZERO:
		bind_unless(statement, at, field(row, offset, uint32_t), false);
		break;
	case STORE_U32:
	case STORE_FROM_ONE:
		number = field(row, offset, uint32_t);
		assert(number <= column->max);
		assert(column->type != STORE_FROM_ONE || number);
		bind_unless(statement, at, number, false);
		break;
	case STORE_COUNT:
	case STORE_SUM:
	case STORE_MOST:
	case STORE_BITS:
		bind_unless(statement, at, field(row, offset, uint64_t), false);
		break;
	case STORE_FLAG:
		bind_unless(statement, at, field(row, offset, bool), false);
		break;
	case STORE_USER:
		bind_unless(statement, at, (uint64_t)field(row, offset, int64_t),
			    user_unknown(field(row, offset, int64_t)));
		break;
	case STORE_TEXT:
		bind_text(statement, at, field(row, offset, const char *));
		break;
	case STORE_TEXT_OR_NULL:
		text = field(row, offset, const char *);
		bind_text(statement, at, text && *text ? text : NULL);
		break;
	case STORE_LAST_PART:
		bind_text(statement, at,
			  last_part(field(row, offset, const char *),
				    field(row, other, const char *)));
		break;
	case STORE_NAMED:
		bind_text(statement, at, column->names[field(row, offset, unsigned)]);
		break;
	case STORE_SIGNED_IF:
		bind_unless(statement, at, (uint64_t)field(row, offset, int64_t),
			    !field(row, other, bool));
		break;
	case STORE_REAL_IF:
		if (field(row, other, bool))
			sqlite3_bind_double(statement, at, field(row, offset, double));
		else
			sqlite3_bind_null(statement, at);
		break;
	case STORE_BYTES:
	case STORE_LIST:
		assert(field(row, other, size_t) <= column->max);
		bind_bytes(statement, at, field(row, offset, const void *),
			   field(row, other, size_t));
		break;
	case STORE_LATER:
		break;
	}
}

/* After a failure SQLite may have ended the transaction: a row would be committed by itself. */
static int statement_run(struct store *store, sqlite3_stmt *statement)
{
	int rc;

	if (store->failed)
		return err_set(store->failed, "%s", store->why);
	rc = sqlite3_step(statement);
	sqlite3_reset(statement);
	if (rc == SQLITE_DONE)
		return 0;
	return store_fail(store, container_error(store->db, store->path, "write"));
}

static int row_write(struct store *store, sqlite3_stmt **statement, const struct store_table *table,
		     void (*sql)(const struct store_table *, struct strbuf *), const void *row)
{
	int at = 0;

	if (!*statement) {
		struct strbuf text = {};
		int err;

		sql(table, &text);
		err = container_prepare(store->db, store->path, strbuf_text(&text), statement);
		strbuf_deinit(&text);
		if (err)
			return store_fail(store, err);
	}
	for (const struct store_column *column = table->columns(); column->name; column++)
		if (column->type != STORE_LATER)
			column_bind(store, *statement, ++at, column, row);
	return statement_run(store, *statement);
}

static int row_put(struct store *store, enum store_table_id table, const void *row)
{
	return row_write(store, &store->puts[table], &store_tables[table], store_table_sql_put,
			 row);
}

/* --- Rows of which there are very many -------------------------------------------------------- */

enum { TOGETHER = 32 }; /* rows to a statement: each takes 0.4 of the time */

/* Their rows have no texts, which would have to be kept. */
static bool is_bulk(enum store_table_id table)
{
	return table == STORE_TABLE_location || table == STORE_TABLE_block ||
	       table == STORE_TABLE_block_part || table == STORE_TABLE_frame;
}

static int bulk_prepare(struct store *store, enum store_table_id table)
{
	struct store_bulk *bulk = &store->bulks[table];
	struct strbuf text = {};
	int err;

	if (bulk->put)
		return 0;
	store_table_sql_put_many(&store_tables[table], TOGETHER, &text);
	err = container_prepare(store->db, store->path, strbuf_text(&text), &bulk->put);
	strbuf_deinit(&text);
	return err ? store_fail(store, err) : 0;
}

static int together_put(struct store *store, enum store_table_id table)
{
	const struct store_table *of = &store_tables[table];
	struct store_bulk *bulk = &store->bulks[table];
	int at = 0, err = bulk_prepare(store, table);

	if (err)
		return err;
	for (size_t i = 0; i < TOGETHER; i++)
		for (const struct store_column *column = of->columns(); column->name; column++)
			if (column->type != STORE_LATER)
				column_bind(store, bulk->put, ++at, column,
					    bulk->rows + i * of->row_size);
	return statement_run(store, bulk->put);
}

static int bulk_write(struct store *store, enum store_table_id table)
{
	struct store_bulk *bulk = &store->bulks[table];
	size_t count = bulk->count;
	int err = 0;

	bulk->count = 0;
	if (count == TOGETHER)
		return together_put(store, table);
	for (size_t i = 0; i < count && !err; i++)
		err = row_put(store, table, bulk->rows + i * store_tables[table].row_size);
	return err;
}

static int bulk_add(struct store *store, enum store_table_id table, const void *row)
{
	struct store_bulk *bulk = &store->bulks[table];
	size_t size = store_tables[table].row_size;

	if (store->failed)
		return err_set(store->failed, "%s", store->why);
	if (!bulk->rows)
		bulk->rows = mem_alloc(TOGETHER * size);
	memcpy(bulk->rows + bulk->count++ * size, row, size);
	return bulk->count == TOGETHER ? bulk_write(store, table) : 0;
}

int store_bulks_write(struct store *store)
{
	int err = 0;

	for (int i = 0; i < STORE_TABLE_COUNT && !err; i++)
		err = bulk_write(store, (enum store_table_id)i);
	return err;
}

void store_bulks_clear(struct store *store)
{
	for (int i = 0; i < STORE_TABLE_COUNT; i++)
		store->bulks[i].count = 0;
}

void store_bulks_deinit(struct store *store)
{
	for (int i = 0; i < STORE_TABLE_COUNT; i++) {
		sqlite3_finalize(store->bulks[i].put);
		free(store->bulks[i].rows);
	}
}

int store_put(struct store *store, enum store_table_id table, const void *row)
{
	return is_bulk(table) ? bulk_add(store, table, row) : row_put(store, table, row);
}

int store_add(struct store *store, enum store_table_id table, const void *row)
{
	return row_write(store, &store->adds[table], &store_tables[table], store_table_sql_add,
			 row);
}

int store_meta_set(struct store *store, const char *key, const char *value)
{
	return store_meta_put(store, &(struct store_meta){ key, value });
}

int store_symbol_code_put(struct store *store, struct symbol_id id, const void *code, size_t size)
{
	sqlite3_stmt *put = store->statements[STATEMENT_SYMBOL_CODE_PUT];
	int err;

	bind_unless(put, 1, id.v, false);
	bind_bytes(put, 2, code, size);
	if ((err = statement_run(store, put)))
		return err;
	if (sqlite3_changes(store->db) == 0)
		return err_set(-ENOENT, "%s: symbol %u is not there to keep the code of",
			       store->path, id.v);
	return 0;
}

int store_file_find(struct store *store, const char *path, struct file_id *ret)
{
	sqlite3_stmt *find = store->statements[STATEMENT_FILE_FIND];
	sqlite3_stmt *next = store->statements[STATEMENT_FILE_NEXT];
	struct file_id known = {}, fresh = {};

	bind_text(find, 1, path);
	if (sqlite3_step(find) == SQLITE_ROW)
		known.v = (uint32_t)sqlite3_column_int64(find, 0);
	else if (sqlite3_step(next) == SQLITE_ROW)
		fresh.v = (uint32_t)sqlite3_column_int64(next, 0);
	sqlite3_reset(find);
	sqlite3_reset(next);
	if (!known.v && !fresh.v)
		return container_error(store->db, store->path, "read");
	*ret = known.v ? known : fresh;
	return known.v ? 0 : store_file_put(store, &(struct store_file){ fresh, path });
}

int store_thread_segments_add(struct store *store, struct thread_id thread, uint64_t segments,
			      uint64_t lost)
{
	store_recording(store, RECORDING_EXECUTED)->kept += segments;
	return store_add(store, STORE_TABLE_thread_segments,
			 &(struct store_thread_segments){
				 .thread = thread, .segments = segments, .lost = lost });
}

static int list_error(struct store *store)
{
	return container_error(store->db, store->path, "read what has no name yet");
}

struct unnamed_list {
	ARRAY(struct store_unnamed) rows;
};

/* By id, in ascending order. */
static int unnamed_read(struct store *store, struct unnamed_list *ret)
{
	sqlite3_stmt *list = store->statements[STATEMENT_UNNAMED_LIST];
	int rc;

	while ((rc = sqlite3_step(list)) == SQLITE_ROW)
		*array_push(&ret->rows) = (struct store_unnamed){
			.location.v = (uint32_t)sqlite3_column_int64(list, 0),
			.module.v = (uint32_t)sqlite3_column_int64(list, 1),
			.address = (uint64_t)sqlite3_column_int64(list, 2),
		};
	sqlite3_reset(list);
	return rc == SQLITE_DONE ? 0 : list_error(store);
}

/* Mostly there are no gaps: the first guess is right. */
static struct store_unnamed *unnamed_find(const struct unnamed_list *list, uint32_t location)
{
	struct store_unnamed *rows = list->rows.items;
	size_t low = 0, high = list->rows.count;
	size_t guess = high ? location - rows[0].location.v : 0;

	if (guess < high && rows[guess].location.v == location)
		return &rows[guess];
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (rows[middle].location.v < location)
			low = middle + 1;
		else
			high = middle;
	}
	return low < list->rows.count && rows[low].location.v == location ? &rows[low] : NULL;
}

static int hits_add(struct store *store, struct unnamed_list *list)
{
	sqlite3_stmt *hits = store->statements[STATEMENT_HIT_LIST];
	struct store_unnamed *row;
	int rc;

	while ((rc = sqlite3_step(hits)) == SQLITE_ROW) {
		row = unnamed_find(list, (uint32_t)sqlite3_column_int64(hits, 0));
		if (row)
			row->self += (uint64_t)sqlite3_column_int64(hits, 1);
	}
	sqlite3_reset(hits);
	return rc == SQLITE_DONE ? 0 : list_error(store);
}

#define compare(a, b) (((a) > (b)) - ((a) < (b)))

static int unnamed_compare(const void *left, const void *right)
{
	const struct store_unnamed *a = left, *b = right;

	if (a->module.v != b->module.v)
		return compare(a->module.v, b->module.v);
	if (a->address != b->address)
		return compare(a->address, b->address);
	return compare(a->location.v, b->location.v);
}

/* Sums and order are made here: SQLite takes five times as long, in trees of its own. */
int store_unnamed_list(struct store *store, struct store_unnamed **ret, size_t *ret_count)
{
	struct unnamed_list list = {};
	int err;

	/* Names come after samples: what recent took is free for them. */
	if ((err = store_bulks_write(store)) || (err = store_pending_write(store)) ||
	    (err = store_recent_fold(store)) || (err = store_executions_fold(store)))
		return err;
	if ((err = unnamed_read(store, &list)) || (err = hits_add(store, &list))) {
		array_deinit(&list.rows);
		return err;
	}
	if (list.rows.count)
		qsort(list.rows.items, list.rows.count, sizeof(*list.rows.items), unnamed_compare);
	*ret = list.rows.items;
	*ret_count = list.rows.count;
	return 0;
}

bool store_name_find(const char *const names[], const char *text, unsigned *ret)
{
	for (unsigned i = 0; text && names[i]; i++) {
		if (strcmp(text, names[i]) == 0) {
			*ret = i;
			return true;
		}
	}
	return false;
}

static const char *const module_kind_names[] = {
#define X(name, text) text,
	MODULE_KINDS(X)
#undef X
		NULL
};

/* The path and, behind its end, the build-id. */
static char *module_texts(const char *path, const char *build_id)
{
	size_t size = strlen(path) + 1, more = strlen(build_id) + 1;
	char *texts = mem_alloc(size + more);

	memcpy(texts, path, size);
	memcpy(texts + size, build_id, more);
	return texts;
}

static int module_decode(struct store *store, struct module_id id, sqlite3_stmt *get,
			 struct store_module *ret, char **ret_texts)
{
	struct store_module module = { .id = id };
	const char *path = (const char *)sqlite3_column_text(get, 1);
	const char *build_id = (const char *)sqlite3_column_text(get, 2);
	unsigned kind;

	if (!store_name_find(module_kind_names, (const char *)sqlite3_column_text(get, 0), &kind) ||
	    !path)
		return err_set(-EBADMSG, "%s: corrupt: module %u is of no known kind", store->path,
			       id.v);
	module.kind = (enum module_kind)kind;
	module.process.v = (uint32_t)sqlite3_column_int64(get, 3);
	module.deleted = sqlite3_column_int(get, 4) != 0;
	module.path = *ret_texts = module_texts(path, build_id ? build_id : "");
	module.build_id = module.path + strlen(module.path) + 1;
	*ret = module;
	return 0;
}

int store_module_get(struct store *store, struct module_id id, struct store_module *ret,
		     char **ret_texts)
{
	sqlite3_stmt *get = store->statements[STATEMENT_MODULE_GET];
	int rc, err;

	sqlite3_bind_int64(get, 1, id.v);
	rc = sqlite3_step(get);
	if (rc == SQLITE_ROW)
		err = module_decode(store, id, get, ret, ret_texts);
	else if (rc == SQLITE_DONE)
		err = err_set(-ENOENT, "%s: has no module %u", store->path, id.v);
	else
		err = container_error(store->db, store->path, "read a module");
	sqlite3_reset(get);
	return err;
}

int store_module_next(struct store *store, struct module_id *ret)
{
	sqlite3_stmt *next = store->statements[STATEMENT_MODULE_NEXT];
	int err = 0;

	if (sqlite3_step(next) == SQLITE_ROW)
		ret->v = (uint32_t)sqlite3_column_int64(next, 0);
	else
		err = container_error(store->db, store->path, "read the modules");
	sqlite3_reset(next);
	return err;
}
