/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What writing and reading symbols is made of, whatever the processor can do at once. Before it is included, these are there, which
 * do the same on every processor, so that what one writes the other reads:
 *
 *	nibble_learn	the chances of values move towards what came
 *	coder_view	what is known before a symbol is: view_take() takes it from its contexts
 *	rank_of		the rank of a symbol among those the contexts name
 *	view_learn	what came moves to the front of the contexts
 */
#include <assert.h>
#include <emmintrin.h>
#include <stdbool.h>
#include <string.h>

#include "profile/coder_model.h"

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

static inline uint32_t word_next(struct coder *coder)
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
static inline uint64_t plain_code(struct coder *coder, bool writing, unsigned bits, uint64_t value)
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

static inline unsigned length_of(uint64_t value)
{
	return value ? 64 - (unsigned)__builtin_clzll(value) : 0;
}

/* The length above 0 of a number that has one. */
static inline uint64_t number_code(struct coder *coder, bool writing, unsigned kind, uint64_t value)
{
	struct coder_nibble *nibbles = spelling_of(coder, kind + 1);
	unsigned length = class_code(coder, writing, nibbles, length_of(value) - 1) + 1;

	assert(kind < CODER_KINDS);
	return digits_code(coder, writing, nibbles, length < LENGTHS ? length : LENGTHS - 1, value);
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
static inline void max_raise(struct coder *coder, uint32_t symbol)
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

/* The symbols of the context lie before those to be put, but for the first. */
static inline void put_many(struct coder *coder, const uint32_t *symbols, size_t count)
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
