// SPDX-License-Identifier: BSD-2-Clause
/*
 * Packs cycles (paths/coder.h).
 *
 * Strata that came again are much like each other, so they are written in the way of rows and
 * definitions. The different symbols of a piece, pairs of a cycle of the level below and its trips,
 * are named 1, 2, ... in order of appearance. A piece consists of
 *
 *	the names of one cycle after the other, each cycle ended by a 0
 *	for each name the pair: the cycle's number, as the distance above the greatest
 *	before or, after a 0, below it; and the trips
 *	for each cycle how far its number is beyond the next one, how often it was run, and
 *	how many of these trips followed another one at once
 *
 * Pieces of paths have only the last part.
 *
 * Worth its lines: columns compressed by zstd -3 take 1.3 to 1.5 times the bytes
 * (docs/design/paths.md).
 *
 * Invariants
 *  1. A piece has cycles of one level, in the order of their numbers.
 *  2. Writing needs memory for one piece, and a coder only while the piece is written.
 *  3. At most half of the places are in use.
 *  4. What is read takes no more than words_limit() words, whatever the bytes say.
 */
#include "paths/cyclepack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

/* Kinds of numbers. Numbers of pairs and of cycles share probabilities, which adapt soon enough. */
enum { NUMBER_CYCLE = 1, NUMBER_TRIPS = 2, NUMBER_AGAIN = 3 };
enum { GUESS = 8 }; /* symbols of a cycle, about */
enum { PLACES_FIRST = 1 << 10 };

/* The size for coder_init(), which must be the same in writing and reading. */
static size_t coder_size(const struct cyclepack_piece *piece)
{
	return piece->level ? piece->count * GUESS : 0;
}

void cyclepack_init(struct cyclepack *pack,
		    int (*put)(void *context, const struct cyclepack_piece *piece), void *context)
{
	*pack = (struct cyclepack){ .put = put, .context = context };
	pack->places = mem_zalloc(PLACES_FIRST * sizeof(*pack->places));
	pack->places_mask = PLACES_FIRST - 1;
}

void cyclepack_deinit(struct cyclepack *pack)
{
	array_deinit(&pack->cycles);
	array_deinit(&pack->names);
	array_deinit(&pack->symbols);
	free(pack->places);
}

/* Returns the place of a symbol, or the free one where it belongs. */
static inline uint32_t *place_of(const struct cyclepack *pack, const struct flow_symbol *symbol)
{
	uint64_t hash = symbol->number * 0x9e3779b97f4a7c15u ^ symbol->trips * 0xd6e8feb86659fd93u;
	size_t at = hash * 0xbf58476d1ce4e5b9u >> 32 & pack->places_mask;

	for (; pack->places[at]; at = (at + 1) & pack->places_mask) {
		const struct flow_symbol *other = &pack->symbols.items[pack->places[at] - 1];

		if (other->number == symbol->number && other->trips == symbol->trips)
			break;
	}
	return &pack->places[at];
}

static void places_grow(struct cyclepack *pack)
{
	size_t places = (pack->places_mask + 1) * 2;

	free(pack->places);
	pack->places = mem_zalloc(places * sizeof(*pack->places));
	pack->places_mask = places - 1;
	for (uint32_t i = 0; i < pack->symbols.count; i++)
		*place_of(pack, &pack->symbols.items[i]) = i + 1;
}

static __attribute__((noinline)) uint32_t name_add(struct cyclepack *pack, uint32_t *place,
						   const struct flow_symbol *symbol)
{
	*array_push(&pack->symbols) = *symbol;
	*place = (uint32_t)pack->symbols.count;
	if (pack->symbols.count * 2 > pack->places_mask)
		places_grow(pack);
	return (uint32_t)pack->symbols.count;
}

static inline uint32_t symbol_name(struct cyclepack *pack, const struct flow_symbol *symbol)
{
	uint32_t *place = place_of(pack, symbol);

	return *place ? *place : name_add(pack, place, symbol);
}

static void symbols_put(struct coder *coder, const struct cyclepack *pack)
{
	uint64_t greatest = 0;

	array_each(&pack->symbols, symbol) {
		bool above = symbol->number > greatest;

		coder_put_number(coder, NUMBER_CYCLE, above ? symbol->number - greatest : 0);
		if (!above)
			coder_put_number(coder, NUMBER_CYCLE, greatest - symbol->number);
		coder_put_number(coder, NUMBER_TRIPS, symbol->trips - 1);
		greatest = above ? symbol->number : greatest;
	}
}

static void cycles_put(struct coder *coder, const struct cyclepack *pack)
{
	uint64_t next = pack->cycles.items[0].number;

	array_each(&pack->cycles, cycle) {
		coder_put_number(coder, NUMBER_CYCLE, cycle->number - next);
		coder_put_number(coder, NUMBER_TRIPS, cycle->trips);
		coder_put_number(coder, NUMBER_AGAIN, cycle->trips - cycle->repeats);
		next = cycle->number + 1;
	}
}

static int piece_put(struct cyclepack *pack)
{
	struct cyclepack_piece piece = { .level = pack->level,
					 .first = pack->cycles.items[0].number,
					 .count = pack->cycles.count };
	struct coder coder;
	int err;

	coder_init(&coder, coder_size(&piece));
	coder_write(&coder);
	coder_put_all(&coder, pack->names.items, pack->names.count);
	symbols_put(&coder, pack);
	cycles_put(&coder, pack);
	coder_end(&coder);
	piece.data = coder.out.items;
	piece.size = coder.out.count;
	err = pack->put(pack->context, &piece);
	coder_deinit(&coder);
	return err;
}

int cyclepack_flush(struct cyclepack *pack)
{
	int err = pack->cycles.count ? piece_put(pack) : 0;

	pack->cycles.count = pack->names.count = pack->symbols.count = 0;
	memset(pack->places, 0, (pack->places_mask + 1) * sizeof(*pack->places));
	return err;
}

int cyclepack_add(struct cyclepack *pack, const struct flow_cycle *cycle)
{
	bool full = pack->cycles.count == CYCLEPACK_CYCLES ||
		    pack->names.count >= CYCLEPACK_SYMBOLS;
	int err = full || cycle->level != pack->level ? cyclepack_flush(pack) : 0;

	if (err)
		return err;
	pack->level = cycle->level;
	*array_push(&pack->cycles) = (struct cyclepack_cycle){ .number = cycle->number,
							       .trips = cycle->trips,
							       .repeats = cycle->repeats };
	if (!cycle->level)
		return 0;
	array_reserve(&pack->names, pack->names.count + cycle->length + 1);
	for (uint32_t i = 0; i < cycle->length; i++)
		pack->names.items[pack->names.count++] = symbol_name(pack, &cycle->symbols[i]);
	pack->names.items[pack->names.count++] = 0;
	return 0;
}

/* --- Reading ---------------------------------------------------------------------------------- */

void cyclepack_reader_init(struct cyclepack_reader *reader)
{
	*reader = (struct cyclepack_reader){ .room = CYCLEPACK_ROOM };
	coder_init(&reader->coder, 0);
}

void cyclepack_reader_deinit(struct cyclepack_reader *reader)
{
	coder_deinit(&reader->coder);
	array_deinit(&reader->cycles);
	array_deinit(&reader->symbols);
	array_deinit(&reader->named);
}

static uint64_t words_used(const struct cyclepack_reader *reader)
{
	return reader->cycles.count * (sizeof(*reader->cycles.items) / 4) +
	       (reader->symbols.count + reader->named.count) * (sizeof(*reader->symbols.items) / 4);
}

static uint64_t words_limit(const struct cyclepack_reader *reader)
{
	uint64_t expanded = reader->bytes * CYCLEPACK_EXPANSION;

	return expanded > reader->room ? expanded : reader->room;
}

static int damaged(const char *what)
{
	return err_set(-EBADMSG, "%s: the profile is damaged", what);
}

/*
 * Reads the names of one cycle, which symbols keep as their numbers for now. *named: how many
 * different ones there are so far.
 */
static int names_get(struct cyclepack_reader *reader, uint32_t *named)
{
	struct cyclepack_cycle *cycle = &reader->cycles.items[reader->cycles.count - 1];

	for (;;) {
		uint32_t name;
		int err = coder_get(&reader->coder, &name);

		if (err)
			return err;
		if (!name)
			return cycle->length ? 0 : damaged("a cycle holds nothing");
		if (name > *named + 1 || cycle->length == LAYER_MAX_CYCLE_MAX)
			return damaged("a cycle is too long, or uses a name before it is given");
		*named = name > *named ? name : *named;
		*array_push(&reader->symbols) = (struct flow_symbol){ .number = name };
		cycle->length++;
		if (words_used(reader) > words_limit(reader))
			return damaged("cycles are more than any program has");
	}
}

static int symbol_get(struct coder *coder, uint64_t *greatest, struct flow_symbol *ret)
{
	uint64_t above, below = 0, trips;
	int err = coder_get_number(coder, NUMBER_CYCLE, &above);

	if (!err && !above)
		err = coder_get_number(coder, NUMBER_CYCLE, &below);
	err = err ? err : coder_get_number(coder, NUMBER_TRIPS, &trips);
	if (err)
		return err;
	if (above > INT64_MAX - *greatest || below >= *greatest + above || trips >= INT64_MAX)
		return damaged("a cycle holds what cannot be");
	*greatest += above;
	*ret = (struct flow_symbol){ .number = *greatest - below, .trips = trips + 1 };
	return 0;
}

/* Replaces names by what they stand for, from a symbol on. */
static int symbols_get(struct cyclepack_reader *reader, size_t from, uint32_t named)
{
	uint64_t greatest = 0;
	int err = 0;

	reader->named.count = 0;
	for (uint32_t i = 0; i < named && !err; i++)
		err = symbol_get(&reader->coder, &greatest, array_push(&reader->named));
	for (size_t i = from; i < reader->symbols.count && !err; i++)
		reader->symbols.items[i] = reader->named.items[reader->symbols.items[i].number - 1];
	return err;
}

static int cycle_get(struct coder *coder, uint64_t *next, struct cyclepack_cycle *ret)
{
	uint64_t gap, again;
	int err = coder_get_number(coder, NUMBER_CYCLE, &gap);

	err = err ? err : coder_get_number(coder, NUMBER_TRIPS, &ret->trips);
	err = err ? err : coder_get_number(coder, NUMBER_AGAIN, &again);
	if (err)
		return err;
	if (*next >= INT64_MAX || gap >= INT64_MAX - *next || ret->trips > INT64_MAX ||
	    again > ret->trips)
		return damaged("a cycle has counts that cannot be");
	ret->number = *next + gap;
	ret->repeats = ret->trips - again;
	*next = ret->number + 1;
	return 0;
}

static int piece_read(struct cyclepack_reader *reader, const struct cyclepack_piece *piece)
{
	size_t cycles = reader->cycles.count, symbols = reader->symbols.count;
	uint64_t next = piece->first;
	uint32_t named = 0;
	int err = 0;

	for (uint64_t i = 0; i < piece->count && !err; i++) {
		*array_push(&reader->cycles) =
			(struct cyclepack_cycle){ .symbols = reader->symbols.count };
		err = piece->level ? names_get(reader, &named) : 0;
		if (!err && words_used(reader) > words_limit(reader))
			err = damaged("cycles are more than any program has");
	}
	err = err ? err : symbols_get(reader, symbols, named);
	for (size_t i = cycles; i < reader->cycles.count && !err; i++)
		err = cycle_get(&reader->coder, &next, &reader->cycles.items[i]);
	if (!err && reader->cycles.items[cycles].number != piece->first)
		err = damaged("cycles begin with another than they should");
	return err;
}

int cyclepack_read(struct cyclepack_reader *reader, const struct cyclepack_piece *piece)
{
	int err;

	if (!piece->count || piece->count > CYCLEPACK_CYCLES || !piece->first)
		return damaged("so many cycles are never written at once");
	coder_forget(&reader->coder, coder_size(piece));
	coder_read(&reader->coder, piece->data, piece->size);
	reader->bytes += piece->size;
	err = piece_read(reader, piece);
	return err ? err_wrap(err, "cycles %llu and following of level %u",
			      (unsigned long long)piece->first, piece->level)
		   : 0;
}
