/* SPDX-License-Identifier: BSD-2-Clause */
/* The source operands of an instruction: which registers and constants it reads, in which order. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { OPERANDS_MAX = 4 };

enum operand_kind {
	OPERAND_REGISTER, /* one of enum uop_register; of a vector its lowest word */
	OPERAND_REGISTER_HIGH, /* ah, ch, dh, bh */
	OPERAND_CONSTANT,
	OPERAND_MEMORY, /* what the instruction loads; the first such operand first */
};

struct operand {
	uint8_t kind; /* enum operand_kind */
	uint8_t size; /* bytes, 1 to 8 */
	uint8_t reg;
	int64_t constant;
};

/* Of an instruction. */
struct operands {
	uint8_t count;
	struct operand items[OPERANDS_MAX];
};

/*
 * First the explicit ones, in Intel's order, then those that the instruction implies (rax and rdx
 * of div). Flags, the stack pointer of push and pop, and the registers of an address do not count.
 * If the bytes are no instruction, there are none.
 */
void operands_of(const void *code, size_t size, struct operands *ret);
