// SPDX-License-Identifier: BSD-2-Clause
// Serves: W3, W4, W6, W7.
/*
 * The order of execution of a small program that is written down here: recorded by paths/flow.h,
 * read back and shown.
 */
#include "support/order_fixture.h"

#include <errno.h>
#include <string.h>

#include "analyse/order_cycles.h"
#include "base/err.h"
#include "base/mem.h"

enum { STEPS = 3000 };

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
enum { MANY = 20000 };

static void the_sequence_comes_back(void **state)
{
	struct order_recording recording;
	struct flow_space *space = order_space_make(&recording);
	struct rebuilt rebuilt = {};
	uint32_t *order = mem_alloc(MANY * sizeof(*order));
	uint32_t seed = ORDER_SEED;

	for (size_t i = 0; i < MANY; i++) {
		seed = i % ORDER_AGAIN ? seed * 1664525 + 1013904223 : 5;
		order[i] = 1 + (seed >> 16) % ORDER_BLOCKS;
	}
	order_thread_record(space, 1, order, MANY);
	assert_int_equal(flow_space_finish(space), 0);
	flow_space_destroy(space);
	assert_true(recording.flows.count > 4);
	assert_int_equal(order_code_init(&rebuilt.code, order_recording_profile(&recording), 1), 0);
	assert_int_equal(order_walk(&rebuilt.code, 1, blocks_take, &rebuilt), 0);
	assert_int_equal(rebuilt.blocks.items.count, MANY);
	assert_memory_equal(rebuilt.blocks.items.items, order, MANY * sizeof(*order));
	array_deinit(&rebuilt.blocks.items);
	order_code_deinit(&rebuilt.code);
	free(order);
	order_recording_free(&recording);
}

static void hottest_paths_come_first(void **state)
{
	struct order_recording recording;
	struct table *table;

	order_recording_make(&recording);
	table = order_view(order_recording_profile(&recording), "paths", &(struct view_request){});
	/* (2 3): 5 trips of 14 in two threads; (1): 9 of 3; (1 2 3) and (2 3 1). */
	assert_int_equal(table->row_count, 2 + 1 + 2 + 3);
	assert_int_equal(order_number(table, 0, "instructions"), 70);
	assert_int_equal(order_number(table, 0, "trips"), 5);
	assert_int_equal(order_number(table, 0, "repeats"), 2);
	assert_int_equal(order_number(table, 0, "weight"), 14);
	assert_int_equal(order_number(table, 0, "blocks"), 2);
	assert_string_equal(order_text(table, 0, "symbol"), "main");
	assert_string_equal(order_text(table, 0, "place"), "a.c:9");
	assert_string_equal(order_text(table, 1, "symbol"), "help");
	assert_string_equal(order_text(table, 1, "module"), "l");
	assert_int_equal(order_number(table, 1, "step"), 1);
	assert_int_equal(order_number(table, 2, "instructions"), 27);
	assert_int_equal(order_number(table, 2, "repeats"), 1);
	assert_int_equal(order_number(table, 2, "step_blocks"), 1);
	assert_string_equal(order_text(table, 2, "place"), "a.c:5");
	assert_int_equal(order_number(table, 3, "step_blocks"), 2);
	assert_string_equal(order_text(table, 3, "place"), "a.c:5-9");
	assert_int_equal(table->totals.seen, 131);
	assert_int_equal(table->totals.selected, 131);
	table_destroy(table);
	order_recording_free(&recording);
}

static void threads_and_code_are_filtered(void **state)
{
	struct order_recording recording;
	struct view_request request = {};
	struct table *table;

	order_recording_make(&recording);
	*array_push(&request.filter.tids) = 10;
	table = order_view(order_recording_profile(&recording), "paths", &request);
	assert_int_equal(order_number(table, 0, "instructions"), 42);
	assert_int_equal(order_number(table, 0, "trips"), 3);
	assert_int_equal(order_number(table, 0, "repeats"), 1);
	assert_int_equal(table->totals.selected, 103);
	table_destroy(table);
	request.filter.tids.count = 0;
	*array_push(&request.filter.symbols) = "help";
	table = order_view(&recording.profile, "paths", &request);
	assert_int_equal(table->row_count, 2 + 2 + 3);
	assert_int_equal(table->totals.selected, 104);
	table_destroy(table);
	filter_deinit(&request.filter);
	order_recording_free(&recording);
}

/* main is left for help with each 2 3. Only block 1 is where main is entered. */
static void transfers_are_pairs_of_blocks(void **state)
{
	static const struct {
		const char *from, *to;
		uint64_t transfers, entries;
	} expected[] = { { "p", "p", 10, 9 }, { "p", "l", 7, 7 }, { "l", "p", 6, 1 } };
	struct order_recording recording;
	struct table *table;

	order_recording_make(&recording);
	table = order_view(order_recording_profile(&recording), "transfers",
			   &(struct view_request){});
	assert_int_equal(table->row_count, FIXTURE_COUNT(expected));
	for (size_t i = 0; i < FIXTURE_COUNT(expected); i++) {
		assert_string_equal(order_text(table, i, "from"), expected[i].from);
		assert_string_equal(order_text(table, i, "to"), expected[i].to);
		assert_int_equal(order_number(table, i, "transfers"), expected[i].transfers);
		assert_int_equal(order_number(table, i, "entries"), expected[i].entries);
	}
	assert_int_equal(table->totals.kept, 23);
	table_destroy(table);
	order_recording_free(&recording);
}

/* A path that was forgotten and met again has another number, and is one path to people. */
static void numbers_of_one_path_are_added_up(void **state)
{
	const uint32_t path[] = { 2, 3 };
	struct sequence_encoder encoder;
	struct sequence_definitions row = { .count = 1 };
	struct order_recording recording;
	struct table *table;
	struct cycles cycles;

	order_recording_make(&recording);
	recording.path_tables.count = recording.cycle_tables.count = 0;
	sequence_encoder_init(&encoder);
	assert_int_equal(cycles_init(&cycles, &(struct cycles_options){}), 0);
	for (row.first = 1; row.first <= 2; row.first++) {
		assert_int_equal(cycles_intern(&cycles, path, 2, true), 1);
		sequence_definitions_encode(&encoder, &cycles, 1, 1, &row.data, &row.size);
		order_definitions_take(&recording, &row);
		order_cycle_take(&recording, &(struct flow_cycle){ .number = row.first,
								   .trips = 3,
								   .repeats = 1 });
		cycles_clear(&cycles);
	}
	array_each(&recording.flows, flow)
		flow->paths = 3; /* as many as the cycles say, of two threads */
	order_recording_end(&recording);
	table = order_view(order_recording_profile(&recording), "paths", &(struct view_request){});
	assert_int_equal(table->row_count, 2);
	assert_int_equal(order_number(table, 0, "trips"), 6);
	assert_int_equal(order_number(table, 1, "repeats"), 2);
	table_destroy(table);
	cycles_deinit(&cycles);
	sequence_encoder_deinit(&encoder);
	order_recording_free(&recording);
}

static void cycle_make(struct order_recording *recording, unsigned level, uint64_t number,
		       uint64_t trips, const struct flow_symbol held[2])
{
	order_cycle_take(recording, &(struct flow_cycle){ .level = level,
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
	struct order_recording recording;
	struct table *table;

	order_recording_make(&recording);
	recording.cycle_tables.count = 0;
	for (uint64_t i = 1; i <= 2; i++)
		cycle_make(&recording, 0, i, 1, NULL);
	for (uint64_t i = 1; i <= 3; i++)
		cycle_make(&recording, 1, i, 10 * i, i < 3 ? stratum : other);
	for (uint64_t i = 1; i <= 2; i++)
		cycle_make(&recording, 2, i, i, above[i - 1]);
	order_recording_end(&recording);
	table = order_view(order_recording_profile(&recording), "strata", &(struct view_request){});
	assert_int_equal(table->row_count, 4);
	assert_int_equal(order_number(table, 0, "trips"), 30);
	assert_int_equal(order_number(table, 2, "trips"), 30);
	assert_int_equal(order_number(table, 2, "number"), 3);
	table_destroy(table);
	table = order_view(order_recording_profile(&recording), "strata",
			   &(struct view_request){ .level = 2 });
	assert_int_equal(table->row_count, 2);
	assert_int_equal(order_number(table, 0, "trips"), 3);
	table_destroy(table);
	order_recording_free(&recording);
}

static int cycles_read(struct order_recording *recording, struct order_cycles *ret)
{
	struct order_code code;
	int err = order_code_init(&code, order_recording_profile(recording), 1);

	order_cycles_init(ret);
	err = err ? err : order_cycles_add(ret, &code, LAYER_LEVELS);
	order_code_deinit(&code);
	return err;
}

/* They are not in the profile: what the recorder knew follows from definitions. */
static void weights_and_lengths_of_cycles_are_found(void **state)
{
	struct order_recording recording;
	struct flow_space *space = order_space_make(&recording);
	struct order_cycles cycles;
	uint32_t order[STEPS], seed = 0;
	size_t levels = 0;

	for (size_t i = 0; i < STEPS; i++) {
		seed = i % ORDER_AGAIN ? seed * 1664525 + 1013904223 : 5;
		order[i] = 1 + (seed >> 16) % ORDER_BLOCKS;
	}
	order_thread_record(space, 1, order, STEPS);
	assert_int_equal(flow_space_finish(space), 0);
	flow_space_destroy(space);
	order_recording_end(&recording);
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
	order_recording_free(&recording);
}

static void cycles_are_read_as(void (*make)(struct order_recording *), int err, size_t count)
{
	struct order_recording recording;
	struct order_cycles cycles;

	order_recording_make(&recording);
	recording.cycle_tables.count = 0;
	make(&recording);
	order_recording_end(&recording);
	assert_int_equal(cycles_read(&recording, &cycles), err);
	assert_int_equal(cycles.items.count, count);
	order_cycles_deinit(&cycles);
	order_recording_free(&recording);
}

static void unknown_path_make(struct order_recording *recording)
{
	cycle_make(recording, 0, 1000, 1, NULL);
}

static void twice_make(struct order_recording *recording)
{
	cycle_make(recording, 0, 1, 1, NULL);
	order_recording_end(recording);
	cycle_make(recording, 0, 1, 1, NULL);
}

static void too_often_make(struct order_recording *recording)
{
	cycle_make(recording, 0, 1, INT64_MAX, NULL);
}

static void too_long_make(struct order_recording *recording)
{
	static const struct flow_symbol held[] = { { 1, INT64_MAX }, { 1, INT64_MAX } };

	cycle_make(recording, 0, 1, 1, NULL);
	cycle_make(recording, 1, 1, 2, held);
}

/* A killed recorder may have written strata, and not the paths that they hold. */
static void orphan_make(struct order_recording *recording)
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
	struct order_recording recording;
	struct table *table = NULL;

	order_recording_make(&recording);
	order_facts[0].value = "1";
	assert_int_equal(view_run(view_find("paths"), order_recording_profile(&recording),
				  &(struct view_request){}, &table),
			 -ENOTSUP);
	assert_non_null(strstr(err_text(), "another version of Assay"));
	order_facts[0].value = ORDER_FORMAT;
	order_recording_free(&recording);
}

static void view_refuses(struct order_recording *recording, const char *reason)
{
	struct table *table = NULL;
	struct view_request request = {};

	*array_push(&request.filter.tids) = 10;
	assert_int_equal(view_run(view_find("paths"), order_recording_profile(recording), &request,
				  &table),
			 -EBADMSG);
	assert_non_null(strstr(err_text(), reason));
	filter_deinit(&request.filter);
}

static void what_cannot_be_is_refused(void **state)
{
	struct order_recording recording;

	order_recording_make(&recording);
	recording.flows.items[0].blocks++;
	view_refuses(&recording, "not what it says");
	recording.flows.items[0].blocks--;
	recording.flows.items[0].base = 1000;
	view_refuses(&recording, "not what it says");
	recording.flows.items[0].base = 0;
	recording.path_tables.items[0].base = 1;
	view_refuses(&recording, "has block 3, which does not exist");
	order_recording_free(&recording);
}

/*
 * One path over and over, in bytes of which a profile has never enough to fill the memory honestly.
 */
static void paths_cannot_fill_memory(void **state)
{
	enum { PATHS = SEQUENCE_PATHS_ROOM / 5 };
	struct profile_path_table *row;
	struct order_recording recording;
	struct coder coder;

	order_recording_make(&recording);
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
	order_recording_free(&recording);
}

/*
 * The thread's 103 instructions are too few to find phases in: it is one, with the sums of its
 * blocks.
 */
static void a_short_thread_is_one_phase(void **state)
{
	struct order_recording recording;
	struct table *table;

	order_recording_make(&recording);
	table = order_view(order_recording_profile(&recording), "phases",
			   &(struct view_request){ .top = 1 });
	assert_int_equal(table->row_count, 2);
	assert_int_equal(order_number(table, 0, "begin"), 0);
	assert_int_equal(order_number(table, 0, "end"), 103);
	assert_int_equal(order_number(table, 0, "phase_instructions"), 103);
	assert_int_equal(order_number(table, 0, "instructions"), 42);
	assert_int_equal(order_number(table, 0, "trips"), 3);
	assert_int_equal(order_number(table, 1, "end"), 28);
	table_destroy(table);
	order_recording_free(&recording);
}

static void other_profiles_have_no_order(void **state)
{
	struct order_recording recording = {};
	struct table *table = NULL;

	assert_int_equal(view_run(view_find("paths"), order_recording_profile(&recording),
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
		cmocka_unit_test(another_format_is_told),
		cmocka_unit_test(what_cannot_be_is_refused),
		cmocka_unit_test(paths_cannot_fill_memory),
		cmocka_unit_test(a_short_thread_is_one_phase),
		cmocka_unit_test(other_profiles_have_no_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
