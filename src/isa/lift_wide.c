// SPDX-License-Identifier: BSD-2-Clause
/*
 * Lifting of instructions that treat all words of a vector alike, for vectors of any length and
 * under masks: moves, logic, lanes and comparisons; and of instructions on mask registers.
 *
 * Word i of the destination depends on word i of the sources only, so words are computed one after
 * the other, in place. Under a mask with zeroing the result is cut to the chosen lanes (KEEP); with
 * merging the other lanes of the old destination are laid beside them. A comparison into a mask
 * makes a word of ones and zeros for each word of the sources, and gathers their signs.
 *
 * Not followed, and thus opaque: 512 bits in registers below 16, MMX, operands in memory that are
 * repeated to fill a vector.
 */
#include "isa/lift_vector.h"

enum { WORD = 8 };

struct wide {
	const ZydisDecodedOperand *dst, *first, *second; /* as in struct vector_insn */
	unsigned words;
	unsigned lane; /* bytes */
	unsigned imm;
	uint8_t mask; /* UOP_NONE: all lanes */
	bool zeroing;
	struct uop address; /* of the operand in memory, if one is */
};

static bool is_mask(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       ZydisRegisterGetClass(operand->reg.value) == ZYDIS_REGCLASS_MASK;
}

static uint8_t mask_reg(const ZydisDecodedOperand *operand)
{
	return UOP_K0 + ZydisRegisterGetId(operand->reg.value);
}

static bool is_followed(const ZydisDecodedOperand *operand, unsigned words)
{
	ZydisRegisterClass class;

	if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER || lift_is_gpr(operand->reg.value))
		return true;
	class = ZydisRegisterGetClass(operand->reg.value);
	if (class == ZYDIS_REGCLASS_MASK)
		return true;
	return class >= ZYDIS_REGCLASS_XMM && class <= ZYDIS_REGCLASS_ZMM &&
	       (words <= 4 || ZydisRegisterGetId(operand->reg.value) >= 16);
}

static bool operands_take(struct lifter *l, struct wide *w)
{
	const ZydisDecodedOperand *found[3];
	unsigned count = 0;

	for (int i = 0; i < l->insn->operand_count_visible; i++) {
		const ZydisDecodedOperand *operand = &l->operands[i];

		if (operand->type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
			w->imm = operand->imm.value.u;
		} else if (operand->encoding == ZYDIS_OPERAND_ENCODING_MASK) {
			if (operand->reg.value != ZYDIS_REGISTER_K0)
				w->mask = mask_reg(operand);
		} else {
			if (count == 3 || !is_followed(operand, w->words))
				return false;
			found[count++] = operand;
		}
	}
	if (count < 2)
		return false;
	w->dst = found[0];
	w->first = count == 3 ? found[1] : found[0];
	w->second = found[count - 1];
	return true;
}

/* Takes the operands apart; a form that is not followed is lifted as opaque: false. */
static bool wide_get(struct lifter *l, struct wide *ret)
{
	const ZydisDecodedInstructionAvx *avx = &l->insn->avx;
	bool repeated = avx->broadcast.mode && !avx->broadcast.is_static;

	*ret = (struct wide){ .words = avx->vector_length > 128 ? avx->vector_length / 64 : 2,
			      .mask = UOP_NONE,
			      .zeroing = avx->mask.mode == ZYDIS_MASK_MODE_ZEROING };
	if (repeated || !operands_take(l, ret)) {
		lift_opaque(l, 0);
		return false;
	}
	ret->lane = ret->second->element_size / 8;
	for (const ZydisDecodedOperand **each =
		     (const ZydisDecodedOperand *[]){ ret->dst, ret->first, ret->second, NULL };
	     *each; each++) {
		if ((*each)->type == ZYDIS_OPERAND_TYPE_MEMORY) {
			lift_address(l, *each, true, &ret->address);
			break;
		}
	}
	return true;
}

static uint8_t word_of(const ZydisDecodedOperand *operand, unsigned word)
{
	return vector_low(operand) + word * UOP_VECTOR_STEP;
}

static void word_access(struct lifter *l, const struct wide *w, unsigned op, unsigned word,
			uint8_t reg)
{
	struct uop access = w->address;

	access.op = op;
	access.size = WORD;
	access.dst = reg;
	access.imm += word * WORD;
	lift_emit(l, access);
}

/* The register with a word of an operand; memory is loaded into the given one. */
static uint8_t word_get(struct lifter *l, const struct wide *w, const ZydisDecodedOperand *operand,
			unsigned word, uint8_t spare)
{
	if (operand->type != ZYDIS_OPERAND_TYPE_MEMORY)
		return word_of(operand, word);
	word_access(l, w, UOP_OP_LOAD, word, spare);
	return spare;
}

static void keep(struct lifter *l, const struct wide *w, unsigned word, uint8_t dst, uint8_t value,
		 bool inverted)
{
	lift_emit(l, (struct uop){ .op = UOP_OP_KEEP,
				   .size = WORD,
				   .dst = dst,
				   .a = value,
				   .b = w->mask,
				   .imm = UOP_KEEP_IMM(w->lane, word * WORD / w->lane, inverted) });
}

static bool is_merging(const struct wide *w)
{
	return w->mask != UOP_NONE && !w->zeroing;
}

/* Where a word of the result is computed: at its place, or beside it if lanes of that stay. */
static uint8_t result_place(const struct wide *w, unsigned word, uint8_t spare)
{
	return is_merging(w) ? spare : word_of(w->dst, word);
}

static void result_put(struct lifter *l, const struct wide *w, unsigned word, uint8_t result)
{
	uint8_t dst = word_of(w->dst, word);

	if (w->mask == UOP_NONE)
		return;
	keep(l, w, word, result, result, false);
	if (!is_merging(w))
		return;
	keep(l, w, word, dst, dst, true);
	lift_op(l, UOP_OP_OR, WORD, dst, dst, lift_reg(result), 0);
}

static void lane_op(struct lifter *l, unsigned op, uint8_t dst, uint8_t a, uint8_t b, unsigned imm)
{
	lift_emit(l,
		  (struct uop){ .op = op, .size = WORD, .dst = dst, .a = a, .b = b, .imm = imm });
}

static bool is_same(const struct wide *w)
{
	return vector_is(w->second) && w->first->type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       w->first->reg.value == w->second->reg.value;
}

/* The same constant in every word. */
static void constant_put(struct lifter *l, const struct wide *w, uint8_t spare, int64_t value)
{
	for (unsigned i = 0; i < w->words; i++) {
		uint8_t result = result_place(w, i, spare);

		lift_mov(l, WORD, result, lift_imm(value), 0);
		result_put(l, w, i, result);
	}
}

/* --- Moves ------------------------------------------------------------------------------------ */

/*
 * Words without a chosen lane are skipped, because memory that is not written may not be mapped. Of
 * the other words, the lanes that do not change are written again.
 */
static void masked_store(struct lifter *l, const struct wide *w)
{
	uint8_t chosen = lift_temp(l), value = lift_temp(l);
	unsigned lanes = WORD / w->lane;

	for (unsigned i = 0; i < w->words; i++) {
		unsigned skip;

		lift_op(l, UOP_OP_SHR, WORD, chosen, w->mask, lift_imm(i * lanes), 0);
		lift_op(l, UOP_OP_AND, WORD, chosen, chosen, lift_imm((1 << lanes) - 1), 0);
		skip = l->block->count;
		lift_emit(l, (struct uop){ .op = UOP_OP_SKIP_ZERO, .size = WORD, .a = chosen });
		word_access(l, w, UOP_OP_LOAD, i, value);
		keep(l, w, i, value, value, true);
		keep(l, w, i, chosen, word_of(w->second, i), false);
		lift_op(l, UOP_OP_OR, WORD, value, value, lift_reg(chosen), 0);
		word_access(l, w, UOP_OP_STORE, i, value);
		if (!l->full)
			l->block->uops[skip].imm = l->block->count;
	}
	lift_nop(l, 0); /* for the last word to be passed over */
}

static void move_store(struct lifter *l, const struct wide *w)
{
	if (w->mask == UOP_NONE) {
		for (unsigned i = 0; i < w->words; i++)
			word_access(l, w, UOP_OP_STORE, i, word_of(w->second, i));
	} else if (w->words <= 4) {
		masked_store(l, w);
	} else {
		lift_opaque(l, 0);
	}
}

void lift_vector_move(struct lifter *l, unsigned arg)
{
	unsigned before = l->block->count;
	struct wide w;
	uint8_t spare;

	if (!wide_get(l, &w))
		return;
	w.lane = w.dst->element_size / 8;
	if (w.dst->type == ZYDIS_OPERAND_TYPE_MEMORY) {
		move_store(l, &w);
		return;
	}
	spare = lift_temp(l);
	for (unsigned i = 0; i < w.words; i++) {
		uint8_t result = result_place(&w, i, spare);

		if (w.second->type == ZYDIS_OPERAND_TYPE_MEMORY)
			word_access(l, &w, UOP_OP_LOAD, i, result);
		else if (result != word_of(w.second, i))
			lift_mov(l, WORD, result, lift_reg(word_of(w.second, i)), 0);
		result_put(l, &w, i, result);
	}
	if (l->block->count == before)
		lift_nop(l, 0);
}

/* vpbroadcast: arg is the size of what is repeated. */
void lift_broadcast(struct lifter *l, unsigned size)
{
	static const int64_t ones[] = {
		[1] = 0x0101010101010101,
		[2] = 0x0001000100010001,
		[4] = 0x0000000100000001,
		[8] = 1,
	};
	uint8_t value, from;
	struct uop load;
	struct wide w;

	if (!wide_get(l, &w))
		return;
	if (w.mask != UOP_NONE) {
		lift_opaque(l, 0);
		return;
	}
	value = lift_temp(l);
	from = value;
	if (w.second->type == ZYDIS_OPERAND_TYPE_MEMORY) {
		load = w.address;
		load.op = UOP_OP_LOAD;
		load.size = size;
		load.dst = value;
		lift_emit(l, load);
	} else {
		from = vector_is(w.second) ? vector_low(w.second) : lift_gpr(w.second->reg.value);
		lift_mov(l, size, value, lift_reg(from), 0);
	}
	lift_op(l, UOP_OP_MUL, WORD, value, value, lift_imm(ones[size]), 0);
	for (unsigned i = 0; i < w.words; i++)
		lift_mov(l, WORD, word_of(w.dst, i), lift_reg(value), 0);
}

/* vzeroupper; vzeroall with arg 1. */
void lift_zero_upper(struct lifter *l, unsigned all)
{
	for (unsigned i = UOP_XMM0; all && i < UOP_YMM0_UPPER; i++)
		lift_mov(l, WORD, i, lift_imm(0), 0);
	lift_emit(l, (struct uop){ .op = UOP_OP_CLEAR_UPPER, .size = WORD });
}

void lift_upper_clear(struct lifter *l)
{
	const ZydisDecodedInstruction *insn = l->insn;

	if (insn->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY || l->ended)
		return;
	for (int i = 0; i < insn->operand_count; i++) {
		const ZydisDecodedOperand *operand = &l->operands[i];
		unsigned bytes = operand->size / 8, all;
		ZydisRegisterClass class;

		if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER ||
		    !(operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			continue;
		class = ZydisRegisterGetClass(operand->reg.value);
		if (class != ZYDIS_REGCLASS_XMM && class != ZYDIS_REGCLASS_YMM)
			continue;
		bytes = class == ZYDIS_REGCLASS_XMM ? 16 : 32;
		all = vector_bytes(operand);
		if (bytes < all)
			lift_emit(l, (struct uop){ .op = UOP_OP_CLEAR,
						   .size = bytes,
						   .dst = vector_low(operand),
						   .imm = all });
	}
}

/* --- Logic and lanes -------------------------------------------------------------------------- */

void lift_vector_logic(struct lifter *l, unsigned op)
{
	struct wide w;
	uint8_t spare;

	if (!wide_get(l, &w))
		return;
	w.lane = w.dst->element_size / 8;
	spare = lift_temp(l);
	if (is_same(&w) && (op == UOP_OP_XOR || op == UOP_OP_ANDN)) {
		constant_put(l, &w, spare, 0);
		return;
	}
	for (unsigned i = 0; i < w.words; i++) {
		uint8_t second = word_get(l, &w, w.second, i, spare);
		uint8_t result = result_place(&w, i, spare);

		lift_op(l, op, WORD, result, word_of(w.first, i), lift_reg(second), 0);
		result_put(l, &w, i, result);
	}
}

void lift_ternary(struct lifter *l, unsigned arg)
{
	struct wide w;
	uint8_t spare, result;

	if (!wide_get(l, &w))
		return;
	w.lane = w.dst->element_size / 8;
	spare = lift_temp(l);
	if ((w.imm & 0xff) == 0xff || !(w.imm & 0xff)) {
		constant_put(l, &w, spare, w.imm & 1 ? -1 : 0);
		return;
	}
	result = lift_temp(l);
	for (unsigned i = 0; i < w.words; i++) {
		uint8_t third = word_get(l, &w, w.second, i, spare);
		uint8_t place = result_place(&w, i, result);

		if (place != word_of(w.dst, i))
			lift_mov(l, WORD, place, lift_reg(word_of(w.dst, i)), 0);
		lift_emit(l, (struct uop){ .op = UOP_OP_TERNARY,
					   .size = WORD,
					   .dst = place,
					   .a = word_of(w.first, i),
					   .b = third,
					   .imm = w.imm & 0xff });
		result_put(l, &w, i, place);
	}
}

/* Predicates of vpcmp. */
enum {
	EQUAL,
	LESS,
	LESS_EQUAL,
	NEVER,
	NOT_EQUAL,
	NOT_LESS,
	GREATER,
	ALWAYS,
};

static uint64_t lane_tops(unsigned size)
{
	return size == 1   ? 0x8080808080808080
	       : size == 2 ? 0x8000800080008000
	       : size == 4 ? 0x8000000080000000
			   : 0x8000000000000000;
}

/*
 * Ones in the lanes for which the predicate holds, zeros in others. Numbers with signs are compared
 * without, both with their top bits turned.
 */
static void word_compare(struct lifter *l, const struct wide *w, unsigned word, unsigned predicate,
			 bool is_signed, uint8_t dst, const uint8_t spare[2])
{
	uint8_t first = word_get(l, w, w->first, word, spare[0]);
	uint8_t second = word_get(l, w, w->second, word, spare[1]), swap;
	bool swapped = predicate == LESS_EQUAL || predicate == GREATER;
	bool inverted = predicate == LESS_EQUAL || predicate == NOT_EQUAL || predicate == NOT_LESS;
	bool equal = predicate == EQUAL || predicate == NOT_EQUAL;

	if (predicate == NEVER || predicate == ALWAYS) {
		lift_mov(l, WORD, dst, lift_imm(predicate == ALWAYS ? -1 : 0), 0);
		return;
	}
	if (is_signed && !equal) {
		lift_op(l, UOP_OP_XOR, WORD, spare[0], first, lift_imm(lane_tops(w->lane)), 0);
		lift_op(l, UOP_OP_XOR, WORD, spare[1], second, lift_imm(lane_tops(w->lane)), 0);
		first = spare[0];
		second = spare[1];
	}
	if (swapped) {
		swap = first;
		first = second;
		second = swap;
	}
	lane_op(l, equal ? UOP_OP_LANES_EQ : UOP_OP_LANES_LESS, dst, first, second, w->lane);
	if (inverted)
		lift_op(l, UOP_OP_XOR, WORD, dst, dst, lift_imm(-1), 0);
}

/* A mask, or what pmovmskb gives, from words of which each lane is all ones or zeros. */
static void signs_put(struct lifter *l, uint8_t dst, const uint8_t *words, unsigned count,
		      unsigned lane)
{
	for (unsigned i = count; i; i -= 2)
		lane_op(l, i == count ? UOP_OP_SIGNS : UOP_OP_SIGNS_JOIN, dst, words[i - 2],
			words[i - 1], lane);
}

/* Words of ones and zeros in temporaries, to the destination's mask, under the mask if any. */
static void mask_put(struct lifter *l, const struct wide *w, const uint8_t *words)
{
	for (unsigned i = 0; w->mask != UOP_NONE && i < w->words; i++)
		keep(l, w, i, words[i], words[i], false);
	signs_put(l, mask_reg(w->dst), words, w->words, w->lane);
}

/* Comparisons into a vector or a mask; arg is the size of a lane, with LIFT_SIGNED. */
static void compare(struct lifter *l, struct wide *w, unsigned predicate, bool is_signed)
{
	uint8_t spare[2] = { lift_temp(l), lift_temp(l) }, words[UOP_VECTOR_WORDS];

	/* A vector compared with itself is how all bits are set. */
	if (is_same(w) && (predicate == EQUAL || predicate == LESS_EQUAL || predicate == NOT_LESS))
		predicate = ALWAYS;
	for (unsigned i = 0; i < w->words; i++) {
		words[i] = is_mask(w->dst) ? lift_temp(l) : word_of(w->dst, i);
		word_compare(l, w, i, predicate, is_signed, words[i], spare);
	}
	if (is_mask(w->dst))
		mask_put(l, w, words);
}

/* vpcmp with a predicate; arg is 1 for numbers with signs. */
void lift_vector_compare(struct lifter *l, unsigned is_signed)
{
	struct wide w;

	if (wide_get(l, &w))
		compare(l, &w, w.imm & 7, is_signed);
}

/* pcmpgt; arg is the size of a lane. */
void lift_greater(struct lifter *l, unsigned size)
{
	struct wide w;

	if (!wide_get(l, &w))
		return;
	w.lane = size;
	compare(l, &w, GREATER, true);
}

/* Half by half; arg is the operation, and the size of a lane << LIFT_LANE_SHIFT. */
void lift_lanes(struct lifter *l, unsigned arg)
{
	unsigned op = arg & 0xff;
	struct wide w;
	uint8_t spare;

	if (!wide_get(l, &w))
		return;
	w.lane = arg >> LIFT_LANE_SHIFT;
	if (op == UOP_OP_LANES_EQ) {
		compare(l, &w, EQUAL, false);
		return;
	}
	spare = lift_temp(l);
	for (unsigned i = 0; i < w.words; i++) {
		uint8_t second = word_get(l, &w, w.second, i, spare);
		uint8_t result = result_place(&w, i, spare);

		lane_op(l, op, result, word_of(w.first, i), second, w.lane);
		result_put(l, &w, i, result);
	}
}

/* vptestm, and vptestnm with arg 1: lanes in which the sources have a bit in common. */
void lift_vector_test_lanes(struct lifter *l, unsigned inverted)
{
	uint8_t words[UOP_VECTOR_WORDS];
	struct wide w;

	if (!wide_get(l, &w))
		return;
	for (unsigned i = 0; i < w.words; i++) {
		uint8_t second;

		words[i] = lift_temp(l);
		second = word_get(l, &w, w.second, i, words[i]);
		lift_op(l, UOP_OP_AND, WORD, words[i], word_of(w.first, i), lift_reg(second), 0);
		lane_op(l, UOP_OP_LANES_EQ, words[i], words[i], UOP_NONE, w.lane);
		if (!inverted)
			lift_op(l, UOP_OP_XOR, WORD, words[i], words[i], lift_imm(-1), 0);
	}
	mask_put(l, &w, words);
}

/* The sign bits of all lanes of arg bytes. */
void lift_signs(struct lifter *l, unsigned size)
{
	uint8_t words[UOP_VECTOR_WORDS];
	struct wide w;

	if (!wide_get(l, &w))
		return;
	for (unsigned i = 0; i < w.words; i++)
		words[i] = word_of(w.second, i);
	signs_put(l, lift_gpr(w.dst->reg.value), words, w.words, size);
}

/* --- Flags ------------------------------------------------------------------------------------ */

/* ZF where zero is 0, CF where carry is; the other status flags are cleared. */
static void zero_and_carry(struct lifter *l, unsigned size, uint8_t zero, uint8_t carry)
{
	lift_op(l, UOP_OP_ISZERO, size, zero, zero, lift_reg(UOP_NONE), 0);
	lift_op(l, UOP_OP_ISZERO, size, carry, carry, lift_reg(UOP_NONE), 0);
	lift_op(l, UOP_OP_SHL, WORD, zero, zero, lift_imm(__builtin_ctz(UOP_ZF)), 0);
	lift_op(l, UOP_OP_OR, WORD, zero, zero, lift_reg(carry), 0);
	lift_op(l, UOP_OP_FLAGS_SET, WORD, UOP_NONE, zero, lift_imm(UOP_STATUS), 0);
}

void lift_vector_test(struct lifter *l, unsigned arg)
{
	uint8_t spare, value, zero, carry;
	struct wide w;

	if (!wide_get(l, &w))
		return;
	spare = lift_temp(l);
	value = lift_temp(l);
	zero = lift_temp(l);
	carry = lift_temp(l);
	for (unsigned i = 0; i < w.words; i++) {
		struct lift_value second = lift_reg(word_get(l, &w, w.second, i, spare));
		uint8_t first = word_of(w.dst, i);

		lift_op(l, UOP_OP_AND, WORD, i ? value : zero, first, second, 0);
		if (i)
			lift_op(l, UOP_OP_OR, WORD, zero, zero, lift_reg(value), 0);
		lift_op(l, UOP_OP_ANDN, WORD, i ? value : carry, first, second, 0);
		if (i)
			lift_op(l, UOP_OP_OR, WORD, carry, carry, lift_reg(value), 0);
	}
	zero_and_carry(l, WORD, zero, carry);
}

/* --- Mask registers; arg has the size in bytes ------------------------------------------------ */

void lift_mask_move(struct lifter *l, unsigned size)
{
	const ZydisDecodedOperand *to = &l->operands[0], *from = &l->operands[1];
	uint8_t reg = is_mask(to) ? mask_reg(to) : UOP_NONE;
	struct uop access;

	if (to->type == ZYDIS_OPERAND_TYPE_MEMORY || from->type == ZYDIS_OPERAND_TYPE_MEMORY) {
		bool store = to->type == ZYDIS_OPERAND_TYPE_MEMORY;

		lift_address(l, store ? to : from, true, &access);
		access.op = store ? UOP_OP_STORE : UOP_OP_LOAD;
		access.size = size;
		access.dst = store ? mask_reg(from) : reg;
		lift_emit(l, access);
		return;
	}
	if (reg == UOP_NONE)
		reg = lift_gpr(to->reg.value);
	lift_mov(l, size, reg, lift_reg(is_mask(from) ? mask_reg(from) : lift_gpr(from->reg.value)),
		 0);
}

/* arg is the operation, and the size << LIFT_LANE_SHIFT, with LIFT_INVERTED for kxnor. */
void lift_mask_logic(struct lifter *l, unsigned arg)
{
	uint8_t dst = mask_reg(&l->operands[0]), a = mask_reg(&l->operands[1]),
		b = mask_reg(&l->operands[2]);
	unsigned op = arg & 0xff, size = arg >> LIFT_LANE_SHIFT & 15;
	bool inverted = arg & LIFT_INVERTED;

	if (a == b && (op == UOP_OP_XOR || op == UOP_OP_ANDN)) {
		lift_mov(l, size, dst, lift_imm(inverted ? -1 : 0), 0);
		return;
	}
	lift_op(l, op, size, dst, a, lift_reg(b), 0);
	if (inverted)
		lift_op(l, UOP_OP_XOR, size, dst, dst, lift_imm(-1), 0);
}

void lift_mask_not(struct lifter *l, unsigned size)
{
	lift_op(l, UOP_OP_XOR, size, mask_reg(&l->operands[0]), mask_reg(&l->operands[1]),
		lift_imm(-1), 0);
}

/* arg as for lift_mask_logic() */
void lift_mask_shift(struct lifter *l, unsigned arg)
{
	unsigned size = arg >> LIFT_LANE_SHIFT & 15, count = l->operands[2].imm.value.u & 0xff;

	if (count >= size * 8)
		lift_mov(l, WORD, mask_reg(&l->operands[0]), lift_imm(0), 0);
	else
		lift_op(l, arg & 0xff, size, mask_reg(&l->operands[0]), mask_reg(&l->operands[1]),
			lift_imm(count), 0);
}

/* kunpck: size is that of the halves. */
void lift_mask_join(struct lifter *l, unsigned size)
{
	uint8_t low = lift_temp(l), high = lift_temp(l);

	lift_mov(l, size, low, lift_reg(mask_reg(&l->operands[2])), 0);
	lift_mov(l, size, high, lift_reg(mask_reg(&l->operands[1])), 0);
	lift_op(l, UOP_OP_SHL, WORD, high, high, lift_imm(size * 8), 0);
	lift_op(l, UOP_OP_OR, WORD, mask_reg(&l->operands[0]), high, lift_reg(low), 0);
}

/* kortest; with LIFT_TEST ktest. */
void lift_mask_test(struct lifter *l, unsigned arg)
{
	uint8_t zero = lift_temp(l), carry = lift_temp(l), a = mask_reg(&l->operands[0]);
	struct lift_value b = lift_reg(mask_reg(&l->operands[1]));
	unsigned size = arg & 15;

	if (arg & LIFT_TEST) {
		lift_op(l, UOP_OP_AND, size, zero, a, b, 0);
		lift_op(l, UOP_OP_ANDN, size, carry, a, b, 0);
	} else {
		lift_op(l, UOP_OP_OR, size, zero, a, b, 0);
		lift_op(l, UOP_OP_XOR, size, carry, zero, lift_imm(-1), 0);
	}
	zero_and_carry(l, size, zero, carry);
}
