// SPDX-License-Identifier: BSD-2-Clause
/*
 * A bit of everything that the engine has a hand in, with an output that is the same each time:
 * threads, forks, signals, vector registers over calls, code that is made at run time, system calls
 * that must happen exactly once.
 *
 * With an argument, many times one thing that the engine does while signals are closed: "actions",
 * "moves" of memory, "threads" that begin.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 3, ROUNDS = 40, MANY = 1000 };

static volatile sig_atomic_t signals;
static int calls[2]; /* a pipe: each byte is a system call that was done */

static void on_signal(int number)
{
	signals++;
}

__attribute__((noinline)) static double vectors(double x, int depth)
{
	return depth ? vectors(x * 1.5 + depth, depth - 1) - x : x;
}

static void *thread_run(void *given)
{
	uint64_t sum = (uintptr_t)given;
	char byte = 0;

	for (int i = 0; i < ROUNDS; i++) {
		char text[64];

		snprintf(text, sizeof(text), "%g %d", vectors((double)i, 5), i);
		for (const char *at = text; *at; at++)
			sum = sum * 31 + (unsigned char)*at;
		if (write(calls[1], &byte, 1) != 1)
			abort();
	}
	return (void *)(uintptr_t)sum;
}

static int made_run(void)
{
	static const unsigned char code[] = { 0xb8, 0, 0, 0, 0, 0xc3 }; /* mov $0, %eax; ret */
	unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int sum = 0;

	memcpy(page, code, sizeof(code));
	for (int i = 0; i < ROUNDS; i++) {
		page[1] = (unsigned char)i;
		sum += ((int (*)(void))page)();
	}
	munmap(page, 4096);
	return sum;
}

static void on_other(int number)
{
}

/* Calls that are done in the engine: each tells what the one before has left. */
static int actions_run(void)
{
	int right = 0;

	signal(SIGUSR2, on_other);
	for (int i = 0; i < MANY; i++)
		right += signal(SIGUSR2, i % 2 ? on_other : on_signal) ==
			 (i % 2 ? on_signal : on_other);
	return right;
}

/* A page goes to and fro: done twice, such a call fails. */
static int moves_run(void)
{
	char *area =
		mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *places[] = { area, area + 4096 };

	for (int i = 0; i < MANY; i++) {
		char *from = places[i % 2], *to = places[(i + 1) % 2];

		*from = (char)i;
		if (mremap(from, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to ||
		    *to != (char)i)
			return -i;
	}
	return MANY;
}

static void *nothing_run(void *given)
{
	return given;
}

static int threads_run(void)
{
	pthread_t thread;
	void *result;
	int sum = 0;

	for (intptr_t i = 0; i < MANY / 8; i++) {
		if (pthread_create(&thread, NULL, nothing_run, (void *)i))
			return -1;
		pthread_join(thread, &result);
		sum += (int)(intptr_t)result;
	}
	return sum;
}

static int forks_run(void)
{
	int sum = 0, status;

	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(made_run() % 50 + i);
		if (waitpid(pid, &status, 0) != pid)
			abort();
		sum = sum * 100 + (WIFEXITED(status) ? WEXITSTATUS(status) : 99);
	}
	return sum;
}

static int one_run(const char *what)
{
	if (!strcmp(what, "actions"))
		return actions_run();
	if (!strcmp(what, "moves"))
		return moves_run();
	return threads_run();
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	pthread_t threads[THREADS];
	char bytes[1024];
	uint64_t sum = 0;

	if (argc > 1) {
		printf("%d\n", one_run(argv[1]));
		return 7;
	}
	if (pipe(calls))
		return 1;
	sigaction(SIGUSR1, &action, NULL);
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, thread_run, (void *)i))
			return 1;
	for (int i = 0; i < 5; i++)
		raise(SIGUSR1);
	for (int i = 0; i < THREADS; i++) {
		void *result;

		pthread_join(threads[i], &result);
		sum += (uintptr_t)result;
	}
	printf("%d %d %d %llx %zd %g\n", signals, made_run(), forks_run(), (unsigned long long)sum,
	       read(calls[0], bytes, sizeof(bytes)), vectors(3, 9));
	return 7;
}
