// SPDX-License-Identifier: BSD-2-Clause
/*
 * The call of a function that does not return is its caller's last instruction, so that the return
 * address lies in the next function. Built without padding between functions.
 */
#include <stdlib.h>

#include "place.h"

__attribute__((noreturn)) APART static void park(int a)
{
	place_stay();
	exit(a);
}

__attribute__((noreturn)) APART static void last(int a)
{
	park(a + 1);
}

APART static int next(int a)
{
	return a + (int)sink;
}

int main(int argc, char **argv)
{
	if (argc > 5)
		return next(argc);
	last(argc);
}
