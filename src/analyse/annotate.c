// SPDX-License-Identifier: BSD-2-Clause
#include "analyse/annotate.h"

#include <stdlib.h>
#include <string.h>

#include "analyse/forest.h"
#include "analyse/instruction.h"
#include "analyse/meta.h"
#include "analyse/names.h"
#include "analyse/sites.h"
#include "base/map.h"
#include "base/mem.h"

static bool is_called(const struct profile_symbol *symbol, const char *name)
{
	return (symbol->name && !strcmp(symbol->name, name)) ||
	       (symbol->linkage && !strcmp(symbol->linkage, name));
}

static bool is_like(const struct profile_symbol *symbol, const char *name)
{
	return (symbol->name && pattern_match(name, symbol->name)) ||
	       (symbol->linkage && pattern_match(name, symbol->linkage));
}

static int match_order(const void *left, const void *right)
{
	const struct annotate_match *a = left, *b = right;

	if (a->samples != b->samples)
		return a->samples < b->samples ? 1 : -1;
	return (a->symbol > b->symbol) - (a->symbol < b->symbol);
}

/* A tool that only marks code (coverage) gives no counts. */
bool annotate_is_executed(const struct profile *profile)
{
	return !profile_holds(profile, DOMAIN_SAMPLES) && profile_holds(profile, DOMAIN_EXECUTED) &&
	       !meta_only_marks(profile);
}

bool annotate_is_marked(const struct profile *profile)
{
	return !profile_holds(profile, DOMAIN_SAMPLES) &&
	       !profile_holds(profile, DOMAIN_EXECUTED) && profile_holds(profile, DOMAIN_MARKS);
}

/* By block: how often it was executed by the threads that are selected. */
static uint64_t *executions_count(const struct profile *profile, const struct filter *filter)
{
	uint64_t *counts = mem_zalloc((profile->block_count + 1) * sizeof(*counts));

	for (size_t i = 0; i < profile->execution_count; i++)
		if (filter_thread(filter, profile, profile->executions[i].thread))
			counts[profile->executions[i].block] += profile->executions[i].count;
	return counts;
}

static uint64_t *executed_by_symbol(const struct profile *profile, const struct filter *filter)
{
	AUTO(free_ptr) uint64_t *counts = executions_count(profile, filter);
	uint64_t *sums = mem_zalloc((profile->symbol_count + 1) * sizeof(*sums));

	for (uint32_t i = 1; i < profile->block_count; i++)
		sums[location_function(profile, profile->blocks[i].location)] +=
			counts[i] * profile->blocks[i].instructions;
	return sums;
}

static uint64_t *marked_by_symbol(const struct profile *profile, const struct filter *filter)
{
	uint64_t *sums = mem_zalloc((profile->symbol_count + 1) * sizeof(*sums));

	for (size_t i = 0; i < profile->mark_code_count; i++) {
		const struct profile_mark_code *code = &profile->mark_codes[i];

		if (filter_thread(filter, profile, code->thread))
			sums[location_function(profile, code->location)] +=
				code->count * code->instructions;
	}
	return sums;
}

static uint64_t *sampled_by_symbol(const struct profile *profile, const struct filter *filter)
{
	AUTO(forest_destroy_auto)
	struct forest *forest = forest_create(profile, filter, FOREST_CODE_ROWS);
	uint64_t *samples = mem_zalloc((profile->symbol_count + 1) * sizeof(*samples));

	for (size_t i = 1; i < profile->stack_count; i++)
		samples[location_function(profile, profile->stacks[i].location)] += forest->own[i];
	return samples;
}

uint64_t *annotate_samples(const struct profile *profile, const struct filter *filter)
{
	if (annotate_is_marked(profile))
		return marked_by_symbol(profile, filter);
	return annotate_is_executed(profile) ? executed_by_symbol(profile, filter)
					     : sampled_by_symbol(profile, filter);
}

void annotate_find(const struct profile *profile, const struct filter *filter, const char *name,
		   struct annotate_match **ret, size_t *ret_count, bool *ret_exact,
		   bool *ret_inlined)
{
	AUTO(free_ptr) uint64_t *samples = annotate_samples(profile, filter);
	struct annotate_match *matches = mem_alloc((profile->symbol_count + 1) * sizeof(*matches));
	size_t count = 0;

	*ret_inlined = false;
	*ret_exact = false;
	for (uint32_t i = 1; i < profile->symbol_count; i++) {
		const struct profile_symbol *symbol = &profile->symbols[i];
		bool exact = is_called(symbol, name);

		if ((!exact && (*ret_exact || !is_like(symbol, name))) ||
		    !filter_module(filter, profile, symbol->module) ||
		    profile->modules[symbol->module].kind == MODULE_MARK)
			continue;
		*ret_inlined |= symbol->inlined;
		if (symbol->inlined)
			continue;
		if (exact && !*ret_exact)
			count = 0;
		*ret_exact |= exact;
		matches[count++] = (struct annotate_match){ i, samples[i] };
	}
	qsort(matches, count, sizeof(*matches), match_order);
	*ret = matches;
	*ret_count = count;
}

enum {
	A_SELF,
	A_SHARE,
	A_PART,
	A_ADDRESS,
	A_TEXT,
	A_FILE,
	A_LINE,
	A_COLUMNS,
	A_TOTAL = A_COLUMNS,
	A_DISTINCT,
	A_VALUES,
	A_ITEM,
	A_REGISTER,
	A_RUNS,
	A_VALUE_COLUMNS
};

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
	AUTO(free_ptr) uint64_t *counts = executions_count(profile, annotation->request->filter);

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

/* The row of the instruction itself; rows of further values come after it. */
static bool is_instruction(const struct cell *row)
{
	return row[A_TEXT].set;
}

struct weighted_row {
	uint64_t weight;
	size_t row;
};

static int weighted_row_order(const void *left, const void *right)
{
	const struct weighted_row *a = left, *b = right;

	if (a->weight != b->weight)
		return a->weight < b->weight ? 1 : -1;
	return (a->row > b->row) - (a->row < b->row);
}

/* By row: whether it is one of the limit instructions with the most samples. */
static bool *heaviest_choose(const struct table *table, size_t limit)
{
	AUTO(free_ptr)
	struct weighted_row *rows = mem_alloc((table->row_count + 1) * sizeof(*rows));
	bool *keep = mem_zalloc(table->row_count + 1);
	size_t count = 0;

	for (size_t i = 0; i < table->row_count; i++)
		if (is_instruction(table_row(table, i)))
			rows[count++] =
				(struct weighted_row){ table_row(table, i)[A_SELF].number, i };
	qsort(rows, count, sizeof(*rows), weighted_row_order);
	for (size_t i = 0; i < count && i < limit; i++)
		keep[rows[i].row] = true;
	return keep;
}

void annotate_limit(struct table *table, size_t limit)
{
	AUTO(free_ptr) bool *keep = heaviest_choose(table, limit);
	size_t size = table->column_count * sizeof(struct cell), kept = 0;
	bool with = false;

	for (size_t i = 0; i < table->row_count; i++) {
		bool instruction = is_instruction(table_row(table, i));

		if (instruction)
			with = keep[i];
		if (with)
			memmove(table_row(table, kept++), table_row(table, i), size);
		else
			table->omitted += instruction;
	}
	table->row_count = kept;
}

static bool same_line(const struct cell *a, const struct cell *b)
{
	return a[A_FILE].set == b[A_FILE].set && a[A_LINE].set == b[A_LINE].set &&
	       (!a[A_FILE].set || !strcmp(a[A_FILE].text, b[A_FILE].text)) &&
	       (!a[A_LINE].set || a[A_LINE].integer == b[A_LINE].integer);
}

/* "; file.c:12  text": the last part of the path is enough beside the text. */
static struct cell *source_row_add(struct table *table, const struct cell *from,
				   annotate_source_fn source, void *ctx)
{
	const char *file = from[A_FILE].text, *slash = strrchr(file, '/');
	uint32_t line = from[A_LINE].set ? (uint32_t)from[A_LINE].integer : 0;
	const char *place = view_place_text(table, slash ? slash + 1 : file, line);
	const char *text = line ? source(ctx, file, line) : NULL;
	struct cell *row = table_row_add(table);

	row[A_TEXT] = cell_text(table_own(table, mem_printf("; %s%s%s", place, text ? "  " : "",
							    text ? text : "")));
	return row;
}

static uint64_t line_key(const struct cell *row)
{
	return hash64_pair(hash_bytes(row[A_FILE].text, strlen(row[A_FILE].text)),
			   row[A_LINE].set ? (uint64_t)row[A_LINE].integer : 0);
}

/* By line_key(): executions of the line's most executed instruction. */
static void lines_count(const struct table *table, struct map *ret)
{
	for (size_t i = 0; i < table->row_count; i++) {
		const struct cell *row = table_row(table, i);
		uint64_t *most;

		if (!row[A_FILE].set || !row[A_SELF].set)
			continue;
		most = map_at(ret, line_key(row), NULL);
		*most = row[A_SELF].number > *most ? row[A_SELF].number : *most;
	}
}

static void line_count_fill(const struct map *counts, const struct cell *from, struct cell *row)
{
	const uint64_t *count = map_find(counts, line_key(from));

	if (count)
		row[A_SELF] = cell_number(*count);
}

struct table *annotate_interleave(const struct table *table, annotate_source_fn source, void *ctx)
{
	struct table *people = table_create(table->view, table->columns, table->column_count);
	const struct cell *previous = NULL;
	bool marked = table->columns == marked_columns;
	AUTO(map_deinit) struct map counts = {};

	if (marked)
		lines_count(table, &counts);
	people->heading = table->heading;
	people->totals = table->totals;
	people->runs = table->runs;
	people->has_runs = table->has_runs;
	people->unreadable = table->unreadable;
	people->omitted = table->omitted;
	people->filtered = table->filtered;
	for (size_t i = 0; i < table->row_count; i++) {
		const struct cell *from = table_row(table, i);
		struct cell *row;

		if (from[A_FILE].set && (!previous || !same_line(previous, from)))
			line_count_fill(&counts, from, source_row_add(people, from, source, ctx));
		if (from[A_FILE].set)
			previous = from;
		row = table_row_add(people);
		memcpy(row, from, table->column_count * sizeof(*row));
		if (!is_instruction(from))
			row[A_ADDRESS] = (struct cell){};
		else
			row[A_TEXT] = cell_text(
				table_own(people, mem_printf("    %s", from[A_TEXT].text)));
		if (row[A_SELF].number == 0 && !marked)
			row[A_SELF] = row[A_SHARE] = row[A_PART] = (struct cell){};
	}
	return people;
}
