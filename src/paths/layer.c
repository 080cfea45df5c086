// SPDX-License-Identifier: BSD-2-Clause
/*
 * Layers.
 *
 *	in	symbols of a level
 *	out	cycles, which are the symbols of the level above
 *	owner	a flow, one stack of layers for each thread; they share a space
 *
 * Symbols that come in are kept until it is worth looking at them. scan.c then finds the cycles
 * that have ended among them; each is looked up in the table, where equal cycles are one entry, and
 * handed on. What is left is the open cycle. A long open cycle is scanned again only when as many
 * symbols have come as it has, so that the work for each symbol is constant however few come at a
 * time.
 *
 *	symbols -> open -> scan.c: cycles -> table: headers -> batch -> symbols of the level above
 *
 * Invariants
 *  1. open holds what came since the last cycle that was found, without symbols that scan_fold()
 *     leaves out. Its first `scanned` symbols are different from each other, and fewer than
 *     max_cycle.
 *  2. batch and (place, trips) refer to cycles of the table; both are empty when it is cleared.
 */
#include "paths/layer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"

/* Repeated cycles; entries, and headers, are prefetched so far ahead. */
enum { TALLY_AHEAD = 8, TAKE_AHEAD = 12 };
enum { BLOCK = 2048 }; /* new symbols that are looked at together, at least */

/*
 * Strata of irregular programs seldom come again: a small table finds as much, and stays in the
 * caches.
 */
enum { UPPER_PART = 4, UPPER_MEMORY_MIN = 1 << 16 };

DEFINE_AUTO(struct layer_space, layer_space_destroy)

static void levels_clear(struct layer_space *space, unsigned from, bool symbols_too);
static void layer_drain(struct layer *layer);

/*
 * Whether a header belongs to this short cycle. The length word of a long cycle never equals a
 * short length.
 */
static inline bool header_is_short(const uint32_t *header, const uint32_t *symbols, size_t length)
{
	return !(words_different_short(header + CYCLES_HEADER, symbols, length) |
		 (header[CYCLES_LENGTH] ^ (uint32_t)length));
}

/* A header keeps no symbol of a repeated cycle of this many trips or more. */
#define TRIPS_MANY UINT32_MAX

/*
 * Returns the symbol + 1 of a repeated cycle if its header has it, otherwise 0. There is no branch,
 * because trips are hard to predict: where the header has nothing, the header of slot 0 is read,
 * which is all zeros.
 */
static inline uint32_t symbol_kept(const uint32_t *words, size_t place, size_t trips)
{
	size_t at = trips <= CYCLES_FEW_TRIPS ? place + trips : 0;

	_Static_assert(CYCLES_LAST_SYMBOL + 1 == CYCLES_FEW, "it is that of 0 trips");
	at = words[place + CYCLES_LAST_TRIPS] == (uint32_t)trips ? place : at;
	return words[at + CYCLES_LAST_SYMBOL];
}

/*
 * Hands on the cycles from number i on, as long as they are short, lie where their hashes lead to
 * at first, and fit into the batch. Returns the number of the first one that does not. No two
 * cycles in a row are equal, and the pending one has less than TRIPS_MANY trips. Nearly all cycles
 * are handed on here, so the loop keeps its state in registers.
 */
static inline size_t guesses_take(struct layer *layer, const struct scan *scan, size_t i)
{
	const uint32_t *words = layer->level->cycles.words.items;
	const uint32_t *open = scan_based(scan, layer->open.items);
	const struct scan_cycle *found = scan->cycles + i;
	size_t at = layer->pending, unknown = layer->unknown_count, place = layer->place;
	size_t left = scan->count - i, end = left < LAYER_BATCH - at ? at + left : LAYER_BATCH;
	const uint32_t *guesses = words_based(scan->guesses, at - i);
	uint64_t trips = layer->trips;

	for (; at < end; at++, found++) {
		size_t guess = guesses[at];
		uint32_t kept;

		__asm__("" : "+r"(guess)); /* keeps GCC from using two registers for it */
		if (!header_is_short(words + guess, open + found->last, found->length))
			break;
		kept = symbol_kept(words, place, trips);
		layer->batch_trips[at] = trips;
		layer->batch_places[at] = (uint32_t)place;
		layer->symbols[at] = kept - 1;
		layer->unknown[unknown] = (uint16_t)at;
		unknown += kept < 1;
		place = guess;
		trips = found->trips;
	}
	layer->pending = at;
	layer->unknown_count = unknown;
	layer->place = (uint32_t)place;
	layer->trips = trips;
	return (size_t)(found - scan->cycles);
}

static inline uint32_t trips_word(uint64_t trips)
{
	return trips < TRIPS_MANY ? (uint32_t)trips : TRIPS_MANY;
}

/* Adds the pending repeated cycle to the batch. Its header was looked at just before. */
static inline void repeat_add(struct layer *layer)
{
	const uint32_t *words = layer->level->cycles.words.items;
	uint32_t kept = symbol_kept(words, layer->place, trips_word(layer->trips));
	size_t at = layer->pending++;

	layer->batch_trips[at] = layer->trips;
	layer->batch_places[at] = layer->place;
	layer->symbols[at] = kept - 1;
	layer->unknown[layer->unknown_count] = (uint16_t)at;
	layer->unknown_count += !kept;
	if (layer->pending == LAYER_BATCH)
		layer_drain(layer);
}

static inline void cycle_found(struct layer *layer, uint32_t place, uint64_t trips)
{
	if (place == layer->place) {
		layer->trips += trips;
		return;
	}
	if (layer->place)
		repeat_add(layer);
	layer->place = place;
	layer->trips = trips;
}

/*
 * Hands on the batch with the pending repeated cycle, although the next cycle might have continued
 * it.
 */
static void repeat_end(struct layer *layer)
{
	if (layer->place)
		repeat_add(layer);
	layer->place = 0;
	layer->trips = 0;
	layer_drain(layer);
}

/* Symbols of level 0 are blocks. */
static uint64_t symbols_weight(const struct layer_space *space, const uint32_t *symbols,
			       size_t count)
{
	uint64_t weight = 0;

	for (size_t i = 0; i < count; i++)
		if (symbols[i] < space->weights_count)
			weight += space->weights[symbols[i]];
	return weight;
}

/* Adds a new cycle. If there is no room, tables are cleared, unless room is made (force). */
static uint32_t cycle_add(struct layer *layer, const uint32_t *symbols, size_t length,
			  uint32_t hash, bool force)
{
	struct cycles *cycles = &layer->level->cycles;
	uint32_t place = cycles_add(cycles, symbols, length, hash, force);

	if (!place) {
		levels_clear(layer->space, layer->depth, false);
		place = cycles_add(cycles, symbols, length, hash, true);
	}
	if (!layer->depth && !layer->space->options.upper)
		cycles_at(cycles, cycles_last(cycles))->weight =
			symbols_weight(layer->space, symbols, length);
	return place;
}

/*
 * Returns the index of a cycle's header; 0: the cycle is new. CYCLES_SLACK symbols behind it can be
 * read.
 */
static uint32_t cycle_find(struct layer *layer, const uint32_t *symbols, size_t length,
			   uint32_t hash)
{
	struct cycles *cycles = &layer->level->cycles;

	return length <= CYCLES_SHORT ? cycles_find_short(cycles, symbols, length, hash)
				      : cycles_find(cycles, symbols, length, hash);
}

uint32_t layer_intern(struct layer *layer, const uint32_t *symbols, size_t length, bool *ret_full)
{
	struct cycles *cycles = &layer->level->cycles;
	uint32_t hash = cycles_hash(symbols, length);
	uint32_t place = cycle_find(layer, symbols, length, hash);

	if (place)
		return place;
	place = cycles_add(cycles, symbols, length, hash, false);
	*ret_full = !place;
	if (!place)
		place = cycles_add(cycles, symbols, length, hash, true);
	cycles_at(cycles, cycles_last(cycles))->weight =
		symbols_weight(layer->space, symbols, length);
	return place;
}

/*
 * Takes cycles as long as they fit into the batch, and returns how many. There is a pending cycle
 * of less than TRIPS_MANY trips. Whether the next cycle is the same cannot be predicted, so the
 * entry is written in any case.
 */
static size_t taken_add(struct layer *layer, const struct layer_taken *taken, size_t count)
{
	const uint32_t *words = layer->level->cycles.words.items;
	size_t at = layer->pending, unknown = layer->unknown_count, i;
	uint64_t trips = layer->trips;
	uint32_t place = layer->place;

	for (i = 0; i < count && at < LAYER_BATCH && trips < TRIPS_MANY; i++) {
		uint32_t kept = symbol_kept(words, place, trips);
		bool other = taken[i].place != place;

		__builtin_prefetch(words +
				   taken[i + TAKE_AHEAD < count ? i + TAKE_AHEAD : i].place);
		layer->batch_trips[at] = trips;
		layer->batch_places[at] = place;
		layer->symbols[at] = kept - 1;
		layer->unknown[unknown] = (uint16_t)at;
		at += other;
		unknown += other & !kept;
		trips = (other ? 0 : trips) + taken[i].trips;
		place = taken[i].place;
	}
	layer->pending = at;
	layer->unknown_count = unknown;
	layer->place = place;
	layer->trips = trips;
	return i;
}

void layer_take(struct layer *layer, const struct layer_taken *taken, size_t count)
{
	for (size_t i = 0; i < count;) {
		if (layer->place && layer->trips < TRIPS_MANY)
			i += taken_add(layer, taken + i, count - i);
		if (layer->pending == LAYER_BATCH)
			layer_drain(layer);
		else if (i < count) {
			cycle_found(layer, taken[i].place, taken[i].trips);
			i++;
		}
	}
}

static void open_append(struct layer *layer, const uint32_t *symbols, size_t count)
{
	size_t at = layer->open.count, room = at + count + CYCLES_SLACK;
	bool lowest = !layer->depth && !layer->space->options.upper;

	array_reserve(&layer->open, room);
	array_reserve(&layer->skipped, room);
	layer->open.count += (lowest ? scan_fold : scan_copy)(
		symbols, count, layer->left_out, layer->open.items + at, layer->skipped.items + at);
	layer->left_out += (uint32_t)(at + count - layer->open.count);
	layer->skipped.items[layer->open.count] = layer->left_out;
}

static void open_drop(struct layer *layer, size_t count)
{
	size_t left = layer->open.count - count;

	memmove(layer->open.items, layer->open.items + count, left * sizeof(*layer->open.items));
	memmove(layer->skipped.items, layer->skipped.items + count,
		(left + 1) * sizeof(*layer->skipped.items));
	layer->open.count = layer->scanned = left;
}

/* Collects where the hashes of cycles lead to at first, and prefetches the headers there. */
static void places_guess(const struct cycles *cycles, const struct scan *scan, uint32_t *ret)
{
	struct cycles_index index = cycles_index(cycles);
	const uint32_t *words = cycles->words.items;
	const struct scan_cycle *found = scan->cycles;

	for (size_t i = 0; i < scan->count; i++, found++) {
		size_t place = (uint32_t)*cycles_place(index, found->hash);

		__asm__("" : "+r"(place)); /* keeps GCC from computing a byte offset */
		ret[i] = (uint32_t)place;
		__builtin_prefetch(words + place);
		__builtin_prefetch(words + place + 16);
	}
}

/* Hands on a cycle that guesses_take() has left. */
static void cycle_hand_on(struct layer *layer, const struct scan_cycle *found)
{
	const uint32_t *symbols = scan_based(&layer->level->scan, layer->open.items) + found->last;
	uint32_t place = cycle_find(layer, symbols, found->length, found->hash);

	if (!place)
		place = cycle_add(layer, symbols, found->length, found->hash, false);
	cycle_found(layer, place, found->trips);
}

/*
 * The first cycle of a block may continue the last one of the block before, so it is not guessed.
 */
static void cycles_hand_on(struct layer *layer, struct scan *scan)
{
	struct layer_level *level = layer->level;
	uint64_t clearings = level->clearings;

	places_guess(&level->cycles, scan, scan->guesses);
	for (size_t i = 0; i < scan->count;) {
		if (i && scan->guesses[i] && clearings == level->clearings &&
		    layer->trips < TRIPS_MANY)
			i = guesses_take(layer, scan, i);
		if (layer->pending == LAYER_BATCH)
			layer_drain(layer);
		else if (i < scan->count)
			cycle_hand_on(layer, &scan->cycles[i++]);
	}
}

void layer_settle(struct layer *layer)
{
	struct layer_level *level = layer->level;
	size_t taken;

	if (layer->open.count == layer->scanned)
		return;
	taken = scan_find(&level->scan, layer->open.items, layer->skipped.items, layer->open.count,
			  level->max_cycle);
	cycles_hand_on(layer, &level->scan);
	open_drop(layer, taken);
}

void layer_push(struct layer *layer, const uint32_t *symbols, size_t count)
{
	layer->counts.symbols += count;
	while (count) {
		size_t wanted = layer->scanned + (layer->scanned > BLOCK ? layer->scanned : BLOCK);
		size_t room = wanted - layer->open.count, part = count < room ? count : room;

		part = part < BLOCK ? part : BLOCK;
		open_append(layer, symbols, part);
		symbols += part;
		count -= part;
		if (layer->open.count == wanted)
			layer_settle(layer);
	}
}

static void symbol_keep(uint32_t *header, uint64_t trips, uint32_t symbol)
{
	if (trips <= CYCLES_FEW_TRIPS) {
		header[CYCLES_FEW + trips - 1] = symbol + 1;
	} else if (trips < TRIPS_MANY) {
		header[CYCLES_LAST_TRIPS] = (uint32_t)trips;
		header[CYCLES_LAST_SYMBOL] = symbol + 1;
	}
}

/* Prefetches what looking up the symbols of the batch needs. */
static void symbols_fetch(const struct layer *layer)
{
	const struct repeats *repeats = &layer->level->repeats;
	const uint32_t *words = layer->level->cycles.words.items;
	uint32_t hashes[LAYER_BATCH];
	uint16_t many[LAYER_BATCH];
	size_t count = 0;

	for (size_t i = 0; i < layer->unknown_count; i++) {
		many[count] = layer->unknown[i];
		count += layer->batch_trips[many[count]] > CYCLES_FEW_TRIPS;
	}
	for (size_t i = 0; i < count; i++) {
		hashes[i] = repeats_hash(words[layer->batch_places[many[i]] + CYCLES_SLOT],
					 layer->batch_trips[many[i]]);
		repeats_fetch(repeats, hashes[i]);
	}
	for (size_t i = 0; i < count; i++)
		repeats_fetch_item(repeats, hashes[i]);
}

/* A repeated cycle of few trips whose symbol is not in the header is new. */
static uint32_t symbol_find(struct layer_level *level, uint32_t place, uint64_t trips)
{
	uint32_t *header = &level->cycles.words.items[place];
	uint32_t kept = symbol_kept(level->cycles.words.items, place, trips_word(trips)), symbol;

	if (kept)
		return kept - 1;
	symbol = trips <= CYCLES_FEW_TRIPS
			 ? repeats_add(&level->repeats, header[CYCLES_SLOT], trips)
			 : repeats_intern(&level->repeats, header[CYCLES_SLOT], trips);
	if (symbol != REPEATS_FULL)
		symbol_keep(header, trips, symbol);
	return symbol;
}

/* Finds the symbols of the batch up to one that there is no room for; returns how many. */
static size_t symbols_find(struct layer *layer, size_t count)
{
	symbols_fetch(layer);
	for (size_t i = 0; i < layer->unknown_count; i++) {
		uint32_t at = layer->unknown[i];
		uint32_t symbol =
			symbol_find(layer->level, layer->batch_places[at], layer->batch_trips[at]);

		if (symbol == REPEATS_FULL)
			return at;
		layer->symbols[at] = symbol;
	}
	return count;
}

/* The symbols that batches have are looked up again. */
static void symbols_forget(struct layer *layer)
{
	for (; layer; layer = layer->sibling)
		for (layer->unknown_count = 0; layer->unknown_count < layer->pending;
		     layer->unknown_count++)
			layer->unknown[layer->unknown_count] = (uint16_t)layer->unknown_count;
}

static void repeats_forget(struct layer_space *space, struct layer_level *level)
{
	unsigned depth = (unsigned)(level - space->levels);

	if (space->options.clearing)
		space->options.clearing(space->options.context, depth);
	symbols_forget(space->layers[depth]);
	repeats_clear(&level->repeats);
	for (uint32_t slot = 1; slot <= cycles_last(&level->cycles); slot++)
		memset(cycles_header(&level->cycles, slot) + CYCLES_KEPT, 0,
		       (CYCLES_HEADER - CYCLES_KEPT) * sizeof(uint32_t));
}

static inline __attribute__((always_inline)) void cycle_tally(struct layer *layer, uint32_t slot,
							      uint64_t trips, uint32_t times)
{
	struct cycles *cycles = &layer->level->cycles;
	const struct cycle *cycle = cycles_at(cycles, slot);
	uint64_t all = trips * times;

	layer->counts.cycles += all;
	layer->counts.length += all * cycle->length;
	layer->counts.weight += all * cycle->weight;
	if (cycle->length == layer->level->max_cycle)
		layer->counts.cut += all;
	layer->counts.repeats += times;
	cycles_count(cycles, slot, trips, times);
}

void layer_count(struct layer *layer, uint32_t slot, uint64_t trips, uint32_t times)
{
	cycle_tally(layer, slot, trips, times);
}

/* Counts a part of the batch. */
static void repeats_tally(struct layer *layer, size_t from, size_t to)
{
	const uint32_t *words = layer->level->cycles.words.items, *places = layer->batch_places;

	for (size_t i = from; i < to; i++) {
		if (i + TALLY_AHEAD < to)
			__builtin_prefetch(cycles_at(&layer->level->cycles,
						     words[places[i + TALLY_AHEAD] + CYCLES_SLOT]),
					   1);
		cycle_tally(layer, words[places[i] + CYCLES_SLOT], layer->batch_trips[i], 1);
	}
}

/* Hands on a part of the batch whose symbols are known. */
static void symbols_hand_on(struct layer *layer, size_t from, size_t to)
{
	if (layer->depth || !layer->space->options.uncounted)
		repeats_tally(layer, from, to);
	if (layer->next)
		layer_push(layer->next, layer->symbols + from, to - from);
	if (layer->sink && to > from)
		layer->sink(layer->sink_context, layer->symbols + from, to - from);
}

static void layer_hand_on(struct layer *layer, size_t count)
{
	size_t from = 0, to;

	while ((to = symbols_find(layer, count)) < count) {
		symbols_hand_on(layer, from, to);
		levels_clear(layer->space, layer->depth + 1, true);
		repeats_forget(layer->space, layer->level);
		layer->unknown_count = 0;
		for (from = to; to < count; to++)
			layer->unknown[layer->unknown_count++] = (uint16_t)to;
	}
	symbols_hand_on(layer, from, to);
}

static void layer_drain(struct layer *layer)
{
	size_t count = layer->pending;

	layer->pending = 0;
	if (layer->cycles_sink)
		layer->cycles_sink(layer->sink_context, layer->batch_places, layer->batch_trips,
				   count);
	else if (layer->next || layer->sink)
		layer_hand_on(layer, count);
	else
		repeats_tally(layer, 0, count);
	layer->unknown_count = 0;
}

void layer_flush(struct layer *layer)
{
	layer_settle(layer);
	layer_drain(layer);
}

uint32_t layer_pending_slot(const struct layer *layer)
{
	return layer->place ? layer->level->cycles.words.items[layer->place + CYCLES_SLOT] : 0;
}

/* Ends the open cycle as it is. */
static void open_end(struct layer *layer, bool force)
{
	uint32_t hash, place, *symbols = layer->open.items;
	size_t length;

	layer_settle(layer);
	length = layer->open.count;
	if (!length)
		return;
	hash = cycles_hash(symbols, length);
	place = cycle_find(layer, symbols, length, hash);
	if (!place)
		place = cycle_add(layer, symbols, length, hash, force);
	open_drop(layer, length);
	cycle_found(layer, place, 1);
}

void layer_finish(struct layer *layer)
{
	for (; layer; layer = layer->next) {
		open_end(layer, false);
		repeat_end(layer);
	}
}

void layer_break(struct layer *layer)
{
	for (; layer; layer = layer->next) {
		layer_settle(layer);
		layer->counts.broken += layer->open.count > 0;
		open_end(layer, false);
		repeat_end(layer);
	}
}

/* The levels above have been forgotten, since their symbols have no meaning after this. */
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
}

/*
 * Forgets all levels from one on. symbols_too: the symbols that come into the first one get a new
 * meaning as well.
 */
static void levels_clear(struct layer_space *space, unsigned from, bool symbols_too)
{
	for (unsigned depth = from; depth < space->level_count; depth++)
		for (struct layer *layer = space->layers[depth]; layer; layer = layer->sibling) {
			if (depth > from || symbols_too) {
				layer_settle(layer);
				layer->counts.broken += layer->open.count > 0;
				open_end(layer, true);
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
		ended += layer->batch_trips[i];
	return ended;
}

void layer_space_clear(struct layer_space *space)
{
	levels_clear(space, 0, false);
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
	repeats_init(&level->repeats, CYCLES_FEW_TRIPS, cycles.memory / 2);
	level->scan.table = &level->cycles;
	level->max_cycle = options->max_cycle;
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
		scan_deinit(&space->levels[i].scan);
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
}

void layer_destroy(struct layer *layer)
{
	while (layer) {
		struct layer *next = layer->next;

		layer_unlink(layer);
		array_deinit(&layer->open);
		array_deinit(&layer->skipped);
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
			 scan_memory(&level->scan);
	}
	return bytes;
}

size_t layer_memory(const struct layer *layer)
{
	size_t bytes = 0;

	for (; layer; layer = layer->next)
		bytes += sizeof(*layer) + layer->open.capacity * sizeof(*layer->open.items) +
			 layer->skipped.capacity * sizeof(*layer->skipped.items);
	return bytes;
}
