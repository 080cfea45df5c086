// SPDX-License-Identifier: BSD-2-Clause
/*
 * Syscall User Dispatch (prctl): system calls of a thread that come from outside a range of its
 * code are a SIGSYS for its handler instead. The kernel would check the address of the engine's
 * system call instruction, so this prctl() is not passed to it: the engine itself checks the
 * program's own address, in the same way as the kernel (kernel/entry/syscall_user_dispatch.c).
 */
#include <asm/errno.h>
#include <asm/siginfo.h>
#include <asm/signal.h>
#include <linux/audit.h>
#include <linux/prctl.h>

#include "engine/engine.h"
#include "engine/signal_parts.h"
#include "engine/sys.h"

enum { SYS_CODE = 2 /* SYS_USER_DISPATCH */, SELECTOR_ALLOW = 0, SELECTOR_BLOCK = 1 };

long user_dispatch_set(struct thread *thread)
{
	const uint64_t *regs = thread->regs;
	uint64_t start = regs[RDX], size = regs[R10], selector = regs[R8];

	switch (regs[RSI]) {
	case PR_SYS_DISPATCH_OFF:
		if (start || size || selector)
			return -EINVAL;
		break;
	case PR_SYS_DISPATCH_ON:
		if (start && start + size <= start)
			return -EINVAL;
		if (selector >= USER_ADDRESSES)
			return -EFAULT;
		break;
	default:
		return -EINVAL;
	}
	thread->dispatch = (struct dispatch){ .on = regs[RSI] == PR_SYS_DISPATCH_ON,
					      .start = start,
					      .size = size,
					      .selector = selector };
	return 0;
}

/* The process ends as if by that signal, whatever the program does about it. */
static void end_by(struct thread *thread, int number, const siginfo_t *info)
{
	struct kernel_action action = {};

	sys_4(rt_sigaction, number, &action, 0, 8);
	sys_4(rt_tgsigqueueinfo, sys_0(getpid), sys_0(gettid), number, info);
	signal_unblock(ALL & ~(1ull << (number - 1)));
	engine_die("a signal of our own did not end the process");
}

static bool is_dispatched(struct thread *thread)
{
	const struct dispatch *dispatch = &thread->dispatch;
	siginfo_t info = { .si_signo = SIGSEGV, .si_code = SI_KERNEL };
	uint8_t state = SELECTOR_BLOCK;

	if (thread->pc - dispatch->start < dispatch->size)
		return false;
	if (dispatch->selector && !user_read(&state, dispatch->selector, 1))
		end_by(thread, SIGSEGV, &info);
	info.si_signo = SIGSYS;
	if (state > SELECTOR_BLOCK)
		end_by(thread, SIGSYS, &info);
	return state == SELECTOR_BLOCK;
}

/* A signal that is blocked or ignored cannot be forced on the program: it ends. */
static void signal_force(struct thread *thread, const siginfo_t *info)
{
	uint64_t mask = signal_block();
	struct handler handler = handler_get(thread->sighand, SIGSYS);

	if (mask & 1ull << (SIGSYS - 1) || !handler_is_called(handler.handler))
		end_by(thread, SIGSYS, info);
	sys_4(rt_tgsigqueueinfo, sys_0(getpid), sys_0(gettid), SIGSYS, info);
	if (!thread->pending)
		signal_unblock(mask);
}

/* One that waits comes first: the call is not done then (program_syscall). */
bool user_dispatch_take(struct thread *thread)
{
	siginfo_t info = { .si_signo = SIGSYS, .si_code = SYS_CODE };

	if (!thread->dispatch.on || thread->pending || !is_dispatched(thread))
		return false;
	thread->regs[RCX] = thread->pc; /* what the processor leaves there */
	thread->regs[R11] = thread->flags;
	info.si_call_addr = (void *)thread->pc;
	info.si_syscall = (int)thread->regs[RAX];
	info.si_arch = AUDIT_ARCH_X86_64;
	signal_force(thread, &info);
	return true;
}
