// SPDX-License-Identifier: BSD-2-Clause
/*
 * What a profile that is not finished says of executed blocks beside `execution`: its rows of
 * execution_recent are added to those that were read.
 *
 *	in	the rows of execution_recent, which may say anything
 *	out	profile.executions, in the order of its key, each key once
 *	owner	the reader of profiles
 */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "store/container.h"
#include "store/profile_reader.h"
#include "store/store_executions.h"
#include "store/store_private.h"

struct recent {
	ARRAY(struct profile_execution) rows;
};

static void recent_deinit(struct recent *recent)
{
	array_deinit(&recent->rows);
}

static int by_key(const void *left, const void *right)
{
	const struct profile_execution *a = left, *b = right;

	if (a->recording != b->recording)
		return a->recording < b->recording ? -1 : 1;
	if (a->block != b->block)
		return a->block < b->block ? -1 : 1;
	return (a->thread > b->thread) - (a->thread < b->thread);
}

static bool thread_is_there(const struct profile *profile, uint64_t thread)
{
	return thread && thread < profile->thread_count && profile->threads[thread].id == thread;
}

/* The thread and its blocks. */
static void row_decode(struct reader *reader, sqlite3_stmt *row, uint32_t recording,
		       struct recent *ret)
{
	uint64_t thread = (uint64_t)sqlite3_column_int64(row, 0);
	struct execution_cursor cursor = { .at = sqlite3_column_blob(row, 1) };
	size_t size = (size_t)sqlite3_column_bytes(row, 1);

	cursor.end = cursor.at + size;
	if (!thread_is_there(reader->profile, thread) || size >= reader->memory_left) {
		reader_wrong(reader, "counts of executed blocks are of no thread, or too many");
		return;
	}
	reader->memory_left -= size;
	while (cursor.at < cursor.end) {
		if (!execution_next(&cursor) || cursor.block >= reader->profile->block_count) {
			reader_wrong(reader, "counts of executed blocks make no sense");
			return;
		}
		*array_push(&ret->rows) = (struct profile_execution){
			.recording = recording,
			.block = cursor.block,
			.thread = (uint32_t)thread,
			.count = cursor.count,
		};
	}
}

static int recent_read(struct reader *reader, struct recent *ret)
{
	const struct profile_recording *recording =
		profile_recording(reader->profile, RECORDING_EXECUTED);
	AUTO(sqlite3_finalize_auto) sqlite3_stmt *find = NULL;
	AUTO(sqlite3_finalize_auto) sqlite3_stmt *list = NULL;
	int rc = SQLITE_DONE,
	    err = container_prepare(reader->db, reader->path, STORE_EXECUTIONS_FIND, &find);

	if (err || sqlite3_step(find) != SQLITE_ROW || !recording)
		return err;
	err = container_prepare(reader->db, reader->path,
				"select thread, data from execution_recent", &list);
	while (!err && !reader->wrong && (rc = sqlite3_step(list)) == SQLITE_ROW)
		row_decode(reader, list, recording->id, ret);
	if (!err && reader->wrong)
		return err_set(-EBADMSG, "%s: corrupt: table execution_recent: %s; record again",
			       reader->path, reader->wrong);
	return err || rc == SQLITE_DONE ? err : container_error(reader->db, reader->path, "read");
}

static void executions_add(struct reader *reader, const struct profile_execution *row)
{
	struct profile *profile = reader->profile;
	size_t count = profile->execution_count;
	struct profile_execution *last = count ? &profile->executions[count - 1] : NULL;

	if (last && by_key(last, row) == 0) {
		last->count += row->count;
		return;
	}
	profile->executions = reader_grow(profile->executions, &profile->execution_count, count,
					  sizeof(*profile->executions));
	profile->executions[count] = *row;
}

int reader_executions(struct reader *reader)
{
	AUTO(recent_deinit) struct recent recent = {};
	struct profile *profile = reader->profile;
	int err = recent_read(reader, &recent);

	if (err || !recent.rows.count)
		return err;
	for (size_t i = 0; i < profile->execution_count; i++)
		*array_push(&recent.rows) = profile->executions[i];
	qsort(recent.rows.items, recent.rows.count, sizeof(*recent.rows.items), by_key);
	profile->execution_count = 0;
	free(take_ptr(profile->executions));
	array_each(&recent.rows, row)
		executions_add(reader, row);
	return 0;
}
