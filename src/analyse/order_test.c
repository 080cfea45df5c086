// SPDX-License-Identifier: BSD-2-Clause
/* The order of execution of a small program that is written down here: recorded by profile/flow.h, read back and shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "analyse/fixture_trace.h"
#include "analyse/order_cycles.h"
#include "analyse/views.h"
#include "base/err.h"
#include "profile/flow.h"

static struct profile_symbol symbols[] = {
	{ .name = "", .linkage = "" },
	{ .module = 1, .name = "main", .linkage = "main", .address = 0x100, .size = 64 },
	{ .module = 2, .name = "help", .linkage = "help", .address = 0x200, .size = 64 },
};
static const char *files[] = { "", "src/a.c" };
static struct profile_frame frames[] = { {}, { 1, 1, 5 }, { 1, 1, 9 }, { 2, 0, 0 } };
static struct profile_location locations[] = {
	{}, { 1, 0x100, 1, 1 }, { 1, 0x120, 2, 1 }, { 2, 0x200, 3, 1 }
};
/* Two of main, with 3 and 4 instructions, and one of help with 10. */
static struct profile_block blocks[] = {
	{}, { 1, 8, 3, 0, 1 }, { 2, 8, 4, 1, 1 }, { 3, 30, 10, 2, 1 }
};
static struct profile_block_part parts[] = { { 1, 3 }, { 2, 4 }, { 3, 10 } };
#define FORMAT_TEXT "5" /* FLOW_FORMAT */
static struct profile_named_count meta[] = { { .name = "tool", .text = "paths" },
					     { .name = "order_format", .text = FORMAT_TEXT } };

/* Run 1 is all of main, run 2 goes to help, run 3 is help alone. */
enum { RUNS = 3, STEPS = 3000, AGAIN = 500 };
static const struct run_blocks run_blocks[RUNS] = { { (const uint32_t[]){ 1, 2 }, 2 },
						    { (const uint32_t[]){ 1 }, 1 },
						    { (const uint32_t[]){ 3 }, 1 } };
static const uint32_t weights[] = { 0, 7, 3, 10 };
/* Paths: (1) nine times, (1 2 3), (2 3) three times, (2 3 1); and of the other thread (2 3) twice. */
static const uint32_t first_runs[] = {
	1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 1
};
static const uint32_t second_runs[] = { 2, 3, 2, 3 };

/* What a profile would have. */
struct recording {
	ARRAY(struct profile_flow) flows;
	ARRAY(struct profile_definitions) run_tables, path_tables;
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
				       .runs = end[SEQUENCE_RUN],
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
		(struct profile_definitions){ .process = 1,
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

static void runs_take(struct recording *recording)
{
	struct coder coder;

	coder_init(&coder, RUNS_EXPECTED);
	runs_encode(&coder, run_blocks, RUNS);
	*array_push(&recording->run_tables) = (struct profile_definitions){
		.process = 1,
		.first = 1,
		.count = RUNS,
		.data = bytes_keep(recording, coder.out.items, coder.out.count),
		.size = coder.out.count,
	};
	coder_deinit(&coder);
}

static void thread_record(struct flow_space *space, uint32_t thread, const uint32_t *runs,
			  size_t count)
{
	struct flow *flow = flow_create(space, &thread);

	assert_int_equal(flow_push(flow, runs, count), 0);
	assert_int_equal(flow_finish(flow), 0);
	flow_destroy(flow);
}

static struct flow_space *space_make(struct recording *recording)
{
	const struct flow_space_options options = { .row = row_take,
						    .definitions = definitions_take,
						    .cycle = cycle_take,
						    .row_repeats = 512,
						    .context = recording };
	struct flow_space *space = NULL;

	*recording = (struct recording){};
	cyclepack_init(&recording->pack, piece_take, recording);
	runs_take(recording);
	assert_int_equal(flow_space_create(&options, &space), 0);
	flow_weights_set(space, weights, FIXTURE_COUNT(weights));
	return space;
}

static void recording_make(struct recording *recording)
{
	struct flow_space *space = space_make(recording);

	thread_record(space, 1, first_runs, FIXTURE_COUNT(first_runs));
	thread_record(space, 2, second_runs, FIXTURE_COUNT(second_runs));
	assert_int_equal(flow_space_finish(space), 0);
	cycles_end(recording);
	flow_space_destroy(space);
}

static const struct profile *recording_profile(struct recording *recording)
{
	struct profile *profile = &recording->profile;

	*profile = fixture_trace(&(struct fixture_code){ FIXTURE_CODE }, meta);
	profile->meta_count = FIXTURE_COUNT(meta);
	profile->run_tables = recording->run_tables.items;
	profile->run_table_count = recording->run_tables.count;
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
	array_deinit(&recording->run_tables);
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
	uint32_t *runs = mem_alloc(MANY * sizeof(*runs));
	uint32_t seed = SEED;
	size_t at = 0;

	for (size_t i = 0; i < MANY; i++) {
		seed = i % AGAIN ? seed * 1664525 + 1013904223 : 5;
		runs[i] = 1 + (seed >> 16) % RUNS;
	}
	thread_record(space, 1, runs, MANY);
	assert_int_equal(flow_space_finish(space), 0);
	flow_space_destroy(space);
	assert_true(recording.flows.count > 4);
	assert_int_equal(order_code_init(&rebuilt.code, recording_profile(&recording), 1), 0);
	assert_int_equal(order_walk(&rebuilt.code, 1, blocks_take, &rebuilt), 0);
	for (size_t i = 0; i < MANY; i++)
		for (size_t j = 0; j < run_blocks[runs[i] - 1].count; j++, at++)
			assert_int_equal(rebuilt.blocks.items.items[at],
					 run_blocks[runs[i] - 1].blocks[j]);
	assert_int_equal(at, rebuilt.blocks.items.count);
	array_deinit(&rebuilt.blocks.items);
	order_code_deinit(&rebuilt.code);
	free(runs);
	recording_free(&recording);
}

static void hottest_paths_come_first(void **state)
{
	struct recording recording;
	struct table *table;

	recording_make(&recording);
	table = view(recording_profile(&recording), "paths", &(struct view_request){});
	/* (2 3): 5 trips of 13 in two threads; (1): 9 of 7; (1 2 3) and (2 3 1). */
	assert_int_equal(table->row_count, 2 + 1 + 2 + 3);
	assert_int_equal(number(table, 0, "instructions"), 65);
	assert_int_equal(number(table, 0, "trips"), 5);
	assert_int_equal(number(table, 0, "repeats"), 2);
	assert_int_equal(number(table, 0, "weight"), 13);
	assert_int_equal(number(table, 0, "blocks"), 2);
	assert_string_equal(text(table, 0, "symbol"), "main");
	assert_string_equal(text(table, 0, "place"), "a.c:5");
	assert_string_equal(text(table, 1, "symbol"), "help");
	assert_string_equal(text(table, 1, "module"), "l");
	assert_int_equal(number(table, 1, "step"), 1);
	assert_int_equal(number(table, 2, "instructions"), 63);
	assert_int_equal(number(table, 2, "repeats"), 1);
	assert_int_equal(number(table, 2, "step_blocks"), 2);
	assert_string_equal(text(table, 2, "place"), "a.c:5-9");
	assert_int_equal(number(table, 3, "step_blocks"), 3);
	assert_int_equal(table->totals.seen, 168);
	assert_int_equal(table->totals.selected, 168);
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
	assert_int_equal(number(table, 0, "instructions"), 63);
	assert_int_equal(number(table, 1, "trips"), 3);
	assert_int_equal(number(table, 1, "repeats"), 1);
	assert_int_equal(table->totals.selected, 142);
	table_destroy(table);
	request.filter.tids.count = 0;
	*array_push(&request.filter.symbols) = "help";
	table = view(&recording.profile, "paths", &request);
	assert_int_equal(table->row_count, 2 + 2 + 3);
	assert_int_equal(table->totals.selected, 105);
	table_destroy(table);
	filter_deinit(&request.filter);
	recording_free(&recording);
}

/* Blocks: 1 2 (9 times), 1 2 1 3, 1 3 (3 times), 1 3 1 2; and 1 3 twice. main is left for help with each 1 3. */
static void transfers_are_pairs_of_blocks(void **state)
{
	static const struct {
		const char *from, *to;
		uint64_t transfers, entries;
	} expected[] = { { "p", "p", 21, 10 }, { "p", "l", 7, 7 }, { "l", "p", 6, 6 } };
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
	assert_int_equal(table->totals.kept, 34);
	table_destroy(table);
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

/* Strata 1 and 2 are one under two numbers; so are the cycles above that hold them. Stratum 3 is another. */
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
	uint32_t runs[STEPS], seed = 0;
	size_t levels = 0;

	for (size_t i = 0; i < STEPS; i++) {
		seed = i % AGAIN ? seed * 1664525 + 1013904223 : 5;
		runs[i] = 1 + (seed >> 16) % RUNS;
	}
	thread_record(space, 1, runs, STEPS);
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

/* A killed collector may have written strata, and not the paths that they hold. */
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

/* As a killed collector leaves it: rows and paths, but not what runs are. */
static void missing_runs_are_told(void **state)
{
	struct recording recording;
	struct table *table = NULL;

	recording_make(&recording);
	recording.run_tables.count = 0;
	assert_int_equal(view_run(view_find("layers"), recording_profile(&recording),
				  &(struct view_request){}, &table),
			 -ENODATA);
	assert_non_null(strstr(err_text(), "was killed"));
	recording_free(&recording);
}

static void another_format_is_told(void **state)
{
	struct recording recording;
	struct table *table = NULL;

	recording_make(&recording);
	meta[1].text = "1";
	assert_int_equal(view_run(view_find("paths"), recording_profile(&recording),
				  &(struct view_request){}, &table),
			 -ENOTSUP);
	assert_non_null(strstr(err_text(), "another version of Assay"));
	meta[1].text = FORMAT_TEXT;
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
	recording.flows.items[0].runs++;
	view_refuses(&recording, "not what it says");
	recording.flows.items[0].runs--;
	recording.flows.items[0].base = 1000;
	view_refuses(&recording, "not what it says");
	recording.flows.items[0].base = 0;
	recording.run_tables.items[0].count = 2;
	view_refuses(&recording, "has run 3, which does not exist");
	recording_free(&recording);
}

/* One path over and over, in bytes of which a profile has never enough to fill the memory honestly. */
static void paths_cannot_fill_memory(void **state)
{
	enum { PATHS = SEQUENCE_PATHS_ROOM / 5 };
	struct profile_definitions *row;
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
	*row = (struct profile_definitions){ .process = 1,
					     .first = 1,
					     .count = UINT32_MAX,
					     .data = coder.out.items,
					     .size = coder.out.count };
	view_refuses(&recording, "paths of process 10: ");
	assert_non_null(strstr(err_text(), "fill memory"));
	coder_deinit(&coder);
	recording_free(&recording);
}

static void code_is_not_cut_out_of_sequences(void **state)
{
	static const char *const names[] = { "strata", "layers", "phases", "at" };
	struct view_request request = { .has_position = false };
	struct recording recording;

	recording_make(&recording);
	recording_profile(&recording);
	*array_push(&request.filter.symbols) = "help";
	for (size_t i = 0; i < FIXTURE_COUNT(names); i++) {
		struct table *table = NULL;

		assert_int_equal(view_run(view_find(names[i]), &recording.profile, &request,
					  &table),
				 -EINVAL);
		assert_non_null(strstr(err_text(), "has no use"));
	}
	filter_deinit(&request.filter);
	recording_free(&recording);
}

/* The thread's 142 instructions are too few to find phases in: it is one, with the sums of its blocks. */
static void a_short_thread_is_one_phase(void **state)
{
	struct recording recording;
	struct table *table;

	recording_make(&recording);
	table = view(recording_profile(&recording), "phases", &(struct view_request){ .top = 1 });
	assert_int_equal(table->row_count, 2);
	assert_int_equal(number(table, 0, "begin"), 0);
	assert_int_equal(number(table, 0, "end"), 142);
	assert_int_equal(number(table, 0, "phase_instructions"), 142);
	assert_int_equal(number(table, 0, "instructions"), 63);
	assert_int_equal(number(table, 0, "trips"), 9);
	assert_int_equal(number(table, 1, "end"), 26);
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
		cmocka_unit_test(numbers_of_one_path_are_added_up),
		cmocka_unit_test(numbers_of_one_stratum_are_added_up),
		cmocka_unit_test(weights_and_lengths_of_cycles_are_found),
		cmocka_unit_test(cycles_that_cannot_be_are_refused),
		cmocka_unit_test(missing_runs_are_told),
		cmocka_unit_test(another_format_is_told),
		cmocka_unit_test(what_cannot_be_is_refused),
		cmocka_unit_test(paths_cannot_fill_memory),
		cmocka_unit_test(code_is_not_cut_out_of_sequences),
		cmocka_unit_test(a_short_thread_is_one_phase),
		cmocka_unit_test(other_profiles_have_no_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
