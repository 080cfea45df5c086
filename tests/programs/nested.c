// SPDX-License-Identifier: BSD-2-Clause
/*
 * Calls whose tree is known: one function called from two, recursion, a tail call, and calls that
 * longjmp() leaves without a return.
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#define ALONE __attribute__((noinline, noclone))

static jmp_buf back;
static volatile int back_wanted = 1;

ALONE unsigned leaf(unsigned x)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < 100; i++) {
		sum += x * i;
		__asm__ volatile("");
	}
	return sum;
}

ALONE unsigned left(unsigned x)
{
	return leaf(x) + 1;
}

ALONE unsigned right(unsigned x)
{
	return leaf(x) + leaf(x + 1);
}

ALONE unsigned recur(unsigned n)
{
	return n < 2 ? n : recur(n - 1) + recur(n - 2);
}

ALONE void deep(unsigned n)
{
	if (n)
		deep(n - 1);
	else if (back_wanted)
		longjmp(back, 1);
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 20, sum = 0;

	for (volatile unsigned i = 0; i < rounds; i++) {
		if (!setjmp(back))
			deep(10);
		sum += left(i) + right(i);
	}
	printf("%u %u\n", recur(18), sum);
	return 0;
}
