// SPDX-License-Identifier: BSD-2-Clause
/* Four threads with names of their own burn CPU time in a callee each; main waits. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds = 1;
static volatile unsigned long sink;

__attribute__((noinline)) static void burn(int depth)
{
	if (depth)
		burn(depth - 1);
	for (int i = 0; i < 20000; i++)
		sink = sink + (unsigned long)i;
}

static double thread_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *work(void *argument)
{
	char name[16];

	snprintf(name, sizeof(name), "worker-%ld", (long)argument);
	pthread_setname_np(pthread_self(), name);
	while (thread_seconds() < seconds)
		burn(8);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[4];

	seconds = argc > 1 ? atof(argv[1]) : 1;
	for (long i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
