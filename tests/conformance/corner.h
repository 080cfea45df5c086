/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the programs here share. Each has a list of named scenes and runs the one it is told to; a
 * scene prints what it observes of itself. run compares that with what the same scene prints
 * natively, so nothing is expected here.
 */
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

struct scene {
	const char *name;
	void (*run)(void);
};

static inline int scenes_run(const struct scene *scenes, size_t count, int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < count; i++)
		if (argc > 1 && !strcmp(argv[1], scenes[i].name)) {
			scenes[i].run();
			return 0;
		}
	for (size_t i = 0; i < count; i++)
		fprintf(stderr, "%s\n", scenes[i].name);
	return 2;
}

#define SCENES_MAIN(scenes)                                                                        \
	int main(int argc, char **argv)                                                            \
	{                                                                                          \
		return scenes_run(scenes, sizeof(scenes) / sizeof(scenes[0]), argc, argv);         \
	}

static inline void handle(int number, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags };

	sigaction(number, &action, NULL);
}

static inline void mask_set(int how, int number)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, number);
	pthread_sigmask(how, &set, NULL);
}

static inline void rest(long milliseconds)
{
	struct timespec time = { milliseconds / 1000, milliseconds % 1000 * 1000000 };

	while (nanosleep(&time, &time) && errno == EINTR)
		;
}

/* A handler: prints the mask that it has interrupted and its own; then SIGHUP is blocked. */
static inline void mask_say(int number, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	sigset_t now;

	pthread_sigmask(SIG_BLOCK, NULL, &now);
	for (int i = 1; i < 32; i++)
		printf("%d%d", sigismember(&uc->uc_sigmask, i), sigismember(&now, i));
	printf("\n");
	sigaddset(&uc->uc_sigmask, SIGHUP); /* takes effect at return */
}

/* How a child ended, in words. */
static inline void status_say(const char *what, int status)
{
	if (WIFEXITED(status))
		printf("%s: exited %d\n", what, WEXITSTATUS(status));
	else if (WIFSIGNALED(status))
		printf("%s: killed by %d%s\n", what, WTERMSIG(status),
		       WCOREDUMP(status) ? ", core" : "");
	else
		printf("%s: status %x\n", what, status);
}
