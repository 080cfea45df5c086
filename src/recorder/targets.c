// SPDX-License-Identifier: BSD-2-Clause
/* Finds the processes, threads and CPUs that were asked for, in /proc and /sys. */
#include "recorder/targets.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "image/procfs.h"

void targets_deinit(struct targets *targets)
{
	array_deinit(&targets->pids);
	array_deinit(&targets->tids);
	array_deinit(&targets->cpus);
}

/* The file is a list such as "0-3,8". */
static int cpus_online(struct targets *targets)
{
	AUTO(close_file) FILE *file = fopen("/sys/devices/system/cpu/online", "re");
	int first, last;

	if (!file)
		return err_set(-errno, "cannot list the CPUs: %s", strerror(errno));
	while (fscanf(file, "%d", &first) == 1) {
		last = first;
		if (fscanf(file, "-%d", &last) < 0 && ferror(file))
			break;
		for (int cpu = first; cpu <= last; cpu++)
			*array_push(&targets->cpus) = cpu;
		if (fgetc(file) != ',')
			break;
	}
	return targets->cpus.count ? 0 : err_set(-EIO, "cannot list the CPUs");
}

int targets_cpus_set(struct targets *targets, const int *cpus, size_t count)
{
	for (size_t i = 0; i < count; i++)
		*array_push(&targets->cpus) = cpus[i];
	return count ? 0 : cpus_online(targets);
}

bool targets_is_foreign(pid_t pid)
{
	uid_t owner = geteuid() == 0 ? 0 : procfs_owner(pid);

	return owner != (uid_t)-1 && owner != geteuid();
}

int targets_process_add(struct targets *targets, pid_t pid, bool own_only)
{
	AUTO(free_ptr) pid_t *tids = NULL;
	size_t count;
	int err = procfs_threads(pid, &tids, &count);

	if (err)
		return err_set(err, "process %d: %s", (int)pid, strerror(-err));
	if (own_only && targets_is_foreign(pid))
		return err_set(
			-EPERM,
			"process %d belongs to another user, or its own may not look into it; run "
			"as root "
			"to sample it, or let the administrator put 'other-users = yes' into "
			"/etc/assay.conf",
			(int)pid);
	*array_push(&targets->pids) = pid;
	for (size_t i = 0; i < count; i++)
		*array_push(&targets->tids) = tids[i];
	return 0;
}

void targets_command_set(struct targets *targets, pid_t pid)
{
	targets->command = pid;
	*array_push(&targets->tids) = pid;
}

bool targets_thread_add(struct targets *targets, pid_t tid)
{
	array_each(&targets->tids, known)
		if (*known == tid)
			return false;
	*array_push(&targets->tids) = tid;
	return true;
}
