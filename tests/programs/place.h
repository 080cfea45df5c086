/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A place: a program that goes to one spot of its code, says "ready" and stays there. Where it
 * stays it calls two functions over and over, so that there are instructions before, within and
 * after prologues and epilogues.
 */
#pragma once

#include <stdio.h>

#define APART __attribute__((noinline, noclone, unused))

static volatile unsigned long sink;
static volatile int stay = 1;

APART static unsigned long leaf(unsigned long a)
{
	return a * 3 + sink;
}

APART static unsigned long step(unsigned long a, unsigned long b)
{
	volatile unsigned long room[5] = { a, b };
	unsigned long first = leaf(a), second = leaf(b + first);

	return leaf(first ^ second) + first + second + a + room[1];
}

static inline void place_ready(void)
{
	puts("ready");
	fflush(stdout);
}

APART static void place_stay(void)
{
	place_ready();
	while (stay)
		sink = step(sink, 7);
}
