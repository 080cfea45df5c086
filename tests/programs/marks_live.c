// SPDX-License-Identifier: BSD-2-Clause
/*
 * For marks that change while it runs. Reads orders, a line each, and answers each with a line:
 *
 *	N	calls work() N times, and idle() once
 *
 * With an argument a second thread calls spin() all the time, and makes no system call. At its end
 * it prints how often it has called each.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static volatile unsigned long worked, idled, spun;
static volatile int over;

__attribute__((noinline)) void work(void)
{
	worked++;
}

__attribute__((noinline)) void idle(void)
{
	idled++;
}

__attribute__((noinline)) void spin(void)
{
	spun++;
}

static void *spinning(void *unused)
{
	while (!over)
		spin();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	char line[64];

	if (argc > 1)
		pthread_create(&thread, NULL, spinning, NULL);
	while (fgets(line, sizeof(line), stdin)) {
		for (long n = strtol(line, NULL, 10); n > 0; n--)
			work();
		idle();
		printf("%lu %lu\n", worked, idled);
		fflush(stdout);
	}
	over = 1;
	if (argc > 1)
		pthread_join(thread, NULL);
	printf("%lu %lu %lu\n", worked, idled, spun);
	return 0;
}
