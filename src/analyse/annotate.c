// SPDX-License-Identifier: BSD-2-Clause
/*
 * The instructions of a function with what was counted at each.
 *
 *	in	a profile; the function, its code, and which values to show
 *	out	a table with a row for each instruction
 *	owner	the caller
 *
 * annotate_find.c says which function a name means, and annotate_lines.c adds source lines.
 */
#include "analyse/annotate_private.h"

#include <stdlib.h>
#include <string.h>

#include "analyse/forest.h"
#include "analyse/instruction.h"
#include "analyse/meta.h"
#include "analyse/names.h"
#include "analyse/sites.h"
#include "base/map.h"
#include "base/mem.h"

static const struct column annotate_columns[] = {
	[A_SELF] = { "self", "Self", COLUMN_COUNT },
	[A_SHARE] = { "share", "Self%", COLUMN_SHARE },
	[A_PART] = { "part", "Part", COLUMN_SHARE, .spare = 2 },
	[A_ADDRESS] = { "address", "Address", COLUMN_ADDRESS },
	[A_TEXT] = { "text", "Instruction", COLUMN_TEXT, .elastic = true, .spills = true },
	[A_FILE] = { "file", "", COLUMN_TEXT, COLUMN_DATA },
	[A_LINE] = { "line", "", COLUMN_INTEGER, COLUMN_DATA },
	[A_TOTAL] = { "total", "Received", COLUMN_COUNT, .spare = 1 },
	[A_DISTINCT] = { "distinct", "v#", COLUMN_COUNT, .spare = 3 },
	[A_VALUES] = { "values", "Value profile", COLUMN_VALUES, .elastic = true },
	[A_ITEM] = { "item", "", COLUMN_TEXT, COLUMN_DATA },
	[A_REGISTER] = { "register", "", COLUMN_TEXT, COLUMN_DATA },
	[A_RUNS] = { "runs", "", COLUMN_COUNT, COLUMN_DATA },
};

static const struct column executed_columns[] = {
	[A_SELF] = { "executed", "Executed", COLUMN_COUNT },
	[A_SHARE] = { "share", "Share", COLUMN_SHARE },
	[A_PART] = { "part", "Part", COLUMN_SHARE },
	[A_ADDRESS] = { "address", "Address", COLUMN_ADDRESS },
	[A_TEXT] = { "text", "Instruction", COLUMN_TEXT, .elastic = true, .spills = true },
	[A_FILE] = { "file", "", COLUMN_TEXT, COLUMN_DATA },
	[A_LINE] = { "line", "", COLUMN_INTEGER, COLUMN_DATA },
};

/* The same. A table that has these tells of marked code only: it has a heading, and blanks. */
static const struct column marked_columns[] = {
	[A_SELF] = { "executed", "Executed", COLUMN_COUNT },
	[A_SHARE] = { "share", "Share", COLUMN_SHARE },
	[A_PART] = { "part", "Part", COLUMN_SHARE },
	[A_ADDRESS] = { "address", "Address", COLUMN_ADDRESS },
	[A_TEXT] = { "text", "Instruction", COLUMN_TEXT, .elastic = true, .spills = true },
	[A_FILE] = { "file", "", COLUMN_TEXT, COLUMN_DATA },
	[A_LINE] = { "line", "", COLUMN_INTEGER, COLUMN_DATA },
};

bool annotate_table_is_marked(const struct table *table)
{
	return table->columns == marked_columns;
}

/* An address from which on the executions of a block are added or subtracted. */
struct edge {
	uint64_t address;
	uint64_t change; /* added, modulo 2^64 */
};

/* A sampled address of the function. */
struct hit {
	uint64_t address;
	uint64_t count;
	uint32_t location;
};

struct annotation {
	const struct profile *profile;
	const struct annotate_request *request;
	struct table *table;
	struct forest *forest;
	struct hit *hits; /* by address */
	size_t hit_count;
	size_t next_hit;
	uint64_t whole; /* samples in the function */
	ARRAY(struct edge) edges; /* of executed code, by address */
	size_t next_edge;
	uint64_t running; /* executions of the instruction in hand */
	struct disassembler disassembler;
	struct sites sites; /* if values are wanted */
	ARRAY(struct site) values; /* of the function, by address, the best first */
	size_t next_value;
};

static int hit_order(const void *left, const void *right)
{
	const struct hit *a = left, *b = right;

	return (a->address > b->address) - (a->address < b->address);
}

static void hits_collect(struct annotation *annotation)
{
	const struct profile *profile = annotation->profile;
	const struct forest *forest = annotation->forest;
	AUTO(free_ptr) uint64_t *counts = mem_zalloc(profile->location_count * sizeof(*counts));

	for (size_t i = 1; i < profile->stack_count; i++)
		counts[profile->stacks[i].location] += forest->own[i];
	annotation->hits = mem_alloc((profile->location_count + 1) * sizeof(*annotation->hits));
	for (uint32_t i = 1; i < profile->location_count; i++) {
		if (location_function(profile, i) != annotation->request->symbol)
			continue;
		annotation->hits[annotation->hit_count++] =
			(struct hit){ profile->locations[i].address, counts[i], i };
		annotation->whole += counts[i];
	}
	qsort(annotation->hits, annotation->hit_count, sizeof(*annotation->hits), hit_order);
}

static int edge_order(const void *left, const void *right)
{
	const struct edge *a = left, *b = right;

	return (a->address > b->address) - (a->address < b->address);
}

/* Adds so many executions to each instruction from the location on, if that is in the function. */
static void edges_add(struct annotation *annotation, uint32_t location, uint32_t length,
		      uint64_t count)
{
	const struct profile *profile = annotation->profile;
	const struct profile_symbol *symbol = &profile->symbols[annotation->request->symbol];
	const struct profile_location *first = &profile->locations[location];
	uint64_t begin = symbol->address, end = begin + annotation->request->size;

	if (!count || first->module != symbol->module || first->address >= end ||
	    first->address + length <= begin)
		return;
	*array_push(&annotation->edges) = (struct edge){ first->address, count };
	*array_push(&annotation->edges) = (struct edge){ first->address + length, -count };
}

static void edges_sort(struct annotation *annotation)
{
	if (annotation->edges.count)
		qsort(annotation->edges.items, annotation->edges.count,
		      sizeof(*annotation->edges.items), edge_order);
}

/* Each instruction of a block is executed as often as the block; blocks may overlap. */
static void blocks_collect(struct annotation *annotation)
{
	const struct profile *profile = annotation->profile;
	AUTO(free_ptr) uint64_t *counts = annotate_executions(profile, annotation->request->filter);

	for (uint32_t i = 1; i < profile->block_count; i++)
		edges_add(annotation, profile->blocks[i].location, profile->blocks[i].length,
			  counts[i]);
	edges_sort(annotation);
}

static void marked_collect(struct annotation *annotation)
{
	const struct profile *profile = annotation->profile;

	for (size_t i = 0; i < profile->mark_code_count; i++) {
		const struct profile_mark_code *code = &profile->mark_codes[i];

		if (filter_thread(annotation->request->filter, profile, code->thread))
			edges_add(annotation, code->location, code->length, code->count);
	}
	edges_sort(annotation);
}

/* Whether a mark has a place there: an instruction belongs to it by its first byte. */
static bool is_marked_at(const struct annotation *annotation, uint64_t address)
{
	const struct profile *profile = annotation->profile;
	const struct profile_symbol *symbol = &profile->symbols[annotation->request->symbol];
	const char *module = profile->modules[symbol->module].path;

	for (size_t i = 0; i < profile->mark_place_count; i++) {
		const struct profile_mark_place *place = &profile->mark_places[i];

		if (address - place->address < place->size &&
		    profile->marks[place->mark].kind != MARK_DATA && module &&
		    !strcmp(place->module, module))
			return true;
	}
	return false;
}

static uint64_t executed_at(struct annotation *annotation, uint64_t address)
{
	for (; annotation->next_edge < annotation->edges.count &&
	       annotation->edges.items[annotation->next_edge].address <= address;
	     annotation->next_edge++)
		annotation->running += annotation->edges.items[annotation->next_edge].change;
	return annotation->running;
}

/* Shares of the function, once all of it is counted. */
static void executed_shares_set(struct table *table)
{
	uint64_t whole = 0;

	for (size_t i = 0; i < table->row_count; i++)
		whole += table_row(table, i)[A_SELF].number;
	for (size_t i = 0; i < table->row_count; i++) {
		struct cell *row = table_row(table, i);

		if (!row[A_SELF].set)
			continue;
		row[A_SHARE] = cell_real(share_of(row[A_SELF].number, table->totals.seen));
		row[A_PART] = cell_real(share_of(row[A_SELF].number, whole));
	}
}

static void place_fill(struct cell *row, const char *file, uint32_t line)
{
	if (file)
		row[A_FILE] = cell_text(file);
	if (file && line)
		row[A_LINE] = cell_integer(line);
}

static uint64_t site_address(const struct annotation *annotation, const struct site *site)
{
	return annotation->profile->locations[site->location].address;
}

static int site_order(const void *left, const void *right, void *ctx)
{
	const struct site *a = left, *b = right;
	const struct annotation *annotation = ctx;
	uint64_t x = site_address(annotation, a), y = site_address(annotation, b);
	unsigned first = site_preference(&annotation->sites, a->item);
	unsigned second = site_preference(&annotation->sites, b->item);

	if (x != y)
		return x < y ? -1 : 1;
	if (first != second)
		return first < second ? -1 : 1;
	return (a->item > b->item) - (a->item < b->item);
}

static void values_collect(struct annotation *annotation)
{
	const struct view_request *wish = annotation->request->values;
	struct sites *sites = &annotation->sites;
	struct site site;

	sites_init(sites, annotation->profile, wish, annotation->table);
	sites->function = annotation->request->symbol;
	while (sites_next(sites, SITE_ALL, &site)) {
		const struct site_item *item = &sites->items[site.item];

		if (wish->items.count || !item->known || item->class == SELECTION_INSTRUCTION)
			*array_push(&annotation->values) = site;
		else
			site_deinit(&site);
	}
	if (annotation->values.count)
		qsort_r(annotation->values.items, annotation->values.count, sizeof(site),
			site_order, annotation);
}

static void values_deinit(struct annotation *annotation)
{
	array_each(&annotation->values, site)
		site_deinit(site);
	array_deinit(&annotation->values);
	sites_deinit(&annotation->sites);
}

static void value_fill(struct annotation *annotation, struct cell *row, const struct site *site,
		       const struct instruction *instruction)
{
	struct sites *sites = &annotation->sites;
	const char *label = site_label(sites, site, instruction);

	row[A_TOTAL] = cell_number(site->total);
	row[A_DISTINCT] = cell_number(site->list.count);
	row[A_RUNS] = cell_number(site->runs);
	row[A_ITEM] = cell_text(sites->items[site->item].text);
	row[A_REGISTER] = cell_text_or_unset(site_register(sites, site, instruction));
	row[A_VALUES] = site_cell(sites, site, instruction, label);
}

/*
 * Whether an item is shown in addition to the best one: the user names it, or it is the other side
 * of a comparison with memory.
 */
static bool site_is_wanted(const struct annotation *annotation, const struct site *site,
			   const struct instruction *instruction)
{
	const struct site_item *item = &annotation->sites.items[site->item];

	if (annotation->request->values->items.count)
		return true;
	return instruction && instruction_compares_memory(instruction) && item->known &&
	       item->selection.needs & SELECTION_BIT(SELECTION_LOADED) &&
	       !instruction_is_memory(instruction, SELECTION_RESULT);
}

/* The values of an instruction: the best in its row, which is the last; others after it. */
static void values_add(struct annotation *annotation, uint64_t address, uint64_t end,
		       const struct instruction *instruction)
{
	bool first = true;

	for (; annotation->next_value < annotation->values.count; annotation->next_value++) {
		const struct site *site = &annotation->values.items[annotation->next_value];
		struct cell *row;

		if (site_address(annotation, site) >= end)
			return;
		if (!first && !site_is_wanted(annotation, site, instruction))
			continue;
		row = first ? table_row(annotation->table, annotation->table->row_count - 1)
			    : table_row_add(annotation->table);
		row[A_ADDRESS] = cell_number(address);
		value_fill(annotation, row, site, instruction);
		first = false;
	}
}

static void executed_row_fill(struct annotation *annotation, uint64_t address, const char *text)
{
	const struct annotate_request *request = annotation->request;
	struct cell *row = table_row_add(annotation->table);
	const char *file = NULL;
	uint32_t line = 0;
	uint64_t executed;

	if (request->line && !request->line(request->line_ctx, address, &file, &line))
		file = NULL;
	executed = executed_at(annotation, address);
	if (annotation->table->columns != marked_columns || executed ||
	    is_marked_at(annotation, address))
		row[A_SELF] = cell_number(executed);
	row[A_ADDRESS] = cell_number(address);
	row[A_TEXT] = cell_text(text);
	place_fill(row, file, line);
}

static void row_fill(struct annotation *annotation, uint64_t address, uint64_t end,
		     const char *text)
{
	const struct profile *profile = annotation->profile;
	const struct annotate_request *request = annotation->request;
	struct cell *row;
	const char *file = NULL;
	uint32_t line = 0;
	uint64_t self = 0;

	if (annotation->table->columns != annotate_columns) {
		executed_row_fill(annotation, address, text);
		return;
	}
	row = table_row_add(annotation->table);

	if (request->line && !request->line(request->line_ctx, address, &file, &line))
		file = NULL;
	while (annotation->next_hit < annotation->hit_count &&
	       annotation->hits[annotation->next_hit].address < end) {
		const struct hit *hit = &annotation->hits[annotation->next_hit++];
		const struct slot *slot =
			&annotation->forest->slots[annotation->forest->first[hit->location]];

		self += hit->count;
		if (!file && slot->file) {
			file = name_of_file(profile, slot->file);
			line = slot->line;
		}
	}
	row[A_SELF] = cell_number(self);
	row[A_SHARE] = cell_real(share_of(self, profile->seen));
	row[A_PART] = cell_real(share_of(self, annotation->whole));
	row[A_ADDRESS] = cell_number(address);
	row[A_TEXT] = cell_text(text);
	place_fill(row, file, line);
}

/*
 * Samples before the first or after the last stored byte, so that the rows still add up to the
 * function.
 */
static void outside_add(struct annotation *annotation, uint64_t end)
{
	const struct hit *hits = annotation->hits;
	uint64_t address;

	if (annotation->next_hit >= annotation->hit_count ||
	    hits[annotation->next_hit].address >= end)
		return;
	address = hits[annotation->next_hit].address;
	row_fill(annotation, address, end, "[outside the stored code]");
	values_add(annotation, address, end, NULL);
}

static void rows_add(struct annotation *annotation)
{
	const struct annotate_request *request = annotation->request;
	const struct profile_symbol *symbol = &annotation->profile->symbols[request->symbol];
	struct instruction instruction;
	size_t length;

	outside_add(annotation, symbol->address);
	for (size_t offset = 0; offset < request->size; offset += length) {
		uint64_t address = symbol->address + offset;

		instruction_decode(request->code + offset, request->size - offset, address,
				   &instruction);
		length = instruction_length(&instruction);
		row_fill(annotation, address, address + length,
			 table_own(annotation->table,
				   disassembler_text(&annotation->disassembler, symbol->module,
						     &instruction)));
		values_add(annotation, address, address + length, &instruction);
	}
	outside_add(annotation, UINT64_MAX);
}

static struct table *sampled_annotate(const struct profile *profile,
				      const struct annotate_request *request)
{
	struct annotation annotation = { .profile = profile, .request = request };

	annotation.table = table_create("annotate", annotate_columns,
					request->values ? A_VALUE_COLUMNS : A_COLUMNS);
	annotation.forest = forest_create(profile, request->filter, FOREST_CODE_ROWS);
	table_totals_set(annotation.table, profile, annotation.forest->selected);
	hits_collect(&annotation);
	disassembler_init(&annotation.disassembler, profile, &request->names, request->att);
	if (request->values) {
		table_runs_set(annotation.table, profile);
		values_collect(&annotation);
	}
	rows_add(&annotation);
	if (request->values)
		values_deinit(&annotation);
	disassembler_deinit(&annotation.disassembler);
	free(annotation.hits);
	forest_destroy(annotation.forest);
	return annotation.table;
}

static struct table *executed_annotate(const struct profile *profile,
				       const struct annotate_request *request)
{
	struct annotation annotation = { .profile = profile, .request = request };

	annotation.table = table_create("annotate", executed_columns, A_COLUMNS);
	executed_totals_set(annotation.table, profile, request->filter);
	blocks_collect(&annotation);
	disassembler_init(&annotation.disassembler, profile, &request->names, request->att);
	rows_add(&annotation);
	executed_shares_set(annotation.table);
	disassembler_deinit(&annotation.disassembler);
	array_deinit(&annotation.edges);
	return annotation.table;
}

/*
 * Sets the totals in instructions. Losses are in segments, which are taken to be as long as the
 * others.
 */
static void marked_totals_set(struct table *table, const struct profile *profile,
			      const struct filter *filter)
{
	const struct profile_recording *recording = profile_recording(profile, RECORDING_MARKS);
	struct profile_named_count *losses =
		table_alloc(table, (recording->loss_count + 1) * sizeof(*losses));
	struct totals *totals = &table->totals;
	double each;

	*totals = (struct totals){ .losses = losses, .loss_count = recording->loss_count };
	for (size_t i = 0; i < profile->mark_code_count; i++) {
		const struct profile_mark_code *code = &profile->mark_codes[i];
		uint64_t executed = code->count * code->instructions;

		totals->kept += executed;
		if (filter_thread(filter, profile, code->thread))
			totals->selected += executed;
	}
	each = recording->kept ? (double)totals->kept / (double)recording->kept : 1;
	totals->seen = totals->kept;
	for (size_t i = 0; i < recording->loss_count; i++) {
		losses[i] = recording->losses[i];
		losses[i].count = (uint64_t)((double)losses[i].count * each);
		totals->seen += losses[i].count;
	}
}

/* A mark on a kind of instruction has no places of its own. */
static const char *marked_heading(const struct profile *profile)
{
	for (size_t i = 1; i < profile->mark_count; i++)
		if (profile->marks[i].kind == MARK_INSTRUCTIONS)
			return "Counts of marked code only: an instruction without a count has no "
			       "mark, or was marked by its kind and never executed.";
	return "Counts of marked code only: an instruction without a count has no mark.";
}

static struct table *marked_annotate(const struct profile *profile,
				     const struct annotate_request *request)
{
	struct annotation annotation = { .profile = profile, .request = request };

	annotation.table = table_create("annotate", marked_columns, A_COLUMNS);
	annotation.table->heading = marked_heading(profile);
	marked_totals_set(annotation.table, profile, request->filter);
	marked_collect(&annotation);
	disassembler_init(&annotation.disassembler, profile, &request->names, request->att);
	rows_add(&annotation);
	executed_shares_set(annotation.table);
	disassembler_deinit(&annotation.disassembler);
	array_deinit(&annotation.edges);
	return annotation.table;
}

struct table *annotate(const struct profile *profile, const struct annotate_request *request)
{
	if (annotate_is_marked(profile))
		return marked_annotate(profile, request);
	if (annotate_is_executed(profile))
		return executed_annotate(profile, request);
	return sampled_annotate(profile, request);
}
