// SPDX-License-Identifier: BSD-2-Clause
/*
 * visits N [cpu [stamps]]: calls a function that does next to nothing N times, and prints how long
 * one call took: by its own clock, so that neither its start nor the writing of a profile counts;
 * with cpu, what it used of a processor. With stamps, the time stamp counter is read before and
 * after each call, as whoever times it has to.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile long word;
static volatile unsigned long long stamp;

__attribute__((noinline)) void visited(void)
{
	word++;
}

static clockid_t clock_id = CLOCK_MONOTONIC;

static double now(void)
{
	struct timespec time;

	clock_gettime(clock_id, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(int argc, char **argv)
{
	long count = argc > 1 ? strtol(argv[1], NULL, 10) : 1000000;
	int stamps = argc > 3;
	double begin;

	if (argc > 2)
		clock_id = CLOCK_PROCESS_CPUTIME_ID;
	for (long i = 0; i < 1000; i++)
		visited();
	begin = now();
	for (long i = 0; i < count; i++) {
		if (stamps)
			stamp = __builtin_ia32_rdtsc();
		visited();
		if (stamps)
			stamp = __builtin_ia32_rdtsc();
	}
	printf("%.3f\n", (now() - begin) / (double)count);
	return 0;
}
