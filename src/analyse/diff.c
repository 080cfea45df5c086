// SPDX-License-Identifier: BSD-2-Clause
/*
 * Differences of two profiles, by function or by line.
 *
 * Functions of two builds or runs are the same when module name, function name and inlining are;
 * lines when file and line are. In a file of which both profiles have the same build-id they are
 * the same when they begin at the same address, whatever they are called: names that were not
 * there before, or no longer are, are no change of the program. Where only one profile knows what
 * is inlined in such a file, inlined code counts for the function that it lies in.
 *
 * Each side's share is over its own samples seen. A share is a binomial proportion, so the
 * difference of two has the standard error sqrt(pa (1 - pa) / na + pb (1 - pb) / nb); with one
 * success and one failure added to each side, so that "0 of n" is not taken for certainty. A change
 * is called significant beyond three of them: of 1000 rows that did not change, about 3 would be
 * called so. Executed code is counted and has no error: there any change is significant, and both
 * shares are of what the older profile has seen, so that they differ as the counts do.
 *
 *  1. Both profiles use one table of keys, so that an entity has the same number in both.
 *  2. Functions that share a key are one entity, so that a sample counts once in its total.
 */
#include "analyse/diff.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/forest.h"
#include "analyse/names.h"
#include "analyse/views.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"

enum { SIGNIFICANT_ERRORS = 3 };

/* What a key stands for, from the first slot that had it. */
struct subject {
	const char *symbol, *module, *file;
	uint32_t line;
	bool inlined;
};

struct side {
	const struct profile *profile;
	struct forest *forest;
	struct functions functions; /* entity: key + 1 */
	struct costs costs;
	/* By module: whether the other side has the same file, and whether inlining is left out. */
	bool *same, *plain;
};

struct diff {
	const struct diff_request *request;
	struct side sides[2];
	struct strtab keys;
	ARRAY(struct subject) subjects; /* by key */
};

/* JIT and anonymous code is named after its process, which is another one in each run. */
static const char *stable_module_name(const struct profile *profile, uint32_t module)
{
	switch (profile->modules[module].kind) {
	case MODULE_JIT:
		return module ? "[jit]" : NAME_UNKNOWN;
	case MODULE_ANON:
		return module ? "[anon]" : NAME_UNKNOWN;
	default:
		return name_of_module(profile, module);
	}
}

static char *subject_key(const struct diff *diff, const struct subject *subject)
{
	if (diff->request->lines && subject->file)
		return mem_printf("l\n%s\n%u", subject->file, subject->line);
	return mem_printf("%c\n%s\n%s", subject->inlined ? 'i' : 'f', subject->module,
			  subject->symbol);
}

/* --- The same files --------------------------------------------------------------------------- */

static bool has_inlined(const struct profile *profile, uint32_t module)
{
	for (uint32_t i = 1; i < profile->location_count; i++)
		if (profile->locations[i].module == module && profile->locations[i].frame_count > 1)
			return true;
	return false;
}

static bool has_build_id(const struct profile_module *module)
{
	return module->build_id && *module->build_id;
}

/* The same file among the modules of a profile; 0: it is not there. */
static uint32_t same_module_find(const struct profile *profile, const struct profile_module *wanted)
{
	for (uint32_t i = 1; has_build_id(wanted) && i < profile->module_count; i++) {
		const struct profile_module *module = &profile->modules[i];

		if (module->kind == wanted->kind && has_build_id(module) &&
		    !strcmp(module->build_id, wanted->build_id))
			return i;
	}
	return 0;
}

/* Addresses of other modules than files mean nothing in another run. */
static void modules_match(struct side *side, const struct profile *other)
{
	const struct profile *profile = side->profile;

	side->same = mem_zalloc(profile->module_count + 1);
	side->plain = mem_zalloc(profile->module_count + 1);
	for (uint32_t i = 1; i < profile->module_count; i++) {
		uint32_t match = profile->modules[i].kind == MODULE_ELF
					 ? same_module_find(other, &profile->modules[i])
					 : 0;

		side->same[i] = match;
		side->plain[i] = match && has_inlined(profile, i) != has_inlined(other, match);
	}
}

/* The symbol by whose address the slot's function is known; 0: it is known by its name. */
static uint32_t slot_symbol(const struct diff *diff, const struct side *side,
			    const struct slot *slot, uint32_t function)
{
	if (!side->same[slot->module] || (diff->request->lines && slot->file) ||
	    (functions_inlined(&side->functions, function) && !side->plain[slot->module]))
		return 0;
	return location_function(side->profile, slot->location);
}

static uint32_t entity_of_key(struct diff *diff, const char *key, const struct subject *subject)
{
	uint32_t id = strtab_add(&diff->keys, key);

	if (id == diff->subjects.count)
		*array_push(&diff->subjects) = *subject;
	return id + 1;
}

/* A name from a symbol table rather than one made of an address. */
static bool is_better_name(const char *name, const char *than)
{
	return !strncmp(than, "sub_", 4) && strncmp(name, "sub_", 4) != 0;
}

static uint32_t symbol_entity(struct diff *diff, const struct side *side, uint32_t module,
			      uint32_t symbol)
{
	const struct profile *profile = side->profile;
	struct subject subject = {
		.symbol = name_of_symbol(profile, symbol),
		.module = stable_module_name(profile, module),
	};
	AUTO(free_ptr)
	char *key = mem_printf("b\n%s\n%" PRIx64, profile->modules[module].build_id,
			       profile->symbols[symbol].address);
	uint32_t entity = entity_of_key(diff, key, &subject);

	if (is_better_name(subject.symbol, diff->subjects.items[entity - 1].symbol))
		diff->subjects.items[entity - 1].symbol = subject.symbol;
	return entity;
}

/* --- Keys ------------------------------------------------------------------------------------- */

static struct subject slot_subject(const struct diff *diff, const struct side *side,
				   const struct slot *slot, uint32_t function)
{
	struct subject subject = {
		.symbol = functions_name(&side->functions, function),
		.module = stable_module_name(side->profile, slot->module),
		.inlined = functions_inlined(&side->functions, function),
	};

	if (diff->request->lines) {
		subject.file = name_of_file(side->profile, slot->file);
		subject.line = slot->line;
	}
	return subject;
}

static uint32_t subject_entity(struct diff *diff, const struct subject *subject)
{
	AUTO(free_ptr) char *key = subject_key(diff, subject);

	return entity_of_key(diff, key, subject);
}

static void side_init(struct diff *diff, struct side *side, const struct profile *profile,
		      const struct profile *other)
{
	/* From function, or file and line, to entity, so that each string is made once. */
	struct map known = {};

	side->profile = profile;
	modules_match(side, other);
	side->forest = forest_create(profile, &diff->request->filter, FOREST_CODE_ROWS);
	functions_init(&side->functions, side->forest, &diff->request->filter);
	for (size_t i = 0; i < side->forest->slot_count; i++) {
		const struct slot *slot = &side->forest->slots[i];
		uint32_t *entity = &side->functions.entity[i];
		bool by_line = diff->request->lines && slot->file;
		uint32_t symbol;
		uint64_t *id;

		if (!*entity)
			continue;
		symbol = slot_symbol(diff, side, slot, *entity);
		id = map_at(&known,
			    by_line  ? (uint64_t)slot->file << 32 | slot->line
			    : symbol ? UINT64_C(1) << 62 | symbol
				     : UINT64_C(1) << 63 | *entity,
			    NULL);
		if (!*id && symbol) {
			*id = symbol_entity(diff, side, slot->module, symbol);
		} else if (!*id) {
			struct subject subject = slot_subject(diff, side, slot, *entity);

			*id = subject_entity(diff, &subject);
		}
		*entity = (uint32_t)*id;
	}
	map_deinit(&known);
}

static void side_deinit(struct side *side)
{
	functions_deinit(&side->functions);
	forest_destroy(side->forest);
	costs_deinit(&side->costs);
	free(side->same);
	free(side->plain);
}

enum {
	D_DELTA,
	D_ERROR,
	D_SIGNIFICANT,
	D_SHARE_A,
	D_SHARE_B,
	D_COUNT_A,
	D_COUNT_B,
	D_PLACE,
	D_MODULE,
	D_TEXT,
	D_SYMBOL,
	D_FILE,
	D_LINE,
	D_INLINED,
	D_MAGNITUDE,
	D_COLUMNS
};

// clang-format off
#define DIFF_COLUMN_LIST                                                                         \
	[D_DELTA] = { "delta", "Delta", COLUMN_DELTA },                                          \
	[D_ERROR] = { "error", "+-", COLUMN_SHARE },                                             \
	[D_SIGNIFICANT] = { "significant", "Real", COLUMN_BOOL },                                \
	[D_SHARE_A] = { "share_a", "A", COLUMN_SHARE },                                          \
	[D_SHARE_B] = { "share_b", "B", COLUMN_SHARE },                                          \
	[D_COUNT_A] = { "count_a", "", COLUMN_COUNT, COLUMN_DATA },                              \
	[D_COUNT_B] = { "count_b", "", COLUMN_COUNT, COLUMN_DATA },                              \
	[D_MODULE] = { "module", "Module", COLUMN_TEXT, .elastic = true },                       \
	[D_TEXT] = { "function", "Function", COLUMN_TEXT, COLUMN_PEOPLE, true, .cut = CUT_NAME }, \
	[D_SYMBOL] = { "symbol", "", COLUMN_TEXT, COLUMN_DATA },                                 \
	[D_FILE] = { "file", "", COLUMN_TEXT, COLUMN_DATA },                                     \
	[D_LINE] = { "line", "", COLUMN_INTEGER, COLUMN_DATA },                                  \
	[D_INLINED] = { "inlined", "", COLUMN_BOOL, COLUMN_DATA },                               \
	[D_MAGNITUDE] = { "magnitude", "", COLUMN_SHARE, COLUMN_DATA }
// clang-format on

static const struct column function_columns[] = {
	DIFF_COLUMN_LIST,
	[D_PLACE] = { "place", "", COLUMN_TEXT, COLUMN_DATA },
};

static const struct column line_columns[] = {
	DIFF_COLUMN_LIST,
	[D_PLACE] = { "place", "Line", COLUMN_TEXT, COLUMN_PEOPLE, true, .cut = CUT_PLACE },
};

/* Variance of a share, with one success and one failure added. */
static double share_variance(uint64_t count, uint64_t seen)
{
	double n = (double)seen + 2, p = ((double)count + 1) / n;

	return p * (1 - p) / n;
}

static void subject_fill(struct table *table, struct cell *row, const struct subject *subject)
{
	row[D_MODULE] = cell_text(subject->module);
	row[D_SYMBOL] = cell_text(subject->symbol);
	row[D_INLINED] = cell_number(subject->inlined);
	row[D_TEXT] = cell_text(view_function_text(table, subject->symbol, subject->inlined));
	if (!subject->file)
		return;
	row[D_FILE] = cell_text(subject->file);
	row[D_PLACE] = cell_text(view_place_text(table, subject->file, subject->line));
	if (subject->line)
		row[D_LINE] = cell_integer(subject->line);
}

static void row_add(struct table *table, const struct diff *diff, uint32_t entity)
{
	const struct side *a = &diff->sides[0], *b = &diff->sides[1];
	bool total = diff->request->total;
	uint64_t count_a = total ? a->costs.total[entity] : a->costs.self[entity];
	uint64_t count_b = total ? b->costs.total[entity] : b->costs.self[entity];
	double share_a = share_of(count_a, a->profile->seen);
	/* Counts of executed code can be compared as they are: both are shares of the older. */
	double share_b =
		share_of(count_b, diff->request->exact ? a->profile->seen : b->profile->seen);
	double delta = share_b - share_a;
	double error = diff->request->exact ? 0
					    : sqrt(share_variance(count_a, a->profile->seen) +
						   share_variance(count_b, b->profile->seen));
	bool significant = diff->request->exact ? count_a != count_b
						: fabs(delta) > SIGNIFICANT_ERRORS * error;
	struct cell *row;

	if (!count_a && !count_b)
		return;
	if (fmax(share_a, share_b) < diff->request->min_share ||
	    (diff->request->significant_only && !significant)) {
		table->omitted++;
		return;
	}
	row = table_row_add(table);
	row[D_DELTA] = cell_real(delta);
	row[D_MAGNITUDE] = cell_real(fabs(delta));
	row[D_ERROR] = cell_real(error);
	row[D_SIGNIFICANT] = cell_number(significant);
	row[D_SHARE_A] = cell_real(share_a);
	row[D_SHARE_B] = cell_real(share_b);
	row[D_COUNT_A] = cell_number(count_a);
	row[D_COUNT_B] = cell_number(count_b);
	subject_fill(table, row, &diff->subjects.items[entity - 1]);
}

/*
 * Executed code is counted exactly, so the columns of errors are left out and those of counts are
 * shown.
 */
static void columns_make_exact(struct table *table)
{
	struct column *columns = table_alloc(table, D_COLUMNS * sizeof(*columns));

	memcpy(columns, table->columns, D_COLUMNS * sizeof(*columns));
	columns[D_COUNT_A] = (struct column){ "count_a", "Instr. A", COLUMN_COUNT };
	columns[D_COUNT_B] = (struct column){ "count_b", "Instr. B", COLUMN_COUNT };
	columns[D_ERROR].use = columns[D_SIGNIFICANT].use = COLUMN_DATA;
	table->columns = columns;
}

static struct table *diff_table(const struct diff *diff)
{
	struct table *table = table_create(diff->request->lines ? "diff-lines" : "diff-functions",
					   diff->request->lines ? line_columns : function_columns,
					   D_COLUMNS);

	if (diff->request->exact)
		columns_make_exact(table);
	table_totals_set(table, diff->sides[0].profile, diff->sides[0].forest->selected);
	table->baseline = table->totals;
	table_totals_set(table, diff->sides[1].profile, diff->sides[1].forest->selected);
	table->filtered = !filter_is_empty(&diff->request->filter);
	for (uint32_t i = 1; i <= diff->subjects.count; i++)
		row_add(table, diff, i);
	return table;
}

int diff_run(const struct profile *a, const struct profile *b, const struct diff_request *request,
	     struct table **ret)
{
	AUTO(table_destroy_auto) struct table *table = NULL;
	struct diff diff = { .request = request };
	int column;

	side_init(&diff, &diff.sides[0], a, b);
	side_init(&diff, &diff.sides[1], b, a);
	for (int i = 0; i < 2; i++)
		costs_init(&diff.sides[i].costs, diff.sides[i].forest,
			   diff.sides[i].functions.entity, diff.subjects.count + 1);
	table = diff_table(&diff);
	side_deinit(&diff.sides[0]);
	side_deinit(&diff.sides[1]);
	strtab_deinit(&diff.keys);
	array_deinit(&diff.subjects);
	column = table_column(table, request->sort ? request->sort : "magnitude");
	if (column < 0)
		return err_set(-EINVAL,
			       "--sort %s: a difference has no such column; try delta, "
			       "share_a, share_b, significant, symbol, module, file",
			       request->sort);
	table_sort(table, (size_t)column);
	if (request->limit)
		table_limit(table, request->limit);
	*ret = take_ptr(table);
	return 0;
}
