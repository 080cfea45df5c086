/* SPDX-License-Identifier: BSD-2-Clause */
/* The model of profile/coder.h: its parts, and tables of how it changes. coder.c explains it. */
#pragma once

#include <stdbool.h>

#include "profile/coder.h"

enum {
	BITS_MIN = 8,
	BITS_MAX = 16,
	LONG_SIZE_BITS = 3,
	SHORT_BITS = 16,
	SHORT_SIZE_BITS = 5,
	SHORTS = 1 << SHORT_BITS,
	LOWS = UINT16_MAX, /* lower parts: symbols below are nothing else */
	RATE = 5,
	CHANCE_BITS = 15,
	STATES = 64, /* of a long context: symbols there are * 16 + confidence */
	STATE_CLASSES = 14,
	FEW = 6, /* a short context that has not more symbols than this knows little */
	SPELLED = CODER_LONG + CODER_SHORT, /* the rank of what nobody named */
	BEYOND_MAX = 8, /* bytes that a reader may take beyond what was written: the range's last */
	FETCH_AHEAD = 16, /* symbols; more than CODER_REACH */
	GROUP = 3, /* events, after which the range is made greater: 3 * CHANCE_BITS fit into it */
	BATCH = 384, /* symbols that become events together; whole groups */
	/* Ranks, from one change of their chances to the next: at first, and at most. Whole groups. */
	PERIOD_FIRST = 96,
	PERIOD_MAX = 3072,
	FORGET = 3, /* each time, counts lose this part of them: so many bits less */
	/* How a symbol is spelled: its class, and the four bits behind its first. The rest is plain. */
	CLASS_FRESH = 0, /* one greater than all before */
	CLASS_SMALL = 1, /* below sixteen: four bits are all */
	CLASS_OTHER = 15, /* as a number: how far it is from the greatest before */
	SMALL_BITS = 4,
	CLASS_BITS_MAX =
		CLASS_OTHER - 1 + SMALL_BITS - 1, /* of a symbol that has a class of its own */
	/* A number: its length in several parts, the four bits behind its first, and the next four. */
	PART_LAST = 15, /* of a length: more than that, another part follows */
	PARTS = 5, /* that make a length up to 64 */
	LENGTHS = 65,
	LENGTHS_TOLD = 33, /* those that the second four bits are told apart by */
	NUMBER_OTHER = CODER_KINDS, /* a kind of its own: distances of CLASS_OTHER */
	/* Of nibbles, in order. */
	RANKS = STATE_CLASSES * 2 * 2,
	SPELLING = RANKS, /* of symbols: class, four bits by class */
	SPELLING_FIRST = SPELLING + 1,
	NUMBERS = SPELLING_FIRST + 16, /* of each kind: parts, four bits by length, next four */
	NUMBER_FIRST = PARTS,
	NUMBER_NEXT = NUMBER_FIRST + LENGTHS,
	NUMBER_NIBBLES = NUMBER_NEXT + LENGTHS_TOLD * 16,
	NIBBLES = NUMBERS + NUMBER_NIBBLES * (CODER_KINDS + 1),
	NUMBER_EVENTS = PARTS + 2, /* of a number at most */
	SPELLED_EVENTS = 1 + NUMBER_EVENTS, /* of a symbol that nobody named */
	EVENTS = BATCH * SPELLED_EVENTS,
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

#define STATE_1(c) ((16 + (c)) | CLASS_1(c) << 8)
#define STATE_2(c) ((32 + (c)) | CLASS_2(c) << 8)
#define STATE_3(c) ((48 + (c)) | CLASS_3(c) << 8)
#define MORE(c) ((c) < 15 ? (c) + 1 : 15)
#define RIGHT_1(c) STATE_1(MORE(c))
#define RIGHT_2(c) STATE_2(MORE(c))
#define RIGHT_3(c) STATE_3(MORE(c))
#define WRONG_1(c) STATE_1((c) / 2)
#define WRONG_2(c) STATE_2((c) / 2)
#define WRONG_3(c) STATE_3((c) / 2)
#define NEXT(right, wrong, nowhere)                                                                \
	{                                                                                          \
		right, wrong, wrong, nowhere, nowhere, nowhere, nowhere, nowhere, nowhere,         \
			nowhere, nowhere, nowhere, nowhere, nowhere, nowhere, nowhere              \
	}
#define NEXT_0(c) NEXT(0, 0, WRONG_1(c))
#define NEXT_1(c) NEXT(RIGHT_1(c), 0, WRONG_2(c))
#define NEXT_2(c) NEXT(RIGHT_2(c), WRONG_2(c), WRONG_3(c))
#define NEXT_3(c) NEXT(RIGHT_3(c), WRONG_3(c), WRONG_3(c))

/* By rank: the next state, and its class in the second byte. */
static const uint16_t state_next[STATES][SPELLED + 1] = {
	SIXTEEN(NEXT_0),
	SIXTEEN(NEXT_1),
	SIXTEEN(NEXT_2),
	SIXTEEN(NEXT_3),
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

/* Which chances ranks have under the circumstances that the contexts make. */
static inline unsigned nibble_of(const struct coder_long *far, const struct coder_short *near)
{
	unsigned same = far->symbols[0] == near->symbols[0], few = !near->symbols[FEW];

	return (far->class * 2u + same) * 2 + few;
}

/* The parts of a symbol. */
static inline uint16_t low_of(uint32_t symbol)
{
	return (uint16_t)(symbol % LOWS + 1);
}

static inline uint16_t high_of(uint32_t symbol)
{
	return (uint16_t)(symbol / LOWS);
}

/* Where the long context of the symbols before `end` is, in bytes. */
#define LONG_FACTORS 0x9e3779b1u, 0x85ebca6bu, 0xc2b2ae35u
#define LONG_FACTOR_LAST 0x27d4eb2fu

static inline uint32_t long_place(const uint32_t *end, unsigned bits)
{
	static const uint32_t factors[CODER_REACH] = { LONG_FACTORS };
	uint32_t key = 0;

#pragma GCC unroll 4
	for (unsigned i = 0; i < CODER_REACH; i++)
		key += (end[-1 - (int)i] + 1) * factors[i];
	return (uint32_t)((key ^ key >> 15) * LONG_FACTOR_LAST >> (32 - bits) << LONG_SIZE_BITS);
}

static inline struct coder_long *long_at(struct coder_long *longs, uint32_t place)
{
	return (struct coder_long *)((char *)longs + place);
}

/* The same of the short context. */
static inline uint32_t short_place(const uint32_t *end)
{
	return end[-1] % SHORTS << SHORT_SIZE_BITS;
}

static inline struct coder_short *short_at(struct coder_short *shorts, uint32_t place)
{
	return (struct coder_short *)((char *)shorts + place);
}

/* Both, of the symbols of a batch and some more. */
struct coder_places {
	uint32_t longs[BATCH + FETCH_AHEAD];
	uint32_t shorts[BATCH + FETCH_AHEAD];
	uint16_t lows[BATCH +
		      FETCH_AHEAD]; /* low_of() the symbols themselves, if they are below LOWS */
};

/* --- What coder.c does for coder_wide.c ----------------------------------------------------------------- */

/* Symbols that no context named become events of `spelling`. */
void coder_spell(struct coder *coder, const uint32_t *symbols, size_t count);
/* Short contexts up to that of a symbol become valid. */
void coder_shorts_clear(struct coder *coder, uint32_t symbol);
/* After a group of ranks: their chances change if it is time. */
void coder_ranks_learn(struct coder *coder, size_t ranks);
