// SPDX-License-Identifier: BSD-2-Clause
/*
 * Has a busy thread, says "ready" and waits for a line. Then come another thread, a child, a thread
 * of the child and, if it is given as arguments, a program that a second child becomes; each burns
 * 0.3 s. Prints their pids.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "burn.h"

static volatile int finish;

static void *early_work(void *argument)
{
	while (!finish)
		BURN(0.01);
	return NULL;
}

static void *late_work(void *argument)
{
	BURN(0.3);
	return NULL;
}

static void *child_thread_work(void *argument)
{
	BURN(0.3);
	return NULL;
}

static void thread_run(void *(*work)(void *))
{
	pthread_t thread;

	pthread_create(&thread, NULL, work, NULL);
	pthread_join(thread, NULL);
}

__attribute__((noinline, noclone)) static void child_work(void)
{
	BURN(0.3);
}

static int child_run(void)
{
	thread_run(child_thread_work);
	child_work();
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t early;

	pthread_create(&early, NULL, early_work, NULL);
	puts("ready");
	fflush(stdout);
	getchar();
	thread_run(late_work);
	if (fork() == 0)
		_exit(child_run());
	if (argc > 1 && fork() == 0)
		_exit(execv(argv[1], argv + 1));
	while (wait(NULL) > 0)
		;
	finish = 1;
	pthread_join(early, NULL);
	return 0;
}
