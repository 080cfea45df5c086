// SPDX-License-Identifier: BSD-2-Clause
/*
 * Writes what the engine records into shared memory. wire/stream.h has the layout and the protocol.
 *
 *	in	segments of new fragments, and what threads append
 *	out	the catalog of the process and the rings of its threads, in shared memory
 *	owner	the process; a slot is its thread's from when it is taken until it has ended
 *
 * The first page of a thread's slot is mapped a second time, into the thread's own memory: so
 * inline code finds its ring through gs, and the host always sees how far it is, even if the
 * process dies by SIGKILL. Counters lie there too.
 *
 * Invariants
 * 1. A segment is in the catalog before it is in a ring.
 * 2. A thread that has no slot, or whose host is gone, has a private ring. Segments that go there
 *    are counted as lost.
 * 3. In inline code, next never is at the end of a chunk.
 */
#include "engine/stream.h"

#include <linux/futex.h>
#include <linux/mman.h>
#include <linux/uio.h>

#include "engine/sys.h"
#include "engine/tool.h"
#include "engine/tools/marks.h"

enum {
	NO_SLOT = 0xffffffff,
	PAGE = 4096,
	PATIENCE_MS = 50,
	SLOT_WAIT_MS = 5,
	SLOT_WAITS = 200,
	PARTIALS = 1 << 12, /* remembered */
};

static struct stream_slot *catalog_slot;
static uint32_t catalog_number = NO_SLOT;
static uint32_t segment_next = 1;

/* Partial segments that are likely to come again. */
static struct partial {
	uint32_t first, block, length, segment;
} partials[PARTIALS];

bool stream_wanted(void)
{
	return engine_boot.shared_size > STREAM_ALONE_SIZE;
}

static struct stream_area *area(void)
{
	return (struct stream_area *)(engine_boot.shared + STREAM_AREA);
}

/* Computed from the size of the memory, because a child that records nothing has no area. */
static uint64_t slot_bytes(void)
{
	return (engine_boot.shared_size - STREAM_SLOTS) / STREAM_SLOT_COUNT;
}

static struct stream_slot *slot_at(uint32_t number)
{
	return (struct stream_slot *)(engine_boot.shared + STREAM_SLOTS + number * slot_bytes());
}

static uint64_t counts_size(void)
{
	return stream_wanted() ? slot_bytes() - STREAM_COUNTS_OFFSET : 0;
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

const struct stream_gates *stream_gates(struct thread *thread)
{
	return (const struct stream_gates *)((uint8_t *)thread + THREAD_GATES);
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

void stream_host_wake(void)
{
	bell_ring(true);
}

bool stream_is_read(struct thread *thread)
{
	return thread_slot(thread)->kind == STREAM_THREAD;
}

/* --- Slots ------------------------------------------------------------------------------- */

static uint32_t slot_find(void)
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
	return NO_SLOT;
}

/*
 * If processes start and end faster than the host can store them, they wait for a free slot. If all
 * slots belong to threads that are alive, only the first thread waits; it tells the others by
 * `crowded`.
 */
static uint32_t slot_take(void)
{
	uint32_t number = slot_find();

	for (unsigned i = 0; i < SLOT_WAITS && number == NO_SLOT; i++) {
		if (__atomic_load_n(&area()->crowded, __ATOMIC_RELAXED) || !host_alive())
			break;
		bell_ring(true);
		engine_wait(&area()->crowded, 0, FUTEX_WAIT, SLOT_WAIT_MS);
		number = slot_find();
	}
	if (number != NO_SLOT)
		return number;
	__atomic_store_n(&area()->crowded, 1, __ATOMIC_RELAXED);
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

/* The inode that the kernel names its links by, as in pid:[4026531836]; 0: there is no /proc. */
static uint32_t pid_space(void)
{
	char link[32];
	long size = sys_3(readlink, "/proc/self/ns/pid", link, sizeof(link));
	uint32_t inode = 0;

	for (long i = 0; i < size; i++)
		if (link[i] >= '0' && link[i] <= '9')
			inode = inode * 10 + (uint32_t)(link[i] - '0');
	return inode;
}

static void slot_fill(struct stream_slot *slot, enum stream_kind kind, uint32_t catalog)
{
	slot->start = (uint64_t)slot + STREAM_RING_OFFSET;
	slot->next = slot->start;
	slot->passed = slot->taken = slot->lost = 0;
	slot->wake = slot->waiting = 0;
	slot->kind = kind;
	slot->ring = kind == STREAM_THREAD ? ring_choose() : STREAM_RING;
	slot->pid = (uint32_t)sys_0(getpid);
	slot->tid = (uint32_t)sys_0(gettid);
	slot->catalog = catalog;
	slot->pid_space = kind == STREAM_CATALOG ? pid_space() : 0;
	__atomic_store_n(&slot->state, STREAM_LIVE, __ATOMIC_RELEASE);
	bell_ring(false);
}

/* Maps the same memory a second time, over another address (mremap() with an old size of 0). */
static void map_again(const void *from, size_t size, void *to)
{
	long result = sys6(__NR_mremap, (long)from, 0, (long)size, MREMAP_MAYMOVE | MREMAP_FIXED,
			   (long)to, 0);

	if (sys_failed(result))
		engine_die("cannot map the memory to record in");
}

/* A thread that has no slot records into private memory, which the host does not read. */
static void slot_map_private(struct thread *thread)
{
	struct stream_slot *slot = thread_slot(thread);

	memory_map_at((uint64_t)slot, PAGE);
	slot->start = (uint64_t)memory_map(2 * STREAM_CHUNK);
	slot->start = (slot->start + STREAM_CHUNK - 1) & ~(uint64_t)(STREAM_CHUNK - 1);
	slot->next = slot->start;
	slot->ring = STREAM_RING;
	memory_map_at((uint64_t)stream_gates(thread), PAGE);
	if (counts_size())
		memory_map_at((uint64_t)stream_counts(thread), counts_size());
}

void stream_thread_start(struct thread *thread)
{
	uint32_t number = catalog_number == NO_SLOT ? NO_SLOT : slot_take();
	struct stream_slot *slot;

	if (number == NO_SLOT) {
		slot_map_private(thread);
		return;
	}
	slot = slot_at(number);
	map_again(slot, PAGE, thread_slot(thread));
	map_again((const void *)(engine_boot.shared + STREAM_GATES), PAGE,
		  (void *)stream_gates(thread));
	if (counts_size())
		map_again((uint8_t *)slot + STREAM_COUNTS_OFFSET, counts_size(),
			  stream_counts(thread));
	slot_fill(slot, STREAM_THREAD, catalog_number);
}

/* Empties a private ring and adds the number of its segments to `unrecorded`. */
static void unrecorded_count(struct stream_slot *slot)
{
	uint64_t bytes = slot->next - slot->start;

	slot->next = slot->start;
	__atomic_add_fetch(&area()->unrecorded, bytes / sizeof(uint32_t), __ATOMIC_RELAXED);
}

void stream_thread_end(struct thread *thread)
{
	struct stream_slot *slot = thread_slot(thread);

	if (slot->kind != STREAM_THREAD) {
		unrecorded_count(slot);
		return;
	}
	__atomic_store_n(&slot->state, STREAM_ENDED, __ATOMIC_RELEASE);
	bell_ring(false);
}

void stream_process_end(struct thread *thread)
{
	if (stream_wanted() && thread_slot(thread)->kind != STREAM_THREAD)
		unrecorded_count(thread_slot(thread));
}

/* --- Rings ------------------------------------------------------------------------------- */

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

/* Waits for room in a ring. False: the host is gone. */
static bool room_wait(struct stream_slot *slot)
{
	while (!has_room(slot)) {
		uint32_t wake = __atomic_load_n(&slot->wake, __ATOMIC_SEQ_CST);

		__atomic_store_n(&slot->waiting, 1, __ATOMIC_SEQ_CST);
		if (has_room(slot))
			break;
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
		unrecorded_count(slot);
		return;
	}
	bell_ring(is_half_full(slot));
	if (!room_wait(slot))
		slot->lost += STREAM_CHUNK;
	chunk_pass(slot, chunk_after(slot));
}

void stream_append(struct thread *thread, uint32_t segment)
{
	struct stream_slot *slot = thread_slot(thread);

	*(uint32_t *)slot->next = segment;
	__atomic_store_n(&slot->next, slot->next + 4, __ATOMIC_RELEASE);
}

void stream_unappend(struct thread *thread, uint32_t segment)
{
	struct stream_slot *slot = thread_slot(thread);

	__atomic_store_n(&slot->next, slot->next - 4, __ATOMIC_RELEASE);
}

/* --- The catalog ------------------------------------------------------------------------- */

/*
 * Writes a record to the catalog, across the end of a chunk if necessary; the reader sees both
 * parts at once.
 */
static void catalog_write(const void *record, size_t size)
{
	struct stream_slot *slot = catalog_slot;
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

/* By a number that no catalog of another process has. */
static uint32_t catalog_place(uint32_t number)
{
	const struct engine_shared *shared = (const struct engine_shared *)engine_boot.shared;

	return shared->serial * STREAM_SLOT_COUNT + number;
}

uint32_t stream_catalog(void)
{
	return catalog_number == NO_SLOT ? NO_SLOT : catalog_place(catalog_number);
}

static void catalog_open(uint32_t parent, uint32_t inherited)
{
	struct stream_process process = {
		.record = { sizeof(process), STREAM_RECORD_PROCESS },
		.inherited = inherited,
	};
	uint32_t number = slot_take();

	catalog_number = number;
	catalog_slot = number == NO_SLOT ? NULL : slot_at(number);
	if (!catalog_slot)
		return;
	slot_fill(catalog_slot, STREAM_CATALOG, number);
	process.pid = catalog_slot->pid;
	process.parent = parent == NO_SLOT ? catalog_place(number) : parent;
	catalog_write(&process, sizeof(process));
}

uint32_t stream_catalog_number(void)
{
	return catalog_number;
}

void stream_start(void)
{
	catalog_open(NO_SLOT, 1);
}

void stream_forget(struct thread *thread)
{
	memory_map_at((uint64_t)thread_slot(thread), PAGE);
	if (counts_size())
		memory_map_at((uint64_t)stream_counts(thread), counts_size());
}

void stream_fork(struct thread *thread, uint32_t parent)
{
	catalog_open(parent, segment_next);
	counters_tell_again();
	stream_thread_start(thread);
}

uint32_t stream_segments_next(void)
{
	return segment_next + BLOCKS_MAX < STREAM_SEGMENTS_MAX ? segment_next : 0;
}

/*
 * A fault has stopped a thread while it wrote to the catalog: the numbers of segments that it may
 * have used are not used again.
 */
void stream_skip(void)
{
	if (stream_segments_next())
		segment_next += BLOCKS_MAX;
}

/* Code that is in no file cannot be read later. */
static void code_define(const struct block *block)
{
	struct {
		struct stream_code head;
		uint8_t bytes[STREAM_BLOCK_INSTRUCTIONS_MAX * 15 + 8];
	} code = { .head = { .pc = block->pc, .length = block->length } };
	const struct region *region = region_of(block->pc);
	uint32_t rights;

	if (!region || region->inode || !block->length)
		return;
	rights = keys_open();
	memory_copy(code.bytes, (const void *)block->pc, block->length);
	keys_close(rights);
	code.head.record.size = (uint32_t)((sizeof(code.head) + block->length + 7) & ~7ull);
	code.head.record.type = STREAM_RECORD_CODE;
	catalog_write(&code, code.head.record.size);
}

void stream_segments_define(const struct fragment *fragment)
{
	struct {
		struct stream_segments head;
		struct stream_block blocks[BLOCKS_MAX];
	} segments = { .head = { .first = fragment->first_segment } };
	uint32_t count = fragment->block_count;

	if (!fragment->blocks[count - 1].instructions)
		count--; /* it stands for an instruction that cannot be executed */
	if (!count)
		return;
	for (uint32_t i = 0; i < count; i++) {
		const struct block *block = &fragment->blocks[i];

		code_define(block);
		segments.blocks[i] =
			(struct stream_block){ block->pc, block->length, block->instructions };
	}
	segments.head.count = count;
	segments.head.record.type = STREAM_RECORD_SEGMENTS;
	segments.head.record.size =
		(uint32_t)(sizeof(segments.head) + count * sizeof(segments.blocks[0]));
	catalog_write(&segments, segments.head.record.size);
	segment_next += count;
}

uint32_t stream_partial(const struct fragment *fragment, unsigned block,
			const struct stream_block *last)
{
	uint32_t first = fragment->first_segment;
	struct partial *known = &partials[(first * 31 + block * 7 + last->length) % PARTIALS];
	struct stream_partial record = {
		.record = { sizeof(record), STREAM_RECORD_PARTIAL },
		.first = first,
		.blocks = block,
		.last = *last,
	};

	if (known->segment && known->first == first && known->block == block &&
	    known->length == last->length)
		return known->segment;
	if (!stream_segments_next())
		return 0;
	record.segment = segment_next++;
	catalog_write(&record, sizeof(record));
	tools_partial(record.segment, first + block, &record);
	*known = (struct partial){ first, block, last->length, record.segment };
	return record.segment;
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
	catalog_write(&module, module.head.record.size);
}

void stream_native(const struct thread *thread)
{
	struct stream_native record = {
		.record = { sizeof(record), STREAM_RECORD_NATIVE },
		.pc = thread->pc,
		.tid = thread->tid,
	};

	catalog_write(&record, sizeof(record));
}

void stream_counter(uint32_t tool, uint32_t index, uint64_t pc, const char *name)
{
	enum { NAME_MAX_ = 64 };
	struct {
		struct stream_counter head;
		char name[NAME_MAX_];
	} counter = { .head = { .tool = tool, .index = index, .pc = pc } };
	size_t length = 0;

	while (name[length] && length < NAME_MAX_ - 1) {
		counter.name[length] = name[length];
		length++;
	}
	counter.head.record.type = STREAM_RECORD_COUNTER;
	counter.head.record.size = (uint32_t)((sizeof(counter.head) + length + 8) & ~7ull);
	catalog_write(&counter, counter.head.record.size);
}

void stream_marked(uint32_t segment, const struct stream_mark *marks, uint32_t count)
{
	struct {
		struct stream_marked head;
		struct stream_mark marks[STREAM_MARKED_MAX];
	} marked = { .head = { .segment = segment, .count = count } };

	for (uint32_t i = 0; i < count; i++)
		marked.marks[i] = marks[i];
	marked.head.record.type = STREAM_RECORD_MARKED;
	marked.head.record.size =
		(uint32_t)((sizeof(marked.head) + count * sizeof(*marks) + 7) & ~7ull);
	catalog_write(&marked, marked.head.record.size);
}

/* Copies a part of the stack, up to the first page that is not mapped. */
static uint32_t stack_copy(uint64_t from, void *to, uint32_t size)
{
	struct iovec here = { to, size }, there = { (void *)from, size };
	long copied = sys_6(process_vm_readv, sys_0(getpid), &here, 1, &there, 1, 0);

	return copied > 0 ? (uint32_t)copied : 0;
}

void stream_event(const struct thread *thread, const struct mark_event *from)
{
	static struct {
		struct stream_event head;
		uint8_t stack[STREAM_STACK_MAX];
	} event;
	enum { CLOCK_MONOTONIC_ = 1 };
	uint64_t now[2] = {}; /* struct timespec: seconds, nanoseconds */

	sys_2(clock_gettime, CLOCK_MONOTONIC_, now);
	event.head = (struct stream_event){
		.time = now[0] * 1000000000 + now[1],
		.pc = from->pc,
		.mark = from->mark,
		.access = from->access,
		.tid = (uint32_t)sys_0(gettid),
		.ticks = from->ticks,
	};
	for (size_t i = 0; i < 16; i++)
		event.head.registers[i] = thread->regs[i];
	event.head.stack_size = stack_copy(thread->regs[RSP], event.stack, STREAM_STACK_MAX) & ~7u;
	event.head.record.type = STREAM_RECORD_EVENT;
	event.head.record.size = (uint32_t)(sizeof(event.head) + event.head.stack_size);
	catalog_write(&event, event.head.record.size);
}
