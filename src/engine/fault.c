// SPDX-License-Identifier: BSD-2-Clause
/*
 * Faults in the engine's own code, and allocations that fail. The program must see neither: the
 * thread abandons what it was doing and goes on, in the engine if that helps, otherwise natively.
 *
 * A fault is the engine's own if it comes from the engine's code. thread->safe says how the thread
 * can recover; it is updated wherever that changes:
 *
 *	SAFE_STATE	the program is at pc: once more from there, and natively if that fails too
 *	SAFE_CALL	at a system call that has yet to be done: likewise
 *	SAFE_CALLED	behind one that was done: with its result; it is never done twice
 *	SAFE_MIDDLE	in a fragment that called the engine: it goes on there
 *	SAFE_NOTHING	nowhere; the process ends, with a message
 *
 * A thread that held the lock may have been stopped in the middle of changing a list. So all lists
 * are made anew (cache_reset), the regions are read once more, and numbers of segments that the
 * host may have been told are not used again.
 *
 * Invariants
 * 1. A thread that is recovering is SAFE_NOTHING: a fault in here ends the process, never hangs it.
 * 2. Signals of faults are open wherever the engine works, whatever the program has blocked
 *    (guard.c). In a handler of ours the kernel ends the process by the signal.
 */
#include "engine/signal_parts.h"
#include "engine/stream.h"
#include "engine/sys.h"

uint64_t fault_countdown;

static enum engine_failure wanted;

void fault_start(void)
{
	wanted = (enum engine_failure)(engine_boot.fails >> 32);
	fault_countdown = (uint32_t)engine_boot.fails;
}

/* An address at which nothing is ever mapped. */
void fault_step(enum engine_failure what)
{
	if (what == wanted && --fault_countdown == 0)
		__asm__ volatile("movb $0, 8");
}

bool fault_refuses(void)
{
	return fault_countdown && wanted == ENGINE_FAIL_MEMORY && --fault_countdown == 0;
}

static void report(const struct thread *thread, uint32_t number, uint64_t at, uint64_t address)
{
	struct engine_shared *shared = (struct engine_shared *)engine_boot.shared;
	uint64_t none = 0;

	host_count(ENGINE_COUNT_FAULTS);
	if (!shared || !__atomic_compare_exchange_n(&shared->fault.at, &none, at, false,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	shared->fault.address = address;
	shared->fault.pc = thread->pc;
	shared->fault.signal = number;
}

bool fault_take(struct thread *thread, int number, uint64_t rip, uint64_t address)
{
	/* without the lock it may have written to a page that is guarded: guard.c */
	if (number == SIGSEGV && !engine_locked(thread) && guard_fault(address))
		return false;
	if (thread->safe == SAFE_NOTHING)
		return false;
	report(thread, (uint32_t)number, rip - engine_boot.image_start, address);
	return true;
}

/* In a handler of signals there is nothing to go back to. */
static bool is_in_handler(const struct thread *thread)
{
	return (uint64_t)__builtin_frame_address(0) - thread->signal_stack < SIGNAL_STACK;
}

_Noreturn void fault_memory(const char *what)
{
	struct thread *thread = thread_find();

	if (!thread || thread->safe == SAFE_NOTHING || is_in_handler(thread))
		engine_die(what);
	report(thread, 0, (uint64_t)__builtin_return_address(0) - engine_boot.image_start, 0);
	fault_unwind(thread);
}

static void structures_settle(void)
{
	for (struct thread *thread = thread_next(NULL); thread; thread = thread_next(thread))
		signal_handlers_settle(thread->sighand);
	cache_reset();
	regions_change(0, UINT64_MAX, true);
	if (stream_wanted())
		stream_skip();
}

/* The second time at the same place it leaves. */
static bool tries_again(struct thread *thread)
{
	bool again = thread->failed_at != thread->pc;

	thread->failed_at = thread->pc;
	return again;
}

_Noreturn void fault_recover(struct thread *thread)
{
	enum thread_safe safe = (enum thread_safe)thread->safe;

	thread->safe = SAFE_NOTHING;
	thread->wants_start = thread->wants_end = 0;
	if (engine_locked(thread)) {
		structures_settle();
		engine_unlock();
	}
	if (thread->closed)
		signal_open(thread->closed_mask);
	if (safe == SAFE_MIDDLE)
		engine_resume(thread);
	thread->entered = 0;
	if (safe == SAFE_CALL)
		thread->pc -= thread->call_length;
	if (safe == SAFE_CALLED)
		syscall_finish(thread, (long)thread->call_result);
	thread->safe = SAFE_NOTHING;
	if (!tries_again(thread))
		thread_leave(thread);
	if (!thread->begun)
		thread_begin(thread);
	thread_go(thread);
}
