// SPDX-License-Identifier: BSD-2-Clause
/* Flat views of code: functions, lines and modules, each with its own samples and those of what it called. */
#include <stdlib.h>

#include "analyse/forest.h"
#include "analyse/names.h"
#include "analyse/views.h"
#include "base/map.h"
#include "base/mem.h"

/* The entities worth a row, those with the most self first, then the most total. */
struct ranked {
	uint32_t entity;
	uint64_t self, total;
};

static int ranked_order(const void *left, const void *right)
{
	const struct ranked *a = left, *b = right;

	if (a->self != b->self)
		return a->self < b->self ? 1 : -1;
	if (a->total != b->total)
		return a->total < b->total ? 1 : -1;
	return (a->entity > b->entity) - (a->entity < b->entity);
}

static struct ranked *ranked_create(const struct costs *costs, size_t count, struct table *table,
				    double min_share, size_t *ret_count)
{
	struct ranked *ranked = mem_alloc((count + 1) * sizeof(*ranked));
	size_t used = 0;

	for (uint32_t i = 1; i < count; i++) {
		if (!costs->total[i])
			continue;
		if (share_of(costs->total[i], table->totals.seen) < min_share)
			table->omitted++;
		else
			ranked[used++] = (struct ranked){ i, costs->self[i], costs->total[i] };
	}
	qsort(ranked, used, sizeof(*ranked), ranked_order);
	*ret_count = used;
	return ranked;
}

/* The columns that all three have, in this order. */
enum { SELF, SHARE, TOTAL, TOTAL_SHARE, COST_COLUMNS };

#define COST_COLUMN_LIST                                                                           \
	[SELF] = { "self", "Self", COLUMN_COUNT }, [SHARE] = { "share", "Self%", COLUMN_SHARE },   \
	[TOTAL] = { "total", "Total", COLUMN_COUNT },                                              \
	[TOTAL_SHARE] = { "total_share", "Total%", COLUMN_SHARE }

static struct cell *cost_row_add(struct table *table, const struct ranked *ranked)
{
	struct cell *row = table_row_add(table);

	row[SELF] = cell_number(ranked->self);
	row[SHARE] = cell_real(share_of(ranked->self, table->totals.seen));
	row[TOTAL] = cell_number(ranked->total);
	row[TOTAL_SHARE] = cell_real(share_of(ranked->total, table->totals.seen));
	return row;
}

enum { F_MODULE = COST_COLUMNS, F_TEXT, F_SYMBOL, F_ADDRESS, F_INLINED, F_COLUMNS };

static const struct column function_columns[] = {
	COST_COLUMN_LIST,
	[F_MODULE] = { "module", "Module", COLUMN_TEXT, .elastic = true },
	[F_TEXT] = { "function", "Function", COLUMN_TEXT, COLUMN_PEOPLE, true },
	[F_SYMBOL] = { "symbol", "", COLUMN_TEXT, COLUMN_DATA },
	[F_ADDRESS] = { "address", "", COLUMN_ADDRESS, COLUMN_DATA },
	[F_INLINED] = { "inlined", "", COLUMN_BOOL, COLUMN_DATA },
};

static void function_row_fill(struct table *table, const struct functions *functions,
			      const struct ranked *ranked)
{
	const struct profile *profile = functions->profile;
	struct cell *row = cost_row_add(table, ranked);
	uint32_t symbol = functions_symbol(functions, ranked->entity);
	const char *name = functions_name(functions, ranked->entity);
	bool inlined = functions_inlined(functions, ranked->entity);

	row[F_MODULE] =
		cell_text(name_of_module(profile, functions_module(functions, ranked->entity)));
	row[F_TEXT] = cell_text(view_function_text(table, name, inlined));
	row[F_SYMBOL] = cell_text(name);
	row[F_INLINED] = cell_number(inlined);
	if (symbol && !inlined)
		row[F_ADDRESS] = cell_number(profile->symbols[symbol].address);
}

int view_functions(const struct profile *profile, const struct view_request *request,
		   struct table **ret)
{
	AUTO(forest_destroy_auto)
	struct forest *forest = forest_create(profile, &request->filter, FOREST_CODE_ROWS);
	struct table *table = table_create("functions", function_columns, F_COLUMNS);
	struct functions functions;
	struct costs costs;
	struct ranked *ranked;
	size_t count;

	table_totals_set(table, profile, forest->selected);
	functions_init(&functions, forest, &request->filter);
	costs_init(&costs, forest, functions.entity, functions.count);
	ranked = ranked_create(&costs, functions.count, table, request->min_share, &count);
	for (size_t i = 0; i < count; i++)
		function_row_fill(table, &functions, &ranked[i]);
	free(ranked);
	costs_deinit(&costs);
	functions_deinit(&functions);
	*ret = table;
	return 0;
}

enum { M_NAME = COST_COLUMNS, M_KIND, M_PATH, M_BUILD_ID, M_COLUMNS };

static const struct column module_columns[] = {
	COST_COLUMN_LIST,
	[M_NAME] = { "module", "Module", COLUMN_TEXT, .elastic = true },
	[M_KIND] = { "kind", "Kind", COLUMN_TEXT },
	[M_PATH] = { "path", "Path", COLUMN_TEXT, .elastic = true },
	[M_BUILD_ID] = { "build_id", "", COLUMN_TEXT, COLUMN_DATA },
};

static const char *module_kind_name(enum module_kind kind)
{
	static const char *const names[] = {
#define X(name, text) [MODULE_##name] = text,
		MODULE_KINDS(X)
#undef X
	};

	return kind < MODULE_KIND_COUNT ? names[kind] : NAME_UNKNOWN;
}

static void module_row_fill(struct table *table, const struct profile *profile,
			    const struct ranked *ranked)
{
	struct cell *row = cost_row_add(table, ranked);
	uint32_t module = ranked->entity - 1;

	row[M_NAME] = cell_text(name_of_module(profile, module));
	if (!module)
		return;
	row[M_KIND] = cell_text(module_kind_name(profile->modules[module].kind));
	if (profile->modules[module].path)
		row[M_PATH] = cell_text(profile->modules[module].path);
	if (profile->modules[module].build_id && *profile->modules[module].build_id)
		row[M_BUILD_ID] = cell_text(profile->modules[module].build_id);
}

int view_modules(const struct profile *profile, const struct view_request *request,
		 struct table **ret)
{
	AUTO(forest_destroy_auto)
	struct forest *forest = forest_create(profile, &request->filter, FOREST_CODE_ROWS);
	struct table *table = table_create("modules", module_columns, M_COLUMNS);
	struct functions functions;
	struct costs costs;
	struct ranked *ranked;
	size_t count;

	table_totals_set(table, profile, forest->selected);
	functions_init(&functions, forest, &request->filter);
	for (size_t i = 0; i < forest->slot_count; i++)
		if (functions.entity[i])
			functions.entity[i] = forest->slots[i].module + 1;
	costs_init(&costs, forest, functions.entity, profile->module_count + 1);
	ranked =
		ranked_create(&costs, profile->module_count + 1, table, request->min_share, &count);
	for (size_t i = 0; i < count; i++)
		module_row_fill(table, profile, &ranked[i]);
	free(ranked);
	costs_deinit(&costs);
	functions_deinit(&functions);
	*ret = table;
	return 0;
}

/*
 * Lines as entities: file and line; where those are unknown, the function as a whole. A line may belong to several
 * functions (templates, clones): it is shown with the one that has the most samples there.
 */
struct lines {
	struct map ids; /* file and line, or function with the top bit set, to entity */
	uint32_t *slot; /* by entity: the slot shown */
	uint64_t *slot_weight; /* by entity: what that slot has */
	size_t count;
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

/* Samples by slot: who else but costs_init() could count them. */
static void slot_costs_init(struct costs *costs, const struct forest *forest)
{
	AUTO(free_ptr) uint32_t *identity = mem_alloc((forest->slot_count + 1) * sizeof(*identity));

	for (uint32_t i = 0; i < forest->slot_count; i++)
		identity[i] = i + 1;
	costs_init(costs, forest, identity, forest->slot_count + 1);
}

enum { L_PLACE = COST_COLUMNS, L_MODULE, L_TEXT, L_FILE, L_LINE, L_SYMBOL, L_COLUMNS };

static const struct column line_columns[] = {
	COST_COLUMN_LIST,
	[L_PLACE] = { "place", "Line", COLUMN_TEXT, COLUMN_PEOPLE, true },
	[L_MODULE] = { "module", "Module", COLUMN_TEXT, .elastic = true },
	[L_TEXT] = { "function", "Function", COLUMN_TEXT, COLUMN_PEOPLE, true },
	[L_FILE] = { "file", "", COLUMN_TEXT, COLUMN_DATA },
	[L_LINE] = { "line", "", COLUMN_INTEGER, COLUMN_DATA },
	[L_SYMBOL] = { "symbol", "", COLUMN_TEXT, COLUMN_DATA },
};

static void line_row_fill(struct table *table, const struct functions *functions,
			  const struct slot *slot, uint32_t function, const struct ranked *ranked)
{
	const struct profile *profile = functions->profile;
	struct cell *row = cost_row_add(table, ranked);
	const char *file = name_of_file(profile, slot->file);

	row[L_PLACE] = cell_text(view_place_text(table, file, slot->line));
	row[L_MODULE] = cell_text(name_of_module(profile, slot->module));
	row[L_SYMBOL] = cell_text(functions_name(functions, function));
	row[L_TEXT] = cell_text(view_function_text(table, row[L_SYMBOL].text,
						   functions_inlined(functions, function)));
	if (file)
		row[L_FILE] = cell_text(file);
	if (file && slot->line)
		row[L_LINE] = cell_integer(slot->line);
}

static void line_rows_add(struct table *table, const struct forest *forest,
			  const struct view_request *request, struct functions *functions)
{
	AUTO(free_ptr) struct ranked *ranked = NULL;
	struct functions all;
	struct lines lines = {};
	struct costs costs, slots;
	size_t count;

	functions_init(&all, forest, NULL);
	slot_costs_init(&slots, forest);
	lines_init(&lines, forest, functions, &slots);
	costs_init(&costs, forest, functions->entity, lines.count);
	ranked = ranked_create(&costs, lines.count, table, request->min_share, &count);
	for (size_t i = 0; i < count; i++) {
		uint32_t slot = lines.slot[ranked[i].entity];

		line_row_fill(table, functions, &forest->slots[slot], all.entity[slot], &ranked[i]);
	}
	functions_deinit(&all);
	lines_deinit(&lines);
	costs_deinit(&costs);
	costs_deinit(&slots);
}

int view_lines(const struct profile *profile, const struct view_request *request,
	       struct table **ret)
{
	AUTO(forest_destroy_auto)
	struct forest *forest = forest_create(profile, &request->filter, FOREST_CODE_ROWS);
	struct table *table = table_create("lines", line_columns, L_COLUMNS);
	struct functions functions;

	table_totals_set(table, profile, forest->selected);
	functions_init(&functions, forest, &request->filter);
	line_rows_add(table, forest, request, &functions);
	functions_deinit(&functions);
	*ret = table;
	return 0;
}
