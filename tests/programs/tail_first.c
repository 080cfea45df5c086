// SPDX-License-Identifier: BSD-2-Clause
/*
 * 100 calls of handle(), of which one is slow. Each kind of request prepares something when it
 * comes for the first time: the slow one does, and so did the first usual one.
 */
#include <stdint.h>
#include <stdio.h>

enum { REQUESTS = 100, SLOW = 77, KINDS = 2, USUAL_ROUNDS = 20000, SLOW_ROUNDS = 30000000 };

volatile uint64_t sink;
static int prepared[KINDS];

static void rounds_do(int rounds)
{
	for (int i = 0; i < rounds; i++)
		sink += (uint64_t)i;
}

__attribute__((noinline)) void prepare(int kind)
{
	prepared[kind] = 1;
	sink++;
}

__attribute__((noinline)) void usual_request(void)
{
	rounds_do(USUAL_ROUNDS);
}

__attribute__((noinline)) void slow_request(void)
{
	rounds_do(SLOW_ROUNDS);
}

__attribute__((noinline)) void handle(int kind)
{
	if (kind)
		slow_request();
	else
		usual_request();
	if (!prepared[kind])
		prepare(kind);
}

int main(void)
{
	for (int i = 0; i < REQUESTS; i++)
		handle(i == SLOW);
	puts("done");
	return 0;
}
