// SPDX-License-Identifier: BSD-2-Clause
/* Calls leaf() from two functions in turn, so many rounds, with 7 and with 9. */
#include <stdlib.h>

static volatile long sum;

__attribute__((noinline)) void leaf(long value)
{
	sum += value;
}

__attribute__((noinline)) void first(void)
{
	leaf(7);
	sum++;
}

__attribute__((noinline)) void second(void)
{
	leaf(9);
	sum++;
}

int main(int argc, char **argv)
{
	for (long n = argc > 1 ? strtol(argv[1], NULL, 10) : 0; n > 0; n--) {
		first();
		second();
	}
	return 0;
}
