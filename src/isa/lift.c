// SPDX-License-Identifier: BSD-2-Clause
/*
 * The lifter: decodes instruction by instruction and lets the rule of each mnemonic (lift_rules.c)
 * emit its micro-operations.
 *
 *	in	the bytes of code, and its address in its module
 *	out	a block of micro-operations (wire/uop.h)
 *	owner	nobody: it is a call; the block is the caller's memory
 *
 * An instruction is lifted whole or not at all: one that does not fit is removed again, and the
 * block ends with a jump to it. Operands are *places*: they are read before anything is written, an
 * address is computed by the very micro-operation that uses it, and temporaries live no longer than
 * their instruction.
 *
 * Invariants:
 * 1. The last micro-operation of a block leaves it: JUMP, JUMP_TO or GIVE_UP.
 * 2. Every instruction has at least one micro-operation, so that instructions can be counted by
 *    them.
 * 3. Nothing is read after a register that it depends on was written by the same instruction.
 * 4. A block is the same wherever its module is loaded: addresses are in the module, and relative
 *    to UOP_BIAS.
 */
#include <assert.h>
#include <string.h>

#include "isa/lift.h"
#include "isa/lift_private.h"

void lift_emit(struct lifter *l, struct uop uop)
{
	/* One place is kept for the jump that ends a full block. */
	if (l->block->count >= UOP_BLOCK_MAX - 1) {
		l->full = true;
		return;
	}
	uop.at = l->pc - l->block->pc;
	l->block->uops[l->block->count++] = uop;
}

uint8_t lift_temp(struct lifter *l)
{
	assert(UOP_T0 + l->temps <= UOP_T_LAST);
	return UOP_T0 + l->temps++;
}

struct lift_value lift_imm(int64_t imm)
{
	return (struct lift_value){ .is_imm = true, .imm = imm };
}

struct lift_value lift_reg(uint8_t reg)
{
	return (struct lift_value){ .reg = reg };
}

void lift_op(struct lifter *l, unsigned op, unsigned size, uint8_t dst, uint8_t a,
	     struct lift_value b, unsigned flags)
{
	lift_emit(l, (struct uop){ .op = op,
				   .size = size,
				   .dst = dst,
				   .a = a,
				   .b = b.reg,
				   .flags = flags | (b.is_imm ? UOP_IMM : 0),
				   .imm = b.imm });
}

void lift_mov(struct lifter *l, unsigned size, uint8_t dst, struct lift_value value, unsigned flags)
{
	lift_op(l, UOP_OP_MOV, size, dst, UOP_NONE, value, flags);
}

static void emit_access(struct lifter *l, unsigned op, unsigned size, uint8_t reg, uint8_t base,
			int64_t offset)
{
	lift_emit(l, (struct uop){ .op = op,
				   .size = size,
				   .dst = reg,
				   .a = base,
				   .b = UOP_NONE,
				   .imm = offset });
}

void lift_load(struct lifter *l, unsigned size, uint8_t dst, uint8_t base, int64_t offset)
{
	emit_access(l, UOP_OP_LOAD, size, dst, base, offset);
}

void lift_store(struct lifter *l, unsigned size, uint8_t value, uint8_t base, int64_t offset)
{
	emit_access(l, UOP_OP_STORE, size, value, base, offset);
}

void lift_move_by(struct lifter *l, uint8_t reg, int64_t amount)
{
	emit_access(l, UOP_OP_LEA, 8, reg, reg, amount);
}

void lift_jump(struct lifter *l, uint64_t target, unsigned flags)
{
	lift_emit(l, (struct uop){ .op = UOP_OP_JUMP, .size = 8, .flags = flags, .imm = target });
	l->ended = true;
}

void lift_give_up(struct lifter *l, unsigned end)
{
	lift_emit(l, (struct uop){ .op = UOP_OP_GIVE_UP,
				   .imm = UOP_GIVE_UP_IMM(end, l->insn->mnemonic) });
	l->ended = true;
}

void lift_repair(const ZydisDecodedInstruction *insn, ZydisDecodedOperand *operand)
{
	if (operand->type != ZYDIS_OPERAND_TYPE_MEMORY ||
	    operand->mem.base != ZYDIS_REGISTER_R13D ||
	    operand->encoding != ZYDIS_OPERAND_ENCODING_MODRM_RM || insn->raw.modrm.mod != 0 ||
	    !(insn->attributes & ZYDIS_ATTRIB_HAS_SIB) || insn->raw.sib.base != 5)
		return;
	operand->mem.base = ZYDIS_REGISTER_NONE;
	operand->mem.disp.has_displacement = ZYAN_TRUE;
	operand->mem.disp.value = insn->raw.disp.value;
}

bool lift_is_gpr(ZydisRegister reg)
{
	ZydisRegisterClass class = ZydisRegisterGetClass(reg);

	return class == ZYDIS_REGCLASS_GPR8 || class == ZYDIS_REGCLASS_GPR16 ||
	       class == ZYDIS_REGCLASS_GPR32 || class == ZYDIS_REGCLASS_GPR64;
}

uint8_t lift_gpr(ZydisRegister reg)
{
	return ZydisRegisterGetId(
		ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg));
}

bool lift_plain(const struct lifter *l)
{
	for (int i = 0; i < l->insn->operand_count_visible; i++) {
		const ZydisDecodedOperand *operand = &l->operands[i];

		if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    !lift_is_gpr(operand->reg.value))
			return false;
	}
	return true;
}

unsigned lift_size(const struct lifter *l, unsigned operand)
{
	return l->operands[operand].size / 8;
}

unsigned lift_merge(unsigned size)
{
	return size < 4 ? UOP_MERGE : 0;
}

static uint8_t address_register(ZydisRegister reg)
{
	return lift_is_gpr(reg) ? lift_gpr(reg) : UOP_NONE;
}

/* Lets ret's address be one temporary: the sum, cut to size. */
static void address_reduce(struct lifter *l, unsigned size, struct uop *ret)
{
	struct uop lea = *ret;
	uint8_t temp = lift_temp(l);

	lea.op = UOP_OP_LEA;
	lea.size = size;
	lea.dst = temp;
	lift_emit(l, lea);
	*ret = (struct uop){ .a = temp, .b = UOP_NONE };
}

static void address_segment(struct lifter *l, uint8_t base, struct uop *ret)
{
	if (ret->a == UOP_NONE) {
		ret->a = base;
		return;
	}
	if (ret->b != UOP_NONE)
		address_reduce(l, 8, ret);
	ret->b = base;
}

void lift_address(struct lifter *l, const ZydisDecodedOperand *operand, bool segment,
		  struct uop *ret)
{
	unsigned scale = operand->mem.scale ? __builtin_ctz(operand->mem.scale) : 0;

	*ret = (struct uop){ .a = address_register(operand->mem.base),
			     .b = address_register(operand->mem.index),
			     .imm = operand->mem.disp.value };
	if (ret->b != UOP_NONE)
		ret->flags = scale << UOP_SCALE_SHIFT;
	if (operand->mem.base == ZYDIS_REGISTER_RIP || operand->mem.base == ZYDIS_REGISTER_EIP) {
		ret->a = UOP_BIAS;
		ret->imm += l->next;
	}
	if (l->insn->address_width == 32)
		address_reduce(l, 4, ret);
	if (segment && operand->mem.segment == ZYDIS_REGISTER_FS)
		address_segment(l, UOP_FS_BASE, ret);
	else if (segment && operand->mem.segment == ZYDIS_REGISTER_GS)
		address_segment(l, UOP_GS_BASE, ret);
}

struct lift_place lift_place(struct lifter *l, unsigned index)
{
	const ZydisDecodedOperand *operand = &l->operands[index];
	struct lift_place place = { .kind = LIFT_MEMORY, .size = operand->size / 8 };

	if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY) {
		lift_address(l, operand, true, &place.address);
		return place;
	}
	place.kind = LIFT_REG;
	if (operand->reg.value >= ZYDIS_REGISTER_AH && operand->reg.value <= ZYDIS_REGISTER_BH)
		place.kind = LIFT_REG_HIGH;
	place.reg = lift_gpr(operand->reg.value);
	return place;
}

uint8_t lift_get(struct lifter *l, const struct lift_place *place)
{
	struct uop uop = place->address;

	if (place->kind == LIFT_REG)
		return place->reg;
	uop.dst = lift_temp(l);
	if (place->kind == LIFT_REG_HIGH) {
		lift_op(l, UOP_OP_SHR, 8, uop.dst, place->reg, lift_imm(8), 0);
		return uop.dst;
	}
	uop.op = UOP_OP_LOAD;
	uop.size = place->size;
	lift_emit(l, uop);
	return uop.dst;
}

struct lift_value lift_source(struct lifter *l, unsigned index)
{
	const ZydisDecodedOperand *operand = &l->operands[index];
	struct lift_place place;

	if (operand->type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
		return lift_imm(operand->imm.value.s);
	place = lift_place(l, index);
	return lift_reg(lift_get(l, &place));
}

uint8_t lift_source_reg(struct lifter *l, unsigned index)
{
	struct lift_value value = lift_source(l, index);
	uint8_t temp;

	if (!value.is_imm)
		return value.reg;
	temp = lift_temp(l);
	lift_mov(l, 8, temp, value, 0);
	return temp;
}

void lift_put(struct lifter *l, const struct lift_place *place, uint8_t reg)
{
	struct uop uop = place->address;

	if (place->kind == LIFT_REG) {
		if (reg != place->reg)
			lift_mov(l, place->size, place->reg, lift_reg(reg),
				 lift_merge(place->size));
		return;
	}
	if (place->kind == LIFT_REG_HIGH) {
		lift_op(l, UOP_OP_HIGH, 8, place->reg, reg, lift_reg(UOP_NONE), 0);
		return;
	}
	uop.op = UOP_OP_STORE;
	uop.size = place->size;
	uop.dst = reg;
	lift_emit(l, uop);
}

void lift_into(struct lifter *l, const struct lift_place *place, unsigned op, uint8_t a,
	       struct lift_value b, unsigned flags)
{
	uint8_t temp;

	if (place->kind == LIFT_REG) {
		lift_op(l, op, place->size, place->reg, a, b, flags | lift_merge(place->size));
		return;
	}
	temp = lift_temp(l);
	lift_op(l, op, place->size, temp, a, b, flags);
	lift_put(l, place, temp);
}

static void lift_instruction(struct lifter *l)
{
	struct lift_rule rule = lift_rule_get(l->insn->mnemonic);

	l->temps = 0;
	if (rule.lift)
		rule.lift(l, rule.arg);
	else
		lift_unruled(l);
	lift_upper_clear(l);
}

/*
 * A block that begins with bytes which are no instruction. These bytes are its code, so that the
 * block is not used once they have changed. If bytes were missing, it is not known how many belong
 * to the instruction: such a block has no code.
 */
static void lift_no_instruction(struct lifter *l, bool lacking, size_t size)
{
	lift_give_up(l, lacking ? UOP_END_CODE_UNREADABLE : UOP_END_UNDECODABLE);
	if (!lacking)
		l->pc += size < ZYDIS_MAX_INSTRUCTION_LENGTH ? size : ZYDIS_MAX_INSTRUCTION_LENGTH;
}

/* Lifts the next instruction into the block; false: the block is complete. */
static bool lift_next(struct lifter *l, const ZydisDecoder *decoder, const uint8_t *code,
		      size_t size)
{
	size_t done = l->pc - l->block->pc, count = l->block->count;
	ZydisDecodedInstruction insn = { 0 };
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZyanStatus status =
		ZydisDecoderDecodeFull(decoder, code + done, size - done, &insn, operands);

	l->insn = &insn;
	l->operands = operands;
	if (!ZYAN_SUCCESS(status)) {
		if (!done)
			lift_no_instruction(l, status == ZYDIS_STATUS_NO_MORE_DATA, size);
		return false;
	}
	if (done + insn.length > UOP_CODE_MAX)
		return false;
	for (int i = 0; i < insn.operand_count; i++)
		lift_repair(&insn, &operands[i]);
	l->next = l->pc + insn.length;
	lift_instruction(l);
	if (l->full) {
		l->block->count = count;
		l->ended = false;
		return false;
	}
	l->pc = l->next;
	l->block->instructions++;
	return !l->ended;
}

void lift_block(const void *code, size_t size, uint64_t pc, struct uop_block *ret)
{
	struct lifter l = { .block = ret, .pc = pc, .next = pc };
	ZydisDecoder decoder;

	memset(ret, 0, sizeof(*ret));
	ret->pc = pc;
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	while (lift_next(&l, &decoder, code, size))
		;
	ret->length = l.pc - pc;
	memcpy(ret->code, code, ret->length);
	if (!l.ended) {
		/* The place that lift_emit() keeps; the jump belongs to the last instruction. */
		uint16_t at = ret->count ? ret->uops[ret->count - 1].at : 0;

		ret->uops[ret->count++] =
			(struct uop){ .op = UOP_OP_JUMP, .size = 8, .at = at, .imm = l.pc };
	}
}

unsigned lift_mnemonic_of(const void *code, size_t size)
{
	ZydisDecoder decoder;
	ZydisDecodedInstruction insn;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (ZYAN_FAILED(ZydisDecoderDecodeInstruction(&decoder, NULL, code, size, &insn)))
		return 0;
	return insn.mnemonic;
}

const char *lift_mnemonic(unsigned mnemonic)
{
	const char *name = ZydisMnemonicGetString(mnemonic);

	return name ? name : "invalid";
}
