// SPDX-License-Identifier: BSD-2-Clause
#include "paths/repeats.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { PLACES_FIRST = 1 << 10, ITEMS_FIRST = 1 << 9 };

static void places_alloc(struct repeats *repeats, size_t count)
{
	free(repeats->places);
	repeats->places = mem_zalloc(count * sizeof(*repeats->places));
	repeats->mask = count - 1;
}

void repeats_init(struct repeats *repeats, uint64_t few, size_t memory)
{
	*repeats = (struct repeats){ .few = few, .memory = memory };
	array_reserve(&repeats->items, ITEMS_FIRST);
	places_alloc(repeats, PLACES_FIRST);
}

void repeats_deinit(struct repeats *repeats)
{
	array_deinit(&repeats->items);
	free(repeats->places);
	*repeats = (struct repeats){};
}

/* The memory is kept, because it will fill up again. */
void repeats_clear(struct repeats *repeats)
{
	repeats->items.count = 0;
	repeats->placed = 0;
	memset(repeats->places, 0, (repeats->mask + 1) * sizeof(*repeats->places));
}

static size_t bytes_of(const struct repeats *repeats, size_t items, size_t places)
{
	return items * sizeof(*repeats->items.items) + places * sizeof(*repeats->places);
}

size_t repeats_memory(const struct repeats *repeats)
{
	return bytes_of(repeats, repeats->items.capacity, repeats->mask + 1);
}

uint32_t repeats_hash(uint32_t slot, uint64_t trips)
{
	return (uint32_t)((slot * 0x9e3779b97f4a7c15u ^ trips * 0xd6e8feb86659fd93u) *
				  0xbf58476d1ce4e5b9u >>
			  32);
}

void repeats_fetch(const struct repeats *repeats, uint32_t hash)
{
	__builtin_prefetch(&repeats->places[hash & repeats->mask]);
}

void repeats_fetch_item(const struct repeats *repeats, uint32_t hash)
{
	uint32_t place = repeats->places[hash & repeats->mask];

	__builtin_prefetch(&repeats->items.items[place ? place - 1 : 0]);
}

/* The place of the pair, or the free one where it belongs. */
static size_t place_of(const struct repeats *repeats, uint32_t slot, uint64_t trips)
{
	size_t at = repeats_hash(slot, trips) & repeats->mask;

	for (; repeats->places[at]; at = (at + 1) & repeats->mask) {
		const struct repeat *item = &repeats->items.items[repeats->places[at] - 1];

		if (item->slot == slot && item->trips == trips)
			break;
	}
	return at;
}

static void places_grow(struct repeats *repeats)
{
	places_alloc(repeats, (repeats->mask + 1) * 2);
	for (uint32_t i = 0; i < repeats->items.count; i++) {
		const struct repeat *item = &repeats->items.items[i];

		if (item->trips > repeats->few)
			repeats->places[place_of(repeats, item->slot, item->trips)] = i + 1;
	}
}

/* The part of room_make() that is rarely needed. */
static bool room_grow(struct repeats *repeats, bool place)
{
	size_t items = repeats->items.capacity, places = repeats->mask + 1;

	if (repeats->items.count == items)
		items *= 2;
	if (place && (repeats->placed + 1) * 2 > places)
		places *= 2;
	if (bytes_of(repeats, items, places) > repeats->memory)
		return false;
	array_reserve(&repeats->items, items);
	if (places > repeats->mask + 1)
		places_grow(repeats);
	return true;
}

/* Makes room for one more; false: it would be more memory than is allowed. */
static bool room_make(struct repeats *repeats, bool place)
{
	if (repeats->items.count < repeats->items.capacity &&
	    (!place || (repeats->placed + 1) * 2 <= repeats->mask + 1))
		return true;
	return room_grow(repeats, place);
}

/*
 * For a pair that needs a place, or more room. Not inlined, because it is rare and needs many
 * registers.
 */
static __attribute__((noinline)) uint32_t any_add(struct repeats *repeats, uint32_t slot,
						  uint64_t trips)
{
	bool place = trips > repeats->few;

	if (!room_make(repeats, place))
		return REPEATS_FULL;
	*array_push(&repeats->items) = (struct repeat){ .trips = trips, .slot = slot };
	if (place) {
		repeats->places[place_of(repeats, slot, trips)] = (uint32_t)repeats->items.count;
		repeats->placed++;
	}
	return (uint32_t)repeats->items.count - 1;
}

uint32_t repeats_add(struct repeats *repeats, uint32_t slot, uint64_t trips)
{
	size_t symbol = repeats->items.count;

	if (trips > repeats->few || symbol == repeats->items.capacity)
		return any_add(repeats, slot, trips);
	repeats->items.items[symbol] = (struct repeat){ .trips = trips, .slot = slot };
	repeats->items.count = symbol + 1;
	return (uint32_t)symbol;
}

uint32_t repeats_intern(struct repeats *repeats, uint32_t slot, uint64_t trips)
{
	size_t at = place_of(repeats, slot, trips);

	return repeats->places[at] ? repeats->places[at] - 1 : repeats_add(repeats, slot, trips);
}
