// SPDX-License-Identifier: BSD-2-Clause
/* Vectors in frames aligned beyond what the ABI gives, with arguments on the stack. */
#include <alloca.h>

#include "place.h"

typedef float vector __attribute__((vector_size(32)));

APART static float aligned(int a, int b, int c, int d, int e, int f, int g, int h, int depth)
{
	volatile vector lanes = { (float)a, (float)b, (float)g, (float)h };
	volatile char *room = alloca((size_t)(a & 31) + 16);

	room[a & 7] = (char)h;
	if (depth)
		return aligned(b, c, d, e, f, g, h, a, depth - 1) + lanes[b & 7] +
		       (float)room[a & 7];
	place_stay();
	return lanes[g & 7] + (float)room[1];
}

APART static float aligned_simply(int a)
{
	volatile vector lanes = { (float)a };

	return aligned(a, 2, 3, 4, 5, 6, 7, 8, 3) + lanes[a & 7];
}

int main(int argc, char **argv)
{
	return (int)aligned_simply(argc) + (int)sink;
}
