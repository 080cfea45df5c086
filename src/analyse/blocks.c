// SPDX-License-Identifier: BSD-2-Clause
/*
 * Blocks: stretches of consecutive instructions that are invariant together, which could be
 * replaced by what they compute.
 *
 * First every site of a result, a stored value or a branch direction is looked at once and only a
 * note of it is kept: lists of a large profile would not fit into memory. Then each function with
 * notes is disassembled and its instructions are taken in order. A block goes on while each
 * instruction is invariant, and ends at what is not, at jumps, calls and returns, and behind a
 * branch that is nearly always taken. Lists are read again for the rows shown.
 *
 * Blocks are ranked by their samples times the share that the most common value of each instruction
 * has with 95 % certainty at least.
 *
 *  1. Every instruction of a block but nops has a note whose most common value has at least the
 *     share asked for.
 *  2. At least two instructions of a block compute or store something that is invariant by more
 *     than their own text, and those at its ends are not trivial.
 *  3. Blocks do not overlap.
 */
#include <math.h>
#include <stdlib.h>

#include "analyse/forest.h"
#include "analyse/names.h"
#include "analyse/sites.h"
#include "analyse/views.h"
#include "base/mem.h"

/*
 * A block is solid if at least SOLID_TOTAL values were received at each of its instructions. Others
 * count less, in proportion.
 */
enum { BLOCK_MIN = 2, SOLID_TOTAL = 30 };

/*
 * The share that the most common value must have with 95 % certainty. It keeps out places that
 * received one or two values, from which nothing follows.
 */
#define SURE_SHARE 0.5

struct note {
	uint32_t symbol;
	uint32_t location;
	uint64_t address;
	size_t place; /* for sites_seek() */
	double share, low; /* of the most common value; low with 95 % certainty at least */
	bool sure; /* that it is common at all */
	bool sole; /* there is no other */
	uint64_t total;
	uint64_t value; /* that value */
	enum selection_source source;
};

/* A note that stands for its instruction. */
struct member {
	size_t note;
	uint64_t self;
	bool trivial;
};

struct block {
	size_t first, count; /* of the members */
	uint64_t self;
	uint64_t total; /* the least of an instruction that is not trivial */
	double low; /* the least share of such an instruction, with 95 % certainty */
};

struct blocks {
	struct sites sites;
	uint64_t *samples; /* by location */
	ARRAY(struct note) notes; /* by symbol, address, the best first */
	ARRAY(struct member) members;
	ARRAY(struct block) items;
	size_t open; /* the first member of the block that is being made */
};

static int note_order(const void *left, const void *right)
{
	const struct note *a = left, *b = right;

	if (a->symbol != b->symbol)
		return a->symbol < b->symbol ? -1 : 1;
	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return (a->source > b->source) - (a->source < b->source);
}

static bool item_counts(const struct sites *sites, uint32_t item)
{
	struct site probe = { .item = item };
	enum selection_source source;

	return site_source(sites, &probe, &source) &&
	       (source == SELECTION_RESULT || source == SELECTION_STORED ||
		source == SELECTION_TAKEN);
}

static void note_add(struct blocks *blocks, const struct site *site, size_t place)
{
	const struct profile *profile = blocks->sites.profile;
	struct note note = {
		.symbol = location_function(profile, site->location),
		.location = site->location,
		.address = profile->locations[site->location].address,
		.place = place,
		.share = site_top(site).best,
		.low = site_top(site).low,
		.sure = site_top(site).low >= SURE_SHARE,
		.sole = site->list.count == 1,
		.total = site->total,
	};
	struct hotlist_value value;

	if (!site->list.count || !note.symbol)
		return;
	hotlist_get(&site->list, 0, &value);
	note.value = value.words[0];
	site_source(&blocks->sites, site, &note.source);
	*array_push(&blocks->notes) = note;
}

static void notes_collect(struct blocks *blocks)
{
	struct sites *sites = &blocks->sites;
	size_t place = sites_tell(sites);
	struct site site;

	for (uint32_t i = 1; i < sites->profile->value_item_count; i++)
		sites->wanted[i] = item_counts(sites, i);
	while (sites_next(sites, SITE_ALL, &site)) {
		note_add(blocks, &site, place);
		site_deinit(&site);
		place = sites_tell(sites);
	}
	if (blocks->notes.count)
		qsort(blocks->notes.items, blocks->notes.count, sizeof(struct note), note_order);
}

static void samples_collect(struct blocks *blocks)
{
	const struct profile *profile = blocks->sites.profile;
	AUTO(forest_destroy_auto)
	struct forest *forest = forest_create(profile, &(struct filter){}, FOREST_CODE_ROWS);

	blocks->samples = mem_zalloc((profile->location_count + 1) * sizeof(*blocks->samples));
	for (size_t i = 1; i < profile->stack_count; i++)
		blocks->samples[profile->stacks[i].location] += forest->own[i];
}

/*
 * Makes a block of the members from first to end, without trivial ones at its ends. Returns false
 * if too few are left for a block.
 */
static bool block_make(const struct blocks *blocks, size_t first, size_t end, struct block *ret)
{
	const struct member *members = blocks->members.items;
	struct block block = { .total = UINT64_MAX, .low = 1 };
	unsigned computed = 0;

	while (first < end && members[first].trivial)
		first++;
	while (first < end && members[end - 1].trivial)
		end--;
	block.first = first;
	block.count = end - first;
	for (; first < end; first++) {
		const struct note *note = &blocks->notes.items[members[first].note];

		block.self += members[first].self;
		if (members[first].trivial)
			continue;
		block.total = note->total < block.total ? note->total : block.total;
		block.low = fmin(block.low, note->low);
		computed += note->source != SELECTION_TAKEN;
	}
	*ret = block;
	return computed >= BLOCK_MIN;
}

static void block_close(struct blocks *blocks)
{
	struct block block;

	if (block_make(blocks, blocks->open, blocks->members.count, &block))
		*array_push(&blocks->items) = block;
	else
		blocks->members.count = blocks->open;
	blocks->open = blocks->members.count;
}

/*
 * The first note of an instruction that is of a branch direction or, if branch is false, of another
 * source; NULL if there is none.
 */
static const struct note *note_find(const struct note *notes, size_t count, bool branch)
{
	for (size_t i = 0; i < count; i++)
		if ((notes[i].source == SELECTION_TAKEN) == branch)
			return &notes[i];
	return NULL;
}

static bool note_is_invariant(const struct blocks *blocks, const struct note *note)
{
	return note->sure && note->share >= blocks->sites.request->min_invariance;
}

static void instruction_take(struct blocks *blocks, const struct instruction *instruction,
			     const struct note *notes, size_t count)
{
	bool branch = instruction->valid &&
		      instruction->decoded.meta.category == ZYDIS_CATEGORY_COND_BR;
	const struct note *note = note_find(notes, count, branch);

	if (instruction_is_nop(instruction))
		return;
	if (!note || !note_is_invariant(blocks, note) || instruction_leaves(instruction)) {
		block_close(blocks);
		return;
	}
	*array_push(&blocks->members) = (struct member){
		.note = (size_t)(note - blocks->notes.items),
		.self = blocks->samples[note->location],
		.trivial = code_cache_is_trivial(
			&blocks->sites.code,
			blocks->sites.profile->locations[note->location].module, instruction,
			note->source, note->sole),
	};
	if (branch && note->value)
		block_close(blocks);
}

/*
 * Whether a function has too few invariant instructions for a block. Asked before its code is
 * looked for, which takes long.
 */
static bool function_is_hopeless(const struct blocks *blocks, size_t first, size_t end)
{
	unsigned computed = 0;

	for (; first < end; first++) {
		const struct note *note = &blocks->notes.items[first];

		computed += note->source != SELECTION_TAKEN && note_is_invariant(blocks, note);
	}
	return computed < BLOCK_MIN;
}

static void function_take(struct blocks *blocks, size_t first, size_t end)
{
	struct sites *sites = &blocks->sites;
	const struct note *notes = blocks->notes.items;
	uint64_t start = sites->profile->symbols[notes[first].symbol].address;
	struct instruction instruction;
	const uint8_t *code;
	size_t size = code_cache_get(&sites->code, notes[first].symbol, &code), length;

	while (first < end && notes[first].address < start)
		first++;
	for (size_t offset = 0; offset < size; offset += length) {
		size_t next = first;

		instruction_decode(code + offset, size - offset, start + offset, &instruction);
		length = instruction_length(&instruction);
		while (next < end && notes[next].address - start < offset + length)
			next++;
		instruction_take(blocks, &instruction, notes + first, next - first);
		first = next;
	}
	block_close(blocks);
}

static double block_score(const struct block *block)
{
	double solid = fmin(1, (double)block->total / SOLID_TOTAL);

	return (double)block->self * block->low * solid;
}

static int block_order(const void *left, const void *right)
{
	const struct block *a = left, *b = right;
	double x = block_score(a), y = block_score(b);

	if (x != y)
		return x < y ? 1 : -1;
	if (a->total != b->total)
		return a->total < b->total ? 1 : -1;
	return (a->first > b->first) - (a->first < b->first);
}

static void blocks_find(struct blocks *blocks)
{
	const struct note *notes = blocks->notes.items;
	size_t count = blocks->notes.count;

	for (size_t first = 0, end; first < count; first = end) {
		for (end = first + 1; end < count && notes[end].symbol == notes[first].symbol;
		     end++)
			;
		if (!function_is_hopeless(blocks, first, end))
			function_take(blocks, first, end);
	}
	if (blocks->items.count)
		qsort(blocks->items.items, blocks->items.count, sizeof(struct block), block_order);
}

enum {
	B_SHOWN_SCORE,
	B_WHERE,
	B_PLACE,
	B_SELF,
	B_SHOWN_ADDRESS,
	B_TEXT,
	B_TOTAL,
	B_VALUES,
	B_BLOCK,
	B_LENGTH,
	B_BLOCK_SELF,
	B_SHARE,
	B_SCORE,
	B_AT,
	B_ITEM = B_AT + PLACE_COLUMNS,
	B_REGISTER,
	B_RUNS,
	B_DISTINCT,
	B_COLUMNS
};

static const struct column block_columns[] = {
	[B_SHOWN_SCORE] = { "rank", "Score", COLUMN_COUNT, COLUMN_PEOPLE },
	[B_WHERE] = { "where", "Block", COLUMN_TEXT, COLUMN_PEOPLE, true, .cut = CUT_NAME },
	[B_PLACE] = { "place", "Line", COLUMN_TEXT, COLUMN_PEOPLE, true, true, .cut = CUT_PLACE,
		      .comfort = 12 },
	[B_SELF] = { "self", "Self", COLUMN_COUNT },
	[B_SHOWN_ADDRESS] = { "at", "Address", COLUMN_ADDRESS, COLUMN_PEOPLE, .spare = 2 },
	[B_TEXT] = { "text", "Instruction", COLUMN_TEXT, .elastic = true },
	[B_TOTAL] = { "total", "Received", COLUMN_COUNT, .spare = 1 },
	[B_VALUES] = { "values", "Value profile", COLUMN_VALUES, .elastic = true },
	[B_BLOCK] = { "block", "", COLUMN_INTEGER, COLUMN_DATA },
	[B_LENGTH] = { "length", "", COLUMN_COUNT, COLUMN_DATA },
	[B_BLOCK_SELF] = { "block_self", "", COLUMN_COUNT, COLUMN_DATA },
	[B_SHARE] = { "share", "", COLUMN_SHARE, COLUMN_DATA },
	[B_SCORE] = { "score", "", COLUMN_REAL, COLUMN_DATA },
	[B_AT] = PLACE_COLUMN_LIST,
	[B_ITEM] = { "item", "", COLUMN_TEXT, COLUMN_DATA },
	[B_REGISTER] = { "register", "", COLUMN_TEXT, COLUMN_DATA },
	[B_RUNS] = { "runs", "", COLUMN_COUNT, COLUMN_DATA },
	[B_DISTINCT] = { "distinct", "", COLUMN_COUNT, COLUMN_DATA },
};

/*
 * The lists of the rows shown were read once before, and those that are damaged were counted then:
 * they must not be counted twice.
 */
static void member_values_fill(struct blocks *blocks, struct cell *row, const struct note *note,
			       const struct instruction *instruction)
{
	struct sites *sites = &blocks->sites;
	size_t unreadable = sites->table->unreadable;
	struct site site;

	sites_seek(sites, note->place);
	if (sites_next(sites, SITE_ALL, &site)) {
		row[B_TOTAL] = cell_number(site.total);
		row[B_RUNS] = cell_number(site.runs);
		row[B_DISTINCT] = cell_number(site.list.count);
		row[B_ITEM] = cell_text(sites->items[site.item].text);
		row[B_REGISTER] = cell_text_or_unset(site_register(sites, &site, instruction));
		row[B_VALUES] =
			site_cell(sites, &site, instruction, site_label(sites, &site, instruction));
		site_deinit(&site);
	}
	sites->table->unreadable = unreadable;
}

static void member_row_add(struct blocks *blocks, size_t number, size_t index)
{
	struct sites *sites = &blocks->sites;
	const struct profile *profile = sites->profile;
	const struct block *block = &blocks->items.items[number];
	const struct member *member = &blocks->members.items[block->first + index];
	const struct note *note = &blocks->notes.items[member->note];
	struct table *table = sites->table;
	struct cell *row = table_row_add(table);
	struct instruction instruction;

	site_place_fill(&row[B_AT], profile, note->location);
	row[B_SHOWN_ADDRESS] = row[B_AT + PLACE_ADDRESS];
	row[B_PLACE] = site_line_cell(table, &row[B_AT]);
	row[B_SELF] = cell_number(member->self);
	row[B_SHARE] = cell_real(share_of(member->self, table->totals.seen));
	row[B_BLOCK] = cell_integer((int64_t)number);
	row[B_LENGTH] = cell_number(block->count);
	row[B_BLOCK_SELF] = cell_number(block->self);
	row[B_SCORE] = cell_real(block_score(block));
	if (!index)
		row[B_SHOWN_SCORE] = cell_number((uint64_t)(block_score(block) + 0.5));
	if (!index)
		row[B_WHERE] = cell_text(
			view_titled_text(table, site_place_text(table, profile, note->location),
					 row[B_AT + PLACE_MODULE].text));
	if (!code_cache_instruction(&sites->code, note->location, &instruction))
		return;
	row[B_TEXT] = cell_text(table_own(
		table, disassembler_text(&sites->disassembler,
					 profile->locations[note->location].module, &instruction)));
	member_values_fill(blocks, row, note, &instruction);
}

static void rows_add(struct blocks *blocks)
{
	const struct view_request *request = blocks->sites.request;
	struct table *table = blocks->sites.table;
	size_t shown = 0;

	for (size_t i = 0; i < blocks->items.count; i++) {
		const struct block *block = &blocks->items.items[i];

		if ((request->limit && shown >= request->limit) ||
		    share_of(block->self, table->totals.seen) < request->min_share) {
			table->omitted++;
			continue;
		}
		shown++;
		for (size_t j = 0; j < block->count; j++)
			member_row_add(blocks, i, j);
	}
}

int view_blocks(const struct profile *profile, const struct view_request *request,
		struct table **ret)
{
	struct table *table = table_create("blocks", block_columns, B_COLUMNS);
	struct blocks blocks = {};

	table->group_column = B_BLOCK;
	table_totals_set(table, profile, profile->kept);
	table_runs_set(table, profile);
	sites_init(&blocks.sites, profile, request, table);
	notes_collect(&blocks);
	samples_collect(&blocks);
	blocks_find(&blocks);
	rows_add(&blocks);
	free(blocks.samples);
	array_deinit(&blocks.notes);
	array_deinit(&blocks.members);
	array_deinit(&blocks.items);
	sites_deinit(&blocks.sites);
	*ret = table;
	return 0;
}
