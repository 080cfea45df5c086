/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one definition of what micro-operations do, included by every executor.
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

#include "wire/uop.h"

#define UOP_INLINE static inline __attribute__((always_inline))

/* What uop_step() returns besides 0 (go on with state->next) and the positive enum uop_end. */
#define UOP_LEFT (-1) /* the block is over; state->pc is where it goes on */

enum {
	UOP_LOAD_UNKNOWN = 1,
	UOP_LOAD_MISSING = 2,
};

static const wire_u8 uop_traits[UOP_OP_COUNT] = {
#define X(name, text, traits) (traits),
	UOPS(X)
#undef X
};

/* One step under way. */
struct uop_eval {
	wire_u64 a, b, dst; /* operands, cut to size */
	wire_u64 mask; /* of size */
	wire_u64 result;
	wire_u32 bits; /* of size */
	wire_u32 unknown_a, unknown_b, unknown_dst; /* bits of bytes */
	wire_u32 unknown; /* 0: the result is known */
	wire_u32 lazy; /* enum uop_lazy: flags follow from a, b and result */
	wire_u32 flags; /* where lazy is NONE: new flags, */
	wire_u32 known; /* which of them are defined, */
	wire_u32 written; /* and which change at all */
};

UOP_INLINE wire_u32 uop_top(const struct uop_eval *e, wire_u64 value)
{
	return value >> (e->bits - 1) & 1;
}

UOP_INLINE wire_u32 uop_parity(wire_u64 value)
{
	value ^= value >> 4;
	return 0x9669 >> (value & 15) & 1 ? UOP_PF : 0;
}

/* ZF, SF and PF of a result. */
UOP_INLINE wire_u32 uop_zsp(wire_u64 value, wire_u32 bits)
{
	return (value ? 0 : UOP_ZF) | (value >> (bits - 1) & 1 ? UOP_SF : 0) | uop_parity(value);
}

UOP_INLINE wire_u64 uop_extend(wire_u64 value, wire_u32 bits)
{
	wire_u32 shift = 64 - bits;

	return (wire_s64)(value << shift) >> shift;
}

UOP_INLINE wire_u64 uop_ones(wire_u64 x)
{
	x -= x >> 1 & 0x5555555555555555ull;
	x = (x & 0x3333333333333333ull) + (x >> 2 & 0x3333333333333333ull);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0full;
	return x * 0x0101010101010101ull >> 56;
}

/* Position of the lowest set bit; 64 for 0. */
UOP_INLINE wire_u64 uop_lowest(wire_u64 x)
{
	return uop_ones((x & -x) - 1);
}

/* Position of the highest set bit + 1; 0 for 0. */
UOP_INLINE wire_u64 uop_width(wire_u64 x)
{
	x |= x >> 1;
	x |= x >> 2;
	x |= x >> 4;
	x |= x >> 8;
	x |= x >> 16;
	x |= x >> 32;
	return uop_ones(x);
}

UOP_INLINE wire_u64 uop_multiply_high(wire_u64 a, wire_u64 b)
{
	wire_u64 low = (a & 0xffffffff) * (b & 0xffffffff);
	wire_u64 cross = (a >> 32) * (b & 0xffffffff) + (low >> 32);
	wire_u64 other = (a & 0xffffffff) * (b >> 32) + (cross & 0xffffffff);

	return (a >> 32) * (b >> 32) + (cross >> 32) + (other >> 32);
}

/* Turns the remembered operands into flags. */
UOP_INLINE void uop_flags_settle(struct uop_state *state)
{
	wire_u64 a = state->lazy_a, b = state->lazy_b, r = state->lazy_result;
	wire_u32 bits = state->lazy_size * 8, mask = state->lazy_mask, known = UOP_STATUS;
	wire_u64 carry = 0, overflow = 0;
	wire_u32 flags;

	if (!mask)
		return;
	if (state->lazy_kind == UOP_LAZY_ADD) {
		carry = (a & b) | ((a | b) & ~r);
		overflow = (a ^ r) & (b ^ r);
	} else if (state->lazy_kind == UOP_LAZY_SUB) {
		carry = (~a & b) | ((~a | b) & r);
		overflow = (a ^ b) & (a ^ r);
	} else {
		known &= ~UOP_AF;
	}
	bits = bits > 64 || bits < 8 ? 64 : bits;
	flags = uop_zsp(r, bits) | ((a ^ b ^ r) & UOP_AF);
	flags |= carry >> (bits - 1) & 1 ? UOP_CF : 0;
	flags |= overflow >> (bits - 1) & 1 ? UOP_OF : 0;
	state->flags = (state->flags & ~mask) | (flags & mask);
	state->flags_known = (state->flags_known & ~mask) | (known & mask);
	state->lazy_mask = 0;
}

/* x86's condition code: 1, 0, or -1 if a flag it needs is unknown. Flags are settled. */
UOP_INLINE int uop_condition(const struct uop_state *state, wire_u32 code)
{
	wire_u32 needed[8] = { UOP_OF, UOP_CF, UOP_ZF, UOP_CF | UOP_ZF, UOP_SF, UOP_PF, 0, UOP_ZF };
	wire_u32 flags = state->flags, mask = needed[code >> 1 & 7];
	wire_u32 differ = !(flags & UOP_SF) != !(flags & UOP_OF);
	wire_u32 all = mask;
	int met = (flags & mask) != 0;

	if ((code >> 1 & 7) >= 6) {
		all |= UOP_SF | UOP_OF;
		met |= differ;
	}
	if (all & ~state->flags_known)
		return -1;
	return met ^ (int)(code & 1);
}

/* Says that all status flags change and that those in known are as given. */
UOP_INLINE void uop_set_flags(struct uop_eval *e, wire_u32 flags, wire_u32 known)
{
	e->flags = flags;
	e->known = known;
	e->written = UOP_STATUS;
}

UOP_INLINE void uop_shift(struct uop_eval *e, wire_u32 op, wire_u32 count)
{
	wire_u32 carry, overflow;
	wire_u64 extended = uop_extend(e->a, e->bits);

	if (op == UOP_OP_SHL) {
		e->result = (count < e->bits ? e->a << count : 0) & e->mask;
		carry = count <= e->bits ? e->a >> (e->bits - count) & 1 : 0;
		overflow = uop_top(e, e->result) ^ carry;
	} else if (op == UOP_OP_SHR) {
		e->result = e->a >> count;
		carry = e->a >> (count - 1) & 1;
		overflow = uop_top(e, e->a);
	} else {
		e->result = ((wire_s64)extended >> count) & e->mask;
		carry = (wire_s64)extended >> (count - 1) & 1;
		overflow = 0;
	}
	uop_set_flags(e,
		      uop_zsp(e->result, e->bits) | (carry ? UOP_CF : 0) | (overflow ? UOP_OF : 0),
		      UOP_ZF | UOP_SF | UOP_PF | (count == 1 ? UOP_OF : 0) |
			      (count < e->bits || op == UOP_OP_SAR ? UOP_CF : 0));
}

/* ROL by count; ROR is a ROL the other way round whose carry lies at the other end. */
UOP_INLINE void uop_rotate(struct uop_eval *e, wire_u32 op, wire_u32 count)
{
	wire_u32 by = count & (e->bits - 1), carry, overflow;

	if (op == UOP_OP_ROR)
		by = (e->bits - by) & (e->bits - 1);
	e->result = e->a;
	if (by)
		e->result = (e->a << by | e->a >> (e->bits - by)) & e->mask;
	carry = op == UOP_OP_ROL ? e->result & 1 : uop_top(e, e->result);
	overflow = op == UOP_OP_ROL ? uop_top(e, e->result) ^ carry
				    : carry ^ (e->result >> (e->bits - 2) & 1);
	e->flags = (carry ? UOP_CF : 0) | (overflow ? UOP_OF : 0);
	e->known = UOP_CF | (count == 1 ? UOP_OF : 0);
	e->written = UOP_CF | UOP_OF;
}

UOP_INLINE void uop_rotate_carry(const struct uop_state *state, struct uop_eval *e, wire_u32 op,
				 wire_u32 count)
{
	wire_u64 carry = state->flags & UOP_CF, overflow;
	wire_u32 by = e->bits < 32 ? count % (e->bits + 1) : count;

	e->unknown |= !(state->flags_known & UOP_CF);
	e->result = e->a;
	overflow = uop_top(e, e->a) ^ carry;
	if (by && op == UOP_OP_RCL) {
		e->result = by < 64 ? e->a << by : 0;
		e->result |= carry << (by - 1) | (by > 1 ? e->a >> (e->bits + 1 - by) : 0);
		carry = e->a >> (e->bits - by) & 1;
		overflow = uop_top(e, e->result) ^ carry;
	} else if (by) {
		e->result = e->a >> by | carry << (e->bits - by);
		e->result |= by > 1 ? e->a << (e->bits + 1 - by) : 0;
		carry = e->a >> (by - 1) & 1;
	}
	e->result &= e->mask;
	e->flags = (carry ? UOP_CF : 0) | (overflow ? UOP_OF : 0);
	e->known = UOP_CF | (count == 1 ? UOP_OF : 0);
	e->written = UOP_CF | UOP_OF;
}

UOP_INLINE void uop_shift_double(struct uop_eval *e, wire_u32 op, wire_u32 count)
{
	wire_u32 carry, overflow;

	if (count > e->bits) {
		e->unknown = 1;
		uop_set_flags(e, 0, 0);
		return;
	}
	if (op == UOP_OP_SHLD) {
		e->result = e->dst << count | e->a >> (e->bits - count);
		carry = e->dst >> (e->bits - count) & 1;
	} else {
		e->result = e->dst >> count | e->a << (e->bits - count);
		carry = e->dst >> (count - 1) & 1;
	}
	e->result &= e->mask;
	overflow = uop_top(e, e->result) ^ uop_top(e, e->dst);
	uop_set_flags(e,
		      uop_zsp(e->result, e->bits) | (carry ? UOP_CF : 0) | (overflow ? UOP_OF : 0),
		      UOP_ZF | UOP_SF | UOP_PF | UOP_CF | (count == 1 ? UOP_OF : 0));
}

/* All shifts and rotations: by 0 they leave the flags alone. */
UOP_INLINE void uop_shifts(const struct uop_state *state, struct uop_eval *e, wire_u32 op)
{
	wire_u32 count = e->b & (e->bits == 64 ? 63 : 31);
	wire_u32 doubled = op == UOP_OP_SHLD || op == UOP_OP_SHRD;

	if (e->unknown_b) {
		e->written = op >= UOP_OP_ROL && op <= UOP_OP_RCR ? UOP_CF | UOP_OF : UOP_STATUS;
		return;
	}
	if (!count) {
		e->result = doubled ? e->dst : e->a;
		return;
	}
	if (op <= UOP_OP_SAR)
		uop_shift(e, op, count);
	else if (op <= UOP_OP_ROR)
		uop_rotate(e, op, count);
	else if (op <= UOP_OP_RCR)
		uop_rotate_carry(state, e, op, count);
	else
		uop_shift_double(e, op, count);
}

UOP_INLINE void uop_multiply(struct uop_eval *e, wire_u32 op)
{
	wire_u64 low = e->a * e->b, high, sign;
	wire_u64 a = uop_extend(e->a, e->bits), b = uop_extend(e->b, e->bits);

	if (op == UOP_OP_MULHU) {
		high = e->bits == 64 ? uop_multiply_high(e->a, e->b) : low >> e->bits;
		sign = 0;
	} else {
		high = uop_multiply_high(a, b) - ((wire_s64)a < 0 ? b : 0) -
		       ((wire_s64)b < 0 ? a : 0);
		high = e->bits == 64 ? high : (a * b) >> e->bits;
		sign = uop_top(e, low & e->mask) ? ~0ull : 0;
	}
	e->result = (op == UOP_OP_MUL ? low : high) & e->mask;
	uop_set_flags(e, (high & e->mask) != (sign & e->mask) ? UOP_CF | UOP_OF : 0,
		      UOP_CF | UOP_OF);
}

/*
 * One digit of 32 bits of upper:digit / divisor, whose top bit is set (Knuth, The Art of Computer
 * Programming 2, 4.3.1, algorithm D): a guess from the divisor's upper half is too large by 2 at
 * most.
 */
UOP_INLINE wire_u64 uop_divide_digit(wire_u64 upper, wire_u64 digit, wire_u64 divisor)
{
	wire_u64 high = divisor >> 32, low = divisor & 0xffffffff;
	wire_u64 guess = upper / high, rest = upper % high;

	for (int i = 0; i < 2; i++) {
		if (rest >> 32 || (!(guess >> 32) && guess * low <= (rest << 32 | digit)))
			break;
		guess--;
		rest += high;
	}
	return guess;
}

/* high:low / divisor, high < divisor. Gives the remainder. */
UOP_INLINE wire_u64 uop_divide_long(wire_u64 high, wire_u64 low, wire_u64 divisor, wire_u64 *ret)
{
	wire_u32 shift = 64 - uop_width(divisor);
	wire_u64 first, second;

	if (!high) {
		*ret = low / divisor;
		return low % divisor;
	}
	divisor <<= shift;
	high = high << shift | (shift ? low >> (64 - shift) : 0);
	low <<= shift;
	first = uop_divide_digit(high, low >> 32, divisor);
	high = (high << 32 | low >> 32) - first * divisor;
	second = uop_divide_digit(high, low & 0xffffffff, divisor);
	*ret = first << 32 | second;
	return ((high << 32 | (low & 0xffffffff)) - second * divisor) >> shift;
}

/* dst is the low half of the dividend, a its high half, b the divisor. */
UOP_INLINE int uop_divide(struct uop_eval *e, wire_u32 op)
{
	wire_u32 is_signed = op == UOP_OP_DIVS || op == UOP_OP_REMS;
	wire_u32 negative = is_signed && uop_top(e, e->a), flip = is_signed && uop_top(e, e->b);
	wire_u64 high = e->a, low = e->dst, divisor = flip ? -e->b & e->mask : e->b;
	wire_u64 quotient, remainder, most = e->mask;

	uop_set_flags(e, 0, 0);
	if (e->unknown)
		return 0;
	if (negative) {
		low = -low & e->mask;
		high = (~high + !low) & e->mask;
	}
	if (high >= divisor)
		return UOP_END_DIVIDE;
	if (e->bits < 64) {
		low |= high << e->bits;
		high = 0;
	}
	remainder = uop_divide_long(high, low, divisor, &quotient);
	if (is_signed)
		most = (e->mask >> 1) + (negative != flip);
	if (quotient > most)
		return UOP_END_DIVIDE;
	if (op == UOP_OP_DIVU || op == UOP_OP_DIVS)
		e->result = negative != flip ? -quotient : quotient;
	else
		e->result = negative ? -remainder : remainder;
	return 0;
}

UOP_INLINE void uop_bit(struct uop_eval *e, wire_u32 op)
{
	wire_u64 bit = 1ull << (e->b & (e->bits - 1));

	if (op == UOP_OP_BTS)
		e->result = e->a | bit;
	else if (op == UOP_OP_BTR)
		e->result = e->a & ~bit;
	else
		e->result = e->a ^ bit;
	e->flags = e->a & bit ? UOP_CF : 0;
	e->known = UOP_CF;
	e->written = UOP_STATUS & ~UOP_ZF;
}

/*
 * Of no bits at all BSF and BSR leave dst alone; whether its upper half too in a scan of 32 bits
 * differs by maker.
 */
UOP_INLINE void uop_scan(const struct uop_state *state, struct uop_eval *e, const struct uop *uop)
{
	wire_u32 op = uop->op;
	wire_u64 upper = e->bits == 32 ? state->regs[uop->dst & (UOP_REGISTERS - 1)] >> 32 : 0;
	wire_u64 width = uop_width(e->a), lowest = uop_lowest(e->a);

	switch (op) {
	case UOP_OP_BSF:
	case UOP_OP_BSR:
		e->unknown = e->unknown_a || (!e->a && (e->unknown_dst || upper));
		e->result = !e->a ? e->dst : op == UOP_OP_BSF ? lowest : width - 1;
		uop_set_flags(e, e->a ? 0 : UOP_ZF, e->unknown_a ? 0 : UOP_ZF);
		break;
	case UOP_OP_POPCNT:
		e->result = uop_ones(e->a);
		uop_set_flags(e, e->a ? 0 : UOP_ZF, UOP_STATUS);
		break;
	default:
		e->result = op == UOP_OP_LZCNT ? e->bits - width : e->a ? lowest : e->bits;
		uop_set_flags(e, (e->a ? 0 : UOP_CF) | (e->result ? 0 : UOP_ZF), UOP_CF | UOP_ZF);
	}
}

/* Each bit is the parity of the bits from it down. */
UOP_INLINE wire_u64 uop_parities(wire_u64 x)
{
	x ^= x << 1;
	x ^= x << 2;
	x ^= x << 4;
	x ^= x << 8;
	x ^= x << 16;
	return x ^ x << 32;
}

/*
 * PEXT, and PDEP where deposits is set (Warren, Hacker's Delight, 7-4 and 7-5). The distance that a
 * bit moves is the number of zeros in the mask below it. Step i moves, by 2^i, the bits with bit i
 * in their distance: those in moves[i]. PDEP takes the steps back, from the last to the first.
 */
UOP_INLINE wire_u64 uop_gather(wire_u64 value, wire_u64 mask, wire_u32 deposits)
{
	wire_u64 moves[6], left = mask, zeros = ~mask << 1, moved;

	for (int i = 0; i < 6; i++) {
		wire_u64 odd = uop_parities(zeros);

		moves[i] = odd & left;
		left = (left ^ moves[i]) | moves[i] >> (1 << i);
		zeros &= ~odd;
	}
	if (deposits) {
		for (int i = 5; i >= 0; i--)
			value = (value & ~moves[i]) | (value << (1 << i) & moves[i]);
		return value & mask;
	}
	value &= mask;
	for (int i = 0; i < 6; i++) {
		moved = value & moves[i];
		value = (value ^ moved) | moved >> (1 << i);
	}
	return value;
}

/* bmi1 and bmi2, the shifts and multiplications aside. */
UOP_INLINE void uop_bmi(struct uop_eval *e, wire_u32 op)
{
	wire_u32 known = UOP_CF | UOP_OF | UOP_ZF | UOP_SF, carry = 0;
	wire_u32 first = e->b & 0xff, length = e->b >> 8 & 0xff;

	switch (op) {
	case UOP_OP_ANDN:
		e->result = ~e->a & e->b;
		break;
	case UOP_OP_BLSI:
		e->result = -e->a & e->a;
		carry = e->a != 0;
		break;
	case UOP_OP_BLSR:
		e->result = (e->a - 1) & e->a;
		carry = e->a == 0;
		break;
	case UOP_OP_BLSMSK:
		e->result = ((e->a - 1) ^ e->a) & e->mask;
		carry = e->a == 0;
		break;
	case UOP_OP_BEXTR:
		e->result = first < e->bits ? e->a >> first : 0;
		e->result &= length < 64 ? (1ull << length) - 1 : ~0ull;
		known &= ~UOP_SF;
		break;
	case UOP_OP_BZHI:
		e->result = first < e->bits ? e->a & ((1ull << first) - 1) : e->a;
		carry = first >= e->bits;
		break;
	default: /* PDEP, PEXT */
		e->result = uop_gather(e->a, e->b, op == UOP_OP_PDEP);
	}
	uop_set_flags(e, (carry ? UOP_CF : 0) | (uop_zsp(e->result, e->bits) & (UOP_ZF | UOP_SF)),
		      known);
}

/* Bit 0 of each lane of size bytes. */
UOP_INLINE wire_u64 uop_lane_ones(wire_u32 size)
{
	switch (size) {
	case 1:
		return 0x0101010101010101ull;
	case 2:
		return 0x0001000100010001ull;
	case 4:
		return 0x0000000100000001ull;
	}
	return 1;
}

/*
 * In lanes, by arithmetic on all of them at once: the top bits are kept out of it, so that nothing
 * is carried over.
 */
UOP_INLINE wire_u64 uop_lanes(wire_u64 a, wire_u64 b, wire_u32 op, wire_u32 size)
{
	wire_u32 width = size * 8 & 63, top = (size * 8 - 1) & 63;
	wire_u64 ones = uop_lane_ones(size), tops = ones << top,
		 all = width ? (1ull << width) - 1 : ~0ull;
	wire_u64 differ = a ^ b, chosen;

	if (op == UOP_OP_LANES_ADD)
		return ((a & ~tops) + (b & ~tops)) ^ (differ & tops);
	if (op == UOP_OP_LANES_SUB)
		return ((a | tops) - (b & ~tops)) ^ (~differ & tops);
	if (op == UOP_OP_LANES_EQ)
		return (~(((differ & ~tops) + ~tops) | differ) >> top & ones) * all;
	/* a < b without signs, where a - b borrows */
	chosen = ((a | tops) - (b & ~tops)) ^ (~differ & tops);
	chosen = ((~a & b) | ((~a | b) & chosen)) >> top & ones;
	chosen *= all;
	if (op == UOP_OP_LANES_LESS)
		return chosen;
	if (op == UOP_OP_LANES_MAX)
		chosen = ~chosen;
	return (a & chosen) | (b & ~chosen);
}

/* Spreads four bytes to the even ones of eight. */
UOP_INLINE wire_u64 uop_spread(wire_u64 x)
{
	x &= 0xffffffff;
	x = (x | x << 16) & 0x0000ffff0000ffffull;
	return (x | x << 8) & 0x00ff00ff00ff00ffull;
}

/* Lanes of a word. */
UOP_INLINE wire_u32 uop_word_lanes(wire_u32 size)
{
	return size == 8 ? 1 : size == 4 ? 2 : size == 2 ? 4 : 8;
}

UOP_INLINE wire_u64 uop_signs(wire_u64 x, wire_u32 size)
{
	if (size == 8)
		return x >> 63;
	if (size == 4)
		return (x >> 31 & 1) | (x >> 62 & 2);
	/* Word i has its bit moved to 48 + i. */
	if (size == 2)
		return (x >> 15 & 0x0001000100010001ull) * 0x0001000200040008ull >> 48 & 15;
	/* Byte i has its bit moved to 56 + i. */
	return (x >> 7 & 0x0101010101010101ull) * 0x0102040810204080ull >> 56;
}

/* The bits of the lanes whose bit in a mask is set. */
UOP_INLINE wire_u64 uop_lanes_masked(wire_u64 mask, wire_u32 size)
{
	switch (size) {
	case 1:
		/* Bits 0 and 7 together would carry in the product. */
		return ((((mask & 0x7f) * 0x0002040810204081ull) & 0x0101010101010101ull) |
			(mask & 0x80) << 49) *
		       0xff;
	case 2:
		return (((mask & 15) * 0x0000200040008001ull) & 0x0001000100010001ull) * 0xffff;
	case 4:
		return (((mask & 3) * 0x0000000080000001ull) & 0x0000000100000001ull) * 0xffffffff;
	}
	return -(mask & 1);
}

/* a where b's bits say so, otherwise 0: what is not kept need not be known. */
UOP_INLINE void uop_keep(struct uop_eval *e, wire_u64 imm)
{
	wire_u64 lanes = uop_lanes_masked(e->b >> (imm >> 8 & 63), imm & 15);

	lanes ^= -(imm >> 16 & 1);
	e->result = e->a & lanes;
	/* Of a lane all bytes are kept, or none. */
	e->unknown = e->unknown_b ? UOP_UNKNOWN : e->unknown_a & (wire_u32)uop_signs(lanes, 1);
}

/* Any function of three bits: bit 4 dst + 2 a + b of imm is the result. */
UOP_INLINE wire_u64 uop_ternary(const struct uop_eval *e, wire_u64 imm)
{
	wire_u64 result = 0;

	for (int i = 0; i < 8; i++)
		result |= (i & 4 ? e->dst : ~e->dst) & (i & 2 ? e->a : ~e->a) &
			  (i & 1 ? e->b : ~e->b) & -(imm >> i & 1);
	return result;
}

UOP_INLINE wire_u64 uop_pick_word(const struct uop_eval *e, wire_u64 which)
{
	return (which & 4 ? e->b : e->a) >> ((which & 3) * 16) & 0xffff;
}

/*
 * Comparison of floating-point numbers. A denormal one counts as 0 if the program wants it so: that
 * is not known.
 */
UOP_INLINE void uop_compare_floats(struct uop_eval *e)
{
	wire_u64 limit = e->bits == 64 ? 0x7ffull << 52 : 0xffull << 23;
	wire_u64 least = e->bits == 64 ? 1ull << 52 : 1ull << 23;
	wire_u64 a = e->a & e->mask >> 1, b = e->b & e->mask >> 1;
	wire_s64 first = uop_top(e, e->a) ? -(wire_s64)a : (wire_s64)a;
	wire_s64 second = uop_top(e, e->b) ? -(wire_s64)b : (wire_s64)b;
	wire_u32 flags = (first < second ? UOP_CF : 0) | (first == second ? UOP_ZF : 0);

	if (a > limit || b > limit)
		flags = UOP_ZF | UOP_PF | UOP_CF;
	e->unknown |= (a && a < least) || (b && b < least);
	uop_set_flags(e, flags, UOP_STATUS);
}

UOP_INLINE void uop_vector(struct uop_eval *e, const struct uop *uop)
{
	wire_u32 size = uop->imm & 15, high = uop->imm & 1 ? 32 : 0;
	wire_u64 imm = uop->imm;
	wire_u32 lanes;

	switch (uop->op) {
	case UOP_OP_PICK:
		e->result = uop_pick_word(e, imm) | uop_pick_word(e, imm >> 3) << 16 |
			    uop_pick_word(e, imm >> 6) << 32 | uop_pick_word(e, imm >> 9) << 48;
		break;
	case UOP_OP_ZIP:
		e->result = uop_spread(e->a >> high) | uop_spread(e->b >> high) << 8;
		break;
	case UOP_OP_SIGNS:
	case UOP_OP_SIGNS_JOIN: /* dst is 0 for the former */
		lanes = uop_word_lanes(size);
		e->result = uop_signs(e->a, size) | uop_signs(e->b, size) << lanes |
			    e->dst << 2 * lanes;
		break;
	case UOP_OP_KEEP:
		uop_keep(e, imm);
		break;
	case UOP_OP_TERNARY:
		e->result = uop_ternary(e, imm);
		break;
	case UOP_OP_FCMP:
		uop_compare_floats(e);
		break;
	default:
		e->result = uop_lanes(e->a, e->b, uop->op, size);
	}
}

UOP_INLINE wire_u64 uop_swap(wire_u64 value, wire_u32 bits)
{
	return __builtin_bswap64(value) >> (64 - bits);
}

/*
 * Additions and subtractions that take CF in. ADCX and ADOX write one flag only, and ADOX reads OF
 * for CF.
 */
UOP_INLINE void uop_carry(const struct uop_state *state, struct uop_eval *e, wire_u32 op)
{
	wire_u32 flag = op == UOP_OP_ADOX ? UOP_OF : UOP_CF;
	wire_u64 in = state->flags & flag ? 1 : 0, out;

	e->unknown |= !(state->flags_known & flag);
	if (op == UOP_OP_SBB) {
		e->result = (e->a - e->b - in) & e->mask;
		e->lazy = UOP_LAZY_SUB;
		return;
	}
	e->result = (e->a + e->b + in) & e->mask;
	e->lazy = UOP_LAZY_ADD;
	if (op == UOP_OP_ADC)
		return;
	out = (e->a & e->b) | ((e->a | e->b) & ~e->result);
	e->lazy = UOP_LAZY_NONE;
	e->flags = uop_top(e, out) ? flag : 0;
	e->known = e->written = flag;
}

UOP_INLINE void uop_chosen(const struct uop_state *state, struct uop_eval *e, const struct uop *uop)
{
	int met = uop_condition(state, uop->a);

	if (uop->op == UOP_OP_SETCC) {
		e->unknown = met < 0;
		e->result = met > 0;
		return;
	}
	e->unknown = met < 0 || (met ? e->unknown_b : e->unknown_dst);
	e->result = met ? e->b : e->dst;
}

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
 * lanes were chosen by a mask may be known in these lanes, and that is all that is asked of it.
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
