/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls in the name of a thread that this thread has stopped with ptrace, and its stops.
 *
 * Everything here is for the thread that has attached. A thread that ends while it is worked on
 * (SIGKILL is not to be kept off) makes the functions fail with -ESRCH; its end is left for whoever
 * waits for it.
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
	bool blocked; /* all signals are, until it is let go */
	enum program_obstacle obstacle; /* set by who finds one */
	int stop; /* a SIGSTOP that came meanwhile, to be had afterwards; 0: none */
};

enum remote_event {
	REMOTE_NONE,
	REMOTE_STOPPED,
	REMOTE_ENDED,
};

/*
 * What a thread or process has done, if anything, with its status as waitpid() has it. It stays to
 * be seen.
 */
enum remote_event remote_look(pid_t tid, bool wait, int *ret_status);
/* Has seen it: a stop can then be ended, an end is forgotten by the kernel. */
void remote_see(pid_t tid);

/*
 * Lets a thread go on that stopped for anything but what one has attached for: signals reach it as
 * if nobody were attached.
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
