// SPDX-License-Identifier: BSD-2-Clause
/*
 * A process, its child and its grandchild, none of which executes another program; prints the three
 * pids.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "burn.h"

__attribute__((noinline, noclone)) static void grandchild_work(void)
{
	BURN(0.25);
}

__attribute__((noinline, noclone)) static void child_work(void)
{
	BURN(0.25);
}

__attribute__((noinline, noclone)) static void parent_work(void)
{
	BURN(0.25);
}

int main(void)
{
	dprintf(1, "%d\n", (int)getpid());
	if (fork() == 0) {
		dprintf(1, "%d\n", (int)getpid());
		if (fork() == 0) {
			dprintf(1, "%d\n", (int)getpid());
			grandchild_work();
			_exit(0);
		}
		wait(NULL);
		child_work();
		_exit(0);
	}
	wait(NULL);
	parent_work();
	return 0;
}
