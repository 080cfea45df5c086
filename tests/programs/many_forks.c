// SPDX-License-Identifier: BSD-2-Clause
/* many_forks N: forks N times, one child after the other, each of which executes a little. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int sum;

__attribute__((noinline)) void child_works(void)
{
	for (int i = 0; i < 1000; i++)
		sum += i;
}

int main(int argc, char **argv)
{
	for (int i = atoi(argv[1]); i > 0; i--) {
		pid_t child = fork();

		if (!child) {
			child_works();
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
	return 0;
}
