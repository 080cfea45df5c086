// SPDX-License-Identifier: BSD-2-Clause
/*
 * Signals of the program.
 *
 * The kernel calls one handler of ours for every signal that the program handles, on a stack of ours, with everything
 * blocked. It finds out what the program's registers are at that moment and makes the frame that the kernel would have
 * made, where it would have made it; then it returns into the engine, which goes on with the program's handler. The
 * masks that the kernel holds are always the program's own, so that sigwait, signalfd and the rest stay true.
 *
 *	in the cache			the fragment is translated back to the program's state (translate_back)
 *	in the program's system call	the call is over or is to be restarted: both are states of the program
 *	on the way into the cache	registers are still in the thread
 *	anywhere else in the engine	the signal waits, everything stays blocked, and signal_check() queues it once
 *					more where the registers are in the thread
 *
 * Invariants
 * 1. While a signal waits, all are blocked: there is never more than one.
 * 2. The kernel's frame brings the program's vector registers; the engine itself does not touch them.
 */
#include <asm/sigcontext.h>
#include <asm/siginfo.h>
#include <asm/signal.h>
#include <asm/ucontext.h>
#include <linux/signal.h>

#include "engine/engine.h"
#include "engine/sys.h"

enum {
	SIGNAL_STACK = 64 * 1024,
	RED_ZONE = 128,
	SIGNALS = 64,
	EINVAL_ = 22,
	EPERM_ = 1,
	ENOMEM_ = 12,
	EFAULT_ = 14,
	XSTATE_HEADER = 512, /* of an xsave area: which parts are not in their initial state */
	MXCSR_OFFSET = 24,
	MXCSR_DEFAULT = 0x1f80,
	FLAGS_CLEARED = 0x10500, /* direction, trap, resume */
};

#define ALL (~0ull)

/* As the kernel lays it out. */
struct frame {
	uint64_t restorer;
	struct ucontext context;
	siginfo_t info;
};

struct kernel_action {
	uint64_t handler;
	uint64_t flags;
	uint64_t restorer;
	uint64_t mask;
};

struct kernel_stack {
	uint64_t start;
	uint32_t flags;
	uint32_t reserved;
	uint64_t size;
};

uint64_t signal_block(void)
{
	uint64_t all = ALL, before = 0;

	sys_4(rt_sigprocmask, SIG_SETMASK, &all, &before, 8);
	return before;
}

void signal_unblock(uint64_t mask)
{
	sys_4(rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
}

/* Of a program that has just begun: what it ignores comes from whoever executed it. */
static struct sighand *handlers_inherit(void)
{
	struct sighand *sighand = memory_take(sizeof(*sighand));
	struct kernel_action action = {};

	for (uint64_t i = 0; i < SIGNALS; i++)
		if (!sys_4(rt_sigaction, i + 1, 0, &action, 8))
			sighand->handlers[i].handler = action.handler;
	return sighand;
}

void signal_start(struct thread *thread)
{
	struct kernel_stack stack;

	if (!thread->sighand)
		thread->sighand = handlers_inherit();
	if (!thread->signal_stack)
		thread->signal_stack = (uint64_t)memory_map(SIGNAL_STACK);
	stack = (struct kernel_stack){ .start = thread->signal_stack, .size = SIGNAL_STACK };
	sys_2(sigaltstack, &stack, 0);
}

static bool is_handled(uint64_t handler)
{
	return handler > 1; /* neither SIG_DFL nor SIG_IGN */
}

static void handlers_clear(struct sighand *sighand)
{
	for (size_t i = 0; i < SIGNALS; i++)
		if (is_handled(sighand->handlers[i].handler))
			sighand->handlers[i] = (struct handler){};
}

void signal_handlers_copy(struct thread *thread, const struct sighand *from, bool clear)
{
	if (!thread->handlers)
		thread->handlers = memory_take(sizeof(*thread->handlers));
	*thread->handlers = *from;
	thread->sighand = thread->handlers;
	if (clear)
		handlers_clear(thread->handlers);
}

void signal_handlers_clear(struct thread *thread)
{
	handlers_clear(thread->sighand);
}

/* Another thread may be changing it. */
static struct handler handler_get(const struct sighand *sighand, uint64_t number)
{
	struct handler handler;
	uint32_t version;

	do {
		version = __atomic_load_n(&sighand->version, __ATOMIC_ACQUIRE);
		handler = sighand->handlers[number - 1];
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while (version & 1 || version != __atomic_load_n(&sighand->version, __ATOMIC_RELAXED));
	return handler;
}

/* The caller holds the engine's lock and has all signals blocked. */
static void handler_set(struct sighand *sighand, uint64_t number, const struct handler *handler)
{
	__atomic_add_fetch(&sighand->version, 1, __ATOMIC_ACQ_REL);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	sighand->handlers[number - 1] = *handler;
	__atomic_add_fetch(&sighand->version, 1, __ATOMIC_RELEASE);
}

/* --- What the program asks for ------------------------------------------------------------------------ */

static long action_install(uint64_t number, const struct handler *wanted)
{
	struct kernel_action action = {
		.handler = wanted->handler,
		.flags = wanted->flags,
		.restorer = wanted->restorer,
		.mask = wanted->mask,
	};

	if (is_handled(wanted->handler) || (number == SIGSEGV && guard_is_on())) {
		action.handler = (uint64_t)signal_entry;
		action.flags = (wanted->flags & (SA_RESTART | SA_NOCLDSTOP | SA_NOCLDWAIT)) |
			       SA_SIGINFO | SA_ONSTACK | SA_RESTORER;
		action.restorer = (uint64_t)signal_restorer;
		action.mask = ALL;
	}
	return sys_4(rt_sigaction, number, &action, 0, 8);
}

void signal_take_traps(void)
{
	static const struct handler ours = { .handler = (uint64_t)-1 };

	action_install(SIGTRAP, &ours);
}

void signal_give_traps(struct thread *thread)
{
	struct handler wanted = handler_get(thread->sighand, SIGTRAP);

	action_install(SIGTRAP, &wanted);
}

/* A handler is known here before the kernel can call it, and as long as it can. */
static long handler_change(struct sighand *sighand, uint64_t number, const struct handler *next,
			   struct handler *ret_before)
{
	struct handler before;
	uint64_t mask = signal_block();
	long result;

	engine_lock();
	before = sighand->handlers[number - 1];
	if (is_handled(next->handler))
		handler_set(sighand, number, next);
	result = action_install(number, next);
	handler_set(sighand, number, result ? &before : next);
	engine_unlock();
	signal_unblock(mask);
	*ret_before = before;
	return result;
}

long signal_action(struct thread *thread)
{
	uint64_t number = thread->regs[RDI], wanted = thread->regs[RSI], old = thread->regs[RDX];
	struct kernel_action given;
	struct handler before;
	long result = 0;

	if (thread->regs[R10] != 8)
		return -EINVAL_;
	if (wanted && !user_read(&given, wanted, sizeof(given)))
		return -EFAULT_;
	if (number < 1 || number > SIGNALS)
		return -EINVAL_;
	before = handler_get(thread->sighand, number);
	if (wanted) {
		struct handler next = { given.handler, given.flags, given.restorer, given.mask };

		result = handler_change(thread->sighand, number, &next, &before);
	}
	given = (struct kernel_action){ before.handler, before.flags, before.restorer,
					before.mask };
	if (!result && old && !user_write(old, &given, sizeof(given)))
		return -EFAULT_;
	return result;
}

void signal_fault_take(const struct thread *thread)
{
	struct handler handler = handler_get(thread->sighand, SIGSEGV);

	action_install(SIGSEGV, &handler);
}

static uint64_t mask_after(uint64_t how, uint64_t before, uint64_t set)
{
	switch (how) {
	case SIG_BLOCK:
		return before | set;
	case SIG_UNBLOCK:
		return before & ~set;
	default:
		return set;
	}
}

/* The kernel has done it, and something is guarded meanwhile or may be later. A signal may wait since. */
static void mask_note(struct thread *thread)
{
	uint64_t mask = signal_block();

	if (thread->pending)
		thread->mask = guard_mask_kernel(thread, thread->mask);
	else
		signal_unblock(guard_mask_kernel(thread, mask));
}

/* SIGSEGV stays with us if it has to. */
static long mask_change(struct thread *thread, uint64_t how, const uint64_t *set,
			uint64_t *ret_before)
{
	uint64_t kernel = signal_block();

	if (thread->pending)
		return PROGRAM_RESTART; /* everything is to be blocked until it was delivered */
	*ret_before = guard_mask_program(thread, kernel);
	if (set)
		kernel = guard_mask_kernel(thread, mask_after(how, *ret_before, *set));
	signal_unblock(kernel);
	return 0;
}

long signal_mask(struct thread *thread)
{
	uint64_t how = thread->regs[RDI], set = thread->regs[RSI], old = thread->regs[RDX];
	uint64_t given = 0, before;
	long result;

	if (thread->regs[R10] != 8 || !guard_is_on()) {
		result = program_syscall(thread);
		if (!result && set)
			mask_note(thread);
		return result;
	}
	if (set && !user_read(&given, set, sizeof(given)))
		return -EFAULT_;
	if (set && how > SIG_SETMASK)
		return -EINVAL_;
	result = mask_change(thread, how, set ? &given : NULL, &before);
	if (!result && old && !user_write(old, &before, sizeof(before)))
		return -EFAULT_;
	return result;
}

/* As the kernel sees it: a stack that disarms itself is never in use. */
static bool is_on_alternate(const struct thread *thread)
{
	const struct alternate *alternate = &thread->alternate;

	return alternate->size && !(alternate->flags & SS_AUTODISARM) &&
	       thread->regs[RSP] > alternate->start &&
	       thread->regs[RSP] - alternate->start <= alternate->size;
}

static uint32_t alternate_flags(const struct thread *thread)
{
	if (!thread->alternate.size)
		return SS_DISABLE;
	return thread->alternate.flags | (is_on_alternate(thread) ? SS_ONSTACK : 0);
}

static long alternate_set(struct thread *thread, const struct kernel_stack *wanted)
{
	uint32_t mode = wanted->flags & ~(uint32_t)SS_AUTODISARM;

	if (is_on_alternate(thread))
		return -EPERM_;
	if (mode != 0 && mode != SS_ONSTACK && mode != SS_DISABLE)
		return -EINVAL_;
	if (mode != SS_DISABLE && wanted->size < MINSIGSTKSZ)
		return -ENOMEM_;
	thread->alternate = (struct alternate){ .flags = wanted->flags & SS_AUTODISARM };
	if (mode != SS_DISABLE) {
		thread->alternate.start = wanted->start;
		thread->alternate.size = wanted->size;
	}
	return 0;
}

long signal_alternate(struct thread *thread)
{
	uint64_t wanted = thread->regs[RDI], old = thread->regs[RSI];
	struct kernel_stack given, before = {
		.start = thread->alternate.start,
		.size = thread->alternate.size,
		.flags = alternate_flags(thread),
	};
	long result = 0;

	if (wanted && !user_read(&given, wanted, sizeof(given)))
		return -EFAULT_;
	if (wanted)
		result = alternate_set(thread, &given);
	if (!result && old && !user_write(old, &before, sizeof(before)))
		return -EFAULT_;
	return result;
}

/* --- Registers and contexts ---------------------------------------------------------------------------- */

static void registers_take(struct thread *thread, const struct sigcontext *from)
{
	const uint64_t regs[16] = { from->rax, from->rcx, from->rdx, from->rbx,
				    from->rsp, from->rbp, from->rsi, from->rdi,
				    from->r8,  from->r9,  from->r10, from->r11,
				    from->r12, from->r13, from->r14, from->r15 };

	for (size_t i = 0; i < 16; i++)
		thread->regs[i] = regs[i];
	thread->flags = from->eflags;
	thread->pc = from->rip;
}

static void registers_give(const struct thread *thread, struct sigcontext *to)
{
	const uint64_t *regs = thread->regs;

	to->rax = regs[RAX];
	to->rcx = regs[RCX];
	to->rdx = regs[RDX];
	to->rbx = regs[RBX];
	to->rsp = regs[RSP];
	to->rbp = regs[RBP];
	to->rsi = regs[RSI];
	to->rdi = regs[RDI];
	to->r8 = regs[R8];
	to->r9 = regs[R9];
	to->r10 = regs[R10];
	to->r11 = regs[R11];
	to->r12 = regs[R12];
	to->r13 = regs[R13];
	to->r14 = regs[R14];
	to->r15 = regs[R15];
	to->rip = thread->pc;
	to->eflags = thread->flags;
}

/* --- Delivery -------------------------------------------------------------------------------------------- */

static uint64_t vector_size(const struct ucontext *context)
{
	const struct _fpx_sw_bytes *software = &context->uc_mcontext.fpstate->sw_reserved;

	return software->magic1 == FP_XSTATE_MAGIC1 ? software->extended_size : 512;
}

static void copy_bytes(void *to, const void *from, size_t size)
{
	for (size_t i = 0; i < size / 8; i++)
		((volatile uint64_t *)to)[i] = ((const uint64_t *)from)[i];
	for (size_t i = size & ~(size_t)7; i < size; i++)
		((volatile uint8_t *)to)[i] = ((const uint8_t *)from)[i];
}

static uint64_t frame_place(const struct thread *thread, const struct handler *handler)
{
	if (handler->flags & SA_ONSTACK && thread->alternate.size && !is_on_alternate(thread))
		return thread->alternate.start + thread->alternate.size;
	return thread->regs[RSP] - RED_ZONE;
}

/* The last x87 instruction is the program's. */
static void vectors_correct(struct thread *thread, struct _fpstate *vectors)
{
	if (thread->native || !vectors->rip)
		return;
	engine_lock();
	vectors->rip = translate_address(thread, vectors->rip);
	engine_unlock();
}

/* NULL: there is no room for it. */
static struct frame *frame_make(struct thread *thread, const struct handler *handler,
				const siginfo_t *info, const struct ucontext *context,
				uint64_t mask)
{
	uint64_t size = vector_size(context), top = frame_place(thread, handler);
	uint64_t vectors = (top - size) & ~63ull;
	struct frame *frame = (struct frame *)(((vectors - sizeof(*frame)) & ~15ull) - 8);

	guard_release((uint64_t)frame, vectors + size - (uint64_t)frame);
	if (!user_touch((uint64_t)frame, vectors + size - (uint64_t)frame))
		return NULL;
	copy_bytes((void *)vectors, context->uc_mcontext.fpstate, size);
	vectors_correct(thread, (struct _fpstate *)vectors);
	copy_bytes(&frame->context, context, sizeof(*context));
	copy_bytes(&frame->info, info, sizeof(*info));
	frame->restorer = handler->restorer;
	frame->context.uc_link = 0;
	frame->context.uc_stack.ss_sp = (void *)thread->alternate.start;
	frame->context.uc_stack.ss_size = thread->alternate.size;
	frame->context.uc_stack.ss_flags = (int)alternate_flags(thread);
	if (thread->native) /* the kernel itself will return from it, and keep what it finds */
		frame->context.uc_stack = context->uc_stack;
	registers_give(thread, &frame->context.uc_mcontext);
	frame->context.uc_mcontext.fpstate = (struct _fpstate *)vectors;
	mask = guard_mask_program(thread, mask);
	copy_bytes(&frame->context.uc_sigmask, &mask, sizeof(mask));
	return frame;
}

/* The handler begins with vector registers in their initial state. */
static void vectors_reset(struct ucontext *context)
{
	uint8_t *area = (uint8_t *)context->uc_mcontext.fpstate;

	if (((struct _fpstate *)area)->sw_reserved.magic1 != FP_XSTATE_MAGIC1)
		return;
	*(uint64_t *)(area + XSTATE_HEADER) = 0;
	*(uint32_t *)(area + MXCSR_OFFSET) = MXCSR_DEFAULT;
}

/* The addresses of code in a siginfo are the program's. */
static void info_correct(const struct thread *thread, int number, uint64_t at, siginfo_t *info)
{
	if (info->si_code > 0 && info->si_code != SI_KERNEL && info->si_addr == (void *)at &&
	    (number == SIGILL || number == SIGFPE || number == SIGTRAP))
		info->si_addr = (void *)thread->pc;
}

/* Afterwards the thread goes on, in the engine, with the registers that are in it. */
static void context_resume(const struct thread *thread, struct ucontext *context, uint64_t mask)
{
	context->uc_mcontext.rip = (uint64_t)signal_resume;
	context->uc_mcontext.rsp = thread->stack;
	context->uc_mcontext.eflags = 0x202;
	copy_bytes(&context->uc_sigmask, &mask, sizeof(mask));
}

static void signal_send(int number, const void *info)
{
	sys_4(rt_tgsigqueueinfo, sys_0(getpid), sys_0(gettid), number, info);
}

/* The process ends by this signal as soon as the handler that we are in returns. */
static void end_by(int number, struct ucontext *context)
{
	struct kernel_action action = {};
	uint64_t mask = ALL & ~(1ull << (number - 1));

	sys_4(rt_sigaction, number, &action, 0, 8);
	sys_3(tgkill, sys_0(getpid), sys_0(gettid), number);
	copy_bytes(&context->uc_sigmask, &mask, sizeof(mask));
}

static void deliver(struct thread *thread, int number, siginfo_t *info, struct ucontext *context,
		    uint64_t mask);

/* There is no room for a frame. The kernel says so with SIGSEGV, if that can be said. */
static void frame_fails(struct thread *thread, int number, struct ucontext *context, uint64_t mask)
{
	siginfo_t info = { .si_signo = SIGSEGV, .si_code = SI_KERNEL };
	struct handler handler = handler_get(thread->sighand, SIGSEGV);

	if (number != SIGSEGV && is_handled(handler.handler) && !(mask & 1ull << (SIGSEGV - 1)))
		deliver(thread, SIGSEGV, &info, context, mask);
	else
		end_by(SIGSEGV, context);
}

/* It was handled when the kernel called us, and is not any more. A fault comes again by itself. */
static void deliver_unhandled(struct thread *thread, int number, const siginfo_t *info,
			      struct ucontext *context, uint64_t mask)
{
	struct handler handler = handler_get(thread->sighand, (uint64_t)number);

	if (number == SIGSEGV && guard_is_on()) { /* it comes to us only */
		if (handler.handler && info->si_code <= 0)
			context_resume(thread, context, mask);
		else
			end_by(SIGSEGV, context);
		return;
	}
	if (info->si_code <= 0)
		signal_send(number, info);
	context_resume(thread, context, mask);
}

static void handler_reset(struct sighand *sighand, uint64_t number)
{
	struct handler none = {};

	engine_lock();
	action_install(number, &none);
	handler_set(sighand, number, &none);
	engine_unlock();
}

/* Registers are in the thread; mask: the program's. Afterwards the thread is about to run the handler. */
static void deliver(struct thread *thread, int number, siginfo_t *info, struct ucontext *context,
		    uint64_t mask)
{
	struct handler handler = handler_get(thread->sighand, (uint64_t)number);
	uint64_t during = guard_mask_program(thread, mask) | handler.mask;
	struct frame *frame;

	if (!is_handled(handler.handler)) {
		deliver_unhandled(thread, number, info, context, mask);
		return;
	}
	info_correct(thread, number, context->uc_mcontext.rip, info);
	frame = frame_make(thread, &handler, info, context, mask);
	if (!frame) {
		frame_fails(thread, number, context, mask);
		return;
	}
	if (!(handler.flags & SA_NODEFER))
		during |= 1ull << (number - 1);
	if (handler.flags & SA_RESETHAND)
		handler_reset(thread->sighand, (uint64_t)number);
	if (thread->alternate.flags & SS_AUTODISARM)
		thread->alternate = (struct alternate){};
	thread->regs[RSP] = (uint64_t)frame;
	thread->regs[RAX] = 0;
	thread->regs[RDI] = (uint64_t)number;
	thread->regs[RSI] = (uint64_t)&frame->info;
	thread->regs[RDX] = (uint64_t)&frame->context;
	thread->pc = handler.handler;
	thread->flags &= ~(uint64_t)FLAGS_CLEARED;
	vectors_reset(context);
	context_resume(thread, context, guard_mask_kernel(thread, during));
}

static void hold(struct thread *thread, int number, const siginfo_t *info, struct ucontext *context,
		 uint64_t mask)
{
	uint64_t all = ALL;

	thread->pending = (uint64_t)number;
	thread->mask = mask;
	copy_bytes(thread->pending_info, info, sizeof(thread->pending_info));
	copy_bytes(&context->uc_sigmask, &all, sizeof(all));
}

static bool is_between(uint64_t rip, const void *begin, const void *end)
{
	return rip >= (uint64_t)begin && rip < (uint64_t)end;
}

static bool is_engine(uint64_t rip)
{
	return rip - engine_boot.image_start < engine_boot.image_size;
}

/* The program's registers, of a thread that was interrupted in the cache or on its edge. False: it was elsewhere. */
static bool registers_find(struct thread *thread, const struct sigcontext *context)
{
	uint64_t target = thread->pc;
	bool found;

	if (is_between(context->rip, engine_miss, engine_miss_end)) {
		registers_take(thread, context);
		thread->pc = target;
		thread->regs[RCX] = thread->spill[0];
		thread->regs[RDX] = thread->spill[1];
		engine_lock();
		if (!awkward_is_address(target))
			branch_undo_at(thread, thread->exit);
		engine_unlock();
		return true;
	}
	if (is_engine(context->rip))
		return false; /* it may hold the lock */
	engine_lock();
	found = cache_holder(context->rip) != NULL;
	if (found) {
		registers_take(thread, context);
		translate_back(thread, context->rip);
	}
	engine_unlock();
	return found;
}

/* A SIGSEGV that is not for the program, or not yet. True: it is done with. */
static bool fault_take(struct thread *thread, const siginfo_t *info, struct ucontext *context,
		       uint64_t mask)
{
	if (!guard_is_on())
		return false;
	if (info->si_code == SEGV_ACCERR && guard_fault((uint64_t)info->si_addr)) {
		if (registers_find(thread, &context->uc_mcontext))
			context_resume(thread, context, mask);
		return true;
	}
	if (!thread->segv_hidden || thread->native)
		return false;
	if (info->si_code > 0)
		end_by(SIGSEGV, context); /* as the kernel does if it cannot be delivered */
	else
		thread->segv_waits = 1;
	return true;
}

/* In the handler of the signal that was sent for it: the kernel sets everything at once when it returns. */
static void hand_back(struct thread *thread, uint64_t number, struct ucontext *context)
{
	const struct handler *own = &thread->sighand->handlers[number - 1];
	uint64_t mask = guard_mask_program(thread, thread->mask);

	action_install(number, own);
	signal_handlers_give(thread->sighand);
	thread->handed_back = 0;
	thread->native = 1;
	registers_give(thread, &context->uc_mcontext);
	context->uc_stack.ss_sp = (void *)thread->alternate.start;
	context->uc_stack.ss_size = thread->alternate.size;
	context->uc_stack.ss_flags =
		(int)(thread->alternate.size ? thread->alternate.flags : SS_DISABLE);
	copy_bytes(&context->uc_sigmask, &mask, sizeof(mask));
	__asm__ volatile("wrgsbase %0" : : "r"(thread->gs) : "memory");
}

/* One that nobody waits for. */
static uint64_t signal_unused(const struct sighand *sighand)
{
	uint64_t pending = ALL, number = SIGNALS;

	sys_2(rt_sigpending, &pending, 8);
	while (number > 1 &&
	       (pending >> (number - 1) & 1 || is_handled(sighand->handlers[number - 1].handler)))
		number--;
	return number;
}

void signal_hand_back(struct thread *thread, enum engine_leave reason)
{
	struct kernel_action action = { .handler = (uint64_t)signal_entry,
					.flags = SA_SIGINFO | SA_ONSTACK | SA_RESTORER,
					.restorer = (uint64_t)signal_restorer,
					.mask = ALL };
	uint64_t mask = signal_block(), number = signal_unused(thread->sighand), but;

	if (thread->pending)
		return;
	thread->mask = mask;
	engine_lock();
	guard_end();
	engine_unlock();
	host_left(reason, 1);
	thread->leave = reason;
	thread->handed_back = 1;
	sys_4(rt_sigaction, number, &action, 0, 8);
	sys_3(tgkill, sys_0(getpid), sys_0(gettid), number);
	but = ALL & ~(1ull << (number - 1));
	signal_let(&but);
	engine_die("a signal of our own did not come");
}

/*
 * A thread that we have never seen: one that had left made it. The kernel's frame is the one it would have got without us,
 * so the program's handler is called on it as it is.
 */
static void pass_on(int number, siginfo_t *info, struct ucontext *context)
{
	struct sighand *sighand = thread_any_handlers();
	struct handler handler;
	uint64_t mask;

	if (number == SIGSEGV && info->si_code == SEGV_ACCERR && guard_is_on() &&
	    guard_fault((uint64_t)info->si_addr))
		return;
	if (!sighand) { /* the last thread is being given back: once more, to whom handles it then */
		sys_4(rt_tgsigqueueinfo, sys_0(getpid), sys_0(gettid), number, info);
		return;
	}
	handler = handler_get(sighand, (uint64_t)number);
	if (!is_handled(handler.handler)) {
		if (!handler.handler)
			end_by(number, context);
		return;
	}
	copy_bytes(&mask, &context->uc_sigmask, sizeof(mask));
	mask |= handler.mask | (handler.flags & SA_NODEFER ? 0 : 1ull << (number - 1));
	if (handler.flags & SA_RESETHAND)
		handler_reset(sighand, (uint64_t)number);
	signal_unblock(mask);
	((void (*)(int, siginfo_t *, void *))handler.handler)(number, info, context);
}

void signal_arrive(int number, void *info_given, void *context_given)
{
	struct ucontext *context = context_given;
	siginfo_t *info = info_given;
	struct thread *thread;
	uint64_t rip = context->uc_mcontext.rip, mask;

	thread = thread_find();
	if (!thread) {
		pass_on(number, info, context);
		return;
	}
	copy_bytes(&mask, &context->uc_sigmask, sizeof(mask));
	if (thread->handed_back) {
		hand_back(thread, (uint64_t)number, context);
		return;
	}
	if (number == SIGSEGV && fault_take(thread, info, context, mask))
		return;
	if (thread->step)
		mask = thread->step_mask;
	if (thread->native && !is_engine(rip) &&
	    native_back(thread, rip, context->uc_mcontext.cs, context->uc_mcontext.eflags)) {
		registers_take(thread, &context->uc_mcontext);
		if (step_end(thread, number, info->si_code))
			context_resume(thread, context, mask);
		else
			deliver(thread, number, info, context, mask);
		return;
	}
	if (thread->native && !is_engine(rip)) {
		registers_take(thread, &context->uc_mcontext);
		deliver(thread, number, info, context, mask);
		registers_give(thread, &context->uc_mcontext); /* straight to the handler */
		return;
	}
	if (thread->delivering) {
		thread->delivering = 0;
		deliver(thread, number, info, context, thread->mask);
		return;
	}
	if (is_between(rip, engine_resume_begin, engine_resume_end)) {
		if (thread->native) {
			native_cancel(thread);
			step_end(thread, 0, 0);
		} else {
			engine_lock();
			translate_back(thread,
				       thread->next); /* it may be the middle of a fragment */
			engine_unlock();
		}
		deliver(thread, number, info, context, mask);
		return;
	}
	if (rip >= (uint64_t)program_syscall_begin && rip <= (uint64_t)program_syscall_insn) {
		/* Not done, or to be done again. */
		context->uc_mcontext.rax = PROGRAM_RESTART;
		context->uc_mcontext.rip = (uint64_t)program_syscall_done;
		hold(thread, number, info, context, mask);
		return;
	}
	if (registers_find(thread, &context->uc_mcontext)) {
		deliver(thread, number, info, context, mask);
		return;
	}
	if (info->si_code > 0 &&
	    (number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE))
		engine_die("a fault in the engine itself");
	hold(thread, number, info, context, mask);
}

void signal_check(struct thread *thread)
{
	uint64_t but;
	uint64_t number = thread->pending;

	if (!number)
		return;
	thread->pending = 0;
	thread->delivering = 1;
	signal_send((int)number, thread->pending_info);
	but = ALL & ~(1ull << (number - 1));
	signal_let(&but); /* comes back only if the signal is not handled any more */
	thread->delivering = 0;
	signal_unblock(thread->mask);
}

/* The frame of a handler that returns is not there. */
static _Noreturn void return_fails(struct thread *thread)
{
	struct kernel_action action = {};

	sys_4(rt_sigaction, SIGSEGV, &action, 0, 8);
	signal_unblock(0);
	sys_3(tgkill, sys_0(getpid), thread->tid, SIGSEGV);
	engine_die("a signal handler returned from a frame that is not there");
}

/* The program's handler has returned: everything comes from the frame at rsp. */
_Noreturn void signal_return(struct thread *thread)
{
	struct ucontext context;
	struct kernel_stack stack;
	uint64_t mask, all = ALL;

	if (!user_read(&context, thread->regs[RSP], sizeof(context)))
		return_fails(thread);
	registers_take(thread, &context.uc_mcontext);
	stack = (struct kernel_stack){ .start = (uint64_t)context.uc_stack.ss_sp,
				       .flags = (uint32_t)context.uc_stack.ss_flags,
				       .size = context.uc_stack.ss_size };
	alternate_set(thread, &stack); /* if it is in use, it stays as it is */
	copy_bytes(&mask, &context.uc_sigmask, sizeof(mask));
	mask = guard_mask_kernel(thread, mask);
	copy_bytes(&context.uc_sigmask, &mask, sizeof(mask));
	context.uc_mcontext.rip = (uint64_t)signal_resume;
	context.uc_mcontext.rsp = thread->stack;
	context.uc_mcontext.eflags = 0x202;
	context.uc_stack.ss_sp = (void *)thread->signal_stack;
	context.uc_stack.ss_size = SIGNAL_STACK;
	context.uc_stack.ss_flags = 0;
	signal_block();
	if (thread->pending) { /* it came meanwhile, and finds the mask of the frame */
		copy_bytes(&thread->mask, &context.uc_sigmask, sizeof(thread->mask));
		copy_bytes(&context.uc_sigmask, &all, sizeof(all));
	}
	signal_return_raw(&context);
}

/* --- Coming into a process that runs, and leaving it ---------------------------------------------------- */

struct sighand *signal_handlers_take(void)
{
	struct sighand *sighand = memory_take(sizeof(*sighand));

	for (uint64_t number = 1; number <= SIGNALS; number++) {
		struct handler *handler = &sighand->handlers[number - 1];
		struct kernel_action action;

		if (sys_4(rt_sigaction, number, 0, &action, 8))
			continue;
		*handler = (struct handler){ action.handler, action.flags, action.restorer,
					     action.mask };
		if (is_handled(handler->handler))
			action_install(number, handler);
	}
	return sighand;
}

void signal_handlers_give(const struct sighand *sighand)
{
	for (uint64_t number = 1; number <= SIGNALS; number++) {
		const struct handler *handler = &sighand->handlers[number - 1];
		struct kernel_action action = { handler->handler, handler->flags, handler->restorer,
						handler->mask };

		if (is_handled(handler->handler) || (number == SIGSEGV && guard_is_on()))
			sys_4(rt_sigaction, number, &action, 0, 8);
	}
}

void signal_alternate_take(struct thread *thread)
{
	struct kernel_stack stack;

	if (sys_2(sigaltstack, 0, &stack) || stack.flags & SS_DISABLE)
		return;
	thread->alternate.start = stack.start;
	thread->alternate.size = stack.size;
	thread->alternate.flags = stack.flags & SS_AUTODISARM;
}

void signal_alternate_give(const struct thread *thread)
{
	struct kernel_stack stack = {
		.start = thread->alternate.start,
		.size = thread->alternate.size,
		.flags = thread->alternate.size ? thread->alternate.flags : SS_DISABLE,
	};

	sys_2(sigaltstack, &stack, 0);
}
