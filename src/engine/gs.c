// SPDX-License-Identifier: BSD-2-Clause
/*
 * Instructions that address memory through gs.
 *
 * In the cache gs is the engine's. The address is computed into a register that the instruction
 * does not use, the program's base is added to it, and a form of the instruction is run that takes
 * its operand from there:
 *
 *	mov	%X, %gs:spill0
 *	mov	%Y, %gs:spill1
 *	lea	operand, %X
 *	mov	%gs:THREAD_GS, %Y
 *	lea	(%X,%Y), %X
 *	mov	%gs:spill1, %Y
 *	insn	(%X)
 *	mov	%gs:spill0, %X
 *
 * X and Y are among the first eight registers and are neither rsp nor rbp, so that no other prefix
 * is needed than the instruction has: a new one would turn ah into spl. Such registers always
 * exist: even cmpxchg16b, which uses most, leaves rsi and rdi. copy.c emits the sequence; this file
 * computes what depends on the instruction.
 */
#include "engine/gs.h"

enum {
	REX_R = 4,
	REX_X = 2,
	REX_B = 1,
	VEX_X = 0x40, /* inverted, as all of a VEX or EVEX prefix */
	VEX_B = 0x20,
	SIB_FOLLOWS = 4,
	SIB_NONE = 4, /* no index */
	SIB_DISPLACEMENT = 5, /* no base, with mod 0 */
};

int register_number(ZydisRegister reg)
{
	ZydisRegister large = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	if (large < ZYDIS_REGISTER_RAX || large > ZYDIS_REGISTER_R15)
		return -1;
	return (int)(large - ZYDIS_REGISTER_RAX);
}

/* Registers that the instruction reads or writes, but for the address of its operand. */
static unsigned registers_used(const ZydisDecodedInstruction *insn,
			       const ZydisDecodedOperand *operands)
{
	unsigned used = 1u << RSP | 1u << RBP;

	for (unsigned i = 0; i < insn->operand_count; i++)
		if (operands[i].type == ZYDIS_OPERAND_TYPE_REGISTER) {
			int number = register_number(operands[i].reg.value);

			if (number >= 0)
				used |= 1u << number;
		}
	return used;
}

static unsigned register_free(unsigned used)
{
	unsigned reg = RDI;

	while (reg && used >> reg & 1)
		reg--;
	return reg;
}

/* The one operand in memory, if it is the common kind: a base, an index, a displacement. */
static const ZydisDecodedOperand *operand_find(const ZydisDecodedInstruction *insn,
					       const ZydisDecodedOperand *operands)
{
	const ZydisDecodedOperand *found = NULL;

	if (!(insn->attributes & ZYDIS_ATTRIB_HAS_MODRM) || insn->raw.modrm.mod == 3)
		return NULL;
	for (unsigned i = 0; i < insn->operand_count_visible; i++) {
		if (operands[i].type != ZYDIS_OPERAND_TYPE_MEMORY)
			continue;
		if (found || operands[i].mem.type != ZYDIS_MEMOP_TYPE_MEM)
			return NULL;
		found = &operands[i];
	}
	return found;
}

static uint8_t *put_displacement(uint8_t *at, int64_t value)
{
	for (int i = 0; i < 4; i++)
		*at++ = (uint8_t)((uint64_t)value >> i * 8);
	return at;
}

static unsigned scale_bits(unsigned scale)
{
	unsigned bits = 0;

	while (scale > 1u << bits)
		bits++;
	return bits;
}

void operand_lea(const ZydisDecodedInstruction *insn, const ZydisDecodedOperand *operand,
		 unsigned to, struct gs_lea *ret)
{
	int base = register_number(operand->mem.base), index = register_number(operand->mem.index);
	uint8_t *at = ret->bytes;

	ret->relative = operand->mem.base == ZYDIS_REGISTER_RIP ||
			operand->mem.base == ZYDIS_REGISTER_EIP;
	if (insn->address_width == 32)
		*at++ = 0x67;
	*at++ = (uint8_t)(0x48 | (to >= 8 ? REX_R : 0) | (index >= 8 ? REX_X : 0) |
			  (base >= 8 ? REX_B : 0));
	*at++ = 0x8d;
	if (ret->relative) {
		*at++ = (uint8_t)((to & 7) << 3 | SIB_DISPLACEMENT);
	} else {
		*at++ = (uint8_t)((base < 0 ? 0 : 2) << 6 | (to & 7) << 3 | SIB_FOLLOWS);
		*at++ = (uint8_t)(scale_bits(operand->mem.scale) << 6 |
				  (index < 0 ? SIB_NONE : index & 7) << 3 |
				  (base < 0 ? SIB_DISPLACEMENT : base & 7));
	}
	ret->displacement = operand->mem.disp.value;
	at = put_displacement(at, ret->displacement);
	ret->length = (uint8_t)(at - ret->bytes);
}

/* A REX prefix that is not the last has no effect; it would have one if those behind it went. */
static bool is_dropped(uint8_t prefix)
{
	return (prefix & 0xf0) == 0x40 || prefix == 0x65 || prefix == 0x64 || prefix == 0x67 ||
	       prefix == 0x2e || prefix == 0x36 || prefix == 0x3e || prefix == 0x26;
}

/* What stands before modrm: no segment, no 32-bit address, no extension of base and index. */
static uint8_t *put_front(const ZydisDecodedInstruction *insn, const uint8_t *code, uint8_t *at)
{
	unsigned i = 0;

	for (; i < insn->raw.prefix_count; i++) {
		bool rex = insn->attributes & ZYDIS_ATTRIB_HAS_REX && i == insn->raw.rex.offset;

		if (rex)
			*at++ = (uint8_t)(code[i] & ~(REX_X | REX_B));
		else if (!is_dropped(code[i]))
			*at++ = code[i];
	}
	for (unsigned start = i; i < insn->raw.modrm.offset; i++) {
		bool extends = i == start + 1 &&
			       (code[start] == 0xc4 || code[start] == 0x8f || code[start] == 0x62);

		extends = extends && insn->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY;
		*at++ = extends ? code[i] | VEX_X | VEX_B : code[i];
	}
	return at;
}

static void insn_put(const ZydisDecodedInstruction *insn, const uint8_t *code, struct gs_plan *plan)
{
	unsigned rest = insn->raw.modrm.offset + 1;
	uint8_t *at = put_front(insn, code, plan->insn);

	if (insn->attributes & ZYDIS_ATTRIB_HAS_SIB)
		rest++;
	rest += insn->raw.disp.size / 8;
	*at++ = (uint8_t)(insn->raw.modrm.reg << 3 | plan->x);
	while (rest < insn->length)
		*at++ = code[rest++];
	plan->insn_length = (uint8_t)(at - plan->insn);
}

/*
 * Instructions for which another form of the operand is not the same: pop computes the address
 * after rsp has changed, x87 stores the offset without the base, the kernel emulates sldt and
 * others by decoding their bytes, and bt adds a bit offset to the address, which wraps if that has
 * 32 bits.
 */
static bool is_special(const ZydisDecodedInstruction *insn)
{
	return insn->address_width == 32 || insn->meta.category == ZYDIS_CATEGORY_POP ||
	       insn->meta.category == ZYDIS_CATEGORY_SYSTEM ||
	       insn->meta.category == ZYDIS_CATEGORY_X87_ALU ||
	       insn->meta.isa_ext == ZYDIS_ISA_EXT_X87;
}

bool gs_plan(const ZydisDecoder *decoder, const uint8_t *code, size_t length, struct gs_plan *ret)
{
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	const ZydisDecodedOperand *operand;
	unsigned used;

	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(decoder, code, length, &insn, operands)))
		return false;
	operand = operand_find(&insn, operands);
	if (!operand || is_special(&insn))
		return false;
	used = registers_used(&insn, operands);
	ret->x = (uint8_t)register_free(used);
	ret->y = (uint8_t)register_free(1u << RSP | 1u << RBP | 1u << ret->x);
	operand_lea(&insn, operand, ret->x, &ret->lea);
	insn_put(&insn, code, ret);
	return !(used >> ret->x & 1);
}

bool gs_target(const ZydisDecoder *decoder, const uint8_t *code, size_t length, struct gs_lea *ret)
{
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	const ZydisDecodedOperand *operand;

	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(decoder, code, length, &insn, operands)))
		return false;
	operand = operand_find(&insn, operands);
	if (!operand)
		return false;
	operand_lea(&insn, operand, RDX, ret);
	return true;
}
