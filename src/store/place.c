// SPDX-License-Identifier: BSD-2-Clause
#include "store/place.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/leftover.h"
#include "base/mem.h"
#include "base/newfile.h"
#include "store/container.h"

enum { FOLDER = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, RANDOM_DIGITS = 16 };

static int failed(const struct place *place, int err)
{
	return err_set(-err, "%s: cannot create: %s; name another place with -o", place->path,
		       strerror(err));
}

bool place_folder_is_safe(int dir)
{
	struct stat info;

	return fstat(dir, &info) == 0 && (info.st_uid == geteuid() || info.st_uid == 0) &&
	       !(info.st_mode & (S_IWGRP | S_IWOTH));
}

/*
 * Whether the folder was made by this user for a profile of that name; no other user can have made
 * it.
 */
static bool is_private(int dir)
{
	struct stat info;

	return fstat(dir, &info) == 0 && info.st_uid == geteuid() && !(info.st_mode & 077);
}

/* Whether text is what place_publish() writes; the length of the folder's name, or 0. */
static size_t inner_length(const char *text, const char *name)
{
	size_t prefix = strlen(name) + 2, length = prefix + RANDOM_DIGITS;

	if (strlen(text) != length + 1 + strlen(name) || text[0] != '.' ||
	    strncmp(text + 1, name, strlen(name)) || text[prefix - 1] != '.')
		return 0;
	for (size_t i = prefix; i < length; i++)
		if (!isxdigit((unsigned char)text[i]))
			return 0;
	return text[length] == '/' && !strcmp(text + length + 1, name) ? length : 0;
}

/* The private folder that a link of the caller's own leads to, if it is one. */
static void inner_find(struct place *place)
{
	char text[PATH_MAX];
	ssize_t size = readlinkat(place->dir, place->name, text, sizeof(text) - 1);
	struct stat info;
	size_t length;

	if (size <= 0 || place_stat(place, "", &info) || info.st_uid != geteuid())
		return;
	text[size] = 0;
	if (!(length = inner_length(text, place->name)))
		return;
	text[length] = 0;
	AUTO(close_fd) int inner = openat(place->dir, text, FOLDER);
	if (inner < 0 || !is_private(inner))
		return;
	place->outer = place->dir;
	place->dir = take_fd(inner);
	place->inner = mem_strdup(text);
}

int place_open(struct place *place, const char *path)
{
	int err;

	*place = PLACE_NONE;
	if ((err = newfile_folder(path, &place->dir, &place->name)))
		return err;
	place->path = mem_strdup(path);
	inner_find(place);
	return 0;
}

void place_close(struct place *place)
{
	close_fd(&place->dir);
	close_fd(&place->outer);
	free(place->path);
	free(place->name);
	free(place->inner);
	*place = PLACE_NONE;
}

char *place_file(const struct place *place, const char *suffix)
{
	return mem_printf("/proc/self/fd/%d/%s%s", place->dir, place->name, suffix);
}

int place_stat(const struct place *place, const char *suffix, struct stat *ret)
{
	AUTO(free_ptr) char *name = mem_printf("%s%s", place->name, suffix);

	return fstatat(place->dir, name, ret, AT_SYMLINK_NOFOLLOW);
}

int place_enter(struct place *place)
{
	AUTO(free_ptr) char *name = NULL;

	if (place->inner || place_folder_is_safe(place->dir))
		return 0;
	name = newfile_random_name(place->name);
	if (mkdirat(place->dir, name, 0700))
		return failed(place, errno);
	AUTO(close_fd) int inner = openat(place->dir, name, FOLDER);
	if (inner < 0 || !is_private(inner))
		return failed(place, inner < 0 ? errno : EPERM);
	place->outer = place->dir;
	place->dir = take_fd(inner);
	place->inner = take_ptr(name);
	return 0;
}

int place_publish(struct place *place)
{
	AUTO(free_ptr) char *text = NULL;

	if (!place->inner)
		return 0;
	text = mem_printf("%s/%s", place->inner, place->name);
	return symlinkat(text, place->outer, place->name) ? failed(place, errno) : 0;
}

void place_companions_remove(int dir, const char *name)
{
	static const char *const companions[] = {
#define X(suffix) suffix,
		CONTAINER_COMPANIONS(X)
#undef X
	};

	for (size_t i = 0; i < sizeof(companions) / sizeof(*companions); i++) {
		AUTO(free_ptr) char *file = mem_printf("%s%s", name, companions[i]);

		unlinkat(dir, file, 0);
	}
}

void place_leftovers(const struct place *place, int ret[PLACE_LEFTOVERS])
{
	static const char *const suffixes[] = {
		"",
#define X(suffix) suffix,
		CONTAINER_COMPANIONS(X)
#undef X
	};
	size_t count = 0;

	if (place->inner) {
		ret[count++] = leftover_add(place->outer, place->inner, AT_REMOVEDIR);
		ret[count++] = leftover_add(place->outer, place->name, 0);
	}
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(*suffixes); i++) {
		AUTO(free_ptr) char *file = mem_printf("%s%s", place->name, suffixes[i]);

		assert(count < PLACE_LEFTOVERS);
		ret[count++] = leftover_add(place->dir, file, 0);
	}
	while (count < PLACE_LEFTOVERS)
		ret[count++] = 0;
}

/* The folder is empty: what is in it beside the profile was SQLite's. */
static void inner_remove(struct place *place)
{
	place_companions_remove(place->dir, place->name);
	unlinkat(place->outer, place->inner, AT_REMOVEDIR);
	/* SQLite knows the folder by the number of the descriptor. */
	dup3(place->outer, place->dir, O_CLOEXEC);
	close(take_fd(place->outer));
	free(take_ptr(place->inner));
}

int place_settle(struct place *place)
{
	if (!place->inner)
		return 0;
	if (renameat(place->dir, place->name, place->outer, place->name))
		return failed(place, errno);
	inner_remove(place);
	return 0;
}

void place_leave(struct place *place)
{
	struct stat info;

	if (!place->inner)
		return;
	unlinkat(place->dir, place->name, 0);
	inner_remove(place);
	/* Other users may write in the folder, so only a link that is still ours is removed. */
	if (place_stat(place, "", &info) == 0 && S_ISLNK(info.st_mode) && info.st_uid == geteuid())
		unlinkat(place->dir, place->name, 0);
}
