// SPDX-License-Identifier: BSD-2-Clause
#include "analyse/steps.h"

#include <string.h>

#include "analyse/names.h"
#include "analyse/views.h"
#include "base/mem.h"

static const struct profile_frame *innermost(const struct profile *profile, uint32_t location)
{
	static const struct profile_frame unknown;
	const struct profile_location *row = &profile->locations[location];

	return row->frame_count ? &profile->frames[row->first_frame] : &unknown;
}

/*
 * The function that the code lies in, whatever is inlined there; nameless code of a module is one.
 */
static uint64_t function_of(const struct profile *profile, uint32_t location)
{
	uint32_t symbol = location_function(profile, location);

	return (uint64_t)profile->locations[location].module << 32 | symbol;
}

static void lines_add(const struct profile *profile, uint32_t block, struct step *step)
{
	uint32_t file = innermost(profile, step->location)->file;
	const struct profile_block *row = &profile->blocks[block];

	for (uint32_t i = 0; i < row->part_count; i++) {
		const struct profile_frame *frame =
			innermost(profile, profile->block_parts[row->first_part + i].location);

		if (!file || frame->file != file || !frame->line)
			continue;
		if (!step->line_low || frame->line < step->line_low)
			step->line_low = frame->line;
		if (frame->line > step->line_high)
			step->line_high = frame->line;
	}
}

void steps_make(const struct profile *profile, const struct order_blocks *blocks, struct steps *ret)
{
	ret->items.count = 0;
	for (size_t i = 0; i < blocks->items.count; i++) {
		uint32_t block = blocks->items.items[i];
		uint32_t location = profile->blocks[block].location;
		struct step *last = ret->items.count ? &ret->items.items[ret->items.count - 1]
						     : NULL;

		if (!last ||
		    function_of(profile, last->location) != function_of(profile, location)) {
			last = array_push(&ret->items);
			*last = (struct step){ .first = i, .location = location };
		}
		last->count++;
		last->instructions += profile->blocks[block].instructions;
		lines_add(profile, block, last);
	}
}

uint32_t step_file(const struct profile *profile, const struct step *step)
{
	return innermost(profile, step->location)->file;
}

/* Where lines are not known, the first block's place in its function tells steps apart. */
static const char *lines_text(struct table *table, const struct profile *profile, const char *file,
			      const struct step *step)
{
	const char *name = file ? strrchr(file, '/') : NULL;

	if (!file || !step->line_low)
		return view_offset_text(table, profile, step->location);
	name = name ? name + 1 : file;
	if (step->line_high == step->line_low)
		return view_place_text(table, name, step->line_low);
	return table_own(table, mem_printf("%s:%u-%u", name, step->line_low, step->line_high));
}

void step_fill(struct table *table, const struct profile *profile, const struct step *step,
	       struct cell *row)
{
	const char *module = name_of_module(profile, profile->locations[step->location].module);
	const char *name = name_of_symbol(profile, location_function(profile, step->location));
	const char *file = name_of_file(profile, innermost(profile, step->location)->file);

	row[STEP_WHERE] = cell_text(view_titled_text(table, name, module));
	row[STEP_PLACE] = cell_text_or_unset(lines_text(table, profile, file, step));
	row[STEP_MODULE] = cell_text(module);
	row[STEP_SYMBOL] = cell_text(name);
	row[STEP_FILE] = cell_text_or_unset(file);
	if (file && step->line_low) {
		row[STEP_LINE] = cell_integer(step->line_low);
		row[STEP_LAST] = cell_integer(step->line_high);
	}
}
