// SPDX-License-Identifier: BSD-2-Clause
/*
 * Routines that nobody calls: a signal's handler, and two contexts (ucontext.h) that take turns on
 * stacks of their own, TURNS times each. inner() is called by them alone, and outer() by main().
 */
#include <signal.h>
#include <ucontext.h>

#define KEEP __attribute__((noinline))

enum { SIGNALS = 30, TURNS = 200, STACK = 65536 };

static ucontext_t home, contexts[2];
static char stacks[2][STACK];
static volatile int sink;

static KEEP void inner(void)
{
	sink++;
}

static KEEP void outer(void)
{
	sink++;
}

static KEEP void deeper(int which)
{
	inner();
	swapcontext(&contexts[which], which ? &home : &contexts[1]);
	inner();
}

static KEEP void context(int which)
{
	for (int i = 0; i < TURNS; i++) {
		deeper(which);
		inner();
	}
	swapcontext(&contexts[which], which ? &home : &contexts[1]);
}

static KEEP void handler(int number)
{
	sink += number;
}

int main(void)
{
	signal(SIGUSR1, handler);
	for (int i = 0; i < SIGNALS; i++)
		raise(SIGUSR1);
	for (int i = 0; i < 2; i++) {
		getcontext(&contexts[i]);
		contexts[i].uc_stack.ss_sp = stacks[i];
		contexts[i].uc_stack.ss_size = STACK;
		contexts[i].uc_link = &home;
		makecontext(&contexts[i], (void (*)(void))context, 1, i);
	}
	for (int i = 0; i <= TURNS; i++) {
		swapcontext(&home, &contexts[0]);
		outer();
	}
	return 5;
}
