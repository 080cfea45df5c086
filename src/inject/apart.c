// SPDX-License-Identifier: BSD-2-Clause
/*
 * While a thread of the profiled process executes system calls for us, its registers are not the
 * program's, and the kernel kills it if its tracer ends (EXITKILL), because it could not go on. So
 * the tracer is a child process that is not affected when this command is killed: it is in a
 * process group of its own, which neither a terminal's signals nor `kill -- -GROUP` reach, and it
 * blocks every signal but SIGKILL.
 */
#include "inject/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

enum { TEXT_MAX = 1024 };

struct outcome {
	int err;
	char text[TEXT_MAX];
};

static _Noreturn void child_run(int (*run)(void *ctx), void *ctx, pid_t parent, int to)
{
	struct outcome outcome = {};
	sigset_t all;
	ssize_t put;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setpgid(0, 0);
	if (getppid() != parent)
		_exit(1); /* nothing has begun yet, and the parent is gone */
	outcome.err = run(ctx);
	if (outcome.err)
		snprintf(outcome.text, TEXT_MAX, "%s", err_text());
	put = write(to, &outcome, sizeof(outcome));
	_exit(put == sizeof(outcome) ? 0 : 1); /* or the parent is gone */
}

static int outcome_read(int from, struct outcome *ret)
{
	size_t size = 0;

	while (size < sizeof(*ret)) {
		ssize_t got = read(from, (char *)ret + size, sizeof(*ret) - size);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return err_set(-ECHILD, "the process that does the work has ended early");
		size += (size_t)got;
	}
	ret->text[TEXT_MAX - 1] = '\0';
	return 0;
}

int apart_run(int (*run)(void *ctx), void *ctx)
{
	AUTO(close_fd) int from = -1;
	struct outcome outcome;
	int ends[2], err;
	pid_t pid, self = getpid();

	if (pipe2(ends, O_CLOEXEC))
		return err_set(-errno, "cannot make a pipe: %s", strerror(errno));
	from = ends[0];
	pid = fork();
	if (!pid)
		child_run(run, ctx, self, ends[1]);
	close(ends[1]);
	if (pid < 0)
		return err_set(-errno, "cannot start a process: %s", strerror(errno));
	err = outcome_read(from, &outcome);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (!err && outcome.err)
		err = err_set(outcome.err, "%s", outcome.text);
	return err;
}
