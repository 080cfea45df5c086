/* SPDX-License-Identifier: BSD-2-Clause */
/* How an instruction that addresses memory through gs is done in the cache; gs.c has the theory. */
#pragma once

#include <Zydis/Zydis.h>

#include "engine/engine.h"

/* lea operand, %register */
struct gs_lea {
	uint8_t bytes[12];
	uint8_t length;
	bool relative; /* the last four bytes count from the program's next instruction */
	int64_t displacement; /* the operand's */
};

struct gs_plan {
	uint8_t x, y; /* registers: of the address, of the base */
	struct gs_lea lea; /* to x */
	uint8_t insn[16]; /* with (x) as its operand */
	uint8_t insn_length;
};

/* The address of an operand in memory, without the base of its segment. */
void operand_lea(const ZydisDecodedInstruction *insn, const ZydisDecodedOperand *operand,
		 unsigned to, struct gs_lea *ret);
/* As in enum register_number; below 0: not a general one. */
int register_number(ZydisRegister reg);
/*
 * Within guarded_call(). False: it has no plain operand in memory, or is one of those for which
 * that is not enough.
 */
bool gs_plan(const ZydisDecoder *decoder, const uint8_t *code, size_t length, struct gs_plan *ret);
/* The operand of an indirect jump or call, to rdx. */
bool gs_target(const ZydisDecoder *decoder, const uint8_t *code, size_t length, struct gs_lea *ret);
