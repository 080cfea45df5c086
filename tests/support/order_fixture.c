// SPDX-License-Identifier: BSD-2-Clause
/* For tests: the order of execution of a small program (order_fixture.h). */
#include "support/order_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

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
struct profile_fact order_facts[2] = { { 1, "order_format", ORDER_FORMAT },
				       { 1, "tool", "paths" } };
static struct fixture_trace trace = { .facts = order_facts,
				      .fact_count = FIXTURE_COUNT(order_facts) };

static const uint32_t weights[] = { 0, 3, 4, 10 };
static const uint32_t first_blocks[] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2,
					 3, 2, 3, 2, 3, 2, 3, 2, 3, 1 };
static const uint32_t second_blocks[] = { 2, 3, 2, 3 };

static const uint8_t *bytes_keep(struct order_recording *recording, const void *bytes, size_t size)
{
	return *array_push(&recording->owned) = mem_dup(bytes, size);
}

static int row_take(void *context, struct flow *flow, const struct sequence_row *row)
{
	struct order_recording *recording = context;
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

int order_definitions_take(void *context, const struct sequence_definitions *row)
{
	struct order_recording *recording = context;

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
	struct order_recording *recording = context;

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

int order_cycle_take(void *context, const struct flow_cycle *cycle)
{
	struct order_recording *recording = context;

	*array_push(&recording->cycles) = *cycle;
	return cyclepack_add(&recording->pack, cycle);
}

static int table_order(const void *left, const void *right)
{
	const struct profile_cycle_table *a = left, *b = right;

	return (a->level > b->level) - (a->level < b->level);
}

/* As a profile has them. */
void order_recording_end(struct order_recording *recording)
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

void order_thread_record(struct flow_space *space, uint32_t thread, const uint32_t *order,
			 size_t count)
{
	struct flow *flow = flow_create(space, &thread);

	assert_int_equal(flow_push(flow, order, count), 0);
	assert_int_equal(flow_finish(flow), 0);
	flow_destroy(flow);
}

struct flow_space *order_space_make(struct order_recording *recording)
{
	const struct flow_space_options options = { .blocks = segment_blocks,
						    .row = row_take,
						    .definitions = order_definitions_take,
						    .cycle = order_cycle_take,
						    .row_repeats = 512,
						    .context = recording };
	struct flow_space *space = NULL;

	*recording = (struct order_recording){};
	cyclepack_init(&recording->pack, piece_take, recording);
	assert_int_equal(flow_space_create(&options, &space), 0);
	flow_weights_set(space, weights, FIXTURE_COUNT(weights));
	return space;
}

void order_recording_make(struct order_recording *recording)
{
	struct flow_space *space = order_space_make(recording);

	order_thread_record(space, 1, first_blocks, FIXTURE_COUNT(first_blocks));
	order_thread_record(space, 2, second_blocks, FIXTURE_COUNT(second_blocks));
	assert_int_equal(flow_space_finish(space), 0);
	order_recording_end(recording);
	flow_space_destroy(space);
}

const struct profile *order_recording_profile(struct order_recording *recording)
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

void order_recording_free(struct order_recording *recording)
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

struct table *order_view(const struct profile *profile, const char *name,
			 const struct view_request *request)
{
	struct table *table = NULL;

	assert_int_equal(view_run(view_find(name), profile, request, &table), 0);
	return table;
}

uint64_t order_number(const struct table *table, size_t row, const char *column)
{
	int index = table_column(table, column);

	assert_true(index >= 0 && row < table->row_count);
	assert_true(table_row(table, row)[index].set);
	return table_row(table, row)[index].number;
}

const char *order_text(const struct table *table, size_t row, const char *column)
{
	int index = table_column(table, column);

	assert_true(index >= 0 && row < table->row_count);
	return table_row(table, row)[index].text;
}
