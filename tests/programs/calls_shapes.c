// SPDX-License-Identifier: BSD-2-Clause
/*
 * Calls of known numbers, compiled with -finstrument-functions:
 *	example		C calls A and B as in the worked example of the unit test, ROUNDS times
 *	jumps		a longjmp over 5 frames, 100 times
 *	tasks		4 threads, one after another, named task0 to task3, each with its own number of calls
 *	forks		a child that goes on below the same path
 *	many		2000 short threads
 *	deep		a recursion of 10000 calls
 *	wide		20000 call paths
 *	burn		spends 3 times as much in heavy() as in light(), and sleeps in neither
 *	killed		dies by SIGKILL after 1000 calls
 *	handler		a signal handler with calls, on a stack of its own
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEEP __attribute__((noinline))

enum { ROUNDS = 1000 };

static volatile int sink;
static jmp_buf target;

static KEEP void X(void)
{
	sink++;
}

static KEEP void B(int what);

static KEEP void A(int what)
{
	if (what == 0) {
		B(0);
		B(1);
	} else if (what == 1) {
		B(3);
	} else {
		X();
	}
	sink++;
}

static KEEP void B(int what)
{
	if (what == 1)
		B(0);
	else if (what == 2)
		A(1);
	else if (what == 3)
		A(2);
	sink++;
}

static KEEP void C(void)
{
	A(0);
	B(2);
	sink++;
}

static KEEP void fall(int depth)
{
	if (!depth)
		longjmp(target, 1);
	fall(depth - 1);
	sink++;
}

static KEEP void jump(void)
{
	if (!setjmp(target))
		fall(5);
	X();
}

static KEEP void work(int calls)
{
	for (int i = 0; i < calls; i++)
		X();
}

static KEEP void *task(void *number)
{
	char name[16];

	snprintf(name, sizeof(name), "task%d", (int)(intptr_t)number);
	pthread_setname_np(pthread_self(), name);
	work(100 * ((int)(intptr_t)number + 1));
	return NULL;
}

static KEEP void tasks(int count, void *(*body)(void *))
{
	for (intptr_t i = 0; i < count; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, body, (void *)i))
			exit(1);
		pthread_join(thread, NULL);
	}
}

static KEEP void *brief(void *number)
{
	X();
	return number;
}

static KEEP void child(void)
{
	work(7);
}

static KEEP void parent(void)
{
	pid_t pid = fork();

	if (!pid) {
		child();
		exit(0);
	}
	work(5);
	waitpid(pid, NULL, 0);
}

static KEEP void deep(int depth)
{
	if (depth > 1)
		deep(depth - 1);
	sink++;
}

/* Each number is a path: 8 routines, chosen by 3 bits each. */
#define ROUTINE(n) static KEEP void wide##n(unsigned path, int depth);
#define ROUTINES(X)                                                                                \
	X(0)                                                                                       \
	X(1)                                                                                       \
	X(2)                                                                                       \
	X(3)                                                                                       \
	X(4)                                                                                       \
	X(5)                                                                                       \
	X(6)                                                                                       \
	X(7)
ROUTINES(ROUTINE)
static void (*const wides[])(unsigned, int) = { wide0, wide1, wide2, wide3,
						wide4, wide5, wide6, wide7 };
#undef ROUTINE
#define ROUTINE(n)                                                                                 \
	static KEEP void wide##n(unsigned path, int depth)                                         \
	{                                                                                          \
		if (depth)                                                                         \
			wides[path & 7](path >> 3, depth - 1);                                     \
		sink++;                                                                            \
	}
ROUTINES(ROUTINE)

static __attribute__((no_instrument_function)) uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static KEEP void light(void)
{
	for (uint64_t end = cpu_ns() + 100000000; cpu_ns() < end;)
		;
}

static KEEP void heavy(void)
{
	for (uint64_t end = cpu_ns() + 300000000; cpu_ns() < end;)
		;
}

static KEEP void nap(void)
{
	usleep(200000);
}

static KEEP void on_signal(int number)
{
	work(3);
}

static KEEP void handler(void)
{
	static char memory[65536];
	stack_t stack = { .ss_sp = memory, .ss_size = sizeof(memory) };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < 10; i++)
		raise(SIGUSR1);
	X();
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "example"))
		for (int i = 0; i < ROUNDS; i++)
			C();
	else if (!strcmp(what, "jumps"))
		for (int i = 0; i < 100; i++)
			jump();
	else if (!strcmp(what, "tasks"))
		tasks(4, task);
	else if (!strcmp(what, "many"))
		tasks(2000, brief);
	else if (!strcmp(what, "forks"))
		parent();
	else if (!strcmp(what, "deep"))
		deep(10000);
	else if (!strcmp(what, "wide"))
		for (unsigned i = 0; i < 20000; i++)
			wides[i & 7](i >> 3, 5);
	else if (!strcmp(what, "burn"))
		light(), heavy(), nap();
	else if (!strcmp(what, "killed"))
		work(1000), raise(SIGKILL);
	else if (!strcmp(what, "handler"))
		handler();
	else
		return 2;
	return 5;
}
