// SPDX-License-Identifier: BSD-2-Clause
/*
 * Starts the command of a recording, held before its exec until it is let go. The child waits in a
 * read of one pipe and tells by another one why exec failed; that pipe is closed by an exec that
 * succeeds, so that the parent knows both outcomes without a race.
 */
#include "recorder/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/mem.h"

struct command {
	const char *name;
	char *file; /* what the name stands for */
	pid_t pid;
	int fd; /* pidfd */
	int go; /* write end: a byte lets the child exec */
	int failure; /* read end: errno of a failed exec; closed by a good one */
	bool ended;
	int code;
};

/* In the child. Everything the parent changed for itself is put back before exec. */
static void child_run(char *const *argv, int go, int failure)
{
	sigset_t none;
	char byte;
	int err;

	if (read(go, &byte, 1) != 1)
		_exit(127); /* the parent gave up */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvp(argv[0], argv);
	err = errno;
	if (write(failure, &err, sizeof(err)) < 0)
		_exit(126);
	_exit(err == ENOENT ? 127 : 126);
}

/* As execvp() searches; so that a misspelt command fails before anything is written. */
static int command_find(const char *name, char **ret)
{
	const char *path = getenv("PATH") ? getenv("PATH") : "/usr/local/bin:/usr/bin:/bin";
	int reason = ENOENT;

	if (strchr(name, '/')) {
		if (access(name, X_OK))
			return -errno;
		*ret = mem_strdup(name);
		return 0;
	}
	while (*path) {
		size_t length = strcspn(path, ":");
		AUTO(free_ptr) char *file = mem_printf("%.*s/%s", (int)length, path, name);

		if (!access(file, X_OK)) {
			*ret = take_ptr(file);
			return 0;
		}
		reason = errno == ENOENT ? reason : errno;
		path += length + (path[length] == ':');
	}
	return -reason;
}

int command_start(char *const *argv, struct command **ret)
{
	AUTO(command_destroy_auto) struct command *command = mem_zalloc(sizeof(*command));
	int go[2], failure[2], err;

	*command =
		(struct command){ .name = argv[0], .pid = -1, .fd = -1, .go = -1, .failure = -1 };
	err = command_find(argv[0], &command->file);
	if (err)
		return err_set(err, "cannot run '%s': %s", argv[0], strerror(-err));
	if (pipe2(go, O_CLOEXEC))
		return err_set(-errno, "cannot start %s: %s", argv[0], strerror(errno));
	command->go = go[1];
	if (pipe2(failure, O_CLOEXEC)) {
		close(go[0]);
		return err_set(-errno, "cannot start %s: %s", argv[0], strerror(errno));
	}
	command->failure = failure[0];
	command->pid = fork();
	if (command->pid == 0) {
		close(go[1]);
		child_run(argv, go[0], failure[1]);
	}
	close(go[0]);
	close(failure[1]);
	if (command->pid < 0)
		return err_set(-errno, "cannot start %s: %s", argv[0], strerror(errno));
	command->fd = (int)syscall(SYS_pidfd_open, command->pid, 0);
	if (command->fd < 0)
		return err_set(-errno, "cannot watch %s: %s", argv[0], strerror(errno));
	*ret = take_ptr(command);
	return 0;
}

void command_destroy(struct command *command)
{
	if (!command)
		return;
	close_fd(&command->fd);
	close_fd(&command->go);
	close_fd(&command->failure);
	free(command->file);
	free(command);
}

pid_t command_pid(const struct command *command)
{
	return command->pid;
}

int command_open(const struct command *command)
{
	return open(command->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

int command_release(struct command *command)
{
	int reason = 0;
	ssize_t got;

	if (write(command->go, "", 1) != 1)
		return err_set(-EPIPE, "%s ended before it was started", command->name);
	do
		got = read(command->failure, &reason, sizeof(reason));
	while (got < 0 && errno == EINTR);
	if (got == 0)
		return 0;
	waitpid(command->pid, NULL, 0);
	command->ended = true;
	command->code = reason == ENOENT ? 127 : 126;
	return err_set(-reason, "cannot run '%s': %s", command->name, strerror(reason));
}

int command_fd(const struct command *command)
{
	return command->fd;
}

bool command_ended(struct command *command, int *ret_code)
{
	int status;

	if (!command->ended && waitpid(command->pid, &status, WNOHANG) == command->pid) {
		command->ended = true;
		command->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	}
	if (command->ended)
		*ret_code = command->code;
	return command->ended;
}

void command_signal(struct command *command, int signal)
{
	if (!command->ended)
		kill(command->pid, signal);
}
