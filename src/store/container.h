/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The profile as a file: checks before SQLite reads anything in it, and how SQLite opens it.
 * Private to store/.
 */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/cleanup.h"

extern const char store_views[]; /* src/store/views.sql */

/* Closes what container_open_read() has opened, with the folder in which SQLite looked for it. */
void container_close(sqlite3 *db);
DEFINE_AUTO(sqlite3, container_close)
DEFINE_AUTO(sqlite3, sqlite3_close_v2)
DEFINE_AUTO(sqlite3_stmt, sqlite3_finalize)

/* Files that SQLite may have beside a profile. */
#define CONTAINER_COMPANIONS(X)                                                                    \
	X("-wal")                                                                                  \
	X("-shm")                                                                                  \
	X("-journal")

struct place;

/*
 * Whether it is a file that can be a profile; and an Assay profile this Assay understands, by its
 * first bytes. Each refusal has its own sentence: -EISDIR, -ENODATA (empty), -EINVAL (not a file,
 * not SQLite, or not ours), -ENOTSUP (newer or older), -EBADMSG (truncated). more: a log or a
 * journal lies beside it, which may hold what the file lacks.
 */
int container_check_kind(const char *path, const struct stat *info);
int container_check(const char *path, int fd, bool more);
/* The same for a file that is about to be replaced, in any version and state. -EINVAL: not ours. */
int container_check_ours(const char *path, int fd);
/* -EPERM: the journal names another file, which SQLite would delete. */
int container_check_journal(const char *path, int fd);
/* -EBADMSG: tables that are not those of tables.def. */
int container_check_tables(sqlite3 *db, const char *path);

struct container_facts {
	size_t size; /* bytes of the file and its log */
	uid_t owner;
};

/* Both refuse what the checks above refuse. ret_facts may be NULL. */
int container_open_read(const char *path, sqlite3 **ret, struct container_facts *ret_facts);
/* In place: -EPERM if others can write in its folder, or it belongs to another user. */
int container_open_write(const struct place *place, sqlite3 **ret);

/* A new profile there, where none must be: no rows, readable by its owner only. */
int container_create(const struct place *place);
/* Takes what a killed recorder left in companions into the file itself. */
int container_fold(const struct place *place);

enum container_way {
	CONTAINER_READ = 1, /* only */
	/* the index of the log is in memory, and no other process may open the file */
	CONTAINER_ALONE = 2,
};

/* An open connection that has really read the file, or SQLite's result code, extended. */
int container_attempt(const char *name, unsigned ways, const char *vfs, sqlite3 **ret);

/* Says what SQLite could not do, and gives the errno for it. */
int container_error(sqlite3 *db, const char *path, const char *doing);
int container_prepare(sqlite3 *db, const char *path, const char *sql, sqlite3_stmt **ret);
int container_run(sqlite3 *db, const char *path, const char *sql);
