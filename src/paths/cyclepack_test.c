// SPDX-License-Identifier: BSD-2-Clause
// Serves: W4.
/* Cycles, packed and unpacked; and bytes that nobody packed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "paths/cyclepack.h"

enum { LENGTH_MAX = 12, PIECES = 64, MANY = 3 * CYCLEPACK_CYCLES / 2, FLIPS = 3000 };

struct kept {
	struct cyclepack_piece pieces[PIECES];
	size_t count;
	int err; /* to return */
};

static int piece_keep(void *context, const struct cyclepack_piece *piece)
{
	struct kept *kept = context;
	struct cyclepack_piece *place = &kept->pieces[kept->count++];

	assert_true(kept->count < PIECES);
	*place = *piece;
	place->data = mem_dup(piece->data, piece->size);
	return kept->err;
}

static void kept_free(struct kept *kept)
{
	for (size_t i = 0; i < kept->count; i++)
		free((void *)kept->pieces[i].data);
	*kept = (struct kept){};
}

/* Levels 0 to 2, in turn for a while each; the same for the same seed. */
struct source {
	struct rng rng;
	uint64_t numbers[3];
	struct flow_symbol symbols[LENGTH_MAX];
};

static struct flow_cycle cycle_next(struct source *source, unsigned level)
{
	struct rng *rng = &source->rng;
	struct flow_cycle cycle = { .level = level };

	source->numbers[level] += 1 + (level ? rng_next(rng) % 4 : 0);
	cycle.number = source->numbers[level];
	cycle.trips = rng_next(rng) % 100 ? 2 + rng_next(rng) % 5 : INT64_MAX;
	cycle.repeats = cycle.trips - (rng_next(rng) % 3 ? 0 : cycle.trips / 2);
	cycle.length = level ? 1 + (uint32_t)(rng_next(rng) % LENGTH_MAX) : 0;
	cycle.symbols = level ? source->symbols : NULL;
	for (uint32_t i = 0; i < cycle.length; i++)
		source->symbols[i] = (struct flow_symbol){
			.number = rng_next(rng) % 200 ? 1 + rng_next(rng) % 9
						      : INT64_MAX - rng_next(rng) % 9,
			.trips = 1 + rng_next(rng) % 3,
		};
	return cycle;
}

static void source_init(struct source *source, uint64_t seed)
{
	*source = (struct source){};
	rng_init(&source->rng, seed);
}

static void cycles_pack(struct kept *kept, uint64_t seed, size_t count, unsigned burst)
{
	struct source source;
	struct cyclepack pack;

	source_init(&source, seed);
	cyclepack_init(&pack, piece_keep, kept);
	for (size_t i = 0; i < count; i++) {
		struct flow_cycle cycle = cycle_next(&source, (unsigned)(2 - i / burst % 3));

		assert_int_equal(cyclepack_add(&pack, &cycle), 0);
	}
	assert_int_equal(cyclepack_flush(&pack), 0);
	assert_int_equal(cyclepack_flush(&pack), 0);
	cyclepack_deinit(&pack);
}

static void what_was_packed_comes_back(void **state)
{
	enum { COUNT = 3000, BURST = 500 };
	struct kept kept = {};
	struct cyclepack_reader reader;
	struct source source;

	cycles_pack(&kept, 1, COUNT, BURST);
	assert_int_equal(kept.count, COUNT / BURST);
	source_init(&source, 1);
	cyclepack_reader_init(&reader);
	for (size_t i = 0; i < kept.count; i++)
		assert_int_equal(cyclepack_read(&reader, &kept.pieces[i]), 0);
	assert_int_equal(reader.cycles.count, COUNT);
	for (size_t i = 0; i < COUNT; i++) {
		struct flow_cycle cycle = cycle_next(&source, (unsigned)(2 - i / BURST % 3));
		const struct cyclepack_cycle *read = &reader.cycles.items[i];

		assert_int_equal(read->number, cycle.number);
		assert_int_equal(read->trips, cycle.trips);
		assert_int_equal(read->repeats, cycle.repeats);
		assert_int_equal(read->length, cycle.length);
		assert_memory_equal(&reader.symbols.items[read->symbols], source.symbols,
				    cycle.length * sizeof(*source.symbols));
	}
	cyclepack_reader_deinit(&reader);
	kept_free(&kept);
}

static void pieces_are_bounded(void **state)
{
	struct kept kept = {};
	size_t cycles = 0;

	cycles_pack(&kept, 2, 3 * MANY, MANY);
	assert_true(kept.count > 3 * 2);
	for (size_t i = 0; i < kept.count; i++) {
		assert_in_range(kept.pieces[i].count, 1, CYCLEPACK_CYCLES);
		assert_true(!kept.pieces[i].level || kept.pieces[i].count < CYCLEPACK_SYMBOLS / 2);
		cycles += kept.pieces[i].count;
	}
	assert_int_equal(cycles, 3 * MANY);
	kept_free(&kept);
}

/* Of paths, three numbers each that hardly vary; strata that are like others. */
static void pieces_are_small(void **state)
{
	struct flow_symbol symbols[4] = { { 1, 1 }, { 2, 1 }, { 3, 2 } };
	struct flow_cycle cycle = { .level = 1, .length = 4, .symbols = symbols };
	struct kept kept = {};
	struct cyclepack pack;

	cyclepack_init(&pack, piece_keep, &kept);
	for (uint64_t i = 1; i <= 10000; i++) {
		cycle.number = 3 * i;
		cycle.trips = cycle.repeats = 2;
		symbols[3] = (struct flow_symbol){ 4 + i % 4, 1 };
		assert_int_equal(cyclepack_add(&pack, &cycle), 0);
	}
	assert_int_equal(cyclepack_flush(&pack), 0);
	assert_in_range(kept.pieces[0].size, 100, 10000 / 2);
	cyclepack_deinit(&pack);
	kept_free(&kept);
}

static void a_failure_is_told(void **state)
{
	struct kept kept = { .err = -ENOSPC };
	struct flow_cycle path = { .number = 1, .trips = 1, .repeats = 1 };
	struct flow_symbol symbol = { 1, 1 };
	struct flow_cycle stratum = {
		.level = 1, .number = 1, .trips = 2, .length = 1, .symbols = &symbol
	};
	struct cyclepack pack;

	cyclepack_init(&pack, piece_keep, &kept);
	assert_int_equal(cyclepack_add(&pack, &path), 0);
	assert_int_equal(cyclepack_add(&pack, &stratum), -ENOSPC);
	assert_int_equal(cyclepack_add(&pack, &stratum), 0);
	assert_int_equal(cyclepack_flush(&pack), -ENOSPC);
	cyclepack_deinit(&pack);
	kept_free(&kept);
}

static int piece_try(const struct cyclepack_piece *piece, uint64_t room)
{
	struct cyclepack_reader reader;
	uint64_t last = 0;
	int err;

	cyclepack_reader_init(&reader);
	reader.room = room;
	err = cyclepack_read(&reader, piece);
	for (size_t i = 0; i < reader.cycles.count && !err; i++) {
		const struct cyclepack_cycle *cycle = &reader.cycles.items[i];

		assert_true(cycle->number > last && cycle->number <= INT64_MAX);
		assert_true(cycle->repeats <= cycle->trips && cycle->trips <= INT64_MAX);
		assert_true(cycle->symbols + cycle->length <= reader.symbols.count);
		assert_true(!piece->level == !cycle->length);
		last = cycle->number;
	}
	for (size_t i = 0; i < reader.symbols.count && !err; i++)
		assert_true(reader.symbols.items[i].number && reader.symbols.items[i].trips);
	cyclepack_reader_deinit(&reader);
	return err;
}

static void other_bytes_do_no_harm(void **state)
{
	struct kept kept = {};
	struct rng rng;
	size_t refused = 0;

	cycles_pack(&kept, 3, 600, 200);
	rng_init(&rng, 4);
	for (unsigned i = 0; i < FLIPS; i++) {
		struct cyclepack_piece piece = kept.pieces[i % kept.count];
		uint8_t *bytes = mem_dup(piece.data, piece.size);

		bytes[rng_next(&rng) % piece.size] ^= (uint8_t)(1 + rng_next(&rng) % 255);
		piece.data = bytes;
		refused += piece_try(&piece, CYCLEPACK_ROOM) == -EBADMSG;
		free(bytes);
	}
	assert_true(refused > FLIPS / 10);
	kept_free(&kept);
}

static void what_cannot_be_is_refused(void **state)
{
	struct kept kept = {};
	struct cyclepack_piece piece;

	cycles_pack(&kept, 5, 600, 200);
	for (size_t i = 0; i < kept.count; i++) {
		piece = kept.pieces[i];
		assert_int_equal(piece_try(&piece, CYCLEPACK_ROOM), 0);
		piece.count = 0;
		assert_int_equal(piece_try(&piece, CYCLEPACK_ROOM), -EBADMSG);
		piece.count = CYCLEPACK_CYCLES + 1;
		assert_int_equal(piece_try(&piece, CYCLEPACK_ROOM), -EBADMSG);
		piece = kept.pieces[i];
		piece.first = 0;
		assert_int_equal(piece_try(&piece, CYCLEPACK_ROOM), -EBADMSG);
		piece.first = INT64_MAX - 5;
		assert_int_equal(piece_try(&piece, CYCLEPACK_ROOM), -EBADMSG);
		piece = kept.pieces[i];
		piece.size /= 2;
		assert_int_equal(piece_try(&piece, CYCLEPACK_ROOM), -EBADMSG);
	}
	kept_free(&kept);
}

/* The same again and again takes no bytes, but memory. */
static void a_bomb_is_refused(void **state)
{
	enum { LENGTH = 4000 };
	static struct flow_symbol symbols[LENGTH];
	struct flow_cycle cycle = {
		.level = 1, .trips = 2, .repeats = 2, .length = LENGTH, .symbols = symbols
	};
	struct kept kept = {};
	struct cyclepack pack;

	for (size_t i = 0; i < LENGTH; i++)
		symbols[i] = (struct flow_symbol){ 1, 1 };
	cyclepack_init(&pack, piece_keep, &kept);
	for (cycle.number = 1; cycle.number <= 60; cycle.number++)
		assert_int_equal(cyclepack_add(&pack, &cycle), 0);
	assert_int_equal(cyclepack_flush(&pack), 0);
	assert_int_equal(kept.count, 1);
	assert_true(kept.pieces[0].size < 60 * LENGTH / 64);
	assert_int_equal(piece_try(&kept.pieces[0], CYCLEPACK_ROOM), 0);
	assert_int_equal(piece_try(&kept.pieces[0], 0), -EBADMSG);
	assert_non_null(strstr(err_text(), "more than any program has"));
	cyclepack_deinit(&pack);
	kept_free(&kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_packed_comes_back),
		cmocka_unit_test(pieces_are_bounded),
		cmocka_unit_test(pieces_are_small),
		cmocka_unit_test(a_failure_is_told),
		cmocka_unit_test(other_bytes_do_no_harm),
		cmocka_unit_test(what_cannot_be_is_refused),
		cmocka_unit_test(a_bomb_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
