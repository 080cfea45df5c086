// SPDX-License-Identifier: BSD-2-Clause
/*
 * Sequences of symbols, compressed.
 *
 * Three contexts, the last four, two and one symbols, each remember the last symbols that followed. They are asked in
 * this order: "is it this one?", until the answer is yes. Each answer is a bit, coded with the chance that it had under
 * the same circumstances: which context, which of its symbols, how often it was right of late, how the last symbols
 * were found. A symbol that nobody named is either greater than all before, or is spelled out bit by bit, with the
 * chances of symbols that nobody named.
 * Only the context that knew and the longer ones, which did not, learn: a sequence that goes on as expected
 * touches a single place.
 *
 * Bits are coded by dividing a range in the ratio of the chances, in the way of Paul Mahoney's lpaq: 32 bits, no carry.
 *
 * Invariants
 *  1. Writing and reading change the model in the same way.
 *  2. Chances are never 0 or 1: at least CHANCE_LIMIT away from both.
 *  3. low < high, and they differ in the first byte, between two bits.
 *  4. Bits that wait are coded before anything that was put after them.
 *  5. A context's symbols are different from each other.
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
	HALF = 1 << 15,
	RATE_FLAG = 5,
	RATE_TREE = 4,
	CHANCE_LIMIT = 24,
	FLAGS = CODER_ORDERS * CODER_WAYS * CODER_CONFIDENCE * CODER_HISTORY,
	TREE = 1 << CODER_TREE_BITS,
	FOUND_NOWHERE = 3, /* in history: first asked, second, later, nowhere */
	MISSING_MAX = 8,
	FETCH_AHEAD = 8, /* symbols; at least CODER_REACH */
	BITS_SYMBOL = 256, /* more than a symbol or number takes */
};

static const unsigned order_lengths[CODER_ORDERS] = { 4, 2, 1 };

static void chances_reset(uint16_t *chances, size_t count)
{
	for (size_t i = 0; i < count; i++)
		chances[i] = HALF;
}

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
	for (unsigned i = 0; i < CODER_ORDERS; i++)
		memset(coder->contexts[i], 0, sizeof(struct coder_context) << coder->bits);
	chances_reset(coder->flags, FLAGS);
	chances_reset(coder->tree, TREE);
	chances_reset(coder->lengths[0], CODER_KINDS * CODER_NUMBER_BITS);
	chances_reset(coder->digits[0][0], CODER_KINDS * CODER_NUMBER_BITS * 8);
	memset(coder->recent, 0, sizeof(coder->recent));
	coder->at = CODER_REACH;
	coder->fresh = HALF;
	coder->max = 0;
	coder->history = 0;
}

void coder_init(struct coder *coder, size_t symbols)
{
	*coder = (struct coder){};
	for (unsigned i = 0; i < CODER_ORDERS; i++)
		coder->contexts[i] = mem_alloc(sizeof(struct coder_context) << BITS_MAX);
	coder->flags = mem_alloc(FLAGS * sizeof(*coder->flags));
	coder->tree = mem_alloc(TREE * sizeof(*coder->tree));
	coder_forget(coder, symbols);
}

void coder_deinit(struct coder *coder)
{
	for (unsigned i = 0; i < CODER_ORDERS; i++)
		free(coder->contexts[i]);
	free(coder->flags);
	free(coder->tree);
	array_deinit(&coder->out);
	*coder = (struct coder){};
}

size_t coder_memory(const struct coder *coder)
{
	return (sizeof(struct coder_context) << BITS_MAX) * CODER_ORDERS +
	       (FLAGS + TREE) * sizeof(uint16_t) + coder->out.capacity;
}

static inline void chance_learn(uint16_t *chance, unsigned bit, unsigned rate)
{
	int target = CHANCE_LIMIT + (int)bit * (65536 - 2 * CHANCE_LIMIT);

	*chance = (uint16_t)(*chance + ((target - *chance) >> rate));
}

static inline uint32_t range_split(const struct coder_range *range, uint32_t chance)
{
	return range->low + (uint32_t)((uint64_t)(range->high - range->low) * chance >> 16);
}

static inline void range_take(struct coder_range *range, uint32_t middle, unsigned bit)
{
	uint32_t mask = 0 - bit; /* no branch: there is nothing to predict */

	range->high = (middle & mask) | (range->high & ~mask);
	range->low = (range->low & mask) | ((middle + 1) & ~mask);
}

/* Bits that both ends begin with, in whole bytes; all 32 if the ends have met. */
static inline unsigned range_settled(const struct coder_range *range)
{
	uint64_t differ = (uint64_t)(range->low ^ range->high) << 32 | 1u << 31;

	return (unsigned)__builtin_clzll(differ) & ~7u;
}

static inline void range_shift(struct coder_range *range, unsigned bits)
{
	range->low = (uint32_t)((uint64_t)range->low << bits);
	range->high = (uint32_t)((uint64_t)range->high << bits | (((uint64_t)1 << bits) - 1));
}

/* What both ends begin with is written: four bytes, of which those that are settled count. */
static inline uint8_t *range_write(struct coder_range *range, uint8_t *out)
{
	uint32_t bytes = __builtin_bswap32(range->high);
	unsigned settled = range_settled(range);

	memcpy(out, &bytes, sizeof(bytes));
	range_shift(range, settled);
	return out + settled / 8;
}

/* Few bits settle a byte, so that the range's next use need not wait for what it takes to find out how many. */
static void bits_write(struct coder *coder)
{
	struct coder_range range = coder->range;
	uint8_t *out;

	array_reserve(&coder->out, coder->out.count + sizeof(uint32_t) * (coder->bits_count + 1));
	out = coder->out.items + coder->out.count;
	for (unsigned i = 0; i < coder->bits_count; i++) {
		uint32_t middle = range_split(&range, coder->bits_waiting[i] & 0xffff);

		range_take(&range, middle, coder->bits_waiting[i] >> 16);
		if (__builtin_expect(!((range.low ^ range.high) >> 24), 0))
			out = range_write(&range, out);
	}
	coder->out.count = (size_t)(out - coder->out.items);
	coder->range = range;
	coder->bits_count = 0;
}

/* The model does not need to wait for the range, where each bit needs the one before. */
static inline void bit_put(struct coder *coder, uint16_t chance, unsigned bit)
{
	coder->bits_waiting[coder->bits_count++] = chance | bit << 16;
}

static inline void bits_reserve(struct coder *coder)
{
	if (coder->bits_count > CODER_BITS - BITS_SYMBOL)
		bits_write(coder);
}

static inline uint8_t byte_next(struct coder *coder)
{
	if (coder->in < coder->in_end)
		return *coder->in++;
	coder->missing++;
	return 0;
}

static inline unsigned bit_get(struct coder *coder, uint16_t chance)
{
	uint32_t middle = range_split(&coder->range, chance);
	unsigned bit = coder->code <= middle, settled;

	range_take(&coder->range, middle, bit);
	settled = range_settled(&coder->range);
	range_shift(&coder->range, settled);
	for (; settled; settled -= 8)
		coder->code = coder->code << 8 | byte_next(coder);
	return bit;
}

/* One bit in either direction: *bit is put, or set. */
static inline void bit_code(struct coder *coder, bool writing, uint16_t *chance, unsigned rate,
			    unsigned *bit)
{
	if (writing)
		bit_put(coder, *chance, *bit);
	else
		*bit = bit_get(coder, *chance);
	chance_learn(chance, *bit, rate);
}

static inline void bit_code_plain(struct coder *coder, bool writing, unsigned *bit)
{
	if (writing)
		bit_put(coder, HALF, *bit);
	else
		*bit = bit_get(coder, HALF);
}

void coder_write(struct coder *coder)
{
	coder->range = (struct coder_range){ .high = UINT32_MAX };
	coder->bits_count = 0;
	coder->out.count = 0;
}

/* Enough of a number between the two ends that what the reader takes for the rest does not matter. */
void coder_end(struct coder *coder)
{
	uint32_t bytes;

	bits_write(coder);
	bytes = __builtin_bswap32(coder->range.high);
	memcpy(coder->out.items + coder->out.count, &bytes, sizeof(bytes));
	coder->out.count += sizeof(bytes);
}

void coder_read(struct coder *coder, const uint8_t *bytes, size_t size)
{
	coder->range = (struct coder_range){ .high = UINT32_MAX };
	coder->in = bytes;
	coder->in_end = bytes + size;
	coder->missing = 0;
	coder->code = 0;
	for (unsigned i = 0; i < sizeof(coder->code); i++)
		coder->code = coder->code << 8 | byte_next(coder);
}

static int reading_check(const struct coder *coder)
{
	if (coder->missing > MISSING_MAX)
		return err_set(-EBADMSG,
			       "a compressed sequence ends too early: the profile is damaged");
	return 0;
}

static inline __attribute__((always_inline)) struct coder_context *
context_of(const struct coder *coder, unsigned order, const uint32_t *end)
{
	static const uint64_t factors[] = { 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93,
					    0xbf58476d1ce4e5b9, 0x94d049bb133111eb };
	uint64_t key = 0;

#pragma GCC unroll 4
	for (unsigned i = 0; i < order_lengths[order]; i++)
		key += (end[-1 - (int)i] + 1) * factors[i];
	return &coder->contexts[order][(key ^ key >> 29) * factors[0] >> (64 - coder->bits)];
}

static inline uint16_t *flag_of(struct coder *coder, unsigned order, unsigned way,
				uint32_t confidence)
{
	return &coder->flags[((order * CODER_WAYS + way) * CODER_CONFIDENCE + confidence) *
				     CODER_HISTORY +
			     coder->history];
}

static inline void context_learn(struct coder_context *context, uint32_t value)
{
	uint32_t *symbols = context->symbols;

	if (symbols[0] == value) {
		context->confidence += context->confidence < CODER_CONFIDENCE - 1;
		return;
	}
	context->confidence /= 2;
	if (symbols[1] != value)
		symbols[2] = symbols[1];
	symbols[1] = symbols[0];
	symbols[0] = value;
}

/* A symbol below `max`: its bits from the highest that max has; those beyond the tree's plain. */
static uint32_t spelled_code(struct coder *coder, bool writing, uint32_t symbol)
{
	unsigned total = coder->max ? 32 - (unsigned)__builtin_clz(coder->max) : 0;
	unsigned plain = total > CODER_TREE_BITS ? total - CODER_TREE_BITS : 0;
	uint32_t value = 0;

	for (unsigned at = total; at-- > 0;) {
		unsigned bit = symbol >> at & 1;

		if (at >= plain)
			bit_code(coder, writing,
				 &coder->tree[(1u << (CODER_TREE_BITS - 1 - (at - plain))) + value],
				 RATE_TREE, &bit);
		else
			bit_code_plain(coder, writing, &bit);
		value = value << 1 | bit;
	}
	return value;
}

static uint64_t number_code(struct coder *coder, bool writing, unsigned kind, uint64_t value)
{
	unsigned length = writing ? 63 - (unsigned)__builtin_clzll(value | 1) : 0, bit = 0;
	uint64_t result = 1;

	assert(kind < CODER_KINDS);
	for (unsigned i = 0; i < CODER_NUMBER_BITS - 1 && !bit; i++) {
		bit = i == length;
		bit_code(coder, writing, &coder->lengths[kind][i], RATE_TREE, &bit);
		if (!writing)
			length = bit ? i : i + 1;
	}
	for (unsigned i = length; i-- > 0;) {
		bit = value >> i & 1;
		if (result < 8)
			bit_code(coder, writing, &coder->digits[kind][length][result], RATE_TREE,
				 &bit);
		else
			bit_code_plain(coder, writing, &bit);
		result = result << 1 | bit;
	}
	return result;
}

/* Numbers are coded with a 1 in front, so that there is one. */
void coder_put_number(struct coder *coder, unsigned kind, uint64_t value)
{
	assert(value < UINT64_MAX);
	bits_reserve(coder);
	number_code(coder, true, kind, value + 1);
}

int coder_get_number(struct coder *coder, unsigned kind, uint64_t *ret)
{
	uint64_t value = number_code(coder, false, kind, 0);
	int err = reading_check(coder);

	if (err)
		return err;
	*ret = value - 1;
	return 0;
}

enum { KIND_FRESH = 0 };

/* What no context knew. The first kind of number says how far above. */
static uint32_t unknown_code(struct coder *coder, bool writing, uint32_t symbol)
{
	unsigned fresh = symbol > coder->max;

	bit_code(coder, writing, &coder->fresh, RATE_FLAG, &fresh);
	if (!fresh)
		return spelled_code(coder, writing, symbol);
	return coder->max + (uint32_t)number_code(coder, writing, KIND_FRESH, symbol - coder->max);
}

/* Which of a context's symbols it is, a bit for each. */
static inline unsigned ways_equal(const struct coder_context *context, uint32_t value)
{
	__m128i equal = _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)context),
					_mm_set1_epi32((int)value));

	return (unsigned)_mm_movemask_ps(_mm_castsi128_ps(equal)) & ((1 << CODER_WAYS) - 1);
}

/* Longer contexts were asked before: what they named it is not. */
static inline bool asked_before(struct coder_context *const *contexts, unsigned order,
				uint32_t value)
{
	unsigned equal = 0;

	for (unsigned i = 0; i < order; i++)
		equal |= ways_equal(contexts[i], value);
	return equal;
}

/* Asks one context; true: it knew. */
static inline __attribute__((always_inline)) bool
context_code(struct coder *coder, bool writing, unsigned order,
	     struct coder_context *const *contexts, unsigned *asked, uint32_t *value)
{
	const struct coder_context *context = contexts[order];

	for (unsigned way = 0; way < CODER_WAYS && context->symbols[way]; way++) {
		uint32_t candidate = context->symbols[way];
		unsigned hit = candidate == *value;

		if (asked_before(contexts, order, candidate))
			continue;
		++*asked;
		bit_code(coder, writing, flag_of(coder, order, way, context->confidence), RATE_FLAG,
			 &hit);
		if (!hit)
			continue;
		*value = candidate;
		return true;
	}
	return false;
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

/* A symbol in either direction. Inlined twice, so that each direction is code of its own. */
static inline __attribute__((always_inline)) uint32_t
symbol_code(struct coder *coder, bool writing, struct coder_context *longest, uint32_t symbol)
{
	struct coder_context *contexts[CODER_ORDERS] = { longest };
	uint32_t value = symbol + 1;
	unsigned asked = 0, order = 0, found = FOUND_NOWHERE;

#pragma GCC unroll 3
	for (; order < CODER_ORDERS; order++) {
		if (order)
			contexts[order] = context_of(coder, order, &coder->recent[coder->at]);
		if (context_code(coder, writing, order, contexts, &asked, &value)) {
			found = asked < FOUND_NOWHERE ? asked - 1 : FOUND_NOWHERE - 1;
			break;
		}
	}
	if (found == FOUND_NOWHERE)
		value = unknown_code(coder, writing, symbol) + 1;
	for (unsigned i = 0; i <= order && i < CODER_ORDERS; i++)
		context_learn(contexts[i], value);
	coder->history = (coder->history << 2 | found) & (CODER_HISTORY - 1);
	symbol = value - 1;
	coder->max = symbol > coder->max ? symbol : coder->max;
	recent_add(coder, symbol);
	return symbol;
}

static inline struct coder_context *longest_now(const struct coder *coder)
{
	return context_of(coder, 0, &coder->recent[coder->at]);
}

void coder_put(struct coder *coder, uint32_t symbol)
{
	assert(symbol <= CODER_SYMBOL_MAX);
	bits_reserve(coder);
	symbol_code(coder, true, longest_now(coder), symbol);
}

/*
 * In irregular sequences each symbol needs places that no cache has: they are fetched some symbols ahead. Unless this is
 * inlined early, GCC 12 takes it for a function without effect and drops the call.
 */
static inline __attribute__((always_inline)) struct coder_context *
contexts_fetch(const struct coder *coder, const uint32_t *end)
{
	struct coder_context *longest = context_of(coder, 0, end);

	__builtin_prefetch(longest, 1);
	__builtin_prefetch(context_of(coder, 1, end), 1);
	return longest;
}

void coder_put_all(struct coder *coder, const uint32_t *symbols, size_t count)
{
	struct coder_context *fetched[FETCH_AHEAD];

	for (size_t i = 0; i < count; i++) {
		struct coder_context *longest = fetched[i % FETCH_AHEAD];

		if (i < FETCH_AHEAD)
			longest = longest_now(coder);
		if (i + FETCH_AHEAD < count)
			fetched[i % FETCH_AHEAD] = contexts_fetch(coder, symbols + i + FETCH_AHEAD);
		assert(symbols[i] <= CODER_SYMBOL_MAX);
		bits_reserve(coder);
		symbol_code(coder, true, longest, symbols[i]);
	}
}

int coder_get(struct coder *coder, uint32_t *ret)
{
	uint32_t symbol = symbol_code(coder, false, longest_now(coder), CODER_SYMBOL_MAX);
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
