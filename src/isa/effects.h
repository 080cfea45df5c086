/* SPDX-License-Identifier: BSD-2-Clause */
/* The kinds of an instruction and its accesses to memory, for counting instructions by kind. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Columns: name, what it says. Vector instructions work on vector registers and not on a single
 * floating-point number in one. Moves are not floating, whatever type their name suggests.
 */
#define EFFECTS_TRAITS(X)                                                                          \
	X(CONDITIONAL, "a branch that may not be taken")                                           \
	X(JUMP, "an unconditional jump")                                                           \
	X(CALL, "a call of a function")                                                            \
	X(RETURN, "a return from one")                                                             \
	X(INDIRECT, "a jump or call to a place that is computed")                                  \
	X(VECTOR, "several numbers at once")                                                       \
	X(FLOATING, "computes with floating-point numbers")                                        \
	X(ATOMIC, "a locked operation")                                                            \
	X(SYSTEM, "enters the kernel")

enum effects_trait_bit {
#define X(name, text) EFFECTS_##name##_BIT,
	EFFECTS_TRAITS(X)
#undef X
};

enum effects_trait {
#define X(name, text) EFFECTS_##name = 1 << EFFECTS_##name##_BIT,
	EFFECTS_TRAITS(X)
#undef X
};

struct effects {
	uint8_t length; /* bytes */
	/* places in memory that are read; one for each repeated or gathered operand */
	uint8_t loads;
	uint8_t stores;
	uint16_t traits; /* bits of enum effects_trait */
};

/* -EINVAL: the bytes begin with no instruction. */
int effects_of(const void *code, size_t size, struct effects *ret);
