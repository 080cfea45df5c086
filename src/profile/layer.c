// SPDX-License-Identifier: BSD-2-Clause
/*
 * Layers.
 *
 * The plain way: each symbol is stamped with the serial number of the cycle that holds it, so that one comparison tells
 * whether the open cycle has it already. Then the cycle is over, is looked up in the table, and compared with the one
 * before. That is constant work for each symbol, but work.
 *
 * There are two fast ways, which find the same. In regular programs the same cycles come again and again, and guesses are right
 * (layer_guess.c). Where more than a few of a block are wrong, many symbols are compared at once instead (ahead.h): that
 * takes the same time whatever comes, but each cycle has to be looked up. What is left at the end of a batch goes the plain way.
 *
 * Threads take turns. Stamps are shared, so a layer that has an open cycle stamps it again when another layer had the
 * stamps in between.
 *
 * Invariants
 *  1. open holds what was taken since the last cycle ended; no symbol twice; shorter than max_cycle.
 *  2. If open is not empty and the level's owner is this layer, exactly open's symbols are stamped with serial.
 *  3. batch and (place, trips) refer to cycles; they are empty when a table is cleared.
 */
#include "profile/layer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "profile/ahead.h"
#include "profile/layer_private.h"

enum { FETCH_FAR = 16, FETCH_NEAR = 8 }; /* cycles before their lookup */
enum { TALLY_AHEAD = 8 }; /* repeated cycles, before they are counted */
enum {
	WRONG_MAX = 14, /* guesses in a block; more: the program is irregular */
	IRREGULAR_BLOCKS = 16, /* that are not guessed then */
};

/* Strata of irregular programs seldom come again: a small table finds as much, and stays in the caches. */
enum { UPPER_PART = 4, UPPER_MEMORY_MIN = 1 << 16 };

DEFINE_AUTO(struct layer_space, layer_space_destroy)

static void levels_clear(struct layer_space *space, unsigned from, bool symbols_too);

/* Hands on the repeated cycle that may still be going on, and all before it. */
static void repeat_end(struct layer *layer)
{
	if (layer->place)
		repeat_add(layer);
	layer->place = 0;
	layer->trips = 0;
	layer_drain(layer);
}

/* Runs have weights of their own, other symbols bring theirs. */
static uint64_t symbols_weight(const struct layer *layer, struct batch batch)
{
	const struct layer_space *space = layer->space;
	uint64_t weight = 0;

	for (size_t i = 0; batch.weights && i < batch.count; i++)
		weight += batch.weights[i];
	for (size_t i = 0; !batch.weights && i < batch.count; i++)
		if (batch.symbols[i] < space->weights_count)
			weight += space->weights[batch.symbols[i]];
	return weight;
}

/* A cycle that is new. Clears tables if there is no room, unless it is made (force). */
uint32_t layer_cycle_add(struct layer *layer, struct batch symbols, uint32_t hash, bool force)
{
	struct cycles *cycles = &layer->level->cycles;
	uint32_t place = cycles_add(cycles, symbols.symbols, symbols.count, hash, force);

	if (!place) {
		levels_clear(layer->space, layer->depth, false);
		place = cycles_add(cycles, symbols.symbols, symbols.count, hash, true);
	}
	cycles_at(cycles, cycles_last(cycles))->weight = symbols_weight(layer, symbols);
	cycles->words.items[place + CYCLES_HEADER + symbols.count] = symbols.symbols[0];
	return place;
}

/* The place of a cycle that has ended. */
uint32_t layer_cycle_intern(struct layer *layer, struct batch symbols, uint32_t hash, bool force)
{
	uint32_t place = cycles_find(&layer->level->cycles, symbols.symbols, symbols.count, hash);

	return place ? place : layer_cycle_add(layer, symbols, hash, force);
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
void layer_serial_next(struct layer_level *level)
{
	if (++level->serial)
		return;
	memset(level->stamps, 0, level->stamps_count * sizeof(*level->stamps));
	level->serial = 1;
}

/* Stamps symbols until one is stamped already, or until max; returns how many. */
size_t layer_stamp(struct layer_level *level, const uint32_t *symbols, size_t max)
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

void layer_stamps_take(struct layer *layer)
{
	struct layer_level *level = layer->level;

	if (layer->open.count && level->owner == layer)
		return;
	layer_serial_next(level);
	level->owner = layer;
	layer_stamp(level, layer->open.items, layer->open.count);
}

void layer_open_append(struct layer *layer, struct batch batch)
{
	size_t had = layer->open.count;

	if (!batch.count)
		return;
	array_reserve(&layer->open, had + batch.count);
	memcpy(layer->open.items + had, batch.symbols, batch.count * sizeof(*batch.symbols));
	layer->open.count += batch.count;
	if (!batch.weights)
		return;
	array_reserve(&layer->open_weights, had + batch.count);
	memcpy(layer->open_weights.items + had, batch.weights,
	       batch.count * sizeof(*batch.weights));
}

/* The cycle that was open has ended, or is ended. */
static void open_end(struct layer *layer, bool force)
{
	struct batch open = { layer->open.items, layer->open_weights.items, layer->open.count };
	uint32_t place =
		layer_cycle_intern(layer, open, cycles_hash(open.symbols, open.count), force);

	layer->open.count = 0;
	cycle_found(layer, place, 1);
}

/* Takes what belongs to the open cycle; returns how many symbols. */
static size_t open_continue(struct layer *layer, struct batch batch)
{
	size_t room = layer->level->max_cycle - layer->open.count, taken;

	layer_stamps_take(layer);
	taken = layer_stamp(layer->level, batch.symbols, batch.count < room ? batch.count : room);
	layer_open_append(layer, batch_part(batch, 0, taken));
	if (taken < batch.count || taken == room)
		open_end(layer, false);
	return taken;
}

static size_t long_length(void *context, const uint32_t *symbols, size_t count)
{
	struct layer_level *level = context;

	layer_serial_next(level);
	level->owner = NULL;
	return layer_stamp(level, symbols, count < level->max_cycle ? count : level->max_cycle);
}

static uint32_t found_look_up(struct layer *layer, struct batch cycle, uint32_t hash)
{
	struct cycles *cycles = &layer->level->cycles;
	uint32_t place = cycle.count < AHEAD_WINDOW
				 ? cycles_find_short(cycles, cycle.symbols, cycle.count, hash)
				 : cycles_find(cycles, cycle.symbols, cycle.count, hash);

	return place ? place : layer_cycle_add(layer, cycle, hash, false);
}

static void founds_hand_on(struct layer *layer, struct batch batch, const struct ahead *founds)
{
	const struct cycles *cycles = &layer->level->cycles;

	for (size_t i = 0; i < founds->count && i < FETCH_FAR; i++)
		cycles_fetch(cycles, founds->cycles[i].hash);
	for (size_t i = 0; i < founds->count; i++) {
		const struct ahead_cycle *found = &founds->cycles[i];
		uint32_t place;

		if (i + FETCH_FAR < founds->count)
			cycles_fetch(cycles, found[FETCH_FAR].hash);
		if (i + FETCH_NEAR < founds->count)
			cycles_fetch_words(cycles, found[FETCH_NEAR].hash);
		place = found_look_up(layer, batch_part(batch, found->first, found->length),
				      found->hash);
		cycle_found(layer, place, found->trips);
	}
}

/* Without guesses. Returns how many symbols were taken. */
static size_t cycles_compare(struct layer *layer, struct batch batch)
{
	const struct ahead_long longer = { long_length, layer->level };
	struct ahead founds;
	size_t taken = ahead_find(batch.symbols, batch.count, &longer, &founds);

	if (taken)
		founds_hand_on(layer, batch, &founds);
	return taken;
}

/* Nothing is open. Now and then it is tried whether guesses are right again. */
static size_t cycles_take(struct layer *layer, struct batch batch)
{
	struct layer_level *level = layer->level;
	size_t taken = 0, wrong = 0;

	if (level->irregular && level->max_cycle > AHEAD_WINDOW) {
		level->irregular--;
		taken = cycles_compare(layer, batch);
	}
	if (taken)
		return taken;
	taken = layer_guess_take(layer, batch, &wrong);
	if (wrong > WRONG_MAX)
		level->irregular = IRREGULAR_BLOCKS;
	return taken;
}

static void batch_push(struct layer *layer, struct batch batch)
{
	layer->counts.symbols += batch.count;
	while (batch.count) {
		size_t taken = layer->open.count ? open_continue(layer, batch)
						 : cycles_take(layer, batch);

		batch = batch_part(batch, taken, batch.count - taken);
	}
}

void layer_push(struct layer *layer, const uint32_t *symbols, size_t count)
{
	batch_push(layer, (struct batch){ .symbols = symbols, .count = count });
}

void layer_push_weighted(struct layer *layer, const uint32_t *symbols, const uint64_t *weights,
			 size_t count)
{
	batch_push(layer, (struct batch){ symbols, weights, count });
}

static void symbol_keep(uint32_t *header, uint64_t trips, uint32_t symbol)
{
	if (trips <= CYCLES_FEW_TRIPS) {
		header[CYCLES_FEW + trips - 1] = symbol + 1;
	} else if (trips <= UINT32_MAX) {
		header[CYCLES_LAST_TRIPS] = (uint32_t)trips;
		header[CYCLES_LAST_SYMBOL] = symbol;
	}
}

/* The symbols of repeated cycles, up to one that there is no room for; returns how many. Lookups are fetched ahead. */
static size_t symbols_find(struct layer_level *level, const struct layer_repeat *repeats,
			   size_t count, uint32_t *ret)
{
	uint32_t *words = level->cycles.words.items;
	uint32_t hashes[LAYER_BATCH];
	uint16_t unknown[LAYER_BATCH];
	size_t unknown_count = 0;

	for (size_t i = 0; i < count; i++) {
		const struct layer_repeat *repeat = &repeats[i];

		ret[i] = repeat->symbol;
		if (ret[i] != REPEATS_FULL)
			continue;
		hashes[unknown_count] =
			repeats_hash(words[repeat->place + CYCLES_SLOT], repeat->trips);
		repeats_fetch(&level->repeats, hashes[unknown_count]);
		unknown[unknown_count++] = (uint16_t)i;
	}
	for (size_t i = 0; i < unknown_count; i++)
		repeats_fetch_item(&level->repeats, hashes[i]);
	for (size_t i = 0; i < unknown_count; i++) {
		const struct layer_repeat *repeat = &repeats[unknown[i]];
		uint32_t *header = &words[repeat->place];
		uint32_t symbol =
			repeats_intern(&level->repeats, header[CYCLES_SLOT], repeat->trips);

		if (symbol == REPEATS_FULL)
			return unknown[i];
		ret[unknown[i]] = symbol;
		symbol_keep(header, repeat->trips, symbol);
	}
	return count;
}

static void repeats_forget(struct layer_space *space, struct layer_level *level)
{
	if (space->options.clearing)
		space->options.clearing(space->options.context, (unsigned)(level - space->levels));
	repeats_clear(&level->repeats);
	for (uint32_t slot = 1; slot <= cycles_last(&level->cycles); slot++)
		memset(cycles_header(&level->cycles, slot) + CYCLES_FEW, 0,
		       (CYCLES_HEADER - CYCLES_FEW) * sizeof(uint32_t));
}

/* Returns what they weigh together. */
static inline __attribute__((always_inline)) uint64_t
cycle_tally(struct layer *layer, uint32_t slot, uint64_t trips, uint32_t times)
{
	struct cycles *cycles = &layer->level->cycles;
	const struct cycle *cycle = cycles_at(cycles, slot);
	uint64_t all = trips * times, weight = all * cycle->weight;

	layer->counts.cycles += all;
	layer->counts.length += all * cycle->length;
	layer->counts.weight += weight;
	if (cycle->length == layer->level->max_cycle)
		layer->counts.cut += all;
	layer->counts.repeats += times;
	cycles_count(cycles, slot, trips, times);
	return weight;
}

void layer_count(struct layer *layer, uint32_t slot, uint64_t trips, uint32_t times)
{
	cycle_tally(layer, slot, trips, times);
}

/* Adds to counts; sets each one's weight. */
static void repeats_tally(struct layer *layer, const struct layer_repeat *repeats, size_t count,
			  uint64_t *ret)
{
	const uint32_t *words = layer->level->cycles.words.items;

	for (size_t i = 0; i < count; i++) {
		if (i + TALLY_AHEAD < count)
			__builtin_prefetch(
				cycles_at(&layer->level->cycles,
					  words[repeats[i + TALLY_AHEAD].place + CYCLES_SLOT]),
				1);
		ret[i] = cycle_tally(layer, words[repeats[i].place + CYCLES_SLOT], repeats[i].trips,
				     1);
	}
}

static void symbols_hand_on(struct layer *layer, const struct layer_repeat *repeats,
			    const uint32_t *symbols, size_t count)
{
	uint64_t weights[LAYER_BATCH];

	if (layer->depth || !layer->space->options.uncounted)
		repeats_tally(layer, repeats, count, weights);
	if (layer->next)
		batch_push(layer->next, (struct batch){ symbols, weights, count });
	if (layer->sink && count)
		layer->sink(layer->sink_context, symbols, count);
}

static void layer_hand_on(struct layer *layer, struct layer_repeat *repeats, size_t count)
{
	uint32_t symbols[LAYER_BATCH];

	while (count) {
		size_t found = symbols_find(layer->level, repeats, count, symbols);

		symbols_hand_on(layer, repeats, symbols, found);
		repeats += found;
		count -= found;
		if (!count)
			break;
		levels_clear(layer->space, layer->depth + 1, true);
		repeats_forget(layer->space, layer->level);
		for (size_t i = 0; i < count; i++)
			repeats[i].symbol = REPEATS_FULL;
	}
}

void layer_drain(struct layer *layer)
{
	uint64_t weights[LAYER_BATCH];
	size_t count = layer->pending;

	layer->pending = 0;
	if (layer->next || layer->sink)
		layer_hand_on(layer, layer->batch, count);
	else
		repeats_tally(layer, layer->batch, count, weights);
}

static void open_break(struct layer *layer, bool force)
{
	if (layer->open.count)
		open_end(layer, force);
}

void layer_finish(struct layer *layer)
{
	for (; layer; layer = layer->next) {
		open_break(layer, false);
		repeat_end(layer);
	}
}

void layer_break(struct layer *layer)
{
	for (; layer; layer = layer->next) {
		layer->counts.broken += layer->open.count > 0;
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
	layer_guesses_clear(level);
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

void layer_space_cut(struct layer_space *space)
{
	levels_clear(space, 0, true);
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
	unsigned upper = options->levels - !options->upper;
	int err;

	cycles.memory = cycles.memory ? cycles.memory : CYCLES_MEMORY;
	if ((depth || options->upper) && cycles.memory > UPPER_MEMORY_MIN) {
		cycles.memory /= UPPER_PART * upper;
		cycles.memory = cycles.memory > UPPER_MEMORY_MIN ? cycles.memory : UPPER_MEMORY_MIN;
	}
	err = cycles_init(&level->cycles, &cycles);
	if (err)
		return err;
	repeats_init(&level->repeats, cycles.memory / 2);
	level->max_cycle = options->max_cycle;
	level->guesses = mem_alloc(sizeof(*level->guesses) << LAYER_GUESS_BITS);
	layer_guesses_clear(level);
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
		array_deinit(&layer->open_weights);
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
			 (sizeof(*level->guesses) << LAYER_GUESS_BITS);
	}
	return bytes;
}
