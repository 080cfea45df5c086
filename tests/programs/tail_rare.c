// SPDX-License-Identifier: BSD-2-Clause
/*
 * Handles 60,000 requests. One of ten takes longer than usual, some more and some less, so that
 * there are many slow ones; three take far longer, by a path of their own.
 */
#include <stdint.h>

enum { REQUESTS = 60000, SLOW = 10, ROUNDS = 1000, SLOW_ROUNDS = 10000, RARE_ROUNDS = 2000000 };

static volatile uint64_t sink;

static inline __attribute__((always_inline)) void hash_rounds(int rounds)
{
	uint64_t value = sink;

	for (int i = 0; i < rounds; i++)
		value = (value ^ value >> 29) * 0x9e3779b97f4a7c15ull;
	sink = value;
}

__attribute__((noinline)) void rare_path(void)
{
	hash_rounds(RARE_ROUNDS);
}

__attribute__((noinline)) void handle(int number)
{
	hash_rounds(number % SLOW ? ROUNDS : SLOW_ROUNDS + number / SLOW % 100 * 200);
	if (number % (REQUESTS / 3) == REQUESTS / 6)
		rare_path();
}

int main(void)
{
	for (int i = 0; i < REQUESTS; i++)
		handle(i);
	return 0;
}
