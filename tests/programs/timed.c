// SPDX-License-Identifier: BSD-2-Clause
/*
 * Visits routines and ranges in every way, and touches data, as often as it says: each line that it
 * prints is a mark and a number.
 *
 *	timed shapes | sleeps | signals | threads | fork | heap
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "assay/mark.h"

#define ROUTINE __attribute__((noinline, noclone, used))
#define HIDE(x) __asm__ volatile("" : "+r"(x) : : "memory")

enum { ROUNDS = 300, THREADS = 4, ADDITIONS = 20000, TICKS = 60 };

_Atomic long shared_counter;
volatile long ticked;
unsigned char field[60000];
long declared_word;

static jmp_buf out;

/* --- Ways out of a routine ---------------------------------------------------------------- */

ROUTINE int plain(int x)
{
	HIDE(x);
	return x + 1;
}

ROUTINE int tail(int x)
{
	HIDE(x);
	return plain(x);
}

static int (*volatile by_pointer)(int) = plain;

ROUTINE int pointed(int x)
{
	HIDE(x);
	return by_pointer(x);
}

ROUTINE int recursive(int depth)
{
	int below = depth ? recursive(depth - 1) : 0;

	HIDE(below);
	return below + 1;
}

ROUTINE int itself(int n)
{
	HIDE(n);
	return n ? itself(n - 1) : 7;
}

ROUTINE int thrown(int x)
{
	HIDE(x);
	if (x & 1)
		longjmp(out, 1);
	return x;
}

ROUTINE int chosen(int x)
{
	switch (x & 7) {
	case 0:
		return plain(x);
	case 1:
		HIDE(x);
		return 12;
	case 2:
		x ^= plain(3);
		break;
	case 3:
		return by_pointer(5);
	case 4:
		x += 100;
		break;
	case 5:
		return plain(x) + 1;
	default:
		x *= 3;
	}
	HIDE(x);
	return x;
}

ROUTINE int ranged(int x)
{
	int sum = x;

	HIDE(sum);
	ASSAY_RANGE_BEGIN(within);
	HIDE(x);
	if (x == 3)
		return sum;
	if (x == 4)
		goto behind;
	sum += plain(x);
	ASSAY_RANGE_END(within);
	HIDE(sum);
behind:
	HIDE(sum);
	return sum + plain(sum);
}

static void shapes(void)
{
	long thrown_out = 0;

	for (int i = 0; i < ROUNDS; i++) {
		tail(i);
		pointed(i);
		recursive(5);
		itself(3);
		chosen(i);
		ranged(i % 6);
	}
	for (volatile int i = 0; i < ROUNDS; i = i + 1) {
		if (setjmp(out))
			thrown_out++;
		else
			thrown(i);
	}
	thrown(2); /* whoever was left before is found to be gone */
	printf("tail %d\npointed %d\nrecursive %d\nitself %d\nchosen %d\nthrown %d\n", ROUNDS,
	       ROUNDS, 6 * ROUNDS, 4 * ROUNDS, ROUNDS, ROUNDS + 1);
	printf("mark:within %d\nabandoned %ld\n", ROUNDS, thrown_out);
}

/* --- Others ------------------------------------------------------------------------------- */

ROUTINE void slept(int us)
{
	if (us)
		usleep((unsigned)us);
}

static void sleeps(void)
{
	for (int i = 0; i < 10; i++)
		slept(i & 1 ? 20000 : 0);
	puts("slept 10");
}

static void on_tick(int number)
{
	ticked = ticked + 1;
	plain(3);
}

/* Accesses and visits are interrupted everywhere, string instructions in their middle. */
static void signals(void)
{
	struct itimerval timer = { { 0, 1000 }, { 0, 1000 } };
	struct sigaction action = { .sa_handler = on_tick };
	long rounds = 0, ticks;
	sigset_t all;

	sigfillset(&all);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	while (ticked < TICKS) {
		unsigned char *to = field;
		unsigned long count = sizeof(field);

		__asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(1) : "memory");
		for (int i = 0; i < 200; i++)
			*(volatile unsigned char *)&field[i * 3] = (unsigned char)plain(i);
		rounds++;
	}
	sigprocmask(SIG_BLOCK, &all, NULL);
	ticks = ticked;
	printf("data:field %ld\ndata:ticked %ld\nplain %ld\n", rounds * ((long)sizeof(field) + 200),
	       ticks, rounds * 200 + ticks);
}

static void *add(void *unused)
{
	for (int i = 0; i < ADDITIONS; i++) {
		atomic_fetch_add(&shared_counter, 1);
		plain(i);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t ids[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&ids[i], NULL, add, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	printf("data:shared_counter %ld\nplain %d\n", (long)shared_counter, THREADS * ADDITIONS);
}

static void forks(void)
{
	pid_t child;

	ASSAY_DATA(declared_word);
	add(NULL);
	fflush(stdout);
	child = fork();
	add(NULL);
	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
	*(volatile long *)&declared_word = 4;
	printf("data:shared_counter %d\nplain %d\ndata:declared_word 1\n", 3 * ADDITIONS,
	       3 * ADDITIONS);
}

static void heap(void)
{
	volatile long *block, *other;

	for (int i = 0; i < 50; i++) {
		block = malloc(64 + (size_t)i * 8); /* HERE */
		other = malloc(100);
		for (int k = 0; k < 8; k++) {
			block[k] = k;
			other[k] = block[k];
		}
		free((void *)other);
		if (i & 1)
			free((void *)block);
	}
	printf("heap %d\n", 50 * 8);
}

__thread int of_threads;

/* main() never returns. */
static void exits(void)
{
	exit(of_threads);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} ways[] = { { "shapes", shapes },   { "sleeps", sleeps }, { "signals", signals },
		     { "threads", threads }, { "fork", forks },	   { "heap", heap },
		     { "exits", exits } };

	for (size_t i = 0; argc > 1 && i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(argv[1], ways[i].name))
			ways[i].run();
	return 0;
}
