// SPDX-License-Identifier: BSD-2-Clause
#include "recorder/processes.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

#define CGROUP_MOUNT "/sys/fs/cgroup"

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

void processes_deinit(struct processes *processes)
{
	array_deinit(&processes->entries);
}

/* The name may hold anything, ") " too: its end is the last one. */
static bool entry_read(pid_t pid, struct process_entry *ret)
{
	char path[64], text[1024];
	AUTO(close_file) FILE *file = NULL;
	unsigned long long user, system;
	char *begin, *end;
	size_t got;
	int parent;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	got = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	text[got] = '\0';
	begin = strchr(text, '(');
	end = strrchr(text, ')');
	if (!begin || !end || end < begin)
		return false;
	if (sscanf(end + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &parent, &user,
		   &system) != 3)
		return false;
	*ret = (struct process_entry){ .pid = pid, .parent = parent, .ticks = user + system };
	snprintf(ret->comm, sizeof(ret->comm), "%.*s", (int)(end - begin - 1), begin + 1);
	return true;
}

static int by_pid(const void *a, const void *b)
{
	const struct process_entry *left = a, *right = b;

	return (left->pid > right->pid) - (left->pid < right->pid);
}

int processes_read(struct processes *processes)
{
	AUTO(close_dir) DIR *dir = opendir("/proc");
	const struct dirent *entry;
	struct process_entry found;

	if (!dir)
		return err_set(-errno, "cannot list the processes: %s", strerror(errno));
	while ((entry = readdir(dir))) {
		char *end;
		pid_t pid = (pid_t)strtoul(entry->d_name, &end, 10);

		if (!*end && pid > 0 && pid != getpid() && entry_read(pid, &found))
			*array_push(&processes->entries) = found;
	}
	if (processes->entries.count)
		qsort(processes->entries.items, processes->entries.count, sizeof(found), by_pid);
	return 0;
}

ssize_t processes_find(const struct processes *processes, pid_t pid)
{
	size_t low = 0, high = processes->entries.count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (processes->entries.items[middle].pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return low < processes->entries.count && processes->entries.items[low].pid == pid
		       ? (ssize_t)low
		       : -1;
}

/* --- Choosing --------------------------------------------------------------------------------- */

bool processes_choose_pid(struct processes *processes, pid_t pid)
{
	ssize_t at = processes_find(processes, pid);

	if (at >= 0)
		processes->entries.items[at].chosen = true;
	return at >= 0;
}

/* The kernel keeps 15 bytes of a name: the program's file has all of it. */
static bool comm_matches(const struct process_entry *entry, const char *pattern)
{
	char path[64], target[4096];
	const char *name;
	ssize_t length;

	if (!fnmatch(pattern, entry->comm, 0))
		return true;
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)entry->pid);
	length = readlink(path, target, sizeof(target) - 1);
	if (length <= 0)
		return false;
	target[length] = '\0';
	name = strrchr(target, '/');
	return !fnmatch(pattern, name ? name + 1 : target, 0);
}

size_t processes_choose_comm(struct processes *processes, const char *pattern)
{
	size_t count = 0;

	array_each(&processes->entries, entry) {
		if (!comm_matches(entry, pattern))
			continue;
		entry->chosen = true;
		count++;
	}
	return count;
}

/* Each line is "number:controllers:path". The function says whether a path is meant. */
static size_t choose_by_path(struct processes *processes,
			     bool (*meant)(const char *path, const char *wanted),
			     const char *wanted)
{
	size_t count = 0;

	array_each(&processes->entries, entry) {
		char path[64], line[4096];
		AUTO(close_file) FILE *file = NULL;
		bool found = false;

		snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)entry->pid);
		file = fopen(path, "re");
		while (file && fgets(line, sizeof(line), file)) {
			char *at = strchr(line, ':');

			at = at ? strchr(at + 1, ':') : NULL;
			line[strcspn(line, "\n")] = '\0';
			found = found || (at && meant(at + 1, wanted));
		}
		entry->chosen = entry->chosen || found;
		count += found;
	}
	return count;
}

static bool path_is_below(const char *path, const char *wanted)
{
	size_t length = strlen(wanted);

	while (length && wanted[length - 1] == '/')
		length--;
	return !strncmp(path, wanted, length) && (!path[length] || path[length] == '/');
}

size_t processes_choose_cgroup(struct processes *processes, const char *path)
{
	if (!strncmp(path, CGROUP_MOUNT "/", sizeof(CGROUP_MOUNT)))
		path += sizeof(CGROUP_MOUNT) - 1;
	return choose_by_path(processes, path_is_below, path);
}

/*
 * Engines name the group of a container by its id: "/docker/ID", "docker-ID.scope",
 * "cri-containerd-ID.scope".
 */
static bool path_names(const char *path, const char *id)
{
	for (const char *at = path; (at = strstr(at, id)); at++)
		if (at > path && (at[-1] == '/' || at[-1] == '-'))
			return true;
	return false;
}

size_t processes_choose_container(struct processes *processes, const char *id)
{
	return choose_by_path(processes, path_names, id);
}

void processes_choose_children(struct processes *processes)
{
	bool more = true;

	while (more) {
		more = false;
		array_each(&processes->entries, entry) {
			ssize_t parent = processes_find(processes, entry->parent);

			if (entry->chosen || parent < 0 || !processes->entries.items[parent].chosen)
				continue;
			entry->chosen = more = true;
		}
	}
}
