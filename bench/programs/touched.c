// SPDX-License-Identifier: BSD-2-Clause
/*
 * touched N [cpu]: reads an array N times, in a loop without other accesses to memory, and prints
 * how long one took: by its own clock; with cpu, what it used of a processor. Another array is
 * there to be marked, and is not touched.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WORDS = 1024, UNROLLED = 8 };

volatile long touched[WORDS];
volatile long untouched[WORDS];

static clockid_t clock_id = CLOCK_MONOTONIC;

static double now(void)
{
	struct timespec time;

	clock_gettime(clock_id, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

__attribute__((noinline)) static void touch(long count)
{
	for (long i = 0; i < count; i += UNROLLED) {
		volatile long *at = &touched[i % WORDS];

		(void)at[0];
		(void)at[1];
		(void)at[2];
		(void)at[3];
		(void)at[4];
		(void)at[5];
		(void)at[6];
		(void)at[7];
	}
}

int main(int argc, char **argv)
{
	long count = argc > 1 ? strtol(argv[1], NULL, 10) : 1000000;
	double begin;

	if (argc > 2)
		clock_id = CLOCK_PROCESS_CPUTIME_ID;
	touch(WORDS);
	begin = now();
	touch(count);
	printf("%.3f\n", (now() - begin) / (double)count);
	return untouched[0] != 0;
}
