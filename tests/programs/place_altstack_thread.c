// SPDX-License-Identifier: BSD-2-Clause
/*
 * As place_altstack.c, but the interrupted stack, a thread's, lies below the handler's, which is
 * part of main's.
 */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "place.h"

static void handler(int number)
{
	place_stay();
}

APART static unsigned long interrupted(unsigned long a)
{
	raise(SIGUSR1);
	return a + sink;
}

static void *work(void *stack)
{
	stack_t other = { .ss_sp = stack, .ss_size = 65536 };
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };

	sigaltstack(&other, NULL);
	sigaction(SIGUSR1, &action, NULL);
	return (void *)(interrupted(3) + sink);
}

int main(void)
{
	char stack[65536];
	pthread_t thread;

	pthread_create(&thread, NULL, work, stack);
	pthread_join(thread, NULL);
	return stack[0];
}
