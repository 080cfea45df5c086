// SPDX-License-Identifier: BSD-2-Clause
/*
 * CPU time of a known shape, until killed or for a number of seconds of CPU time per process.
 *
 *	load spin COUNT [SECONDS]	COUNT processes that each use a whole core
 *	load swarm COUNT [SECONDS]	COUNT processes that wake every 20 ms and together use
 *					about one core
 *	load paths COUNT [SECONDS]	two processes, each walking COUNT distinct call paths in
 *					a shuffled order, each for about 50 microseconds
 *
 * Of a path's number each bit, from the lowest, says which of two functions is called next, so that
 * two paths have different return addresses from the first differing bit on.
 */
#include <err.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	CORES = 2,
	COUNT_MAX = 1 << 20,
	BURST = 50000, /* ns */
	SWARM_PERIOD = 20000000, /* ns */
};

static volatile uint64_t sink;

static uint64_t now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

__attribute__((noinline)) static void spin(uint64_t duration)
{
	uint64_t end = now(CLOCK_MONOTONIC) + duration;

	while (now(CLOCK_MONOTONIC) < end)
		for (int i = 0; i < 100; i++)
			sink += (uint64_t)i;
}

static void left(uint64_t path, uint64_t rest);

/* The write after each call keeps it from becoming a jump. */
__attribute__((noinline)) static void right(uint64_t path, uint64_t rest)
{
	if (rest == 0)
		spin(BURST);
	else if (path & 1)
		right(path >> 1, rest >> 1);
	else
		left(path >> 1, rest >> 1);
	sink += 1;
}

__attribute__((noinline)) static void left(uint64_t path, uint64_t rest)
{
	if (rest == 0)
		spin(BURST);
	else if (path & 1)
		right(path >> 1, rest >> 1);
	else
		left(path >> 1, rest >> 1);
	sink += 2;
}

static void load_spin(uint64_t count)
{
	(void)count;
	spin(10000000);
}

static void load_swarm(uint64_t count)
{
	struct timespec pause = { .tv_nsec = SWARM_PERIOD };

	spin(SWARM_PERIOD / count);
	nanosleep(&pause, NULL);
}

/* An odd step visits every number below a power of two; those that are no path are passed over. */
static void load_paths(uint64_t count)
{
	static uint64_t at;
	uint64_t mask = 1;

	while (mask < count)
		mask = mask * 2;
	do
		at = (at + 0x9e3779b1) & (mask - 1);
	while (at >= count);
	left(at, mask - 1);
}

static const struct {
	const char *name;
	void (*run)(uint64_t count);
} loads[] = { { "spin", load_spin }, { "swarm", load_swarm }, { "paths", load_paths } };

static uint64_t number(const char *text, uint64_t max)
{
	char *end;
	uint64_t value = strtoul(text, &end, 10);

	if (*end || value == 0 || value > max)
		errx(2, "%s is not a number from 1 to %lu", text, max);
	return value;
}

static void child_run(void (*run)(uint64_t count), uint64_t count, uint64_t cpu_time)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (now(CLOCK_PROCESS_CPUTIME_ID) < cpu_time)
		run(count);
	_exit(0);
}

int main(int argc, char **argv)
{
	void (*run)(uint64_t count) = NULL;

	for (size_t i = 0; argc > 1 && i < sizeof(loads) / sizeof(loads[0]); i++)
		if (strcmp(argv[1], loads[i].name) == 0)
			run = loads[i].run;
	if (!run || argc < 3 || argc > 4)
		errx(2, "usage: load spin|swarm|paths COUNT [SECONDS]");

	uint64_t count = number(argv[2], COUNT_MAX);
	uint64_t cpu_time = argc > 3 ? number(argv[3], 1000000) * 1000000000 : UINT64_MAX;
	uint64_t processes = run == load_paths ? CORES : count;

	for (uint64_t i = 0; i < processes; i++) {
		pid_t pid = fork();

		if (pid < 0)
			err(1, "fork");
		if (pid == 0)
			child_run(run, count, cpu_time);
	}
	while (wait(NULL) > 0)
		;
	return 0;
}
