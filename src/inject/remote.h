/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls in the name of a thread that this thread has stopped with ptrace, and its stops.
 *
 * Everything here is for the thread that has attached. If the thread is killed meanwhile, the
 * functions fail with -ESRCH; its status is left to be waited for.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "inject/program.h"

struct remote {
	pid_t tid;
	struct user_regs_struct registers; /* as the program has them */
	uint64_t syscall; /* address of a system call instruction, in the vdso */
	uint64_t mask; /* the program's signal mask, once blocked */
	bool blocked; /* all signals are blocked, until the thread is released */
	enum program_obstacle obstacle; /* why the process cannot be taken, if that is known */
	int stop; /* a SIGSTOP that came meanwhile and is sent again afterwards; 0: none */
};

enum remote_event {
	REMOTE_NONE,
	REMOTE_STOPPED,
	REMOTE_ENDED,
};

/*
 * What a thread or process has done, if anything, with its status as of waitpid(). The event is not
 * consumed.
 */
enum remote_event remote_look(pid_t tid, bool wait, int *ret_status);
/*
 * Consumes the event: after that a stopped thread can be resumed, and the kernel forgets one that
 * has ended.
 */
void remote_see(pid_t tid);

/*
 * Resumes a thread that stopped for a reason that is not ours: its signals are delivered as if it
 * had no tracer.
 */
void remote_resume(pid_t tid, int status);

/*
 * remote->tid is at PTRACE_EVENT_EXEC: goes to the end of the exec, before the first instruction.
 */
int remote_init(struct remote *remote);
/*
 * remote->tid is stopped anywhere in its program: all signals are blocked, nothing else is changed.
 */
int remote_init_running(struct remote *remote);
int remote_registers_get(struct remote *remote);
int remote_registers_set(const struct remote *remote, const struct user_regs_struct *registers);
/* The result as the kernel gives it, -errno for an error, in *ret. */
int remote_call(struct remote *remote, long number, const uint64_t arguments[6], int64_t *ret);
int remote_read(pid_t pid, uint64_t address, void *data, size_t size);
int remote_write(pid_t pid, uint64_t address, const void *data, size_t size);
/* Detaches; the thread goes on with these registers. */
int remote_release(struct remote *remote, const struct user_regs_struct *registers);
/* Detaches, whatever failed before; the program goes on as it was. */
void remote_abandon(struct remote *remote);
