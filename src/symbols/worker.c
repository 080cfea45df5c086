// SPDX-License-Identifier: BSD-2-Clause
/*
 * One process per file. Forking costs a millisecond and asking some ten microseconds, which is little next to
 * reading DWARF; checking DWARF well enough to trust the library with it would be writing the library again.
 *
 * 1. The worker holds no descriptor but the file, the socket and what libdw opens: nothing of the collector's
 *    is kept open or written to by it, and its buffered output is never flushed (_exit).
 * 2. Each load and each answer has its own allowance of CPU and of time; the kernel ends a worker that goes
 *    over it (SIGPROF, SIGALRM), and then the socket reads as closed. The parent needs no clock.
 * 3. The parent believes nothing in a reply that it has not checked: the worker may be corrupted.
 */
#include "symbols/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "symbols/resolver.h"

enum { FD_SOCKET = 3, FD_FILE = 4, FD_FIRST_FREE = 5 };

static bool socket_read(int fd, void *ret, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t got = recv(fd, (char *)ret + done, size - done, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		done += (size_t)got;
	}
	return true;
}

static bool socket_write(int fd, const void *data, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t put = send(fd, (const char *)data + done, size - done, MSG_NOSIGNAL);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return false;
		done += (size_t)put;
	}
	return true;
}

/* The collector's handlers must not run here, and an interrupt is the collector's to handle. */
static void signals_reset(void)
{
	static const int ignored[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE };
	sigset_t none;

	for (int signal_number = 1; signal_number < NSIG; signal_number++)
		signal(signal_number, SIG_DFL);
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void descriptors_keep(int file, int socket)
{
	int file_copy = fcntl(file, F_DUPFD, FD_FIRST_FREE);
	int socket_copy = fcntl(socket, F_DUPFD, FD_FIRST_FREE);
	int null = open("/dev/null", O_RDWR);

	for (int fd = 0; fd < FD_SOCKET; fd++)
		dup2(null, fd);
	if (dup2(file_copy, FD_FILE) < 0 || dup2(socket_copy, FD_SOCKET) < 0)
		_exit(1);
	close_range(FD_FIRST_FREE, ~0U, 0);
}

static void memory_limit(uint64_t memory)
{
	AUTO(close_file) FILE *file = fopen("/proc/self/statm", "re");
	AUTO(close_file) FILE *first_to_go = fopen("/proc/self/oom_score_adj", "we");
	struct rlimit limit, no_core = {};
	rlim_t page = (rlim_t)sysconf(_SC_PAGESIZE), wanted;
	unsigned long pages;

	if (first_to_go)
		fputs("1000", first_to_go);
	setrlimit(RLIMIT_CORE, &no_core);
	if (!file || fscanf(file, "%lu", &pages) != 1 || getrlimit(RLIMIT_AS, &limit) < 0)
		return;
	wanted = pages * page + memory;
	limit.rlim_cur = wanted < limit.rlim_cur ? wanted : limit.rlim_cur;
	setrlimit(RLIMIT_AS, &limit);
}

static void allowance_renew(const struct worker_limits *limits)
{
	const struct itimerval cpu = { .it_value.tv_sec = limits->cpu_seconds };

	setitimer(ITIMER_PROF, &cpu, NULL);
	alarm(limits->wall_seconds);
}

/* While the parent thinks, the worker may wait as long as it likes. */
static void allowance_end(void)
{
	alarm(0);
}

static uint32_t text_put(struct strbuf *text, const char *string)
{
	size_t at = text->length;

	if (!string || text->length + strlen(string) >= WORKER_TEXT_MAX)
		return 0;
	strbuf_add(text, string, strlen(string) + 1);
	return (uint32_t)at;
}

static void reply_make(int result, const struct symbol_answer *answer, struct strbuf *ret)
{
	struct worker_frame frames[RESOLVER_FRAMES_MAX];
	struct worker_reply reply = { .result = result };
	struct strbuf text = {};

	strbuf_putc(&text, '\0');
	if (result == 0) {
		reply.frame_count = (uint32_t)answer->frame_count;
		reply.address = answer->address;
		reply.size = answer->size;
	}
	for (uint32_t i = 0; i < reply.frame_count; i++) {
		frames[i].name = text_put(&text, answer->frames[i].name);
		frames[i].linkage = text_put(&text, answer->frames[i].linkage);
		frames[i].file = text_put(&text, answer->frames[i].file);
		frames[i].line = answer->frames[i].line;
	}
	reply.text_size = (uint32_t)text.length;
	ret->length = 0;
	strbuf_add(ret, &reply, sizeof(reply));
	strbuf_add(ret, frames, reply.frame_count * sizeof(frames[0]));
	strbuf_add(ret, text.text, text.length);
	strbuf_deinit(&text);
}

static void worker_serve(const char *path, bool with_dwarf, const struct worker_limits *limits)
{
	struct resolver *resolver = NULL;
	struct strbuf reply = {};
	uint64_t address;

	while (socket_read(FD_SOCKET, &address, sizeof(address))) {
		struct symbol_answer answer;
		int result;

		allowance_renew(limits);
		if (!resolver)
			resolver = resolver_create(FD_FILE, path, with_dwarf);
		result = resolver_resolve(resolver, address, &answer);
		allowance_end();
		reply_make(result, &answer, &reply);
		if (!socket_write(FD_SOCKET, reply.text, reply.length))
			break;
	}
}

/* Before every handler that the collector registered: those are for its own end. */
static void exit_at_once(void)
{
	_exit(1);
}

static _Noreturn void worker_main(int fd, int socket, const char *path, bool with_dwarf,
				  const struct worker_limits *limits)
{
	atexit(exit_at_once);
	signals_reset();
	descriptors_keep(fd, socket);
	memory_limit(limits->memory);
	worker_serve(path, with_dwarf, limits);
	_exit(0);
}

int worker_start(struct worker *worker, int fd, const char *path, bool with_dwarf,
		 const struct worker_limits *limits)
{
	int sockets[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0)
		return err_set(-errno, "%s: cannot start its symbol reader: socketpair: %m", path);
	pid = fork();
	if (pid < 0) {
		int err = err_set(-errno, "%s: cannot start its symbol reader: fork: %m", path);

		close(sockets[0]);
		close(sockets[1]);
		return err;
	}
	if (pid == 0)
		worker_main(fd, sockets[1], path, with_dwarf, limits);
	close(sockets[1]);
	*worker = (struct worker){ .pid = pid, .socket = sockets[0] };
	return 0;
}

const struct worker_frame *worker_reply_frames(const struct worker_reply *reply)
{
	return (const struct worker_frame *)(reply + 1);
}

const char *worker_reply_text(const struct worker_reply *reply)
{
	return (const char *)(worker_reply_frames(reply) + reply->frame_count);
}

static bool header_sound(const struct worker_reply *reply)
{
	return reply->text_size > 0 && reply->text_size <= WORKER_TEXT_MAX &&
	       reply->frame_count <= RESOLVER_FRAMES_MAX &&
	       (reply->result < 0 || reply->frame_count > 0);
}

static bool strings_sound(const struct worker_reply *reply)
{
	const struct worker_frame *frames = worker_reply_frames(reply);

	for (uint32_t i = 0; i < reply->frame_count; i++)
		if (frames[i].name >= reply->text_size || frames[i].linkage >= reply->text_size ||
		    frames[i].file >= reply->text_size)
			return false;
	return worker_reply_text(reply)[reply->text_size - 1] == '\0';
}

int worker_ask(struct worker *worker, uint64_t address, struct worker_reply **ret)
{
	AUTO(free_ptr) struct worker_reply *reply = NULL;
	struct worker_reply header;
	size_t rest;

	if (!socket_write(worker->socket, &address, sizeof(address)) ||
	    !socket_read(worker->socket, &header, sizeof(header)) || !header_sound(&header))
		return -EPIPE;
	rest = header.frame_count * sizeof(struct worker_frame) + header.text_size;
	reply = mem_alloc(sizeof(header) + rest);
	*reply = header;
	if (!socket_read(worker->socket, reply + 1, rest) || !strings_sound(reply))
		return -EPIPE;
	*ret = take_ptr(reply);
	return 0;
}

int worker_stop(struct worker *worker)
{
	int status = 0;

	if (worker->pid <= 0)
		return 0;
	kill(worker->pid, SIGKILL);
	close(worker->socket);
	while (waitpid(worker->pid, &status, 0) < 0)
		if (errno != EINTR)
			break;
	worker->pid = 0;
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}
