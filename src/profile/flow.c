// SPDX-License-Identifier: BSD-2-Clause
/*
 * The control flow of threads.
 *
 * Runs go into a thread's layer of paths. What it hands on, repeated paths, is collected until there is enough for a row. A row
 * then goes on in other threads (rowworks.h): through the layers above, which say where it ends in strata, and then through a
 * coder. When it comes back it is counted and handed out, and with it what the layers have forgotten meanwhile.
 *
 *	flow_push() -> paths -> flow->row -> flow_row -> strata and above -> coder -> rows_hand_out()
 *
 * Rows are also made of what there is when many threads together have collected too much, when a thread ends, and when paths are
 * about to be forgotten. The last two wait until no row is under way.
 *
 * Invariants
 *  1. Symbols in a flow's row, and in rows under way, are valid in the table of level 0.
 *  2. A path is defined in what was handed out before any row that uses it is.
 *  3. After an error, nothing more is handed out.
 *  4. While rows are under way, only row_climb() touches the layers above paths and the namer.
 */
#include "profile/flow.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"

enum {
	FETCH_AHEAD = 16, /* paths, before they are counted, and what a row names */
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

/* Strata have said theirs. */
static void position_set(const struct flow *flow, struct sequence_position *position)
{
	const struct layer_counts *counts = &flow->paths->counts;

	position->units[SEQUENCE_INSTRUCTION] = counts->weight;
	position->units[SEQUENCE_RUN] = counts->length;
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

/* What the row holds: each of its repeated paths once, which is less work than to count while they are found. */
static void row_count(struct flow *flow, const struct sequence_job *job)
{
	const struct cycles *paths = &paths_level(flow->space)->cycles;
	const struct repeat *pairs = job->pairs.items;
	bool told = flow->space->options.counted != NULL;

	if (told)
		trips_reserve(flow);
	for (size_t i = 0; i < job->pairs.count; i++) {
		uint32_t ahead =
			pairs[i + FETCH_AHEAD < job->pairs.count ? i + FETCH_AHEAD : i].slot;

		__builtin_prefetch(cycles_at(paths, ahead), 1);
		if (told)
			__builtin_prefetch(&flow->trips.items[ahead], 1);
		layer_count(flow->paths, pairs[i].slot, pairs[i].trips, job->counts.items[i]);
		if (told)
			flow->trips.items[pairs[i].slot] += pairs[i].trips * job->counts.items[i];
	}
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

/* --- Rows ------------------------------------------------------------------------------------------------ */

static struct flow_known *known_at(const struct flow_space *space, uint32_t symbol)
{
	return &space->known[symbol >> FLOW_KNOWN_BITS][symbol & ((1u << FLOW_KNOWN_BITS) - 1)];
}

/* What is not known may be a symbol of another level. */
static inline __attribute__((always_inline)) void known_fetch(const struct flow_space *space,
							      uint64_t symbol)
{
	if (symbol < space->known_count)
		__builtin_prefetch(known_at(space, (uint32_t)symbol));
}

/* A stratum holds repeated paths: what they stand for, and what they weigh together. There are `left` symbols with those that follow. */
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
	row_count(done->flow, &done->job);
	position_set(done->flow, &done->row.end);
	done->row.data = done->job.bytes.items;
	done->row.size = done->job.bytes.count;
	if (!space->err)
		space->err = space->options.row(space->options.context, done->flow, &done->row);
	retired_hand_out(space, &done->retired);
}

/* Hands out rows that are ready by now; wait: the oldest in any case. */
static void rows_hand_out(struct flow_space *space, bool wait)
{
	int job;

	while ((job = rowworks_collect(space->works, wait)) >= 0) {
		row_hand_out(space, &space->rows[job]);
		rowworks_release(space->works);
		space->rows_busy--;
		wait = false;
	}
}

static void rows_finish(struct flow_space *space)
{
	while (space->rows_busy)
		rows_hand_out(space, true);
}

/* What has become known since the last row. Rows under way look at what there was before. */
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

static void row_code(void *context, int job, unsigned worker)
{
	struct flow_space *space = context;

	sequence_job_run(&space->rows[job].job, &space->coders[worker]);
}

/* The row's repeated paths go through the layers above, which then say where it ends. They get their names for the coder. */
static void row_climb(void *context, int job, unsigned worker)
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
	sequence_job_name(&row->job, &space->namer, row->limit, row->symbols.items,
			  row->symbols.count);
	sequence_job_pair(&row->job, &space->namer, known_pairs, space);
}

/* The row takes the symbols and gives the memory of those that it had before. */
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
	while ((job = rowworks_place(space->works)) < 0)
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

/* --- Forgetting ------------------------------------------------------------------------------------------ */

/* What strata forget while no row is under way. */
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
 * What a cycle weighs: what it holds does, down to repeated paths. It is kept once it is known. `level` is one of the space of
 * strata, whose first is 0.
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

/* The same levels. */
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

/* What a stratum weighs is found out when it is handed out. */
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

/* --- Spaces and flows ------------------------------------------------------------------------------------ */

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
	return layer_space_create(&layers, &space->strata);
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
	for (size_t i = 0; i < ROWWORKS_WORKERS; i++)
		coder_init(&space->coders[i], 0);
	space->known = mem_zalloc(FLOW_KNOWN_BLOCKS * sizeof(*space->known));
	err = layers_create(space);
	if (err)
		return err;
	sequence_encoder_init(&space->encoder);
	rowworks_create(options->threaded, options->relay, row_climb, row_code, space,
			&space->works);
	*ret = take_ptr(space);
	return 0;
}

static void row_deinit(struct flow_row *row)
{
	sequence_job_deinit(&row->job);
	array_deinit(&row->symbols);
	array_deinit(&row->retired.cycles);
	array_deinit(&row->retired.symbols);
}

void flow_space_destroy(struct flow_space *space)
{
	if (!space)
		return;
	assert(!space->flows);
	rowworks_destroy(space->works);
	layer_space_destroy(space->strata);
	layer_space_destroy(space->paths);
	for (size_t i = 0; i < ROWWORKS_JOBS; i++)
		row_deinit(&space->rows[i]);
	for (size_t i = 0; space->known && i < FLOW_KNOWN_BLOCKS && space->known[i]; i++)
		free(space->known[i]);
	free(space->known);
	sequence_namer_deinit(&space->namer);
	for (size_t i = 0; i < ROWWORKS_WORKERS; i++)
		coder_deinit(&space->coders[i]);
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

int flow_push(struct flow *flow, const uint32_t *runs, size_t count)
{
	if (!flow->space->err)
		layer_push(flow->paths, runs, count);
	return flow->space->err;
}

bool flow_space_help(struct flow_space *space)
{
	return !space->err && rowworks_help(space->works);
}

int flow_finish(struct flow *flow)
{
	struct flow_space *space = flow->space;

	if (!space->err) {
		flow->finishing = true;
		layer_finish(flow->paths);
		row_make(flow);
		flow->finishing = false;
		rows_finish(space);
		layer_finish(flow->strata); /* if the last row was made before */
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
	return sequence_job_memory(&row->job) +
	       row->symbols.capacity * sizeof(*row->symbols.items) +
	       row->retired.cycles.capacity * sizeof(*row->retired.cycles.items) +
	       row->retired.symbols.capacity * sizeof(*row->retired.symbols.items);
}

size_t flow_space_memory(const struct flow_space *space)
{
	size_t bytes = sizeof(*space) + layer_space_memory(space->paths) +
		       layer_space_memory(space->strata) +
		       sequence_encoder_memory(&space->encoder) +
		       sequence_namer_memory(&space->namer);

	for (size_t i = 0; i < ROWWORKS_WORKERS; i++)
		bytes += coder_memory(&space->coders[i]);
	for (size_t i = 0; i < FLOW_KNOWN_BLOCKS && space->known[i]; i++)
		bytes += sizeof(**space->known) << FLOW_KNOWN_BITS;
	for (size_t i = 0; i < ROWWORKS_JOBS; i++)
		bytes += row_memory(&space->rows[i]);
	for (const struct flow *flow = space->flows; flow; flow = flow->next)
		bytes += sizeof(*flow) + flow->row.capacity * sizeof(*flow->row.items) +
			 flow->trips.capacity * sizeof(*flow->trips.items) +
			 layer_memory(flow->paths) + layer_memory(flow->strata);
	return bytes;
}
