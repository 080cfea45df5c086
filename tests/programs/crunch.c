// SPDX-License-Identifier: BSD-2-Clause
/*
 * Computes the same checksum over and over for so many seconds of CPU time, or until SIGUSR1, and
 * prints it and how often it was another.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "burn.h"

__attribute__((noinline, noclone)) static uint64_t mix(uint64_t value, int steps)
{
	for (int i = 0; i < steps; i++)
		value = (value ^ (value >> 29)) * 0xbf58476d1ce4e5b9u + (uint64_t)i;
	return value;
}

__attribute__((noinline, noclone)) static uint64_t checksum(void)
{
	uint64_t value = 88172645463325252u +
			 sink; /* read anew each time, so that it is computed each time */

	for (int i = 1; i < 200; i++)
		value ^= mix(value, i * 8);
	return value;
}

static volatile sig_atomic_t enough;

static void handler(int number)
{
	enough = 1;
}

int main(int argc, char **argv)
{
	uint64_t first = checksum();
	int wrong = 0;

	signal(SIGUSR1, handler);
	while (!enough && burnt() < atof(argv[1]))
		wrong += checksum() != first;
	printf("%016llx %d\n", (unsigned long long)first, wrong);
	return wrong ? 1 : 42;
}
