// SPDX-License-Identifier: BSD-2-Clause
/* Executes itself as often as its argument says; the sum that it prints depends on ANSWER. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef ANSWER
#define ANSWER 1
#endif

/* So that this many functions have to be translated. */
#define EACH(X)                                                                                    \
	X(0)                                                                                       \
	X(1)                                                                                       \
	X(2)                                                                                       \
	X(3)                                                                                       \
	X(4)                                                                                       \
	X(5)                                                                                       \
	X(6)                                                                                       \
	X(7)                                                                                       \
	X(8)                                                                                       \
	X(9)                                                                                       \
	X(10)                                                                                      \
	X(11)                                                                                      \
	X(12)                                                                                      \
	X(13)                                                                                      \
	X(14)                                                                                      \
	X(15)

#define FUNCTION(n)                                                                                \
	__attribute__((noinline)) static long sum_##n(long x)                                      \
	{                                                                                          \
		for (long i = 0; i < 100; i++)                                                     \
			x = x * 3 + (x & 1 ? ANSWER : n);                                          \
		return x;                                                                          \
	}
EACH(FUNCTION)

int main(int argc, char **argv)
{
	int left = argc > 1 ? atoi(argv[1]) : 0;
	char number[16];
	long sum = 0;

#define CALL(n) sum += sum_##n(sum);
	EACH(CALL)
	printf("%lx\n", (unsigned long)sum & 0xffffff);
	fflush(stdout);
	snprintf(number, sizeof(number), "%d", left - 1);
	if (left > 0)
		execl(argv[0], argv[0], number, NULL);
	return 0;
}
