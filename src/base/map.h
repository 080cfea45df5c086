/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hash tables of the host: open addressing, linear probing, power-of-two size, at most 3/4 full.
 *
 * struct map	64-bit key to 64-bit value. Every key value is allowed.
 * struct strtab	interns strings: equal strings get equal, dense ids from 0 on.
 *
 * Pointers returned by map_at() and map_find() are valid until the next insertion.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_slot {
	uint64_t key;
	uint64_t value;
	bool used;
};

struct map {
	struct map_slot *slots;
	size_t count;
	size_t mask; /* slots - 1; 0 while empty */
};

void map_deinit(struct map *map);
/* The value's place, or NULL. */
uint64_t *map_find(const struct map *map, uint64_t key);
/*
 * The value's place; inserts 0 first if the key is new, and then says so in *ret_new (may be NULL).
 */
uint64_t *map_at(struct map *map, uint64_t key, bool *ret_new);
bool map_remove(struct map *map, uint64_t key);
void map_clear(struct map *map);

#define map_each(map, slot)                                                                        \
	for (struct map_slot *slot = (map)->slots; slot && slot <= (map)->slots + (map)->mask;     \
	     slot++)                                                                               \
		if (slot->used)

/* A good mix of 64 bits, and of two of them. */
uint64_t hash64(uint64_t value);
uint64_t hash64_pair(uint64_t a, uint64_t b);
uint64_t hash_bytes(const void *data, size_t size);

struct strtab {
	char **strings; /* id to string */
	size_t count;
	size_t capacity;
	uint32_t *slots; /* id + 1, or 0 */
	size_t mask;
};

void strtab_deinit(struct strtab *table);
uint32_t strtab_add(struct strtab *table, const char *text);
const char *strtab_get(const struct strtab *table, uint32_t id);
