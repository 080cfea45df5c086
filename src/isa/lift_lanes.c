// SPDX-License-Identifier: BSD-2-Clause
/*
 * Lifting of shuffles of vectors of 128 bits, and of what brings lanes in and out.
 */
#include "isa/lift_vector.h"

/* dst = a op b, with an imm that is no operand. */
static void lane_op(struct lifter *l, unsigned op, uint8_t dst, uint8_t a, uint8_t b, unsigned imm)
{
	lift_emit(l, (struct uop){ .op = op, .size = 8, .dst = dst, .a = a, .b = b, .imm = imm });
}

/* Each half from two registers, both of which may be halves of the destination. */
static void lanes_put(struct lifter *l, const ZydisDecodedOperand *dst, unsigned op,
		      const uint8_t low[2], unsigned low_imm, const uint8_t high[2],
		      unsigned high_imm)
{
	uint8_t to_low = vector_low(dst);
	bool is_read = high[0] == to_low || high[1] == to_low;
	uint8_t result = is_read ? lift_temp(l) : to_low;

	lane_op(l, op, result, low[0], low[1], low_imm);
	lane_op(l, op, vector_high(dst), high[0], high[1], high_imm);
	if (is_read)
		lift_mov(l, 8, to_low, lift_reg(result), 0);
}

static unsigned pick_pair(unsigned first, unsigned second)
{
	return UOP_PICK_IMM(first * 2, first * 2 + 1, second * 2, second * 2 + 1);
}

/* pshufd; with arg 1 shufps, whose low half is of the first source. */
void lift_shuffle(struct lifter *l, unsigned is_double)
{
	struct vector_insn insn;
	uint8_t first[2], second[2];

	if (!vector_insn_get(l, &insn))
		return;
	vector_registers(l, insn.second, second);
	if (is_double)
		vector_registers(l, insn.first, first);
	lanes_put(l, insn.dst, UOP_OP_PICK, is_double ? first : second,
		  pick_pair(insn.imm & 3, insn.imm >> 2 & 3), second,
		  pick_pair(insn.imm >> 4 & 3, insn.imm >> 6 & 3));
}

/* shufpd */
void lift_shuffle_halves(struct lifter *l, unsigned arg)
{
	struct vector_insn insn;
	uint8_t first[2], second[2];

	if (!vector_insn_get(l, &insn))
		return;
	vector_registers(l, insn.first, first);
	vector_registers(l, insn.second, second);
	vector_put(l, insn.dst, half_reg(first[insn.imm & 1]), half_reg(second[insn.imm >> 1 & 1]));
}

/* pshuflw, and pshufhw with arg 1: words of that half. */
void lift_shuffle_words(struct lifter *l, unsigned high)
{
	struct vector_insn insn;
	uint8_t source[2], picked;

	if (!vector_insn_get(l, &insn))
		return;
	vector_registers(l, insn.second, source);
	picked = lift_temp(l);
	lane_op(l, UOP_OP_PICK, picked, source[high], source[high],
		UOP_PICK_IMM(insn.imm & 3, insn.imm >> 2 & 3, insn.imm >> 4 & 3,
			     insn.imm >> 6 & 3));
	vector_put(l, insn.dst, half_reg(high ? source[0] : picked),
		   half_reg(high ? picked : source[1]));
}

/* movsldup, movshdup: arg is which of two. */
void lift_duplicate(struct lifter *l, unsigned which)
{
	struct vector_insn insn;
	uint8_t source[2];

	if (!vector_insn_get(l, &insn))
		return;
	vector_registers(l, insn.second, source);
	for (int i = 0; i < 2; i++)
		lane_op(l, UOP_OP_PICK, vector_low(insn.dst) + i * HALF_TO_HIGH, source[i],
			source[i], pick_pair(which, which));
}

/*
 * punpckl and the like: arg is the size of a lane, with LIFT_HIGH_LANES for those of the high
 * halves.
 */
void lift_interleave(struct lifter *l, unsigned arg)
{
	struct vector_insn insn;
	uint8_t first[2], second[2], pair[2];
	unsigned size = arg & 15, op = size == 1 ? UOP_OP_ZIP : UOP_OP_PICK;
	unsigned high = (arg & LIFT_HIGH_LANES) != 0;
	unsigned imms[3][2] = { { 0, 1 },
				{ UOP_PICK_IMM(0, 4, 1, 5), UOP_PICK_IMM(2, 6, 3, 7) },
				{ pick_pair(0, 2), pick_pair(1, 3) } };

	if (!vector_insn_get(l, &insn))
		return;
	vector_registers(l, insn.first, first);
	vector_registers(l, insn.second, second);
	pair[0] = first[high];
	pair[1] = second[high];
	lanes_put(l, insn.dst, op, pair, imms[size >> 1][0], pair, imms[size >> 1][1]);
}

/* pextr: arg is the size of the lane. */
void lift_extract(struct lifter *l, unsigned size)
{
	struct vector_insn insn;
	struct lift_place place;
	unsigned at;
	uint8_t value;

	if (!vector_insn_get(l, &insn))
		return;
	at = insn.imm & (16 / size - 1);
	place = lift_place(l, 0);
	value = lift_temp(l);
	lift_op(l, UOP_OP_SHR, 8, value,
		vector_low(insn.second) + (at * size / 8 ? HALF_TO_HIGH : 0),
		lift_imm(at * size * 8 & 63), 0);
	/* A general register is cleared above the lane. */
	if (place.kind == LIFT_MEMORY)
		place.size = size;
	else if (size < 4)
		lift_op(l, UOP_OP_AND, 8, value, value, lift_imm((1 << size * 8) - 1), 0);
	else
		place.size = size;
	lift_put(l, &place, value);
}

/* pinsr: arg is the size of the lane, 2 to 8. */
void lift_insert(struct lifter *l, unsigned size)
{
	struct vector_insn insn;
	struct lift_place place;
	unsigned at, high, words[4];
	uint8_t halves[2], value, picked;

	if (!vector_insn_get(l, &insn))
		return;
	place = (struct lift_place){ .kind = LIFT_REG, .size = size };
	if (insn.second->type == ZYDIS_OPERAND_TYPE_MEMORY) {
		place.kind = LIFT_MEMORY;
		lift_address(l, insn.second, true, &place.address);
	} else {
		place.reg = lift_gpr(insn.second->reg.value);
	}
	value = lift_get(l, &place);
	vector_registers(l, insn.first, halves);
	at = insn.imm & (16 / size - 1);
	high = at * size / 8;
	picked = lift_temp(l);
	for (unsigned i = 0, word = at * size % 8 / 2; i < 4; i++)
		words[i] = i - word < size / 2 ? 4 + i - word : i;
	lane_op(l, UOP_OP_PICK, picked, halves[high], value,
		UOP_PICK_IMM(words[0], words[1], words[2], words[3]));
	vector_put(l, insn.dst, half_reg(high ? halves[0] : picked),
		   half_reg(high ? picked : halves[1]));
}

/* psrlq, psllq by a constant: arg is the operation. */
void lift_shift_lanes(struct lifter *l, unsigned op)
{
	struct vector_insn insn;

	if (l->operands[l->insn->operand_count_visible - 1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE) {
		lift_opaque(l, 0);
		return;
	}
	if (!vector_insn_get(l, &insn))
		return;
	if (insn.imm > 63) {
		vector_put(l, insn.dst, half_imm(0), half_imm(0));
		return;
	}
	for (int i = 0; i < 2; i++) {
		struct vector_source source = vector_source(l, insn.second);
		struct half half = half_of(&source, i, HALF_BYTES);
		uint8_t dst = vector_low(insn.dst) + i * HALF_TO_HIGH;

		if (source.is_memory) {
			half_put(l, dst, &half);
			half.reg = dst;
		}
		lift_op(l, op, 8, dst, half.reg, lift_imm(insn.imm), 0);
	}
}

/* Eight bytes of a row of registers (UOP_NONE: zeros), from byte at on. */
static struct half bytes_of(struct lifter *l, const uint8_t *row, unsigned count, unsigned at)
{
	uint8_t low = at / 8 < count ? row[at / 8] : UOP_NONE;
	uint8_t high = at / 8 + 1 < count ? row[at / 8 + 1] : UOP_NONE;
	uint8_t result;

	if (at % 8 == 0 || (low == UOP_NONE && high == UOP_NONE))
		return low == UOP_NONE ? half_imm(0) : half_reg(low);
	result = lift_temp(l);
	lift_mov(l, 8, result, lift_reg(low), 0);
	lift_op(l, UOP_OP_SHRD, 8, result, high, lift_imm(at % 8 * 8), 0);
	return half_reg(result);
}

/*
 * pslldq, psrldq, palignr: 16 bytes out of a row of three vectors, of which one or two are zeros.
 */
void lift_shift_bytes(struct lifter *l, unsigned how)
{
	struct vector_insn insn;
	uint8_t row[4] = { UOP_NONE, UOP_NONE, UOP_NONE, UOP_NONE };
	struct half low, high;
	unsigned at;

	if (!vector_insn_get(l, &insn))
		return;
	at = insn.imm > 32 ? 32 : insn.imm;
	if (how == LIFT_BYTES_LEFT)
		at = 16 - (at > 16 ? 16 : at);
	else if (how == LIFT_BYTES_RIGHT && at > 16)
		at = 16;
	vector_registers(l, insn.second, row + (how == LIFT_BYTES_LEFT ? 2 : 0));
	if (how == LIFT_BYTES_ALIGN)
		vector_registers(l, insn.first, row + 2);
	low = bytes_of(l, row, 4, at);
	high = bytes_of(l, row, 4, at + 8);
	vector_put(l, insn.dst, low, high);
}

/* comisd and the like: arg is the size. */
void lift_compare_floats(struct lifter *l, unsigned size)
{
	struct vector_insn insn;
	struct vector_source source;
	struct half half;

	if (!vector_insn_get(l, &insn))
		return;
	source = vector_source(l, insn.second);
	half = half_of(&source, 0, size);
	if (source.is_memory) {
		half.reg = lift_temp(l);
		half_put(l, half.reg, &half);
	}
	lift_op(l, UOP_OP_FCMP, size, UOP_NONE, vector_low(insn.dst), lift_reg(half.reg),
		UOP_FLAGS);
}
