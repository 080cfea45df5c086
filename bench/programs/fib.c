// SPDX-License-Identifier: BSD-2-Clause
/* Nothing but calls: fib(N) by itself, and how many calls that took. */
#include <stdio.h>
#include <stdlib.h>

static unsigned long __attribute__((noinline)) fib(unsigned long n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : 35;

	printf("%lu\n", fib(n));
	return 0;
}
