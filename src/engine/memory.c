// SPDX-License-Identifier: BSD-2-Clause
/* The engine's own memory: pieces of large mappings, never given back. The caller holds the engine's lock. */
#include <linux/mman.h>

#include "engine/engine.h"
#include "engine/sys.h"

enum { CHUNK = 1 << 20, ALIGNMENT = 16 };

static uint8_t *chunk;
static size_t left;

void *memory_map(size_t size)
{
	long result = sys_6(mmap, 0, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return sys_failed(result) ? NULL : (void *)result;
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
