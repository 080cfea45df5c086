// SPDX-License-Identifier: BSD-2-Clause
/*
 * Says "ready" and burns time in a function named WORK until it is killed. With an argument it
 * first deletes itself.
 */
#include <stdio.h>
#include <unistd.h>

#include "burn.h"

__attribute__((noinline, noclone)) static void WORK(void)
{
	BURN(1e9);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		unlink(argv[0]);
	puts("ready");
	fflush(stdout);
	WORK();
	return 0;
}
