// SPDX-License-Identifier: BSD-2-Clause
/* Reading what coder_write.c wrote, or any other bytes. coder.c explains the model. */
#include <errno.h>

#include "base/err.h"
#include "paths/coder_private.h"

static inline uint8_t byte_next(struct coder_stream *stream)
{
	if (stream->in < stream->in_end)
		return *stream->in++;
	stream->beyond++;
	return 0;
}

/* The range has 63 bits, so that `low` ends in the middle of a byte. */
static inline void byte_read(struct coder_stream *stream)
{
	uint8_t byte = byte_next(stream);

	stream->low = stream->low << 8 | (uint8_t)(stream->in_last << 7) | byte >> 1;
	stream->in_last = byte;
}

static void stream_read(struct coder_stream *stream, const uint8_t *bytes, const uint8_t *end)
{
	stream->range = INT64_MAX;
	stream->in = bytes;
	stream->in_end = end;
	stream->in_last = 0;
	stream->in_group = 0;
	stream->beyond = 0;
	stream->low = 0;
	for (unsigned i = 0; i < sizeof(stream->low); i++)
		byte_read(stream);
}

static size_t in_size(const uint8_t **bytes, const uint8_t *end)
{
	size_t size = 0;

	for (unsigned shift = 0; *bytes < end && shift < 56; shift += 7) {
		uint8_t byte = *(*bytes)++;

		size |= (size_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			break;
	}
	return size;
}

/* If the bytes claim more ranks than there are, reading fails at the end of the input. */
void coder_read(struct coder *coder, const uint8_t *bytes, size_t size)
{
	const uint8_t *end = bytes + size;
	size_t ranks = in_size(&bytes, end);

	ranks = ranks < (size_t)(end - bytes) ? ranks : (size_t)(end - bytes);
	coder_ranks_adapt(coder, 0); /* as in coder_write() */
	stream_read(&coder->ranks, bytes, bytes + ranks);
	stream_read(&coder->literals, bytes + ranks, end);
	coder->raw = 0;
	coder->raw_bits = 0;
	coder->raw_in = end;
}

/*
 * Fails if more was taken than there is. Literals and raw bits come from both ends of the same
 * bytes.
 */
static int reading_check(const struct coder *coder)
{
	const struct coder_stream *literals = &coder->literals;
	size_t both = literals->in > coder->raw_in ? (size_t)(literals->in - coder->raw_in) : 0;

	if (coder->ranks.beyond > BEYOND_MAX || literals->beyond + both > BEYOND_MAX)
		return err_set(-EBADMSG,
			       "a compressed sequence ends too early: the profile is damaged");
	return 0;
}

/* Takes at most 56 bits. */
static uint64_t raw_get(struct coder *coder, unsigned bits)
{
	uint64_t value;

	for (; coder->raw_bits < bits; coder->raw_bits += 8)
		if (coder->raw_in > coder->ranks.in_end)
			coder->raw |= (uint64_t) * --coder->raw_in << coder->raw_bits;
		else
			coder->literals.beyond++;
	value = coder->raw & (((uint64_t)1 << bits) - 1);
	coder->raw >>= bits;
	coder->raw_bits -= bits;
	return value;
}

/* Called after each event; true: it was the last of a group. */
static inline bool range_refill(struct coder_stream *stream)
{
	if (++stream->in_group < GROUP)
		return false;
	stream->in_group = 0;
	for (unsigned bits = (unsigned)__builtin_clzll(stream->range) - 1; bits >= 8; bits -= 8) {
		byte_read(stream);
		stream->range <<= 8;
	}
	return true;
}

/* The greatest value with below[value] <= target. */
static inline unsigned cdf_find(const struct coder_cdf *cdf, uint64_t target)
{
	__m128i at = _mm_set1_epi16(target < 1 << PROBABILITY_BITS ? (short)target : INT16_MAX);
	__m128i beyond =
		_mm_packs_epi16(_mm_cmpgt_epi16(_mm_load_si128((const __m128i *)cdf), at),
				_mm_cmpgt_epi16(_mm_load_si128((const __m128i *)cdf + 1), at));

	return (unsigned)__builtin_ctz((unsigned)_mm_movemask_epi8(beyond) | 1 << 16) - 1;
}

static inline unsigned cdf_decode(struct coder_stream *stream, const struct coder_cdf *cdf)
{
	const uint16_t *below = (const uint16_t *)cdf;
	uint64_t unit = stream->range >> PROBABILITY_BITS;
	unsigned value = cdf_find(cdf, stream->low / unit);
	uint32_t before = below[value];

	stream->low -= unit * before;
	stream->range = unit * ((below[value + 1] - before) & ((1 << PROBABILITY_BITS) - 1));
	return value;
}

static unsigned rank_get(struct coder *coder, unsigned cdf)
{
	unsigned rank = cdf_decode(&coder->ranks, &coder->cdfs[cdf]);

	coder->counts[cdf * 16 + rank]++;
	coder->until--;
	if (range_refill(&coder->ranks))
		coder_ranks_adapt(coder, 0);
	return rank;
}

static unsigned literal_value_get(struct coder *coder, unsigned cdf)
{
	unsigned value = cdf_decode(&coder->literals, &coder->cdfs[cdf]);

	range_refill(&coder->literals);
	cdf_adapt(&coder->cdfs[cdf], value);
	return value;
}

static uint64_t digits_get(struct coder *coder, unsigned cdf, unsigned length)
{
	unsigned rest = length - 1, some = rest < 4 ? rest : 4;
	unsigned told = length < LENGTHS_TOLD ? length : LENGTHS_TOLD - 1, first;
	uint64_t value = 1;

	if (!rest)
		return value;
	first = literal_value_get(coder, cdf + NUMBER_FIRST + length) & ((1u << some) - 1);
	value = value << some | first;
	rest -= some;
	if (!rest)
		return value;
	some = rest < 4 ? rest : 4;
	value = value << some | (literal_value_get(coder, cdf + NUMBER_NEXT + told * 16 + first) &
				 ((1u << some) - 1));
	rest -= some;
	return value << rest | raw_get(coder, rest);
}

static uint64_t number_get(struct coder *coder, unsigned kind)
{
	unsigned cdf = NUMBERS + NUMBER_CDFS * kind, length = 1;

	for (unsigned part = 0; part < PARTS; part++) {
		unsigned some = literal_value_get(coder, cdf + part);

		length += some;
		if (some < PART_LAST)
			break;
	}
	return digits_get(coder, cdf, length < LENGTHS ? length : LENGTHS - 1);
}

int coder_get_number(struct coder *coder, unsigned kind, uint64_t *ret)
{
	uint64_t value = number_get(coder, kind);
	int err = reading_check(coder);

	if (err)
		return err;
	*ret = value - 1;
	return 0;
}

/* Returns more than CODER_SYMBOL_MAX if there is no such symbol. */
static uint32_t other_get(struct coder *coder)
{
	uint64_t number = number_get(coder, NUMBER_OTHER), distance = number / 2;

	if (distance > (number % 2 ? coder->max : CODER_SYMBOL_MAX - coder->max))
		return UINT32_MAX;
	return (uint32_t)(number % 2 ? coder->max - distance : coder->max + distance);
}

static uint32_t literal_get(struct coder *coder)
{
	unsigned class = literal_value_get(coder, LITERAL), first, rest;

	if (class == CLASS_OTHER)
		return other_get(coder);
	first = literal_value_get(coder, LITERAL_FIRST + class);
	if (class == CLASS_FRESH)
		return coder->max + 1;
	if (class == CLASS_SMALL)
		return first;
	rest = class - CLASS_SMALL - 1;
	return (1u << SMALL_BITS | first) << rest | (uint32_t)raw_get(coder, rest);
}

/* Returns more than CODER_SYMBOL_MAX if the lists have nothing of that rank. */
static uint32_t named_get(const struct coder *coder, const struct coder_view *view, unsigned rank)
{
	const uint16_t *words = (const uint16_t *)view;

	return words[rank] ? (uint32_t)coder->highs[words[rank]] * LOWS + words[rank] - 1
			   : UINT32_MAX;
}

static uint32_t symbol_get(struct coder *coder)
{
	const uint32_t *end = &coder->recent[coder->at];
	struct coder_order3 *order3 = order3_at(coder->order3, order3_offset(end, coder->bits));
	struct coder_order1 *order1 = order1_at(coder->order1, order1_offset(end));
	unsigned rank = rank_get(coder, cdf_of_rank(order3, order1));
	struct coder_view view;
	uint32_t symbol;

	view_take(order3, order1, &view);
	symbol = rank == ESCAPE ? literal_get(coder) : named_get(coder, &view, rank);
	view_update(coder, &view, order3, order1, rank, low_of(symbol));
	coder->highs[low_of(symbol)] = high_of(symbol);
	if (symbol > coder->max && symbol <= CODER_SYMBOL_MAX) {
		coder_order1_clear(coder, symbol);
		coder->max = symbol;
	}
	recent_add(coder, symbol);
	return symbol;
}

int coder_get(struct coder *coder, uint32_t *ret)
{
	uint32_t symbol = symbol_get(coder);
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
