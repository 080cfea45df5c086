// SPDX-License-Identifier: BSD-2-Clause
/*
 * CALLS calls of step() and as many of leap() by a pointer, while a timer sends signals all the
 * time, whose handler calls tick(). It prints how often that was.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

#define KEEP __attribute__((noinline))

enum { CALLS = 100000, INTERVAL_US = 100 };

static volatile int sink, ticks;

static KEEP void step(void)
{
	sink++;
}

static KEEP void leap(void)
{
	sink--;
}

static KEEP void tick(void)
{
	ticks++;
}

static void handler(int number)
{
	tick();
}

static void (*volatile pointer)(void) = leap;

int main(void)
{
	const struct itimerval on = { { 0, INTERVAL_US }, { 0, INTERVAL_US } }, off = { 0 };
	struct sigaction action = { .sa_handler = handler };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &on, NULL);
	for (int i = 0; i < CALLS; i++) {
		step();
		pointer();
	}
	setitimer(ITIMER_REAL, &off, NULL);
	printf("%d\n", ticks);
	return 5;
}
