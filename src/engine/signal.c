// SPDX-License-Identifier: BSD-2-Clause
/*
 * Delivers signals to the program. signal_actions.c keeps the handlers and masks that the program
 * has set.
 *
 * The kernel calls one handler of ours for every signal that the program handles, on a stack of
 * ours, with everything blocked. That handler finds the program's registers at that moment and
 * builds the signal frame that the kernel would have built, in the same place; then it returns into
 * the engine, which goes on with the program's handler. The signal masks in the kernel are always
 * the program's own, so that sigwait, signalfd and other calls behave as usual.
 *
 *	in the cache			the fragment is translated back to the program's
 *					state (translate_back)
 *	in the program's system call	the call is over or is to be restarted: both are
 *					states of the program
 *	on the way into the cache	registers are still in the thread
 *	anywhere else in the engine	the signal waits, everything stays blocked, and
 *					signal_check() has the kernel call us once more
 *					where the registers are in the thread
 *
 * Invariants
 * 1. While a signal waits, all are blocked: there is never more than one.
 * 2. The kernel's frame brings the program's vector registers; the engine itself does not touch
 *    them.
 * 3. A signal that waits was taken out of the kernel's queue, and is not put back there: others
 *    with its number may be in that by now, which came later, or the queue may be full.
 */
#include <asm/sigcontext.h>
#include <asm/siginfo.h>
#include <asm/signal.h>
#include <asm/ucontext.h>

#include "engine/signal_parts.h"
#include "engine/sys.h"

enum {
	RED_ZONE = 128,
	XSTATE_HEADER = 512, /* of an xsave area: which parts are not in their initial state */
	MXCSR_OFFSET = 24,
	MXCSR_DEFAULT = 0x1f80,
	FLAGS_CLEARED = 0x10500, /* direction, trap, resume */
	FRAME_TRIES = 2,
	BELL = 0x61737379, /* si_errno of a signal that the engine sends to itself */
};

#define EINTR_ 4ul

/* As the kernel lays it out. */
struct frame {
	uint64_t restorer;
	struct ucontext context;
	siginfo_t info;
};

/* --- Registers and contexts -------------------------------------------------------------- */

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

/* --- Delivery ---------------------------------------------------------------------------- */

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

/* The top of the stack for a frame; whether that is to lie on the alternate one. */
static uint64_t frame_top(const struct thread *thread, const struct handler *handler,
			  bool *ret_alternate)
{
	const struct alternate *alternate = &thread->alternate;
	uint64_t top = thread->regs[RSP] - RED_ZONE;

	*ret_alternate = alternate_has(thread, thread->regs[RSP]);
	if (!(handler->flags & SA_ONSTACK) || !alternate->size || alternate_has(thread, top))
		return top;
	*ret_alternate = true;
	return alternate->start + alternate->size;
}

/*
 * Copies the vector registers to the program's frame. The address of the last x87 instruction,
 * which lies in the cache, is replaced by the program's.
 */
static bool vectors_write(struct thread *thread, uint64_t to, struct _fpstate *vectors,
			  uint64_t size)
{
	uint64_t before = vectors->rip;
	bool written;

	if (!thread_is_native(thread) && before) {
		engine_lock();
		vectors->rip = translate_address(thread, before);
		engine_unlock();
	}
	written = user_write(to, vectors, size);
	vectors->rip = before;
	return written;
}

/*
 * Writes a frame whose vector registers begin at an address. Another thread may take the memory
 * away meanwhile, so nothing here may fault.
 */
static bool frame_write(struct thread *thread, uint64_t to, const struct frame *frame,
			uint64_t vectors, struct _fpstate *from, uint64_t size)
{
	guard_release(to, vectors + size - to);
	return user_touch(to, vectors + size - to) && vectors_write(thread, vectors, from, size) &&
	       user_write(to, frame, sizeof(*frame));
}

/* Builds the frame; NULL: there is no room for it on the stack. */
static struct frame *frame_make(struct thread *thread, const struct handler *handler,
				const siginfo_t *info, const struct ucontext *context,
				uint64_t mask)
{
	bool on_alternate;
	uint64_t size = vector_size(context), top = frame_top(thread, handler, &on_alternate);
	uint64_t vectors = (top - size) & ~63ull;
	uint64_t to = ((vectors - sizeof(struct frame)) & ~15ull) - 8;
	struct frame frame;

	if (on_alternate && !alternate_holds(thread, to))
		return NULL;
	copy_bytes(&frame.context, context, sizeof(*context));
	copy_bytes(&frame.info, info, sizeof(*info));
	frame.restorer = handler->restorer;
	frame.context.uc_link = 0;
	frame.context.uc_stack.ss_sp = (void *)thread->alternate.start;
	frame.context.uc_stack.ss_size = thread->alternate.size;
	frame.context.uc_stack.ss_flags = (int)alternate_flags(thread);
	if (thread_is_native(
		    thread)) /* the kernel itself will return from it, and keep what it finds */
		frame.context.uc_stack = context->uc_stack;
	registers_give(thread, &frame.context.uc_mcontext);
	frame.context.uc_mcontext.fpstate = (struct _fpstate *)vectors;
	mask = guard_mask_program(thread, mask);
	copy_bytes(&frame.context.uc_sigmask, &mask, sizeof(mask));
	for (int i = 0; i < FRAME_TRIES; i++) /* a page may have been guarded meanwhile */
		if (frame_write(thread, to, &frame, vectors, context->uc_mcontext.fpstate, size))
			return (struct frame *)to;
	return NULL;
}

/* The handler begins with vector registers in their initial state. */
static void vectors_reset(const struct thread *thread, struct ucontext *context)
{
	uint8_t *area = (uint8_t *)context->uc_mcontext.fpstate;

	if (((struct _fpstate *)area)->sw_reserved.magic1 != FP_XSTATE_MAGIC1)
		return;
	*(uint64_t *)(area + XSTATE_HEADER) = 0;
	*(uint32_t *)(area + MXCSR_OFFSET) = MXCSR_DEFAULT;
	keys_reset(area, thread->handler_keys);
}

/* Replaces addresses of the cache in a siginfo by the program's. */
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

/* The same, but the faulting instruction is executed once more, so that a core dump shows it. */
static void fault_again(int number, struct ucontext *context)
{
	struct kernel_action action = {};
	uint64_t mask;

	sys_4(rt_sigaction, number, &action, 0, 8);
	copy_bytes(&mask, &context->uc_sigmask, sizeof(mask));
	mask &= ~(1ull << (number - 1));
	copy_bytes(&context->uc_sigmask, &mask, sizeof(mask));
}

static void deliver(struct thread *thread, int number, siginfo_t *info, struct ucontext *context,
		    uint64_t mask);

static bool is_engine(uint64_t rip)
{
	return rip - engine_boot.image_start < engine_boot.image_size;
}

/*
 * There is no room for a frame. As the kernel does, this raises SIGSEGV, if that can be delivered.
 */
static void frame_fails(struct thread *thread, int number, struct ucontext *context, uint64_t mask)
{
	siginfo_t info = { .si_signo = SIGSEGV, .si_code = SI_KERNEL };
	struct handler handler = handler_get(thread->sighand, SIGSEGV);

	if (number != SIGSEGV && handler_is_called(handler.handler) &&
	    !(guard_mask_program(thread, mask) & 1ull << (SIGSEGV - 1)))
		deliver(thread, SIGSEGV, &info, context, mask);
	else
		end_by(SIGSEGV, context);
}

/*
 * The program had a handler for the signal when the kernel called ours, and has none any more. A
 * fault is raised again by its instruction.
 */
static void deliver_unhandled(struct thread *thread, int number, const siginfo_t *info,
			      struct ucontext *context, uint64_t mask)
{
	struct handler handler = handler_get(thread->sighand, (uint64_t)number);

	/* the program has no handler; the engine needs the signal */
	if (signal_is_taken((uint64_t)number)) {
		if (handler.handler && info->si_code <= 0)
			context_resume(thread, context, mask);
		else if (info->si_code > 0 && !is_engine(context->uc_mcontext.rip))
			fault_again(number, context);
		else
			end_by(number, context);
		return;
	}
	if (info->si_code <= 0 || number >= SIGRTMIN)
		signal_send(number, info);
	context_resume(thread, context, mask);
}

/* As the kernel does for SA_RESETHAND: flags and mask stay what they are. */
static void handler_reset(struct sighand *sighand, uint64_t number)
{
	struct handler next;

	engine_lock();
	next = sighand->handlers[number - 1];
	next.handler = 0;
	action_install(number, &next);
	handler_set(sighand, number, &next);
	engine_unlock();
}

/*
 * Registers are in the thread; mask: the program's. Afterwards the thread is about to run the
 * handler.
 */
static void deliver(struct thread *thread, int number, siginfo_t *info, struct ucontext *context,
		    uint64_t mask)
{
	struct handler handler = handler_get(thread->sighand, (uint64_t)number);
	uint64_t during = guard_mask_program(thread, mask) | handler.mask;
	struct frame *frame;

	if (!handler_is_called(handler.handler)) {
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
	vectors_reset(thread, context);
	context_resume(thread, context, guard_mask_kernel(thread, during));
}

static void hold(struct thread *thread, int number, const siginfo_t *info, struct ucontext *context,
		 uint64_t mask)
{
	uint64_t all = ALL & ~SIGNAL_FAULTS;

	thread->pending = (uint64_t)number;
	thread->mask = mask;
	copy_bytes(thread->pending_info, info, sizeof(thread->pending_info));
	copy_bytes(&context->uc_sigmask, &all, sizeof(all));
}

static bool is_between(uint64_t rip, const void *begin, const void *end)
{
	return rip >= (uint64_t)begin && rip < (uint64_t)end;
}

/*
 * The program's registers, of a thread that was interrupted in the cache or on its edge. False: it
 * was elsewhere.
 */
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
		if (!special_is_address(target))
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

/*
 * The same signal once more, to the process if it was sent to that. Only its first thread may say
 * that another process has sent it; for others it is the thread's then.
 */
static void signal_send_again(int number, const siginfo_t *info)
{
	long pid = sys_0(getpid);

	if (info->si_code == SI_TKILL)
		signal_send(number, info);
	else if (!sys_failed(sys_3(rt_sigqueueinfo, pid, number, info)))
		return;
	else if (info->si_code == SI_USER && info->si_pid == pid)
		sys_2(kill, pid, number);
	else
		signal_send(number, info);
}

/*
 * Has the kernel call us for the signal that waits, with a signal that we send for it: one of the
 * same number, so that the kernel acts by itself if that is not handled any more; but of those that
 * queue, others would come first, so it is SIGBUS then, for which we always have a handler. A
 * SIGSEGV is sent as it is, because it may have to stay pending (blocked_take). The code SI_USER is
 * queued even if the program may not queue any more.
 */
static void bell_ring(struct thread *thread)
{
	siginfo_t bell = { .si_errno = BELL, .si_code = SI_USER };

	thread->delivering = thread->pending;
	thread->bell = thread->pending >= SIGRTMIN ? SIGBUS : thread->pending;
	thread->pending = 0;
	thread_become(thread, THREAD_DELIVERING);
	signal_send((int)thread->bell,
		    thread->bell == SIGSEGV ? thread->pending_info : (void *)&bell);
}

/* If the program has got one of that number in the same moment, that is put back. */
static void bell_answer(struct thread *thread, int number, siginfo_t *info,
			struct ucontext *context)
{
	thread_become(thread, THREAD_INSIDE);
	if (number != SIGSEGV) {
		if (info->si_errno != BELL)
			signal_send_again(number, info);
		info = (siginfo_t *)thread->pending_info;
	}
	deliver(thread, (int)thread->delivering, info, context, thread->mask);
}

/* Whether the thread holds no lock at this place and may continue under any mask. */
static bool is_free(uint64_t rip)
{
	return !is_engine(rip) || is_between(rip, engine_miss, engine_miss_end) ||
	       is_between(rip, engine_resume_begin, engine_resume_end) ||
	       is_between(rip, program_syscall_begin, program_syscall_done) ||
	       rip == (uint64_t)program_syscall_done;
}

/*
 * A SIGSEGV was sent that the program believes to have blocked, but that is not blocked in the
 * kernel. It is sent again after it was blocked there, so that it stays pending; a system call that
 * it has interrupted is restarted.
 */
static void blocked_take(struct thread *thread, const siginfo_t *info, struct ucontext *context,
			 uint64_t mask)
{
	struct sigcontext *at = &context->uc_mcontext;
	bool delivering = thread->state == THREAD_DELIVERING;

	if (!delivering && !is_free(at->rip)) {
		hold(thread, SIGSEGV, info, context, mask);
		return;
	}
	mask = guard_unhide(thread, delivering ? thread->mask : mask);
	signal_send_again(SIGSEGV, info);
	copy_bytes(&context->uc_sigmask, &mask, sizeof(mask));
	if (delivering) {
		thread_become(thread, THREAD_INSIDE);
		context_resume(thread, context, mask);
	} else if (at->rip == (uint64_t)program_syscall_done && at->rax == -EINTR_) {
		at->rax = PROGRAM_RESTART;
	}
}

/* Handles a SIGSEGV that is not for the program, or not yet. True: nothing else is to be done. */
static bool segv_take(struct thread *thread, const siginfo_t *info, struct ucontext *context,
		      uint64_t mask)
{
	if (info->si_code == SEGV_ACCERR && guard_has_any() &&
	    guard_fault((uint64_t)info->si_addr)) {
		if (registers_find(thread, &context->uc_mcontext))
			context_resume(thread, context, mask);
		return true;
	}
	if (!guard_hides(thread))
		return false;
	if (info->si_code > 0 && !is_free(context->uc_mcontext.rip))
		engine_die("a fault in the engine itself");
	if (info->si_code > 0)
		end_by(SIGSEGV, context); /* as the kernel does if it cannot be delivered */
	else
		blocked_take(thread, info, context, mask);
	return true;
}

/* Handles a fault in the engine's own code. True: the thread recovers (fault.c). */
static bool own_take(struct thread *thread, int number, const siginfo_t *info,
		     struct ucontext *context)
{
	struct sigcontext *at = &context->uc_mcontext;

	if (info->si_code <= 0 || !signal_is_taken((uint64_t)number) || is_free(at->rip) ||
	    thread_is_native(thread) ||
	    !fault_take(thread, number, at->rip, (uint64_t)info->si_addr))
		return false;
	at->rip = (uint64_t)fault_unwind;
	return true;
}

/* From signal_close() to signal_open(). */
static bool is_closed(const struct thread *thread, uint64_t rip)
{
	return thread->closed || is_between(rip, signal_close_done, signal_close_end) ||
	       rip == (uint64_t)signal_open_insn;
}

/*
 * Leaves the signal pending in the kernel if another one is held back or delivered already, or if
 * the thread must not be interrupted now; then returns true.
 */
static bool waits(const struct thread *thread, int number, const siginfo_t *info,
		  struct ucontext *context, uint64_t mask)
{
	if (info->si_code > 0)
		return false;
	if (thread->state == THREAD_DELIVERING) {
		if ((uint64_t)number == thread->bell)
			return false;
	} else if (!thread->pending && !thread->starting &&
		   !is_closed(thread, context->uc_mcontext.rip)) {
		return false;
	}
	mask |= 1ull << (number - 1);
	copy_bytes(&context->uc_sigmask, &mask, sizeof(mask));
	signal_send_again(number, info);
	return true;
}

/*
 * In the handler of the signal that was sent for it: the kernel sets everything at once when it
 * returns.
 */
static void hand_back(struct thread *thread, uint64_t number, struct ucontext *context)
{
	const struct handler *own = &thread->sighand->handlers[number - 1];
	uint64_t mask = guard_mask_program(thread, thread->mask);

	action_install(number, own);
	signal_handlers_give(thread->sighand);
	thread_become(thread, THREAD_NATIVE);
	registers_give(thread, &context->uc_mcontext);
	context->uc_stack.ss_sp = (void *)thread->alternate.start;
	context->uc_stack.ss_size = thread->alternate.size;
	context->uc_stack.ss_flags =
		(int)(thread->alternate.size ? thread->alternate.flags : SS_DISABLE);
	copy_bytes(&context->uc_sigmask, &mask, sizeof(mask));
	__asm__ volatile("wrgsbase %0" : : "r"(thread->gs) : "memory");
}

/* A signal number that the program does not handle and that is not pending. */
static uint64_t signal_unused(const struct sighand *sighand)
{
	uint64_t pending = ALL, number = SIGNALS;

	sys_2(rt_sigpending, &pending, 8);
	while (number > 1 && (pending >> (number - 1) & 1 ||
			      handler_is_called(sighand->handlers[number - 1].handler)))
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
	thread_become(thread, THREAD_HANDING_BACK);
	sys_4(rt_sigaction, number, &action, 0, 8);
	sys_3(tgkill, sys_0(getpid), sys_0(gettid), number);
	but = ALL & ~(1ull << (number - 1));
	signal_let(&but);
	engine_die("a signal of our own did not come");
}

/*
 * The thread is not known to the engine: it was created by one that had left it. The kernel's frame
 * is what it would have without the engine, so the program's handler is called with that frame.
 */
static void pass_on(int number, siginfo_t *info, struct ucontext *context)
{
	struct sighand *sighand = thread_any_handlers();
	struct handler handler;
	uint64_t mask;

	if (number == SIGSEGV && info->si_code == SEGV_ACCERR && guard_has_any() &&
	    guard_fault((uint64_t)info->si_addr))
		return;
	/*
	 * the last thread is leaving the engine: the signal is sent again, for the program's own
	 * handler
	 */
	if (!sighand) {
		sys_4(rt_tgsigqueueinfo, sys_0(getpid), sys_0(gettid), number, info);
		return;
	}
	handler = handler_get(sighand, (uint64_t)number);
	if (!handler_is_called(handler.handler)) {
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

/* Memory of the program that the engine tried to copy is not there: load.S. */
static bool copy_ends(int number, const siginfo_t *info, struct sigcontext *at)
{
	if (info->si_code <= 0 || (number != SIGSEGV && number != SIGBUS) ||
	    !is_between(at->rip, memory_copy_begin, memory_copy_end))
		return false;
	at->rip = (uint64_t)memory_copy_end;
	return true;
}

/*
 * The kernel could not restore what a handler has left in its frame, or not all of it: general
 * registers, which are in the thread, and the mask are restored by then.
 */
static bool return_failed(struct thread *thread, int number, const siginfo_t *info,
			  struct ucontext *context, uint64_t mask)
{
	uint64_t rip = context->uc_mcontext.rip;

	if (number != SIGSEGV || info->si_code != SI_KERNEL ||
	    (rip != (uint64_t)signal_resume && rip != (uint64_t)signal_return_end))
		return false;
	thread->regs[RAX] = 0;
	frame_fails(thread, 0, context, thread->pending ? thread->mask : mask);
	return true;
}

void signal_arrive(int number, void *info_given, void *context_given)
{
	struct ucontext *context = context_given;
	siginfo_t *info = info_given;
	struct thread *thread;
	uint64_t rip = context->uc_mcontext.rip, mask;
	uint32_t keys = keys_open();

	if (copy_ends(number, info, &context->uc_mcontext))
		return;
	thread = thread_find();
	if (!thread) {
		keys_close(keys);
		pass_on(number, info, context);
		return;
	}
	thread->handler_keys = keys;
	copy_bytes(&mask, &context->uc_sigmask, sizeof(mask));
	if (thread->state == THREAD_HANDING_BACK) {
		hand_back(thread, (uint64_t)number, context);
		return;
	}
	if (return_failed(thread, number, info, context, mask))
		return;
	if (waits(thread, number, info, context, mask) || own_take(thread, number, info, context))
		return;
	if (number == SIGSEGV && segv_take(thread, info, context, mask))
		return;
	if (thread_is_stepping(thread))
		mask = thread->step_mask;
	if (thread_is_native(thread) && !is_engine(rip) &&
	    native_back(thread, rip, context->uc_mcontext.cs, context->uc_mcontext.eflags)) {
		registers_take(thread, &context->uc_mcontext);
		if (step_end(thread, number, info->si_code))
			context_resume(thread, context, mask);
		else
			deliver(thread, number, info, context, mask);
		return;
	}
	if (thread_is_native(thread) && !is_engine(rip)) {
		registers_take(thread, &context->uc_mcontext);
		deliver(thread, number, info, context, mask);
		registers_give(thread, &context->uc_mcontext); /* straight to the handler */
		return;
	}
	if (thread->state == THREAD_DELIVERING) {
		bell_answer(thread, number, info, context);
		return;
	}
	if (is_between(rip, engine_resume_begin, engine_resume_end)) {
		if (thread_is_native(thread)) {
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
		/* The system call was not executed, or has to be restarted. */
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

	if (!thread->pending)
		return;
	bell_ring(thread);
	but = ALL & ~(1ull << (thread->bell - 1));
	signal_let(&but); /* comes back only if the signal is not handled any more */
	thread_become(thread, THREAD_INSIDE);
	signal_unblock(thread->mask);
}

/*
 * The frame of a handler that returns cannot be read. The kernel is given one that nobody can read
 * either, and raises what it raises then: return_failed().
 */
static _Noreturn void return_fails(struct thread *thread)
{
	syscall_finish(thread, 0);
	signal_return_raw((void *)(1ull << 63));
}

/* The program's handler has returned: everything comes from the frame at rsp. */
_Noreturn void signal_return(struct thread *thread)
{
	struct ucontext context;
	struct kernel_stack stack;
	uint64_t mask, all = ALL & ~SIGNAL_FAULTS;

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
	/* a signal came meanwhile and was held back under the mask of the frame */
	if (thread->pending) {
		copy_bytes(&thread->mask, &context.uc_sigmask, sizeof(thread->mask));
		copy_bytes(&context.uc_sigmask, &all, sizeof(all));
	}
	signal_return_raw(&context);
}
