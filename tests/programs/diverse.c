// SPDX-License-Identifier: BSD-2-Clause
/*
 * Has as many different stacks as it can: a random walk through four functions that call each
 * other, 200 calls deep, in two threads. Prints how many nanoseconds the kernel says both have run.
 * diverse SECONDS
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "burn.h"

static double seconds;
static uint64_t walk(uint64_t seed, int depth);

#define STEP(name, factor)                                                                         \
	__attribute__((noinline, noclone)) static uint64_t name(uint64_t seed, int depth)          \
	{                                                                                          \
		for (int i = 0; i < 50; i++)                                                       \
			sink = sink + seed;                                                        \
		return walk(seed * (factor) + 1442695040888963407u, depth - 1) + (factor);         \
	}
STEP(north, 6364136223846793005u)
STEP(east, 3935559000370003845u)
STEP(south, 2862933555777941757u)
STEP(west, 3202034522624059733u)

static uint64_t walk(uint64_t seed, int depth)
{
	static uint64_t (*const steps[])(uint64_t, int) = { north, east, south, west };

	return depth > 0 ? steps[seed >> 62](seed, depth) ^ seed : seed;
}

static void *work(void *ret)
{
	char text[128] = "";
	int file = open("/proc/thread-self/schedstat", O_RDONLY);

	for (uint64_t seed = (uint64_t)file; seed % 64 || burnt() < seconds; seed++)
		sink = sink + walk(seed * 0x9e3779b97f4a7c15u, 200);
	if (file < 0 || read(file, text, sizeof(text) - 1) <= 0)
		exit(1);
	*(unsigned long long *)ret = strtoull(text, NULL, 10);
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned long long of_thread, of_main;
	pthread_t thread;

	seconds = atof(argv[1]);
	pthread_create(&thread, NULL, work, &of_thread);
	work(&of_main);
	pthread_join(thread, NULL);
	printf("%llu\n", of_thread + of_main);
	return 0;
}
