// SPDX-License-Identifier: BSD-2-Clause
/*
 * A hash table with chains, larger than the near caches; keys are skewed, and found, counted up or
 * replaced.
 */
#include "values_work.h"

enum { BUCKETS = 2048, KEYS = 5000, LOOKUPS = 1500, KINDS = 4 };

struct entry {
	struct entry *next;
	uint64_t key;
	uint32_t kind;
	uint32_t hits;
	uint64_t padding[5];
};

static struct entry *buckets[BUCKETS];
static struct entry entries[KEYS];
static uint32_t totals[KINDS];
volatile uint64_t result;

static APART uint32_t hash(uint64_t key, uint32_t salt)
{
	key ^= salt;
	key ^= key >> 15;
	key *= 0x2c1b3c6d;
	key ^= key >> 12;
	return (uint32_t)key;
}

static APART struct entry *find(uint64_t key, uint32_t salt)
{
	struct entry *entry = buckets[hash(key, salt) % BUCKETS];

	while (entry && entry->key != key)
		entry = entry->next;
	return entry;
}

/* Small keys are much more frequent than large ones. */
static APART uint64_t key_draw(uint64_t *state)
{
	uint32_t bits = random_next(state);
	unsigned octave = __builtin_ctz(bits | 1 << 13);

	return (bits >> 14) % (1u << octave) + (1u << octave);
}

static APART void hit(struct entry *entry, unsigned weight)
{
	entry->hits += weight;
	totals[entry->kind] += weight;
}

static APART void replace(struct entry *entry, uint32_t hits)
{
	if (entry->hits > hits)
		entry->hits = hits;
}

void work(void)
{
	uint64_t state = 42, missing = 0;

	for (int i = 0; i < KINDS; i++)
		totals[i] = 0;
	for (int i = 0; i < KEYS; i++)
		entries[i].hits = 0;
	for (int i = 0; i < LOOKUPS; i++) {
		uint32_t salt = random_next(&state) % 100 < 97 ? 17 : 99;
		uint64_t key = key_draw(&state);
		struct entry *entry = find(key, 17);

		if (salt == 99)
			entry = find(key, salt);
		if (!entry)
			missing++;
		else if (key % 5 < 3)
			hit(entry, 1);
		else if (key % 5 < 4)
			hit(entry, 16);
		else
			replace(entry, 100);
	}
	result = missing;
}

static void insert(struct entry *entry, uint64_t key)
{
	struct entry **bucket = &buckets[hash(key, 17) % BUCKETS];

	*entry = (struct entry){ .next = *bucket, .key = key, .kind = key % 16 ? 1 : key % KINDS };
	*bucket = entry;
}

int main(void)
{
	uint64_t state = 7;

	/* Neighbours in a chain are no neighbours in memory. */
	for (int i = 0; i < KEYS; i++)
		insert(&entries[(uint64_t)i * 7919 % KEYS], i + random_next(&state) % 2);
	for (;;)
		work();
}
