// SPDX-License-Identifier: BSD-2-Clause
/*
 * Six functions with known shares of the time: 40, 25, 15, 10, 6 and 4 of 100 steps. shares SECONDS
 * A step is a chain of multiplications, each of which waits for the one before: wherever the loop
 * lies in memory, and whatever runs beside it on the core, it takes the same time in all of them.
 */
#include <stdlib.h>

#include "burn.h"

#define FUNCTION(name)                                                                             \
	__attribute__((noinline, noclone)) static void name(int steps)                             \
	{                                                                                          \
		unsigned long value = 3;                                                           \
                                                                                                   \
		for (int i = 0; i < steps * 50; i++)                                               \
			asm volatile("imul %0, %0\n\timul %0, %0\n\t"                              \
				     "imul %0, %0\n\timul %0, %0"                                  \
				     : "+r"(value));                                               \
	}
FUNCTION(forty)
FUNCTION(twenty_five)
FUNCTION(fifteen)
FUNCTION(ten)
FUNCTION(six)
FUNCTION(four)

int main(int argc, char **argv)
{
	double seconds = atof(argv[1]);

	while (burnt() < seconds) {
		forty(40);
		twenty_five(25);
		fifteen(15);
		ten(10);
		six(6);
		four(4);
	}
	return 0;
}
