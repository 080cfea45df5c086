// SPDX-License-Identifier: BSD-2-Clause
/*
 * Works, changes its real and effective ids, its name and its control group (argument, optional),
 * and works on.
 */
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "burn.h"

__attribute__((noinline, noclone)) static void before(void)
{
	BURN(0.25);
}

__attribute__((noinline, noclone)) static void after(void)
{
	BURN(0.4);
}

int main(int argc, char **argv)
{
	FILE *group = argc > 1 ? fopen(argv[1], "w") : NULL;

	before();
	if (group && (fprintf(group, "%d\n", (int)getpid()) < 0 || fclose(group)))
		return 2;
	if (setresgid(65531, 65532, 65532) || setresuid(65533, 65534, 65534))
		return 1;
	prctl(PR_SET_NAME, "renamed");
	after();
	return 0;
}
