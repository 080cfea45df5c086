// SPDX-License-Identifier: BSD-2-Clause
/*
 * Lifting of what only moves 128-bit vectors about, and of their logic.
 *
 * A vector register is its two halves, registers of their own. An instruction makes a new low and a new high half,
 * each of which is a register, a constant or memory; then both are put into the destination, in the order in which
 * neither is overwritten before it is read.
 *
 * Forms that are not followed (longer vectors, masks, registers from xmm16 on, MMX) are opaque: their destination
 * is unknown.
 */
#include "isa/lift_private.h"

enum {
	HALF_BYTES = 8,
	FOLLOWED = 16, /* registers */
};

/* The operands without mask registers. */
struct vector_insn {
	const ZydisDecodedOperand *dst;
	const ZydisDecodedOperand
		*first; /* source; the destination itself where there are only two operands */
	const ZydisDecodedOperand *second;
	unsigned imm;
};

enum half_kind {
	HALF_REG,
	HALF_IMM,
	HALF_MEMORY,
};

/* What a half of the destination is to be. */
struct half {
	enum half_kind kind;
	uint8_t size; /* bytes, zero-extended */
	uint8_t reg;
	int64_t imm;
	struct uop address;
};

/* A source operand: its address computed, if it has one. */
struct vector_source {
	bool is_memory;
	uint8_t reg; /* its low half, or a general register */
	struct uop address;
};

static bool is_followed(const ZydisDecodedOperand *operand)
{
	ZydisRegisterClass class;

	if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER)
		return true;
	class = ZydisRegisterGetClass(operand->reg.value);
	if (class == ZYDIS_REGCLASS_XMM)
		return ZydisRegisterGetId(operand->reg.value) < FOLLOWED;
	return lift_is_gpr(operand->reg.value);
}

static bool is_vector(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_REGISTER && !lift_is_gpr(operand->reg.value);
}

static uint8_t low_half(const ZydisDecodedOperand *operand)
{
	return UOP_XMM0 + ZydisRegisterGetId(operand->reg.value);
}

static uint8_t high_half(const ZydisDecodedOperand *operand)
{
	return low_half(operand) + UOP_XMM0_HIGH - UOP_XMM0;
}

/* Takes the operands apart. An instruction whose form is not followed is lifted as opaque: false. */
static bool vector_insn_get(struct lifter *l, struct vector_insn *ret)
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
	if (!followed || count < 2) {
		lift_opaque(l, 0);
		return false;
	}
	ret->dst = found[0];
	ret->first = count == 3 ? found[1] : found[0];
	ret->second = found[count - 1];
	return true;
}

static struct vector_source source_get(struct lifter *l, const ZydisDecodedOperand *operand)
{
	struct vector_source source = { .is_memory = operand->type == ZYDIS_OPERAND_TYPE_MEMORY };

	if (source.is_memory)
		lift_address(l, operand, true, &source.address);
	else
		source.reg = is_vector(operand) ? low_half(operand) : lift_gpr(operand->reg.value);
	return source;
}

static struct half half_imm(int64_t imm)
{
	return (struct half){ .kind = HALF_IMM, .size = HALF_BYTES, .imm = imm };
}

/* The low (0) or high (1) half of a source, or the first size bytes of it. */
static struct half half_of(const struct vector_source *source, unsigned high, unsigned size)
{
	struct half half = { .kind = source->is_memory ? HALF_MEMORY : HALF_REG,
			     .size = size,
			     .reg = source->reg,
			     .address = source->address };

	if (high) {
		half.reg += UOP_XMM0_HIGH - UOP_XMM0;
		half.address.imm += HALF_BYTES;
	}
	return half;
}

static void half_put(struct lifter *l, uint8_t dst, const struct half *half)
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

static bool half_is(const struct half *half, uint8_t reg)
{
	return half->kind == HALF_REG && half->reg == reg;
}

static void vector_put(struct lifter *l, const ZydisDecodedOperand *dst, struct half low,
		       struct half high)
{
	uint8_t to_low = low_half(dst), to_high = high_half(dst);
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

/* All 16 bytes. */
void lift_vector_move(struct lifter *l, unsigned arg)
{
	struct vector_insn insn;
	struct vector_source source;
	struct uop address;

	if (!vector_insn_get(l, &insn))
		return;
	if (insn.dst->type == ZYDIS_OPERAND_TYPE_MEMORY) {
		lift_address(l, insn.dst, true, &address);
		half_store(l, &address, HALF_BYTES, low_half(insn.second), 0);
		half_store(l, &address, HALF_BYTES, high_half(insn.second), HALF_BYTES);
		return;
	}
	source = source_get(l, insn.second);
	vector_put(l, insn.dst, half_of(&source, 0, HALF_BYTES), half_of(&source, 1, HALF_BYTES));
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
		half_store(l, &address, size, low_half(insn.second), 0);
		return;
	}
	source = source_get(l, insn.second);
	if (is_vector(insn.dst))
		vector_put(l, insn.dst, half_of(&source, 0, size), half_imm(0));
	else
		lift_mov(l, size, lift_gpr(insn.dst->reg.value), lift_reg(source.reg), 0);
}

/* The low 4 bytes of one register, the rest of another. */
static void merge_single(struct lifter *l, const struct vector_insn *insn)
{
	uint8_t low = low_half(insn->second), to = low_half(insn->dst);

	if (to != low_half(insn->first)) {
		if (to == low) {
			low = lift_temp(l);
			lift_mov(l, HALF_BYTES, low, lift_reg(to), 0);
		}
		lift_mov(l, HALF_BYTES, to, lift_reg(low_half(insn->first)), 0);
		lift_mov(l, HALF_BYTES, high_half(insn->dst), lift_reg(high_half(insn->first)), 0);
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
	first = source_get(l, insn.first);
	second = source_get(l, insn.second);
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

/* arg is which half (LIFT_HIGH) of which source (LIFT_SECOND) each half becomes, that for the high one << LIFT_TO_HIGH. */
void lift_vector_halves(struct lifter *l, unsigned arg)
{
	unsigned to_low = arg, to_high = arg >> LIFT_TO_HIGH;
	struct vector_insn insn;
	struct vector_source sources[2];

	if (!vector_insn_get(l, &insn))
		return;
	sources[0] = source_get(l, insn.first);
	sources[1] = source_get(l, insn.second);
	vector_put(l, insn.dst,
		   half_of(&sources[(to_low & LIFT_SECOND) != 0], to_low & LIFT_HIGH, HALF_BYTES),
		   half_of(&sources[(to_high & LIFT_SECOND) != 0], to_high & LIFT_HIGH,
			   HALF_BYTES));
}

/* movlps and movhps, as loads what lift_vector_halves() does; arg has LIFT_STORE_HIGH for the latter. */
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
		   arg & LIFT_STORE_HIGH ? high_half(insn.second) : low_half(insn.second), 0);
}

static bool is_same(const struct vector_insn *insn)
{
	return is_vector(insn->second) && insn->first->reg.value == insn->second->reg.value;
}

void lift_vector_logic(struct lifter *l, unsigned op)
{
	struct vector_insn insn;
	struct vector_source second;

	if (!vector_insn_get(l, &insn))
		return;
	if (is_same(&insn) && (op == UOP_OP_XOR || op == UOP_OP_ANDN)) {
		vector_put(l, insn.dst, half_imm(0), half_imm(0));
		return;
	}
	second = source_get(l, insn.second);
	for (unsigned high = 0; high < 2; high++) {
		unsigned distance = high ? UOP_XMM0_HIGH - UOP_XMM0 : 0;
		struct half half = half_of(&second, high, HALF_BYTES);

		if (second.is_memory) {
			half.reg = lift_temp(l);
			half_put(l, half.reg, &half);
		}
		lift_op(l, op, HALF_BYTES, low_half(insn.dst) + distance,
			low_half(insn.first) + distance, lift_reg(half.reg), 0);
	}
}

/* A vector compared with itself is how all bits are set. */
void lift_vector_equal(struct lifter *l, unsigned arg)
{
	struct vector_insn insn;

	if (!vector_insn_get(l, &insn))
		return;
	if (is_same(&insn))
		vector_put(l, insn.dst, half_imm(-1), half_imm(-1));
	else
		lift_opaque(l, 0);
}
