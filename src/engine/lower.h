/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files share that make machine code of lists. */
#pragma once

#include "engine/build.h"

enum {
	LOWER_OPERANDS = ZYDIS_MAX_OPERAND_COUNT,
	LOWER_JUMPS_MAX = 8, /* conditions of a unit */
};

struct lowering {
	struct build *build;
	const struct place *place;
	const struct inserted *list;
	unsigned kinds; /* of operations that there are, a bit each */
	unsigned avoided; /* registers whose values operations name */
	unsigned saved; /* registers that are in their slots */
	bool flags_free; /* may be changed */
	bool flags_saved;
	/* registers that an operand names may have been used since the list began */
	bool touched;
	unsigned scratch; /* a register besides those of the language */
	unsigned registers[INLINE_REGISTERS]; /* which they are here */
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand operands[LOWER_OPERANDS]; /* only if an address is asked for */
	uint8_t *jumps[LOWER_JUMPS_MAX]; /* displacements that lead behind the unit */
	unsigned jump_count;
};

/* The state, if all units of the list have happened; 0: there is another one to come. */
static inline unsigned lower_all_told(const struct build *build)
{
	return build->told == build->units ? STATE_TOLD : 0;
}

/* --- lower.c ----------------------------------------------------------------------------- */
/* The state from here on. */
void lower_here(const struct lowering *lowering);
/* modrm for a displacement of 32 bits from a register. */
void put_based(struct build *build, unsigned reg, unsigned base, int32_t displacement);
/* lea displacement(from), to: an addition without flags. */
void put_number(struct build *build, unsigned reg, uint64_t value);
void put_add(struct build *build, unsigned to, unsigned from, int32_t displacement);
void lower_register_save(struct lowering *lowering, unsigned reg);
/* One that is dead, or else one that is saved; taken: not these. */
unsigned lower_register_take(struct lowering *lowering, unsigned taken);
/* The program's flags, to and from their slot; rax is in its own meanwhile. */
void lower_flags_save(struct lowering *lowering);
void lower_flags_restore(struct lowering *lowering);
/* The address of an operand in memory. */
void lower_address(struct lowering *lowering, unsigned to, int32_t number);
/* A jump behind the unit, by condition code. */
void lower_jump_out(struct lowering *lowering, unsigned condition);
/* An instruction with two registers. */
void put_reg_reg(struct build *build, unsigned opcode, unsigned reg, unsigned rm);
/* An operation INLINE_CALL. */
void lower_call(struct lowering *lowering, const struct inline_op *op);

/* --- Ways: lower_calls.c ------------------------------------------------------------------ */
/* Jumps to the slow way, and over it. */
struct ways {
	uint8_t *slow[5];
	unsigned count;
	uint8_t *over;
};

/* Condition codes. */
enum { JUMP_NOT_BELOW = 3, JUMP_EQUAL, JUMP_DIFFERENT, JUMP_NOT_ABOVE, JUMP_ABOVE };

/* An instruction with an operand in memory, of 64 bits or of 32. */
void put_with(struct build *build, unsigned opcode, unsigned reg, unsigned base,
	      int32_t displacement, bool wide);
void put_slow_if(struct build *build, struct ways *ways, unsigned condition);
/* The slow way begins, and ends. */
void put_slow(struct build *build, struct ways *ways);
void put_over(struct build *build, const struct ways *ways);
/* The time stamp counter to rax; rdx is changed. */
void put_now(struct build *build);

/* --- lower_marks.c ------------------------------------------------------------------------ */
void lower_timer_begin(struct lowering *lowering, const struct inline_op *op);
void lower_timer_end(struct lowering *lowering, const struct inline_op *op);
void lower_touch(struct lowering *lowering, const struct inline_op *op);
/* Whether it changes flags before it has found something. */
bool lower_touch_wants_flags(void);

/* --- lower_calls.c ----------------------------------------------------------------------- */
/* Saves what time stamps take. */
void lower_charge_begin(struct lowering *lowering);
void lower_charge(struct lowering *lowering, const struct inline_op *op);
void lower_enter(struct lowering *lowering, const struct inline_op *op);
void lower_leave(struct lowering *lowering, const struct inline_op *op);
