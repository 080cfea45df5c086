// SPDX-License-Identifier: BSD-2-Clause
/*
 * Sequences of paths, compressed (paths/coder.h).
 *
 *	in	repeated paths of a stretch of a thread; definitions of paths
 *	out	bytes that can be read by themselves, and back
 *	owner	the row writer, to compress; order.c, to read
 *
 * A row names its different repeated paths, pairs of path and trips, 1, 2, ... in order of
 * appearance. It consists of the number of repeated paths, the sequence of their names, and for
 * each name the pair: the path's slot, as the distance above the greatest slot before or, after a
 * 0, below it; and the trips.
 *
 * Definitions are the blocks of the paths, each + 1, one path after the other, each ended by a 0.
 * The model is kept from one row of definitions to the next, because paths are much like those
 * defined before. That is why all definitions have to be read, in order.
 */
#include "paths/sequence.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "paths/layer.h"

/* Kinds of numbers in a row. */
enum { NUMBER_COUNT = 1, NUMBER_SLOT = 2, NUMBER_TRIPS = 3 };
enum { DEFINITIONS_EXPECTED = 1 << 20 };
enum { NAMES_AHEAD = 16 }; /* symbols, whose names are prefetched so far ahead */

static const char *const unit_texts[] = {
#define X(name, text, what) [SEQUENCE_##name] = text,
	SEQUENCE_UNITS(X)
#undef X
};

const char *sequence_unit_text(enum sequence_unit unit)
{
	assert(unit < SEQUENCE_UNIT_COUNT);
	return unit_texts[unit];
}

int sequence_unit_parse(const char *text, enum sequence_unit *ret)
{
	for (enum sequence_unit unit = 0; unit < SEQUENCE_UNIT_COUNT; unit++)
		if (strcmp(text, unit_texts[unit]) == 0) {
			*ret = unit;
			return 0;
		}
	return err_set(-EINVAL,
		       "%s: not something a sequence counts; there are instruction, block, path, "
		       "repeat and stratum",
		       text);
}

void sequence_encoder_init(struct sequence_encoder *encoder)
{
	*encoder = (struct sequence_encoder){};
	coder_init(&encoder->definitions, DEFINITIONS_EXPECTED);
}

void sequence_encoder_deinit(struct sequence_encoder *encoder)
{
	coder_deinit(&encoder->definitions);
	array_deinit(&encoder->symbols);
}

size_t sequence_encoder_memory(const struct sequence_encoder *encoder)
{
	return coder_memory(&encoder->definitions) +
	       encoder->symbols.capacity * sizeof(*encoder->symbols.items);
}

void sequence_row_encoder_init(struct sequence_row_encoder *encoder)
{
	*encoder = (struct sequence_row_encoder){};
	coder_init(&encoder->coder, 0);
}

void sequence_row_encoder_deinit(struct sequence_row_encoder *encoder)
{
	coder_deinit(&encoder->coder);
	array_deinit(&encoder->named);
	free(encoder->names);
}

size_t sequence_row_encoder_memory(const struct sequence_row_encoder *encoder)
{
	return coder_memory(&encoder->coder) +
	       (encoder->names_count + encoder->named.capacity) * sizeof(uint32_t);
}

static void names_reserve(struct sequence_row_encoder *encoder, size_t count)
{
	if (count <= encoder->names_count)
		return;
	encoder->names = mem_realloc(encoder->names, count, sizeof(*encoder->names));
	memset(encoder->names + encoder->names_count, 0,
	       (count - encoder->names_count) * sizeof(*encoder->names));
	encoder->names_count = count;
}

static void pair_put(struct coder *coder, const struct repeat *pair, uint32_t *slot_max)
{
	bool above = pair->slot > *slot_max;

	coder_put_number(coder, NUMBER_SLOT, above ? pair->slot - *slot_max : 0);
	if (!above)
		coder_put_number(coder, NUMBER_SLOT, *slot_max - pair->slot);
	coder_put_number(coder, NUMBER_TRIPS, pair->trips - 1);
	*slot_max = above ? pair->slot : *slot_max;
}

void sequence_encoded_deinit(struct sequence_encoded *encoded)
{
	array_deinit(&encoded->bytes);
	array_deinit(&encoded->pairs);
	array_deinit(&encoded->counts);
}

size_t sequence_encoded_memory(const struct sequence_encoded *encoded)
{
	return encoded->bytes.capacity + encoded->pairs.capacity * sizeof(*encoded->pairs.items) +
	       encoded->counts.capacity * sizeof(*encoded->counts.items);
}

/* The state of giving names. */
struct naming {
	uint32_t *names; /* names by symbol */
	uint32_t *counts; /* by name - 1: how often it is in the row */
	uint32_t *named; /* by name - 1: its symbol */
	size_t last; /* the last name that was given */
};

/*
 * The symbol is entered as a new one in any case, but `last` grows only if it is new: there is no
 * branch, because that is hard to predict.
 */
static inline __attribute__((always_inline)) uint32_t name_give(struct naming *naming,
								size_t symbol)
{
	size_t name = naming->names[symbol];

	naming->named[naming->last] = (uint32_t)symbol;
	naming->counts[naming->last] = 0;
	naming->last += !name;
	name = name ? name : naming->last;
	__asm__("" : "+r"(name)); /* keeps GCC from using two registers for it */
	naming->names[symbol] = (uint32_t)name;
	naming->counts[name - 1]++;
	return (uint32_t)name;
}

/* Replaces symbols by names, in order of appearance; returns how many different ones there are. */
static size_t names_give(struct naming naming, uint32_t *symbols, size_t count)
{
	size_t i = 0;

#pragma GCC unroll 4
	for (; i + NAMES_AHEAD < count; i++) {
		__builtin_prefetch(&naming.names[symbols[i + NAMES_AHEAD]], 1);
		symbols[i] = name_give(&naming, symbols[i]);
	}
	for (; i < count; i++)
		symbols[i] = name_give(&naming, symbols[i]);
	return naming.last;
}

static void row_name(struct sequence_row_encoder *encoder, uint32_t *symbols, size_t count,
		     uint32_t limit, struct sequence_encoded *ret)
{
	names_reserve(encoder, limit);
	array_reserve(&ret->counts, count + 1);
	array_reserve(&encoder->named, count + 1);
	encoder->named.count = names_give((struct naming){ .names = encoder->names,
							   .counts = ret->counts.items,
							   .named = encoder->named.items },
					  symbols, count);
	ret->counts.count = encoder->named.count;
	array_each(&encoder->named, symbol)
		encoder->names[*symbol] = 0;
}

static void row_code(struct coder *coder, const uint32_t *names, size_t count,
		     struct sequence_encoded *ret)
{
	uint32_t slot_max = 0;

	coder_forget(coder, count);
	coder_write(coder);
	coder_put_number(coder, NUMBER_COUNT, count);
	coder_put_all(coder, names, count);
	array_each(&ret->pairs, pair)
		pair_put(coder, pair, &slot_max);
	coder_end(coder);
	array_reserve(&ret->bytes, coder->out.count);
	memcpy(ret->bytes.items, coder->out.items, coder->out.count);
	ret->bytes.count = coder->out.count;
}

void sequence_row_encode(struct sequence_row_encoder *encoder, uint32_t *symbols, size_t count,
			 uint32_t limit, sequence_pairs_fn *pairs, const void *context,
			 struct sequence_encoded *ret)
{
	assert(count <= SEQUENCE_ROW_MAX);
	row_name(encoder, symbols, count, limit, ret);
	array_reserve(&ret->pairs, encoder->named.count);
	ret->pairs.count = encoder->named.count;
	pairs(context, encoder->named.items, encoder->named.count, ret->pairs.items);
	row_code(&encoder->coder, symbols, count, ret);
}

static void definition_add(struct sequence_encoder *encoder, const uint32_t *blocks, size_t length)
{
	uint32_t *symbols;

	array_reserve(&encoder->symbols, encoder->symbols.count + length + 1);
	symbols = encoder->symbols.items + encoder->symbols.count;
	for (size_t i = 0; i < length; i++)
		symbols[i] = blocks[i] + 1;
	symbols[length] = 0;
	encoder->symbols.count += length + 1;
}

void sequence_definitions_encode(struct sequence_encoder *encoder, const struct cycles *cycles,
				 uint32_t first, uint32_t last, const uint8_t **ret,
				 size_t *ret_size)
{
	struct coder *coder = &encoder->definitions;

	encoder->symbols.count = 0;
	for (uint32_t slot = first; slot <= last; slot++)
		definition_add(encoder, cycles_symbols(cycles, slot),
			       cycles_at(cycles, slot)->length);
	coder_write(coder);
	coder_put_all(coder, encoder->symbols.items, encoder->symbols.count);
	coder_end(coder);
	*ret = coder->out.items;
	*ret_size = coder->out.count;
}

void sequence_paths_init(struct sequence_paths *paths)
{
	*paths = (struct sequence_paths){};
	coder_init(&paths->coder, DEFINITIONS_EXPECTED);
	*array_push(&paths->ends) = 0;
	paths->room = SEQUENCE_PATHS_ROOM;
}

void sequence_paths_deinit(struct sequence_paths *paths)
{
	coder_deinit(&paths->coder);
	array_deinit(&paths->blocks);
	array_deinit(&paths->ends);
}

void sequence_paths_end(struct sequence_paths *paths)
{
	coder_deinit(&paths->coder);
}

static uint64_t paths_words(const struct sequence_paths *paths)
{
	return paths->blocks.count + paths->ends.count * (sizeof(*paths->ends.items) / 4);
}

static uint64_t words_limit(const struct sequence_paths *paths)
{
	uint64_t expanded = paths->bytes * SEQUENCE_PATHS_EXPANSION;

	return expanded > paths->room ? expanded : paths->room;
}

static int path_read(struct sequence_paths *paths, uint64_t limit)
{
	for (size_t length = 0; length <= LAYER_MAX_CYCLE_MAX; length++) {
		uint32_t symbol;
		int err = coder_get(&paths->coder, &symbol);

		if (err)
			return err;
		if (paths_words(paths) >= limit)
			return err_set(
				-EBADMSG,
				"%lu bytes define %zu paths of %zu blocks and still more, which "
				"no program does: the profile is damaged, or made to fill memory",
				paths->bytes, paths->ends.count - 1, paths->blocks.count);
		if (!symbol) {
			*array_push(&paths->ends) = paths->blocks.count;
			return 0;
		}
		*array_push(&paths->blocks) = symbol - 1;
	}
	return err_set(-EBADMSG, "a path of more than %d blocks: the profile is damaged",
		       LAYER_MAX_CYCLE_MAX);
}

int sequence_paths_add(struct sequence_paths *paths, const struct sequence_definitions *definitions)
{
	uint64_t limit;
	int err;

	if (definitions->first != paths->ends.count)
		return err_set(
			-EBADMSG,
			"definitions of paths from number %lu on, where %zu is the next: rows "
			"of the profile are missing",
			definitions->first, paths->ends.count);
	coder_read(&paths->coder, definitions->data, definitions->size);
	paths->bytes += definitions->size;
	limit = words_limit(paths);
	for (uint64_t i = 0; i < definitions->count; i++) {
		err = path_read(paths, limit);
		if (err)
			return err;
	}
	return 0;
}

size_t sequence_path(const struct sequence_paths *paths, uint64_t number, const uint32_t **ret)
{
	if (number == 0 || number >= paths->ends.count ||
	    paths->ends.items[number] == paths->ends.items[number - 1])
		return 0;
	*ret = &paths->blocks.items[paths->ends.items[number - 1]];
	return paths->ends.items[number] - paths->ends.items[number - 1];
}

void sequence_repeats_init(struct sequence_repeats *repeats)
{
	*repeats = (struct sequence_repeats){};
	coder_init(&repeats->coder, 0);
}

void sequence_repeats_deinit(struct sequence_repeats *repeats)
{
	array_deinit(&repeats->items);
	array_deinit(&repeats->names);
	coder_deinit(&repeats->coder);
}

static int pair_get(struct coder *coder, uint64_t base, uint64_t *slot_max,
		    struct sequence_repeat *ret)
{
	uint64_t above, below = 0, trips;
	int err = coder_get_number(coder, NUMBER_SLOT, &above);

	if (!err && !above)
		err = coder_get_number(coder, NUMBER_SLOT, &below);
	if (!err)
		err = coder_get_number(coder, NUMBER_TRIPS, &trips);
	if (err)
		return err;
	if (below >= *slot_max + above || above > UINT32_MAX || trips == UINT64_MAX)
		return err_set(-EBADMSG,
			       "a row names a path that cannot be: the profile is damaged");
	*slot_max += above;
	*ret = (struct sequence_repeat){ .path = base + *slot_max - below, .trips = trips + 1 };
	return 0;
}

/*
 * Reads the names, which items keep as their paths for now. *ret: how many different ones there
 * are.
 */
static int names_get(struct sequence_repeats *repeats, uint64_t count, uint32_t *ret)
{
	uint32_t named = 0, name;

	for (uint64_t i = 0; i < count; i++) {
		int err = coder_get(&repeats->coder, &name);

		if (err)
			return err;
		if (name == 0 || name > named + 1)
			return err_set(
				-EBADMSG,
				"a row uses a name before it is given: the profile is damaged");
		named = name > named ? name : named;
		*array_push(&repeats->items) = (struct sequence_repeat){ .path = name };
	}
	*ret = named;
	return 0;
}

static int pairs_get(struct sequence_repeats *repeats, uint64_t base, uint32_t named)
{
	uint64_t slot_max = 0;

	for (uint32_t i = 0; i < named; i++) {
		struct sequence_repeat pair;
		int err = pair_get(&repeats->coder, base, &slot_max, &pair);

		if (err)
			return err;
		*array_push(&repeats->names) = pair;
	}
	return 0;
}

static int row_count(struct coder *coder, const struct sequence_row *row, uint64_t *ret)
{
	int err;

	/*
	 * The number of repeats decides how large the model is, so it is read first with a small
	 * one.
	 */
	coder_forget(coder, 0);
	coder_read(coder, row->data, row->size);
	err = coder_get_number(coder, NUMBER_COUNT, ret);
	if (!err && *ret > SEQUENCE_ROW_MAX)
		return err_set(-EBADMSG, "a row of %lu repeated paths: the profile is damaged",
			       *ret);
	return err;
}

int sequence_row_decode(struct sequence_repeats *repeats, const struct sequence_row *row)
{
	struct coder *coder = &repeats->coder;
	uint32_t named = 0;
	uint64_t count;
	int err = row_count(coder, row, &count);

	if (err)
		return err;
	repeats->items.count = 0;
	repeats->names.count = 0;
	coder_forget(coder, count);
	coder_read(coder, row->data, row->size);
	err = coder_get_number(coder, NUMBER_COUNT, &count);
	if (!err)
		err = names_get(repeats, count, &named);
	if (!err)
		err = pairs_get(repeats, row->base, named);
	if (err)
		return err;
	array_each(&repeats->items, item)
		*item = repeats->names.items[item->path - 1];
	return 0;
}

static uint64_t block_weight(const uint32_t *weights, size_t count, uint32_t block)
{
	return block < count ? weights[block] : 0;
}

/* Returns what one trip adds to a position. */
static struct sequence_position trip_size(const uint32_t *blocks, size_t length,
					  const uint32_t *weights, size_t weights_count)
{
	struct sequence_position size = {};

	for (size_t i = 0; i < length; i++)
		size.units[SEQUENCE_INSTRUCTION] += block_weight(weights, weights_count, blocks[i]);
	size.units[SEQUENCE_BLOCK] = length;
	size.units[SEQUENCE_PATH] = 1;
	return size;
}

static void position_add(struct sequence_position *position, const struct sequence_position *trip,
			 uint64_t trips)
{
	for (unsigned i = 0; i < SEQUENCE_UNIT_COUNT; i++)
		position->units[i] += trip->units[i] * trips;
}

/* Finds the place within the trip that holds it. */
static void place_block(struct sequence_place *place, enum sequence_unit unit, uint64_t rest,
			const uint32_t *blocks, size_t length, const uint32_t *weights,
			size_t count)
{
	if (unit == SEQUENCE_BLOCK)
		place->block = (size_t)rest;
	if (unit != SEQUENCE_INSTRUCTION)
		return;
	while (place->block + 1 < length &&
	       rest >= block_weight(weights, count, blocks[place->block]))
		rest -= block_weight(weights, count, blocks[place->block++]);
	place->instruction = rest;
}

int sequence_locate(const struct sequence_repeats *repeats, const struct sequence_paths *paths,
		    const uint32_t *weights, size_t weights_count,
		    const struct sequence_position *begin, enum sequence_unit unit, uint64_t n,
		    struct sequence_place *ret)
{
	struct sequence_place place = { .before = *begin };

	assert(unit != SEQUENCE_STRATUM);
	for (; place.repeat < repeats->items.count; place.repeat++) {
		const struct sequence_repeat *repeat = &repeats->items.items[place.repeat];
		const uint32_t *blocks = NULL;
		size_t length = sequence_path(paths, repeat->path, &blocks);
		struct sequence_position trip = trip_size(blocks, length, weights, weights_count);
		uint64_t rest = n - place.before.units[unit], size = trip.units[unit];

		if (!length)
			return err_set(-EBADMSG,
				       "path %lu is not defined: rows of the profile are missing",
				       repeat->path);
		if (n < place.before.units[unit])
			break;
		if (unit == SEQUENCE_REPEAT ? !rest : size && rest / size < repeat->trips) {
			place.trip = size ? rest / size : 0;
			position_add(&place.before, &trip, place.trip);
			place_block(&place, unit, size ? rest % size : 0, blocks, length, weights,
				    weights_count);
			*ret = place;
			return 0;
		}
		position_add(&place.before, &trip, repeat->trips);
		place.before.units[SEQUENCE_REPEAT]++;
	}
	return err_set(-ENOENT, "%s %lu: not in this row", sequence_unit_text(unit), n);
}

size_t sequence_strata(const struct sequence_repeat *repeats, size_t count, uint32_t max_cycle,
		       void (*stratum)(void *context, size_t first, size_t count), void *context)
{
	ARRAY(uint32_t) stamps = {};
	struct repeats table;
	size_t first = 0;
	uint32_t serial = 1;

	repeats_init(&table, 0, SIZE_MAX);
	for (size_t i = 0; i < count; i++) {
		/*
		 * Paths of one stratum have the same base, so their lower halves tell them apart.
		 */
		uint32_t symbol =
			repeats_intern(&table, (uint32_t)repeats[i].path, repeats[i].trips);

		if (symbol == stamps.count)
			*array_push(&stamps) = 0;
		if (stamps.items[symbol] == serial) {
			stratum(context, first, i - first);
			first = i;
			serial++;
		}
		stamps.items[symbol] = serial;
		if (i + 1 - first == max_cycle) {
			stratum(context, first, max_cycle);
			first = i + 1;
			serial++;
		}
	}
	repeats_deinit(&table);
	array_deinit(&stamps);
	return first;
}
