// SPDX-License-Identifier: BSD-2-Clause
/*
 * Bytes into the cache. Translating back, the same functions are called in the same order, and only the place moves: so
 * the state at each place is found without having been kept.
 */
#include "engine/build.h"

void put8(struct build *build, unsigned byte)
{
	if (!build->back)
		*build->at = (uint8_t)byte;
	build->at++;
}

void put32(struct build *build, uint64_t value)
{
	for (int i = 0; i < 4; i++)
		put8(build, (unsigned)(value >> i * 8));
}

void put_bytes(struct build *build, const void *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		put8(build, ((const uint8_t *)bytes)[i]);
}

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

void put_state(struct build *build, uint64_t pc, unsigned state)
{
	if (!build->back || build->at > build->wanted)
		return;
	build->state_pc = pc;
	build->state = state;
	build->state_piece = build->piece;
	build->state_instructions = build->piece_instructions;
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

/* --- Where runs end ------------------------------------------------------------------------------------ */

/* Whether the helper has to make room for itself: rcx goes to its slot, and comes back. */
static bool is_spilled(const struct run_end *end)
{
	return end->target != TARGET_IN_RDX && end->scratch == SCRATCH_NONE;
}

static unsigned end_register(const struct run_end *end)
{
	return end->scratch == SCRATCH_NONE ? RCX : end->scratch;
}

static void rcx_free(struct build *build, const struct run_end *end)
{
	if (!is_spilled(end))
		return;
	put_thread_move(build, 0x89, RCX, THREAD_SPILL0);
	put_state(build, end->target, STATE_WHOLE | STATE_RCX);
}

static unsigned where_told(uint64_t target, unsigned direct)
{
	return target == TARGET_IN_RDX ? STATE_SPILLED | STATE_FORWARD : direct;
}

static void run_told(struct build *build, const struct run_end *end)
{
	put_state(build, end->target,
		  STATE_WHOLE | STATE_TOLD |
			  where_told(end->target, is_spilled(end) ? STATE_RCX : 0));
}

static void rcx_back(struct build *build, const struct run_end *end)
{
	if (!is_spilled(end))
		return;
	put_thread_move(build, 0x8b, RCX, THREAD_SPILL0);
	put_state(build, end->target, STATE_WHOLE | STATE_TOLD);
}

void put_count(struct build *build, const struct run_end *end)
{
	static const uint8_t increment[] = { 0x65, 0x48, 0xff, 0x04, 0x25 }; /* incq %gs:... */
	static const uint8_t next[] = { 0x48, 0x8d, 0x49, 0x01 }; /* lea 1(%rcx), %rcx */
	uint32_t counter = THREAD_COUNTS + end->run * 8;

	if (end->flags_dead) {
		put_bytes(build, increment, sizeof(increment));
		put32(build, counter);
		put_state(build, end->target, STATE_WHOLE | STATE_TOLD);
		return;
	}
	rcx_free(build, end);
	put_thread_move(build, 0x8b, RCX, counter);
	put_bytes(build, next, sizeof(next));
	put_thread_move(build, 0x89, RCX, counter);
	run_told(build, end);
	rcx_back(build, end);
}

void put_seen(struct build *build, const struct run_end *end)
{
	static const uint8_t store[] = { 0x65, 0xc6, 0x04, 0x25 }; /* movb $1, %gs:... */

	put_bytes(build, store, sizeof(store));
	put32(build, THREAD_COUNTS + end->run);
	put8(build, 1);
	put_state(build, end->target, STATE_WHOLE | STATE_TOLD | where_told(end->target, 0));
}

/* A chunk ends where the low 16 bits of the next place are 0. A short branch, whose displacement comes last. */
static void put_is_full(struct build *build, const struct run_end *end)
{
	static const uint8_t with_rcx[] = { 0x0f, 0xb7, 0xc9, 0xe3,
					    0 }; /* movzwl %cx, %ecx; jrcxz */
	unsigned reg = end->scratch;
	const uint8_t with_flags[] = { 0x66, (uint8_t)(0x40 | (reg >= 8 ? 5 : 0)),
				       0x85, (uint8_t)(0xc0 | (reg & 7) * 9),
				       0x74, 0 }; /* testw %reg, %reg; jz */

	if (reg == SCRATCH_NONE)
		put_bytes(build, with_rcx, sizeof(with_rcx));
	else
		put_bytes(build, with_flags, sizeof(with_flags));
}

void put_append(struct build *build, const struct run_end *end)
{
	unsigned reg = end_register(end), low = reg & 7;
	const uint8_t store[] = { (uint8_t)(0x40 | (reg >= 8)), 0xc7,
				  (uint8_t)low }; /* movl $run, (%reg) */
	const uint8_t next[] = { (uint8_t)(0x48 | (reg >= 8 ? 5 : 0)), 0x8d,
				 (uint8_t)(0x40 | low * 9), 0x04 }; /* lea 4(%reg), %reg */

	rcx_free(build, end);
	put_thread_move(build, 0x8b, reg, THREAD_STREAM);
	put_bytes(build, store, sizeof(store));
	put32(build, end->run);
	put_bytes(build, next, sizeof(next));
	put_thread_move(build, 0x89, reg, THREAD_STREAM);
	run_told(build, end);
	put_is_full(build, end);
	build->rest_from = build->at;
	build->rest_back = build->at;
	build->rest = *end;
	rcx_back(build, end);
}

/* Calls the tool's called() in the engine, with the program's registers saved. */
void put_rest(struct build *build)
{
	const struct run_end *end = &build->rest;
	unsigned reg = end_register(end);
	const uint8_t address[] = { (uint8_t)(0x48 | (reg >= 8 ? 4 : 0)), 0x8d,
				    (uint8_t)(0x05 | (reg & 7) << 3) }; /* lea back(%rip), %reg */

	if (!build->rest_from)
		return;
	fix8(build, build->rest_from - 1, (uint64_t)(build->at - build->rest_from));
	run_told(build, end);
	put_bytes(build, address, sizeof(address));
	put32(build, (uint64_t)(build->rest_back - (build->at + 4)));
	put_thread_move(build, 0x89, reg, THREAD_NEXT);
	if (end->scratch == SCRATCH_NONE)
		put_thread_move(build, 0x8b, RCX, THREAD_SPILL0);
	put_jump_thread(build, THREAD_ON_CALL);
	build->rest_from = NULL;
}
