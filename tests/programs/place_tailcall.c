// SPDX-License-Identifier: BSD-2-Clause
/* Functions that end in a jump to another leave no frame. Built with sibling calls. */
#include "place.h"

APART static int inner(int a)
{
	place_stay();
	return a + (int)sink;
}

APART static int middle(int a)
{
	sink = sink + 1;
	return inner(a * 5);
}

APART static int outer(int a)
{
	sink = sink + 2;
	return middle(a + 1);
}

int main(int argc, char **argv)
{
	return outer(argc) + (int)sink;
}
