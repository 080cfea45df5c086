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
 * What was found the plain way is not looked up at once: up to FOUND_MAX repeated cycles are found first, and what the lookups
 * need of memory is fetched meanwhile. Until then its place as a guess is its number among them, and its symbols are
 * compared where they came in. Then all are handed on in order. If there is no room for a new cycle, everything is cleared,
 * and all of them are looked up anew.
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
 *  4. guesses holds places of headers in the table, and lengths; places from PENDING on only within cycles_take().
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

enum { GUESS_BITS = 13, AHEAD = 4, LANES = 8, FOUND_MAX = 64 };

/* A place from here on is the number of a found cycle that is not looked up yet. */
#define PENDING 0x80000000u

/* Strata of irregular programs seldom come again: a small table finds as much, and stays in the caches. */
enum { UPPER_PART = 4, UPPER_MEMORY_MIN = 1 << 16 };

DEFINE_AUTO(struct layer_space, layer_space_destroy)

/* A repeated cycle that was found, not handed on yet. */
struct found {
	uint32_t place; /* of its header in words; from PENDING on: that of another, which will be looked up */
	uint32_t first; /* its first symbol in the batch */
	uint32_t length;
	uint32_t hash; /* if it will be looked up */
	uint64_t trips;
};

/* Symbols that come in, and how much each counts. Runs have no weights here. */
struct batch {
	const uint32_t *symbols;
	const uint64_t *weights;
	size_t count;
};

struct founds {
	size_t count, stamped_count;
	uint8_t stamped[FOUND_MAX]; /* those that were found the plain way */
	struct found items[FOUND_MAX];
};

/* Where the guess is kept for what lies ahead. */
static inline struct layer_guess *guess_of(const struct layer_level *level, const uint32_t *ahead)
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

static inline void cycle_found(struct layer *layer, uint32_t slot, uint64_t trips)
{
	if (slot == layer->slot) {
		layer->trips += trips;
		return;
	}
	if (layer->slot)
		repeat_add(layer);
	__builtin_prefetch(cycles_at(&layer->level->cycles, slot), 1);
	layer->slot = slot;
	layer->trips = trips;
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

/* Runs have weights of their own, other symbols bring theirs. */
static uint64_t symbols_weight(const struct layer *layer, struct batch batch)
{
	const struct layer_space *space = layer->space;
	uint64_t weight = 0;

	for (size_t i = 0; layer->depth && i < batch.count; i++)
		weight += batch.weights[i];
	for (size_t i = 0; !layer->depth && i < batch.count; i++)
		if (batch.symbols[i] < space->weights_count)
			weight += space->weights[batch.symbols[i]];
	return weight;
}

/* A cycle that is new. Clears tables if there is no room, unless it is made (force). */
static uint32_t cycle_add(struct layer *layer, struct batch symbols, uint32_t hash, bool force)
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
static uint32_t cycle_intern(struct layer *layer, struct batch symbols, uint32_t hash, bool force)
{
	uint32_t place = cycles_find(&layer->level->cycles, symbols.symbols, symbols.count, hash);

	return place ? place : cycle_add(layer, symbols, hash, force);
}

static uint32_t slot_at(const struct layer *layer, uint32_t place)
{
	return layer->level->cycles.words.items[place + CYCLES_SLOT];
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

static struct batch batch_part(struct batch batch, size_t first, size_t count)
{
	return (struct batch){ batch.symbols + first, batch.weights ? batch.weights + first : NULL,
			       count };
}

static void open_append(struct layer *layer, struct batch batch)
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
	uint32_t place = cycle_intern(layer, open, cycles_hash(open.symbols, open.count), force);

	layer->open.count = 0;
	cycle_found(layer, slot_at(layer, place), 1);
}

/* Takes what belongs to the open cycle; returns how many symbols. */
static size_t open_continue(struct layer *layer, struct batch batch)
{
	size_t room = layer->level->max_cycle - layer->open.count, taken;

	stamps_take(layer);
	taken = symbols_stamp(layer->level, batch.symbols, batch.count < room ? batch.count : room);
	open_append(layer, batch_part(batch, 0, taken));
	if (taken < batch.count || taken == room)
		open_end(layer, false);
	return taken;
}

/* Whether the cycle that lies ahead is this one. What ended it the last time may have changed. */
static inline bool guess_right(const struct layer_level *level, const uint32_t *symbols,
			       const struct founds *founds, struct layer_guess guess,
			       const uint32_t *ahead, size_t compared)
{
	bool pending = guess.place >= PENDING;
	const uint32_t *words = pending ? symbols + founds->items[guess.place % FOUND_MAX].first
					: &level->cycles.words.items[guess.place + CYCLES_HEADER];
	size_t equal = words_equal(ahead, words, compared);

	if (equal >= compared)
		return true;
	if (equal != guess.length || !word_in(ahead[equal], words, equal))
		return false;
	if (!pending)
		level->cycles.words.items[guess.place + CYCLES_HEADER + equal] = ahead[equal];
	return true;
}

/*
 * Finds cycles as long as guesses are right; returns where they end. Nothing is open. What was found is tried again before
 * another guess is chosen. Where the next one begins depends on the guess alone: that need not wait for the comparison.
 */
static size_t cycles_guess(struct layer *layer, const uint32_t *symbols, size_t at, size_t count,
			   struct founds *founds)
{
	const struct layer_level *level = layer->level;
	size_t guessed = 0, found_count = founds->count;

	while (count - at >= AHEAD && found_count < FOUND_MAX) {
		struct layer_guess guess = *guess_of(level, symbols + at);
		size_t compared = (size_t)guess.length + (guess.length < level->max_cycle);
		size_t first = at, trips = 0;

		while (compared + LANES <= count - at &&
		       guess_right(level, symbols, founds, guess, symbols + at, compared)) {
			at += guess.length;
			trips++;
		}
		if (!trips)
			break;
		founds->items[found_count++] = (struct found){ .place = guess.place,
							       .first = (uint32_t)first,
							       .length = guess.length,
							       .trips = trips };
		guessed += trips;
	}
	layer->counts.guessed += guessed;
	founds->count = found_count;
	return at;
}

/* Finds one cycle the plain way; what does not end in the batch is open then. */
static size_t cycle_stamp(struct layer *layer, struct batch batch, size_t at, struct founds *founds)
{
	struct layer_level *level = layer->level;
	struct found *found = &founds->items[founds->count];
	const uint32_t *symbols = batch.symbols;
	size_t rest = batch.count - at, taken;

	stamps_take(layer);
	taken = symbols_stamp(level, symbols + at,
			      rest < level->max_cycle ? rest : level->max_cycle);
	if (taken == rest && taken < level->max_cycle) {
		open_append(layer, batch_part(batch, at, taken));
		return batch.count;
	}
	*found = (struct found){ .place = PENDING | (uint32_t)founds->count,
				 .first = (uint32_t)at,
				 .length = (uint32_t)taken,
				 .hash = cycles_hash(symbols + at, taken),
				 .trips = 1 };
	if (rest >= AHEAD)
		*guess_of(level, symbols + at) =
			(struct layer_guess){ found->place, found->length };
	cycles_fetch(&level->cycles, found->hash);
	founds->stamped[founds->stamped_count++] = (uint8_t)founds->count++;
	return at + taken;
}

/* Looks up a cycle of the batch, and keeps it as the next guess. */
static void found_look_up(struct layer *layer, struct batch batch, struct found *found, bool force)
{
	struct layer_level *level = layer->level;
	struct batch cycle = batch_part(batch, found->first, found->length);

	found->place = cycle_intern(layer, cycle, found->hash, force);
	if (found->length < level->max_cycle)
		level->cycles.words.items[found->place + CYCLES_HEADER + found->length] =
			cycle.symbols[found->length];
	if (batch.count - found->first >= AHEAD)
		*guess_of(level, cycle.symbols) =
			(struct layer_guess){ found->place, found->length };
}

/* The table was cleared: no place has a meaning any more. */
static void founds_renew(struct layer *layer, struct batch batch, struct founds *founds)
{
	for (size_t i = 0; i < founds->count; i++) {
		struct found *found = &founds->items[i];

		found->hash = cycles_hash(batch.symbols + found->first, found->length);
		found_look_up(layer, batch, found, true);
	}
}

static void founds_look_up(struct layer *layer, struct batch batch, struct founds *founds)
{
	uint64_t clearings = layer->level->clearings;

	for (size_t i = 0; i < founds->stamped_count; i++)
		cycles_fetch_words(&layer->level->cycles, founds->items[founds->stamped[i]].hash);
	for (size_t i = 0; i < founds->stamped_count; i++) {
		found_look_up(layer, batch, &founds->items[founds->stamped[i]], false);
		if (layer->level->clearings == clearings)
			continue;
		founds_renew(layer, batch, founds);
		break;
	}
}

static inline void found_hand_on(struct layer *layer, const struct founds *founds,
				 const struct found *found)
{
	uint32_t place = found->place;

	if (place >= PENDING)
		place = founds->items[place % FOUND_MAX].place;
	cycle_found(layer, slot_at(layer, place), found->trips);
}

/* Finds a number of cycles, then looks up those that were not guessed: what that needs of memory is fetched meanwhile. */
static size_t cycles_take(struct layer *layer, struct batch batch)
{
	struct founds founds;
	size_t at = 0;

	founds.count = founds.stamped_count = 0;
	while (true) {
		at = cycles_guess(layer, batch.symbols, at, batch.count, &founds);
		if (at == batch.count || founds.count == FOUND_MAX)
			break;
		at = cycle_stamp(layer, batch, at, &founds);
	}
	founds_look_up(layer, batch, &founds);
	for (size_t i = 0; i < founds.count; i++)
		found_hand_on(layer, &founds, &founds.items[i]);
	return at;
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

/* The symbol of a repeated cycle if its entry has it; otherwise REPEATS_FULL. */
static inline uint32_t symbol_kept(const struct cycle *cycle, uint64_t trips)
{
	uint32_t kept = cycle->last_trips == trips ? cycle->last_symbol : REPEATS_FULL;

	return trips <= CYCLES_FEW ? cycle->few[trips - 1] - 1 : kept;
}

static void symbol_keep(struct cycle *cycle, uint64_t trips, uint32_t symbol)
{
	if (trips <= CYCLES_FEW) {
		cycle->few[trips - 1] = symbol + 1;
	} else if (trips <= UINT32_MAX) {
		cycle->last_trips = (uint32_t)trips;
		cycle->last_symbol = symbol;
	}
}

/* The symbols of repeated cycles, up to one that there is no room for; returns how many. Lookups are fetched ahead. */
static size_t symbols_find(struct layer_level *level, const struct repeat *repeats, size_t count,
			   uint32_t *ret)
{
	uint32_t hashes[LAYER_BATCH];
	uint16_t unknown[LAYER_BATCH];
	size_t unknown_count = 0;

	for (size_t i = 0; i < count; i++) {
		const struct repeat *repeat = &repeats[i];

		ret[i] = symbol_kept(cycles_at(&level->cycles, repeat->slot), repeat->trips);
		if (ret[i] != REPEATS_FULL)
			continue;
		hashes[unknown_count] = repeats_hash(repeat->slot, repeat->trips);
		repeats_fetch(&level->repeats, hashes[unknown_count]);
		unknown[unknown_count++] = (uint16_t)i;
	}
	for (size_t i = 0; i < unknown_count; i++)
		repeats_fetch_item(&level->repeats, hashes[i]);
	for (size_t i = 0; i < unknown_count; i++) {
		const struct repeat *repeat = &repeats[unknown[i]];
		uint32_t symbol = repeats_intern(&level->repeats, repeat->slot, repeat->trips);

		if (symbol == REPEATS_FULL)
			return unknown[i];
		ret[unknown[i]] = symbol;
		symbol_keep(cycles_at(&level->cycles, repeat->slot), repeat->trips, symbol);
	}
	return count;
}

static void repeats_forget(struct layer_space *space, struct layer_level *level)
{
	if (space->options.clearing)
		space->options.clearing(space->options.context, (unsigned)(level - space->levels));
	repeats_clear(&level->repeats);
	array_each(&level->cycles.entries, cycle) {
		memset(cycle->few, 0, sizeof(cycle->few));
		cycle->last_trips = 0;
	}
}

/* Adds to counts; sets each one's weight. */
static void repeats_tally(struct layer *layer, const struct repeat *repeats, size_t count,
			  uint64_t *ret)
{
	struct cycles *cycles = &layer->level->cycles;

	for (size_t i = 0; i < count; i++) {
		const struct cycle *cycle = cycles_at(cycles, repeats[i].slot);

		layer->counts.cycles += repeats[i].trips;
		layer->counts.length += repeats[i].trips * cycle->length;
		ret[i] = repeats[i].trips * cycle->weight;
		layer->counts.weight += ret[i];
		if (cycle->length == layer->level->max_cycle)
			layer->counts.cut += repeats[i].trips;
		cycles_count(cycles, repeats[i].slot, repeats[i].trips);
	}
	layer->counts.repeats += count;
}

static void symbols_hand_on(struct layer *layer, const struct repeat *repeats,
			    const uint32_t *symbols, size_t count)
{
	uint64_t weights[LAYER_BATCH];

	repeats_tally(layer, repeats, count, weights);
	if (layer->next)
		batch_push(layer->next, (struct batch){ symbols, weights, count });
	if (layer->sink && count)
		layer->sink(layer->sink_context, symbols, count);
}

static void layer_hand_on(struct layer *layer, const struct repeat *repeats, size_t count)
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
	}
}

static void layer_drain(struct layer *layer)
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

static void guesses_clear(struct layer_level *level)
{
	memset(level->guesses, 0xff, sizeof(*level->guesses) << GUESS_BITS);
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
	guesses_clear(level);
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
	level->guesses = mem_alloc(sizeof(*level->guesses) << GUESS_BITS);
	guesses_clear(level);
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
			 (sizeof(*level->guesses) << GUESS_BITS);
	}
	return bytes;
}
