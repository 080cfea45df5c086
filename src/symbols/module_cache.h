/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Symbol files that stay open between two uses, because opening one starts a worker process
 * (worker.h), which takes some ten milliseconds. A module that is taken belongs to the caller until
 * it is put back.
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
/* Returns the module, which belongs to the caller now, or NULL. */
struct symbols *module_cache_take(struct module_cache *cache, uint64_t key);
/*
 * The module belongs to the cache from now on, and is closed if the cache is full. NULL is allowed.
 */
void module_cache_put(struct module_cache *cache, uint64_t key, struct symbols *symbols);
