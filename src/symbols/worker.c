// SPDX-License-Identifier: BSD-2-Clause
/*
 * One process per file. Forking costs a millisecond and asking some thirty microseconds, for one
 * address or for some hundreds; checking DWARF so thoroughly that libdw could be trusted with it
 * would mean to rewrite libdw.
 *
 * 1. The worker holds no descriptor but the file, the socket and what libdw opens: nothing of the
 *    recorder's is kept open or written to by it, and its buffered output is never flushed
 *    (_exit).
 * 2. Each load and each request has its own allowance of CPU and of time; the kernel ends a worker
 *    that goes over it (SIGPROF, SIGALRM), and then the socket reads as closed. The parent needs no
 *    clock.
 * 3. The parent checks every number in a reply, because the worker's memory may be corrupted.
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

#include "base/array.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "symbols/resolver.h"
#include "symbols/spawner.h"
#include "symbols/worker_private.h"

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

/* The recorder's handlers must not run here, and an interrupt is the recorder's to handle. */
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

static void standard_close(void)
{
	int null = open("/dev/null", O_RDWR);

	for (int fd = 0; fd < FD_SOCKET; fd++)
		dup2(null, fd);
}

static void descriptors_keep(int file, int socket)
{
	int file_copy = fcntl(file, F_DUPFD, FD_FIRST_FREE);
	int socket_copy = fcntl(socket, F_DUPFD, FD_FIRST_FREE);

	standard_close();
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

/* Between requests, the worker may wait without a limit. */
static void allowance_end(void)
{
	alarm(0);
}

/* A reply under construction: the rows so far, and every string that was ever sent. */
struct speaker {
	struct strtab strings; /* number 0 is "" */
	size_t strings_sent;
	size_t unsent; /* bytes of the strings after those */
	ARRAY(struct worker_answer) answers;
	ARRAY(struct worker_row) rows;
	struct strbuf text;
};

static uint32_t string_number(struct speaker *speaker, const char *text)
{
	size_t before = speaker->strings.count, size = text ? strlen(text) + 1 : 0;
	uint32_t number;

	if (!text || speaker->unsent + size > WORKER_TEXT_MAX)
		return 0;
	number = strtab_add(&speaker->strings, text);
	speaker->unsent += speaker->strings.count > before ? size : 0;
	return number;
}

static void frames_say(struct speaker *speaker, struct resolver *resolver, uint64_t address)
{
	struct symbol_answer found;
	int result = resolver_resolve(resolver, address, &found);

	*array_push(&speaker->answers) = (struct worker_answer){ .result = result };
	if (result)
		return;
	speaker->answers.items[speaker->answers.count - 1] = (struct worker_answer){
		.address = found.address,
		.size = found.size,
		.data = found.data,
		.first = (uint32_t)speaker->rows.count,
		.count = (uint32_t)found.frame_count,
	};
	for (size_t i = 0; i < found.frame_count; i++)
		*array_push(&speaker->rows) = (struct worker_row){
			.texts = { string_number(speaker, found.frames[i].name),
				   string_number(speaker, found.frames[i].linkage),
				   string_number(speaker, found.frames[i].file) },
			.numbers = { found.frames[i].line },
		};
}

static uint64_t place_of(const struct symbol_answer *answer)
{
	uint64_t place = answer->address;

	for (size_t i = 0; i < answer->frame_count; i++) {
		place = hash64_pair(place, (uintptr_t)answer->frames[i].name);
		place = hash64_pair(place, (uintptr_t)answer->frames[i].file);
		place = hash64_pair(place, answer->frames[i].line);
	}
	return place;
}

static void place_say(struct speaker *speaker, struct resolver *resolver, uint64_t address)
{
	struct symbol_answer found;
	struct worker_answer answer = { .result = resolver_resolve(resolver, address, &found) };

	if (!answer.result)
		answer.address = place_of(&found);
	*array_push(&speaker->answers) = answer;
}

static void parameters_say(struct speaker *speaker, struct resolver *resolver, uint64_t address)
{
	struct symbol_parameter found[SYMBOL_PARAMETERS_MAX];
	size_t count = 0;
	int result = resolver_parameters(resolver, address, found, &count);

	*array_push(&speaker->answers) = (struct worker_answer){
		.result = result,
		.first = (uint32_t)speaker->rows.count,
		.count = (uint32_t)count,
	};
	for (size_t i = 0; i < count; i++)
		*array_push(&speaker->rows) = (struct worker_row){
			.texts = { string_number(speaker, found[i].name),
				   string_number(speaker, found[i].type),
				   string_number(speaker, found[i].enumerators) },
			.numbers = { found[i].argument, found[i].encoding, found[i].size },
		};
}

static void lines_say(struct speaker *speaker, struct resolver *resolver, uint64_t unit,
		      uint64_t first)
{
	struct symbol_line lines[WORKER_LINES_MAX];
	size_t units = 0;
	size_t count = resolver_lines(resolver, unit, first, WORKER_LINES_MAX, lines, &units);

	*array_push(&speaker->answers) = (struct worker_answer){ .count = (uint32_t)count };
	*array_push(&speaker->answers) = (struct worker_answer){ .size = units };
	for (size_t i = 0; i < count; i++)
		*array_push(&speaker->rows) = (struct worker_row){
			.texts = { string_number(speaker, lines[i].file) },
			.numbers = { lines[i].line, (uint32_t)lines[i].address,
				     (uint32_t)(lines[i].address >> 32) },
		};
}

static void names_say(struct speaker *speaker, struct resolver *resolver, uint64_t which,
		      uint64_t first)
{
	struct symbol_name names[WORKER_NAMES_MAX];
	size_t count = resolver_names(resolver,
				      which == SYMBOL_OBJECTS ? SYMBOL_OBJECTS : SYMBOL_FUNCTIONS,
				      first, WORKER_NAMES_MAX, names);

	*array_push(&speaker->answers) = (struct worker_answer){ .count = (uint32_t)count };
	*array_push(&speaker->answers) = (struct worker_answer){};
	for (size_t i = 0; i < count; i++)
		*array_push(&speaker->rows) = (struct worker_row){
			.texts = { string_number(speaker, names[i].name),
				   string_number(speaker, names[i].linkage) },
			.numbers = { names[i].size < UINT32_MAX ? (uint32_t)names[i].size
								: UINT32_MAX,
				     (uint32_t)names[i].address,
				     (uint32_t)(names[i].address >> 32) },
		};
}

static void request_answer(struct speaker *speaker, struct resolver *resolver,
			   const struct worker_request *request, const uint64_t *addresses)
{
	if (request->question == WORKER_LINES) {
		if (request->count == 2)
			lines_say(speaker, resolver, addresses[0], addresses[1]);
		return;
	}
	if (request->question == WORKER_NAMES) {
		if (request->count == 2)
			names_say(speaker, resolver, addresses[0], addresses[1]);
		return;
	}
	for (uint32_t i = 0; i < request->count; i++)
		if (request->question == WORKER_PARAMETERS)
			parameters_say(speaker, resolver, addresses[i]);
		else if (request->question == WORKER_PLACES)
			place_say(speaker, resolver, addresses[i]);
		else
			frames_say(speaker, resolver, addresses[i]);
}

static bool speaker_send(struct speaker *speaker)
{
	struct worker_reply reply = {
		.answer_count = (uint32_t)speaker->answers.count,
		.row_count = (uint32_t)speaker->rows.count,
		.string_count = (uint32_t)(speaker->strings.count - speaker->strings_sent),
	};
	struct strbuf *text = &speaker->text;

	text->length = speaker->unsent = 0;
	for (; speaker->strings_sent < speaker->strings.count; speaker->strings_sent++) {
		const char *string = strtab_get(&speaker->strings, (uint32_t)speaker->strings_sent);

		strbuf_add(text, string, strlen(string) + 1);
	}
	reply.text_size = (uint32_t)text->length;
	return socket_write(FD_SOCKET, &reply, sizeof(reply)) &&
	       socket_write(FD_SOCKET, speaker->answers.items,
			    reply.answer_count * sizeof(struct worker_answer)) &&
	       socket_write(FD_SOCKET, speaker->rows.items,
			    reply.row_count * sizeof(struct worker_row)) &&
	       socket_write(FD_SOCKET, text->text, text->length);
}

static bool request_read(struct worker_request *ret, uint64_t *ret_addresses)
{
	return socket_read(FD_SOCKET, ret, sizeof(*ret)) && ret->count <= SYMBOLS_BATCH_MAX &&
	       socket_read(FD_SOCKET, ret_addresses, ret->count * sizeof(*ret_addresses));
}

static void worker_serve(const char *path, bool with_dwarf, const struct worker_limits *limits)
{
	struct resolver *resolver = NULL;
	struct speaker speaker = {};
	struct worker_request request;
	uint64_t addresses[SYMBOLS_BATCH_MAX];

	strtab_add(&speaker.strings, "");
	speaker.strings_sent = 1;
	while (request_read(&request, addresses)) {
		allowance_renew(limits);
		if (!resolver)
			resolver = resolver_create(FD_FILE, path, with_dwarf);
		speaker.answers.count = speaker.rows.count = 0;
		request_answer(&speaker, resolver, &request, addresses);
		allowance_end();
		if (!speaker_send(&speaker))
			break;
	}
}

/* Before every handler that the recorder registered: those are for its own end. */
static void exit_at_once(void)
{
	_exit(1);
}

int worker_process_begin(int socket)
{
	int copy = fcntl(socket, F_DUPFD, FD_FIRST_FREE);

	atexit(exit_at_once);
	signals_reset();
	standard_close();
	if (dup2(copy, FD_SOCKET) < 0)
		_exit(1);
	close_range(FD_SOCKET + 1, ~0U, 0);
	return FD_SOCKET;
}

_Noreturn void worker_main(int fd, int socket, const char *path, bool with_dwarf,
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
	if (!spawner_fork(fd, sockets[1], path, with_dwarf, limits, &pid))
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
	*worker = (struct worker){ .pid = pid, .socket = sockets[0], .string_count = 1 };
	return 0;
}

const struct worker_answer *worker_reply_answers(const struct worker_reply *reply)
{
	return (const struct worker_answer *)(reply + 1);
}

const struct worker_row *worker_reply_rows(const struct worker_reply *reply)
{
	return (const struct worker_row *)(worker_reply_answers(reply) + reply->answer_count);
}

const char *worker_reply_text(const struct worker_reply *reply)
{
	return (const char *)(worker_reply_rows(reply) + reply->row_count);
}

static size_t reply_rest(const struct worker_reply *reply)
{
	return reply->answer_count * sizeof(struct worker_answer) +
	       reply->row_count * sizeof(struct worker_row) + reply->text_size;
}

static bool header_sound(const struct worker_reply *reply, size_t count)
{
	return reply->text_size <= WORKER_TEXT_MAX && reply->answer_count == count &&
	       reply->row_count <= count * RESOLVER_FRAMES_MAX;
}

static bool answers_sound(const struct worker_reply *reply, enum worker_question question)
{
	const struct worker_answer *answers = worker_reply_answers(reply);
	static const uint32_t mosts[] = { [WORKER_FRAMES] = RESOLVER_FRAMES_MAX,
					  [WORKER_PLACES] = 0,
					  [WORKER_PARAMETERS] = SYMBOL_PARAMETERS_MAX,
					  [WORKER_LINES] = WORKER_LINES_MAX,
					  [WORKER_NAMES] = WORKER_NAMES_MAX };
	uint32_t least = question == WORKER_FRAMES, most = mosts[question];

	for (uint32_t i = 0; i < reply->answer_count; i++)
		if (answers[i].result == 0 &&
		    (answers[i].count < least || answers[i].count > most ||
		     answers[i].first > reply->row_count ||
		     answers[i].count > reply->row_count - answers[i].first))
			return false;
	return true;
}

static bool rows_sound(const struct worker_reply *reply, enum worker_question question,
		       uint32_t string_count)
{
	const struct worker_row *rows = worker_reply_rows(reply);

	for (uint32_t i = 0; i < reply->row_count; i++) {
		for (int text = 0; text < 3; text++)
			if (rows[i].texts[text] >= string_count)
				return false;
		if (question == WORKER_PARAMETERS && (rows[i].numbers[0] >= SYMBOL_PARAMETERS_MAX ||
						      rows[i].numbers[1] >= SYMBOL_ENCODING_COUNT))
			return false;
	}
	return true;
}

/* As many strings as were announced, and nothing after them. */
static bool text_sound(const struct worker_reply *reply)
{
	const char *text = worker_reply_text(reply), *end = text + reply->text_size;
	uint32_t count = 0;

	for (; text < end; count++) {
		text = memchr(text, '\0', (size_t)(end - text));
		if (!text)
			return false;
		text++;
	}
	return count == reply->string_count;
}

static bool request_write(int socket, enum worker_question question, const uint64_t *addresses,
			  size_t count)
{
	struct worker_request request = { question, (uint32_t)count };

	return socket_write(socket, &request, sizeof(request)) &&
	       socket_write(socket, addresses, count * sizeof(*addresses));
}

static int reply_take(struct worker *worker, enum worker_question question, size_t count,
		      struct worker_reply **ret)
{
	AUTO(free_ptr) struct worker_reply *reply = NULL;
	struct worker_reply header;
	size_t rest;

	if (!socket_read(worker->socket, &header, sizeof(header)) || !header_sound(&header, count))
		return -EPIPE;
	rest = reply_rest(&header);
	reply = mem_alloc(sizeof(header) + rest);
	*reply = header;
	if (!socket_read(worker->socket, reply + 1, rest) || !answers_sound(reply, question) ||
	    !text_sound(reply) || reply->string_count > UINT32_MAX - worker->string_count ||
	    !rows_sound(reply, question, worker->string_count + reply->string_count))
		return -EPIPE;
	worker->string_count += reply->string_count;
	*ret = take_ptr(reply);
	return 0;
}

/* Places of nothing: a question like others, whose reply is empty. */
void worker_load(struct worker *worker)
{
	worker->loading = request_write(worker->socket, WORKER_PLACES, NULL, 0);
}

static int load_end(struct worker *worker)
{
	AUTO(free_ptr) struct worker_reply *reply = NULL;

	if (!worker->loading)
		return 0;
	worker->loading = false;
	return reply_take(worker, WORKER_PLACES, 0, &reply);
}

int worker_ask(struct worker *worker, enum worker_question question, const uint64_t *addresses,
	       size_t count, struct worker_reply **ret)
{
	if (load_end(worker) || !request_write(worker->socket, question, addresses, count))
		return -EPIPE;
	return reply_take(worker, question, count, ret);
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
