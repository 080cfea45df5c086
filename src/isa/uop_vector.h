/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations on vector registers, a word of eight bytes at a time. The lanes of a word are computed
 * together, without branches (SIMD within a register). Executors include uop_exec.h; its invariants
 * hold here.
 */
#pragma once

#include "isa/uop_eval.h"

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
