// SPDX-License-Identifier: BSD-2-Clause
/*
 * The call graph by call site: for each function, who called it from where and what it called from
 * where.
 *
 * An edge is a call site (a slot of the caller: address, and inlining depth there) and the function
 * called. In a recursion a function is several times on one stack; to make the sums of a stanza
 * agree, each sample is charged to one caller, that of the outermost occurrence, and to one callee,
 * that of the innermost (or to self). So an edge has two weights. outer: samples in which the
 * callee's outermost occurrence was called here. inner: samples in which the caller's innermost
 * occurrence called here. They are equal where there is no recursion.
 *
 * One depth-first walk over the tree of stacks counts both. Entering a frame adds what is below it
 * to inner of its edge. If the function is already on the path, its previous occurrence is not the
 * innermost for what is below: that much is taken back from the edge by which the path left that
 * previous occurrence.
 *
 *  1. The sum of outer over a function's callers, the outermost frame counting as one, is the
 *     function's total.
 *  2. Self plus the sum of inner over a function's callees is the function's total.
 *  3. path[last[f]] is the innermost occurrence of f on the path; path[i].previous the one before
 *     path[i].
 */
#include <assert.h>
#include <stdlib.h>

#include "analyse/call_trees.h"
#include "analyse/forest.h"
#include "analyse/names.h"
#include "analyse/views.h"
#include "base/map.h"
#include "base/mem.h"

enum { NO_SLOT = UINT32_MAX, NO_FRAME = UINT32_MAX };

struct edge {
	uint32_t site; /* slot of the caller; NO_SLOT: outermost frame, no caller */
	uint32_t caller, callee; /* functions */
	uint64_t outer, inner;
};

struct path_frame {
	uint32_t slot;
	uint32_t function;
	uint32_t edge; /* by which it was entered */
	uint32_t previous; /* place on the path, or NO_FRAME */
};

struct graph {
	const struct forest *forest;
	struct functions functions;
	struct map edge_ids; /* site << 32 | callee, to index in edges */
	ARRAY(struct edge) edges;
	ARRAY(struct path_frame) path;
	uint32_t *last; /* by function: place on the path, or NO_FRAME */
	uint64_t *recursive; /* by function: samples with two or more occurrences */
	struct costs costs;
	double least_part; /* in text, smaller parts of a function are put together */
};

static uint32_t graph_edge(struct graph *graph, uint32_t site, uint32_t callee)
{
	bool fresh;
	uint64_t *id = map_at(&graph->edge_ids, (uint64_t)site << 32 | callee, &fresh);

	if (fresh) {
		*id = graph->edges.count;
		*array_push(&graph->edges) = (struct edge){
			.site = site,
			.caller = site == NO_SLOT ? 0 : graph->functions.entity[site],
			.callee = callee,
		};
	}
	return (uint32_t)*id;
}

static void frame_enter(struct graph *graph, uint32_t slot, uint64_t cum)
{
	uint32_t place = (uint32_t)graph->path.count;
	uint32_t function = graph->functions.entity[slot];
	uint32_t previous = graph->last[function];
	uint32_t site = place ? graph->path.items[place - 1].slot : NO_SLOT;
	uint32_t edge = graph_edge(graph, site, function);

	*array_push(&graph->path) = (struct path_frame){ slot, function, edge, previous };
	graph->edges.items[edge].inner += cum;
	if (previous == NO_FRAME) {
		graph->edges.items[edge].outer += cum;
	} else {
		graph->edges.items[graph->path.items[previous + 1].edge].inner -= cum;
		if (graph->path.items[previous].previous == NO_FRAME)
			graph->recursive[function] += cum;
	}
	graph->last[function] = place;
}

static void node_enter(void *ctx, uint32_t node)
{
	struct graph *graph = ctx;
	uint32_t begin = forest_slot_begin(graph->forest, node);
	uint64_t cum = node ? graph->forest->cum[node] : graph->forest->own[0];

	for (uint32_t slot = forest_slot_end(graph->forest, node); slot > begin; slot--)
		frame_enter(graph, slot - 1, cum);
}

static void node_leave(void *ctx, uint32_t node)
{
	struct graph *graph = ctx;
	uint32_t end = forest_slot_end(graph->forest, node);

	for (uint32_t slot = forest_slot_begin(graph->forest, node); slot < end; slot++) {
		const struct path_frame *frame = &graph->path.items[--graph->path.count];

		assert(frame->slot == slot);
		graph->last[frame->function] = frame->previous;
	}
}

static void graph_init(struct graph *graph, const struct forest *forest)
{
	size_t count;

	graph->forest = forest;
	functions_init(&graph->functions, forest, NULL);
	count = graph->functions.count;
	graph->last = mem_alloc(count * sizeof(*graph->last));
	graph->recursive = mem_zalloc(count * sizeof(*graph->recursive));
	for (size_t i = 0; i < count; i++)
		graph->last[i] = NO_FRAME;
	costs_init(&graph->costs, forest, graph->functions.entity, count);
	forest_walk(forest, node_enter, node_leave, graph);
}

static void graph_deinit(struct graph *graph)
{
	functions_deinit(&graph->functions);
	map_deinit(&graph->edge_ids);
	array_deinit(&graph->edges);
	array_deinit(&graph->path);
	costs_deinit(&graph->costs);
	free(graph->last);
	free(graph->recursive);
}

/* A reference from a stanza to one of its edges, in either role. */
struct arm {
	uint32_t function;
	uint32_t edge;
	uint64_t weight;
};

static int arm_order(const void *left, const void *right)
{
	const struct arm *a = left, *b = right;

	if (a->function != b->function)
		return a->function < b->function ? -1 : 1;
	if (a->weight != b->weight)
		return a->weight < b->weight ? 1 : -1;
	return (a->edge > b->edge) - (a->edge < b->edge);
}

struct arms {
	struct arm *items; /* by function, heaviest first */
	uint32_t *first; /* by function; first[f + 1] ends f's */
};

static void arms_init(struct arms *arms, const struct graph *graph, bool callers)
{
	size_t functions = graph->functions.count, count = 0, at = 0;

	arms->items = mem_alloc((graph->edges.count + 1) * sizeof(*arms->items));
	arms->first = mem_alloc((functions + 1) * sizeof(*arms->first));
	for (uint32_t i = 0; i < graph->edges.count; i++) {
		const struct edge *edge = &graph->edges.items[i];
		uint32_t function = callers ? edge->callee : edge->caller;
		uint64_t weight = callers ? edge->outer : edge->inner;

		if (function && weight)
			arms->items[count++] = (struct arm){ function, i, weight };
	}
	qsort(arms->items, count, sizeof(*arms->items), arm_order);
	for (uint32_t function = 0; function <= functions; function++) {
		arms->first[function] = (uint32_t)at;
		while (at < count && arms->items[at].function == function)
			at++;
	}
}

static void arms_deinit(struct arms *arms)
{
	free(arms->items);
	free(arms->first);
}

enum {
	G_TOTAL,
	G_TOTAL_SHARE,
	G_PART,
	G_SELF,
	G_SHARE,
	G_SITE,
	G_PLACE,
	G_TEXT,
	G_SYMBOL,
	G_MODULE,
	G_RELATION,
	G_OTHER,
	G_OTHER_MODULE,
	G_ADDRESS,
	G_FILE,
	G_LINE,
	G_STANZA,
	G_COLUMNS
};

static const struct column graph_columns[] = {
	[G_TOTAL] = { "total", "Total", COLUMN_COUNT },
	[G_TOTAL_SHARE] = { "total_share", "Total%", COLUMN_SHARE, .spare = 1 },
	[G_PART] = { "part", "Part", COLUMN_SHARE },
	[G_SELF] = { "self", "Self", COLUMN_COUNT, .spare = 2 },
	[G_SHARE] = { "share", "Self%", COLUMN_SHARE, .spare = 3 },
	[G_SITE] = { "site", "Call site", COLUMN_ADDRESS, COLUMN_PEOPLE, .spare = 4 },
	[G_PLACE] = { "place", "Line", COLUMN_TEXT, COLUMN_PEOPLE, true, .cut = CUT_PLACE,
		      .comfort = 13 },
	[G_TEXT] = { "function", "Function", COLUMN_TEXT, COLUMN_PEOPLE, true, .cut = CUT_NAME,
		     .comfort = 22 },
	[G_SYMBOL] = { "symbol", "", COLUMN_TEXT, COLUMN_DATA },
	[G_MODULE] = { "module", "", COLUMN_TEXT, COLUMN_DATA },
	[G_RELATION] = { "relation", "", COLUMN_TEXT, COLUMN_DATA },
	[G_OTHER] = { "other", "", COLUMN_TEXT, COLUMN_DATA },
	[G_OTHER_MODULE] = { "other_module", "", COLUMN_TEXT, COLUMN_DATA },
	[G_ADDRESS] = { "address", "", COLUMN_ADDRESS, COLUMN_DATA },
	[G_FILE] = { "file", "", COLUMN_TEXT, COLUMN_DATA },
	[G_LINE] = { "line", "", COLUMN_INTEGER, COLUMN_DATA },
	[G_STANZA] = { "stanza", "", COLUMN_INTEGER, COLUMN_DATA },
};

struct stanza {
	uint32_t function;
	uint32_t number;
};

static const char *function_text(struct table *table, const struct graph *graph, uint32_t function)
{
	return view_function_text(table, functions_name(&graph->functions, function),
				  functions_inlined(&graph->functions, function));
}

static const char *module_text(const struct graph *graph, uint32_t function)
{
	return name_of_module(graph->forest->profile,
			      functions_module(&graph->functions, function));
}

static struct cell *stanza_row_add(struct table *table, const struct graph *graph,
				   const struct stanza *stanza, const char *relation,
				   uint64_t total)
{
	uint64_t whole = graph->costs.total[stanza->function];
	struct cell *row = table_row_add(table);

	row[G_SYMBOL] = cell_text(functions_name(&graph->functions, stanza->function));
	row[G_MODULE] = cell_text(module_text(graph, stanza->function));
	row[G_STANZA] = cell_integer(stanza->number);
	row[G_RELATION] = cell_text(relation);
	row[G_TOTAL] = cell_number(total);
	row[G_TOTAL_SHARE] = cell_real(share_of(total, table->totals.seen));
	row[G_PART] = cell_real(share_of(total, whole));
	return row;
}

static void site_fill(struct table *table, struct cell *row, const struct graph *graph,
		      uint32_t site)
{
	const struct profile *profile = graph->forest->profile;
	const struct slot *slot = &graph->forest->slots[site];
	const char *file = name_of_file(profile, slot->file);

	if (profile->modules[slot->module].kind == MODULE_MARK)
		return;
	row[G_ADDRESS] = row[G_SITE] = cell_number(profile->locations[slot->location].address);
	row[G_PLACE] = file ? cell_text(view_place_text(table, file, slot->line))
			    : cell_text_or_unset(view_offset_text(table, profile, slot->location));
	if (file)
		row[G_FILE] = cell_text(file);
	if (file && slot->line)
		row[G_LINE] = cell_integer(slot->line);
}

static void caller_row_fill(struct table *table, const struct graph *graph,
			    const struct stanza *stanza, const struct arm *arm)
{
	const struct edge *edge = &graph->edges.items[arm->edge];
	struct cell *row = stanza_row_add(table, graph, stanza, "caller", arm->weight);

	if (edge->site == NO_SLOT) {
		row[G_TEXT] = cell_text("  from outside");
		return;
	}
	row[G_OTHER] = cell_text(functions_name(&graph->functions, edge->caller));
	row[G_OTHER_MODULE] = cell_text(module_text(graph, edge->caller));
	row[G_TEXT] = cell_text(table_own(
		table, mem_printf("  from %s", function_text(table, graph, edge->caller))));
	site_fill(table, row, graph, edge->site);
}

static void callee_row_fill(struct table *table, const struct graph *graph,
			    const struct stanza *stanza, const struct arm *arm)
{
	const struct edge *edge = &graph->edges.items[arm->edge];
	struct cell *row = stanza_row_add(table, graph, stanza, "callee", arm->weight);

	row[G_OTHER] = cell_text(functions_name(&graph->functions, edge->callee));
	row[G_OTHER_MODULE] = cell_text(module_text(graph, edge->callee));
	row[G_TEXT] = cell_text(
		table_own(table, mem_printf("  to %s", function_text(table, graph, edge->callee))));
	site_fill(table, row, graph, edge->site);
}

static void self_row_fill(struct table *table, const struct graph *graph,
			  const struct stanza *stanza)
{
	uint32_t function = stanza->function;
	uint32_t symbol = functions_symbol(&graph->functions, function);
	struct cell *row =
		stanza_row_add(table, graph, stanza, "self", graph->costs.total[function]);

	row[G_SELF] = cell_number(graph->costs.self[function]);
	row[G_SHARE] = cell_real(share_of(graph->costs.self[function], table->totals.seen));
	row[G_TEXT] = cell_text(view_titled_text(table, function_text(table, graph, function),
						 module_text(graph, function)));
	if (symbol && !functions_inlined(&graph->functions, function))
		row[G_ADDRESS] = cell_number(graph->forest->profile->symbols[symbol].address);
}

static void recursion_row_fill(struct table *table, const struct graph *graph,
			       const struct stanza *stanza)
{
	struct cell *row;

	if (!graph->recursive[stanza->function])
		return;
	row = stanza_row_add(table, graph, stanza, "recursion", graph->recursive[stanza->function]);
	row[G_TEXT] = cell_text("  more than once on the stack");
}

typedef void (*arm_fill_fn)(struct table *table, const struct graph *graph,
			    const struct stanza *stanza, const struct arm *arm);

/*
 * Executed code has every call that was made, so in text the many small ones of a function become
 * one row. Arms are ordered by weight.
 */
static void arms_fill(struct table *table, const struct graph *graph, const struct stanza *stanza,
		      const struct arms *arms, const char *relation, arm_fill_fn fill)
{
	uint32_t first = arms->first[stanza->function], end = arms->first[stanza->function + 1];
	uint64_t whole = graph->costs.total[stanza->function], rest = 0;
	uint32_t shown = first;

	while (shown < end && share_of(arms->items[shown].weight, whole) >= graph->least_part)
		fill(table, graph, stanza, &arms->items[shown++]);
	if (end - shown == 1)
		fill(table, graph, stanza, &arms->items[shown++]);
	if (shown == end)
		return;
	for (uint32_t i = shown; i < end; i++)
		rest += arms->items[i].weight;
	stanza_row_add(table, graph, stanza, relation, rest)[G_TEXT] =
		cell_text(table_own(table, mem_printf("  %u more %ss", end - shown, relation)));
}

static void stanza_add(struct table *table, const struct graph *graph, const struct arms *callers,
		       const struct arms *callees, const struct stanza *stanza)
{
	arms_fill(table, graph, stanza, callers, "caller", caller_row_fill);
	self_row_fill(table, graph, stanza);
	arms_fill(table, graph, stanza, callees, "callee", callee_row_fill);
	recursion_row_fill(table, graph, stanza);
}

/* The functions that get a stanza, by total; arms serve as the pairs to sort. */
static struct arm *stanzas_choose(const struct graph *graph, const struct view_request *request,
				  struct table *table, size_t *ret_count)
{
	struct arm *chosen = mem_alloc((graph->functions.count + 1) * sizeof(*chosen));
	struct functions wanted;
	AUTO(free_ptr) bool *is_wanted = mem_zalloc(graph->functions.count + 1);
	size_t count = 0;

	functions_init(&wanted, graph->forest, &request->filter);
	for (size_t i = 0; i < graph->forest->slot_count; i++)
		is_wanted[wanted.entity[i]] = true;
	functions_deinit(&wanted);
	for (uint32_t i = 1; i < graph->functions.count; i++) {
		if (!is_wanted[i] || !graph->costs.total[i])
			continue;
		if (share_of(graph->costs.total[i], table->totals.seen) < request->min_share)
			table->omitted++;
		else
			chosen[count++] = (struct arm){ 0, i, graph->costs.total[i] };
	}
	qsort(chosen, count, sizeof(*chosen), arm_order);
	if (request->limit && count > request->limit) {
		table->omitted += count - request->limit;
		count = request->limit;
	}
	*ret_count = count;
	return chosen;
}

static void stanzas_add(struct table *table, const struct graph *graph,
			const struct view_request *request)
{
	struct arms callers, callees;
	size_t count;
	AUTO(free_ptr) struct arm *chosen = stanzas_choose(graph, request, table, &count);

	arms_init(&callers, graph, true);
	arms_init(&callees, graph, false);
	for (size_t i = 0; i < count; i++) {
		struct stanza stanza = { chosen[i].edge, (uint32_t)i };

		stanza_add(table, graph, &callers, &callees, &stanza);
	}
	arms_deinit(&callers);
	arms_deinit(&callees);
}

enum {
	S_TOTAL,
	S_TOTAL_SHARE,
	S_TEXT,
	S_PART,
	S_FROM,
	S_PLACE,
	S_SITE,
	S_SYMBOL,
	S_MODULE,
	S_RELATION,
	S_OTHER,
	S_OTHER_MODULE,
	S_ADDRESS,
	S_RETURN,
	S_FILE,
	S_LINE,
	S_STANZA,
	S_COLUMNS
};

static const struct column site_columns[] = {
	[S_TOTAL] = { "total", "Total", COLUMN_COUNT },
	[S_TOTAL_SHARE] = { "total_share", "Total%", COLUMN_SHARE },
	[S_TEXT] = { "function", "Function", COLUMN_TEXT, COLUMN_PEOPLE, true, .cut = CUT_NAME,
		     .comfort = 22 },
	[S_PART] = { "part", "Part", COLUMN_SHARE },
	[S_FROM] = { "from", "From", COLUMN_TEXT, COLUMN_PEOPLE, true, .cut = CUT_NAME },
	[S_PLACE] = { "place", "Line", COLUMN_TEXT, COLUMN_PEOPLE, true, true, .cut = CUT_PLACE,
		      .comfort = 13 },
	[S_SITE] = { "site", "Returns to", COLUMN_ADDRESS, COLUMN_PEOPLE, .spare = 1 },
	[S_SYMBOL] = { "symbol", "", COLUMN_TEXT, COLUMN_DATA },
	[S_MODULE] = { "module", "", COLUMN_TEXT, COLUMN_DATA },
	[S_RELATION] = { "relation", "", COLUMN_TEXT, COLUMN_DATA },
	[S_OTHER] = { "other", "", COLUMN_TEXT, COLUMN_DATA },
	[S_OTHER_MODULE] = { "other_module", "", COLUMN_TEXT, COLUMN_DATA },
	[S_ADDRESS] = { "address", "", COLUMN_ADDRESS, COLUMN_DATA },
	[S_RETURN] = { "return_address", "", COLUMN_ADDRESS, COLUMN_DATA },
	[S_FILE] = { "file", "", COLUMN_TEXT, COLUMN_DATA },
	[S_LINE] = { "line", "", COLUMN_INTEGER, COLUMN_DATA },
	[S_STANZA] = { "stanza", "", COLUMN_INTEGER, COLUMN_DATA },
};

/*
 * The return address of a call: frames keep the return address minus 1. An inlined function was not
 * called and has none.
 */
static void callsite_fill(struct table *table, struct cell *row, const struct graph *graph,
			  uint32_t site)
{
	const struct profile *profile = graph->forest->profile;
	const struct slot *slot = &graph->forest->slots[site];
	const char *file = name_of_file(profile, slot->file);
	uint64_t address = profile->locations[slot->location].address;

	if (profile->modules[slot->module].kind == MODULE_MARK)
		return;
	row[S_ADDRESS] = cell_number(address);
	if (site == graph->forest->first[slot->location])
		row[S_RETURN] = row[S_SITE] = cell_number(address + 1);
	row[S_FILE] = cell_text_or_unset(file);
	row[S_PLACE] = file ? cell_text(view_place_text(table, file, slot->line))
			    : cell_text_or_unset(view_offset_text(table, profile, slot->location));
	if (file && slot->line)
		row[S_LINE] = cell_integer(slot->line);
}

/*
 * A row of a call site, or of several where one function is inlined into the same line of another.
 */
struct callsite {
	uint32_t edge; /* the heaviest */
	uint32_t count; /* of edges */
	uint64_t weight;
};

static bool is_inlined_call(const struct graph *graph, const struct edge *edge)
{
	const struct forest *forest = graph->forest;

	return edge->site != NO_SLOT &&
	       edge->site != forest->first[forest->slots[edge->site].location];
}

static bool is_same_line(const struct graph *graph, const struct edge *a, const struct edge *b)
{
	const struct slot *x = &graph->forest->slots[a->site], *y = &graph->forest->slots[b->site];

	return a->caller == b->caller && x->file == y->file && x->line == y->line;
}

/* The row that the edge belongs to; NULL: none yet. */
static struct callsite *callsite_find(const struct graph *graph, struct callsite *sites,
				      size_t count, uint32_t edge)
{
	const struct edge *row = &graph->edges.items[edge];

	for (size_t i = 0; is_inlined_call(graph, row) && i < count; i++) {
		const struct edge *other = &graph->edges.items[sites[i].edge];

		if (is_inlined_call(graph, other) && is_same_line(graph, row, other))
			return &sites[i];
	}
	return NULL;
}

static int callsite_order(const void *left, const void *right)
{
	const struct callsite *a = left, *b = right;

	if (a->weight != b->weight)
		return a->weight < b->weight ? 1 : -1;
	return (a->edge > b->edge) - (a->edge < b->edge);
}

static void callsite_row_add(struct table *table, const struct graph *graph,
			     const struct stanza *stanza, const struct callsite *site)
{
	const struct edge *edge = &graph->edges.items[site->edge];
	struct cell *row = table_row_add(table);

	row[S_TOTAL] = cell_number(site->weight);
	row[S_TOTAL_SHARE] = cell_real(share_of(site->weight, table->totals.seen));
	row[S_PART] = cell_real(share_of(site->weight, graph->costs.total[stanza->function]));
	row[S_TEXT] =
		cell_text(view_titled_text(table, function_text(table, graph, stanza->function),
					   module_text(graph, stanza->function)));
	row[S_SYMBOL] = cell_text(functions_name(&graph->functions, stanza->function));
	row[S_MODULE] = cell_text(module_text(graph, stanza->function));
	row[S_RELATION] = cell_text("caller");
	row[S_STANZA] = cell_integer(stanza->number);
	if (edge->site == NO_SLOT) {
		row[S_FROM] = cell_text("[outside]");
		return;
	}
	row[S_FROM] = cell_text(function_text(table, graph, edge->caller));
	row[S_OTHER] = cell_text(functions_name(&graph->functions, edge->caller));
	row[S_OTHER_MODULE] = cell_text(module_text(graph, edge->caller));
	callsite_fill(table, row, graph, edge->site);
	if (site->count > 1)
		row[S_ADDRESS] = (struct cell){};
}

static void callsites_of_function_add(struct table *table, const struct graph *graph,
				      const struct stanza *stanza, const struct arms *callers)
{
	uint32_t first = callers->first[stanza->function];
	uint32_t end = callers->first[stanza->function + 1];
	AUTO(free_ptr) struct callsite *sites = mem_alloc((end - first + 1) * sizeof(*sites));
	size_t count = 0;

	for (uint32_t i = first; i < end; i++) {
		const struct arm *arm = &callers->items[i];
		struct callsite *site = callsite_find(graph, sites, count, arm->edge);

		if (!site) {
			site = &sites[count++];
			*site = (struct callsite){ .edge = arm->edge };
		}
		site->count++;
		site->weight += arm->weight;
	}
	qsort(sites, count, sizeof(*sites), callsite_order);
	for (size_t i = 0; i < count; i++)
		callsite_row_add(table, graph, stanza, &sites[i]);
}

static void callsites_add(struct table *table, const struct graph *graph,
			  const struct view_request *request)
{
	struct arms callers;
	size_t count;
	AUTO(free_ptr) struct arm *chosen = stanzas_choose(graph, request, table, &count);

	arms_init(&callers, graph, true);
	for (size_t i = 0; i < count; i++)
		callsites_of_function_add(
			table, graph, &(struct stanza){ chosen[i].edge, (uint32_t)i }, &callers);
	arms_deinit(&callers);
}

static int samples_callgraph(const struct profile *profile, const struct view_request *request,
			     struct table **ret)
{
	AUTO(forest_destroy_auto)
	struct forest *forest = forest_create(profile, &request->filter, FOREST_CODE_ROWS);
	struct table *table = request->by_callsite
				      ? table_create("callgraph", site_columns, S_COLUMNS)
				      : table_create("callgraph", graph_columns, G_COLUMNS);
	struct graph graph = {};

	table->group_column = request->by_callsite ? -1 : G_STANZA;
	table_totals_set(table, profile, forest->selected);
	graph_init(&graph, forest);
	if (request->people && request->metric == METRIC_INSTRUCTIONS)
		graph.least_part = request->min_share;
	if (request->by_callsite)
		callsites_add(table, &graph, request);
	else
		stanzas_add(table, &graph, request);
	graph_deinit(&graph);
	*ret = table;
	return 0;
}

int view_callgraph(const struct profile *profile, const struct view_request *request,
		   struct table **ret)
{
	if (request->metric == METRIC_CALLS)
		return call_view("callgraph", profile, request, ret);
	return samples_callgraph(profile, request, ret);
}
