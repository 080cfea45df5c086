/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Heat: how much of each kind a piece of code does when it is executed once.
 *
 * The heat of a block comes from its code. That of a path is the sum over its blocks. The hot value
 * of either is its heat times how often it ran.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Columns: name, text of the option and JSON name, what is counted, how much of it an instruction
 * with effects e (isa/effects.h) does.
 */
#define HEAT_KINDS(X)                                                                              \
	X(INSTRUCTIONS, "instructions", "instructions", 1)                                         \
	X(LOADS, "loads", "reads of memory", (e)->loads)                                           \
	X(STORES, "stores", "writes of memory", (e)->stores)                                       \
	X(BRANCHES, "branches", "conditional branches", HEAT_HAS(e, CONDITIONAL))                  \
	X(JUMPS, "jumps", "unconditional jumps", HEAT_HAS(e, JUMP))                                \
	X(CALLS, "calls", "calls", HEAT_HAS(e, CALL))                                              \
	X(RETURNS, "returns", "returns", HEAT_HAS(e, RETURN))                                      \
	X(INDIRECT, "indirect", "jumps and calls to computed places", HEAT_HAS(e, INDIRECT))       \
	X(VECTOR, "vector", "operations on vectors", HEAT_HAS(e, VECTOR))                          \
	X(FLOATING, "floating", "floating-point operations", HEAT_HAS(e, FLOATING))                \
	X(ATOMIC, "atomic", "locked operations", HEAT_HAS(e, ATOMIC))                              \
	X(SYSTEM, "system", "system calls", HEAT_HAS(e, SYSTEM))

#define HEAT_HAS(e, trait) (((e)->traits & EFFECTS_##trait) != 0)

enum heat_kind {
#define X(name, text, what, amount) HEAT_##name,
	HEAT_KINDS(X)
#undef X
		HEAT_KIND_COUNT
};

struct heat {
	uint64_t of[HEAT_KIND_COUNT];
};

/*
 * Computes the heat of a block of so many instructions and bytes. false: the bytes are not that
 * many instructions; then only their number is counted, which is known without the code.
 */
bool heat_of_block(const void *code, size_t size, uint32_t instructions, struct heat *ret);
/* sum += times * part */
void heat_add(struct heat *sum, const struct heat *part, uint64_t times);

/* Saturates at the greatest number. */
static inline uint64_t heat_hot(const struct heat *heat, enum heat_kind kind, uint64_t frequency)
{
	uint64_t hot;

	return __builtin_mul_overflow(heat->of[kind], frequency, &hot) ? UINT64_MAX : hot;
}

const char *heat_kind_text(enum heat_kind kind);
const char *heat_kind_what(enum heat_kind kind);
int heat_kind_parse(const char *text, enum heat_kind *ret);
