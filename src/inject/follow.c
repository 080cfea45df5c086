// SPDX-License-Identifier: BSD-2-Clause
/*
 * The host's side of the mailbox (wire/engine.h). An engine whose program is about to exec asks to be held: the host attaches
 * to the thread, and at the first instruction of the new program puts the engine in again and lets go.
 *
 * There is one thing to sleep on, the bell, a futex that engines ring. What comes as a signal (a child has stopped or ended,
 * somebody wants to end us) rings it as well: the handler adds 1 before it returns, so that a sleep that is about to begin
 * does not.
 *
 * 1. A thread is attached to only if the memory of its process has our session's number where the request says: ids from
 *    another pid namespace, or of a process that has died since, may be a stranger's.
 * 2. A file that gives privileges is never executed while we are attached: the kernel would leave them out.
 * 3. What a held thread does besides its exec (signals, stops, its end) happens to it as if nobody were attached.
 * 4. The shared memory may hold anything: each field is read once and checked.
 */
#include "inject/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "inject/remote.h"

static const long attached_pause =
	50000000; /* between two looks at a process that is not our child */

/* A thread that is about to exec. After the exec it has its process's id. */
struct held {
	pid_t tid;
	pid_t pid;
};

struct follow {
	struct inject *inject;
	struct engine_shared *shared;
	pid_t pid; /* the command; 0: the process was attached to */
	int process; /* pidfd of what was attached to */
	uint64_t end; /* when to stop; 0: never */
	bool ended;
	ARRAY(struct held) held;
	struct follow_result result;
};

#define X(number) number,
static const int handled[] = { INJECT_SIGNALS(X) SIGCHLD };
#undef X
enum { HANDLED_COUNT = sizeof(handled) / sizeof(handled[0]) };

/* For the handler. */
static struct engine_shared *volatile bell_memory;
static volatile sig_atomic_t command_pid;
static volatile sig_atomic_t stop_wanted;

static void bell_ring(struct engine_shared *shared)
{
	__atomic_fetch_add(&shared->bell, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &shared->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
	int saved = errno;

	/* A terminal has signalled the command itself. */
	if (signal != SIGCHLD && info->si_code != SI_KERNEL && command_pid)
		kill(command_pid, signal);
	if (signal != SIGCHLD)
		stop_wanted = 1;
	bell_ring(bell_memory);
	errno = saved;
}

static void signals_take(struct follow *follow, struct sigaction old[HANDLED_COUNT])
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };

	bell_memory = follow->shared;
	command_pid = follow->pid;
	stop_wanted = 0;
	for (size_t i = 0; i < HANDLED_COUNT; i++) {
		sigaction(handled[i], NULL, &old[i]);
		if (old[i].sa_handler != SIG_IGN || handled[i] == SIGCHLD)
			sigaction(handled[i], &action, NULL);
	}
	sigprocmask(SIG_SETMASK, inject_mask(follow->inject), NULL);
}

static void signals_give(const struct sigaction old[HANDLED_COUNT])
{
	for (size_t i = 0; i < HANDLED_COUNT; i++)
		sigaction(handled[i], &old[i], NULL);
}

static struct held *held_find(struct follow *follow, pid_t tid)
{
	array_each(&follow->held, held)
		if (held->tid == tid)
			return held;
	return NULL;
}

static void held_remove(struct follow *follow, struct held *held)
{
	*held = follow->held.items[--follow->held.count];
}

/* Up to the end of a page at a time: behind the name there may be nothing. */
static int name_read(const struct engine_request *request, char name[PATH_MAX])
{
	enum { PAGE = 4096 };
	size_t size = 0;

	while (size < PATH_MAX) {
		uint64_t at = request->path + size;
		size_t part = PAGE - at % PAGE, left = PATH_MAX - size;
		int err;

		part = part < left ? part : left;
		err = remote_read((pid_t)request->pid, at, name + size, part);
		if (err || memchr(name + size, '\0', part))
			return err;
		size += part;
	}
	return err_set(-ENAMETOOLONG, "process %u executes a name without end", request->pid);
}

/* The file that a process is about to execute, by a name that is right for us. */
static char *path_make(const struct engine_request *request, const char *name)
{
	if (*name == '/')
		return mem_printf("/proc/%u/root%s", request->pid, name);
	if (request->directory == AT_FDCWD)
		return mem_printf("/proc/%u/cwd/%s", request->pid, name);
	return mem_printf("/proc/%u/fd/%d%s%s", request->pid, request->directory, *name ? "/" : "",
			  name);
}

static int file_check(const struct engine_request *request, enum program_obstacle *ret_obstacle)
{
	AUTO(free_ptr) char *path = NULL;
	AUTO(free_ptr) char *root = mem_printf("/proc/%u/root", request->pid);
	char name[PATH_MAX];
	struct program_user user;
	enum program_obstacle obstacle;
	int err = name_read(request, name);

	err = err ? err : program_user_get((pid_t)request->pid, &user);
	if (err)
		return err;
	path = path_make(request, name);
	obstacle = program_check(path, root, &user);
	if (!obstacle)
		return 0;
	*ret_obstacle = obstacle;
	return err_set(-EPERM, "%s is one of the %s", name, program_obstacle_text(obstacle));
}

static int session_check(const struct follow *follow, const struct engine_request *request)
{
	struct engine_boot boot;
	int err = remote_read((pid_t)request->pid, request->boot, &boot, sizeof(boot));

	if (!err && boot.session != inject_session(follow->inject))
		err = err_set(-ESRCH, "process %u is none of ours", request->pid);
	return err;
}

static int attach(const struct engine_request *request)
{
	long options = PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD;

	return ptrace(PTRACE_SEIZE, request->tid, NULL, options)
		       ? err_set(-errno, "cannot attach to thread %u: %s", request->tid,
				 strerror(errno))
		       : 0;
}

static int hold(struct follow *follow, const struct engine_request *request)
{
	enum program_obstacle obstacle = PROGRAM_OTHER;
	int err = session_check(follow, request);

	err = err ? err : file_check(request, &obstacle);
	err = err ? err : attach(request);
	if (err)
		follow->result.native[obstacle]++;
	else
		*array_push(&follow->held) =
			(struct held){ .tid = (pid_t)request->tid, .pid = (pid_t)request->pid };
	return err;
}

/* Only a thread that is stopped can be let go; the signal for which it may have stopped, it gets. */
static void let_go(struct follow *follow, struct held *held)
{
	int status = 0;

	ptrace(PTRACE_INTERRUPT, held->tid, NULL, NULL);
	if (remote_look(held->tid, true, &status) == REMOTE_STOPPED) {
		remote_see(held->tid);
		ptrace(PTRACE_DETACH, held->tid, NULL, (long)(status >> 16 ? 0 : WSTOPSIG(status)));
	}
	held_remove(follow, held);
}

static int request_serve(struct follow *follow, const struct engine_request *request)
{
	struct held *held;

	switch (request->kind) {
	case ENGINE_REQUEST_EXEC:
		return hold(follow, request);
	case ENGINE_REQUEST_EXEC_FAILED:
		held = held_find(follow, (pid_t)request->tid);
		if (held)
			let_go(follow, held);
		return held ? 0 : err_set(-ESRCH, "thread %u is not held", request->tid);
	}
	return err_set(-EINVAL, "a request of unknown kind %u", request->kind);
}

static void request_answer(struct engine_request *slot, int answer)
{
	__atomic_store_n(&slot->answer, answer, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->state, ENGINE_SLOT_ANSWERED, __ATOMIC_RELEASE);
	syscall(SYS_futex, &slot->state, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void requests_serve(struct follow *follow, bool closed)
{
	for (size_t i = 0; i < ENGINE_REQUESTS; i++) {
		struct engine_request *slot = &follow->shared->requests[i], request;
		int answer;

		if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != ENGINE_SLOT_ASKED)
			continue;
		memcpy(&request, slot, sizeof(request));
		answer = closed ? -ESHUTDOWN : request_serve(follow, &request);
		if (answer && !closed)
			log_debug("%s", err_text());
		request_answer(slot, answer);
	}
}

/* False: it runs by itself, or was killed meanwhile; then its end is still to be seen, by us first. */
static bool program_take(struct follow *follow, pid_t pid)
{
	enum program_obstacle obstacle = PROGRAM_OTHER;

	if (!inject_take(follow->inject, pid, &obstacle)) {
		follow->result.taken++;
		return true;
	}
	follow->result.native[obstacle]++;
	log_debug("%s", err_text());
	return false;
}

/* Whether the one with this id, of a held thread or of its process, has done something that ends the holding. */
static bool held_look(struct follow *follow, pid_t id)
{
	int status = 0;
	enum remote_event event = remote_look(id, false, &status);
	bool is_exec = event == REMOTE_STOPPED && status >> 16 == PTRACE_EVENT_EXEC, taken = false;

	if (event == REMOTE_STOPPED || (event == REMOTE_ENDED && id != follow->pid))
		remote_see(id);
	if (is_exec)
		taken = program_take(follow, id);
	else if (event == REMOTE_STOPPED)
		remote_resume(id, status);
	return taken || event == REMOTE_ENDED;
}

static void held_serve(struct follow *follow)
{
	size_t i = 0;

	while (i < follow->held.count) {
		struct held held = follow->held.items[i];

		if (held_look(follow, held.tid) ||
		    (held.pid != held.tid && held_look(follow, held.pid)))
			held_remove(follow, &follow->held.items[i]);
		else
			i++;
	}
}

static void end_serve(struct follow *follow)
{
	int status = 0;

	if (remote_look(follow->pid, false, &status) != REMOTE_ENDED)
		return;
	remote_see(follow->pid);
	command_pid = 0;
	follow->ended = true;
	follow->result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Of a process that is not our child only its end can be seen, and nothing rings then. */
static void attached_serve(struct follow *follow)
{
	struct pollfd event = { .fd = follow->process, .events = POLLIN };

	follow->result.ended = poll(&event, 1, 0) == 1;
	follow->ended = follow->result.ended || stop_wanted ||
			(follow->end && clock_monotonic() >= follow->end);
}

/* Those that outlive the command go on without us. What was attached to is given back, and records until then. */
static void follow_close(struct follow *follow)
{
	if (follow->pid)
		__atomic_store_n(&follow->shared->closed, 1, __ATOMIC_SEQ_CST);
	requests_serve(follow, true);
	while (follow->held.count)
		let_go(follow, &follow->held.items[0]);
	array_deinit(&follow->held);
}

static void bell_wait(const struct follow *follow, uint32_t bell)
{
	const struct timespec moment = { .tv_nsec = attached_pause };

	syscall(SYS_futex, &follow->shared->bell, FUTEX_WAIT, bell, follow->pid ? NULL : &moment,
		NULL, 0);
}

static void serve(struct follow *follow, struct follow_result *ret)
{
	struct sigaction old[HANDLED_COUNT];

	signals_take(follow, old);
	for (;;) {
		uint32_t bell = __atomic_load_n(&follow->shared->bell, __ATOMIC_SEQ_CST);

		requests_serve(follow, false);
		held_serve(follow);
		if (follow->pid)
			end_serve(follow);
		else
			attached_serve(follow);
		if (follow->ended)
			break;
		bell_wait(follow, bell);
	}
	follow_close(follow);
	signals_give(old);
	*ret = follow->result;
}

int follow_run(struct inject *inject, pid_t pid, struct follow_result *ret)
{
	struct follow follow = { .inject = inject, .shared = inject_shared(inject), .pid = pid };

	serve(&follow, ret);
	return 0;
}

int follow_attached(struct inject *inject, int process, uint64_t duration,
		    struct follow_result *ret)
{
	struct follow follow = {
		.inject = inject,
		.shared = inject_shared(inject),
		.process = process,
		.end = duration ? clock_monotonic() + duration : 0,
	};

	serve(&follow, ret);
	return 0;
}
