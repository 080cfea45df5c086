// SPDX-License-Identifier: BSD-2-Clause
/*
 * A sink: counts how often each thread executed each block, and finds the module of each block. The
 * load map is told what the catalogs tell, and asked where a block lies at the moment at which the
 * catalog explains it: later something else may be mapped there. The mark of a block in its table
 * of segments is the number of its block. Segments are counted by number while a thread runs; with
 * each commit, and when it ends, these become counts of blocks in the store and begin anew.
 *
 *	in	processes, modules and segments of threads, from engine_source.c
 *	out	rows of blocks and of how often each thread executed them
 *	owner	engine_recording.c makes it; as a sink it belongs to the recorder
 *
 * 1. The same code in the same module is one block, whichever process executes it.
 * 2. What a thread executed is in the store when it has ended, and up to the last commit while it
 *    runs.
 */
#include "recorder/engine/executed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/map.h"
#include "image/procfs.h"
#include "recorder/engine/parts.h"

enum { STORE_SHARE = 10 }; /* a part in so many of the time, at most, stores what runs */

/* A process's, or a thread's, as the sink's user data. */
struct executed_process {
	struct loadmap_process *image; /* held */
	uint32_t number;
	bool nameless;
	bool replaced;
	struct paths_process *paths; /* NULL: only counts are kept */
};

struct executed_thread {
	struct engine_thread *told;
	struct thread_id id;
	ARRAY(uint64_t) counts; /* by segment, since they were stored; not those that paths keeps */
	ARRAY(uint64_t) absolute; /* by segment: what the thread's own counters last said */
	ARRAY(bool) marked; /* by block: it is in the store; only with marks */
	uint64_t kept, lost[SEGMENT_LOSS_COUNT]; /* segments that the store knows of */
	struct paths_thread *paths; /* NULL: only counts are kept */
};

struct executed {
	struct recorder *recorder;
	struct store *store;
	struct loadmap *loadmap;
	struct locations *locations;
	struct executed_options options;
	struct map ids; /* hash of module, address and length to block */
	ARRAY(struct executed_block) blocks; /* entry 0 is unused */
	ARRAY(uint32_t) next; /* by block: the one that a catalog told of behind it last; 0: none */
	uint32_t last; /* the block that was told of last */
	ARRAY(uint64_t) folded; /* by block: what the thread executed that is being stored */
	ARRAY(uint64_t) touched; /* a bit for each block: that may not be 0 */
	ARRAY(struct store_executed) rows; /* on their way to the store */
	ARRAY(struct executed_thread *) threads; /* that run */
	uint64_t store_due; /* CLOCK_MONOTONIC: what runs is stored again */
	ARRAY(struct executed_process *) processes; /* that run */
	struct engine_totals totals; /* as the source told */
	uint64_t kept, lost[SEGMENT_LOSS_COUNT]; /* of all threads, that the store knows of */
	uint64_t native;
	int err; /* the first failure */
	char *err_sentence;
};

static void executed_fail(struct executed *executed, int err)
{
	if (!err || executed->err)
		return;
	executed->err = err;
	executed->err_sentence =
		mem_strdup(err_text()); /* this thread's text; another thread may ask for it */
}

void executed_create(struct recorder *recorder, const struct executed_options *options,
		     struct executed **ret)
{
	struct executed *executed = mem_zalloc(sizeof(*executed));

	executed->recorder = recorder;
	executed->store = recorder_store(recorder);
	executed->loadmap = recorder_loadmap(recorder);
	executed->locations = recorder_locations(recorder);
	executed->options = *options;
	*array_push(&executed->blocks) = (struct executed_block){};
	*array_push(&executed->folded) = 0;
	*array_push(&executed->next) = 0;
	*ret = executed;
}

static void process_free(struct executed_process *process)
{
	loadmap_release(process->image);
	free(process);
}

void executed_destroy(struct executed *executed)
{
	if (!executed)
		return;
	map_deinit(&executed->ids);
	array_deinit(&executed->blocks);
	array_deinit(&executed->folded);
	array_deinit(&executed->next);
	array_deinit(&executed->touched);
	array_deinit(&executed->rows);
	array_deinit(&executed->threads);
	array_each(&executed->processes, process)
		process_free(*process);
	array_deinit(&executed->processes);
	free(executed->err_sentence);
	free(executed);
}

const struct executed_block *executed_blocks(const struct executed *executed, size_t *ret_count)
{
	*ret_count = executed->blocks.count;
	return executed->blocks.items;
}

void executed_sums(const struct executed *executed, struct executed_sums *ret)
{
	*ret = (struct executed_sums){ .native = executed->native };
	for (size_t i = 1; i < executed->blocks.count; i++) {
		const struct executed_block *block = &executed->blocks.items[i];
		uint64_t times = executed->options.marks ? block->count > 0 : block->count;

		ret->blocks += times;
		ret->instructions += times * block->instructions;
	}
}

/* --- Processes -------------------------------------------------------------------------------- */

static int event_apply(void *ctx, const struct event *event)
{
	struct executed *executed = ctx;

	executed_fail(executed, loadmap_apply(executed->loadmap, event));
	return 0;
}

static const struct executed_process *process_find(const struct executed *executed, uint32_t number)
{
	array_each(&executed->processes, process)
		if ((*process)->number == number)
			return *process;
	return NULL;
}

static void process_forked(struct executed *executed, const struct engine_process *process,
			   const struct executed_process *parent, uint64_t now)
{
	struct event event = {
		.kind = EVENT_FORK, .pid = process->pid, .tid = process->pid, .time = now
	};

	/* The process as it was before it executed another program. */
	if (parent->image->to <= now)
		event.time = parent->image->to - 1;
	event.fork.ppid = event.fork.ptid = parent->image->pid;
	event_apply(executed, &event);
}

/* false: the process has gone already. */
static bool process_executed(struct executed *executed, const struct engine_process *process,
			     uint64_t now)
{
	bool there;
	char comm[PROCFS_COMM_MAX] = "";
	struct event event = { .kind = EVENT_EXEC,
			       .pid = process->pid,
			       .tid = process->pid,
			       .time = now,
			       .comm = comm };

	there = procfs_comm((pid_t)process->pid, (pid_t)process->pid, comm);
	event_apply(executed, &event);
	procfs_mappings((pid_t)process->pid, now, event_apply, executed);
	return there;
}

static void on_process(void *ctx, struct engine_process *process)
{
	struct executed *executed = ctx;
	struct executed_process *mine = mem_zalloc(sizeof(*mine));
	const struct executed_process *parent = process_find(executed, process->parent);
	uint64_t now = clock_monotonic();

	array_each(&executed->processes, other)
		(*other)->replaced |= (*other)->number == process->replaces;
	if (parent && !process->replaces)
		process_forked(executed, process, parent, now);
	else
		mine->nameless = !process_executed(executed, process, now);
	procfs_identity((pid_t)process->pid, now, event_apply, executed);
	mine->number = process->number;
	mine->image = loadmap_process_at(executed->loadmap, process->pid, now);
	loadmap_hold(mine->image);
	if (executed->options.paths)
		mine->paths = paths_process_create(executed->options.paths, mine->image->id);
	process->user = mine;
	*array_push(&executed->processes) = mine;
}

/* Paths of a process take more memory than all else that is known of it. */
static void on_process_over(void *ctx, struct engine_process *process)
{
	struct executed_process *mine = process->user;

	if (mine->paths)
		paths_process_finish(take_ptr(mine->paths));
}

static void on_process_end(void *ctx, struct engine_process *process)
{
	struct executed *executed = ctx;
	struct executed_process *mine = process->user;
	const struct event event = {
		.kind = EVENT_EXIT, .pid = process->pid, .tid = process->pid, .time = process->ended
	};
	size_t kept = 0;

	if (mine->paths)
		paths_process_finish(mine->paths);
	if (!mine->replaced && process->ended)
		event_apply(executed, &event);
	for (size_t i = 0; i < executed->processes.count; i++)
		if (executed->processes.items[i] != mine)
			executed->processes.items[kept++] = executed->processes.items[i];
	executed->processes.count = kept;
	process->user = NULL;
	process_free(mine);
}

/* --- Records ---------------------------------------------------------------------------------- */

/* The name of a program whose process has ended before /proc could be read. */
static void process_name(struct executed *executed, const struct engine_process *process,
			 const char *path)
{
	struct executed_process *mine = process->user;
	const char *slash = strrchr(path, '/');
	const struct event event = { .kind = EVENT_COMM,
				     .pid = process->pid,
				     .tid = process->pid,
				     .time = clock_monotonic(),
				     .comm = slash + 1 };

	mine->nameless = false;
	event_apply(executed, &event);
}

static bool is_loader(const char *path)
{
	return strstr(path, "/ld-") || strstr(path, "/ld.so");
}

static void module_apply(struct executed *executed, const struct engine_process *process,
			 const struct stream_module *module)
{
	const struct executed_process *mine = process->user;
	struct event event = { .kind = EVENT_MMAP,
			       .pid = process->pid,
			       .tid = process->pid,
			       .time = clock_monotonic() };

	event.mmap = (struct event_mmap){
		.start = module->start,
		.end = module->end,
		.offset = module->offset,
		.inode = module->inode,
		.major = module->device_major,
		.minor = module->device_minor,
		.path = *module->path ? module->path : "//anon",
	};
	event_apply(executed, &event);
	if (mine->nameless && *module->path == '/' && !is_loader(module->path))
		process_name(executed, process, module->path);
}

static int block_store(struct executed *executed, uint32_t id, const struct executed_block *block)
{
	struct store_block row = { .id.v = id,
				   .length = block->length,
				   .instructions = block->instructions };
	int err = locations_add(executed->locations, block->module, block->address, &row.location);

	return err ? err : store_block_put(executed->store, &row);
}

static bool block_is(const struct executed_block *a, const struct executed_block *b)
{
	return a->address == b->address && a->module.v == b->module.v && a->length == b->length &&
	       a->instructions == b->instructions;
}

static uint32_t block_find(struct executed *executed, const struct executed_block *block)
{
	uint64_t key = hash64_pair(hash64_pair(block->module.v, block->address),
				   (uint64_t)block->length << 32 | block->instructions);
	bool fresh;
	uint64_t *id = map_at(&executed->ids, key, &fresh);

	if (!fresh)
		return (uint32_t)*id;
	*id = executed->blocks.count;
	*array_push(&executed->blocks) = *block;
	*array_push(&executed->folded) = 0;
	*array_push(&executed->next) = 0;
	executed_fail(executed, block_store(executed, (uint32_t)*id, block));
	return (uint32_t)*id;
}

/*
 * Catalogs of processes that run the same program tell of its blocks in much the same order: mostly
 * a block is the one that came behind the same block before, which takes no search.
 */
static uint32_t block_number(struct executed *executed, const struct executed_block *block)
{
	uint32_t *next = &executed->next.items[executed->last];

	if (!*next || !block_is(&executed->blocks.items[*next], block)) {
		uint32_t found = block_find(executed, block);

		executed->next.items[executed->last] = found;
		executed->last = found;
		return found;
	}
	return executed->last = *next;
}

static void block_place(struct executed *executed, const struct engine_process *process,
			uint32_t index, uint64_t now)
{
	const struct executed_process *mine = process->user;
	const struct stream_block *wire = &process->segments->blocks.items[index];
	struct executed_block block = { .length = wire->length,
					.instructions = wire->instructions };

	if (!wire->instructions)
		return;
	loadmap_resolve(executed->loadmap, mine->image, wire->pc, now, &block.module,
			&block.address);
	process->segments->marks.items[index] = block_number(executed, &block);
}

static void on_record(void *ctx, struct engine_process *process, const struct stream_record *record,
		      uint32_t first)
{
	struct executed *executed = ctx;
	uint32_t count = (uint32_t)process->segments->blocks.count;
	uint64_t now;

	if (record->type == STREAM_RECORD_MODULE)
		module_apply(executed, process, (const void *)record);
	executed->native += record->type == STREAM_RECORD_NATIVE;
	if (executed->options.tasks_only || first == count)
		return;
	now = clock_monotonic();
	for (uint32_t i = first; i < count; i++)
		block_place(executed, process, i, now);
}

struct thread_id executed_thread_id(const struct engine_thread *thread)
{
	return ((const struct executed_thread *)thread->user)->id;
}

struct loadmap_process *executed_image(const struct engine_process *process)
{
	return ((const struct executed_process *)process->user)->image;
}

/* --- Threads ---------------------------------------------------------------------------------- */

static void on_thread(void *ctx, struct engine_thread *thread)
{
	struct executed *executed = ctx;
	const struct executed_process *process = thread->process->user;
	struct executed_thread *mine = mem_zalloc(sizeof(*mine));

	mine->id =
		loadmap_thread(executed->loadmap, process->image, thread->tid, clock_monotonic());
	if (process->paths)
		mine->paths = paths_thread_create(process->paths, mine->id);
	mine->told = thread;
	thread->user = mine;
	*array_push(&executed->threads) = mine;
}

#define zeros_extend(array, wanted)                                                                \
	do {                                                                                       \
		size_t had_ = (array)->count, upto_ = (wanted);                                    \
		if (upto_ > had_) {                                                                \
			array_reserve((array), upto_);                                             \
			memset((array)->items + had_, 0,                                           \
			       (upto_ - had_) * sizeof(*(array)->items));                          \
			(array)->count = upto_;                                                    \
		}                                                                                  \
	} while (0)

static void on_segments(void *ctx, struct engine_thread *thread, const uint32_t *segments,
			size_t count)
{
	struct executed_thread *mine = thread->user;
	uint64_t *counts;

	if (mine->paths) {
		paths_push(mine->paths, thread->process->segments, segments, count);
		return;
	}
	zeros_extend(&mine->counts, segment_table_limit(thread->process->segments));
	counts = mine->counts.items;
	for (size_t i = 0; i < count; i++)
		counts[segments[i]]++;
}

static void on_counts(void *ctx, struct engine_thread *thread, uint32_t first,
		      const uint64_t *counts, size_t count)
{
	const struct executed *executed = ctx;
	struct executed_thread *mine = thread->user;

	if (executed->options.tasks_only)
		return;
	zeros_extend(&mine->counts, first + count);
	zeros_extend(&mine->absolute, first + count);
	for (size_t i = 0; i < count; i++) {
		mine->counts.items[first + i] += counts[i] - mine->absolute.items[first + i];
		mine->absolute.items[first + i] = counts[i];
	}
}

/* There is a place for each block. */
static inline void block_fold(struct executed *executed, uint32_t block, uint64_t count)
{
	executed->folded.items[block] += count;
	executed->touched.items[block / 64] |= UINT64_C(1) << block % 64;
}

static void segment_fold(struct executed *executed, const struct segment_table *segments,
			 uint32_t number, uint64_t count)
{
	const struct segment *segment = NULL;
	const struct segment_table *table = segment_table_find(segments, number, &segment);

	for (uint32_t i = 0; table && i <= segment->whole; i++)
		block_fold(executed, table->marks.items[segment_block(segment, i)], count);
}

/* Paths tell counts by block. */
static void blocks_fold(struct executed *executed, uint64_t *counts, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (counts[i]) {
			block_fold(executed, (uint32_t)i, counts[i]);
			counts[i] = 0;
		}
}

static void counts_fold(struct executed *executed, struct executed_thread *mine)
{
	const struct segment_table *segments = mine->told->process->segments;
	uint64_t *counts = mine->counts.items;
	size_t count = mine->counts.count;

	zeros_extend(&executed->touched, executed->folded.count / 64 + 1);
	if (mine->paths) {
		counts = paths_thread_counts(mine->paths, &count);
		blocks_fold(executed, counts, count);
		return;
	}
	for (size_t i = 1; i < count; i++)
		if (counts[i]) {
			segment_fold(executed, segments, (uint32_t)i, counts[i]);
			counts[i] = 0;
		}
}

/* Segments share blocks: a mark is stored once, whichever segment has it first. */
static bool is_marked(struct executed *executed, struct executed_thread *mine, uint32_t block)
{
	bool was;

	zeros_extend(&mine->marked, executed->blocks.count);
	was = mine->marked.items[block];
	mine->marked.items[block] = true;
	return was;
}

/* Block 0 is none. */
static void block_take(struct executed *executed, struct executed_thread *mine, uint32_t block)
{
	uint64_t count = executed->folded.items[block];

	executed->folded.items[block] = 0;
	if (!block || !count)
		return;
	if (executed->options.marks) {
		if (is_marked(executed, mine, block))
			return;
		count = 1;
	}
	executed->blocks.items[block].count += count;
	*array_push(&executed->rows) = (struct store_executed){ { block }, count };
}

/* In ascending order, what was folded. */
static void blocks_take(struct executed *executed, struct executed_thread *mine)
{
	executed->rows.count = 0;
	for (size_t i = 0; i < executed->touched.count; i++) {
		uint64_t bits = executed->touched.items[i];

		executed->touched.items[i] = 0;
		for (; bits; bits &= bits - 1)
			block_take(executed, mine,
				   (uint32_t)(i * 64) + (uint32_t)__builtin_ctzll(bits));
	}
}

static int segments_account(struct executed *executed, struct executed_thread *mine)
{
	const struct engine_thread *thread = mine->told;
	uint64_t kept = thread->kept - mine->kept, lost = 0;

	for (size_t i = 0; i < SEGMENT_LOSS_COUNT; i++) {
		executed->lost[i] += thread->lost[i] - mine->lost[i];
		lost += thread->lost[i] - mine->lost[i];
		mine->lost[i] = thread->lost[i];
	}
	executed->kept += kept;
	mine->kept = thread->kept;
	return store_thread_segments_add(executed->store, mine->id, kept, lost);
}

/* What is new since it was last stored. */
static int thread_store(struct executed *executed, struct executed_thread *mine)
{
	int err;

	counts_fold(executed, mine);
	blocks_take(executed, mine);
	err = store_executions_add(executed->store, mine->id, executed->rows.items,
				   executed->rows.count);
	return err ? err : segments_account(executed, mine);
}

static void thread_forget(struct executed *executed, struct executed_thread *mine)
{
	for (size_t i = 0; i < executed->threads.count; i++)
		if (executed->threads.items[i] == mine)
			executed->threads.items[i--] =
				executed->threads.items[--executed->threads.count];
	paths_thread_destroy(mine->paths);
	array_deinit(&mine->counts);
	array_deinit(&mine->absolute);
	array_deinit(&mine->marked);
	free(mine);
}

static void on_thread_end(void *ctx, struct engine_thread *thread)
{
	struct executed *executed = ctx;
	struct executed_thread *mine = thread->user;
	const struct executed_process *process = thread->process->user;
	const struct event event = { .kind = EVENT_EXIT,
				     .pid = thread->process->pid,
				     .tid = thread->tid,
				     .time = clock_monotonic() };

	if (mine->paths)
		paths_thread_finish(mine->paths);
	if (!executed->options.tasks_only)
		executed_fail(executed, thread_store(executed, mine));
	if (!process->replaced && thread->tid != thread->process->pid)
		event_apply(executed, &event);
	thread_forget(executed, mine);
	thread->user = NULL;
}

static void on_totals(void *ctx, const struct engine_totals *totals)
{
	struct executed *executed = ctx;

	executed->totals = *totals;
}

struct engine_sink executed_engine_sink(struct executed *executed)
{
	return (struct engine_sink){
		.process_begin = on_process,
		.record = on_record,
		.thread_begin = on_thread,
		.segments = on_segments,
		.counts = on_counts,
		.thread_end = on_thread_end,
		.process_over = on_process_over,
		.process_end = on_process_end,
		.totals = on_totals,
		.ctx = executed,
	};
}

/* --- The recorder's side ---------------------------------------------------------------------- */

static void totals(void *ctx, struct sink_totals *ret)
{
	static const char *const names[][2] = {
#define X(name, json, text) [SEGMENT_LOSS_##name] = { json, text },
		SEGMENT_LOSSES(X)
#undef X
	};
	const struct executed *executed = ctx;

	ret->kept = executed->kept;
	for (size_t i = 0; i < SEGMENT_LOSS_COUNT; i++)
		sink_totals_add(ret, names[i][0], names[i][1],
				executed->lost[i] + executed->totals.unattributed[i]);
}

/* The CPU time of this thread. */
static uint64_t cpu_time(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

/*
 * Counts of running threads are stored as well, so that a recorder that is killed loses only what
 * came since. If that takes long, because very many blocks are executed, it is done less often,
 * because programs wait meanwhile.
 */
static void running_store(struct executed *executed, bool last)
{
	uint64_t begin = cpu_time();

	if (clock_monotonic() < executed->store_due && !last)
		return;
	array_each(&executed->processes, process)
		if ((*process)->paths)
			paths_process_flush((*process)->paths);
	if (!executed->options.tasks_only)
		array_each(&executed->threads, thread)
			executed_fail(executed, thread_store(executed, *thread));
	executed->store_due = clock_monotonic() + (cpu_time() - begin) * STORE_SHARE;
}

static int flush(void *ctx, bool last)
{
	struct executed *executed = ctx;
	enum recording_kind kind = executed->options.kind;
	uint64_t refused = executed->totals.refused;
	int err = 0;

	running_store(executed, last);
	if (executed->err)
		return err_set(executed->err, "%s", executed->err_sentence);
	if (refused)
		err = recorder_metric_set(executed->recorder, kind, "threads_refused", "threads",
					  refused);
	if (!err && executed->native)
		err = recorder_metric_set(executed->recorder, kind, "threads_native", "threads",
					  executed->native);
	return err;
}

static int name(void *ctx)
{
	struct executed *executed = ctx;

	return parts_store(executed, executed->recorder);
}

static int complete(void *ctx)
{
	struct executed *executed = ctx;

	return executed->options.lines
		       ? lines_store(executed, executed->recorder, executed->options.marks)
		       : 0;
}

static void destroy(void *ctx)
{
	executed_destroy(ctx);
}

struct sink executed_sink(struct executed *executed)
{
	if (executed->options.tasks_only)
		return (struct sink){ .ctx = executed,
				      .kind = SINK_NO_RECORDING,
				      .flush = flush,
				      .destroy = destroy };
	return (struct sink){
		.ctx = executed,
		.kind = RECORDING_EXECUTED,
		.flush = flush,
		.totals = totals,
		.name = name,
		.complete = complete,
		.destroy = destroy,
	};
}
