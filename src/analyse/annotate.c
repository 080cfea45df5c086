// SPDX-License-Identifier: BSD-2-Clause
#include "analyse/annotate.h"

#include <Zydis/Zydis.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/forest.h"
#include "analyse/names.h"
#include "analyse/views.h"
#include "base/map.h"
#include "base/mem.h"

/* The function whose code a location lies in: the one everything there is inlined into. */
static uint32_t location_owner(const struct forest *forest, uint32_t location)
{
	return forest->slots[forest->first[location + 1] - 1].symbol;
}

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

/* By symbol: samples whose innermost location lies in its code. */
static uint64_t *samples_by_owner(const struct profile *profile, const struct filter *filter)
{
	AUTO(forest_destroy_auto)
	struct forest *forest = forest_create(profile, filter, FOREST_CODE_ROWS);
	uint64_t *samples = mem_zalloc((profile->symbol_count + 1) * sizeof(*samples));

	for (size_t i = 1; i < profile->stack_count; i++)
		samples[location_owner(forest, profile->stacks[i].location)] += forest->own[i];
	return samples;
}

void annotate_find(const struct profile *profile, const struct filter *filter, const char *name,
		   struct annotate_match **ret, size_t *ret_count, bool *ret_exact,
		   bool *ret_inlined)
{
	AUTO(free_ptr) uint64_t *samples = samples_by_owner(profile, filter);
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

enum { A_SELF, A_SHARE, A_PART, A_ADDRESS, A_TEXT, A_FILE, A_LINE, A_COLUMNS };

static const struct column annotate_columns[] = {
	[A_SELF] = { "self", "Self", COLUMN_COUNT },
	[A_SHARE] = { "share", "Self%", COLUMN_SHARE },
	[A_PART] = { "part", "Part", COLUMN_SHARE },
	[A_ADDRESS] = { "address", "Address", COLUMN_ADDRESS },
	[A_TEXT] = { "text", "Instruction", COLUMN_TEXT, .elastic = true },
	[A_FILE] = { "file", "", COLUMN_TEXT, COLUMN_DATA },
	[A_LINE] = { "line", "", COLUMN_INTEGER, COLUMN_DATA },
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
	ZydisDecoder decoder;
	ZydisFormatter formatter;
	struct map names; /* address in the module to symbol, for call targets */
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
		if (location_owner(forest, i) != annotation->request->symbol)
			continue;
		annotation->hits[annotation->hit_count++] =
			(struct hit){ profile->locations[i].address, counts[i], i };
		annotation->whole += counts[i];
	}
	qsort(annotation->hits, annotation->hit_count, sizeof(*annotation->hits), hit_order);
}

static void names_collect(struct annotation *annotation)
{
	const struct profile *profile = annotation->profile;
	uint32_t module = profile->symbols[annotation->request->symbol].module;

	for (uint32_t i = 1; i < profile->symbol_count; i++)
		if (profile->symbols[i].module == module && !profile->symbols[i].inlined)
			*map_at(&annotation->names, profile->symbols[i].address, NULL) = i;
}

static void disassembler_init(struct annotation *annotation)
{
	static const ZydisFormatterProperty paddings[] = {
		ZYDIS_FORMATTER_PROP_ADDR_PADDING_ABSOLUTE,
		ZYDIS_FORMATTER_PROP_ADDR_PADDING_RELATIVE,
		ZYDIS_FORMATTER_PROP_DISP_PADDING,
		ZYDIS_FORMATTER_PROP_IMM_PADDING,
	};
	bool att = annotation->request->att;

	ZydisDecoderInit(&annotation->decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	ZydisFormatterInit(&annotation->formatter,
			   att ? ZYDIS_FORMATTER_STYLE_ATT : ZYDIS_FORMATTER_STYLE_INTEL);
	ZydisFormatterSetProperty(&annotation->formatter, ZYDIS_FORMATTER_PROP_HEX_UPPERCASE, 0);
	for (size_t i = 0; i < sizeof(paddings) / sizeof(paddings[0]); i++)
		ZydisFormatterSetProperty(&annotation->formatter, paddings[i],
					  ZYDIS_PADDING_DISABLED);
}

/* " <name>" for a direct call or jump to the start of a function that the profile knows. */
static const char *target_text(struct annotation *annotation, uint64_t address,
			       const ZydisDecodedInstruction *instruction,
			       const ZydisDecodedOperand *operand)
{
	const uint64_t *symbol;
	ZyanU64 target;

	if (!instruction->operand_count_visible || operand->type != ZYDIS_OPERAND_TYPE_IMMEDIATE ||
	    !operand->imm.is_relative ||
	    ZYAN_FAILED(ZydisCalcAbsoluteAddress(instruction, operand, address, &target)))
		return "";
	symbol = map_find(&annotation->names, target);
	if (!symbol)
		return "";
	return table_own(annotation->table, mem_printf(" <%s>", name_of_symbol(annotation->profile,
									       (uint32_t)*symbol)));
}

/* Disassembles at offset; returns the length, at least 1. */
static size_t instruction_text(struct annotation *annotation, size_t offset, const char **ret)
{
	const struct annotate_request *request = annotation->request;
	uint64_t address = annotation->profile->symbols[request->symbol].address + offset;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction instruction;
	char text[256];

	if (ZYAN_FAILED(ZydisDecoderDecodeFull(&annotation->decoder, request->code + offset,
					       request->size - offset, &instruction, operands)) ||
	    ZYAN_FAILED(ZydisFormatterFormatInstruction(&annotation->formatter, &instruction,
							operands, instruction.operand_count_visible,
							text, sizeof(text), address, NULL))) {
		*ret = table_own(annotation->table,
				 mem_printf(".byte 0x%02x", request->code[offset]));
		return 1;
	}
	*ret = table_own(annotation->table,
			 mem_printf("%s%s", text,
				    target_text(annotation, address, &instruction, operands)));
	return instruction.length;
}

static void place_fill(struct cell *row, const char *file, uint32_t line)
{
	if (file)
		row[A_FILE] = cell_text(file);
	if (file && line)
		row[A_LINE] = cell_integer(line);
}

static void row_fill(struct annotation *annotation, uint64_t address, uint64_t end,
		     const char *text)
{
	const struct profile *profile = annotation->profile;
	const struct annotate_request *request = annotation->request;
	struct cell *row = table_row_add(annotation->table);
	const char *file = NULL;
	uint32_t line = 0;
	uint64_t self = 0;

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

/* Samples before the first or after the last stored byte, so that the rows still add up to the function. */
static void outside_add(struct annotation *annotation, uint64_t end)
{
	const struct hit *hits = annotation->hits;
	uint64_t address;

	if (annotation->next_hit >= annotation->hit_count ||
	    hits[annotation->next_hit].address >= end)
		return;
	address = hits[annotation->next_hit].address;
	row_fill(annotation, address, end, "[outside the stored code]");
}

static void rows_add(struct annotation *annotation)
{
	const struct annotate_request *request = annotation->request;
	uint64_t start = annotation->profile->symbols[request->symbol].address;
	size_t length;

	outside_add(annotation, start);
	for (size_t offset = 0; offset < request->size; offset += length) {
		const char *text;

		length = instruction_text(annotation, offset, &text);
		row_fill(annotation, start + offset, start + offset + length, text);
	}
	outside_add(annotation, UINT64_MAX);
}

struct table *annotate(const struct profile *profile, const struct annotate_request *request)
{
	struct annotation annotation = { .profile = profile, .request = request };

	annotation.table = table_create("annotate", annotate_columns, A_COLUMNS);
	annotation.forest = forest_create(profile, request->filter, FOREST_CODE_ROWS);
	table_totals_set(annotation.table, profile, annotation.forest->selected);
	hits_collect(&annotation);
	names_collect(&annotation);
	disassembler_init(&annotation);
	rows_add(&annotation);
	map_deinit(&annotation.names);
	free(annotation.hits);
	forest_destroy(annotation.forest);
	return annotation.table;
}

static bool same_line(const struct cell *a, const struct cell *b)
{
	return a[A_FILE].set == b[A_FILE].set && a[A_LINE].set == b[A_LINE].set &&
	       (!a[A_FILE].set || !strcmp(a[A_FILE].text, b[A_FILE].text)) &&
	       (!a[A_LINE].set || a[A_LINE].integer == b[A_LINE].integer);
}

/* "; file.c:12  text": the last part of the path is enough beside the text. */
static void source_row_add(struct table *table, const struct cell *from, annotate_source_fn source,
			   void *ctx)
{
	const char *file = from[A_FILE].text, *slash = strrchr(file, '/');
	uint32_t line = from[A_LINE].set ? (uint32_t)from[A_LINE].integer : 0;
	const char *place = view_place_text(table, slash ? slash + 1 : file, line);
	const char *text = line ? source(ctx, file, line) : NULL;
	struct cell *row = table_row_add(table);

	row[A_TEXT] = cell_text(table_own(table, mem_printf("; %s%s%s", place, text ? "  " : "",
							    text ? text : "")));
}

struct table *annotate_interleave(const struct table *table, annotate_source_fn source, void *ctx)
{
	struct table *people = table_create(table->view, table->columns, table->column_count);
	const struct cell *previous = NULL;

	people->totals = table->totals;
	people->filtered = table->filtered;
	for (size_t i = 0; i < table->row_count; i++) {
		const struct cell *from = table_row(table, i);
		struct cell *row;

		if (from[A_FILE].set && (!previous || !same_line(previous, from)))
			source_row_add(people, from, source, ctx);
		if (from[A_FILE].set)
			previous = from;
		row = table_row_add(people);
		memcpy(row, from, table->column_count * sizeof(*row));
		if (row[A_SELF].number == 0)
			row[A_SELF] = row[A_SHARE] = row[A_PART] = (struct cell){};
		row[A_TEXT] = cell_text(table_own(people, mem_printf("    %s", from[A_TEXT].text)));
	}
	return people;
}
