// SPDX-License-Identifier: BSD-2-Clause
/*
 * Layers.
 *
 * The plain way: each symbol is stamped with the serial number of the cycle that holds it, so that one comparison tells
 * whether the open cycle has it already. Then the cycle is over, is looked up in the table, and compared with the one
 * before. That is constant work for each symbol, but work.
 *
 * The fast way: where a cycle begins, the next symbols choose a guess, the cycle that was found there the last time.
 * It is confirmed by comparing memory: the cycle's symbols, and behind them the symbol that ended it the last time, which
 * it holds. If all are equal, the plain way would find the same. If only what ended it is different, the cycle is searched
 * for that symbol. Anything else goes the plain way, and so does what is too close to the end of a batch.
 *
 * A cycle of the greatest length ends whatever follows, so that only its symbols are compared.
 *
 * Threads take turns. Stamps are shared, so a layer that has an open cycle stamps it again when another layer had the
 * stamps in between.
 *
 * Invariants
 *  1. open holds what was taken since the last cycle ended; no symbol twice; shorter than max_cycle.
 *  2. If open is not empty and the level's owner is this layer, exactly open's symbols are stamped with serial.
 *  3. batch and (slot, trips) refer to slots; they are empty when a table is cleared.
 *  4. guesses holds places of headers in the table; 0 is the one of no cycle.
 *  5. The word behind a cycle is a symbol it holds, or its first one.
 */
#include "profile/layer.h"

#include <assert.h>
#include <emmintrin.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"

enum { GUESS_BITS = 15, AHEAD = 4, LANES = 8 };

/* Strata of irregular programs seldom come again: a small table finds as much, and stays in the caches. */
enum { UPPER_PART = 4, UPPER_MEMORY_MIN = 1 << 16 };

DEFINE_AUTO(struct layer_space, layer_space_destroy)

/* Where the guess is kept for what lies ahead. */
static inline uint32_t *guess_of(const struct layer_level *level, const uint32_t *ahead)
{
	uint64_t a, b;

	memcpy(&a, ahead, sizeof(a));
	memcpy(&b, ahead + 2, sizeof(b));
	return &level->guesses[(a * 0x9e3779b97f4a7c15u ^ b * 0xd6e8feb86659fd93u) >>
			       (64 - GUESS_BITS)];
}

/* A bit for each of the eight words from here on that differ. */
static inline unsigned eight_differ(const uint32_t *a, const uint32_t *b)
{
	__m128i first = _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)a),
					_mm_loadu_si128((const __m128i *)b));
	__m128i second = _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)(a + 4)),
					 _mm_loadu_si128((const __m128i *)(b + 4)));

	return (unsigned)_mm_movemask_epi8(
		       _mm_packs_epi16(_mm_packs_epi32(first, second), _mm_setzero_si128())) ^
	       0xff;
}

/*
 * How many of the first count words are equal, if it is less; anything from count on if all are. Reads eight at a time.
 * Short cycles, most of them, take no branch that depends on their length.
 */
static inline size_t words_equal(const uint32_t *a, const uint32_t *b, size_t count)
{
	size_t at = 0;
	unsigned differ;

	while (!(differ = eight_differ(a + at, b + at)) && at + LANES < count)
		at += LANES;
	return differ ? at + (size_t)__builtin_ctz(differ) : count;
}

static bool word_in(uint32_t word, const uint32_t *words, size_t count)
{
	__m128i wanted = _mm_set1_epi32((int)word);
	size_t i = 0;

	for (; i + 4 <= count; i += 4)
		if (_mm_movemask_epi8(
			    _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)(words + i)), wanted)))
			return true;
	for (; i < count; i++)
		if (words[i] == word)
			return true;
	return false;
}

static void layer_drain(struct layer *layer);
static void levels_clear(struct layer_space *space, unsigned from, bool symbols_too);

static void repeat_add(struct layer *layer)
{
	layer->batch[layer->pending++] =
		(struct repeat){ .trips = layer->trips, .slot = layer->slot };
	if (layer->pending == LAYER_BATCH)
		layer_drain(layer);
}

static inline void cycle_found(struct layer *layer, uint32_t slot)
{
	if (slot == layer->slot) {
		layer->trips++;
		return;
	}
	if (layer->slot)
		repeat_add(layer);
	layer->slot = slot;
	layer->trips = 1;
}

/* Hands on the repeated cycle that may still be going on, and all before it. */
static void repeat_end(struct layer *layer)
{
	if (layer->slot)
		repeat_add(layer);
	layer->slot = 0;
	layer->trips = 0;
	layer_drain(layer);
}

static uint64_t symbol_weight(const struct layer *layer, uint32_t symbol)
{
	const struct layer_space *space = layer->space;
	const struct repeat *repeat;

	if (layer->depth == 0)
		return symbol < space->weights_count ? space->weights[symbol] : 0;
	repeat = layer_symbol(space, layer->depth, symbol);
	return repeat->trips * cycles_at(&layer->level[-1].cycles, repeat->slot)->weight;
}

static void cycle_fill(struct layer *layer, struct cycle *cycle)
{
	uint32_t *words = &layer->level->cycles.words.items[cycle->at];

	for (uint32_t i = 0; i < cycle->length; i++)
		cycle->weight += symbol_weight(layer, words[i]);
	words[CYCLES_COMPARED - CYCLES_HEADER] =
		cycle->length + (cycle->length < layer->level->max_cycle);
	words[cycle->length] = words[0];
}

/* The slot of a cycle that has ended. Clears tables if there is no room, unless it is made (force). */
static uint32_t cycle_intern(struct layer *layer, const uint32_t *symbols, size_t count, bool force)
{
	struct cycles *cycles = &layer->level->cycles;
	uint32_t before = cycles_last(cycles);
	uint32_t slot = cycles_intern(cycles, symbols, count, force);

	if (!slot) {
		levels_clear(layer->space, layer->depth, false);
		before = 0;
		slot = cycles_intern(cycles, symbols, count, true);
	}
	if (slot > before)
		cycle_fill(layer, cycles_at(cycles, slot));
	return slot;
}

static void stamps_reserve(struct layer_level *level, uint32_t symbol)
{
	size_t count = level->stamps_count * 2;

	if (count <= symbol)
		count = (size_t)symbol + 1;
	level->stamps = mem_realloc(level->stamps, count, sizeof(*level->stamps));
	memset(level->stamps + level->stamps_count, 0,
	       (count - level->stamps_count) * sizeof(*level->stamps));
	level->stamps_count = count;
}

/* A serial number that no stamp has. */
static void serial_next(struct layer_level *level)
{
	if (++level->serial)
		return;
	memset(level->stamps, 0, level->stamps_count * sizeof(*level->stamps));
	level->serial = 1;
}

/* Stamps symbols until one is stamped already, or until max; returns how many. */
static size_t symbols_stamp(struct layer_level *level, const uint32_t *symbols, size_t max)
{
	for (size_t i = 0; i < max; i++) {
		if (symbols[i] >= level->stamps_count)
			stamps_reserve(level, symbols[i]);
		if (level->stamps[symbols[i]] == level->serial)
			return i;
		level->stamps[symbols[i]] = level->serial;
	}
	return max;
}

static void stamps_take(struct layer *layer)
{
	struct layer_level *level = layer->level;

	if (layer->open.count && level->owner == layer)
		return;
	serial_next(level);
	level->owner = layer;
	symbols_stamp(level, layer->open.items, layer->open.count);
}

static void open_append(struct layer *layer, const uint32_t *symbols, size_t count)
{
	if (!count)
		return;
	array_reserve(&layer->open, layer->open.count + count);
	memcpy(layer->open.items + layer->open.count, symbols, count * sizeof(*symbols));
	layer->open.count += count;
}

/* Ends the open cycle, or the one of the first count symbols if nothing was open. */
static uint32_t cycle_end(struct layer *layer, const uint32_t *symbols, size_t count)
{
	uint32_t slot;

	if (layer->open.count) {
		open_append(layer, symbols, count);
		symbols = layer->open.items;
		count = layer->open.count;
	}
	slot = cycle_intern(layer, symbols, count, false);
	layer->open.count = 0;
	cycle_found(layer, slot);
	return slot;
}

/* Takes what belongs to one cycle, the plain way; returns how many symbols. count > 0. */
static size_t plain_cycle(struct layer *layer, const uint32_t *symbols, size_t count)
{
	struct layer_level *level = layer->level;
	size_t room = level->max_cycle - layer->open.count;
	bool whole = !layer->open.count;
	const struct cycle *cycle;
	size_t taken;

	stamps_take(layer);
	taken = symbols_stamp(level, symbols, count < room ? count : room);
	if (taken == count && taken < room) {
		open_append(layer, symbols, count);
		return count;
	}
	cycle = cycles_at(&level->cycles, cycle_end(layer, symbols, taken));
	if (taken < room)
		level->cycles.words.items[cycle->at + cycle->length] = symbols[taken];
	if (whole && count >= AHEAD)
		*guess_of(level, symbols) = cycle->at - CYCLES_HEADER;
	return taken;
}

/* Takes cycles as long as guesses are right; returns how many symbols. Nothing is open. */
static size_t guessed_cycles(struct layer *layer, const uint32_t *symbols, size_t count)
{
	const struct layer_level *level = layer->level;
	size_t at = 0, guessed = 0;

	while (count - at >= AHEAD) {
		uint32_t *header = &level->cycles.words.items[*guess_of(level, symbols + at)];
		uint32_t *words = header + CYCLES_HEADER;
		size_t length = header[CYCLES_LENGTH], compared = header[CYCLES_COMPARED], equal;

		if (compared + LANES > count - at)
			break;
		equal = words_equal(symbols + at, words, compared);
		if (equal < compared) {
			if (equal != length || !word_in(symbols[at + length], words, length))
				break;
			words[length] = symbols[at + length];
		}
		cycle_found(layer, header[CYCLES_SLOT]);
		at += length;
		guessed++;
	}
	layer->counts.guessed += guessed;
	return at;
}

void layer_push(struct layer *layer, const uint32_t *symbols, size_t count)
{
	size_t at = 0;

	layer->counts.symbols += count;
	while (at < count) {
		if (!layer->open.count)
			at += guessed_cycles(layer, symbols + at, count - at);
		if (at < count)
			at += plain_cycle(layer, symbols + at, count - at);
	}
}

static uint32_t repeat_symbol(struct layer_level *level, const struct repeat *repeat)
{
	struct cycle *cycle = cycles_at(&level->cycles, repeat->slot);
	uint32_t symbol;

	if (cycle->last_trips == repeat->trips)
		return cycle->last_symbol;
	symbol = repeats_intern(&level->repeats, repeat->slot, repeat->trips);
	if (symbol != REPEATS_FULL && repeat->trips <= UINT32_MAX) {
		cycle->last_trips = (uint32_t)repeat->trips;
		cycle->last_symbol = symbol;
	}
	return symbol;
}

static void repeats_forget(struct layer_space *space, struct layer_level *level)
{
	if (space->options.clearing)
		space->options.clearing(space->options.context, (unsigned)(level - space->levels));
	repeats_clear(&level->repeats);
	array_each(&level->cycles.entries, cycle)
		cycle->last_trips = 0;
}

static void repeats_tally(struct layer *layer, const struct repeat *repeats, size_t count)
{
	struct cycles *cycles = &layer->level->cycles;

	for (size_t i = 0; i < count; i++) {
		const struct cycle *cycle = cycles_at(cycles, repeats[i].slot);

		layer->counts.cycles += repeats[i].trips;
		layer->counts.length += repeats[i].trips * cycle->length;
		layer->counts.weight += repeats[i].trips * cycle->weight;
		if (cycle->length == layer->level->max_cycle)
			layer->counts.cut += repeats[i].trips;
		cycles_count(cycles, repeats[i].slot, repeats[i].trips);
	}
	layer->counts.repeats += count;
}

static void symbols_hand_on(struct layer *layer, const struct repeat *repeats,
			    const uint32_t *symbols, size_t count)
{
	repeats_tally(layer, repeats, count);
	if (layer->next)
		layer_push(layer->next, symbols, count);
	if (layer->sink && count)
		layer->sink(layer->sink_context, symbols, count);
}

static void layer_hand_on(struct layer *layer, const struct repeat *repeats, size_t count)
{
	uint32_t symbols[LAYER_BATCH];
	size_t first = 0;

	for (size_t i = 0; i < count; i++) {
		symbols[i] = repeat_symbol(layer->level, &repeats[i]);
		if (symbols[i] != REPEATS_FULL)
			continue;
		symbols_hand_on(layer, repeats + first, symbols + first, i - first);
		first = i;
		levels_clear(layer->space, layer->depth + 1, true);
		repeats_forget(layer->space, layer->level);
		symbols[i] = repeat_symbol(layer->level, &repeats[i]);
	}
	symbols_hand_on(layer, repeats + first, symbols + first, count - first);
}

static void layer_drain(struct layer *layer)
{
	size_t count = layer->pending;

	layer->pending = 0;
	if (layer->next || layer->sink)
		layer_hand_on(layer, layer->batch, count);
	else
		repeats_tally(layer, layer->batch, count);
}

static void open_break(struct layer *layer, bool force)
{
	uint32_t slot;

	if (!layer->open.count)
		return;
	slot = cycle_intern(layer, layer->open.items, layer->open.count, force);
	layer->open.count = 0;
	cycle_found(layer, slot);
}

void layer_finish(struct layer *layer)
{
	for (; layer; layer = layer->next) {
		open_break(layer, false);
		repeat_end(layer);
	}
}

/* The levels above were forgotten before: their symbols have lost their meaning after this. */
static void level_forget(struct layer_space *space, unsigned depth)
{
	struct layer_level *level = &space->levels[depth];
	uint32_t last = cycles_last(&level->cycles);

	if (space->options.clearing)
		space->options.clearing(space->options.context, depth);
	for (uint32_t slot = 1; space->options.retired && slot <= last; slot++)
		space->options.retired(space->options.context, depth, level->base + slot,
				       cycles_at(&level->cycles, slot));
	level->base += last;
	cycles_clear(&level->cycles);
	repeats_clear(&level->repeats);
	memset(level->guesses, 0, sizeof(*level->guesses) << GUESS_BITS);
}

/* Forgets all levels from one on; symbols_too: also the meaning of the symbols that come into the first. */
static void levels_clear(struct layer_space *space, unsigned from, bool symbols_too)
{
	for (unsigned depth = from; depth < space->level_count; depth++)
		for (struct layer *layer = space->layers[depth]; layer; layer = layer->sibling) {
			if (depth > from || symbols_too) {
				layer->counts.broken += layer->open.count > 0;
				open_break(layer, true);
			}
			repeat_end(layer);
		}
	for (unsigned depth = space->level_count; depth-- > from;) {
		space->levels[depth].clearings++;
		space->levels[depth].evicted += cycles_last(&space->levels[depth].cycles);
		level_forget(space, depth);
	}
}

uint64_t layer_ended(const struct layer *layer)
{
	uint64_t ended = layer->counts.cycles + layer->trips;

	for (size_t i = 0; i < layer->pending; i++)
		ended += layer->batch[i].trips;
	return ended;
}

void layer_space_clear(struct layer_space *space, unsigned level)
{
	levels_clear(space, level, false);
}

void layer_space_retire(struct layer_space *space)
{
	for (unsigned depth = space->level_count; depth-- > 0;)
		level_forget(space, depth);
}

void layer_weights_set(struct layer_space *space, const uint32_t *weights, size_t count)
{
	space->weights = weights;
	space->weights_count = count;
}

static int level_init(struct layer_level *level, const struct layer_space_options *options,
		      unsigned depth)
{
	struct cycles_options cycles = options->cycles;
	int err;

	cycles.memory = cycles.memory ? cycles.memory : CYCLES_MEMORY;
	if (depth && cycles.memory > UPPER_MEMORY_MIN) {
		cycles.memory /= UPPER_PART * (options->levels - 1);
		cycles.memory = cycles.memory > UPPER_MEMORY_MIN ? cycles.memory : UPPER_MEMORY_MIN;
	}
	err = cycles_init(&level->cycles, &cycles);
	if (err)
		return err;
	repeats_init(&level->repeats, cycles.memory / 2);
	level->max_cycle = options->max_cycle;
	level->guesses = mem_zalloc(sizeof(*level->guesses) << GUESS_BITS);
	return 0;
}

int layer_space_create(const struct layer_space_options *options, struct layer_space **ret)
{
	AUTO(layer_space_destroy_auto) struct layer_space *space = mem_zalloc(sizeof(*space));
	int err;

	space->options = *options;
	if (!space->options.levels)
		space->options.levels = LAYER_LEVELS;
	if (!space->options.max_cycle)
		space->options.max_cycle = LAYER_MAX_CYCLE;
	if (space->options.levels > LAYER_LEVELS_MAX ||
	    space->options.max_cycle > LAYER_MAX_CYCLE_MAX)
		return err_set(
			-EINVAL,
			"%u levels of cycles of up to %u symbols: give 1 to %d, and at most %d",
			space->options.levels, space->options.max_cycle, LAYER_LEVELS_MAX,
			LAYER_MAX_CYCLE_MAX);
	for (; space->level_count < space->options.levels; space->level_count++) {
		err = level_init(&space->levels[space->level_count], &space->options,
				 space->level_count);
		if (err)
			return err;
	}
	*ret = take_ptr(space);
	return 0;
}

void layer_space_destroy(struct layer_space *space)
{
	if (!space)
		return;
	for (unsigned i = 0; i < space->level_count; i++) {
		assert(!space->layers[i]);
		cycles_deinit(&space->levels[i].cycles);
		repeats_deinit(&space->levels[i].repeats);
		free(space->levels[i].stamps);
		free(space->levels[i].guesses);
	}
	free(space);
}

struct layer *layer_create(struct layer_space *space)
{
	struct layer *above = NULL;

	for (unsigned depth = space->level_count; depth-- > 0;) {
		struct layer *layer = mem_zalloc(sizeof(*layer));

		layer->space = space;
		layer->level = &space->levels[depth];
		layer->depth = depth;
		layer->next = above;
		layer->sibling = space->layers[depth];
		space->layers[depth] = layer;
		above = layer;
	}
	return above;
}

static void layer_unlink(struct layer *layer)
{
	struct layer **link = &layer->space->layers[layer->depth];

	while (*link != layer)
		link = &(*link)->sibling;
	*link = layer->sibling;
	if (layer->level->owner == layer)
		layer->level->owner = NULL;
}

void layer_destroy(struct layer *layer)
{
	while (layer) {
		struct layer *next = layer->next;

		layer_unlink(layer);
		array_deinit(&layer->open);
		free(layer);
		layer = next;
	}
}

size_t layer_space_memory(const struct layer_space *space)
{
	size_t bytes = sizeof(*space);

	for (unsigned i = 0; i < space->level_count; i++) {
		const struct layer_level *level = &space->levels[i];

		bytes += cycles_memory(&level->cycles) + repeats_memory(&level->repeats) +
			 level->stamps_count * sizeof(*level->stamps) +
			 (sizeof(*level->guesses) << GUESS_BITS);
	}
	return bytes;
}
