// SPDX-License-Identifier: BSD-2-Clause
/*
 * Cycles by guesses.
 *
 * Where a cycle begins, the next symbols choose a guess, the cycle that was found there the last time. It is confirmed by
 * comparing memory: the cycle's symbols, and behind them the symbol that ended it the last time, which it holds. If all
 * are equal, the plain way would find the same. If only what ended it is different, the cycle is searched for that symbol.
 * Anything else goes the plain way, and so does what is too close to the end of a batch.
 *
 * What was found the plain way is not looked up at once: up to FOUND_MAX repeated cycles are found first, and what the lookups
 * need of memory is fetched meanwhile. Until then its place as a guess is its number among them, and its symbols are
 * compared where they came in. Then all are handed on in order. If there is no room for a new cycle, everything is cleared,
 * and all of them are looked up anew.
 *
 * A cycle of the greatest length ends whatever follows, so that only its symbols are compared.
 *
 * 1. guesses holds places of headers in the table, and lengths; places from PENDING on only within layer_guess_take().
 * 2. The word behind a cycle is a symbol it holds, or its first one.
 */
#include "profile/layer_private.h"

#include <emmintrin.h>
#include <string.h>

#include "profile/ahead.h"
#include "profile/words.h"

enum { AHEAD = 4, LANES = 8, FOUND_MAX = 64 };

/* A place from here on is the number of a found cycle that is not looked up yet. */
#define PENDING 0x80000000u

/* A repeated cycle that was found, not handed on yet. */
struct found {
	uint32_t place; /* of its header in words; from PENDING on: that of another, which will be looked up */
	uint32_t first; /* its first symbol in the batch */
	uint32_t length;
	uint32_t hash; /* if it will be looked up */
	uint64_t trips;
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
			       (64 - LAYER_GUESS_BITS)];
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
	if (equal != guess.length || !words_hold(words, equal, ahead[equal]))
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

	layer_stamps_take(layer);
	taken = layer_stamp(level, symbols + at, rest < level->max_cycle ? rest : level->max_cycle);
	if (taken == rest && taken < level->max_cycle) {
		layer_open_append(layer, batch_part(batch, at, taken));
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

	found->place = layer_cycle_intern(layer, cycle, found->hash, force);
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
	cycle_found(layer, place, found->trips);
}

/* Those for which a guess cost more than comparing would have. */
static size_t stamped_short(const struct founds *founds)
{
	size_t count = 0;

	for (size_t i = 0; i < founds->stamped_count; i++)
		count += founds->items[founds->stamped[i]].length < AHEAD_WINDOW;
	return count;
}

/* Finds a number of cycles, then looks up those that were not guessed: what that needs of memory is fetched meanwhile. */
size_t layer_guess_take(struct layer *layer, struct batch batch, size_t *ret_wrong)
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
	*ret_wrong = stamped_short(&founds);
	founds_look_up(layer, batch, &founds);
	for (size_t i = 0; i < founds.count; i++)
		found_hand_on(layer, &founds, &founds.items[i]);
	return at;
}

void layer_guesses_clear(struct layer_level *level)
{
	memset(level->guesses, 0xff, sizeof(*level->guesses) << LAYER_GUESS_BITS);
}
