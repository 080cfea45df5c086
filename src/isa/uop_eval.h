/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the operations in uop_scalar.h and uop_vector.h have in common: one step under way, and the
 * arithmetic flags. Flags of additions, subtractions and logic are settled only when something
 * reads them (uop_flags_settle); theory and invariants are at the head of uop_exec.h.
 */
#pragma once

#include "wire/uop.h"

#define UOP_INLINE static inline __attribute__((always_inline))

enum {
	UOP_LOAD_UNKNOWN = 1,
	UOP_LOAD_MISSING = 2,
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
