// SPDX-License-Identifier: BSD-2-Clause
/* Writing: from symbols to events, and from events to bytes. coder.c explains the model. */
#include <assert.h>

#include "base/mem.h"
#include "paths/coder_private.h"

/* --- From events to bytes: the range coder ---------------------------------------------------- */

static __attribute__((noinline)) void carry_propagate(uint8_t *byte)
{
	while (++*--byte == 0)
		;
}

/* The state of a stream's range coder while it is used, in registers. */
struct range_coding {
	uint64_t low, range;
	uint8_t *out;
};

/* Reserves room: a group takes at most six bytes, but eight are stored. */
static inline struct range_coding range_begin(struct coder_stream *stream)
{
	array_reserve(&stream->out,
		      stream->out.count + (stream->event_count + GROUP) * 2 + sizeof(uint64_t));
	return (struct range_coding){ stream->low, stream->range,
				      stream->out.items + stream->out.count };
}

/* Events from `first` on have not been written. */
static inline void range_end(struct coder_stream *stream, const struct range_coding *now,
			     const uint16_t *first)
{
	size_t left = stream->event_count - (size_t)(first - stream->events);

	stream->out.count = (size_t)(now->out - stream->out.items);
	stream->low = now->low;
	stream->range = now->range;
	memmove(stream->events, first, left * sizeof(*first));
	stream->event_count = left;
}

/* The range becomes the part of it that belongs to the event's value. */
static inline __attribute__((always_inline)) void
event_encode(const struct coder_cdf *cdfs, unsigned event, struct range_coding *now)
{
	const char *below = (const char *)cdfs + (size_t)event * sizeof(uint16_t);
	uint64_t unit = now->range >> PROBABILITY_BITS;
	uint32_t two, before;

	memcpy(&two, below, sizeof(two)); /* below the value, and below the next one */
	before = two & 0xffff;
	now->low += unit * before;
	now->range = unit * (((two >> 16) - before) & ((1 << PROBABILITY_BITS) - 1));
}

/* Normalises the range: the bytes of `low` that can no longer change are written. */
static inline __attribute__((always_inline)) void range_normalise(struct range_coding *now)
{
	unsigned bits = (unsigned)(__builtin_clzll(now->range) - 1) & ~7u;
	uint64_t bytes = __builtin_bswap64(now->low << 1);

	memcpy(now->out, &bytes, sizeof(bytes));
	if (__builtin_expect((int64_t)now->low < 0, 0))
		carry_propagate(now->out);
	now->out += bits / 8;
	now->low = now->low << bits & INT64_MAX;
	now->range <<= bits;
}

static inline __attribute__((always_inline)) void rank_encode(const struct coder_cdf *cdfs,
							      uint16_t *counts, unsigned event,
							      struct range_coding *now)
{
	event_encode(cdfs, event, now);
	counts[event]++;
}

static inline __attribute__((always_inline)) void ranks_encode(const struct coder_cdf *cdfs,
							       uint16_t *counts,
							       const uint16_t *events,
							       struct range_coding *now)
{
#pragma GCC unroll 4
	for (unsigned i = 0; i < GROUP; i++)
		rank_encode(cdfs, counts, events[i], now);
	range_normalise(now);
}

static inline __attribute__((always_inline)) void
literal_encode(struct coder_cdf *cdfs, unsigned event, struct range_coding *now)
{
	event_encode(cdfs, event, now);
	cdf_adapt(&cdfs[event / 16], event % 16);
}

static inline __attribute__((always_inline)) void
literals_encode(struct coder_cdf *cdfs, const uint16_t *events, struct range_coding *now)
{
#pragma GCC unroll 4
	for (unsigned i = 0; i < GROUP; i++)
		literal_encode(cdfs, events[i], now);
	range_normalise(now);
}

/*
 * Encodes all whole groups of events of both streams. A group depends on the one before it in the
 * same stream, so that a group of each stream in turn takes not much longer than one alone.
 */
static inline void groups_encode(struct coder *coder)
{
	struct coder_stream *ranks = &coder->ranks, *literals = &coder->literals;
	struct range_coding first = range_begin(ranks), second = range_begin(literals);
	const uint16_t *rank = ranks->events, *escaped = literals->events;
	const uint16_t *rank_end = rank + ranks->event_count / GROUP * GROUP;
	const uint16_t *literal_end = escaped + literals->event_count / GROUP * GROUP;
	struct coder_cdf *cdfs = coder->cdfs;
	uint16_t *counts = coder->counts;

	for (; rank < rank_end && escaped < literal_end; rank += GROUP, escaped += GROUP) {
		ranks_encode(cdfs, counts, rank, &first);
		literals_encode(cdfs, escaped, &second);
	}
	for (; rank < rank_end; rank += GROUP)
		ranks_encode(cdfs, counts, rank, &first);
	for (; escaped < literal_end; escaped += GROUP)
		literals_encode(cdfs, escaped, &second);
	coder_ranks_adapt(coder, (size_t)(rank - ranks->events));
	range_end(ranks, &first, rank);
	range_end(literals, &second, escaped);
}

/* --- Literals, numbers and raw bits ----------------------------------------------------------- */

/* Raw bits while they are written, in registers. */
struct raw_writing {
	uint64_t bits; /* bits that are no whole byte yet */
	unsigned count; /* how many these are */
	uint8_t *out;
};

/* Reserves room for so many calls of raw_put(). */
static inline struct raw_writing raw_begin(struct coder *coder, size_t calls)
{
	array_reserve(&coder->raw_bytes, coder->raw_bytes.count + (calls + 1) * sizeof(uint64_t));
	return (struct raw_writing){ coder->raw, coder->raw_bits,
				     coder->raw_bytes.items + coder->raw_bytes.count };
}

static inline void raw_end(struct coder *coder, const struct raw_writing *raw_bytes)
{
	coder->raw = raw_bytes->bits;
	coder->raw_bits = raw_bytes->count;
	coder->raw_bytes.count = (size_t)(raw_bytes->out - coder->raw_bytes.items);
}

/* Puts at most 56 bits; the value has no others. */
static inline void raw_put(struct raw_writing *raw_bytes, uint64_t value, unsigned bits)
{
	raw_bytes->bits |= value << raw_bytes->count;
	raw_bytes->count += bits;
	memcpy(raw_bytes->out, &raw_bytes->bits, sizeof(raw_bytes->bits));
	raw_bytes->out += raw_bytes->count / 8;
	raw_bytes->bits >>= raw_bytes->count & 56;
	raw_bytes->count %= 8;
}

/*
 * Puts the `rest` bits of a number that follow its first four; returns where the next event goes.
 */
static __attribute__((noinline)) uint16_t *digits_end(struct coder *coder, uint16_t *event,
						      unsigned cdf, unsigned rest, uint64_t value)
{
	unsigned some = rest < 4 ? rest : 4;
	struct raw_writing raw_bytes;

	rest -= some;
	*event++ = (uint16_t)(cdf * 16 + (value >> rest & ((1u << some) - 1)));
	raw_bytes = raw_begin(coder, 1);
	raw_put(&raw_bytes, value & (((uint64_t)1 << rest) - 1), rest);
	raw_end(coder, &raw_bytes);
	return event;
}

/* Puts the bits of a number behind the highest, four and four. */
static inline uint16_t *digits_put(struct coder *coder, uint16_t *event, unsigned cdf,
				   unsigned length, uint64_t value)
{
	unsigned rest = length - 1, some = rest < 4 ? rest : 4;
	unsigned told = length < LENGTHS_TOLD ? length : LENGTHS_TOLD - 1, first;

	rest -= some;
	first = value >> rest & ((1u << some) - 1);
	*event++ = (uint16_t)((cdf + NUMBER_FIRST + length) * 16 + first);
	return rest ? digits_end(coder, event, cdf + NUMBER_NEXT + told * 16 + first, rest, value)
		    : event;
}

/* Puts the length of a number, less 1, if it needs several parts. */
static __attribute__((noinline)) uint16_t *parts_put(uint16_t *event, unsigned cdf, unsigned left)
{
	for (unsigned part = 0; part < PARTS; part++, left -= PART_LAST) {
		unsigned some = left < PART_LAST ? left : PART_LAST;

		*event++ = (uint16_t)((cdf + part) * 16 + some);
		if (some < PART_LAST)
			break;
	}
	return event;
}

/*
 * Puts a number above 0. Most are small; what longer ones need is not inlined, because it needs
 * many registers.
 */
static inline uint16_t *number_put(struct coder *coder, uint16_t *event, unsigned kind,
				   uint64_t value)
{
	unsigned cdf = NUMBERS + NUMBER_CDFS * kind;
	unsigned last = (unsigned)__builtin_clzll(value) ^ 63;

	if (last < PART_LAST)
		*event++ = (uint16_t)(cdf * 16 + last);
	else
		event = parts_put(event, cdf, last);
	return last ? digits_put(coder, event, cdf, last + 1, value) : event;
}

/* Puts a literal that has no class of its own. */
static uint16_t *other_put(struct coder *coder, uint16_t *event, uint32_t symbol, uint32_t max)
{
	uint64_t above = (uint64_t)symbol - max, below = (uint64_t)max - symbol;

	*event++ = LITERAL * 16 + CLASS_OTHER;
	return number_put(coder, event, NUMBER_OTHER, symbol > max ? above * 2 : below * 2 + 1);
}

/* How literals of a class are coded. */
struct literal_class {
	uint32_t events; /* two events; the second lacks the four bits */
	uint16_t raw; /* mask of the raw bits */
	uint8_t shift; /* where the four bits begin; 32: there are none */
	uint8_t rest; /* number of raw bits */
};

/*
 * By the index of a symbol's highest bit, but at least SMALL_BITS - 1. The first entry is for
 * symbols that are one greater than all before.
 */
static const struct literal_class literal_classes[CLASS_BITS_MAX] = {
#define EVENTS_OF(class) ((LITERAL * 16 + (class)) | (LITERAL_FIRST + (class)) << 20)
#define REST(bits)                                                                                 \
	{                                                                                          \
		EVENTS_OF(CLASS_SMALL + 1 + (bits)), (1 << (bits)) - 1, bits, bits                 \
	}
	[0] = { EVENTS_OF(CLASS_FRESH), 0, 32, 0 },
	[SMALL_BITS - 1] = { EVENTS_OF(CLASS_SMALL), 0, 0, 0 },
	[SMALL_BITS] = REST(0),
	REST(1),
	REST(2),
	REST(3),
	REST(4),
	REST(5),
	REST(6),
	REST(7),
	REST(8),
	REST(9),
	REST(10),
	REST(11),
	REST(12),
#undef REST
#undef EVENTS_OF
};

/*
 * Puts the two events of a literal that has a class. The empty asm statements keep GCC from making
 * a branch of whether the symbol is one greater than all before.
 */
static inline uint16_t *class_put(struct raw_writing *raw_bytes, uint16_t *event, uint32_t symbol,
				  uint32_t max)
{
	size_t top = (size_t)__builtin_clzll(symbol | 1 << (SMALL_BITS - 1)) ^ 63;
	const struct literal_class *literals;
	uint32_t events;

	__asm__("" : "+r"(top));
	top = symbol == max + 1 ? 0 : top;
	__asm__("" : "+r"(top));
	literals = &literal_classes[top];
	events = literals->events | (uint32_t)((uint64_t)symbol >> literals->shift & 15) << 16;
	memcpy(event, &events, sizeof(events));
	raw_put(raw_bytes, symbol & literals->raw, literals->rest);
	return event + 2;
}

/* Puts a literal that short_literals_put() has left. */
static inline uint16_t *literal_put(struct coder *coder, uint16_t *event, uint32_t symbol,
				    uint32_t max)
{
	struct raw_writing raw_bytes;

	if (symbol != max + 1)
		return other_put(coder, event, symbol, max);
	raw_bytes = raw_begin(coder, 1);
	event = class_put(&raw_bytes, event, symbol, max);
	raw_end(coder, &raw_bytes);
	return event;
}

/* Puts literals up to the first that has no class by its number of bits alone. Returns how many. */
static size_t short_literals_put(struct coder *coder, uint16_t **event, const uint32_t *symbols,
				 size_t count, uint32_t *max)
{
	struct raw_writing raw_bytes = raw_begin(coder, count);
	size_t i = 0;

	for (; i < count && symbols[i] <= *max + 1 && !(symbols[i] >> CLASS_BITS_MAX); i++) {
		*event = class_put(&raw_bytes, *event, symbols[i], *max);
		*max = symbols[i] > *max ? symbols[i] : *max;
	}
	raw_end(coder, &raw_bytes);
	return i;
}

/*
 * Symbols that are greater than all before are among the literals, since no context can list them.
 */
static void literals_put(struct coder *coder, const uint32_t *symbols, size_t count)
{
	struct coder_stream *stream = &coder->literals;
	uint16_t *event = stream->events + stream->event_count;
	uint32_t max = coder->max;

	for (size_t i = 0; i < count; i++) {
		i += short_literals_put(coder, &event, symbols + i, count - i, &max);
		if (i == count)
			break;
		event = literal_put(coder, event, symbols[i], max);
		max = symbols[i] > max ? symbols[i] : max;
	}
	coder->max = max;
	stream->event_count = (size_t)(event - stream->events);
}

/* --- From symbols to events ------------------------------------------------------------------- */

static void offsets_find(const uint32_t *symbols, size_t count, unsigned bits,
			 struct coder_offsets *ret)
{
	for (size_t i = 0; i < count; i++) {
		ret->order3[i] = order3_offset(symbols + i, bits);
		ret->order1[i] = order1_offset(symbols + i);
		ret->lows[i] = (uint16_t)(symbols[i] + 1);
	}
}

static inline unsigned rank_of(const struct coder_view *view, uint16_t value)
{
	__m128i wanted = _mm_set1_epi16((short)value);
	__m128i equal = _mm_packs_epi16(_mm_cmpeq_epi16(view->low, wanted),
					_mm_cmpeq_epi16(view->high, wanted));

	return (unsigned)__builtin_ctz((unsigned)_mm_movemask_epi8(equal) | 1 << ESCAPE);
}

/*
 * Returns the event of a symbol's rank. `listed`: if it is false, no context can have the symbol.
 */
static inline uint16_t rank_find(struct coder *coder, uint32_t offset3, uint32_t offset1,
				 uint16_t low, bool listed)
{
	struct coder_order3 *order3 = order3_at(coder->order3, offset3);
	struct coder_order1 *order1 = order1_at(coder->order1, offset1);
	unsigned cdf = cdf_of_rank(order3, order1), rank;
	struct coder_view view;

	view_take(order3, order1, &view);
	rank = listed ? rank_of(&view, low) : ESCAPE;
	view_update(coder, &view, order3, order1, rank, low);
	return (uint16_t)(cdf * 16 + rank);
}

static void ranks_find(struct coder *coder, const struct coder_offsets *offsets, size_t count,
		       size_t fetched, uint16_t *events)
{
	for (size_t i = 0; i < count; i++) {
		if (i + FETCH_AHEAD < fetched) {
			__builtin_prefetch(
				order3_at(coder->order3, offsets->order3[i + FETCH_AHEAD]), 1);
			__builtin_prefetch(
				order1_at(coder->order1, offsets->order1[i + FETCH_AHEAD]), 1);
		}
		events[i] = rank_find(coder, offsets->order3[i], offsets->order1[i],
				      offsets->lows[i], true);
	}
}

/*
 * For symbols from LOWS on: a context lists a lower part, which stands for the last symbol that had
 * it.
 */
static void high_ranks_find(struct coder *coder, const uint32_t *symbols, size_t count,
			    const struct coder_offsets *offsets, uint16_t *events)
{
	for (size_t i = 0; i < count; i++) {
		uint16_t low = low_of(symbols[i]), high = high_of(symbols[i]);
		bool listed = coder->highs[low] == high;

		coder->highs[low] = high;
		events[i] = rank_find(coder, offsets->order3[i], offsets->order1[i], low, listed);
	}
}

static size_t escaped_take(const uint32_t *symbols, const uint16_t *events, size_t count,
			   uint32_t *ret)
{
	size_t taken = 0;

	for (size_t i = 0; i < count; i++) {
		ret[taken] = symbols[i];
		taken += events[i] % 16 == ESCAPE;
	}
	return taken;
}

const struct coder_steps coder_steps_plain = {
	.offsets_find = offsets_find,
	.ranks_find = ranks_find,
	.escaped_take = escaped_take,
};

static uint32_t greatest_of(const uint32_t *symbols, size_t count, uint32_t greatest)
{
	for (size_t i = 0; i < count; i++)
		greatest = symbols[i] > greatest ? symbols[i] : greatest;
	return greatest;
}

/* At most BATCH symbols. Those of the context lie before them, and others may follow, up to end. */
static void batch_put(struct coder *coder, const uint32_t *symbols, size_t count,
		      const uint32_t *end)
{
	size_t left = (size_t)(end - symbols);
	size_t fetched = left < count + FETCH_AHEAD ? left : count + FETCH_AHEAD;
	struct coder_offsets offsets;
	uint32_t escaped[BATCH + 16];
	uint32_t greatest = greatest_of(symbols, count, coder->max);
	uint16_t *events = coder->ranks.events + coder->ranks.event_count;

	coder->steps->offsets_find(symbols, fetched, coder->bits, &offsets);
	coder_order1_clear(coder, greatest);
	if (greatest < LOWS)
		coder->steps->ranks_find(coder, &offsets, count, fetched, events);
	else
		high_ranks_find(coder, symbols, count, &offsets, events);
	coder->ranks.event_count += count;
	literals_put(coder, escaped, coder->steps->escaped_take(symbols, events, count, escaped));
}

/* How many ranks can be put before some are encoded: probabilities change between two groups. */
static inline size_t ranks_room(const struct coder *coder)
{
	size_t until = coder->until > 0 ? ((size_t)coder->until + GROUP - 1) / GROUP * GROUP
					: GROUP;

	return (until < BATCH ? until : BATCH) - coder->ranks.event_count;
}

/* The symbols of the context lie before those to be put. */
static void many_put(struct coder *coder, const uint32_t *symbols, size_t count)
{
	const uint32_t *end = symbols + count;

	while (symbols < end) {
		size_t left = (size_t)(end - symbols), room = ranks_room(coder);
		size_t some = left < room ? left : room;

		batch_put(coder, symbols, some, end);
		if (some == room)
			groups_encode(coder);
		symbols += some;
	}
}

/* --- The calls -------------------------------------------------------------------------------- */

static void stream_write(struct coder_stream *stream)
{
	stream->low = 0;
	stream->range = INT64_MAX;
	stream->event_count = 0;
	stream->out.count = 0;
}

void coder_write(struct coder *coder)
{
	coder_ranks_adapt(coder, 0); /* in case the last group was not whole */
	stream_write(&coder->ranks);
	stream_write(&coder->literals);
	coder->raw = 0;
	coder->raw_bits = 0;
	coder->raw_bytes.count = 0;
}

static void events_make_room(struct coder *coder)
{
	if (!ranks_room(coder) || coder->literals.event_count > EVENTS - LITERAL_EVENTS)
		groups_encode(coder);
}

/* Numbers are coded with 1 added, so that there is a highest bit. */
void coder_put_number(struct coder *coder, unsigned kind, uint64_t value)
{
	struct coder_stream *stream = &coder->literals;
	uint16_t *event = stream->events + stream->event_count;

	assert(value < UINT64_MAX && kind < CODER_KINDS);
	event = number_put(coder, event, kind, value + 1);
	stream->event_count = (size_t)(event - stream->events);
	if (stream->event_count > EVENTS - LITERAL_EVENTS)
		groups_encode(coder);
}

void coder_put(struct coder *coder, uint32_t symbol)
{
	const uint32_t *end;

	assert(symbol <= CODER_SYMBOL_MAX);
	recent_add(coder, symbol);
	end = &coder->recent[coder->at];
	batch_put(coder, end - 1, 1, end);
	events_make_room(coder);
}

void coder_put_all(struct coder *coder, const uint32_t *symbols, size_t count)
{
	size_t first = count < CODER_REACH ? count : CODER_REACH;

	for (size_t i = 0; i < first; i++)
		coder_put(coder, symbols[i]);
	if (count == first)
		return;
	many_put(coder, symbols + first, count - first);
	for (size_t i = count - CODER_REACH; i < count; i++)
		recent_add(coder, symbols[i]);
}

/* Writes a number that lies in the range whatever bytes follow it. */
static void stream_end(struct coder_stream *stream)
{
	unsigned open = 62 - (unsigned)__builtin_clzll(stream->range);
	uint64_t value = (stream->low + ((uint64_t)1 << open) - 1) >> open << open, bytes;

	array_reserve(&stream->out, stream->out.count + sizeof(bytes));
	if (value >> 63)
		carry_propagate(stream->out.items + stream->out.count);
	bytes = __builtin_bswap64(value << 1);
	memcpy(stream->out.items + stream->out.count, &bytes, sizeof(bytes));
	stream->out.count += (63 - open + 7) / 8;
}

static void out_size(struct coder *coder, size_t size)
{
	for (; size >= 0x80; size >>= 7)
		*array_push(&coder->out) = (uint8_t)(size | 0x80);
	*array_push(&coder->out) = (uint8_t)size;
}

static void out_bytes(struct coder *coder, const struct coder_stream *stream)
{
	array_reserve(&coder->out, coder->out.count + stream->out.count);
	memcpy(coder->out.items + coder->out.count, stream->out.items, stream->out.count);
	coder->out.count += stream->out.count;
}

static void out_raw(struct coder *coder)
{
	struct raw_writing raw_bytes = raw_begin(coder, 1);

	raw_put(&raw_bytes, 0, (8 - raw_bytes.count) % 8);
	raw_end(coder, &raw_bytes);
	array_reserve(&coder->out, coder->out.count + coder->raw_bytes.count);
	for (size_t i = coder->raw_bytes.count; i-- > 0;)
		coder->out.items[coder->out.count++] = coder->raw_bytes.items[i];
}

/* Encodes the events that make no whole group. */
static void rest_encode(struct coder *coder)
{
	struct coder_stream *ranks = &coder->ranks, *literals = &coder->literals;
	struct range_coding first = range_begin(ranks), second = range_begin(literals);

	for (size_t i = 0; i < ranks->event_count; i++)
		rank_encode(coder->cdfs, coder->counts, ranks->events[i], &first);
	coder->until -= (int)ranks->event_count;
	for (size_t i = 0; i < literals->event_count; i++)
		literal_encode(coder->cdfs, literals->events[i], &second);
	range_end(ranks, &first, ranks->events + ranks->event_count);
	range_end(literals, &second, literals->events + literals->event_count);
}

void coder_end(struct coder *coder)
{
	groups_encode(coder);
	rest_encode(coder);
	stream_end(&coder->ranks);
	stream_end(&coder->literals);
	coder->out.count = 0;
	out_size(coder, coder->ranks.out.count);
	out_bytes(coder, &coder->ranks);
	out_bytes(coder, &coder->literals);
	out_raw(coder);
}
