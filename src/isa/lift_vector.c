// SPDX-License-Identifier: BSD-2-Clause
/*
 * Lifting of instructions that move parts of 128-bit vectors.
 *
 * A vector register is its two halves, registers of their own. An instruction makes a new low and a
 * new high half, each of which is a register, a constant or memory; then both are put into the
 * destination, in the order in which neither is overwritten before it is read.
 *
 * Forms that are not followed (longer vectors, masks, MMX) are opaque: their destination is
 * unknown. Instructions that treat all words of a vector alike are in lift_wide.c, for any length.
 */
#include "isa/lift_vector.h"

static bool is_followed(const ZydisDecodedOperand *operand)
{
	ZydisRegisterClass class;

	if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER)
		return true;
	class = ZydisRegisterGetClass(operand->reg.value);
	if (class == ZYDIS_REGCLASS_XMM)
		return true;
	return lift_is_gpr(operand->reg.value);
}

bool vector_is(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_REGISTER && !lift_is_gpr(operand->reg.value);
}

uint8_t vector_low(const ZydisDecodedOperand *operand)
{
	unsigned number = ZydisRegisterGetId(operand->reg.value);

	return number < 16 ? UOP_XMM0 + number : UOP_XMM16 + number - 16;
}

unsigned vector_bytes(const ZydisDecodedOperand *operand)
{
	return ZydisRegisterGetId(operand->reg.value) < 16 ? UOP_VECTOR_BYTES
							   : UOP_VECTOR_BYTES_LONG;
}

uint8_t vector_high(const ZydisDecodedOperand *operand)
{
	return vector_low(operand) + HALF_TO_HIGH;
}

bool vector_insn_get(struct lifter *l, struct vector_insn *ret)
{
	const ZydisDecodedInstructionAvx *avx = &l->insn->avx;
	const ZydisDecodedOperand *found[3];
	bool followed = avx->vector_length <= 128 &&
			(!avx->broadcast.mode || avx->broadcast.is_static);
	unsigned count = 0;

	*ret = (struct vector_insn){ 0 };
	for (int i = 0; i < l->insn->operand_count_visible && followed; i++) {
		const ZydisDecodedOperand *operand = &l->operands[i];

		if (operand->type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
			ret->imm = operand->imm.value.u;
		else if (operand->encoding == ZYDIS_OPERAND_ENCODING_MASK &&
			 operand->reg.value == ZYDIS_REGISTER_K0)
			continue;
		else if (count == 3 || !is_followed(operand))
			followed = false;
		else
			found[count++] = operand;
	}
	if (!followed || !count) {
		lift_opaque(l, 0);
		return false;
	}
	ret->dst = found[0];
	ret->first = count == 3 ? found[1] : found[0];
	ret->second = found[count - 1];
	return true;
}

struct vector_source vector_source(struct lifter *l, const ZydisDecodedOperand *operand)
{
	struct vector_source source = { .is_memory = operand->type == ZYDIS_OPERAND_TYPE_MEMORY };

	if (source.is_memory)
		lift_address(l, operand, true, &source.address);
	else
		source.reg = vector_is(operand) ? vector_low(operand)
						: lift_gpr(operand->reg.value);
	return source;
}

struct half half_imm(int64_t imm)
{
	return (struct half){ .kind = HALF_IMM, .size = HALF_BYTES, .imm = imm };
}

struct half half_reg(uint8_t reg)
{
	return (struct half){ .kind = HALF_REG, .size = HALF_BYTES, .reg = reg };
}

struct half half_of(const struct vector_source *source, unsigned high, unsigned size)
{
	struct half half = { .kind = source->is_memory ? HALF_MEMORY : HALF_REG,
			     .size = size,
			     .reg = source->reg,
			     .address = source->address };

	if (high) {
		half.reg += HALF_TO_HIGH;
		half.address.imm += HALF_BYTES;
	}
	return half;
}

void half_put(struct lifter *l, uint8_t dst, const struct half *half)
{
	struct uop load = half->address;

	if (half->kind == HALF_MEMORY) {
		load.op = UOP_OP_LOAD;
		load.size = half->size;
		load.dst = dst;
		lift_emit(l, load);
	} else if (half->kind == HALF_IMM) {
		lift_mov(l, HALF_BYTES, dst, lift_imm(half->imm), 0);
	} else if (half->reg != dst || half->size != HALF_BYTES) {
		lift_mov(l, half->size, dst, lift_reg(half->reg), 0);
	}
}

void vector_registers(struct lifter *l, const ZydisDecodedOperand *operand, uint8_t ret[2])
{
	struct vector_source source = vector_source(l, operand);

	for (unsigned high = 0; high < 2; high++) {
		struct half half = half_of(&source, high, HALF_BYTES);

		if (source.is_memory) {
			half.reg = lift_temp(l);
			half_put(l, half.reg, &half);
		}
		ret[high] = half.reg;
	}
}

static bool half_is(const struct half *half, uint8_t reg)
{
	return half->kind == HALF_REG && half->reg == reg;
}

void vector_put(struct lifter *l, const ZydisDecodedOperand *dst, struct half low, struct half high)
{
	uint8_t to_low = vector_low(dst), to_high = vector_high(dst);
	unsigned before = l->block->count;

	if (half_is(&high, to_low) && half_is(&low, to_high)) {
		high.reg = lift_temp(l);
		lift_mov(l, HALF_BYTES, high.reg, lift_reg(to_low), 0);
	}
	if (half_is(&high, to_low)) {
		half_put(l, to_high, &high);
		half_put(l, to_low, &low);
	} else {
		half_put(l, to_low, &low);
		half_put(l, to_high, &high);
	}
	if (l->block->count == before)
		lift_nop(l, 0);
}

static void half_store(struct lifter *l, const struct uop *address, unsigned size, uint8_t reg,
		       int64_t offset)
{
	struct uop store = *address;

	store.op = UOP_OP_STORE;
	store.size = size;
	store.dst = reg;
	store.imm += offset;
	lift_emit(l, store);
}

/* movd, movq: arg bytes from or to the low end; the rest of a vector register becomes 0. */
void lift_vector_low(struct lifter *l, unsigned size)
{
	struct vector_insn insn;
	struct vector_source source;
	struct uop address;

	if (!vector_insn_get(l, &insn))
		return;
	if (insn.dst->type == ZYDIS_OPERAND_TYPE_MEMORY) {
		lift_address(l, insn.dst, true, &address);
		half_store(l, &address, size, vector_low(insn.second), 0);
		return;
	}
	source = vector_source(l, insn.second);
	if (vector_is(insn.dst))
		vector_put(l, insn.dst, half_of(&source, 0, size), half_imm(0));
	else
		lift_mov(l, size, lift_gpr(insn.dst->reg.value), lift_reg(source.reg), 0);
}

/* The low 4 bytes of one register, the rest of another. */
static void merge_single(struct lifter *l, const struct vector_insn *insn)
{
	uint8_t low = vector_low(insn->second), to = vector_low(insn->dst);

	if (to != vector_low(insn->first)) {
		if (to == low) {
			low = lift_temp(l);
			lift_mov(l, HALF_BYTES, low, lift_reg(to), 0);
		}
		lift_mov(l, HALF_BYTES, to, lift_reg(vector_low(insn->first)), 0);
		lift_mov(l, HALF_BYTES, vector_high(insn->dst), lift_reg(vector_high(insn->first)),
			 0);
	}
	lift_mov(l, 4, to, lift_reg(low), UOP_MERGE);
}

/* movss, movsd: between registers only arg bytes change, from memory the rest becomes 0. */
void lift_vector_scalar(struct lifter *l, unsigned size)
{
	struct vector_insn insn;
	struct vector_source first, second;

	if (l->operands[0].type == ZYDIS_OPERAND_TYPE_MEMORY ||
	    l->operands[l->insn->operand_count_visible - 1].type == ZYDIS_OPERAND_TYPE_MEMORY) {
		lift_vector_low(l, size);
		return;
	}
	if (!vector_insn_get(l, &insn))
		return;
	if (size == 4) {
		merge_single(l, &insn);
		return;
	}
	first = vector_source(l, insn.first);
	second = vector_source(l, insn.second);
	vector_put(l, insn.dst, half_of(&second, 0, HALF_BYTES), half_of(&first, 1, HALF_BYTES));
}

/* The string instruction or the vector move of the same name. */
void lift_movsd(struct lifter *l, unsigned arg)
{
	if (l->insn->meta.category == ZYDIS_CATEGORY_STRINGOP)
		lift_string(l, 4);
	else
		lift_vector_scalar(l, 8);
}

void lift_cmpsd(struct lifter *l, unsigned arg)
{
	if (l->insn->meta.category == ZYDIS_CATEGORY_STRINGOP)
		lift_string(l, 4);
	else
		lift_opaque(l, 0);
}

/*
 * arg is which half (LIFT_HIGH) of which source (LIFT_SECOND) each half becomes, that for the high
 * one << LIFT_TO_HIGH.
 */
void lift_vector_halves(struct lifter *l, unsigned arg)
{
	unsigned to_low = arg, to_high = arg >> LIFT_TO_HIGH;
	struct vector_insn insn;
	struct vector_source sources[2];

	if (!vector_insn_get(l, &insn))
		return;
	sources[0] = vector_source(l, insn.first);
	sources[1] = vector_source(l, insn.second);
	vector_put(l, insn.dst,
		   half_of(&sources[(to_low & LIFT_SECOND) != 0], to_low & LIFT_HIGH, HALF_BYTES),
		   half_of(&sources[(to_high & LIFT_SECOND) != 0], to_high & LIFT_HIGH,
			   HALF_BYTES));
}

/*
 * movlps and movhps, as loads what lift_vector_halves() does; arg has LIFT_STORE_HIGH for the
 * latter.
 */
void lift_vector_half(struct lifter *l, unsigned arg)
{
	struct vector_insn insn;
	struct uop address;

	if (l->operands[0].type != ZYDIS_OPERAND_TYPE_MEMORY) {
		lift_vector_halves(l, arg);
		return;
	}
	if (!vector_insn_get(l, &insn))
		return;
	lift_address(l, insn.dst, true, &address);
	half_store(l, &address, HALF_BYTES,
		   arg & LIFT_STORE_HIGH ? vector_high(insn.second) : vector_low(insn.second), 0);
}
