// SPDX-License-Identifier: BSD-2-Clause
/*
 * In a signal handler; what it interrupted has no frame of its own, and its return address is on
 * top of the stack.
 */
#include <signal.h>

#include "place.h"

static void handler(int number)
{
	place_stay();
}

/* Interrupted at its very first instruction. */
APART static int trap(void)
{
	asm volatile("ud2");
	return (int)sink;
}

APART static int interrupted(void)
{
	return trap() + (int)sink;
}

int main(void)
{
	signal(SIGILL, handler);
	return interrupted() + (int)sink;
}
