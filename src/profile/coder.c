// SPDX-License-Identifier: BSD-2-Clause
/*
 * Sequences of symbols, compressed.
 *
 * Two contexts remember which symbols followed: the long one, of the last three symbols, the last three that did, and the
 * short one, of the last symbol alone, twelve. A symbol is coded as its rank among these fifteen, the long context's
 * first, or as a sixteenth value if nobody named it. A rank has the chances that ranks had under the same circumstances:
 * how often the long context was right of late, whether both agree on the first, how much the short one knows, and how the
 * last symbol was found. A symbol that nobody named is either greater than all before, or is spelled out: how many bits
 * it has, the next four bits and the next four with their chances, and the rest plainly.
 * What came moves to the front of the long context; of the short one only if the long one did not know it.
 *
 * Values below sixteen have chances that move towards what came by a part of the difference. They are coded by taking
 * a part of a range: 63 bits, of which 32 are written when less than 31 are left; a carry goes into what is written.
 *
 * There are no branches but for spelling and for writing: in irregular sequences nothing could predict them. Both
 * contexts are fetched some symbols ahead.
 *
 * Invariants
 *  1. Writing and reading change the model in the same way.
 *  2. No chance is 0: `before` grows strictly, below 32768.
 *  3. 2^31 <= range < 2^63 between two values. low < 2^63 after words were written.
 *  4. A context's symbols are different from each other, and none follows a 0, unless damaged bytes are read.
 *  5. Short contexts of symbols up to max are valid; no other is looked at.
 */
#include "profile/coder.h"

#include <assert.h>
#include <emmintrin.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

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

/* --- Tables ------------------------------------------------------------------------------------------- */

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

#define ONES(words) ((words) > 0 ? UINT32_MAX : 0)
#define WORDS_4(n) ONES(n), ONES((n)-1), ONES((n)-2), ONES((n)-3)

/* By rank: which words of the contexts are replaced by those before them. */
static const struct {
	_Alignas(16) uint32_t longs[4];
	_Alignas(16) uint32_t shorts[CODER_SHORT];
} moves[SPELLED + 1] = {
#define MOVE(rank)                                                                                 \
	{                                                                                          \
		{ ONES(1), ONES(rank), ONES((rank)-1), UINT32_MAX },                               \
		{                                                                                  \
			WORDS_4((rank)-2), WORDS_4((rank)-6), WORDS_4((rank)-10)                   \
		}                                                                                  \
	}
	SIXTEEN(MOVE)
#undef MOVE
};

/* By value: where the chances move to. Each keeps a little. */
static const struct coder_nibble targets[16] = {
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

/* --- Life --------------------------------------------------------------------------------------------- */

static unsigned bits_for(size_t symbols)
{
	unsigned bits = BITS_MIN;

	while (bits < BITS_MAX && (size_t)1 << bits < symbols)
		bits++;
	return bits;
}

void coder_forget(struct coder *coder, size_t symbols)
{
	coder->bits = bits_for(symbols);
	memset(coder->longs, 0, sizeof(*coder->longs) << coder->bits);
	memset(coder->shorts, 0, sizeof(*coder->shorts));
	for (unsigned i = 0; i < NIBBLES; i++)
		for (unsigned value = 0; value < 16; value++)
			coder->nibbles[i].before[value] = (uint16_t)(value << (CHANCE_BITS - 4));
	coder->nibbles[NIBBLES].before[0] = 0;
	memset(coder->recent, 0, sizeof(coder->recent));
	coder->at = CODER_REACH;
	coder->max = 0;
	coder->history = 0;
}

void coder_init(struct coder *coder, size_t symbols)
{
	*coder = (struct coder){};
	coder->longs = mem_alloc_aligned(sizeof(*coder->longs) << BITS_MAX, LINE);
	coder->shorts = mem_alloc_aligned(sizeof(*coder->shorts) << SHORT_BITS, LINE);
	coder->nibbles = mem_alloc_aligned((NIBBLES + 2) * sizeof(*coder->nibbles), LINE);
	coder_forget(coder, symbols);
}

void coder_deinit(struct coder *coder)
{
	free(coder->longs);
	free(coder->shorts);
	free(coder->nibbles);
	array_deinit(&coder->out);
	*coder = (struct coder){};
}

size_t coder_memory(const struct coder *coder)
{
	return (sizeof(*coder->longs) << BITS_MAX) + (sizeof(*coder->shorts) << SHORT_BITS) +
	       (NIBBLES + 2) * sizeof(*coder->nibbles) + coder->out.capacity;
}

/* --- Ranges ------------------------------------------------------------------------------------------- */

/* What a value takes of the range: from `before` on, `chance`. */
static inline void part_take(struct coder *coder, uint64_t unit, uint32_t before, uint32_t chance)
{
	coder->low += unit * before;
	coder->range = unit * chance;
}

static __attribute__((noinline)) void carry(struct coder *coder)
{
	uint8_t *byte = coder->out.items + coder->out.count;

	while (++*--byte == 0)
		;
}

/* There is room for what is written: bytes_reserve(). */
static inline void range_write(struct coder *coder)
{
	uint32_t bytes;

	if (__builtin_expect(coder->range >> 31, 1))
		return;
	if (coder->low >> 63)
		carry(coder);
	bytes = __builtin_bswap32((uint32_t)(coder->low >> 31));
	memcpy(coder->out.items + coder->out.count, &bytes, sizeof(bytes));
	coder->out.count += sizeof(bytes);
	coder->low = (coder->low & 0x7fffffff) << 32;
	coder->range <<= 32;
}

static inline void bytes_reserve(struct coder *coder, size_t bytes)
{
	if (coder->out.capacity - coder->out.count < bytes)
		array_reserve(&coder->out, coder->out.count + bytes);
}

static uint32_t word_next(struct coder *coder)
{
	uint32_t word = 0;

	for (unsigned i = 0; i < sizeof(word); i++) {
		word <<= 8;
		if (coder->in < coder->in_end)
			word |= *coder->in++;
		else
			coder->missing++;
	}
	return word;
}

/* The range has 63 bits, so that what is read lies across two words. */
static inline void range_read(struct coder *coder)
{
	uint32_t word;

	if (__builtin_expect(coder->range >> 31, 1))
		return;
	word = word_next(coder);
	coder->low = coder->low << 32 | (uint32_t)(coder->in_last << 31) | word >> 1;
	coder->range <<= 32;
	coder->in_last = word;
}

static inline void nibble_learn(struct coder_nibble *nibble, unsigned value)
{
	__m128i *now = (__m128i *)nibble;
	const __m128i *target = (const __m128i *)&targets[value];

	for (unsigned i = 0; i < 2; i++) {
		__m128i old = _mm_load_si128(now + i);
		__m128i step = _mm_sub_epi16(_mm_load_si128(target + i), old);

		_mm_store_si128(now + i, _mm_add_epi16(old, _mm_srai_epi16(step, RATE)));
	}
}

/* The last value that has not more before it. */
static inline unsigned nibble_find(const struct coder_nibble *nibble, uint64_t place)
{
	__m128i at = _mm_set1_epi16(place < 1 << CHANCE_BITS ? (short)place : INT16_MAX);
	__m128i beyond =
		_mm_packs_epi16(_mm_cmpgt_epi16(_mm_load_si128((const __m128i *)nibble), at),
				_mm_cmpgt_epi16(_mm_load_si128((const __m128i *)nibble + 1), at));

	return (unsigned)__builtin_ctz((unsigned)_mm_movemask_epi8(beyond) | 1 << 16) - 1;
}

/* One value below 16 in either direction: it is put, or returned. What follows the last nibble begins with a 0, too. */
static inline __attribute__((always_inline)) unsigned
nibble_code(struct coder *coder, bool writing, struct coder_nibble *nibble, unsigned value)
{
	const uint16_t *chances = (const uint16_t *)nibble;
	uint64_t unit = coder->range >> CHANCE_BITS;
	uint32_t before, chance;

	if (!writing)
		value = nibble_find(nibble, coder->low / unit);
	before = chances[value];
	chance = (chances[value + 1] - before) & ((1 << CHANCE_BITS) - 1);
	if (writing) {
		part_take(coder, unit, before, chance);
		range_write(coder);
	} else {
		coder->low -= unit * before;
		coder->range = unit * chance;
		range_read(coder);
	}
	nibble_learn(nibble, value);
	return value;
}

/* So many bits, whatever they are. */
static uint64_t plain_code(struct coder *coder, bool writing, unsigned bits, uint64_t value)
{
	uint64_t result = 0;

	while (bits) {
		unsigned some = bits < PLAIN_MAX ? bits : PLAIN_MAX;
		uint64_t unit = coder->range >> some, part;

		bits -= some;
		if (writing) {
			part = value >> bits & ((1u << some) - 1);
			part_take(coder, unit, (uint32_t)part, 1);
			range_write(coder);
		} else {
			part = coder->low / unit;
			part = part >> some ? (1u << some) - 1 : part;
			coder->low -= unit * part;
			coder->range = unit;
			range_read(coder);
		}
		result = result << some | part;
	}
	return result;
}

void coder_write(struct coder *coder)
{
	coder->low = 0;
	coder->range = INT64_MAX;
	coder->out.count = 0;
}

/* A number in the range that ends with many zeros, of which the reader has enough. */
void coder_end(struct coder *coder)
{
	unsigned zeros = 63 - (unsigned)__builtin_clzll(coder->range);
	uint64_t value = (coder->low + ((uint64_t)1 << zeros) - 1) >> zeros << zeros, bytes;

	bytes_reserve(coder, BYTES_SYMBOL);
	if (value >> 63)
		carry(coder);
	bytes = __builtin_bswap64(value << 1);
	memcpy(coder->out.items + coder->out.count, &bytes, sizeof(bytes));
	coder->out.count += bytes ? sizeof(bytes) - (unsigned)__builtin_clzll(bytes) / 8 : 0;
}

void coder_read(struct coder *coder, const uint8_t *bytes, size_t size)
{
	coder->range = INT64_MAX;
	coder->in = bytes;
	coder->in_end = bytes + size;
	coder->missing = 0;
	coder->low = (uint64_t)word_next(coder) << 31;
	coder->in_last = word_next(coder);
	coder->low |= coder->in_last >> 1;
}

static int reading_check(const struct coder *coder)
{
	if (coder->missing > MISSING_MAX)
		return err_set(-EBADMSG,
			       "a compressed sequence ends too early: the profile is damaged");
	return 0;
}

/* --- Numbers ------------------------------------------------------------------------------------------ */

/* Nibbles for one kind of number: its length, and the bits that follow the first, four and four. */
static inline struct coder_nibble *spelling_of(struct coder *coder, unsigned kind)
{
	return &coder->nibbles[RANKS + SPELLING * kind];
}

/* A number up to CLASS_LAST * CLASSES. */
static inline __attribute__((always_inline)) unsigned
class_code(struct coder *coder, bool writing, struct coder_nibble *nibbles, unsigned value)
{
	unsigned total = 0, part;

	for (unsigned i = 0; i < CLASSES; i++) {
		unsigned rest = value - total;

		part = nibble_code(coder, writing, &nibbles[i],
				   rest < CLASS_LAST ? rest : CLASS_LAST);
		total += part;
		if (part < CLASS_LAST)
			break;
	}
	return total;
}

/* Up to four bits; *rest says how many there are, and then how many are left. */
static inline __attribute__((always_inline)) unsigned some_code(struct coder *coder, bool writing,
								struct coder_nibble *nibble,
								unsigned *rest, uint64_t *value)
{
	unsigned some = *rest < 4 ? *rest : 4, mask = (1u << some) - 1, part;

	*rest -= some;
	part = nibble_code(coder, writing, nibble, *value >> *rest & mask);
	if (!writing)
		*value |= (uint64_t)(part & mask) << *rest;
	return part;
}

/* The bits of a number behind the first; length counts all. */
static inline __attribute__((always_inline)) uint64_t digits_code(struct coder *coder, bool writing,
								  struct coder_nibble *nibbles,
								  unsigned length, uint64_t value)
{
	unsigned rest = length - 1, told = length < LENGTHS_TOLD ? length : LENGTHS_TOLD - 1, top;

	if (!writing)
		value = (uint64_t)1 << rest;
	if (!rest)
		return value;
	top = some_code(coder, writing, nibbles + CLASSES + length, &rest, &value);
	if (!rest)
		return value;
	some_code(coder, writing, nibbles + CLASSES + LENGTHS + told * 16 + top, &rest, &value);
	return rest ? value | plain_code(coder, writing, rest, value) : value;
}

static unsigned length_of(uint64_t value)
{
	return value ? 64 - (unsigned)__builtin_clzll(value) : 0;
}

/* The length above 0 of a number that has one. */
static uint64_t number_code(struct coder *coder, bool writing, unsigned kind, uint64_t value)
{
	struct coder_nibble *nibbles = spelling_of(coder, kind + 1);
	unsigned length = class_code(coder, writing, nibbles, length_of(value) - 1) + 1;

	assert(kind < CODER_KINDS);
	return digits_code(coder, writing, nibbles, length < LENGTHS ? length : LENGTHS - 1, value);
}

/* Numbers are coded with 1 added, so that there is a first bit. */
void coder_put_number(struct coder *coder, unsigned kind, uint64_t value)
{
	assert(value < UINT64_MAX);
	bytes_reserve(coder, BYTES_SYMBOL);
	number_code(coder, true, kind, value + 1);
}

int coder_get_number(struct coder *coder, unsigned kind, uint64_t *ret)
{
	uint64_t value = number_code(coder, false, kind, 1);
	int err = reading_check(coder);

	if (err)
		return err;
	*ret = value - 1;
	return 0;
}

/* --- Symbols ------------------------------------------------------------------------------------------ */

enum { KIND_FRESH = 0 };

static inline __attribute__((always_inline)) struct coder_long *long_of(const struct coder *coder,
									const uint32_t *end)
{
	static const uint64_t factors[] = { 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93,
					    0xbf58476d1ce4e5b9 };
	uint64_t key = 0;

#pragma GCC unroll 4
	for (unsigned i = 0; i < CODER_REACH; i++)
		key += (end[-1 - (int)i] + 1) * factors[i];
	return &coder->longs[(key ^ key >> 29) * factors[0] >> (64 - coder->bits)];
}

static inline struct coder_short *short_of(const struct coder *coder, const uint32_t *end)
{
	return &coder->shorts[end[-1] & ((1 << SHORT_BITS) - 1)];
}

/* A symbol greater than all before: the contexts between become valid. */
static void max_raise(struct coder *coder, uint32_t symbol)
{
	uint32_t last = (1 << SHORT_BITS) - 1, first = coder->max + 1;

	if (first <= last)
		memset(&coder->shorts[first], 0,
		       ((symbol < last ? symbol : last) + 1 - first) * sizeof(*coder->shorts));
	coder->max = symbol;
}

/* What no context knew: greater than all before, or its length. The first kind of number says how far above. */
static inline __attribute__((always_inline)) uint32_t spelled_code(struct coder *coder,
								   bool writing, uint32_t symbol)
{
	struct coder_nibble *nibbles = spelling_of(coder, 0);
	unsigned class = class_code(coder, writing, nibbles,
				    symbol > coder->max ? 0 : length_of(symbol) + 1);

	if (class > 1)
		return (uint32_t)digits_code(coder, writing, nibbles,
					     class - 1 < 32 ? class - 1 : 32, symbol);
	if (class == 1)
		return 0;
	return coder->max +
	       (uint32_t)number_code(coder, writing, KIND_FRESH, writing ? symbol - coder->max : 1);
}

/* What is known before a symbol is. */
struct coder_view {
	__m128i longs, shorts[3];
	unsigned state;
	struct coder_nibble *nibble;
};

static inline void view_take(struct coder *coder, const struct coder_long *far,
			     const struct coder_short *near, struct coder_view *view)
{
	unsigned same = far->symbols[0] == near->symbols[0], few = !near->symbols[FEW];

	view->longs = _mm_load_si128((const __m128i *)far);
	for (unsigned i = 0; i < 3; i++)
		view->shorts[i] = _mm_load_si128((const __m128i *)near + i);
	view->state = far->state % STATES;
	view->nibble = &coder->nibbles[((state_classes[view->state] * 2 + same) * 2 + few) * FOUND +
				       coder->history];
}

static inline unsigned rank_of(const struct coder_view *view, uint32_t value)
{
	__m128i wanted = _mm_set1_epi32((int)value);
	__m128i equal = _mm_packs_epi16(_mm_packs_epi32(_mm_cmpeq_epi32(view->shorts[0], wanted),
							_mm_cmpeq_epi32(view->shorts[1], wanted)),
					_mm_packs_epi32(_mm_cmpeq_epi32(view->shorts[2], wanted),
							_mm_setzero_si128()));
	int first = _mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(view->longs, wanted)));

	return (unsigned)__builtin_ctz((first & 7) | _mm_movemask_epi8(equal) << CODER_LONG |
				       1 << SPELLED);
}

static inline __m128i words_choose(const uint32_t *mask, __m128i yes, __m128i no)
{
	__m128i chosen = _mm_load_si128((const __m128i *)mask);

	return _mm_or_si128(_mm_and_si128(chosen, yes), _mm_andnot_si128(chosen, no));
}

/* What came moves to the front, what was before it one place back. */
static inline void view_learn(const struct coder_view *view, struct coder_long *far,
			      struct coder_short *near, unsigned rank, uint32_t value)
{
	__m128i first = _mm_cvtsi32_si128((int)value), before = first;
	unsigned place = (rank > 0) + (rank >= CODER_LONG);
	__m128i moved = _mm_or_si128(
		_mm_and_si128(_mm_slli_si128(view->longs, 4), _mm_set_epi32(0, -1, -1, -1)),
		_mm_or_si128(first,
			     _mm_slli_si128(_mm_cvtsi32_si128(state_next[place][view->state]),
					    12)));

	_mm_store_si128((__m128i *)far, words_choose(moves[rank].longs, moved, view->longs));
	for (unsigned i = 0; i < 3; i++) {
		moved = _mm_or_si128(_mm_slli_si128(view->shorts[i], 4), before);
		before = _mm_srli_si128(view->shorts[i], 12);
		_mm_store_si128((__m128i *)near + i,
				words_choose(&moves[rank].shorts[i * 4], moved, view->shorts[i]));
	}
}

/* The context moves along recent, and back to its start at the end: cheaper than to move the symbols each time. */
static inline void recent_add(struct coder *coder, uint32_t symbol)
{
	if (coder->at == CODER_RECENT) {
		memcpy(coder->recent, coder->recent + CODER_RECENT - CODER_REACH,
		       CODER_REACH * sizeof(*coder->recent));
		coder->at = CODER_REACH;
	}
	coder->recent[coder->at++] = symbol;
}

/* A symbol in either direction. Inlined, so that each direction is code of its own. */
static inline __attribute__((always_inline)) uint32_t symbol_code(struct coder *coder, bool writing,
								  struct coder_long *far,
								  struct coder_short *near,
								  uint32_t symbol)
{
	static const uint8_t found[SPELLED + 1] = { 0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3 };
	struct coder_view view;
	unsigned rank = SPELLED;

	view_take(coder, far, near, &view);
	if (writing)
		rank = rank_of(&view, symbol + 1);
	rank = nibble_code(coder, writing, view.nibble, rank);
	if (rank == SPELLED)
		symbol = spelled_code(coder, writing, symbol);
	else if (!writing)
		symbol = (rank < CODER_LONG ? far->symbols[rank]
					    : near->symbols[rank - CODER_LONG]) -
			 1;
	view_learn(&view, far, near, rank, symbol + 1);
	if (symbol > coder->max && (writing || symbol <= CODER_SYMBOL_MAX))
		max_raise(coder, symbol);
	coder->history = found[rank];
	return symbol;
}

static inline uint32_t symbol_code_next(struct coder *coder, bool writing, uint32_t symbol)
{
	const uint32_t *end = &coder->recent[coder->at];

	symbol = symbol_code(coder, writing, long_of(coder, end), short_of(coder, end), symbol);
	recent_add(coder, symbol);
	return symbol;
}

void coder_put(struct coder *coder, uint32_t symbol)
{
	assert(symbol <= CODER_SYMBOL_MAX);
	bytes_reserve(coder, BYTES_SYMBOL);
	symbol_code_next(coder, true, symbol);
}

/* The symbols of the context lie before those to be put, but for the first. */
static void put_many(struct coder *coder, const uint32_t *symbols, size_t count)
{
	struct coder_long *fetched[FETCH_AHEAD];

	for (size_t i = 0; i < FETCH_AHEAD && i < count; i++)
		fetched[i] = long_of(coder, symbols + i);
	for (size_t i = 0; i < count; i++) {
		struct coder_long *far = fetched[i % FETCH_AHEAD];

		if (i + FETCH_AHEAD < count) {
			struct coder_long *next = long_of(coder, symbols + i + FETCH_AHEAD);

			__builtin_prefetch(next, 1);
			__builtin_prefetch(short_of(coder, symbols + i + FETCH_AHEAD), 1);
			fetched[i % FETCH_AHEAD] = next;
		}
		assert(symbols[i] <= CODER_SYMBOL_MAX);
		bytes_reserve(coder, BYTES_SYMBOL);
		symbol_code(coder, true, far, short_of(coder, symbols + i), symbols[i]);
	}
}

void coder_put_all(struct coder *coder, const uint32_t *symbols, size_t count)
{
	size_t first = count < CODER_REACH ? count : CODER_REACH;

	for (size_t i = 0; i < first; i++)
		coder_put(coder, symbols[i]);
	if (count == first)
		return;
	put_many(coder, symbols + first, count - first);
	for (size_t i = count - CODER_REACH; i < count; i++)
		recent_add(coder, symbols[i]);
}

int coder_get(struct coder *coder, uint32_t *ret)
{
	uint32_t symbol = symbol_code_next(coder, false, 0);
	int err = reading_check(coder);

	if (err)
		return err;
	if (symbol > CODER_SYMBOL_MAX)
		return err_set(-EBADMSG,
			       "a compressed sequence has symbol %u: the profile is damaged",
			       symbol);
	*ret = symbol;
	return 0;
}
