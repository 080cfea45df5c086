// SPDX-License-Identifier: BSD-2-Clause
#include "support/fake_engine.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Where the producer believes the rings to be: anywhere but where we are. */
static const uint64_t elsewhere = 0x700000000000;

void fake_engine_init(struct fake_engine *engine, unsigned counter_bytes)
{
	int fd = memfd_create("fake", MFD_CLOEXEC);

	engine->slot_bytes = STREAM_COUNTS_OFFSET + (uint64_t)STREAM_SEGMENTS_MAX * counter_bytes;
	engine->size = STREAM_SLOTS + STREAM_SLOT_COUNT * engine->slot_bytes;
	if (fd < 0 || ftruncate(fd, (off_t)engine->size))
		abort();
	engine->memory =
		mmap(NULL, engine->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (engine->memory == MAP_FAILED)
		abort();
	close(fd);
	*fake_area(engine) = (struct stream_area){ .version = STREAM_VERSION,
						   .slot_count = STREAM_SLOT_COUNT,
						   .slot_bytes = engine->slot_bytes,
						   .large = STREAM_LARGE_MAX };
}

void fake_engine_deinit(struct fake_engine *engine)
{
	munmap(engine->memory, engine->size);
}

struct stream_area *fake_area(struct fake_engine *engine)
{
	return (void *)(engine->memory + STREAM_AREA);
}

struct stream_slot *fake_slot(struct fake_engine *engine, uint32_t index)
{
	return (void *)(engine->memory + STREAM_SLOTS + index * engine->slot_bytes);
}

void *fake_counters(struct fake_engine *engine, uint32_t index)
{
	return (char *)fake_slot(engine, index) + STREAM_COUNTS_OFFSET;
}

static void bell_ring(struct fake_engine *engine, bool urgent)
{
	struct stream_area *area = fake_area(engine);
	uint32_t sleeping;

	__atomic_fetch_add(&area->bell, 1, __ATOMIC_SEQ_CST);
	sleeping = __atomic_load_n(&area->sleeping, __ATOMIC_SEQ_CST);
	if (sleeping == STREAM_ASLEEP || (urgent && sleeping == STREAM_NAPPING))
		syscall(SYS_futex, &area->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static uint32_t ring_choose(struct fake_engine *engine, uint32_t kind)
{
	if (kind != STREAM_THREAD || !fake_area(engine)->large)
		return STREAM_RING;
	fake_area(engine)->large--;
	return STREAM_RING_LARGE;
}

static uint32_t slot_open(struct fake_engine *engine, const struct stream_slot *wanted)
{
	for (uint32_t i = 0; i < STREAM_SLOT_COUNT; i++) {
		struct stream_slot *slot = fake_slot(engine, i);
		uint32_t free = STREAM_FREE;

		if (!__atomic_compare_exchange_n(&slot->state, &free, STREAM_TAKEN, false,
						 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		slot->start = slot->next = elsewhere + i * engine->slot_bytes;
		slot->passed = slot->lost = slot->taken = 0;
		slot->kind = wanted->kind;
		slot->ring = ring_choose(engine, wanted->kind);
		slot->pid = wanted->pid;
		slot->tid = wanted->tid;
		slot->catalog = wanted->kind == STREAM_CATALOG ? i : wanted->catalog;
		__atomic_store_n(&slot->state, STREAM_LIVE, __ATOMIC_RELEASE);
		bell_ring(engine, false);
		return i;
	}
	__atomic_fetch_add(&fake_area(engine)->refused, 1, __ATOMIC_SEQ_CST);
	return UINT32_MAX;
}

uint32_t fake_catalog_open(struct fake_engine *engine, uint32_t pid)
{
	return slot_open(engine,
			 &(struct stream_slot){ .kind = STREAM_CATALOG, .pid = pid, .tid = pid });
}

uint32_t fake_thread_open(struct fake_engine *engine, uint32_t catalog, uint32_t pid, uint32_t tid)
{
	return slot_open(engine, &(struct stream_slot){ .kind = STREAM_THREAD,
							.pid = pid,
							.tid = tid,
							.catalog = catalog });
}

static bool has_room(const struct stream_slot *slot)
{
	return slot->passed + 2 * STREAM_CHUNK - __atomic_load_n(&slot->taken, __ATOMIC_SEQ_CST) <=
	       slot->ring;
}

/* The end of a chunk is reached: wait for the consumer, then go on in the next. */
static void chunk_pass(struct fake_engine *engine, struct stream_slot *slot)
{
	const struct timespec second = { .tv_sec = 1 };

	bell_ring(engine, slot->passed + STREAM_CHUNK - slot->taken >= slot->ring / 2);
	while (!has_room(slot)) {
		uint32_t wake = __atomic_load_n(&slot->wake, __ATOMIC_SEQ_CST);

		__atomic_store_n(&slot->waiting, 1, __ATOMIC_SEQ_CST);
		if (!has_room(slot))
			syscall(SYS_futex, &slot->wake, FUTEX_WAIT, wake, &second, NULL, 0);
	}
	__atomic_store_n(&slot->passed, slot->passed + STREAM_CHUNK, __ATOMIC_RELEASE);
	if (slot->passed % slot->ring == 0)
		__atomic_store_n(&slot->next, slot->start, __ATOMIC_RELEASE);
}

static void next_add(struct fake_engine *engine, struct stream_slot *slot, const char *bytes,
		     size_t size)
{
	char *ring = (char *)slot + STREAM_RING_OFFSET;
	uint64_t next = slot->next;

	while (size) {
		size_t used = next - (slot->start + slot->passed % slot->ring);
		size_t part = STREAM_CHUNK - used;

		if (!part) {
			__atomic_store_n(&slot->next, next, __ATOMIC_RELEASE);
			chunk_pass(engine, slot);
			next = slot->next;
			continue;
		}
		part = part < size ? part : size;
		memcpy(ring + (next - slot->start), bytes, part);
		next += part;
		bytes += part;
		size -= part;
	}
	__atomic_store_n(&slot->next, next, __ATOMIC_RELEASE);
}

void fake_append(struct fake_engine *engine, uint32_t index, const void *bytes, size_t size)
{
	next_add(engine, fake_slot(engine, index), bytes, size);
}

void fake_segments(struct fake_engine *engine, uint32_t index, const uint32_t *segments,
		   size_t count)
{
	fake_append(engine, index, segments, count * sizeof(*segments));
}

void fake_end(struct fake_engine *engine, uint32_t index)
{
	__atomic_store_n(&fake_slot(engine, index)->state, STREAM_ENDED, __ATOMIC_RELEASE);
}

void fake_process(struct fake_engine *engine, uint32_t catalog, uint32_t pid, uint32_t parent,
		  uint32_t inherited)
{
	const struct stream_process record = { { sizeof(record), STREAM_RECORD_PROCESS },
					       .pid = pid,
					       .parent = parent,
					       .inherited = inherited };

	fake_append(engine, catalog, &record, sizeof(record));
}

void fake_fragment(struct fake_engine *engine, uint32_t catalog, uint32_t first, uint32_t count,
		   uint64_t pc)
{
	struct {
		struct stream_segments head;
		struct stream_block blocks[STREAM_SEGMENT_BLOCKS_MAX];
	} record = { { { (uint32_t)(sizeof(struct stream_segments) +
				    count * sizeof(struct stream_block)),
			 STREAM_RECORD_SEGMENTS },
		       first,
		       count } };

	for (uint32_t i = 0; i < count && i < STREAM_SEGMENT_BLOCKS_MAX; i++)
		record.blocks[i] = (struct stream_block){ pc + i * 16, 16, 4 };
	fake_append(engine, catalog, &record, record.head.record.size);
}

void fake_partial(struct fake_engine *engine, uint32_t catalog, uint32_t segment, uint32_t first,
		  uint32_t blocks, struct stream_block last)
{
	const struct stream_partial record = { { sizeof(record), STREAM_RECORD_PARTIAL },
					       .segment = segment,
					       .first = first,
					       .blocks = blocks,
					       .last = last };

	fake_append(engine, catalog, &record, sizeof(record));
}

void fake_module(struct fake_engine *engine, uint32_t catalog, uint64_t start, uint64_t end,
		 uint64_t offset, const char *path)
{
	struct {
		struct stream_module head;
		char path[512];
	} record = {};
	size_t length = (strlen(path) + 8) / 8 * 8;
	struct stat info = {};

	stat(path, &info);
	record.head = (struct stream_module){ { (uint32_t)(sizeof(struct stream_module) + length),
						STREAM_RECORD_MODULE },
					      .start = start,
					      .end = end,
					      .offset = offset,
					      .inode = info.st_ino,
					      .device_major = major(info.st_dev),
					      .device_minor = minor(info.st_dev) };
	memcpy(record.path, path, strlen(path));
	fake_append(engine, catalog, &record, record.head.record.size);
}
