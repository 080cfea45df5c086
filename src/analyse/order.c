// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reads the order of execution.
 *
 *	in	the rows of a thread, as the profile has them
 *	out	paths, trips and blocks, in the order of execution
 *	owner	the view that walks them
 *
 * Invariants
 *  1. After order_code_init(), each path has only blocks that the profile has.
 *  2. A row that was read ends, in instructions, blocks, paths and repeated paths, where the
 *     profile says. So nothing that is done for each of a row's blocks takes longer than the
 *     thread's own numbers promise.
 */
#include "analyse/order.h"

#include <errno.h>
#include <inttypes.h>

#include "analyse/meta.h"
#include "base/err.h"
#include "paths/flow.h"

int order_check(const struct profile *profile)
{
	uint64_t format = meta_number(profile, META_ORDER_FORMAT);

	if (profile->flow_count && format == FLOW_FORMAT)
		return 0;
	if (profile->flow_count)
		return err_set(-ENOTSUP,
			       "this profile was made by another version of Assay: the order of "
			       "execution is in format %" PRIu64
			       ", this one reads format %d; record "
			       "again",
			       format, FLOW_FORMAT);
	return err_set(-ENODATA, "this profile has no order of execution; make one that has with "
				 "assay trace --tool paths");
}

/* --- What numbers stand for ------------------------------------------------------------------- */

/* Blocks of a merged profile follow those of other parts: base is where the row's begin. */
static int blocks_check(struct order_code *code, size_t from, uint32_t base)
{
	size_t limit = code->profile->block_count > base ? code->profile->block_count - base : 0;

	for (size_t i = from; i < code->paths.blocks.count; i++) {
		uint32_t *block = &code->paths.blocks.items[i];

		if (!*block || *block >= limit)
			return err_set(-EBADMSG,
				       "a path has block %u, which does not exist: the profile is "
				       "damaged",
				       *block);
		*block += base;
	}
	return 0;
}

static int path_table_add(struct order_code *code, const struct profile_path_table *row)
{
	size_t from = code->paths.blocks.count;
	int err = sequence_paths_add(&code->paths, &(struct sequence_definitions){
							   .first = row->first,
							   .count = row->count,
							   .data = row->data,
							   .size = row->size,
						   });

	return err ? err : blocks_check(code, from, row->base);
}

static int paths_load(struct order_code *code)
{
	const struct profile *profile = code->profile;
	int err = 0;

	/* A view may have the paths of all processes in memory. */
	code->paths.room = SEQUENCE_PATHS_ROOM / profile->process_count;
	for (size_t i = 0; i < profile->path_table_count && !err; i++)
		if (profile->path_tables[i].process == code->process)
			err = path_table_add(code, &profile->path_tables[i]);
	sequence_paths_end(&code->paths);
	return err ? err_wrap(err, "paths of process %u", profile->processes[code->process].pid)
		   : 0;
}

int order_code_init(struct order_code *code, const struct profile *profile, uint32_t process)
{
	*code = (struct order_code){ .profile = profile, .process = process };
	sequence_paths_init(&code->paths);
	array_reserve(&code->weights, profile->block_count);
	for (size_t i = 0; i < profile->block_count; i++)
		*array_push(&code->weights) = profile->blocks[i].instructions;
	return paths_load(code);
}

void order_code_deinit(struct order_code *code)
{
	sequence_paths_deinit(&code->paths);
	array_deinit(&code->weights);
}

int order_path_blocks(const struct order_code *code, uint64_t path, struct order_blocks *ret)
{
	const uint32_t *blocks = NULL;
	size_t length = sequence_path(&code->paths, path, &blocks);

	if (!length)
		return err_set(-EBADMSG,
			       "path %" PRIu64 " is not defined: rows of the profile are missing",
			       path);
	for (size_t i = 0; i < length; i++)
		*array_push(&ret->items) = blocks[i];
	return 0;
}

uint64_t order_path_weight(const struct order_code *code, uint64_t path)
{
	const uint32_t *blocks = NULL;
	size_t length = sequence_path(&code->paths, path, &blocks);
	uint64_t weight = 0;

	for (size_t i = 0; i < length; i++)
		weight += code->weights.items[blocks[i]];
	return weight;
}

/* --- Rows ------------------------------------------------------------------------------------- */

size_t order_rows(const struct profile *profile, uint32_t thread, const struct profile_flow **ret)
{
	size_t first = 0, end = profile->flow_count, behind;

	while (first < end) {
		size_t middle = first + (end - first) / 2;

		if (profile->flows[middle].thread < thread)
			first = middle + 1;
		else
			end = middle;
	}
	for (behind = first;
	     behind < profile->flow_count && profile->flows[behind].thread == thread; behind++)
		;
	*ret = profile->flows + first;
	return behind - first;
}

struct sequence_position order_end(const struct profile_flow *row)
{
	return (struct sequence_position){ .units = {
						   [SEQUENCE_INSTRUCTION] = row->instructions,
						   [SEQUENCE_BLOCK] = row->blocks,
						   [SEQUENCE_PATH] = row->paths,
						   [SEQUENCE_REPEAT] = row->repeats,
						   [SEQUENCE_STRATUM] = row->strata,
					   } };
}

struct sequence_position order_thread_end(const struct profile *profile, uint32_t thread)
{
	const struct profile_flow *rows = NULL;
	size_t count = order_rows(profile, thread, &rows);

	return count ? order_end(&rows[count - 1]) : (struct sequence_position){};
}

/* false: there is no such path, or the numbers do not fit. */
static bool repeat_add(const struct order_code *code, const struct sequence_repeat *repeat,
		       struct sequence_position *at)
{
	const uint32_t *blocks = NULL;
	size_t length = sequence_path(&code->paths, repeat->path, &blocks);
	uint64_t size[SEQUENCE_UNIT_COUNT] = {
		[SEQUENCE_INSTRUCTION] = 0, [SEQUENCE_BLOCK] = length, [SEQUENCE_PATH] = 1
	};
	uint64_t all;

	for (size_t i = 0; i < length; i++)
		size[SEQUENCE_INSTRUCTION] += code->weights.items[blocks[i]];
	for (unsigned unit = 0; unit < SEQUENCE_UNIT_COUNT; unit++)
		if (__builtin_mul_overflow(size[unit], repeat->trips, &all) ||
		    __builtin_add_overflow(at->units[unit], all, &at->units[unit]))
			return false;
	at->units[SEQUENCE_REPEAT]++;
	return length > 0;
}

int order_row_read(const struct order_code *code, const struct profile_flow *row,
		   const struct sequence_position *begin, struct sequence_repeats *ret)
{
	struct sequence_position at = *begin, end = order_end(row);
	bool good = true;
	int err = sequence_row_decode(ret, &(struct sequence_row){ .base = row->base,
								   .data = row->data,
								   .size = row->size });

	if (err)
		return err;
	array_each(&ret->items, item)
		good = good && repeat_add(code, item, &at);
	at.units[SEQUENCE_STRATUM] = end.units[SEQUENCE_STRATUM];
	if (good && !memcmp(&at, &end, sizeof(at)))
		return 0;
	return err_set(-EBADMSG,
		       "row %" PRIu64
		       " of thread %u is not what it says it is: the profile is damaged",
		       row->row, code->profile->threads[row->thread].tid);
}

int order_walk(const struct order_code *code, uint32_t thread, order_row_fn take, void *context)
{
	const struct profile_flow *rows = NULL;
	size_t count = order_rows(code->profile, thread, &rows);
	struct sequence_position begin = {};
	struct sequence_repeats repeats;
	int err = 0;

	sequence_repeats_init(&repeats);
	for (size_t i = 0; i < count && !err; i++) {
		err = order_row_read(code, &rows[i], &begin, &repeats);
		err = err ? err : take(context, &rows[i], &begin, &repeats);
		begin = order_end(&rows[i]);
	}
	sequence_repeats_deinit(&repeats);
	return err;
}

/* --- Sums ------------------------------------------------------------------------------------- */

void order_trips_deinit(struct order_trips *trips)
{
	array_deinit(&trips->trips);
	array_deinit(&trips->repeats);
}

static int trips_take(void *context, const struct profile_flow *row,
		      const struct sequence_position *begin, const struct sequence_repeats *repeats)
{
	struct order_trips *trips = context;

	array_each(&repeats->items, item) {
		trips->trips.items[item->path] += item->trips;
		trips->repeats.items[item->path]++;
	}
	return 0;
}

int order_trips_add(const struct order_code *code, uint32_t thread, struct order_trips *trips)
{
	while (trips->trips.count < code->paths.ends.count) {
		*array_push(&trips->trips) = 0;
		*array_push(&trips->repeats) = 0;
	}
	return order_walk(code, thread, trips_take, trips);
}

static uint64_t instructions_all(const struct profile *profile)
{
	uint64_t instructions = 0;

	for (uint32_t i = 1; i < profile->thread_count; i++)
		instructions += order_thread_end(profile, i).units[SEQUENCE_INSTRUCTION];
	return instructions;
}

/* Losses are of segments. */
static void totals_fill(struct table *table, const struct profile *profile, uint64_t kept,
			uint64_t selected)
{
	const struct profile_recording *executed = profile_recording(profile, RECORDING_EXECUTED);
	size_t count = executed ? executed->loss_count : 0;
	double each = executed && executed->kept ? (double)kept / (double)executed->kept : 1;
	struct profile_named_count *losses = table_alloc(table, (count + 1) * sizeof(*losses));

	table->totals = (struct totals){ .seen = kept,
					 .kept = kept,
					 .selected = selected,
					 .losses = losses,
					 .loss_count = count };
	for (size_t i = 0; i < count; i++) {
		losses[i] = executed->losses[i];
		losses[i].count = (uint64_t)((double)losses[i].count * each);
		table->totals.seen += losses[i].count;
	}
}

void order_totals_set(struct table *table, const struct profile *profile, uint64_t selected)
{
	totals_fill(table, profile, instructions_all(profile), selected);
}

void order_totals_scale(struct table *table, const struct profile *profile, uint64_t kept,
			uint64_t selected)
{
	totals_fill(table, profile, kept, selected);
}
