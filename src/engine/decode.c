// SPDX-License-Identifier: BSD-2-Clause
/*
 * Decoding of the program's code, with Zydis. Only within guarded_call(): Zydis uses vector
 * registers and looks for a stack canary.
 *
 *	in	bytes of the program
 *	out	a decoded instruction, and which operands are in memory
 *	owner	nobody: it is a call of translate.c and of what it uses
 */
#include "engine/build.h"

static ZydisDecoder decoder;
static bool decoder_ready;
static bool is_amd; /* the processor's branches may be 16 bits wide */

static void decoder_init(void)
{
	uint32_t a = 0, b, c = 0, d;

	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	is_amd = b == 0x68747541 || b == 0x6f677948; /* "Auth", "Hygo" */
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	ZydisDecoderEnableMode(&decoder, ZYDIS_DECODER_MODE_AMD_BRANCHES, is_amd);
	decoder_ready = true;
}

const ZydisDecoder *instruction_decoder(void)
{
	if (!decoder_ready)
		decoder_init();
	return &decoder;
}

bool decoder_is_amd(void)
{
	return is_amd;
}

bool instruction_decode(const uint8_t *code, size_t size, ZydisDecodedInstruction *ret)
{
	return size && ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(instruction_decoder(), NULL, code,
								  size, ret));
}

bool instruction_decode_full(const uint8_t *code, size_t size, ZydisDecodedInstruction *ret,
			     ZydisDecodedOperand *operands)
{
	return size && ZYAN_SUCCESS(ZydisDecoderDecodeFull(instruction_decoder(), code, size, ret,
							   operands));
}

/*
 * Copies the program's code, as far as it is there. Translating back, what was there when it was
 * translated.
 */
size_t code_copy(const struct build *build, uint8_t *ret, size_t size)
{
	const struct fragment *fragment = build->fragment;
	const struct block *block = &fragment->blocks[build->block];
	const uint8_t *from = (const uint8_t *)build->pc;
	uint64_t end = build->back ? block->pc + block->length : build->stop;

	if (!build->back && !build->stop)
		return code_read(build->pc, ret, size);
	if (fragment->bytes) {
		from = fragment->bytes + (build->pc - block->pc);
		for (unsigned i = 0; i < build->block; i++)
			from += fragment->blocks[i].length;
	}
	if (end - build->pc < size)
		size = end - build->pc;
	return memory_copy(ret, from, size);
}

bool insert_is_access(const ZydisDecodedInstruction *insn, const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
	       operand->mem.type == ZYDIS_MEMOP_TYPE_MEM && operand->actions &&
	       insn->mnemonic != ZYDIS_MNEMONIC_NOP;
}

bool insert_is_pushed(const ZydisDecodedInstruction *insn, const ZydisDecodedOperand *operand)
{
	return (insn->meta.category == ZYDIS_CATEGORY_PUSH ||
		insn->meta.category == ZYDIS_CATEGORY_CALL) &&
	       operand->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN;
}
