/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files that lift vector instructions share. */
#pragma once

#include "isa/lift_private.h"

enum {
	HALF_BYTES = 8,
	HALF_TO_HIGH = UOP_VECTOR_STEP, /* from the number of a low half to that of the high one */
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

/*
 * Takes the operands apart. An instruction whose form is not followed is lifted as opaque: false.
 */
bool vector_insn_get(struct lifter *l, struct vector_insn *ret);
bool vector_is(const ZydisDecodedOperand *operand);
uint8_t vector_low(const ZydisDecodedOperand *operand);
uint8_t vector_high(const ZydisDecodedOperand *operand);
/* The number of bytes of the register that are modelled. */
unsigned vector_bytes(const ZydisDecodedOperand *operand);
struct vector_source vector_source(struct lifter *l, const ZydisDecodedOperand *operand);
/* Registers that hold the two halves of an operand: its own, or temporaries. */
void vector_registers(struct lifter *l, const ZydisDecodedOperand *operand, uint8_t ret[2]);

struct half half_imm(int64_t imm);
struct half half_reg(uint8_t reg);
/* The low (0) or high (1) half of a source, or the first size bytes of it. */
struct half half_of(const struct vector_source *source, unsigned high, unsigned size);
void half_put(struct lifter *l, uint8_t dst, const struct half *half);
/* Both halves, as if at once. */
void vector_put(struct lifter *l, const ZydisDecodedOperand *dst, struct half low,
		struct half high);
