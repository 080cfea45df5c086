// SPDX-License-Identifier: BSD-2-Clause
/*
 * How often threads executed blocks, on its way into the profile: appended at a commit, folded in
 * at the end or when there is much of it.
 *
 *	in	blocks with counts, by thread, as the sink of executed code has them
 *	out	rows of `execution`, in the order of their key
 *	owner	the store
 *
 * The blocks of one thread lie scattered over the keys of `execution`, which begin with the block.
 * To add them there for each thread would write nearly every page of the table again for each
 * process: with the number of processes the time would grow as its square. So a thread's counts are
 * appended to a table of their own as one row of bytes (store_executions.h). A fold merges these
 * rows and adds to `execution` in the order of its key, each page once.
 *
 * The table `execution_recent` is the writer's own and no part of the format: it is made when it is
 * first needed, and a finished profile does not have it.
 *
 * Invariants
 * 1. What was committed is in execution_recent or in execution, never in both: a fold is part of
 *    one transaction.
 * 2. Outside a transaction execution_recent has less than STORE_EXECUTIONS_MAX bytes more than one
 *    commit brings; a fold takes as much memory.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "store/container.h"
#include "store/store_executions.h"
#include "store/store_private.h"

/* --- Appending -------------------------------------------------------------------------------- */

static void number_put(struct store_executions *executions, uint64_t number)
{
	for (; number >= 0x80; number >>= 7)
		*array_push(&executions->bytes) = (uint8_t)(number | 0x80);
	*array_push(&executions->bytes) = (uint8_t)number;
}

static int table_make(struct store *store)
{
	int err;

	if (store->executions.append)
		return 0;
	err = container_run(store->db, store->path,
			    "create table if not exists execution_recent (thread integer not null, "
			    "data blob not null)");
	err = err ? err
		  : container_prepare(store->db, store->path,
				      "insert into execution_recent values (?, ?)",
				      &store->executions.append);
	return err ? store_fail(store, err) : 0;
}

int store_executions_add(struct store *store, struct thread_id thread,
			 const struct store_executed *executed, size_t count)
{
	struct store_executions *executions = &store->executions;
	uint32_t before = 0;
	int rc, err;

	assert(thread.v);
	if (!count)
		return 0;
	store_recording(store, RECORDING_EXECUTED);
	if (store->failed)
		return err_set(store->failed, "%s", store->why);
	if ((err = table_make(store)))
		return err;
	executions->bytes.count = 0;
	for (size_t i = 0; i < count; i++) {
		assert(executed[i].block.v > before);
		number_put(executions, executed[i].block.v - before);
		number_put(executions, execution_folded(executed[i].count));
		before = executed[i].block.v;
	}
	sqlite3_bind_int64(executions->append, 1, thread.v);
	sqlite3_bind_blob64(executions->append, 2, executions->bytes.items, executions->bytes.count,
			    SQLITE_STATIC);
	rc = sqlite3_step(executions->append);
	sqlite3_reset(executions->append);
	if (rc != SQLITE_DONE)
		return store_fail(store, container_error(store->db, store->path, "write"));
	executions->size += executions->bytes.count;
	return 0;
}

/* --- Folding ---------------------------------------------------------------------------------- */

/* A row of execution_recent that is being merged. */
struct source {
	size_t begin, size; /* of its bytes in the fold's */
	uint32_t thread;
	struct execution_cursor cursor;
};

enum { ROWS_TOGETHER = 64 }; /* written by one statement, which takes 0.4 of the time */

struct fold {
	ARRAY(struct source) sources; /* a heap: the least block and thread first */
	ARRAY(uint8_t) bytes; /* of all rows */
	uint32_t recording;
	struct store_execution rows[ROWS_TOGETHER]; /* that are written next, in order */
	size_t count;
	sqlite3_stmt *put; /* ROWS_TOGETHER rows */
};

static void fold_deinit(struct fold *fold)
{
	array_deinit(&fold->sources);
	array_deinit(&fold->bytes);
	sqlite3_finalize(fold->put);
}

static int corrupt(struct store *store)
{
	return store_fail(store, err_set(-EBADMSG,
					 "%s: corrupt: counts of executed blocks make no sense; "
					 "record again",
					 store->path));
}

static bool comes_before(const struct source *a, const struct source *b)
{
	return a->cursor.block != b->cursor.block ? a->cursor.block < b->cursor.block
						  : a->thread < b->thread;
}

static void sift_down(struct fold *fold, size_t at)
{
	struct source *heap = fold->sources.items, moved = heap[at];
	size_t count = fold->sources.count, child;

	for (; (child = at * 2 + 1) < count; at = child) {
		child += child + 1 < count && comes_before(&heap[child + 1], &heap[child]);
		if (!comes_before(&heap[child], &moved))
			break;
		heap[at] = heap[child];
	}
	heap[at] = moved;
}

static int rows_load(struct store *store, struct fold *fold)
{
	AUTO(sqlite3_finalize_auto) sqlite3_stmt *list = NULL;
	int rc, err = container_prepare(store->db, store->path,
					"select thread, data from execution_recent order by rowid",
					&list);

	if (err)
		return store_fail(store, err);
	while ((rc = sqlite3_step(list)) == SQLITE_ROW) {
		struct source source = { .thread = (uint32_t)sqlite3_column_int64(list, 0),
					 .begin = fold->bytes.count,
					 .size = (size_t)sqlite3_column_bytes(list, 1) };

		array_reserve(&fold->bytes, source.begin + source.size);
		if (source.size)
			memcpy(fold->bytes.items + source.begin, sqlite3_column_blob(list, 1),
			       source.size);
		fold->bytes.count += source.size;
		*array_push(&fold->sources) = source;
	}
	return rc == SQLITE_DONE ? 0
				 : store_fail(store, container_error(store->db, store->path,
								     "read what was executed"));
}

/* Rows without a block are none. */
static int heap_make(struct store *store, struct fold *fold)
{
	size_t kept = 0;

	array_each(&fold->sources, source) {
		source->cursor.at = fold->bytes.items + source->begin;
		source->cursor.end = source->cursor.at + source->size;
		if (!source->size)
			continue;
		if (!execution_next(&source->cursor) || !source->thread)
			return corrupt(store);
		fold->sources.items[kept++] = *source;
	}
	fold->sources.count = kept;
	for (size_t i = kept / 2; i-- > 0;)
		sift_down(fold, i);
	return 0;
}

static int put_prepare(struct store *store, struct fold *fold)
{
	struct strbuf sql = {};
	int err;

	strbuf_puts(&sql, "insert into execution (recording, block, thread, count) values ");
	for (int i = 0; i < ROWS_TOGETHER; i++)
		strbuf_puts(&sql, i ? ", (?, ?, ?, ?)" : "(?, ?, ?, ?)");
	strbuf_puts(&sql, " on conflict do update set count = count + excluded.count");
	err = container_prepare(store->db, store->path, strbuf_text(&sql), &fold->put);
	strbuf_deinit(&sql);
	return err ? store_fail(store, err) : 0;
}

static int rows_put(struct store *store, struct fold *fold)
{
	int at = 0, rc;

	for (size_t i = 0; i < fold->count; i++) {
		const struct store_execution *row = &fold->rows[i];

		sqlite3_bind_int64(fold->put, ++at, fold->recording);
		sqlite3_bind_int64(fold->put, ++at, row->block.v);
		sqlite3_bind_int64(fold->put, ++at, row->thread.v);
		sqlite3_bind_int64(fold->put, ++at, (sqlite3_int64)row->count);
	}
	rc = sqlite3_step(fold->put);
	sqlite3_reset(fold->put);
	fold->count = 0;
	return rc == SQLITE_DONE
		       ? 0
		       : store_fail(store, container_error(store->db, store->path, "write"));
}

/* Rows come in the order of their key; those with the same one become one. */
static int row_take(struct store *store, struct fold *fold, const struct source *source)
{
	struct store_execution *last = fold->count ? &fold->rows[fold->count - 1] : NULL;
	int err;

	if (last && last->block.v == source->cursor.block && last->thread.v == source->thread) {
		last->count += source->cursor.count;
		return 0;
	}
	if (fold->count == ROWS_TOGETHER && (err = rows_put(store, fold)))
		return err;
	fold->rows[fold->count++] = (struct store_execution){
		.block.v = source->cursor.block,
		.thread.v = source->thread,
		.count = source->cursor.count,
	};
	return 0;
}

static int rest_put(struct store *store, const struct fold *fold)
{
	int err = 0;

	for (size_t i = 0; i < fold->count && !err; i++)
		err = store_add(store, STORE_TABLE_execution, &fold->rows[i]);
	return err;
}

static int rows_merge(struct store *store, struct fold *fold)
{
	int err = 0;

	while (fold->sources.count && !err) {
		struct source *least = fold->sources.items;

		err = row_take(store, fold, least);
		if (least->cursor.at == least->cursor.end)
			*least = fold->sources.items[--fold->sources.count];
		else if (!err && !execution_next(&least->cursor))
			err = corrupt(store);
		if (fold->sources.count)
			sift_down(fold, 0);
	}
	return err ? err : rest_put(store, fold);
}

static bool table_is_there(struct store *store)
{
	AUTO(sqlite3_finalize_auto) sqlite3_stmt *find = NULL;

	return !container_prepare(store->db, store->path, STORE_EXECUTIONS_FIND, &find) &&
	       sqlite3_step(find) == SQLITE_ROW;
}

int store_executions_fold(struct store *store)
{
	AUTO(fold_deinit) struct fold fold = {};
	int err;

	if (store->failed || !table_is_there(store))
		return 0;
	fold.recording = store_recording(store, RECORDING_EXECUTED)->id.v;
	if ((err = rows_load(store, &fold)) || (err = heap_make(store, &fold)) ||
	    (err = put_prepare(store, &fold)) || (err = rows_merge(store, &fold)))
		return err;
	sqlite3_finalize(take_ptr(store->executions.append));
	store->executions.size = 0;
	err = container_run(store->db, store->path, "drop table execution_recent");
	return err ? store_fail(store, err) : 0;
}

int store_executions_limit(struct store *store)
{
	return store->executions.size < STORE_EXECUTIONS_MAX ? 0 : store_executions_fold(store);
}

void store_executions_undo(struct store *store)
{
	sqlite3_finalize(take_ptr(store->executions.append));
}

void store_executions_deinit(struct store *store)
{
	sqlite3_finalize(store->executions.append);
	array_deinit(&store->executions.bytes);
}
