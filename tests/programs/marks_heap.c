// SPDX-License-Identifier: BSD-2-Clause
/*
 * For marks on what a line allocates. Reads orders, a line each, and answers each with a line:
 *
 *	N	N times allocates something, writes to it twice, reads it once and frees it
 */
#include <stdio.h>
#include <stdlib.h>

static volatile long sum;

__attribute__((noinline)) static void round_do(long number)
{
	volatile long *item = malloc(2 * sizeof(*item));

	item[0] = number;
	item[1] = number;
	sum += item[0];
	free((void *)item);
}

int main(void)
{
	char line[64];

	while (fgets(line, sizeof(line), stdin)) {
		for (long n = strtol(line, NULL, 10); n > 0; n--)
			round_do(n);
		printf("%ld\n", sum);
		fflush(stdout);
	}
	return 0;
}
