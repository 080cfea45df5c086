// SPDX-License-Identifier: BSD-2-Clause
/*
 * For marks that the kernel counts: work() is called before main(), in threads and in processes
 * that it creates. Says how often, and what could not be created. With the argument "wait" it
 * creates them when it has read a line; with "signal" it ends with 3 when it gets SIGTERM.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 20, CHILDREN = 5 };

volatile long worked;

__attribute__((noinline)) void work(void)
{
	worked++;
}

__attribute__((constructor)) static void early(void)
{
	work();
}

static void *thread_main(void *unused)
{
	work();
	return NULL;
}

static int create_all(void)
{
	pthread_t thread;
	int failed = 0;

	for (int i = 0; i < THREADS; i++) {
		if (pthread_create(&thread, NULL, thread_main, NULL))
			failed++;
		else
			pthread_join(thread, NULL);
	}
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child = fork();

		if (child < 0)
			failed++;
		if (!child) {
			work();
			_exit(0);
		}
		wait(NULL);
	}
	return failed;
}

static void on_term(int number)
{
	_exit(3);
}

int main(int argc, char **argv)
{
	char line[16];

	if (argc > 1 && !strcmp(argv[1], "signal")) {
		signal(SIGTERM, on_term);
		printf("waiting\n");
		fflush(stdout);
		for (;;)
			pause();
	}
	if (argc > 1 && !fgets(line, sizeof(line), stdin))
		return 1;
	printf("failed %d, worked %d\n", create_all(), 1 + THREADS + CHILDREN);
	return 7;
}
