// SPDX-License-Identifier: BSD-2-Clause
#include "base/origin.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"

/* sudo tells who called it; nobody else can set the variable for root. */
static bool is_behind_sudo(uid_t user)
{
	const char *text = geteuid() == 0 ? getenv("SUDO_UID") : NULL;
	char *end = NULL;
	unsigned long number = text ? strtoul(text, &end, 10) : 0;

	return text && end > text && !*end && number == user;
}

bool origin_is_ours(uid_t user)
{
	return user == 0 || user == geteuid() || is_behind_sudo(user);
}

/* Whether users other than the owner may write in the folder; the caller's own group may. */
static bool is_open(const struct stat *folder)
{
	return folder->st_mode & S_IWOTH ||
	       (folder->st_mode & S_IWGRP && folder->st_gid != getegid());
}

bool origin_folder_is_ours(const struct stat *folder)
{
	return origin_is_ours(folder->st_uid) && !is_open(folder);
}

/*
 * In a sticky folder only the owner of an entry can put another in its place. But any user may link
 * a file of ours there, unless the kernel forbids it.
 */
static bool is_ours_in(const struct stat *folder, const struct stat *entry)
{
	if (!origin_is_ours(entry->st_uid) || S_ISLNK(entry->st_mode))
		return false;
	if (origin_folder_is_ours(folder))
		return true;
	return origin_is_ours(folder->st_uid) && folder->st_mode & S_ISVTX &&
	       (S_ISDIR(entry->st_mode) || entry->st_nlink == 1);
}

int origin_of_path(const char *path, bool *ret_ours)
{
	AUTO(free_ptr) char *text = mem_strdup(path);
	struct stat folder, entry;
	bool ours = true;
	char *slash = text;

	if (*text != '/' || stat("/", &folder))
		return -EINVAL;
	while (slash) {
		slash = strchr(slash + 1, '/');
		if (slash)
			*slash = '\0';
		if (lstat(text, &entry))
			return -errno;
		ours = ours && is_ours_in(&folder, &entry);
		folder = entry;
		if (slash)
			*slash = '/';
	}
	*ret_ours = ours;
	return 0;
}

bool origin_is_public(int fd)
{
	char link[64], text[PATH_MAX], *slash;
	struct stat info;
	ssize_t size;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	size = readlink(link, text, sizeof(text) - 1);
	if (size <= 0 || fstat(fd, &info) || !(info.st_mode & S_IROTH))
		return false;
	text[size] = '\0';
	while ((slash = strrchr(text, '/')) && slash != text) {
		*slash = '\0';
		if (stat(text, &info) || !(info.st_mode & S_IXOTH))
			return false;
	}
	return slash == text;
}
