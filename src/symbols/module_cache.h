/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Symbol files that stay open between two users: to open one starts a worker process (worker.h),
 * which takes some ten milliseconds. Whoever takes a module owns it until it is put back.
 */
#pragma once

#include "base/array.h"
#include "base/map.h"
#include "symbols/symbols.h"

enum { MODULE_CACHE_MAX = 128 }; /* each of them has a worker process */

struct module_cache {
	struct map places; /* key to place + 1 */
	ARRAY(struct symbols *) items; /* NULL: taken */
	size_t count;
};

void module_cache_deinit(struct module_cache *cache);
/* The caller's from now on, or NULL. */
struct symbols *module_cache_take(struct module_cache *cache, uint64_t key);
/* The cache's from now on; closed if it is full. NULL: nothing to keep. */
void module_cache_put(struct module_cache *cache, uint64_t key, struct symbols *symbols);
