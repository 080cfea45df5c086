// SPDX-License-Identifier: BSD-2-Clause
/*
 * The load map is told what the logs tell, and asked where a block lies at the moment at which the log explains it: later
 * something else may be mapped there. The mark of a piece in its table of runs is the number of its block. Runs are counted by
 * number while a thread runs; when it ends, these become counts of blocks.
 *
 * 1. The same code in the same module is one block, whoever executes it.
 * 2. What a thread executed is in the store when it has ended.
 */
#include "trace/book.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/map.h"
#include "ingest/procfs.h"

#define COMMIT_EVERY ((uint64_t)NS_PER_S)

/* A process's, or a thread's, as the sink's user data. */
struct book_process {
	struct loadmap_process *image; /* valid until the process has ended */
	uint32_t number;
	bool nameless;
	bool replaced;
	struct process_id parent; /* it was forked from; 0: none */
	struct paths_process *paths; /* NULL: only counts are kept */
};

struct book_thread {
	struct thread_id id;
	ARRAY(uint64_t) counts; /* by run; not those that paths keeps */
	struct paths_thread *paths; /* NULL: only counts are kept */
};

struct book {
	struct store *store;
	struct loadmap *loadmap;
	struct locations *locations;
	struct book_options options;
	struct map ids; /* hash of module, address and length to block */
	ARRAY(struct book_block) blocks; /* entry 0 is unused */
	ARRAY(uint64_t) folded; /* by block: what the ending thread executed */
	ARRAY(struct book_process *) processes; /* that run */
	uint64_t native;
	uint64_t committed; /* when */
	int err; /* the first failure */
	char *err_sentence;
};

static void book_fail(struct book *book, int err)
{
	if (!err || book->err)
		return;
	book->err = err;
	book->err_sentence = mem_strdup(err_text()); /* of this thread; who asks may be another */
}

int book_create(struct store *store, const struct book_options *options, struct book **ret)
{
	AUTO(book_destroy_auto) struct book *book = mem_zalloc(sizeof(*book));
	int err = loadmap_create(store, NULL, &book->loadmap);

	if (err)
		return err;
	book->store = store;
	book->options = *options;
	locations_create(store, &book->locations);
	*array_push(&book->blocks) = (struct book_block){};
	*array_push(&book->folded) = 0;
	*ret = take_ptr(book);
	return 0;
}

void book_destroy(struct book *book)
{
	if (!book)
		return;
	locations_destroy(book->locations);
	loadmap_destroy(book->loadmap);
	map_deinit(&book->ids);
	array_deinit(&book->blocks);
	array_deinit(&book->folded);
	array_each(&book->processes, process)
		free(*process);
	array_deinit(&book->processes);
	free(book->err_sentence);
	free(book);
}

const struct book_block *book_blocks(const struct book *book, size_t *ret_count)
{
	*ret_count = book->blocks.count;
	return book->blocks.items;
}

uint64_t book_threads_native(const struct book *book)
{
	return book->native;
}

struct loadmap *book_loadmap(struct book *book)
{
	return book->loadmap;
}

struct locations *book_locations(struct book *book)
{
	return book->locations;
}

/* --- Processes -------------------------------------------------------------------------------------- */

static int event_apply(void *ctx, const struct event *event)
{
	struct book *book = ctx;

	book_fail(book, loadmap_apply(book->loadmap, event));
	return 0;
}

static const struct book_process *process_find(const struct book *book, uint32_t number)
{
	array_each(&book->processes, process)
		if ((*process)->number == number)
			return *process;
	return NULL;
}

static void process_forked(struct book *book, const struct drain_process *process,
			   const struct book_process *parent, uint64_t now)
{
	struct event event = {
		.kind = EVENT_FORK, .pid = process->pid, .tid = process->pid, .time = now
	};

	/* As it was before it executed another program. */
	if (parent->image->to <= now)
		event.time = parent->image->to - 1;
	event.fork.ppid = event.fork.ptid = parent->image->pid;
	event_apply(book, &event);
}

/* false: the process has gone already. */
static bool process_executed(struct book *book, const struct drain_process *process, uint64_t now)
{
	bool there;
	char comm[PROCFS_COMM_MAX] = "";
	struct event event = { .kind = EVENT_EXEC,
			       .pid = process->pid,
			       .tid = process->pid,
			       .time = now,
			       .comm = comm };

	there = procfs_comm((pid_t)process->pid, (pid_t)process->pid, comm);
	event_apply(book, &event);
	procfs_mappings((pid_t)process->pid, now, event_apply, book);
	return there;
}

static void on_process(void *ctx, struct drain_process *process)
{
	struct book *book = ctx;
	struct book_process *mine = mem_zalloc(sizeof(*mine));
	const struct book_process *parent = process_find(book, process->parent);
	uint64_t now = clock_monotonic();

	array_each(&book->processes, other)
		(*other)->replaced |= (*other)->number == process->replaces;
	if (parent && !process->replaces)
		process_forked(book, process, parent, now);
	else
		mine->nameless = !process_executed(book, process, now);
	procfs_identity((pid_t)process->pid, now, event_apply, book);
	mine->number = process->number;
	mine->image = loadmap_process_at(book->loadmap, process->pid, now);
	if (parent && !process->replaces)
		mine->parent = parent->image->id;
	if (book->options.paths)
		mine->paths = paths_process_create(book->options.paths, mine->image->id);
	process->user = mine;
	*array_push(&book->processes) = mine;
}

static void on_process_end(void *ctx, struct drain_process *process)
{
	struct book *book = ctx;
	struct book_process *mine = process->user;
	const struct event event = {
		.kind = EVENT_EXIT, .pid = process->pid, .tid = process->pid, .time = process->ended
	};
	size_t kept = 0;

	if (mine->paths)
		paths_process_finish(mine->paths, process->runs, mine->parent);
	if (!mine->replaced && process->ended)
		event_apply(book, &event);
	for (size_t i = 0; i < book->processes.count; i++)
		if (book->processes.items[i] != mine)
			book->processes.items[kept++] = book->processes.items[i];
	book->processes.count = kept;
	process->user = NULL;
	free(mine);
}

/* --- Records ---------------------------------------------------------------------------------------- */

/* What a program is called whose process has ended before anybody could ask. */
static void process_name(struct book *book, const struct drain_process *process, const char *path)
{
	struct book_process *mine = process->user;
	const char *slash = strrchr(path, '/');
	const struct event event = { .kind = EVENT_COMM,
				     .pid = process->pid,
				     .tid = process->pid,
				     .time = clock_monotonic(),
				     .comm = slash + 1 };

	mine->nameless = false;
	event_apply(book, &event);
}

static bool is_loader(const char *path)
{
	return strstr(path, "/ld-") || strstr(path, "/ld.so");
}

static void module_apply(struct book *book, const struct drain_process *process,
			 const struct stream_module *module)
{
	const struct book_process *mine = process->user;
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
	event_apply(book, &event);
	if (mine->nameless && *module->path == '/' && !is_loader(module->path))
		process_name(book, process, module->path);
}

static int block_store(struct book *book, uint32_t id, const struct book_block *block)
{
	struct store_block row = { .id = id,
				   .length = block->length,
				   .instructions = block->instructions };
	int err = locations_add(book->locations, block->module, block->address, &row.location);

	return err ? err : store_block_put(book->store, &row);
}

static uint32_t block_number(struct book *book, const struct book_block *block)
{
	uint64_t key = hash64_pair(hash64_pair(block->module.v, block->address),
				   (uint64_t)block->length << 32 | block->instructions);
	bool fresh;
	uint64_t *id = map_at(&book->ids, key, &fresh);

	if (!fresh)
		return (uint32_t)*id;
	*id = book->blocks.count;
	*array_push(&book->blocks) = *block;
	*array_push(&book->folded) = 0;
	book_fail(book, block_store(book, (uint32_t)*id, block));
	return (uint32_t)*id;
}

static void piece_place(struct book *book, const struct drain_process *process, uint32_t index)
{
	const struct book_process *mine = process->user;
	const struct stream_piece *piece = &process->runs->pieces.items[index];
	struct book_block block = { .length = piece->length, .instructions = piece->instructions };

	if (!piece->instructions)
		return;
	loadmap_resolve(book->loadmap, mine->image, piece->pc, clock_monotonic(), &block.module,
			&block.address);
	process->runs->marks.items[index] = block_number(book, &block);
}

/* What comes after a failure would refer to rows that are not there. */
static void commit_now_and_then(struct book *book)
{
	uint64_t now = clock_monotonic();
	int err;

	if (book->err || now - book->committed < COMMIT_EVERY)
		return;
	book->committed = now;
	err = loadmap_flush(book->loadmap);
	book_fail(book, err ? err : store_commit(book->store));
}

static void on_record(void *ctx, struct drain_process *process, const struct stream_record *record,
		      uint32_t first)
{
	struct book *book = ctx;

	if (record->type == STREAM_RECORD_MODULE)
		module_apply(book, process, (const void *)record);
	book->native += record->type == STREAM_RECORD_NATIVE;
	for (uint32_t i = first; i < process->runs->pieces.count; i++)
		piece_place(book, process, i);
	commit_now_and_then(book);
}

/* --- Threads ---------------------------------------------------------------------------------------- */

static void on_thread(void *ctx, struct drain_thread *thread)
{
	struct book *book = ctx;
	const struct book_process *process = thread->process->user;
	struct book_thread *mine = mem_zalloc(sizeof(*mine));

	mine->id = loadmap_thread(book->loadmap, process->image, thread->tid, clock_monotonic());
	if (process->paths)
		mine->paths = paths_thread_create(process->paths, mine->id);
	thread->user = mine;
}

static void counts_extend(struct book_thread *thread, size_t count)
{
	size_t had = thread->counts.count;

	if (count <= had)
		return;
	array_reserve(&thread->counts, count);
	memset(thread->counts.items + had, 0, (count - had) * sizeof(uint64_t));
	thread->counts.count = count;
}

static void on_runs(void *ctx, struct drain_thread *thread, const uint32_t *runs, size_t count)
{
	struct book_thread *mine = thread->user;
	uint64_t *counts;

	if (mine->paths) {
		paths_push(mine->paths, thread->process->runs, runs, count);
		commit_now_and_then(ctx);
		return;
	}
	counts_extend(mine, runtable_limit(thread->process->runs));
	counts = mine->counts.items;
	for (size_t i = 0; i < count; i++)
		counts[runs[i]]++;
}

static void on_counts(void *ctx, struct drain_thread *thread, uint32_t first,
		      const uint64_t *counts, size_t count)
{
	struct book_thread *mine = thread->user;

	counts_extend(mine, first + count);
	for (size_t i = 0; i < count; i++)
		mine->counts.items[first + i] += counts[i];
}

static void run_fold(struct book *book, const struct runtable *runs, uint32_t number,
		     uint64_t count)
{
	const struct runtable_run *run = NULL;
	const struct runtable *table = runtable_find(runs, number, &run);

	for (uint32_t i = 0; table && i <= run->whole; i++)
		book->folded.items[table->marks.items[runtable_piece(run, i)]] += count;
}

static void counts_fold(struct book *book, const struct drain_thread *thread)
{
	const struct book_thread *mine = thread->user;
	const uint64_t *counts = mine->counts.items;
	size_t count = mine->counts.count;

	if (mine->paths) {
		paths_thread_finish(mine->paths);
		counts = paths_thread_counts(mine->paths, &count);
	}
	for (size_t i = 1; i < count; i++)
		if (counts[i])
			run_fold(book, thread->process->runs, (uint32_t)i, counts[i]);
}

static int thread_store(struct book *book, const struct drain_thread *thread)
{
	const struct book_thread *mine = thread->user;
	uint64_t lost = 0;
	int err = 0;

	for (size_t i = 1; i < book->blocks.count && !err; i++) {
		uint64_t count = book->folded.items[i];

		if (!count)
			continue;
		count = book->options.marks ? 1 : count; /* runs share blocks */
		book->blocks.items[i].count += count;
		book->folded.items[i] = 0;
		err = store_execution_add(book->store, (uint32_t)i, mine->id, count);
	}
	for (size_t i = 0; i < DRAIN_LOSS_COUNT; i++)
		lost += thread->lost[i];
	return err ? err : store_thread_runs_add(book->store, mine->id, thread->kept, lost);
}

static void on_thread_end(void *ctx, struct drain_thread *thread)
{
	struct book *book = ctx;
	struct book_thread *mine = thread->user;
	const struct book_process *process = thread->process->user;
	const struct event event = { .kind = EVENT_EXIT,
				     .pid = thread->process->pid,
				     .tid = thread->tid,
				     .time = clock_monotonic() };

	counts_fold(book, thread);
	book_fail(book, thread_store(book, thread));
	if (!process->replaced && thread->tid != thread->process->pid)
		event_apply(book, &event);
	paths_thread_destroy(mine->paths);
	array_deinit(&mine->counts);
	free(mine);
	thread->user = NULL;
}

struct drain_sink book_sink(struct book *book)
{
	return (struct drain_sink){
		.process_begin = on_process,
		.record = on_record,
		.thread_begin = on_thread,
		.runs = on_runs,
		.counts = on_counts,
		.thread_end = on_thread_end,
		.process_end = on_process_end,
		.ctx = book,
	};
}

/* --- The end ---------------------------------------------------------------------------------------- */

static int losses_store(struct book *book, const struct drain_totals *totals)
{
	static const char *const names[][2] = {
#define X(name, json, text) [DRAIN_LOSS_##name] = { json, text },
		DRAIN_LOSSES(X)
#undef X
	};
	uint64_t seen = totals->kept;
	int err = 0;

	for (size_t i = 0; i < DRAIN_LOSS_COUNT && !err; i++) {
		seen += totals->lost[i];
		if (totals->lost[i])
			err = store_loss_set(book->store, names[i][0], names[i][1],
					     totals->lost[i]);
	}
	err = err ? err : store_seen_set(book->store, seen);
	if (!err && totals->refused)
		err = store_meta_set_u64(book->store, "threads_refused", totals->refused);
	if (!err && book->native)
		err = store_meta_set_u64(book->store, "threads_native", book->native);
	return err;
}

int book_finish(struct book *book, const struct drain_totals *totals)
{
	int err;

	if (book->err)
		return err_set(book->err, "%s", book->err_sentence);
	err = book->options.paths ? paths_finish(book->options.paths) : 0;
	err = err ? err : loadmap_finish(book->loadmap);
	err = err ? err : losses_store(book, totals);
	return err ? err : store_commit(book->store);
}
