// SPDX-License-Identifier: BSD-2-Clause
/*
 * /proc as events.
 *
 * A process is told in the order in which it could have come about: FORK of its leader, EXEC,
 * IDENTITY, its mappings, then FORK and COMM of its other threads. The mapping of the executable
 * comes first among the mappings, as the kernel would have told it, because the load map takes the
 * first file for the program.
 */
#include "image/procfs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/map.h"
#include "base/strbuf.h"

enum {
	READ_STEP = 16384,
	FILE_MAX_BYTES = 256 << 20, /* of a /proc file: more is not a map of anything real */
	CGROUP_DEPTH_MAX = 64,
};

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* Appends the whole file. */
static int file_read(const char *path, struct strbuf *ret)
{
	AUTO(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	AUTO(free_ptr) char *step = NULL;

	if (fd < 0)
		return -errno;
	step = mem_alloc(READ_STEP);
	while (ret->length < FILE_MAX_BYTES) {
		ssize_t got = read(fd, step, READ_STEP);

		if (got < 0)
			return -errno;
		if (got == 0)
			return 0;
		strbuf_add(ret, step, (size_t)got);
	}
	return -EFBIG;
}

/* Numeric entries of a directory, ascending. */
static int pid_compare(const void *a, const void *b)
{
	const pid_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int numbers_read(const char *path, pid_t **ret, size_t *ret_count)
{
	AUTO(close_dir) DIR *dir = opendir(path);
	ARRAY(pid_t) numbers = {};
	struct dirent *entry;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		char *end;
		long number = strtol(entry->d_name, &end, 10);

		if (isdigit((unsigned char)entry->d_name[0]) && *end == '\0' && number <= INT_MAX)
			*array_push(&numbers) = (pid_t)number;
	}
	if (numbers.count)
		qsort(numbers.items, numbers.count, sizeof(pid_t), pid_compare);
	*ret = numbers.items;
	*ret_count = numbers.count;
	return 0;
}

int procfs_threads(pid_t pid, pid_t **ret, size_t *ret_count)
{
	char path[64];
	int err;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	err = numbers_read(path, ret, ret_count);
	if (err == -ENOENT || err == -ESRCH)
		return err_set(-ESRCH, "process %d does not exist", (int)pid);
	return err ? err_set(err, "%s: %s", path, strerror(-err)) : 0;
}

/* The text after "name:" in a status file, at its first non-blank; NULL: no such line. */
static const char *status_field(const char *status, const char *name)
{
	size_t length = strlen(name);

	for (const char *line = status; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, length) == 0 && line[length] == ':')
			return line + length + 1 + strspn(line + length + 1, " \t");
	}
	return NULL;
}

static int status_read(pid_t pid, struct strbuf *ret)
{
	char path[64];
	int err;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	err = file_read(path, ret);
	if (!err && ret->length == 0)
		err = -ESRCH;
	return err == -ENOENT ? -ESRCH : err;
}

pid_t procfs_namespace_pid(pid_t pid)
{
	struct strbuf status = {};
	const char *field;
	long inner = pid;

	if (status_read(pid, &status) == 0 && (field = status_field(status.text, "NSpid"))) {
		char *end;

		for (;; field = end) {
			long next = strtol(field, &end, 10);

			if (end == field || *field == '\n')
				break;
			inner = next;
			if (*end == '\n')
				break;
		}
	}
	strbuf_deinit(&status);
	return (pid_t)inner;
}

/* "Uid: real effective saved fs" */
static void ids_parse(const char *field, uint32_t *ret_real, uint32_t *ret_effective)
{
	unsigned int real, effective;

	if (field && sscanf(field, "%u %u", &real, &effective) == 2) {
		*ret_real = real;
		*ret_effective = effective;
	}
}

/*
 * Chooses among lines "id:controllers:path" that of the unified hierarchy, or else the longest
 * path.
 */
static char *cgroup_choose(char *text)
{
	char *best = NULL, *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *path = strchr(line, ':');

		path = path ? strchr(path + 1, ':') : NULL;
		if (!path)
			continue;
		if (strncmp(line, "0::", 3) == 0)
			return path + 1;
		if (!best || strlen(path + 1) > strlen(best))
			best = path + 1;
	}
	return best;
}

static int identity_tell(pid_t pid, uint64_t time, const char *status, event_fn fn, void *ctx)
{
	struct strbuf groups = {};
	struct event event = {
		.kind = EVENT_IDENTITY, .pid = (uint32_t)pid, .tid = (uint32_t)pid, .time = time
	};
	struct event_identity *identity = &event.identity;
	const char *parent = status_field(status, "PPid");
	char path[64];
	int err;

	identity->uid = identity->gid = identity->euid = identity->egid = UINT32_MAX;
	identity->ppid = parent ? (uint32_t)strtoul(parent, NULL, 10) : 0;
	ids_parse(status_field(status, "Uid"), &identity->uid, &identity->euid);
	ids_parse(status_field(status, "Gid"), &identity->gid, &identity->egid);
	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	if (file_read(path, &groups) == 0 && groups.length)
		identity->cgroup_path = cgroup_choose(groups.text);
	err = fn(ctx, &event);
	strbuf_deinit(&groups);
	return err;
}

int procfs_identity(pid_t pid, uint64_t time, event_fn fn, void *ctx)
{
	struct strbuf status = {};
	int err = status_read(pid, &status);

	if (err == -ESRCH)
		err_set(err, "process %d does not exist", (int)pid);
	else if (err)
		err_set(err, "/proc/%d/status: %s", (int)pid, strerror(-err));
	else
		err = identity_tell(pid, time, status.text, fn, ctx);
	strbuf_deinit(&status);
	return err;
}

/* In place. The kernel escapes nothing but the newline. */
static void path_unescape(char *path)
{
	char *to = path;

	for (const char *from = path; *from; to++) {
		bool newline = strncmp(from, "\\012", 4) == 0;

		*to = newline ? '\n' : *from;
		from += newline ? 4 : 1;
	}
	*to = '\0';
}

/* "start-end perms offset major:minor inode      path"; false: not a mapping. */
static bool mapping_parse(char *line, struct event_mmap *ret, bool *ret_executable)
{
	unsigned long start, end, offset, inode;
	unsigned int major, minor;
	int path = 0;
	char perms[8];

	if (sscanf(line, "%lx-%lx %7s %lx %x:%x %lu %n", &start, &end, perms, &offset, &major,
		   &minor, &inode, &path) < 7)
		return false;
	if (strlen(perms) < 4 || start >= end)
		return false;
	path_unescape(line + path);
	*ret_executable = perms[2] == 'x';
	*ret = (struct event_mmap){
		.start = start,
		.end = end,
		.offset = offset,
		.inode = inode,
		.major = major,
		.minor = minor,
		.path = line + path,
	};
	return true;
}

static void exe_read(pid_t pid, char *ret, size_t size)
{
	char path[64];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	length = readlink(path, ret, size - 1);
	ret[length > 0 ? length : 0] = '\0';
}

/* A process whose first thread has ended shows its mappings only through the others. */
static int maps_read(pid_t pid, struct strbuf *ret)
{
	AUTO(free_ptr) pid_t *tids = NULL;
	size_t count = 0;
	char path[64];
	int err;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	err = file_read(path, ret);
	if ((!err && ret->length) || procfs_threads(pid, &tids, &count))
		return err;
	for (size_t i = 0; i < count && !ret->length; i++) {
		snprintf(path, sizeof(path), "/proc/%d/task/%d/maps", (int)pid, (int)tids[i]);
		err = file_read(path, ret);
	}
	return err;
}

int procfs_areas(pid_t pid, procfs_area_fn fn, void *ctx)
{
	struct strbuf maps = {};
	struct event_mmap area;
	char *save = NULL;
	bool executable;
	int err = maps_read(pid, &maps);

	for (char *line = maps.length ? strtok_r(maps.text, "\n", &save) : NULL; line && !err;
	     line = strtok_r(NULL, "\n", &save))
		if (mapping_parse(line, &area, &executable))
			fn(ctx, &area, executable);
	strbuf_deinit(&maps);
	return err == -ENOENT || err == -ESRCH ? 0 : err;
}

int procfs_mappings(pid_t pid, uint64_t time, event_fn fn, void *ctx)
{
	struct strbuf maps = {};
	struct event event = {
		.kind = EVENT_MMAP, .pid = (uint32_t)pid, .tid = (uint32_t)pid, .time = time
	};
	ARRAY(struct event_mmap) found = {};
	char path[PATH_MAX], *save = NULL;
	int err = 0;

	maps_read(pid, &maps); /* not ours to read, or gone: no mappings */
	for (char *line = maps.length ? strtok_r(maps.text, "\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\n", &save)) {
		struct event_mmap mmap;
		bool executable;

		if (!mapping_parse(line, &mmap, &executable) || !executable)
			continue;
		if (!mmap.path[0])
			mmap.path = "//anon";
		*array_push(&found) = mmap;
	}
	exe_read(pid, path, sizeof(path));
	for (int executable = 1; executable >= 0; executable--)
		array_each(&found, mmap) {
			if (err || (strcmp(mmap->path, path) == 0) != executable)
				continue;
			event.mmap = *mmap;
			err = fn(ctx, &event);
		}
	array_deinit(&found);
	strbuf_deinit(&maps);
	return err;
}

bool procfs_comm(pid_t pid, pid_t tid, char ret[PROCFS_COMM_MAX])
{
	struct strbuf text = {};
	char path[64];
	bool found;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)pid, (int)tid);
	found = file_read(path, &text) == 0 && text.length;
	if (found) {
		text.text[strcspn(text.text, "\n")] = '\0';
		snprintf(ret, PROCFS_COMM_MAX, "%.*s", PROCFS_COMM_MAX - 1, text.text);
	}
	strbuf_deinit(&text);
	return found;
}

static int threads_tell(pid_t pid, uint64_t time, event_fn fn, void *ctx)
{
	AUTO(free_ptr) pid_t *tids = NULL;
	size_t count = 0;
	int err = 0;

	if (procfs_threads(pid, &tids, &count))
		return 0;
	for (size_t i = 0; !err && i < count; i++) {
		struct event event = { .kind = EVENT_FORK,
				       .pid = (uint32_t)pid,
				       .tid = (uint32_t)tids[i],
				       .time = time };
		char comm[PROCFS_COMM_MAX];

		if (tids[i] == pid || !procfs_comm(pid, tids[i], comm))
			continue;
		event.fork.ppid = event.fork.ptid = (uint32_t)pid;
		err = fn(ctx, &event);
		event.kind = EVENT_COMM;
		event.comm = comm;
		if (!err)
			err = fn(ctx, &event);
	}
	return err;
}

static int leader_tell(pid_t pid, uint64_t time, const char *status, event_fn fn, void *ctx)
{
	struct event event = {
		.kind = EVENT_FORK, .pid = (uint32_t)pid, .tid = (uint32_t)pid, .time = time
	};
	const char *parent = status_field(status, "PPid");
	char comm[PROCFS_COMM_MAX] = "";
	int err;

	event.fork.ppid = event.fork.ptid = parent ? (uint32_t)strtoul(parent, NULL, 10) : 0;
	err = fn(ctx, &event);
	procfs_comm(pid, pid, comm);
	event.kind = EVENT_EXEC;
	event.comm = comm;
	if (!err)
		err = fn(ctx, &event);
	event.kind = EVENT_COMM;
	return err ? err : fn(ctx, &event);
}

int procfs_process(pid_t pid, uint64_t time, event_fn fn, void *ctx)
{
	struct strbuf status = {};
	int err = status_read(pid, &status);

	if (err == -ESRCH)
		err_set(err, "process %d does not exist", (int)pid);
	else if (err)
		err_set(err, "/proc/%d/status: %s", (int)pid, strerror(-err));
	if (!err)
		err = leader_tell(pid, time, status.text, fn, ctx);
	if (!err)
		err = identity_tell(pid, time, status.text, fn, ctx);
	if (!err)
		err = procfs_mappings(pid, time, fn, ctx);
	if (!err)
		err = threads_tell(pid, time, fn, ctx);
	strbuf_deinit(&status);
	return err;
}

int procfs_all(uint64_t time, event_fn fn, void *ctx)
{
	AUTO(free_ptr) pid_t *pids = NULL;
	size_t count = 0;
	int err = numbers_read("/proc", &pids, &count);

	if (err)
		return err_set(err, "/proc: %s; is it mounted?", strerror(-err));
	for (size_t i = 0; i < count; i++) {
		err = procfs_process(pids[i], time, fn, ctx);
		if (err && err != -ESRCH && err != -EACCES)
			return err;
	}
	return 0;
}

/*
 * Directories of the unified hierarchy by inode number, which is the id. The tree is read again
 * when an unknown id is asked for, but not more than once a second: ids of other hierarchies never
 * turn up.
 */
static struct {
	struct map paths; /* id to place in strings */
	struct strtab strings;
	uint64_t read_at; /* CLOCK_MONOTONIC; 0: never */
} cgroups;

static bool cgroup_mount(char ret[PATH_MAX])
{
	AUTO(close_file) FILE *mounts = fopen("/proc/self/mounts", "re");
	char line[PATH_MAX + 256], type[64];

	while (mounts && fgets(line, sizeof(line), mounts))
		if (sscanf(line, "%*s %4095s %63s", ret, type) == 2 && strcmp(type, "cgroup2") == 0)
			return true;
	return false;
}

static void cgroup_add(uint64_t id, const char *path)
{
	*map_at(&cgroups.paths, id, NULL) = strtab_add(&cgroups.strings, path[0] ? path : "/");
}

/*
 * dir is closed; path is the directory's, relative to the mount, and is put back before returning.
 */
static void cgroup_walk(int dir, struct strbuf *path, int depth)
{
	AUTO(close_dir) DIR *stream = fdopendir(dir);
	struct dirent *entry;
	struct stat info;

	if (!stream) {
		close(dir);
		return;
	}
	if (fstat(dir, &info) == 0)
		cgroup_add(info.st_ino, strbuf_text(path));
	while (depth < CGROUP_DEPTH_MAX && (entry = readdir(stream))) {
		size_t length = path->length;
		int child;

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		child = openat(dir, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (child < 0)
			continue;
		strbuf_printf(path, "/%s", entry->d_name);
		cgroup_walk(child, path, depth + 1);
		path->length = length;
		path->text[length] = '\0';
	}
}

static void cgroups_read(void)
{
	struct strbuf path = {};
	char mount[PATH_MAX];
	int dir;

	cgroups.read_at = clock_monotonic();
	if (!cgroup_mount(mount))
		return;
	dir = open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0)
		cgroup_walk(dir, &path, 0);
	strbuf_deinit(&path);
}

const char *procfs_cgroup_path(uint64_t id)
{
	uint64_t *found = map_find(&cgroups.paths, id);

	if (!found && (!cgroups.read_at || clock_monotonic() - cgroups.read_at > NS_PER_S)) {
		cgroups_read();
		found = map_find(&cgroups.paths, id);
	}
	return found ? strtab_get(&cgroups.strings, (uint32_t)*found) : NULL;
}

/* By all four of its numbers: real, effective, saved, of files. */
static bool has_only_user(pid_t pid, uid_t uid)
{
	char path[48], line[256];
	unsigned users[4];
	bool only = false;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	status = fopen(path, "re");
	if (!status)
		return false;
	while (!only && fgets(line, sizeof(line), status)) {
		if (sscanf(line, "Uid: %u %u %u %u", &users[0], &users[1], &users[2], &users[3]) !=
		    4)
			continue;
		only = users[0] == uid && users[1] == uid && users[2] == uid && users[3] == uid;
		break;
	}
	fclose(status);
	return only;
}

/*
 * The kernel gives root the files of a process that its user may not look into. Its folder and what
 * everybody may enter there stay the user's.
 */
uid_t procfs_owner(pid_t pid)
{
	char path[32];
	struct stat info;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	return stat(path, &info) ? (uid_t)-1 : info.st_uid;
}

bool procfs_is_own(pid_t pid)
{
	return procfs_owner(pid) == getuid() && has_only_user(pid, getuid());
}
