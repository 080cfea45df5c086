// SPDX-License-Identifier: BSD-2-Clause
/*
 * Functions with the most common values of their arguments.
 *
 * Without debug information it is not known how many arguments a function has: six registers are
 * recorded, whatever they hold. For people, only those are shown that the function's code reads
 * before it writes them, or, where the code is not at hand, all up to the last one that has a value
 * with some share. Programs get all.
 *
 * The functions come by the samples in their code, and the call sites of one by how often it was
 * entered from there. Text says also which hot functions have no arguments, and why.
 */
#include <stdlib.h>
#include <string.h>

#include "analyse/annotate.h"
#include "analyse/names.h"
#include "analyse/sites.h"
#include "analyse/views.h"
#include "base/log.h"
#include "base/mem.h"

/*
 * Text leaves out functions that were entered less often: a value that was seen once is always the
 * most common one.
 */
enum { ENTRIES_MIN = 4 };

/*
 * The share that the most common value must have with certainty. A register below it, of which it
 * is not known whether it is an argument, is taken for noise.
 */
#define NOISE_SHARE 0.05

/* The share of the samples from which on a function is named even if it has no arguments. */
#define HOT_SHARE 0.01

struct argument {
	struct site site;
	unsigned number;
};

/* A function, or a function as called from one place. */
struct callee {
	size_t first, count; /* of the arguments */
	uint32_t location, caller;
	uint32_t symbol; /* 0: unknown */
	uint64_t samples; /* in its code, whatever is inlined there */
	uint64_t entries; /* the most values that an argument has */
	const char *absent; /* why there are none; NULL: there are */
	unsigned shown; /* arguments, as a mask */
};

struct arguments {
	struct sites sites;
	ARRAY(struct argument) items; /* by function, caller, number */
	ARRAY(struct callee) callees;
};

static int argument_order(const void *left, const void *right)
{
	const struct argument *a = left, *b = right;

	if (a->site.location != b->site.location)
		return a->site.location < b->site.location ? -1 : 1;
	if (a->site.caller != b->site.caller)
		return a->site.caller < b->site.caller ? -1 : 1;
	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	return (a->site.total < b->site.total) - (a->site.total > b->site.total);
}

static bool is_argument(const struct sites *sites, uint32_t item, unsigned *ret)
{
	struct site probe = { .item = item };
	enum selection_source source;

	if (!site_source(sites, &probe, &source) || source < SELECTION_ARG0 ||
	    source > SELECTION_ARG5)
		return false;
	*ret = source - SELECTION_ARG0;
	return true;
}

static void arguments_collect(struct arguments *arguments, bool by_caller)
{
	struct sites *sites = &arguments->sites;
	struct argument argument;

	for (uint32_t i = 1; i < sites->profile->value_item_count; i++)
		sites->wanted[i] = is_argument(sites, i, &argument.number);
	while (sites_next(sites, by_caller ? SITE_CALLER : SITE_ALL, &argument.site)) {
		is_argument(sites, argument.site.item, &argument.number);
		if (!by_caller)
			argument.site.caller = 0;
		*array_push(&arguments->items) = argument;
	}
	if (arguments->items.count)
		qsort(arguments->items.items, arguments->items.count, sizeof(argument),
		      argument_order);
}

static bool same_callee(const struct argument *a, const struct argument *b)
{
	return a->site.location == b->site.location && a->site.caller == b->site.caller;
}

static unsigned shown_by_share(const struct argument *items, size_t count)
{
	unsigned shown = 0;

	for (size_t i = 0; i < count; i++)
		if (site_top(&items[i].site).low >= NOISE_SHARE)
			shown = (2u << items[i].number) - 1;
	return shown;
}

static unsigned shown_choose(struct sites *sites, uint32_t symbol, const struct argument *items,
			     size_t count)
{
	unsigned shown = 0;
	int used;

	for (unsigned i = 0; i < SELECTION_ARGS; i++)
		if (symbol && parameter_find(sites->profile, symbol, i))
			shown |= 1u << i;
	if (shown)
		return shown;
	used = code_cache_arguments(&sites->code, symbol);
	return used >= 0 ? (unsigned)used : shown_by_share(items, count);
}

static bool is_hot(const struct sites *sites, uint64_t samples)
{
	return share_of(samples, sites->table->totals.seen) >= HOT_SHARE;
}

static void callee_add(struct arguments *arguments, const uint64_t *samples, size_t first,
		       size_t count)
{
	struct sites *sites = &arguments->sites;
	const struct argument *items = &arguments->items.items[first];
	struct callee *callee = array_push(&arguments->callees);
	uint32_t symbol = location_function(sites->profile, items->site.location);

	*callee = (struct callee){
		.first = first,
		.count = count,
		.location = items->site.location,
		.caller = items->site.caller,
		.symbol = symbol,
		.samples = symbol ? samples[symbol] : 0,
		.shown = shown_choose(sites, symbol, items, count),
	};
	for (size_t i = 0; i < count; i++)
		if (items[i].site.total > callee->entries)
			callee->entries = items[i].site.total;
	if (sites->request->people && !sites->request->by_caller && callee->entries < ENTRIES_MIN &&
	    is_hot(sites, callee->samples))
		callee->absent = "too few runs passed its entry";
}

/* By symbol: how many runs came by one of its instructions, where most did. */
static uint32_t *passed_find(const struct profile *profile)
{
	uint32_t *passed = mem_zalloc((profile->symbol_count + 1) * sizeof(*passed));

	for (size_t i = 0; i < profile->value_count; i++) {
		const struct profile_value *value = &profile->values[i];
		uint32_t *most = &passed[location_function(profile, value->location)];

		if (value->runs > *most)
			*most = (uint32_t)value->runs;
	}
	return passed;
}

/* Each has another cause: a loop that was entered before, or code where nothing was interpreted. */
static const char *absence_text(struct table *table, uint32_t runs)
{
	if (!runs)
		return "none: no run came here";
	return table_own(table, mem_printf("none: of %u run%s in it, none passed its entry", runs,
					   PLURAL(runs)));
}

/* Hot functions that no run has entered, for people. */
static void absent_collect(struct arguments *arguments, const uint64_t *samples)
{
	const struct sites *sites = &arguments->sites;
	const struct profile *profile = sites->profile;
	AUTO(free_ptr) uint32_t *passed = passed_find(profile);
	AUTO(free_ptr) bool *entered = mem_zalloc(profile->symbol_count + 1);

	array_each(&arguments->callees, callee)
		entered[callee->symbol] = true;
	for (uint32_t i = 1; i < profile->symbol_count; i++) {
		const struct profile_symbol *symbol = &profile->symbols[i];

		if (entered[i] || symbol->inlined || !symbol->address ||
		    !is_hot(sites, samples[i]) ||
		    profile->modules[symbol->module].kind == MODULE_MARK ||
		    !filter_symbol(&sites->request->filter, profile, i))
			continue;
		*array_push(&arguments->callees) = (struct callee){
			.symbol = i,
			.samples = samples[i],
			.absent = absence_text(sites->table, passed[i]),
		};
	}
}

static int callee_order(const void *left, const void *right)
{
	const struct callee *a = left, *b = right;

	if (a->samples != b->samples)
		return a->samples < b->samples ? 1 : -1;
	if (a->location != b->location)
		return a->location < b->location ? -1 : 1;
	if (a->entries != b->entries)
		return a->entries < b->entries ? 1 : -1;
	return (a->first > b->first) - (a->first < b->first);
}

static void callees_collect(struct arguments *arguments, const uint64_t *samples)
{
	const struct view_request *request = arguments->sites.request;
	size_t count = arguments->items.count;

	for (size_t first = 0, end; first < count; first = end) {
		for (end = first + 1; end < count && same_callee(&arguments->items.items[first],
								 &arguments->items.items[end]);
		     end++)
			;
		callee_add(arguments, samples, first, end - first);
	}
	if (count && request->people && !request->by_caller)
		absent_collect(arguments, samples);
	if (arguments->callees.count)
		qsort(arguments->callees.items, arguments->callees.count, sizeof(struct callee),
		      callee_order);
}

enum {
	G_SAMPLES_SHOWN,
	G_SHARE_SHOWN,
	G_ENTRIES,
	G_FUNCTION,
	G_FROM,
	G_WHAT,
	G_VALUES,
	G_AT,
	G_SAMPLES = G_AT + PLACE_COLUMNS,
	G_SHARE,
	G_ARGUMENT,
	G_NAME,
	G_TYPE,
	G_ITEM,
	G_CALLER,
	G_TOTAL = G_CALLER + CALLER_COLUMNS,
	G_RUNS,
	G_DISTINCT,
	G_COLUMNS
};

static const struct column argument_columns[] = {
	[G_SAMPLES_SHOWN] = { "shown_samples", "Samples", COLUMN_COUNT, COLUMN_PEOPLE },
	[G_SHARE_SHOWN] = { "percentage", "Share", COLUMN_SHARE, COLUMN_PEOPLE },
	[G_ENTRIES] = { "entries", "Entries", COLUMN_COUNT, COLUMN_PEOPLE, .spare = 1 },
	[G_FUNCTION] = { "function", "Function", COLUMN_TEXT, COLUMN_PEOPLE, true, .cut = CUT_NAME,
			 .comfort = 18 },
	[G_FROM] = { "from", "Called from", COLUMN_TEXT, COLUMN_PEOPLE, true, true,
		     .cut = CUT_NAME },
	[G_WHAT] = { "what", "Argument", COLUMN_TEXT, COLUMN_PEOPLE, true, .spills = true },
	[G_VALUES] = { "values", "Values", COLUMN_VALUES, .elastic = true, .comfort = 22 },
	[G_AT] = PLACE_COLUMN_LIST,
	[G_SAMPLES] = { "samples", "", COLUMN_COUNT, COLUMN_DATA },
	[G_SHARE] = { "share", "", COLUMN_SHARE, COLUMN_DATA },
	[G_ARGUMENT] = { "argument", "", COLUMN_INTEGER, COLUMN_DATA },
	[G_NAME] = { "name", "", COLUMN_TEXT, COLUMN_DATA },
	[G_TYPE] = { "type", "", COLUMN_TEXT, COLUMN_DATA },
	[G_ITEM] = { "item", "", COLUMN_TEXT, COLUMN_DATA },
	[G_CALLER] = CALLER_COLUMN_LIST,
	[G_TOTAL] = { "total", "", COLUMN_COUNT, COLUMN_DATA },
	[G_RUNS] = { "runs", "", COLUMN_COUNT, COLUMN_DATA },
	[G_DISTINCT] = { "distinct", "", COLUMN_COUNT, COLUMN_DATA },
};

/*
 * Fills the cells that text shows only once, in the first row of a function or, by caller, of a
 * call site.
 */
static void heading_fill(struct table *table, struct cell *row, const struct profile *profile,
			 const struct callee *callee, bool again)
{
	const char *name = row[G_AT + PLACE_SYMBOL].text;

	row[G_ENTRIES] = cell_number(callee->entries);
	if (callee->caller)
		row[G_FROM] = cell_text(site_place_text(table, profile, callee->caller));
	if (again)
		return;
	row[G_SAMPLES_SHOWN] = row[G_SAMPLES];
	row[G_SHARE_SHOWN] = row[G_SHARE];
	name = table_own(table, mem_printf("%.*s", (int)name_brief_length(name), name));
	row[G_FUNCTION] = cell_text(view_titled_text(table, name, row[G_AT + PLACE_MODULE].text));
}

static struct cell *callee_row_add(struct table *table, const struct profile *profile,
				   const struct callee *callee)
{
	struct cell *row = table_row_add(table);

	site_place_fill(&row[G_AT], profile, callee->location);
	row[G_SAMPLES] = cell_number(callee->samples);
	row[G_SHARE] = cell_real(share_of(callee->samples, table->totals.seen));
	if (callee->caller)
		site_caller_fill(&row[G_CALLER], profile, callee->caller);
	return row;
}

static void argument_fill(struct sites *sites, struct cell *row, const struct callee *callee,
			  const struct argument *argument)
{
	const struct profile_parameter *parameter =
		parameter_find(sites->profile, callee->symbol, argument->number);
	struct table *table = sites->table;

	row[G_ARGUMENT] = cell_integer(argument->number);
	row[G_ITEM] = cell_text(sites->items[argument->site.item].text);
	row[G_TOTAL] = cell_number(argument->site.total);
	row[G_RUNS] = cell_number(argument->site.runs);
	row[G_DISTINCT] = cell_number(argument->site.list.count);
	row[G_VALUES] = site_cell(sites, &argument->site, NULL, NULL);
	if (parameter) {
		row[G_NAME] = cell_text_or_unset(parameter->name);
		row[G_TYPE] = cell_text_or_unset(parameter->type);
		row[G_WHAT] = cell_text(parameter_text(table, parameter));
	} else {
		row[G_WHAT] = cell_text(table_own(table, mem_printf("arg%u", argument->number)));
	}
}

static void absent_row_add(struct sites *sites, const struct callee *callee)
{
	const struct profile *profile = sites->profile;
	struct cell *row = table_row_add(sites->table);

	row[G_SAMPLES] = cell_number(callee->samples);
	row[G_SHARE] = cell_real(share_of(callee->samples, sites->table->totals.seen));
	row[G_AT + PLACE_SYMBOL] = cell_text(name_of_symbol(profile, callee->symbol));
	row[G_AT + PLACE_MODULE] =
		cell_text(name_of_module(profile, profile->symbols[callee->symbol].module));
	heading_fill(sites->table, row, profile, callee, false);
	row[G_WHAT] = cell_text(callee->absent);
}

/* Whether there was a row to add. again: the last row is of the same function. */
static bool callee_rows_add(struct arguments *arguments, const struct callee *callee, bool again)
{
	struct sites *sites = &arguments->sites;
	bool first = true;

	if (callee->absent) {
		absent_row_add(sites, callee);
		return true;
	}
	for (size_t i = callee->first; i < callee->first + callee->count; i++) {
		const struct argument *argument = &arguments->items.items[i];
		bool twice = i > callee->first && argument[-1].number == argument->number;
		struct cell *row;

		if (twice || (sites->request->people && !(callee->shown >> argument->number & 1)))
			continue;
		row = callee_row_add(sites->table, sites->profile, callee);
		if (first)
			heading_fill(sites->table, row, sites->profile, callee, again);
		argument_fill(sites, row, callee, argument);
		first = false;
	}
	return !first;
}

/* Whether text leaves the function out: it was hardly ever entered, or only passes calls on. */
static bool callee_is_dull(const struct sites *sites, const struct callee *callee)
{
	if (!sites->request->people)
		return false;
	return (callee->entries < ENTRIES_MIN && !callee->absent) ||
	       name_is_thunk(name_of_symbol(sites->profile, callee->symbol));
}

static bool callee_is_wanted(const struct arguments *arguments, const struct callee *callee,
			     size_t shown)
{
	const struct view_request *request = arguments->sites.request;
	uint64_t seen = arguments->sites.table->totals.seen;

	return (!request->limit || shown < request->limit) &&
	       share_of(callee->samples, seen) >= request->min_share &&
	       !callee_is_dull(&arguments->sites, callee);
}

static void rows_add(struct arguments *arguments)
{
	struct table *table = arguments->sites.table;
	uint32_t last = 0;
	size_t shown = 0;

	array_each(&arguments->callees, callee) {
		if (!callee_is_wanted(arguments, callee, shown) ||
		    !callee_rows_add(arguments, callee, callee->location == last)) {
			table->omitted++;
			continue;
		}
		last = callee->location;
		shown++;
	}
}

int view_args(const struct profile *profile, const struct view_request *request, struct table **ret)
{
	AUTO(free_ptr) uint64_t *samples = annotate_samples(profile, &(struct filter){});
	struct table *table = table_create("args", argument_columns, G_COLUMNS);
	struct arguments arguments = {};

	table_totals_set(table, profile, profile->kept);
	table_runs_set(table, profile);
	sites_init(&arguments.sites, profile, request, table);
	arguments_collect(&arguments, request->by_caller);
	callees_collect(&arguments, samples);
	rows_add(&arguments);
	array_each(&arguments.items, argument)
		site_deinit(&argument->site);
	array_deinit(&arguments.items);
	array_deinit(&arguments.callees);
	sites_deinit(&arguments.sites);
	*ret = table;
	return 0;
}
