// SPDX-License-Identifier: BSD-2-Clause
/*
 * Theory of operation. A sweep looks where the rings of threads are, then reads all logs to their ends, then hands out the
 * runs up to where the rings were: so whatever is handed out has been explained. Slots that are new are looked for now and then,
 * as there are many, and hardly any are in use.
 *
 *	slot appears		a log: begin a process; it replaces one that has the same pid.
 *				a ring: begin a thread, as soon as its process has said who it is
 *	thread ends by itself	its slot says so; the next look at its ring is the last one
 *	process ends, or is	its slots are looked at once more, then its threads end; the process itself, after some others have
 *	replaced		ended too
 *
 * The child of a vfork is a thread of its parent's, with a pid of its own, until it executes a program or ends.
 *
 * A pid that was never there may be one of another pid namespace: such a process ends when its log says so.
 *
 * 1. The shared memory may hold anything: each field is read once and checked.
 * 2. A run that is handed out is known to its process.
 * 3. A process begins before its threads and ends after them. It ends once.
 * 4. A child's log is read after its parent's.
 * 5. A process is kept, and with it the slot of its log, when it is over: a child may still refer to it by that slot's number.
 */
#include "trace/drain.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "trace/ring.h"

enum {
	SPAN = STREAM_CHUNK / sizeof(uint32_t), /* runs handed out at a time */
	COUNTS_SPAN = 4096,
	MARGIN = 64, /* slots looked at beyond the last one that was ever used */
	KEPT_LOGS = 64, /* that are not given back yet */
	PATIENCE = 100, /* sweeps that the log of a child waits for its parent's */
	LOSS_MAX = 1 << 30, /* of runs that a single thread may claim to have lost */
};

#define SCAN_EVERY ((uint64_t)NS_PER_S / 100)
#define DEATHS_EVERY ((uint64_t)NS_PER_S / 50)
#define COUNT_MAX (UINT64_C(1) << 52)

struct process {
	struct drain_process told; /* to sinks */
	struct log log;
	struct ring ring;
	uint32_t slot;
	unsigned waited; /* sweeps, for its parent */
	bool waits; /* now */
	bool was_there; /* its pid */
	bool gone;
	bool final; /* the ring was looked at after that */
	bool over; /* nothing comes any more; waits for being given back */
	uint32_t rings; /* threads that have not ended */
	struct drain *drain;
};

struct thread {
	struct drain_thread told;
	struct process *process; /* NULL: not known yet */
	struct ring ring;
	uint32_t slot, log, pid;
	bool gone, final;
	bool begun;
};

/* What is known of a slot. At most one of the two is set. */
struct place {
	struct process *process;
	struct thread *thread;
};

struct drain {
	char *memory;
	struct stream_area *area;
	uint64_t slot_bytes;
	uint32_t slot_count;
	enum drain_counters counters;
	struct relay *relay;
	const struct drain_sink *sinks;
	size_t sink_count;
	struct place places[STREAM_SLOT_COUNT];
	uint32_t window; /* slots from here on were never used */
	ARRAY(struct process *) processes;
	ARRAY(struct thread *) threads;
	ARRAY(struct process *) kept; /* that are over; the oldest first */
	uint64_t taken; /* runs that were handed out */
	uint64_t scanned, buried; /* when */
	uint32_t hint; /* where slots were taken when we last looked */
	uint32_t bell;
	struct drain_totals totals;
	uint32_t span[SPAN];
	uint64_t counts[COUNTS_SPAN];
	_Alignas(8) char records[STREAM_RING];
};

#define sinks_tell(drain, call, ...)                                                               \
	do {                                                                                       \
		for (size_t sink_ = 0; sink_ < (drain)->sink_count; sink_++)                       \
			if ((drain)->sinks[sink_].call)                                            \
				(drain)->sinks[sink_].call((drain)->sinks[sink_].ctx,              \
							   __VA_ARGS__);                           \
	} while (0)

static struct stream_slot *slot_at(struct drain *drain, uint32_t index)
{
	return (void *)(drain->memory + STREAM_SLOTS + index * drain->slot_bytes);
}

int drain_create(void *shared, uint64_t shared_size, enum drain_counters counters,
		 const struct drain_sink *sinks, size_t sink_count, struct drain **ret)
{
	struct drain *drain;
	uint64_t slot_bytes;

	if (shared_size <= STREAM_SLOTS)
		return err_set(-EINVAL, "the shared memory has no room for what is recorded");
	slot_bytes = (shared_size - STREAM_SLOTS) / STREAM_SLOT_COUNT;
	drain = mem_zalloc(sizeof(*drain));
	drain->memory = shared;
	drain->area = (void *)(drain->memory + STREAM_AREA);
	drain->slot_bytes = slot_bytes;
	drain->slot_count = STREAM_SLOT_COUNT;
	drain->counters = counters;
	drain->sinks = sinks;
	drain->sink_count = sink_count;
	drain->window = MARGIN;
	*ret = drain;
	return 0;
}

static void process_free(struct process *process)
{
	log_deinit(&process->log);
	free(process);
}

void drain_destroy(struct drain *drain)
{
	if (!drain)
		return;
	array_each(&drain->threads, thread)
		free(*thread);
	array_each(&drain->processes, process)
		process_free(*process);
	array_each(&drain->kept, process)
		process_free(*process);
	array_deinit(&drain->threads);
	array_deinit(&drain->processes);
	array_deinit(&drain->kept);
	free(drain);
}

void drain_relay_set(struct drain *drain, struct relay *relay)
{
	drain->relay = relay;
}

const struct drain_totals *drain_totals(const struct drain *drain)
{
	return &drain->totals;
}

/* --- Slots ------------------------------------------------------------------------------------------ */

static void slot_give_back(struct drain *drain, uint32_t index)
{
	struct stream_slot *slot = slot_at(drain, index);

	madvise((char *)slot + STREAM_RING_OFFSET, drain->slot_bytes - STREAM_RING_OFFSET,
		MADV_REMOVE);
	__atomic_store_n(&slot->next, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->passed, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->start, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->lost, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->taken, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->waiting, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->state, STREAM_FREE, __ATOMIC_RELEASE);
}

static void large_give_back(struct drain *drain, const struct ring *ring)
{
	if (ring->size == STREAM_RING_LARGE)
		__atomic_add_fetch(&drain->area->large, 1, __ATOMIC_RELAXED);
}

static bool pid_alive(uint32_t pid)
{
	struct pollfd poller = { .events = POLLIN };
	bool alive;

	if (pid == 0 || pid > INT_MAX)
		return false;
	poller.fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	if (poller.fd < 0)
		return false;
	alive = poll(&poller, 1, 0) == 0;
	close(poller.fd);
	return alive;
}

static void process_discover(struct drain *drain, uint32_t index, uint32_t pid)
{
	struct process *process = mem_zalloc(sizeof(*process));

	process->drain = drain;
	process->slot = index;
	process->told.pid = pid;
	process->told.number = (uint32_t)++drain->totals.processes;
	process->was_there = pid_alive(pid);
	ring_init(&process->ring, slot_at(drain, index), drain->relay);
	array_each(&drain->processes, other) {
		if ((*other)->told.pid != pid || (*other)->gone)
			continue;
		(*other)->gone = true;
		process->told.replaces = (*other)->told.number;
	}
	array_each(&drain->threads, thread)
		(*thread)->gone |= (*thread)->pid == pid && (*thread)->log != index;
	*array_push(&drain->processes) = process;
	drain->places[index].process = process;
}

static void thread_discover(struct drain *drain, uint32_t index, const struct stream_slot *slot)
{
	struct thread *thread = mem_zalloc(sizeof(*thread));

	thread->slot = index;
	thread->log = __atomic_load_n(&slot->log, __ATOMIC_RELAXED);
	thread->pid = __atomic_load_n(&slot->pid, __ATOMIC_RELAXED);
	thread->told.tid = __atomic_load_n(&slot->tid, __ATOMIC_RELAXED);
	ring_init(&thread->ring, slot_at(drain, index), drain->relay);
	*array_push(&drain->threads) = thread;
	drain->places[index].thread = thread;
}

static void slot_discover(struct drain *drain, uint32_t index)
{
	struct stream_slot *slot = slot_at(drain, index);
	struct place *place = &drain->places[index];
	uint32_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE), kind;

	if (place->process || place->thread || (state != STREAM_LIVE && state != STREAM_ENDED))
		return;
	kind = __atomic_load_n(&slot->kind, __ATOMIC_RELAXED);
	if (kind == STREAM_LOG)
		process_discover(drain, index, __atomic_load_n(&slot->pid, __ATOMIC_RELAXED));
	else if (kind == STREAM_THREAD)
		thread_discover(drain, index, slot);
	if (index + MARGIN > drain->window)
		drain->window = index + MARGIN < drain->slot_count ? index + MARGIN
								   : drain->slot_count;
}

/* Where engines say that they have taken slots last. */
static void hint_follow(struct drain *drain)
{
	uint32_t hint = __atomic_load_n(&drain->area->hint, __ATOMIC_RELAXED) % drain->slot_count;

	for (; drain->hint != hint; drain->hint = (drain->hint + 1) % drain->slot_count)
		slot_discover(drain, drain->hint);
}

static void slots_scan(struct drain *drain)
{
	for (uint32_t i = 0; i < drain->window; i++)
		slot_discover(drain, i);
}

/* --- Logs ------------------------------------------------------------------------------------------- */

static struct runtable *parent_find(struct drain *drain, const struct process *process,
				    const struct stream_process *record, uint32_t *ret_number)
{
	const struct place *place;

	if (!record || record->parent >= drain->slot_count || record->parent == process->slot)
		return NULL;
	place = &drain->places[record->parent];
	if (!place->process)
		return NULL;
	*ret_number = place->process->told.number;
	return place->process->log.table;
}

static struct runtable *on_process(void *ctx, const struct stream_process *record)
{
	struct process *process = ctx;
	uint32_t inherited = record ? record->inherited : 0;
	struct runtable *parent =
		parent_find(process->drain, process, record, &process->told.parent);

	process->told.runs = runtable_create(parent, inherited);
	sinks_tell(process->drain, process_begin, &process->told);
	return process->told.runs;
}

static void on_record(void *ctx, const struct stream_record *record, uint32_t first)
{
	struct process *process = ctx;

	sinks_tell(process->drain, record, &process->told, record, first);
}

/*
 * What a child inherits is in its parent's log. That may not have been found yet: slots are looked at one after the other,
 * while processes come and fork.
 */
static bool parent_is_missing(struct drain *drain, struct process *process)
{
	struct stream_process first;
	const struct place *place;

	if (process->log.table || !ring_peek(&process->ring, &first, sizeof(first)))
		return false;
	if (first.record.type != STREAM_RECORD_PROCESS || first.parent >= drain->slot_count ||
	    first.parent == process->slot || process->waited == PATIENCE)
		return false;
	place = &drain->places[first.parent];
	if (!place->process)
		slot_discover(drain, first.parent);
	if (place->process && place->process->log.table)
		return false;
	process->waited++;
	return true;
}

static bool log_drain(struct drain *drain, struct process *process)
{
	const struct log_handlers handlers = { on_process, on_record, process };
	size_t size;

	ring_look(&process->ring, sizeof(uint64_t), 0, process->final);
	process->waits = parent_is_missing(drain, process);
	if (process->waits) {
		process->final = false;
		return true;
	}
	size = ring_take(&process->ring, drain->records, sizeof(drain->records));
	log_parse(&process->log, &handlers, drain->records, size);
	return size > 0;
}

/* --- Threads ---------------------------------------------------------------------------------------- */

static bool thread_begin(struct drain *drain, struct thread *thread)
{
	if (thread->begun || thread->log >= drain->slot_count)
		return thread->begun;
	slot_discover(drain, thread->log);
	thread->process = drain->places[thread->log].process;
	if (!thread->process)
		return false;
	if (!thread->process->log.table) /* it may have appeared since the logs were drained */
		log_drain(drain, thread->process);
	if (!thread->process->log.table || thread->process->over) {
		thread->final &= !thread->process->waits;
		thread->process = NULL;
		return false;
	}
	thread->begun = true;
	thread->process->rings++;
	thread->told.process = &thread->process->told;
	thread->told.number = (uint32_t)++drain->totals.threads;
	sinks_tell(drain, thread_begin, &thread->told);
	return true;
}

static void span_tell(struct drain *drain, struct thread *thread, const uint32_t *runs,
		      size_t count)
{
	if (!count)
		return;
	thread->told.kept += count;
	drain->taken += count;
	sinks_tell(drain, runs, &thread->told, runs, count);
}

/* Some of them are not known: around those. */
static void span_sort_out(struct drain *drain, struct thread *thread, size_t count)
{
	const struct runtable *table = thread->process->log.table;
	const struct runtable_run *run;
	size_t from = 0;

	for (size_t i = 0; i < count; i++) {
		if (runtable_find(table, drain->span[i], &run))
			continue;
		span_tell(drain, thread, drain->span + from, i - from);
		thread->told.lost[DRAIN_LOSS_UNKNOWN]++;
		from = i + 1;
	}
	span_tell(drain, thread, drain->span + from, count - from);
}

typedef uint32_t eight __attribute__((vector_size(32)));

/* Whether any of them is not from 1 to the last. */
static inline __attribute__((always_inline)) bool runs_beyond(const uint32_t *runs, size_t count,
							      uint32_t last)
{
	eight beyond = {}, some;
	bool any = false;
	size_t i = 0;

#pragma GCC unroll 4
	for (; i + 8 <= count; i += 8) {
		memcpy(&some, runs + i, sizeof(some));
		beyond |= (eight)(some - 1 >= last);
	}
	for (; i < count; i++)
		any |= runs[i] - 1 >= last;
	for (size_t j = 0; j < 8; j++)
		any |= beyond[j];
	return any;
}

static __attribute__((target("avx2"))) bool runs_beyond_wide(const uint32_t *runs, size_t count,
							     uint32_t last)
{
	return runs_beyond(runs, count, last);
}

static bool span_is_known(const uint32_t *runs, size_t count, const struct runtable *table)
{
	uint32_t last = runtable_limit(table) - 1;
	bool beyond = __builtin_cpu_supports("avx2") ? runs_beyond_wide(runs, count, last)
						     : runs_beyond(runs, count, last);

	return !beyond && !runtable_has_gaps(table);
}

static bool thread_drain(struct drain *drain, struct thread *thread)
{
	bool any = false;
	size_t size;

	if (!thread->begun)
		return false;
	while ((size = ring_take(&thread->ring, drain->span, sizeof(drain->span)))) {
		size_t count = size / sizeof(uint32_t);

		if (span_is_known(drain->span, count, thread->process->log.table))
			span_tell(drain, thread, drain->span, count);
		else
			span_sort_out(drain, thread, count);
		any = true;
	}
	return any;
}

/* Counters, or marks as counters of 1, from the shared memory. */
static void counts_read(struct drain *drain, const struct thread *thread, uint32_t first,
			size_t count)
{
	const char *counters = (const char *)thread->ring.slot + STREAM_COUNTS_OFFSET;

	if (drain->counters == DRAIN_COUNTS)
		memcpy(drain->counts, counters + first * sizeof(uint64_t),
		       count * sizeof(uint64_t));
	else
		for (size_t i = 0; i < count; i++)
			drain->counts[i] = counters[first + i] != 0;
}

static void counts_check(struct drain *drain, struct thread *thread, uint32_t first, size_t count)
{
	const struct runtable *table = thread->process->log.table;
	const struct runtable_run *run;

	for (size_t i = 0; i < count; i++) {
		uint64_t *counter = &drain->counts[i];

		if (!*counter)
			continue;
		if (*counter < COUNT_MAX && runtable_find(table, first + (uint32_t)i, &run)) {
			thread->told.kept += *counter;
			continue;
		}
		thread->told.lost[DRAIN_LOSS_UNKNOWN] += *counter < COUNT_MAX ? *counter : 1;
		*counter = 0;
	}
}

static void counts_tell(struct drain *drain, struct thread *thread)
{
	uint32_t limit = runtable_limit(thread->process->log.table);

	for (uint32_t first = 0; first < limit; first += COUNTS_SPAN) {
		size_t count = limit - first < COUNTS_SPAN ? limit - first : COUNTS_SPAN;

		counts_read(drain, thread, first, count);
		counts_check(drain, thread, first, count);
		sinks_tell(drain, counts, &thread->told, first, drain->counts, count);
	}
}

/* --- Ends ------------------------------------------------------------------------------------------- */

static void thread_account(struct drain *drain, struct thread *thread)
{
	uint64_t lost =
		__atomic_load_n(&thread->ring.slot->lost, __ATOMIC_RELAXED) / sizeof(uint32_t);

	thread->told.lost[DRAIN_LOSS_ABANDONED] += lost < LOSS_MAX ? lost : LOSS_MAX;
	if (!thread->begun)
		thread->told.lost[DRAIN_LOSS_ORPHAN] +=
			(thread->ring.position - thread->ring.taken) / sizeof(uint32_t);
	drain->totals.broken += thread->ring.broken;
	drain->totals.kept += thread->told.kept;
	for (size_t i = 0; i < DRAIN_LOSS_COUNT; i++)
		drain->totals.lost[i] += thread->told.lost[i];
}

static void thread_end(struct drain *drain, struct thread *thread, bool give_back)
{
	if (thread->begun && drain->counters != DRAIN_NO_COUNTERS)
		counts_tell(drain, thread);
	thread_account(drain, thread);
	if (thread->begun) {
		sinks_tell(drain, thread_end, &thread->told);
		thread->process->rings--;
	}
	drain->places[thread->slot].thread = NULL;
	if (give_back) {
		ring_release(&thread->ring);
		large_give_back(drain, &thread->ring);
		slot_give_back(drain, thread->slot);
	}
	free(thread);
}

static void process_end(struct drain *drain, struct process *process, bool give_back)
{
	if (process->log.table)
		sinks_tell(drain, process_end, &process->told);
	drain->totals.broken += process->ring.broken;
	drain->totals.records_seen += process->log.seen;
	drain->totals.records_kept += process->log.kept;
	for (size_t i = 0; i < LOG_FAULT_COUNT; i++)
		drain->totals.records_lost[i] += process->log.lost[i];
	drain->places[process->slot].process = NULL;
	if (give_back) {
		ring_release(&process->ring);
		slot_give_back(drain, process->slot);
	}
	process_free(process);
}

/* A child that says who its parent was may still come. */
static void process_keep(struct drain *drain, struct process *process)
{
	process->over = true;
	process->told.ended = clock_monotonic();
	*array_push(&drain->kept) = process;
	if (drain->kept.count <= KEPT_LOGS)
		return;
	process_end(drain, drain->kept.items[0], true);
	memmove(drain->kept.items, drain->kept.items + 1,
		--drain->kept.count * sizeof(*drain->kept.items));
}

static bool is_over(const struct thread *thread)
{
	return thread->gone || (thread->process && thread->process->gone);
}

/* Those whose last look was after their end. */
static void ends_serve(struct drain *drain)
{
	size_t kept = 0;

	for (size_t i = 0; i < drain->threads.count; i++) {
		struct thread *thread = drain->threads.items[i];

		if (thread->final)
			thread_end(drain, thread, true);
		else
			drain->threads.items[kept++] = thread;
	}
	drain->threads.count = kept;
	kept = 0;
	for (size_t i = 0; i < drain->processes.count; i++) {
		struct process *process = drain->processes.items[i];

		if (process->final && !process->rings)
			process_keep(drain, process);
		else
			drain->processes.items[kept++] = process;
	}
	drain->processes.count = kept;
}

static void deaths_find(struct drain *drain)
{
	array_each(&drain->processes, item) {
		struct process *process = *item;

		if (process->gone || pid_alive(process->told.pid)) {
			process->was_there = true;
			continue;
		}
		process->gone = process->was_there ||
				__atomic_load_n(&process->ring.slot->state, __ATOMIC_ACQUIRE) ==
					STREAM_ENDED;
		if (process->gone)
			drain->scanned = 0; /* it may have threads that nobody has seen yet */
	}
	array_each(&drain->threads, item) {
		struct thread *thread = *item;

		if (thread->begun && thread->pid != thread->process->told.pid)
			thread->gone |= thread->process->was_there && !pid_alive(thread->pid);
	}
}

/* --- Sweeps ----------------------------------------------------------------------------------------- */

/* A signal may undo what a thread has appended last. ends: this is the last look at all of them. */
static void rings_look(struct drain *drain, bool ends)
{
	array_each(&drain->threads, item) {
		struct thread *thread = *item;

		thread->gone |= __atomic_load_n(&thread->ring.slot->state, __ATOMIC_ACQUIRE) ==
				STREAM_ENDED;
		thread->final = is_over(thread);
		ring_look(&thread->ring, sizeof(uint32_t),
			  thread->final || ends ? 0 : sizeof(uint32_t), thread->final);
	}
}

static bool logs_drain(struct drain *drain)
{
	bool any = false;

	for (size_t i = 0; i < drain->processes.count; i++) {
		drain->processes.items[i]->final = drain->processes.items[i]->gone;
		any |= log_drain(drain, drain->processes.items[i]);
	}
	return any;
}

static bool threads_drain(struct drain *drain)
{
	bool any = false;

	for (size_t i = 0; i < drain->threads.count; i++) {
		thread_begin(drain, drain->threads.items[i]);
		any |= thread_drain(drain, drain->threads.items[i]);
	}
	return any;
}

uint64_t drain_taken(const struct drain *drain)
{
	return drain->taken;
}

bool drain_sweep(struct drain *drain)
{
	uint64_t now = clock_monotonic();
	bool any, scans = now - drain->scanned >= SCAN_EVERY;

	drain->bell = __atomic_load_n(&drain->area->bell, __ATOMIC_SEQ_CST);
	relay_here(drain->relay);
	hint_follow(drain);
	if (scans) {
		slots_scan(drain);
		drain->scanned = now;
	}
	rings_look(drain, false);
	any = logs_drain(drain);
	any |= threads_drain(drain);
	ends_serve(drain);
	if (now - drain->buried >= DEATHS_EVERY) {
		deaths_find(drain);
		drain->buried = now;
	}
	if (!any && !scans)
		drain->scanned = 0; /* nobody may sleep before new slots were looked for */
	return any || !scans;
}

static void sleep_until_rung(struct drain *drain, enum stream_sleep sleep, unsigned milliseconds)
{
	const struct timespec timeout = { .tv_sec = milliseconds / 1000,
					  .tv_nsec = milliseconds % 1000 * 1000000L };

	relay_hurry(drain->relay);
	__atomic_store_n(&drain->area->sleeping, sleep, __ATOMIC_SEQ_CST);
	if (sleep == STREAM_NAPPING)
		drain->bell = __atomic_load_n(&drain->area->bell, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &drain->area->bell, FUTEX_WAIT, drain->bell, &timeout, NULL, 0);
	__atomic_store_n(&drain->area->sleeping, STREAM_AWAKE, __ATOMIC_SEQ_CST);
}

void drain_wait(struct drain *drain, unsigned milliseconds)
{
	sleep_until_rung(drain, STREAM_ASLEEP, milliseconds);
}

/* Whoever rang since the last sweep need not be heard: he had little to say. A wake that is missed costs one nap. */
void drain_nap(struct drain *drain, unsigned milliseconds)
{
	sleep_until_rung(drain, STREAM_NAPPING, milliseconds);
}

void drain_wake(struct drain *drain)
{
	__atomic_fetch_add(&drain->area->bell, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &drain->area->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void drain_finish(struct drain *drain)
{
	relay_end(drain->relay);
	drain->window = drain->slot_count;
	slots_scan(drain);
	deaths_find(drain);
	rings_look(drain, true);
	for (unsigned i = 0; i <= PATIENCE; i++)
		logs_drain(drain);
	threads_drain(drain);
	array_each(&drain->threads, thread)
		thread_end(drain, *thread, false);
	drain->threads.count = 0;
	array_each(&drain->kept, process)
		process_end(drain, *process, true);
	array_each(&drain->processes, process)
		process_end(drain, *process, false);
	drain->kept.count = drain->processes.count = 0;
	drain->totals.refused = __atomic_load_n(&drain->area->refused, __ATOMIC_RELAXED);
}
