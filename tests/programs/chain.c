// SPDX-License-Identifier: BSD-2-Clause
/*
 * Burns the time in a function named WORK, then becomes the program in its arguments. chain SECONDS
 * [PROGRAM...]
 */
#include <stdlib.h>
#include <unistd.h>

#include "burn.h"

__attribute__((noinline, noclone)) static void WORK(double seconds)
{
	BURN(seconds);
}

int main(int argc, char **argv)
{
	WORK(atof(argv[1]));
	if (argc < 3)
		return 0;
	execv(argv[2], argv + 2);
	return 1;
}
