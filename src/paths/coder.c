// SPDX-License-Identifier: BSD-2-Clause
/*
 * A range coder over move-to-front ranks from an order-3 and an order-1 context, with an escape.
 *
 *	in	a sequence of 32-bit symbols
 *	out	bytes, and back
 *	owner	sequence.c
 *
 * Two contexts list the symbols that followed: the order-3 context, of the last three symbols, the
 * three latest, and the order-1 context, of the last symbol alone, the twelve latest. A symbol is
 * coded as its rank in both lists together, those of the order-3 context first, or as an escape if
 * neither has it. It then moves to the front of the order-3 list, and of the order-1 list unless
 * the order-3 list had it. The distribution of a rank is chosen by how often the order-3 context
 * was right of late, whether both contexts agree on the first symbol, and how many symbols the
 * order-1 context lists. A symbol after an escape is a literal: either it is one greater than all
 * before, or its number of bits and the four bits behind the highest are coded with probabilities,
 * and the rest as raw bits.
 *
 *	symbols -> contexts -> ranks ----------------------> range coder -> ranks.out
 *	                       escaped symbols -> literals -> range coder -> literals.out
 *	                                                   -> raw bits
 *
 * Probabilities are kept as cumulative distributions of sixteen values. Those of ranks are counted,
 * and change after some thousand ranks; those of literals, which are fewer and more varied, move
 * towards each value that comes. The range has 63 bits. It is normalised after a group of three
 * values, by whole bytes; a carry is added to bytes that were written before.
 *
 * Contexts hold 16 bits of a symbol, its lower part, so that they stay in the caches. A lower part
 * stands for the last symbol that had it; up to 65,534 it is the symbol itself.
 *
 * Each step is done for many symbols before the next one begins, and has no branch that depends on
 * them, because in irregular sequences nothing could predict it. Contexts are prefetched some
 * symbols ahead.
 *
 * The output is the number of bytes of ranks.out in LEB128; those bytes; the bytes of literals.out;
 * and the raw bits, from the end backwards.
 *
 * References: G. N. N. Martin, "Range encoding" (1979); B. Y. Ryabko (1980) and J. L. Bentley et
 * al. (1986) on move-to-front; J. G. Cleary and I. H. Witten, "Data compression using adaptive
 * coding and partial string matching" (1984), on contexts of several orders and the escape.
 *
 * Worth its lines: zstd -3 on the same rows takes the same time and 1.3 to 2.4 times the bytes, on
 * all of ten programs (docs/design/paths.md).
 *
 * Invariants
 *  1. Writing and reading change the model in the same way, after the same events.
 *  2. No probability is 0: `below` grows strictly, and stays below 32768.
 *  3. 2^55 <= range < 2^63 and low < 2^63 between two groups, so that the range is never less than
 *     2^10.
 *  4. The symbols of a list are different from each other, and none follows a 0, unless symbols
 *     share a lower part or damaged bytes are read.
 *  5. Order-1 contexts of symbols up to max are valid; no other is looked at.
 *  6. There is room for the events of one more symbol or number.
 *  7. Counts of ranks are below 32768: they are those of a period and what was kept, which is less
 *     than eight periods in all.
 */
#include "paths/coder.h"

#include <stdlib.h>

#include "base/mem.h"
#include "paths/coder_private.h"

enum { CACHE_LINE = 64 };

static unsigned bits_for(size_t symbols)
{
	unsigned bits = ORDER3_BITS_MIN;

	while (bits < ORDER3_BITS_MAX && (size_t)1 << bits < symbols)
		bits++;
	return bits;
}

void coder_forget(struct coder *coder, size_t symbols)
{
	coder->bits = bits_for(symbols);
	if (coder->max >= LOWS)
		memset(coder->highs, 0, (LOWS + 1) * sizeof(*coder->highs));
	memset(coder->order3, 0, sizeof(*coder->order3) << coder->bits);
	memset(coder->order1, 0, sizeof(*coder->order1));
	for (unsigned i = 0; i < CDFS; i++)
		for (unsigned value = 0; value < 16; value++)
			coder->cdfs[i].below[value] = (uint16_t)(value << (PROBABILITY_BITS - 4));
	coder->cdfs[CDFS].below[0] = 0;
	memset(coder->counts, 0, RANKS * 16 * sizeof(*coder->counts));
	coder->period = PERIOD_FIRST;
	coder->until = PERIOD_FIRST;
	memset(coder->recent, 0, sizeof(coder->recent));
	coder->at = CODER_REACH;
	coder->max = 0;
}

/*
 * --- States of order-3 contexts ------------------------------------------------------------------
 */

/* A few ranges of confidence are told apart; the longer the list, the more of them. */
static unsigned class_of(unsigned known, unsigned confidence)
{
	static const uint8_t limits[CODER_ORDER3 + 1][5] = {
		{}, { 1, 4 }, { 0, 2, 6 }, { 0, 1, 3, 7, 13 }
	};
	static const uint8_t firsts[CODER_ORDER3 + 1] = { 0, 1, 4, 8 };
	static const uint8_t counts[CODER_ORDER3 + 1] = { 0, 2, 3, 5 };
	unsigned class = firsts[known];

	for (unsigned i = 0; i < counts[known]; i++)
		class += confidence > limits[known][i];
	return class;
}

/* What becomes of a list of `known` symbols. 0: the list has no symbol of that rank. */
static unsigned state_after(unsigned known, unsigned confidence, unsigned rank)
{
	if (rank < CODER_ORDER3 && rank >= known)
		return 0;
	if (rank >= CODER_ORDER3 && known < CODER_ORDER3)
		known++;
	if (rank)
		confidence /= 2;
	else if (confidence < CONFIDENCE_MAX)
		confidence++;
	return (known * 16 + confidence) | class_of(known, confidence) << 8;
}

static void states_fill(struct coder *coder)
{
	for (unsigned state = 0; state < CODER_STATES; state++)
		for (unsigned rank = 0; rank <= ESCAPE; rank++)
			coder->state_next[state][rank] =
				(uint16_t)state_after(state / 16, state % 16, rank);
}

/*
 * --- Life ----------------------------------------------------------------------------------------
 */

void coder_init(struct coder *coder, size_t symbols)
{
	*coder = (struct coder){};
	coder->steps = coder_is_wide() ? &coder_steps_wide : &coder_steps_plain;
	coder->order3 = mem_alloc_aligned(sizeof(*coder->order3) << ORDER3_BITS_MAX, CACHE_LINE);
	coder->order1 = mem_alloc_aligned(sizeof(*coder->order1) * ORDER1_COUNT, CACHE_LINE);
	coder->highs = mem_zalloc((LOWS + 1) * sizeof(*coder->highs));
	coder->cdfs = mem_alloc_aligned((CDFS + 2) / 2 * 2 * sizeof(*coder->cdfs), CACHE_LINE);
	coder->counts = mem_alloc_aligned(RANKS * 16 * sizeof(*coder->counts), CACHE_LINE);
	coder->ranks.events = mem_alloc((BATCH + 16) * sizeof(*coder->ranks.events));
	coder->literals.events = mem_alloc(EVENTS * sizeof(*coder->literals.events));
	states_fill(coder);
	coder_forget(coder, symbols);
}

void coder_deinit(struct coder *coder)
{
	free(coder->order3);
	free(coder->order1);
	free(coder->highs);
	free(coder->cdfs);
	free(coder->counts);
	free(coder->ranks.events);
	free(coder->literals.events);
	array_deinit(&coder->ranks.out);
	array_deinit(&coder->literals.out);
	array_deinit(&coder->out);
	array_deinit(&coder->raw_bytes);
	*coder = (struct coder){};
}

size_t coder_memory(const struct coder *coder)
{
	return (sizeof(*coder->order3) << ORDER3_BITS_MAX) + sizeof(*coder->order1) * ORDER1_COUNT +
	       (CDFS + 2) * sizeof(*coder->cdfs) +
	       (BATCH + EVENTS + RANKS * 16) * sizeof(uint16_t) + coder->ranks.out.capacity +
	       coder->literals.out.capacity + coder->raw_bytes.capacity + coder->out.capacity;
}

void coder_order1_clear(struct coder *coder, uint32_t symbol)
{
	uint32_t first = coder->max + 1, end = symbol < ORDER1_COUNT ? symbol + 1 : ORDER1_COUNT;

	if (first < end)
		memset(&coder->order1[first], 0, (end - first) * sizeof(*coder->order1));
}

/*
 * --- Probabilities of ranks ----------------------------------------------------------------------
 */

static unsigned counts_sum(const uint16_t *counts)
{
	unsigned all = 0;

	for (unsigned i = 0; i < 16; i++)
		all += counts[i];
	return all;
}

/*
 * Probabilities become the shares of what was counted, where each value counts an eighth more than
 * it came, so that none is impossible. Floats give the same everywhere: counts times 8 are exact,
 * and a product is rounded once and then truncated, to no more than there is to share out.
 */
static void cdf_rebuild(struct coder_cdf *cdf, uint16_t *counts)
{
	unsigned all = counts_sum(counts), below = 0;
	float unit;

	if (!all)
		return;
	unit = (float)((1 << PROBABILITY_BITS) - 16) / (float)(all * 8 + 16);
	for (unsigned i = 0; i < 16; i++) {
		cdf->below[i] = (uint16_t)below;
		below += (unsigned)((float)(counts[i] * 8 + 1) * unit) + 1;
		counts[i] = (uint16_t)(counts[i] - (counts[i] >> FORGET));
	}
}

void coder_ranks_adapt(struct coder *coder, size_t ranks)
{
	coder->until -= (int)ranks;
	if (coder->until > 0)
		return;
	for (unsigned i = 0; i < RANKS; i++)
		cdf_rebuild(&coder->cdfs[i], &coder->counts[i * 16]);
	coder->period = coder->period < PERIOD_MAX ? coder->period * 2 : PERIOD_MAX;
	coder->until = (int)coder->period;
}
