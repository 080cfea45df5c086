/* SPDX-License-Identifier: BSD-2-Clause */
/* The operations of the inline language (tool.h) in the engine's representation. */
#pragma once

#include "engine/tool.h"

enum inline_kind {
	/* Values, to a register of the language. */
	INLINE_CONST, /* value, with its sign */
	/* follows: value in the upper half, what was there before without its sign in the lower */
	INLINE_CONST_HIGH,
	INLINE_GENERAL,
	INLINE_ADDRESS,
	INLINE_TARGET,
	INLINE_ADD,
	INLINE_SUM,
	INLINE_COMPLEMENT,
	INLINE_AND,
	INLINE_SHIFT,
	INLINE_LOAD,
	INLINE_LOAD_AT,
	/* Conditions. */
	INLINE_GATE,
	INLINE_ONLY_IF, /* size: enum inline_condition */
	INLINE_TAKEN, /* size: the branch's condition, as it is encoded */
	/* Ends of units. */
	INLINE_COUNT, /* to, from, size: the amount, low bits first */
	INLINE_MARK,
	INLINE_STORE,
	INLINE_STORE_AT,
	INLINE_KEEP, /* an address, for the list behind the instruction */
	INLINE_APPEND,
	INLINE_CALL, /* to: the tool; size: how many values */
	/* Trees of calls: to: the tool; from: the number that its called() gets; value: memory. */
	INLINE_CHARGE,
	INLINE_ENTER, /* size: of the return address, if it is not there yet */
	INLINE_ENTERED, /* follows: the call is counted */
	INLINE_LEAVE,
	/* Timers (wire/mark_times.h): value: memory; to, from: the timer's number. */
	INLINE_TIMER_BEGIN,
	INLINE_TIMER_END, /* size: 1: it has the stack pointer of its beginning */
	INLINE_TIMER_SUM, /* follow: the time is added, counted, and counted if it was slow */
	INLINE_TIMER_COUNT,
	INLINE_TIMER_SLOWER, /* value: ticks; 0: there is no threshold */
	/* Data: to: the tool; from: the operand; value: the number that its called() gets. */
	INLINE_TOUCH, /* size: of the operand, up to 64 bytes */
};

_Static_assert(INLINE_TOUCH < 32, "a set of kinds is a word");

struct inline_op {
	uint8_t kind; /* enum inline_kind */
	uint8_t to, from;
	uint8_t size;
	int32_t value;
};

enum { INSERT_OPS_MAX = 48 };

/* The points of an instruction; each has a list of its own. */
enum insert_point { POINT_BEFORE, POINT_TRANSFER, POINT_AFTER, POINT_SEGMENT_END };

/* A list that is being made. */
struct insert {
	unsigned count;
	struct inline_op ops[INSERT_OPS_MAX];
};

/*
 * A list that was put, with what was dead there: so it can be put in the same way once more,
 * without being written.
 */
struct inserted {
	uint16_t dead; /* registers, a bit each */
	uint8_t flags_dead;
	uint8_t count;
	uint16_t ordinal; /* of the instruction in its fragment */
	uint8_t point; /* enum insert_point */
	uint8_t reserved;
	struct inline_op ops[];
};

/* The values that operations find at a place, for those that the engine interprets. */
struct inline_values {
	uint64_t target;
	uint64_t addresses[2];
};

bool inline_is_end(const struct inline_op *op);
unsigned inline_units(const struct inline_op *ops, unsigned count);
/*
 * Executes the units from that one on, or undoes as many from the first on. The program's registers
 * are in the thread.
 */
void inline_do(struct thread *thread, const struct inline_op *ops, unsigned count, unsigned from,
	       const struct inline_values *values);
void inline_undo(struct thread *thread, const struct inline_op *ops, unsigned count, unsigned units,
		 const struct inline_values *values);
uint64_t inline_amount(const struct inline_op *op);
/* The number of the timer in one of its operations. */
unsigned inline_timer(const struct inline_op *op);
