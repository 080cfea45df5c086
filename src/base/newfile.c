// SPDX-License-Identifier: BSD-2-Clause
/*
 * New files where other users may write.
 *
 * The path is walked component by component through descriptors, so that what was checked is what
 * is used. While it is written the file has no name at all (O_TMPFILE), where the file system can
 * do that: a command that is killed leaves nothing behind. Otherwise it has a random name, created
 * with O_EXCL, and is removed if a signal ends the command. At the end it is linked under a random
 * name and renamed into place.
 *
 * Invariants
 * 1. No symbolic link is followed that another user than root or the caller owns.
 * 2. Nothing is written into a file that was there before, but for devices and pipes of root or
 *    the caller.
 * 3. A hard link to a symbolic link is not followed: its owner did not put it there.
 * 4. No other user chooses the mode of the new file.
 */
#include "base/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/leftover.h"
#include "base/mem.h"
#include "base/origin.h"

enum { LINKS_MAX = 40, NAMES_MAX = 100, FOLDER = O_PATH | O_DIRECTORY | O_CLOEXEC };

static int failed(const char *path, int err)
{
	return err_set(-err, "%s: cannot be written: %s; give another file with -o", path,
		       strerror(err));
}

static int foreign(const char *path, const char *part, const char *what)
{
	return err_set(-EPERM,
		       "%s: '%s' is %s of another user, which could lead anywhere; remove it, or "
		       "give another file with -o",
		       path, part, what);
}

static bool is_trusted(const struct stat *info)
{
	return info->st_uid == 0 || info->st_uid == geteuid();
}

/* --- Finding the folder ----------------------------------------------------------------------- */

struct place {
	const char *path; /* for messages */
	int dir;
	char *rest; /* what is still to be walked, from dir on */
	unsigned links; /* followed so far */
	bool stay; /* the last component is not looked at */
	/* the last component is a link that only the kernel can follow, as in /proc/self/fd */
	bool magic;
};

/* A link of /proc that leads to an open file or a folder has no text that could be walked. */
static bool is_magic(int dir)
{
	struct statfs info;

	return fstatfs(dir, &info) == 0 && info.f_type == PROC_SUPER_MAGIC;
}

static void place_enter(struct place *place, int dir)
{
	close(place->dir);
	place->dir = dir;
}

/* Puts the text of the link, which is open, in front of what is left. */
static int place_follow(struct place *place, int link)
{
	char text[PATH_MAX];
	ssize_t size = readlinkat(link, "", text, sizeof(text) - 1);
	char *rest;

	if (size <= 0 || ++place->links > LINKS_MAX)
		return failed(place->path, size < 0 ? errno : ELOOP);
	text[size] = 0;
	rest = *place->rest ? mem_printf("%s/%s", text, place->rest) : mem_strdup(text);
	free(place->rest);
	place->rest = rest;
	if (*text != '/')
		return 0;
	place_enter(place, open("/", FOLDER));
	return place->dir < 0 ? failed(place->path, errno) : 0;
}

/* Takes the first component off what is left; NULL: there is none. */
static char *place_next(struct place *place)
{
	char *start = place->rest + strspn(place->rest, "/");
	size_t length = strcspn(start, "/");
	char *name = length ? mem_strndup(start, length) : NULL;

	start += length;
	start += strspn(start, "/");
	memmove(place->rest, start, strlen(start) + 1);
	return name;
}

/* A component that is there, and open as fd, so that what is looked at is what is used. */
static int place_meet(struct place *place, int *fd, const char *name, bool last)
{
	struct stat info;

	if (fstat(*fd, &info))
		return failed(place->path, errno);
	if (S_ISLNK(info.st_mode)) {
		if (!is_trusted(&info) || info.st_nlink != 1)
			return foreign(place->path, name, "a symbolic link");
		place->magic = last && is_magic(place->dir);
		return place->magic ? 0 : place_follow(place, *fd);
	}
	if (S_ISDIR(info.st_mode) && last)
		return failed(place->path, EISDIR);
	if (!S_ISDIR(info.st_mode) && !last)
		return failed(place->path, ENOTDIR);
	if (!last)
		place_enter(place, take_fd(*fd));
	return 0;
}

/* One component; *ret_name: it is the last one, and dir is its folder. */
static int place_step(struct place *place, char **ret_name)
{
	AUTO(free_ptr) char *name = place_next(place);
	bool last = !*place->rest;
	unsigned links = place->links;
	int err;

	if (!name)
		return failed(place->path, EISDIR);
	if (last && place->stay) {
		*ret_name = take_ptr(name);
		return 0;
	}
	AUTO(close_fd) int fd = openat(place->dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno != ENOENT || !last))
		return failed(place->path, errno);
	err = fd < 0 ? 0 : place_meet(place, &fd, name, last);
	if (!err && last && links == place->links)
		*ret_name = take_ptr(name);
	return err;
}

static int place_find(struct place *place, const char *path, bool stay, char **ret_name)
{
	char *name = NULL;
	int err = 0;

	*place = (struct place){ .path = path, .rest = mem_strdup(path), .stay = stay };
	place->dir = open(*path == '/' ? "/" : ".", FOLDER);
	if (place->dir < 0)
		err = failed(path, errno);
	while (!err && !name)
		err = place_step(place, &name);
	free(place->rest);
	if (!err)
		*ret_name = name;
	return err;
}

/* --- The file --------------------------------------------------------------------------------- */

static int in_place_open(struct newfile *file, const struct stat *info, bool magic)
{
	struct stat opened;

	if (!magic && !is_trusted(info))
		return foreign(file->path, file->name, "a device or a pipe");
	file->fd = openat(file->dir, file->name,
			  O_WRONLY | O_CLOEXEC | O_NOCTTY | (magic ? 0 : O_NOFOLLOW));
	if (file->fd < 0)
		return failed(file->path, errno);
	if (!magic && (fstat(file->fd, &opened) || opened.st_ino != info->st_ino ||
		       opened.st_dev != info->st_dev))
		return foreign(file->path, file->name, "now something else");
	file->in_place = true;
	return 0;
}

char *newfile_random_name(const char *name)
{
	uint64_t bits = 0;

	if (getrandom(&bits, sizeof(bits), 0) != sizeof(bits))
		bits = (uint64_t)getpid();
	return mem_printf(".%.200s.%016llx", name, (unsigned long long)bits);
}

static int named_open(struct newfile *file)
{
	for (int tries = 0; tries < NAMES_MAX && file->fd < 0; tries++) {
		free(file->temporary);
		file->temporary = newfile_random_name(file->name);
		file->fd = openat(file->dir, file->temporary,
				  O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (file->fd < 0 && errno != EEXIST)
			break;
	}
	if (file->fd < 0) {
		free(take_ptr(file->temporary));
		return failed(file->path, errno);
	}
	file->leftover = leftover_add(file->dir, file->temporary, 0);
	return 0;
}

/* Without /proc a file that has no name could not be given one later. */
static int nameless_open(struct newfile *file)
{
	if (!access("/proc/self/fd", F_OK))
		file->fd = openat(file->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	return file->fd >= 0 ? 0 : named_open(file);
}

/*
 * Where other users may write, one may have linked or moved a file of the caller's there that has
 * the mode they want.
 */
static bool mode_is_kept(const struct newfile *file, const struct stat *replaced)
{
	struct stat folder;

	return replaced && replaced->st_uid == geteuid() && replaced->st_nlink == 1 &&
	       fstat(file->dir, &folder) == 0 && origin_folder_is_ours(&folder);
}

static mode_t mode_wanted(const struct newfile *file, const struct stat *replaced, mode_t mode)
{
	mode_t mask = umask(0);

	umask(mask);
	return mode_is_kept(file, replaced) ? replaced->st_mode & 0777 : mode & ~mask;
}

static int file_open(struct newfile *file, mode_t mode, bool magic)
{
	struct stat info;
	bool there = !fstatat(file->dir, file->name, &info, AT_SYMLINK_NOFOLLOW);
	int err;

	if (there && (magic || !S_ISREG(info.st_mode)))
		return in_place_open(file, &info, magic);
	err = nameless_open(file);
	if (!err && fchmod(file->fd, mode_wanted(file, there ? &info : NULL, mode)))
		err = failed(file->path, errno);
	return err;
}

int newfile_open(struct newfile *file, const char *path, mode_t mode)
{
	struct place place;
	int err;

	*file = (struct newfile){ .dir = -1, .fd = -1, .path = mem_strdup(path) };
	err = place_find(&place, path, false, &file->name);
	file->dir = place.dir;
	if (!err)
		err = file_open(file, mode, place.magic);
	if (err)
		newfile_drop(file);
	return err;
}

int newfile_folder(const char *path, int *ret_dir, char **ret_name)
{
	struct place place;
	char *name = NULL;
	int err = place_find(&place, path, true, &name);

	if (err) {
		close_fd(&place.dir);
		return err;
	}
	*ret_dir = place.dir;
	*ret_name = name;
	return 0;
}

FILE *newfile_stream(const struct newfile *file)
{
	AUTO(close_fd) int fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
	FILE *stream = fd < 0 ? NULL : fdopen(fd, "w");

	if (stream)
		take_fd(fd);
	return stream;
}

static int name_give(struct newfile *file)
{
	char own[64];

	snprintf(own, sizeof(own), "/proc/self/fd/%d", file->fd);
	for (int tries = 0; tries < NAMES_MAX; tries++) {
		AUTO(free_ptr) char *name = newfile_random_name(file->name);

		if (!linkat(AT_FDCWD, own, file->dir, name, AT_SYMLINK_FOLLOW)) {
			file->temporary = take_ptr(name);
			return 0;
		}
		if (errno != EEXIST)
			break;
	}
	return failed(file->path, errno);
}

int newfile_finish(struct newfile *file)
{
	int err = 0;

	if (!file->in_place && !file->temporary)
		err = name_give(file);
	if (!err && !file->in_place) {
		if (renameat(file->dir, file->temporary, file->dir, file->name))
			err = failed(file->path, errno);
		else
			free(take_ptr(file->temporary));
	}
	newfile_drop(file);
	return err;
}

void newfile_drop(struct newfile *file)
{
	if (file->temporary)
		unlinkat(file->dir, file->temporary, 0);
	leftover_forget(file->leftover);
	close_fd(&file->fd);
	close_fd(&file->dir);
	free(file->temporary);
	free(file->name);
	free(file->path);
	*file = (struct newfile){ .dir = -1, .fd = -1 };
}
