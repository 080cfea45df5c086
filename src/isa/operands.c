// SPDX-License-Identifier: BSD-2-Clause
#include "isa/operands.h"

#include "isa/lift_private.h"

static unsigned size_of(const ZydisDecodedOperand *operand)
{
	bool single = operand->element_count == 1 &&
		      (operand->element_type == ZYDIS_ELEMENT_TYPE_FLOAT32 ||
		       operand->element_type == ZYDIS_ELEMENT_TYPE_FLOAT64);
	unsigned bytes = (single ? operand->element_size : operand->size) / 8;

	return bytes > 8 ? 8 : bytes;
}

static bool is_vector(ZydisRegister reg)
{
	switch (ZydisRegisterGetClass(reg)) {
	case ZYDIS_REGCLASS_XMM:
	case ZYDIS_REGCLASS_YMM:
	case ZYDIS_REGCLASS_ZMM:
		return true;
	default:
		return false;
	}
}

/* False: not one whose value is followed. */
static bool register_take(ZydisRegister reg, bool implied, struct operand *ret)
{
	uint8_t id;

	ret->kind = OPERAND_REGISTER;
	if (lift_is_gpr(reg)) {
		ret->reg = lift_gpr(reg);
		if (reg >= ZYDIS_REGISTER_AH && reg <= ZYDIS_REGISTER_BH)
			ret->kind = OPERAND_REGISTER_HIGH;
		return !implied || ret->reg != UOP_RSP;
	}
	id = (uint8_t)ZydisRegisterGetId(reg);
	if (ZydisRegisterGetClass(reg) == ZYDIS_REGCLASS_MASK)
		ret->reg = UOP_K0 + id;
	else if (is_vector(reg))
		ret->reg = id < 16 ? UOP_XMM0 + id : UOP_XMM16 + id - 16;
	else
		return false;
	return true;
}

static bool operand_take(const ZydisDecodedOperand *from, bool implied, struct operand *ret)
{
	*ret = (struct operand){ .size = (uint8_t)size_of(from) };
	if (!(from->actions & ZYDIS_OPERAND_ACTION_MASK_READ) || !ret->size)
		return false;
	switch (from->type) {
	case ZYDIS_OPERAND_TYPE_REGISTER:
		return register_take(from->reg.value, implied, ret);
	case ZYDIS_OPERAND_TYPE_IMMEDIATE:
		ret->kind = OPERAND_CONSTANT;
		ret->constant = from->imm.value.s;
		return !from->imm.is_relative;
	case ZYDIS_OPERAND_TYPE_MEMORY:
		ret->kind = OPERAND_MEMORY;
		return from->mem.type == ZYDIS_MEMOP_TYPE_MEM;
	default:
		return false;
	}
}

/* Constants are as wide as what they are used with. */
static void constants_widen(const ZydisDecodedInstruction *insn, struct operands *operands)
{
	for (unsigned i = 0; i < operands->count; i++) {
		struct operand *operand = &operands->items[i];

		if (operand->kind == OPERAND_CONSTANT)
			operand->size = i ? operands->items[0].size : insn->operand_width / 8;
	}
}

void operands_of(const void *code, size_t size, struct operands *ret)
{
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction insn;
	ZydisDecoder decoder;

	*ret = (struct operands){};
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (ZYAN_FAILED(ZydisDecoderDecodeFull(&decoder, code, size, &insn, operands)))
		return;
	for (unsigned i = 0; i < insn.operand_count && ret->count < OPERANDS_MAX; i++)
		if (operand_take(&operands[i], i >= insn.operand_count_visible,
				 &ret->items[ret->count]))
			ret->count++;
	constants_widen(&insn, ret);
}
