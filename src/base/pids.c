// SPDX-License-Identifier: BSD-2-Clause
/*
 * The pids that a process in a pid namespace of its own (in a container or a sandbox) knows itself
 * by mean other processes, or none, in ours. The field NSpid of /proc/PID/status holds both
 * numbers: first that of our namespace, last that of the innermost one.
 */
#include "base/pids.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"

DEFINE_AUTO(DIR, closedir)

/*
 * The number in the innermost namespace, and how many namespaces there are. 0: the process is gone.
 */
static pid_t innermost(const char *path, int *ret_count)
{
	AUTO(close_file) FILE *file = fopen(path, "re");
	char line[512], *save = NULL;
	pid_t last = 0;

	*ret_count = 0;
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "NSpid:", 6) != 0)
			continue;
		for (char *word = strtok_r(line + 6, " \t\n", &save); word;
		     word = strtok_r(NULL, " \t\n", &save)) {
			last = (pid_t)strtol(word, NULL, 10);
			++*ret_count;
		}
		break;
	}
	return last;
}

static pid_t of_process(pid_t pid, int *ret_count)
{
	AUTO(free_ptr) char *path = mem_printf("/proc/%d/status", (int)pid);

	return innermost(path, ret_count);
}

bool pids_differ(pid_t pid)
{
	int count;

	return of_process(pid, &count) && count > 1;
}

pid_t pids_inner(pid_t pid)
{
	int count;

	return of_process(pid, &count);
}

/* Of the kernel's include/linux/sched.h: set before a thread gives back its memory. */
enum { TASK_EXITING = 0x4 };

/* A line of stat: pid, (name), state, five numbers, flags. */
static bool stat_is_ending(const char *path)
{
	AUTO(close_file) FILE *file = fopen(path, "re");
	char line[512], *end, state;
	unsigned int flags;

	if (!file || !fgets(line, sizeof(line), file))
		return true;
	end = strrchr(line, ')');
	if (!end || sscanf(end + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) != 2)
		return true;
	return state == 'Z' || state == 'X' || flags & TASK_EXITING;
}

/* SIGKILL is pending from kill() until the thread runs next, which may be much later. */
static bool status_is_killed(const char *path)
{
	AUTO(close_file) FILE *file = fopen(path, "re");
	uint64_t own = 0, shared = 0;
	char line[512];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "SigPnd: %" SCNx64, &own) != 1 &&
		    sscanf(line, "ShdPnd: %" SCNx64, &shared) == 1)
			break;
	return (own | shared) >> (SIGKILL - 1) & 1;
}

/* Pending first: the flag is set after the signal was taken. */
bool pids_is_ending(pid_t pid, pid_t tid)
{
	AUTO(free_ptr) char *status = mem_printf("/proc/%d/task/%d/status", (int)pid, (int)tid);
	AUTO(free_ptr) char *stat = mem_printf("/proc/%d/task/%d/stat", (int)pid, (int)tid);

	return status_is_killed(status) || stat_is_ending(stat);
}

/* A line of maps: addresses, protection, offset, device, inode, name. */
static bool maps_memory(pid_t pid, uint64_t inode)
{
	AUTO(free_ptr) char *path = mem_printf("/proc/%d/maps", (int)pid);
	AUTO(close_file) FILE *file = fopen(path, "re");
	char line[8192];

	while (file && fgets(line, sizeof(line), file)) {
		unsigned long long number = 0;

		if (sscanf(line, "%*s %*s %*s %*s %llu", &number) == 1 && number == inode &&
		    strstr(line, "/memfd:assay-own"))
			return true;
	}
	return false;
}

pid_t pids_find(pid_t inner, uint64_t inode, pid_t but)
{
	AUTO(closedir_auto) DIR *directory = opendir("/proc");
	struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		int count;

		if (pid > 0 && pid != but && of_process(pid, &count) == inner && count > 1 &&
		    maps_memory(pid, inode))
			return pid;
	}
	return 0;
}

pid_t pids_thread(pid_t pid, pid_t inner)
{
	AUTO(free_ptr) char *path = mem_printf("/proc/%d/task", (int)pid);
	AUTO(closedir_auto) DIR *directory = opendir(path);
	struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		AUTO(free_ptr) char *status = mem_printf("%s/%s/status", path, entry->d_name);
		int count;

		if (isdigit((unsigned char)*entry->d_name) && innermost(status, &count) == inner)
			return (pid_t)strtol(entry->d_name, NULL, 10);
	}
	return 0;
}
