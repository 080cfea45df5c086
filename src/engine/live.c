// SPDX-License-Identifier: BSD-2-Clause
/*
 * Liveness of the program's flags and registers at a place. Those that are dead, that is, written
 * before they are read, can be used by code that is inserted in front.
 *
 * This looks at code that is not part of the fragment and could change without it. So it is given
 * only for memory that is mapped from a file and cannot be written.
 *
 * A signal that arrives in between shows such a register with a value that is not the program's. A
 * fault must not do so, because its handler may go on elsewhere: a register counts as written only
 * if no memory that might be unmapped was accessed before. The only exception is the register that
 * the faulting instruction itself would have loaded.
 */
#include "engine/build.h"
#include "engine/gs.h"
#include "engine/translations.h"

enum {
	LOOK_AHEAD = 12,
	MEMO_BITS = 12,
	MEMOS = 1 << MEMO_BITS,
	INSTRUCTION_BYTES = 15,
	/*
	 * Registers that the calling convention does not preserve, so that no landing pad of an
	 * exception reads them.
	 */
	SCRATCH_REGISTERS = 1 << RAX | 1 << RCX | 1 << RDX | 1 << RSI | 1 << RDI | 1 << R8 |
			    1 << R9 | 1 << R10 | 1 << R11,
};

static const ZydisAccessedFlagsMask status = ZYDIS_CPUFLAG_CF | ZYDIS_CPUFLAG_PF |
					     ZYDIS_CPUFLAG_AF | ZYDIS_CPUFLAG_ZF |
					     ZYDIS_CPUFLAG_SF | ZYDIS_CPUFLAG_OF;

/* With a count of zero these leave the flags alone. */
static bool is_sometimes(const ZydisDecodedInstruction *insn)
{
	switch (insn->meta.category) {
	case ZYDIS_CATEGORY_SHIFT:
	case ZYDIS_CATEGORY_ROTATE:
	case ZYDIS_CATEGORY_STRINGOP:
		return true;
	default:
		return false;
	}
}

/* Where control goes on; 0: not known, or not only there. */
static uint64_t next_of(uint64_t pc, const ZydisDecodedInstruction *insn)
{
	uint64_t next = pc + insn->length;

	switch (insn->meta.category) {
	case ZYDIS_CATEGORY_UNCOND_BR:
	case ZYDIS_CATEGORY_CALL:
		return insn->raw.imm[0].is_relative ? next + (uint64_t)insn->raw.imm[0].value.s : 0;
	case ZYDIS_CATEGORY_COND_BR:
	case ZYDIS_CATEGORY_RET:
	case ZYDIS_CATEGORY_SYSCALL:
	case ZYDIS_CATEGORY_INTERRUPT:
	case ZYDIS_CATEGORY_SYSTEM:
		return 0;
	default:
		return next;
	}
}

struct decoded {
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

static bool decode_at(uint64_t pc, struct decoded *ret)
{
	const struct region *region = region_of(pc);
	uint8_t code[INSTRUCTION_BYTES];

	if (!region || !region->readable || region_is_changing(region) || !region->inode)
		return false;
	if (!instruction_decode_full(code, code_read(pc, code, sizeof(code)), &ret->insn,
				     ret->operands)) {
		translator_refuse();
		return false;
	}
	if (translator_runs)
		translator_range(pc, ret->insn.length);
	return true;
}

/* --- Flags ------------------------------------------------------------------------------- */

struct flags {
	ZydisAccessedFlagsMask written;
	bool read; /* one that was not written before */
	bool dead;
};

static void flags_follow(const ZydisDecodedInstruction *insn, struct flags *flags)
{
	const ZydisAccessedFlags *these = insn->cpu_flags;

	if (!these || flags->dead)
		return;
	flags->read = these->tested & status & ~flags->written;
	if (!is_sometimes(insn))
		flags->written |= these->modified | these->set_0 | these->set_1 | these->undefined;
	flags->dead = !flags->read && (flags->written & status) == status;
}

/* --- Registers --------------------------------------------------------------------------- */

struct registers {
	unsigned live; /* a bit for each: read, or never to be used */
	unsigned dead; /* a bit for each: written before it was read */
	unsigned scratch; /* the first of those; SCRATCH_NONE: none so far */
};

static unsigned register_bit(ZydisRegister reg)
{
	int number = register_number(reg);

	return number < 0 ? 0 : 1u << number;
}

static unsigned operand_registers(const ZydisDecodedOperand *operand)
{
	switch (operand->type) {
	case ZYDIS_OPERAND_TYPE_MEMORY:
		return register_bit(operand->mem.base) | register_bit(operand->mem.index);
	case ZYDIS_OPERAND_TYPE_REGISTER:
		return register_bit(operand->reg.value);
	default:
		return 0;
	}
}

/*
 * Others may read registers that are not among their operands: in is how a guest talks to VMware,
 * clzero has an address in rax.
 */
static bool is_plain(const ZydisDecodedInstruction *insn)
{
	switch (insn->meta.category) {
	case ZYDIS_CATEGORY_AVX:
	case ZYDIS_CATEGORY_AVX2:
	case ZYDIS_CATEGORY_BINARY:
	case ZYDIS_CATEGORY_BITBYTE:
	case ZYDIS_CATEGORY_CALL:
	case ZYDIS_CATEGORY_CMOV:
	case ZYDIS_CATEGORY_CONVERT:
	case ZYDIS_CATEGORY_DATAXFER:
	case ZYDIS_CATEGORY_LOGICAL:
	case ZYDIS_CATEGORY_LOGICAL_FP:
	case ZYDIS_CATEGORY_POP:
	case ZYDIS_CATEGORY_PUSH:
	case ZYDIS_CATEGORY_ROTATE:
	case ZYDIS_CATEGORY_SETCC:
	case ZYDIS_CATEGORY_SHIFT:
	case ZYDIS_CATEGORY_SSE:
	case ZYDIS_CATEGORY_STRINGOP:
	case ZYDIS_CATEGORY_UNCOND_BR:
		return true;
	default:
		return insn->mnemonic == ZYDIS_MNEMONIC_LEA ||
		       insn->mnemonic == ZYDIS_MNEMONIC_ENDBR64;
	}
}

/* It may name an address, and does nothing with it. */
static bool is_nop(const ZydisDecodedInstruction *insn)
{
	return insn->mnemonic == ZYDIS_MNEMONIC_NOP;
}

/* Memory that may not be there; the stack and what is addressed relative to rip is. */
static bool is_memory(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
	       operand->mem.type != ZYDIS_MEMOP_TYPE_AGEN &&
	       operand->mem.base != ZYDIS_REGISTER_RSP && operand->mem.base != ZYDIS_REGISTER_RIP;
}

/*
 * The number of operands, from the first on, that are registers which the instruction overwrites
 * completely. Only for instructions of which that is certain: cmov, bsf of 0 and writes of 8 or 16
 * bits may keep a part of the old value.
 */
static unsigned operands_lost(const struct decoded *decoded)
{
	const ZydisDecodedOperand *to = &decoded->operands[0], *from = &decoded->operands[1];

	if (to->type != ZYDIS_OPERAND_TYPE_REGISTER || to->size < 32)
		return 0;
	switch (decoded->insn.mnemonic) {
	case ZYDIS_MNEMONIC_MOV:
	case ZYDIS_MNEMONIC_MOVZX:
	case ZYDIS_MNEMONIC_MOVSX:
	case ZYDIS_MNEMONIC_MOVSXD:
	case ZYDIS_MNEMONIC_LEA:
	case ZYDIS_MNEMONIC_POP:
		return 1;
	case ZYDIS_MNEMONIC_XOR:
	case ZYDIS_MNEMONIC_SUB:
		return from->type == ZYDIS_OPERAND_TYPE_REGISTER && from->reg.value == to->reg.value
			       ? 2
			       : 0;
	default:
		return 0;
	}
}

static void registers_follow(const struct decoded *decoded, struct registers *registers)
{
	unsigned lost = operands_lost(decoded), written = 0;
	bool ends = !is_plain(&decoded->insn);

	if (is_nop(&decoded->insn))
		return;
	for (unsigned i = 0; i < decoded->insn.operand_count; i++) {
		unsigned named = operand_registers(&decoded->operands[i]);

		if (i < lost)
			written |= named;
		else
			registers->live |= named;
		ends |= is_memory(&decoded->operands[i]);
	}
	written &= ~registers->live;
	if (written && registers->scratch == SCRATCH_NONE)
		registers->scratch = (unsigned)__builtin_ctz(written);
	registers->dead |= written;
	if (ends)
		registers->live = ~0u;
}

/* --- Answers that were given -------------------------------------------------------------- */

/*
 * Many segments end at the same place, and each that is made anew asks again. Decoding what follows
 * there takes more time than the rest of a short fragment.
 */
static struct memo {
	uint64_t pc;
	uint64_t age; /* valid if it is that of all */
	struct dead dead;
} memos[MEMOS];
static uint64_t age = 1;

/* --- Both -------------------------------------------------------------------------------- */

/* all: does not stop when flags and one dead register are known. */
static void look(uint64_t pc, bool all, struct dead *ret)
{
	struct registers registers = { .live = ~(unsigned)SCRATCH_REGISTERS,
				       .scratch = SCRATCH_NONE };
	struct flags flags = {};
	struct decoded decoded;

	for (int i = 0; i < LOOK_AHEAD && pc && (all || !flags.read); i++) {
		if (!all && flags.dead && registers.scratch != SCRATCH_NONE)
			break;
		if ((registers.live == ~0u && (flags.dead || flags.read)) ||
		    !decode_at(pc, &decoded))
			break;
		if (!flags.read)
			flags_follow(&decoded.insn, &flags);
		registers_follow(&decoded, &registers);
		pc = next_of(pc, &decoded.insn);
	}
	ret->flags = flags.dead;
	ret->scratch = flags.dead ? registers.scratch : SCRATCH_NONE;
	ret->registers = registers.dead;
}

void dead_at(uint64_t pc, struct dead *ret)
{
	struct memo *memo = &memos[(pc ^ pc >> MEMO_BITS) % MEMOS];

	if (memo->age != age || memo->pc != pc || translator_runs) {
		memo->age = 0; /* a fault of the engine may come in between */
		look(pc, false, &memo->dead);
		memo->pc = pc;
		memo->age = age;
	}
	*ret = memo->dead;
}

void dead_forget(void)
{
	age++;
}

void dead_all_at(uint64_t pc, struct dead *ret)
{
	look(pc, true, ret);
}
