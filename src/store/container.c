// SPDX-License-Identifier: BSD-2-Clause
/*
 * The profile as a file.
 *
 * A profile begins its life as the image of an empty database, written beside its place and renamed
 * into it, so that there is no moment at which path names something that is neither nothing nor a
 * profile. From then on SQLite owns it: write-ahead log while it is recorded, a single file once it
 * is finished.
 *
 * To read, three ways are tried, each only after the one before has been refused:
 *
 *	read only		the usual one; SQLite reads the -wal of a collector too
 *	read and write		a crash left a journal that has to be rolled back first
 *	read only, no locks	the directory cannot be written, so SQLite cannot make its -shm; the
 *				index of the log is then kept in memory (SQLite does so for an
 *				exclusive connection)
 *
 * Invariants
 * 1. The application id and a version are in the main file, never only in its log: the first bytes
 *    can be judged without SQLite. The log can only raise the version.
 * 2. No statement runs on a table whose definition differs from ours: a hostile file cannot put a
 *    view, a virtual table or a trigger in the place of a table.
 */
#include "store/container.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "store/store.h"

static const char sqlite_magic[] = "SQLite format 3"; /* with its NUL */

/*
 * Byte offsets in the header; https://www.sqlite.org/fileformat.html section 1.3. Numbers are
 * big-endian.
 */
enum {
	HEADER_SIZE = 100,
	HEADER_PAGE_SIZE = 16,
	HEADER_CHANGES = 24,
	HEADER_PAGES = 28,
	HEADER_VERSION = 60,
	HEADER_APPLICATION = 68,
	HEADER_PAGES_VALID_FOR = 92,
	BUSY_MS = 2000, /* how long a lock of another program is waited for */
};

static void free_sqlite(void *slot)
{
	sqlite3_free(*(void **)slot);
}

static uint32_t be32(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static int io_errno(sqlite3 *db)
{
	int number = db ? sqlite3_system_errno(db) : 0;

	return number > 0 ? number : EIO;
}

int container_error(sqlite3 *db, const char *path, const char *doing)
{
	int number;

	switch (sqlite3_errcode(db) & 0xff) {
	case SQLITE_FULL:
		return err_set(-ENOSPC,
			       "%s: cannot %s: no space left on the disk; make room, or write "
			       "elsewhere with -o",
			       path, doing);
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_FORMAT:
		return err_set(-EBADMSG, "%s: cannot %s: the file is corrupt (%s); record again",
			       path, doing, sqlite3_errmsg(db));
	case SQLITE_READONLY:
		return err_set(
			-EROFS,
			"%s: cannot %s: the file may not be written; copy it to where it may", path,
			doing);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return err_set(
			-EBUSY,
			"%s: cannot %s: another program has locked it; try again when it is done",
			path, doing);
	case SQLITE_CANTOPEN:
	case SQLITE_IOERR:
	case SQLITE_PERM:
		number = io_errno(db);
		return err_set(-number, "%s: cannot %s: %s (%s)", path, doing, strerror(number),
			       sqlite3_errmsg(db));
	default:
		return err_set(-EIO, "%s: cannot %s: %s", path, doing, sqlite3_errmsg(db));
	}
}

int container_prepare(sqlite3 *db, const char *path, const char *sql, sqlite3_stmt **ret)
{
	if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL))
		return container_error(db, path, "read its layout");
	return 0;
}

int container_run(sqlite3 *db, const char *path, const char *sql)
{
	if (sqlite3_exec(db, sql, NULL, NULL, NULL))
		return container_error(db, path, "write");
	return 0;
}

/* Bytes read, at most HEADER_SIZE. */
static int header_read(const char *path, int fd, uint8_t ret[HEADER_SIZE])
{
	ssize_t got = pread(fd, ret, HEADER_SIZE, 0);

	if (got < 0)
		return err_set(-errno, "%s: cannot read: %s", path, strerror(errno));
	return (int)got;
}

static int header_check_ours(const char *path, const uint8_t header[HEADER_SIZE], int size)
{
	int magic = size < (int)sizeof(sqlite_magic) ? size : (int)sizeof(sqlite_magic);

	if (memcmp(header, sqlite_magic, (size_t)magic))
		return err_set(-EINVAL, "%s: not an Assay profile, nor any SQLite file", path);
	if (size < HEADER_SIZE)
		return err_set(-EBADMSG, "%s: truncated after %d bytes; record again", path, size);
	if (be32(header + HEADER_APPLICATION) != STORE_APPLICATION_ID)
		return err_set(-EINVAL,
			       "%s: an SQLite file of another program, not an Assay profile", path);
	return 0;
}

static int version_check(const char *path, uint32_t version)
{
	if (version > STORE_SCHEMA_VERSION)
		return err_set(-ENOTSUP,
			       "%s: written by a newer Assay (format %u, this one knows up to %d); "
			       "update Assay",
			       path, version, STORE_SCHEMA_VERSION);
	if (version < 1)
		return err_set(-EBADMSG, "%s: corrupt: has no format version; record again", path);
	return 0;
}

static bool companion_has_bytes(const char *path, const char *suffix)
{
	AUTO(free_ptr) char *name = mem_printf("%s%s", path, suffix);
	struct stat info;

	return stat(name, &info) == 0 && info.st_size > 0;
}

/*
 * The number of pages is only valid while the two change counters agree, and a log may hold what
 * the file lacks.
 */
static int header_check_size(const char *path, const uint8_t header[HEADER_SIZE], uint64_t size)
{
	uint32_t page_size = (uint32_t)header[HEADER_PAGE_SIZE] << 8 | header[HEADER_PAGE_SIZE + 1];
	uint64_t wanted =
		(uint64_t)be32(header + HEADER_PAGES) * (page_size == 1 ? 65536 : page_size);

	if (be32(header + HEADER_CHANGES) != be32(header + HEADER_PAGES_VALID_FOR) ||
	    size >= wanted)
		return 0;
	if (companion_has_bytes(path, "-wal") || companion_has_bytes(path, "-journal"))
		return 0;
	return err_set(
		-EBADMSG,
		"%s: truncated: %llu of %llu bytes are there; copy it again, or record again", path,
		(unsigned long long)size, (unsigned long long)wanted);
}

int container_check_ours(const char *path, int fd)
{
	uint8_t header[HEADER_SIZE] = {};
	int size = header_read(path, fd, header);

	return size < 0 ? size : header_check_ours(path, header, size);
}

static int file_open(const char *path, int *ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0) {
		*ret = fd;
		return 0;
	}
	if (errno == ENOENT)
		return err_set(
			-ENOENT,
			"%s: no such profile; make one with assay record, or name another with -i",
			path);
	return err_set(-errno, "%s: cannot open: %s", path, strerror(errno));
}

static int file_check_kind(const char *path, const struct stat *info)
{
	if (S_ISDIR(info->st_mode))
		return err_set(-EISDIR, "%s: a directory, not a profile; name a file in it", path);
	if (!S_ISREG(info->st_mode))
		return err_set(-EINVAL, "%s: not an ordinary file, so not a profile", path);
	if (info->st_size == 0)
		return err_set(-ENODATA, "%s: empty, so not a profile; record again", path);
	return 0;
}

int container_check(const char *path)
{
	AUTO(close_fd) int fd = -1;
	uint8_t header[HEADER_SIZE] = {};
	struct stat info;
	int size, err;

	if ((err = file_open(path, &fd)))
		return err;
	if (fstat(fd, &info))
		return err_set(-errno, "%s: cannot look at it: %s", path, strerror(errno));
	if ((err = file_check_kind(path, &info)))
		return err;
	if ((size = header_read(path, fd, header)) < 0)
		return size;
	if ((err = header_check_ours(path, header, size)) ||
	    (err = version_check(path, be32(header + HEADER_VERSION))))
		return err;
	return header_check_size(path, header, (uint64_t)info.st_size);
}

/* An empty profile of that version in memory. */
static int schema_open(int version, sqlite3 **ret)
{
	AUTO(container_close_auto) sqlite3 *db = NULL;
	AUTO(free_ptr)
	char *stamp = mem_printf("pragma application_id = %d; pragma user_version = %d",
				 STORE_APPLICATION_ID, version);
	const char *values = version >= STORE_VERSION_VALUES ? store_schema_values : "";
	const char *trace = version >= STORE_VERSION_TRACE ? store_schema_trace : "";
	int err;

	if (sqlite3_open(":memory:", &db))
		return container_error(db, "(memory)", "open");
	if ((err = container_run(db, "(memory)", stamp)) ||
	    (err = container_run(db, "(memory)", store_schema)) ||
	    (err = container_run(db, "(memory)", values)) ||
	    (err = container_run(db, "(memory)", trace)))
		return err;
	*ret = take_ptr(db);
	return 0;
}

/* Whether the file's table of that name was made by the same text as ours. */
static int table_check(sqlite3 *db, const char *path, int version, sqlite3_stmt *find,
		       sqlite3_stmt *ours)
{
	const char *name = (const char *)sqlite3_column_text(ours, 0);
	const char *sql = (const char *)sqlite3_column_text(ours, 1);
	int rc, err = 0;

	sqlite3_bind_text(find, 1, name, -1, SQLITE_STATIC);
	sqlite3_bind_text(find, 2, sql, -1, SQLITE_STATIC);
	rc = sqlite3_step(find);
	if (rc == SQLITE_DONE)
		err = err_set(-EBADMSG,
			      "%s: corrupt: table %s is missing or not laid out as in format %d; "
			      "record again",
			      path, name, version);
	else if (rc != SQLITE_ROW)
		err = container_error(db, path, "read its layout");
	sqlite3_reset(find);
	return err;
}

/* As SQLite sees it: a log may have raised the version that is in the main file. */
static int version_read(sqlite3 *db, const char *path, int *ret)
{
	AUTO(sqlite3_finalize_auto) sqlite3_stmt *get = NULL;
	int version, err = container_prepare(db, path, "pragma user_version", &get);

	if (err)
		return err;
	if (sqlite3_step(get) != SQLITE_ROW)
		return container_error(db, path, "read its version");
	version = sqlite3_column_int(get, 0);
	if ((err = version_check(path, (uint32_t)version)))
		return err;
	*ret = version;
	return 0;
}

/* Of version 3, samples are read; what was executed is not. */
static int trace_first_check(sqlite3 *db, const char *path, int version)
{
	AUTO(sqlite3_finalize_auto) sqlite3_stmt *get = NULL;
	int rc, err;

	if (version != STORE_VERSION_TRACE_FIRST)
		return 0;
	if ((err = container_prepare(db, path, "select 1 from meta where key = 'tool'", &get)))
		return err;
	rc = sqlite3_step(get);
	if (rc == SQLITE_ROW)
		return err_set(-ENOTSUP,
			       "%s: a trace made by another version of Assay (format %d, this one "
			       "reads traces of format %d); record again",
			       path, version, STORE_VERSION_TRACE);
	return rc == SQLITE_DONE ? 0 : container_error(db, path, "read");
}

static int schema_check(sqlite3 *db, const char *path, int *ret_version)
{
	AUTO(container_close_auto) sqlite3 *reference = NULL;
	AUTO(sqlite3_finalize_auto) sqlite3_stmt *ours = NULL;
	AUTO(sqlite3_finalize_auto) sqlite3_stmt *find = NULL;
	int version = 0, err;

	if ((err = version_read(db, path, &version)) || (err = schema_open(version, &reference)))
		return err;
	err = container_prepare(reference, path,
				"select name, sql from sqlite_schema where type = 'table'", &ours);
	if (err)
		return err;
	err = container_prepare(
		db, path,
		"select 1 from sqlite_schema where type = 'table' and name = ? and sql = ?", &find);
	while (!err && sqlite3_step(ours) == SQLITE_ROW)
		err = table_check(db, path, version, find, ours);
	err = err ? err : trace_first_check(db, path, version);
	if (!err)
		*ret_version = version;
	return err;
}

/* What version 3 had for executed code; trace_first_check() has seen that it is empty. */
static const char trace_first_drop[] =
	"drop view if exists executed_functions; drop view if exists executed_threads;"
	"drop view if exists covered_files; drop table if exists block_part;"
	"drop table if exists execution; drop table if exists block;"
	"drop table if exists thread_runs; drop table if exists source_line;"
	"drop table if exists run_table; drop table if exists run_parent;"
	"drop table if exists path_table; drop table if exists flow;"
	"drop table if exists cycle; drop table if exists layer; drop table if exists rare_cycle";

/* What the file has of its own under one of the new names is not ours to replace: that is an error. */
static int schema_raise(sqlite3 *db, const char *path, int version)
{
	AUTO(free_ptr) char *stamp = NULL;
	int err;

	if (version >= STORE_SCHEMA_VERSION)
		return 0;
	stamp = mem_printf("pragma user_version = %d; commit", STORE_SCHEMA_VERSION);
	err = container_run(db, path, "begin immediate");
	if (!err && version < STORE_VERSION_VALUES)
		err = container_run(db, path, store_schema_values);
	if (!err && version == STORE_VERSION_TRACE_FIRST)
		err = container_run(db, path, trace_first_drop);
	if (!err && version < STORE_VERSION_TRACE)
		err = container_run(db, path, store_schema_trace);
	return err ? err : container_run(db, path, stamp);
}

/* What a file may do to its reader, turned off before the first statement. */
static void defend(sqlite3 *db)
{
	sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	sqlite3_busy_timeout(db, BUSY_MS);
	sqlite3_exec(db, "pragma cell_size_check = on", NULL, NULL, NULL);
}

/* An open connection that has really read the file, or SQLite's result code, extended. */
static int attempt(const char *path, int flags, const char *vfs, sqlite3 **ret)
{
	int rc = sqlite3_open_v2(path, ret, flags, vfs);

	if (rc)
		return sqlite3_extended_errcode(*ret);
	defend(*ret);
	if (vfs)
		sqlite3_exec(*ret, "pragma locking_mode = exclusive", NULL, NULL, NULL);
	rc = sqlite3_exec(*ret, "select count(*) from sqlite_schema", NULL, NULL, NULL);
	return rc ? sqlite3_extended_errcode(*ret) : 0;
}

/* Tried in order until one works. */
static const struct {
	int flags;
	const char *vfs;
} ways[] = {
	{ SQLITE_OPEN_READONLY, NULL },
	{ SQLITE_OPEN_READWRITE, NULL },
	{ SQLITE_OPEN_READONLY, "unix-none" },
};

static bool another_way_may_help(int rc)
{
	return (rc & 0xff) == SQLITE_CANTOPEN || (rc & 0xff) == SQLITE_READONLY ||
	       (rc & 0xff) == SQLITE_IOERR;
}

int container_open_read(const char *path, sqlite3 **ret, int *ret_version)
{
	int err = container_check(path);

	if (err)
		return err;
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		AUTO(container_close_auto) sqlite3 *db = NULL;
		int rc = attempt(path, ways[i].flags, ways[i].vfs, &db);

		if (!rc && (err = schema_check(db, path, ret_version)))
			return err;
		if (!rc) {
			*ret = take_ptr(db);
			return 0;
		}
		err = container_error(db, path, "open");
		if (!another_way_may_help(rc))
			return err;
	}
	return err;
}

int container_open_write(const char *path, sqlite3 **ret)
{
	AUTO(container_close_auto) sqlite3 *db = NULL;
	int version = 0, err = container_check(path);

	if (err)
		return err;
	if (attempt(path, SQLITE_OPEN_READWRITE, NULL, &db))
		return container_error(db, path, "open");
	if (sqlite3_db_readonly(db, "main"))
		return err_set(-EACCES,
			       "%s: cannot open: it may not be written; copy it to where it may",
			       path);
	if ((err = schema_check(db, path, &version)) || (err = schema_raise(db, path, version)))
		return err;
	*ret = take_ptr(db);
	return 0;
}

static int cannot_create(const char *path, int number)
{
	return err_set(-number, "%s: cannot create: %s; name another place with -o", path,
		       strerror(number));
}

static int image_write(const char *path, const char *name, const uint8_t *image, size_t size)
{
	AUTO(close_fd)
	int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return cannot_create(path, errno);
	for (size_t done = 0; done < size;) {
		ssize_t wrote = write(fd, image + done, size - done);

		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			return cannot_create(path, wrote < 0 ? errno : EIO);
		done += (size_t)wrote;
	}
	return 0;
}

int container_create(const char *path)
{
	AUTO(container_close_auto) sqlite3 *db = NULL;
	AUTO(free_sqlite) uint8_t *image = NULL;
	AUTO(free_ptr) char *name = mem_printf("%s-new", path);
	sqlite3_int64 size = 0;
	int err = schema_open(STORE_SCHEMA_VERSION, &db);

	if (err)
		return err;
	image = sqlite3_serialize(db, "main", &size, 0);
	if (!image)
		return err_set(-ENOMEM, "%s: cannot create: out of memory", path);
	unlink(name); /* left by a run that was killed just here */
	err = image_write(path, name, image, (size_t)size);
	if (!err && rename(name, path))
		err = cannot_create(path, errno);
	if (err)
		unlink(name);
	return err;
}

int container_fold(const char *path)
{
	AUTO(container_close_auto) sqlite3 *db = NULL;

	if (attempt(path, SQLITE_OPEN_READWRITE, NULL, &db))
		return container_error(db, path, "open");
	if (sqlite3_exec(db, "pragma journal_mode = delete", NULL, NULL, NULL))
		return container_error(db, path, "take in its log");
	return 0;
}
