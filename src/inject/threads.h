/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stops all threads of a running process with ptrace, those included that it creates meanwhile.
 *
 * Everything here is for one thread of the host, as in remote.h.
 */
#pragma once

#include <sys/ptrace.h>

#include "base/array.h"
#include "inject/remote.h"
#include "wire/engine.h"

/* The options of PTRACE_SEIZE. */
enum { TASK_OPTIONS = PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD };

struct task {
	pid_t tid;
	bool done; /* stopped for good, until threads_deinit() */
	uint64_t resumed; /* when it was last let run, or asked to stop */
	uint64_t turn; /* how long it may run before it is asked again */
	struct remote remote;
	uint64_t area; /* memory that the thread has mapped for us; 0: none */
	struct engine_parked parked;
	uint64_t parked_at; /* the address that its struct engine_parked was read from */
};

struct threads {
	pid_t pid;
	int request; /* PTRACE_CONT or PTRACE_SYSCALL: how those that are not done go on */
	void *context; /* the caller's */
	ARRAY(struct task) tasks;
};

/*
 * Attaches to all threads and calls stopped() whenever one of them has stopped for another reason
 * than a signal, until it has marked all as done. Others it lets go on with task_resume(); they are
 * asked to stop again. A process that has ended in the meantime gives -ESRCH, one that executes
 * another program -EAGAIN, one that takes too long -ETIMEDOUT.
 */
int threads_collect(struct threads *threads,
		    int (*stopped)(struct threads *threads, struct task *task, int status));
void task_resume(const struct threads *threads, struct task *task, int signal);
/* Detaches from all; what was not changed goes on as it was. */
void threads_deinit(struct threads *threads);

/*
 * A line of /proc/PID/task/TID/status that begins with the name, as a number to a base; 0 if there
 * is none.
 */
uint64_t task_status(pid_t pid, pid_t tid, const char *name, int base);

/* --- System calls that the stop has interrupted ------------------------------------------ */

/* Whether the thread was stopped in a system call that the kernel would restart. */
bool task_is_interrupted(const struct user_regs_struct *registers);
/* Whether the thread has a signal pending that is not blocked; that has to be delivered first. */
bool task_has_signal(pid_t pid, pid_t tid);
/*
 * The number that restarts the call: its own, or restart_syscall, which knows the time that is
 * left.
 */
uint64_t task_again_number(const struct user_regs_struct *registers);
/* Changes the registers as the kernel does to restart the call. */
void task_settle(struct user_regs_struct *registers);
