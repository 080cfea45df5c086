// SPDX-License-Identifier: BSD-2-Clause
/*
 * The control flow of threads.
 *
 * Runs go into a thread's layers. What the lowest layer hands on, repeated paths, is collected until there is enough for
 * a row. The layers above have then had it too, so that the row's end can be said in strata.
 * Rows are also made of what there is when the layers are about to forget what their symbols mean, and when many threads
 * together have collected too much.
 *
 * Invariants
 *  1. Symbols in a flow's row are valid in the table of level 0.
 *  2. A path is defined in what was handed out before any row that uses it is.
 *  3. After an error, nothing more is handed out.
 */
#include "profile/flow.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"

DEFINE_AUTO(struct flow_space, flow_space_destroy)

static struct layer_level *paths_level(const struct flow_space *space)
{
	return &space->layers->levels[0];
}

static void definitions_make(struct flow_space *space)
{
	const struct layer_level *level = paths_level(space);
	uint32_t last = cycles_last(&level->cycles);
	uint32_t first = (uint32_t)(space->defined - level->base) + 1;
	struct sequence_definitions definitions = { .first = level->base + first,
						    .count = last + 1 - first };

	if (first > last || space->err)
		return;
	sequence_definitions_encode(&space->encoder, &level->cycles, first, last, &definitions.data,
				    &definitions.size);
	space->defined = level->base + last;
	space->err = space->options.definitions(space->options.context, &definitions);
}

static struct sequence_position position_of(const struct flow *flow)
{
	const struct layer_counts *counts = &flow->paths->counts;

	return (struct sequence_position){ .units = {
						   [SEQUENCE_INSTRUCTION] = counts->weight,
						   [SEQUENCE_RUN] = counts->length,
						   [SEQUENCE_PATH] = counts->cycles,
						   [SEQUENCE_REPEAT] = counts->repeats,
						   [SEQUENCE_STRATUM] =
							   layer_ended(flow->paths->next),
					   } };
}

/* What the row holds, by path. */
static void row_count(struct flow *flow, const struct sequence_job *job)
{
	size_t had = flow->trips.count, want = paths_level(flow->space)->cycles.entries.count;

	if (!flow->space->options.counted)
		return;
	if (had < want) {
		array_reserve(&flow->trips, want);
		memset(flow->trips.items + had, 0, (want - had) * sizeof(*flow->trips.items));
		flow->trips.count = want;
	}
	for (size_t i = 0; i < job->pairs.count; i++)
		flow->trips.items[job->pairs.items[i].slot] +=
			job->pairs.items[i].trips * job->counts.items[i];
}

/* Slots still have a meaning. */
static void counts_hand_out(struct flow *flow)
{
	const struct flow_space_options *options = &flow->space->options;
	const struct cycles *paths = &paths_level(flow->space)->cycles;

	for (uint32_t slot = 1; slot < flow->trips.count; slot++)
		if (flow->trips.items[slot])
			options->counted(options->context, flow, cycles_symbols(paths, slot),
					 cycles_at(paths, slot)->length, flow->trips.items[slot]);
	array_deinit(&flow->trips);
}

/* Hands out rows that are compressed by now; wait: the oldest in any case. */
static void rows_hand_out(struct flow_space *space, bool wait)
{
	struct sequence_job *job;

	while ((job = rowworks_collect(space->works, wait))) {
		struct flow_row done = space->rows.items[0];

		done.row.data = job->coder.out.items;
		done.row.size = job->coder.out.count;
		if (!space->err)
			space->err =
				space->options.row(space->options.context, done.flow, &done.row);
		rowworks_release(space->works);
		space->rows.count--;
		memmove(space->rows.items, space->rows.items + 1,
			space->rows.count * sizeof(*space->rows.items));
		wait = false;
	}
}

static void rows_finish(struct flow_space *space)
{
	while (space->rows.count)
		rows_hand_out(space, true);
}

static void row_make(struct flow *flow)
{
	struct flow_space *space = flow->space;
	const struct layer *strata = flow->paths->next;
	struct sequence_row row = {
		.end = position_of(flow),
		.stratum_start = strata->counts.symbols - strata->open.count,
		.base = paths_level(space)->base,
	};
	struct sequence_job *job;

	if (!flow->row.count)
		return;
	definitions_make(space);
	if (space->err)
		return;
	rows_hand_out(space, false);
	while (!(job = rowworks_place(space->works)))
		rows_hand_out(space, true);
	sequence_job_prepare(job, &space->encoder, &paths_level(space)->repeats, flow->row.items,
			     flow->row.count);
	row_count(flow, job);
	flow->row.count = 0;
	*array_push(&space->rows) = (struct flow_row){ flow, row };
	rowworks_submit(space->works);
	if (!space->options.threaded)
		rows_finish(space);
}

/* What has not become a row yet, of all threads. The memory is given back. */
static void rows_make(struct flow_space *space)
{
	for (struct flow *flow = space->flows; flow; flow = flow->next) {
		row_make(flow);
		if (!space->err)
			array_deinit(&flow->row);
	}
	space->room = 0;
}

static void flow_take(void *context, const uint32_t *symbols, size_t count)
{
	struct flow *flow = context;
	size_t capacity = flow->row.capacity;

	array_reserve(&flow->row, flow->row.count + count);
	flow->space->room += flow->row.capacity - capacity;
	memcpy(flow->row.items + flow->row.count, symbols, count * sizeof(*symbols));
	flow->row.count += count;
	if (flow->finishing)
		return;
	if (flow->row.count >= flow->space->options.row_repeats)
		row_make(flow);
	if (flow->space->room > FLOW_ROOM)
		rows_make(flow->space);
}

static void flow_clearing(void *context, unsigned level)
{
	struct flow_space *space = context;

	if (level)
		return;
	rows_make(space);
	definitions_make(space);
	for (struct flow *flow = space->flows; flow; flow = flow->next)
		counts_hand_out(flow);
}

static void symbols_fill(struct flow_space *space, unsigned level, const struct cycle *cycle)
{
	const struct layer_level *levels = space->layers->levels;
	const uint32_t *words = &levels[level].cycles.words.items[cycle->at];

	space->symbols.count = 0;
	for (uint32_t i = 0; i < cycle->length; i++) {
		const struct repeat *repeat = layer_symbol(space->layers, level, words[i]);

		*array_push(&space->symbols) = (struct flow_symbol){
			.number = levels[level - 1].base + repeat->slot,
			.trips = repeat->trips,
		};
	}
}

static void flow_retired(void *context, unsigned level, uint64_t number, const struct cycle *cycle)
{
	struct flow_space *space = context;
	struct flow_cycle out = {
		.level = level,
		.number = number,
		.trips = cycle->trips,
		.repeats = cycle->accesses,
		.weight = cycle->weight,
		.length = cycle->length,
	};

	if (space->err)
		return;
	if (level && cycle->trips < space->options.min_trips) {
		space->rare[level].cycles++;
		space->rare[level].trips += cycle->trips;
		space->rare[level].weight += cycle->trips * cycle->weight;
		return;
	}
	if (level) {
		symbols_fill(space, level, cycle);
		out.symbols = space->symbols.items;
	}
	space->err = space->options.cycle(space->options.context, &out);
}

int flow_space_create(const struct flow_space_options *options, struct flow_space **ret)
{
	AUTO(flow_space_destroy_auto) struct flow_space *space = mem_zalloc(sizeof(*space));
	struct layer_space_options layers = {
		.levels = options->levels,
		.max_cycle = options->max_cycle,
		.cycles = options->cycles,
		.retired = flow_retired,
		.clearing = flow_clearing,
		.context = space,
	};
	int err;

	if (options->levels == 1 || options->row_repeats > SEQUENCE_ROW_MAX / 2)
		return err_set(
			-EINVAL,
			"%u levels in rows of %u repeated paths: give at least 2, and rows of "
			"at most %d",
			options->levels, options->row_repeats, SEQUENCE_ROW_MAX / 2);
	space->options = *options;
	if (!space->options.row_repeats)
		space->options.row_repeats = FLOW_ROW;
	if (!space->options.min_trips)
		space->options.min_trips = FLOW_MIN_TRIPS;
	err = layer_space_create(&layers, &space->layers);
	if (err)
		return err;
	sequence_encoder_init(&space->encoder);
	rowworks_create(options->threaded, &space->works);
	*ret = take_ptr(space);
	return 0;
}

void flow_space_destroy(struct flow_space *space)
{
	if (!space)
		return;
	assert(!space->flows);
	layer_space_destroy(space->layers);
	rowworks_destroy(space->works);
	array_deinit(&space->rows);
	sequence_encoder_deinit(&space->encoder);
	array_deinit(&space->symbols);
	free(space);
}

struct flow *flow_create(struct flow_space *space, void *owner)
{
	struct flow *flow = mem_zalloc(sizeof(*flow));

	flow->space = space;
	flow->owner = owner;
	flow->next = space->flows;
	space->flows = flow;
	flow->paths = layer_create(space->layers);
	flow->paths->sink = flow_take;
	flow->paths->sink_context = flow;
	return flow;
}

void flow_destroy(struct flow *flow)
{
	struct flow **link;

	if (!flow)
		return;
	for (link = &flow->space->flows; *link != flow; link = &(*link)->next)
		;
	*link = flow->next;
	flow->space->room -= flow->row.capacity;
	layer_destroy(flow->paths);
	array_deinit(&flow->row);
	array_deinit(&flow->trips);
	free(flow);
}

void flow_weights_set(struct flow_space *space, const uint32_t *weights, size_t count)
{
	layer_weights_set(space->layers, weights, count);
}

int flow_push(struct flow *flow, const uint32_t *runs, size_t count)
{
	if (!flow->space->err)
		layer_push(flow->paths, runs, count);
	return flow->space->err;
}

int flow_finish(struct flow *flow)
{
	if (!flow->space->err) {
		flow->finishing = true;
		layer_finish(flow->paths);
		row_make(flow);
		flow->finishing = false;
		rows_finish(flow->space);
		counts_hand_out(flow);
	}
	return flow->space->err;
}

int flow_space_finish(struct flow_space *space)
{
	if (!space->err)
		layer_space_retire(space->layers);
	return space->err;
}

size_t flow_space_memory(const struct flow_space *space)
{
	size_t bytes = sizeof(*space) + layer_space_memory(space->layers) +
		       sequence_encoder_memory(&space->encoder) + rowworks_memory(space->works);

	for (const struct flow *flow = space->flows; flow; flow = flow->next)
		bytes += sizeof(*flow) + flow->row.capacity * sizeof(*flow->row.items) +
			 flow->trips.capacity * sizeof(*flow->trips.items) +
			 space->layers->level_count * sizeof(struct layer);
	return bytes;
}
