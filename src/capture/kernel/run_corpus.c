// SPDX-License-Identifier: BSD-2-Clause
/*
 * Random bytes below a table of opcode maps: most widths, prefixes and addressing modes come up.
 * What the lifter gives up on is seldom let through.
 */
#include "capture/kernel/run_corpus.h"

#include <string.h>

#include "isa/lift.h"
#include "isa/lift_private.h"

enum {
	DATA_MIDDLE = BENCH_DATA_SIZE / 2,
	GIVE_UP_KEPT = 64, /* one of so many */
	CODE_BYTES = 16,
	WORDS_CHANGED = 32,
};

uint64_t corpus_random(struct run_corpus *corpus)
{
	corpus->random = corpus->random * 6364136223846793005ull + 1442695040888963407ull;
	return hash64(corpus->random);
}

uint64_t corpus_value(struct run_corpus *corpus)
{
	static const uint64_t edges[] = {
		0,	1,	    2,		0x7f,	    0x80,	 0xff,	    0x7fff,
		0x8000, 0xffff,	    0x7fffffff, 0x80000000, 0xffffffff,	 INT64_MAX, 1ull << 63,
		16,	UINT64_MAX, 0xff00ff00, 0x123456ab, 0x100000000,
	};
	uint64_t random = corpus_random(corpus);

	switch (random & 7) {
	case 0:
	case 1:
	case 2:
		return edges[(random >> 8) % (sizeof(edges) / sizeof(edges[0]))];
	case 3:
		return random >> 8 & 0xff;
	case 4:
		return BENCH_DATA + (random >> 8) % BENCH_DATA_SIZE;
	default:
		return corpus_random(corpus);
	}
}

void corpus_state(struct run_corpus *corpus, struct run_bench *bench)
{
	struct run_test *test = bench->test;

	for (unsigned i = 0; i < UOP_REGISTERS; i++)
		test->regs[i] = corpus_value(corpus);
	for (unsigned i = UOP_RSP; i <= UOP_RDI; i++)
		test->regs[i] = BENCH_DATA + DATA_MIDDLE + corpus_random(corpus) % 1024;
	test->regs[UOP_FS_BASE] = corpus_random(corpus) % 4096;
	test->regs[UOP_GS_BASE] = corpus_random(corpus) % 4096;
	test->regs[UOP_BIAS] = 0;
	memset(test->unknown, 0, sizeof(test->unknown));
	for (unsigned i = UOP_VECTORS; i < UOP_VECTORS_END; i++)
		test->unknown[i] = corpus_random(corpus) % 4 ? 0 : corpus_random(corpus);
	if (corpus_random(corpus) % 4 == 0)
		test->unknown[corpus_random(corpus) % 16] = UOP_UNKNOWN;
	test->rflags = (corpus_random(corpus) & (UOP_STATUS | UOP_DF)) | UOP_IF | 2;
	for (unsigned i = 0; i < WORDS_CHANGED; i++) {
		uint64_t value = corpus_value(corpus);

		memcpy(bench->data + DATA_MIDDLE + corpus_random(corpus) % 8192, &value, 8);
	}
}

/*
 * --- Bytes ---------------------------------------------------------------------------------------
 */

static void make_general(uint64_t random, uint8_t code[CODE_BYTES])
{
	static const uint8_t prefixes[] = { 0x66, 0xf2, 0xf3, 0xf0, 0x64, 0x65, 0x67 };
	int used = 0;

	for (int i = 0; i < 7; i++)
		if ((random >> (8 + 4 * i) & 15) < (i < 3 ? 3 : 1))
			code[used++] = prefixes[i];
	if (random >> 40 & 1)
		code[used++] = 0x40 | (random >> 41 & 15);
	if (random >> 45 & 1) {
		code[used++] = 0x0f;
		if ((random >> 46 & 15) == 0) {
			code[used++] = 0x38;
			code[used] = random >> 50 & 1 ? 0xf6 : 0xf0 | (random >> 51 & 1);
		}
	}
}

/* bmi1 and bmi2. */
static void make_bmi(uint64_t random, uint8_t code[CODE_BYTES])
{
	static const uint8_t opcodes[] = { 0xf2, 0xf3, 0xf5, 0xf6, 0xf7, 0xf0 };
	bool third = random >> 8 & 1;

	code[0] = 0xc4;
	code[1] = (code[1] & 0xe0) | (third ? 3 : 2);
	code[2] &= ~4;
	code[3] = third ? 0xf0 : opcodes[(random >> 16) % sizeof(opcodes)];
}

static void make_vector(uint64_t random, uint8_t code[CODE_BYTES])
{
	static const uint8_t prefixes[] = { 0x66, 0x66, 0xf3, 0xf2 };
	static const uint8_t third[] = { 0x0f, 0x14, 0x15, 0x16, 0x22 };
	unsigned map = random >> 8 & 7 ? 1 : 2 + (random >> 11 & 1);
	uint8_t opcode = map == 1   ? random >> 16
			 : map == 2 ? 0x29 + (random >> 16 & 1)
				    : third[(random >> 16) % sizeof(third)];
	int used = 0;

	if (random >> 24 & 1) {
		code[used++] = 0xc4;
		code[used++] = (random >> 25 & 0xe0) | map;
		code[used++] = (random >> 33 & 0x83) |
			       (random >> 41 & 1 ? 0x78 : random >> 42 & 0x78) |
			       (random >> 50 & 3 ? 0 : 4);
	} else {
		if (random >> 25 & 7)
			code[used++] = prefixes[random >> 28 & 3];
		if (random >> 30 & 1)
			code[used++] = 0x40 | (random >> 31 & 15);
		code[used++] = 0x0f;
		if (map != 1)
			code[used++] = map == 2 ? 0x38 : 0x3a;
	}
	code[used++] = opcode;
	if (random >> 52 & 1)
		code[used] |= 0xc0;
}

/* Vectors of any length under masks, masks, and what clears vectors. */
static void make_wide(uint64_t random, uint8_t code[CODE_BYTES])
{
	static const uint8_t opcodes[][2] = {
		{ 1, 0x6f }, { 1, 0x7f }, { 1, 0x74 }, { 1, 0x66 }, { 1, 0xde }, { 1, 0xda },
		{ 2, 0x26 }, { 3, 0x1e }, { 3, 0x1f }, { 3, 0x3e }, { 3, 0x3f }, { 3, 0x25 },
	};
	const uint8_t *chosen = opcodes[random % (sizeof(opcodes) / sizeof(opcodes[0]))];

	if (random >> 8 & 3) {
		code[0] = 0x62;
		code[1] = (random >> 12 & 0xf0) | chosen[0];
		code[2] = (random >> 20 & 0xfc) | 5;
		code[3] = (random >> 32 & 0xef) & ~0x10;
		code[4] = chosen[1];
	} else if (random >> 10 & 1) {
		code[0] = 0xc5; /* vzeroupper, vzeroall */
		code[1] = random >> 11 & 1 ? 0xf8 : 0xfc;
		code[2] = 0x77;
	} else {
		code[0] = 0xc4; /* kand to kxor, kunpck */
		code[1] = 0xe1;
		code[2] = (random >> 16 & 0x80) | 0x44 | (random >> 24 & 0x39);
		code[3] = 0x41 + (random >> 32 & 7);
		code[4] |= 0xc0;
	}
}

static void make_bytes(struct run_corpus *corpus, uint8_t code[CODE_BYTES])
{
	uint64_t random = corpus_random(corpus);

	for (int i = 0; i < CODE_BYTES; i++)
		code[i] = corpus_random(corpus) >> 13;
	if (random % 16 == 0)
		make_bmi(corpus_random(corpus), code);
	else if (random % 16 == 1)
		make_wide(corpus_random(corpus), code);
	else if (random % 16 < 6)
		make_vector(corpus_random(corpus), code);
	else
		make_general(corpus_random(corpus), code);
}

/* --- Operands --------------------------------------------------------------------------------- */

/*
 * Changes registers, or the displacement in the code, so that the operand's address lies within the
 * data.
 */
static void aim(struct run_corpus *corpus, uint64_t *regs, const ZydisDecodedInstruction *insn,
		const ZydisDecodedOperandMem *mem, uint64_t pc, uint8_t *code)
{
	uint64_t target = BENCH_DATA + DATA_MIDDLE + corpus_random(corpus) % 4096;
	uint64_t scale = mem->scale ? mem->scale : 1, place = target - (uint64_t)mem->disp.value;
	uint64_t index = corpus_random(corpus) % 128 - 64;
	bool has_base = lift_is_gpr(mem->base), has_index = lift_is_gpr(mem->index);
	int32_t disp = (int32_t)target;

	if (has_base && has_index && lift_gpr(mem->base) == lift_gpr(mem->index)) {
		regs[lift_gpr(mem->base)] = place / (scale + 1);
	} else if (has_base) {
		if (has_index)
			regs[lift_gpr(mem->index)] = index;
		regs[lift_gpr(mem->base)] = place - (has_index ? index * scale : 0);
	} else if (has_index) {
		regs[lift_gpr(mem->index)] = place / scale;
	} else if (insn->raw.disp.size == 32) {
		if (mem->base == ZYDIS_REGISTER_RIP || mem->base == ZYDIS_REGISTER_EIP)
			disp = (int32_t)(target - (pc + insn->length));
		memcpy(code + insn->raw.disp.offset, &disp, sizeof(disp));
	}
}

/* Values without which an instruction would seldom do what it is for. */
static void tame(struct run_corpus *corpus, uint64_t *regs, const ZydisDecodedInstruction *insn,
		 const ZydisDecodedOperand *operands)
{
	uint64_t random = corpus_random(corpus);

	if (insn->meta.category == ZYDIS_CATEGORY_STRINGOP)
		regs[UOP_RCX] = random % (UOP_AGAIN_MAX + 4);
	if (insn->meta.category == ZYDIS_CATEGORY_COND_BR && random & 1)
		regs[UOP_RCX] = random >> 1 & 3;
	if ((insn->mnemonic == ZYDIS_MNEMONIC_DIV || insn->mnemonic == ZYDIS_MNEMONIC_IDIV) &&
	    random % 4)
		regs[UOP_RDX] = random % 4 == 1 ? 0 : random % 4 == 2 ? UINT64_MAX : random >> 40;
	if (insn->mnemonic >= ZYDIS_MNEMONIC_BT && insn->mnemonic <= ZYDIS_MNEMONIC_BTS &&
	    operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER && lift_is_gpr(operands[1].reg.value))
		regs[lift_gpr(operands[1].reg.value)] = random % 32768 - 16384;
	if (insn->mnemonic == ZYDIS_MNEMONIC_CMPXCHG && random & 1)
		regs[UOP_RAX] = regs[lift_gpr(operands[1].reg.value)];
}

static bool is_wanted(struct run_corpus *corpus, const struct uop_block *block, bool straight)
{
	const struct uop *last = &block->uops[block->count - 1];

	for (unsigned i = 0; i < block->count; i++)
		if (block->uops[i].op == UOP_OP_GIVE_UP &&
		    (straight || corpus_random(corpus) % GIVE_UP_KEPT))
			return false;
	return !straight ||
	       (last->op == UOP_OP_JUMP && (uint64_t)last->imm == block->pc + block->length);
}

/* Lifts the instruction alone; false if it is not to be run. */
static bool check(struct run_corpus *corpus, const uint8_t *code, unsigned length, bool straight)
{
	struct uop_block block;

	lift_block(code, length, 0, &block);
	if (!is_wanted(corpus, &block, straight))
		return false;
	for (unsigned i = 0; i < block.count; i++)
		corpus->used[block.uops[i].op]++;
	return true;
}

unsigned corpus_instruction(struct run_corpus *corpus, struct run_bench *bench, uint64_t pc,
			    bool straight)
{
	uint8_t *code = bench->code + (pc - BENCH_CODE);
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction insn;
	ZydisDecoder decoder;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	do {
		make_bytes(corpus, code);
	} while (!ZYAN_SUCCESS(
			 ZydisDecoderDecodeFull(&decoder, code, CODE_BYTES, &insn, operands)) ||
		 !check(corpus, code, insn.length, straight));
	for (int i = 0; i < insn.operand_count; i++)
		lift_repair(&insn, &operands[i]);
	tame(corpus, (uint64_t *)bench->test->regs, &insn, operands);
	for (int i = 0; i < insn.operand_count_visible; i++)
		if (operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY)
			aim(corpus, (uint64_t *)bench->test->regs, &insn, &operands[i].mem, pc,
			    code);
	return insn.length;
}
