// SPDX-License-Identifier: BSD-2-Clause
// Serves: W3, W4, W6, W7.
/*
 * The order of execution of a small program that is written down here: recorded by paths/flow.h,
 * read back and shown.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "support/profile_fixture_trace.h"
#include "analyse/course.h"
#include "analyse/order_cycles.h"
#include "analyse/views.h"
#include "base/err.h"
#include "paths/flow.h"

static struct profile_symbol symbols[] = {
	{ .name = "", .linkage = "" },
	{ .module = 1, .name = "main", .linkage = "main", .address = 0x100, .size = 64 },
	{ .module = 2, .name = "help", .linkage = "help", .address = 0x200, .size = 64 },
};
static struct profile_file files[] = { { 0, "" }, { 1, "src/a.c" } };
static struct profile_frame frames[] = {
	{}, { 1, 0, 1, 1, 5 }, { 2, 0, 1, 1, 9 }, { 3, 0, 2, 0, 0 }
};
static struct profile_location locations[] = {
	{}, { 1, 1, 0x100, 1, 1 }, { 2, 1, 0x120, 2, 1 }, { 3, 2, 0x200, 3, 1 }
};
/* Two of main, with 3 and 4 instructions, and one of help with 10. */
static struct profile_block blocks[] = {
	{}, { 1, 1, 8, 3, 0, 1 }, { 2, 2, 8, 4, 1, 1 }, { 3, 3, 30, 10, 2, 1 }
};
static struct profile_block_part parts[] = { { 1, 0, 1, 3 }, { 2, 0, 2, 4 }, { 3, 0, 3, 10 } };
#define FORMAT_TEXT "6" /* FLOW_FORMAT */
static struct profile_fact facts[] = { { 1, "order_format", FORMAT_TEXT }, { 1, "tool", "paths" } };
static struct fixture_trace trace = { .facts = facts, .fact_count = FIXTURE_COUNT(facts) };

/* Segments are a block each; blocks 1 and 2 are of main, block 3 is help. */
enum { BLOCKS = 3, STEPS = 3000, AGAIN = 500 };
static const uint32_t weights[] = { 0, 3, 4, 10 };
/*
 * Paths: (1) nine times, (1 2 3), (2 3) three times, (2 3 1); and of the other thread (2 3) twice.
 */
static const uint32_t first_blocks[] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2,
					 3, 2, 3, 2, 3, 2, 3, 2, 3, 1 };
static const uint32_t second_blocks[] = { 2, 3, 2, 3 };

/* What a profile would have. */
struct recording {
	ARRAY(struct profile_flow) flows;
	ARRAY(struct profile_path_table) path_tables;
	ARRAY(struct profile_cycle_table) cycle_tables;
	struct cyclepack pack;
	ARRAY(struct flow_cycle) cycles; /* without their symbols */
	ARRAY(void *) owned;
	struct profile profile;
};

static const uint8_t *bytes_keep(struct recording *recording, const void *bytes, size_t size)
{
	return *array_push(&recording->owned) = mem_dup(bytes, size);
}

static int row_take(void *context, struct flow *flow, const struct sequence_row *row)
{
	struct recording *recording = context;
	const uint64_t *end = row->end.units;
	uint32_t thread = *(uint32_t *)flow->owner;
	size_t had = recording->flows.count;
	bool first = !had || recording->flows.items[had - 1].thread != thread;

	*array_push(&recording->flows) =
		(struct profile_flow){ .thread = thread,
				       .row = first ? 0 : recording->flows.items[had - 1].row + 1,
				       .instructions = end[SEQUENCE_INSTRUCTION],
				       .blocks = end[SEQUENCE_BLOCK],
				       .paths = end[SEQUENCE_PATH],
				       .repeats = end[SEQUENCE_REPEAT],
				       .strata = end[SEQUENCE_STRATUM],
				       .stratum_start = row->stratum_start,
				       .base = row->base,
				       .data = bytes_keep(recording, row->data, row->size),
				       .size = row->size };
	return 0;
}

static int definitions_take(void *context, const struct sequence_definitions *row)
{
	struct recording *recording = context;

	*array_push(&recording->path_tables) =
		(struct profile_path_table){ .process = 1,
					     .first = row->first,
					     .count = row->count,
					     .data = bytes_keep(recording, row->data, row->size),
					     .size = row->size };
	return 0;
}

static int piece_take(void *context, const struct cyclepack_piece *piece)
{
	struct recording *recording = context;

	*array_push(&recording->cycle_tables) = (struct profile_cycle_table){
		.process = 1,
		.level = piece->level,
		.first = piece->first,
		.count = piece->count,
		.data = bytes_keep(recording, piece->data, piece->size),
		.size = piece->size,
	};
	return 0;
}

static int cycle_take(void *context, const struct flow_cycle *cycle)
{
	struct recording *recording = context;

	*array_push(&recording->cycles) = *cycle;
	return cyclepack_add(&recording->pack, cycle);
}

static int table_order(const void *left, const void *right)
{
	const struct profile_cycle_table *a = left, *b = right;

	return (a->level > b->level) - (a->level < b->level);
}

/* As a profile has them. */
static void cycles_end(struct recording *recording)
{
	assert_int_equal(cyclepack_flush(&recording->pack), 0);
	qsort(recording->cycle_tables.items, recording->cycle_tables.count,
	      sizeof(*recording->cycle_tables.items), table_order);
}

static size_t segment_blocks(void *context, uint32_t segment, const uint32_t **ret)
{
	static uint32_t block;

	block = segment;
	*ret = &block;
	return 1;
}

static void thread_record(struct flow_space *space, uint32_t thread, const uint32_t *order,
			  size_t count)
{
	struct flow *flow = flow_create(space, &thread);

	assert_int_equal(flow_push(flow, order, count), 0);
	assert_int_equal(flow_finish(flow), 0);
	flow_destroy(flow);
}

static struct flow_space *space_make(struct recording *recording)
{
	const struct flow_space_options options = { .blocks = segment_blocks,
						    .row = row_take,
						    .definitions = definitions_take,
						    .cycle = cycle_take,
						    .row_repeats = 512,
						    .context = recording };
	struct flow_space *space = NULL;

	*recording = (struct recording){};
	cyclepack_init(&recording->pack, piece_take, recording);
	assert_int_equal(flow_space_create(&options, &space), 0);
	flow_weights_set(space, weights, FIXTURE_COUNT(weights));
	return space;
}

static void recording_make(struct recording *recording)
{
	struct flow_space *space = space_make(recording);

	thread_record(space, 1, first_blocks, FIXTURE_COUNT(first_blocks));
	thread_record(space, 2, second_blocks, FIXTURE_COUNT(second_blocks));
	assert_int_equal(flow_space_finish(space), 0);
	cycles_end(recording);
	flow_space_destroy(space);
}

static const struct profile *recording_profile(struct recording *recording)
{
	struct profile *profile = &recording->profile;

	*profile = fixture_trace(&(struct fixture_code){ FIXTURE_CODE }, &trace);
	profile->path_tables = recording->path_tables.items;
	profile->path_table_count = recording->path_tables.count;
	profile->flows = recording->flows.items;
	profile->flow_count = recording->flows.count;
	profile->cycle_tables = recording->cycle_tables.items;
	profile->cycle_table_count = recording->cycle_tables.count;
	return profile;
}

static void recording_free(struct recording *recording)
{
	array_each(&recording->owned, bytes)
		free(*bytes);
	array_deinit(&recording->owned);
	array_deinit(&recording->flows);
	array_deinit(&recording->path_tables);
	array_deinit(&recording->cycle_tables);
	array_deinit(&recording->cycles);
	cyclepack_deinit(&recording->pack);
}

static struct table *view(const struct profile *profile, const char *name,
			  const struct view_request *request)
{
	struct table *table = NULL;

	assert_int_equal(view_run(view_find(name), profile, request, &table), 0);
	return table;
}

static uint64_t number(const struct table *table, size_t row, const char *column)
{
	int index = table_column(table, column);

	assert_true(index >= 0 && row < table->row_count);
	assert_true(table_row(table, row)[index].set);
	return table_row(table, row)[index].number;
}

static const char *text(const struct table *table, size_t row, const char *column)
{
	int index = table_column(table, column);

	assert_true(index >= 0 && row < table->row_count);
	return table_row(table, row)[index].text;
}

struct rebuilt {
	struct order_code code;
	struct order_blocks blocks;
};

static int blocks_take(void *context, const struct profile_flow *row,
		       const struct sequence_position *begin,
		       const struct sequence_repeats *repeats)
{
	struct rebuilt *rebuilt = context;

	array_each(&repeats->items, item)
		for (uint64_t i = 0; i < item->trips; i++)
			assert_int_equal(
				order_path_blocks(&rebuilt->code, item->path, &rebuilt->blocks), 0);
	return 0;
}

/* Long enough for several rows. */
enum { MANY = 20000, SEED = 12345 };

static void the_sequence_comes_back(void **state)
{
	struct recording recording;
	struct flow_space *space = space_make(&recording);
	struct rebuilt rebuilt = {};
	uint32_t *order = mem_alloc(MANY * sizeof(*order));
	uint32_t seed = SEED;

	for (size_t i = 0; i < MANY; i++) {
		seed = i % AGAIN ? seed * 1664525 + 1013904223 : 5;
		order[i] = 1 + (seed >> 16) % BLOCKS;
	}
	thread_record(space, 1, order, MANY);
	assert_int_equal(flow_space_finish(space), 0);
	flow_space_destroy(space);
	assert_true(recording.flows.count > 4);
	assert_int_equal(order_code_init(&rebuilt.code, recording_profile(&recording), 1), 0);
	assert_int_equal(order_walk(&rebuilt.code, 1, blocks_take, &rebuilt), 0);
	assert_int_equal(rebuilt.blocks.items.count, MANY);
	assert_memory_equal(rebuilt.blocks.items.items, order, MANY * sizeof(*order));
	array_deinit(&rebuilt.blocks.items);
	order_code_deinit(&rebuilt.code);
	free(order);
	recording_free(&recording);
}

static void hottest_paths_come_first(void **state)
{
	struct recording recording;
	struct table *table;

	recording_make(&recording);
	table = view(recording_profile(&recording), "paths", &(struct view_request){});
	/* (2 3): 5 trips of 14 in two threads; (1): 9 of 3; (1 2 3) and (2 3 1). */
	assert_int_equal(table->row_count, 2 + 1 + 2 + 3);
	assert_int_equal(number(table, 0, "instructions"), 70);
	assert_int_equal(number(table, 0, "trips"), 5);
	assert_int_equal(number(table, 0, "repeats"), 2);
	assert_int_equal(number(table, 0, "weight"), 14);
	assert_int_equal(number(table, 0, "blocks"), 2);
	assert_string_equal(text(table, 0, "symbol"), "main");
	assert_string_equal(text(table, 0, "place"), "a.c:9");
	assert_string_equal(text(table, 1, "symbol"), "help");
	assert_string_equal(text(table, 1, "module"), "l");
	assert_int_equal(number(table, 1, "step"), 1);
	assert_int_equal(number(table, 2, "instructions"), 27);
	assert_int_equal(number(table, 2, "repeats"), 1);
	assert_int_equal(number(table, 2, "step_blocks"), 1);
	assert_string_equal(text(table, 2, "place"), "a.c:5");
	assert_int_equal(number(table, 3, "step_blocks"), 2);
	assert_string_equal(text(table, 3, "place"), "a.c:5-9");
	assert_int_equal(table->totals.seen, 131);
	assert_int_equal(table->totals.selected, 131);
	table_destroy(table);
	recording_free(&recording);
}

static void threads_and_code_are_filtered(void **state)
{
	struct recording recording;
	struct view_request request = {};
	struct table *table;

	recording_make(&recording);
	*array_push(&request.filter.tids) = 10;
	table = view(recording_profile(&recording), "paths", &request);
	assert_int_equal(number(table, 0, "instructions"), 42);
	assert_int_equal(number(table, 0, "trips"), 3);
	assert_int_equal(number(table, 0, "repeats"), 1);
	assert_int_equal(table->totals.selected, 103);
	table_destroy(table);
	request.filter.tids.count = 0;
	*array_push(&request.filter.symbols) = "help";
	table = view(&recording.profile, "paths", &request);
	assert_int_equal(table->row_count, 2 + 2 + 3);
	assert_int_equal(table->totals.selected, 104);
	table_destroy(table);
	filter_deinit(&request.filter);
	recording_free(&recording);
}

/* main is left for help with each 2 3. Only block 1 is where main is entered. */
static void transfers_are_pairs_of_blocks(void **state)
{
	static const struct {
		const char *from, *to;
		uint64_t transfers, entries;
	} expected[] = { { "p", "p", 10, 9 }, { "p", "l", 7, 7 }, { "l", "p", 6, 1 } };
	struct recording recording;
	struct table *table;

	recording_make(&recording);
	table = view(recording_profile(&recording), "transfers", &(struct view_request){});
	assert_int_equal(table->row_count, FIXTURE_COUNT(expected));
	for (size_t i = 0; i < FIXTURE_COUNT(expected); i++) {
		assert_string_equal(text(table, i, "from"), expected[i].from);
		assert_string_equal(text(table, i, "to"), expected[i].to);
		assert_int_equal(number(table, i, "transfers"), expected[i].transfers);
		assert_int_equal(number(table, i, "entries"), expected[i].entries);
	}
	assert_int_equal(table->totals.kept, 23);
	table_destroy(table);
	recording_free(&recording);
}

/* --- The course ------------------------------------------------------------------------------- */

/* Each level from the beginning to the end, cycles as long as they say, parts and steps too. */
static void course_check(const struct course *course)
{
	array_each(&course->threads, thread) {
		uint64_t end[COURSE_LEVELS] = {};

		for (size_t i = 0; i < thread->count; i++) {
			const struct course_stretch *it =
				&course->stretches.items[thread->first + i];
			uint64_t length = it->end - it->begin, weight = 0;

			assert_int_equal(it->begin, end[it->level]);
			end[it->level] = it->end;
			assert_in_range(it->hot_instructions, 1, length);
			if (it->cycle && it->level == COURSE_STRATA)
				weight = course->strata.items[it->cycle - 1].weight;
			else if (it->cycle)
				weight = course->paths.items[it->cycle - 1].weight;
			assert_true(!it->cycle || length == it->trips * weight);
		}
		for (size_t i = 0; i < COURSE_LEVELS; i++)
			assert_int_equal(end[i], thread->instructions);
	}
	array_each(&course->strata, stratum) {
		uint64_t sum = 0;

		for (size_t i = 0; i < stratum->count; i++)
			sum += course->parts.items[stratum->first + i].instructions;
		assert_int_equal(sum, stratum->weight);
	}
	array_each(&course->paths, path) {
		uint64_t sum = 0;

		for (size_t i = 0; i < path->count; i++)
			sum += course->steps.items[path->first + i].instructions;
		assert_int_equal(sum, path->weight);
	}
}

/* Of the small program everything is long enough: what the comment at its blocks says. */
static void course_has_every_path(void **state)
{
	static const struct filter none;
	static const struct {
		uint64_t end, trips;
	} paths[] = { { 27, 9 }, { 44, 1 }, { 86, 3 }, { 103, 1 } };
	struct recording recording;
	struct course course;
	size_t seen = 0;

	recording_make(&recording);
	assert_int_equal(course_make(recording_profile(&recording), &none, 1000, &course), 0);
	course_check(&course);
	assert_int_equal(course.threads.count, 2);
	assert_int_equal(course.threads.items[0].thread, 1);
	assert_int_equal(course.threads.items[0].instructions, 103);
	for (size_t i = 0; i < course.threads.items[0].count; i++) {
		const struct course_stretch *it = &course.stretches.items[i];

		if (it->level != COURSE_PATHS)
			continue;
		assert_true(seen < FIXTURE_COUNT(paths));
		assert_true(it->cycle);
		assert_int_equal(it->end, paths[seen].end);
		assert_int_equal(it->trips, paths[seen++].trips);
	}
	assert_int_equal(seen, FIXTURE_COUNT(paths));
	course_deinit(&course);
	recording_free(&recording);
}

/* Many rows: a stretch that repeats (1 1 2), whose strata are one, and one that does not repeat. */
static void course_of_a_long_run(void **state)
{
	static const struct filter none;
	enum { HALF = 30000, CELLS = 100 };
	uint32_t *order = mem_alloc(2 * HALF * sizeof(*order)), seed = SEED;
	const struct course_stretch *longest = NULL;
	struct recording recording;
	struct flow_space *space = space_make(&recording);
	struct course course;

	for (size_t i = 0; i < HALF; i++)
		order[i] = i % 3 == 2 ? 2 : 1;
	for (size_t i = HALF; i < 2 * HALF; i++) {
		seed = seed * 1664525 + 1013904223;
		order[i] = 1 + (seed >> 16) % BLOCKS;
	}
	thread_record(space, 1, order, 2 * HALF);
	assert_int_equal(flow_space_finish(space), 0);
	flow_space_destroy(space);
	assert_true(recording.flows.count > 4);
	assert_int_equal(course_make(recording_profile(&recording), &none, CELLS, &course), 0);
	course_check(&course);
	assert_true(course.stretches.count < (size_t)COURSE_LEVELS * 3 * CELLS);
	array_each(&course.stretches, it)
		if (!longest || it->end - it->begin > longest->end - longest->begin)
			longest = it;
	assert_int_equal(longest->level, COURSE_STRATA);
	assert_true(longest->cycle);
	assert_in_range(longest->end - longest->begin, HALF * 10 / 3 - 100, HALF * 10 / 3);
	assert_true(course.stretches.items[course.stretches.count - 1].cycle == 0);
	course_deinit(&course);
	free(order);
	recording_free(&recording);
}

static void course_is_a_view(void **state)
{
	struct recording recording;
	struct view_request request = {};
	struct table *table;

	recording_make(&recording);
	*array_push(&request.filter.tids) = 11;
	table = view(recording_profile(&recording), "course", &request);
	assert_int_equal(table->totals.selected, 28);
	assert_int_equal(table->row_count, 2);
	assert_int_equal(number(table, 0, "end"), 28);
	assert_string_equal(text(table, 1, "what"), "path");
	assert_int_equal(number(table, 1, "trips"), 2);
	assert_int_equal(number(table, 1, "each"), 14);
	assert_string_equal(text(table, 1, "symbol"), "main");
	table_destroy(table);
	filter_deinit(&request.filter);
	recording_free(&recording);
}

/* A path that was forgotten and met again has another number, and is one path to people. */
static void numbers_of_one_path_are_added_up(void **state)
{
	const uint32_t path[] = { 2, 3 };
	struct sequence_encoder encoder;
	struct sequence_definitions row = { .count = 1 };
	struct recording recording;
	struct table *table;
	struct cycles cycles;

	recording_make(&recording);
	recording.path_tables.count = recording.cycle_tables.count = 0;
	sequence_encoder_init(&encoder);
	assert_int_equal(cycles_init(&cycles, &(struct cycles_options){}), 0);
	for (row.first = 1; row.first <= 2; row.first++) {
		assert_int_equal(cycles_intern(&cycles, path, 2, true), 1);
		sequence_definitions_encode(&encoder, &cycles, 1, 1, &row.data, &row.size);
		definitions_take(&recording, &row);
		cycle_take(&recording,
			   &(struct flow_cycle){ .number = row.first, .trips = 3, .repeats = 1 });
		cycles_clear(&cycles);
	}
	array_each(&recording.flows, flow)
		flow->paths = 3; /* as many as the cycles say, of two threads */
	cycles_end(&recording);
	table = view(recording_profile(&recording), "paths", &(struct view_request){});
	assert_int_equal(table->row_count, 2);
	assert_int_equal(number(table, 0, "trips"), 6);
	assert_int_equal(number(table, 1, "repeats"), 2);
	table_destroy(table);
	cycles_deinit(&cycles);
	sequence_encoder_deinit(&encoder);
	recording_free(&recording);
}

static void cycle_make(struct recording *recording, unsigned level, uint64_t number, uint64_t trips,
		       const struct flow_symbol held[2])
{
	cycle_take(recording, &(struct flow_cycle){ .level = level,
						    .number = number,
						    .trips = trips,
						    .length = level ? 2 : 0,
						    .symbols = held });
}

/*
 * Strata 1 and 2 are one under two numbers; so are the cycles above that hold them. Stratum 3 is
 * another.
 */
static void numbers_of_one_stratum_are_added_up(void **state)
{
	static const struct flow_symbol stratum[] = { { 1, 1 }, { 2, 9 } },
					other[] = { { 1, 1 }, { 2, 8 } };
	static const struct flow_symbol above[][2] = { { { 1, 2 }, { 3, 1 } },
						       { { 2, 2 }, { 3, 1 } } };
	struct recording recording;
	struct table *table;

	recording_make(&recording);
	recording.cycle_tables.count = 0;
	for (uint64_t i = 1; i <= 2; i++)
		cycle_make(&recording, 0, i, 1, NULL);
	for (uint64_t i = 1; i <= 3; i++)
		cycle_make(&recording, 1, i, 10 * i, i < 3 ? stratum : other);
	for (uint64_t i = 1; i <= 2; i++)
		cycle_make(&recording, 2, i, i, above[i - 1]);
	cycles_end(&recording);
	table = view(recording_profile(&recording), "strata", &(struct view_request){});
	assert_int_equal(table->row_count, 4);
	assert_int_equal(number(table, 0, "trips"), 30);
	assert_int_equal(number(table, 2, "trips"), 30);
	assert_int_equal(number(table, 2, "number"), 3);
	table_destroy(table);
	table = view(recording_profile(&recording), "strata", &(struct view_request){ .level = 2 });
	assert_int_equal(table->row_count, 2);
	assert_int_equal(number(table, 0, "trips"), 3);
	table_destroy(table);
	recording_free(&recording);
}

static int cycles_read(struct recording *recording, struct order_cycles *ret)
{
	struct order_code code;
	int err = order_code_init(&code, recording_profile(recording), 1);

	order_cycles_init(ret);
	err = err ? err : order_cycles_add(ret, &code, LAYER_LEVELS);
	order_code_deinit(&code);
	return err;
}

/* They are not in the profile: what the recorder knew follows from definitions. */
static void weights_and_lengths_of_cycles_are_found(void **state)
{
	struct recording recording;
	struct flow_space *space = space_make(&recording);
	struct order_cycles cycles;
	uint32_t order[STEPS], seed = 0;
	size_t levels = 0;

	for (size_t i = 0; i < STEPS; i++) {
		seed = i % AGAIN ? seed * 1664525 + 1013904223 : 5;
		order[i] = 1 + (seed >> 16) % BLOCKS;
	}
	thread_record(space, 1, order, STEPS);
	assert_int_equal(flow_space_finish(space), 0);
	flow_space_destroy(space);
	cycles_end(&recording);
	assert_int_equal(cycles_read(&recording, &cycles), 0);
	assert_int_equal(cycles.items.count, recording.cycles.count);
	array_each(&recording.cycles, made) {
		const struct order_cycle *cycle =
			order_cycle_find(&cycles, 1, made->level, made->number);

		assert_non_null(cycle);
		assert_int_equal(cycle->weight, made->weight);
		assert_int_equal(cycle->length, made->length);
		assert_int_equal(cycle->trips, made->trips);
		assert_int_equal(cycle->repeats, made->repeats);
		levels |= 1u << cycle->level;
	}
	assert_true((levels & 7) == 7 && cycles.items.count > 50);
	order_cycles_deinit(&cycles);
	recording_free(&recording);
}

static void cycles_are_read_as(void (*make)(struct recording *), int err, size_t count)
{
	struct recording recording;
	struct order_cycles cycles;

	recording_make(&recording);
	recording.cycle_tables.count = 0;
	make(&recording);
	cycles_end(&recording);
	assert_int_equal(cycles_read(&recording, &cycles), err);
	assert_int_equal(cycles.items.count, count);
	order_cycles_deinit(&cycles);
	recording_free(&recording);
}

static void unknown_path_make(struct recording *recording)
{
	cycle_make(recording, 0, 1000, 1, NULL);
}

static void twice_make(struct recording *recording)
{
	cycle_make(recording, 0, 1, 1, NULL);
	cycles_end(recording);
	cycle_make(recording, 0, 1, 1, NULL);
}

static void too_often_make(struct recording *recording)
{
	cycle_make(recording, 0, 1, INT64_MAX, NULL);
}

static void too_long_make(struct recording *recording)
{
	static const struct flow_symbol held[] = { { 1, INT64_MAX }, { 1, INT64_MAX } };

	cycle_make(recording, 0, 1, 1, NULL);
	cycle_make(recording, 1, 1, 2, held);
}

/* A killed recorder may have written strata, and not the paths that they hold. */
static void orphan_make(struct recording *recording)
{
	static const struct flow_symbol known[] = { { 1, 1 }, { 2, 1 } },
					unknown[] = { { 1, 1 }, { 3, 1 } };

	cycle_make(recording, 0, 1, 1, NULL);
	cycle_make(recording, 0, 2, 1, NULL);
	cycle_make(recording, 1, 1, 2, known);
	cycle_make(recording, 1, 2, 2, unknown);
}

static void cycles_that_cannot_be_are_refused(void **state)
{
	cycles_are_read_as(unknown_path_make, -EBADMSG, 0);
	cycles_are_read_as(twice_make, -EBADMSG, 1);
	cycles_are_read_as(too_often_make, -EBADMSG, 0);
	cycles_are_read_as(too_long_make, -EBADMSG, 1);
	cycles_are_read_as(orphan_make, 0, 3);
}

static void another_format_is_told(void **state)
{
	struct recording recording;
	struct table *table = NULL;

	recording_make(&recording);
	facts[0].value = "1";
	assert_int_equal(view_run(view_find("paths"), recording_profile(&recording),
				  &(struct view_request){}, &table),
			 -ENOTSUP);
	assert_non_null(strstr(err_text(), "another version of Assay"));
	facts[0].value = FORMAT_TEXT;
	recording_free(&recording);
}

static void view_refuses(struct recording *recording, const char *reason)
{
	struct table *table = NULL;
	struct view_request request = {};

	*array_push(&request.filter.tids) = 10;
	assert_int_equal(view_run(view_find("paths"), recording_profile(recording), &request,
				  &table),
			 -EBADMSG);
	assert_non_null(strstr(err_text(), reason));
	filter_deinit(&request.filter);
}

static void what_cannot_be_is_refused(void **state)
{
	struct recording recording;

	recording_make(&recording);
	recording.flows.items[0].blocks++;
	view_refuses(&recording, "not what it says");
	recording.flows.items[0].blocks--;
	recording.flows.items[0].base = 1000;
	view_refuses(&recording, "not what it says");
	recording.flows.items[0].base = 0;
	recording.path_tables.items[0].base = 1;
	view_refuses(&recording, "has block 3, which does not exist");
	recording_free(&recording);
}

/*
 * One path over and over, in bytes of which a profile has never enough to fill the memory honestly.
 */
static void paths_cannot_fill_memory(void **state)
{
	enum { PATHS = SEQUENCE_PATHS_ROOM / 5 };
	struct profile_path_table *row;
	struct recording recording;
	struct coder coder;

	recording_make(&recording);
	coder_init(&coder, 1 << 20);
	coder_write(&coder);
	for (unsigned i = 0; i < PATHS; i++) {
		coder_put(&coder, 2);
		coder_put(&coder, 0);
	}
	coder_end(&coder);
	row = &recording.path_tables.items[0];
	*row = (struct profile_path_table){ .process = 1,
					    .first = 1,
					    .count = UINT32_MAX,
					    .data = coder.out.items,
					    .size = coder.out.count };
	view_refuses(&recording, "paths of process 10: ");
	assert_non_null(strstr(err_text(), "fill memory"));
	coder_deinit(&coder);
	recording_free(&recording);
}

/*
 * The thread's 103 instructions are too few to find phases in: it is one, with the sums of its
 * blocks.
 */
static void a_short_thread_is_one_phase(void **state)
{
	struct recording recording;
	struct table *table;

	recording_make(&recording);
	table = view(recording_profile(&recording), "phases", &(struct view_request){ .top = 1 });
	assert_int_equal(table->row_count, 2);
	assert_int_equal(number(table, 0, "begin"), 0);
	assert_int_equal(number(table, 0, "end"), 103);
	assert_int_equal(number(table, 0, "phase_instructions"), 103);
	assert_int_equal(number(table, 0, "instructions"), 42);
	assert_int_equal(number(table, 0, "trips"), 3);
	assert_int_equal(number(table, 1, "end"), 28);
	table_destroy(table);
	recording_free(&recording);
}

static void other_profiles_have_no_order(void **state)
{
	struct recording recording = {};
	struct table *table = NULL;

	assert_int_equal(view_run(view_find("paths"), recording_profile(&recording),
				  &(struct view_request){}, &table),
			 -ENODATA);
	assert_non_null(strstr(err_text(), "--tool paths"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sequence_comes_back),
		cmocka_unit_test(hottest_paths_come_first),
		cmocka_unit_test(threads_and_code_are_filtered),
		cmocka_unit_test(transfers_are_pairs_of_blocks),
		cmocka_unit_test(course_has_every_path),
		cmocka_unit_test(course_of_a_long_run),
		cmocka_unit_test(course_is_a_view),
		cmocka_unit_test(numbers_of_one_path_are_added_up),
		cmocka_unit_test(numbers_of_one_stratum_are_added_up),
		cmocka_unit_test(weights_and_lengths_of_cycles_are_found),
		cmocka_unit_test(cycles_that_cannot_be_are_refused),
		cmocka_unit_test(another_format_is_told),
		cmocka_unit_test(what_cannot_be_is_refused),
		cmocka_unit_test(paths_cannot_fill_memory),
		cmocka_unit_test(a_short_thread_is_one_phase),
		cmocka_unit_test(other_profiles_have_no_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
