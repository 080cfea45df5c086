// SPDX-License-Identifier: BSD-2-Clause
/*
 * A request is one message: what the worker is to read, with two descriptors, the file and the
 * worker's end of its socket. The reply is the id of a process.
 *
 * 1. Workers are children of whoever asked (CLONE_PARENT), so that it alone waits for them and
 *    learns how they ended.
 * 2. The spawner holds no descriptor but its socket, and ends when that is closed: when the process
 *    that began it ends, however.
 * 3. It is forked while that process is small and before it holds files that others may be waiting
 *    to see closed.
 */
#include "symbols/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symbols/worker_private.h"

struct request {
	struct worker_limits limits;
	bool with_dwarf;
	char path[PATH_MAX]; /* as much as there is of it */
};

enum { REQUEST_FDS = 2 };

/* One is enough for all files, and everybody who opens one would have to pass it on. */
static struct {
	unsigned begun;
	pid_t pid; /* 0: none runs */
	int socket;
} spawner;

union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(REQUEST_FDS * sizeof(int))];
};

/* --- The spawner ------------------------------------------------------------------------------ */

static bool request_read(int socket, struct request *ret, int ret_fds[REQUEST_FDS])
{
	union control control;
	struct iovec part = { ret, sizeof(*ret) - 1 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *header;
	ssize_t got;

	memset(ret, 0, sizeof(*ret));
	do
		got = recvmsg(socket, &message, 0);
	while (got < 0 && errno == EINTR);
	header = CMSG_FIRSTHDR(&message);
	if (got <= 0 || !header || header->cmsg_len != CMSG_LEN(REQUEST_FDS * sizeof(int)))
		return false;
	memcpy(ret_fds, CMSG_DATA(header), REQUEST_FDS * sizeof(int));
	return true;
}

static _Noreturn void serve(int socket)
{
	struct request request;
	int fds[REQUEST_FDS];
	pid_t pid;

	prctl(PR_SET_NAME, "assay-symbols");
	while (request_read(socket, &request, fds)) {
		pid = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
		if (pid == 0)
			worker_main(fds[0], fds[1], request.path, request.with_dwarf,
				    &request.limits);
		for (int i = 0; i < REQUEST_FDS; i++)
			close(fds[i]);
		if (send(socket, &pid, sizeof(pid), MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(0);
}

/* --- Who asks --------------------------------------------------------------------------------- */

void spawner_begin(void)
{
	int sockets[2];

	if (spawner.begun++ || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return;
	spawner.pid = fork();
	if (spawner.pid == 0)
		serve(worker_process_begin(sockets[1]));
	close(sockets[1]);
	spawner.socket = sockets[0];
	if (spawner.pid > 0)
		return;
	spawner.pid = 0;
	close(spawner.socket);
}

static void stop(void)
{
	if (!spawner.pid)
		return;
	kill(spawner.pid, SIGKILL);
	close(spawner.socket);
	while (waitpid(spawner.pid, NULL, 0) < 0)
		if (errno != EINTR)
			break;
	spawner.pid = 0;
}

void spawner_end(void)
{
	if (--spawner.begun == 0)
		stop();
}

static bool request_write(const struct request *request, const int fds[REQUEST_FDS])
{
	union control control = {};
	struct iovec part = { (void *)(uintptr_t)request,
			      offsetof(struct request, path) + strlen(request->path) };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	ssize_t put;

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(REQUEST_FDS * sizeof(int));
	memcpy(CMSG_DATA(header), fds, REQUEST_FDS * sizeof(int));
	do
		put = sendmsg(spawner.socket, &message, MSG_NOSIGNAL);
	while (put < 0 && errno == EINTR);
	return put >= 0;
}

bool spawner_fork(int fd, int socket, const char *path, bool with_dwarf,
		  const struct worker_limits *limits, pid_t *ret)
{
	struct request request = { .limits = *limits, .with_dwarf = with_dwarf };
	ssize_t got = -1;
	pid_t pid;

	if (!spawner.pid)
		return false;
	snprintf(request.path, sizeof(request.path), "%s", path);
	if (request_write(&request, (int[REQUEST_FDS]){ fd, socket }))
		do
			got = recv(spawner.socket, &pid, sizeof(pid), 0);
		while (got < 0 && errno == EINTR);
	if (got != sizeof(pid) || pid <= 0) {
		stop();
		return false;
	}
	*ret = pid;
	return true;
}
