// SPDX-License-Identifier: BSD-2-Clause
/*
 * What a thread did at a point of its life: the n-th instruction, path or stratum.
 *
 * The rows of a thread say how far it had come at their ends: one search finds the row, and only
 * that is decoded; for a stratum also the rows in which it began. Shown are the repeated paths
 * around the point and the blocks of the one that ran.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "analyse/meta.h"
#include "analyse/order.h"
#include "analyse/steps.h"
#include "analyse/views.h"
#include "base/err.h"
#include "paths/layer.h"

enum { AROUND = 3 }; /* repeated paths shown before and behind */

struct at {
	const struct profile *profile;
	const struct view_request *request;
	struct table *table;
	uint32_t thread;
	const struct profile_flow *rows;
	size_t row_count;
	struct order_code code;
	struct sequence_repeats repeats; /* of the row in hand */
};

static struct sequence_position row_begin(const struct at *at, size_t row)
{
	return row ? order_end(&at->rows[row - 1]) : (struct sequence_position){};
}

static int row_decode(struct at *at, size_t row)
{
	struct sequence_position begin = row_begin(at, row);

	return order_row_read(&at->code, &at->rows[row], &begin, &at->repeats);
}

/* The first row that ends behind it. */
static size_t row_find(const struct at *at, enum sequence_unit unit, uint64_t n)
{
	size_t first = 0, end = at->row_count;

	while (first < end) {
		size_t middle = first + (end - first) / 2;

		if (order_end(&at->rows[middle]).units[unit] <= n)
			first = middle + 1;
		else
			end = middle;
	}
	return first;
}

/* --- Strata ----------------------------------------------------------------------------------- */

struct stratum_search {
	uint64_t left; /* strata before it */
	size_t first; /* repeated path it begins with, once found */
	bool found;
};

static void stratum_take(void *context, size_t first, size_t count)
{
	struct stratum_search *search = context;

	if (search->found)
		return;
	search->found = !search->left;
	search->first = first;
	search->left -= !search->found;
}

/*
 * The repeated path with which the n-th stratum begins. Strata are found again from where the one
 * began that was open at the end of the row before.
 */
static int stratum_find(struct at *at, uint64_t n, uint64_t *ret)
{
	size_t last = row_find(at, SEQUENCE_STRATUM, n), row;
	uint64_t start = last ? at->rows[last - 1].stratum_start : 0;
	uint32_t max_cycle = (uint32_t)meta_number(at->profile, META_MAX_CYCLE);
	struct stratum_search search = { .left = n - row_begin(at, last).units[SEQUENCE_STRATUM] };
	ARRAY(struct sequence_repeat) all = {};
	size_t open;
	int err = 0;

	for (row = row_find(at, SEQUENCE_REPEAT, start); row <= last && !err; row++) {
		uint64_t begin = row_begin(at, row).units[SEQUENCE_REPEAT];

		err = row_decode(at, row);
		for (size_t i = 0; i < at->repeats.items.count && !err; i++)
			if (begin + i >= start)
				*array_push(&all) = at->repeats.items.items[i];
	}
	if (!err) {
		open = sequence_strata(all.items, all.count,
				       max_cycle ? max_cycle : LAYER_MAX_CYCLE, stratum_take,
				       &search);
		*ret = start + (search.found ? search.first : open);
	}
	array_deinit(&all);
	return err;
}

/* --- Rows ------------------------------------------------------------------------------------- */

enum {
	A_MARK,
	A_INSTRUCTION,
	A_PATH_NUMBER,
	A_PATH,
	A_TRIPS,
	A_TRIP,
	A_BLOCK,
	A_INSTRUCTIONS,
	A_WHERE,
	A_KIND = A_WHERE + STEP_COLUMNS,
	A_HERE,
	A_PID,
	A_TID,
	A_ADDRESS,
	A_COLUMNS
};

static const struct column at_columns[] = {
	[A_MARK] = { "mark", "", COLUMN_TEXT, COLUMN_PEOPLE },
	[A_INSTRUCTION] = { "instruction", "Instruction", COLUMN_COUNT },
	[A_PATH_NUMBER] = { "path_number", "Number", COLUMN_COUNT, .spare = 2 },
	[A_PATH] = { "path", "Path", COLUMN_INTEGER },
	[A_TRIPS] = { "trips", "Trips", COLUMN_COUNT },
	[A_TRIP] = { "trip", "Trip", COLUMN_COUNT },
	[A_BLOCK] = { "block", "Block", COLUMN_INTEGER },
	[A_INSTRUCTIONS] = { "instructions", "Each", COLUMN_COUNT, .spare = 1 },
	[A_WHERE] = STEP_COLUMN_LIST,
	[A_KIND] = { "kind", "", COLUMN_TEXT, COLUMN_DATA },
	[A_HERE] = { "here", "", COLUMN_BOOL, COLUMN_DATA },
	[A_PID] = { "pid", "", COLUMN_INTEGER, COLUMN_DATA },
	[A_TID] = { "tid", "", COLUMN_INTEGER, COLUMN_DATA },
	[A_ADDRESS] = { "address", "", COLUMN_ADDRESS, COLUMN_DATA },
};

static struct cell *row_add(const struct at *at, const char *kind, bool here, uint64_t instruction)
{
	const struct profile_thread *thread = &at->profile->threads[at->thread];
	struct cell *row = table_row_add(at->table);

	row[A_KIND] = cell_text(kind);
	row[A_HERE] = cell_number(here);
	row[A_PID] = cell_integer(at->profile->processes[thread->process].pid);
	row[A_TID] = cell_integer(thread->tid);
	row[A_INSTRUCTION] = cell_number(instruction);
	return row;
}

static void blocks_fill(const struct at *at, const uint32_t *blocks, size_t count, struct cell *row)
{
	struct order_blocks all = { .items = { (uint32_t *)blocks, count, count } };
	struct steps steps = {};

	steps_make(at->profile, &all, &steps);
	if (steps.items.count)
		step_fill(at->table, at->profile, &steps.items.items[0], &row[A_WHERE]);
	array_deinit(&steps.items);
}

static int repeat_row_add(const struct at *at, size_t index, const struct sequence_position *begin,
			  bool here)
{
	const struct sequence_repeat *repeat = &at->repeats.items.items[index];
	struct cell *row = row_add(at, "path", here, begin->units[SEQUENCE_INSTRUCTION]);
	struct order_blocks blocks = {};
	int err = order_path_blocks(&at->code, repeat->path, &blocks);

	row[A_PATH_NUMBER] = cell_number(begin->units[SEQUENCE_PATH]);
	row[A_PATH] = cell_integer((int64_t)repeat->path);
	row[A_TRIPS] = cell_number(repeat->trips);
	row[A_INSTRUCTIONS] = cell_number(order_path_weight(&at->code, repeat->path));
	if (!err)
		blocks_fill(at, blocks.items.items, blocks.items.count, row);
	array_deinit(&blocks.items);
	return err;
}

/* The blocks of the trip; the one that holds the instruction is marked. */
static void block_rows_add(const struct at *at, const struct sequence_place *place)
{
	const struct profile *profile = at->profile;
	uint64_t path = at->repeats.items.items[place->repeat].path;
	uint64_t now = place->before.units[SEQUENCE_INSTRUCTION];
	const uint32_t *blocks = NULL;
	size_t length = sequence_path(&at->code.paths, path, &blocks);

	for (size_t i = 0; i < length; i++) {
		const struct profile_block *block = &profile->blocks[blocks[i]];
		struct cell *row = row_add(at, "block", i == place->block, now);

		if (i == place->block)
			row[A_MARK] = cell_text(">");
		row[A_TRIP] = cell_number(place->trip);
		row[A_BLOCK] = cell_integer(blocks[i]);
		row[A_INSTRUCTIONS] = cell_number(block->instructions);
		row[A_ADDRESS] = cell_number(profile->locations[block->location].address);
		blocks_fill(at, &blocks[i], 1, row);
		now += block->instructions;
	}
}

/* Moves a position over repeated paths of the row. */
static void position_move(const struct at *at, size_t from, size_t to,
			  struct sequence_position *position)
{
	for (size_t i = from; i < to; i++) {
		const struct sequence_repeat *repeat = &at->repeats.items.items[i];

		position->units[SEQUENCE_INSTRUCTION] +=
			repeat->trips * order_path_weight(&at->code, repeat->path);
		position->units[SEQUENCE_PATH] += repeat->trips;
	}
}

static int place_show(const struct at *at, size_t row, const struct sequence_place *place)
{
	size_t first = place->repeat > AROUND ? place->repeat - AROUND : 0;
	size_t end = place->repeat + AROUND + 1;
	struct sequence_position position = row_begin(at, row);
	int err = 0;

	end = end < at->repeats.items.count ? end : at->repeats.items.count;
	position_move(at, 0, first, &position);
	for (size_t i = first; i < end && !err; i++) {
		err = repeat_row_add(at, i, &position, i == place->repeat);
		if (i == place->repeat && !err)
			block_rows_add(at, place);
		position_move(at, i, i + 1, &position);
	}
	return err;
}

/* --- The view --------------------------------------------------------------------------------- */

static int point_show(struct at *at)
{
	enum sequence_unit unit = (enum sequence_unit)(at->request->at - 1);
	uint64_t n = at->request->position;
	struct sequence_position begin;
	struct sequence_place place;
	size_t row;
	int err = 0;

	if (unit == SEQUENCE_STRATUM) {
		err = stratum_find(at, n, &n);
		unit = SEQUENCE_REPEAT;
	}
	row = row_find(at, unit, n);
	if (!err && row == at->row_count)
		err = err_set(-EBADMSG,
			      "strata of thread %u do not fit its rows: the profile is "
			      "damaged",
			      at->profile->threads[at->thread].tid);
	err = err ? err : row_decode(at, row);
	if (err)
		return err;
	begin = row_begin(at, row);
	err = sequence_locate(&at->repeats, &at->code.paths, at->code.weights.items,
			      at->code.weights.count, &begin, unit, n, &place);
	return err ? err : place_show(at, row, &place);
}

static int thread_show(struct at *at)
{
	int err = order_code_init(&at->code, at->profile, at->profile->threads[at->thread].process);

	sequence_repeats_init(&at->repeats);
	err = err ? err : point_show(at);
	sequence_repeats_deinit(&at->repeats);
	order_code_deinit(&at->code);
	return err;
}

static int nowhere(const struct view_request *request, uint64_t longest)
{
	return err_set(-EINVAL,
		       "--%s %" PRIu64
		       ": no thread that is selected came so far; they are numbered "
		       "from 0, and the longest had %" PRIu64,
		       sequence_unit_text((enum sequence_unit)(request->at - 1)), request->position,
		       longest);
}

int view_at(const struct profile *profile, const struct view_request *request, struct table **ret)
{
	AUTO(table_destroy_auto) struct table *table = table_create("at", at_columns, A_COLUMNS);
	struct at at = { .profile = profile, .request = request, .table = table };
	uint64_t longest = 0;
	int err = 0;

	if (request->at == AT_NOTHING)
		return err_set(
			-EINVAL,
			"the view at shows one point of each thread; say which with --instruction, "
			"--path or --stratum N");
	order_totals_set(table, profile, 0);
	for (uint32_t i = 1; i < profile->thread_count && !err; i++) {
		struct sequence_position end = order_thread_end(profile, i);
		uint64_t reached = end.units[request->at - 1];

		if (!filter_thread(&request->filter, profile, i))
			continue;
		longest = reached > longest ? reached : longest;
		table->totals.selected += end.units[SEQUENCE_INSTRUCTION];
		if (reached <= request->position)
			continue;
		at.thread = i;
		at.row_count = order_rows(profile, i, &at.rows);
		err = thread_show(&at);
	}
	if (!err && !table->row_count)
		err = nowhere(request, longest);
	table->group_column = A_TID;
	if (!err)
		*ret = take_ptr(table);
	return err;
}
