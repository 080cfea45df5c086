// SPDX-License-Identifier: BSD-2-Clause
/*
 * Lifting of string instructions, and of instructions whose results are not computed.
 *
 * An *opaque* instruction does to registers, flags and memory what its operands say, with values
 * that are not computed: written registers, flags and memory become unknown, read memory is only
 * noted. Vector code, x87, random numbers and clocks are opaque.
 */
#include "isa/lift_vector.h"

enum {
	IF_EQUAL = 4,
	IF_DIFFERENT = 5,
	ONCE = -1,
	ALWAYS = -2,
};

/* Which condition repeats the instruction. On movs, stos and lods both prefixes say the same. */
static int repeat_condition(const struct lifter *l, bool compares)
{
	int repeat = ONCE;

	for (int i = 0; i < l->insn->raw.prefix_count; i++) {
		if (l->insn->raw.prefixes[i].value == 0xf3)
			repeat = compares ? IF_EQUAL : ALWAYS;
		else if (l->insn->raw.prefixes[i].value == 0xf2)
			repeat = compares ? IF_DIFFERENT : ALWAYS;
	}
	return repeat;
}

static void stride(struct lifter *l, uint8_t reg, unsigned size)
{
	lift_emit(l, (struct uop){ .op = UOP_OP_STRIDE, .size = 8, .dst = reg, .imm = size });
}

static uint8_t string_load(struct lifter *l, const struct uop *address, unsigned size)
{
	struct uop load = *address;

	load.op = UOP_OP_LOAD;
	load.size = size;
	load.dst = lift_temp(l);
	lift_emit(l, load);
	return load.dst;
}

/* The source operand, which alone can have another segment. */
static struct uop string_source(struct lifter *l)
{
	struct uop address = { .a = UOP_RSI, .b = UOP_NONE };

	for (int i = 0; i < l->insn->operand_count; i++)
		if (l->operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    l->operands[i].mem.base == ZYDIS_REGISTER_RSI)
			lift_address(l, &l->operands[i], true, &address);
	return address;
}

static void string_body(struct lifter *l, unsigned opcode, unsigned size, const struct uop *source)
{
	static const struct uop target = { .a = UOP_RDI, .b = UOP_NONE };
	uint8_t value;

	switch (opcode & ~1) {
	case 0xa4: /* movs */
		lift_store(l, size, string_load(l, source, size), UOP_RDI, 0);
		stride(l, UOP_RSI, size);
		break;
	case 0xa6: /* cmps */
		value = string_load(l, source, size);
		lift_op(l, UOP_OP_SUB, size, UOP_NONE, value,
			lift_reg(string_load(l, &target, size)), UOP_FLAGS);
		stride(l, UOP_RSI, size);
		break;
	case 0xaa: /* stos */
		lift_store(l, size, UOP_RAX, UOP_RDI, 0);
		break;
	case 0xac: /* lods */
		lift_mov(l, size, UOP_RAX, lift_reg(string_load(l, source, size)),
			 lift_merge(size));
		stride(l, UOP_RSI, size);
		return;
	default: /* scas */
		lift_op(l, UOP_OP_SUB, size, UOP_NONE, UOP_RAX,
			lift_reg(string_load(l, &target, size)), UOP_FLAGS);
	}
	stride(l, UOP_RDI, size);
}

void lift_string(struct lifter *l, unsigned size)
{
	unsigned opcode = l->insn->opcode;
	bool compares = (opcode & ~1) == 0xa6 || (opcode & ~1) == 0xae;
	int repeat = repeat_condition(l, compares);
	struct uop source = string_source(l);
	unsigned skip = l->block->count;
	uint8_t more = UOP_RCX;

	if (l->insn->address_width != 64) {
		lift_give_up(l, UOP_END_UNSUPPORTED);
		return;
	}
	if (repeat != ONCE)
		lift_emit(l, (struct uop){ .op = UOP_OP_SKIP_ZERO, .size = 8, .a = UOP_RCX });
	string_body(l, opcode, size, &source);
	if (repeat == ONCE)
		return;
	lift_move_by(l, UOP_RCX, -1);
	if (repeat != ALWAYS) {
		more = lift_temp(l);
		lift_mov(l, 8, more, lift_imm(0), 0);
		lift_op(l, UOP_OP_SELECT, 8, more, repeat, lift_reg(UOP_RCX), 0);
	}
	lift_emit(l, (struct uop){ .op = UOP_OP_AGAIN, .size = 8, .a = more, .imm = skip + 1 });
	l->block->uops[skip].imm = l->block->count;
}

/* In pieces of at most 64 bytes. False if what is written where is not known. */
static bool opaque_memory(struct lifter *l, const ZydisDecodedOperand *operand)
{
	bool writes = operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
	unsigned left = operand->size / 8;
	struct uop access;

	if (operand->mem.type == ZYDIS_MEMOP_TYPE_AGEN)
		return true;
	if (operand->mem.type != ZYDIS_MEMOP_TYPE_MEM || !left)
		return !writes;
	lift_address(l, operand, true, &access);
	access.op = writes ? UOP_OP_POISON : UOP_OP_TOUCH;
	for (; left; left -= access.size) {
		access.size = left > 64 ? 64 : left;
		lift_emit(l, access);
		access.imm += access.size;
	}
	return true;
}

/* Above its length a vector is cleared, or stays: lift_upper_clear(). */
static void opaque_vector(struct lifter *l, const ZydisDecodedOperand *operand)
{
	unsigned bytes = vector_bytes(operand), written = operand->size / 8;

	if (ZydisRegisterGetClass(operand->reg.value) == ZYDIS_REGCLASS_XMM)
		written = 16;
	lift_emit(l, (struct uop){ .op = UOP_OP_FORGET,
				   .size = written < 16 || written > bytes ? bytes : written,
				   .dst = vector_low(operand) });
}

static bool opaque_register(struct lifter *l, const ZydisDecodedOperand *operand)
{
	ZydisRegisterClass class = ZydisRegisterGetClass(operand->reg.value);

	if (!(operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
		return true;
	if (lift_is_gpr(operand->reg.value)) {
		lift_emit(l, (struct uop){ .op = UOP_OP_FORGET,
					   .size = 8,
					   .dst = lift_gpr(operand->reg.value) });
		return true;
	}
	if (class == ZYDIS_REGCLASS_XMM || class == ZYDIS_REGCLASS_YMM ||
	    class == ZYDIS_REGCLASS_ZMM) {
		opaque_vector(l, operand);
		return true;
	}
	if (class == ZYDIS_REGCLASS_MASK) {
		lift_emit(l,
			  (struct uop){ .op = UOP_OP_FORGET,
					.size = 8,
					.dst = UOP_K0 + ZydisRegisterGetId(operand->reg.value) });
		return true;
	}
	return class != ZYDIS_REGCLASS_SEGMENT && class != ZYDIS_REGCLASS_IP;
}

void lift_opaque(struct lifter *l, unsigned arg)
{
	const ZydisAccessedFlags *flags = l->insn->cpu_flags;
	unsigned changed = flags ? flags->modified | flags->set_0 | flags->set_1 | flags->undefined
				 : 0;
	unsigned before = l->block->count;
	bool clear = true;

	if (l->insn->attributes & ZYDIS_ATTRIB_IS_PRIVILEGED) {
		lift_give_up(l, UOP_END_PRIVILEGED);
		return;
	}
	/* Addresses first: a register may be both in an address and written. */
	for (int i = 0; i < l->insn->operand_count; i++)
		if (l->operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY)
			clear &= opaque_memory(l, &l->operands[i]);
	for (int i = 0; i < l->insn->operand_count; i++)
		if (l->operands[i].type == ZYDIS_OPERAND_TYPE_REGISTER)
			clear &= opaque_register(l, &l->operands[i]);
	/*
	 * All of them, because Zydis's information on the flags that vtestps and vtestpd clear is
	 * wrong.
	 */
	if (changed & UOP_STATUS)
		lift_emit(l, (struct uop){ .op = UOP_OP_FORGET_FLAGS, .imm = UOP_STATUS });
	if (!clear)
		lift_give_up(l, UOP_END_UNSUPPORTED);
	if (l->block->count == before)
		lift_nop(l, 0);
}

void lift_unruled(struct lifter *l)
{
	switch (l->insn->meta.isa_ext) {
	case ZYDIS_ISA_EXT_AES:
	case ZYDIS_ISA_EXT_AMD3DNOW:
	case ZYDIS_ISA_EXT_AVX:
	case ZYDIS_ISA_EXT_AVX2:
	case ZYDIS_ISA_EXT_AVX2GATHER:
	case ZYDIS_ISA_EXT_AVX512EVEX:
	case ZYDIS_ISA_EXT_AVX512VEX:
	case ZYDIS_ISA_EXT_AVXAES:
	case ZYDIS_ISA_EXT_AVX_VNNI:
	case ZYDIS_ISA_EXT_F16C:
	case ZYDIS_ISA_EXT_FMA:
	case ZYDIS_ISA_EXT_FMA4:
	case ZYDIS_ISA_EXT_GFNI:
	case ZYDIS_ISA_EXT_MMX:
	case ZYDIS_ISA_EXT_PCLMULQDQ:
	case ZYDIS_ISA_EXT_RDPID:
	case ZYDIS_ISA_EXT_RDRAND:
	case ZYDIS_ISA_EXT_RDSEED:
	case ZYDIS_ISA_EXT_RDTSCP:
	case ZYDIS_ISA_EXT_SHA:
	case ZYDIS_ISA_EXT_SSE:
	case ZYDIS_ISA_EXT_SSE2:
	case ZYDIS_ISA_EXT_SSE3:
	case ZYDIS_ISA_EXT_SSE4:
	case ZYDIS_ISA_EXT_SSE4A:
	case ZYDIS_ISA_EXT_SSSE3:
	case ZYDIS_ISA_EXT_VAES:
	case ZYDIS_ISA_EXT_VPCLMULQDQ:
	case ZYDIS_ISA_EXT_X87:
	case ZYDIS_ISA_EXT_XOP:
		lift_opaque(l, 0);
		break;
	default:
		lift_give_up(l, UOP_END_UNSUPPORTED);
	}
}

/* rdfsbase, rdgsbase; arg is the register. */
void lift_base_read(struct lifter *l, unsigned base)
{
	struct lift_place place = lift_place(l, 0);

	lift_into(l, &place, UOP_OP_MOV, UOP_NONE, lift_reg(base), 0);
}

void lift_base_write(struct lifter *l, unsigned base)
{
	lift_mov(l, lift_size(l, 0), base, lift_reg(lift_source_reg(l, 0)), 0);
}
