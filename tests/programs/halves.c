// SPDX-License-Identifier: BSD-2-Clause
/*
 * One function for some seconds, or until SIGUSR1, then another for as long: what was sampled when
 * is known.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile uint64_t sink;
static volatile sig_atomic_t turned;

static void turn(int number)
{
	turned = 1;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static __attribute__((noinline)) void spin(uint64_t seed)
{
	for (int i = 0; i < 200000; i++)
		seed = seed * 6364136223846793005u + 1442695040888963407u;
	sink = seed;
}

static __attribute__((noinline)) void early(double end)
{
	while (now() < end && !turned)
		spin(1);
}

static __attribute__((noinline)) void late(double end)
{
	while (now() < end)
		spin(2);
}

int main(int argc, char **argv)
{
	double half = argc > 1 ? strtod(argv[1], NULL) : 2;

	signal(SIGUSR1, turn);
	early(now() + half);
	late(now() + half);
	printf("%d\n", (int)(sink & 1));
	return 0;
}
