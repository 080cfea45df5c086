// SPDX-License-Identifier: BSD-2-Clause
/*
 * Bytes into the cache. Translating back, the same functions are called in the same order, and only
 * the place moves: so the state at each place is found without having been kept.
 */
#include "engine/build.h"

void write32(uint8_t *place, uint64_t value)
{
	__atomic_store_n((uint32_t *)place, (uint32_t)value, __ATOMIC_RELEASE);
}

void fix32(const struct build *build, uint8_t *place, uint64_t value)
{
	if (!build->back)
		write32(place, value);
}

void fix8(const struct build *build, uint8_t *place, uint64_t value)
{
	if (!build->back)
		*place = (uint8_t)value;
}

void state_note(struct build *build, uint64_t pc, unsigned state)
{
	if (build->at > build->wanted)
		return;
	build->state_pc = pc;
	build->state = state;
	build->state_block = build->block;
	build->state_instructions = build->block_instructions;
	build->state_told = build->told;
	for (unsigned i = 0; i < INSERTED_BEFORE; i++)
		build->state_before[i] = pc == build->pc && !(state & STATE_WHOLE)
						 ? build->before[i]
						 : (struct happened){};
	build->state_after = build->after;
}

/* As lahf and seto have left them. */
static uint64_t flags_of(uint64_t flags, uint64_t saved)
{
	enum { STATUS_LOW = 0xd5, OVERFLOW = 0x800 };

	return (flags & ~(uint64_t)(STATUS_LOW | OVERFLOW)) | (saved >> 8 & STATUS_LOW) |
	       (saved & 1 ? OVERFLOW : 0);
}

void registers_back(struct thread *thread, const struct build *build)
{
	thread->pc = build->state & STATE_FORWARD ? thread->regs[RDX] : build->state_pc;
	if (build->state & (STATE_SPILLED | STATE_RCX))
		thread->regs[RCX] = thread->spill[0];
	if (build->state & STATE_SPILLED)
		thread->regs[RDX] = thread->spill[1];
	for (unsigned reg = 0; reg < 16; reg++)
		if (build->state >> (STATE_SAVED_SHIFT + reg) & 1)
			thread->regs[reg] = thread->saved[reg];
	if (build->state & STATE_FLAGS)
		thread->flags = flags_of(thread->flags, thread->saved_flags);
	if (build->state & STATE_X)
		thread->regs[build->state >> STATE_X_SHIFT & 7] = thread->spill[0];
	if (build->state & STATE_Y)
		thread->regs[build->state >> STATE_Y_SHIFT & 7] = thread->spill[1];
}

void put_thread_move(struct build *build, unsigned opcode, unsigned reg, unsigned offset)
{
	put8(build, 0x65); /* gs */
	put8(build, 0x48 | (reg >= 8 ? 4 : 0));
	put8(build, opcode);
	put8(build, (reg & 7) << 3 | 4);
	put8(build, 0x25); /* no base, no index */
	put32(build, offset);
}

void put_jump_thread(struct build *build, unsigned offset)
{
	static const uint8_t code[] = { 0x65, 0xff, 0x24, 0x25 }; /* jmp *%gs:offset */

	put_bytes(build, code, sizeof(code));
	put32(build, offset);
}
