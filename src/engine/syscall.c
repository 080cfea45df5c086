// SPDX-License-Identifier: BSD-2-Clause
/*
 * System calls of the program. Most go to the kernel as they are. Those that would take the program
 * out of the engine, or that change what the engine relies on, are done here.
 */
#include <linux/ioctl.h>
#include <linux/mman.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>

#include "engine/engine.h"
#include "engine/stream.h"
#include "engine/sys.h"
#include "engine/tool.h"

enum {
	ARCH_SET_GS = 0x1001,
	ARCH_GET_GS = 0x1004,
	ARCH_SHSTK_ENABLE = 0x5001,
	PROGRAM_SET_MDWE = 65, /* PR_SET_MDWE, which the oldest headers do not have */
	MDWE_REFUSE_EXEC_GAIN = 1,
	EPERM = 1,
	EFAULT = 14,
	EINVAL = 22,
	EOPNOTSUPP = 95,
};

void syscall_note(struct thread *thread, long result)
{
	thread->call_result = (uint64_t)result;
	thread->safe = result == PROGRAM_RESTART ? SAFE_CALL : SAFE_CALLED;
}

/* Notes that the call was executed: even after a fault of the engine it must not be repeated. */
static long called(struct thread *thread, long result)
{
	syscall_note(thread, result);
	fault_point(ENGINE_FAIL_CALLED);
	return result;
}

static long pass(struct thread *thread)
{
	return called(thread, program_syscall(thread));
}

/* Passes a call to the kernel that does not concern the engine. */
static long other(struct thread *thread)
{
	long result = pass(thread);

	return result == -EFAULT && guard_release_all() ? pass(thread) : result;
}

/* Makes the struct thread of a new thread, which will go on where its parent does. */
static struct thread *child_prepare(const struct thread *parent, uint64_t flags, uint64_t stack)
{
	struct thread *child;

	engine_lock();
	child = thread_create();
	if (!child)
		fault_memory("no memory for a thread"); /* it is made natively then */
	child->sighand = parent->sighand;
	if (flags & CLONE_CLEAR_SIGHAND)
		guard_show(); /* the kernel would not call us there */
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
	child->segv = parent->segv == SEGV_OPEN ? SEGV_OPEN : SEGV_HIDDEN;
	child->apart = !(flags & CLONE_THREAD);
	child->cleared = !!(flags & CLONE_CLEAR_SIGHAND);
	if (flags & CLONE_VFORK)
		child->alternate = parent->alternate;
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
 * After a fork the child is the same thread in another process, and the only one. The lock is held
 * during the fork, so that no other thread is in the middle of a change that the child would find
 * incomplete.
 */
static long fork_run(struct thread *thread, long number, long a, long b, long c, long d, long e)
{
	uint32_t catalog;
	long result;

	engine_lock();
	result = sys6(number, a, b, c, d, e, 0);
	if (result)
		called(thread, result);
	if (!result) {
		thread->call_result = 0;
		thread->safe = SAFE_CALLED;
		engine_lock_word = 0;
		thread->tid = (uint32_t)sys_0(gettid);
		thread->apart = 0;
		thread->dispatch.on = 0;
		threads_only(thread);
		mapping_forked();
		catalog = stream_wanted() ? stream_catalog() : 0;
		host_forked();
		if (stream_wanted())
			stream_fork(thread, catalog);
		tools_forked(thread);
		return 0;
	}
	engine_unlock();
	return result;
}

/* A signal for the child must not come before gs points to its own thread. */
static long child_start(struct thread *parent, struct thread *child, long number,
			const long with[5])
{
	uint64_t mask = signal_block();
	long result;

	child->start_mask = guard_mask_program(child, mask);
	result = clone_thread(number, with[0], with[1], with[2], with[3], with[4]);
	signal_unblock(mask);
	return called(parent, result);
}

/*
 * A child that was not made, or that has our memory no more: the parent waits for that after a
 * vfork.
 */
static void child_settle(struct thread *child, uint64_t flags, long result)
{
	if (sys_failed(result) || flags & CLONE_VFORK)
		thread_become(child, THREAD_GONE);
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
	child = child_prepare(thread, (uint32_t)regs[RDI], regs[RSI]);
	result = child_start(thread, child, __NR_clone,
			     (long[]){ (long)regs[RDI], (long)child_stack(child), (long)regs[RDX],
				       (long)regs[R10], (long)regs[R8] });
	child_settle(child, regs[RDI], result);
	return result;
}

/* What the kernel knows of a clone_args that is longer than ours must be zero there as well. */
static bool clone_args_read(uint64_t from, uint64_t size, struct clone_args *ret)
{
	uint64_t known = size < sizeof(*ret) ? size : sizeof(*ret), more;

	if (!user_read(ret, from, known))
		return false;
	for (uint64_t done = known, step; done < size; done += step) {
		step = size - done < sizeof(more) ? size - done : sizeof(more);
		more = 0;
		if (!user_read(&more, from + done, step) || more)
			return false;
	}
	return true;
}

/* The stack is replaced by the engine's: what is wrong with the program's only we can see. */
static bool is_stack(const struct clone_args *args)
{
	if (!args->stack)
		return !args->stack_size;
	return args->stack_size && args->stack <= USER_ADDRESSES &&
	       args->stack_size <= USER_ADDRESSES - args->stack;
}

static long on_clone3(struct thread *thread)
{
	uint64_t *regs = thread->regs, size = regs[RSI];
	struct clone_args args = {};
	struct thread *child;
	uint64_t stack;
	long result;

	if (size < CLONE_ARGS_SIZE_VER0 || size > 4096 ||
	    !clone_args_read(regs[RDI], size, &args) || !is_stack(&args))
		return pass(thread); /* the kernel says what is wrong with it */
	size = size < sizeof(args) ? size : sizeof(args);
	stack = args.stack ? args.stack + args.stack_size : 0;
	if (!(args.flags & CLONE_VM)) {
		args.stack = args.stack_size = 0;
		result = fork_run(thread, __NR_clone3, (long)&args, (long)size, 0, 0, 0);
		if (!result && args.flags & CLONE_CLEAR_SIGHAND)
			signal_handlers_clear(thread);
		if (!result && stack)
			regs[RSP] = stack;
		return result;
	}
	child = child_prepare(thread, args.flags, stack);
	args.stack = child->stack - 4096;
	args.stack_size = child_stack(child) - args.stack;
	result = child_start(thread, child, __NR_clone3, (long[5]){ (long)&args, (long)size });
	child_settle(child, args.flags, result);
	return result;
}

static long on_vfork(struct thread *thread)
{
	struct thread *child = child_prepare(thread, CLONE_VM | CLONE_VFORK, 0);
	long result =
		child_start(thread, child, __NR_clone,
			    (long[5]){ CLONE_VM | CLONE_VFORK | 17, (long)child_stack(child) });

	child_settle(child, CLONE_VFORK, result);
	return result;
}

static long on_arch_prctl(struct thread *thread)
{
	uint64_t *regs = thread->regs;

	switch ((uint32_t)regs[RDI]) {
	case ARCH_SET_GS:
		if (regs[RSI] >= USER_ADDRESSES)
			return -EPERM;
		thread->gs = regs[RSI];
		return 0;
	case ARCH_GET_GS:
		return user_write(regs[RSI], &thread->gs, sizeof(thread->gs)) ? 0 : -EFAULT;
	case ARCH_SHSTK_ENABLE: /* returns are jumps; programs work without it */
		return -EOPNOTSUPP;
	default:
		return pass(thread);
	}
}

/*
 * Inline code of tools reads the time stamp counter, so a process that forbids that (PR_SET_TSC)
 * leaves the engine.
 */
static long on_prctl(struct thread *thread)
{
	const uint64_t *regs = thread->regs;
	uint32_t option = (uint32_t)regs[RDI];

	if (option == PR_SET_SYSCALL_USER_DISPATCH)
		return user_dispatch_set(thread);
	if (option == PR_SET_TSC && (uint32_t)regs[RSI] == PR_TSC_SIGSEGV && tools_offer.paused) {
		thread->pc -= thread->call_length;
		native_go(thread, ENGINE_LEAVE_CLOCK);
	}
	return other(thread);
}

/* Comes back only if a signal is to be delivered first. */
static long end_run(struct thread *thread)
{
	long result;

	thread_become(thread, THREAD_ENDING);
	result = pass(thread);
	thread_become(thread, THREAD_INSIDE);
	return result;
}

static long on_thread_exit(struct thread *thread)
{
	tools_thread_end(thread);
	return end_run(thread);
}

/* Its flags are the first word of a structure. */
static long on_openat2(struct thread *thread)
{
	const uint64_t *regs = thread->regs;
	long result = pass(thread);
	uint64_t flags;

	if (!sys_failed(result) && result != PROGRAM_RESTART &&
	    user_read(&flags, regs[RDX], sizeof(flags)))
		maps_opened(thread, result, regs[RSI], flags);
	return result;
}

static long on_open(struct thread *thread)
{
	const uint64_t *regs = thread->regs;
	bool at = regs[RAX] == __NR_openat;
	long result = pass(thread);

	if (!sys_failed(result) && result != PROGRAM_RESTART)
		maps_opened(thread, result, at ? regs[RSI] : regs[RDI], at ? regs[RDX] : regs[RSI]);
	return result;
}

/*
 * The engine's memory is locked as well, gigabytes of it with tools that record: what is locked is
 * what was touched.
 */
static long on_lock_all(struct thread *thread)
{
	uint64_t wanted = thread->regs[RDI];
	long result;

	if (wanted & (MCL_CURRENT | MCL_FUTURE))
		thread->regs[RDI] |= MCL_ONFAULT;
	result = pass(thread);
	thread->regs[RDI] = wanted;
	return result;
}

/* A kernel without rseq, as which we answer, has no barriers for it either. */
static long on_barrier(struct thread *thread)
{
	enum { COMMAND_QUERY = 0, RSEQ_COMMANDS = 1 << 7 | 1 << 8 };
	int command = (int)thread->regs[RDI];
	long result;

	if (attach_has_rseq())
		return other(thread);
	if (command > 0 && command & RSEQ_COMMANDS)
		return -EINVAL;
	result = other(thread);
	return command == COMMAND_QUERY && !sys_failed(result) ? result & ~RSEQ_COMMANDS : result;
}

static long on_ioctl(struct thread *thread)
{
	uint32_t command = (uint32_t)thread->regs[RSI];

	return command == UFFDIO_REGISTER ? mapping_brought(thread) : other(thread);
}

static long on_write(struct thread *thread)
{
	long result = other(thread);

	if (result > 0 && result != PROGRAM_RESTART)
		maps_written((int)thread->regs[RDI]);
	return result;
}

/* The new program has the mask that this one believes to have. */
static long exec_pass(struct thread *thread)
{
	uint64_t mask = signal_close();
	long result;

	if (thread->pending) {
		signal_stay_blocked(thread);
		return PROGRAM_RESTART;
	}
	limits_exec(false);
	signal_ignored_give(thread);
	signal_open(guard_mask_program(thread, mask));
	result = program_syscall(thread);
	mask = signal_close();
	signal_ignored_take(thread);
	limits_exec(true);
	if (thread->pending) {
		thread->mask = guard_mask_kernel(thread, thread->mask);
		signal_stay_blocked(thread);
	} else {
		signal_open(guard_mask_kernel(thread, mask));
	}
	return called(thread, result);
}

/*
 * Whether the call denies memory that is writable and executable to the whole process, and thereby
 * to the engine.
 */
static bool is_denial(const uint64_t *regs)
{
	return (uint32_t)regs[RDI] == PROGRAM_SET_MDWE && regs[RSI] & MDWE_REFUSE_EXEC_GAIN;
}

static bool is_filter(const uint64_t *regs)
{
	uint32_t what = (uint32_t)regs[RDI];

	if (regs[RAX] == __NR_seccomp)
		return what == SECCOMP_SET_MODE_FILTER || what == SECCOMP_SET_MODE_STRICT;
	return regs[RAX] == __NR_prctl && (what == PR_SET_SECCOMP || is_denial(regs));
}

/*
 * A seccomp filter of the program also applies to the engine's own system calls, and may kill the
 * process for them. So a process with one thread leaves the engine before it installs a filter, at
 * the call itself. A process with several threads stays, and relies on the filter to allow the
 * engine's calls. Guarded pages are given up, because the filter may forbid mprotect().
 */
static void on_filter(struct thread *thread, uint32_t length)
{
	if (!is_filter(thread->regs))
		return;
	if (!thread_is_alone(thread)) {
		if (is_denial(thread->regs)) {
			engine_lock();
			guard_end();
			engine_unlock();
		} else {
			host_filtered();
		}
		return;
	}
	thread->pc -= length;
	signal_hand_back(thread, ENGINE_LEAVE_FILTER);
	thread->pc += length;
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

void syscall_finish(struct thread *thread, long result)
{
	thread->regs[RAX] = (uint64_t)result;
	thread->regs[RCX] = thread->pc; /* what the processor leaves there */
	thread->regs[R11] = thread->flags;
	thread->safe = SAFE_STATE;
}

/*
 * The kernel looks at the low 32 bits only, as here and there of arguments: what a program leaves
 * above them has no meaning.
 */
static void number_narrow(struct thread *thread)
{
	thread->regs[RAX] = (uint64_t)(int32_t)thread->regs[RAX];
}

/* Does what the call means for the engine, and passes it to the kernel if it is to have it. */
static long call_run(struct thread *thread)
{
	const uint64_t *regs = thread->regs;
	long result;

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
	case __NR_getrlimit:
	case __NR_setrlimit:
	case __NR_prlimit64:
		if (!limits_run(thread, &result))
			result = other(thread);
		break;
	case __NR_prctl:
		result = on_prctl(thread);
		break;
	case __NR_exit:
		result = on_thread_exit(thread);
		break;
	/* of a process that shares its memory with others, this is the end of one thread */
	case __NR_exit_group:
		stream_process_end(thread);
		result = end_run(thread);
		break;
	case __NR_mmap:
	case __NR_munmap:
	case __NR_mprotect:
	case __NR_pkey_mprotect:
	case __NR_mremap:
		result = mapping_change(thread);
		break;
	case __NR_personality:
		result = mapping_personality(thread);
		break;
	case __NR_madvise:
		result = mapping_advice(thread);
		break;
	case __NR_msync:
	case __NR_mincore:
	case __NR_mlock:
	case __NR_mlock2:
	case __NR_munlock:
		result = mapping_range(thread);
		break;
	case __NR_mlockall:
		result = on_lock_all(thread);
		break;
	case __NR_brk:
		result = mapping_heap(thread);
		break;
	case __NR_ioctl:
		result = on_ioctl(thread);
		break;
	case __NR_shmat:
	case __NR_shmdt:
		result = mapping_shared(thread);
		break;
	case __NR_open:
	case __NR_openat:
		result = on_open(thread);
		break;
	case __NR_openat2:
		result = on_openat2(thread);
		break;
	case __NR_write:
	case __NR_pwrite64:
	case __NR_writev:
	case __NR_pwritev:
	case __NR_pwritev2:
		result = on_write(thread);
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
	case __NR_membarrier:
		result = regs[RAX] == __NR_rseq ? attach_rseq(thread) : on_barrier(thread);
		break;
	default:
		result = other(thread);
	}
	return result;
}

bool syscall_run(struct thread *thread, uint32_t length)
{
	long result;

	number_narrow(thread);
	thread->call_length = length;
	thread->safe = SAFE_CALL;
	if (user_dispatch_take(thread)) {
		thread->safe = SAFE_STATE;
		return true;
	}
	guard_release_arguments(thread);
	on_filter(thread, length);
	result = call_run(thread);
	if (result == PROGRAM_RESTART) {
		thread->pc -= length; /* once more, after the signal */
		thread->safe = SAFE_STATE;
		return false;
	}
	syscall_finish(thread, result);
	return true;
}
