// SPDX-License-Identifier: BSD-2-Clause
#include "store/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/err.h"
#include "store/container.h"

static int pages_copy(sqlite3 *from, sqlite3 *to, const char *path)
{
	sqlite3_backup *backup = sqlite3_backup_init(to, "main", from, "main");
	int rc;

	if (!backup)
		return container_error(to, path, "write");
	rc = sqlite3_backup_step(backup, -1);
	sqlite3_backup_finish(backup);
	return rc == SQLITE_DONE ? 0 : container_error(to, path, "write");
}

int store_snapshot(const char *path, const char *to)
{
	const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
	AUTO(container_close_auto) sqlite3 *from = NULL;
	AUTO(container_close_auto) sqlite3 *copy = NULL;
	int err = container_open_read(path, &from, NULL);

	if (err)
		return err;
	if (sqlite3_open_v2(to, &copy, flags, NULL))
		return container_error(copy, to, "create");
	/* The copy is temporary, so it need not survive a crash. */
	sqlite3_exec(copy, "pragma synchronous = off", NULL, NULL, NULL);
	return pages_copy(from, copy, to);
}

/* The lock that store_create() takes; closing drops only the one that was tried here. */
bool store_is_written(const char *path)
{
	AUTO(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
}
