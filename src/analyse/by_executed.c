// SPDX-License-Identifier: BSD-2-Clause
/*
 * Code and tasks measured by what was executed. Counts are of blocks; the parts of a block say
 * which functions and lines its instructions belong to. A block counts where it begins.
 *
 * Totals are of the metric, instructions or blocks. Losses are counted in segments, whose number of
 * instructions is not known: they are taken to be as long as the others on average. Where the tool
 * only marks, each block counts once, whichever thread executed it, and the metric is blocks.
 */
#include <stdlib.h>
#include <string.h>

#include "analyse/measure.h"
#include "analyse/meta.h"
#include "analyse/names.h"
#include "analyse/views.h"
#include "base/map.h"
#include "base/mem.h"

struct tally {
	uint64_t instructions, blocks;
};

/* The executions that the filters select. */
struct executed {
	const struct profile *profile;
	const struct filter *filter;
	bool marks; /* blocks have no counts */
	bool by_blocks; /* the metric is blocks, otherwise instructions */
	bool *threads;
	uint64_t *counts; /* by block, of the threads that are selected */
	struct tally kept, selected;
	struct table *table;
};

static void executed_deinit(struct executed *executed)
{
	free(executed->threads);
	free(executed->counts);
}

static uint64_t weigh(const struct executed *executed, const struct tally *tally)
{
	return executed->by_blocks ? tally->blocks : tally->instructions;
}

/* A block whose parts were not recorded counts as one part at its own location. */
static struct profile_block_part block_part(const struct profile *profile, uint32_t block,
					    uint32_t part)
{
	const struct profile_block *row = &profile->blocks[block];

	if (!row->part_count)
		return (struct profile_block_part){ .block = block,
						    .location = row->location,
						    .instructions = row->instructions };
	return profile->block_parts[row->first_part + part];
}

static uint32_t parts_of(const struct profile *profile, uint32_t block)
{
	uint32_t count = profile->blocks[block].part_count;

	return count ? count : 1;
}

static const struct profile_frame *innermost(const struct profile *profile, uint32_t location)
{
	static const struct profile_frame unknown;
	const struct profile_location *row = &profile->locations[location];

	return row->frame_count ? &profile->frames[row->first_frame] : &unknown;
}

static bool is_selected(const struct executed *executed, uint32_t location)
{
	const struct profile *profile = executed->profile;

	return filter_symbol(executed->filter, profile, innermost(profile, location)->symbol) &&
	       filter_module(executed->filter, profile, profile->locations[location].module);
}

/* What one execution of a block adds to the code that is selected. */
static struct tally block_tally(const struct executed *executed, uint32_t block)
{
	struct tally tally = {};

	for (uint32_t i = 0; i < parts_of(executed->profile, block); i++) {
		struct profile_block_part part = block_part(executed->profile, block, i);

		if (!is_selected(executed, part.location))
			continue;
		tally.instructions += part.instructions;
		tally.blocks += i == 0;
	}
	return tally;
}

static void tally_add(struct tally *sum, const struct tally *each, uint64_t count)
{
	sum->instructions += each->instructions * count;
	sum->blocks += each->blocks * count;
}

static uint64_t segments_kept(const struct profile *profile)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < profile->thread_segments_count; i++)
		sum += profile->thread_segments[i].segments;
	return sum;
}

static void totals_make(struct executed *executed)
{
	const struct profile_recording *recording =
		profile_recording(executed->profile, RECORDING_EXECUTED);
	struct totals *totals = &executed->table->totals;
	uint64_t segments = segments_kept(executed->profile);
	uint64_t kept = weigh(executed, &executed->kept);
	double each = segments ? (double)kept / (double)segments : 1;
	size_t count = recording ? recording->loss_count : 0;
	struct profile_named_count *losses =
		table_alloc(executed->table, (count + 1) * sizeof(*losses));

	*totals = (struct totals){ .seen = kept,
				   .kept = kept,
				   .selected = weigh(executed, &executed->selected),
				   .losses = losses,
				   .loss_count = count };
	for (size_t i = 0; i < count; i++) {
		losses[i] = recording->losses[i];
		losses[i].count = (uint64_t)((double)losses[i].count * each);
		totals->seen += losses[i].count;
	}
}

static void executed_init(struct executed *executed, const struct profile *profile,
			  const struct view_request *request, struct table *table)
{
	*executed = (struct executed){ .profile = profile,
				       .filter = &request->filter,
				       .marks = meta_only_marks(profile),
				       .by_blocks = meta_only_marks(profile) ||
						    request->metric == METRIC_BLOCKS,
				       .table = table };
	executed->threads = mem_zalloc(profile->thread_count + 1);
	executed->counts = mem_zalloc((profile->block_count + 1) * sizeof(*executed->counts));
	for (uint32_t i = 0; i < profile->thread_count; i++)
		executed->threads[i] = filter_thread(executed->filter, profile, i);
	for (size_t i = 0; i < profile->execution_count; i++) {
		const struct profile_execution *row = &profile->executions[i];
		struct tally each = { profile->blocks[row->block].instructions, 1 };
		bool again = executed->marks && i && row[-1].block == row->block;

		if (!again)
			tally_add(&executed->kept, &each, row->count);
		if (!executed->threads[row->thread] ||
		    (executed->marks && executed->counts[row->block]))
			continue;
		executed->counts[row->block] += row->count;
		each = block_tally(executed, row->block);
		tally_add(&executed->selected, &each, row->count);
	}
	totals_make(executed);
}

void executed_totals_set(struct table *table, const struct profile *profile,
			 const struct filter *filter)
{
	const struct view_request request = { .filter = filter ? *filter : (struct filter){} };
	struct executed executed;

	executed_init(&executed, profile, &request, table);
	executed_deinit(&executed);
	if (!filter)
		table->totals.selected = 0;
}

/* --- Rows ------------------------------------------------------------------------------------- */

/*
 * Indices of struct measured.amounts. MOST is used for code: the executions of the block that
 * determines the row's location. The others from there on are used for tasks.
 */
enum { INSTRUCTIONS, BLOCKS, MOST, SEGMENTS = MOST, LOST, PATHS, STRATA };

/* Rows by their keys. */
struct index {
	struct map places; /* key to place + 1 */
	struct measured_rows *rows;
};

static struct measured *row_of(struct index *index, uint64_t key)
{
	uint64_t *place = map_at(&index->places, key, NULL);

	if (!*place) {
		*array_push(index->rows) = (struct measured){ .key = key };
		*place = index->rows->count;
	}
	return &index->rows->items[*place - 1];
}

static void amounts_add(struct measured *row, const struct tally *each, uint64_t count)
{
	row->amounts[INSTRUCTIONS] += each->instructions * count;
	row->amounts[BLOCKS] += each->blocks * count;
}

static void rows_init(struct measured_rows *rows, const struct executed *executed)
{
	rows->marks = executed->marks;
	rows->rank = rows->share = executed->by_blocks ? BLOCKS : INSTRUCTIONS;
	rows->second = executed->by_blocks ? INSTRUCTIONS : BLOCKS;
}

static void amounts_fill(const struct measured_rows *rows, const struct measured *from,
			 const struct table *table, struct cell *row)
{
	enum { C_INSTRUCTIONS, C_SHARE, C_BLOCKS };

	if (!rows->marks)
		row[C_INSTRUCTIONS] = cell_number(from->amounts[INSTRUCTIONS]);
	row[C_SHARE] = cell_real(share_of(from->amounts[rows->rank], table->totals.seen));
	row[C_BLOCKS] = cell_number(from->amounts[BLOCKS]);
}

static const struct column columns[] = {
	{ "instructions", "Instructions", COLUMN_COUNT, .optional = true },
	{ "share", "Share", COLUMN_SHARE },
	{ "blocks", "Blocks", COLUMN_COUNT },
	/* Those of tasks also have: */
	{ "segments", "Segments", COLUMN_COUNT, .spare = 7 },
	{ "paths", "Paths", COLUMN_COUNT, .optional = true, .spare = 4 },
	{ "strata", "Strata", COLUMN_COUNT, .optional = true, .spare = 6 },
	{ "lost", "", COLUMN_COUNT, COLUMN_DATA },
};

enum { CODE_COLUMNS = 3, TASK_COLUMNS = 7 };

/* --- Code ------------------------------------------------------------------------------------- */

#define KEY_FUNCTION (UINT64_C(1) << 63) /* a line that is unknown: the function as a whole */
#define KEY_MODULE (UINT64_C(1) << 62) /* a function that is unknown: the module as a whole */

static uint64_t code_key(const struct profile *profile, uint32_t location, enum grain grain)
{
	const struct profile_frame *frame = innermost(profile, location);
	uint32_t module = profile->locations[location].module;
	uint64_t function = frame->symbol ? frame->symbol : KEY_MODULE | module;

	if (grain == BY_MODULE)
		return module;
	if (grain == BY_FUNCTION)
		return function;
	return frame->file ? (uint64_t)frame->file << 32 | frame->line : KEY_FUNCTION | function;
}

static void place_fill(const struct profile *profile, uint32_t location, struct measured *row)
{
	const struct profile_frame *frame = innermost(profile, location);

	row->module = profile->locations[location].module;
	row->symbol = frame->symbol;
	row->file = frame->file;
	row->line = frame->line;
	row->name = name_of_symbol(profile, frame->symbol);
	row->inlined = frame->symbol && profile->symbols[frame->symbol].inlined;
}

static void block_collect(const struct executed *executed, uint32_t block, enum grain grain,
			  struct index *index)
{
	const struct profile *profile = executed->profile;
	uint64_t count = executed->counts[block];

	for (uint32_t i = 0; count && i < parts_of(profile, block); i++) {
		struct profile_block_part part = block_part(profile, block, i);
		struct tally each = { part.instructions, i == 0 };
		struct measured *row;

		if (!is_selected(executed, part.location))
			continue;
		row = row_of(index, code_key(profile, part.location, grain));
		amounts_add(row, &each, count);
		if (!row->name || count > row->amounts[MOST]) {
			place_fill(profile, part.location, row);
			row->amounts[MOST] = count;
		}
	}
}

static int code_collect(const struct profile *profile, const struct view_request *request,
			enum grain grain, struct table *table, struct measured_rows *ret)
{
	AUTO(executed_deinit) struct executed executed;
	struct index index = { .rows = ret };

	executed_init(&executed, profile, request, table);
	rows_init(ret, &executed);
	for (uint32_t block = 1; block < profile->block_count; block++)
		block_collect(&executed, block, grain, &index);
	map_deinit(&index.places);
	return 0;
}

const struct measure code_by_executed = { columns, CODE_COLUMNS, code_collect, amounts_fill };

/* --- Processes and threads -------------------------------------------------------------------- */

/*
 * Where blocks are only marked, a process has each block once, whichever of its threads executed
 * it.
 */
static bool already_there(const struct executed *executed, struct map *seen, uint64_t key,
			  uint32_t block)
{
	bool fresh;

	if (!executed->marks)
		return false;
	map_at(seen, key << 32 | block, &fresh);
	return !fresh;
}

static uint64_t task_key(const struct profile *profile, uint32_t thread, enum grain grain)
{
	return grain == BY_PROCESS ? profile->threads[thread].process : thread;
}

static void executions_collect(const struct executed *executed, enum grain grain,
			       struct index *index)
{
	struct map seen = {};

	for (size_t i = 0; i < executed->profile->execution_count; i++) {
		const struct profile_execution *from = &executed->profile->executions[i];
		uint64_t key = task_key(executed->profile, from->thread, grain);
		struct tally each;

		if (!executed->threads[from->thread] ||
		    already_there(executed, &seen, key, from->block))
			continue;
		each = block_tally(executed, from->block);
		if (each.instructions || each.blocks)
			amounts_add(row_of(index, key), &each, from->count);
	}
	map_deinit(&seen);
}

/* Adds to an amount of a task, if the thread is selected and the task has a row. */
static void thread_add(const struct executed *executed, uint32_t thread, enum grain grain,
		       struct index *index, unsigned amount, uint64_t count)
{
	uint64_t key = task_key(executed->profile, thread, grain);

	if (executed->threads[thread] && map_find(&index->places, key))
		row_of(index, key)->amounts[amount] += count;
}

static void sequences_collect(const struct executed *executed, enum grain grain,
			      struct index *index)
{
	const struct profile *profile = executed->profile;

	for (size_t i = 0; i < profile->thread_segments_count; i++) {
		const struct profile_thread_segments *of = &profile->thread_segments[i];

		thread_add(executed, of->thread, grain, index, SEGMENTS, of->segments);
		thread_add(executed, of->thread, grain, index, LOST, of->lost);
	}
	for (size_t i = 0; i < profile->layer_count; i++) {
		const struct profile_layer *layer = &profile->layers[i];

		if (layer->level <= 1)
			thread_add(executed, layer->thread, grain, index,
				   layer->level ? STRATA : PATHS, layer->cycles);
	}
}

static int tasks_collect(const struct profile *profile, const struct view_request *request,
			 enum grain grain, struct table *table, struct measured_rows *ret)
{
	AUTO(executed_deinit) struct executed executed;
	struct index index = { .rows = ret };

	executed_init(&executed, profile, request, table);
	rows_init(ret, &executed);
	executions_collect(&executed, grain, &index);
	sequences_collect(&executed, grain, &index);
	array_each(ret, row)
		row->task = (uint32_t)row->key;
	map_deinit(&index.places);
	return 0;
}

static void task_fill(const struct measured_rows *rows, const struct measured *from,
		      const struct table *table, struct cell *row)
{
	enum { T_SEGMENTS = CODE_COLUMNS, T_PATHS, T_STRATA, T_LOST };

	amounts_fill(rows, from, table, row);
	row[T_SEGMENTS] = cell_number(from->amounts[SEGMENTS]);
	row[T_LOST] = cell_number(from->amounts[LOST]);
	if (from->amounts[PATHS])
		row[T_PATHS] = cell_number(from->amounts[PATHS]);
	if (from->amounts[STRATA])
		row[T_STRATA] = cell_number(from->amounts[STRATA]);
}

const struct measure tasks_by_executed = { columns, TASK_COLUMNS, tasks_collect, task_fill };
