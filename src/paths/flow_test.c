// SPDX-License-Identifier: BSD-2-Clause
// Serves: W3, W4, W8.
/*
 * Flows: the blocks of what was pushed are rebuilt from the rows, at any size of rows and memory,
 * and paths are those of the blocks, however they are divided into segments; every number leads to
 * the place it stands for; cycles that are handed out add up.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/map.h"
#include "base/rng.h"
#include "paths/cyclepack.h"
#include "paths/flow.h"

enum { STREAM = 100000, THREADS = 3, BLOCKS = 50, ROWS = 512, CHUNK_MAX = 9 };

static uint32_t streams[THREADS][STREAM], weights[BLOCKS]; /* of blocks */
static uint32_t segments[THREADS][STREAM]; /* the same, as segments */
static size_t segment_counts[THREADS];
static struct cycles chunks; /* segment BLOCKS + slot is one of these, those below are one block */

static size_t segment_blocks(void *context, uint32_t segment, const uint32_t **ret)
{
	static uint32_t single;

	if (segment >= BLOCKS) {
		*ret = cycles_symbols(&chunks, segment - BLOCKS);
		return cycles_at(&chunks, segment - BLOCKS)->length;
	}
	single = segment;
	*ret = &single;
	return 1;
}

/*
 * Divides each stream of blocks into segments, in a way that depends on the seed; 0: into blocks.
 */
static void segments_make(uint64_t seed)
{
	struct rng rng;

	rng_init(&rng, seed);
	for (unsigned thread = 0; thread < THREADS; thread++) {
		segment_counts[thread] = 0;
		for (size_t at = 0, length; at < STREAM; at += length) {
			uint32_t *segment = &segments[thread][segment_counts[thread]++];

			length = seed ? 1 + rng_next(&rng) % CHUNK_MAX : 1;
			length = length < STREAM - at ? length : STREAM - at;
			*segment = length == 1
					   ? streams[thread][at]
					   : BLOCKS + cycles_intern(&chunks, streams[thread] + at,
								    length, true);
		}
	}
}

/* Loops within loops: threads 0 and 1 do the same. */
static void streams_make(void)
{
	for (unsigned thread = 0; thread < THREADS; thread++) {
		struct rng rng;
		size_t at = 0;

		rng_init(&rng, thread / 2);
		while (at < STREAM) {
			uint32_t first = (uint32_t)(rng_next(&rng) % 5) * 8;
			uint64_t trips = 1 + rng_next(&rng) % 3 * (rng_next(&rng) % 5);
			uint32_t skip = (uint32_t)(rng_next(&rng) % 3);

			for (; trips && at < STREAM; trips--)
				for (uint32_t i = 0; i < 8 && at < STREAM; i++)
					if (i != skip)
						streams[thread][at++] = first + i;
		}
	}
	for (uint32_t i = 0; i < BLOCKS; i++)
		weights[i] = i % 7;
}

/* Something that a cycle holds. */
struct held {
	unsigned level;
	uint64_t weight; /* of the cycle */
	struct flow_symbol symbol;
	bool last;
};

/* A profile in memory. */
struct profile {
	struct sequence_row rows[THREADS][ROWS];
	size_t row_count[THREADS];
	struct sequence_definitions definitions[ROWS];
	size_t definition_count;
	uint64_t numbers[LAYER_LEVELS_MAX]; /* of cycles, so far */
	struct map kept; /* hash of level and number of a cycle to its weight */
	ARRAY(struct held) held;
	struct cyclepack pack;
	uint64_t pieces; /* hash */
	uint64_t trips[LAYER_LEVELS_MAX];
	uint64_t weight[LAYER_LEVELS_MAX];
	struct flow_rare rare[LAYER_LEVELS_MAX];
	int fail; /* at this many rows; 0: never */
};

static int row_store(void *context, struct flow *flow, const struct sequence_row *row)
{
	struct profile *profile = context;
	size_t thread = (size_t)flow->owner;
	struct sequence_row *kept = &profile->rows[thread][profile->row_count[thread]++];

	assert_true(profile->row_count[thread] < ROWS);
	*kept = *row;
	kept->data = mem_dup(row->data, row->size);
	return profile->fail && --profile->fail == 0 ? -ENOSPC : 0;
}

static int definitions_store(void *context, const struct sequence_definitions *definitions)
{
	struct profile *profile = context;
	struct sequence_definitions *kept = &profile->definitions[profile->definition_count++];

	assert_true(profile->definition_count < ROWS);
	*kept = *definitions;
	kept->data = mem_dup(definitions->data, definitions->size);
	return 0;
}

static int cycle_store(void *context, const struct flow_cycle *cycle)
{
	struct profile *profile = context;

	assert_true(cycle->level ? cycle->number > profile->numbers[cycle->level]
				 : cycle->number == profile->numbers[cycle->level] + 1);
	profile->numbers[cycle->level] = cycle->number;
	profile->trips[cycle->level] += cycle->trips;
	profile->weight[cycle->level] += cycle->trips * cycle->weight;
	assert_true(!cycle->symbols == !cycle->level);
	*map_at(&profile->kept, hash64_pair(cycle->level, cycle->number), NULL) = cycle->weight;
	for (uint32_t i = 0; cycle->symbols && i < cycle->length; i++) {
		assert_true(cycle->symbols[i].number > 0 && cycle->symbols[i].trips > 0);
		*array_push(&profile->held) = (struct held){ cycle->level, cycle->weight,
							     cycle->symbols[i],
							     i + 1 == cycle->length };
	}
	return cyclepack_add(&profile->pack, cycle);
}

static int piece_hash(void *context, const struct cyclepack_piece *piece)
{
	struct profile *profile = context;

	profile->pieces = hash64_pair(profile->pieces, hash_bytes(piece->data, piece->size));
	return 0;
}

/* What a kept cycle holds is kept as well, and makes its weight. */
static void held_check(const struct profile *profile)
{
	uint64_t sum = 0;

	array_each(&profile->held, held) {
		const uint64_t *below =
			map_find(&profile->kept, hash64_pair(held->level - 1, held->symbol.number));

		assert_non_null(below);
		sum += *below * held->symbol.trips;
		if (!held->last)
			continue;
		assert_int_equal(sum, held->weight);
		sum = 0;
	}
}

static void profile_deinit(struct profile *profile)
{
	for (unsigned thread = 0; thread < THREADS; thread++)
		for (size_t i = 0; i < profile->row_count[thread]; i++)
			free((void *)profile->rows[thread][i].data);
	for (size_t i = 0; i < profile->definition_count; i++)
		free((void *)profile->definitions[i].data);
	map_deinit(&profile->kept);
	array_deinit(&profile->held);
	cyclepack_deinit(&profile->pack);
	memset(profile, 0, sizeof(*profile));
}

static int record(struct profile *profile, struct flow_space_options options, uint64_t seed,
		  uint64_t *ret_evicted)
{
	struct flow_space *space;
	struct flow *flows[THREADS];
	size_t at[THREADS] = {};
	struct rng rng;
	int err = 0;

	options.blocks = segment_blocks;
	options.row = row_store;
	options.definitions = definitions_store;
	options.cycle = cycle_store;
	options.context = profile;
	rng_init(&rng, 1);
	streams_make();
	assert_int_equal(cycles_init(&chunks, &(struct cycles_options){}), 0);
	segments_make(seed);
	cyclepack_init(&profile->pack, piece_hash, profile);
	assert_int_equal(flow_space_create(&options, &space), 0);
	flow_weights_set(space, weights, BLOCKS);
	for (size_t i = 0; i < THREADS; i++)
		flows[i] = flow_create(space, (void *)i);
	while (!err && (at[0] < segment_counts[0] || at[1] < segment_counts[1] ||
			at[2] < segment_counts[2])) {
		unsigned i = (unsigned)(rng_next(&rng) % THREADS);
		size_t count = rng_next(&rng) % 3000;

		count = count < segment_counts[i] - at[i] ? count : segment_counts[i] - at[i];
		err = flow_push(flows[i], segments[i] + at[i], count);
		at[i] += count;
	}
	for (unsigned i = 0; i < THREADS; i++) {
		int end = flow_finish(flows[i]);

		assert_true(!err || end == err); /* it may be the last row that fails */
		err = end;
		flow_destroy(flows[i]);
	}
	assert_int_equal(flow_space_finish(space), err);
	assert_int_equal(cyclepack_flush(&profile->pack), 0);
	*ret_evicted = space->paths->levels[0].evicted + space->strata->levels[0].evicted;
	memcpy(profile->rare, space->rare, sizeof(profile->rare));
	flow_space_destroy(space);
	cycles_deinit(&chunks);
	return err;
}

static void paths_load(const struct profile *profile, struct sequence_paths *ret)
{
	sequence_paths_init(ret);
	for (size_t i = 0; i < profile->definition_count; i++)
		assert_int_equal(sequence_paths_add(ret, &profile->definitions[i]), 0);
}

static size_t row_expand(const struct sequence_repeats *repeats, const struct sequence_paths *paths,
			 uint32_t *blocks, size_t at)
{
	array_each(&repeats->items, repeat) {
		const uint32_t *path = NULL;
		size_t length = sequence_path(paths, repeat->path, &path);

		assert_true(length > 0);
		for (uint64_t trip = 0; trip < repeat->trips; trip++, at += length) {
			assert_true(at + length <= STREAM);
			memcpy(blocks + at, path, length * sizeof(*path));
		}
	}
	return at;
}

static void rebuild_check(const struct profile *profile)
{
	static uint32_t rebuilt[STREAM];
	struct sequence_repeats repeats;
	struct sequence_paths paths;

	paths_load(profile, &paths);
	sequence_repeats_init(&repeats);
	for (unsigned thread = 0; thread < THREADS; thread++) {
		uint64_t instructions = 0;
		size_t at = 0, before;

		for (size_t i = 0; i < profile->row_count[thread]; i++) {
			const struct sequence_row *row = &profile->rows[thread][i];

			assert_int_equal(sequence_row_decode(&repeats, row), 0);
			before = at;
			at = row_expand(&repeats, &paths, rebuilt, at);
			for (; before < at; before++)
				instructions += weights[rebuilt[before]];
			assert_int_equal(row->end.units[SEQUENCE_BLOCK], at);
			assert_int_equal(row->end.units[SEQUENCE_INSTRUCTION], instructions);
		}
		assert_int_equal(at, STREAM);
		assert_memory_equal(rebuilt, streams[thread], sizeof(rebuilt));
	}
	sequence_repeats_deinit(&repeats);
	sequence_paths_deinit(&paths);
}

/*
 * The rule, of paths that together are all blocks: a path holds no block twice, and where it ends
 * the next one begins with a block that it holds, or it is as long as can be.
 */
static void path_check(const uint32_t *path, size_t length, const uint32_t *before,
		       size_t before_length, uint32_t max_cycle)
{
	bool held = !before_length || before_length == max_cycle;

	assert_in_range(length, 1, max_cycle);
	for (size_t i = 0; i < length; i++)
		for (size_t j = 0; j < i; j++)
			assert_int_not_equal(path[i], path[j]);
	for (size_t i = 0; i < before_length; i++)
		held |= before[i] == path[0];
	assert_true(held);
}

static void rule_check(const struct profile *profile, uint32_t max_cycle)
{
	struct sequence_repeats repeats;
	struct sequence_paths paths;

	paths_load(profile, &paths);
	sequence_repeats_init(&repeats);
	for (unsigned thread = 0; thread < THREADS; thread++) {
		const uint32_t *before = NULL;
		size_t before_length = 0;
		uint64_t last = 0;

		for (size_t i = 0; i < profile->row_count[thread]; i++) {
			assert_int_equal(sequence_row_decode(&repeats, &profile->rows[thread][i]),
					 0);
			array_each(&repeats.items, repeat) {
				const uint32_t *path = NULL;
				size_t length = sequence_path(&paths, repeat->path, &path);

				assert_int_not_equal(repeat->path, last);
				path_check(path, length, before, before_length, max_cycle);
				if (repeat->trips > 1)
					path_check(path, length, path, length, max_cycle);
				before = path;
				before_length = length;
				last = repeat->path;
			}
		}
	}
	sequence_repeats_deinit(&repeats);
	sequence_paths_deinit(&paths);
}

static void totals_check(const struct profile *profile)
{
	uint64_t sums[SEQUENCE_UNIT_COUNT] = {};

	for (unsigned thread = 0; thread < THREADS; thread++)
		for (unsigned unit = 0; unit < SEQUENCE_UNIT_COUNT; unit++)
			sums[unit] += profile->rows[thread][profile->row_count[thread] - 1]
					      .end.units[unit];
	assert_int_equal(profile->trips[0], sums[SEQUENCE_PATH]);
	assert_int_equal(profile->trips[1] + profile->rare[1].trips, sums[SEQUENCE_STRATUM]);
	for (unsigned level = 0; level < LAYER_LEVELS; level++)
		assert_int_equal(profile->weight[level] + profile->rare[level].weight,
				 sums[SEQUENCE_INSTRUCTION]);
	assert_int_equal(profile->rare[0].cycles, 0);
	held_check(profile);
	assert_true(profile->trips[1] > 0 && profile->rare[1].trips > 0);
}

static void test_rebuild(void **state)
{
	static const uint32_t rows[] = { 1, 100, 1000, 0 };
	static struct profile profile;
	uint64_t evicted;

	for (size_t i = 0; i < 8; i++) {
		struct flow_space_options options = { .row_repeats = rows[i % 4],
						      .threaded = i >= 4 };

		assert_int_equal(record(&profile, options, i, &evicted), 0);
		assert_int_equal(evicted, 0);
		assert_int_equal(profile.row_count[0] == 1, !options.row_repeats);
		rebuild_check(&profile);
		rule_check(&profile, LAYER_MAX_CYCLE);
		totals_check(&profile);
		profile_deinit(&profile);
	}
}

/* Paths are forgotten at many different moments. */
static void test_little_memory(void **state)
{
	enum { SIZES = 60, LEAST = 68 << 10, STEP = 640 };
	static struct profile profile;
	uint64_t evicted;

	for (size_t i = 0; i < SIZES; i++) {
		struct flow_space_options options = { .row_repeats = 1000,
						      .cycles.memory = LEAST + i * STEP,
						      .threaded = i % 2,
						      .max_cycle = i % 3 ? 0 : 12 };

		assert_int_equal(record(&profile, options, i, &evicted), 0);
		assert_true(evicted > 0);
		rebuild_check(&profile);
		totals_check(&profile);
		profile_deinit(&profile);
	}
}

/* Paths, strata and layers do not depend on the division into segments. */
static void test_division(void **state)
{
	static const uint32_t bounds[] = { LAYER_MAX_CYCLE, 12, 3 };
	static struct profile expected, profile;
	uint64_t evicted;

	for (size_t i = 0; i < sizeof(bounds) / sizeof(*bounds); i++) {
		struct flow_space_options options = { .max_cycle = bounds[i] };

		assert_int_equal(record(&expected, options, 0, &evicted), 0);
		rule_check(&expected, bounds[i]);
		for (uint64_t seed = 1; seed < 8; seed++) {
			assert_int_equal(record(&profile, options, seed, &evicted), 0);
			rebuild_check(&profile);
			rule_check(&profile, bounds[i]);
			assert_memory_equal(profile.trips, expected.trips, sizeof(expected.trips));
			assert_memory_equal(profile.rare, expected.rare, sizeof(expected.rare));
			profile_deinit(&profile);
		}
		profile_deinit(&expected);
	}
}

/* Many threads do not collect more than a few do. */
static void test_many_threads(void **state)
{
	enum { MANY = 60 };
	static struct profile profile;
	struct flow_space_options options = { .blocks = segment_blocks,
					      .row = row_store,
					      .definitions = definitions_store,
					      .cycle = cycle_store,
					      .row_repeats = SEQUENCE_ROW_MAX / 2,
					      .context = &profile };
	struct flow *flows[MANY];
	struct flow_space *space;
	size_t most = 0;

	streams_make();
	cyclepack_init(&profile.pack, piece_hash, &profile);
	assert_int_equal(flow_space_create(&options, &space), 0);
	for (size_t i = 0; i < MANY; i++)
		flows[i] = flow_create(space, (void *)(i % THREADS));
	for (unsigned round = 0; round < 40; round++)
		for (size_t i = 0; i < MANY; i++) {
			assert_int_equal(flow_push(flows[i], streams[2], STREAM), 0);
			most = space->room > most ? space->room : most;
		}
	assert_in_range(most, FLOW_ROOM / 4, FLOW_ROOM + SEQUENCE_ROW_MAX);
	assert_true(profile.row_count[0] >= MANY / THREADS);
	for (size_t i = 0; i < MANY; i++) {
		assert_int_equal(flow_finish(flows[i]), 0);
		flow_destroy(flows[i]);
	}
	assert_int_equal(space->room, 0);
	flow_space_destroy(space);
	profile_deinit(&profile);
}

/* The row that holds the n-th, found in the index as a reader would. */
static const struct sequence_row *row_find(const struct profile *profile, unsigned thread,
					   enum sequence_unit unit, uint64_t n,
					   struct sequence_position *ret_begin)
{
	size_t i = 0;

	while (profile->rows[thread][i].end.units[unit] <= n)
		assert_true(++i < profile->row_count[thread]);
	*ret_begin = i ? profile->rows[thread][i - 1].end : (struct sequence_position){};
	return &profile->rows[thread][i];
}

static void place_check(const struct profile *profile, const struct sequence_paths *paths,
			struct sequence_repeats *repeats, enum sequence_unit unit, uint64_t n)
{
	struct sequence_position begin;
	const struct sequence_row *row = row_find(profile, 2, unit, n, &begin);
	const uint32_t *path = NULL;
	struct sequence_place place;
	uint64_t instructions = 0, at;

	assert_int_equal(sequence_row_decode(repeats, row), 0);
	assert_int_equal(sequence_locate(repeats, paths, weights, BLOCKS, &begin, unit, n, &place),
			 0);
	at = place.before.units[SEQUENCE_BLOCK];
	assert_true(sequence_path(paths, repeats->items.items[place.repeat].path, &path) >
		    place.block);
	assert_int_equal(path[place.block], streams[2][at + place.block]);
	for (uint64_t i = 0; i < at + place.block; i++)
		instructions += weights[streams[2][i]];
	if (unit == SEQUENCE_BLOCK)
		assert_int_equal(at + place.block, n);
	else if (unit == SEQUENCE_INSTRUCTION)
		assert_int_equal(instructions + place.instruction, n);
	else
		assert_int_equal(place.before.units[unit], n);
	assert_true(unit != SEQUENCE_INSTRUCTION || place.instruction < weights[path[place.block]]);
}

static void test_locate(void **state)
{
	static struct profile profile;
	struct sequence_repeats repeats;
	struct sequence_paths paths;
	struct sequence_place place;
	struct rng rng;
	uint64_t evicted;

	assert_int_equal(record(&profile, (struct flow_space_options){ .row_repeats = 700 }, 3,
				&evicted),
			 0);
	paths_load(&profile, &paths);
	sequence_repeats_init(&repeats);
	rng_init(&rng, 4);
	for (unsigned i = 0; i < 400; i++) {
		enum sequence_unit unit = i % SEQUENCE_STRATUM;
		const struct sequence_row *last = &profile.rows[2][profile.row_count[2] - 1];

		place_check(&profile, &paths, &repeats, unit,
			    i < 4 ? 0 : rng_next(&rng) % last->end.units[unit]);
	}
	assert_int_equal(sequence_locate(&repeats, &paths, weights, BLOCKS,
					 &(struct sequence_position){}, SEQUENCE_BLOCK, STREAM,
					 &place),
			 -ENOENT);
	sequence_repeats_deinit(&repeats);
	sequence_paths_deinit(&paths);
	profile_deinit(&profile);
}

struct strata {
	uint64_t ended;
	size_t last; /* where the last one ended */
};

static void stratum_count(void *context, size_t first, size_t count)
{
	struct strata *strata = context;

	assert_int_equal(first, strata->last);
	strata->ended++;
	strata->last = first + count;
}

/* From the stratum that was open at a row's beginning on, the same strata are found again. */
static void test_strata(void **state)
{
	static struct profile profile;
	ARRAY(struct sequence_repeat) all = {};
	struct sequence_repeats repeats;
	uint64_t evicted;

	assert_int_equal(record(&profile,
				(struct flow_space_options){ .row_repeats = 512, .max_cycle = 9 },
				3, &evicted),
			 0);
	sequence_repeats_init(&repeats);
	for (size_t i = 0; i + 1 < profile.row_count[2]; i++) {
		const struct sequence_row *row = &profile.rows[2][i];
		uint64_t start = i ? row[-1].stratum_start : 0;
		struct strata strata = {};
		size_t open;

		assert_int_equal(sequence_row_decode(&repeats, row), 0);
		array_each(&repeats.items, repeat)
			*array_push(&all) = *repeat;
		assert_int_equal(all.count, row->end.units[SEQUENCE_REPEAT]);
		open = sequence_strata(all.items + start, all.count - start, 9, stratum_count,
				       &strata);
		assert_int_equal(start + open, row->stratum_start);
		assert_int_equal(strata.ended,
				 row->end.units[SEQUENCE_STRATUM] -
					 (i ? row[-1].end.units[SEQUENCE_STRATUM] : 0));
	}
	assert_true(profile.row_count[2] > 3);
	array_deinit(&all);
	sequence_repeats_deinit(&repeats);
	profile_deinit(&profile);
}

/* An error of the store stops everything and is what everybody hears. */
static void test_error(void **state)
{
	static struct profile profile = { .fail = 3 };
	uint64_t evicted;

	assert_int_equal(record(&profile, (struct flow_space_options){ .row_repeats = 100 }, 3,
				&evicted),
			 -ENOSPC);
	assert_int_equal(profile.row_count[0] + profile.row_count[1] + profile.row_count[2], 3);
	assert_int_equal(profile.numbers[0], 0);
	profile_deinit(&profile);
}

/* Damaged rows give errors or other sequences, nothing worse. */
static void test_damage(void **state)
{
	static struct profile profile;
	struct sequence_repeats repeats;
	struct sequence_row row;
	struct rng rng;
	uint64_t evicted;
	unsigned refused = 0;

	assert_int_equal(record(&profile, (struct flow_space_options){}, 3, &evicted), 0);
	row = profile.rows[0][0];
	sequence_repeats_init(&repeats);
	rng_init(&rng, 8);
	for (unsigned i = 0; i < 300; i++) {
		uint8_t *copy = mem_dup(row.data, row.size);
		struct sequence_row damaged = row;

		copy[rng_next(&rng) % (row.size < 64 ? row.size : 64)] ^=
			(uint8_t)(1 + rng_next(&rng) % 255);
		damaged.data = copy;
		damaged.size -= i % 2 ? row.size / 2 : 0;
		refused += sequence_row_decode(&repeats, &damaged) == -EBADMSG;
		free(copy);
	}
	assert_true(refused > 50);
	sequence_repeats_deinit(&repeats);
	profile_deinit(&profile);
}

/* Few bytes for many paths: what comes as expected costs next to nothing. */
static void definitions_make(struct coder *coder, unsigned paths, struct sequence_definitions *ret)
{
	coder_init(coder, 1 << 20);
	coder_write(coder);
	for (unsigned i = 0; i < paths; i++) {
		coder_put(coder, 2);
		coder_put(coder, 0);
	}
	coder_end(coder);
	*ret = (struct sequence_definitions){
		.first = 1, .count = paths, .data = coder->out.items, .size = coder->out.count
	};
}

static void test_paths_are_bounded(void **state)
{
	struct sequence_definitions definitions;
	struct sequence_paths paths;
	struct coder coder;
	uint64_t words = 2 + 3 * 100000; /* a block and an end of two words each */

	definitions_make(&coder, 100000, &definitions);
	assert_true(definitions.size * SEQUENCE_PATHS_EXPANSION < words / 2);
	sequence_paths_init(&paths);
	paths.room = words;
	assert_int_equal(sequence_paths_add(&paths, &definitions), 0);
	sequence_paths_deinit(&paths);
	sequence_paths_init(&paths);
	paths.room = words / 2;
	assert_int_equal(sequence_paths_add(&paths, &definitions), -EBADMSG);
	assert_non_null(strstr(err_text(), "fill memory"));
	assert_in_range(paths.blocks.count + 2 * paths.ends.count, words / 2 - 2, words / 2 + 2);
	sequence_paths_deinit(&paths);
	coder_deinit(&coder);
}

static void test_refused(void **state)
{
	struct flow_space *space = NULL;
	enum sequence_unit unit;

	assert_int_equal(flow_space_create(&(struct flow_space_options){ .levels = 1 }, &space),
			 -EINVAL);
	assert_int_equal(sequence_unit_parse("path", &unit), 0);
	assert_int_equal(unit, SEQUENCE_PATH);
	assert_int_equal(sequence_unit_parse("mile", &unit), -EINVAL);
}

/* Which paths one row defines is left to the writer, so here it is one row of all. */
static uint64_t definitions_hash(void)
{
	struct sequence_encoder encoder;
	struct cycles cycles;
	const uint8_t *data;
	uint64_t hash;
	size_t size;

	assert_int_equal(cycles_init(&cycles, &(struct cycles_options){}), 0);
	for (size_t i = 0; i < BLOCKS; i++)
		cycles_intern(&cycles, streams[0] + i, 1 + i % 5, true);
	sequence_encoder_init(&encoder);
	sequence_definitions_encode(&encoder, &cycles, 1, cycles_last(&cycles), &data, &size);
	hash = hash_bytes(data, size);
	sequence_encoder_deinit(&encoder);
	cycles_deinit(&cycles);
	return hash;
}

/* Readers go by the number: if the same blocks become other bytes, it is another format. */
static void test_format_is_numbered(void **state)
{
	static const uint64_t expected[] = { 0xb823de79c680cf4, 0x9f3fc92144b07dad,
					     0xa76e7f753bbf5b08 };
	static struct profile profile;
	uint64_t found[3] = {}, evicted;

	assert_int_equal(record(&profile, (struct flow_space_options){ .row_repeats = 700 }, 3,
				&evicted),
			 0);
	for (size_t i = 0; i < profile.row_count[2]; i++)
		found[0] = hash64_pair(found[0], hash_bytes(profile.rows[2][i].data,
							    profile.rows[2][i].size));
	found[1] = definitions_hash();
	found[2] = profile.pieces;
	profile_deinit(&profile);
	if (FLOW_FORMAT != 6 || memcmp(found, expected, sizeof(found)) != 0)
		fail_msg("bytes changed (%#lx, %#lx, %#lx): raise FLOW_FORMAT, and put it "
			 "and these here",
			 found[0], found[1], found[2]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rebuild),
		cmocka_unit_test(test_little_memory),
		cmocka_unit_test(test_division),
		cmocka_unit_test(test_many_threads),
		cmocka_unit_test(test_locate),
		cmocka_unit_test(test_strata),
		cmocka_unit_test(test_format_is_numbered),
		cmocka_unit_test(test_error),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_paths_are_bounded),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
