// SPDX-License-Identifier: BSD-2-Clause
/*
 * ways ROUNDS: a loop that goes four ways, each as often as the others, so that no trace from the
 * loop's head goes beyond. On each way all branches are taken. Prints what it computed. Functions
 * have to stay in this order (-fno-toplevel-reorder).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint32_t one = 1, value;

/* A branch that is always taken, over an instruction. */
#define OVER(n)                                                                                    \
	__asm__ volatile("cmpl %2, %1\n"                                                           \
			 "jne 1f\n"                                                                \
			 "movl $0, %0\n"                                                           \
			 "1: addl %2, %0"                                                          \
			 : "+m"(value)                                                             \
			 : "m"(one), "i"(n)                                                        \
			 : "cc")

__attribute__((noinline)) static void way0(void), way1(void), way2(void), way3(void);

/* Before the ways: control comes back here, and to nowhere else. */
int main(int argc, char **argv)
{
	static void (*const ways[])(void) = { way0, way1, way2, way3 };
	uint32_t rounds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : 1000, state = 1;

	for (uint32_t i = 0; i < rounds; i++) {
		state = state * 1664525 + 1013904223;
		ways[state >> 30]();
	}
	printf("%u\n", value);
	return 0;
}

#define WAY(n)                                                                                     \
	static void way##n(void)                                                                   \
	{                                                                                          \
		OVER(2);                                                                           \
		OVER(3 + n);                                                                       \
		OVER(4 + n);                                                                       \
		OVER(5 + n);                                                                       \
		OVER(6 + n);                                                                       \
	}

WAY(0)
WAY(1)
WAY(2)
WAY(3)
