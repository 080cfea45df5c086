// SPDX-License-Identifier: BSD-2-Clause
#include "symbols/shelf.h"

void shelf_deinit(struct shelf *shelf)
{
	array_each(&shelf->items, symbols)
		symbols_destroy(*symbols);
	array_deinit(&shelf->items);
	map_deinit(&shelf->places);
	shelf->count = 0;
}

struct symbols *shelf_take(struct shelf *shelf, uint64_t key)
{
	const uint64_t *place = map_find(&shelf->places, key);
	struct symbols *symbols;

	if (!place || !*place)
		return NULL;
	symbols = take_ptr(shelf->items.items[*place - 1]);
	shelf->count -= symbols != NULL;
	return symbols;
}

void shelf_put(struct shelf *shelf, uint64_t key, struct symbols *symbols)
{
	uint64_t *place;

	if (!symbols)
		return;
	if (shelf->count >= SHELF_MAX) {
		symbols_destroy(symbols);
		return;
	}
	place = map_at(&shelf->places, key, NULL);
	if (!*place) {
		*array_push(&shelf->items) = NULL;
		*place = shelf->items.count;
	}
	shelf->count += !shelf->items.items[*place - 1];
	symbols_destroy(shelf->items.items[*place - 1]);
	shelf->items.items[*place - 1] = symbols;
}
