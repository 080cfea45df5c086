// SPDX-License-Identifier: BSD-2-Clause
/*
 * System calls of the program. Most go to the kernel as they are. Those that would take the program out of the engine, or
 * that change what the engine relies on, are done here.
 */
#include <linux/mman.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>

#include "engine/engine.h"
#include "engine/stream.h"
#include "engine/sys.h"
#include "engine/tool.h"

enum {
	ARCH_SET_GS = 0x1001,
	ARCH_GET_GS = 0x1004,
	ARCH_SHSTK_ENABLE = 0x5001,
	EPERM = 1,
	EFAULT = 14,
	EOPNOTSUPP = 95,
};

#define ADDRESSES 0x7ffffffff000ull /* of a process */

static long pass(struct thread *thread)
{
	return program_syscall(thread);
}

/* The thread that a clone gives, ready to go on where its parent does. */
static struct thread *child_prepare(const struct thread *parent, uint64_t flags, uint64_t stack)
{
	struct thread *child;

	engine_lock();
	child = thread_create();
	child->sighand = parent->sighand;
	if (flags & CLONE_CLEAR_SIGHAND)
		guard_end(); /* the kernel would not call us there */
	if (!(flags & CLONE_SIGHAND))
		signal_handlers_copy(child, parent->sighand, flags & CLONE_CLEAR_SIGHAND);
	engine_unlock();
	for (size_t i = 0; i < 16; i++)
		child->regs[i] = parent->regs[i];
	if (stack)
		child->regs[RSP] = stack;
	child->regs[RAX] = 0;
	child->regs[RCX] = parent->pc;
	child->pc = parent->pc;
	child->flags = parent->flags;
	child->gs = parent->gs;
	child->segv_hidden = parent->segv_hidden;
	child->apart = !(flags & CLONE_THREAD);
	return child;
}

/* The child's own engine stack, with its thread on top for clone_thread(). */
static uint64_t child_stack(struct thread *child)
{
	uint64_t *top = (uint64_t *)(child->stack - 16);

	*top = (uint64_t)child;
	return (uint64_t)top;
}

/*
 * After a fork the child is the same thread in another process, and the only one. The lock is held meanwhile: nobody
 * else is in the middle of something that the child would find half done.
 */
static long fork_run(struct thread *thread, long number, long a, long b, long c, long d, long e)
{
	long result;

	engine_lock();
	result = sys6(number, a, b, c, d, e, 0);
	if (!result) {
		engine_lock_word = 0;
		thread->tid = (uint32_t)sys_0(gettid);
		thread->apart = 0;
		threads_only(thread);
		if (stream_wanted())
			stream_fork(thread);
		return 0;
	}
	engine_unlock();
	return result;
}

/* A signal for the child must not come before gs points to its own thread. */
static long child_start(struct thread *child, long number, long a, long b, long c, long d, long e)
{
	uint64_t mask = signal_block();
	long result;

	child->start_mask = guard_mask_program(child, mask);
	result = clone_thread(number, a, b, c, d, e);
	signal_unblock(mask);
	return result;
}

/* A child that was not made, or that has our memory no more: the parent waits for that after a vfork. */
static void child_settle(struct thread *child, uint64_t flags, long result)
{
	if (sys_failed(result) || flags & CLONE_VFORK)
		child->dead = THREAD_GONE;
}

static long on_clone(struct thread *thread)
{
	uint64_t *regs = thread->regs;
	struct thread *child;
	long result;

	if (!(regs[RDI] & CLONE_VM)) {
		/* The stack is the program's: the child must not begin there in the engine. */
		uint64_t stack = regs[RSI];

		result = fork_run(thread, __NR_clone, (long)regs[RDI], 0, (long)regs[RDX],
				  (long)regs[R10], (long)regs[R8]);
		if (!result && stack)
			regs[RSP] = stack;
		return result;
	}
	child = child_prepare(thread, regs[RDI], regs[RSI]);
	result = child_start(child, __NR_clone, (long)regs[RDI], (long)child_stack(child),
			     (long)regs[RDX], (long)regs[R10], (long)regs[R8]);
	child_settle(child, regs[RDI], result);
	return result;
}

static long on_clone3(struct thread *thread)
{
	uint64_t *regs = thread->regs;
	struct clone_args args = {};
	struct thread *child;
	uint64_t stack;
	long result;

	if (regs[RSI] < CLONE_ARGS_SIZE_VER0 || regs[RSI] > sizeof(args))
		return pass(thread); /* the kernel says what is wrong with it */
	if (!user_read(&args, regs[RDI], regs[RSI]))
		return -EFAULT;
	stack = args.stack ? args.stack + args.stack_size : 0;
	if (!(args.flags & CLONE_VM)) {
		args.stack = args.stack_size = 0;
		result = fork_run(thread, __NR_clone3, (long)&args, (long)regs[RSI], 0, 0, 0);
		if (!result && args.flags & CLONE_CLEAR_SIGHAND)
			signal_handlers_clear(thread);
		if (!result && stack)
			regs[RSP] = stack;
		return result;
	}
	child = child_prepare(thread, args.flags, stack);
	args.stack = child->stack - 4096;
	args.stack_size = child_stack(child) - args.stack;
	result = child_start(child, __NR_clone3, (long)&args, (long)regs[RSI], 0, 0, 0);
	child_settle(child, args.flags, result);
	return result;
}

static long on_vfork(struct thread *thread)
{
	struct thread *child = child_prepare(thread, 0, 0);
	long result = child_start(child, __NR_clone, CLONE_VM | CLONE_VFORK | 17,
				  (long)child_stack(child), 0, 0, 0);

	child_settle(child, CLONE_VFORK, result);
	return result;
}

static long on_arch_prctl(struct thread *thread)
{
	uint64_t *regs = thread->regs;

	switch (regs[RDI]) {
	case ARCH_SET_GS:
		if (regs[RSI] >= ADDRESSES)
			return -EPERM;
		thread->gs = regs[RSI];
		return 0;
	case ARCH_GET_GS:
		return user_write(regs[RSI], &thread->gs, sizeof(thread->gs)) ? 0 : -EFAULT;
	case ARCH_SHSTK_ENABLE: /* returns are jumps here; whoever asks does without */
		return -EOPNOTSUPP;
	default:
		return pass(thread);
	}
}

/* Comes back only if a signal is to be delivered first. */
static long end_run(struct thread *thread)
{
	long result;

	thread->dead = THREAD_ENDS;
	result = pass(thread);
	thread->dead = THREAD_LIVES;
	return result;
}

static long on_exit(struct thread *thread)
{
	if (tool() && tool()->thread_end)
		tool()->thread_end(thread);
	return end_run(thread);
}

static void range_changed(uint64_t start, uint64_t size, bool executable)
{
	engine_lock();
	guard_drop(start, start + size);
	if (regions_change(start, start + size, executable))
		cache_forget(start, start + size);
	engine_unlock();
}

static long implied = -1; /* personality; -1: not known */

static long on_personality(struct thread *thread)
{
	implied = -1;
	return pass(thread);
}

/* Old programs have memory that is executable if it can be read. */
static bool is_executable(uint64_t protection)
{
	enum { READ_IMPLIES_EXEC = 0x400000 };

	if (implied < 0)
		implied = sys_1(personality, 0xffffffff);
	return protection & PROT_EXEC || (protection & PROT_READ && implied & READ_IMPLIES_EXEC);
}

/* Calls that change mappings: what was translated there is not believed any more. */
static long on_mapping(struct thread *thread)
{
	const uint64_t *regs = thread->regs;
	uint64_t number = regs[RAX];
	bool executable = number != __NR_munmap && number != __NR_mremap &&
			  is_executable(regs[RDX]);
	long result;

	guard_release(regs[RDI], regs[RSI]); /* it may be moved, or fail halfway */
	result = pass(thread);

	if (result == PROGRAM_RESTART || (sys_failed(result) && number != __NR_mprotect))
		return result; /* but an mprotect that has failed may have done a part */
	range_changed(number == __NR_mmap ? (uint64_t)result : regs[RDI], regs[RSI], executable);
	if (number == __NR_mremap) /* it may have moved code */
		range_changed((uint64_t)result, regs[RDX], true);
	return result;
}

/* Memory that is discarded reads as 0 afterwards, or as the file has it, even where it cannot be written. */
static long on_advice(struct thread *thread)
{
	const uint64_t *regs = thread->regs;
	long result;

	switch (regs[RDX]) {
	case MADV_DONTNEED:
	case MADV_DONTNEED_LOCKED:
	case MADV_FREE:
	case MADV_REMOVE:
		guard_release(regs[RDI], regs[RSI]);
		result = pass(thread);
		range_changed(regs[RDI], regs[RSI], false);
		return result;
	default:
		return pass(thread);
	}
}

static long on_shared_memory(struct thread *thread)
{
	long result = pass(thread);

	range_changed(0, UINT64_MAX, true);
	return result;
}

static long on_open(struct thread *thread)
{
	const uint64_t *regs = thread->regs;
	bool at = regs[RAX] == __NR_openat;
	long result = pass(thread);

	if (!sys_failed(result) && result != PROGRAM_RESTART)
		maps_opened(result, at ? regs[RSI] : regs[RDI], at ? regs[RDX] : regs[RSI]);
	return result;
}

/* The new program has the mask that this one believes to have. */
static long exec_pass(struct thread *thread)
{
	uint64_t mask = signal_block();
	long result;

	if (thread->pending)
		return PROGRAM_RESTART;
	signal_unblock(guard_mask_program(thread, mask));
	result = pass(thread);
	mask = signal_block();
	if (thread->pending)
		thread->mask = guard_mask_kernel(thread, thread->mask);
	else
		signal_unblock(guard_mask_kernel(thread, mask));
	return result;
}

/*
 * A filter of the program's would be asked about the engine's own calls as well, and may kill for them. So a process with one
 * thread leaves the engine before it installs one, at the call itself. One with more goes on here and relies on the filter.
 */
static void on_filter(struct thread *thread, uint32_t length)
{
	if (!thread_is_alone(thread))
		return;
	thread->pc -= length;
	signal_hand_back(thread, ENGINE_LEAVE_FILTER);
	thread->pc += length;
}

static bool is_filter(const uint64_t *regs)
{
	if (regs[RAX] == __NR_seccomp)
		return regs[RDI] == SECCOMP_SET_MODE_FILTER || regs[RDI] == SECCOMP_SET_MODE_STRICT;
	return regs[RAX] == __NR_prctl && regs[RDI] == PR_SET_SECCOMP;
}

/* The host attaches for the moment of the exec and puts the engine into the new program. */
static long on_exec(struct thread *thread)
{
	bool at = thread->regs[RAX] == __NR_execveat;
	struct engine_request request = {
		.kind = ENGINE_REQUEST_EXEC,
		.directory = at ? (int)thread->regs[RDI] : -100, /* AT_FDCWD */
		.path = at ? thread->regs[RSI] : thread->regs[RDI],
	};
	bool followed = !(engine_boot.flags & ENGINE_NO_CHILDREN) && !host_ask(&request);
	long result = exec_pass(thread);

	request.kind = ENGINE_REQUEST_EXEC_FAILED;
	if (followed)
		host_ask(&request);
	return result;
}

bool syscall_run(struct thread *thread, uint32_t length)
{
	uint64_t *regs = thread->regs;
	long result;

	guard_release_arguments(thread);
	if (is_filter(regs))
		on_filter(thread, length);
	switch (regs[RAX]) {
	case __NR_clone:
		result = on_clone(thread);
		break;
	case __NR_clone3:
		result = on_clone3(thread);
		break;
	case __NR_fork:
		result = fork_run(thread, __NR_fork, 0, 0, 0, 0, 0);
		break;
	case __NR_vfork:
		result = on_vfork(thread);
		break;
	case __NR_arch_prctl:
		result = on_arch_prctl(thread);
		break;
	case __NR_exit:
		result = on_exit(thread);
		break;
	case __NR_exit_group: /* of a process that shares its memory with others, this is the end of one thread */
		result = end_run(thread);
		break;
	case __NR_mmap:
	case __NR_munmap:
	case __NR_mprotect:
	case __NR_pkey_mprotect:
	case __NR_mremap:
		result = on_mapping(thread);
		break;
	case __NR_personality:
		result = on_personality(thread);
		break;
	case __NR_madvise:
		result = on_advice(thread);
		break;
	case __NR_shmat:
	case __NR_shmdt:
		result = on_shared_memory(thread);
		break;
	case __NR_open:
	case __NR_openat:
		result = on_open(thread);
		break;
	case __NR_execve:
	case __NR_execveat:
		result = on_exec(thread);
		break;
	case __NR_rt_sigaction:
		result = signal_action(thread);
		break;
	case __NR_rt_sigprocmask:
		result = signal_mask(thread);
		break;
	case __NR_sigaltstack:
		result = signal_alternate(thread);
		break;
	case __NR_rt_sigreturn:
		signal_return(thread);
	case __NR_rseq:
		result = attach_rseq(thread);
		break;
	default:
		result = pass(thread);
		if (result == -EFAULT && guard_release_all())
			result = pass(thread);
	}
	if (result == PROGRAM_RESTART) {
		thread->pc -= length; /* once more, after the signal */
		return false;
	}
	regs[RAX] = (uint64_t)result;
	regs[RCX] = thread->pc; /* what the processor leaves there */
	regs[R11] = thread->flags;
	return true;
}
