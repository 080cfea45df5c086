// SPDX-License-Identifier: BSD-2-Clause
#include "inject/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"

enum {
	HEAD_SIZE = 256, /* what the kernel looks at (BINPRM_BUF_SIZE) */
	SCRIPT_DEPTH = 5, /* as many interpreters of interpreters as it follows */
};

const char *program_obstacle_name(enum program_obstacle obstacle)
{
	static const char *const words[] = {
		[PROGRAM_FINE] = "",
#define X(name, word, text) [PROGRAM_##name] = word,
		PROGRAM_OBSTACLES(X)
#undef X
	};

	return words[obstacle];
}

const char *program_obstacle_text(enum program_obstacle obstacle)
{
	static const char *const texts[] = {
		[PROGRAM_FINE] = "",
#define X(name, word, text) [PROGRAM_##name] = text,
		PROGRAM_OBSTACLES(X)
#undef X
	};

	return texts[obstacle];
}

static void user_line(const char *line, struct program_user *user)
{
	unsigned number;

	if (sscanf(line, "Uid:\t%*u\t%u", &number) == 1)
		user->uid = number;
	else if (sscanf(line, "Gid:\t%*u\t%u", &number) == 1)
		user->gid = number;
	else if (sscanf(line, "NoNewPrivs:\t%u", &number) == 1)
		user->no_new_privileges = number;
	else if (sscanf(line, "Seccomp_filters:\t%u", &number) == 1)
		user->filters = number;
}

int program_user_get(pid_t pid, struct program_user *ret)
{
	AUTO(free_ptr) char *path = mem_printf("/proc/%d/status", (int)pid);
	AUTO(close_file) FILE *file = fopen(path, "re");
	struct program_user user = {};
	char line[256];

	if (!file)
		return err_set(-errno, "cannot read %s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), file))
		user_line(line, &user);
	*ret = user;
	return 0;
}

static bool is_executable(const char *path)
{
	struct stat status;

	if (access(path, X_OK))
		return false;
	if (!stat(path, &status) && S_ISREG(status.st_mode))
		return true;
	errno = EACCES;
	return false;
}

static int path_search(const char *name, char **ret_path)
{
	const char *path = getenv("PATH") ? getenv("PATH") : "/bin:/usr/bin";
	int reason = ENOENT;

	while (*path) {
		size_t length = strcspn(path, ":");
		AUTO(free_ptr)
		char *file = length ? mem_printf("%.*s/%s", (int)length, path, name)
				    : mem_strdup(name);

		if (is_executable(file)) {
			*ret_path = take_ptr(file);
			return 0;
		}
		reason = errno == EACCES ? EACCES : reason;
		path += length + (path[length] == ':');
	}
	return -reason;
}

int program_find(const char *name, char **ret_path)
{
	int err;

	if (!strchr(name, '/')) {
		err = path_search(name, ret_path);
	} else if (is_executable(name)) {
		*ret_path = mem_strdup(name);
		return 0;
	} else {
		err = -errno;
	}
	return err ? err_set(err, "cannot run '%s': %s", name, strerror(-err)) : 0;
}

/*
 * Decides as the kernel does. Root already has every capability that a file could give. "No new
 * privileges" holds off setuid and setgid; of files with capabilities the kernel says that they are
 * privileged (AT_SECURE) nevertheless.
 */
static bool is_privileged(int fd, const struct program_user *user)
{
	struct stat status;
	struct statvfs mount;

	if ((!fstatvfs(fd, &mount) && mount.f_flag & ST_NOSUID) || fstat(fd, &status))
		return false;
	if (user->uid != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0)
		return true;
	if (user->no_new_privileges)
		return false;
	if (status.st_mode & S_ISUID && status.st_uid != user->uid)
		return true;
	return (status.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
	       status.st_gid != user->gid;
}

static bool is_foreign(const char *head, ssize_t size)
{
	Elf64_Ehdr header;

	if (size < (ssize_t)sizeof(header) || memcmp(head, ELFMAG, SELFMAG))
		return false;
	memcpy(&header, head, sizeof(header));
	return header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64;
}

/* The interpreter that a script's first line names, below root; NULL if it is no script. */
static char *interpreter_of(char *head, ssize_t size, const char *root)
{
	char *name, *rest = head + 2;

	if (size < 3 || head[0] != '#' || head[1] != '!')
		return NULL;
	head[size] = '\0';
	rest[strcspn(rest, "\n")] = '\0';
	name = rest + strspn(rest, " \t");
	name[strcspn(name, " \t")] = '\0';
	return *name == '/' ? mem_printf("%s%s", root, name) : mem_strdup(name);
}

static enum program_obstacle check(const char *path, const char *root,
				   const struct program_user *user, int depth)
{
	AUTO(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	AUTO(free_ptr) char *interpreter = NULL;
	char head[HEAD_SIZE + 1];
	ssize_t size;

	if (fd < 0)
		return errno == EACCES ? PROGRAM_UNREADABLE : PROGRAM_FINE;
	if (is_privileged(fd, user))
		return PROGRAM_PRIVILEGED;
	size = pread(fd, head, HEAD_SIZE, 0);
	if (is_foreign(head, size))
		return PROGRAM_FOREIGN;
	interpreter = interpreter_of(head, size, root);
	if (interpreter && depth < SCRIPT_DEPTH)
		return check(interpreter, root, user, depth + 1);
	return PROGRAM_FINE;
}

enum program_obstacle program_check(const char *path, const char *root,
				    const struct program_user *user)
{
	return check(path, root, user, 0);
}
