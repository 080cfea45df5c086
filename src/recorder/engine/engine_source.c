// SPDX-License-Identifier: BSD-2-Clause
/*
 * A source: drains the rings and catalogs of engines, and notices when processes and threads begin
 * and end. Theory of operation. A sweep first reads the positions of all rings, then reads all
 * catalogs to their ends, and then hands out the segments up to those positions: so the catalog has
 * told of every segment that is handed out. New slots are searched for only now and then, because
 * there are many, and few are in use.
 *
 *	in	the shared memories of all processes that are followed
 *	out	calls of the sinks of engines: processes, modules, threads, segments in their order
 *	owner	the recorder, to which engine_recording.c gives it
 *
 *	slot appears		a catalog: begin a process; it replaces one that has the same pid.
 *				a ring: begin a thread, as soon as its process has said who it is
 *	thread ends by itself	its slot says so; the next look at its ring is the last one
 *	process ends, or is	its slots are looked at once more, then its threads end; the
 *	replaced		process itself ends when some others have ended after it
 *
 * The child of a vfork is a thread of its parent's, with a pid of its own, until it executes a
 * program or ends.
 *
 * A pid that we never found may be one of another pid namespace: such a process ends when its
 * catalog says so. In our own namespace it is that of a process which has ended before we looked.
 *
 * Each process has memory of its own. A place is a slot of one of these memories: its number, and
 * SLOTS for each memory before that one in our list.
 *
 * 1. The shared memory may hold anything: each field is read once and checked. The pid of a process
 *    is not read from its memory, but comes from the follower that made the memory.
 * 2. A segment that is handed out is known to its process.
 * 3. A process begins before its threads and ends after them. It ends once.
 * 4. A child's catalog is read after its parent's.
 * 5. A process is kept, and with it the slot of its catalog, when it is over: a child may still
 *    refer to it by that slot's number.
 */
#include "recorder/engine/engine_source_private.h"

#include <errno.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/pids.h"

enum {
	MARGIN = 4, /* slots looked at beyond the last one that was ever used */
	KEPT_LOGS = 64, /* that are not given back yet, at most */
	KEPT_BYTES = 32 << 20, /* of these, but for those that ended lately */
	PATIENCE = 100, /* sweeps that the catalog of a child waits for its parent's */
};

#define NOWHERE UINT32_MAX
#define KEPT_NS (2 * (uint64_t)NS_PER_S)
#define SCAN_EVERY ((uint64_t)NS_PER_S / 100)
#define DEATHS_EVERY ((uint64_t)NS_PER_S / 50)

/* --- Memories --------------------------------------------------------------------------------- */

static struct view *view_add(struct engine_source *source, void *bytes, uint32_t number)
{
	struct view *view = NULL;

	array_each(&source->views, item)
		if (!item->bytes)
			view = item;
	if (!view)
		view = array_push(&source->views);
	*view = (struct view){ .bytes = bytes,
			       .area = (void *)((char *)bytes + STREAM_AREA),
			       .number = number,
			       .window = MARGIN,
			       .places = mem_zalloc(SLOTS * sizeof(struct place)) };
	return view;
}

static void views_find(struct engine_source *source)
{
	struct memory *memory;

	while (source->memories && (memory = memories_after(source->memories, source->seen))) {
		struct view *view = view_add(source, memory->bytes, memory->number);

		view->made = memory;
		view->pid = (uint32_t)memory->pid;
		source->seen = memory->number;
	}
}

static uint64_t unrecorded_of(const struct view *view)
{
	uint64_t unrecorded = __atomic_load_n(&view->area->unrecorded, __ATOMIC_RELAXED);

	return unrecorded < COUNT_MAX ? unrecorded : 0;
}

static uint32_t refused_of(const struct view *view)
{
	uint32_t refused = __atomic_load_n(&view->area->refused, __ATOMIC_RELAXED);

	return refused < LOSS_MAX ? refused : 0;
}

static uint32_t events_lost_of(const struct view *view)
{
	const struct engine_shared *shared = (const void *)view->bytes;
	uint32_t lost = __atomic_load_n(&shared->events_lost, __ATOMIC_RELAXED);

	return lost < LOSS_MAX ? lost : LOSS_MAX;
}

/* Drops a memory; from here on it may be unmapped. */
static void view_drop(struct engine_source *source, struct view *view)
{
	source->refused += refused_of(view);
	source->events_lost += events_lost_of(view);
	source->unrecorded += unrecorded_of(view);
	free(view->places);
	__atomic_store_n(&view->made->read, true, __ATOMIC_RELEASE);
	*view = (struct view){};
}

/* Drops memories of processes that had ended before their slots were last looked at. */
static void views_drop(struct engine_source *source)
{
	array_each(&source->views, view)
		if (view->bytes && view->final && !view->used)
			view_drop(source, view);
}

/* The place that a catalog names by its number for all memories; NOWHERE: there is none. */
static uint32_t place_named(const struct engine_source *source, uint32_t name)
{
	for (uint32_t i = 0; i < source->views.count; i++)
		if (source->views.items[i].bytes && source->views.items[i].number == name / SLOTS)
			return i * SLOTS + name % SLOTS;
	return NOWHERE;
}

int engine_source_create(void *shared, uint64_t shared_size, enum engine_counters counters,
			 struct engine_source **ret)
{
	struct engine_source *source;
	uint64_t slot_bytes;
	struct stat info;

	if (shared_size <= STREAM_SLOTS)
		return err_set(-EINVAL, "the shared memory has no room for what is recorded");
	slot_bytes = (shared_size - STREAM_SLOTS) / STREAM_SLOT_COUNT;
	source = mem_zalloc(sizeof(*source));
	source->slot_bytes = slot_bytes;
	source->counters = counters;
	if (shared)
		view_add(source, shared, 0);
	if (!stat("/proc/self/ns/pid", &info))
		source->pid_space = (uint32_t)info.st_ino;
	*ret = source;
	return 0;
}

void engine_source_memories_set(struct engine_source *source, struct memories *memories)
{
	source->memories = memories;
	memories_reader_expect(memories);
}

static void process_free(struct process *process)
{
	catalog_deinit(&process->catalog);
	array_deinit(&process->counters);
	free(process);
}

void engine_source_destroy(struct engine_source *source)
{
	if (!source)
		return;
	array_each(&source->threads, thread)
		free(*thread);
	array_each(&source->processes, process)
		process_free(*process);
	array_each(&source->kept, process)
		process_free(*process);
	array_each(&source->views, view)
		free(view->places);
	array_deinit(&source->views);
	array_deinit(&source->threads);
	array_deinit(&source->processes);
	array_deinit(&source->kept);
	array_deinit(&source->sinks);
	free(source);
}

void engine_source_tools_set(struct engine_source *source, uint64_t tools)
{
	source->tools = tools;
}

void engine_source_sink_add(struct engine_source *source, const struct engine_sink *sink)
{
	*array_push(&source->sinks) = *sink;
}

const struct engine_totals *engine_source_totals(const struct engine_source *source)
{
	return &source->totals;
}

/* --- Slots ------------------------------------------------------------------------------------ */

/* Gives back the memory of what was recorded there, all of which was taken. */
static void slot_empty(struct engine_source *source, uint32_t index)
{
	madvise((char *)slot_at(source, index) + STREAM_RING_OFFSET,
		source->slot_bytes - STREAM_RING_OFFSET, MADV_REMOVE);
}

static void slot_give_back(struct engine_source *source, uint32_t index)
{
	struct stream_slot *slot = slot_at(source, index);

	slot_empty(source, index);
	__atomic_store_n(&slot->next, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->passed, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->start, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->lost, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->taken, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->waiting, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->state, STREAM_FREE, __ATOMIC_RELEASE);
	__atomic_store_n(&view_of(source, index)->area->crowded, 0, __ATOMIC_RELAXED);
}

static void large_give_back(struct engine_source *source, const struct thread *thread)
{
	if (thread->ring.size == STREAM_RING_LARGE)
		__atomic_add_fetch(&view_of(source, thread->slot)->area->large, 1,
				   __ATOMIC_RELAXED);
}

static bool pid_alive(uint32_t pid)
{
	return pid <= INT_MAX && pid_is_alive((pid_t)pid);
}

/*
 * Whether the pid is of our namespace. The process itself says so; a wrong answer harms only its
 * own recording.
 */
static bool pid_is_ours(const struct engine_source *source, const struct stream_slot *slot)
{
	uint32_t space = __atomic_load_n(&slot->pid_space, __ATOMIC_RELAXED);

	return space && space == source->pid_space;
}

static void slot_discover(struct engine_source *source, uint32_t index);

/* Looks at the slots that engines have taken last, by their hint. */
static void hint_follow(struct engine_source *source, uint32_t first, struct view *view)
{
	uint32_t hint = __atomic_load_n(&view->area->hint, __ATOMIC_RELAXED) % SLOTS;

	for (; view->hint != hint; view->hint = (view->hint + 1) % SLOTS)
		slot_discover(source, first + view->hint);
}

/*
 * Discovers what the process executed before, in memories that may come later in our list: sinks
 * hear of programs in the order in which a process executed them.
 */
static void older_discover(struct engine_source *source, const struct view *newer)
{
	for (uint32_t i = 0; newer->pid && i < source->views.count; i++) {
		struct view *view = &source->views.items[i];

		if (!view->bytes || view->pid != newer->pid || view->number >= newer->number)
			continue;
		hint_follow(source, i * SLOTS, view);
		for (uint32_t j = 0; j < view->window; j++)
			slot_discover(source, i * SLOTS + j);
	}
}

/*
 * Programs that a process executes one after the other have memories with growing numbers: an older
 * one that is found later all the same has ended, not the newer one.
 */
static void process_discover(struct engine_source *source, uint32_t index, uint32_t said)
{
	struct process *process = mem_zalloc(sizeof(*process));
	uint32_t known = view_of(source, index)->pid, pid = known ? known : said;
	uint32_t number = view_of(source, index)->number;

	older_discover(source, view_of(source, index));
	process->source = source;
	process->slot = index;
	process->told.pid = pid;
	process->told.number = (uint32_t)++source->totals.processes;
	process->was_there = known || pid_alive(pid) || pid_is_ours(source, slot_at(source, index));
	ring_init(&process->ring, slot_at(source, index));
	array_each(&source->processes, other) {
		if ((*other)->told.pid != pid || (*other)->gone)
			continue;
		if (view_of(source, (*other)->slot)->number > number) {
			process->gone = true;
			continue;
		}
		(*other)->gone = true;
		process->told.replaces = (*other)->told.number;
	}
	array_each(&source->threads, thread)
		(*thread)->gone |= (*thread)->pid == pid && (*thread)->catalog != index &&
				   view_of(source, (*thread)->slot)->number <= number;
	*array_push(&source->processes) = process;
	place_of(source, index)->process = process;
	view_of(source, index)->used++;
}

/*
 * The pid of a thread's process, or of the child of a vfork. If the process has a pid namespace of
 * its own, the number that it says may be any process's here, so it must not be used to find out
 * whether the thread has ended.
 */
static uint32_t thread_pid(const struct view *view, uint32_t said)
{
	pid_t pid = (pid_t)view->pid, found = 0;

	if (!pid || said == view->pid || !pids_differ(pid))
		return said;
	if ((pid_t)said != pids_inner(pid))
		found = pids_find((pid_t)said, view->made->inode, pid);
	return found ? (uint32_t)found : view->pid;
}

static void thread_discover(struct engine_source *source, uint32_t index,
			    const struct stream_slot *slot)
{
	struct thread *thread = mem_zalloc(sizeof(*thread));

	uint32_t catalog = __atomic_load_n(&slot->catalog, __ATOMIC_RELAXED);

	thread->slot = index;
	thread->catalog = catalog < SLOTS ? index / SLOTS * SLOTS + catalog : NOWHERE;
	thread->pid =
		thread_pid(view_of(source, index), __atomic_load_n(&slot->pid, __ATOMIC_RELAXED));
	thread->told.tid = __atomic_load_n(&slot->tid, __ATOMIC_RELAXED);
	ring_init(&thread->ring, slot_at(source, index));
	*array_push(&source->threads) = thread;
	place_of(source, index)->thread = thread;
	view_of(source, index)->used++;
}

static void slot_discover(struct engine_source *source, uint32_t index)
{
	struct stream_slot *slot = slot_at(source, index);
	struct place *place = place_of(source, index);
	struct view *view = view_of(source, index);
	uint32_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE), kind;

	if (place->process || place->thread || (state != STREAM_LIVE && state != STREAM_ENDED))
		return;
	kind = __atomic_load_n(&slot->kind, __ATOMIC_RELAXED);
	if (kind == STREAM_CATALOG)
		process_discover(source, index, __atomic_load_n(&slot->pid, __ATOMIC_RELAXED));
	else if (kind == STREAM_THREAD)
		thread_discover(source, index, slot);
	index = index % SLOTS + MARGIN;
	if (index > view->window)
		view->window = index < SLOTS ? index : SLOTS;
}

/*
 * all: not only where slots were used, or are said to have been. To look at a slot takes a page,
 * and an engine says where it takes them.
 */
static void slots_look(struct engine_source *source, bool scan, bool all)
{
	for (uint32_t i = 0; i < source->views.count; i++) {
		struct view *view = &source->views.items[i];
		bool ended;

		if (!view->bytes)
			continue;
		ended = view->made && __atomic_load_n(&view->made->ended, __ATOMIC_ACQUIRE);
		view->bell = __atomic_load_n(&view->area->bell, __ATOMIC_SEQ_CST);
		hint_follow(source, i * SLOTS, view);
		if (!scan)
			continue;
		for (uint32_t j = 0; j < (all && !view->made ? SLOTS : view->window); j++)
			slot_discover(source, i * SLOTS + j);
		view->final = ended;
	}
}

/* --- Catalogs --------------------------------------------------------------------------------- */

static struct segment_table *parent_find(struct engine_source *source,
					 const struct process *process,
					 const struct stream_process *record, uint32_t *ret_number)
{
	uint32_t parent = record ? place_named(source, record->parent) : NOWHERE;
	const struct place *place;

	if (parent == NOWHERE || parent == process->slot)
		return NULL;
	place = place_of(source, parent);
	if (!place->process)
		return NULL;
	*ret_number = place->process->told.number;
	return place->process->catalog.table;
}

static struct segment_table *on_process(void *ctx, const struct stream_process *record)
{
	struct process *process = ctx;
	uint32_t inherited = record ? record->inherited : 0;
	struct segment_table *parent =
		parent_find(process->source, process, record, &process->told.parent);

	process->told.segments = segment_table_create(parent, inherited);
	sinks_tell(process->source, process_begin, &process->told);
	return process->told.segments;
}

static void on_record(void *ctx, const struct stream_record *record, uint32_t first)
{
	struct process *process = ctx;
	const struct stream_counter *counter = (const struct stream_counter *)record;

	if (record->type == STREAM_RECORD_COUNTER)
		*array_push(&process->counters) =
			(struct counter){ (enum engine_tool)counter->tool, counter->index };
	sinks_tell(process->source, record, &process->told, record, first);
}

/*
 * What a child inherits is in its parent's catalog. That may not have been found yet: slots are
 * looked at one after the other, while processes come and fork.
 */
static bool parent_is_missing(struct engine_source *source, struct process *process)
{
	struct stream_process first;
	const struct place *place;
	uint32_t parent;

	if (process->catalog.table || !ring_peek(&process->ring, &first, sizeof(first)))
		return false;
	parent = place_named(source, first.parent);
	if (first.record.type != STREAM_RECORD_PROCESS || parent == NOWHERE ||
	    parent == process->slot || process->waited == PATIENCE)
		return false;
	place = place_of(source, parent);
	if (!place->process)
		slot_discover(source, parent);
	if (place->process && place->process->catalog.table)
		return false;
	process->waited++;
	return true;
}

/* What the process executed before, if sinks have not heard of that yet; NULL otherwise. */
static struct process *replaced_untold(const struct engine_source *source,
				       const struct process *process)
{
	if (process->catalog.table || !process->told.replaces)
		return NULL;
	array_each(&source->processes, other)
		if ((*other)->told.number == process->told.replaces)
			return (*other)->catalog.table ? NULL : *other;
	return NULL;
}

static bool catalog_drain(struct engine_source *source, struct process *process)
{
	const struct catalog_handlers handlers = { on_process, on_record, process };
	struct process *replaced = replaced_untold(source, process);
	size_t size;

	if (replaced)
		catalog_drain(source, replaced);
	ring_look(&process->ring, sizeof(uint64_t), 0, process->final);
	process->waits = (replaced && replaced->waits) || parent_is_missing(source, process);
	if (process->waits) {
		process->final = false;
		return true;
	}
	size = ring_take(&process->ring, source->records, sizeof(source->records));
	catalog_parse(&process->catalog, &handlers, source->records, size);
	return size > 0;
}

static bool thread_begin(struct engine_source *source, struct thread *thread)
{
	if (thread->begun || thread->catalog == NOWHERE)
		return thread->begun;
	slot_discover(source, thread->catalog);
	thread->process = place_of(source, thread->catalog)->process;
	if (!thread->process)
		return false;
	if (!thread->process->catalog
		     .table) /* it may have appeared since the catalogs were drained */
		catalog_drain(source, thread->process);
	if (!thread->process->catalog.table || thread->process->over) {
		thread->final &= !thread->process->waits;
		thread->process = NULL;
		return false;
	}
	thread->begun = true;
	thread->process->rings++;
	thread->told.process = &thread->process->told;
	thread->told.number = (uint32_t)++source->totals.threads;
	sinks_tell(source, thread_begin, &thread->told);
	return true;
}

/* --- Ends ------------------------------------------------------------------------------------- */

/*
 * The totals of threads that have ended, and of those that run as far as their segments were taken.
 */
static struct engine_totals totals_now(const struct engine_source *source)
{
	struct engine_totals totals = source->totals;

	totals.lost[SEGMENT_LOSS_REFUSED] = source->unrecorded;
	totals.refused = source->refused;
	totals.events_lost = source->events_lost;
	array_each(&source->views, view) {
		if (!view->bytes)
			continue;
		totals.lost[SEGMENT_LOSS_REFUSED] += unrecorded_of(view);
		totals.refused += refused_of(view);
		totals.events_lost += events_lost_of(view);
	}
	totals.unattributed[SEGMENT_LOSS_REFUSED] = totals.lost[SEGMENT_LOSS_REFUSED];
	array_each(&source->threads, item) {
		totals.kept += (*item)->told.kept;
		for (size_t i = 0; i < SEGMENT_LOSS_COUNT; i++)
			totals.lost[i] += (*item)->told.lost[i];
	}
	return totals;
}

void engine_source_tally(struct engine_source *source)
{
	struct engine_totals totals;

	array_each(&source->threads, thread) {
		if ((*thread)->begun && source->counters != COUNTERS_NONE)
			engine_thread_counts_tell(source, *thread);
		if ((*thread)->begun)
			engine_thread_memory_tell(source, *thread);
	}
	totals = totals_now(source);
	sinks_tell(source, totals, &totals);
}

static void thread_end(struct engine_source *source, struct thread *thread, bool give_back)
{
	thread->told.ending = true;
	if (thread->begun && source->counters != COUNTERS_NONE)
		engine_thread_counts_tell(source, thread);
	if (thread->begun) {
		engine_thread_counters_tell(source, thread);
		engine_thread_memory_tell(source, thread);
	}
	engine_thread_account(source, thread);
	if (thread->begun) {
		sinks_tell(source, thread_end, &thread->told);
		thread->process->rings--;
	}
	place_of(source, thread->slot)->thread = NULL;
	view_of(source, thread->slot)->used--;
	if (give_back) {
		ring_release(&thread->ring);
		large_give_back(source, thread);
		slot_give_back(source, thread->slot);
	}
	free(thread);
}

static void process_end(struct engine_source *source, struct process *process, bool give_back)
{
	if (process->catalog.table)
		sinks_tell(source, process_end, &process->told);
	source->totals.broken += process->ring.broken;
	source->totals.records_seen += process->catalog.seen;
	source->totals.records_kept += process->catalog.kept;
	for (size_t i = 0; i < CATALOG_FAULT_COUNT; i++)
		source->totals.records_lost[i] += process->catalog.lost[i];
	place_of(source, process->slot)->process = NULL;
	view_of(source, process->slot)->used--;
	if (give_back) {
		ring_release(&process->ring);
		slot_give_back(source, process->slot);
	}
	process_free(process);
}

/* What it takes to keep a process. */
static size_t kept_bytes_of(const struct process *process)
{
	return process->catalog.table ? segment_table_memory(process->catalog.table) : 0;
}

/* Keeps a process that is over, because the catalog of a child that names it may still appear. */
static void process_keep(struct engine_source *source, struct process *process)
{
	process->over = true;
	process->told.ended = clock_monotonic();
	if (process->catalog.table) {
		sinks_tell(source, process_over, &process->told);
		segment_table_trim(process->catalog.table);
	}
	slot_empty(source, process->slot);
	*array_push(&source->kept) = process;
	source->kept_bytes += kept_bytes_of(process);
}

/*
 * A child names its parent as soon as it runs. So what was kept goes when there are many, or when
 * it takes much memory and has been kept for a while.
 */
static void kept_serve(struct engine_source *source)
{
	size_t gone = 0;

	for (; gone < source->kept.count; gone++) {
		struct process *process = source->kept.items[gone];

		if (source->kept.count - gone <= KEPT_LOGS &&
		    (source->kept_bytes <= KEPT_BYTES ||
		     source->now < process->told.ended + KEPT_NS))
			break;
		source->kept_bytes -= kept_bytes_of(process);
		process_end(source, process, true);
	}
	if (!gone)
		return;
	source->kept.count -= gone;
	memmove(source->kept.items, source->kept.items + gone,
		source->kept.count * sizeof(*source->kept.items));
}

static bool is_over(const struct thread *thread)
{
	return thread->gone || (thread->process && thread->process->gone);
}

/* Ends the threads and processes whose slots were looked at after their end. */
static void ends_serve(struct engine_source *source)
{
	size_t kept = 0;

	for (size_t i = 0; i < source->threads.count; i++) {
		struct thread *thread = source->threads.items[i];

		if (thread->final)
			thread_end(source, thread, true);
		else
			source->threads.items[kept++] = thread;
	}
	source->threads.count = kept;
	kept = 0;
	for (size_t i = 0; i < source->processes.count; i++) {
		struct process *process = source->processes.items[i];

		if (process->final && !process->rings)
			process_keep(source, process);
		else
			source->processes.items[kept++] = process;
	}
	source->processes.count = kept;
	kept_serve(source);
}

static void deaths_find(struct engine_source *source)
{
	array_each(&source->processes, item) {
		struct process *process = *item;

		if (process->gone || pid_alive(process->told.pid)) {
			process->was_there = true;
			continue;
		}
		process->gone = process->was_there ||
				__atomic_load_n(&process->ring.slot->state, __ATOMIC_ACQUIRE) ==
					STREAM_ENDED;
		if (process->gone)
			source->scanned = 0; /* it may have threads that were not found yet */
	}
	array_each(&source->threads, item) {
		struct thread *thread = *item;

		if (thread->begun && thread->pid != thread->process->told.pid)
			thread->gone |= thread->process->was_there && !pid_alive(thread->pid);
	}
}

/* --- Sweeps ----------------------------------------------------------------------------------- */

/*
 * The last segment of a ring is left there, because a signal may undo it. ends: all rings are
 * looked at for the last time.
 */
static void rings_look(struct engine_source *source, bool ends)
{
	array_each(&source->threads, item) {
		struct thread *thread = *item;

		thread->gone |= __atomic_load_n(&thread->ring.slot->state, __ATOMIC_ACQUIRE) ==
				STREAM_ENDED;
		thread->final = is_over(thread);
		ring_look(&thread->ring, sizeof(uint32_t),
			  thread->final || ends ? 0 : sizeof(uint32_t), thread->final);
	}
}

static bool catalogs_drain(struct engine_source *source)
{
	bool any = false;

	for (size_t i = 0; i < source->processes.count; i++) {
		source->processes.items[i]->final = source->processes.items[i]->gone;
		any |= catalog_drain(source, source->processes.items[i]);
	}
	return any;
}

static bool threads_drain(struct engine_source *source)
{
	bool any = false;

	for (size_t i = 0; i < source->threads.count; i++) {
		thread_begin(source, source->threads.items[i]);
		any |= engine_thread_drain(source, source->threads.items[i]);
	}
	return any;
}

uint64_t engine_source_taken(const struct engine_source *source)
{
	return source->taken;
}

void engine_source_look(struct engine_source *source)
{
	source->now = clock_monotonic();
	source->woken_before = __atomic_load_n(&source->woken, __ATOMIC_SEQ_CST);
	source->scans = source->now - source->scanned >= SCAN_EVERY;
	views_drop(source);
	views_find(source);
	slots_look(source, source->scans, false);
	if (source->scans)
		source->scanned = source->now;
	rings_look(source, false);
}

void engine_source_events(struct engine_source *source)
{
	source->any = catalogs_drain(source);
}

bool engine_source_deliver(struct engine_source *source)
{
	bool any = source->any | threads_drain(source);

	ends_serve(source);
	if (source->now - source->buried >= DEATHS_EVERY) {
		deaths_find(source);
		source->buried = source->now;
	}
	if (!any && !source->scans)
		source->scanned = 0; /* new slots must be looked for before the next sleep */
	return any || !source->scans;
}

bool engine_source_sweep(struct engine_source *source)
{
	engine_source_look(source);
	engine_source_events(source);
	return engine_source_deliver(source);
}

static void sleeping_say(struct engine_source *source, enum stream_sleep sleep)
{
	array_each(&source->views, view)
		if (view->bytes)
			__atomic_store_n(&view->area->sleeping, sleep, __ATOMIC_SEQ_CST);
}

static void sleep_until_rung(struct engine_source *source, enum stream_sleep sleep,
			     unsigned milliseconds)
{
	const struct timespec timeout = { .tv_sec = milliseconds / 1000,
					  .tv_nsec = milliseconds % 1000 * 1000000L };
	struct bells bells = {};

	sleeping_say(source, sleep);
	bells_add(&bells, &source->woken, source->woken_before);
	array_each(&source->views, view) {
		if (!view->bytes)
			continue;
		if (sleep == STREAM_NAPPING)
			view->bell = __atomic_load_n(&view->area->bell, __ATOMIC_SEQ_CST);
		bells_add(&bells, &view->area->bell, view->bell);
	}
	bells_wait(&bells, &timeout);
	sleeping_say(source, STREAM_AWAKE);
}

void engine_source_wait(struct engine_source *source, unsigned milliseconds)
{
	sleep_until_rung(source, STREAM_ASLEEP, milliseconds);
}

/*
 * The bell may have been rung since the last sweep for a few segments, which are not worth another
 * sweep yet: only what rings from now on ends the nap. If that misses engine_source_wake(), its
 * caller waits for the rest of one nap.
 */
void engine_source_nap(struct engine_source *source, unsigned milliseconds)
{
	sleep_until_rung(source, STREAM_NAPPING, milliseconds);
}

void engine_source_wake(struct engine_source *source)
{
	bell_ring(&source->woken);
}

void engine_source_finish(struct engine_source *source)
{
	views_find(source);
	slots_look(source, true, true);
	deaths_find(source);
	rings_look(source, true);
	for (unsigned i = 0; i <= PATIENCE; i++)
		catalogs_drain(source);
	threads_drain(source);
	array_each(&source->threads, thread)
		thread_end(source, *thread, false);
	source->threads.count = 0;
	array_each(&source->kept, process)
		process_end(source, *process, true);
	array_each(&source->processes, process)
		process_end(source, *process, false);
	source->kept.count = source->processes.count = 0;
	source->totals = totals_now(source);
}
