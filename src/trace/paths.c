// SPDX-License-Identifier: BSD-2-Clause
/*
 * Runs go into flows, whose rows go into the store as they come. How often each run was executed follows from the paths: so
 * nothing is done for each run but what flows do.
 */
#include "trace/paths.h"

#include <errno.h>

#include "base/err.h"
#include "profile/cyclepack.h"
#include "profile/flow.h"
#include "profile/runs.h"

enum {
	RUN_ROW = 1 << 14, /* runs whose meaning is in one row */
	LEVELS_BELOW = 2, /* paths and strata */
	LAYERS = 2,
};

struct paths {
	struct store *store;
	struct flow_space_options flow;
	struct paths_process *processes;
	int err; /* the first failure */
	char *err_sentence;
};

struct paths_process {
	struct paths *paths;
	struct paths_process *next;
	struct process_id id;
	struct flow_space *space; /* NULL: it could not be made */
	ARRAY(uint32_t) weights; /* instructions by run */
	struct cyclepack cycles; /* on their way to the store */
};

struct paths_thread {
	struct paths_process *process;
	struct thread_id id;
	struct flow *flow;
	uint32_t rows;
	ARRAY(uint64_t) counts; /* by run */
};

/* The sentence is of the thread that failed; who asks may be another. */
static int paths_fail(struct paths *paths, int err)
{
	if (!err || paths->err)
		return err;
	paths->err = err;
	paths->err_sentence = mem_strdup(err_text());
	return err;
}

void paths_create(struct store *store, const struct paths_options *options, struct relay *relay,
		  struct paths **ret)
{
	struct paths *paths = mem_zalloc(sizeof(*paths));

	paths->store = store;
	paths->flow = (struct flow_space_options){
		.levels = LEVELS_BELOW + (options->layers ? options->layers : LAYERS),
		.max_cycle = options->max_cycle,
		.threaded = true,
		.relay = relay,
		.cycles = { .memory = options->memory },
	};
	*ret = paths;
}

void paths_destroy(struct paths *paths)
{
	if (!paths)
		return;
	free(paths->err_sentence);
	free(paths);
}

int paths_finish(const struct paths *paths)
{
	return paths->err ? err_set(paths->err, "%s", paths->err_sentence) : 0;
}

/* --- What flows hand out ------------------------------------------------------------------------------- */

static int row_store(void *context, struct flow *flow, const struct sequence_row *row)
{
	struct paths_process *process = context;
	struct paths_thread *thread = flow->owner;
	const uint64_t *end = row->end.units;
	const struct store_flow out = {
		.thread = thread->id,
		.row = thread->rows++,
		.instructions = end[SEQUENCE_INSTRUCTION],
		.runs = end[SEQUENCE_RUN],
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
	const struct store_definitions out = {
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

static void counts_add(void *context, struct flow *flow, const uint32_t *runs, size_t count,
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
		thread->counts.items[runs[i]] += trips;
}

/* --- Processes ---------------------------------------------------------------------------------------- */

struct paths_process *paths_process_create(struct paths *paths, struct process_id id)
{
	struct paths_process *process = mem_zalloc(sizeof(*process));
	struct flow_space_options options = paths->flow;

	process->paths = paths;
	process->id = id;
	options.row = row_store;
	options.definitions = definitions_store;
	options.cycle = cycle_pack;
	options.counted = counts_add;
	options.context = process;
	cyclepack_init(&process->cycles, cycles_store, process);
	paths_fail(paths, flow_space_create(&options, &process->space));
	process->next = paths->processes;
	paths->processes = process;
	return process;
}

static uint32_t run_weight(const struct runtable *runs, uint32_t number)
{
	const struct runtable_run *run = NULL;
	const struct runtable *table = runtable_find(runs, number, &run);
	uint32_t weight = 0;

	for (uint32_t i = 0; table && i <= run->whole; i++)
		weight += table->pieces.items[runtable_piece(run, i)].instructions;
	return weight;
}

static void weights_extend(struct paths_process *process, const struct runtable *runs)
{
	size_t had = process->weights.count, limit = runtable_limit(runs);

	if (had >= limit)
		return;
	for (size_t i = had; i < limit; i++)
		*array_push(&process->weights) = run_weight(runs, (uint32_t)i);
	flow_weights_set(process->space, process->weights.items, process->weights.count);
}

/* The blocks of runs first to last - 1; all are put into one array, which may move until it is complete. */
struct run_row {
	ARRAY(uint32_t) blocks;
	ARRAY(struct run_blocks) runs;
	struct coder coder;
};

static void run_row_add(struct run_row *row, const struct runtable *runs, uint32_t number)
{
	const struct runtable_run *run = NULL;
	const struct runtable *table = runtable_find(runs, number, &run);
	size_t begin = row->blocks.count;

	for (uint32_t i = 0; table && i <= run->whole; i++) {
		uint32_t block = table->marks.items[runtable_piece(run, i)];

		if (block)
			*array_push(&row->blocks) = block;
	}
	*array_push(&row->runs) =
		(struct run_blocks){ .count = (uint32_t)(row->blocks.count - begin) };
}

static int run_row_store(struct paths_process *process, struct run_row *row,
			 const struct runtable *runs, uint32_t first, uint32_t last)
{
	struct store_definitions out = { .process = process->id,
					 .first = first,
					 .count = last - first };
	const uint32_t *at;

	row->blocks.count = row->runs.count = 0;
	for (uint32_t i = first; i < last; i++)
		run_row_add(row, runs, i);
	at = row->blocks.items;
	array_each(&row->runs, run) {
		run->blocks = at;
		at += run->count;
	}
	runs_encode(&row->coder, row->runs.items, row->runs.count);
	out.data = row->coder.out.items;
	out.size = row->coder.out.count;
	return store_run_table_put(process->paths->store, &out);
}

static int runs_store(struct paths_process *process, const struct runtable *runs)
{
	struct run_row row = {};
	uint32_t limit = runtable_limit(runs), first = runs->inherited ? runs->inherited : 1;
	int err = 0;

	coder_init(&row.coder, RUNS_EXPECTED);
	for (uint32_t at = first; at < limit && !err; at += RUN_ROW)
		err = run_row_store(process, &row, runs, at,
				    limit - at < RUN_ROW ? limit : at + RUN_ROW);
	coder_deinit(&row.coder);
	array_deinit(&row.blocks);
	array_deinit(&row.runs);
	return err;
}

static int rare_store(const struct paths_process *process)
{
	int err = 0;

	for (unsigned i = 0; i <= process->space->strata->level_count && !err; i++) {
		const struct flow_rare *rare = &process->space->rare[i];

		if (rare->cycles)
			err = store_rare_cycle_put(process->paths->store, process->id, i,
						   rare->cycles, rare->trips, rare->weight);
	}
	return err;
}

void paths_process_finish(struct paths_process *process, const struct runtable *runs,
			  struct process_id parent)
{
	struct paths *paths = process->paths;
	struct paths_process **link;
	int err = process->space ? flow_space_finish(process->space) : 0;

	if (!err)
		err = cyclepack_flush(&process->cycles);
	if (!err && process->space)
		err = rare_store(process);
	if (!err && runs)
		err = runs_store(process, runs);
	if (!err && runs && parent.v)
		err = store_run_parent_put(paths->store, process->id, parent, runs->inherited);
	paths_fail(paths, err);
	for (link = &paths->processes; *link != process; link = &(*link)->next)
		;
	*link = process->next;
	flow_space_destroy(process->space);
	cyclepack_deinit(&process->cycles);
	array_deinit(&process->weights);
	free(process);
}

bool paths_help(struct paths *paths)
{
	for (struct paths_process *process = paths->processes; process; process = process->next)
		if (process->space && flow_space_help(process->space))
			return true;
	return false;
}

/* --- Threads ------------------------------------------------------------------------------------------ */

struct paths_thread *paths_thread_create(struct paths_process *process, struct thread_id id)
{
	struct paths_thread *thread = mem_zalloc(sizeof(*thread));

	thread->process = process;
	thread->id = id;
	thread->flow = process->space ? flow_create(process->space, thread) : NULL;
	return thread;
}

void paths_push(struct paths_thread *thread, const struct runtable *runs, const uint32_t *numbers,
		size_t count)
{
	if (!thread->flow || thread->process->paths->err)
		return;
	weights_extend(thread->process, runs);
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

const uint64_t *paths_thread_counts(const struct paths_thread *thread, size_t *ret_count)
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
