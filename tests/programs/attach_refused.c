/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes that nobody can attach to, by name. Each says "ready", goes on until its input ends,
 * and says so.
 */
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void say(const char *text)
{
	if (write(1, text, strlen(text)) < 0)
		abort();
}

static void input_await(void)
{
	char byte;

	say("ready\n");
	while (read(0, &byte, 1) == 1)
		;
	say("untouched\n");
}

static void *leader_gone(void *argument)
{
	pthread_join(*(pthread_t *)argument, NULL);
	input_await();
	_exit(0);
}

int main(int argc, char **argv)
{
	static pthread_t self;
	pthread_t thread;

	self = pthread_self();
	if (!strcmp(argv[1], "strict")) {
		if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
			return 1;
		input_await();
		syscall(SYS_exit, 0);
	}
	if (!strcmp(argv[1], "leader")) {
		pthread_create(&thread, NULL, leader_gone, &self);
		pthread_exit(NULL);
	}
	input_await();
	return 0;
}
