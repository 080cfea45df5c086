// SPDX-License-Identifier: BSD-2-Clause
/*
 * The life of a profile that is written: create or reopen, commit, finish. store_rows.c writes its
 * rows.
 */
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/container.h"
#include "store/store_private.h"

/*
 * The log lets readers in while the collector writes, and turns a commit into one append. It is
 * taken into the file every 4000 pages (16 MB), the only time a write waits for the disk, unless
 * that is put off to the end.
 */
static const char recording_mode[] = "pragma journal_mode = wal; pragma synchronous = normal;"
				     "pragma wal_autocheckpoint = 4000; pragma cache_size = -4096;"
				     "pragma foreign_keys = off";

static const char *const companions[] = {
#define X(suffix) suffix,
	CONTAINER_COMPANIONS(X)
#undef X
};

enum { COMPANION_COUNT = sizeof(companions) / sizeof(*companions) };

/*
 * File systems without locks give other errors than EWOULDBLOCK: there the writer goes on
 * unprotected.
 */
static int lock_take(const char *path, int *ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return err_set(-errno, "%s: cannot open: %s", path, strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
		close(fd);
		return err_set(-EBUSY,
			       "%s: another assay is writing it; stop that one, or name another "
			       "file with -o",
			       path);
	}
	*ret = fd;
	return 0;
}

static int file_move(const char *from, const char *to)
{
	if (rename(from, to) && errno != ENOENT)
		return err_set(-errno, "%s: cannot keep the old profile as %s: %s", from, to,
			       strerror(errno));
	return 0;
}

static void companions_remove(const char *path)
{
	for (int i = 0; i < COMPANION_COUNT; i++) {
		AUTO(free_ptr) char *name = mem_printf("%s%s", path, companions[i]);

		unlink(name);
	}
}

/*
 * Folding first makes the old profile one file, so that one rename keeps all of it. What cannot be
 * folded (it is corrupt) moves with its companions.
 */
static int profile_keep(const char *path)
{
	AUTO(free_ptr) char *old = mem_printf("%s.old", path);
	int err;

	if (container_fold(path))
		log_debug("%s", err_text());
	companions_remove(old);
	if ((err = file_move(path, old)))
		return err;
	for (int i = 0; i < COMPANION_COUNT; i++) {
		AUTO(free_ptr) char *from = mem_printf("%s%s", path, companions[i]);
		AUTO(free_ptr) char *to = mem_printf("%s%s", old, companions[i]);

		if ((err = file_move(from, to)))
			return err;
	}
	return 0;
}

/* Makes path free. Only a profile (which is kept), or an empty file, is taken away from there. */
static int place_clear(const char *path, bool *ret_kept)
{
	AUTO(close_fd) int lock = -1;
	struct stat info;
	int err;

	if (stat(path, &info)) {
		if (errno != ENOENT)
			return err_set(-errno, "%s: cannot create: %s; name another place with -o",
				       path, strerror(errno));
		companions_remove(path);
		return 0;
	}
	if (S_ISDIR(info.st_mode))
		return err_set(-EISDIR, "%s: a directory; name a file in it with -o", path);
	if (!S_ISREG(info.st_mode))
		return err_set(-EINVAL, "%s: not an ordinary file; name another with -o", path);
	if ((err = lock_take(path, &lock)))
		return err;
	if (info.st_size == 0)
		return unlink(path)
			       ? err_set(-errno, "%s: cannot replace: %s", path, strerror(errno))
			       : 0;
	if ((err = container_check_ours(path, lock)) == -EINVAL)
		return err_set(-EEXIST,
			       "%s: exists and is not an Assay profile, so it is left alone; name "
			       "another file with -o",
			       path);
	err = profile_keep(path);
	*ret_kept = !err;
	return err;
}

static int statements_prepare(struct store *store)
{
	static const char *const sql[] = {
#define X(name, text) text,
		STORE_STATEMENTS(X)
#undef X
	};
	int err = 0;

	for (int i = 0; i < STATEMENT_COUNT && !err; i++)
		err = container_prepare(store->db, store->path, sql[i], &store->statements[i]);
	return err;
}

static int simple_run(struct store *store, enum store_statement which, const char *doing)
{
	int rc = sqlite3_step(store->statements[which]);

	sqlite3_reset(store->statements[which]);
	return rc == SQLITE_DONE ? 0 : container_error(store->db, store->path, doing);
}

static int store_open(const char *path, struct store **ret)
{
	AUTO(store_destroy_auto) struct store *store = mem_zalloc(sizeof(*store));
	int err;

	store->lock = -1;
	store->path = mem_strdup(path);
	if ((err = lock_take(path, &store->lock)) ||
	    (err = container_open_write(path, &store->db)) ||
	    (err = container_run(store->db, path, recording_mode)) ||
	    (err = statements_prepare(store)) ||
	    (err = simple_run(store, STATEMENT_BEGIN, "begin")))
		return err;
	*ret = take_ptr(store);
	return 0;
}

int store_create(const char *path, struct store **ret)
{
	AUTO(store_destroy_auto) struct store *store = NULL;
	bool kept = false;
	int err;

	if ((err = place_clear(path, &kept)) || (err = container_create(path)) ||
	    (err = store_open(path, &store)) || (err = store_meta_set(store, "finished", "0")) ||
	    (err = store_commit(store)))
		return err;
	store->old_kept = kept;
	*ret = take_ptr(store);
	return 0;
}

void store_abandon(struct store *store)
{
	AUTO(free_ptr) char *path = mem_strdup(store->path);
	AUTO(free_ptr) char *old = mem_printf("%s.old", path);
	bool kept = store->old_kept;

	store_destroy(store);
	unlink(path);
	companions_remove(path);
	if (!kept)
		return;
	file_move(old, path);
	for (int i = 0; i < COMPANION_COUNT; i++) {
		AUTO(free_ptr) char *from = mem_printf("%s%s", old, companions[i]);
		AUTO(free_ptr) char *to = mem_printf("%s%s", path, companions[i]);

		file_move(from, to);
	}
}

static bool is_finished(struct store *store)
{
	sqlite3_stmt *get = store->statements[STATEMENT_META_GET];
	bool finished;

	sqlite3_bind_text(get, 1, "finished", -1, SQLITE_STATIC);
	finished = sqlite3_step(get) == SQLITE_ROW && sqlite3_column_int(get, 0) == 1;
	sqlite3_reset(get);
	return finished;
}

int store_reopen(const char *path, struct store **ret)
{
	AUTO(store_destroy_auto) struct store *store = NULL;
	int err = container_check(path);

	if (err || (err = store_open(path, &store)))
		return err;
	if (is_finished(store))
		return err_set(-EALREADY, "%s: is complete already; nothing to do", path);
	if ((err = store_recent_fold(store)))
		return err;
	*ret = take_ptr(store);
	return 0;
}

void store_destroy(struct store *store)
{
	if (!store)
		return;
	store_pending_deinit(store);
	for (int i = 0; i < STATEMENT_COUNT; i++)
		sqlite3_finalize(store->statements[i]);
	sqlite3_close_v2(store->db);
	/* Only now: closing any descriptor of the file drops the locks SQLite holds on it. */
	close_fd(&store->lock);
	free(store->path);
	free(store->why);
	free(store);
}

int store_fail(struct store *store, int err)
{
	if (store->failed)
		return err;
	store->failed = err;
	store->why = mem_strdup(err_text());
	return err;
}

/* Whether the transaction cannot be committed. SQLite rolls back on its own after some errors. */
static bool is_broken(struct store *store)
{
	return store->failed || sqlite3_get_autocommit(store->db);
}

static int transaction_restart(struct store *store)
{
	int err = 0;

	store_pending_clear(store);
	if (!sqlite3_get_autocommit(store->db))
		err = container_run(store->db, store->path, "rollback");
	if (err || (err = simple_run(store, STATEMENT_BEGIN, "begin")))
		return err;
	store->failed = 0;
	free(take_ptr(store->why));
	return 0;
}

/* The next transaction begins at once; err and its sentence stay what is told. */
static int transaction_fail(struct store *store, int err)
{
	int worse = transaction_restart(store);

	return worse ? worse : err;
}

static int transaction_undo(struct store *store)
{
	int failed = store->failed, err;
	AUTO(free_ptr) char *why = NULL;

	why = failed ? mem_strdup(store->why)
		     : mem_printf("%s: cannot commit: a write failed", store->path);
	err = transaction_restart(store);
	return err ? err : err_set(failed ? failed : -EIO, "%s", why);
}

static int transaction_end(struct store *store)
{
	int err;

	if (is_broken(store))
		return transaction_undo(store);
	if ((err = store_pending_write(store)))
		return transaction_fail(store, err);
	err = simple_run(store, STATEMENT_COMMIT, "commit");
	return err ? store_fail(store, err) : 0;
}

int store_sync_at_end(struct store *store)
{
	int err = transaction_end(store);

	err = err ? err : container_run(store->db, store->path, "pragma synchronous = off");
	return err ? err : simple_run(store, STATEMENT_BEGIN, "begin");
}

/* What is to be committed is on disk before a fold starts. */
int store_commit(struct store *store)
{
	int err = transaction_end(store);

	if (err || (err = simple_run(store, STATEMENT_BEGIN, "begin")))
		return err;
	err = store_recent_limit(store);
	return err ? transaction_fail(store, err) : 0;
}

int store_finish(struct store *store)
{
	int err;

	if (is_broken(store))
		return transaction_undo(store);
	if ((err = store_pending_write(store)) || (err = store_recent_fold(store)) ||
	    (err = store_totals_write(store)) || (err = store_meta_set(store, "finished", "1")) ||
	    (err = transaction_end(store)))
		return err;
	/* All of it is on the disk then. Refused while somebody reads: the profile is whole all the same, its log beside it. */
	if (sqlite3_exec(store->db, "pragma synchronous = normal; pragma journal_mode = delete",
			 NULL, NULL, NULL) != SQLITE_OK) {
		if ((sqlite3_errcode(store->db) & 0xff) != SQLITE_BUSY)
			return container_error(store->db, store->path, "take in its log");
		log_warn("%s: somebody is reading it; move it only together with %s-wal",
			 store->path, store->path);
	}
	return simple_run(store, STATEMENT_BEGIN, "begin");
}
