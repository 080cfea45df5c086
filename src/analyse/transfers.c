// SPDX-License-Identifier: BSD-2-Clause
/*
 * How control went between modules: how often a block of one was executed right after a block of
 * another, in the same thread.
 *
 * That is exact. What a path does inside is counted once for all its trips; what happens between a
 * path and itself, and between one repeated path and the next, is read from the rows. So all
 * transfers together are the blocks executed, less one for each thread. A transfer that arrives
 * where a function begins is an entry: a call, nearly always, or a jump that stands for one.
 */
#include <stdlib.h>

#include "analyse/names.h"
#include "analyse/order.h"
#include "analyse/views.h"
#include "base/map.h"

enum { MATRIX_MAX = 16 }; /* modules that fit side by side */

struct transfer {
	uint32_t from, to; /* modules */
	uint64_t all, entries;
};

struct transfers {
	const struct profile *profile;
	const struct order_code *code;
	ARRAY(struct transfer) items;
	struct map index; /* from << 32 | to, to the place + 1 */
	struct order_trips trips;
	uint32_t last; /* block executed before, by this thread; 0: none */
	ARRAY(uint32_t) firsts, lasts; /* blocks of paths, by number */
};

static void transfers_deinit(struct transfers *transfers)
{
	array_deinit(&transfers->items);
	map_deinit(&transfers->index);
	order_trips_deinit(&transfers->trips);
	array_deinit(&transfers->firsts);
	array_deinit(&transfers->lasts);
}

static uint32_t module_of(const struct profile *profile, uint32_t block)
{
	return profile->locations[profile->blocks[block].location].module;
}

static bool is_entry(const struct profile *profile, uint32_t block)
{
	uint32_t location = profile->blocks[block].location;
	uint32_t symbol = location_function(profile, location);

	return symbol && profile->symbols[symbol].address == profile->locations[location].address;
}

static void transfer_add(struct transfers *transfers, uint32_t from, uint32_t to, uint64_t times)
{
	uint32_t left = module_of(transfers->profile, from),
		 came = module_of(transfers->profile, to);
	uint64_t *place = map_at(&transfers->index, (uint64_t)left << 32 | came, NULL);
	struct transfer *item;

	if (!*place) {
		*array_push(&transfers->items) = (struct transfer){ .from = left, .to = came };
		*place = transfers->items.count;
	}
	item = &transfers->items.items[*place - 1];
	item->all += times;
	item->entries += is_entry(transfers->profile, to) ? times : 0;
}

/* The blocks that paths begin and end with; 0 where they have none. */
static int ends_collect(struct transfers *transfers)
{
	struct order_blocks blocks = {};
	int err = 0;

	transfers->firsts.count = transfers->lasts.count = 0;
	*array_push(&transfers->firsts) = *array_push(&transfers->lasts) = 0;
	for (uint64_t i = 1; i < transfers->code->paths.ends.count && !err; i++) {
		size_t count;

		blocks.items.count = 0;
		err = order_path_blocks(transfers->code, i, &blocks);
		count = blocks.items.count;
		*array_push(&transfers->firsts) = count ? blocks.items.items[0] : 0;
		*array_push(&transfers->lasts) = count ? blocks.items.items[count - 1] : 0;
	}
	array_deinit(&blocks.items);
	return err;
}

static int row_take(void *context, const struct profile_flow *row,
		    const struct sequence_position *begin, const struct sequence_repeats *repeats)
{
	struct transfers *transfers = context;

	array_each(&repeats->items, item) {
		uint32_t first = transfers->firsts.items[item->path];
		uint32_t last = transfers->lasts.items[item->path];

		if (!first)
			continue;
		transfers->trips.trips.items[item->path] += item->trips;
		if (transfers->last)
			transfer_add(transfers, transfers->last, first, 1);
		if (item->trips > 1)
			transfer_add(transfers, last, first, item->trips - 1);
		transfers->last = last;
	}
	return 0;
}

static int insides_add(struct transfers *transfers)
{
	struct order_blocks blocks = {};
	int err = 0;

	for (uint64_t i = 1; i < transfers->trips.trips.count && !err; i++) {
		uint64_t trips = transfers->trips.trips.items[i];

		blocks.items.count = 0;
		if (!trips)
			continue;
		err = order_path_blocks(transfers->code, i, &blocks);
		for (size_t j = 1; j < blocks.items.count && !err; j++)
			transfer_add(transfers, blocks.items.items[j - 1], blocks.items.items[j],
				     trips);
	}
	array_deinit(&blocks.items);
	return err;
}

static int process_take(struct transfers *transfers, const struct filter *filter, uint32_t process)
{
	const struct profile *profile = transfers->profile;
	const struct profile_flow *rows;
	struct order_code code;
	int err = 0;

	transfers->code = NULL;
	for (uint32_t i = 1; i < profile->thread_count && !err; i++) {
		if (profile->threads[i].process != process || !order_rows(profile, i, &rows) ||
		    !filter_thread(filter, profile, i))
			continue;
		if (!transfers->code) {
			transfers->code = &code;
			err = order_code_init(&code, profile, process);
			err = err ? err : ends_collect(transfers);
			transfers->trips.trips.count = 0;
			while (transfers->trips.trips.count < code.paths.ends.count)
				*array_push(&transfers->trips.trips) = 0;
		}
		transfers->last = 0;
		err = err ? err : order_walk(&code, i, row_take, transfers);
	}
	err = err || !transfers->code ? err : insides_add(transfers);
	if (transfers->code)
		order_code_deinit(&code);
	return err;
}

/* --- Tables ----------------------------------------------------------------------------------- */

enum { M_FROM, M_TO, M_TRANSFERS, M_SHARE, M_ENTRIES, M_COLUMNS };

static const struct column transfer_columns[] = {
	[M_FROM] = { "from", "From", COLUMN_TEXT },
	[M_TO] = { "to", "To", COLUMN_TEXT },
	[M_TRANSFERS] = { "transfers", "Transfers", COLUMN_COUNT },
	[M_SHARE] = { "share", "Share", COLUMN_SHARE },
	[M_ENTRIES] = { "entries", "Entries", COLUMN_COUNT },
};

static bool is_wanted(const struct transfers *transfers, const struct filter *filter,
		      const struct transfer *item)
{
	return filter_module(filter, transfers->profile, item->from) ||
	       filter_module(filter, transfers->profile, item->to);
}

static struct table *rows_make(const struct transfers *transfers)
{
	struct table *table = table_create("transfers", transfer_columns, M_COLUMNS);

	array_each(&transfers->items, item) {
		struct cell *row = table_row_add(table);

		row[M_FROM] = cell_text(name_of_module(transfers->profile, item->from));
		row[M_TO] = cell_text(name_of_module(transfers->profile, item->to));
		row[M_TRANSFERS] = cell_number(item->all);
		row[M_ENTRIES] = cell_number(item->entries);
	}
	table_sort(table, M_TRANSFERS);
	return table;
}

static void shares_fill(struct table *table)
{
	for (size_t i = 0; i < table->row_count; i++) {
		struct cell *row = table_row(table, i);

		row[M_SHARE] = cell_real(share_of(row[M_TRANSFERS].number, table->totals.seen));
	}
}

/* The modules that control left or came to, the busiest first; how many. */
struct module {
	uint32_t module;
	uint64_t all;
};

static int module_order(const void *left, const void *right)
{
	const struct module *a = left, *b = right;

	if (a->all != b->all)
		return a->all < b->all ? 1 : -1;
	return (a->module > b->module) - (a->module < b->module);
}

static size_t modules_collect(const struct transfers *transfers, struct module *modules)
{
	size_t count = 0;

	array_each(&transfers->items, item) {
		modules[item->from] =
			(struct module){ item->from, modules[item->from].all + item->all };
		modules[item->to] = (struct module){ item->to, modules[item->to].all + item->all };
	}
	qsort(modules, transfers->profile->module_count, sizeof(*modules), module_order);
	while (count < transfers->profile->module_count && modules[count].all)
		count++;
	return count;
}

/* For people: a line for each module that control left, a column for each that it came to. */
static struct table *matrix_make(const struct transfers *transfers, const struct module *modules,
				 size_t count)
{
	struct table *table = table_create("transfers", NULL, 0);
	struct column *columns = table_alloc(table, (count + 1) * sizeof(*columns));
	uint64_t *place;

	columns[0] = (struct column){ "from", "From \\ to", COLUMN_TEXT, .elastic = true,
				      .comfort = 20 };
	for (size_t i = 0; i < count; i++) {
		const char *name = name_of_module(transfers->profile, modules[i].module);

		columns[i + 1] = (struct column){ name, name, COLUMN_COUNT };
	}
	table->columns = columns;
	table->column_count = count + 1;
	table->repeated_columns = 1;
	for (size_t from = 0; from < count; from++) {
		struct cell *row = table_row_add(table);

		row[0] = cell_text(columns[from + 1].name);
		for (size_t to = 0; to < count; to++) {
			place = map_find(&transfers->index,
					 (uint64_t)modules[from].module << 32 | modules[to].module);
			if (place)
				row[to + 1] = cell_number(transfers->items.items[*place - 1].all);
		}
	}
	return table;
}

/* Leaves what the filter chooses; returns how often control went, with and without it. */
static uint64_t items_filter(struct transfers *transfers, const struct filter *filter,
			     uint64_t *ret_selected)
{
	uint64_t all = 0;
	size_t kept = 0;

	*ret_selected = 0;
	map_clear(&transfers->index);
	for (size_t i = 0; i < transfers->items.count; i++) {
		struct transfer item = transfers->items.items[i];

		all += item.all;
		if (!is_wanted(transfers, filter, &item))
			continue;
		*ret_selected += item.all;
		transfers->items.items[kept++] = item;
		*map_at(&transfers->index, (uint64_t)item.from << 32 | item.to, NULL) = kept;
	}
	transfers->items.count = kept;
	return all;
}

static struct table *table_make(const struct transfers *transfers,
				const struct view_request *request, bool *ret_rows)
{
	AUTO(free_ptr)
	struct module *modules = mem_zalloc(transfers->profile->module_count * sizeof(*modules));
	size_t count = modules_collect(transfers, modules);

	*ret_rows = !request->people || request->sort || request->limit || count > MATRIX_MAX;
	return *ret_rows ? rows_make(transfers) : matrix_make(transfers, modules, count);
}

int view_transfers(const struct profile *profile, const struct view_request *request,
		   struct table **ret)
{
	AUTO(transfers_deinit) struct transfers transfers = { .profile = profile };
	uint64_t all, selected;
	struct table *table;
	bool rows;
	int err = 0;

	for (uint32_t i = 1; i < profile->process_count && !err; i++)
		err = process_take(&transfers, &request->filter, i);
	if (err)
		return err;
	all = items_filter(&transfers, &request->filter, &selected);
	table = table_make(&transfers, request, &rows);
	order_totals_scale(table, profile, all, selected);
	if (rows)
		shares_fill(table);
	*ret = table;
	return 0;
}
