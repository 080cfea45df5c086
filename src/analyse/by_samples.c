// SPDX-License-Identifier: BSD-2-Clause
/*
 * Code and tasks measured by samples. Code has self, the samples in itself, and total, those in it
 * or in anything that it called; a task has all its samples, and those in the kernel.
 *
 *	in	the samples of a profile that the filters select
 *	out	an amount for each row: self and total, or samples and those in the kernel
 *	owner	measure.c, which calls it
 */
#include <stdlib.h>

#include "analyse/forest.h"
#include "analyse/measure.h"
#include "analyse/names.h"
#include "base/array.h"
#include "base/map.h"
#include "base/mem.h"

/* --- Code ------------------------------------------------------------------------------------- */

enum { SELF, TOTAL };

static struct measured function_row(const struct functions *functions, uint32_t function)
{
	return (struct measured){
		.key = function,
		.module = functions_module(functions, function),
		.symbol = functions_symbol(functions, function),
		.name = functions_name(functions, function),
		.inlined = functions_inlined(functions, function),
	};
}

static void row_add(struct measured_rows *rows, const struct costs *costs, uint32_t entity,
		    const struct measured *row)
{
	struct measured *added = array_push(rows);

	*added = *row;
	added->key = entity;
	added->amounts[SELF] = costs->self[entity];
	added->amounts[TOTAL] = costs->total[entity];
}

static void functions_collect(const struct forest *forest, struct functions *functions,
			      struct measured_rows *rows)
{
	struct costs costs;

	costs_init(&costs, forest, functions->entity, functions->count);
	for (uint32_t i = 1; i < functions->count; i++) {
		struct measured row = function_row(functions, i);

		if (costs.total[i])
			row_add(rows, &costs, i, &row);
	}
	costs_deinit(&costs);
}

/*
 * The entity of a module is its index plus 1, because code that belongs to no module (index 0) is
 * an entity as well.
 */
static void modules_collect(const struct forest *forest, struct functions *functions,
			    struct measured_rows *rows)
{
	uint32_t count = (uint32_t)forest->profile->module_count + 1;
	struct costs costs;

	for (size_t i = 0; i < forest->slot_count; i++)
		if (functions->entity[i])
			functions->entity[i] = forest->slots[i].module + 1;
	costs_init(&costs, forest, functions->entity, count);
	for (uint32_t i = 1; i < count; i++)
		if (costs.total[i])
			row_add(rows, &costs, i, &(struct measured){ .module = i - 1 });
	costs_deinit(&costs);
}

/*
 * Lines as entities: file and line; where those are unknown, the function as a whole. A line may
 * belong to several functions (templates, clones): it is shown with the one that has the most
 * samples there.
 */
struct lines {
	struct map ids; /* file and line, or function with the top bit set, to entity */
	uint32_t *slot; /* by entity: the slot shown */
	uint64_t *slot_weight; /* by entity: what that slot has */
	uint32_t count;
};

static uint64_t line_key(const struct slot *slot, uint32_t function)
{
	if (slot->file)
		return (uint64_t)slot->file << 32 | slot->line;
	return UINT64_C(1) << 63 | function;
}

static void lines_init(struct lines *lines, const struct forest *forest,
		       struct functions *functions, const struct costs *slots)
{
	lines->slot = mem_zalloc((forest->slot_count + 2) * sizeof(*lines->slot));
	lines->slot_weight = mem_zalloc((forest->slot_count + 2) * sizeof(*lines->slot_weight));
	lines->count = 1;
	for (uint32_t i = 0; i < forest->slot_count; i++) {
		uint64_t *id;

		if (!functions->entity[i])
			continue;
		id = map_at(&lines->ids, line_key(&forest->slots[i], functions->entity[i]), NULL);
		if (!*id)
			*id = lines->count++;
		functions->entity[i] = (uint32_t)*id;
		if (!lines->slot_weight[*id] || slots->total[i + 1] > lines->slot_weight[*id]) {
			lines->slot[*id] = i;
			lines->slot_weight[*id] = slots->total[i + 1];
		}
	}
}

static void lines_deinit(struct lines *lines)
{
	map_deinit(&lines->ids);
	free(lines->slot);
	free(lines->slot_weight);
}

/* Samples by slot: every slot is an entity of its own. */
static void slot_costs_init(struct costs *costs, const struct forest *forest)
{
	AUTO(free_ptr) uint32_t *identity = mem_alloc((forest->slot_count + 1) * sizeof(*identity));

	for (uint32_t i = 0; i < forest->slot_count; i++)
		identity[i] = i + 1;
	costs_init(costs, forest, identity, forest->slot_count + 1);
}

static void lines_collect(const struct forest *forest, struct functions *functions,
			  struct measured_rows *rows)
{
	struct functions all;
	struct lines lines = {};
	struct costs costs, slots;

	functions_init(&all, forest, NULL);
	slot_costs_init(&slots, forest);
	lines_init(&lines, forest, functions, &slots);
	costs_init(&costs, forest, functions->entity, lines.count);
	for (uint32_t i = 1; i < lines.count; i++) {
		const struct slot *slot = &forest->slots[lines.slot[i]];
		struct measured row = function_row(functions, all.entity[lines.slot[i]]);

		row.module = slot->module;
		row.file = slot->file;
		row.line = slot->line;
		if (costs.total[i])
			row_add(rows, &costs, i, &row);
	}
	functions_deinit(&all);
	lines_deinit(&lines);
	costs_deinit(&costs);
	costs_deinit(&slots);
}

static int code_collect(const struct profile *profile, const struct view_request *request,
			enum grain grain, struct table *table, struct measured_rows *ret)
{
	AUTO(forest_destroy_auto)
	struct forest *forest = forest_create(profile, &request->filter, FOREST_CODE_ROWS);
	struct functions functions;

	table_totals_set(table, profile, forest->selected);
	functions_init(&functions, forest, &request->filter);
	ret->rank = SELF;
	ret->second = ret->share = TOTAL;
	if (grain == BY_FUNCTION)
		functions_collect(forest, &functions, ret);
	else if (grain == BY_LINE)
		lines_collect(forest, &functions, ret);
	else
		modules_collect(forest, &functions, ret);
	functions_deinit(&functions);
	return 0;
}

enum { C_SELF, C_SHARE, C_TOTAL, C_TOTAL_SHARE, C_COLUMNS };

static const struct column code_columns[] = {
	[C_SELF] = { "self", "Self", COLUMN_COUNT },
	[C_SHARE] = { "share", "Self%", COLUMN_SHARE },
	[C_TOTAL] = { "total", "Total", COLUMN_COUNT, .spare = 2 },
	[C_TOTAL_SHARE] = { "total_share", "Total%", COLUMN_SHARE, .spare = 3 },
};

static void code_fill(const struct measured_rows *rows, const struct measured *from,
		      const struct table *table, struct cell *row)
{
	row[C_SELF] = cell_number(from->amounts[SELF]);
	row[C_SHARE] = cell_real(share_of(from->amounts[SELF], table->totals.seen));
	row[C_TOTAL] = cell_number(from->amounts[TOTAL]);
	row[C_TOTAL_SHARE] = cell_real(share_of(from->amounts[TOTAL], table->totals.seen));
}

const struct measure code_by_samples = { code_columns, C_COLUMNS, code_collect, code_fill };

/* --- Tasks ------------------------------------------------------------------------------------ */

enum { SAMPLES, KERNEL };

/* By node, whether samples there are selected by code; NULL: all. */
static bool *nodes_selected(const struct profile *profile, const struct filter *filter)
{
	AUTO(forest_destroy_auto) struct forest *forest = NULL;
	bool *selected;

	if (!filter_has_code(filter))
		return NULL;
	forest = forest_create(profile, filter, FOREST_CODE_SAMPLES);
	selected = mem_zalloc(profile->stack_count + 1);
	for (size_t i = 0; i < profile->stack_count; i++)
		selected[i] = forest->own[i] > 0;
	return selected;
}

/* Sums by task; returns the samples selected. */
static uint64_t tasks_sum(const struct profile *profile, const struct filter *filter,
			  bool by_process, struct measured *tasks)
{
	AUTO(free_ptr) bool *nodes = nodes_selected(profile, filter);
	AUTO(free_ptr) bool *threads = mem_zalloc(profile->thread_count + 1);
	uint64_t selected = 0;

	for (uint32_t i = 0; i < profile->thread_count; i++)
		threads[i] = filter_thread(filter, profile, i);
	for (size_t i = 0; i < profile->sample_count; i++) {
		const struct profile_sample *sample = &profile->samples[i];
		uint32_t index = by_process ? profile->threads[sample->thread].process
					    : sample->thread;

		if (!threads[sample->thread] || (nodes && !nodes[sample->stack]))
			continue;
		tasks[index].amounts[SAMPLES] += sample->count;
		tasks[index].amounts[KERNEL] += sample->kernel;
		selected += sample->count;
	}
	return selected;
}

static int tasks_collect(const struct profile *profile, const struct view_request *request,
			 enum grain grain, struct table *table, struct measured_rows *ret)
{
	bool by_process = grain == BY_PROCESS;
	size_t count = by_process ? profile->process_count : profile->thread_count;
	AUTO(free_ptr) struct measured *tasks = mem_zalloc((count + 1) * sizeof(*tasks));

	table_totals_set(table, profile, tasks_sum(profile, &request->filter, by_process, tasks));
	ret->rank = ret->second = ret->share = SAMPLES;
	for (uint32_t i = 0; i < count; i++) {
		tasks[i].key = tasks[i].task = i;
		if (tasks[i].amounts[SAMPLES])
			*array_push(ret) = tasks[i];
	}
	return 0;
}

enum { T_SELF, T_SHARE, T_KERNEL, T_COLUMNS };

static const struct column task_columns[] = {
	[T_SELF] = { "self", "Samples", COLUMN_COUNT },
	[T_SHARE] = { "share", "Share", COLUMN_SHARE },
	[T_KERNEL] = { "kernel", "Kernel", COLUMN_COUNT },
};

static void task_fill(const struct measured_rows *rows, const struct measured *from,
		      const struct table *table, struct cell *row)
{
	row[T_SELF] = cell_number(from->amounts[SAMPLES]);
	row[T_SHARE] = cell_real(share_of(from->amounts[SAMPLES], table->totals.seen));
	row[T_KERNEL] = cell_number(from->amounts[KERNEL]);
}

const struct measure tasks_by_samples = { task_columns, T_COLUMNS, tasks_collect, task_fill };
