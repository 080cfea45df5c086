/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What takes the most time of writing, whatever the processor can do at once: from symbols to events, and from events to bytes.
 * Before it is included, these are there, which do the same on every processor, so that what one writes any other reads:
 *
 *	places_find	long_place() and short_place() of several
 *	greatest_of	the greatest of some symbols, at least a given one
 *	contexts_put	the rank of a symbol among those that its contexts name, or SPELLED; what came moves to their front
 *	spelled_take	those of some symbols whose event says that no context named them
 *	nibble_learn	the chances of values move towards what came
 */
#include <assert.h>
#include <string.h>

#include "profile/coder_model.h"

/* --- From symbols to events ----------------------------------------------------------------------------- */

/*
 * Returns the event. No branch depends on how the symbol is found, which can hardly be predicted. `named`: contexts may name it.
 */
static inline __attribute__((always_inline)) uint16_t
symbol_put(struct coder_long *far, struct coder_short *near, uint16_t low, bool named)
{
	unsigned nibble = nibble_of(far, near);

	return (uint16_t)(nibble * 16 + contexts_put(far, near, low, named));
}

/* Symbols that have lower parts only, as nearly all sequences have. */
static inline __attribute__((always_inline)) void lows_put(struct coder *coder, size_t count,
							   const struct coder_places *places,
							   size_t fetched, uint16_t *events)
{
	struct coder_long *longs = coder->longs;
	struct coder_short *shorts = coder->shorts;
	size_t i = 0;

#pragma GCC unroll 2
	for (; i + FETCH_AHEAD < fetched; i++) {
		__builtin_prefetch(long_at(longs, places->longs[i + FETCH_AHEAD]), 1);
		__builtin_prefetch(short_at(shorts, places->shorts[i + FETCH_AHEAD]), 1);
		events[i] = symbol_put(long_at(longs, places->longs[i]),
				       short_at(shorts, places->shorts[i]), places->lows[i], true);
	}
	for (; i < count; i++)
		events[i] = symbol_put(long_at(longs, places->longs[i]),
				       short_at(shorts, places->shorts[i]), places->lows[i], true);
}

/* Any others: contexts name a lower part, which stands for the last symbol that had it. */
static inline void highs_put(struct coder *coder, const uint32_t *symbols, size_t count,
			     const struct coder_places *places, uint16_t *events)
{
	for (size_t i = 0; i < count; i++) {
		uint16_t low = low_of(symbols[i]), high = high_of(symbols[i]);
		bool named = coder->highs[low] == high;

		coder->highs[low] = high;
		events[i] = symbol_put(long_at(coder->longs, places->longs[i]),
				       short_at(coder->shorts, places->shorts[i]), low, named);
	}
}

/* At most BATCH. The symbols of the context lie before them, and others may follow, up to end. */
static inline void batch_put(struct coder *coder, const uint32_t *symbols, size_t count,
			     const uint32_t *end)
{
	size_t left = (size_t)(end - symbols);
	size_t fetched = left < count + FETCH_AHEAD ? left : count + FETCH_AHEAD;
	struct coder_places places;
	uint32_t spelled[BATCH + 16];
	uint32_t greatest = greatest_of(symbols, count, coder->max);
	uint16_t *events = coder->ranks.events + coder->ranks.event_count;

	places_find(symbols, fetched, coder->bits, &places);
	coder_shorts_clear(coder, greatest);
	if (greatest < LOWS)
		lows_put(coder, count, &places, fetched, events);
	else
		highs_put(coder, symbols, count, &places, events);
	coder->ranks.event_count += count;
	coder_spell(coder, spelled, spelled_take(symbols, events, count, spelled));
}

/* --- From events to bytes ------------------------------------------------------------------------------- */

static __attribute__((noinline)) void carry(uint8_t *byte)
{
	while (++*--byte == 0)
		;
}

/* A stream while it is written, where no memory is in the way. */
struct writing {
	uint64_t low, range;
	uint8_t *out;
};

/* A group has at most six bytes, but eight are stored. */
static inline struct writing writing_begin(struct coder_stream *stream)
{
	array_reserve(&stream->out,
		      stream->out.count + (stream->event_count + GROUP) * 2 + sizeof(uint64_t));
	return (struct writing){ stream->low, stream->range,
				 stream->out.items + stream->out.count };
}

/* Events from `first` on have not been written. */
static inline void writing_end(struct coder_stream *stream, const struct writing *now,
			       const uint16_t *first)
{
	size_t left = stream->event_count - (size_t)(first - stream->events);

	stream->out.count = (size_t)(now->out - stream->out.items);
	stream->low = now->low;
	stream->range = now->range;
	memmove(stream->events, first, left * sizeof(*first));
	stream->event_count = left;
}

/* An event takes its part of the range. */
static inline __attribute__((always_inline)) void event_write(const struct coder_nibble *nibbles,
							      unsigned event, struct writing *now)
{
	const char *chances = (const char *)nibbles + (size_t)event * sizeof(uint16_t);
	uint64_t unit = now->range >> CHANCE_BITS;
	uint32_t two, before;

	memcpy(&two, chances, sizeof(two)); /* how much is before the value, and before the next */
	before = two & 0xffff;
	now->low += unit * before;
	now->range = unit * (((two >> 16) - before) & ((1 << CHANCE_BITS) - 1));
}

/* What is certain of `low` is written, whole bytes of it, and the range is as many times greater. */
static inline __attribute__((always_inline)) void group_end(struct writing *now)
{
	unsigned bits = (unsigned)(__builtin_clzll(now->range) - 1) & ~7u;
	uint64_t bytes = __builtin_bswap64(now->low << 1);

	memcpy(now->out, &bytes, sizeof(bytes));
	if (__builtin_expect((int64_t)now->low < 0, 0))
		carry(now->out);
	now->out += bits / 8;
	now->low = now->low << bits & INT64_MAX;
	now->range <<= bits;
}

static inline __attribute__((always_inline)) void rank_write(const struct coder_nibble *nibbles,
							     uint16_t *counts, unsigned event,
							     struct writing *now)
{
	event_write(nibbles, event, now);
	counts[event]++;
}

static inline __attribute__((always_inline)) void ranks_write(const struct coder_nibble *nibbles,
							      uint16_t *counts,
							      const uint16_t *events,
							      struct writing *now)
{
#pragma GCC unroll 4
	for (unsigned i = 0; i < GROUP; i++)
		rank_write(nibbles, counts, events[i], now);
	group_end(now);
}

static inline __attribute__((always_inline)) void
spelling_write(struct coder_nibble *nibbles, unsigned event, struct writing *now)
{
	event_write(nibbles, event, now);
	nibble_learn(&nibbles[event / 16], event % 16);
}

static inline __attribute__((always_inline)) void
spellings_write(struct coder_nibble *nibbles, const uint16_t *events, struct writing *now)
{
#pragma GCC unroll 4
	for (unsigned i = 0; i < GROUP; i++)
		spelling_write(nibbles, events[i], now);
	group_end(now);
}

/*
 * All whole groups of events of both streams. Each waits for the one before it in the same stream, so one of each takes not
 * much longer than one.
 */
static inline void groups_write(struct coder *coder)
{
	struct coder_stream *ranks = &coder->ranks, *spelling = &coder->spelling;
	struct writing first = writing_begin(ranks), second = writing_begin(spelling);
	const uint16_t *rank = ranks->events, *spelled = spelling->events;
	const uint16_t *rank_end = rank + ranks->event_count / GROUP * GROUP;
	const uint16_t *spelled_end = spelled + spelling->event_count / GROUP * GROUP;
	struct coder_nibble *nibbles = coder->nibbles;
	uint16_t *counts = coder->counts;

	for (; rank < rank_end && spelled < spelled_end; rank += GROUP, spelled += GROUP) {
		ranks_write(nibbles, counts, rank, &first);
		spellings_write(nibbles, spelled, &second);
	}
	for (; rank < rank_end; rank += GROUP)
		ranks_write(nibbles, counts, rank, &first);
	for (; spelled < spelled_end; spelled += GROUP)
		spellings_write(nibbles, spelled, &second);
	coder_ranks_learn(coder, (size_t)(rank - ranks->events));
	writing_end(ranks, &first, rank);
	writing_end(spelling, &second, spelled);
}

/* Ranks that can be put before some are written: chances change between two groups. */
static inline size_t ranks_room(const struct coder *coder)
{
	size_t until = coder->until > 0 ? ((size_t)coder->until + GROUP - 1) / GROUP * GROUP
					: GROUP;

	return (until < BATCH ? until : BATCH) - coder->ranks.event_count;
}

/* The symbols of the context lie before those to be put, but for the first. */
static inline void put_many(struct coder *coder, const uint32_t *symbols, size_t count)
{
	const uint32_t *end = symbols + count;

	while (symbols < end) {
		size_t left = (size_t)(end - symbols), room = ranks_room(coder);
		size_t some = left < room ? left : room;

		batch_put(coder, symbols, some, end);
		if (some == room)
			groups_write(coder);
		symbols += some;
	}
}
