// SPDX-License-Identifier: BSD-2-Clause
/* One thing many times, then something irregular, then another thing many times. */
#include <stdint.h>
#include <stdio.h>

enum { WORDS = 1024, TIMES = 300 };

static uint32_t words[WORDS];

static __attribute__((noinline)) uint32_t fill(uint32_t seed)
{
	for (uint32_t i = 0; i < WORDS; i++)
		words[i] = seed = seed * 1664525 + 1013904223;
	return seed;
}

static __attribute__((noinline)) uint32_t odd(uint32_t sum)
{
	for (uint32_t i = 0; i < 8 * WORDS; i++)
		if (words[(sum + i) % WORDS] >> 17 & 1)
			sum += words[i % WORDS];
	return sum;
}

static __attribute__((noinline)) uint32_t add(void)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < WORDS; i++)
		sum += words[i] * 3;
	return sum;
}

int main(void)
{
	uint32_t sum = 0;

	for (int i = 0; i < TIMES; i++)
		sum = fill(sum);
	for (int i = 0; i < 10; i++)
		sum = odd(sum);
	for (int i = 0; i < TIMES; i++)
		sum += add();
	printf("%u\n", sum);
	return 0;
}
