/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that its input asks for, a line at a time: "N" calls work() N times, "fork" starts a child
 * that goes on in its place, "spin" starts a thread that calls all the time until the end. Each line
 * is answered when its calls are over.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static atomic_int stop;
static volatile unsigned sum;

NOINLINE void leaf(void)
{
	for (int i = 0; i < 100; i++)
		sum += (unsigned)i;
}

NOINLINE void work(void)
{
	leaf();
	leaf();
	leaf();
}

NOINLINE void turn(void)
{
	leaf();
}

static void *spin(void *arg)
{
	while (!stop)
		turn();
	return arg;
}

static void answer(const char *text, long number)
{
	printf("%s %ld\n", text, number);
	fflush(stdout);
}

NOINLINE void serve(const char *line, pthread_t *thread)
{
	long count = strtol(line, NULL, 10);

	if (!strcmp(line, "spin\n")) {
		pthread_create(thread, NULL, spin, NULL);
	} else if (!strcmp(line, "fork\n")) {
		pid_t child = fork();

		if (child > 0) {
			waitpid(child, NULL, 0);
			_exit(5);
		}
		count = getpid();
	}
	for (long i = 0; i < count && *line <= '9'; i++)
		work();
	answer("done", count);
}

int main(void)
{
	char line[64];
	pthread_t thread = 0;

	answer("ready", getpid());
	while (fgets(line, sizeof(line), stdin))
		serve(line, &thread);
	stop = 1;
	if (thread)
		pthread_join(thread, NULL);
	answer("over", 1);
	return 5;
}
