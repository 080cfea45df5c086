// SPDX-License-Identifier: BSD-2-Clause
/*
 * All threads of a process, stopped.
 *
 * PTRACE_SEIZE stops nothing; PTRACE_INTERRUPT stops a thread wherever it is, also in a system
 * call. Threads that are made while others are being stopped are found in /proc, until a look finds
 * no new one. No call waits for any of a set of threads only, so they are polled in turn.
 *
 * A stop interrupts system calls as a signal without a handler does. The kernel leaves a number of
 * its own in rax (ERESTARTSYS and its kin) and does the call again on the way back, if the
 * registers are still the same. As we change them, task_settle() does what the kernel would do. Two
 * things need more:
 *
 * 1. A signal with a handler that waits at that moment decides between doing it again and EINTR,
 *    and one for a fault belongs to just this instruction. So signals go first: the thread runs
 *    into its handler and is stopped there.
 * 2. Some calls give EINTR for every stop (signal(7) lists them for SIGSTOP), and for signals that
 *    would be ignored but that wake a thread with a tracer. We put the kernel's number for "again
 *    unless there is a handler" in its place. Their timeout then begins anew: how much was left of
 *    it is not known.
 *
 * A thread that goes on is asked to stop again after a turn, which is twice as long each time: one
 * that has got no processor within its turn, on a busy machine, would stop where it was, again and
 * again.
 *
 * Signals that would be ignored may also wake a thread which has no tracer, while another one has.
 * So all are attached to before the first is stopped, and all are let go together.
 */
#include "inject/threads.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/pids.h"

enum {
	/* Error numbers inside the kernel, which only tracers see. */
	ERESTARTSYS_ = 512,
	ERESTARTNOINTR_ = 513,
	ERESTARTNOHAND_ = 514,
	ERESTART_RESTARTBLOCK_ = 516,
	SYSCALL_BYTES = 2,
};

static const uint64_t patience = 10000000000; /* for stopping all threads */
static const uint64_t turn_first = 2000000, turn_most = 256000000;
static const long look_pause = 50000;
static const uint64_t release_patience = 200000000;
static const uint64_t remind_pause = 500000000;

/* --- What /proc says --------------------------------------------------------------------- */

uint64_t task_status(pid_t pid, pid_t tid, const char *name, int base)
{
	AUTO(free_ptr) char *path = mem_printf("/proc/%d/task/%d/status", (int)pid, (int)tid);
	AUTO(close_file) FILE *file = fopen(path, "re");
	size_t length = strlen(name);
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, length) && line[length] == ':')
			return strtoull(line + length + 1, NULL, base);
	return 0;
}

bool task_has_signal(pid_t pid, pid_t tid)
{
	AUTO(free_ptr) char *path = mem_printf("/proc/%d/task/%d/status", (int)pid, (int)tid);
	AUTO(close_file) FILE *file = fopen(path, "re");
	unsigned long own = 0, shared = 0, blocked = 0, caught = 0;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "SigPnd: %lx", &own) != 1 &&
		    sscanf(line, "ShdPnd: %lx", &shared) != 1 &&
		    sscanf(line, "SigBlk: %lx", &blocked) != 1 &&
		    sscanf(line, "SigCgt: %lx", &caught) == 1)
			break;
	return (own | shared) & ~blocked & caught;
}

/* --- Interrupted system calls ------------------------------------------------------------ */

/* Calls that give EINTR for a stop and can be done again as if they had not been begun. */
static bool is_restartable(uint64_t number)
{
	switch (number) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
	case SYS_rt_sigtimedwait:
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_io_getevents:
	case SYS_io_pgetevents:
	case SYS_io_uring_enter:
	case SYS_read:
	case SYS_readv:
	case SYS_write:
	case SYS_writev:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_recvmmsg:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_accept:
	case SYS_accept4:
		return true;
	default:
		return false;
	}
}

bool task_is_interrupted(const struct user_regs_struct *registers)
{
	if ((int64_t)registers->orig_rax < 0)
		return false;
	switch (-(int64_t)registers->rax) {
	case ERESTARTSYS_:
	case ERESTARTNOINTR_:
	case ERESTARTNOHAND_:
	case ERESTART_RESTARTBLOCK_:
		return true;
	default:
		return false;
	}
}

uint64_t task_again_number(const struct user_regs_struct *registers)
{
	return -(int64_t)registers->rax == ERESTART_RESTARTBLOCK_ ? SYS_restart_syscall
								  : registers->orig_rax;
}

void task_settle(struct user_regs_struct *registers)
{
	if (task_is_interrupted(registers)) {
		registers->rax = task_again_number(registers);
		registers->rip -= SYSCALL_BYTES;
	}
	registers->orig_rax = ~0ull;
}

/* --- Stopping ---------------------------------------------------------------------------- */

static struct task *task_find(struct threads *threads, pid_t tid)
{
	array_each(&threads->tasks, task)
		if (task->tid == tid)
			return task;
	return NULL;
}

static int seize_refuse(const struct threads *threads, pid_t tid, int reason)
{
	int tracer = (int)task_status(threads->pid, tid, "TracerPid", 10);

	if (pids_is_ending(threads->pid, tid))
		return 0;
	if (tracer)
		return err_set(-EBUSY,
			       "cannot attach to process %d: process %d traces it; end that first",
			       (int)threads->pid, tracer);
	return err_set(-reason,
		       "cannot attach to thread %d of process %d: %s; only its user and root may, "
		       "and only if /proc/sys/kernel/yama/ptrace_scope lets them",
		       (int)tid, (int)threads->pid, strerror(reason));
}

static int task_add(struct threads *threads, pid_t tid)
{
	if (ptrace(PTRACE_SEIZE, tid, NULL, TASK_OPTIONS))
		return seize_refuse(threads, tid, errno);
	*array_push(&threads->tasks) = (struct task){
		.tid = tid,
		.turn = turn_first,
		.remote = { .tid = tid },
	};
	return 0;
}

static void folder_close(DIR **folder)
{
	if (*folder)
		closedir(*folder);
}

/* Attaches to threads that are new; *ret: whether there were any. */
static int tasks_scan(struct threads *threads, bool *ret)
{
	AUTO(free_ptr) char *path = mem_printf("/proc/%d/task", (int)threads->pid);
	AUTO(folder_close) DIR *folder = opendir(path);
	struct dirent *entry;
	int err = 0;

	*ret = false;
	if (!folder)
		return err_set(-ESRCH, "process %d has ended", (int)threads->pid);
	while (!err && (entry = readdir(folder))) {
		pid_t tid = (pid_t)strtoul(entry->d_name, NULL, 10);

		if (tid <= 0 || task_find(threads, tid) || pids_is_ending(threads->pid, tid))
			continue;
		*ret = true;
		err = task_add(threads, tid);
	}
	return err;
}

void task_resume(const struct threads *threads, struct task *task, int signal)
{
	task->resumed = clock_monotonic();
	ptrace((enum __ptrace_request)threads->request, task->tid, NULL, (long)signal);
}

/* Delivers a pending signal; the thread is to stop after that. */
static void signal_pass(const struct threads *threads, struct task *task, int signal)
{
	ptrace(PTRACE_INTERRUPT, task->tid, NULL, NULL);
	task_resume(threads, task, signal);
}

static void interruption_correct(const struct task *task)
{
	struct remote now = { .tid = task->tid };
	struct user_regs_struct *registers = &now.registers;

	if (remote_registers_get(&now) || (int64_t)registers->orig_rax < 0 ||
	    (int64_t)registers->rax != -EINTR || !is_restartable(registers->orig_rax))
		return;
	registers->rax = (unsigned long long)-ERESTARTNOHAND_;
	remote_registers_set(&now, registers);
}

static int task_look(struct threads *threads, struct task *task, bool *ret_ended,
		     int (*stopped)(struct threads *, struct task *, int))
{
	int status = 0;
	enum remote_event event = remote_look(task->tid, false, &status);

	*ret_ended = event == REMOTE_ENDED;
	if (event == REMOTE_NONE) {
		if (clock_monotonic() - task->resumed < task->turn)
			return 0;
		task->turn = task->turn < turn_most ? 2 * task->turn : turn_most;
		*ret_ended = ptrace(PTRACE_INTERRUPT, task->tid, NULL, NULL) && errno == ESRCH;
		task->resumed = clock_monotonic();
		return 0;
	}
	remote_see(task->tid);
	if (event == REMOTE_ENDED)
		return 0;
	if (status >> 16 == PTRACE_EVENT_EXEC)
		return err_set(-EAGAIN, "process %d executes another program just now; try again",
			       (int)threads->pid);
	interruption_correct(task);
	if (status >> 16 == 0 && WSTOPSIG(status) != (SIGTRAP | 0x80)) {
		signal_pass(threads, task, WSTOPSIG(status));
		return 0;
	}
	return stopped(threads, task, status);
}

static int tasks_look(struct threads *threads, bool *ret_all,
		      int (*stopped)(struct threads *, struct task *, int))
{
	int err = 0;
	size_t i = 0;

	*ret_all = true;
	while (!err && i < threads->tasks.count) {
		struct task *task = &threads->tasks.items[i];
		bool ended = false;

		if (!task->done)
			err = task_look(threads, task, &ended, stopped);
		if (ended) {
			*task = threads->tasks.items[--threads->tasks.count];
			continue;
		}
		*ret_all = *ret_all && task->done;
		i++;
	}
	return err;
}

/* Reading /proc/PID/task may leave out threads while others end, so their number is compared. */
static bool is_complete(const struct threads *threads)
{
	return task_status(threads->pid, threads->pid, "Threads", 10) == threads->tasks.count;
}

/*
 * A thread that stopped for something else has forgotten that it was asked to. To ask once more
 * does no harm.
 */
static void tasks_remind(const struct threads *threads, uint64_t *at)
{
	uint64_t now = clock_monotonic();

	if (now < *at)
		return;
	*at = now + remind_pause;
	array_each(&threads->tasks, task)
		if (!task->done)
			ptrace(PTRACE_INTERRUPT, task->tid, NULL, NULL);
}

int threads_collect(struct threads *threads,
		    int (*stopped)(struct threads *threads, struct task *task, int status))
{
	const struct timespec moment = { .tv_nsec = look_pause };
	uint64_t end = clock_monotonic() + patience, remind = clock_monotonic() + remind_pause;
	bool all = false, new = true;
	int err = 0;

	/*
	 * New threads are looked for last, because a thread may have created another one right
	 * before it stopped.
	 */
	while (!err && (!all || new || !is_complete(threads))) {
		err = tasks_look(threads, &all, stopped);
		err = err ? err : tasks_scan(threads, &new);
		if (!err && !threads->tasks.count)
			err = err_set(-ESRCH, "process %d has ended", (int)threads->pid);
		if (!err && clock_monotonic() > end)
			err = err_set(-ETIMEDOUT,
				      "cannot stop all threads of process %d: one is in a system "
				      "call that does not let go (vfork, or a device), or the "
				      "machine is too busy for it to run; try later",
				      (int)threads->pid);
		tasks_remind(threads, &remind);
		if (!all)
			nanosleep(&moment, NULL);
	}
	return err;
}

/* The signal for which a thread has stopped; 0: it has stopped for another reason. */
static int status_signal(int status)
{
	return status >> 16 || WSTOPSIG(status) == (SIGTRAP | 0x80) ? 0 : WSTOPSIG(status);
}

/* The kernel detaches a thread that cannot be stopped when we end. */
static void task_release(struct task *task)
{
	const struct timespec moment = { .tv_nsec = look_pause };
	int status = 0;

	if (task->done || !ptrace(PTRACE_DETACH, task->tid, NULL, NULL)) {
		ptrace(PTRACE_DETACH, task->tid, NULL, (long)task->remote.stop);
		return;
	}
	ptrace(PTRACE_INTERRUPT, task->tid, NULL, NULL);
	for (uint64_t end = clock_monotonic() + release_patience; clock_monotonic() < end;) {
		switch (remote_look(task->tid, false, &status)) {
		case REMOTE_NONE:
			nanosleep(&moment, NULL);
			continue;
		case REMOTE_STOPPED:
			remote_see(task->tid);
			interruption_correct(task);
			ptrace(PTRACE_DETACH, task->tid, NULL, (long)status_signal(status));
			return;
		case REMOTE_ENDED:
			return;
		}
	}
}

void threads_deinit(struct threads *threads)
{
	array_each(&threads->tasks, task)
		task_release(task);
	array_deinit(&threads->tasks);
}
