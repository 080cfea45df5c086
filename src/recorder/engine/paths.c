// SPDX-License-Identifier: BSD-2-Clause
/*
 * The order of execution of threads, as rows of the profile. Segments go into flows, whose rows go
 * into the store as they come. How often each block was executed follows from the paths, so that
 * nothing else is done for each segment.
 *
 *	in	numbers of segments of threads, from executed.c
 *	out	rows of paths, strata and layers; how often each block was executed
 *	owner	engine_recording.c makes it, if the tool keeps the order; executed.c calls it
 */
#include "recorder/engine/paths.h"

#include <errno.h>
#include <malloc.h>

#include "base/err.h"
#include "paths/cyclepack.h"
#include "paths/flow.h"

enum {
	LEVELS_BELOW = 2, /* paths and strata */
	LAYERS = 2,
	TRIM_BYTES = 64 << 20, /* given back to malloc(), before it is asked to give them back */
};

struct paths {
	struct store *store;
	struct flow_space_options flow;
	int err; /* the first failure */
	char *err_sentence;
	struct cycles_stats lookups; /* of processes that have ended */
	size_t freed; /* bytes that processes had which have ended, since malloc() was trimmed */
};

struct paths_process {
	struct paths *paths;
	struct process_id id;
	struct flow_space *space; /* NULL: it could not be made */
	const struct segment_table *segments; /* as of the last push */
	uint32_t known; /* segments below have their blocks in `weights` */
	ARRAY(uint32_t) weights; /* instructions by block of the profile */
	ARRAY(uint32_t) blocks; /* of a segment that the flow asked for */
	struct cyclepack cycles; /* on their way to the store */
};

struct paths_thread {
	struct paths_process *process;
	struct thread_id id;
	struct flow *flow;
	uint32_t rows;
	ARRAY(uint64_t) counts; /* by block */
};

/* The sentence belongs to the thread that failed; another one may ask for it. */
static int paths_fail(struct paths *paths, int err)
{
	if (!err || paths->err)
		return err;
	paths->err = err;
	paths->err_sentence = mem_strdup(err_text());
	return err;
}

void paths_create(struct store *store, const struct paths_options *options, struct paths **ret)
{
	struct paths *paths = mem_zalloc(sizeof(*paths));

	paths->store = store;
	paths->flow = (struct flow_space_options){
		.levels = LEVELS_BELOW + (options->layers ? options->layers : LAYERS),
		.max_cycle = options->max_cycle,
		.threaded = true,
		.cycles = options->table,
	};
	paths->flow.cycles.memory = options->memory;
	*ret = paths;
}

void paths_destroy(struct paths *paths)
{
	if (!paths)
		return;
	free(paths->err_sentence);
	free(paths);
}

/* --- What flows hand out ---------------------------------------------------------------------- */

static int row_store(void *context, struct flow *flow, const struct sequence_row *row)
{
	struct paths_process *process = context;
	struct paths_thread *thread = flow->owner;
	const uint64_t *end = row->end.units;
	const struct store_flow out = {
		.thread = thread->id,
		.row = thread->rows++,
		.instructions = end[SEQUENCE_INSTRUCTION],
		.blocks = end[SEQUENCE_BLOCK],
		.paths = end[SEQUENCE_PATH],
		.repeats = end[SEQUENCE_REPEAT],
		.strata = end[SEQUENCE_STRATUM],
		.stratum_start = row->stratum_start,
		.base = row->base,
		.data = row->data,
		.size = row->size,
	};

	return store_flow_put(process->paths->store, &out);
}

static int definitions_store(void *context, const struct sequence_definitions *definitions)
{
	struct paths_process *process = context;
	const struct store_path_table out = {
		.process = process->id,
		.first = definitions->first,
		.count = definitions->count,
		.data = definitions->data,
		.size = definitions->size,
	};

	return store_path_table_put(process->paths->store, &out);
}

static int cycles_store(void *context, const struct cyclepack_piece *piece)
{
	struct paths_process *process = context;
	const struct store_cycle_table out = {
		.process = process->id,
		.level = piece->level,
		.first = piece->first,
		.count = piece->count,
		.data = piece->data,
		.size = piece->size,
	};

	return store_cycle_table_put(process->paths->store, &out);
}

static int cycle_pack(void *context, const struct flow_cycle *cycle)
{
	struct paths_process *process = context;

	return cyclepack_add(&process->cycles, cycle);
}

static void counts_add(void *context, struct flow *flow, const uint32_t *blocks, size_t count,
		       uint64_t trips)
{
	struct paths_thread *thread = flow->owner;
	size_t had = thread->counts.count, want = thread->process->weights.count;

	if (want > had) {
		array_reserve(&thread->counts, want);
		memset(thread->counts.items + had, 0, (want - had) * sizeof(uint64_t));
		thread->counts.count = want;
	}
	for (size_t i = 0; i < count; i++)
		thread->counts.items[blocks[i]] += trips;
}

/* --- Processes -------------------------------------------------------------------------------- */

/*
 * A block that ended before its first instruction is none; only the last of a segment can be one.
 * That of a segment that was cut short lies elsewhere than the others.
 */
static size_t segment_blocks(void *context, uint32_t number, const uint32_t **ret)
{
	struct paths_process *process = context;
	const struct segment *segment = NULL;
	const struct segment_table *table = segment_table_find(process->segments, number, &segment);
	const uint32_t *marks;
	bool last;

	if (!table)
		return 0;
	marks = table->marks.items + segment->first;
	last = table->marks.items[segment->last] != 0;
	*ret = marks;
	if (segment->last == segment->first + segment->whole || !last)
		return segment->whole + last;
	array_reserve(&process->blocks, (size_t)segment->whole + 1);
	memcpy(process->blocks.items, marks, segment->whole * sizeof(*marks));
	process->blocks.items[segment->whole] = table->marks.items[segment->last];
	*ret = process->blocks.items;
	return (size_t)segment->whole + 1;
}

struct paths_process *paths_process_create(struct paths *paths, struct process_id id)
{
	struct paths_process *process = mem_zalloc(sizeof(*process));
	struct flow_space_options options = paths->flow;

	process->paths = paths;
	process->id = id;
	options.blocks = segment_blocks;
	options.row = row_store;
	options.definitions = definitions_store;
	options.cycle = cycle_pack;
	options.counted = counts_add;
	options.context = process;
	cyclepack_init(&process->cycles, cycles_store, process);
	paths_fail(paths, flow_space_create(&options, &process->space));
	return process;
}

static void block_weigh(struct paths_process *process, uint32_t block, uint32_t instructions)
{
	while (process->weights.count <= block)
		*array_push(&process->weights) = 0;
	process->weights.items[block] = instructions;
}

static void segment_weigh(struct paths_process *process, uint32_t number)
{
	const struct segment *segment = NULL;
	const struct segment_table *table = segment_table_find(process->segments, number, &segment);

	for (uint32_t i = 0; table && i <= segment->whole; i++) {
		uint32_t at = segment_block(segment, i);

		if (table->marks.items[at])
			block_weigh(process, table->marks.items[at],
				    table->blocks.items[at].instructions);
	}
}

static void weights_extend(struct paths_process *process)
{
	uint32_t limit = segment_table_limit(process->segments);

	if (process->known >= limit)
		return;
	for (; process->known < limit; process->known++)
		segment_weigh(process, process->known);
	flow_weights_set(process->space, process->weights.items, process->weights.count);
}

void paths_process_flush(struct paths_process *process)
{
	if (!process->paths->err && process->space)
		paths_fail(process->paths, flow_space_flush(process->space));
}

static int rare_store(const struct paths_process *process)
{
	int err = 0;

	for (unsigned i = 0; i <= process->space->strata->level_count && !err; i++) {
		const struct flow_rare *rare = &process->space->rare[i];

		if (rare->cycles)
			err = store_rare_cycle_put(
				process->paths->store,
				&(struct store_rare_cycle){ .process = process->id,
							    .level = i,
							    .cycles = rare->cycles,
							    .trips = rare->trips,
							    .weight = rare->weight });
	}
	return err;
}

const struct cycles_stats *paths_lookups(const struct paths *paths)
{
	return &paths->lookups;
}

static void lookups_add(struct paths *paths, const struct layer_space *space)
{
	for (unsigned i = 0; i < space->level_count; i++) {
		const struct cycles_stats *stats = &space->levels[i].cycles.stats;

		paths->lookups.lookups += stats->lookups;
		paths->lookups.probes += stats->probes;
		paths->lookups.sorts += stats->sorts;
		paths->lookups.sorted_buckets += stats->sorted_buckets;
		paths->lookups.sorted_entries += stats->sorted_entries;
	}
}

/* malloc() keeps what lies between memory in use: of hundreds of processes that adds up. */
static void memory_give_back(struct paths *paths, size_t bytes)
{
	paths->freed += bytes;
	if (paths->freed < TRIM_BYTES)
		return;
	malloc_trim(0);
	paths->freed = 0;
}

void paths_process_finish(struct paths_process *process)
{
	struct paths *paths = process->paths;
	size_t bytes = process->space ? flow_space_memory(process->space) : 0;
	int err = process->space ? flow_space_finish(process->space) : 0;

	if (!err)
		err = cyclepack_flush(&process->cycles);
	if (!err && process->space)
		err = rare_store(process);
	paths_fail(paths, err);
	if (process->space) {
		lookups_add(paths, process->space->paths);
		lookups_add(paths, process->space->strata);
	}
	flow_space_destroy(process->space);
	cyclepack_deinit(&process->cycles);
	array_deinit(&process->weights);
	array_deinit(&process->blocks);
	free(process);
	memory_give_back(paths, bytes);
}

/* --- Threads ---------------------------------------------------------------------------------- */

struct paths_thread *paths_thread_create(struct paths_process *process, struct thread_id id)
{
	struct paths_thread *thread = mem_zalloc(sizeof(*thread));

	thread->process = process;
	thread->id = id;
	thread->flow = process->space ? flow_create(process->space, thread) : NULL;
	return thread;
}

void paths_push(struct paths_thread *thread, const struct segment_table *segments,
		const uint32_t *numbers, size_t count)
{
	if (!thread->flow || thread->process->paths->err)
		return;
	thread->process->segments = segments;
	weights_extend(thread->process);
	paths_fail(thread->process->paths, flow_push(thread->flow, numbers, count));
}

static int layer_store(const struct paths_thread *thread, unsigned level, const struct layer *layer)
{
	const struct store_layer out = {
		.thread = thread->id,
		.level = level,
		.symbols = layer->counts.symbols,
		.cycles = layer->counts.cycles,
		.repeats = layer->counts.repeats,
		.cut = layer->counts.cut,
		.broken = layer->counts.broken,
	};

	return store_layer_put(thread->process->paths->store, &out);
}

static int layers_store(const struct paths_thread *thread)
{
	const struct layer *layer = thread->flow->strata;
	int err = layer_store(thread, 0, thread->flow->paths);

	for (unsigned level = 1; layer && !err; level++, layer = layer->next)
		err = layer_store(thread, level, layer);
	return err;
}

void paths_thread_finish(struct paths_thread *thread)
{
	int err;

	if (!thread->flow || thread->process->paths->err)
		return;
	err = flow_finish(thread->flow);
	paths_fail(thread->process->paths, err ? err : layers_store(thread));
}

uint64_t *paths_thread_counts(struct paths_thread *thread, size_t *ret_count)
{
	*ret_count = thread->counts.count;
	return thread->counts.items;
}

void paths_thread_destroy(struct paths_thread *thread)
{
	if (!thread)
		return;
	flow_destroy(thread->flow);
	array_deinit(&thread->counts);
	free(thread);
}

/* --- The recorder's side ---------------------------------------------------------------------- */

static int flush(void *ctx, bool last)
{
	const struct paths *paths = ctx;

	return paths->err ? err_set(paths->err, "%s", paths->err_sentence) : 0;
}

static void destroy(void *ctx)
{
	paths_destroy(ctx);
}

struct sink paths_sink(struct paths *paths)
{
	return (struct sink){
		.ctx = paths,
		.kind = SINK_NO_RECORDING,
		.flush = flush,
		.destroy = destroy,
	};
}
