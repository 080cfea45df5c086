// SPDX-License-Identifier: BSD-2-Clause
/*
 * Sequences of symbols, compressed.
 *
 * Two contexts remember which symbols followed: the long one, of the last three symbols, the last three that did, and the
 * short one, of the last symbol alone, twelve. A symbol is coded as its rank among these fifteen, the long context's
 * first, or as a sixteenth value if nobody named it. A rank has the chances that ranks had under the same circumstances:
 * how often the long context was right of late, whether both agree on the first, and how much the short one knows. A symbol that
 * nobody named is either one greater than all before, or is spelled out: how many bits it has and the next four with their
 * chances, and the rest plainly.
 * What came moves to the front of the long context; of the short one only if the long one did not know it.
 *
 * Contexts hold 16 bits of a symbol, so that they stay in the caches: its lower part, which stands for the last symbol
 * that had it. Up to 65,534 that is the symbol itself.
 *
 * Values below sixteen have chances. Those of ranks are counted, and change after some thousand of them; those of
 * spelling, which are fewer and more different, move towards each value that comes by a part of the difference. Values are coded by
 * taking a part of a range of 63 bits: three of them, a group, and then what has become certain is written, whole bytes; a carry
 * goes into what was written before.
 *
 *	symbols -> contexts -> ranks: nibbles and their values -> groups_write() -> ranks.out
 *	           those that were not named -> coder_spell() -> spelling, in the same way
 *	                                                      -> plain bits
 *
 * Each step is done for many symbols before the next, and has no branch that depends on them: in irregular sequences nothing
 * could predict it. What was written is the number of bytes of ranks, 7 bits in a byte, the lowest first; those bytes;
 * those of spelling; and plain bits from the end on. Both contexts are fetched some symbols ahead. Where the processor has AVX-512, both
 * are one register (coder_wide.c); the bytes are the same.
 *
 * Invariants
 *  1. Writing and reading change the model in the same way, after the same events.
 *  2. No chance is 0: `before` grows strictly, below 32768.
 *  3. 2^55 <= range < 2^63 and low < 2^63 between two groups, so that the range is never less than 2^10.
 *  4. A context's symbols are different from each other, and none follows a 0, unless there are symbols with the same lower part or
 *     damaged bytes are read.
 *  5. Short contexts of symbols up to max are valid; no other is looked at.
 *  6. There is room for the events of one more symbol or number.
 *  7. Counts of ranks are below 32768: they are those of a period and what was kept, less than eight periods in all.
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

static inline void places_find(const uint32_t *symbols, size_t count, unsigned bits,
			       struct coder_places *ret)
{
	for (size_t i = 0; i < count; i++) {
		ret->longs[i] = long_place(symbols + i, bits);
		ret->shorts[i] = short_place(symbols + i);
		ret->lows[i] = (uint16_t)(symbols[i] + 1);
	}
}

static inline uint32_t greatest_of(const uint32_t *symbols, size_t count, uint32_t greatest)
{
	for (size_t i = 0; i < count; i++)
		greatest = symbols[i] > greatest ? symbols[i] : greatest;
	return greatest;
}

/* Both contexts, in the order of ranks: the long one's symbols, and those of the short one. */
struct coder_view {
	__m128i low, high;
};

static inline void view_take(const struct coder_long *far, const struct coder_short *near,
			     struct coder_view *view)
{
	__m128i longs = _mm_loadl_epi64((const __m128i *)far);
	__m128i those = _mm_setr_epi16(-1, -1, -1, 0, 0, 0, 0, 0);
	__m128i low = _mm_load_si128((const __m128i *)near);

	view->low = _mm_or_si128(_mm_and_si128(those, longs), _mm_andnot_si128(those, low));
	view->high = _mm_load_si128((const __m128i *)near + 1);
}

static inline unsigned rank_of(const struct coder_view *view, uint16_t value)
{
	__m128i wanted = _mm_set1_epi16((short)value);
	__m128i equal = _mm_packs_epi16(_mm_cmpeq_epi16(view->low, wanted),
					_mm_cmpeq_epi16(view->high, wanted));

	return (unsigned)__builtin_ctz((unsigned)_mm_movemask_epi8(equal) | 1 << SPELLED);
}

static inline __m128i words_choose(__m128i chosen, __m128i yes, __m128i no)
{
	return _mm_or_si128(_mm_and_si128(chosen, yes), _mm_andnot_si128(chosen, no));
}

/*
 * Up to where the symbol was, what is there moves one word back, and the symbol to the front of each context. If the long one
 * has it, nothing of the short one moves.
 */
static inline void view_learn(const struct coder_view *view, struct coder_long *far,
			      struct coder_short *near, unsigned rank, uint16_t value)
{
	__m128i end = _mm_set1_epi16((short)(rank + 1));
	__m128i low = _mm_insert_epi16(_mm_slli_si128(view->low, 2), value, 0);
	__m128i high = _mm_or_si128(_mm_slli_si128(view->high, 2), _mm_srli_si128(view->low, 14));
	unsigned state = state_next[far->state % STATES][rank];

	low = _mm_insert_epi16(low, value, CODER_LONG);
	low = words_choose(_mm_cmpgt_epi16(end, _mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7)), low,
			   view->low);
	high = words_choose(_mm_cmpgt_epi16(end, _mm_setr_epi16(8, 9, 10, 11, 12, 13, 14, 15)),
			    high, view->high);
	_mm_store_si128((__m128i *)near, low);
	_mm_store_si128((__m128i *)near + 1, high);
	_mm_storel_epi64((__m128i *)far, _mm_insert_epi16(low, (int)state, CODER_LONG));
}

static inline unsigned contexts_put(struct coder_long *far, struct coder_short *near,
				    uint16_t value, bool named)
{
	struct coder_view view;
	unsigned rank;

	view_take(far, near, &view);
	rank = named ? rank_of(&view, value) : SPELLED;
	view_learn(&view, far, near, rank, value);
	return rank;
}

static inline size_t spelled_take(const uint32_t *symbols, const uint16_t *events, size_t count,
				  uint32_t *ret)
{
	size_t taken = 0;

	for (size_t i = 0; i < count; i++) {
		ret[taken] = symbols[i];
		taken += events[i] % 16 == SPELLED;
	}
	return taken;
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
	if (coder->max >= LOWS)
		memset(coder->highs, 0, (LOWS + 1) * sizeof(*coder->highs));
	memset(coder->longs, 0, sizeof(*coder->longs) << coder->bits);
	memset(coder->shorts, 0, sizeof(*coder->shorts));
	for (unsigned i = 0; i < NIBBLES; i++)
		for (unsigned value = 0; value < 16; value++)
			coder->nibbles[i].before[value] = (uint16_t)(value << (CHANCE_BITS - 4));
	coder->nibbles[NIBBLES].before[0] = 0;
	memset(coder->counts, 0, RANKS * 16 * sizeof(*coder->counts));
	coder->period = PERIOD_FIRST;
	coder->until = PERIOD_FIRST;
	memset(coder->recent, 0, sizeof(coder->recent));
	coder->at = CODER_REACH;
	coder->max = 0;
}

void coder_init(struct coder *coder, size_t symbols)
{
	*coder = (struct coder){};
	coder->longs = mem_alloc_aligned(sizeof(*coder->longs) << BITS_MAX, LINE);
	coder->shorts = mem_alloc_aligned(sizeof(*coder->shorts) * SHORTS, LINE);
	coder->highs = mem_zalloc((LOWS + 1) * sizeof(*coder->highs));
	coder->nibbles = mem_alloc_aligned((NIBBLES + 2) / 2 * 2 * sizeof(*coder->nibbles), LINE);
	coder->counts = mem_alloc_aligned(RANKS * 16 * sizeof(*coder->counts), LINE);
	coder->ranks.events = mem_alloc((BATCH + 16) * sizeof(*coder->ranks.events));
	coder->spelling.events = mem_alloc(EVENTS * sizeof(*coder->spelling.events));
	coder_forget(coder, symbols);
}

void coder_deinit(struct coder *coder)
{
	free(coder->longs);
	free(coder->shorts);
	free(coder->highs);
	free(coder->nibbles);
	free(coder->counts);
	free(coder->ranks.events);
	free(coder->spelling.events);
	array_deinit(&coder->ranks.out);
	array_deinit(&coder->spelling.out);
	array_deinit(&coder->out);
	array_deinit(&coder->plains);
	*coder = (struct coder){};
}

size_t coder_memory(const struct coder *coder)
{
	return (sizeof(*coder->longs) << BITS_MAX) + sizeof(*coder->shorts) * SHORTS +
	       (NIBBLES + 2) * sizeof(*coder->nibbles) +
	       (BATCH + EVENTS + RANKS * 16) * sizeof(uint16_t) + coder->ranks.out.capacity +
	       coder->spelling.out.capacity + coder->plains.capacity + coder->out.capacity;
}

void coder_shorts_clear(struct coder *coder, uint32_t symbol)
{
	uint32_t first = coder->max + 1, end = symbol < SHORTS ? symbol + 1 : SHORTS;

	if (first < end)
		memset(&coder->shorts[first], 0, (end - first) * sizeof(*coder->shorts));
}

/* --- Chances of ranks ----------------------------------------------------------------------------------- */

static unsigned counts_sum(__m128i eight, __m128i other)
{
	__m128i ones = _mm_set1_epi16(1);
	__m128i sum = _mm_add_epi32(_mm_madd_epi16(eight, ones), _mm_madd_epi16(other, ones));

	sum = _mm_add_epi32(sum, _mm_unpackhi_epi64(sum, sum));
	sum = _mm_add_epi32(sum, _mm_srli_epi64(sum, 32));
	return (unsigned)_mm_cvtsi128_si32(sum);
}

/* Of four values, less 1. Each counts an eighth more than it came, so that none is impossible. */
static __m128i four_sizes(__m128i counts, __m128 unit)
{
	__m128i eighths = _mm_add_epi32(_mm_slli_epi32(counts, 3), _mm_set1_epi32(1));

	return _mm_cvttps_epi32(_mm_mul_ps(_mm_cvtepi32_ps(eighths), unit));
}

static __m128i eight_sizes(__m128i counts, __m128 unit)
{
	__m128i zero = _mm_setzero_si128();

	return _mm_add_epi16(_mm_packs_epi32(four_sizes(_mm_unpacklo_epi16(counts, zero), unit),
					     four_sizes(_mm_unpackhi_epi16(counts, zero), unit)),
			     _mm_set1_epi16(1));
}

/* Each with all before it. */
static __m128i eight_sums(__m128i sizes)
{
	sizes = _mm_add_epi16(sizes, _mm_slli_si128(sizes, 2));
	sizes = _mm_add_epi16(sizes, _mm_slli_si128(sizes, 4));
	return _mm_add_epi16(sizes, _mm_slli_si128(sizes, 8));
}

static __m128i eight_forget(__m128i counts)
{
	return _mm_sub_epi16(counts, _mm_srli_epi16(counts, FORGET));
}

/*
 * Chances become parts of what came under the same circumstances, most of it of late. Floats are the same everywhere: counts and
 * eighths of them are exact, and their products are rounded once, to less than there is to divide.
 */
static void chances_change(struct coder_nibble *nibble, uint16_t *counts)
{
	__m128i *count = (__m128i *)counts, *before = (__m128i *)nibble;
	__m128i low = _mm_load_si128(count), high = _mm_load_si128(count + 1), sizes, sums;
	unsigned all = counts_sum(low, high);
	__m128 unit;

	if (!all)
		return;
	unit = _mm_set1_ps((float)((1 << CHANCE_BITS) - 16) / (float)(all * 8 + 16));
	sizes = eight_sizes(low, unit);
	sums = eight_sums(sizes);
	_mm_store_si128(before, _mm_sub_epi16(sums, sizes));
	sizes = eight_sizes(high, unit);
	sums = _mm_add_epi16(eight_sums(sizes), _mm_set1_epi16((short)_mm_extract_epi16(sums, 7)));
	_mm_store_si128(before + 1, _mm_sub_epi16(sums, sizes));
	_mm_store_si128(count, eight_forget(low));
	_mm_store_si128(count + 1, eight_forget(high));
}

void coder_ranks_learn(struct coder *coder, size_t ranks)
{
	coder->until -= (int)ranks;
	if (coder->until > 0)
		return;
	for (unsigned i = 0; i < RANKS; i++)
		chances_change(&coder->nibbles[i], &coder->counts[i * 16]);
	coder->period = coder->period < PERIOD_MAX ? coder->period * 2 : PERIOD_MAX;
	coder->until = (int)coder->period;
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

/* --- Writing ------------------------------------------------------------------------------------------ */

static void stream_write(struct coder_stream *stream)
{
	stream->low = 0;
	stream->range = INT64_MAX;
	stream->event_count = 0;
	stream->out.count = 0;
}

void coder_write(struct coder *coder)
{
	coder_ranks_learn(coder, 0); /* if groups were too short for it */
	stream_write(&coder->ranks);
	stream_write(&coder->spelling);
	coder->plain = 0;
	coder->plain_bits = 0;
	coder->plains.count = 0;
}

/* Plain bits while they are written, where no memory is in the way. */
struct plains {
	uint64_t bits; /* that are no whole byte yet */
	unsigned count; /* of them */
	uint8_t *out;
};

/* For so many calls of plain_put(). */
static inline struct plains plains_begin(struct coder *coder, size_t calls)
{
	array_reserve(&coder->plains, coder->plains.count + (calls + 1) * sizeof(uint64_t));
	return (struct plains){ coder->plain, coder->plain_bits,
				coder->plains.items + coder->plains.count };
}

static inline void plains_end(struct coder *coder, const struct plains *plains)
{
	coder->plain = plains->bits;
	coder->plain_bits = plains->count;
	coder->plains.count = (size_t)(plains->out - coder->plains.items);
}

/* At most 56 bits; the value has no others. */
static inline void plain_put(struct plains *plains, uint64_t value, unsigned bits)
{
	plains->bits |= value << plains->count;
	plains->count += bits;
	memcpy(plains->out, &plains->bits, sizeof(plains->bits));
	plains->out += plains->count / 8;
	plains->bits >>= plains->count & 56;
	plains->count %= 8;
}

/* The bits of a number behind the first four, so many of them; returns where the next event goes. */
static __attribute__((noinline)) uint16_t *
digits_end(struct coder *coder, uint16_t *event, unsigned nibble, unsigned rest, uint64_t value)
{
	unsigned some = rest < 4 ? rest : 4;
	struct plains plains;

	rest -= some;
	*event++ = (uint16_t)(nibble * 16 + (value >> rest & ((1u << some) - 1)));
	plains = plains_begin(coder, 1);
	plain_put(&plains, value & (((uint64_t)1 << rest) - 1), rest);
	plains_end(coder, &plains);
	return event;
}

/* The bits of a number behind the first, four and four. */
static inline uint16_t *digits_put(struct coder *coder, uint16_t *event, unsigned nibble,
				   unsigned length, uint64_t value)
{
	unsigned rest = length - 1, some = rest < 4 ? rest : 4;
	unsigned told = length < LENGTHS_TOLD ? length : LENGTHS_TOLD - 1, first;

	rest -= some;
	first = value >> rest & ((1u << some) - 1);
	*event++ = (uint16_t)((nibble + NUMBER_FIRST + length) * 16 + first);
	return rest ? digits_end(coder, event, nibble + NUMBER_NEXT + told * 16 + first, rest,
				 value)
		    : event;
}

/* The length of a number, less 1, that needs several parts. */
static __attribute__((noinline)) uint16_t *parts_put(uint16_t *event, unsigned nibble,
						     unsigned left)
{
	for (unsigned part = 0; part < PARTS; part++, left -= PART_LAST) {
		unsigned some = left < PART_LAST ? left : PART_LAST;

		*event++ = (uint16_t)((nibble + part) * 16 + some);
		if (some < PART_LAST)
			break;
	}
	return event;
}

/* Above 0. Most are small: what others need is in functions of its own, which need registers that have to be saved. */
static inline uint16_t *number_put(struct coder *coder, uint16_t *event, unsigned kind,
				   uint64_t value)
{
	unsigned nibble = NUMBERS + NUMBER_NIBBLES * kind;
	unsigned last = (unsigned)__builtin_clzll(value) ^ 63;

	if (last < PART_LAST)
		*event++ = (uint16_t)(nibble * 16 + last);
	else
		event = parts_put(event, nibble, last);
	return last ? digits_put(coder, event, nibble, last + 1, value) : event;
}

/* A symbol that has no class of its own. */
static uint16_t *other_put(struct coder *coder, uint16_t *event, uint32_t symbol, uint32_t max)
{
	uint64_t above = (uint64_t)symbol - max, below = (uint64_t)max - symbol;

	*event++ = SPELLING * 16 + CLASS_OTHER;
	return number_put(coder, event, NUMBER_OTHER, symbol > max ? above * 2 : below * 2 + 1);
}

/* How symbols of a class are spelled. */
struct spelling {
	uint32_t events; /* two, the second of which lacks the four bits */
	uint16_t plain; /* mask of the bits behind those */
	uint8_t shift; /* of the four bits: 32 if there are none */
	uint8_t rest; /* plain bits */
};

/* By the number of a symbol's highest bit, but at least SMALL_BITS - 1; the first is that of fresh ones. */
static const struct spelling spellings[CLASS_BITS_MAX] = {
#define EVENTS_OF(class) ((SPELLING * 16 + (class)) | (SPELLING_FIRST + (class)) << 20)
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

/* Two events. GCC would make a branch of whether a symbol is fresh if it knew. */
static inline uint16_t *class_put(struct plains *plains, uint16_t *event, uint32_t symbol,
				  uint32_t max)
{
	size_t top = (size_t)__builtin_clzll(symbol | 1 << (SMALL_BITS - 1)) ^ 63;
	const struct spelling *spelling;
	uint32_t events;

	__asm__("" : "+r"(top));
	top = symbol == max + 1 ? 0 : top;
	__asm__("" : "+r"(top));
	spelling = &spellings[top];
	events = spelling->events | (uint32_t)((uint64_t)symbol >> spelling->shift & 15) << 16;
	memcpy(event, &events, sizeof(events));
	plain_put(plains, symbol & spelling->plain, spelling->rest);
	return event + 2;
}

/* One that few_bits_spell() leaves. */
static inline uint16_t *symbol_spell(struct coder *coder, uint16_t *event, uint32_t symbol,
				     uint32_t max)
{
	struct plains plains;

	if (symbol != max + 1)
		return other_put(coder, event, symbol, max);
	plains = plains_begin(coder, 1);
	event = class_put(&plains, event, symbol, max);
	plains_end(coder, &plains);
	return event;
}

/* As many of them as have a class whether or not they are fresh, which nobody could predict. Returns how many. */
static size_t few_bits_spell(struct coder *coder, uint16_t **event, const uint32_t *symbols,
			     size_t count, uint32_t *max)
{
	struct plains plains = plains_begin(coder, count);
	size_t i = 0;

	for (; i < count && symbols[i] <= *max + 1 && !(symbols[i] >> CLASS_BITS_MAX); i++) {
		*event = class_put(&plains, *event, symbols[i], *max);
		*max = symbols[i] > *max ? symbols[i] : *max;
	}
	plains_end(coder, &plains);
	return i;
}

/* Those that are greater than all before are among them: no context could name them. */
void coder_spell(struct coder *coder, const uint32_t *symbols, size_t count)
{
	struct coder_stream *stream = &coder->spelling;
	uint16_t *event = stream->events + stream->event_count;
	uint32_t max = coder->max;

	for (size_t i = 0; i < count; i++) {
		i += few_bits_spell(coder, &event, symbols + i, count - i, &max);
		if (i == count)
			break;
		event = symbol_spell(coder, event, symbols[i], max);
		max = symbols[i] > max ? symbols[i] : max;
	}
	coder->max = max;
	stream->event_count = (size_t)(event - stream->events);
}

static void events_make_room(struct coder *coder)
{
	if (!ranks_room(coder) || coder->spelling.event_count > EVENTS - SPELLED_EVENTS)
		groups_write(coder);
}

/* Numbers are coded with 1 added, so that there is a first bit. They need no room of ranks. */
void coder_put_number(struct coder *coder, unsigned kind, uint64_t value)
{
	struct coder_stream *stream = &coder->spelling;
	uint16_t *event = stream->events + stream->event_count;

	assert(value < UINT64_MAX && kind < CODER_KINDS);
	event = number_put(coder, event, kind, value + 1);
	stream->event_count = (size_t)(event - stream->events);
	if (stream->event_count > EVENTS - SPELLED_EVENTS)
		groups_write(coder);
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
	(coder_is_wide() ? coder_put_many_wide : put_many)(coder, symbols + first, count - first);
	for (size_t i = count - CODER_REACH; i < count; i++)
		recent_add(coder, symbols[i]);
}

/* A number such that it is in the range whatever follows: that may be the bytes of something else. */
static void stream_end(struct coder_stream *stream)
{
	unsigned open = 62 - (unsigned)__builtin_clzll(stream->range);
	uint64_t value = (stream->low + ((uint64_t)1 << open) - 1) >> open << open, bytes;

	array_reserve(&stream->out, stream->out.count + sizeof(bytes));
	if (value >> 63)
		carry(stream->out.items + stream->out.count);
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

static void out_plains(struct coder *coder)
{
	struct plains plains = plains_begin(coder, 1);

	plain_put(&plains, 0, (8 - plains.count) % 8);
	plains_end(coder, &plains);
	array_reserve(&coder->out, coder->out.count + coder->plains.count);
	for (size_t i = coder->plains.count; i-- > 0;)
		coder->out.items[coder->out.count++] = coder->plains.items[i];
}

/* What is less than a group. */
static void rest_write(struct coder *coder)
{
	struct coder_stream *ranks = &coder->ranks, *spelling = &coder->spelling;
	struct writing first = writing_begin(ranks), second = writing_begin(spelling);

	for (size_t i = 0; i < ranks->event_count; i++)
		rank_write(coder->nibbles, coder->counts, ranks->events[i], &first);
	coder->until -= (int)ranks->event_count;
	for (size_t i = 0; i < spelling->event_count; i++)
		spelling_write(coder->nibbles, spelling->events[i], &second);
	writing_end(ranks, &first, ranks->events + ranks->event_count);
	writing_end(spelling, &second, spelling->events + spelling->event_count);
}

void coder_end(struct coder *coder)
{
	groups_write(coder);
	rest_write(coder);
	stream_end(&coder->ranks);
	stream_end(&coder->spelling);
	coder->out.count = 0;
	out_size(coder, coder->ranks.out.count);
	out_bytes(coder, &coder->ranks);
	out_bytes(coder, &coder->spelling);
	out_plains(coder);
}

/* --- Reading ------------------------------------------------------------------------------------------ */

static inline uint8_t byte_next(struct coder_stream *stream)
{
	if (stream->in < stream->in_end)
		return *stream->in++;
	stream->beyond++;
	return 0;
}

/* The range has 63 bits, so that what is read lies across bytes. */
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

/* Where more bytes of ranks are said to be than there are, reading ends too early. */
void coder_read(struct coder *coder, const uint8_t *bytes, size_t size)
{
	const uint8_t *end = bytes + size;
	size_t ranks = in_size(&bytes, end);

	ranks = ranks < (size_t)(end - bytes) ? ranks : (size_t)(end - bytes);
	coder_ranks_learn(coder, 0); /* as in coder_write() */
	stream_read(&coder->ranks, bytes, bytes + ranks);
	stream_read(&coder->spelling, bytes + ranks, end);
	coder->plain = 0;
	coder->plain_bits = 0;
	coder->plain_in = end;
}

/* Nobody has taken more than there is: spelling and plain bits come from both ends of the same bytes. */
static int reading_check(const struct coder *coder)
{
	const struct coder_stream *spelling = &coder->spelling;
	size_t both = spelling->in > coder->plain_in ? (size_t)(spelling->in - coder->plain_in) : 0;

	if (coder->ranks.beyond > BEYOND_MAX || spelling->beyond + both > BEYOND_MAX)
		return err_set(-EBADMSG,
			       "a compressed sequence ends too early: the profile is damaged");
	return 0;
}

/* At most 56 bits. */
static uint64_t plain_get(struct coder *coder, unsigned bits)
{
	uint64_t value;

	for (; coder->plain_bits < bits; coder->plain_bits += 8)
		if (coder->plain_in > coder->ranks.in_end)
			coder->plain |= (uint64_t) * --coder->plain_in << coder->plain_bits;
		else
			coder->spelling.beyond++;
	value = coder->plain & (((uint64_t)1 << bits) - 1);
	coder->plain >>= bits;
	coder->plain_bits -= bits;
	return value;
}

/* After an event; true: it was the last of a group. */
static inline bool group_read(struct coder_stream *stream)
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

/* The last value that has not more before it. */
static inline unsigned nibble_find(const struct coder_nibble *nibble, uint64_t place)
{
	__m128i at = _mm_set1_epi16(place < 1 << CHANCE_BITS ? (short)place : INT16_MAX);
	__m128i beyond =
		_mm_packs_epi16(_mm_cmpgt_epi16(_mm_load_si128((const __m128i *)nibble), at),
				_mm_cmpgt_epi16(_mm_load_si128((const __m128i *)nibble + 1), at));

	return (unsigned)__builtin_ctz((unsigned)_mm_movemask_epi8(beyond) | 1 << 16) - 1;
}

static inline unsigned nibble_get(struct coder_stream *stream, const struct coder_nibble *nibble)
{
	const uint16_t *chances = (const uint16_t *)nibble;
	uint64_t unit = stream->range >> CHANCE_BITS;
	unsigned value = nibble_find(nibble, stream->low / unit);
	uint32_t before = chances[value];

	stream->low -= unit * before;
	stream->range = unit * ((chances[value + 1] - before) & ((1 << CHANCE_BITS) - 1));
	return value;
}

static unsigned rank_get(struct coder *coder, unsigned nibble)
{
	unsigned rank = nibble_get(&coder->ranks, &coder->nibbles[nibble]);

	coder->counts[nibble * 16 + rank]++;
	coder->until--;
	if (group_read(&coder->ranks))
		coder_ranks_learn(coder, 0);
	return rank;
}

static unsigned spelling_get(struct coder *coder, unsigned nibble)
{
	unsigned value = nibble_get(&coder->spelling, &coder->nibbles[nibble]);

	group_read(&coder->spelling);
	nibble_learn(&coder->nibbles[nibble], value);
	return value;
}

static uint64_t digits_get(struct coder *coder, unsigned nibble, unsigned length)
{
	unsigned rest = length - 1, some = rest < 4 ? rest : 4;
	unsigned told = length < LENGTHS_TOLD ? length : LENGTHS_TOLD - 1, first;
	uint64_t value = 1;

	if (!rest)
		return value;
	first = spelling_get(coder, nibble + NUMBER_FIRST + length) & ((1u << some) - 1);
	value = value << some | first;
	rest -= some;
	if (!rest)
		return value;
	some = rest < 4 ? rest : 4;
	value = value << some | (spelling_get(coder, nibble + NUMBER_NEXT + told * 16 + first) &
				 ((1u << some) - 1));
	rest -= some;
	return value << rest | plain_get(coder, rest);
}

static uint64_t number_get(struct coder *coder, unsigned kind)
{
	unsigned nibble = NUMBERS + NUMBER_NIBBLES * kind, length = 1;

	for (unsigned part = 0; part < PARTS; part++) {
		unsigned some = spelling_get(coder, nibble + part);

		length += some;
		if (some < PART_LAST)
			break;
	}
	return digits_get(coder, nibble, length < LENGTHS ? length : LENGTHS - 1);
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

/* Greater than CODER_SYMBOL_MAX if it cannot be one. */
static uint32_t other_get(struct coder *coder)
{
	uint64_t number = number_get(coder, NUMBER_OTHER), distance = number / 2;

	if (distance > (number % 2 ? coder->max : CODER_SYMBOL_MAX - coder->max))
		return UINT32_MAX;
	return (uint32_t)(number % 2 ? coder->max - distance : coder->max + distance);
}

static uint32_t spelled_get(struct coder *coder)
{
	unsigned class = spelling_get(coder, SPELLING), first, rest;

	if (class == CLASS_OTHER)
		return other_get(coder);
	first = spelling_get(coder, SPELLING_FIRST + class);
	if (class == CLASS_FRESH)
		return coder->max + 1;
	if (class == CLASS_SMALL)
		return first;
	rest = class - CLASS_SMALL - 1;
	return (1u << SMALL_BITS | first) << rest | (uint32_t)plain_get(coder, rest);
}

/* Greater than CODER_SYMBOL_MAX if nothing is named there. */
static uint32_t named_get(const struct coder *coder, const struct coder_view *view, unsigned rank)
{
	const uint16_t *words = (const uint16_t *)view;

	return words[rank] ? (uint32_t)coder->highs[words[rank]] * LOWS + words[rank] - 1
			   : UINT32_MAX;
}

static uint32_t symbol_get(struct coder *coder)
{
	const uint32_t *end = &coder->recent[coder->at];
	struct coder_long *far = long_at(coder->longs, long_place(end, coder->bits));
	struct coder_short *near = short_at(coder->shorts, short_place(end));
	unsigned rank = rank_get(coder, nibble_of(far, near));
	struct coder_view view;
	uint32_t symbol;

	view_take(far, near, &view);
	symbol = rank == SPELLED ? spelled_get(coder) : named_get(coder, &view, rank);
	view_learn(&view, far, near, rank, low_of(symbol));
	coder->highs[low_of(symbol)] = high_of(symbol);
	if (symbol > coder->max && symbol <= CODER_SYMBOL_MAX) {
		coder_shorts_clear(coder, symbol);
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
