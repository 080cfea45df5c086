// SPDX-License-Identifier: BSD-2-Clause
/*
 * Calls leaf() from two functions in turn, so many rounds: from quick() it returns at once, from
 * slow() it sleeps for 2 ms.
 */
#include <stdlib.h>
#include <time.h>

static volatile long sum;

__attribute__((noinline)) void leaf(long ns)
{
	const struct timespec pause = { .tv_nsec = ns };

	if (ns)
		nanosleep(&pause, NULL);
	sum += ns;
}

__attribute__((noinline)) void quick(void)
{
	leaf(0);
	sum++;
}

__attribute__((noinline)) void slow(void)
{
	leaf(2000000);
	sum++;
}

int main(int argc, char **argv)
{
	for (long n = argc > 1 ? strtol(argv[1], NULL, 10) : 0; n > 0; n--) {
		quick();
		slow();
	}
	return 0;
}
