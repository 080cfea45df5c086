// SPDX-License-Identifier: BSD-2-Clause
/*
 * What paths repeat in: strata, which are cycles of repeated paths, and the layers above, cycles of
 * what is below them.
 *
 * Cycles are kept by process, and only those that were run more than once. The others are only
 * counted: the view of layers has both numbers, and how many cycles were cut because they were too
 * long or broken because memory was full.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/heats.h"
#include "analyse/meta.h"
#include "analyse/order_cycles.h"
#include "analyse/steps.h"
#include "analyse/views.h"
#include "base/err.h"
#include "base/map.h"

enum { SYMBOLS_SHOWN = 12, LEVELS = 64, STRATA = 1 };

/* How many threads of a process that did something are selected, and how many there are. */
static size_t threads_count(const struct profile *profile, const struct filter *filter,
			    uint32_t process, size_t *ret_all)
{
	size_t selected = 0;

	*ret_all = 0;
	for (uint32_t i = 1; i < profile->thread_count; i++) {
		if (profile->threads[i].process != process ||
		    !order_thread_end(profile, i).units[SEQUENCE_BLOCK])
			continue;
		++*ret_all;
		selected += filter_thread(filter, profile, i);
	}
	return selected;
}

/* --- Cycles of a level ------------------------------------------------------------------------ */

struct strata {
	const struct profile *profile;
	const struct view_request *request;
	struct table *table;
	unsigned level;
	struct order_code *codes; /* by process; those that are selected */
	bool *loaded; /* by process */
	bool *partly; /* by process: only some of its threads are selected */
	size_t processes;
	struct order_cycles cycles; /* of the level and of those below */
	ARRAY(struct order_cycle) items; /* of the level; equal ones are one */
	struct map same; /* hash of process, level and number to the first that is equal */
	struct map contents; /* hash of process, level and symbols to the same */
	struct map places; /* the first's hash to its index in items */
	struct heats heats; /* with request->has_heat only */
	struct map heat_of; /* cycle_key() to the heat of a trip; with request->has_heat only */
};

static void strata_deinit(struct strata *strata)
{
	for (size_t i = 0; strata->loaded && i < strata->profile->process_count; i++)
		if (strata->loaded[i])
			order_code_deinit(&strata->codes[i]);
	free(strata->codes);
	free(strata->loaded);
	free(strata->partly);
	order_cycles_deinit(&strata->cycles);
	array_deinit(&strata->items);
	map_deinit(&strata->same);
	map_deinit(&strata->contents);
	map_deinit(&strata->places);
	map_deinit(&strata->heat_of);
	if (strata->request->has_heat)
		heats_deinit(&strata->heats);
}

static int processes_load(struct strata *strata)
{
	const struct profile *profile = strata->profile;
	int err = 0;

	strata->codes = mem_zalloc(profile->process_count * sizeof(*strata->codes));
	strata->loaded = mem_zalloc(profile->process_count);
	strata->partly = mem_zalloc(profile->process_count);
	for (uint32_t i = 1; i < profile->process_count && !err; i++) {
		size_t all, some = threads_count(profile, &strata->request->filter, i, &all);

		if (!some)
			continue;
		if (some < all && strata->level > STRATA)
			return err_set(
				-EINVAL,
				"cycles above strata are kept by process, and the filter chooses "
				"only %zu of the %zu threads of process %u; leave out --level, or "
				"choose all of them",
				some, all, profile->processes[i].pid);
		strata->partly[i] = some < all;
		strata->loaded[i] = true;
		strata->processes++;
		err = order_code_init(&strata->codes[i], profile, i);
		err = err ? err
			  : order_cycles_add(&strata->cycles, &strata->codes[i], strata->level + 1);
	}
	return err;
}

static uint64_t cycle_value(const struct order_cycle *cycle)
{
	return cycle->trips * cycle->weight;
}

/*
 * A cycle that came again after memory was full has another number, and so has what holds it.
 * Levels are gone through from below: what holds equal cycles equally often is equal.
 */
static uint64_t cycle_key(const struct order_cycle *cycle, unsigned level, uint64_t number)
{
	return hash64_pair(hash64_pair(cycle->process, level), number);
}

/* The heat of all trips; without a kind, instructions. */
static uint64_t cycle_hot(const struct strata *strata, const struct order_cycle *cycle)
{
	const uint64_t *heat;
	uint64_t hot;

	if (!strata->request->has_heat)
		return cycle_value(cycle);
	heat = map_find(&strata->heat_of, cycle_key(cycle, cycle->level, cycle->number));
	if (!heat || __builtin_mul_overflow(*heat, cycle->trips, &hot))
		return heat ? UINT64_MAX : 0;
	return hot;
}

static int path_heat(struct strata *strata, const struct order_cycle *path, uint64_t *ret)
{
	struct order_blocks blocks = {};
	int err = order_path_blocks(&strata->codes[path->process], path->number, &blocks);

	array_each(&blocks.items, block)
		*ret += heats_of(&strata->heats, *block, NULL)->of[strata->request->heat];
	array_deinit(&blocks.items);
	return err;
}

/* Cycles are by level from below, and each is as hot as what it holds. */
static int heats_make(struct strata *strata)
{
	int err = 0;

	heats_init(&strata->heats, strata->profile, &strata->request->code);
	array_each(&strata->cycles.items, cycle) {
		const struct flow_symbol *symbol = order_cycle_symbols(&strata->cycles, cycle);
		uint64_t heat = 0;

		if (!cycle->level)
			err = err ? err : path_heat(strata, cycle, &heat);
		for (uint32_t i = 0; cycle->level && i < cycle->length; i++, symbol++) {
			const uint64_t *below =
				map_find(&strata->heat_of,
					 cycle_key(cycle, cycle->level - 1, symbol->number));

			heat += below ? *below * symbol->trips : 0;
		}
		*map_at(&strata->heat_of, cycle_key(cycle, cycle->level, cycle->number), NULL) =
			heat;
	}
	return err;
}

static int cycle_order(const void *left, const void *right, void *context)
{
	const struct order_cycle *a = left, *b = right;
	uint64_t hot_a = cycle_hot(context, a), hot_b = cycle_hot(context, b);

	if (hot_a != hot_b)
		return hot_a < hot_b ? 1 : -1;
	if (cycle_value(a) != cycle_value(b))
		return cycle_value(a) < cycle_value(b) ? 1 : -1;
	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	return (a->number > b->number) - (a->number < b->number);
}

static uint64_t content_key(const struct strata *strata, const struct order_cycle *cycle)
{
	const struct flow_symbol *symbol = order_cycle_symbols(&strata->cycles, cycle);
	uint64_t key = cycle_key(cycle, cycle->level, cycle->length);

	for (uint32_t i = 0; i < cycle->length; i++, symbol++) {
		const uint64_t *first =
			map_find(&strata->same, cycle_key(cycle, cycle->level - 1, symbol->number));

		key = hash64_pair(key, hash64_pair(first ? *first : symbol->number, symbol->trips));
	}
	return key;
}

static void cycle_take(struct strata *strata, const struct order_cycle *cycle, uint64_t first)
{
	bool fresh;
	uint64_t *place = map_at(&strata->places, cycle_key(cycle, cycle->level, first), &fresh);

	if (fresh) {
		*place = strata->items.count;
		*array_push(&strata->items) = *cycle;
		return;
	}
	strata->items.items[*place].trips += cycle->trips;
	strata->items.items[*place].repeats += cycle->repeats;
}

static void cycle_add(struct strata *strata, const struct order_cycle *cycle)
{
	bool fresh;
	uint64_t *first = map_at(&strata->contents, content_key(strata, cycle), &fresh);

	if (fresh)
		*first = cycle->number;
	*map_at(&strata->same, cycle_key(cycle, cycle->level, cycle->number), NULL) = *first;
	if (cycle->level == strata->level)
		cycle_take(strata, cycle, *first);
}

static void cycles_collect(struct strata *strata)
{
	array_each(&strata->cycles.items, cycle)
		if (cycle->level)
			cycle_add(strata, cycle);
}

/* --- Strata of some threads ------------------------------------------------------------------- */

/*
 * Cycles are kept with the trips of all threads of their process. Where only some are selected,
 * their strata are found again in their rows and counted; which there are is known.
 */
struct recount {
	struct strata *strata;
	uint32_t process;
	ARRAY(struct sequence_repeat) open; /* repeated paths from the open stratum on */
	uint64_t last; /* place + 1 of the stratum before; 0: none that is kept */
};

static void stratum_count(void *context, size_t first, size_t count)
{
	struct recount *recount = context;
	struct strata *strata = recount->strata;
	const struct order_cycle of = { .process = recount->process, .level = STRATA };
	uint64_t key = cycle_key(&of, STRATA, count);
	const uint64_t *number, *place;

	for (size_t i = first; i < first + count; i++)
		key = hash64_pair(key, hash64_pair(recount->open.items[i].path,
						   recount->open.items[i].trips));
	number = map_find(&strata->contents, key);
	place = number ? map_find(&strata->places, cycle_key(&of, STRATA, *number)) : NULL;
	if (place) {
		strata->items.items[*place].trips++;
		strata->items.items[*place].repeats += recount->last != *place + 1;
	}
	recount->last = place ? *place + 1 : 0;
}

static int recount_row_take(void *context, const struct profile_flow *row,
			    const struct sequence_position *begin,
			    const struct sequence_repeats *repeats)
{
	struct recount *recount = context;
	uint32_t max_cycle = (uint32_t)meta_number(recount->strata->profile, META_MAX_CYCLE);
	size_t open;

	array_each(&repeats->items, item)
		*array_push(&recount->open) = *item;
	open = sequence_strata(recount->open.items, recount->open.count,
			       max_cycle ? max_cycle : LAYER_MAX_CYCLE, stratum_count, recount);
	recount->open.count -= open;
	memmove(recount->open.items, recount->open.items + open,
		recount->open.count * sizeof(*recount->open.items));
	return 0;
}

static int thread_recount(struct strata *strata, uint32_t thread)
{
	uint32_t process = strata->profile->threads[thread].process;
	struct recount recount = { .strata = strata, .process = process };
	int err = order_walk(&strata->codes[process], thread, recount_row_take, &recount);

	if (!err && recount.open.count)
		stratum_count(&recount, 0, recount.open.count);
	array_deinit(&recount.open);
	return err;
}

static int threads_recount(struct strata *strata)
{
	const struct profile *profile = strata->profile;
	int err = 0;

	array_each(&strata->items, cycle)
		if (strata->partly[cycle->process])
			cycle->trips = cycle->repeats = 0;
	for (uint32_t i = 1; i < profile->thread_count && !err; i++)
		if (strata->partly[profile->threads[i].process] &&
		    filter_thread(&strata->request->filter, profile, i))
			err = thread_recount(strata, i);
	return err;
}

/* --- Rows ------------------------------------------------------------------------------------- */

/* The path that something begins with. */
static uint64_t first_path(const struct order_cycles *cycles, uint32_t process, unsigned level,
			   uint64_t number)
{
	for (; level; level--)
		number = order_cycle_symbols(cycles,
					     order_cycle_find(cycles, process, level, number))
				 ->number;
	return number;
}

enum {
	S_PART,
	S_AT,
	S_ALL,
	S_HOT,
	S_OFTEN,
	S_EACH,
	S_PROCESS,
	S_SYMBOL,
	S_SYMBOL_TRIPS,
	S_WHERE,
	S_NUMBER = S_WHERE + STEP_COLUMNS,
	S_LEVEL,
	S_SHARE,
	S_INSTRUCTIONS,
	S_TRIPS,
	S_REPEATS,
	S_WEIGHT,
	S_LENGTH,
	S_PID,
	S_STEP,
	S_COLUMNS
};

static const struct column stratum_columns[] = {
	[S_PART] = { "part", "Share", COLUMN_SHARE, COLUMN_PEOPLE },
	[S_AT] = { "at", "Cycle", COLUMN_INTEGER, COLUMN_PEOPLE },
	[S_ALL] = { "all", "Instructions", COLUMN_COUNT, COLUMN_PEOPLE, .spare = 2 },
	[S_HOT] = { "heat", "Heat", COLUMN_COUNT, .optional = true },
	[S_OFTEN] = { "often", "Trips", COLUMN_COUNT, COLUMN_PEOPLE },
	[S_EACH] = { "each", "Each", COLUMN_COUNT, COLUMN_PEOPLE, .spare = 1 },
	[S_PROCESS] = { "process", "PID", COLUMN_INTEGER, COLUMN_PEOPLE, .optional = true },
	[S_SYMBOL] = { "symbol_number", "Holds", COLUMN_INTEGER },
	[S_SYMBOL_TRIPS] = { "symbol_trips", "Times", COLUMN_COUNT },
	[S_WHERE] = STEP_COLUMN_LIST,
	[S_NUMBER] = { "number", "", COLUMN_INTEGER, COLUMN_DATA },
	[S_LEVEL] = { "level", "", COLUMN_INTEGER, COLUMN_DATA },
	[S_SHARE] = { "share", "", COLUMN_SHARE, COLUMN_DATA },
	[S_INSTRUCTIONS] = { "instructions", "", COLUMN_COUNT, COLUMN_DATA },
	[S_TRIPS] = { "trips", "", COLUMN_COUNT, COLUMN_DATA },
	[S_REPEATS] = { "repeats", "", COLUMN_COUNT, COLUMN_DATA },
	[S_WEIGHT] = { "weight", "", COLUMN_COUNT, COLUMN_DATA },
	[S_LENGTH] = { "length", "", COLUMN_COUNT, COLUMN_DATA },
	[S_PID] = { "pid", "", COLUMN_INTEGER, COLUMN_DATA },
	[S_STEP] = { "step", "", COLUMN_INTEGER, COLUMN_DATA },
};

static void cycle_fill(const struct strata *strata, const struct order_cycle *cycle,
		       struct cell *row)
{
	row[S_NUMBER] = cell_integer((int64_t)cycle->number);
	row[S_LEVEL] = cell_integer(cycle->level);
	row[S_SHARE] = cell_real(share_of(cycle_value(cycle), strata->table->totals.seen));
	row[S_INSTRUCTIONS] = cell_number(cycle_value(cycle));
	row[S_TRIPS] = cell_number(cycle->trips);
	row[S_REPEATS] = cell_number(cycle->repeats);
	row[S_WEIGHT] = cell_number(cycle->weight);
	row[S_LENGTH] = cell_number(cycle->length);
	row[S_PID] = cell_integer(strata->profile->processes[cycle->process].pid);
}

static void cycle_head_fill(const struct strata *strata, const struct order_cycle *cycle,
			    struct cell *row)
{
	row[S_AT] = row[S_NUMBER];
	row[S_PART] = row[S_SHARE];
	row[S_ALL] = row[S_INSTRUCTIONS];
	if (strata->request->has_heat)
		row[S_HOT] = cell_number(cycle_hot(strata, cycle));
	row[S_OFTEN] = row[S_TRIPS];
	row[S_EACH] = row[S_WEIGHT];
	if (strata->processes > 1)
		row[S_PROCESS] = row[S_PID];
}

/* Where the first path of a symbol begins. */
static void symbol_fill(const struct strata *strata, const struct order_cycle *cycle,
			const struct flow_symbol *symbol, struct cell *row)
{
	const struct order_code *code = &strata->codes[cycle->process];
	uint64_t path =
		first_path(&strata->cycles, cycle->process, cycle->level - 1, symbol->number);
	struct order_blocks blocks = {};
	struct steps steps = {};

	row[S_SYMBOL] = cell_integer((int64_t)symbol->number);
	row[S_SYMBOL_TRIPS] = cell_number(symbol->trips);
	if (!order_path_blocks(code, path, &blocks))
		steps_make(strata->profile, &blocks, &steps);
	if (steps.items.count)
		step_fill(strata->table, strata->profile, &steps.items.items[0], &row[S_WHERE]);
	array_deinit(&blocks.items);
	array_deinit(&steps.items);
}

static void cycle_rows_add(struct strata *strata, const struct order_cycle *cycle)
{
	const struct flow_symbol *symbols = order_cycle_symbols(&strata->cycles, cycle);
	size_t shown = strata->request->top ? strata->request->top : SYMBOLS_SHOWN;

	if (!strata->request->people || cycle->length <= shown + 1)
		shown = cycle->length;
	for (size_t i = 0; i < shown; i++) {
		struct cell *row = table_row_add(strata->table);

		cycle_fill(strata, cycle, row);
		if (!i)
			cycle_head_fill(strata, cycle, row);
		row[S_STEP] = cell_integer((int64_t)i);
		symbol_fill(strata, cycle, &symbols[i], row);
	}
	if (shown < cycle->length)
		table_row_add(strata->table)[S_WHERE] = cell_text(table_own(
			strata->table, mem_printf("... and %zu more", cycle->length - shown)));
}

static void cycles_show(struct strata *strata)
{
	const struct view_request *request = strata->request;
	struct table *table = strata->table;
	size_t shown = 0;

	if (strata->items.count)
		qsort_r(strata->items.items, strata->items.count, sizeof(*strata->items.items),
			cycle_order, strata);
	array_each(&strata->items, cycle) {
		uint64_t value = cycle_value(cycle);

		if (!cycle->trips)
			continue;
		table->totals.selected += value;
		if ((request->limit && shown >= request->limit) ||
		    share_of(value, table->totals.seen) < request->min_share) {
			table->omitted++;
			continue;
		}
		shown++;
		cycle_rows_add(strata, cycle);
	}
}

int view_strata(const struct profile *profile, const struct view_request *request,
		struct table **ret)
{
	AUTO(table_destroy_auto)
	struct table *table = table_create("strata", stratum_columns, S_COLUMNS);
	AUTO(strata_deinit)
	struct strata strata = { .profile = profile,
				 .request = request,
				 .table = table,
				 .level = request->level ? request->level : STRATA };
	int err;

	order_totals_set(table, profile, 0);
	order_cycles_init(&strata.cycles);
	err = processes_load(&strata);
	if (err)
		return err;
	if (request->has_heat && (err = heats_make(&strata)))
		return err;
	cycles_collect(&strata);
	err = threads_recount(&strata);
	if (err)
		return err;
	cycles_show(&strata);
	*ret = take_ptr(table);
	return 0;
}

/* --- Counts of levels ------------------------------------------------------------------------- */

enum {
	L_LEVEL,
	L_WHAT,
	L_SYMBOLS,
	L_CYCLES,
	L_REPEATS,
	L_KEPT,
	L_KEPT_SHARE,
	L_RARE,
	L_RARE_SHARE,
	L_CUT,
	L_BROKEN,
	L_KEPT_TRIPS,
	L_RARE_TRIPS,
	L_KEPT_INSTRUCTIONS,
	L_RARE_INSTRUCTIONS,
	L_COLUMNS
};

static const struct column layer_columns[] = {
	[L_LEVEL] = { "level", "Level", COLUMN_INTEGER },
	[L_WHAT] = { "what", "Cycles", COLUMN_TEXT, .elastic = true, .comfort = 15 },
	[L_SYMBOLS] = { "symbols", "Symbols", COLUMN_COUNT, .spare = 1 },
	[L_CYCLES] = { "cycles", "Run", COLUMN_COUNT },
	[L_REPEATS] = { "repeats", "In a row", COLUMN_COUNT, .spare = 3 },
	[L_KEPT] = { "kept", "Kept", COLUMN_COUNT },
	[L_KEPT_SHARE] = { "kept_share", "Kept%", COLUMN_SHARE },
	[L_RARE] = { "rare", "Rare", COLUMN_COUNT },
	[L_RARE_SHARE] = { "rare_share", "Rare%", COLUMN_SHARE, .spare = 2 },
	[L_CUT] = { "cut", "Cut", COLUMN_COUNT },
	[L_BROKEN] = { "broken", "Broken", COLUMN_COUNT },
	[L_KEPT_TRIPS] = { "kept_trips", "", COLUMN_COUNT, COLUMN_DATA },
	[L_RARE_TRIPS] = { "rare_trips", "", COLUMN_COUNT, COLUMN_DATA },
	[L_KEPT_INSTRUCTIONS] = { "kept_instructions", "", COLUMN_COUNT, COLUMN_DATA },
	[L_RARE_INSTRUCTIONS] = { "rare_instructions", "", COLUMN_COUNT, COLUMN_DATA },
};

struct counts {
	bool there;
	uint64_t symbols, cycles, repeats, cut, broken;
	uint64_t kept, kept_trips, kept_weight;
	uint64_t rare, rare_trips, rare_weight;
};

static void levels_count(const struct profile *profile, const bool *processes,
			 struct counts levels[LEVELS])
{
	for (size_t i = 0; i < profile->layer_count; i++) {
		const struct profile_layer *row = &profile->layers[i];
		struct counts *level = &levels[row->level];

		if (!processes[profile->threads[row->thread].process])
			continue;
		level->there = true;
		level->symbols += row->symbols;
		level->cycles += row->cycles;
		level->repeats += row->repeats;
		level->cut += row->cut;
		level->broken += row->broken;
	}
	for (size_t i = 0; i < profile->rare_cycle_count; i++) {
		const struct profile_rare_cycle *row = &profile->rare_cycles[i];

		if (!processes[row->process])
			continue;
		levels[row->level].rare += row->cycles;
		levels[row->level].rare_trips += row->trips;
		levels[row->level].rare_weight += row->weight;
	}
}

/* Only one process is in memory at a time. */
static int kept_count(const struct profile *profile, uint32_t process, struct counts levels[LEVELS])
{
	struct order_cycles cycles;
	struct order_code code;
	int err = order_code_init(&code, profile, process);

	order_cycles_init(&cycles);
	err = err ? err : order_cycles_add(&cycles, &code, LEVELS);
	array_each(&cycles.items, cycle) {
		levels[cycle->level].kept++;
		levels[cycle->level].kept_trips += cycle->trips;
		levels[cycle->level].kept_weight += cycle_value(cycle);
	}
	order_cycles_deinit(&cycles);
	order_code_deinit(&code);
	return err;
}

static const char *level_name(struct table *table, unsigned level)
{
	if (level > STRATA)
		return table_own(table, mem_printf("stratum layer %u", level - STRATA - 1));
	return level ? "strata" : "paths";
}

static void level_row_add(struct table *table, unsigned level, const struct counts *counts)
{
	struct cell *row = table_row_add(table);

	row[L_LEVEL] = cell_integer(level);
	row[L_WHAT] = cell_text(level_name(table, level));
	row[L_SYMBOLS] = cell_number(counts->symbols);
	row[L_CYCLES] = cell_number(counts->cycles);
	row[L_REPEATS] = cell_number(counts->repeats);
	row[L_KEPT] = cell_number(counts->kept);
	row[L_KEPT_SHARE] = cell_real(share_of(counts->kept_weight, table->totals.seen));
	row[L_RARE] = cell_number(counts->rare);
	row[L_RARE_SHARE] = cell_real(share_of(counts->rare_weight, table->totals.seen));
	row[L_CUT] = cell_number(counts->cut);
	row[L_BROKEN] = cell_number(counts->broken);
	row[L_KEPT_TRIPS] = cell_number(counts->kept_trips);
	row[L_RARE_TRIPS] = cell_number(counts->rare_trips);
	row[L_KEPT_INSTRUCTIONS] = cell_number(counts->kept_weight);
	row[L_RARE_INSTRUCTIONS] = cell_number(counts->rare_weight);
}

int view_layers(const struct profile *profile, const struct view_request *request,
		struct table **ret)
{
	AUTO(table_destroy_auto)
	struct table *table = table_create("layers", layer_columns, L_COLUMNS);
	AUTO(free_ptr) struct counts *levels = mem_zalloc(LEVELS * sizeof(*levels));
	AUTO(free_ptr) bool *processes = mem_zalloc(profile->process_count);
	int err;

	for (uint32_t i = 1; i < profile->process_count; i++) {
		size_t all, some = threads_count(profile, &request->filter, i, &all);

		processes[i] = some > 0;
		if (some && some < all)
			return err_set(-EINVAL, "cycles are kept by process, not by thread");
		if (some && (err = kept_count(profile, i, levels)))
			return err;
	}
	order_totals_set(table, profile, 0);
	levels_count(profile, processes, levels);
	table->totals.selected = levels[0].kept_weight;
	for (unsigned i = 0; i < LEVELS; i++)
		if (levels[i].there)
			level_row_add(table, i, &levels[i]);
	*ret = take_ptr(table);
	return 0;
}
