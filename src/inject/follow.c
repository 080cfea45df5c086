// SPDX-License-Identifier: BSD-2-Clause
/*
 * The host's side of the mailbox (wire/engine.h). An engine whose program is about to exec asks to
 * be held: the host attaches to the thread, and at the first instruction of the new program puts
 * the engine in again and lets go.
 *
 * Each process's memory holds a futex, the bell, which its engine rings, and we have one of our
 * own. Signals (a child has stopped or ended, we are told to end) ring ours: the handler adds 1 to
 * it before it returns, so that a sleep which is about to begin returns at once.
 *
 * 1. A thread is attached to only if the memory of its process has our session's number where the
 *    request says: an id from another pid namespace, or of a process that has died since, may be
 *    that of a process which is none of ours.
 * 2. A file that gives privileges is never executed while we are attached: the kernel would leave
 *    them out.
 * 3. What a held thread does besides its exec (signals, stops, its end) happens to it as if it had
 *    no tracer.
 * 4. The shared memory may hold anything: each field is read once and checked.
 */
#include "inject/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/kcmp.h>
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
#include "base/pids.h"
#include "inject/inject_parts.h"
#include "inject/remote.h"
#include "inject/sharing.h"

static const long attached_pause =
	50000000; /* ns between two checks of a process that is not our child */

/* How long a slot may be held by a process that was killed. */
static const uint64_t look_at_all = 50 * (uint64_t)NS_PER_MS;
/* How late a request may be seen in the memory of a process that has ended. */
static const long crowd_pause = 20 * NS_PER_MS;

/* How long a command may take to end after the first signal to terminate. */
static const uint64_t stop_patience = 3 * (uint64_t)NS_PER_S;
/*
 * A second signal within this time is taken for the first one: timeout(1) signals a process and its
 * group.
 */
static const uint64_t stop_echo = 100 * (uint64_t)NS_PER_MS;

/* A thread that is about to exec. After the exec it has its process's id. */
struct held {
	pid_t tid;
	pid_t pid;
	bool translates; /* it is no program, but ours (sharing.h) */
};

struct follow {
	struct inject *inject;
	pid_t pid; /* the command; 0: the process was attached to */
	int process; /* pidfd of the process that was attached to */
	uint64_t end; /* when to stop; 0: never */
	uint64_t looked; /* when all requests were last looked at */
	uint64_t stopped; /* when the command was first told to end; 0: never */
	int stops; /* signals after it that were not taken for the same one */
	bool ended;
	bool crowded; /* not all bells are listened to */
	struct sharing *sharing; /* NULL: processes share nothing */
	ARRAY(struct held) held;
	struct follow_result result;
};

#define X(number) number,
static const int handled[] = { INJECT_SIGNALS(X) SIGCHLD };
#undef X
enum { HANDLED_COUNT = sizeof(handled) / sizeof(handled[0]) };

/* Only the signal handler writes it. */
static uint32_t bell;
static volatile sig_atomic_t command_pid;
static volatile sig_atomic_t stop_wanted; /* the number of the first signal; 0: none came */
static volatile sig_atomic_t stop_count;
static volatile sig_atomic_t interrupt_ignored; /* SIGINT was ignored when we were started */

void inject_ring(const struct inject *inject)
{
	bell_ring(&bell);
}

/*
 * A terminal has signalled the command itself. Where interrupts are ignored, as in the background
 * of a script, the command ignores them too: it is told to terminate.
 */
static void command_tell(int signal)
{
	if (command_pid)
		kill(command_pid, signal == SIGINT && interrupt_ignored ? SIGTERM : signal);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
	int saved = errno;
	bool terminal = info->si_code == SI_KERNEL;

	if (signal != SIGCHLD && !(terminal && signal == SIGINT && interrupt_ignored)) {
		if (!terminal)
			command_tell(signal);
		if (!stop_wanted)
			stop_wanted = signal;
		stop_count++;
	}
	bell_ring(&bell);
	errno = saved;
}

/*
 * A SIGHUP that was ignored when we were started (nohup) stays ignored. A SIGINT that was sent by
 * kill() counts, even where those of the terminal are ignored.
 */
static bool is_obeyed(int signal, const struct sigaction *old)
{
	return old->sa_handler != SIG_IGN || signal == SIGCHLD || signal == SIGINT ||
	       signal == SIGTERM;
}

static void signals_take(struct follow *follow, struct sigaction old[HANDLED_COUNT])
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };

	command_pid = follow->pid;
	stop_wanted = stop_count = 0;
	for (size_t i = 0; i < HANDLED_COUNT; i++) {
		sigaction(handled[i], NULL, &old[i]);
		if (handled[i] == SIGINT)
			interrupt_ignored = old[i].sa_handler == SIG_IGN;
		if (is_obeyed(handled[i], &old[i]))
			sigaction(handled[i], &action, NULL);
	}
	sigprocmask(SIG_SETMASK, inject_mask(follow->inject), NULL);
}

/*
 * Signals that come from now on stay blocked until the caller unblocks them, because the profile is
 * not written yet.
 */
static void signals_give(const struct sigaction old[HANDLED_COUNT])
{
	inject_signals_block();
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

/* Reads up to the end of a page at a time, because the page after the name may not be mapped. */
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

/* The file that a process is about to execute, as a path in our mount namespace. */
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

/*
 * Detaches from a thread, which must be stopped for that; a signal for which it has stopped is
 * delivered.
 */
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

static int module_serve(const struct follow *follow, const struct engine_request *request)
{
	struct {
		struct stream_module head;
		char path[PATH_MAX];
	} module;
	int err = session_check(follow, request);

	err = err ? err : remote_read((pid_t)request->pid, request->path, &module, sizeof(module));
	if (err)
		return err;
	module.path[PATH_MAX - 1] = '\0';
	return inject_module_ask(follow->inject, (pid_t)request->pid, &module.head);
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
	case ENGINE_REQUEST_MODULE:
		return module_serve(follow, request);
	}
	return err_set(-EINVAL, "a request of unknown kind %u", request->kind);
}

static void request_answer(struct engine_request *slot, int answer)
{
	__atomic_store_n(&slot->answer, answer, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->state, ENGINE_SLOT_ANSWERED, __ATOMIC_RELEASE);
	syscall(SYS_futex, &slot->state, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/*
 * A request must come from the process that owns the memory, or from a child of it that shares it
 * after a vfork.
 */
static int owner_check(const struct memory *memory, const struct engine_request *request)
{
	AUTO(free_ptr) char *thread = mem_printf("/proc/%u/task/%u", request->pid, request->tid);

	if (!memory->pid)
		return 0;
	if ((pid_t)request->pid != memory->pid &&
	    syscall(SYS_kcmp, memory->pid, (pid_t)request->pid, KCMP_VM, 0, 0))
		return err_set(-EPERM, "process %d asks something for process %u", (int)memory->pid,
			       request->pid);
	if (access(thread, F_OK))
		return err_set(-ESRCH, "process %u has no thread %u", request->pid, request->tid);
	return 0;
}

/*
 * The ids in requests are those of the process's pid namespace. We know which process owns the
 * memory; any other that makes a request in it shares it after a vfork.
 */
static void request_translate(const struct memory *memory, struct engine_request *request)
{
	pid_t pid = memory->pid, thread;

	if (!pid || !pids_differ(pid))
		return;
	if (pids_inner(pid) != (pid_t)request->pid)
		pid = pids_find((pid_t)request->pid, memory->inode, pid);
	thread = pid ? pids_thread(pid, (pid_t)request->tid) : 0;
	request->pid = (uint32_t)pid;
	request->tid = (uint32_t)thread;
}

static bool is_child(const struct memory *memory, pid_t pid)
{
	struct inject_mapping mapping;

	return pid != memory->pid && pid > 0 &&
	       inject_mapping_find(pid, "assay-own", memory->inode, &mapping);
}

static bool has_ended(pid_t pid)
{
	AUTO(close_fd) int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd end = { .fd = fd, .events = POLLIN };

	return fd < 0 ? errno == ESRCH : poll(&end, 1, 0) == 1;
}

/*
 * Serves a child that was forked: it makes its request in its parent's memory, until it gets its
 * own. One that is killed before has executed nothing of the program.
 */
static int fork_serve(struct follow *follow, const struct memory *memory,
		      const struct engine_request *request)
{
	pid_t pid = (pid_t)request->pid;
	int err;

	if (!is_child(memory, pid))
		pid = pids_find(pid, memory->inode, memory->pid);
	if (!is_child(memory, pid))
		err = err_set(-ESRCH, "process %u is no child of process %d", request->pid,
			      (int)memory->pid);
	else
		err = inject_fork(follow->inject, pid, request->directory);
	if (!pid)
		pid = (pid_t)request->pid;
	follow->result.alone += err && !pids_is_ending(pid, pid);
	return err;
}

/*
 * A process that was killed takes no answer: without this its slot would be taken for good, and the
 * next ones would find none free. The id may be of another pid namespace, where only the memory
 * tells who it is.
 */
static bool is_abandoned(const struct memory *memory, const struct engine_request *request)
{
	struct engine_request seen = *request;

	if (!has_ended((pid_t)request->pid))
		return false;
	if (request->kind == ENGINE_REQUEST_FORK)
		return !is_child(memory,
				 pids_find((pid_t)request->pid, memory->inode, memory->pid));
	request_translate(memory, &seen);
	return owner_check(memory, &seen);
}

static void slot_free(struct engine_request *slot)
{
	uint32_t answered = ENGINE_SLOT_ANSWERED;

	__atomic_compare_exchange_n(&slot->state, &answered, ENGINE_SLOT_FREE, false,
				    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static int request_take(struct follow *follow, const struct memory *memory,
			const struct engine_request *request)
{
	struct engine_request seen;
	int err;

	if (request->kind == ENGINE_REQUEST_FORK)
		return fork_serve(follow, memory, request);
	seen = *request;
	request_translate(memory, &seen);
	err = owner_check(memory, &seen);
	return err ? err : request_serve(follow, &seen);
}

static void slot_serve(struct follow *follow, const struct memory *memory, bool closed,
		       struct engine_request *slot)
{
	uint32_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
	struct engine_request request;
	int answer;

	if (state != ENGINE_SLOT_ASKED && state != ENGINE_SLOT_ANSWERED)
		return;
	memcpy(&request, slot, sizeof(request));
	if (state == ENGINE_SLOT_ASKED) {
		answer = closed ? -ESHUTDOWN : request_take(follow, memory, &request);
		if (answer < 0 && !closed)
			log_debug("%s", err_text());
		request_answer(slot, answer);
	}
	if (!closed && is_abandoned(memory, &request))
		slot_free(slot);
}

/* Whoever makes a request rings the bell behind it; one who was killed does not ring any more. */
static void memory_serve(struct follow *follow, struct memory *memory, bool closed, bool all)
{
	struct engine_shared *shared = memory->bytes;
	uint32_t rung = __atomic_load_n(&shared->bell, __ATOMIC_ACQUIRE);

	if (!all && rung == memory->served)
		return;
	memory->served = rung;
	for (size_t i = 0; i < ENGINE_REQUESTS; i++)
		slot_serve(follow, memory, closed, &shared->requests[i]);
}

static void requests_serve(struct follow *follow, bool closed)
{
	struct memories *memories = inject_memories(follow->inject);
	struct memory *memory = memories_after(memories, 0);
	uint64_t now = clock_monotonic();
	bool all = closed || now - follow->looked >= look_at_all;

	if (all)
		follow->looked = now;
	for (; memory; memory = memories_after(memories, memory->number))
		memory_serve(follow, memory, closed, all);
}

/*
 * False: the program runs natively, or was killed meanwhile; then its end still has to be waited
 * for, first by us as its tracer.
 */
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

/*
 * Whether the thread or process with this id has done something after which it is held no longer.
 */
static bool held_look(struct follow *follow, pid_t id, bool translates)
{
	int status = 0;
	enum remote_event event = remote_look(id, false, &status);
	bool is_exec = event == REMOTE_STOPPED && status >> 16 == PTRACE_EVENT_EXEC, taken = false;

	if (event == REMOTE_STOPPED || (event == REMOTE_ENDED && id != follow->pid))
		remote_see(id);
	if (is_exec && translates)
		sharing_take(follow->sharing, id);
	else if (is_exec)
		taken = program_take(follow, id);
	else if (event == REMOTE_STOPPED)
		remote_resume(id, status);
	return taken || (is_exec && translates) || event == REMOTE_ENDED;
}

static void held_serve(struct follow *follow)
{
	size_t i = 0;

	while (i < follow->held.count) {
		struct held held = follow->held.items[i];

		if (held_look(follow, held.tid, held.translates) ||
		    (held.pid != held.tid && held_look(follow, held.pid, false)))
			held_remove(follow, &follow->held.items[i]);
		else
			i++;
	}
}

/* The translator is held as a thread that is about to exec, which it is. */
static void sharing_look(struct follow *follow)
{
	pid_t pid;

	if (!follow->sharing || !sharing_serve(follow->sharing))
		return;
	pid = sharing_attach(follow->sharing);
	if (pid > 0)
		*array_push(&follow->held) =
			(struct held){ .tid = pid, .pid = pid, .translates = true };
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

/*
 * The command was told to end and has not. After a while, or at a second signal, we leave it
 * running and keep what it has recorded so far.
 */
static void stop_serve(struct follow *follow)
{
	uint64_t now = clock_monotonic();

	if (follow->ended || !stop_wanted)
		return;
	if (!follow->stopped) {
		follow->stopped = now;
		follow->stops = stop_count;
	}
	if (now - follow->stopped < stop_echo)
		follow->stops = stop_count;
	if (stop_count == follow->stops && now - follow->stopped < stop_patience)
		return;
	command_pid = 0;
	follow->ended = follow->result.left = true;
	follow->result.again = stop_count != follow->stops;
	follow->result.exit_code = 128 + stop_wanted;
}

/* The end of a process that is not our child sends us no signal, so it is checked for. */
static void attached_serve(struct follow *follow)
{
	struct pollfd event = { .fd = follow->process, .events = POLLIN };

	follow->result.ended = poll(&event, 1, 0) == 1;
	follow->ended = follow->result.ended || stop_wanted ||
			(follow->end && clock_monotonic() >= follow->end);
}

/*
 * Processes that outlive the command go on without us. A process that was attached to is given
 * back, and records until then.
 */
static void follow_close(struct follow *follow)
{
	if (follow->pid)
		inject_close(follow->inject);
	requests_serve(follow, true);
	sharing_destroy(follow->sharing); /* a translator must not be let go: it would run */
	follow->sharing = NULL;
	while (follow->held.count)
		let_go(follow, &follow->held.items[0]);
	array_deinit(&follow->held);
}

/*
 * Collects the bells of all memories; returns the number of the newest of these. Where there are
 * too many, those of processes that have ended are left out, in whose memory only a child that was
 * just forked may still make a request.
 */
static uint32_t bells_collect(struct follow *follow, struct bells *ret)
{
	struct memories *memories = inject_memories(follow->inject);
	bool crowded = memories_count(memories) >= BELLS_MAX;
	const struct memory *memory = memories_after(memories, 0);
	uint32_t newest = 0;

	ret->count = 0;
	follow->crowded = false;
	bells_add(ret, &bell, __atomic_load_n(&bell, __ATOMIC_SEQ_CST));
	for (; memory; memory = memories_after(memories, memory->number)) {
		uint32_t *word = &((struct engine_shared *)memory->bytes)->bell;

		newest = memory->number;
		if (crowded && __atomic_load_n(&memory->ended, __ATOMIC_ACQUIRE))
			follow->crowded = true;
		else
			bells_add(ret, word, __atomic_load_n(word, __ATOMIC_SEQ_CST));
	}
	return newest;
}

/* The sleep has a timeout while there are processes whose end rings no bell. */
static void sleep_until_rung(const struct follow *follow, const struct bells *bells)
{
	const struct timespec moment = { .tv_nsec = attached_pause }, look = { .tv_sec = 1 },
			      crowd = { .tv_nsec = crowd_pause };
	bool busy = !follow->pid || follow->stopped;

	bells_wait(bells, follow->crowded ? &crowd : busy ? &moment : &look);
}

static void serve(struct follow *follow, struct follow_result *ret)
{
	struct sigaction old[HANDLED_COUNT];
	struct bells bells;
	uint32_t newest;

	signals_take(follow, old);
	for (;;) {
		newest = bells_collect(follow, &bells);
		requests_serve(follow, false);
		held_serve(follow);
		sharing_look(follow);
		inject_tick_call(follow->inject);
		if (follow->pid) {
			end_serve(follow);
			stop_serve(follow);
		} else {
			attached_serve(follow);
		}
		if (follow->ended)
			break;
		inject_memories_collect(follow->inject);
		/*
		 * A process that has got its memory meanwhile rings a bell that is not among these.
		 */
		if (!memories_after(inject_memories(follow->inject), newest))
			sleep_until_rung(follow, &bells);
	}
	follow_close(follow);
	signals_give(old);
	*ret = follow->result;
}

int follow_run(struct inject *inject, pid_t pid, struct follow_result *ret)
{
	struct follow follow = { .inject = inject, .pid = pid };

	if (inject_shares(inject))
		follow.sharing = sharing_create(inject);
	serve(&follow, ret);
	return 0;
}

int follow_attached(struct inject *inject, int process, uint64_t duration,
		    struct follow_result *ret)
{
	struct follow follow = {
		.inject = inject,
		.process = process,
		.end = duration ? clock_monotonic() + duration : 0,
	};

	serve(&follow, ret);
	return 0;
}
