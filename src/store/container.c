// SPDX-License-Identifier: BSD-2-Clause
/*
 * The profile as a file.
 *
 * A profile begins its life as the image of an empty database, written beside its place and renamed
 * into it, so that there is no moment at which path names something that is neither nothing nor a
 * profile. From then on SQLite owns it: write-ahead log while it is recorded, a single file once it
 * is finished.
 *
 * container_read.c opens it to read it.
 *
 * Invariants
 * 1. The application id and the version are in the main file, never only in its log: the first
 *    bytes can be judged without SQLite.
 * 2. No statement runs on a table whose definition differs from ours: a hostile file cannot put a
 *    view, a virtual table or a trigger in the place of a table.
 */
#include "store/container.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "store/place.h"
#include "store/store.h"
#include "store/table.h"
#include "store/vfs.h"

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
	WRITE_MAX = 65536 +
		    64, /* bytes that SQLite writes at once: a page and the log's header of it */
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

/* Whether the file or its log is as large as a file of this process may be. */
static bool is_at_limit(sqlite3 *db)
{
	static const char *const suffixes[] = { "", "-wal", "-journal" };
	const char *path = db ? sqlite3_db_filename(db, "main") : NULL;
	struct rlimit limit;

	if (!path || getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return false;
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		AUTO(free_ptr) char *name = mem_printf("%s%s", path, suffixes[i]);
		struct stat info;

		if (stat(name, &info) == 0 && (rlim_t)info.st_size + WRITE_MAX > limit.rlim_cur)
			return true;
	}
	return false;
}

/* A write that crosses the limit is only cut short by the kernel: SQLite then knows no reason. */
static int io_errno(sqlite3 *db)
{
	int number = db ? sqlite3_system_errno(db) : 0;

	if (number > 0)
		return number;
	return is_at_limit(db) ? EFBIG : EIO;
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
	if (version < STORE_SCHEMA_VERSION)
		return err_set(-ENOTSUP,
			       "%s: written by an older Assay (format %u, this one reads format "
			       "%d); record again",
			       path, version, STORE_SCHEMA_VERSION);
	return 0;
}

/*
 * The number of pages is only valid while the two change counters agree, and a log may hold what
 * the file lacks.
 */
static int header_check_size(const char *path, const uint8_t header[HEADER_SIZE], uint64_t size,
			     bool more)
{
	uint32_t page_size = (uint32_t)header[HEADER_PAGE_SIZE] << 8 | header[HEADER_PAGE_SIZE + 1];
	uint64_t wanted =
		(uint64_t)be32(header + HEADER_PAGES) * (page_size == 1 ? 65536 : page_size);

	if (be32(header + HEADER_CHANGES) != be32(header + HEADER_PAGES_VALID_FOR) ||
	    size >= wanted || more)
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

int container_check_kind(const char *path, const struct stat *info)
{
	if (S_ISDIR(info->st_mode))
		return err_set(-EISDIR, "%s: a directory, not a profile; name a file in it", path);
	if (!S_ISREG(info->st_mode))
		return err_set(-EINVAL, "%s: not an ordinary file, so not a profile", path);
	if (info->st_size == 0)
		return err_set(-ENODATA, "%s: empty, so not a profile; record again", path);
	return 0;
}

int container_check(const char *path, int fd, bool more)
{
	uint8_t header[HEADER_SIZE] = {};
	struct stat info;
	int size, err;

	if (fstat(fd, &info))
		return err_set(-errno, "%s: cannot look at it: %s", path, strerror(errno));
	if ((err = container_check_kind(path, &info)))
		return err;
	if ((size = header_read(path, fd, header)) < 0)
		return size;
	if ((err = header_check_ours(path, header, size)) ||
	    (err = version_check(path, be32(header + HEADER_VERSION))))
		return err;
	return header_check_size(path, header, (uint64_t)info.st_size, more);
}

/*
 * A journal of several databases ends with the name of the file that knows all of them, and the
 * same bytes with which it begins; https://www.sqlite.org/fileformat.html section 3. SQLite deletes
 * that file when it has rolled back. Profiles never have such journals.
 */
int container_check_journal(const char *path, int fd)
{
	static const uint8_t magic[] = { 0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7 };
	uint8_t end[sizeof(magic)] = {};
	struct stat info;

	if (fstat(fd, &info) ||
	    (info.st_size >= (off_t)sizeof(end) &&
	     pread(fd, end, sizeof(end), info.st_size - (off_t)sizeof(end)) < 0))
		return err_set(-errno, "%s-journal: cannot read: %s", path, strerror(errno));
	if (memcmp(end, magic, sizeof(magic)))
		return 0;
	return err_set(-EPERM,
		       "%s-journal: names another file that would be deleted, so it is not "
		       "Assay's; remove the journal if you trust the profile without it",
		       path);
}

static void schema_write(struct strbuf *out)
{
	strbuf_printf(out, "pragma application_id = %d; pragma user_version = %d;\n",
		      STORE_APPLICATION_ID, STORE_SCHEMA_VERSION);
	for (int i = 0; i < STORE_TABLE_COUNT; i++)
		store_table_sql_create(&store_tables[i], out);
	strbuf_puts(out, store_views);
}

/* An empty profile in memory. */
static int schema_open(sqlite3 **ret)
{
	AUTO(container_close_auto) sqlite3 *db = NULL;
	struct strbuf schema = {};
	int err;

	if (sqlite3_open(":memory:", &db))
		return container_error(db, "(memory)", "open");
	schema_write(&schema);
	err = container_run(db, "(memory)", strbuf_text(&schema));
	strbuf_deinit(&schema);
	if (!err)
		*ret = take_ptr(db);
	return err;
}

/* Whether the file's table of that name was created by the same text as ours. */
static int table_check(sqlite3 *db, const char *path, sqlite3_stmt *find, sqlite3_stmt *ours)
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
			      path, name, STORE_SCHEMA_VERSION);
	else if (rc != SQLITE_ROW)
		err = container_error(db, path, "read its layout");
	sqlite3_reset(find);
	return err;
}

int container_check_tables(sqlite3 *db, const char *path)
{
	AUTO(container_close_auto) sqlite3 *reference = NULL;
	AUTO(sqlite3_finalize_auto) sqlite3_stmt *ours = NULL;
	AUTO(sqlite3_finalize_auto) sqlite3_stmt *find = NULL;
	int err = schema_open(&reference);

	if (err)
		return err;
	err = container_prepare(reference, path,
				"select name, sql from sqlite_schema where type = 'table'", &ours);
	if (err)
		return err;
	err = container_prepare(
		db, path,
		"select 1 from sqlite_schema where type = 'table' and name = ? and sql = ?", &find);
	while (!err && sqlite3_step(ours) == SQLITE_ROW)
		err = table_check(db, path, find, ours);
	return err;
}

/*
 * Turns off features of SQLite by which a hostile file could harm its reader, before the first
 * statement.
 */
static void defend(sqlite3 *db)
{
	sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	sqlite3_busy_timeout(db, BUSY_MS);
	sqlite3_exec(db, "pragma cell_size_check = on", NULL, NULL, NULL);
}

int container_attempt(const char *name, unsigned ways, const char *vfs, sqlite3 **ret)
{
	int flags = ways & CONTAINER_READ ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
	int rc = vfs_register();

	/* One thread at a time reads, or writes: locks for several are a fifth of the work. */
	flags |= SQLITE_OPEN_NOMUTEX;
	rc = rc ? rc : sqlite3_open_v2(name, ret, flags, vfs);
	if (rc)
		return *ret ? sqlite3_extended_errcode(*ret) : rc;
	defend(*ret);
	if (ways & CONTAINER_READ)
		sqlite3_exec(*ret, "pragma temp_store = memory", NULL, NULL, NULL);
	if (ways & CONTAINER_ALONE)
		sqlite3_exec(*ret, "pragma locking_mode = exclusive", NULL, NULL, NULL);
	rc = sqlite3_exec(*ret, "select count(*) from sqlite_schema", NULL, NULL, NULL);
	return rc ? sqlite3_extended_errcode(*ret) : 0;
}

void container_close(sqlite3 *db)
{
	const char *name = db ? sqlite3_db_filename(db, "main") : NULL;
	int dir = -1;

	if (name && sscanf(name, "/proc/self/fd/%d/", &dir) != 1)
		dir = -1;
	sqlite3_close_v2(db);
	close_fd(&dir);
}

/*
 * SQLite rolls back and deletes what it finds beside the file: only where no other user can have
 * put it, and only if it names no other file.
 */
static int place_check_open(const struct place *place, int fd, int journal)
{
	AUTO(free_ptr) char *log_name = place_file(place, "-wal");
	struct stat info;
	int err;

	if (fstat(fd, &info))
		return err_set(-errno, "%s: cannot look at it: %s", place->path, strerror(errno));
	if (info.st_uid != geteuid() || !place_folder_is_safe(place->dir))
		return err_set(-EPERM,
			       "%s: lies in a folder where other users can write, or is another "
			       "user's, so nothing is changed there; copy it, and its -wal, to a "
			       "folder of your own",
			       place->path);
	if (journal >= 0 && (err = container_check_journal(place->path, journal)))
		return err;
	return container_check(place->path, fd, journal >= 0 || !access(log_name, F_OK));
}

/* All is closed before SQLite locks the file: closing any descriptor of it drops the locks. */
static int place_check(const struct place *place)
{
	enum { FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW };
	AUTO(free_ptr) char *name = place_file(place, "");
	AUTO(free_ptr) char *journal_name = place_file(place, "-journal");
	AUTO(close_fd) int fd = open(name, FLAGS);
	AUTO(close_fd) int journal = open(journal_name, FLAGS);

	if (fd < 0)
		return err_set(-errno, "%s: cannot open: %s", place->path, strerror(errno));
	return place_check_open(place, fd, journal);
}

int container_open_write(const struct place *place, sqlite3 **ret)
{
	AUTO(sqlite3_close_v2_auto) sqlite3 *db = NULL;
	AUTO(free_ptr) char *name = place_file(place, "");
	int err = place_check(place);

	if (err)
		return err;
	if (container_attempt(name, 0, vfs_in_folder, &db))
		return container_error(db, place->path, "open");
	if (sqlite3_db_readonly(db, "main"))
		return err_set(-EACCES,
			       "%s: cannot open: it may not be written; copy it to where it may",
			       place->path);
	if ((err = container_check_tables(db, place->path)))
		return err;
	*ret = take_ptr(db);
	return 0;
}

static int cannot_create(const char *path, int number)
{
	return err_set(-number, "%s: cannot create: %s; name another place with -o", path,
		       strerror(number));
}

static int image_write(const struct place *place, const char *name, const uint8_t *image,
		       size_t size)
{
	AUTO(close_fd)
	int fd = openat(place->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			0600);

	if (fd < 0)
		return cannot_create(place->path, errno);
	for (size_t done = 0; done < size;) {
		ssize_t wrote = write(fd, image + done, size - done);

		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			return cannot_create(place->path, wrote < 0 ? errno : EIO);
		done += (size_t)wrote;
	}
	return 0;
}

int container_create(const struct place *place)
{
	AUTO(container_close_auto) sqlite3 *db = NULL;
	AUTO(free_sqlite) uint8_t *image = NULL;
	AUTO(free_ptr) char *name = mem_printf("%s-new", place->name);
	sqlite3_int64 size = 0;
	int err = schema_open(&db);

	if (err)
		return err;
	image = sqlite3_serialize(db, "main", &size, 0);
	if (!image)
		return err_set(-ENOMEM, "%s: cannot create: out of memory", place->path);
	unlinkat(place->dir, name, 0); /* left by a run that was killed just here */
	err = image_write(place, name, image, (size_t)size);
	if (!err && renameat(place->dir, name, place->dir, place->name))
		err = cannot_create(place->path, errno);
	if (err)
		unlinkat(place->dir, name, 0);
	return err;
}

int container_fold(const struct place *place)
{
	AUTO(sqlite3_close_v2_auto) sqlite3 *db = NULL;
	AUTO(free_ptr) char *name = place_file(place, "");
	int err = place_check(place);

	if (err)
		return err;
	if (container_attempt(name, 0, vfs_in_folder, &db))
		return container_error(db, place->path, "open");
	if (sqlite3_exec(db, "pragma journal_mode = delete", NULL, NULL, NULL))
		return container_error(db, place->path, "take in its log");
	return 0;
}
