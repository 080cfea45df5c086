/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The only definition of the semantics of micro-operations, included by every executor.
 *
 *	in	a micro-operation and the machine's state before it
 *	out	the state after it, and how control goes on
 *	owner	nobody: the executor that includes it has the state, in the kernel or in replay.c
 *
 * The includer defines before the include:
 *
 *	UOP_CONTEXT	type of the last argument of uop_step(), handed on to the three below
 *	UOP_LOAD(context, address, size, ret)
 *			0: *ret is the value; UOP_LOAD_UNKNOWN: it is poisoned;
 *			UOP_LOAD_MISSING: it could not be read
 *	UOP_STORE(context, address, size, value, unknown)
 *			0 or an enum uop_end; size is 1, 2, 4 or 8
 *	UOP_POISON(context, address, size)
 *			0 or an enum uop_end; size is up to 64
 *
 * Theory. A step fetches its operands cut to the operation's size, computes, and writes back. Every
 * operand has "unknown" bits, one for each byte; a result is unknown if an operand that it depends
 * on is. Flags of additions, subtractions and logic are not computed but remembered as (kind, a, b,
 * result) until something reads them (uop_flags_settle); all other operations compute theirs at
 * once.
 *
 * Invariants:
 * 1. A value whose unknown bit is clear is what the processor has; the same for a flag that is
 *    known. What the architecture leaves undefined is unknown.
 * 2. A store to an unknown address, or a branch on something unknown, ends the run; nothing else
 *    unknown does.
 * 3. No recursion, no loop that is not unrolled, no libc, no index that is not masked. Loops of 64
 *    rounds for long division and pdep alone took the BPF verifier beyond its limit; without them
 *    it is done in milliseconds.
 * 4. After a step, lazy_mask is 0 or covers all status flags, CF possibly excepted.
 */
#pragma once

#include "isa/uop_scalar.h"
#include "isa/uop_vector.h"
#include "wire/uop.h"

/* What uop_step() returns besides 0 (go on with state->next) and the positive enum uop_end. */
#define UOP_LEFT (-1) /* the block is over; state->pc is where it goes on */

static const wire_u8 uop_traits[UOP_OP_COUNT] = {
#define X(name, text, traits) (traits),
	UOPS(X)
#undef X
};

UOP_INLINE void uop_flags_access(struct uop_state *state, struct uop_eval *e, const struct uop *uop)
{
	wire_u32 mask = uop->imm;

	if (uop->op == UOP_OP_FLAGS_GET) {
		e->result = (state->flags & mask) | 2;
		e->unknown = (mask & ~state->flags_known & UOP_TRACKED & ~UOP_AF) != 0;
		return;
	}
	state->flags_known &= ~mask;
	if (uop->op == UOP_OP_FORGET_FLAGS || e->unknown)
		return;
	state->flags = (state->flags & ~mask) | (e->a & mask);
	state->flags_known |= mask;
}

/*
 * The words of a vector above its first, up to size bytes, become unknown. Without branches: they
 * would be eight more for the verifier.
 */
UOP_INLINE void uop_forget_words(struct uop_state *state, const struct uop *uop)
{
	for (wire_s64 i = 1; i < UOP_VECTOR_WORDS; i++) {
		wire_u64 forgotten = (wire_u64)(i * 8 - (wire_s64)uop->size) >> 63;

		state->unknown[(uop->dst + i * UOP_VECTOR_STEP) & (UOP_REGISTERS - 1)] |=
			(wire_u8)-forgotten;
	}
}

/* The words of a vector from byte size on, up to byte imm, become 0. */
UOP_INLINE void uop_clear_words(struct uop_state *state, const struct uop *uop)
{
	for (wire_s64 i = 2; i < UOP_VECTOR_WORDS; i++) {
		wire_u32 at = (uop->dst + i * UOP_VECTOR_STEP) & (UOP_REGISTERS - 1);
		wire_u64 below = (wire_u64)((i * 8 - (wire_s64)uop->size) >> 63);
		wire_u64 kept = below | (wire_u64)((uop->imm - i * 8 - 1) >> 63);

		state->regs[at] &= kept;
		state->unknown[at] &= (wire_u8)kept;
	}
}

/* Everything that neither touches memory nor branches: result, unknown and flags into e. */
UOP_INLINE int uop_compute(struct uop_state *state, struct uop_eval *e, const struct uop *uop)
{
	wire_u32 op = uop->op;

	switch (op) {
	case UOP_OP_MOV:
		e->result = e->b;
		e->lazy = UOP_LAZY_LOGIC;
		return 0;
	case UOP_OP_SEXT:
		e->result = uop_extend(e->a, (wire_u32)uop->imm * 8 & 63);
		return 0;
	case UOP_OP_HIGH:
		e->result = (e->dst & ~0xff00ull) | (e->a & 0xff) << 8;
		return 0;
	case UOP_OP_FORGET:
		e->unknown = 1;
		uop_forget_words(state, uop);
		return 0;
	case UOP_OP_CLEAR:
		uop_clear_words(state, uop);
		return 0;
	case UOP_OP_CLEAR_UPPER:
		__builtin_memset(state->regs + UOP_YMM0_UPPER, 0, 2 * UOP_VECTOR_STEP * 8);
		__builtin_memset(state->unknown + UOP_YMM0_UPPER, 0, 2 * UOP_VECTOR_STEP);
		return 0;
	case UOP_OP_ADD:
		e->result = (e->a + e->b) & e->mask;
		e->lazy = UOP_LAZY_ADD;
		return 0;
	case UOP_OP_SUB:
		e->result = (e->a - e->b) & e->mask;
		e->lazy = UOP_LAZY_SUB;
		return 0;
	case UOP_OP_NEG:
		e->b = e->a;
		e->a = 0;
		e->result = -e->b & e->mask;
		e->lazy = UOP_LAZY_SUB;
		return 0;
	case UOP_OP_AND:
		e->result = e->a & e->b;
		e->lazy = UOP_LAZY_LOGIC;
		return 0;
	case UOP_OP_OR:
		e->result = e->a | e->b;
		e->lazy = UOP_LAZY_LOGIC;
		return 0;
	case UOP_OP_XOR:
		e->result = e->a ^ e->b;
		e->lazy = UOP_LAZY_LOGIC;
		return 0;
	case UOP_OP_ISZERO:
		e->result = !e->a;
		return 0;
	case UOP_OP_BSWAP:
		e->result = uop_swap(e->a, e->bits);
		return 0;
	case UOP_OP_STRIDE:
		e->unknown |= !(state->flags_known & UOP_DF);
		e->result = state->flags & UOP_DF ? e->dst - uop->imm : e->dst + uop->imm;
		return 0;
	case UOP_OP_ADC:
	case UOP_OP_SBB:
	case UOP_OP_ADCX:
	case UOP_OP_ADOX:
		uop_carry(state, e, op);
		return 0;
	case UOP_OP_SETCC:
	case UOP_OP_SELECT:
		uop_chosen(state, e, uop);
		return 0;
	case UOP_OP_FLAGS_GET:
	case UOP_OP_FLAGS_SET:
	case UOP_OP_FORGET_FLAGS:
		uop_flags_access(state, e, uop);
		return 0;
	}
	if (op >= UOP_OP_SHL && op <= UOP_OP_SHRD)
		uop_shifts(state, e, op);
	else if (op >= UOP_OP_MUL && op <= UOP_OP_MULHS)
		uop_multiply(e, op);
	else if (op >= UOP_OP_DIVU && op <= UOP_OP_REMS)
		return uop_divide(e, op);
	else if (op >= UOP_OP_BT && op <= UOP_OP_BTC)
		uop_bit(e, op);
	else if (op >= UOP_OP_BSF && op <= UOP_OP_POPCNT)
		uop_scan(state, e, uop);
	else if (op >= UOP_OP_ANDN && op <= UOP_OP_PEXT)
		uop_bmi(e, op);
	else if (op >= UOP_OP_PICK && op <= UOP_OP_FCMP)
		uop_vector(e, uop);
	return 0;
}

UOP_INLINE void uop_flags_write(struct uop_state *state, const struct uop_eval *e,
				const struct uop *uop)
{
	wire_u32 written = e->lazy ? UOP_STATUS : e->written;

	if (uop->flags & UOP_KEEP_CF)
		written &= ~UOP_CF;
	if (!written)
		return;
	if (e->lazy && !e->unknown) {
		state->lazy_kind = e->lazy;
		state->lazy_size = uop->size;
		state->lazy_a = e->a;
		state->lazy_b = e->b;
		state->lazy_result = e->result;
		state->lazy_mask = written;
		return;
	}
	/* Operations that write only some flags had the others settled before. */
	state->lazy_mask = 0;
	state->flags = (state->flags & ~written) | (e->flags & written);
	state->flags_known &= ~written;
	if (!e->unknown)
		state->flags_known |= e->known & written;
}

UOP_INLINE void uop_write(struct uop_state *state, wire_u32 dst, wire_u64 value, wire_u64 kept,
			  wire_u32 unknown)
{
	wire_u32 at = dst & (UOP_REGISTERS - 1);

	if (kept)
		unknown |= state->unknown[at];
	state->regs[at] = value | (state->regs[at] & kept);
	state->unknown[at] = (wire_u8)unknown;
}

UOP_INLINE int uop_memory(struct uop_state *state, const struct uop_eval *e, const struct uop *uop,
			  UOP_CONTEXT context)
{
	wire_u64 address = e->a + (e->b << (uop->flags >> UOP_SCALE_SHIFT)) + uop->imm;
	wire_u64 kept = uop->flags & UOP_MERGE ? ~e->mask : 0, value = 0;
	wire_u32 unknown = e->unknown_a | e->unknown_b;
	int how;

	if (uop->op == UOP_OP_LEA) {
		uop_write(state, uop->dst, address & e->mask, kept, unknown ? UOP_UNKNOWN : 0);
		return 0;
	}
	state->address = address;
	if (uop->op == UOP_OP_LOAD) {
		how = unknown ? UOP_LOAD_UNKNOWN : UOP_LOAD(context, address, uop->size, &value);
		state->misses += how == UOP_LOAD_MISSING;
		uop_write(state, uop->dst, value & e->mask, kept, how ? UOP_UNKNOWN : 0);
		return 0;
	}
	if (uop->op == UOP_OP_TOUCH)
		return 0;
	if (unknown)
		return UOP_END_UNKNOWN_ADDRESS;
	if (uop->op == UOP_OP_POISON)
		return UOP_POISON(context, address, uop->size);
	state->value = e->dst;
	return UOP_STORE(context, address, uop->size, e->dst, e->unknown_dst);
}

UOP_INLINE int uop_flow(struct uop_state *state, const struct uop_eval *e, const struct uop *uop)
{
	int taken;

	switch (uop->op) {
	case UOP_OP_BRANCH:
		taken = uop_condition(state, uop->a);
		break;
	case UOP_OP_JUMP:
		taken = 1;
		break;
	case UOP_OP_GIVE_UP:
		return UOP_GIVE_UP_END(uop->imm);
	case UOP_OP_JUMP_TO:
		state->pc = e->a;
		return e->unknown_a ? UOP_END_UNKNOWN_BRANCH : UOP_LEFT;
	default:
		taken = e->unknown_a ? -1 : !e->a;
	}
	if (taken < 0)
		return UOP_END_UNKNOWN_BRANCH;
	if (uop->op == UOP_OP_SKIP_ZERO || uop->op == UOP_OP_AGAIN) {
		state->again = uop->op == UOP_OP_AGAIN ? state->again + 1 : 0;
		if (taken == (uop->op == UOP_OP_SKIP_ZERO))
			state->next = uop->imm;
		return state->again > UOP_AGAIN_MAX ? UOP_END_STRING_LONG : 0;
	}
	if (!taken)
		return 0;
	state->pc = state->regs[UOP_BIAS] + uop->imm;
	return UOP_LEFT;
}

UOP_INLINE void uop_fetch(const struct uop_state *state, const struct uop *uop, wire_u32 traits,
			  struct uop_eval *e)
{
	wire_u64 cut;

	e->bits = uop->size > 8 ? 64 : uop->size * 8;
	e->bits = e->bits < 8 ? 8 : e->bits;
	e->mask = ~0ull >> (64 - e->bits);
	cut = traits & UOP_ADDRESS ? ~0ull : e->mask;
	if (traits & UOP_READS_A && uop->a != UOP_NONE) {
		e->a = state->regs[uop->a & (UOP_REGISTERS - 1)] & cut;
		e->unknown_a = state->unknown[uop->a & (UOP_REGISTERS - 1)];
	}
	if (uop->flags & UOP_IMM) {
		e->b = uop->imm & e->mask;
	} else if (traits & UOP_READS_B && uop->b != UOP_NONE) {
		e->b = state->regs[uop->b & (UOP_REGISTERS - 1)] & cut;
		e->unknown_b = state->unknown[uop->b & (UOP_REGISTERS - 1)];
	}
	if (traits & UOP_READS_DST) {
		e->dst = state->regs[uop->dst & (UOP_REGISTERS - 1)] & e->mask;
		e->unknown_dst = state->unknown[uop->dst & (UOP_REGISTERS - 1)];
	}
	e->unknown = e->unknown_a | e->unknown_b | e->unknown_dst;
}

/*
 * Which bytes of the result are unknown: all, if anything is that it depends on. But a vector whose
 * lanes were chosen by a mask may be known in these lanes, which is all that is needed.
 */
UOP_INLINE wire_u32 uop_unknown_bytes(const struct uop_eval *e, const struct uop *uop)
{
	wire_u32 op = uop->op;

	if (!e->unknown)
		return 0;
	if (op == UOP_OP_KEEP ||
	    (uop->size == 8 && (op == UOP_OP_AND || op == UOP_OP_OR || op == UOP_OP_XOR)) ||
	    (op >= UOP_OP_LANES_EQ && op <= UOP_OP_LANES_MAX && uop->imm == 1))
		return e->unknown & UOP_UNKNOWN;
	return UOP_UNKNOWN;
}

/*
 * Runs one micro-operation: 0, UOP_LEFT or an enum uop_end. state->next is the one to run after it.
 */
UOP_INLINE int uop_step(struct uop_state *state, const struct uop *uop, UOP_CONTEXT context)
{
	struct uop_eval e = { 0 };
	wire_u32 traits;
	int err;

	if (uop->op >= UOP_OP_COUNT)
		return UOP_END_BAD_BLOCK;
	traits = uop_traits[uop->op];
	if (traits & UOP_READS_FLAGS || uop->flags & UOP_KEEP_CF)
		uop_flags_settle(state);
	state->next++;
	uop_fetch(state, uop, traits, &e);
	if (traits & UOP_ADDRESS)
		return uop_memory(state, &e, uop, context);
	if (uop->op >= UOP_OP_SKIP_ZERO)
		return uop_flow(state, &e, uop);
	err = uop_compute(state, &e, uop);
	if (err)
		return err;
	if (uop->flags & UOP_FLAGS)
		uop_flags_write(state, &e, uop);
	if (traits & UOP_WRITES && uop->dst != UOP_NONE)
		uop_write(state, uop->dst, e.result & e.mask, uop->flags & UOP_MERGE ? ~e.mask : 0,
			  uop_unknown_bytes(&e, uop));
	return 0;
}
