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
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/container.h"
#include "store/place.h"
#include "store/store_private.h"

/*
 * The log lets readers in while the recorder writes, and turns a commit into one append. It is
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
static int lock_take(const struct place *place, int *ret)
{
	AUTO(free_ptr) char *name = place_file(place, "");
	int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return err_set(-errno, "%s: cannot open: %s", place->path, strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
		close(fd);
		return err_set(-EBUSY,
			       "%s: another assay is writing it; stop that one, or name another "
			       "file with -o",
			       place->path);
	}
	*ret = fd;
	return 0;
}

/* The folder in which the profile is found by its name. */
static int folder_of(const struct place *place)
{
	return place->outer >= 0 ? place->outer : place->dir;
}

static int file_move(const struct place *place, int from_dir, const char *from, int to_dir,
		     const char *to)
{
	if (renameat(from_dir, from, to_dir, to) && errno != ENOENT)
		return err_set(-errno, "%s: cannot move %s to %s: %s", place->path, from, to,
			       strerror(errno));
	return 0;
}

static int profile_move(const struct place *place, int from_dir, const char *from, int to_dir,
			const char *to)
{
	int err = file_move(place, from_dir, from, to_dir, to);

	for (int i = 0; i < COMPANION_COUNT && !err; i++) {
		AUTO(free_ptr) char *from_name = mem_printf("%s%s", from, companions[i]);
		AUTO(free_ptr) char *to_name = mem_printf("%s%s", to, companions[i]);

		err = file_move(place, from_dir, from_name, to_dir, to_name);
	}
	return err;
}

/*
 * Folding first makes the old profile one file, so that one rename keeps all of it. What cannot be
 * folded (it is corrupt, or lies where others can write) moves with its companions.
 */
static int profile_keep(struct place *place)
{
	AUTO(free_ptr) char *old = mem_printf("%s.old", place->name);
	int err;

	if (container_fold(place))
		log_debug("%s", err_text());
	place_companions_remove(folder_of(place), old);
	err = profile_move(place, place->dir, place->name, folder_of(place), old);
	if (!err)
		place_leave(place);
	return err;
}

/* A link of the caller's own leads to the profile; what it leads to stays where it is. */
static int link_check(const struct place *place, const struct stat *info)
{
	if (info->st_uid == geteuid() || info->st_uid == 0)
		return 0;
	return err_set(-EPERM,
		       "%s: a symbolic link of another user, which could lead anywhere; remove it, "
		       "or name another file with -o",
		       place->path);
}

static int kind_check(const struct place *place, const struct stat *info)
{
	if (S_ISLNK(info->st_mode))
		return link_check(place, info);
	if (S_ISDIR(info->st_mode))
		return err_set(-EISDIR, "%s: a directory; name a file in it with -o", place->path);
	if (!S_ISREG(info->st_mode))
		return err_set(-EINVAL, "%s: not an ordinary file; name another with -o",
			       place->path);
	return 0;
}

/*
 * What lies at the place, through a link of the caller's own; -ENOENT: nothing that has to be kept.
 */
static int place_look(const struct place *place, struct stat *ret)
{
	AUTO(free_ptr) char *name = place_file(place, "");
	int err;

	if (place_stat(place, "", ret))
		return -errno;
	if ((err = kind_check(place, ret)))
		return err;
	return S_ISLNK(ret->st_mode) && stat(name, ret) ? -errno : kind_check(place, ret);
}

/* Makes the place free. Only a profile (which is kept), or an empty file, is taken away. */
static int place_clear(struct place *place, bool *ret_kept)
{
	AUTO(close_fd) int lock = -1;
	struct stat info;
	int err = place_look(place, &info);

	if (err == -ENOENT) {
		place_leave(place);
		unlinkat(place->dir, place->name, 0); /* a link that leads nowhere */
		place_companions_remove(place->dir, place->name);
		return 0;
	}
	if (err || (err = lock_take(place, &lock)))
		return err;
	if (info.st_size == 0)
		return unlinkat(place->dir, place->name, 0)
			       ? err_set(-errno, "%s: cannot replace: %s", place->path,
					 strerror(errno))
			       : 0;
	if ((err = container_check_ours(place->path, lock)) == -EINVAL)
		return err_set(-EEXIST,
			       "%s: exists and is not an Assay profile, so it is left alone; name "
			       "another file with -o",
			       place->path);
	err = profile_keep(place);
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

/* Takes the place over. */
static struct store *store_take(struct place *place)
{
	struct store *store = mem_zalloc(sizeof(*store));

	store->lock = -1;
	store->place = *place;
	*place = PLACE_NONE;
	store->path = mem_strdup(store->place.path);
	return store;
}

static int store_begin(struct store *store)
{
	int err = lock_take(&store->place, &store->lock);

	err = err ? err : container_open_write(&store->place, &store->db);
	err = err ? err : container_run(store->db, store->path, recording_mode);
	err = err ? err : statements_prepare(store);
	return err ? err : simple_run(store, STATEMENT_BEGIN, "begin");
}

/* Takes the place over, whatever happens. */
static int store_open(struct place *place, struct store **ret)
{
	AUTO(store_destroy_auto) struct store *store = store_take(place);
	int err = store_begin(store);

	if (err)
		return err;
	*ret = take_ptr(store);
	return 0;
}

/* Of what fails from the first write on, nothing stays. */
int store_create(const char *path, struct store **ret)
{
	AUTO(place_close) struct place place = PLACE_NONE;
	struct store *store;
	bool kept = false;
	int err;

	if ((err = place_open(&place, path)) || (err = place_clear(&place, &kept)) ||
	    (err = place_enter(&place)))
		return err;
	if ((err = container_create(&place)) || (err = place_publish(&place))) {
		place_leave(&place);
		return err;
	}
	store = store_take(&place);
	store->old_kept = kept;
	if ((err = store_begin(store)) || (err = store_meta_set(store, "finished", "0")) ||
	    (err = store_commit(store)))
		store_abandon(store);
	else
		*ret = store;
	return err;
}

/* SQLite is closed before its files are removed. */
void store_abandon(struct store *store)
{
	AUTO(place_close) struct place place = store->place;
	AUTO(free_ptr) char *old = mem_printf("%s.old", place.name);
	bool kept = store->old_kept;

	store->place = PLACE_NONE;
	store_destroy(store);
	place_leave(&place);
	unlinkat(place.dir, place.name, 0);
	place_companions_remove(place.dir, place.name);
	if (kept)
		profile_move(&place, place.dir, old, place.dir, place.name);
}

int store_place(const char *path, const char *target)
{
	AUTO(place_close) struct place from = PLACE_NONE, to = PLACE_NONE;
	bool kept = false;
	int err;

	if ((err = place_open(&from, path)))
		return err;
	err = place_open(&to, target);
	err = err ? err : place_clear(&to, &kept);
	if (!err && renameat(from.dir, from.name, to.dir, to.name))
		err = err_set(-errno, "%s: cannot create: %s; name another place with -o", target,
			      strerror(errno));
	if (err)
		unlinkat(from.dir, from.name, 0);
	return err;
}

/* Reads only, so that a complete profile may lie in any folder. */
static int unfinished_check(const char *path)
{
	AUTO(container_close_auto) sqlite3 *db = NULL;
	AUTO(sqlite3_finalize_auto) sqlite3_stmt *get = NULL;
	int err = container_open_read(path, &db, NULL);

	if (err || (err = container_prepare(db, path,
					    "select 1 from meta where key = 'finished' and "
					    "value = '1'",
					    &get)))
		return err;
	return sqlite3_step(get) == SQLITE_ROW
		       ? err_set(-EALREADY, "%s: is complete already; nothing to do", path)
		       : 0;
}

int store_reopen(const char *path, struct store **ret)
{
	AUTO(store_destroy_auto) struct store *store = NULL;
	AUTO(place_close) struct place place = PLACE_NONE;
	int err;

	if ((err = unfinished_check(path)) || (err = place_open(&place, path)) ||
	    (err = store_open(&place, &store)) || (err = store_recordings_read(store)))
		return err;
	if ((err = store_recent_fold(store)) || (err = store_executions_fold(store)))
		return err;
	*ret = take_ptr(store);
	return 0;
}

void store_destroy(struct store *store)
{
	if (!store)
		return;
	store_pending_deinit(store);
	store_executions_deinit(store);
	store_bulks_deinit(store);
	for (int i = 0; i < STATEMENT_COUNT; i++)
		sqlite3_finalize(store->statements[i]);
	for (int i = 0; i < STORE_TABLE_COUNT; i++) {
		sqlite3_finalize(store->puts[i]);
		sqlite3_finalize(store->adds[i]);
	}
	sqlite3_close_v2(store->db);
	/* Only now: closing any descriptor of the file drops the locks SQLite holds on it. */
	close_fd(&store->lock);
	place_close(&store->place);
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
	memcpy(store->recordings, store->committed, sizeof(store->recordings));
	store_executions_undo(store);
	store_bulks_clear(store);
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
	if ((err = store_bulks_write(store)) || (err = store_pending_write(store)) ||
	    (err = store_recordings_write(store)))
		return transaction_fail(store, err);
	err = simple_run(store, STATEMENT_COMMIT, "commit");
	if (err)
		return store_fail(store, err);
	for (int i = 0; i < RECORDING_KIND_COUNT; i++)
		store->recordings[i].changed = false;
	memcpy(store->committed, store->recordings, sizeof(store->committed));
	return 0;
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
	err = err ? err : store_executions_limit(store);
	return err ? transaction_fail(store, err) : 0;
}

int store_finish(struct store *store)
{
	int err;

	if (is_broken(store))
		return transaction_undo(store);
	if ((err = store_bulks_write(store)) || (err = store_pending_write(store)) ||
	    (err = store_recent_fold(store)) || (err = store_executions_fold(store)) ||
	    (err = store_totals_write(store)) || (err = store_meta_set(store, "finished", "1")) ||
	    (err = transaction_end(store)))
		return err;
	/*
	 * All of it is on the disk then. SQLite refuses this while another process reads; the
	 * profile is complete nevertheless, with its log beside it.
	 */
	if (sqlite3_exec(store->db, "pragma synchronous = normal; pragma journal_mode = delete",
			 NULL, NULL, NULL) != SQLITE_OK) {
		if ((sqlite3_errcode(store->db) & 0xff) != SQLITE_BUSY)
			return container_error(store->db, store->path, "take in its log");
		log_warn("%s: somebody is reading it; move it only together with %s%s", store->path,
			 store->place.inner ? "the folder that it links to" : store->path,
			 store->place.inner ? "" : "-wal");
	} else if ((err = place_settle(&store->place))) {
		return err;
	}
	return simple_run(store, STATEMENT_BEGIN, "begin");
}
