// SPDX-License-Identifier: BSD-2-Clause
/*
 * Views of executed code. Counts are of blocks; a block's parts say which functions and lines its instructions belong to. A
 * block counts where it begins.
 *
 * Totals are of instructions. What was lost are runs, of which nobody knows the instructions: they are taken to be as long as the
 * others on average. Where the tool only marks, each block counts once, whoever executed it, and totals are of blocks.
 */
#include <stdlib.h>
#include <string.h>

#include "analyse/meta.h"
#include "analyse/names.h"
#include "analyse/views.h"
#include "base/map.h"
#include "base/mem.h"

struct tally {
	uint64_t instructions, blocks;
};

/* What the filters leave of the profile. */
struct trace {
	const struct profile *profile;
	const struct filter *filter;
	bool marks;
	bool *threads;
	uint64_t *counts; /* by block, of the threads that are selected */
	struct tally kept, selected;
	struct table *table;
};

static bool is_marks(const struct profile *profile)
{
	const char *tool = profile_meta(profile, META_TOOL);

	return tool && !strcmp(tool, "coverage");
}

static void trace_deinit(struct trace *trace)
{
	free(trace->threads);
	free(trace->counts);
}

static uint64_t weigh(const struct trace *trace, const struct tally *tally)
{
	return trace->marks ? tally->blocks : tally->instructions;
}

/* A block that was not looked into is one part. */
static struct profile_block_part block_part(const struct profile *profile, uint32_t block,
					    uint32_t part)
{
	const struct profile_block *row = &profile->blocks[block];

	if (!row->part_count)
		return (struct profile_block_part){ row->location, row->instructions };
	return profile->block_parts[row->first_part + part];
}

static uint32_t parts_of(const struct profile *profile, uint32_t block)
{
	uint32_t count = profile->blocks[block].part_count;

	return count ? count : 1;
}

static const struct profile_frame *innermost(const struct profile *profile, uint32_t location)
{
	static const struct profile_frame unknown;
	const struct profile_location *row = &profile->locations[location];

	return row->frame_count ? &profile->frames[row->first_frame] : &unknown;
}

static bool is_selected(const struct trace *trace, uint32_t location)
{
	const struct profile *profile = trace->profile;

	return filter_symbol(trace->filter, profile, innermost(profile, location)->symbol) &&
	       filter_module(trace->filter, profile, profile->locations[location].module);
}

/* What one execution of a block is, of the code that is selected. */
static struct tally block_tally(const struct trace *trace, uint32_t block)
{
	struct tally tally = {};

	for (uint32_t i = 0; i < parts_of(trace->profile, block); i++) {
		struct profile_block_part part = block_part(trace->profile, block, i);

		if (!is_selected(trace, part.location))
			continue;
		tally.instructions += part.instructions;
		tally.blocks += i == 0;
	}
	return tally;
}

static void tally_add(struct tally *sum, const struct tally *each, uint64_t count)
{
	sum->instructions += each->instructions * count;
	sum->blocks += each->blocks * count;
}

static uint64_t runs_kept(const struct profile *profile)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < profile->thread_runs_count; i++)
		sum += profile->thread_runs[i].runs;
	return sum;
}

static void totals_make(struct trace *trace)
{
	const struct profile *profile = trace->profile;
	struct totals *totals = &trace->table->totals;
	uint64_t runs = runs_kept(profile), kept = weigh(trace, &trace->kept);
	double each = runs ? (double)kept / (double)runs : 1;
	struct profile_named_count *losses =
		table_alloc(trace->table, (profile->loss_count + 1) * sizeof(*losses));

	*totals = (struct totals){ .seen = kept,
				   .kept = kept,
				   .selected = weigh(trace, &trace->selected),
				   .losses = losses,
				   .loss_count = profile->loss_count };
	for (size_t i = 0; i < profile->loss_count; i++) {
		losses[i] = profile->losses[i];
		losses[i].count = (uint64_t)((double)losses[i].count * each);
		totals->seen += losses[i].count;
	}
}

static void trace_init(struct trace *trace, const struct profile *profile,
		       const struct view_request *request, struct table *table)
{
	*trace = (struct trace){ .profile = profile,
				 .filter = &request->filter,
				 .marks = is_marks(profile),
				 .table = table };
	trace->threads = mem_zalloc(profile->thread_count + 1);
	trace->counts = mem_zalloc((profile->block_count + 1) * sizeof(*trace->counts));
	for (uint32_t i = 0; i < profile->thread_count; i++)
		trace->threads[i] = filter_thread(trace->filter, profile, i);
	for (size_t i = 0; i < profile->execution_count; i++) {
		const struct profile_execution *row = &profile->executions[i];
		struct tally each = { profile->blocks[row->block].instructions, 1 };
		bool again = trace->marks && i && row[-1].block == row->block;

		if (!again)
			tally_add(&trace->kept, &each, row->count);
		if (!trace->threads[row->thread] || (trace->marks && trace->counts[row->block]))
			continue;
		trace->counts[row->block] += row->count;
		each = block_tally(trace, row->block);
		tally_add(&trace->selected, &each, row->count);
	}
	totals_make(trace);
}

void trace_totals_set(struct table *table, const struct profile *profile)
{
	const struct view_request all = {};
	struct trace trace;

	trace_init(&trace, profile, &all, table);
	trace_deinit(&trace);
	table->totals.selected = 0;
}

/* --- Rows ------------------------------------------------------------------------------------------- */

struct entry {
	uint64_t key;
	uint32_t location; /* of code: where most of it is */
	struct tally tally;
	uint64_t most;
};

struct entries {
	struct map index; /* key to place + 1 */
	struct entry *items;
	size_t count, capacity;
};

static void entries_deinit(struct entries *entries)
{
	map_deinit(&entries->index);
	free(entries->items);
}

static struct entry *entry_of(struct entries *entries, uint64_t key)
{
	uint64_t *place = map_at(&entries->index, key, NULL);

	if (!*place) {
		array_reserve(entries, entries->count + 1);
		entries->items[entries->count++] = (struct entry){ .key = key };
		*place = entries->count;
	}
	return &entries->items[*place - 1];
}

static int entry_order(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	if (a->tally.instructions != b->tally.instructions)
		return a->tally.instructions < b->tally.instructions ? 1 : -1;
	if (a->tally.blocks != b->tally.blocks)
		return a->tally.blocks < b->tally.blocks ? 1 : -1;
	return (a->key > b->key) - (a->key < b->key);
}

/* In the order of the report, without those that are too small for it. */
static void entries_sort(struct entries *entries, const struct trace *trace,
			 const struct view_request *request)
{
	size_t kept = 0;

	for (size_t i = 0; i < entries->count; i++) {
		const struct entry *entry = &entries->items[i];

		if (share_of(weigh(trace, &entry->tally), trace->table->totals.seen) <
		    request->min_share)
			trace->table->omitted++;
		else
			entries->items[kept++] = *entry;
	}
	entries->count = kept;
	if (kept)
		qsort(entries->items, kept, sizeof(*entries->items), entry_order);
}

enum { INSTRUCTIONS, SHARE, BLOCKS, COST_COLUMNS };

#define COST_COLUMN_LIST                                                                           \
	[INSTRUCTIONS] = { "instructions", "Instructions", COLUMN_COUNT, .optional = true },       \
	[SHARE] = { "share", "Share", COLUMN_SHARE }, [BLOCKS] = { "blocks", "Blocks", COLUMN_COUNT }

static struct cell *cost_row_add(const struct trace *trace, const struct tally *tally)
{
	struct cell *row = table_row_add(trace->table);

	if (!trace->marks)
		row[INSTRUCTIONS] = cell_number(tally->instructions);
	row[SHARE] = cell_real(share_of(weigh(trace, tally), trace->table->totals.seen));
	row[BLOCKS] = cell_number(tally->blocks);
	return row;
}

/* --- Code ------------------------------------------------------------------------------------------- */

typedef uint64_t (*key_fn)(const struct profile *profile, uint32_t location);

#define KEY_OTHER (UINT64_C(1) << 63)

static uint64_t module_key(const struct profile *profile, uint32_t location)
{
	return profile->locations[location].module;
}

static uint64_t function_key(const struct profile *profile, uint32_t location)
{
	uint32_t symbol = innermost(profile, location)->symbol;

	return symbol ? symbol : KEY_OTHER | module_key(profile, location);
}

static uint64_t line_key(const struct profile *profile, uint32_t location)
{
	const struct profile_frame *frame = innermost(profile, location);

	if (frame->file)
		return (uint64_t)frame->file << 32 | frame->line;
	return KEY_OTHER | function_key(profile, location);
}

static void code_collect(const struct trace *trace, key_fn key, struct entries *entries)
{
	const struct profile *profile = trace->profile;

	for (uint32_t block = 1; block < profile->block_count; block++) {
		if (!trace->counts[block])
			continue;
		for (uint32_t i = 0; i < parts_of(profile, block); i++) {
			struct profile_block_part part = block_part(profile, block, i);
			struct tally each = { part.instructions, i == 0 };
			struct entry *entry;

			if (!is_selected(trace, part.location))
				continue;
			entry = entry_of(entries, key(profile, part.location));
			tally_add(&entry->tally, &each, trace->counts[block]);
			if (!entry->location || trace->counts[block] > entry->most) {
				entry->location = part.location;
				entry->most = trace->counts[block];
			}
		}
	}
}

/* Fills the columns behind those of the costs. */
typedef void (*row_fn)(const struct trace *trace, const struct entry *entry, struct cell *row);

static int code_view(const struct profile *profile, const struct view_request *request,
		     struct table *table, key_fn key, row_fn fill, struct table **ret)
{
	AUTO(trace_deinit) struct trace trace;
	AUTO(entries_deinit) struct entries entries = {};

	trace_init(&trace, profile, request, table);
	code_collect(&trace, key, &entries);
	entries_sort(&entries, &trace, request);
	for (size_t i = 0; i < entries.count; i++)
		fill(&trace, &entries.items[i], cost_row_add(&trace, &entries.items[i].tally));
	*ret = table;
	return 0;
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

static void function_fill(const struct trace *trace, const struct entry *entry, struct cell *row)
{
	const struct profile *profile = trace->profile;
	uint32_t symbol = innermost(profile, entry->location)->symbol;
	bool inlined = symbol && profile->symbols[symbol].inlined;
	const char *name = name_of_symbol(profile, symbol);

	row[F_MODULE] =
		cell_text(name_of_module(profile, profile->locations[entry->location].module));
	row[F_TEXT] = cell_text(view_function_text(trace->table, name, inlined));
	row[F_SYMBOL] = cell_text(name);
	row[F_INLINED] = cell_number(inlined);
	if (symbol && !inlined)
		row[F_ADDRESS] = cell_number(profile->symbols[symbol].address);
}

int trace_functions(const struct profile *profile, const struct view_request *request,
		    struct table **ret)
{
	return code_view(profile, request, table_create("functions", function_columns, F_COLUMNS),
			 function_key, function_fill, ret);
}

enum { M_NAME = COST_COLUMNS, M_PATH, M_BUILD_ID, M_COLUMNS };

static const struct column module_columns[] = {
	COST_COLUMN_LIST,
	[M_NAME] = { "module", "Module", COLUMN_TEXT, .elastic = true },
	[M_PATH] = { "path", "Path", COLUMN_TEXT, .elastic = true },
	[M_BUILD_ID] = { "build_id", "", COLUMN_TEXT, COLUMN_DATA },
};

static void module_fill(const struct trace *trace, const struct entry *entry, struct cell *row)
{
	const struct profile_module *module = &trace->profile->modules[entry->key];

	row[M_NAME] = cell_text(name_of_module(trace->profile, (uint32_t)entry->key));
	row[M_PATH] = cell_text_or_unset(module->path);
	row[M_BUILD_ID] = cell_text_or_unset(module->build_id);
}

int trace_modules(const struct profile *profile, const struct view_request *request,
		  struct table **ret)
{
	return code_view(profile, request, table_create("modules", module_columns, M_COLUMNS),
			 module_key, module_fill, ret);
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

static void line_fill(const struct trace *trace, const struct entry *entry, struct cell *row)
{
	const struct profile *profile = trace->profile;
	const struct profile_frame *frame = innermost(profile, entry->location);
	const char *file = name_of_file(profile, frame->file);
	bool inlined = frame->symbol && profile->symbols[frame->symbol].inlined;

	row[L_PLACE] = cell_text(view_place_text(trace->table, file, frame->line));
	row[L_MODULE] =
		cell_text(name_of_module(profile, profile->locations[entry->location].module));
	row[L_SYMBOL] = cell_text(name_of_symbol(profile, frame->symbol));
	row[L_TEXT] = cell_text(view_function_text(trace->table, row[L_SYMBOL].text, inlined));
	row[L_FILE] = cell_text_or_unset(file);
	if (file && frame->line)
		row[L_LINE] = cell_integer(frame->line);
}

int trace_lines(const struct profile *profile, const struct view_request *request,
		struct table **ret)
{
	return code_view(profile, request, table_create("lines", line_columns, L_COLUMNS), line_key,
			 line_fill, ret);
}

/* --- Processes and threads -------------------------------------------------------------------------- */

enum {
	T_RUNS = COST_COLUMNS,
	T_PATHS,
	T_STRATA,
	T_PID,
	T_TID,
	T_PPID,
	T_UID,
	T_PROCESS,
	T_COMM,
	T_EXE,
	T_LOST,
	T_COLUMNS
};

static const struct column thread_columns[] = {
	COST_COLUMN_LIST,
	[T_RUNS] = { "runs", "Runs", COLUMN_COUNT },
	[T_PATHS] = { "paths", "Paths", COLUMN_COUNT, .optional = true },
	[T_STRATA] = { "strata", "Strata", COLUMN_COUNT, .optional = true },
	[T_PID] = { "pid", "PID", COLUMN_INTEGER },
	[T_TID] = { "tid", "TID", COLUMN_INTEGER, .optional = true },
	[T_PPID] = { "ppid", "PPID", COLUMN_INTEGER, .optional = true },
	[T_UID] = { "uid", "UID", COLUMN_INTEGER },
	[T_PROCESS] = { "process", "Process", COLUMN_TEXT, .elastic = true, .optional = true },
	[T_COMM] = { "comm", "Name", COLUMN_TEXT, .elastic = true },
	[T_EXE] = { "exe", "Program", COLUMN_TEXT, .elastic = true, .optional = true },
	[T_LOST] = { "lost", "", COLUMN_COUNT, COLUMN_DATA },
};

/* Of marks, a process has a block once, whichever of its threads executed it. */
static bool already_there(const struct trace *trace, struct map *seen, uint64_t key, uint32_t block)
{
	bool fresh;

	if (!trace->marks)
		return false;
	map_at(seen, key << 32 | block, &fresh);
	return !fresh;
}

static uint64_t task_key(const struct profile *profile, uint32_t thread, bool by_process)
{
	return by_process ? profile->threads[thread].process : thread;
}

static void tasks_collect(const struct trace *trace, bool by_process, struct entries *entries)
{
	struct map seen = {};

	for (size_t i = 0; i < trace->profile->execution_count; i++) {
		const struct profile_execution *row = &trace->profile->executions[i];
		uint64_t key = task_key(trace->profile, row->thread, by_process);
		struct tally each;

		if (!trace->threads[row->thread] || already_there(trace, &seen, key, row->block))
			continue;
		each = block_tally(trace, row->block);
		if (each.instructions || each.blocks)
			tally_add(&entry_of(entries, key)->tally, &each, row->count);
	}
	map_deinit(&seen);
}

static void task_runs_fill(const struct trace *trace, const struct entry *entry, bool by_process,
			   struct cell *row)
{
	const struct profile *profile = trace->profile;
	uint64_t runs = 0, lost = 0;

	for (size_t i = 0; i < profile->thread_runs_count; i++) {
		const struct profile_thread_runs *of = &profile->thread_runs[i];

		if (!trace->threads[of->thread] ||
		    task_key(profile, of->thread, by_process) != entry->key)
			continue;
		runs += of->runs;
		lost += of->lost;
	}
	row[T_RUNS] = cell_number(runs);
	row[T_LOST] = cell_number(lost);
}

/* Where the order of execution was recorded. */
static void task_order_fill(const struct trace *trace, const struct entry *entry, bool by_process,
			    struct cell *row)
{
	const struct profile *profile = trace->profile;

	for (size_t i = 0; i < profile->layer_count; i++) {
		const struct profile_layer *layer = &profile->layers[i];
		struct cell *cell = &row[layer->level ? T_STRATA : T_PATHS];

		if (layer->level > 1 || !trace->threads[layer->thread] ||
		    task_key(profile, layer->thread, by_process) != entry->key)
			continue;
		*cell = cell_number(cell->number + layer->cycles);
	}
}

static void task_fill(const struct trace *trace, const struct entry *entry, bool by_process,
		      struct cell *row)
{
	const struct profile *profile = trace->profile;
	uint32_t index = by_process ? (uint32_t)entry->key : profile->threads[entry->key].process;
	const struct profile_process *process = &profile->processes[index];

	task_runs_fill(trace, entry, by_process, row);
	task_order_fill(trace, entry, by_process, row);
	row[T_PID] = cell_integer(process->pid);
	if (process->uid >= 0)
		row[T_UID] = cell_integer(process->uid);
	row[T_COMM] = cell_text(process->comm);
	if (by_process) {
		row[T_PPID] = cell_integer(process->ppid);
		row[T_EXE] = cell_text_or_unset(process->exe);
		return;
	}
	row[T_TID] = cell_integer(profile->threads[entry->key].tid);
	row[T_PROCESS] = cell_text(process->comm);
	row[T_COMM] = cell_text(profile->threads[entry->key].comm);
}

static int task_view(const struct profile *profile, const struct view_request *request,
		     const char *name, bool by_process, struct table **ret)
{
	AUTO(trace_deinit) struct trace trace;
	AUTO(entries_deinit) struct entries entries = {};
	struct table *table = table_create(name, thread_columns, T_COLUMNS);

	trace_init(&trace, profile, request, table);
	tasks_collect(&trace, by_process, &entries);
	entries_sort(&entries, &trace, request);
	for (size_t i = 0; i < entries.count; i++)
		task_fill(&trace, &entries.items[i], by_process,
			  cost_row_add(&trace, &entries.items[i].tally));
	*ret = table;
	return 0;
}

int trace_processes(const struct profile *profile, const struct view_request *request,
		    struct table **ret)
{
	return task_view(profile, request, "processes", true, ret);
}

int trace_threads(const struct profile *profile, const struct view_request *request,
		  struct table **ret)
{
	return task_view(profile, request, "threads", false, ret);
}

/* --- Coverage --------------------------------------------------------------------------------------- */

enum { C_LINES, C_EXECUTED, C_SHARE, C_FILE, C_COLUMNS };

static const struct column coverage_columns[] = {
	[C_LINES] = { "lines", "Lines", COLUMN_COUNT },
	[C_EXECUTED] = { "executed", "Executed", COLUMN_COUNT },
	[C_SHARE] = { "share", "Share", COLUMN_SHARE },
	[C_FILE] = { "file", "File", COLUMN_TEXT, .elastic = true },
};

/* The lines of one file from row `at` on, each once; returns the row behind them. */
static size_t file_count(const struct trace *trace, size_t at, uint64_t *ret_lines,
			 uint64_t *ret_executed)
{
	const struct profile *profile = trace->profile;
	const struct profile_source_line *first = &profile->source_lines[at], *row = first;
	uint32_t last = 0;
	bool executed = false;

	*ret_lines = *ret_executed = 0;
	for (; at < profile->source_line_count && row->file == first->file; at++, row++) {
		if (!filter_module(trace->filter, profile, row->module))
			continue;
		if (row->line != last || !*ret_lines) {
			++*ret_lines;
			executed = false;
		}
		*ret_executed += row->count && !executed;
		executed |= row->count > 0;
		last = row->line;
	}
	return at;
}

int trace_coverage(const struct profile *profile, const struct view_request *request,
		   struct table **ret)
{
	AUTO(trace_deinit) struct trace trace;
	struct table *table = table_create("coverage", coverage_columns, C_COLUMNS);
	uint64_t lines, executed;

	trace_init(&trace, profile, request, table);
	for (size_t at = 0; at < profile->source_line_count;) {
		const char *file = name_of_file(profile, profile->source_lines[at].file);
		struct cell *row;

		at = file_count(&trace, at, &lines, &executed);
		if (!lines || share_of(executed, lines) < request->min_share) {
			table->omitted += lines > 0;
			continue;
		}
		row = table_row_add(table);
		row[C_LINES] = cell_number(lines);
		row[C_EXECUTED] = cell_number(executed);
		row[C_SHARE] = cell_real(share_of(executed, lines));
		row[C_FILE] = cell_text_or_unset(file);
	}
	table_sort(table, C_EXECUTED);
	*ret = table;
	return 0;
}
