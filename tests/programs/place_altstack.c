// SPDX-License-Identifier: BSD-2-Clause
/*
 * In a signal handler on a stack of its own, once below and once above the other in memory: the
 * heap and main's.
 */
#include <signal.h>
#include <stdlib.h>

#include "place.h"

static char stack_low[65536];

static void handler(int number, siginfo_t *info, void *context)
{
	place_stay();
}

APART static int interrupted(int a)
{
	raise(SIGUSR1);
	return a + (int)sink;
}

int main(int argc, char **argv)
{
	stack_t stack = { .ss_sp = stack_low, .ss_size = sizeof(stack_low) };
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_ONSTACK | SA_SIGINFO };

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	return interrupted(argc) + (int)sink;
}
