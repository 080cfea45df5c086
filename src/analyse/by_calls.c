// SPDX-License-Identifier: BSD-2-Clause
/*
 * Code and tasks measured by calls: how often, base (used there), cum (and in what was called from
 * there) and elapsed (by the clock on the wall, meanwhile). Of a recursive function, cum and
 * elapsed are those of its outermost calls.
 */
#include <errno.h>

#include "analyse/call_trees.h"
#include "analyse/measure.h"
#include "base/err.h"
#include "base/mem.h"
#include "calls/reports.h"

enum { CALLS, BASE, CUM, ELAPSED, RECURSION };

/* --- Code ------------------------------------------------------------------------------------- */

static void whole_set(const struct call_trees *trees, struct table *table,
		      struct measured_rows *rows)
{
	uint64_t base = 0, calls = 0;

	rows->untimed = true;
	for (size_t i = 0; i < trees->results.count; i++) {
		const struct call_snapshot *snapshot = &trees->results.items[i].snapshot;

		if (snapshot->head.metrics) {
			base += call_snapshot_sum(snapshot, CALL_ROOT, 0)->base;
			rows->untimed = false;
		}
		for (uint32_t at = 1; at < snapshot->reached; at++)
			calls += call_snapshot_node(snapshot, snapshot->order[at])->calls;
	}
	call_totals_set(table, &trees->input, calls);
	rows->whole = rows->untimed ? calls : base;
	rows->rank = rows->share = rows->untimed ? CALLS : BASE;
	rows->second = CALLS;
}

static void row_add(struct measured *row, const struct call_row *from)
{
	row->amounts[CALLS] += from->calls;
	row->amounts[BASE] += from->base;
	row->amounts[CUM] += from->cum;
	row->amounts[ELAPSED] += from->elapsed;
	row->amounts[RECURSION] = from->recursion;
}

static bool is_chosen(const struct call_trees *trees, const struct call_name *name)
{
	return !filter_has_code(trees->filter) ||
	       (filter_symbol(trees->filter, trees->profile, name->symbol_id) &&
		filter_module(trees->filter, trees->profile, name->module_id));
}

static void functions_add(const struct call_trees *trees, const struct call_stanzas *stanzas,
			  struct table *table, struct measured_rows *rows)
{
	for (size_t i = 0; i < stanzas->count; i++) {
		const struct call_row *self = &stanzas->items[i].self;
		struct measured row = { .key = self->routine, .name = "[pruned]" };

		if (self->routine == CALL_ROUTINE_THREAD)
			continue;
		if (self->routine != CALL_ROUTINE_PRUNED) {
			const struct call_name *name = &trees->names[self->routine];

			if (!is_chosen(trees, name))
				continue;
			row.name = call_name_text(table, name);
			row.symbol = name->symbol_id;
			row.module = name->module_id;
		}
		row_add(&row, self);
		*array_push(rows) = row;
	}
}

/* A module has what its functions used themselves; what they called may be in any. */
static void modules_add(const struct call_trees *trees, const struct call_stanzas *stanzas,
			struct measured_rows *rows)
{
	size_t count = trees->profile->module_count;
	AUTO(free_ptr) struct measured *modules = mem_zalloc((count + 1) * sizeof(*modules));

	for (size_t i = 0; i < stanzas->count; i++) {
		const struct call_row *self = &stanzas->items[i].self;
		uint32_t module;

		if (self->routine >= CALL_ROUTINE_PRUNED ||
		    !is_chosen(trees, &trees->names[self->routine]))
			continue;
		module = trees->names[self->routine].module_id;
		modules[module].key = modules[module].module = module;
		modules[module].amounts[CALLS] += self->calls;
		modules[module].amounts[BASE] += self->base;
	}
	for (size_t i = 0; i < count; i++)
		if (modules[i].amounts[CALLS])
			*array_push(rows) = modules[i];
}

static int code_collect(const struct profile *profile, const struct view_request *request,
			enum grain grain, struct table *table, struct measured_rows *ret)
{
	AUTO(call_trees_deinit) struct call_trees trees = {};
	struct call_stanzas stanzas;
	int err = call_trees_init(&trees, profile, &request->filter, request->cost);

	err = err ? err : call_input_stanzas(&trees.input, &stanzas);
	if (err)
		return err;
	whole_set(&trees, table, ret);
	if (grain == BY_FUNCTION)
		functions_add(&trees, &stanzas, table, ret);
	else
		modules_add(&trees, &stanzas, ret);
	call_stanzas_deinit(&stanzas);
	return 0;
}

enum { C_BASE, C_SHARE, C_CALLS, C_CUM, C_ELAPSED, C_RECURSION, C_COLUMNS };

// clang-format off
#define COLUMNS(unit)                                                                              \
	{                                                                                          \
		[C_BASE] = { "base", "Base" unit, COLUMN_COUNT, .optional = true },                \
		[C_SHARE] = { "share", "Share", COLUMN_SHARE },                                    \
		[C_CALLS] = { "calls", "Calls", COLUMN_COUNT, .spare = 1 },                        \
		[C_CUM] = { "cum", "Cum" unit, COLUMN_COUNT, .optional = true, .spare = 2 },       \
		[C_ELAPSED] = { "elapsed", "Elapsed" unit, COLUMN_COUNT, .optional = true,         \
				.spare = 4 },                                                      \
		[C_RECURSION] = { "recursion", "RL", COLUMN_INTEGER, .optional = true,             \
				  .spare = 3 },                                                    \
	}
// clang-format on

static const struct column code_columns[] = COLUMNS(" ns");
static const struct column plain_columns[] = COLUMNS("");

static void amounts_fill(const struct measured_rows *rows, const struct measured *from,
			 const struct table *table, struct cell *row)
{
	row[C_CALLS] = cell_number(from->amounts[CALLS]);
	row[C_SHARE] = cell_real(share_of(from->amounts[rows->share], rows->whole));
	if (from->amounts[RECURSION])
		row[C_RECURSION] = cell_integer((int64_t)from->amounts[RECURSION]);
	if (rows->untimed)
		return;
	row[C_BASE] = cell_number(from->amounts[BASE]);
	/* Only functions have cumulative amounts, which may be 0; they have a recursion level. */
	if (from->amounts[CUM] || from->amounts[RECURSION])
		row[C_CUM] = cell_number(from->amounts[CUM]);
	if (from->amounts[ELAPSED] || from->amounts[RECURSION])
		row[C_ELAPSED] = cell_number(from->amounts[ELAPSED]);
}

const struct measure code_by_calls = { code_columns, C_COLUMNS, code_collect, amounts_fill };
const struct measure code_by_costs = { plain_columns, C_COLUMNS, code_collect, amounts_fill };

/* --- Processes and threads -------------------------------------------------------------------- */

static void result_add(const struct call_snapshot *snapshot, struct measured *row)
{
	for (uint32_t at = 1; at < snapshot->reached; at++)
		row->amounts[CALLS] += call_snapshot_node(snapshot, snapshot->order[at])->calls;
	if (!snapshot->head.metrics)
		return;
	row->amounts[BASE] += call_snapshot_sum(snapshot, CALL_ROOT, 0)->base;
	row->amounts[ELAPSED] += call_snapshot_sum(snapshot, CALL_ROOT, 0)->elapsed;
}

static int tasks_collect(const struct profile *profile, const struct view_request *request,
			 enum grain grain, struct table *table, struct measured_rows *ret)
{
	size_t count = grain == BY_PROCESS ? profile->process_count : profile->thread_count;
	AUTO(free_ptr) struct measured *tasks = mem_zalloc((count + 1) * sizeof(*tasks));
	AUTO(call_trees_deinit) struct call_trees trees = {};
	int err;

	if (filter_has_code(&request->filter))
		return err_set(-EINVAL, "the calls of a process or thread are all of its calls: "
					"leave out --symbol and --module, or choose the view "
					"functions");
	err = call_trees_init(&trees, profile, &request->filter, request->cost);
	if (err)
		return err;
	whole_set(&trees, table, ret);
	for (size_t i = 0; i < trees.results.count; i++) {
		uint32_t thread = trees.threads[i];

		result_add(&trees.results.items[i].snapshot,
			   &tasks[grain == BY_PROCESS ? profile->threads[thread].process : thread]);
	}
	for (uint32_t i = 0; i < count; i++) {
		tasks[i].key = tasks[i].task = i;
		if (tasks[i].amounts[CALLS])
			*array_push(ret) = tasks[i];
	}
	return 0;
}

const struct measure tasks_by_calls = { code_columns, C_COLUMNS, tasks_collect, amounts_fill };
const struct measure tasks_by_costs = { plain_columns, C_COLUMNS, tasks_collect, amounts_fill };
