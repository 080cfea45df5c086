// SPDX-License-Identifier: BSD-2-Clause
/* Nothing special: some calls deep, with spilled registers. */
#include "place.h"

APART static unsigned long deep(int depth, unsigned long a, unsigned long b)
{
	if (depth == 0)
		place_stay();
	else
		a += deep(depth - 1, b, a ^ b) * b;
	return a + b + sink;
}

int main(int argc, char **argv)
{
	return (int)deep(20, (unsigned long)argc, (unsigned long)argv);
}
