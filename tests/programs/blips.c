// SPDX-License-Identifier: BSD-2-Clause
/*
 * Runs a program N times, one after the other, and prints the pids and at last their CPU time:
 * blips N PROGRAM...
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

int main(int argc, char **argv)
{
	struct rusage usage;
	pid_t pid;

	for (int i = atoi(argv[1]); i > 0; i--) {
		if (posix_spawn(&pid, argv[2], NULL, NULL, argv + 2, NULL))
			return 1;
		waitpid(pid, NULL, 0);
		printf("%d ", (int)pid);
	}
	getrusage(RUSAGE_CHILDREN, &usage);
	printf("\n%.6f\n", (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
				   (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
	return 0;
}
