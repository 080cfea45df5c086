// SPDX-License-Identifier: BSD-2-Clause
/*
 * The paths of a trace, hottest first.
 *
 *	in	a profile of a trace and a request
 *	out	the table of paths, or of what is in them
 *	owner	the caller of view_run() (views.c)
 *
 * How often a path was run is in the tables of cycles, for all threads of its process together.
 * Where a filter leaves only some of them, it is counted in their rows. A path that was forgotten
 * for want of memory and came again has several numbers: they are one row, under the lowest.
 */
#include <stdlib.h>
#include <string.h>

#include "analyse/heats.h"
#include "analyse/order_cycles.h"
#include "analyse/steps.h"
#include "analyse/views.h"
#include "base/map.h"

enum { STEPS_SHOWN = 12 }; /* in text, of a path */

struct hot {
	uint32_t code; /* index */
	uint64_t path; /* number */
	uint64_t trips, repeats;
	uint64_t weight; /* instructions of a trip */
	uint64_t heat; /* of a trip: what the paths are ranked by */
	uint64_t next; /* index + 1 of one with the same hash; 0 none */
};

struct paths {
	const struct profile *profile;
	const struct view_request *request;
	struct table *table;
	ARRAY(struct order_code) codes; /* of the processes that are selected */
	ARRAY(struct hot) items;
	struct map index; /* hash of the blocks to index + 1 */
	bool *wanted; /* by block; NULL: all are */
	struct heats heats; /* with request->has_heat only */
};

static void paths_deinit(struct paths *paths)
{
	array_each(&paths->codes, code)
		order_code_deinit(code);
	array_deinit(&paths->codes);
	array_deinit(&paths->items);
	map_deinit(&paths->index);
	free(paths->wanted);
	if (paths->request->has_heat)
		heats_deinit(&paths->heats);
}

static bool runs_equal(const struct order_code *code, uint64_t a, uint64_t b)
{
	const uint32_t *left = NULL, *right = NULL;
	size_t length = sequence_path(&code->paths, a, &left);

	return sequence_path(&code->paths, b, &right) == length &&
	       !memcmp(left, right, length * sizeof(*left));
}

/* The entry of the path, which may have come under another number. */
static struct hot *hot_of(struct paths *paths, uint32_t code, uint64_t path)
{
	const struct order_code *of = &paths->codes.items[code];
	const uint32_t *blocks = NULL;
	size_t length = sequence_path(&of->paths, path, &blocks);
	uint64_t hash = hash64_pair(hash_bytes(blocks, length * sizeof(*blocks)), code);
	uint64_t *place = map_at(&paths->index, hash, NULL), first = *place;

	for (uint64_t i = first; i; i = paths->items.items[i - 1].next) {
		struct hot *hot = &paths->items.items[i - 1];

		if (hot->code == code && runs_equal(of, hot->path, path))
			return hot;
	}
	*array_push(&paths->items) = (struct hot){
		.code = code, .path = path, .weight = order_path_weight(of, path), .next = first
	};
	*place = paths->items.count;
	return &paths->items.items[paths->items.count - 1];
}

static void hot_add(struct paths *paths, uint32_t code, uint64_t path, uint64_t trips,
		    uint64_t repeats)
{
	struct hot *hot = hot_of(paths, code, path);

	hot->trips += trips;
	hot->repeats += repeats;
}

static int rows_take(struct paths *paths, uint32_t code)
{
	const struct profile *profile = paths->profile;
	struct order_trips trips = {};
	int err = 0;

	for (uint32_t i = 1; i < profile->thread_count && !err; i++)
		if (profile->threads[i].process == paths->codes.items[code].process &&
		    filter_thread(&paths->request->filter, profile, i))
			err = order_trips_add(&paths->codes.items[code], i, &trips);
	for (size_t i = 1; i < trips.trips.count && !err; i++)
		if (trips.trips.items[i])
			hot_add(paths, code, i, trips.trips.items[i], trips.repeats.items[i]);
	order_trips_deinit(&trips);
	return err;
}

static uint64_t trips_sum(const struct order_cycles *cycles)
{
	uint64_t sum = 0;

	array_each(&cycles->items, cycle)
		sum += cycle->trips;
	return sum;
}

/*
 * All threads together ran so many paths. A recorder that was killed has written rows, and not how
 * often paths were run.
 */
static int cycles_take(struct paths *paths, uint32_t code, uint64_t ran)
{
	struct order_cycles cycles;
	bool complete;
	int err;

	order_cycles_init(&cycles);
	err = order_cycles_add(&cycles, &paths->codes.items[code], 1);
	complete = !err && trips_sum(&cycles) >= ran;
	for (size_t i = 0; i < cycles.items.count && complete; i++) {
		const struct order_cycle *path = &cycles.items.items[i];

		hot_add(paths, code, path->number, path->trips, path->repeats);
	}
	order_cycles_deinit(&cycles);
	return err || complete ? err : rows_take(paths, code);
}

static int process_take(struct paths *paths, uint32_t process)
{
	const struct profile *profile = paths->profile;
	size_t all = 0, selected = 0;
	uint64_t ran = 0;
	uint32_t code = (uint32_t)paths->codes.count;
	int err;

	for (uint32_t i = 1; i < profile->thread_count; i++) {
		if (profile->threads[i].process != process ||
		    !order_thread_end(profile, i).units[SEQUENCE_BLOCK])
			continue;
		all++;
		ran += order_thread_end(profile, i).units[SEQUENCE_PATH];
		selected += filter_thread(&paths->request->filter, profile, i);
	}
	if (!selected)
		return 0;
	err = order_code_init(array_push(&paths->codes), profile, process);
	if (err)
		return err;
	return selected == all ? cycles_take(paths, code, ran) : rows_take(paths, code);
}

static uint64_t hot_value(const struct hot *hot)
{
	uint64_t value;

	return __builtin_mul_overflow(hot->trips, hot->weight, &value) ? UINT64_MAX : value;
}

static uint64_t heat_value(const struct hot *hot)
{
	uint64_t value;

	return __builtin_mul_overflow(hot->trips, hot->heat, &value) ? UINT64_MAX : value;
}

/* The sum over the blocks of each path; without a kind, instructions. */
static int heats_fill(struct paths *paths)
{
	struct order_blocks blocks = {};
	int err = 0;

	array_each(&paths->items, hot) {
		hot->heat = paths->request->has_heat ? 0 : hot->weight;
		if (!paths->request->has_heat)
			continue;
		blocks.items.count = 0;
		err = order_path_blocks(&paths->codes.items[hot->code], hot->path, &blocks);
		if (err)
			break;
		array_each(&blocks.items, block)
			hot->heat +=
				heats_of(&paths->heats, *block, NULL)->of[paths->request->heat];
	}
	array_deinit(&blocks.items);
	return err;
}

static int hot_order(const void *left, const void *right)
{
	const struct hot *a = left, *b = right;
	uint64_t x = heat_value(a), y = heat_value(b);

	if (x != y)
		return x < y ? 1 : -1;
	if (a->code != b->code)
		return a->code < b->code ? -1 : 1;
	return (a->path > b->path) - (a->path < b->path);
}

static bool location_is_wanted(const struct paths *paths, uint32_t location)
{
	const struct filter *filter = &paths->request->filter;
	const struct profile_location *row = &paths->profile->locations[location];
	bool found = !row->frame_count && filter_symbol(filter, paths->profile, 0);

	for (uint32_t i = 0; i < row->frame_count && !found; i++)
		found = filter_symbol(filter, paths->profile,
				      paths->profile->frames[row->first_frame + i].symbol);
	return found && filter_module(filter, paths->profile, row->module);
}

/* By block, whether it has code that is asked for; inlined functions count where they are. */
static void wanted_make(struct paths *paths)
{
	const struct profile *profile = paths->profile;

	paths->wanted = mem_zalloc(profile->block_count);
	for (uint32_t i = 1; i < profile->block_count; i++) {
		const struct profile_block *block = &profile->blocks[i];

		paths->wanted[i] = location_is_wanted(paths, block->location);
		for (uint32_t j = 0; j < block->part_count && !paths->wanted[i]; j++)
			paths->wanted[i] = location_is_wanted(
				paths, profile->block_parts[block->first_part + j].location);
	}
}

static bool is_wanted(const struct paths *paths, const struct order_blocks *blocks)
{
	array_each(&blocks->items, block)
		if (paths->wanted[*block])
			return true;
	return false;
}

enum {
	P_SHARE,
	P_PATH,
	P_INSTRUCTIONS,
	P_TRIPS,
	P_REPEATS,
	P_LENGTH,
	P_HEAT,
	P_EACH_HEAT,
	P_PID,
	P_STEP_BLOCKS,
	P_WHERE,
	P_DATA = P_WHERE + STEP_COLUMNS,
	P_NUMBER = P_DATA,
	P_PART,
	P_ALL,
	P_OFTEN,
	P_TIMES,
	P_WEIGHT,
	P_BLOCKS,
	P_PROCESS,
	P_STEP,
	P_STEP_INSTRUCTIONS,
	P_COLUMNS
};

static const struct column path_columns[] = {
	[P_SHARE] = { "part", "Share", COLUMN_SHARE, COLUMN_PEOPLE },
	[P_PATH] = { "at", "Path", COLUMN_INTEGER, COLUMN_PEOPLE },
	[P_INSTRUCTIONS] = { "all", "Instructions", COLUMN_COUNT, COLUMN_PEOPLE, .spare = 3 },
	[P_TRIPS] = { "often", "Trips", COLUMN_COUNT, COLUMN_PEOPLE },
	[P_REPEATS] = { "times", "Repeats", COLUMN_COUNT, COLUMN_PEOPLE, .spare = 4 },
	[P_LENGTH] = { "each", "Each", COLUMN_COUNT, COLUMN_PEOPLE, .spare = 1 },
	[P_HEAT] = { "heat", "Heat", COLUMN_COUNT, .optional = true },
	[P_EACH_HEAT] = { "heat_each", "Each", COLUMN_COUNT, .optional = true },
	[P_PID] = { "process", "PID", COLUMN_INTEGER, COLUMN_PEOPLE, .optional = true },
	[P_STEP_BLOCKS] = { "step_blocks", "Blocks", COLUMN_COUNT, .spare = 2 },
	[P_WHERE] = STEP_COLUMN_LIST,
	[P_NUMBER] = { "path", "", COLUMN_INTEGER, COLUMN_DATA },
	[P_PART] = { "share", "", COLUMN_SHARE, COLUMN_DATA },
	[P_ALL] = { "instructions", "", COLUMN_COUNT, COLUMN_DATA },
	[P_OFTEN] = { "trips", "", COLUMN_COUNT, COLUMN_DATA },
	[P_TIMES] = { "repeats", "", COLUMN_COUNT, COLUMN_DATA },
	[P_WEIGHT] = { "weight", "", COLUMN_COUNT, COLUMN_DATA },
	[P_BLOCKS] = { "blocks", "", COLUMN_COUNT, COLUMN_DATA },
	[P_PROCESS] = { "pid", "", COLUMN_INTEGER, COLUMN_DATA },
	[P_STEP] = { "step", "", COLUMN_INTEGER, COLUMN_DATA },
	[P_STEP_INSTRUCTIONS] = { "step_instructions", "", COLUMN_COUNT, COLUMN_DATA },
};

static void path_fill(const struct paths *paths, const struct hot *hot,
		      const struct order_blocks *blocks, struct cell *row)
{
	const struct order_code *code = &paths->codes.items[hot->code];

	row[P_NUMBER] = cell_integer((int64_t)hot->path);
	row[P_PART] = cell_real(share_of(hot_value(hot), paths->table->totals.seen));
	row[P_ALL] = cell_number(hot_value(hot));
	row[P_OFTEN] = cell_number(hot->trips);
	row[P_TIMES] = cell_number(hot->repeats);
	row[P_WEIGHT] = cell_number(hot->weight);
	row[P_BLOCKS] = cell_number(blocks->items.count);
	if (paths->request->has_heat && !paths->request->people) {
		row[P_HEAT] = cell_number(heat_value(hot));
		row[P_EACH_HEAT] = cell_number(hot->heat);
	}
	row[P_PROCESS] = cell_integer(paths->profile->processes[code->process].pid);
}

/* Fills the cells of a path that stand in its first row only. */
static void path_head_fill(const struct paths *paths, const struct hot *hot, struct cell *row)
{
	if (paths->request->has_heat) {
		row[P_HEAT] = cell_number(heat_value(hot));
		row[P_EACH_HEAT] = cell_number(hot->heat);
	}
	row[P_PATH] = row[P_NUMBER];
	row[P_SHARE] = row[P_PART];
	row[P_INSTRUCTIONS] = row[P_ALL];
	row[P_TRIPS] = row[P_OFTEN];
	row[P_REPEATS] = row[P_TIMES];
	row[P_LENGTH] = row[P_WEIGHT];
	if (paths->codes.count > 1)
		row[P_PID] = row[P_PROCESS];
}

static void rest_row_add(struct paths *paths, const struct hot *hot, size_t steps)
{
	struct cell *row = table_row_add(paths->table);

	row[P_NUMBER] = cell_integer((int64_t)hot->path);
	row[P_WHERE] =
		cell_text(table_own(paths->table, mem_printf("... and %zu steps more", steps)));
}

static void path_rows_add(struct paths *paths, const struct hot *hot,
			  const struct order_blocks *blocks)
{
	size_t shown = paths->request->top ? paths->request->top : STEPS_SHOWN;
	struct steps steps = {};

	steps_make(paths->profile, blocks, &steps);
	if (!paths->request->people || steps.items.count <= shown + 1)
		shown = steps.items.count;
	for (size_t i = 0; i < shown; i++) {
		const struct step *step = &steps.items.items[i];
		struct cell *row = table_row_add(paths->table);

		path_fill(paths, hot, blocks, row);
		if (!i)
			path_head_fill(paths, hot, row);
		row[P_STEP] = cell_integer((int64_t)i);
		row[P_STEP_BLOCKS] = cell_number(step->count);
		row[P_STEP_INSTRUCTIONS] = cell_number(step->instructions);
		step_fill(paths->table, paths->profile, step, &row[P_WHERE]);
	}
	if (shown < steps.items.count)
		rest_row_add(paths, hot, steps.items.count - shown);
	array_deinit(&steps.items);
}

static int rows_add(struct paths *paths)
{
	const struct view_request *request = paths->request;
	struct order_blocks blocks = {};
	size_t shown = 0;
	int err = 0;

	array_each(&paths->items, hot) {
		uint64_t value = hot_value(hot);
		bool small = (request->limit && shown >= request->limit) ||
			     share_of(value, paths->table->totals.seen) < request->min_share;

		blocks.items.count = 0;
		if (!small || paths->wanted)
			err = order_path_blocks(&paths->codes.items[hot->code], hot->path, &blocks);
		if (err)
			break;
		if (paths->wanted && !is_wanted(paths, &blocks))
			continue;
		paths->table->totals.selected += value;
		if (small) {
			paths->table->omitted++;
			continue;
		}
		shown++;
		path_rows_add(paths, hot, &blocks);
	}
	array_deinit(&blocks.items);
	return err;
}

int view_paths(const struct profile *profile, const struct view_request *request,
	       struct table **ret)
{
	AUTO(table_destroy_auto)
	struct table *table = table_create("paths", path_columns, P_COLUMNS);
	AUTO(paths_deinit)
	struct paths paths = { .profile = profile, .request = request, .table = table };
	int err = 0;

	order_totals_set(table, profile, 0);
	if (filter_has_code(&request->filter))
		wanted_make(&paths);
	if (request->has_heat)
		heats_init(&paths.heats, profile, &request->code);
	for (uint32_t i = 1; i < profile->process_count && !err; i++)
		err = process_take(&paths, i);
	err = err ? err : heats_fill(&paths);
	if (err)
		return err;
	if (paths.items.count)
		qsort(paths.items.items, paths.items.count, sizeof(struct hot), hot_order);
	err = rows_add(&paths);
	if (!err)
		*ret = take_ptr(table);
	return err;
}
