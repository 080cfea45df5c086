// SPDX-License-Identifier: BSD-2-Clause
/*
 * The engine's own memory: pieces of large mappings, never given back. The caller holds the
 * engine's lock. Structures whose number depends on the program's behaviour take their memory from
 * an arena's notes instead (arenas.c), or from free lists of their own.
 */
#include <asm/errno.h>
#include <linux/mman.h>

#include "engine/engine.h"
#include "engine/sys.h"

enum { CHUNK = 1 << 20, ALIGNMENT = 16, PAGE = 4096, ATTEMPTS = 8 };

static uint8_t *chunk;
static size_t left;

struct engine_mappings memory_mappings;
uint64_t memory_changes;

void memory_hide(uint64_t start, uint64_t size)
{
	sys_3(madvise, start, size, MADV_DONTDUMP);
}

/* Mappings are whole pages, whoever wants less: in the maps the program sees, no part is left. */
static uint64_t pages_of(uint64_t size)
{
	return (size + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

/*
 * Adjacent mappings are joined. If there are too many, the rest is not noted, and stays mapped
 * after the engine has left the process.
 */
static void mapping_add(uint64_t start, uint64_t size)
{
	struct engine_mappings *all = &memory_mappings;

	memory_changes++;
	memory_hide(start, size);
	for (size_t i = 0; i < all->count; i++) {
		struct engine_mapping *mapping = &all->items[i];

		if (start + size == mapping->start)
			mapping->start = start;
		else if (mapping->start + mapping->size != start)
			continue;
		mapping->size += size;
		return;
	}
	if (all->count < ENGINE_MAPPINGS)
		all->items[all->count++] = (struct engine_mapping){ start, size };
}

void memory_note(uint64_t start, uint64_t size)
{
	mapping_add(start, pages_of(size));
	limits_follow();
}

/* The second part of one that is cut in two is not known any more if there is no room for it. */
static void mapping_forget(uint64_t start, uint64_t end)
{
	struct engine_mappings *all = &memory_mappings;

	memory_changes++;
	for (size_t i = 0; i < all->count; i++) {
		struct engine_mapping *mapping = &all->items[i];
		uint64_t mapping_end = mapping->start + mapping->size;

		if (start < mapping->start || end > mapping_end)
			continue;
		mapping->size = start - mapping->start;
		if (!mapping->size)
			*mapping = all->items[--all->count];
		if (end < mapping_end)
			mapping_add(end, mapping_end - end);
		return;
	}
}

bool memory_first(uint64_t start, uint64_t end, struct engine_mapping *ret)
{
	const struct engine_mapping fixed[] = {
		{ engine_boot.image_start, engine_boot.image_size },
		{ engine_boot.shared, engine_boot.shared ? engine_boot.shared_size : 0 },
	};
	bool found = false;

	for (size_t i = 0; i < memory_mappings.count + 2; i++) {
		struct engine_mapping one = i < 2 ? fixed[i] : memory_mappings.items[i - 2];

		if (one.start >= end || one.start + one.size <= start)
			continue;
		if (!found || one.start < ret->start)
			*ret = one;
		found = true;
	}
	return found;
}

bool memory_is_ours(uint64_t address)
{
	struct engine_mapping ours;

	return memory_first(address, address + 1, &ours);
}

uint64_t memory_total(void)
{
	uint64_t total = engine_boot.image_size;

	for (size_t i = 0; i < memory_mappings.count; i++)
		total += memory_mappings.items[i].size;
	return total;
}

const struct thread *memory_wanted(uint64_t start, uint64_t size)
{
	for (const struct thread *thread = thread_next(NULL); thread; thread = thread_next(thread))
		if (thread->wants_start < start + size && start < thread->wants_end)
			return thread;
	return NULL;
}

void memory_unmap(void *memory, size_t size)
{
	mapping_forget((uint64_t)memory, (uint64_t)memory + pages_of(size));
	sys_2(munmap, memory, size);
	limits_follow();
}

long memory_map_raw(uint64_t hint, size_t size, int protection, int flags)
{
	long result;

	if (fault_refuses())
		return -ENOMEM;
	flags |= MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	result = sys_6(mmap, hint, size, protection, flags, -1, 0);
	if (result == -ENOMEM && limits_raise(size))
		result = sys_6(mmap, hint, size, protection, flags, -1, 0);
	return result;
}

static long map_hint(uint64_t hint, size_t size)
{
	return memory_map_raw(hint, size, PROT_READ | PROT_WRITE, 0);
}

/*
 * Memory must not lie in a range that a system call of another thread is about to change; then a
 * place below that is requested.
 */
void *memory_map(size_t size)
{
	long result = map_hint(0, size);
	const struct thread *wanting;

	for (int i = 0; i < ATTEMPTS && !sys_failed(result); i++) {
		wanting = memory_wanted((uint64_t)result, size);
		if (!wanting)
			break;
		sys_2(munmap, result, size);
		result = map_hint((wanting->wants_start - size) & ~(uint64_t)(PAGE - 1), size);
	}
	if (sys_failed(result))
		return NULL;
	memory_note((uint64_t)result, size);
	return (void *)result;
}

void memory_map_at(uint64_t address, size_t size)
{
	long result = sys_6(mmap, address, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

	if (sys_failed(result))
		fault_memory("no memory");
}

void *memory_take(size_t size)
{
	void *taken;

	size = (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
	if (size > left) {
		uint8_t *next = memory_map(CHUNK);

		if (!next || size > CHUNK)
			fault_memory("no memory");
		chunk = next;
		left = CHUNK;
	}
	taken = chunk;
	chunk += size;
	left -= size;
	return taken;
}
