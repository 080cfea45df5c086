// SPDX-License-Identifier: BSD-2-Clause
/*
 * The way out: a thread goes on in the program's own code, as if the engine had never been there. Nothing in the program's
 * memory has to be undone, because everything there is the program's own. This is what happens to whatever cannot be
 * translated: never a wrong result, at worst a native one.
 *
 * The instruction at which a thread leaves may be one that faults: a jump to where no code is, ud2, hlt. Then the signal
 * handler finds the thread still there, and takes it back into the engine (native_back).
 */
#include "engine/engine.h"
#include "engine/stream.h"
#include "engine/sys.h"

enum {
	VSYSCALL_TIME = 0x400, /* places in the page */
	VSYSCALL_GETCPU = 0x800,
	WAY_OUT_BYTES = 64,
};

#define VSYSCALL 0xffffffffff600000ull

static uint8_t *put_load_rax(uint8_t *at, uint64_t value)
{
	*at++ = 0x48; /* movabs $value, %rax */
	*at++ = 0xb8;
	for (int i = 0; i < 8; i++)
		*at++ = (uint8_t)(value >> i * 8);
	return at;
}

/* All registers but rax and gs are the program's when this code is reached. */
static void put_leave(const struct thread *thread, uint8_t *at)
{
	static const uint8_t set_gs[] = { 0xf3, 0x48, 0x0f, 0xae, 0xd8 }; /* wrgsbase %rax */
	static const uint8_t jump[] = { 0xff, 0x25, 0, 0, 0, 0 }; /* jmp *0(%rip) */

	at = put_load_rax(at, thread->gs);
	for (size_t i = 0; i < sizeof(set_gs); i++)
		*at++ = set_gs[i];
	at = put_load_rax(at, thread->regs[RAX]);
	for (size_t i = 0; i < sizeof(jump); i++)
		*at++ = jump[i];
	for (int i = 0; i < 8; i++)
		*at++ = (uint8_t)(thread->pc >> i * 8);
}

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
	uint64_t *regs = thread->regs;
	long number_of;

	if (!vsyscall_number(thread->pc, &number_of))
		return false;
	regs[RAX] = (uint64_t)sys6(number_of, (long)regs[RDI], (long)regs[RSI], 0, 0, 0, 0);
	thread->pc = *(uint64_t *)regs[RSP];
	regs[RSP] += 8;
	return true;
}

static enum engine_leave reason(uint64_t pc)
{
	return region_of(pc) ? ENGINE_LEAVE_INSTRUCTION : ENGINE_LEAVE_NOWHERE;
}

/* In the engine or on the way out: the registers are in the thread still. */
static bool is_leaving(const struct thread *thread, uint64_t rip)
{
	return rip - engine_boot.image_start < engine_boot.image_size ||
	       rip - (uint64_t)thread->way_out < WAY_OUT_BYTES;
}

bool native_back(struct thread *thread, uint64_t pc)
{
	if (pc != thread->pc && !is_leaving(thread, pc))
		return false;
	__asm__ volatile("wrgsbase %0" : : "r"(thread) : "memory");
	thread->native = 0;
	host_left(thread->leave, -1);
	return true;
}

bool native_go(struct thread *thread)
{
	if (vsyscall_run(thread))
		return false;
	engine_lock();
	thread->leave = reason(thread->pc);
	host_left(thread->leave, 1);
	if (stream_wanted())
		stream_native(thread);
	if (!thread->way_out)
		thread->way_out = memory_code(WAY_OUT_BYTES);
	engine_unlock();
	put_leave(thread, thread->way_out);
	thread->next = (uint64_t)thread->way_out;
	thread->native = 1;
	return true;
}
