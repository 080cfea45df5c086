// SPDX-License-Identifier: BSD-2-Clause
/*
 * What the engine records, where the host can read it. wire/stream.h has the layout and the rules.
 *
 * The first page of a thread's slot is mapped a second time, into the thread's own memory: so inline code finds its ring
 * through gs, and the host always sees how far it is, even if the process dies by SIGKILL. Counters lie there too.
 *
 * Invariants
 * 1. A run is in the log before it is in a ring.
 * 2. A thread that has no slot, or whose host is gone, has a ring all the same. What goes there is counted as lost.
 * 3. In inline code, next never is at the end of a chunk.
 */
#include "engine/stream.h"

#include <linux/futex.h>
#include <linux/mman.h>

#include "engine/sys.h"

enum {
	NO_SLOT = 0xffffffff,
	PAGE = 4096,
	PATIENCE_MS = 50,
	PARTIALS = 1 << 12, /* remembered */
};

static struct stream_slot *log_slot;
static uint32_t log_number = NO_SLOT;
static uint32_t run_next = 1;

/* Partial runs that are likely to come again. */
static struct partial {
	uint32_t first, piece, length, run;
} partials[PARTIALS];

bool stream_wanted(void)
{
	return engine_boot.shared_size > ENGINE_SHARED_SIZE;
}

static struct stream_area *area(void)
{
	return (struct stream_area *)(engine_boot.shared + STREAM_AREA);
}

static struct stream_slot *slot_at(uint32_t number)
{
	return (struct stream_slot *)(engine_boot.shared + STREAM_SLOTS +
				      number * area()->slot_bytes);
}

static uint64_t counts_size(void)
{
	return stream_wanted() ? area()->slot_bytes - STREAM_COUNTS_OFFSET : 0;
}

size_t stream_thread_bytes(void)
{
	return counts_size() ? THREAD_COUNTS + counts_size() : THREAD_BYTES;
}

static struct stream_slot *thread_slot(struct thread *thread)
{
	return (struct stream_slot *)((uint8_t *)thread + THREAD_STREAM);
}

uint8_t *stream_counts(struct thread *thread)
{
	return (uint8_t *)thread + THREAD_COUNTS;
}

/* urgent: the host should not even nap. */
static void bell_ring(bool urgent)
{
	uint32_t sleeping;

	__atomic_add_fetch(&area()->bell, 1, __ATOMIC_SEQ_CST);
	sleeping = __atomic_load_n(&area()->sleeping, __ATOMIC_SEQ_CST);
	if (sleeping == STREAM_ASLEEP || (urgent && sleeping == STREAM_NAPPING))
		sys_3(futex, &area()->bell, FUTEX_WAKE, 1);
}

/* --- Slots ----------------------------------------------------------------------------------------------- */

static uint32_t slot_take(void)
{
	uint32_t count = area()->slot_count;
	uint32_t hint = __atomic_load_n(&area()->hint, __ATOMIC_RELAXED);

	for (uint32_t i = 0; i < count; i++) {
		uint32_t number = (hint + i) % count, state = STREAM_FREE;

		if (!__atomic_compare_exchange_n(&slot_at(number)->state, &state, STREAM_TAKEN,
						 false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		__atomic_store_n(&area()->hint, (number + 1) % count, __ATOMIC_RELAXED);
		return number;
	}
	__atomic_add_fetch(&area()->refused, 1, __ATOMIC_RELAXED);
	return NO_SLOT;
}

/* There are only a few large ones for all threads of all programs. */
static uint32_t ring_choose(void)
{
	uint32_t left = __atomic_load_n(&area()->large, __ATOMIC_RELAXED);

	while (left)
		if (__atomic_compare_exchange_n(&area()->large, &left, left - 1, false,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return STREAM_RING_LARGE;
	return STREAM_RING;
}

static void slot_fill(struct stream_slot *slot, enum stream_kind kind, uint32_t log)
{
	slot->start = (uint64_t)slot + STREAM_RING_OFFSET;
	slot->next = slot->start;
	slot->passed = slot->taken = slot->lost = 0;
	slot->wake = slot->waiting = 0;
	slot->kind = kind;
	slot->ring = kind == STREAM_THREAD ? ring_choose() : STREAM_RING;
	slot->pid = (uint32_t)sys_0(getpid);
	slot->tid = (uint32_t)sys_0(gettid);
	slot->log = log;
	__atomic_store_n(&slot->state, STREAM_LIVE, __ATOMIC_RELEASE);
	bell_ring(false);
}

/* The same memory once more, in the place of what is there; the kernel knows it by a size of 0. */
static void map_again(const void *from, size_t size, void *to)
{
	long result = sys6(__NR_mremap, (long)from, 0, (long)size, MREMAP_MAYMOVE | MREMAP_FIXED,
			   (long)to, 0);

	if (sys_failed(result))
		engine_die("cannot map the memory to record in");
}

/* Nobody will read it. */
static void slot_map_private(struct thread *thread)
{
	struct stream_slot *slot = thread_slot(thread);

	memory_map_at((uint64_t)slot, PAGE);
	slot->start = (uint64_t)memory_map(2 * STREAM_CHUNK);
	slot->start = (slot->start + STREAM_CHUNK - 1) & ~(uint64_t)(STREAM_CHUNK - 1);
	slot->next = slot->start;
	slot->ring = STREAM_RING;
	if (counts_size())
		memory_map_at((uint64_t)stream_counts(thread), counts_size());
}

void stream_thread_start(struct thread *thread)
{
	uint32_t number = log_number == NO_SLOT ? NO_SLOT : slot_take();
	struct stream_slot *slot;

	if (number == NO_SLOT) {
		slot_map_private(thread);
		return;
	}
	slot = slot_at(number);
	map_again(slot, PAGE, thread_slot(thread));
	if (counts_size())
		map_again((uint8_t *)slot + STREAM_COUNTS_OFFSET, counts_size(),
			  stream_counts(thread));
	slot_fill(slot, STREAM_THREAD, log_number);
}

void stream_thread_end(struct thread *thread)
{
	struct stream_slot *slot = thread_slot(thread);

	if (slot->kind != STREAM_THREAD)
		return;
	__atomic_store_n(&slot->state, STREAM_ENDED, __ATOMIC_RELEASE);
	bell_ring(false);
}

/* --- Rings ----------------------------------------------------------------------------------------------- */

static bool has_room(const struct stream_slot *slot)
{
	return slot->passed + 2 * STREAM_CHUNK - __atomic_load_n(&slot->taken, __ATOMIC_ACQUIRE) <=
	       slot->ring;
}

static bool is_half_full(const struct stream_slot *slot)
{
	return slot->passed + STREAM_CHUNK - __atomic_load_n(&slot->taken, __ATOMIC_RELAXED) >=
	       slot->ring / 2;
}

/* This thread is about to leave its CPU to one of the host's. */
static void reserve_wake(void)
{
	if (__atomic_load_n(&area()->reserves, __ATOMIC_SEQ_CST))
		sys_3(futex, &area()->held, FUTEX_WAKE, 1);
}

/* False: the host is gone, and nobody reads any more. */
static bool room_wait(struct stream_slot *slot)
{
	while (!has_room(slot)) {
		uint32_t wake = __atomic_load_n(&slot->wake, __ATOMIC_SEQ_CST);
		bool begins = !__atomic_exchange_n(&slot->waiting, 1, __ATOMIC_SEQ_CST);

		if (begins)
			__atomic_add_fetch(&area()->held, 1, __ATOMIC_SEQ_CST);
		if (has_room(slot))
			break;
		if (begins)
			reserve_wake();
		if (!host_alive())
			return false;
		engine_wait(&slot->wake, wake, FUTEX_WAIT, PATIENCE_MS);
	}
	return true;
}

/* The next place after the end of a chunk; the first in the next one. */
static uint64_t chunk_after(const struct stream_slot *slot)
{
	return slot->start + (slot->passed + STREAM_CHUNK) % slot->ring;
}

static void chunk_pass(struct stream_slot *slot, uint64_t next)
{
	__atomic_store_n(&slot->passed, slot->passed + STREAM_CHUNK, __ATOMIC_RELEASE);
	__atomic_store_n(&slot->next, next, __ATOMIC_RELEASE);
}

static bool is_full(const struct stream_slot *slot)
{
	return slot->next % STREAM_CHUNK == 0 && slot->next &&
	       slot->next != slot->start + slot->passed % slot->ring;
}

const uint32_t *stream_chunk(struct thread *thread, uint32_t *ret_count)
{
	const struct stream_slot *slot = thread_slot(thread);

	if (slot->kind != STREAM_THREAD || !is_full(slot))
		return NULL;
	*ret_count = STREAM_CHUNK / sizeof(uint32_t);
	return (const uint32_t *)(slot->next - STREAM_CHUNK);
}

void stream_settle(struct thread *thread)
{
	struct stream_slot *slot = thread_slot(thread);

	if (!is_full(slot))
		return;
	if (slot->kind != STREAM_THREAD) {
		slot->next = slot->start;
		return;
	}
	bell_ring(is_half_full(slot));
	if (!room_wait(slot))
		slot->lost += STREAM_CHUNK;
	chunk_pass(slot, chunk_after(slot));
}

void stream_append(struct thread *thread, uint32_t run)
{
	struct stream_slot *slot = thread_slot(thread);

	*(uint32_t *)slot->next = run;
	__atomic_store_n(&slot->next, slot->next + 4, __ATOMIC_RELEASE);
}

void stream_unappend(struct thread *thread, uint32_t run)
{
	struct stream_slot *slot = thread_slot(thread);

	__atomic_store_n(&slot->next, slot->next - 4, __ATOMIC_RELEASE);
}

/* --- The log --------------------------------------------------------------------------------------------- */

/* Up to the end of the chunk, then in the next; both show at once. */
static void log_write(const void *record, size_t size)
{
	struct stream_slot *slot = log_slot;
	uint64_t at, end, first;

	if (!slot)
		return;
	at = slot->next;
	end = slot->start + slot->passed % slot->ring + STREAM_CHUNK;
	first = end - at < size ? end - at : size;
	for (uint64_t i = 0; i < first / 8; i++)
		((uint64_t *)at)[i] = ((const uint64_t *)record)[i];
	if (at + size < end) {
		__atomic_store_n(&slot->next, at + size, __ATOMIC_RELEASE);
		return;
	}
	bell_ring(is_half_full(slot));
	if (!room_wait(slot))
		slot->lost += size;
	for (uint64_t i = first / 8; i < size / 8; i++)
		((uint64_t *)chunk_after(slot))[i - first / 8] = ((const uint64_t *)record)[i];
	chunk_pass(slot, chunk_after(slot) + size - first);
}

static void log_open(uint32_t parent, uint32_t inherited)
{
	struct stream_process process = {
		.record = { sizeof(process), STREAM_RECORD_PROCESS },
		.inherited = inherited,
	};
	uint32_t number = slot_take();

	log_number = number;
	log_slot = number == NO_SLOT ? NULL : slot_at(number);
	if (!log_slot)
		return;
	slot_fill(log_slot, STREAM_LOG, number);
	process.pid = log_slot->pid;
	process.parent = parent == NO_SLOT ? number : parent;
	log_write(&process, sizeof(process));
}

void stream_start(void)
{
	log_open(NO_SLOT, 1);
}

void stream_fork(struct thread *thread)
{
	log_open(log_number, run_next);
	stream_thread_start(thread);
}

uint32_t stream_runs_next(void)
{
	return run_next + PIECES_MAX < STREAM_RUNS_MAX ? run_next : 0;
}

/* Code that is in no file cannot be read later. */
static void code_define(const struct piece *piece)
{
	struct {
		struct stream_code head;
		uint8_t bytes[STREAM_BLOCK_MAX * 15 + 8];
	} code = { .head = { .pc = piece->pc, .length = piece->length } };
	const struct region *region = region_of(piece->pc);

	if (!region || region->inode || !piece->length)
		return;
	for (uint32_t i = 0; i < piece->length; i++)
		code.bytes[i] = ((const volatile uint8_t *)piece->pc)[i];
	code.head.record.size = (uint32_t)((sizeof(code.head) + piece->length + 7) & ~7ull);
	code.head.record.type = STREAM_RECORD_CODE;
	log_write(&code, code.head.record.size);
}

void stream_runs_define(const struct fragment *fragment)
{
	struct {
		struct stream_runs head;
		struct stream_piece pieces[PIECES_MAX];
	} runs = { .head = { .first = fragment->first_run } };
	uint32_t count = fragment->piece_count;

	if (!fragment->pieces[count - 1].instructions)
		count--; /* it stands for an instruction that cannot be executed */
	if (!count)
		return;
	for (uint32_t i = 0; i < count; i++) {
		const struct piece *piece = &fragment->pieces[i];

		code_define(piece);
		runs.pieces[i] =
			(struct stream_piece){ piece->pc, piece->length, piece->instructions };
	}
	runs.head.count = count;
	runs.head.record.type = STREAM_RECORD_RUNS;
	runs.head.record.size = (uint32_t)(sizeof(runs.head) + count * sizeof(runs.pieces[0]));
	log_write(&runs, runs.head.record.size);
	run_next += count;
}

uint32_t stream_partial(const struct fragment *fragment, unsigned piece,
			const struct stream_piece *last)
{
	uint32_t first = fragment->first_run;
	struct partial *known = &partials[(first * 31 + piece * 7 + last->length) % PARTIALS];
	struct stream_partial record = {
		.record = { sizeof(record), STREAM_RECORD_PARTIAL },
		.first = first,
		.pieces = piece,
		.last = *last,
	};

	if (known->run && known->first == first && known->piece == piece &&
	    known->length == last->length)
		return known->run;
	if (!stream_runs_next())
		return 0;
	record.run = run_next++;
	log_write(&record, sizeof(record));
	*known = (struct partial){ first, piece, last->length, record.run };
	return record.run;
}

void stream_module(const struct region *region, const char *path)
{
	enum { PATH_MAX_ = 512 };
	struct {
		struct stream_module head;
		char path[PATH_MAX_];
	} module = { .head = { .start = region->start,
			       .end = region->end,
			       .offset = region->offset,
			       .inode = region->inode,
			       .device_major = region->device_major,
			       .device_minor = region->device_minor } };
	size_t length = 0;

	while (path[length] && length < PATH_MAX_ - 1) {
		module.path[length] = path[length];
		length++;
	}
	module.head.record.type = STREAM_RECORD_MODULE;
	module.head.record.size = (uint32_t)((sizeof(module.head) + length + 8) & ~7ull);
	log_write(&module, module.head.record.size);
}

void stream_native(const struct thread *thread)
{
	struct stream_native record = {
		.record = { sizeof(record), STREAM_RECORD_NATIVE },
		.pc = thread->pc,
		.tid = thread->tid,
	};

	log_write(&record, sizeof(record));
}
