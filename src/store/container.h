/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The profile as a file: what it is before anything in it is believed, and how SQLite opens it.
 * Private to store/.
 */
#pragma once

#include <sqlite3.h>

#include "base/cleanup.h"

/* src/store/schema.sql, and what came with versions 2 and 4: schema_values.sql, schema_trace.sql */
extern const char store_schema[];
extern const char store_schema_values[];
extern const char store_schema_trace[];

enum {
	STORE_VERSION_VALUES = 2,
	STORE_VERSION_TRACE_FIRST =
		3, /* executed code in other tables, which nobody reads any more */
	STORE_VERSION_TRACE = 4,
};

static inline void container_close(sqlite3 *db)
{
	sqlite3_close_v2(db);
}
DEFINE_AUTO(sqlite3, container_close)
DEFINE_AUTO(sqlite3_stmt, sqlite3_finalize)

/* Files that SQLite may have beside a profile. */
#define CONTAINER_COMPANIONS(X)                                                                    \
	X("-wal")                                                                                  \
	X("-shm")                                                                                  \
	X("-journal")

/*
 * Whether path is an Assay profile this Assay understands, by its first bytes. Each refusal has its
 * own sentence: -ENOENT, -EISDIR, -ENODATA (empty), -EINVAL (not SQLite, or not ours), -ENOTSUP
 * (newer), -EBADMSG (truncated).
 */
int container_check(const char *path);
/* The same for a file that is about to be replaced, in any version and state. -EINVAL: not ours. */
int container_check_ours(const char *path, int fd);

/*
 * Both refuse what container_check() refuses, and tables that are not those of the schema. An older profile is read as
 * the version that it is, and written as STORE_SCHEMA_VERSION: it gets what it lacks. -ENOTSUP: executed code of version 3.
 */
int container_open_read(const char *path, sqlite3 **ret, int *ret_version);
int container_open_write(const char *path, sqlite3 **ret);

/* A new profile at path, which must not exist: no rows, readable by its owner only. */
int container_create(const char *path);
/* Takes what a killed collector left in companions into the file itself. */
int container_fold(const char *path);

/* Says what SQLite could not do, and gives the errno for it. */
int container_error(sqlite3 *db, const char *path, const char *doing);
int container_prepare(sqlite3 *db, const char *path, const char *sql, sqlite3_stmt **ret);
int container_run(sqlite3 *db, const char *path, const char *sql);
