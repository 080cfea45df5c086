// SPDX-License-Identifier: BSD-2-Clause
/*
 * The control flow of threads.
 *
 *	in	the numbers of the segments that a thread executes
 *	out	rows of its repeated paths, compressed, and cycles with their counts
 *	owner	the space belongs to a process, a flow to a thread: paths.c of the recorder makes
 *		both
 *
 * Segments go into a thread's layer of segments, whose cycles become paths of blocks
 * (block_paths.h). The repeated paths are collected until there are enough for a row. The row then
 * goes to the row writer's thread: through the layers above, which tell where the row ends in
 * strata, and through the coder. When it comes back it is counted and handed out, together with the
 * cycles that the layers have forgotten meanwhile.
 *
 *	flow_push() -> segments -> paths -> flow->row
 *		    -> row_write(): strata, coder -> rows_hand_out()
 *
 * Rows are also made of what there is when all threads together have collected too much, when a
 * thread ends, and when paths are about to be forgotten. In the last two cases all rows are waited
 * for.
 *
 * Invariants
 *  1. Symbols in a flow's row, and in rows that the writer has, are valid in the table of level 0.
 *  2. The definition of a path is handed out before any row that uses it.
 *  3. After an error, nothing more is handed out.
 *  4. While the writer has rows, only row_write() touches the layers above paths and the row
 *     encoder.
 */
#include "paths/flow.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"

enum {
	FETCH_AHEAD = 16, /* entries that are prefetched before they are needed */
	SEGMENTS_PART = 2, /* cycles of segments get this part of the memory of paths */
	STATES_PART = 4, /* open paths, and what is known of them, get this part each */
	PART_MIN = 1 << 16, /* but so many bytes at least */
};

DEFINE_AUTO(struct flow_space, flow_space_destroy)

static struct layer_level *paths_level(const struct flow_space *space)
{
	return &space->paths->levels[0];
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

/* Sets how far the thread has come. The number of strata has been set when the row was written. */
static void position_set(const struct flow *flow, struct sequence_position *position)
{
	const struct layer_counts *counts = &flow->paths->counts;

	position->units[SEQUENCE_INSTRUCTION] = counts->weight;
	position->units[SEQUENCE_BLOCK] = counts->length;
	position->units[SEQUENCE_PATH] = counts->cycles;
	position->units[SEQUENCE_REPEAT] = counts->repeats;
}

static void trips_reserve(struct flow *flow)
{
	size_t had = flow->trips.count, want = paths_level(flow->space)->cycles.entries.count;

	if (had >= want)
		return;
	array_reserve(&flow->trips, want);
	memset(flow->trips.items + had, 0, (want - had) * sizeof(*flow->trips.items));
	flow->trips.count = want;
}

/*
 * Counts what the row holds. Each different repeated path is counted once, with the number of its
 * occurrences, which is less work than counting while they are found.
 */
static void row_count(struct flow *flow, const struct sequence_encoded *row)
{
	const struct cycles *paths = &paths_level(flow->space)->cycles;
	const struct repeat *pairs = row->pairs.items;
	bool told = flow->space->options.counted != NULL;

	if (told)
		trips_reserve(flow);
	for (size_t i = 0; i < row->pairs.count; i++) {
		uint32_t ahead =
			pairs[i + FETCH_AHEAD < row->pairs.count ? i + FETCH_AHEAD : i].slot;

		__builtin_prefetch(cycles_at(paths, ahead), 1);
		if (told)
			__builtin_prefetch(&flow->trips.items[ahead], 1);
		layer_count(flow->paths, pairs[i].slot, pairs[i].trips, row->counts.items[i]);
		if (told)
			flow->trips.items[pairs[i].slot] += pairs[i].trips * row->counts.items[i];
	}
}

/* Called while slots still have a meaning. */
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

/* --- Rows ------------------------------------------------------------------------------------- */

static struct flow_known *known_at(const struct flow_space *space, uint32_t symbol)
{
	return &space->known[symbol >> FLOW_KNOWN_BITS][symbol & ((1u << FLOW_KNOWN_BITS) - 1)];
}

/* The symbol may be one of another level, and unknown. */
static inline __attribute__((always_inline)) void known_fetch(const struct flow_space *space,
							      uint64_t symbol)
{
	if (symbol < space->known_count)
		__builtin_prefetch(known_at(space, (uint32_t)symbol));
}

/*
 * Replaces the symbols of a stratum by the repeated paths that they stand for, and returns what
 * these weigh together. `left` symbols, including those of the next cycles, may be prefetched.
 */
static uint64_t symbols_resolve(const struct flow_space *space, struct flow_symbol *symbols,
				uint32_t length, size_t left)
{
	uint64_t weight = 0;

	for (uint32_t i = 0; i < length; i++) {
		const struct flow_known *known = known_at(space, (uint32_t)symbols[i].number);

		if (i + FETCH_AHEAD < left)
			known_fetch(space, symbols[i + FETCH_AHEAD].number);
		symbols[i] = (struct flow_symbol){ paths_level(space)->base + known->slot,
						   known->trips };
		weight += known->weight;
	}
	return weight;
}

static void retired_hand_out(struct flow_space *space, struct flow_retired *retired)
{
	struct flow_symbol *symbols = retired->symbols.items;
	size_t left = retired->symbols.count;

	array_each(&retired->cycles, cycle) {
		if (space->err)
			break;
		if (cycle->level == 1)
			cycle->weight = symbols_resolve(space, symbols, cycle->length, left);
		space->kept_weight[cycle->level] += cycle->trips * cycle->weight;
		cycle->symbols = symbols;
		symbols += cycle->length;
		left -= cycle->length;
		space->err = space->options.cycle(space->options.context, cycle);
	}
	retired->cycles.count = 0;
	retired->symbols.count = 0;
}

static void row_hand_out(struct flow_space *space, struct flow_row *done)
{
	row_count(done->flow, &done->encoded);
	position_set(done->flow, &done->row.end);
	done->row.data = done->encoded.bytes.items;
	done->row.size = done->encoded.bytes.count;
	if (!space->err)
		space->err = space->options.row(space->options.context, done->flow, &done->row);
	retired_hand_out(space, &done->retired);
}

/* Hands out rows that have been written; wait: the oldest one in any case. */
static void rows_hand_out(struct flow_space *space, bool wait)
{
	int job;

	while ((job = row_writer_collect(space->writer, wait)) >= 0) {
		row_hand_out(space, &space->rows[job]);
		row_writer_release(space->writer);
		space->rows_busy--;
		wait = false;
	}
}

static void rows_finish(struct flow_space *space)
{
	while (space->rows_busy)
		rows_hand_out(space, true);
}

/*
 * Adds the repeated paths that are new since the last row. The writer reads only what was there
 * before.
 */
static void known_extend(struct flow_space *space)
{
	const struct layer_level *level = paths_level(space);

	for (; space->known_count < level->repeats.items.count; space->known_count++) {
		const struct repeat *repeat = &level->repeats.items.items[space->known_count];
		struct flow_known **block = &space->known[space->known_count >> FLOW_KNOWN_BITS];

		if (!*block)
			*block = mem_alloc(sizeof(**block) << FLOW_KNOWN_BITS);
		*known_at(space, space->known_count) = (struct flow_known){
			.trips = repeat->trips,
			.weight = repeat->trips * cycles_at(&level->cycles, repeat->slot)->weight,
			.slot = repeat->slot,
		};
	}
}

static void known_pairs(const void *context, const uint32_t *symbols, size_t count,
			struct repeat *ret)
{
	for (size_t i = 0; i < count; i++) {
		const struct flow_known *known = known_at(context, symbols[i]);

		__builtin_prefetch(
			known_at(context, symbols[i + FETCH_AHEAD < count ? i + FETCH_AHEAD : i]));
		ret[i] = (struct repeat){ .trips = known->trips, .slot = known->slot };
	}
}

/*
 * In the row writer's thread: the row's repeated paths go through the layers above, which then say
 * where the row ends in strata, and through the coder.
 */
static void row_write(void *context, int job)
{
	struct flow_space *space = context;
	struct flow_row *row = &space->rows[job];
	struct layer *strata = row->flow->strata;

	space->retired = &row->retired;
	layer_push(strata, row->symbols.items, row->symbols.count);
	if (row->last)
		layer_finish(strata);
	if (row->cut)
		layer_break(strata);
	layer_settle(strata);
	row->row.end.units[SEQUENCE_STRATUM] = layer_ended(strata);
	row->row.stratum_start = strata->counts.symbols - strata->open.count;
	sequence_row_encode(&space->row_encoder, row->symbols.items, row->symbols.count, row->limit,
			    known_pairs, space, &row->encoded);
}

/* The row takes the symbols, and gives back the memory that it had before. */
static void symbols_swap(struct flow *flow, struct flow_row *row)
{
	typeof(flow->row) symbols = flow->row;

	flow->space->room += row->symbols.capacity - flow->row.capacity;
	memcpy(&flow->row, &row->symbols, sizeof(flow->row));
	memcpy(&row->symbols, &symbols, sizeof(row->symbols));
	flow->row.count = 0;
}

static struct flow_row *row_place(struct flow_space *space)
{
	int job;

	rows_hand_out(space, false);
	while ((job = row_writer_place(space->writer)) < 0)
		rows_hand_out(space, true);
	return &space->rows[job];
}

static void row_make(struct flow *flow)
{
	struct flow_space *space = flow->space;
	const struct layer_level *level = paths_level(space);
	struct flow_row *row;

	if (!flow->row.count)
		return;
	definitions_make(space);
	if (space->err)
		return;
	row = row_place(space);
	row->flow = flow;
	row->last = flow->finishing;
	row->cut = space->clearing;
	row->row = (struct sequence_row){ .base = level->base };
	known_extend(space);
	row->limit = space->known_count;
	symbols_swap(flow, row);
	space->rows_busy++;
	row_writer_submit(space->writer);
	if (!space->options.threaded)
		rows_finish(space);
}

/* Makes rows of what all threads have collected, and gives back the memory. */
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

/* --- Forgetting ------------------------------------------------------------------------------- */

/* Hands out what strata forget while the writer has no row. */
static void strata_forget(struct flow_space *space, void (*forget)(struct layer_space *))
{
	struct flow_retired retired = {};

	space->retired = &retired;
	forget(space->strata);
	retired_hand_out(space, &retired);
	array_deinit(&retired.cycles);
	array_deinit(&retired.symbols);
}

static void paths_clearing(void *context, unsigned level)
{
	struct flow_space *space = context;

	space->clearing = true;
	rows_make(space);
	space->clearing = false;
	rows_finish(space);
	strata_forget(space, layer_space_cut);
	space->known_count = 0;
	definitions_make(space);
	for (struct flow *flow = space->flows; flow; flow = flow->next)
		counts_hand_out(flow);
}

static void path_retired(void *context, unsigned level, uint64_t number, const struct cycle *cycle)
{
	struct flow_space *space = context;
	struct flow_cycle out = {
		.number = number,
		.trips = cycle->trips,
		.repeats = cycle->accesses,
		.weight = cycle->weight,
		.length = cycle->length,
	};

	if (!space->err)
		space->err = space->options.cycle(space->options.context, &out);
}

/*
 * Returns the weight of a cycle: the sum of what it holds, down to repeated paths. It is computed
 * once. Levels are those of the space of strata, which begin with 0.
 */
static uint64_t cycle_weight(const struct flow_space *space, unsigned level, struct cycle *cycle)
{
	const struct layer_level *levels = space->strata->levels;
	const uint32_t *words = &levels[level].cycles.words.items[cycle->at];

	for (uint32_t i = 0, known = cycle->weight > 0; !known && i < cycle->length; i++) {
		const struct repeat *repeat;

		if (!level) {
			cycle->weight += known_at(space, words[i])->weight;
			continue;
		}
		repeat = layer_symbol(space->strata, level, words[i]);
		cycle->weight += repeat->trips *
				 cycle_weight(space, level - 1,
					      cycles_at(&levels[level - 1].cycles, repeat->slot));
	}
	return cycle->weight;
}

/* Keeps the symbols of a cycle that is forgotten; levels as in cycle_weight(). */
static void symbols_keep(struct flow_space *space, unsigned level, const struct cycle *cycle)
{
	const struct layer_level *levels = space->strata->levels;
	const uint32_t *words = &levels[level].cycles.words.items[cycle->at];

	for (uint32_t i = 0; i < cycle->length; i++) {
		struct flow_symbol symbol = { .number = words[i] };

		if (level) {
			const struct repeat *repeat = layer_symbol(space->strata, level, words[i]);

			symbol.number = levels[level - 1].base + repeat->slot;
			symbol.trips = repeat->trips;
		}
		*array_push(&space->retired->symbols) = symbol;
	}
}

/* The weight of a stratum is added up when it is handed out. */
static void stratum_retired(void *context, unsigned level, uint64_t number,
			    const struct cycle *cycle)
{
	struct flow_space *space = context;
	struct flow_rare *rare = &space->rare[level + 1];

	if (cycle->trips < space->options.min_trips) {
		rare->cycles++;
		rare->trips += cycle->trips;
		return;
	}
	symbols_keep(space, level, cycle);
	*array_push(&space->retired->cycles) = (struct flow_cycle){
		.level = level + 1,
		.number = number,
		.trips = cycle->trips,
		.repeats = cycle->accesses,
		.weight = level ? cycle_weight(space, level, (struct cycle *)cycle) : 0,
		.length = cycle->length,
	};
}

/* --- Spaces and flows ------------------------------------------------------------------------- */

static size_t part_of(const struct flow_space *space, size_t part)
{
	size_t memory = space->options.cycles.memory;
	size_t bytes = (memory ? memory : CYCLES_MEMORY) / part;

	return bytes > PART_MIN ? bytes : PART_MIN;
}

static void segments_clearing(void *context, unsigned level)
{
	struct flow_space *space = context;

	block_paths_cycles_clearing(&space->blocks);
}

static int segments_create(struct flow_space *space)
{
	const struct layer_space_options layers = {
		.levels = 1,
		.uncounted = true,
		.cycles = { .memory = part_of(space, SEGMENTS_PART) },
		.clearing = segments_clearing,
		.context = space,
	};
	struct block_paths_options blocks = {
		.paths = space->paths,
		.blocks = space->options.blocks,
		.context = space->options.context,
		.max_cycle = space->paths->options.max_cycle,
		.memory = part_of(space, STATES_PART),
	};
	int err = layer_space_create(&layers, &space->segments);

	blocks.segments = space->segments;
	return err ? err : block_paths_init(&space->blocks, &blocks);
}

static void segments_take(void *context, const uint32_t *places, const uint64_t *trips,
			  size_t count)
{
	struct flow *flow = context;

	block_path_take(&flow->space->blocks, &flow->open, places, trips, count);
}

static int layers_create(struct flow_space *space)
{
	const struct flow_space_options *options = &space->options;
	struct layer_space_options layers = {
		.levels = 1,
		.uncounted = true,
		.max_cycle = options->max_cycle,
		.cycles = options->cycles,
		.retired = path_retired,
		.clearing = paths_clearing,
		.context = space,
	};
	int err = layer_space_create(&layers, &space->paths);

	if (err)
		return err;
	layers.levels = (options->levels ? options->levels : LAYER_LEVELS) - 1;
	layers.upper = true;
	layers.uncounted = false;
	layers.retired = stratum_retired;
	layers.clearing = NULL;
	err = layer_space_create(&layers, &space->strata);
	return err ? err : segments_create(space);
}

int flow_space_create(const struct flow_space_options *options, struct flow_space **ret)
{
	AUTO(flow_space_destroy_auto) struct flow_space *space = mem_zalloc(sizeof(*space));
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
	sequence_row_encoder_init(&space->row_encoder);
	space->known = mem_zalloc(FLOW_KNOWN_BLOCKS * sizeof(*space->known));
	err = layers_create(space);
	if (err)
		return err;
	sequence_encoder_init(&space->encoder);
	row_writer_create(options->threaded, row_write, space, &space->writer);
	*ret = take_ptr(space);
	return 0;
}

static void row_deinit(struct flow_row *row)
{
	sequence_encoded_deinit(&row->encoded);
	array_deinit(&row->symbols);
	array_deinit(&row->retired.cycles);
	array_deinit(&row->retired.symbols);
}

void flow_space_destroy(struct flow_space *space)
{
	if (!space)
		return;
	assert(!space->flows);
	row_writer_destroy(space->writer);
	block_paths_deinit(&space->blocks);
	layer_space_destroy(space->segments);
	layer_space_destroy(space->strata);
	layer_space_destroy(space->paths);
	for (size_t i = 0; i < ROW_WRITER_JOBS; i++)
		row_deinit(&space->rows[i]);
	for (size_t i = 0; space->known && i < FLOW_KNOWN_BLOCKS && space->known[i]; i++)
		free(space->known[i]);
	free(space->known);
	sequence_row_encoder_deinit(&space->row_encoder);
	sequence_encoder_deinit(&space->encoder);
	free(space);
}

struct flow *flow_create(struct flow_space *space, void *owner)
{
	struct flow *flow = mem_zalloc(sizeof(*flow));

	flow->space = space;
	flow->owner = owner;
	flow->next = space->flows;
	space->flows = flow;
	rows_finish(space);
	flow->paths = layer_create(space->paths);
	flow->strata = layer_create(space->strata);
	flow->paths->sink = flow_take;
	flow->paths->sink_context = flow;
	flow->segments = layer_create(space->segments);
	flow->segments->cycles_sink = segments_take;
	flow->segments->sink_context = flow;
	block_path_begin(&space->blocks, &flow->open, flow->paths);
	return flow;
}

void flow_destroy(struct flow *flow)
{
	struct flow **link;

	if (!flow)
		return;
	rows_finish(flow->space);
	for (link = &flow->space->flows; *link != flow; link = &(*link)->next)
		;
	*link = flow->next;
	flow->space->room -= flow->row.capacity;
	block_path_end(&flow->space->blocks, &flow->open);
	layer_destroy(flow->segments);
	layer_destroy(flow->paths);
	layer_destroy(flow->strata);
	array_deinit(&flow->row);
	array_deinit(&flow->trips);
	free(flow);
}

void flow_weights_set(struct flow_space *space, const uint32_t *weights, size_t count)
{
	layer_weights_set(space->paths, weights, count);
}

int flow_push(struct flow *flow, const uint32_t *segments, size_t count)
{
	if (!flow->space->err)
		layer_push(flow->segments, segments, count);
	return flow->space->err;
}

/*
 * Tells the trips of the path that may still go on, which is in no row yet. A row will count them
 * once more, so they are taken off beforehand: counts are modulo 2^64.
 */
static void pending_hand_out(struct flow *flow)
{
	const struct flow_space_options *options = &flow->space->options;
	const struct cycles *paths = &paths_level(flow->space)->cycles;
	uint32_t slot = layer_pending_slot(flow->paths);

	if (!slot)
		return;
	trips_reserve(flow);
	flow->trips.items[slot] -= flow->paths->trips;
	options->counted(options->context, flow, cycles_symbols(paths, slot),
			 cycles_at(paths, slot)->length, flow->paths->trips);
}

/* Where cycles of segments end is of no consequence to paths: those that are open end here. */
int flow_space_flush(struct flow_space *space)
{
	for (struct flow *flow = space->flows; flow; flow = flow->next) {
		layer_finish(flow->segments);
		layer_flush(flow->paths);
	}
	rows_make(space);
	rows_finish(space);
	for (struct flow *flow = space->flows; flow && space->options.counted; flow = flow->next) {
		counts_hand_out(flow);
		pending_hand_out(flow);
	}
	return space->err;
}

int flow_finish(struct flow *flow)
{
	struct flow_space *space = flow->space;

	if (!space->err) {
		layer_finish(flow->segments);
		block_path_finish(&space->blocks, &flow->open);
		flow->finishing = true;
		layer_finish(flow->paths);
		row_make(flow);
		flow->finishing = false;
		rows_finish(space);
		layer_finish(flow->strata); /* in case the last row had been made before */
		flow->paths->counts.symbols = flow->paths->counts.length;
		space->weight += flow->paths->counts.weight;
		counts_hand_out(flow);
	}
	return space->err;
}

int flow_space_finish(struct flow_space *space)
{
	if (!space->err)
		strata_forget(space, layer_space_retire);
	for (unsigned i = 1; i <= space->strata->level_count; i++)
		space->rare[i].weight = space->weight - space->kept_weight[i];
	if (!space->err)
		layer_space_retire(space->paths);
	return space->err;
}

static size_t row_memory(const struct flow_row *row)
{
	return sequence_encoded_memory(&row->encoded) +
	       row->symbols.capacity * sizeof(*row->symbols.items) +
	       row->retired.cycles.capacity * sizeof(*row->retired.cycles.items) +
	       row->retired.symbols.capacity * sizeof(*row->retired.symbols.items);
}

size_t flow_space_memory(const struct flow_space *space)
{
	size_t bytes = sizeof(*space) + layer_space_memory(space->segments) +
		       block_paths_memory(&space->blocks) + layer_space_memory(space->paths) +
		       layer_space_memory(space->strata) +
		       sequence_encoder_memory(&space->encoder) +
		       sequence_row_encoder_memory(&space->row_encoder);

	for (size_t i = 0; i < FLOW_KNOWN_BLOCKS && space->known[i]; i++)
		bytes += sizeof(**space->known) << FLOW_KNOWN_BITS;
	for (size_t i = 0; i < ROW_WRITER_JOBS; i++)
		bytes += row_memory(&space->rows[i]);
	for (const struct flow *flow = space->flows; flow; flow = flow->next)
		bytes += sizeof(*flow) + flow->row.capacity * sizeof(*flow->row.items) +
			 flow->trips.capacity * sizeof(*flow->trips.items) +
			 layer_memory(flow->segments) + layer_memory(flow->paths) +
			 layer_memory(flow->strata);
	return bytes;
}
