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
 * contexts are fetched some symbols ahead. Where the processor has AVX-512, whole contexts are looked at and changed at once
 * (coder_wide.c); the bytes are the same.
 *
 * Invariants
 *  1. Writing and reading change the model in the same way.
 *  2. No chance is 0: `before` grows strictly, below 32768.
 *  3. 2^31 <= range < 2^63 between two values. low < 2^63 after words were written.
 *  4. A context's symbols are different from each other, and none follows a 0, unless damaged bytes are read.
 *  5. Short contexts of symbols up to max are valid; no other is looked at.
 */
#include "profile/coder.h"

#include <emmintrin.h>
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "profile/coder_model.h"
#include "profile/coder_wide.h"

/* --- What every processor can do ---------------------------------------------------------------------- */

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

/* What is known before a symbol is. */
struct coder_view {
	__m128i longs, shorts[3];
	unsigned state;
	struct coder_nibble *nibble;
};

static inline void view_take(struct coder *coder, const struct coder_long *far,
			     const struct coder_short *near, struct coder_view *view)
{
	view->longs = _mm_load_si128((const __m128i *)far);
	for (unsigned i = 0; i < 3; i++)
		view->shorts[i] = _mm_load_si128((const __m128i *)near + i);
	view->state = far->state % STATES;
	view->nibble = nibble_of(coder, far, near);
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

#include "profile/coder_code.h"

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

/* --- Writing and reading ------------------------------------------------------------------------------- */

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

void coder_put_all(struct coder *coder, const uint32_t *symbols, size_t count)
{
	size_t first = count < CODER_REACH ? count : CODER_REACH;

	for (size_t i = 0; i < first; i++)
		coder_put(coder, symbols[i]);
	if (count == first)
		return;
	(coder_is_wide() ? coder_put_many_wide : put_many)(coder, symbols + first, count - first);
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
