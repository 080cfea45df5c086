// SPDX-License-Identifier: BSD-2-Clause
/*
 * Opens a profile to read it, which any user may have made, in any folder.
 *
 * The file is opened once, and judged by its first bytes before SQLite sees any of them. Then there
 * are three ways:
 *
 *	by descriptor	a file with nothing beside it, as every recording that has ended: SQLite
 *			reads that descriptor and nothing else
 *	in its folder	a log lies beside it, in a folder where only the caller can write: it is
 *			being recorded, or its recorder was killed. SQLite reads file and log
 *	as a copy	a log in any other folder, or a journal: both files are copied into a
 *			private folder, where SQLite may run its recovery
 *
 * Invariants
 * 1. Reading changes nothing where the profile lies, but for the -shm of the second way.
 * 2. A journal that names another file is never shown to SQLite, which would delete that file.
 * 3. A log or journal counts only if it is an ordinary file of the profile's owner.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "store/container.h"
#include "store/place.h"
#include "store/vfs.h"

enum {
	FILE_FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
	FOLDER = O_PATH | O_DIRECTORY | O_CLOEXEC,
	COPY_TRIES = 5,
	COPY_STEP = 1 << 20, /* bytes */
	LOG_HEADER = 32, /* bytes; they change when the log begins again */
};

struct source {
	const char *path; /* for messages */
	int fd;
	struct stat info;
	int dir; /* the folder it lies in; -1: unknown, or it has been removed */
	char *name; /* in dir */
	int log, journal; /* beside it; -1: none, or empty */
	size_t size; /* bytes of file and log */
};

static void source_deinit(struct source *source)
{
	close_fd(&source->fd);
	close_fd(&source->dir);
	close_fd(&source->log);
	close_fd(&source->journal);
	free(source->name);
}

/* --- The files -------------------------------------------------------------------------------- */

static int source_file_open(struct source *source)
{
	source->fd = open(source->path, FILE_FLAGS);
	if (source->fd >= 0)
		return fstat(source->fd, &source->info)
			       ? err_set(-errno, "%s: cannot look at it: %s", source->path,
					 strerror(errno))
			       : 0;
	if (errno == ENOENT)
		return err_set(
			-ENOENT,
			"%s: no such profile; make one with assay record, or name another with -i",
			source->path);
	return err_set(-errno, "%s: cannot open: %s", source->path, strerror(errno));
}

/* The folder of the file that is open, which need not be the one that path names by now. */
static void source_folder_find(struct source *source)
{
	AUTO(free_ptr) char *link = mem_printf("/proc/self/fd/%d", source->fd);
	char text[PATH_MAX], *slash;
	ssize_t size = readlink(link, text, sizeof(text) - 1);
	struct stat info;

	if (size <= 0)
		return;
	text[size] = 0;
	if (!(slash = strrchr(text, '/')))
		return;
	*slash = 0;
	AUTO(close_fd) int dir = open(*text ? text : "/", FOLDER);
	if (dir < 0 || fstatat(dir, slash + 1, &info, AT_SYMLINK_NOFOLLOW) ||
	    info.st_ino != source->info.st_ino || info.st_dev != source->info.st_dev)
		return;
	source->dir = take_fd(dir);
	source->name = mem_strdup(slash + 1);
}

static int companion_open(struct source *source, const char *suffix)
{
	AUTO(free_ptr) char *name = NULL;
	struct stat info;

	if (source->dir < 0)
		return -1;
	name = mem_printf("%s%s", source->name, suffix);
	AUTO(close_fd) int fd = openat(source->dir, name, FILE_FLAGS | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &info) || (S_ISREG(info.st_mode) && !info.st_size))
		return -1;
	if (!S_ISREG(info.st_mode) || info.st_uid != source->info.st_uid || info.st_nlink != 1) {
		log_warn("%s%s is not a file of the profile's owner and is left out", source->path,
			 suffix);
		return -1;
	}
	source->size += (size_t)info.st_size;
	return take_fd(fd);
}

static int source_open(struct source *source, const char *path)
{
	int err;

	*source = (struct source){ .path = path, .fd = -1, .dir = -1, .log = -1, .journal = -1 };
	if ((err = source_file_open(source)) || (err = container_check_kind(path, &source->info)))
		return err;
	source_folder_find(source);
	source->log = companion_open(source, "-wal");
	source->journal = companion_open(source, "-journal");
	source->size += (size_t)source->info.st_size;
	return container_check(path, source->fd, source->log >= 0 || source->journal >= 0);
}

/* --- The ways --------------------------------------------------------------------------------- */

static int descriptor_read(const struct source *source, sqlite3 **ret)
{
	AUTO(free_ptr) char *name = mem_printf("%d", source->fd);
	AUTO(container_close_auto) sqlite3 *db = NULL;

	if (container_attempt(name, CONTAINER_READ, vfs_descriptor, &db))
		return container_error(db, source->path, "open");
	*ret = take_ptr(db);
	return 0;
}

/* A read-only folder has no place for the index of the log, which is then kept in memory. */
static bool without_locks_may_help(int rc)
{
	return (rc & 0xff) == SQLITE_CANTOPEN || (rc & 0xff) == SQLITE_READONLY ||
	       (rc & 0xff) == SQLITE_IOERR;
}

/*
 * Closing the database closes the folder. The descriptor is closed before: later, that would drop
 * SQLite's locks.
 */
static int folder_read(struct source *source, sqlite3 **ret)
{
	static const char *const ways[] = { vfs_in_folder, vfs_in_folder_unlocked };
	AUTO(free_ptr) char *name = NULL;
	int rc, err = 0;

	close(take_fd(source->fd));
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		AUTO(container_close_auto) sqlite3 *db = NULL;

		free(name);
		name = mem_printf("/proc/self/fd/%d/%s", fcntl(source->dir, F_DUPFD_CLOEXEC, 3),
				  source->name);
		rc = container_attempt(name, CONTAINER_READ | (i ? CONTAINER_ALONE : 0), ways[i],
				       &db);
		if (!rc) {
			*ret = take_ptr(db);
			return 0;
		}
		err = container_error(db, source->path, "open");
		if (!without_locks_may_help(rc))
			break;
	}
	return err;
}

/* --- The copy --------------------------------------------------------------------------------- */

struct scratch {
	char *path;
	int dir;
};

static const char *const scratch_names[] = { "profile", "profile-wal", "profile-journal",
					     "profile-shm" };

/* Removes the private folder; files that are open stay readable. */
static void scratch_remove(struct scratch *scratch)
{
	for (size_t i = 0; i < sizeof(scratch_names) / sizeof(*scratch_names); i++)
		unlinkat(scratch->dir, scratch_names[i], 0);
	if (scratch->path)
		rmdir(scratch->path);
	close_fd(&scratch->dir);
	free(scratch->path);
}

static int copy_failed(const struct source *source, int err)
{
	return err_set(-err,
		       "%s: cannot be copied in order to recover it: %s; copy it and its "
		       "-wal to a folder of your own and name that, or set TMPDIR",
		       source->path, strerror(err));
}

/* Makes a folder that only the caller can enter. */
static int scratch_make(const struct source *source, struct scratch *ret)
{
	const char *folder = getenv("TMPDIR");
	struct stat info;
	AUTO(free_ptr)
	char *path = mem_printf("%s/assay-read-XXXXXX", folder && *folder ? folder : "/tmp");

	if (!mkdtemp(path))
		return copy_failed(source, errno);
	ret->path = take_ptr(path);
	ret->dir = open(ret->path, FOLDER | O_NOFOLLOW);
	if (ret->dir < 0 || fstat(ret->dir, &info) || info.st_uid != geteuid() ||
	    info.st_mode & 077)
		return copy_failed(source, EPERM);
	return 0;
}

static int bytes_copy(int from, int to)
{
	AUTO(free_ptr) char *bytes = mem_alloc(COPY_STEP);
	off_t at = 0;
	ssize_t got;

	while ((got = pread(from, bytes, COPY_STEP, at)) > 0) {
		for (ssize_t done = 0; done < got;) {
			ssize_t wrote = write(to, bytes + done, (size_t)(got - done));

			if (wrote <= 0)
				return -(wrote < 0 ? errno : EIO);
			done += wrote;
		}
		at += got;
	}
	return got < 0 ? -errno : 0;
}

static int file_copy(const struct source *source, const struct scratch *scratch, int from,
		     const char *name)
{
	int err;

	if (from < 0)
		return 0;
	unlinkat(scratch->dir, name, 0);
	AUTO(close_fd)
	int to = openat(scratch->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			0600);
	err = to < 0 ? -errno : bytes_copy(from, to);
	return err ? copy_failed(source, -err) : 0;
}

/* Reads the header of the log, which changes when the log is begun anew after a checkpoint. */
static void log_header(const struct source *source, uint8_t ret[LOG_HEADER])
{
	memset(ret, 0, LOG_HEADER);
	if (source->log >= 0 && pread(source->log, ret, LOG_HEADER, 0) < 0)
		memset(ret, 0, LOG_HEADER);
}

/* Copies file and log as of one moment, although a recorder may be writing them. */
static int files_copy(const struct source *source, const struct scratch *scratch)
{
	uint8_t before[LOG_HEADER], after[LOG_HEADER];
	int err;

	for (int i = 0; i < COPY_TRIES; i++) {
		log_header(source, before);
		if ((err = file_copy(source, scratch, source->fd, scratch_names[0])) ||
		    (err = file_copy(source, scratch, source->log, scratch_names[1])) ||
		    (err = file_copy(source, scratch, source->journal, scratch_names[2])))
			return err;
		log_header(source, after);
		if (!memcmp(before, after, LOG_HEADER))
			return 0;
	}
	return err_set(-EBUSY, "%s: is being written too fast to be copied; try again later",
		       source->path);
}

/* Checks the copy, because the original may change at any time. */
static int journal_check(const struct source *source, const struct scratch *scratch)
{
	if (source->journal < 0)
		return 0;
	AUTO(close_fd) int fd = openat(scratch->dir, scratch_names[2], O_RDONLY | O_CLOEXEC);
	return fd < 0 ? copy_failed(source, errno) : container_check_journal(source->path, fd);
}

/* Closing the database closes the folder. */
static int copy_read(struct source *source, sqlite3 **ret)
{
	AUTO(scratch_remove) struct scratch scratch = { .dir = -1 };
	AUTO(container_close_auto) sqlite3 *db = NULL;
	AUTO(progress_end) struct progress progress;
	AUTO(free_ptr) char *name = NULL;
	int err;

	progress_begin(&progress, "copying %s in order to recover it", source->path);
	if ((err = scratch_make(source, &scratch)) || (err = files_copy(source, &scratch)) ||
	    (err = journal_check(source, &scratch)))
		return err;
	name = mem_printf("/proc/self/fd/%d/%s", fcntl(scratch.dir, F_DUPFD_CLOEXEC, 3),
			  scratch_names[0]);
	if (container_attempt(name, CONTAINER_ALONE, vfs_in_folder, &db))
		return container_error(db, source->path, "open");
	*ret = take_ptr(db);
	return 0;
}

int container_open_read(const char *path, sqlite3 **ret, struct container_facts *ret_facts)
{
	AUTO(container_close_auto) sqlite3 *db = NULL;
	AUTO(source_deinit) struct source source;
	int err = source_open(&source, path);

	if (err)
		return err;
	if (source.journal < 0 && source.log < 0)
		err = descriptor_read(&source, &db);
	else if (source.journal < 0 && place_folder_is_safe(source.dir) &&
		 (source.info.st_uid == geteuid() || source.info.st_uid == 0))
		err = folder_read(&source, &db);
	else
		err = copy_read(&source, &db);
	err = err ? err : container_check_tables(db, path);
	if (err)
		return err;
	*ret = take_ptr(db);
	if (ret_facts)
		*ret_facts = (struct container_facts){ source.size, source.info.st_uid };
	return 0;
}
