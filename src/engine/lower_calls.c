// SPDX-License-Identifier: BSD-2-Clause
/*
 * Machine code for the operations of trees of calls (tool.h): time stamps, entries and exits.
 *
 * Each has a fast path, which handles what happened at this place the last time, and a slow path,
 * which calls the tool. The slow way lies behind the fast one, which jumps over it.
 *
 *	enter	the frame behind the innermost one still names the node of the call that was there
 *		last: if that has the same routine and parent, it is the node. If it has not, the
 *		call site has the node that was entered from there last
 *	leave	the innermost frame has the stack pointer of this return. No flag is changed: one
 *		number is added to the complement of the other, and jrcxz looks whether that is 0
 *	charge	the interval goes to the innermost frame's node, unless it is so long that the
 *		thread may have been off a processor
 */
#include "engine/lower.h"

#include "wire/calltree.h"

enum {
	FRAME_AT = 0,
	FRAME_SP = 8,
	FRAME_NODE = 24,
	NODE_ROUTINE = 0,
	NODE_PARENT = 8,
	NODE_CALLS = 40,
	NODE_ELAPSED = 64 + 8,
};

_Static_assert(offsetof(struct call_node, parent) == NODE_PARENT, "known here");
_Static_assert(offsetof(struct call_node, calls) == NODE_CALLS, "known here");
_Static_assert(offsetof(struct call_node, amounts) + 8 == NODE_ELAPSED, "known here");

/* An instruction with an operand in memory, of 64 bits or of 32. */
void put_with(struct build *build, unsigned opcode, unsigned reg, unsigned base,
	      int32_t displacement, bool wide)
{
	put8(build, (wide ? 0x48 : 0x40) | (reg >= 8 ? 4 : 0) | (base >= 8 ? 1 : 0));
	put8(build, opcode);
	put_based(build, reg, base, displacement);
}

void put_slow_if(struct build *build, struct ways *ways, unsigned condition)
{
	put8(build, 0x0f);
	put8(build, 0x80 | condition);
	ways->slow[ways->count++] = build->at;
	put32(build, 0);
}

/* Patches jumps so that they lead to here. */
static void ways_end(struct build *build, const struct ways *ways)
{
	for (unsigned i = 0; i < ways->count; i++)
		fix32(build, ways->slow[i], (uint64_t)(build->at - (ways->slow[i] + 4)));
}

/* The slow way begins. */
void put_slow(struct build *build, struct ways *ways)
{
	put8(build, 0xe9);
	ways->over = build->at;
	put32(build, 0);
	ways_end(build, ways);
}

void put_over(struct build *build, const struct ways *ways)
{
	fix32(build, ways->over, (uint64_t)(build->at - (ways->over + 4)));
}

static void tool_call(struct lowering *lowering, const struct inline_op *op, unsigned values)
{
	const struct inline_op call = { INLINE_CALL, op->to, 0, (uint8_t)values, op->from };

	lower_call(lowering, &call);
}

static unsigned memory_at(const struct inline_op *op)
{
	return THREAD_COUNTS + (uint32_t)op->value;
}

/* --- Entries and exits ------------------------------------------------------------------- */

/* op: INLINE_ENTERED */
static unsigned site_of(const struct inline_op *op)
{
	return op->to | (unsigned)op->from << 8;
}

static void put_test(struct build *build, unsigned reg)
{
	put8(build, 0x48 | (reg >= 8 ? 5 : 0)); /* test reg, reg */
	put8(build, 0x85);
	put8(build, 0xc0 | (reg & 7) * 9);
}

/* The node of the call site, if it is the one; then it is the frame's. */
static void site_put(struct lowering *lowering, unsigned site, struct ways *ways)
{
	struct build *build = lowering->build;
	unsigned target = lowering->registers[INLINE_A], frame = lowering->registers[INLINE_B];
	unsigned node = lowering->registers[INLINE_C], scratch = lowering->scratch;

	put_thread_move(build, 0x8b, node, site + (unsigned)offsetof(struct calltree_site, node));
	put_test(build, node);
	put_slow_if(build, ways, JUMP_EQUAL);
	put_with(build, 0x3b, target, node, NODE_ROUTINE, true);
	put_slow_if(build, ways, JUMP_DIFFERENT);
	put_with(build, 0x8b, scratch, frame, FRAME_NODE, false);
	put_with(build, 0x3b, scratch, node, NODE_PARENT, false);
	put_slow_if(build, ways, JUMP_DIFFERENT);
	put_with(build, 0x89, node, frame, CALLTREE_FRAME + FRAME_AT, true);
	put_thread_move(build, 0x8b, scratch,
			site + (unsigned)offsetof(struct calltree_site, number));
	put_with(build, 0x89, scratch, frame, CALLTREE_FRAME + FRAME_NODE, false);
}

static void frame_put(struct lowering *lowering, const struct inline_op *op, struct ways *ways)
{
	struct ways other = {}, found = {};
	struct build *build = lowering->build;
	unsigned target = lowering->registers[INLINE_A], frame = lowering->registers[INLINE_B];
	unsigned node = lowering->registers[INLINE_C], scratch = lowering->scratch;

	put_thread_move(build, 0x8b, frame, memory_at(op));
	put_add(build, node, RSP, -(int32_t)op->size);
	put_with(build, 0x3b, node, frame, FRAME_SP, true); /* cmp sp of the frame, node */
	put_slow_if(build, ways, JUMP_NOT_BELOW);
	put_with(build, 0x89, node, frame, CALLTREE_FRAME + FRAME_SP, true);
	put_with(build, 0x8b, node, frame, CALLTREE_FRAME + FRAME_AT, true);
	put_test(build, node);
	put_slow_if(build, ways, JUMP_EQUAL);
	put_with(build, 0x3b, target, node, NODE_ROUTINE, true);
	put_slow_if(build, &other, JUMP_DIFFERENT);
	put_with(build, 0x8b, scratch, frame, FRAME_NODE, false);
	put_with(build, 0x3b, scratch, node, NODE_PARENT, false);
	put_slow_if(build, &found, JUMP_EQUAL);
	ways_end(build, &other);
	site_put(lowering, memory_at(op) + CALLTREE_SITES + site_of(op + 1) * CALLTREE_SITE, ways);
	ways_end(build, &found);
	put_add(build, frame, frame, CALLTREE_FRAME);
	put_thread_move(build, 0x89, frame, memory_at(op));
}

/* Two units: that the frame is there, and that the call is counted, which follows as ENTERED. */
void lower_enter(struct lowering *lowering, const struct inline_op *op)
{
	struct build *build = lowering->build;
	struct happened *happened = lowering->place->happened;
	struct ways ways = {};

	frame_put(lowering, op, &ways);
	happened->units++;
	lower_here(lowering);
	put_with(build, 0xff, 0, lowering->registers[INLINE_C], NODE_CALLS, true); /* incq */
	happened->units++;
	lower_here(lowering);
	put_slow(build, &ways);
	happened->units -= 2;
	lower_here(lowering);
	put_number(build, lowering->scratch, site_of(op + 1));
	put_thread_move(build, 0x89, lowering->scratch, THREAD_ARGUMENTS + 8);
	tool_call(lowering, op, 1);
	put_over(build, &ways);
}

void lower_leave(struct lowering *lowering, const struct inline_op *op)
{
	static const uint8_t complement[] = { 0x48, 0xf7, 0xd1 }; /* not %rcx */
	static const uint8_t compare[] = { 0x48, 0x8d, 0x4c, 0x0c,
					   0x01 }; /* lea 1(%rsp,%rcx), %rcx */
	static const uint8_t is_hit[] = { 0xe3, 5, 0xe9 }; /* jrcxz over the jump; jmp */
	struct build *build = lowering->build;
	struct ways ways = {};

	put_thread_move(build, 0x8b, RCX, memory_at(op));
	put_with(build, 0x8b, RCX, RCX, FRAME_SP, true);
	put_bytes(build, complement, sizeof(complement));
	put_bytes(build, compare, sizeof(compare));
	put_bytes(build, is_hit, sizeof(is_hit));
	ways.slow[ways.count++] = build->at;
	put32(build, 0);
	put_thread_move(build, 0x8b, RCX, memory_at(op));
	put_add(build, RCX, RCX, -CALLTREE_FRAME);
	put_thread_move(build, 0x89, RCX, memory_at(op));
	lowering->place->happened->units++;
	lower_here(lowering);
	put_slow(build, &ways);
	lowering->place->happened->units--;
	lower_here(lowering);
	tool_call(lowering, op, 0);
	put_over(build, &ways);
}

/* --- Time -------------------------------------------------------------------------------- */

/* rdtsc takes rax and rdx. In the middle of an indirect branch the target is in rdx. */
void lower_charge_begin(struct lowering *lowering)
{
	unsigned dead = lowering->list->dead & ~lowering->avoided;

	lowering->avoided |= 1u << RAX | 1u << RDX;
	if (!(lowering->saved >> RAX & 1) && !(dead >> RAX & 1))
		lower_register_save(lowering, RAX);
	if (!(lowering->place->state & STATE_SPILLED) && !(dead >> RDX & 1))
		lower_register_save(lowering, RDX);
}

void put_now(struct build *build)
{
	static const uint8_t now[] = { 0x0f, 0x31, /* rdtsc */
				       0x48, 0xc1, 0xe2, 32, /* shl $32, %rdx */
				       0x48, 0x09, 0xd0 }; /* or %rdx, %rax */

	put_bytes(build, now, sizeof(now));
}

static void interval_put(struct build *build, unsigned scratch, unsigned memory, unsigned bits)
{
	unsigned last = memory + (unsigned)offsetof(struct calltree_memory, last);

	put_now(build);
	put_thread_move(build, 0x8b, scratch, last);
	put_thread_move(build, 0x89, RAX, last);
	put8(build, 0x48 | (scratch >= 8 ? 4 : 0)); /* sub scratch, %rax */
	put8(build, 0x29);
	put8(build, 0xc0 | (scratch & 7) << 3);
	put8(build, 0x48); /* cmp $limit, %rax */
	put8(build, 0x3d);
	put32(build, (1u << bits) - 1);
}

void lower_charge(struct lowering *lowering, const struct inline_op *op)
{
	struct build *build = lowering->build;
	bool spilled = lowering->place->state & STATE_SPILLED;
	unsigned scratch = lowering->scratch;
	struct ways ways = {};

	if (spilled)
		put_thread_move(build, 0x89, RDX, THREAD_ARGUMENTS + 16);
	interval_put(build, scratch, memory_at(op), op->size);
	put_slow_if(build, &ways, JUMP_ABOVE);
	put_thread_move(build, 0x8b, scratch, memory_at(op));
	put_with(build, 0x8b, scratch, scratch, FRAME_AT, true);
	put_with(build, 0x01, RAX, scratch, NODE_ELAPSED, true); /* add %rax, elapsed */
	put_slow(build, &ways);
	put_thread_move(build, 0x89, RAX, THREAD_ARGUMENTS);
	tool_call(lowering, op, 0);
	put_over(build, &ways);
	if (spilled)
		put_thread_move(build, 0x8b, RDX, THREAD_ARGUMENTS + 16);
}
