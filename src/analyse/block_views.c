// SPDX-License-Identifier: BSD-2-Clause
/*
 * Blocks that were executed, hottest first, with their instructions: a row for each, with the
 * function and the line that it belongs to. Heat is what the block does when it is executed once,
 * times how often it was.
 */
#include <stdlib.h>

#include "analyse/heats.h"
#include "analyse/meta.h"
#include "analyse/names.h"
#include "analyse/steps.h"
#include "analyse/views.h"
#include "base/mem.h"

enum { SHOWN = 12 }; /* instructions of a block, in text */

struct hot_block {
	uint32_t block;
	uint64_t count, hot; /* hot: what they are ranked by */
};

struct blocks_view {
	const struct profile *profile;
	const struct view_request *request;
	struct table *table;
	struct heats heats;
	struct disassembler disassembler;
	ARRAY(struct hot_block) items;
	uint64_t whole; /* hot values of all blocks, whatever is selected */
};

enum {
	B_BLOCK,
	B_SHARE,
	B_HEAT,
	B_EXECUTED,
	B_EACH,
	B_ADDRESS,
	B_TEXT,
	B_WHERE,
	B_NUMBER = B_WHERE + STEP_COLUMNS,
	B_PART,
	B_HOT,
	B_COUNT,
	B_WEIGHT,
	B_INSTRUCTIONS,
	B_STEP,
	B_COLUMNS
};

static const struct column block_columns[] = {
	[B_BLOCK] = { "at", "Block", COLUMN_INTEGER, COLUMN_PEOPLE },
	[B_SHARE] = { "part", "Share", COLUMN_SHARE, COLUMN_PEOPLE },
	[B_HEAT] = { "all", "Heat", COLUMN_COUNT, COLUMN_PEOPLE },
	[B_EXECUTED] = { "often", "Executed", COLUMN_COUNT, COLUMN_PEOPLE },
	[B_EACH] = { "each", "Each", COLUMN_COUNT, COLUMN_PEOPLE },
	[B_ADDRESS] = { "address", "Address", COLUMN_ADDRESS },
	[B_TEXT] = { "text", "Instruction", COLUMN_TEXT, .elastic = true },
	[B_WHERE] = STEP_COLUMN_LIST,
	[B_NUMBER] = { "block", "", COLUMN_INTEGER, COLUMN_DATA },
	[B_PART] = { "share", "", COLUMN_SHARE, COLUMN_DATA },
	[B_HOT] = { "heat", "", COLUMN_COUNT, COLUMN_DATA },
	[B_COUNT] = { "executed", "", COLUMN_COUNT, COLUMN_DATA },
	[B_WEIGHT] = { "heat_each", "", COLUMN_COUNT, COLUMN_DATA },
	[B_INSTRUCTIONS] = { "instructions", "", COLUMN_COUNT, COLUMN_DATA },
	[B_STEP] = { "step", "", COLUMN_INTEGER, COLUMN_DATA },
};

/* --- What is hot ------------------------------------------------------------------------------ */

static enum heat_kind kind_of(const struct blocks_view *view)
{
	return view->request->has_heat ? view->request->heat : HEAT_INSTRUCTIONS;
}

static bool is_selected(const struct blocks_view *view, uint32_t block)
{
	const struct profile *profile = view->profile;
	uint32_t location = profile->blocks[block].location;

	return filter_symbol(&view->request->filter, profile,
			     location_function(profile, location)) &&
	       filter_module(&view->request->filter, profile, profile->locations[location].module);
}

static void block_take(struct blocks_view *view, uint32_t block, uint64_t all, uint64_t selected)
{
	const struct heat *heat = heats_of(&view->heats, block, NULL);
	struct hot_block hot = { block, selected, heat_hot(heat, kind_of(view), selected) };

	view->whole += heat_hot(heat, kind_of(view), all);
	if (hot.hot && is_selected(view, block))
		*array_push(&view->items) = hot;
}

static void blocks_take(struct blocks_view *view)
{
	const struct profile *profile = view->profile;
	AUTO(free_ptr) uint64_t *all = mem_zalloc((profile->block_count + 1) * sizeof(*all));
	AUTO(free_ptr)
	uint64_t *selected = mem_zalloc((profile->block_count + 1) * sizeof(*selected));
	bool marks = meta_only_marks(profile); /* then each block counts once */

	for (size_t i = 0; i < profile->execution_count; i++) {
		const struct profile_execution *row = &profile->executions[i];

		all[row->block] += row->count;
		if (filter_thread(&view->request->filter, profile, row->thread))
			selected[row->block] += row->count;
	}
	for (uint32_t i = 1; i < profile->block_count; i++)
		if (all[i])
			block_take(view, i, marks ? 1 : all[i],
				   marks ? selected[i] > 0 : selected[i]);
}

static int hot_order(const void *left, const void *right)
{
	const struct hot_block *a = left, *b = right;

	if (a->hot != b->hot)
		return a->hot < b->hot ? 1 : -1;
	return (a->block > b->block) - (a->block < b->block);
}

/* --- Rows ------------------------------------------------------------------------------------- */

/* The location that says where the n-th instruction of a block belongs to. */
static uint32_t place_of(const struct profile *profile, uint32_t block, uint32_t instruction)
{
	const struct profile_block *row = &profile->blocks[block];

	for (uint32_t i = 0; i < row->part_count; i++) {
		const struct profile_block_part *part = &profile->block_parts[row->first_part + i];

		if (instruction < part->instructions)
			return part->location;
		instruction -= part->instructions;
	}
	return row->location;
}

static void place_fill(const struct blocks_view *view, uint32_t location, struct cell *row)
{
	const struct profile *profile = view->profile;
	const struct profile_location *at = &profile->locations[location];
	uint32_t line = at->frame_count ? profile->frames[at->first_frame].line : 0;

	step_fill(view->table, profile,
		  &(struct step){ .location = location, .line_low = line, .line_high = line },
		  &row[B_WHERE]);
}

static struct cell *row_add(const struct blocks_view *view, const struct hot_block *hot,
			    uint32_t step)
{
	const struct heat *heat = heats_of((struct heats *)&view->heats, hot->block, NULL);
	struct cell *row = table_row_add(view->table);

	row[B_NUMBER] = cell_integer(hot->block);
	row[B_PART] = cell_real(share_of(hot->hot, view->whole));
	row[B_HOT] = cell_number(hot->hot);
	row[B_COUNT] = cell_number(hot->count);
	row[B_WEIGHT] = cell_number(heat->of[kind_of(view)]);
	row[B_INSTRUCTIONS] = cell_number(view->profile->blocks[hot->block].instructions);
	row[B_STEP] = cell_integer(step);
	if (!step) {
		row[B_BLOCK] = row[B_NUMBER];
		row[B_SHARE] = row[B_PART];
		row[B_HEAT] = row[B_HOT];
		row[B_EXECUTED] = row[B_COUNT];
		row[B_EACH] = row[B_WEIGHT];
	}
	return row;
}

/* The code of the block; 0: it is not there. */
static size_t code_of(struct blocks_view *view, uint32_t block, const uint8_t **ret)
{
	const struct profile *profile = view->profile;
	const struct profile_block *row = &profile->blocks[block];
	uint32_t symbol = location_function(profile, row->location);
	size_t size = symbol ? code_cache_get(&view->heats.code, symbol, ret) : 0;
	uint64_t offset =
		profile->locations[row->location].address - profile->symbols[symbol].address;

	if (offset >= size || row->length > size - offset)
		return 0;
	*ret += offset;
	return row->length;
}

static size_t shown_of(const struct blocks_view *view)
{
	if (!view->request->people)
		return SIZE_MAX;
	return view->request->top ? view->request->top : SHOWN;
}

/* A block whose code is nowhere has one row. */
static void block_show(struct blocks_view *view, const struct hot_block *hot)
{
	const struct profile *profile = view->profile;
	uint32_t location = profile->blocks[hot->block].location;
	const uint8_t *code = NULL;
	size_t size = code_of(view, hot->block, &code), length;
	uint32_t step = 0;

	for (size_t offset = 0; offset < size && step < shown_of(view); offset += length, step++) {
		uint64_t address = profile->locations[location].address + offset;
		struct cell *row = row_add(view, hot, step);
		struct instruction instruction;

		instruction_decode(code + offset, size - offset, address, &instruction);
		length = instruction_length(&instruction);
		row[B_ADDRESS] = cell_number(address);
		row[B_TEXT] = cell_text(table_own(
			view->table,
			disassembler_text(&view->disassembler, profile->locations[location].module,
					  &instruction)));
		place_fill(view, place_of(profile, hot->block, step), row);
	}
	if (!size) {
		struct cell *row = row_add(view, hot, 0);

		row[B_ADDRESS] = cell_number(profile->locations[location].address);
		place_fill(view, location, row);
	}
}

static void blocks_show(struct blocks_view *view)
{
	size_t limit = view->request->limit, shown = 0;

	array_each(&view->items, hot) {
		if ((limit && shown >= limit) ||
		    share_of(hot->hot, view->whole) < view->request->min_share) {
			view->table->omitted++;
			continue;
		}
		shown++;
		block_show(view, hot);
	}
}

int view_executed(const struct profile *profile, const struct view_request *request,
		  struct table **ret)
{
	struct blocks_view view = { .profile = profile,
				    .request = request,
				    .table = table_create("executed", block_columns, B_COLUMNS) };

	executed_totals_set(view.table, profile, &request->filter);
	view.table->group_column = B_NUMBER;
	heats_init(&view.heats, profile, &request->code);
	disassembler_init(&view.disassembler, profile, &request->code, false);
	blocks_take(&view);
	if (view.items.count)
		qsort(view.items.items, view.items.count, sizeof(*view.items.items), hot_order);
	blocks_show(&view);
	disassembler_deinit(&view.disassembler);
	heats_deinit(&view.heats);
	array_deinit(&view.items);
	*ret = view.table;
	return 0;
}
