// SPDX-License-Identifier: BSD-2-Clause
/*
 * The way out: a thread goes on in the program's own code, as if the engine had never been there.
 * Nothing in the program's memory has to be undone, because everything there is the program's own.
 * Code that cannot be translated runs natively in this way: it is not recorded, but its results are
 * right.
 *
 * The instruction at which a thread leaves may be one that faults: a jump to where no code is, ud2,
 * hlt. Then the signal handler finds the thread still there, and takes it back into the engine
 * (native_back).
 */
#include "engine/engine.h"
#include "engine/stream.h"
#include "engine/sys.h"

enum {
	VSYSCALL_TIME = 0x400, /* places in the page */
	VSYSCALL_GETCPU = 0x800,
};

#define VSYSCALL 0xffffffffff600000ull

static bool vsyscall_number(uint64_t pc, long *ret)
{
	switch (pc - VSYSCALL) {
	case 0:
		*ret = __NR_gettimeofday;
		return true;
	case VSYSCALL_TIME:
		*ret = __NR_time;
		return true;
	case VSYSCALL_GETCPU:
		*ret = __NR_getcpu;
		return true;
	default:
		return false;
	}
}

/* The page may not be readable; its three functions are system calls. */
static bool vsyscall_run(struct thread *thread)
{
	uint64_t *regs = thread->regs, back;
	long number_of;

	if (!vsyscall_number(thread->pc, &number_of) || !user_read(&back, regs[RSP], sizeof(back)))
		return false;
	regs[RAX] = (uint64_t)sys6(number_of, (long)regs[RDI], (long)regs[RSI], 0, 0, 0, 0);
	thread->pc = back;
	regs[RSP] += 8;
	return true;
}

/* The code segment selector for 64-bit code; 32-bit code has another one. */
static uint16_t selector_code(void)
{
	uint16_t selector;

	__asm__ volatile("mov %%cs, %0" : "=r"(selector));
	return selector;
}

/* In the engine again: gs is ours. */
void native_cancel(struct thread *thread)
{
	if (!thread_is_native(thread))
		return;
	__asm__ volatile("wrgsbase %0" : : "r"(thread) : "memory");
	if (thread_is_stepping(thread))
		return; /* step_end() follows */
	thread_become(thread, THREAD_INSIDE);
	host_left(thread->leave, -1);
}

bool native_back(struct thread *thread, uint64_t pc, uint16_t selector, uint64_t flags)
{
	bool stepped = thread_is_stepping(thread) || (thread->iret[2] | flags) & FLAG_TRAP;

	if (selector != selector_code() || (pc != thread->pc && !stepped))
		return false;
	__asm__ volatile("rdgsbase %0" : "=r"(thread->gs));
	native_cancel(thread);
	return true;
}

_Noreturn void native_enter(struct thread *thread, uint64_t flags)
{
	uint16_t stack;

	__asm__ volatile("mov %%ss, %0" : "=r"(stack));
	thread->iret[0] = thread->pc;
	thread->iret[1] = selector_code();
	thread->iret[2] = flags;
	thread->iret[3] = thread->regs[RSP];
	thread->iret[4] = stack;
	if (!thread_is_stepping(thread))
		thread_become(thread, THREAD_NATIVE);
	thread->entered = 0;
	native_leave(thread);
}

void native_go(struct thread *thread, enum engine_leave reason)
{
	if (vsyscall_run(thread))
		return;
	thread->leave = reason;
	host_left(reason, 1);
	engine_lock();
	guard_leave(thread);
	if (stream_wanted())
		stream_native(thread);
	engine_unlock();
	native_enter(thread, thread->flags);
}
