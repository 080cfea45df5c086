// SPDX-License-Identifier: BSD-2-Clause
/*
 * What kinds of instructions were executed, by module. How often each block ran is counted; what it
 * does comes from its code, in the profile or in the file that ran. Where the code is gone, the
 * instructions are in a column of their own and in no kind.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/heats.h"
#include "analyse/meta.h"
#include "analyse/names.h"
#include "analyse/views.h"
#include "base/err.h"
#include "base/mem.h"

struct mix {
	struct heat heat;
	uint64_t unknown; /* instructions without code */
	uint32_t module;
};

enum {
	X_INSTRUCTIONS,
	X_SHARE,
	X_MODULE,
	X_UNKNOWN_SHARE,
	X_KINDS,
	X_PARTS = X_KINDS + HEAT_KIND_COUNT,
	X_UNKNOWN = X_PARTS + HEAT_KIND_COUNT,
	X_COLUMNS
};

/* The first kind, instructions, has its columns above. */
static const struct column mix_columns[X_COLUMNS] = {
	[X_INSTRUCTIONS] = { "all", "Instructions", COLUMN_COUNT, COLUMN_PEOPLE },
	[X_SHARE] = { "share", "Share", COLUMN_SHARE },
	[X_MODULE] = { "module", "Module", COLUMN_TEXT, .elastic = true, .comfort = 20 },
	[X_UNKNOWN_SHARE] = { "no_code", "no code", COLUMN_SHARE, COLUMN_PEOPLE, .optional = true },
#define X(name, text, what, amount)                                                                \
	[X_KINDS + HEAT_##name] = { text, "", COLUMN_COUNT, COLUMN_DATA },                         \
		   [X_PARTS + HEAT_##name] = { text "_part", text, COLUMN_SHARE, COLUMN_PEOPLE,    \
					       .optional = true },
	HEAT_KINDS(X)
#undef X
		[X_UNKNOWN] = { "unknown", "", COLUMN_COUNT, COLUMN_DATA },
};

static int mix_order(const void *left, const void *right)
{
	const struct mix *a = left, *b = right;
	uint64_t x = a->heat.of[HEAT_INSTRUCTIONS], y = b->heat.of[HEAT_INSTRUCTIONS];

	if (x != y)
		return x < y ? 1 : -1;
	return (a->module > b->module) - (a->module < b->module);
}

static void mixes_collect(const struct profile *profile, const struct view_request *request,
			  struct heats *heats, struct mix *mixes)
{
	const struct filter *filter = &request->filter;

	for (size_t i = 0; i < profile->execution_count; i++) {
		const struct profile_execution *row = &profile->executions[i];
		uint32_t location = profile->blocks[row->block].location;
		uint32_t module = profile->locations[location].module;
		const struct heat *heat;
		bool known;

		if (!filter_thread(filter, profile, row->thread) ||
		    !filter_module(filter, profile, module) ||
		    !filter_symbol(filter, profile, location_function(profile, location)))
			continue;
		heat = heats_of(heats, row->block, &known);
		mixes[module].module = module;
		heat_add(&mixes[module].heat, heat, row->count);
		if (!known)
			mixes[module].unknown += heat->of[HEAT_INSTRUCTIONS] * row->count;
	}
}

static void mix_row_add(struct table *table, const struct profile *profile, const struct mix *mix)
{
	struct cell *row = table_row_add(table);
	uint64_t all = mix->heat.of[HEAT_INSTRUCTIONS];

	row[X_MODULE] = cell_text(name_of_module(profile, mix->module));
	row[X_INSTRUCTIONS] = cell_number(all);
	row[X_SHARE] = cell_real(share_of(all, table->totals.seen));
	row[X_UNKNOWN] = cell_number(mix->unknown);
	if (mix->unknown)
		row[X_UNKNOWN_SHARE] = cell_real(share_of(mix->unknown, all));
	for (unsigned i = 0; i < HEAT_KIND_COUNT; i++) {
		row[X_KINDS + i] = cell_number(mix->heat.of[i]);
		if (i != HEAT_INSTRUCTIONS && mix->heat.of[i])
			row[X_PARTS + i] = cell_real(share_of(mix->heat.of[i], all));
	}
}

int view_mix(const struct profile *profile, const struct view_request *request, struct table **ret)
{
	AUTO(free_ptr) struct mix *mixes = mem_zalloc(profile->module_count * sizeof(*mixes));
	struct table *table;
	struct heats heats;

	if (request->by_phase)
		return mix_by_phase(profile, request, ret);
	if (request->detectors || request->agree)
		return err_set(-EINVAL, "--detectors, --agree: they find phases; give --by-phase");
	if (meta_only_marks(profile))
		return err_set(-ENODATA,
			       "this profile says which code ran, not how often; record it "
			       "with another tool than coverage");
	table = table_create("mix", mix_columns, X_COLUMNS);
	table->repeated_columns = X_MODULE + 1;
	heats_init(&heats, profile, &request->code);
	mixes_collect(profile, request, &heats, mixes);
	executed_totals_set(table, profile, NULL);
	qsort(mixes, profile->module_count, sizeof(*mixes), mix_order);
	for (size_t i = 0; i < profile->module_count && mixes[i].module; i++) {
		uint64_t all = mixes[i].heat.of[HEAT_INSTRUCTIONS];

		table->totals.selected += all;
		if (share_of(all, table->totals.seen) < request->min_share)
			table->omitted++;
		else
			mix_row_add(table, profile, &mixes[i]);
	}
	heats_deinit(&heats);
	*ret = table;
	return 0;
}
