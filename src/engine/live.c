// SPDX-License-Identifier: BSD-2-Clause
/*
 * Which of the program's flags matter at a place. Flags that are written before they are read can be used by code that
 * is put in front.
 *
 * That is a promise about code which is not part of the fragment at hand and could change without it. So it is given only
 * for memory that is mapped from a file and cannot be written.
 */
#include "engine/build.h"

enum { LOOK_AHEAD = 12, INSTRUCTION_BYTES = 15 };

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

static bool decode_at(uint64_t pc, ZydisDecodedInstruction *ret)
{
	const struct region *region = region_of(pc);
	uint64_t size = INSTRUCTION_BYTES;

	if (!region || !region->readable || region_is_unstable(region) || !region->inode)
		return false;
	if (region->end - pc < size)
		size = region->end - pc;
	return instruction_decode((const uint8_t *)pc, size, ret);
}

bool flags_dead_at(uint64_t pc)
{
	ZydisAccessedFlagsMask written = 0;
	ZydisDecodedInstruction insn;

	for (int i = 0; i < LOOK_AHEAD && pc; i++, pc = next_of(pc, &insn)) {
		const ZydisAccessedFlags *flags;

		if (!decode_at(pc, &insn))
			return false;
		flags = insn.cpu_flags;
		if (!flags)
			continue;
		if (flags->tested & status & ~written)
			return false;
		if (is_sometimes(&insn))
			continue;
		written |= flags->modified | flags->set_0 | flags->set_1 | flags->undefined;
		if ((written & status) == status)
			return true;
	}
	return false;
}
