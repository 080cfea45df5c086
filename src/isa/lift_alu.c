// SPDX-License-Identifier: BSD-2-Clause
/* Lifting of moves, arithmetic, logic and exchanges. */
#include "isa/lift_private.h"

void lift_nop(struct lifter *l, unsigned arg)
{
	lift_emit(l, (struct uop){ .op = UOP_OP_NOP });
}

/* With REX.B the bytes of pause are those of xchg r8, rax. */
void lift_pause(struct lifter *l, unsigned arg)
{
	if (l->insn->raw.rex.B)
		lift_give_up(l, UOP_END_UNSUPPORTED);
	else
		lift_nop(l, 0);
}

void lift_move(struct lifter *l, unsigned arg)
{
	struct lift_place place;

	if (!lift_plain(l)) {
		lift_opaque(l, 0);
		return;
	}
	place = lift_place(l, 0);
	if (place.kind == LIFT_MEMORY) {
		lift_put(l, &place, lift_source_reg(l, 1));
		return;
	}
	if (place.kind == LIFT_REG && l->operands[1].type == ZYDIS_OPERAND_TYPE_MEMORY) {
		struct uop load;

		lift_address(l, &l->operands[1], true, &load);
		load.op = UOP_OP_LOAD;
		load.size = place.size;
		load.dst = place.reg;
		load.flags |= lift_merge(place.size);
		lift_emit(l, load);
		return;
	}
	lift_into(l, &place, UOP_OP_MOV, UOP_NONE, lift_source(l, 1), 0);
}

/* movzx; movsx and movsxd with arg 1. */
void lift_move_extend(struct lifter *l, unsigned is_signed)
{
	unsigned size = lift_size(l, 0), from = lift_size(l, 1);
	uint8_t dst = lift_gpr(l->operands[0].reg.value), source = lift_source_reg(l, 1);

	if (from == size)
		lift_mov(l, size, dst, lift_reg(source), lift_merge(size));
	else if (is_signed)
		lift_emit(l, (struct uop){ .op = UOP_OP_SEXT,
					   .size = size,
					   .dst = dst,
					   .a = source,
					   .flags = lift_merge(size),
					   .imm = from });
	else if (size == 2) {
		uint8_t temp = lift_temp(l);

		lift_mov(l, from, temp, lift_reg(source), 0);
		lift_mov(l, size, dst, lift_reg(temp), UOP_MERGE);
	} else {
		lift_mov(l, from, dst, lift_reg(source), 0);
	}
}

void lift_lea(struct lifter *l, unsigned arg)
{
	struct uop lea;

	lift_address(l, &l->operands[1], false, &lea);
	lea.op = UOP_OP_LEA;
	lea.size = lift_size(l, 0);
	lea.dst = lift_gpr(l->operands[0].reg.value);
	lea.flags |= lift_merge(lea.size);
	lift_emit(l, lea);
}

/* xor or sub of a register with itself is a constant, even where the register is unknown. */
static bool clears(const struct lifter *l, unsigned op)
{
	return (op == UOP_OP_XOR || op == UOP_OP_SUB || op == UOP_OP_SBB) &&
	       l->operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       l->operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       l->operands[0].reg.value == l->operands[1].reg.value;
}

void lift_binary(struct lifter *l, unsigned op)
{
	struct lift_place place = lift_place(l, 0);
	uint8_t a;

	if (clears(l, op)) {
		a = lift_temp(l);
		lift_mov(l, 8, a, lift_imm(0), 0);
		lift_into(l, &place, op, a, lift_reg(a), UOP_FLAGS);
		return;
	}
	a = lift_get(l, &place);
	lift_into(l, &place, op, a, lift_source(l, 1), UOP_FLAGS);
}

/* cmp, test: only the flags. */
void lift_compare(struct lifter *l, unsigned op)
{
	struct lift_place place = lift_place(l, 0);
	uint8_t a = lift_get(l, &place);

	lift_op(l, op, place.size, UOP_NONE, a, lift_source(l, 1), UOP_FLAGS);
}

void lift_unary(struct lifter *l, unsigned op)
{
	struct lift_place place = lift_place(l, 0);

	lift_into(l, &place, op, lift_get(l, &place), lift_reg(UOP_NONE), UOP_FLAGS);
}

void lift_not(struct lifter *l, unsigned arg)
{
	struct lift_place place = lift_place(l, 0);

	lift_into(l, &place, UOP_OP_XOR, lift_get(l, &place), lift_imm(-1), 0);
}

/* inc, dec */
void lift_step(struct lifter *l, unsigned op)
{
	struct lift_place place = lift_place(l, 0);

	lift_into(l, &place, op, lift_get(l, &place), lift_imm(1), UOP_FLAGS | UOP_KEEP_CF);
}

/* adcx, adox */
void lift_add_carry(struct lifter *l, unsigned op)
{
	struct lift_place place = lift_place(l, 0);

	lift_into(l, &place, op, place.reg, lift_source(l, 1), UOP_FLAGS);
}

/* cbw, cwde, cdqe: from arg bytes of rax to twice as many. */
void lift_widen(struct lifter *l, unsigned from)
{
	lift_emit(l, (struct uop){ .op = UOP_OP_SEXT,
				   .size = from * 2,
				   .dst = UOP_RAX,
				   .a = UOP_RAX,
				   .flags = lift_merge(from * 2),
				   .imm = from });
}

/* cwd, cdq, cqo: rdx = the sign of arg bytes of rax. */
void lift_widen_double(struct lifter *l, unsigned size)
{
	lift_op(l, UOP_OP_SAR, size, UOP_RDX, UOP_RAX, lift_imm(size * 8 - 1), lift_merge(size));
}

static uint8_t copy(struct lifter *l, uint8_t reg)
{
	uint8_t temp = lift_temp(l);

	lift_mov(l, 8, temp, lift_reg(reg), 0);
	return temp;
}

void lift_exchange(struct lifter *l, unsigned arg)
{
	struct lift_place first = lift_place(l, 0), second = lift_place(l, 1);
	uint8_t a = copy(l, lift_get(l, &first)), b = copy(l, lift_get(l, &second));

	/* A memory operand is written before the register that its address may use. */
	if (second.kind == LIFT_MEMORY) {
		lift_put(l, &second, a);
		lift_put(l, &first, b);
	} else {
		lift_put(l, &first, b);
		lift_put(l, &second, a);
	}
}

void lift_exchange_add(struct lifter *l, unsigned arg)
{
	struct lift_place place = lift_place(l, 0), source = lift_place(l, 1);
	uint8_t old = copy(l, lift_get(l, &place)), sum = lift_temp(l);

	lift_op(l, UOP_OP_ADD, place.size, sum, old, lift_reg(lift_get(l, &source)), UOP_FLAGS);
	if (place.kind == LIFT_MEMORY) {
		lift_put(l, &place, sum);
		lift_put(l, &source, old);
	} else {
		lift_put(l, &source, old);
		lift_put(l, &place, sum);
	}
}

enum {
	IF_EQUAL = 4,
	IF_DIFFERENT = 5,
};

static void select_if(struct lifter *l, unsigned condition, unsigned size, uint8_t dst,
		      uint8_t other)
{
	lift_op(l, UOP_OP_SELECT, size, dst, condition, lift_reg(other), 0);
}

void lift_compare_exchange(struct lifter *l, unsigned arg)
{
	struct lift_place place = lift_place(l, 0), source = lift_place(l, 1);
	uint8_t old = copy(l, lift_get(l, &place)), accumulator = copy(l, UOP_RAX);
	uint8_t fresh = copy(l, old), given = copy(l, lift_get(l, &source));

	/* Whether a difference clears the upper half of the register differs by maker. */
	if (place.kind == LIFT_REG && place.size == 4) {
		lift_give_up(l, UOP_END_UNSUPPORTED);
		return;
	}
	lift_op(l, UOP_OP_SUB, place.size, UOP_NONE, UOP_RAX, lift_reg(old), UOP_FLAGS);
	/*
	 * Whole registers are selected: of the two, only the one that is written has its upper half
	 * cleared.
	 */
	if (place.size == 4) {
		lift_mov(l, 4, old, lift_reg(old), 0);
		lift_mov(l, 4, given, lift_reg(given), 0);
	}
	select_if(l, IF_EQUAL, 8, fresh, given);
	select_if(l, IF_DIFFERENT, 8, accumulator, old);
	/* An address may use rax; a register may be rax. */
	if (place.kind == LIFT_MEMORY)
		lift_put(l, &place, fresh);
	lift_mov(l, place.size < 4 ? place.size : 8, UOP_RAX, lift_reg(accumulator),
		 lift_merge(place.size));
	if (place.kind != LIFT_MEMORY)
		lift_put(l, &place, fresh);
}

/* cmpxchg8b and cmpxchg16b; arg is the size of a half. */
void lift_compare_exchange_pair(struct lifter *l, unsigned size)
{
	struct lift_place low = lift_place(l, 0), high;
	uint8_t old_low, old_high, new_low, new_high, differ, other;

	low.size = size;
	high = low;
	high.address.imm += size;
	old_low = lift_get(l, &low);
	old_high = lift_get(l, &high);
	differ = lift_temp(l);
	other = lift_temp(l);
	lift_op(l, UOP_OP_XOR, size, differ, old_low, lift_reg(UOP_RAX), 0);
	lift_op(l, UOP_OP_XOR, size, other, old_high, lift_reg(UOP_RDX), 0);
	lift_op(l, UOP_OP_OR, size, differ, differ, lift_reg(other), 0);
	lift_op(l, UOP_OP_ISZERO, size, differ, differ, lift_reg(UOP_NONE), 0);
	lift_op(l, UOP_OP_SHL, 8, differ, differ, lift_imm(6), 0);
	lift_op(l, UOP_OP_FLAGS_SET, 8, UOP_NONE, differ, lift_imm(UOP_ZF), 0);
	new_low = copy(l, old_low);
	new_high = copy(l, old_high);
	select_if(l, IF_EQUAL, size, new_low, UOP_RBX);
	select_if(l, IF_EQUAL, size, new_high, UOP_RCX);
	lift_put(l, &low, new_low);
	lift_put(l, &high, new_high);
	select_if(l, IF_DIFFERENT, 8, UOP_RAX, old_low);
	select_if(l, IF_DIFFERENT, 8, UOP_RDX, old_high);
}

void lift_move_swapped(struct lifter *l, unsigned arg)
{
	struct lift_place place = lift_place(l, 0);

	lift_into(l, &place, UOP_OP_BSWAP, lift_source_reg(l, 1), lift_reg(UOP_NONE), 0);
}

void lift_swap(struct lifter *l, unsigned arg)
{
	struct lift_place place = lift_place(l, 0);

	/* Undefined for 16 bits. */
	if (place.size == 2)
		lift_emit(l, (struct uop){ .op = UOP_OP_FORGET, .size = 8, .dst = place.reg });
	else
		lift_into(l, &place, UOP_OP_BSWAP, place.reg, lift_reg(UOP_NONE), 0);
}

/* xlatb */
void lift_table(struct lifter *l, unsigned arg)
{
	struct uop load = { .op = UOP_OP_LOAD, .size = 1, .dst = UOP_RAX, .flags = UOP_MERGE };
	uint8_t index = lift_temp(l);

	if (l->insn->address_width != 64 || l->insn->attributes & ZYDIS_ATTRIB_HAS_SEGMENT) {
		lift_give_up(l, UOP_END_UNSUPPORTED);
		return;
	}
	lift_mov(l, 1, index, lift_reg(UOP_RAX), 0);
	load.a = UOP_RBX;
	load.b = index;
	lift_emit(l, load);
}
