/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of store/ share. */
#pragma once

#include <sqlite3.h>

#include "base/array.h"
#include "base/map.h"
#include "store/place.h"
#include "store/store.h"
#include "store/table.h"

enum {
	STORE_RECENT_MAX = 1 << 16, /* rows; with so many, recent is folded */
	STORE_EXECUTIONS_MAX = 32 << 20, /* bytes; with so many, execution_recent is folded */
};

#define STORE_EXECUTIONS_FIND                                                                      \
	"select 1 from sqlite_schema where type = 'table' and name = 'execution_recent'"

/* Prepared once, as each of them may run thousands of times a second. */
#define STORE_STATEMENTS(X)                                                                        \
	X(BEGIN, "begin")                                                                          \
	X(COMMIT, "commit")                                                                        \
	X(MODULE_GET, "select kind, path, build_id, process, deleted from module where id = ?")    \
	X(MODULE_NEXT, "select coalesce(max(id), 0) + 1 from module")                              \
	X(RECENT_LAST, "select coalesce(max(rowid), 0) from recent")                               \
	X(RECENT_FOLD,                                                                             \
	  "insert into sample select recording, stack, thread, sum(count), sum(kernel) from "      \
	  "recent where true group by recording, stack, thread order by recording, stack, "        \
	  "thread on conflict do update set count = count + excluded.count, "                      \
	  "kernel = kernel + excluded.kernel")                                                     \
	X(RECENT_CLEAR, "delete from recent")                                                      \
	X(MOMENT_FORGET, "delete from moment where recording = ?1 and second <= ?2")               \
	X(RECORDING_LIST, "select id, kind, seen, kept, started, duration, parts from recording")  \
	X(SYMBOL_CODE_PUT, "update symbol set code = ?2 where id = ?1")                            \
	X(FILE_FIND, "select id from file where path = ?")                                         \
	X(FILE_NEXT, "select coalesce(max(id), 0) + 1 from file")                                  \
	X(UNNAMED_LIST,                                                                            \
	  "select id, module, address from location "                                              \
	  "where not exists (select 1 from frame where frame.location = location.id) "             \
	  "order by id")                                                                           \
	X(HIT_LIST, "select stack.location, sample.count from sample "                             \
		    "cross join stack on stack.id = sample.stack "                                 \
		    "union all select location, total from value "                                 \
		    "union all select location, 1 from block")

enum store_statement {
#define X(name, sql) STATEMENT_##name,
	STORE_STATEMENTS(X)
#undef X
		STATEMENT_COUNT
};

struct store_pending_samples {
	struct thread_id thread;
	struct stack_id stack;
	uint64_t count, kernel;
};

struct store_pending_moment {
	uint32_t second;
	uint32_t samples; /* whose thread and stack it has */
	uint64_t count, kernel;
};

/* What was added since the last commit. */
struct store_pending {
	struct map by_key; /* stack << 32 | thread to index in samples */
	ARRAY(struct store_pending_samples) samples;
	struct map ticks; /* second << 32 | thread to count */
	struct map by_moment; /* second << 32 | index in samples to index in moments */
	ARRAY(struct store_pending_moment) moments;
	uint32_t newest; /* second of the last moment that was written */
	struct map cpu_ticks; /* second << 32 | cpu to count */
};

/* A recording that is written; its row is put with each commit. */
struct store_begun {
	struct store_recording row; /* id 0: there is none of that kind */
	bool changed;
};

/* Rows of a table that are put together. */
struct store_bulk {
	char *rows;
	size_t count;
	sqlite3_stmt *put;
};

/* What store_executions.c appends to. */
struct store_executions {
	sqlite3_stmt *append; /* NULL: there is no table yet */
	size_t size; /* bytes that it holds, about */
	ARRAY(uint8_t) bytes; /* of the row that is written */
};

struct store {
	sqlite3 *db;
	struct place place;
	char *path; /* the same as the place's, for messages */
	int lock; /* file descriptor that holds an flock on the profile: one writer at a time */
	bool old_kept; /* the profile that was at path is now at path.old */
	int failed; /* the first write of this transaction that failed: it must not be committed; 0:
		       none did */
	char *why; /* the sentence about it */
	struct machine_id machine; /* of rows that leave it out; 0: unknown */
	struct store_begun recordings[RECORDING_KIND_COUNT];
	struct store_begun committed[RECORDING_KIND_COUNT]; /* the same as of the last commit */
	struct store_pending pending;
	struct store_executions executions;
	struct store_bulk bulks[STORE_TABLE_COUNT]; /* of most tables always empty */
	sqlite3_stmt *statements[STATEMENT_COUNT];
	sqlite3_stmt *puts[STORE_TABLE_COUNT]; /* prepared when they are first needed */
	sqlite3_stmt *adds[STORE_TABLE_COUNT];
};

/* false: text, which may be NULL, is none of the names. */
bool store_name_find(const char *const names[], const char *text, unsigned *ret);
/* The transaction fails for what err_text() says. Returns err. */
int store_fail(struct store *store, int err);
int store_meta_set(struct store *store, const char *key, const char *value);

/* Rows that were put and are not in their tables yet; afterwards there are none. */
int store_bulks_write(struct store *store);
void store_bulks_clear(struct store *store);
void store_bulks_deinit(struct store *store);

/* The recording of that kind; it begins if there is none. */
struct store_recording *store_recording(struct store *store, enum recording_kind kind);
int store_recordings_read(struct store *store);
int store_recordings_write(struct store *store);

/* Appends what is pending to its tables; nothing is pending afterwards, whatever happens. */
int store_pending_write(struct store *store);
void store_pending_clear(struct store *store);
void store_pending_deinit(struct store *store);
/* Adds the rows of recent to those of sample. The second only does so when there are many. */
int store_recent_fold(struct store *store);
int store_recent_limit(struct store *store);

/*
 * Adds what execution_recent has to execution, and drops the table. The second only does so when
 * there is much of it.
 */
int store_executions_fold(struct store *store);
int store_executions_limit(struct store *store);
/* The transaction is about to be undone, and with it perhaps the table. */
void store_executions_undo(struct store *store);
void store_executions_deinit(struct store *store);

/* Fills stack_total: what each subtree of stacks was sampled. */
int store_totals_write(struct store *store);
