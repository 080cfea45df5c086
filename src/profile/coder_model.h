/* SPDX-License-Identifier: BSD-2-Clause */
/* The model of profile/coder.h: its parts, and tables of how it changes. coder.c explains it. */
#pragma once

#include "profile/coder.h"

enum {
	BITS_MIN = 8,
	BITS_MAX = 16,
	SHORT_BITS = 16,
	RATE = 5,
	CHANCE_BITS = 15,
	PLAIN_MAX = 16, /* bits that are coded at once without chances */
	STATES = 64, /* of a long context: symbols there are * 16 + confidence */
	STATE_CLASSES = 14,
	FOUND = 4, /* ways to find a symbol: the long context's first, near that, elsewhere, spelled */
	FEW = 6, /* a short context that has not more symbols than this knows little */
	SPELLED = CODER_LONG + CODER_SHORT, /* the rank of what nobody named */
	MISSING_MAX = 8,
	FETCH_AHEAD = 8, /* symbols; more than CODER_REACH */
	BYTES_SYMBOL = 64, /* more than a symbol or number takes */
	CLASS_LAST = 15, /* value of a nibble: more than that, another follows */
	CLASSES = 5, /* nibbles that make a number up to 64 */
	LENGTHS = 65, /* of a number, in bits */
	LENGTHS_TOLD = 33, /* those that the second four bits are told apart by */
	/* Of nibbles, in order. */
	RANKS = STATE_CLASSES * 2 * 2 * FOUND,
	SPELLING = CLASSES + LENGTHS + LENGTHS_TOLD * 16,
	NIBBLES = RANKS + SPELLING * (CODER_KINDS + 1),
	LINE = 64, /* of a cache, bytes */
};

/* A few lengths of confidence, the more the less there is to choose from. */
#define CLASS_1(c) (1 + ((c) > 1) + ((c) > 4))
#define CLASS_2(c) (4 + ((c) > 0) + ((c) > 2) + ((c) > 6))
#define CLASS_3(c) (8 + ((c) > 0) + ((c) > 1) + ((c) > 3) + ((c) > 7) + ((c) > 13))
#define SIXTEEN(X)                                                                                 \
	X(0)                                                                                       \
	, X(1)                                                                                     \
	, X(2)                                                                                     \
	, X(3)                                                                                     \
	, X(4)                                                                                     \
	, X(5)                                                                                     \
	, X(6)                                                                                     \
	, X(7)                                                                                     \
	, X(8)                                                                                     \
	, X(9)                                                                                     \
	, X(10)                                                                                    \
	, X(11)                                                                                    \
	, X(12)                                                                                    \
	, X(13)                                                                                    \
	, X(14)                                                                                    \
	, X(15)

/* By state. */
static const uint8_t state_classes[STATES] = {
	[16] = SIXTEEN(CLASS_1),
	[32] = SIXTEEN(CLASS_2),
	[48] = SIXTEEN(CLASS_3),
};

#define RIGHT(symbols, c) ((symbols)*16 + ((c) < 15 ? (c) + 1 : 15))
#define RIGHT_1(c) RIGHT(1, c)
#define RIGHT_2(c) RIGHT(2, c)
#define RIGHT_3(c) RIGHT(3, c)
#define WRONG_1(c) (16 + (c) / 2)
#define WRONG_2(c) (32 + (c) / 2)
#define WRONG_3(c) (48 + (c) / 2)

/* The next state, by the place where the symbol was: the first, elsewhere, nowhere. */
static const uint8_t state_next[3][STATES] = {
	{ [16] = SIXTEEN(RIGHT_1), [32] = SIXTEEN(RIGHT_2), [48] = SIXTEEN(RIGHT_3) },
	{ [32] = SIXTEEN(WRONG_2), [48] = SIXTEEN(WRONG_3) },
	{ SIXTEEN(WRONG_1), SIXTEEN(WRONG_2), SIXTEEN(WRONG_3), SIXTEEN(WRONG_3) },
};

/* By value: where the chances move to. Each keeps a little. */
static const _Alignas(32) struct coder_nibble targets[16] = {
#define TARGET(i, value) ((i) <= (value) ? (i) : 32768 - 16 + (i))
#define TARGETS(value)                                                                             \
	{                                                                                          \
		{                                                                                  \
			TARGET(0, value), TARGET(1, value), TARGET(2, value), TARGET(3, value),    \
				TARGET(4, value), TARGET(5, value), TARGET(6, value),              \
				TARGET(7, value), TARGET(8, value), TARGET(9, value),              \
				TARGET(10, value), TARGET(11, value), TARGET(12, value),           \
				TARGET(13, value), TARGET(14, value), TARGET(15, value)            \
		}                                                                                  \
	}
	SIXTEEN(TARGETS)
#undef TARGETS
#undef TARGET
};

/* The chances of ranks under the circumstances that the contexts and the last symbol make. */
static inline struct coder_nibble *
nibble_of(const struct coder *coder, const struct coder_long *far, const struct coder_short *near)
{
	unsigned same = far->symbols[0] == near->symbols[0], few = !near->symbols[FEW];
	unsigned class = state_classes[far->state % STATES];

	return &coder->nibbles[((class * 2 + same) * 2 + few) * FOUND + coder->history];
}
