// SPDX-License-Identifier: BSD-2-Clause
/* A map from keys to places of an array. A module that was taken leaves its place empty. */
#include "symbols/module_cache.h"

void module_cache_deinit(struct module_cache *cache)
{
	array_each(&cache->items, symbols)
		symbols_destroy(*symbols);
	array_deinit(&cache->items);
	map_deinit(&cache->places);
	cache->count = 0;
}

struct symbols *module_cache_take(struct module_cache *cache, uint64_t key)
{
	const uint64_t *place = map_find(&cache->places, key);
	struct symbols *symbols;

	if (!place || !*place)
		return NULL;
	symbols = take_ptr(cache->items.items[*place - 1]);
	cache->count -= symbols != NULL;
	return symbols;
}

void module_cache_put(struct module_cache *cache, uint64_t key, struct symbols *symbols)
{
	uint64_t *place;

	if (!symbols)
		return;
	if (cache->count >= MODULE_CACHE_MAX) {
		symbols_destroy(symbols);
		return;
	}
	place = map_at(&cache->places, key, NULL);
	if (!*place) {
		*array_push(&cache->items) = NULL;
		*place = cache->items.count;
	}
	cache->count += !cache->items.items[*place - 1];
	symbols_destroy(cache->items.items[*place - 1]);
	cache->items.items[*place - 1] = symbols;
}
