// SPDX-License-Identifier: BSD-2-Clause
/*
 * The program that unwind_live_test.c steps through. Each scene is between two breakpoints; each leaves
 * stacks of another shape. Built with optimisation, without frame pointers, with lazy binding.
 */
#include <alloca.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <stdexcept>
#include <string>

#define APART __attribute__((noinline, noclone))

static volatile unsigned long sink;

static inline void mark(void)
{
	asm volatile("int3" ::: "memory");
}

static int compare(const void *a, const void *b)
{
	int left = *static_cast<const int *>(a), right = *static_cast<const int *>(b);

	sink = sink + 1;
	return (left > right) - (left < right);
}

APART static unsigned long recurse(int depth, unsigned long seed)
{
	int numbers[8];
	unsigned long result = seed;

	for (int i = 0; i < 8; i++)
		numbers[i] =
			(int)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33);
	if (depth == 0)
		qsort(numbers, 8, sizeof(numbers[0]), compare);
	else
		result += recurse(depth - 1, seed) ^ (unsigned long)depth;
	return result + (unsigned long)numbers[depth & 7];
}

/* A frame of a size known only at run time. */
APART static unsigned long varying(int size)
{
	char *room = static_cast<char *>(alloca((size_t)size));

	memset(room, size, (size_t)size);
	sink = sink + (unsigned long)room[size / 2];
	return size > 16 ? varying(size - 24) + (unsigned long)room[1] : recurse(2, 7);
}

/* A frame aligned beyond what the ABI gives, with arguments on the stack: its cfa has to be stored. */
APART static double aligned(int a, int b, int c, int d, int e, int f, int g, double h, int depth)
{
	alignas(64) volatile double lanes[8] = { h, 1, 2, 3, 4, 5, 6, 7 };
	volatile char *room = static_cast<volatile char *>(alloca((size_t)(a & 31) + 16));

	room[a & 7] = (char)g;
	if (depth)
		return aligned(b, c, d, e, f, g, a, lanes[a & 7], depth - 1) + room[a & 7];
	return lanes[g & 7] + (double)recurse(1, (unsigned long)a);
}

static void handler(int number)
{
	sink = sink + recurse(3, (unsigned long)number);
}

APART static void interrupt(int depth)
{
	if (depth)
		interrupt(depth - 1);
	else
		raise(SIGUSR1);
	sink = sink + 1;
}

struct guard {
	unsigned long value;

	~guard()
	{
		sink = sink + value;
	}
};

APART static void fall(int depth)
{
	guard here = { (unsigned long)depth };

	if (depth == 0)
		throw std::runtime_error("the bottom " + std::to_string(sink));
	fall(depth - 1);
}

APART static void catcher(void)
{
	try {
		fall(4);
	} catch (const std::exception &error) {
		sink = sink + strlen(error.what());
	}
}

APART static void library(void)
{
	static char big[20000], copy[20000];
	char text[200];
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(text, sizeof(text), "%.12g %s %ld", sin((double)now.tv_nsec), "text", now.tv_sec);
	memcpy(copy, big, sizeof(big));
	sink = sink + strlen(text) + strtoul(text, nullptr, 16) + (unsigned long)copy[77];
	free(malloc(300000));
}

static void *thread(void *argument)
{
	mark();
	sink = sink + recurse(5, 3);
	library();
	mark();
	return argument;
}

int main(void)
{
	pthread_t other;

	signal(SIGUSR1, handler);
	mark();
	sink = sink + recurse(12, 42);
	sink = sink + varying(120);
	sink = sink + (unsigned long)aligned(1, 2, 3, 4, 5, 6, 7, 8, 4);
	mark();
	mark();
	interrupt(3);
	mark();
	mark();
	catcher();
	mark();
	mark();
	library();
	mark();
	if (pthread_create(&other, nullptr, thread, nullptr) == 0)
		pthread_join(other, nullptr);
	return 0;
}
