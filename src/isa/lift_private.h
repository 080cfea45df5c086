/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the files of the lifter: emitting micro-operations, and operands as places that are
 * read and written.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <Zydis/Zydis.h>

#include "wire/uop.h"

struct lifter {
	struct uop_block *block;
	const ZydisDecodedInstruction *insn;
	const ZydisDecodedOperand *operands;
	uint64_t pc; /* of the instruction, in the module */
	uint64_t next; /* of the one after it */
	uint8_t temps; /* in use by this instruction */
	bool ended; /* the block is */
	bool full; /* the instruction did not fit */
};

/* Operand b of a micro-operation. */
struct lift_value {
	bool is_imm;
	uint8_t reg;
	int64_t imm;
};

enum lift_place_kind {
	LIFT_REG,
	LIFT_REG_HIGH, /* ah, ch, dh, bh: reg is the whole register */
	LIFT_MEMORY,
};

/* An operand that can be written. */
struct lift_place {
	enum lift_place_kind kind;
	uint8_t size; /* bytes */
	uint8_t reg;
	struct uop address; /* a, b, scale and imm of memory */
};

typedef void lift_fn(struct lifter *l, unsigned arg);

struct lift_rule {
	lift_fn *lift;
	unsigned arg; /* an enum uop_op, a condition or what the function says */
};

enum {
	LIFT_SET = 1 << 24, /* with a flag, for lift_flag() */
	LIFT_HIGH = 1, /* a half, */
	LIFT_SECOND = 2, /* a source operand, and */
	LIFT_TO_HIGH =
		/*
		 * how far that is shifted for the high half of the destination:
		 * lift_vector_halves()
		 */
	2,
	LIFT_LANE_SHIFT = 8, /* lift_lanes() */
	LIFT_HIGH_LANES = 16, /* lift_interleave() */
	LIFT_INVERTED = 1 << 16, /* lift_mask_logic() */
	LIFT_TEST = 16, /* lift_mask_test() */
	LIFT_BYTES_LEFT = 0, /* lift_shift_bytes() */
	LIFT_BYTES_RIGHT,
	LIFT_BYTES_ALIGN,
	LIFT_STORE_HIGH = 1 << 8, /* lift_vector_half() */
};

/* The rule of a mnemonic; its function is NULL where there is none. */
struct lift_rule lift_rule_get(ZydisMnemonic mnemonic);

void lift_emit(struct lifter *l, struct uop uop);
uint8_t lift_temp(struct lifter *l);
struct lift_value lift_imm(int64_t imm);
struct lift_value lift_reg(uint8_t reg);
/* dst = a op b; flags are bits of enum uop_flag beside UOP_IMM. */
void lift_op(struct lifter *l, unsigned op, unsigned size, uint8_t dst, uint8_t a,
	     struct lift_value b, unsigned flags);
void lift_mov(struct lifter *l, unsigned size, uint8_t dst, struct lift_value value,
	      unsigned flags);
void lift_load(struct lifter *l, unsigned size, uint8_t dst, uint8_t base, int64_t offset);
void lift_store(struct lifter *l, unsigned size, uint8_t value, uint8_t base, int64_t offset);
/* reg += amount, flags untouched. */
void lift_move_by(struct lifter *l, uint8_t reg, int64_t amount);
void lift_jump(struct lifter *l, uint64_t target, unsigned flags);
void lift_give_up(struct lifter *l, unsigned end);

/*
 * Corrects an operand of [index*scale + disp32] that Zydis 4.0 takes for [r13d + index*scale]
 * (zyantific/zydis issue 592).
 */
void lift_repair(const ZydisDecodedInstruction *insn, ZydisDecodedOperand *operand);
bool lift_is_gpr(ZydisRegister reg);
uint8_t lift_gpr(ZydisRegister reg);
/* Whether each of the visible operands is a general register, memory or an immediate. */
bool lift_plain(const struct lifter *l);
unsigned lift_size(const struct lifter *l, unsigned operand);
/* UOP_MERGE where x86 leaves the rest of the register alone. */
unsigned lift_merge(unsigned size);
void lift_address(struct lifter *l, const ZydisDecodedOperand *operand, bool segment,
		  struct uop *ret);
struct lift_place lift_place(struct lifter *l, unsigned operand);
/* A register that holds what is in place; the place's own where it has one. */
uint8_t lift_get(struct lifter *l, const struct lift_place *place);
struct lift_value lift_source(struct lifter *l, unsigned operand);
uint8_t lift_source_reg(struct lifter *l, unsigned operand);
/* Computes into place: dst = a op b, then whatever brings it there. */
void lift_into(struct lifter *l, const struct lift_place *place, unsigned op, uint8_t a,
	       struct lift_value b, unsigned flags);
void lift_put(struct lifter *l, const struct lift_place *place, uint8_t reg);

/* lift_alu.c */
lift_fn lift_nop, lift_pause, lift_move, lift_move_extend, lift_lea, lift_binary, lift_compare,
	lift_unary, lift_not, lift_step, lift_add_carry, lift_widen, lift_widen_double,
	lift_exchange, lift_exchange_add, lift_compare_exchange, lift_compare_exchange_pair,
	lift_move_swapped, lift_swap, lift_table;
/* lift_bits.c */
lift_fn lift_shift, lift_shift_double, lift_shift_quiet, lift_multiply, lift_multiply_signed,
	lift_multiply_quiet, lift_divide, lift_bit, lift_scan, lift_bmi_binary;
/* lift_flow.c */
lift_fn lift_branch, lift_branch_count, lift_loop, lift_jmp, lift_call, lift_ret, lift_push,
	lift_pop, lift_leave, lift_enter, lift_setcc, lift_cmov, lift_push_flags, lift_pop_flags,
	lift_lahf, lift_sahf, lift_flag, lift_flip_carry, lift_outside, lift_end;
/* lift_vector.c */
lift_fn lift_vector_low, lift_vector_scalar, lift_vector_halves, lift_vector_half, lift_movsd,
	lift_cmpsd;
/* lift_lanes.c */
lift_fn lift_shuffle, lift_shuffle_halves, lift_shuffle_words, lift_duplicate, lift_interleave,
	lift_extract, lift_insert, lift_shift_lanes, lift_shift_bytes, lift_compare_floats;
/* lift_wide.c */
lift_fn lift_vector_move, lift_vector_logic, lift_lanes, lift_signs, lift_ternary, lift_broadcast,
	lift_zero_upper, lift_vector_compare, lift_greater, lift_vector_test_lanes,
	lift_vector_test, lift_mask_move, lift_mask_logic, lift_mask_not, lift_mask_shift,
	lift_mask_join, lift_mask_test;
/* Clears the rest of the vector that an instruction with VEX or EVEX writes. */
void lift_upper_clear(struct lifter *l);
/* lift_other.c */
lift_fn lift_string, lift_opaque, lift_base_read, lift_base_write;
/* An instruction without a rule: opaque if it is known to do nothing but what its operands say. */
void lift_unruled(struct lifter *l);
