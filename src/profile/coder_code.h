/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What takes the most time of writing, whatever the processor can do at once: from symbols to events, and from events to bytes.
 * Before it is included, these are there, which do the same on every processor, so that what one writes any other reads:
 *
 *	long_places	long_place() of several
 *	nibble_learn	the chances of values move towards what came
 *	coder_view	what is known before a symbol is: view_take() takes it from its contexts
 *	rank_of		the rank of a symbol among those the contexts name
 *	view_learn	what came moves to the front of the contexts
 *	short_clear	a short context that knows nothing
 */
#include <assert.h>
#include <string.h>

#include "profile/coder_model.h"

/* --- From symbols to events ----------------------------------------------------------------------------- */

/* What changes from symbol to symbol. */
struct putting {
	struct coder_spelled *spelled; /* the place for the next one */
	uint32_t max;
	unsigned history;
};

/* Returns the event. No branch depends on whether a symbol is named, which can hardly be predicted. */
static inline __attribute__((always_inline)) unsigned
symbol_put(struct coder *coder, struct coder_short *shorts, struct putting *put,
	   struct coder_long *far, const uint32_t *at)
{
	struct coder_short *near = &shorts[at[-1] % SHORTS];
	uint32_t symbol = *at;
	unsigned nibble = nibble_of(far, near, put->history), rank;
	struct coder_view view;

	short_clear(&shorts[put->max < SHORTS ? put->max + 1 : SHORTS]);
	if (__builtin_expect(symbol > put->max + 1, 0))
		coder_shorts_clear(coder, put->max, symbol);
	view_take(far, near, &view);
	rank = rank_of(&view, symbol + 1);
	put->spelled->symbol = symbol;
	put->spelled->max = put->max;
	put->spelled += rank == SPELLED;
	view_learn(&view, far, near, rank, symbol + 1);
	put->max = symbol > put->max ? symbol : put->max;
	put->history = found[rank];
	return nibble * 16 + rank;
}

/* At most BATCH. The symbols of the context lie before them, and others may follow, up to end. */
static inline void batch_put(struct coder *coder, const uint32_t *symbols, size_t count,
			     const uint32_t *end)
{
	size_t left = (size_t)(end - symbols), known = count + FETCH_AHEAD;
	struct coder_long *longs = coder->longs;
	struct coder_short *shorts = coder->shorts;
	struct coder_spelled spelled[BATCH + 1];
	struct putting put = { spelled, coder->max, coder->history };
	uint16_t *events = coder->ranks.events + coder->ranks.event_count;
	uint32_t places[BATCH + FETCH_AHEAD];

	known = known < left ? known : left;
	long_places(symbols, known, coder->bits, places);
	for (; known < count + FETCH_AHEAD; known++)
		places[known] = 0;
	for (size_t i = 0; i < count; i++) {
		size_t ahead = i + FETCH_AHEAD;

		__builtin_prefetch(&longs[places[ahead]], 1);
		__builtin_prefetch(&shorts[ahead < left ? symbols[ahead - 1] % SHORTS : 0], 1);
		events[i] =
			(uint16_t)symbol_put(coder, shorts, &put, &longs[places[i]], symbols + i);
	}
	coder->ranks.event_count += count;
	coder->max = put.max;
	coder->history = put.history;
	coder_spell(coder, spelled, (size_t)(put.spelled - spelled));
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

static inline struct writing writing_begin(struct coder_stream *stream)
{
	array_reserve(&stream->out,
		      stream->out.count + (stream->event_count + 1) * sizeof(uint32_t));
	return (struct writing){ stream->low, stream->range,
				 stream->out.items + stream->out.count };
}

static inline void writing_end(struct coder_stream *stream, const struct writing *now)
{
	stream->out.count = (size_t)(now->out - stream->out.items);
	stream->low = now->low;
	stream->range = now->range;
	stream->event_count = 0;
}

/*
 * An event takes its part of the range. The upper half of what is certain is written in any case, and counts if the range has
 * become small. No branch depends on that, either: GCC would make one.
 */
static inline __attribute__((always_inline)) void event_write(struct coder_nibble *nibbles,
							      unsigned event, struct writing *now)
{
	char *chances = (char *)nibbles + (size_t)event * sizeof(uint16_t);
	uint64_t unit = now->range >> CHANCE_BITS, low, full; /* full: all ones, or 0 */
	uint32_t two, before, bytes;

	memcpy(&two, chances, sizeof(two)); /* how much is before the value, and before the next */
	before = two & 0xffff;
	low = now->low + unit * before;
	now->range = unit * (((two >> 16) - before) & ((1 << CHANCE_BITS) - 1));
	bytes = __builtin_bswap32((uint32_t)(low >> 31));
	memcpy(now->out, &bytes, sizeof(bytes));
	now->low = low;
	__asm__("cmpq %5, %0; cmovb %3, %0; cmovb %4, %1; sbbq %2, %2"
		: "+&r"(now->range), "+&r"(now->low), "=&r"(full)
		: "r"(now->range << 32), "r"(low << 33 >> 1), "r"(1ul << 31)
		: "cc");
	if (__builtin_expect((int64_t)(low & full) < 0, 0))
		carry(now->out);
	now->out += full & sizeof(bytes);
	nibble_learn(&nibbles[event / 16], event % 16);
}

/* All events of both streams. Each waits for the one before it in the same stream, so two at a time take not much longer than one. */
static inline void events_write(struct coder *coder)
{
	struct coder_stream *ranks = &coder->ranks, *spelling = &coder->spelling;
	struct writing first = writing_begin(ranks), second = writing_begin(spelling);
	const uint16_t *rank = ranks->events, *spelled = spelling->events;
	const uint16_t *rank_end = rank + ranks->event_count;
	const uint16_t *spelled_end = spelled + spelling->event_count;
	struct coder_nibble *nibbles = coder->nibbles;

	while (rank < rank_end && spelled < spelled_end) {
		event_write(nibbles, *rank++, &first);
		event_write(nibbles, *spelled++, &second);
	}
	while (rank < rank_end)
		event_write(nibbles, *rank++, &first);
	while (spelled < spelled_end)
		event_write(nibbles, *spelled++, &second);
	writing_end(ranks, &first);
	writing_end(spelling, &second);
}

/* The symbols of the context lie before those to be put, but for the first. No events wait. */
static inline void put_many(struct coder *coder, const uint32_t *symbols, size_t count)
{
	const uint32_t *end = symbols + count;

	while (symbols < end) {
		size_t left = (size_t)(end - symbols), some = left < BATCH ? left : BATCH;

		batch_put(coder, symbols, some, end);
		events_write(coder);
		symbols += some;
	}
}
