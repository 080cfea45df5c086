// SPDX-License-Identifier: BSD-2-Clause
/*
 * What is profiled in the emulated machines: one kind of work for each check, always the same
 * amount.
 *
 *	work spin	user code: main, outer, inner
 *	work calls	system calls: main, ask
 *	work held	held() gets 7 always, and 3 and 5 by turns
 *	work count	step() is called 1000 times
 *	work waits	a child sleeps and pours, its parent drinks from the pipe, which it
 *			announces as a task, and then waits for it
 *	work until FILE ROUNDS
 *			spins until FILE is there, appends a byte to the file ROUNDS for each round,
 *			and says in how many it computed something wrong
 *	work forever
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "assay/client.h"

#define NOINLINE __attribute__((noinline, noclone))

enum { ROUNDS = 150, SPINS = 400000, CALLS = 60000, HELD = 16000000, STEPS = 1000, DRINKS = 30 };

static volatile unsigned long sink;

static NOINLINE void inner(void)
{
	for (unsigned long i = 0; i < SPINS; i++)
		sink += i * 7;
}

static NOINLINE void outer(unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++)
		inner();
}

static NOINLINE void ask(void)
{
	struct stat status;

	for (unsigned i = 0; i < CALLS; i++)
		sink += (unsigned long)stat("/bin", &status);
}

static NOINLINE unsigned long held(unsigned long always, unsigned long turns)
{
	__asm__ volatile("" : "+r"(always), "+r"(turns));
	return always * turns;
}

static NOINLINE void hold(void)
{
	for (unsigned i = 0; i < HELD; i++)
		sink += held(7, i & 1 ? 3 : 5);
}

static NOINLINE void step(void)
{
	__asm__ volatile("nop");
}

static NOINLINE void count(void)
{
	for (int i = 0; i < STEPS; i++)
		step();
}

static NOINLINE void pour(int end)
{
	usleep(20000);
	sink += (unsigned long)write(end, "x", 1);
}

static NOINLINE void drink(int end)
{
	char byte;

	sink += (unsigned long)read(end, &byte, 1);
}

static NOINLINE int waits(void)
{
	int ends[2];

	if (pipe(ends))
		return 1;
	if (!fork()) {
		for (int i = 0; i < DRINKS; i++)
			pour(ends[1]);
		usleep(100000);
		_exit(0);
	}
	assay_task_begin("drinks");
	for (int i = 0; i < DRINKS; i++)
		drink(ends[0]);
	assay_task_end();
	outer(ROUNDS / 2);
	return wait(NULL) < 0;
}

static NOINLINE int until(const char *path, const char *rounds)
{
	int told = open(rounds, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	unsigned long wrong = told < 0;

	while (access(path, F_OK)) {
		unsigned long before = sink;

		inner();
		wrong += sink - before != 7ul * SPINS * (SPINS - 1) / 2;
		wrong += write(told, ".", 1) != 1;
	}
	printf("wrong %lu\n", wrong);
	return wrong != 0;
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "";

	if (!strcmp(kind, "spin"))
		outer(ROUNDS);
	else if (!strcmp(kind, "calls"))
		ask();
	else if (!strcmp(kind, "held"))
		hold();
	else if (!strcmp(kind, "count"))
		count();
	else if (!strcmp(kind, "waits"))
		return waits();
	else if (!strcmp(kind, "until") && argc > 3)
		return until(argv[2], argv[3]);
	else if (!strcmp(kind, "forever"))
		for (;;)
			outer(1);
	else
		return 2;
	return 0;
}
