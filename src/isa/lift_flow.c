// SPDX-License-Identifier: BSD-2-Clause
/* Lifting of branches, calls, the stack and the flags as data. */
#include "isa/lift_private.h"

static uint64_t branch_target(const struct lifter *l)
{
	return l->next + l->operands[0].imm.value.s;
}

/*
 * With an operand-size prefix Intel's processors branch as without it, AMD's to a 16-bit address.
 * No compiler uses that form; together with REX.W, which overrides it, the prefix pads calls to
 * __tls_get_addr. Far branches are not used any more.
 */
static bool gives_up_branch(struct lifter *l)
{
	bool narrow = l->insn->attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE && !l->insn->raw.rex.W;

	if (l->insn->meta.branch_type != ZYDIS_BRANCH_TYPE_FAR && !narrow)
		return false;
	lift_give_up(l, UOP_END_UNSUPPORTED);
	return true;
}

static void branch_if(struct lifter *l, unsigned condition, uint64_t target)
{
	lift_emit(l, (struct uop){ .op = UOP_OP_BRANCH, .size = 8, .a = condition, .imm = target });
}

static void branch_if_zero(struct lifter *l, unsigned size, uint8_t reg, uint64_t target)
{
	lift_emit(l,
		  (struct uop){ .op = UOP_OP_BRANCH_ZERO, .size = size, .a = reg, .imm = target });
}

static void jump_to(struct lifter *l, uint8_t reg, unsigned flags)
{
	lift_emit(l, (struct uop){ .op = UOP_OP_JUMP_TO, .size = 8, .a = reg, .flags = flags });
	l->ended = true;
}

void lift_branch(struct lifter *l, unsigned condition)
{
	if (gives_up_branch(l))
		return;
	branch_if(l, condition, branch_target(l));
	lift_jump(l, l->next, 0);
}

/* jecxz, jrcxz: arg is the size of the counter. */
void lift_branch_count(struct lifter *l, unsigned size)
{
	if (gives_up_branch(l))
		return;
	branch_if_zero(l, size, UOP_RCX, branch_target(l));
	lift_jump(l, l->next, 0);
}

/* Some processors let a repeat prefix replace the condition of loope and loopne. */
static bool gives_up_repeat(struct lifter *l)
{
	for (int i = 0; i < l->insn->raw.prefix_count; i++) {
		if ((l->insn->raw.prefixes[i].value & ~1) == 0xf2) {
			lift_give_up(l, UOP_END_UNSUPPORTED);
			return true;
		}
	}
	return false;
}

enum {
	LOOP_ALWAYS = 0,
};

/* arg is the condition under which a loop goes on, or LOOP_ALWAYS. */
void lift_loop(struct lifter *l, unsigned condition)
{
	unsigned size = l->insn->address_width / 8;

	if (gives_up_branch(l) || gives_up_repeat(l))
		return;
	lift_emit(l, (struct uop){ .op = UOP_OP_LEA,
				   .size = size,
				   .dst = UOP_RCX,
				   .a = UOP_RCX,
				   .b = UOP_NONE,
				   .imm = -1 });
	branch_if_zero(l, size, UOP_RCX, l->next);
	if (condition != LOOP_ALWAYS)
		branch_if(l, condition ^ 1, l->next);
	lift_jump(l, branch_target(l), 0);
}

void lift_jmp(struct lifter *l, unsigned arg)
{
	if (gives_up_branch(l))
		return;
	if (l->operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
		lift_jump(l, branch_target(l), 0);
	else
		jump_to(l, lift_source_reg(l, 0), 0);
}

static void push(struct lifter *l, unsigned size, uint8_t reg)
{
	lift_store(l, size, reg, UOP_RSP, -(int64_t)size);
	lift_move_by(l, UOP_RSP, -(int64_t)size);
}

static void push_return_address(struct lifter *l)
{
	uint8_t address = lift_temp(l);

	lift_emit(l, (struct uop){ .op = UOP_OP_LEA,
				   .size = 8,
				   .dst = address,
				   .a = UOP_BIAS,
				   .b = UOP_NONE,
				   .imm = l->next });
	push(l, 8, address);
}

void lift_call(struct lifter *l, unsigned arg)
{
	uint8_t target;

	if (gives_up_branch(l))
		return;
	if (l->operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
		push_return_address(l);
		lift_jump(l, branch_target(l), UOP_CALL);
		return;
	}
	target = lift_temp(l);
	lift_mov(l, 8, target, lift_reg(lift_source_reg(l, 0)), 0);
	push_return_address(l);
	jump_to(l, target, UOP_CALL);
}

void lift_ret(struct lifter *l, unsigned arg)
{
	uint8_t target = lift_temp(l);
	int64_t more = 0;

	if (gives_up_branch(l))
		return;
	if (l->operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
		more = l->operands[0].imm.value.u;
	lift_load(l, 8, target, UOP_RSP, 0);
	lift_move_by(l, UOP_RSP, 8 + more);
	jump_to(l, target, UOP_RET);
}

void lift_push(struct lifter *l, unsigned arg)
{
	if (!lift_plain(l))
		lift_give_up(l, UOP_END_UNSUPPORTED);
	else
		push(l, l->insn->operand_width / 8, lift_source_reg(l, 0));
}

void lift_pop(struct lifter *l, unsigned arg)
{
	unsigned size = l->insn->operand_width / 8;
	struct lift_place place;
	uint8_t value;

	if (!lift_plain(l)) {
		lift_give_up(l, UOP_END_UNSUPPORTED);
		return;
	}
	value = lift_temp(l);
	lift_load(l, size, value, UOP_RSP, 0);
	/* An address is computed from the stack pointer after the pop. */
	lift_move_by(l, UOP_RSP, size);
	place = lift_place(l, 0);
	lift_put(l, &place, value);
}

void lift_leave(struct lifter *l, unsigned arg)
{
	unsigned size = l->insn->operand_width / 8;
	struct lift_place rbp = { .kind = LIFT_REG, .size = size, .reg = UOP_RBP };
	uint8_t old = lift_temp(l);

	lift_load(l, size, old, UOP_RBP, 0);
	lift_mov(l, 8, UOP_RSP, lift_reg(UOP_RBP), 0);
	lift_move_by(l, UOP_RSP, size);
	lift_put(l, &rbp, old);
}

void lift_enter(struct lifter *l, unsigned arg)
{
	if (l->operands[1].imm.value.u & 31 || l->insn->operand_width != 64) {
		lift_give_up(l, UOP_END_UNSUPPORTED);
		return;
	}
	push(l, 8, UOP_RBP);
	lift_mov(l, 8, UOP_RBP, lift_reg(UOP_RSP), 0);
	lift_move_by(l, UOP_RSP, -(int64_t)(l->operands[0].imm.value.u & 0xffff));
}

void lift_setcc(struct lifter *l, unsigned condition)
{
	struct lift_place place = lift_place(l, 0);

	lift_into(l, &place, UOP_OP_SETCC, condition, lift_reg(UOP_NONE), 0);
}

void lift_cmov(struct lifter *l, unsigned condition)
{
	struct lift_place place = lift_place(l, 0);

	lift_into(l, &place, UOP_OP_SELECT, condition, lift_source(l, 1), 0);
}

enum {
	FLAGS_LAHF = UOP_SF | UOP_ZF | UOP_AF | UOP_PF | UOP_CF,
	FLAGS_PUSHED = ~0x30000, /* RF and VM read as 0 */
	FLAGS_POPPED = UOP_STATUS | UOP_DF | UOP_AC | 1 << 14 | 1 << 21, /* and NT, ID */
};

void lift_push_flags(struct lifter *l, unsigned size)
{
	uint8_t flags = lift_temp(l);

	lift_emit(l,
		  (struct uop){
			  .op = UOP_OP_FLAGS_GET, .size = 4, .dst = flags, .imm = FLAGS_PUSHED });
	push(l, size, flags);
}

void lift_pop_flags(struct lifter *l, unsigned size)
{
	uint8_t flags = lift_temp(l);

	lift_load(l, size, flags, UOP_RSP, 0);
	lift_move_by(l, UOP_RSP, size);
	lift_emit(l, (struct uop){ .op = UOP_OP_FLAGS_SET,
				   .size = 8,
				   .a = flags,
				   .imm = size == 2 ? FLAGS_POPPED & 0xffff : FLAGS_POPPED });
	/* Changes in the kernel only. */
	lift_emit(l, (struct uop){ .op = UOP_OP_FORGET_FLAGS, .imm = UOP_IF });
}

void lift_lahf(struct lifter *l, unsigned arg)
{
	uint8_t flags = lift_temp(l);

	lift_emit(l, (struct uop){
			     .op = UOP_OP_FLAGS_GET, .size = 8, .dst = flags, .imm = FLAGS_LAHF });
	lift_op(l, UOP_OP_HIGH, 8, UOP_RAX, flags, lift_reg(UOP_NONE), 0);
}

void lift_sahf(struct lifter *l, unsigned arg)
{
	uint8_t flags = lift_temp(l);

	lift_op(l, UOP_OP_SHR, 8, flags, UOP_RAX, lift_imm(8), 0);
	lift_emit(l,
		  (struct uop){ .op = UOP_OP_FLAGS_SET, .size = 8, .a = flags, .imm = FLAGS_LAHF });
}

/* clc, stc and the like: arg is the flag, with LIFT_SET if it becomes 1. */
void lift_flag(struct lifter *l, unsigned arg)
{
	uint8_t value = UOP_NONE;

	if (arg & LIFT_SET) {
		value = lift_temp(l);
		lift_mov(l, 8, value, lift_imm(-1), 0);
	}
	lift_emit(l,
		  (struct uop){
			  .op = UOP_OP_FLAGS_SET, .size = 8, .a = value, .imm = arg & ~LIFT_SET });
}

/* cmc */
void lift_flip_carry(struct lifter *l, unsigned not_carry)
{
	uint8_t value = lift_temp(l);

	lift_op(l, UOP_OP_SETCC, 8, value, not_carry, lift_reg(UOP_NONE), 0);
	lift_emit(l, (struct uop){ .op = UOP_OP_FLAGS_SET, .size = 8, .a = value, .imm = UOP_CF });
}

/*
 * xtest. An interrupt ends a transaction, and a run does not begin one: it is always outside, which
 * the processor says with ZF.
 */
void lift_outside(struct lifter *l, unsigned arg)
{
	uint8_t flags = lift_temp(l);

	lift_mov(l, 8, flags, lift_imm(UOP_ZF), 0);
	lift_op(l, UOP_OP_FLAGS_SET, 8, UOP_NONE, flags, lift_imm(UOP_STATUS), 0);
}

void lift_end(struct lifter *l, unsigned end)
{
	lift_give_up(l, end);
}
