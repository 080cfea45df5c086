// SPDX-License-Identifier: BSD-2-Clause
/*
 * The engine's own memory: pieces of large mappings, never given back. The caller holds the engine's lock. What grows with what
 * the program does takes its memory from an arena's notes instead (cache.c), or from a list of its own.
 */
#include <linux/mman.h>

#include "engine/engine.h"
#include "engine/sys.h"

enum { CHUNK = 1 << 20, ALIGNMENT = 16 };

static uint8_t *chunk;
static size_t left;

struct engine_mappings memory_mappings;

/* Where one ends the next often begins. When there are too many, the rest is not known and stays after a detach. */
void memory_note(uint64_t start, uint64_t size)
{
	struct engine_mappings *all = &memory_mappings;

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

/* The second part of one that is cut in two is not known any more if there is no room for it. */
static void mapping_forget(uint64_t start, uint64_t end)
{
	struct engine_mappings *all = &memory_mappings;

	for (size_t i = 0; i < all->count; i++) {
		struct engine_mapping *mapping = &all->items[i];
		uint64_t mapping_end = mapping->start + mapping->size;

		if (start < mapping->start || end > mapping_end)
			continue;
		mapping->size = start - mapping->start;
		if (!mapping->size)
			*mapping = all->items[--all->count];
		if (end < mapping_end)
			memory_note(end, mapping_end - end);
		return;
	}
}

void memory_unmap(void *memory, size_t size)
{
	mapping_forget((uint64_t)memory, (uint64_t)memory + size);
	sys_2(munmap, memory, size);
}

void *memory_map(size_t size)
{
	long result = sys_6(mmap, 0, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

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
		engine_die("no memory");
}

void *memory_take(size_t size)
{
	void *taken;

	size = (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
	if (size > left) {
		chunk = memory_map(CHUNK);
		if (!chunk || size > CHUNK)
			engine_die("no memory");
		left = CHUNK;
	}
	taken = chunk;
	chunk += size;
	left -= size;
	return taken;
}
