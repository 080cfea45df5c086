// SPDX-License-Identifier: BSD-2-Clause
#include "isa/effects.h"

#include <errno.h>
#include <stdbool.h>

#include <Zydis/Zydis.h>

static bool is_floating(const ZydisDecodedOperand *operand)
{
	switch (operand->element_type) {
	case ZYDIS_ELEMENT_TYPE_FLOAT16:
	case ZYDIS_ELEMENT_TYPE_FLOAT32:
	case ZYDIS_ELEMENT_TYPE_FLOAT64:
	case ZYDIS_ELEMENT_TYPE_FLOAT80:
		return true;
	default:
		return false;
	}
}

static bool in_vector(const ZydisDecodedOperand *operand)
{
	if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER)
		return false;
	switch (ZydisRegisterGetClass(operand->reg.value)) {
	case ZYDIS_REGCLASS_MMX:
	case ZYDIS_REGCLASS_XMM:
	case ZYDIS_REGCLASS_YMM:
	case ZYDIS_REGCLASS_ZMM:
		return true;
	default:
		return false;
	}
}

/* Only moves bits. */
static bool is_move(const ZydisDecodedInstruction *insn)
{
	switch (insn->meta.category) {
	case ZYDIS_CATEGORY_DATAXFER:
	case ZYDIS_CATEGORY_LOGICAL:
	case ZYDIS_CATEGORY_LOGICAL_FP:
	case ZYDIS_CATEGORY_BROADCAST:
		return true;
	default:
		return false;
	}
}

/* Memory operands of these are hints. */
static bool touches_memory(const ZydisDecodedInstruction *insn)
{
	switch (insn->meta.category) {
	case ZYDIS_CATEGORY_NOP:
	case ZYDIS_CATEGORY_WIDENOP:
	case ZYDIS_CATEGORY_PREFETCH:
	case ZYDIS_CATEGORY_PREFETCHWT1:
		return false;
	default:
		return true;
	}
}

static unsigned data_traits(const ZydisDecodedInstruction *insn,
			    const ZydisDecodedOperand *operands)
{
	bool vector = false, floating = false, single = false, wide = false;

	for (unsigned i = 0; i < insn->operand_count; i++) {
		const ZydisDecodedOperand *operand = &operands[i];

		vector |= in_vector(operand);
		floating |= is_floating(operand);
		single |= is_floating(operand) && operand->element_count == 1;
		wide |= operand->size > 128 && in_vector(operand);
	}
	return (vector && (!single || wide) ? EFFECTS_VECTOR : 0) |
	       (floating && !is_move(insn) ? EFFECTS_FLOATING : 0);
}

static unsigned flow_traits(const ZydisDecodedInstruction *insn,
			    const ZydisDecodedOperand *operands)
{
	bool computed = insn->operand_count && operands[0].type != ZYDIS_OPERAND_TYPE_IMMEDIATE &&
			operands[0].type != ZYDIS_OPERAND_TYPE_POINTER;

	switch (insn->meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
		return EFFECTS_CONDITIONAL;
	case ZYDIS_CATEGORY_UNCOND_BR:
		return EFFECTS_JUMP | (computed ? EFFECTS_INDIRECT : 0);
	case ZYDIS_CATEGORY_CALL:
		return EFFECTS_CALL | (computed ? EFFECTS_INDIRECT : 0);
	case ZYDIS_CATEGORY_RET:
		return EFFECTS_RETURN;
	case ZYDIS_CATEGORY_SYSCALL:
	case ZYDIS_CATEGORY_INTERRUPT:
		return EFFECTS_SYSTEM;
	default:
		return 0;
	}
}

static void memory_count(const ZydisDecodedInstruction *insn, const ZydisDecodedOperand *operands,
			 struct effects *effects)
{
	for (unsigned i = 0; i < insn->operand_count; i++) {
		const ZydisDecodedOperand *operand = &operands[i];

		if (operand->type != ZYDIS_OPERAND_TYPE_MEMORY ||
		    operand->mem.type == ZYDIS_MEMOP_TYPE_AGEN)
			continue;
		effects->loads += !!(operand->actions & ZYDIS_OPERAND_ACTION_MASK_READ);
		effects->stores += !!(operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE);
	}
}

static bool is_atomic(const ZydisDecodedInstruction *insn, const struct effects *effects)
{
	return insn->attributes & ZYDIS_ATTRIB_HAS_LOCK ||
	       (insn->mnemonic == ZYDIS_MNEMONIC_XCHG && effects->stores);
}

int effects_of(const void *code, size_t size, struct effects *ret)
{
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction insn;
	struct effects effects = {};
	ZydisDecoder decoder;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, size, &insn, operands)))
		return -EINVAL;
	effects.length = insn.length;
	if (touches_memory(&insn))
		memory_count(&insn, operands, &effects);
	effects.traits = (uint16_t)(data_traits(&insn, operands) | flow_traits(&insn, operands));
	if (is_atomic(&insn, &effects))
		effects.traits |= EFFECTS_ATOMIC;
	*ret = effects;
	return 0;
}
