// SPDX-License-Identifier: BSD-2-Clause
#include "store/vfs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char vfs_in_folder[] = "assay-folder";
const char vfs_in_folder_unlocked[] = "assay-folder-unlocked";
const char vfs_descriptor[] = "assay-descriptor";

/* SQLite's own would follow the links of /proc by their text, which is a path again. */
static int full_name(sqlite3_vfs *vfs, const char *name, int size, char *ret)
{
	size_t length = strlen(name);

	if (length >= (size_t)size)
		return SQLITE_CANTOPEN;
	memcpy(ret, name, length + 1);
	return SQLITE_OK;
}

/* --- A descriptor ----------------------------------------------------------------------------- */

struct file {
	sqlite3_file base;
	int fd; /* its own copy of the caller's */
};

enum { HEADER_MODES = 18, MODE_JOURNAL = 1 }; /* bytes 18 and 19: 2 for a log */

static int file_close(sqlite3_file *base)
{
	close(((struct file *)base)->fd);
	return SQLITE_OK;
}

/* Bytes that are read; fewer at the end of the file. */
static int bytes_read(int fd, uint8_t *bytes, int size, sqlite3_int64 from)
{
	int got = 0;

	while (got < size) {
		ssize_t part = pread(fd, bytes + got, (size_t)(size - got), from + got);

		if (part < 0 && errno == EINTR)
			continue;
		if (part <= 0)
			return part < 0 ? -1 : got;
		got += (int)part;
	}
	return got;
}

static int file_read(sqlite3_file *base, void *ret, int size, sqlite3_int64 from)
{
	uint8_t *bytes = ret;
	int got = bytes_read(((struct file *)base)->fd, bytes, size, from);

	if (got < 0 || got > size)
		return SQLITE_IOERR_READ;
	memset(bytes + got, 0, (size_t)size - (size_t)got);
	for (int i = HEADER_MODES; from == 0 && i < HEADER_MODES + 2 && i < got; i++)
		if (bytes[i] == 2)
			bytes[i] = MODE_JOURNAL;
	return got < size ? SQLITE_IOERR_SHORT_READ : SQLITE_OK;
}

static int file_write(sqlite3_file *base, const void *bytes, int size, sqlite3_int64 to)
{
	return SQLITE_READONLY;
}

static int file_truncate(sqlite3_file *base, sqlite3_int64 size)
{
	return SQLITE_READONLY;
}

static int file_sync(sqlite3_file *base, int flags)
{
	return SQLITE_OK;
}

static int file_size(sqlite3_file *base, sqlite3_int64 *ret)
{
	struct stat info;

	if (fstat(((struct file *)base)->fd, &info))
		return SQLITE_IOERR_FSTAT;
	*ret = info.st_size;
	return SQLITE_OK;
}

static int file_lock(sqlite3_file *base, int level)
{
	return SQLITE_OK;
}

static int file_check_lock(sqlite3_file *base, int *ret)
{
	*ret = 0;
	return SQLITE_OK;
}

static int file_control(sqlite3_file *base, int what, void *argument)
{
	return SQLITE_NOTFOUND;
}

static int file_sector_size(sqlite3_file *base)
{
	return 4096;
}

static int file_character(sqlite3_file *base)
{
	return SQLITE_IOCAP_IMMUTABLE;
}

static const sqlite3_io_methods file_methods = {
	.iVersion = 1,
	.xClose = file_close,
	.xRead = file_read,
	.xWrite = file_write,
	.xTruncate = file_truncate,
	.xSync = file_sync,
	.xFileSize = file_size,
	.xLock = file_lock,
	.xUnlock = file_lock,
	.xCheckReservedLock = file_check_lock,
	.xFileControl = file_control,
	.xSectorSize = file_sector_size,
	.xDeviceCharacteristics = file_character,
};

/* What SQLite keeps beside a query is in memory (container.c); there is one file only. */
static int descriptor_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *base, int flags,
			   int *ret_flags)
{
	struct file *file = (struct file *)base;
	char *end = NULL;

	file->base.pMethods = NULL;
	if (!name || !(flags & SQLITE_OPEN_MAIN_DB))
		return SQLITE_CANTOPEN;
	file->fd = fcntl((int)strtoul(name, &end, 10), F_DUPFD_CLOEXEC, 3);
	assert(end > name && !*end); /* container_read.c gives it */
	if (file->fd < 0)
		return SQLITE_CANTOPEN;
	file->base.pMethods = &file_methods;
	if (ret_flags)
		*ret_flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_DB;
	return SQLITE_OK;
}

static int descriptor_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
	return SQLITE_IOERR_DELETE;
}

static int descriptor_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret)
{
	*ret = 0;
	return SQLITE_OK;
}

/* --- All of them ------------------------------------------------------------------------------ */

static int derive(const char *from, const char *name, sqlite3_vfs *ret)
{
	const sqlite3_vfs *base = sqlite3_vfs_find(from);

	if (!base)
		return SQLITE_NOTFOUND;
	*ret = *base;
	ret->pNext = NULL;
	ret->zName = name;
	ret->xFullPathname = full_name;
	return SQLITE_OK;
}

int vfs_register(void)
{
	static sqlite3_vfs folder, unlocked, descriptor;
	int rc;

	if (descriptor.zName)
		return SQLITE_OK;
	if ((rc = derive("unix", vfs_in_folder, &folder)) ||
	    (rc = derive("unix-none", vfs_in_folder_unlocked, &unlocked)) ||
	    (rc = derive("unix", vfs_descriptor, &descriptor)))
		return rc;
	descriptor.szOsFile = sizeof(struct file);
	descriptor.xOpen = descriptor_open;
	descriptor.xDelete = descriptor_delete;
	descriptor.xAccess = descriptor_access;
	if ((rc = sqlite3_vfs_register(&folder, 0)) || (rc = sqlite3_vfs_register(&unlocked, 0)))
		return rc;
	return sqlite3_vfs_register(&descriptor, 0);
}
