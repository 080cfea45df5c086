// SPDX-License-Identifier: BSD-2-Clause
/* killed_forks N: forks N times and kills each child at once; a last child executes a little. */
#include <signal.h>
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
	pid_t child;

	for (int i = atoi(argv[1]); i > 0; i--) {
		child = fork();
		if (!child)
			pause();
		usleep((useconds_t)(i % 16 * 20)); /* it is killed here and there on its way */
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	child = fork();
	if (!child)
		child_works();
	else
		waitpid(child, NULL, 0);
	return 0;
}
