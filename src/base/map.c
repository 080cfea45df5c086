// SPDX-License-Identifier: BSD-2-Clause
#include "base/map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"

enum { FIRST_SLOTS = 16 };

uint64_t hash64(uint64_t value)
{
	value ^= value >> 32;
	value *= 0xd6e8feb86659fd93u;
	value ^= value >> 32;
	value *= 0xd6e8feb86659fd93u;
	return value ^ (value >> 32);
}

uint64_t hash64_pair(uint64_t a, uint64_t b)
{
	return hash64(a * 0x9e3779b97f4a7c15u ^ hash64(b));
}

uint64_t hash_bytes(const void *data, size_t size)
{
	return XXH3_64bits(data, size);
}

void map_deinit(struct map *map)
{
	free(map->slots);
	memset(map, 0, sizeof(*map));
}

void map_clear(struct map *map)
{
	if (map->slots)
		memset(map->slots, 0, (map->mask + 1) * sizeof(*map->slots));
	map->count = 0;
}

/* The slot that holds key, or the free one where it belongs. The table is never full. */
static struct map_slot *slot_of(const struct map *map, uint64_t key)
{
	size_t at = hash64(key) & map->mask;

	while (map->slots[at].used && map->slots[at].key != key)
		at = (at + 1) & map->mask;
	return &map->slots[at];
}

static void map_grow(struct map *map)
{
	struct map old = *map;
	size_t slots = old.slots ? (old.mask + 1) * 2 : FIRST_SLOTS;

	map->slots = mem_zalloc(slots * sizeof(*map->slots));
	map->mask = slots - 1;
	map_each(&old, slot)
		*slot_of(map, slot->key) = *slot;
	free(old.slots);
}

uint64_t *map_find(const struct map *map, uint64_t key)
{
	struct map_slot *slot;

	if (!map->slots)
		return NULL;
	slot = slot_of(map, key);
	return slot->used ? &slot->value : NULL;
}

uint64_t *map_at(struct map *map, uint64_t key, bool *ret_new)
{
	struct map_slot *slot;

	if (!map->slots || map->count >= (map->mask + 1) / 4 * 3)
		map_grow(map);
	slot = slot_of(map, key);
	if (ret_new)
		*ret_new = !slot->used;
	if (!slot->used) {
		*slot = (struct map_slot){ .key = key, .used = true };
		map->count++;
	}
	return &slot->value;
}

/* Closes the gap by moving back every later entry of the run that may move. */
bool map_remove(struct map *map, uint64_t key)
{
	size_t hole, at;

	if (!map->slots || !slot_of(map, key)->used)
		return false;
	hole = (size_t)(slot_of(map, key) - map->slots);
	for (at = (hole + 1) & map->mask; map->slots[at].used; at = (at + 1) & map->mask) {
		size_t home = hash64(map->slots[at].key) & map->mask;

		if (((at - home) & map->mask) < ((at - hole) & map->mask))
			continue;
		map->slots[hole] = map->slots[at];
		hole = at;
	}
	map->slots[hole].used = false;
	map->count--;
	return true;
}

void strtab_deinit(struct strtab *table)
{
	for (size_t i = 0; i < table->count; i++)
		free(table->strings[i]);
	free(table->strings);
	free(table->slots);
	memset(table, 0, sizeof(*table));
}

static size_t strtab_slot(const struct strtab *table, const char *text)
{
	size_t at = hash_bytes(text, strlen(text)) & table->mask;

	while (table->slots[at] && strcmp(table->strings[table->slots[at] - 1], text))
		at = (at + 1) & table->mask;
	return at;
}

static void strtab_grow(struct strtab *table)
{
	size_t slots = table->slots ? (table->mask + 1) * 2 : FIRST_SLOTS;

	free(table->slots);
	table->slots = mem_zalloc(slots * sizeof(*table->slots));
	table->mask = slots - 1;
	for (size_t i = 0; i < table->count; i++)
		table->slots[strtab_slot(table, table->strings[i])] = (uint32_t)i + 1;
}

uint32_t strtab_add(struct strtab *table, const char *text)
{
	size_t at;

	if (!table->slots || table->count >= (table->mask + 1) / 4 * 3)
		strtab_grow(table);
	at = strtab_slot(table, text);
	if (table->slots[at])
		return table->slots[at] - 1;
	if (table->count == table->capacity) {
		table->capacity = table->capacity ? table->capacity * 2 : FIRST_SLOTS;
		table->strings = mem_realloc(table->strings, table->capacity, sizeof(char *));
	}
	table->strings[table->count++] = mem_strdup(text);
	table->slots[at] = (uint32_t)table->count;
	return (uint32_t)table->count - 1;
}

const char *strtab_get(const struct strtab *table, uint32_t id)
{
	assert(id < table->count);
	return table->strings[id];
}
