// SPDX-License-Identifier: BSD-2-Clause
/* In a thread whose program's main has ended. */
#include <pthread.h>

#include "place.h"

APART static unsigned long inside(unsigned long a)
{
	place_stay();
	return a + sink;
}

static void *work(void *argument)
{
	return (void *)(inside((unsigned long)argument) + sink);
}

int main(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, work, NULL);
	pthread_exit(NULL);
}
