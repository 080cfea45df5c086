/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations on general registers that are more than one operator of C: shifts and rotations,
 * multiplication and division, bit tests and scans, BMI, carries and conditional moves. Executors
 * include uop_exec.h; its invariants hold here.
 */
#pragma once

#include "isa/uop_eval.h"

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
 * If the source is 0, BSF and BSR do not change dst; for 32 bits, makers differ in whether its
 * upper half is cleared.
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
