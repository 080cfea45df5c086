// SPDX-License-Identifier: BSD-2-Clause
/* In a callback of the C library. */
#include <stdlib.h>

#include "place.h"

static int calls;

static int compare(const void *a, const void *b)
{
	int left = *(const int *)a, right = *(const int *)b;

	if (++calls == 20)
		place_stay();
	return (left > right) - (left < right);
}

APART static int sort(int seed)
{
	int numbers[64];

	for (int i = 0; i < 64; i++)
		numbers[i] = (seed = seed * 1103515245 + 12345) & 0xffff;
	qsort(numbers, 64, sizeof(numbers[0]), compare);
	return numbers[3];
}

int main(int argc, char **argv)
{
	return sort(argc) + (int)sink;
}
