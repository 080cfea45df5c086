// SPDX-License-Identifier: BSD-2-Clause
/*
 * Two processes on one processor send each other a byte through pipes: two switches a round trip,
 * each with a waker. Prints the nanoseconds of a round trip.
 *
 * usage: pingpong TRIPS
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void stay_here(void)
{
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	sched_setaffinity(0, sizeof(here), &here);
}

__attribute__((noinline)) static void give(int end)
{
	if (write(end, "x", 1) != 1)
		_exit(1);
}

__attribute__((noinline)) static void take(int end)
{
	char byte;

	if (read(end, &byte, 1) != 1)
		_exit(1);
}

int main(int argc, char **argv)
{
	int trips = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0, there[2], back[2];
	struct timespec begin, end;

	if (trips < 1 || pipe(there) || pipe(back))
		return 2;
	stay_here();
	if (!fork()) {
		for (int i = 0; i < trips; i++) {
			take(there[0]);
			give(back[1]);
		}
		_exit(0);
	}
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int i = 0; i < trips; i++) {
		give(there[1]);
		take(back[0]);
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	wait(NULL);
	printf("trip %.1f\n",
	       ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) /
		       trips);
	return 0;
}
