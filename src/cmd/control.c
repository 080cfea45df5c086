// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/control.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/strbuf.h"

enum {
	WAITING = 8, /* connections */
	PATIENCE_S = 5, /* with a client that says nothing */
	ANSWER_PATIENCE_S = 60, /* with a server that works */
	ANSWER_MAX = 64 << 20,
};

struct control {
	int listener, stop;
	pthread_t thread;
	control_answer *answer;
	void *ctx;
};

/* An address in the abstract namespace, so that no file is left behind. */
static socklen_t address_make(const char *name, struct sockaddr_un *ret)
{
	int length;

	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	length = snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1, "assay.%s", name);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static bool peer_read(int fd, struct ucred *ret)
{
	socklen_t size = sizeof(*ret);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &size);
}

/* Whether the client is of the same user as we are, or root. */
static bool client_is_trusted(int fd)
{
	struct ucred peer;

	return peer_read(fd, &peer) && (peer.uid == geteuid() || peer.uid == 0);
}

/* Root may talk to any process. */
static bool server_is_trusted(int fd, const struct control_peer *wanted)
{
	struct ucred peer;

	if (!peer_read(fd, &peer) || (wanted->pid && peer.pid != wanted->pid) ||
	    (wanted->owned && peer.uid != wanted->user))
		return false;
	return peer.uid == geteuid() || peer.uid == 0 || geteuid() == 0;
}

static void patience_set(int fd, int seconds)
{
	const struct timeval limit = { .tv_sec = seconds };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

static bool all_send(int fd, const char *text, size_t length)
{
	while (length) {
		ssize_t sent = send(fd, text, length, MSG_NOSIGNAL);

		if (sent <= 0)
			return false;
		text += sent;
		length -= (size_t)sent;
	}
	return true;
}

/* --- The server ------------------------------------------------------------------------------- */

/* False: there was no whole line. */
static bool line_receive(int fd, char line[CONTROL_REQUEST_MAX])
{
	size_t length = 0;

	while (length < CONTROL_REQUEST_MAX) {
		ssize_t got = recv(fd, line + length, CONTROL_REQUEST_MAX - length, 0);
		char *end;

		if (got <= 0)
			return false;
		end = memchr(line + length, '\n', (size_t)got);
		length += (size_t)got;
		if (!end)
			continue;
		*end = '\0';
		return strlen(line) == (size_t)(end - line);
	}
	return false;
}

static void connection_serve(struct control *control, int fd)
{
	AUTO(free_ptr) char *line = mem_zalloc(CONTROL_REQUEST_MAX);
	AUTO(free_ptr) char *answer = NULL;

	patience_set(fd, PATIENCE_S);
	if (!client_is_trusted(fd) || !line_receive(fd, line))
		return;
	answer = control->answer(control->ctx, line);
	all_send(fd, answer, strlen(answer));
}

static void *serve(void *ctx)
{
	struct control *control = ctx;
	struct pollfd events[] = { { .fd = control->listener, .events = POLLIN },
				   { .fd = control->stop, .events = POLLIN } };

	for (;;) {
		AUTO(close_fd) int fd = -1;

		if (poll(events, 2, -1) < 0 && errno != EINTR)
			break;
		if (events[1].revents)
			break;
		if (events[0].revents)
			fd = accept4(control->listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			connection_serve(control, fd);
	}
	return NULL;
}

static int thread_start(struct control *control)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&control->thread, NULL, serve, control);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err ? err_set(-err, "cannot start a thread: %s", strerror(err)) : 0;
}

int control_create(const char *name, control_answer *answer, void *ctx, struct control **ret)
{
	AUTO(close_fd) int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	AUTO(close_fd) int stop = eventfd(0, EFD_CLOEXEC);
	struct sockaddr_un address;
	socklen_t length = address_make(name, &address);
	struct control *control;
	int err;

	if (listener < 0 || stop < 0 || bind(listener, (void *)&address, length) ||
	    listen(listener, WAITING))
		return err_set(-errno, "the socket assay.%s cannot be made: %s", name,
			       strerror(errno));
	control = mem_zalloc(sizeof(*control));
	*control = (struct control){
		.listener = listener, .stop = stop, .answer = answer, .ctx = ctx
	};
	err = thread_start(control);
	if (err) {
		free(control);
		return err;
	}
	listener = stop = -1;
	*ret = control;
	return 0;
}

void control_destroy(struct control *control)
{
	const uint64_t one = 1;

	if (!control)
		return;
	while (write(control->stop, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	pthread_join(control->thread, NULL);
	close_fd(&control->listener);
	close_fd(&control->stop);
	free(control);
}

/* --- The client ------------------------------------------------------------------------------- */

/* An untrusted server is left without having sent it anything. */
static int silence(const char *name)
{
	return err_set(-EIO,
		       "the other side of the socket assay.%s does not answer: it answers only its "
		       "own user and root",
		       name);
}

static int answer_receive(int fd, const char *name, char **ret)
{
	struct strbuf text = {};
	char part[4096];
	ssize_t got;

	while ((got = recv(fd, part, sizeof(part), 0)) > 0 && text.length < ANSWER_MAX)
		strbuf_add(&text, part, (size_t)got);
	if (got < 0 || !text.length) {
		strbuf_deinit(&text);
		return silence(name);
	}
	*ret = text.text;
	return 0;
}

int control_ask(const char *name, const struct control_peer *peer, const char *request, char **ret)
{
	AUTO(close_fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;
	socklen_t length = address_make(name, &address);

	if (fd < 0 || connect(fd, (void *)&address, length))
		return err_set(-ESRCH, "nobody has the socket assay.%s", name);
	if (!server_is_trusted(fd, peer))
		return err_set(-EPERM, "somebody else has the socket assay.%s", name);
	if (strlen(request) + 1 >= CONTROL_REQUEST_MAX || strchr(request, '\n'))
		return err_set(-EINVAL, "a request has too many bytes, or a line feed");
	patience_set(fd, ANSWER_PATIENCE_S);
	if (!all_send(fd, request, strlen(request)) || !all_send(fd, "\n", 1))
		return silence(name);
	return answer_receive(fd, name, ret);
}
