// SPDX-License-Identifier: BSD-2-Clause
/*
 * Runs a command and writes how long it took, from inside a recording, so that what a recorder does
 * before and after the command does not count.
 *
 *	timer FILE COMMAND [ARGUMENT...]
 *
 * FILE gets "wall user system clock status", times in nanoseconds: elapsed time from before the
 * fork to the end of the command, CPU time of the command and its waited-for children as
 * getrusage() has it, the kernel's cpu-clock over all of them and all their threads (0 where it
 * cannot be counted, or without TIMER_CLOCK in the environment), and the command's exit status.
 */
#include <err.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t nanoseconds(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_usec * 1000;
}

/* Counts this process, which only waits, and what it starts. */
static int clock_open(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.inherit = 1,
	};

	if (!getenv("TIMER_CLOCK"))
		return -1;
	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static uint64_t clock_read(int fd)
{
	uint64_t value;

	return fd >= 0 && read(fd, &value, sizeof(value)) == sizeof(value) ? value : 0;
}

int main(int argc, char **argv)
{
	struct rusage usage;
	FILE *file;
	pid_t pid;
	int status;

	if (argc < 3)
		errx(2, "usage: timer FILE COMMAND [ARGUMENT...]");
	file = fopen(argv[1], "we");
	if (!file)
		err(125, "%s", argv[1]);

	int fd = clock_open();
	uint64_t start = now();

	if (posix_spawnp(&pid, argv[2], NULL, NULL, argv + 2, environ))
		errx(127, "cannot start %s", argv[2]);
	if (waitpid(pid, &status, 0) < 0)
		err(125, "waitpid");

	uint64_t wall = now() - start;

	getrusage(RUSAGE_CHILDREN, &usage);
	status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	fprintf(file, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %d\n", wall,
		nanoseconds(usage.ru_utime), nanoseconds(usage.ru_stime), clock_read(fd), status);
	if (fclose(file))
		err(125, "%s", argv[1]);
	return status;
}
