// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads of a process that runs already come into the engine, and threads leave it for good.
 *
 * In: the host has stopped every thread and sends each to engine_attach() on a small stack, all
 * signals blocked. The signal handlers and alternate stacks of a process cannot be read by another
 * one. So the first thread to arrive reads the handlers and installs the engine's in their place,
 * and each thread does the same with its alternate stack. The rest is as for a new thread.
 *
 * Out: the host sets `leaving` and stops threads. One that is in the engine comes to
 * attach_check(), its registers in the thread; one that is in the cache or in the program's own
 * code is sent to engine_release(). Both register the program's alternate stack and rseq area with
 * the kernel again, store the program's registers in struct engine_parked, and park. When all have
 * parked, the host makes one of them restore the handlers; then it sets the registers of all and
 * unmaps the engine.
 *
 * Invariants
 * 1. A thread that is parked holds no lock, has all signals blocked and counts as native: whatever
 *    happens to the host, a signal to another thread finds it in order.
 * 2. Parked threads notice when the host dies, and go on in the engine.
 * 3. Nothing between the stop and the program's next instruction makes a system call that the
 *    kernel would restart with restart_syscall: a thread that sleeps goes on sleeping for what is
 *    left.
 */
#include <linux/futex.h>

#include "engine/engine.h"
#include "engine/stream.h"
#include "engine/sys.h"
#include "engine/tool.h"

enum { RSEQ_UNREGISTER = 1, PARK_CALL = -1, PARK_MICROSECONDS = 1000 };
enum { NOBODY, UNDER_WAY, DONE };
enum { EBUSY_ = 16, EINVAL_ = 22, ENOSYS_ = 38 };

static uint32_t begun; /* futex: the process's state is taken over */
static uint32_t waiting; /* threads that have come to attach_gate() */
static uint32_t open; /* futex: all threads have arrived */
static struct sighand *handlers;

void attach_publish(void)
{
	engine_boot_place->places = (struct engine_places){
		.resume_start = (uint64_t)engine_resume_begin,
		.resume_end = (uint64_t)engine_resume_end,
		.call_start = (uint64_t)program_syscall_begin,
		.call_insn = (uint64_t)program_syscall_insn,
		.call_done = (uint64_t)program_syscall_done,
		.release = (uint64_t)engine_release,
		.mappings = (uint64_t)&memory_mappings,
	};
}

/* --- In ---------------------------------------------------------------------------------- */

static void process_take(struct engine_boot *boot)
{
	uint32_t state = NOBODY;

	if (__atomic_compare_exchange_n(&begun, &state, UNDER_WAY, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE)) {
		engine_boot = *boot;
		engine_boot_place = boot;
		fault_start();
		memory_hide(boot->image_start, boot->image_size);
		attach_publish();
		engine_lock();
		memory_note(boot->starts, boot->starts_size);
		handlers = signal_handlers_take();
		tools_start();
		if (stream_wanted())
			stream_start();
		engine_unlock();
		__atomic_store_n(&begun, DONE, __ATOMIC_RELEASE);
		sys_3(futex, &begun, FUTEX_WAKE_PRIVATE, INT32_MAX);
	}
	while (__atomic_load_n(&begun, __ATOMIC_ACQUIRE) != DONE)
		sys_4(futex, &begun, FUTEX_WAIT_PRIVATE, UNDER_WAY, 0);
}

/*
 * While a thread blocks all signals, the kernel does not discard a signal to the process that is
 * ignored, and may interrupt a system call of another thread with it. So no thread goes on before
 * all can.
 */
void attach_gate(void)
{
	uint64_t count = engine_boot.starts_size / ENGINE_START_SIZE;

	if (!count || __atomic_load_n(&open, __ATOMIC_ACQUIRE))
		return;
	if (__atomic_add_fetch(&waiting, 1, __ATOMIC_ACQ_REL) == count) {
		__atomic_store_n(&open, 1, __ATOMIC_RELEASE);
		sys_3(futex, &open, FUTEX_WAKE_PRIVATE, INT32_MAX);
	}
	while (!__atomic_load_n(&open, __ATOMIC_ACQUIRE))
		sys_4(futex, &open, FUTEX_WAIT_PRIVATE, 0, 0);
}

bool attach_is_coming(void)
{
	return engine_boot.starts_size && !__atomic_load_n(&open, __ATOMIC_ACQUIRE);
}

static void registers_take(struct thread *thread, const struct engine_registers *from)
{
	for (size_t i = 0; i < 16; i++)
		thread->regs[i] = from->general[i];
	thread->pc = from->rip;
	thread->flags = from->rflags;
}

static void rseq_take(struct thread *thread)
{
	const struct rseq_area *area = &thread->rseq;

	if (area->address)
		sys_4(rseq, area->address, area->size, RSEQ_UNREGISTER, area->signature);
}

static void rseq_give(const struct thread *thread)
{
	const struct rseq_area *area = &thread->rseq;

	if (area->address)
		sys_4(rseq, area->address, area->size, 0, area->signature);
}

bool attach_has_rseq(void)
{
	return begun == DONE;
}

/*
 * A program that was started in the engine learns that there is no rseq and does without. One that
 * was attached to has it already, and its new threads must have it as well (glibc ends the program
 * otherwise). They get it when they leave; until then its area says, as before the registration,
 * that the processor is not known.
 */
long attach_rseq(struct thread *thread)
{
	const uint64_t *regs = thread->regs;
	struct rseq_area *area = &thread->rseq;
	bool same = area->address == regs[RDI] && area->size == (uint32_t)regs[RSI] &&
		    area->signature == (uint32_t)regs[R10];

	if (!attach_has_rseq())
		return -ENOSYS_;
	if ((uint32_t)regs[RDX] == RSEQ_UNREGISTER) {
		if (!same || !area->address)
			return -EINVAL_;
		area->address = 0;
		return 0;
	}
	if (area->address)
		return same && !(uint32_t)regs[RDX] ? -EBUSY_ : -EINVAL_;
	if ((uint32_t)regs[RDX] || !regs[RDI])
		return -EINVAL_;
	*area = (struct rseq_area){ regs[RDI], (uint32_t)regs[RSI], (uint32_t)regs[R10] };
	return 0;
}

__attribute__((visibility("default"), used)) _Noreturn void
engine_attach(struct engine_boot *boot, const struct engine_start *start)
{
	struct thread *thread;

	process_take(boot);
	engine_lock();
	thread = thread_create();
	if (!thread)
		engine_die("no memory for a thread");
	engine_unlock();
	registers_take(thread, &start->registers);
	thread->gs = start->registers.gs_base;
	thread->sighand = handlers;
	thread->start_mask = start->mask;
	thread->rseq = (struct rseq_area){ start->rseq, start->rseq_size, start->rseq_signature };
	rseq_take(thread);
	signal_alternate_take(thread);
	gs_set(thread);
	thread_begin(thread);
}

/* --- Out --------------------------------------------------------------------------------- */

static void park(const struct engine_parked *at)
{
	sys6(PARK_CALL, (long)engine_boot.session, (long)at, 0, 0, 0, 0);
}

bool attach_is_leaving(void)
{
	return __atomic_load_n(&engine_boot_place->leaving, __ATOMIC_ACQUIRE) != 0;
}

/* The host has given up taking the process out of the engine, or is gone. */
_Noreturn static void stay(struct thread *thread, bool native, uint64_t mask)
{
	rseq_take(thread);
	__atomic_store_n(&engine_boot_place->leaving, 0, __ATOMIC_RELEASE);
	gs_set(thread);
	thread_become(thread, native ? THREAD_NATIVE : THREAD_INSIDE);
	thread->start_mask = mask;
	if (!native)
		thread_begin(thread);
	engine_lock();
	signal_start(thread);
	engine_unlock();
	signal_unblock(mask);
	native_go(thread, (enum engine_leave)thread->leave);
	thread_begin(thread);
}

static struct engine_registers registers_of(const struct thread *thread)
{
	struct engine_registers registers = {
		.rip = thread->pc,
		.rflags = thread->flags,
		.gs_base = thread->gs,
	};

	for (size_t i = 0; i < 16; i++)
		registers.general[i] = thread->regs[i];
	return registers;
}

/*
 * Queues a signal that is held back again, so that the program's own handler gets it. Returns the
 * program's mask.
 */
static uint64_t pending_give(struct thread *thread, uint64_t mask)
{
	if (!thread->pending)
		return mask;
	sys_4(rt_tgsigqueueinfo, sys_0(getpid), sys_0(gettid), thread->pending,
	      thread->pending_info);
	thread->pending = 0;
	return thread->mask;
}

/* All signals are blocked. */
_Noreturn static void leave(struct thread *thread, uint64_t mask)
{
	struct engine_parked at = { .registers = registers_of(thread) };
	bool native = thread_is_native(thread);

	mask = pending_give(thread, mask);
	at.mask = guard_mask_program(thread, mask);
	engine_lock();
	guard_pause();
	engine_unlock();
	tools_thread_end(thread);
	signal_alternate_give(thread);
	rseq_give(thread);
	thread_become(thread, THREAD_PARKED);
	for (;;) {
		park(&at);
		if (__atomic_load_n(&at.finish, __ATOMIC_ACQUIRE)) {
			signal_handlers_give(thread->sighand);
			__atomic_store_n(&at.finish, 0, __ATOMIC_RELEASE);
			continue;
		}
		if (!attach_is_leaving() || !host_takes())
			stay(thread, native, mask);
		engine_pause(PARK_MICROSECONDS);
	}
}

_Noreturn void attach_leave(struct thread *thread)
{
	leave(thread, signal_block());
}

/* A thread that the engine does not know: it was created by a thread that had left the engine. */
static struct thread *unknown_thread_take(const struct engine_parked *at)
{
	struct thread *thread;

	engine_lock();
	thread = thread_create();
	if (!thread)
		engine_die("no memory for a thread");
	engine_unlock();
	thread->tid = (uint32_t)sys_0(gettid);
	thread_become(thread, THREAD_NATIVE);
	thread->gs = at->registers.gs_base;
	thread->sighand = thread_any_handlers();
	signal_alternate_take(thread);
	return thread;
}

/*
 * Finds the program's registers of a thread that was stopped outside of the engine's own code.
 * False: they cannot be known at that place.
 */
static bool state_find(struct thread *thread, const struct engine_registers *at)
{
	uint64_t target = thread->pc;

	if (thread_is_stepping(thread))
		return false; /* it is back after one instruction */
	if (at->rip >= (uint64_t)engine_resume_begin && at->rip < (uint64_t)engine_resume_end) {
		if (!thread_is_native(thread))
			translate_back(thread,
				       thread->next); /* it may be the middle of a fragment */
		return true;
	}
	registers_take(thread, at);
	if (thread_is_native(thread)) {
		thread->gs = at->gs_base;
		return true;
	}
	if (translate_back(thread, at->rip))
		return true;
	thread->pc = target; /* of an indirect branch, perhaps */
	return false;
}

/* The host has died while a thread was on its way to a step: everything is as it was prepared. */
_Noreturn static void step_again(struct thread *thread, uint64_t mask)
{
	gs_set(thread);
	signal_unblock(mask);
	native_leave(thread);
}

_Noreturn void engine_release(const struct engine_parked *at)
{
	struct thread *thread = thread_find();
	struct engine_parked refused = { .again = 1 };
	bool known;

	if (!thread)
		thread = unknown_thread_take(at);
	engine_lock();
	known = state_find(thread, &at->registers);
	engine_unlock();
	while (!known) {
		park(&refused);
		if (!host_takes() && thread_is_native(thread))
			step_again(thread, at->mask);
		engine_pause(PARK_MICROSECONDS);
	}
	leave(thread, at->mask);
}
