// SPDX-License-Identifier: BSD-2-Clause
/* Lifting of shifts, multiplications, divisions, bit tests, bit counts and bmi. */
#include "isa/lift_private.h"

void lift_shift(struct lifter *l, unsigned op)
{
	struct lift_place place = lift_place(l, 0);
	uint8_t a = lift_get(l, &place);

	lift_into(l, &place, op, a, lift_source(l, 1), UOP_FLAGS);
}

/* shld, shrd: the operation reads its destination. */
void lift_shift_double(struct lifter *l, unsigned op)
{
	struct lift_place place = lift_place(l, 0);
	uint8_t old = lift_get(l, &place), source = lift_source_reg(l, 1);

	lift_op(l, op, place.size, old, source, lift_source(l, 2),
		UOP_FLAGS | lift_merge(place.size));
	if (place.kind == LIFT_MEMORY)
		lift_put(l, &place, old);
}

/* rorx, sarx, shlx, shrx */
void lift_shift_quiet(struct lifter *l, unsigned op)
{
	struct lift_place place = lift_place(l, 0);
	uint8_t a = lift_source_reg(l, 1);

	lift_into(l, &place, op, a, lift_source(l, 2), 0);
}

/* low and high half into rax and rdx, or into al and ah. */
static void put_pair(struct lifter *l, unsigned size, uint8_t low, uint8_t high)
{
	struct lift_place to_low = { .kind = LIFT_REG, .size = size, .reg = UOP_RAX };
	struct lift_place to_high = { .kind = LIFT_REG, .size = size, .reg = UOP_RDX };

	if (size == 1) {
		to_high.kind = LIFT_REG_HIGH;
		to_high.reg = UOP_RAX;
	}
	lift_put(l, &to_low, low);
	lift_put(l, &to_high, high);
}

/* rdx:rax = rax * operand; arg is the operation for the high half. */
static void multiply_wide(struct lifter *l, unsigned op)
{
	unsigned size = lift_size(l, 0);
	struct lift_value b = lift_reg(lift_source_reg(l, 0));
	uint8_t low = lift_temp(l), high = lift_temp(l);

	lift_op(l, UOP_OP_MUL, size, low, UOP_RAX, b, 0);
	lift_op(l, op, size, high, UOP_RAX, b, UOP_FLAGS);
	put_pair(l, size, low, high);
}

void lift_multiply(struct lifter *l, unsigned arg)
{
	multiply_wide(l, UOP_OP_MULHU);
}

void lift_multiply_signed(struct lifter *l, unsigned arg)
{
	unsigned visible = l->insn->operand_count_visible;
	struct lift_place place;
	uint8_t a;

	if (visible == 1) {
		multiply_wide(l, UOP_OP_MULHS);
		return;
	}
	place = lift_place(l, 0);
	a = visible == 2 ? place.reg : lift_source_reg(l, 1);
	lift_into(l, &place, UOP_OP_MUL, a, lift_source(l, visible - 1), UOP_FLAGS);
}

/* mulx high, low, source */
void lift_multiply_quiet(struct lifter *l, unsigned arg)
{
	struct lift_place to_high = lift_place(l, 0), to_low = lift_place(l, 1);
	struct lift_value b = lift_reg(lift_source_reg(l, 2));
	uint8_t low = lift_temp(l), high = lift_temp(l);

	lift_op(l, UOP_OP_MUL, to_low.size, low, UOP_RDX, b, 0);
	lift_op(l, UOP_OP_MULHU, to_low.size, high, UOP_RDX, b, 0);
	lift_put(l, &to_low, low);
	lift_put(l, &to_high, high);
}

/* div, and idiv with arg 1. */
void lift_divide(struct lifter *l, unsigned is_signed)
{
	unsigned size = lift_size(l, 0);
	struct lift_value divisor = lift_reg(lift_source_reg(l, 0));
	uint8_t quotient = lift_temp(l), remainder = lift_temp(l), high = UOP_RDX;

	if (size == 1) {
		high = lift_temp(l);
		lift_op(l, UOP_OP_SHR, 8, high, UOP_RAX, lift_imm(8), 0);
	}
	lift_mov(l, 8, quotient, lift_reg(UOP_RAX), 0);
	lift_mov(l, 8, remainder, lift_reg(UOP_RAX), 0);
	lift_op(l, is_signed ? UOP_OP_DIVS : UOP_OP_DIVU, size, quotient, high, divisor, UOP_FLAGS);
	lift_op(l, is_signed ? UOP_OP_REMS : UOP_OP_REMU, size, remainder, high, divisor, 0);
	put_pair(l, size, quotient, remainder);
}

/* A bit number in a register reaches beyond the memory operand, in both directions. */
static void bit_address(struct lifter *l, struct lift_place *place, uint8_t number)
{
	uint8_t extended = lift_temp(l), base = lift_temp(l);
	unsigned size = place->size, log2 = __builtin_ctz(size);
	struct uop lea = place->address;

	if (size < 8)
		lift_emit(l, (struct uop){ .op = UOP_OP_SEXT,
					   .size = 8,
					   .dst = extended,
					   .a = number,
					   .imm = size });
	lift_op(l, UOP_OP_SAR, 8, extended, size < 8 ? extended : number, lift_imm(log2 + 3), 0);
	lea.op = UOP_OP_LEA;
	lea.size = 8;
	lea.dst = base;
	lift_emit(l, lea);
	place->address = (struct uop){ .a = base, .b = extended, .flags = log2 << UOP_SCALE_SHIFT };
}

void lift_bit(struct lifter *l, unsigned op)
{
	struct lift_place place = lift_place(l, 0);
	struct lift_value number = lift_source(l, 1);
	uint8_t a;

	if (place.kind == LIFT_MEMORY && !number.is_imm)
		bit_address(l, &place, number.reg);
	a = lift_get(l, &place);
	if (op == UOP_OP_BT)
		lift_op(l, op, place.size, UOP_NONE, a, number, UOP_FLAGS);
	else
		lift_into(l, &place, op, a, number, UOP_FLAGS);
}

void lift_scan(struct lifter *l, unsigned op)
{
	struct lift_place place = lift_place(l, 0);

	lift_into(l, &place, op, lift_source_reg(l, 1), lift_reg(UOP_NONE), UOP_FLAGS);
}

/* arg is the operation; pdep and pext leave the flags alone. */
void lift_bmi_binary(struct lifter *l, unsigned op)
{
	struct lift_place place = lift_place(l, 0);
	uint8_t a = lift_source_reg(l, 1);

	lift_into(l, &place, op, a, lift_source(l, 2),
		  op == UOP_OP_PDEP || op == UOP_OP_PEXT ? 0 : UOP_FLAGS);
}
