// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"

static bool *key_find(struct policy *policy, const char *key)
{
#define X(name, text)                                                                              \
	if (!strcmp(key, text))                                                                    \
		return &policy->name;
	POLICY_KEYS(X)
#undef X
	return NULL;
}

/* "key = yes"; empty lines and what follows # mean nothing. */
static int line_read(const char *path, unsigned number, char *line, struct policy *policy)
{
	char key[64], word[64], more;
	int found;
	bool *allowed;

	line[strcspn(line, "#\n")] = 0;
	if (!line[strspn(line, " \t\r")])
		return 0;
	found = sscanf(line, " %63[a-z-] = %63s %c", key, word, &more);
	allowed = found == 2 ? key_find(policy, key) : NULL;
	if (!allowed || (strcmp(word, "yes") && strcmp(word, "no")))
		return err_set(-EINVAL,
			       "%s, line %u: not understood; each line is other-users or "
			       "kernel-values, =, and yes or no",
			       path, number);
	*allowed = !strcmp(word, "yes");
	return 0;
}

/* Only root can have written it. */
static bool is_roots(int fd)
{
	struct stat info;

	return fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == 0 &&
	       !(info.st_mode & (S_IWGRP | S_IWOTH));
}

static int lines_read(FILE *file, const char *path, struct policy *ret)
{
	struct policy policy = {};
	AUTO(free_ptr) char *line = NULL;
	size_t size = 0;
	int err = 0;

	for (unsigned number = 1; !err && getline(&line, &size, file) >= 0; number++)
		err = line_read(path, number, line, &policy);
	if (!err)
		*ret = policy;
	return err;
}

int policy_read_file(const char *path, uid_t user, struct policy *ret)
{
	AUTO(close_fd) int fd = -1;
	AUTO(close_file) FILE *file = NULL;

	if (user == 0) {
#define X(name, key) ret->name = true;
		POLICY_KEYS(X)
#undef X
		return 0;
	}
	*ret = (struct policy){};
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return 0;
	if (!is_roots(fd)) {
		log_warn("%s: not a file that only root can write, so it allows nothing", path);
		return 0;
	}
	file = fdopen(fd, "r");
	if (!file)
		return err_set(-errno, "%s: cannot read: %s", path, strerror(errno));
	take_fd(fd);
	return lines_read(file, path, ret);
}

bool policy_shows_everybody(void)
{
	AUTO(close_file) FILE *file = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
	int level;

	return file && fscanf(file, "%d", &level) == 1 && level <= 0;
}

int policy_read(struct policy *ret)
{
	return policy_read_file(POLICY_FILE, geteuid(), ret);
}
