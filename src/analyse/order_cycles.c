// SPDX-License-Identifier: BSD-2-Clause
/*
 * Unpacks cycles, level by level from below: the weight of a path follows from its definition, that
 * of all else from what it holds.
 *
 * Invariants
 *  1. items are ordered by process, level and number, each once.
 *  2. What an item above paths holds is an item of the level below.
 *  3. The sums of trips, and of trips * weight, of a process and level fit in an int64_t.
 */
#include "analyse/order_cycles.h"

#include <errno.h>
#include <inttypes.h>

#include "base/err.h"

/* The level whose cycles are being added up. */
struct level {
	struct order_cycles *cycles;
	const struct order_code *code;
	unsigned level;
	uint64_t last; /* number */
	uint64_t trips, instructions;
};

void order_cycles_init(struct order_cycles *cycles)
{
	*cycles = (struct order_cycles){};
	cyclepack_reader_init(&cycles->reader);
}

void order_cycles_deinit(struct order_cycles *cycles)
{
	cyclepack_reader_deinit(&cycles->reader);
	array_deinit(&cycles->items);
}

static bool cycle_is_before(const struct order_cycle *cycle, uint32_t process, unsigned level,
			    uint64_t number)
{
	if (cycle->process != process)
		return cycle->process < process;
	if (cycle->level != level)
		return cycle->level < level;
	return cycle->number < number;
}

const struct order_cycle *order_cycle_find(const struct order_cycles *cycles, uint32_t process,
					   unsigned level, uint64_t number)
{
	const struct order_cycle *items = cycles->items.items;
	size_t first = 0, end = cycles->items.count;

	while (first < end) {
		size_t middle = first + (end - first) / 2;

		if (cycle_is_before(&items[middle], process, level, number))
			first = middle + 1;
		else
			end = middle;
	}
	if (first == cycles->items.count || items[first].process != process ||
	    items[first].level != level || items[first].number != number)
		return NULL;
	return &items[first];
}

const struct flow_symbol *order_cycle_symbols(const struct order_cycles *cycles,
					      const struct order_cycle *cycle)
{
	return cycle->level ? &cycles->reader.symbols.items[cycle->symbols] : NULL;
}

static int damaged(const struct level *to, const struct order_cycle *cycle, const char *what)
{
	return err_set(-EBADMSG,
		       "process %u, cycle %" PRIu64 " of level %u %s: the profile is damaged",
		       to->code->profile->processes[to->code->process].pid, cycle->number,
		       to->level, what);
}

/* -ENOENT: something that it holds is not there. */
static int weight_sum(const struct level *to, struct order_cycle *cycle)
{
	const struct flow_symbol *symbol = order_cycle_symbols(to->cycles, cycle);

	for (uint32_t i = 0; i < cycle->length; i++, symbol++) {
		const struct order_cycle *below = order_cycle_find(
			to->cycles, cycle->process, cycle->level - 1, symbol->number);
		uint64_t weight;

		if (!below)
			return -ENOENT;
		if (__builtin_mul_overflow(below->weight, symbol->trips, &weight) ||
		    __builtin_add_overflow(cycle->weight, weight, &cycle->weight))
			return damaged(to, cycle, "is too long");
	}
	return 0;
}

static int path_weigh(const struct level *to, struct order_cycle *cycle)
{
	const uint32_t *runs = NULL;

	cycle->length = (uint32_t)sequence_path(&to->code->paths, cycle->number, &runs);
	if (!cycle->length)
		return damaged(to, cycle, "is not defined");
	cycle->weight = order_path_weight(to->code, cycle->number);
	return 0;
}

static int sums_add(struct level *to, const struct order_cycle *cycle)
{
	uint64_t instructions;

	if (__builtin_mul_overflow(cycle->trips, cycle->weight, &instructions) ||
	    instructions > INT64_MAX - to->instructions || cycle->trips > INT64_MAX - to->trips)
		return damaged(to, cycle, "was run too often");
	to->instructions += instructions;
	to->trips += cycle->trips;
	return 0;
}

static int cycle_add(struct level *to, const struct cyclepack_cycle *from)
{
	struct order_cycle cycle = {
		.process = to->code->process,
		.level = to->level,
		.number = from->number,
		.trips = from->trips,
		.repeats = from->repeats,
		.symbols = from->symbols,
		.length = from->length,
	};
	int err;

	if (cycle.number <= to->last)
		return damaged(to, &cycle, "comes twice");
	to->last = cycle.number;
	err = to->level ? weight_sum(to, &cycle) : path_weigh(to, &cycle);
	if (err == -ENOENT)
		return 0;
	err = err ? err : sums_add(to, &cycle);
	if (!err)
		*array_push(&to->cycles->items) = cycle;
	return err;
}

static int table_add(struct level *to, const struct profile_cycle_table *table)
{
	struct cyclepack_reader *reader = &to->cycles->reader;
	int err;

	if (to->level != table->level)
		*to = (struct level){ to->cycles, to->code, table->level };
	reader->cycles.count = 0;
	err = cyclepack_read(reader, &(struct cyclepack_piece){ .level = table->level,
								.first = table->first,
								.count = table->count,
								.data = table->data,
								.size = table->size });
	for (size_t i = 0; i < reader->cycles.count && !err; i++)
		err = cycle_add(to, &reader->cycles.items[i]);
	return err;
}

int order_cycles_add(struct order_cycles *cycles, const struct order_code *code, unsigned levels)
{
	const struct profile *profile = code->profile;
	struct level to = { cycles, code };
	int err = 0;

	for (size_t i = 0; i < profile->cycle_table_count && !err; i++) {
		const struct profile_cycle_table *table = &profile->cycle_tables[i];

		if (table->process == code->process && table->level < levels)
			err = table_add(&to, table);
	}
	return err;
}
