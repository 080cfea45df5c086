// SPDX-License-Identifier: BSD-2-Clause
/*
 * Burns CPU time in two threads and prints how many nanoseconds the kernel says both have run.
 * spend SECONDS
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "burn.h"

static double seconds;

/* The first number in schedstat is what the scheduler has charged to the thread. */
static unsigned long long charged(void)
{
	char text[128] = "";
	int file = open("/proc/thread-self/schedstat", O_RDONLY);

	if (file < 0 || read(file, text, sizeof(text) - 1) <= 0)
		exit(1);
	close(file);
	return strtoull(text, NULL, 10);
}

static void *work(void *ret)
{
	BURN(seconds);
	*(unsigned long long *)ret = charged();
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
