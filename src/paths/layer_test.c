// SPDX-License-Identifier: BSD-2-Clause
// Serves: W3.
/*
 * Layers: the worked examples of paths and strata, and what the comparison with
 * tests/layers_reference.py does not cover: threads that take turns, weights, and tables that are
 * too small.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "paths/layer.h"

/* What a layer handed on, as text: "ABCx2 Bx1". Symbols are letters. */
struct heard {
	struct layer *layer;
	char text[4096];
	size_t length;
};

static void hear(void *context, const uint32_t *symbols, size_t count)
{
	struct heard *heard = context;
	const struct repeat *items = heard->layer->level->repeats.items.items;

	for (size_t i = 0; i < count; i++) {
		const struct cycles *cycles = &heard->layer->level->cycles;
		const struct cycle *cycle = cycles_at(cycles, items[symbols[i]].slot);

		assert_true(heard->length + cycle->length + 30 < sizeof(heard->text));
		if (heard->length)
			heard->text[heard->length++] = ' ';
		for (uint32_t j = 0; j < cycle->length; j++)
			heard->text[heard->length++] =
				(char)cycles_symbols(cycles, items[symbols[i]].slot)[j];
		heard->length += (size_t)snprintf(heard->text + heard->length, 30, "x%lu",
						  items[symbols[i]].trips);
	}
}

static void letters_push(struct layer *layer, const char *letters)
{
	for (; *letters; letters++)
		layer_push(layer, &(uint32_t){ (uint32_t)*letters }, 1);
}

static void paths_expect(uint32_t max_cycle, const char *letters, const char *expected)
{
	struct layer_space_options options = { .levels = 1, .max_cycle = max_cycle };
	struct layer_space *space;
	struct heard heard = {};

	assert_int_equal(layer_space_create(&options, &space), 0);
	heard.layer = layer_create(space);
	heard.layer->sink = hear;
	heard.layer->sink_context = &heard;
	letters_push(heard.layer, letters);
	layer_finish(heard.layer);
	assert_string_equal(heard.text, expected);
	layer_destroy(heard.layer);
	layer_space_destroy(space);
}

static void test_paths(void **state)
{
	paths_expect(0, "ABCDB", "ABCDx1 Bx1");
	paths_expect(0, "ABCBB", "ABCx1 Bx2");
	paths_expect(0, "ABCABCB", "ABCx2 Bx1");
	paths_expect(0, "ABCABDA", "ABCx1 ABDx1 Ax1");
	paths_expect(0, "", "");
	paths_expect(0, "AAAA", "Ax4");
}

static void test_paths_cut(void **state)
{
	paths_expect(4, "ABCDEFGHAB", "ABCDx1 EFGHx1 ABx1");
	paths_expect(4, "ABCDABCDA", "ABCDx2 Ax1");
	paths_expect(1, "AAB", "Ax2 Bx1");
}

/*
 * Before and after: what is pending is the last path with its trips, as in the description of the
 * method.
 */
static void test_path_pending(void **state)
{
	struct layer_space *space;
	struct layer *layer;

	assert_int_equal(layer_space_create(&(struct layer_space_options){ .levels = 1 }, &space),
			 0);
	layer = layer_create(space);
	letters_push(layer, "ABCABC");
	layer_settle(layer);
	assert_int_equal(layer->trips, 1);
	assert_int_equal(layer->open.count, 3);
	letters_push(layer, "B");
	layer_settle(layer);
	assert_int_equal(layer->trips, 2);
	assert_int_equal(layer->open.count, 1);
	assert_int_equal(layer->open.items[0], 'B');
	layer_destroy(layer);
	layer_space_destroy(space);
}

/*
 * Numbers of trips that are the same but for what does not fit into a word, in the block in which
 * another path follows.
 */
static void test_trips_many(void **state)
{
	static const uint64_t trips[] = { 3,	       7, 0x100000003, 0x100000007, UINT32_MAX,
					  0x100000000, 7, 3,	       UINT32_MAX };
	struct heard heard = {};
	struct layer_space *space;
	char expected[1024] = "";

	assert_int_equal(layer_space_create(&(struct layer_space_options){ .levels = 1 }, &space),
			 0);
	heard.layer = layer_create(space);
	heard.layer->sink = hear;
	heard.layer->sink_context = &heard;
	for (size_t i = 0; i < sizeof(trips) / sizeof(*trips); i++) {
		letters_push(heard.layer, "ABABA");
		layer_settle(heard.layer);
		assert_int_equal(heard.layer->trips, 2);
		heard.layer->trips = trips[i] - 1;
		letters_push(heard.layer, "BACACA");
		layer_finish(heard.layer);
		snprintf(expected + strlen(expected), sizeof(expected) - strlen(expected),
			 "%sABx%lu ACx2 Ax1", i ? " " : "", trips[i]);
	}
	assert_string_equal(heard.text, expected);
	layer_destroy(heard.layer);
	layer_space_destroy(space);
}

/*
 * Paths here are single blocks that are run some times in a row: AAB is the repeated paths A twice,
 * B once. The strata come out as the letters of their repeated paths, each with its trips.
 */
static void strata_expect(const char *letters, const char *expected)
{
	struct layer_space_options options = { .levels = 2, .max_cycle = 1 };
	struct layer_space *space;
	struct layer *layer;
	char text[256] = "";

	assert_int_equal(layer_space_create(&options, &space), 0);
	space->levels[1].max_cycle = 100;
	layer = layer_create(space);
	letters_push(layer, letters);
	layer_finish(layer);
	for (uint32_t slot = 1; slot <= cycles_last(&space->levels[1].cycles); slot++) {
		const struct cycle *cycle = cycles_at(&space->levels[1].cycles, slot);
		size_t length = strlen(text);

		for (uint32_t i = 0; i < cycle->length; i++) {
			uint32_t symbol = cycles_symbols(&space->levels[1].cycles, slot)[i];
			const struct repeat *repeat = layer_symbol(space, 1, symbol);
			char letter = (char)*cycles_symbols(&space->levels[0].cycles, repeat->slot);

			length += (size_t)snprintf(text + length, sizeof(text) - length, "%c%lu",
						   letter, repeat->trips);
		}
		snprintf(text + length, sizeof(text) - length, "x%lu ", cycle->trips);
	}
	assert_string_equal(text, expected);
	layer_destroy(layer);
	layer_space_destroy(space);
}

static void test_strata(void **state)
{
	/* P1 P2 P3 P2: a stratum of three, and one of what ended it. */
	strata_expect("ABCB", "A1B1C1x1 B1x1 ");
	/* P1 P2 P3 P1 P2 P3 P1 and P1 P2 P3 P1 P2 P4 P1. */
	strata_expect("ABCABCA", "A1B1C1x2 A1x1 ");
	strata_expect("ABCABDA", "A1B1C1x1 A1B1D1x1 A1x1 ");
	/* The same path another number of times is another repeated path: no cycle ends at it. */
	strata_expect("AABAB", "A2B1A1x1 B1x1 ");
	strata_expect("AABAAB", "A2B1x2 ");
}

static void test_weights(void **state)
{
	static const uint32_t weights[] = { 5, 7, 11 };
	struct layer_space *space;
	struct layer *layer;

	assert_int_equal(layer_space_create(&(struct layer_space_options){ .levels = 3 }, &space),
			 0);
	layer_weights_set(space, weights, 3);
	layer = layer_create(space);
	layer_push(layer, (uint32_t[]){ 0, 1, 0, 1, 2, 2, 0, 1, 0, 1, 2, 2, 9 }, 13);
	layer_finish(layer);
	assert_int_equal(layer->counts.weight, 2 * (2 * (5 + 7) + 2 * 11));
	assert_int_equal(cycles_at(&space->levels[0].cycles, 1)->weight, 5 + 7);
	layer_destroy(layer);
	layer_space_destroy(space);
}

enum { STREAM = 60000 };

/* Loops within loops, with new ways now and then. */
static void stream_make(uint64_t seed, uint32_t *ret)
{
	struct rng rng;
	size_t at = 0;

	rng_init(&rng, seed);
	while (at < STREAM) {
		uint32_t first = (uint32_t)(rng_next(&rng) % 5) * 8;
		uint64_t trips = 1 + rng_next(&rng) % 3 * (rng_next(&rng) % 5);
		uint32_t skip = (uint32_t)(rng_next(&rng) % 3);

		for (; trips && at < STREAM; trips--)
			for (uint32_t i = 0; i < 8 && at < STREAM; i++)
				if (i != skip)
					ret[at++] = first + i;
	}
}

/* Symbols rebuilt from what was handed on; and how often something was cleared before that. */
struct rebuilt {
	struct layer *layer;
	uint32_t symbols[STREAM + 16];
	size_t count;
};

static void rebuild(void *context, const uint32_t *symbols, size_t count)
{
	struct rebuilt *rebuilt = context;
	const struct repeat *items = rebuilt->layer->level->repeats.items.items;
	const struct cycles *cycles = &rebuilt->layer->level->cycles;

	for (size_t i = 0; i < count; i++)
		for (uint64_t trip = 0; trip < items[symbols[i]].trips; trip++) {
			const struct cycle *cycle = cycles_at(cycles, items[symbols[i]].slot);

			assert_true(rebuilt->count + cycle->length <= STREAM);
			memcpy(rebuilt->symbols + rebuilt->count,
			       cycles_symbols(cycles, items[symbols[i]].slot), cycle->length * 4);
			rebuilt->count += cycle->length;
		}
}

struct retired {
	uint64_t numbers[LAYER_LEVELS_MAX], trips[LAYER_LEVELS_MAX];
};

static void retire(void *context, unsigned level, uint64_t number, const struct cycle *cycle)
{
	struct retired *retired = context;

	assert_int_equal(number, retired->numbers[level] + 1);
	retired->numbers[level] = number;
	retired->trips[level] += cycle->trips;
}

/* Three threads in turn, in uneven batches, in a space of that memory. */
static void threads_segment(size_t memory, struct layer_space **ret_space,
			    struct layer **ret_layers, struct retired *retired)
{
	static uint32_t streams[3][STREAM];
	static struct rebuilt rebuilt[3];
	struct layer_space_options options = { .cycles.memory = memory,
					       .retired = retire,
					       .context = retired };
	size_t at[3] = {};
	struct rng rng;

	rng_init(&rng, 9);
	assert_int_equal(layer_space_create(&options, ret_space), 0);
	for (unsigned i = 0; i < 3; i++) {
		stream_make(i / 2, streams[i]);
		ret_layers[i] = layer_create(*ret_space);
		rebuilt[i] = (struct rebuilt){ .layer = ret_layers[i] };
		ret_layers[i]->sink = rebuild;
		ret_layers[i]->sink_context = &rebuilt[i];
	}
	while (at[0] < STREAM || at[1] < STREAM || at[2] < STREAM) {
		unsigned i = (unsigned)(rng_next(&rng) % 3);
		size_t count = rng_next(&rng) % 300;

		count = count < STREAM - at[i] ? count : STREAM - at[i];
		layer_push(ret_layers[i], streams[i] + at[i], count);
		at[i] += count;
	}
	for (unsigned i = 0; i < 3; i++) {
		layer_finish(ret_layers[i]);
		assert_int_equal(rebuilt[i].count, STREAM);
		assert_memory_equal(rebuilt[i].symbols, streams[i], sizeof(streams[i]));
	}
}

static void threads_end(struct layer_space *space, struct layer **layers)
{
	for (unsigned i = 0; i < 3; i++)
		layer_destroy(layers[i]);
	layer_space_destroy(space);
}

/* Threads 0 and 1 do the same and do not disturb each other. */
static void test_threads(void **state)
{
	struct layer_space *space;
	struct layer *layers[3];
	struct retired retired = {};

	threads_segment(0, &space, layers, &retired);
	for (unsigned level = 0; level < LAYER_LEVELS; level++) {
		struct layer *a = layers[0], *b = layers[1];

		for (unsigned i = 0; i < level; i++) {
			a = a->next;
			b = b->next;
		}
		assert_true(a->counts.cycles > (level < 2 ? 100 : 0));
		assert_int_equal(a->counts.symbols, b->counts.symbols);
		assert_int_equal(a->counts.cycles, b->counts.cycles);
		assert_int_equal(a->counts.repeats, b->counts.repeats);
		assert_int_equal(space->levels[level].evicted, 0);
	}
	layer_space_retire(space);
	assert_int_equal(retired.trips[0], layers[0]->counts.cycles * 2 + layers[2]->counts.cycles);
	threads_end(space, layers);
}

static bool word_before(const uint32_t *words, size_t count, uint32_t word)
{
	while (count--)
		if (words[count] == word)
			return true;
	return false;
}

/* The definition, for the lowest level: equal cycles in a row are one. */
static uint64_t repeats_plain(const uint32_t *symbols, size_t count)
{
	size_t at = 0, before = 0, before_length = 0;
	uint64_t repeats = 0;

	while (at < count) {
		size_t length = 1;

		while (at + length < count &&
		       !word_before(symbols + at, length, symbols[at + length]))
			length++;
		repeats += length != before_length ||
			   memcmp(symbols + at, symbols + before, length * sizeof(*symbols)) != 0;
		before = at;
		before_length = length;
		at += length;
	}
	return repeats;
}

/* Short loops in no order. */
static void test_irregular(void **state)
{
	enum { COUNT = 100000 };
	uint32_t *symbols = malloc(COUNT * sizeof(*symbols));
	struct layer_space *space;
	struct layer *layer;

	srandom(5);
	for (size_t at = 0; at < COUNT;) {
		size_t length = 1 + (size_t)random() % 7, trips = 1 + (size_t)random() % 3;
		uint32_t body = (uint32_t)random() % 4;

		for (size_t i = 0; i < length * trips && at < COUNT; i++)
			symbols[at++] = body + (uint32_t)(i % length) * 3;
	}
	assert_int_equal(layer_space_create(&(struct layer_space_options){}, &space), 0);
	layer = layer_create(space);
	for (size_t at = 0; at < COUNT; at += 5000)
		layer_push(layer, symbols + at, 5000);
	layer_finish(layer);
	assert_int_equal(layer->counts.length, COUNT);
	assert_int_equal(layer->counts.repeats, repeats_plain(symbols, COUNT));
	layer_destroy(layer);
	layer_space_destroy(space);
	free(symbols);
}

/*
 * The sequence can be rebuilt, each number was given once, no trip is missing, and it stays small.
 */
static void test_memory(void **state)
{
	enum { MEMORY = 64 << 10 };
	struct layer_space *space;
	struct layer *layers[3], *above;
	struct retired retired = {};
	uint64_t cycles = 0, above_cycles = 0, broken = 0;

	threads_segment(MEMORY, &space, layers, &retired);
	layer_space_retire(space);
	for (unsigned i = 0; i < 3; i++) {
		above = layers[i]->next;
		cycles += layers[i]->counts.cycles;
		above_cycles += above->counts.cycles;
		broken += above->counts.broken;
		assert_int_equal(above->counts.symbols, layers[i]->counts.repeats);
	}
	assert_true(space->levels[0].evicted > 0 && space->levels[1].evicted > 0 && broken > 0);
	assert_int_equal(retired.trips[0], cycles);
	assert_int_equal(retired.trips[1], above_cycles);
	assert_true(layer_space_memory(space) < 8 * MEMORY + (1 << 20));
	threads_end(space, layers);
}

static void test_refused(void **state)
{
	struct layer_space *space = NULL;

	assert_int_equal(layer_space_create(&(struct layer_space_options){ .levels = 99 }, &space),
			 -EINVAL);
	assert_int_equal(layer_space_create(&(struct layer_space_options){ .cycles.buckets = 3 },
					    &space),
			 -EINVAL);
	assert_int_equal(layer_space_create(
				 &(struct layer_space_options){ .max_cycle = UINT32_MAX }, &space),
			 -EINVAL);
	assert_null(space);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paths),	     cmocka_unit_test(test_paths_cut),
		cmocka_unit_test(test_path_pending), cmocka_unit_test(test_strata),
		cmocka_unit_test(test_weights),	     cmocka_unit_test(test_threads),
		cmocka_unit_test(test_irregular),    cmocka_unit_test(test_memory),
		cmocka_unit_test(test_refused),	     cmocka_unit_test(test_trips_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
