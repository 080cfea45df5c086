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

/* In between, rcx is free: it is in its slot. */
static void rcx_free(struct build *build, const struct run_end *end)
{
	if (end->target == TARGET_IN_RDX)
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
		  STATE_WHOLE | STATE_TOLD | where_told(end->target, STATE_RCX));
}

static void rcx_back(struct build *build, const struct run_end *end)
{
	if (end->target == TARGET_IN_RDX)
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

/* A chunk ends where the low 16 bits of the next place are 0. */
void put_append(struct build *build, const struct run_end *end)
{
	static const uint8_t store[] = { 0xc7, 0x01 }; /* movl $run, (%rcx) */
	static const uint8_t next[] = { 0x48, 0x8d, 0x49, 0x04 }; /* lea 4(%rcx), %rcx */
	static const uint8_t is_full[] = { 0x0f, 0xb7, 0xc9, 0xe3,
					   0 }; /* movzwl %cx, %ecx; jrcxz */

	rcx_free(build, end);
	put_thread_move(build, 0x8b, RCX, THREAD_STREAM);
	put_bytes(build, store, sizeof(store));
	put32(build, end->run);
	put_bytes(build, next, sizeof(next));
	put_thread_move(build, 0x89, RCX, THREAD_STREAM);
	run_told(build, end);
	put_bytes(build, is_full, sizeof(is_full));
	build->rest_from = build->at;
	build->rest_back = build->at;
	rcx_back(build, end);
	build->rest_target = end->target;
}

void put_call(struct build *build, const uint8_t *back)
{
	static const uint8_t address[] = { 0x48, 0x8d, 0x0d }; /* lea back(%rip), %rcx */

	put_bytes(build, address, sizeof(address));
	put32(build, (uint64_t)(back - (build->at + 4)));
	put_thread_move(build, 0x89, RCX, THREAD_NEXT);
	put_thread_move(build, 0x8b, RCX, THREAD_SPILL0);
	put_jump_thread(build, THREAD_ON_CALL);
}

void put_rest(struct build *build)
{
	uint64_t target = build->rest_target;

	if (!build->rest_from)
		return;
	fix8(build, build->rest_from - 1, (uint64_t)(build->at - build->rest_from));
	put_state(build, target, STATE_WHOLE | STATE_TOLD | where_told(target, STATE_RCX));
	put_call(build, build->rest_back);
	build->rest_from = NULL;
}
