// SPDX-License-Identifier: BSD-2-Clause
/*
 * The places of a program that run often and nearly always see the same value: what to specialise
 * for.
 *
 * A place is an argument of a function, or an instruction. What the instruction's own text says is
 * left out, and so are constants that it loads, and what code is not specialised for: directions of
 * branches and addresses, unless the user names these items, and addresses of the stack even then.
 * Of several items of one instruction only the one with the highest score is shown.
 *
 * The score is the number of values received times a power of the share that the most common one
 * has with 95 % certainty at least. Values come from runs that start at samples, so that their
 * number says how hot the place is. The power puts a value that is always the same before one of
 * two values that comes ten times as often.
 */
#include <math.h>
#include <stdlib.h>

#include "analyse/names.h"
#include "analyse/sites.h"
#include "analyse/views.h"
#include "base/mem.h"

enum { SCORE_POWER = 8 };

enum {
	I_SHOWN_SCORE,
	I_SHARE,
	I_TOTAL,
	I_WHERE,
	I_FROM,
	I_PLACE,
	I_WHAT,
	I_VALUES,
	I_SCORE,
	I_AT,
	I_TEXT = I_AT + PLACE_COLUMNS,
	I_ITEM,
	I_REGISTER,
	I_ARGUMENT,
	I_NAME,
	I_CALLER,
	I_RUNS = I_CALLER + CALLER_COLUMNS,
	I_DISTINCT,
	I_COLUMNS
};

static const struct column invariant_columns[] = {
	[I_SHOWN_SCORE] = { "rank", "Score", COLUMN_COUNT, COLUMN_PEOPLE },
	[I_SHARE] = { "share", "Runs%", COLUMN_SHARE, .spare = 2 },
	[I_TOTAL] = { "total", "Received", COLUMN_COUNT, .spare = 1 },
	[I_WHERE] = { "where", "Where", COLUMN_TEXT, COLUMN_PEOPLE, true, .cut = CUT_NAME,
		      .comfort = 18 },
	[I_FROM] = { "from", "Called from", COLUMN_TEXT, COLUMN_PEOPLE, true, true,
		     .cut = CUT_NAME },
	[I_PLACE] = { "place", "Line", COLUMN_TEXT, COLUMN_PEOPLE, true, true, .cut = CUT_PLACE,
		      .comfort = 12 },
	[I_WHAT] = { "what", "Instruction", COLUMN_TEXT, COLUMN_PEOPLE, true },
	[I_VALUES] = { "values", "Values", COLUMN_VALUES, .elastic = true, .comfort = 18 },
	[I_SCORE] = { "score", "", COLUMN_REAL, COLUMN_DATA },
	[I_AT] = PLACE_COLUMN_LIST,
	[I_TEXT] = { "text", "", COLUMN_TEXT, COLUMN_DATA },
	[I_ITEM] = { "item", "", COLUMN_TEXT, COLUMN_DATA },
	[I_REGISTER] = { "register", "", COLUMN_TEXT, COLUMN_DATA },
	[I_ARGUMENT] = { "argument", "", COLUMN_INTEGER, COLUMN_DATA },
	[I_NAME] = { "name", "", COLUMN_TEXT, COLUMN_DATA },
	[I_CALLER] = CALLER_COLUMN_LIST,
	[I_RUNS] = { "runs", "", COLUMN_COUNT, COLUMN_DATA },
	[I_DISTINCT] = { "distinct", "", COLUMN_COUNT, COLUMN_DATA },
};

/* The place of the last row: further items of the same instruction compete with it. */
struct last_place {
	uint32_t location, caller;
	bool instruction;
	double score;
	unsigned preference;
};

static bool source_is_argument(enum selection_source source)
{
	return source >= SELECTION_ARG0 && source <= SELECTION_ARG5;
}

/* What the view shows when the user names no items. */
static bool item_is_default(const struct sites *sites, uint32_t item)
{
	struct site probe = { .item = item };
	enum selection_source source;

	if (!site_source(sites, &probe, &source))
		return false;
	return source_is_argument(source) ||
	       (selection_source_class(source) == SELECTION_INSTRUCTION &&
		source != SELECTION_TAKEN && source != SELECTION_ADDRESS &&
		source != SELECTION_ADDRESS2);
}

/*
 * Without types and without code it is not known whether a register is an argument; it is then
 * shown only if the user names the item.
 */
static bool argument_is_real(struct sites *sites, const struct site *site, unsigned number)
{
	uint32_t symbol = location_function(sites->profile, site->location);
	int used;

	if (sites->request->items.count)
		return true;

	for (unsigned i = 0; i < SELECTION_ARGS; i++)
		if (symbol && parameter_find(sites->profile, symbol, i))
			return parameter_find(sites->profile, symbol, number);
	used = code_cache_arguments(&sites->code, symbol);
	return used >= 0 && used >> number & 1;
}

static bool source_is_trivial(struct sites *sites, const struct site *site,
			      enum selection_source source, const struct instruction *instruction)
{
	uint32_t module = sites->profile->locations[site->location].module;

	if (source_is_argument(source))
		return !argument_is_real(sites, site, source - SELECTION_ARG0);
	return instruction && code_cache_is_trivial(&sites->code, module, instruction, source,
						    site->list.count == 1);
}

/* Whether the most common value has, as the given word, an address of the stack. */
static bool word_is_on_stack(const struct sites *sites, const struct site *site, unsigned word)
{
	struct hotlist_value value;

	if (!site->list.count)
		return false;
	hotlist_get(&site->list, 0, &value);
	return value_is_on_stack(sites->profile, value.words[word]);
}

/*
 * A tuple is shown if one of its terms would be, and left out if one of them is an address of the
 * stack.
 */
static bool site_is_trivial(struct sites *sites, const struct site *site,
			    const struct instruction *instruction)
{
	const struct site_item *item = &sites->items[site->item];
	bool trivial = true;

	if (!item->known)
		return false;
	for (unsigned i = 0; i < site->list.words; i++) {
		const struct selection_term *term = &item->selection.items[0].terms[i];

		if (term->source == SELECTION_ADDRESS && term->fn.kind == VALUEFN_SELF &&
		    word_is_on_stack(sites, site, i))
			return true;
		if (term->source == SELECTION_ADDRESS && instruction &&
		    instruction_is_on_stack(instruction))
			return true;
		trivial &= source_is_trivial(sites, site, term->source, instruction);
	}
	return trivial;
}

static void argument_fill(struct sites *sites, struct cell *row, const struct site *site,
			  unsigned number)
{
	const struct profile_parameter *parameter = parameter_find(
		sites->profile, location_function(sites->profile, site->location), number);
	struct table *table = sites->table;
	const char *text = parameter ? parameter_text(table, parameter)
				     : table_own(table, mem_printf("%u", number));

	row[I_WHAT] = cell_text(table_own(table, mem_printf("argument %s", text)));
	row[I_ARGUMENT] = cell_integer(number);
	if (parameter)
		row[I_NAME] = cell_text_or_unset(parameter->name);
	row[I_VALUES] = site_cell(sites, site, NULL, NULL);
}

static void instruction_fill(struct sites *sites, struct cell *row, const struct site *site,
			     const struct instruction *instruction)
{
	uint32_t module = sites->profile->locations[site->location].module;

	if (instruction) {
		row[I_TEXT] =
			cell_text(table_own(sites->table, disassembler_text(&sites->disassembler,
									    module, instruction)));
		row[I_WHAT] = row[I_TEXT];
	}
	row[I_REGISTER] = cell_text_or_unset(site_register(sites, site, instruction));
	row[I_VALUES] = site_cell(sites, site, instruction, site_label(sites, site, instruction));
}

static void row_fill(struct sites *sites, struct cell *row, const struct site *site,
		     const struct instruction *instruction, double score)
{
	const struct profile *profile = sites->profile;
	struct table *table = sites->table;
	enum selection_source source;

	row[I_SHARE] = cell_real(site_runs_share(sites, site));
	row[I_TOTAL] = cell_number(site->total);
	row[I_SCORE] = cell_real(score);
	row[I_SHOWN_SCORE] = cell_number((uint64_t)(score + 0.5));
	row[I_ITEM] = cell_text(sites->items[site->item].text);
	row[I_RUNS] = cell_number(site->runs);
	row[I_DISTINCT] = cell_number(site->list.count);
	site_place_fill(&row[I_AT], profile, site->location);
	row[I_WHERE] =
		cell_text(view_titled_text(table, site_place_text(table, profile, site->location),
					   row[I_AT + PLACE_MODULE].text));
	row[I_PLACE] = site_line_cell(table, &row[I_AT]);
	if (site->caller && sites->request->by_caller) {
		row[I_FROM] = cell_text(site_place_text(table, profile, site->caller));
		site_caller_fill(&row[I_CALLER], profile, site->caller);
	}
	if (site_source(sites, site, &source) && source_is_argument(source))
		argument_fill(sites, row, site, source - SELECTION_ARG0);
	else
		instruction_fill(sites, row, site, instruction);
}

/* A new row, or the last one if this is a better item of the same instruction, or NULL. */
static struct cell *row_claim(struct table *table, struct last_place *last,
			      const struct last_place *candidate)
{
	bool same = last->instruction && candidate->instruction && table->row_count &&
		    last->location == candidate->location && last->caller == candidate->caller;
	struct cell *row;

	if (same && (candidate->score < last->score || (candidate->score == last->score &&
							candidate->preference >= last->preference)))
		return NULL;
	*last = *candidate;
	if (same)
		table->row_count--;
	row = table_row_add(table);
	return row;
}

static void site_consider(struct sites *sites, const struct site *site, struct last_place *last)
{
	struct table *table = sites->table;
	const struct view_request *request = sites->request;
	double low = site_top(site).low;
	struct instruction instruction;
	struct last_place candidate = {
		.location = site->location,
		.caller = site->caller,
		.instruction = sites->items[site->item].class == SELECTION_INSTRUCTION,
		.score = (double)site->total * pow(low, SCORE_POWER),
		.preference = site_preference(sites, site->item),
	};
	bool code;
	struct cell *row;

	if (low < request->min_invariance)
		return;
	code = code_cache_instruction(&sites->code, site->location, &instruction);
	if (site_is_trivial(sites, site, code ? &instruction : NULL))
		return;
	if (site_runs_share(sites, site) < request->min_share) {
		table->omitted++;
		return;
	}
	row = row_claim(table, last, &candidate);
	if (row)
		row_fill(sites, row, site, code ? &instruction : NULL, candidate.score);
}

int view_invariants(const struct profile *profile, const struct view_request *request,
		    struct table **ret)
{
	struct table *table = table_create("invariants", invariant_columns, I_COLUMNS);
	enum site_group group = request->by_caller ? SITE_CALLER : SITE_ALL;
	struct last_place last = {};
	struct sites sites;
	struct site site;

	table_totals_set(table, profile, profile->kept);
	table_runs_set(table, profile);
	sites_init(&sites, profile, request, table);
	for (uint32_t i = 1; !request->items.count && i < profile->value_item_count; i++)
		sites.wanted[i] = item_is_default(&sites, i);
	while (sites_next(&sites, group, &site)) {
		site_consider(&sites, &site, &last);
		site_deinit(&site);
	}
	sites_deinit(&sites);
	table_sort(table, I_SCORE);
	*ret = table;
	return 0;
}
