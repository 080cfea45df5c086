// SPDX-License-Identifier: BSD-2-Clause
/*
 * A virtual machine listens on a socket /tmp/.java_pidN, where N is its pid in its own namespace.
 * It creates that socket on request: the request is a file .attach_pidN in its working folder and a
 * SIGQUIT. Without the file, that signal makes a machine print its threads, and it ends any other
 * program; so it is only sent to processes that have a machine and handle the signal.
 */
#include "java/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"

enum { WAIT_STEPS = 100, WAIT_MS = 100, ANSWER_MS = 60000, ANSWER_MAX = 4096 };

static bool maps_machine(pid_t pid)
{
	AUTO(free_ptr) char *path = mem_printf("/proc/%d/maps", (int)pid);
	AUTO(free_ptr) char *line = NULL;
	FILE *file = fopen(path, "re");
	size_t room = 0;
	bool found = false;

	while (file && !found && getline(&line, &room, file) > 0)
		found = strstr(line, "/libjvm.so");
	if (file)
		fclose(file);
	return found;
}

/* Whether SIGQUIT is handled, and the pid in the innermost namespace. */
static bool status_read(pid_t pid, int *ret_pid)
{
	AUTO(free_ptr) char *path = mem_printf("/proc/%d/status", (int)pid);
	AUTO(free_ptr) char *line = NULL;
	FILE *file = fopen(path, "re");
	size_t room = 0;
	bool handled = false;

	*ret_pid = (int)pid;
	while (file && getline(&line, &room, file) > 0) {
		if (!strncmp(line, "SigCgt:", 7))
			handled = strtoull(line + 7, NULL, 16) >> (SIGQUIT - 1) & 1;
		if (!strncmp(line, "NSpid:", 6))
			*ret_pid = (int)strtol(strrchr(line, '\t'), NULL, 10);
	}
	if (file)
		fclose(file);
	return handled;
}

static int socket_open(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	AUTO(close_fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
		return -errno;
	return take_fd(fd);
}

/* Makes the machine listen. */
static int machine_wake(pid_t pid, int its_pid, const char *path)
{
	AUTO(free_ptr)
	char *file = mem_printf("/proc/%d/cwd/.attach_pid%d", (int)pid, its_pid);
	int fd = open(file, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600), found;

	if (fd < 0 && errno != EEXIST) {
		free(file);
		file = mem_printf("/proc/%d/root/tmp/.attach_pid%d", (int)pid, its_pid);
		fd = open(file, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	}
	if (fd < 0 && errno != EEXIST)
		return err_set(-errno, "%s: cannot be made: %s; the machine's own user can", file,
			       strerror(errno));
	if (fd >= 0)
		close(fd);
	found = kill(pid, SIGQUIT) ? -errno : -ENOENT;
	for (int i = 0; i < WAIT_STEPS && found == -ENOENT; i++) {
		poll(NULL, 0, WAIT_MS);
		found = socket_open(path);
	}
	unlink(file);
	return found >= 0 ? found
			  : err_set(found,
				    "process %d does not listen at %s: %s; was it started "
				    "with -XX:+DisableAttachMechanism?",
				    (int)pid, path, strerror(-found));
}

static int machine_connect(pid_t pid, int *ret)
{
	int its_pid, fd;
	bool handled = status_read(pid, &its_pid);
	AUTO(free_ptr)
	char *path = mem_printf("/proc/%d/root/tmp/.java_pid%d", (int)pid, its_pid);

	if (!maps_machine(pid))
		return err_set(-EINVAL,
			       "process %d: no Java virtual machine, or not yours; other "
			       "programs are taken with --with engine",
			       (int)pid);
	fd = socket_open(path);
	if (fd == -ENOENT || fd == -ECONNREFUSED)
		fd = handled ? machine_wake(pid, its_pid, path)
			     : err_set(-ENOTSUP,
				       "process %d does not let itself be attached to "
				       "(-Xrs)",
				       (int)pid);
	else if (fd < 0)
		err_set(fd, "%s: cannot be connected: %s", path, strerror(-fd));
	if (fd < 0)
		return fd;
	*ret = fd;
	return 0;
}

/* The protocol's version, the command and three arguments, each with a NUL at its end. */
static int request_send(int fd, const char *agent, const char *options)
{
	const char *const parts[] = { "1", "load", agent, "true", options };

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		size_t size = strlen(parts[i]) + 1;

		if (send(fd, parts[i], size, MSG_NOSIGNAL) != (ssize_t)size)
			return err_set(-errno, "the Java virtual machine does not listen: %s",
				       strerror(errno));
	}
	return 0;
}

static int answer_read(int fd, pid_t pid)
{
	char answer[ANSWER_MAX + 1];
	size_t size = 0;
	ssize_t got = 1;

	while (size < ANSWER_MAX && got > 0) {
		struct pollfd wait = { .fd = fd, .events = POLLIN };

		if (poll(&wait, 1, ANSWER_MS) <= 0)
			return err_set(-ETIMEDOUT, "process %d does not answer", (int)pid);
		got = read(fd, answer + size, ANSWER_MAX - size);
		size += got > 0 ? (size_t)got : 0;
	}
	answer[size] = 0;
	/* "0\nreturn code: 0\n"; versions before 10 say the second code only. */
	if (!strncmp(answer, "0\n", 2) &&
	    (!strstr(answer, "return code:") || strstr(answer, "return code: 0")))
		return 0;
	answer[strcspn(answer, "\r")] = 0;
	return err_set(-EIO, "process %d does not load the agent: %s", (int)pid,
		       strstr(answer, "return code: -1")
			       ? "it was recorded before, or its user cannot read what this "
				 "process has; be the same user, and record a machine once"
			       : answer);
}

int java_attach(pid_t pid, const char *agent, const char *options)
{
	AUTO(close_fd) int fd = -1;
	int err = machine_connect(pid, &fd);

	err = err ? err : request_send(fd, agent, options);
	return err ? err : answer_read(fd, pid);
}
