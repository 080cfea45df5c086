// SPDX-License-Identifier: BSD-2-Clause
/*
 * Tables of cycles.
 *
 *	in	a cycle: its symbols
 *	out	its number, the same for equal cycles, and a header with its counts
 *	owner	the space of layers, one table for each level
 *
 * Entries, and the words of their headers and symbols, lie in two arrays that only grow, up to the
 * memory of the options. Beside them lies what finds an entry: places of open addressing (linear
 * probing), or chains through the entries.
 *
 * Bounded sorting. A chain becomes deep when a table has fewer buckets than entries, and a
 * program's hot cycles may then lie behind many that were run once. Every `period` accesses, chains
 * with more than `depth` entries are looked at, and of their entries those with at least
 * `frequency` accesses go to the front, the most accessed first; the others follow in the order
 * they had. So the work is bounded by what is deep and hot: a chain of a few entries costs less to
 * walk than to sort. A new entry goes to the end of its chain, where the lookup that did not find
 * it has just been.
 *
 * Invariants
 *  1. entries.items[0] is no cycle, but has a header at word 0 and no symbols.
 *  2. No two entries have the same symbols.
 *  3. CYCLES_SLACK words behind the last word in use can be read.
 *  4. At most half of the places are in use.
 *  5. cycles_memory() exceeds the option only by what was forced in.
 */
#include "paths/cycles.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "paths/words.h"

enum { PLACES_FIRST = 1 << 10, ENTRIES_FIRST = 256, WORDS_FIRST = 4096, MEMORY_MIN = 1 << 16 };

static const size_t MEMORY_MAX = (size_t)8 << 30; /* places of words have 32 bits */

static const char *const kind_texts[] = {
#define X(name, text, what) [CYCLES_##name] = text,
	CYCLES_KINDS(X)
#undef X
};

const char *cycles_kind_text(enum cycles_kind kind)
{
	assert(kind < CYCLES_KIND_COUNT);
	return kind_texts[kind];
}

int cycles_kind_parse(const char *text, enum cycles_kind *ret)
{
	for (enum cycles_kind kind = 0; kind < CYCLES_KIND_COUNT; kind++)
		if (strcmp(text, kind_texts[kind]) == 0) {
			*ret = kind;
			return 0;
		}
	return err_set(-EINVAL, "%s: no such kind of table; there are open and bounded", text);
}

static struct cycles_options options_filled(const struct cycles_options *given)
{
	struct cycles_options options = *given;

	options.buckets = options.buckets ? options.buckets : CYCLES_BUCKETS;
	options.period = options.period ? options.period : CYCLES_PERIOD;
	options.depth = options.depth ? options.depth : CYCLES_DEPTH;
	options.frequency = options.frequency ? options.frequency : CYCLES_FREQUENCY;
	options.memory = options.memory ? options.memory : CYCLES_MEMORY;
	return options;
}

static void first_entry(struct cycles *cycles)
{
	cycles->entries.count = 0;
	cycles->words.count = 0;
	array_reserve(&cycles->entries, ENTRIES_FIRST);
	array_reserve(&cycles->words, WORDS_FIRST);
	memset(cycles->words.items, 0, (CYCLES_HEADER + CYCLES_SLACK) * sizeof(uint32_t));
	cycles->words.count = CYCLES_HEADER;
	*array_push(&cycles->entries) = (struct cycle){ .at = CYCLES_HEADER };
}

static void index_clear(struct cycles *cycles)
{
	if (cycles->places)
		memset(cycles->places, 0, (cycles->places_mask + 1) * sizeof(*cycles->places));
	if (cycles->buckets)
		memset(cycles->buckets, 0, cycles->options.buckets * sizeof(*cycles->buckets));
}

int cycles_init(struct cycles *cycles, const struct cycles_options *options)
{
	struct cycles_options filled = options_filled(options);

	if (filled.kind >= CYCLES_KIND_COUNT || filled.buckets & (filled.buckets - 1))
		return err_set(-EINVAL,
			       "a table of cycles of kind %d with %u buckets: give a power of two",
			       (int)filled.kind, filled.buckets);
	if (filled.memory < MEMORY_MIN || filled.memory > MEMORY_MAX)
		return err_set(-EINVAL, "a table of cycles in %zu bytes: give %d to %zu",
			       filled.memory, MEMORY_MIN, MEMORY_MAX);
	*cycles = (struct cycles){ .options = filled, .until_sort = filled.period };
	if (filled.kind == CYCLES_OPEN) {
		cycles->places = mem_zalloc(PLACES_FIRST * sizeof(*cycles->places));
		cycles->places_mask = PLACES_FIRST - 1;
	} else {
		cycles->buckets = mem_zalloc(filled.buckets * sizeof(*cycles->buckets));
	}
	first_entry(cycles);
	return 0;
}

void cycles_deinit(struct cycles *cycles)
{
	array_deinit(&cycles->entries);
	array_deinit(&cycles->words);
	free(cycles->places);
	free(cycles->buckets);
	*cycles = (struct cycles){};
}

/* The memory is kept, because the table will fill up again. */
void cycles_clear(struct cycles *cycles)
{
	index_clear(cycles);
	first_entry(cycles);
}

static size_t bytes_of(size_t entries, size_t words, size_t places, size_t buckets)
{
	return entries * sizeof(struct cycle) + words * sizeof(uint32_t) +
	       places * sizeof(uint64_t) + buckets * sizeof(struct cycles_bucket);
}

static size_t buckets_count(const struct cycles *cycles)
{
	return cycles->buckets ? cycles->options.buckets : 0;
}

static size_t places_count(const struct cycles *cycles)
{
	return cycles->places ? cycles->places_mask + 1 : 0;
}

size_t cycles_memory(const struct cycles *cycles)
{
	return bytes_of(cycles->entries.capacity, cycles->words.capacity, places_count(cycles),
			buckets_count(cycles));
}

/* Powers of CYCLES_FACTOR. */
const uint32_t cycles_powers[CYCLES_SHORT] = {
	0x00000001, 0x9e3779b1, 0xffe6cc61, 0xcc042811, 0x1f76bcc1, 0x8bc6ba71,
	0x5ecd5121, 0x6364b0d1, 0x4b180981, 0xf0d38b31, 0xa49465e1, 0xb018c991,
	0x448fe641, 0x0149ebf1, 0x43680aa1, 0x6e8c7251,
};

uint32_t cycles_hash(const uint32_t *symbols, size_t length)
{
	const uint32_t square = CYCLES_FACTOR * CYCLES_FACTOR;
	uint32_t even = length % 2 ? symbols[length - 1] : 0, odd = 0;

	for (size_t i = length / 2 * 2; i; i -= 2) {
		even = even * square + symbols[i - 2];
		odd = odd * square + symbols[i - 1];
	}
	return cycles_hash_end((uint64_t)(odd * CYCLES_FACTOR) << 32 | even, length);
}

static inline bool same(const struct cycles *cycles, uint32_t slot, const uint32_t *symbols,
			size_t length, uint32_t hash)
{
	const struct cycle *entry = cycles_at(cycles, slot);

	return entry->hash == hash && entry->length == length &&
	       words_same(&cycles->words.items[entry->at], symbols, length);
}

static size_t grown(size_t capacity, size_t wanted)
{
	return wanted <= capacity ? capacity : wanted > capacity * 2 ? wanted : capacity * 2;
}

/* Makes room for one more cycle of that length; false: it would be more memory than is allowed. */
static bool room_grow(struct cycles *cycles, size_t length, bool force)
{
	size_t entries = grown(cycles->entries.capacity, cycles->entries.count + 1);
	size_t words = grown(cycles->words.capacity,
			     cycles->words.count + CYCLES_HEADER + length + CYCLES_SLACK);
	size_t places = places_count(cycles);
	bool fits;

	if (places && (cycles->entries.count + 1) * 2 > places)
		places *= 2;
	fits = bytes_of(entries, words, places, buckets_count(cycles)) <= cycles->options.memory;
	if (!fits && !force &&
	    cycles_memory(cycles) < bytes_of(entries, words, places, buckets_count(cycles)))
		return false;
	array_reserve(&cycles->entries, entries);
	array_reserve(&cycles->words, words);
	return true;
}

/* Whether there is room already, in a table of open addressing. */
static inline bool room_is(const struct cycles *cycles, size_t length)
{
	size_t words = cycles->words.count + CYCLES_HEADER + length + CYCLES_SLACK;

	return cycles->entries.count < cycles->entries.capacity &&
	       words <= cycles->words.capacity &&
	       (cycles->entries.count + 1) * 2 <= places_count(cycles);
}

static inline void place_put(struct cycles *cycles, uint32_t hash, uint32_t place)
{
	size_t at = hash & cycles->places_mask;

	while (cycles->places[at])
		at = (at + 1) & cycles->places_mask;
	cycles->places[at] = (uint64_t)hash << 32 | place;
}

static void places_grow(struct cycles *cycles)
{
	size_t places = (cycles->places_mask + 1) * 2;

	free(cycles->places);
	cycles->places = mem_zalloc(places * sizeof(*cycles->places));
	cycles->places_mask = places - 1;
	for (uint32_t slot = 1; slot < cycles->entries.count; slot++)
		place_put(cycles, cycles_at(cycles, slot)->hash,
			  cycles_at(cycles, slot)->at - CYCLES_HEADER);
}

/* There is room. Returns the index of the header. */
static inline uint32_t entry_add(struct cycles *cycles, const uint32_t *symbols, size_t length,
				 uint32_t hash)
{
	uint32_t slot = (uint32_t)cycles->entries.count++;
	uint32_t place = (uint32_t)cycles->words.count;
	uint32_t *header = &cycles->words.items[place], *words = header + CYCLES_HEADER;

	memset(header, 0, CYCLES_HEADER * sizeof(*header));
	header[CYCLES_SLOT] = slot;
	header[CYCLES_LENGTH] = cycles_length_word(length);
	words_copy(words, symbols, length);
	memset(words + length, 0, CYCLES_SLACK * sizeof(*words));
	cycles->words.count += CYCLES_HEADER + length;
	cycles->entries.items[slot] = (struct cycle){
		.at = place + CYCLES_HEADER,
		.length = (uint32_t)length,
		.hash = hash,
	};
	return place;
}

/*
 * What was found is found at once the next time. The entry that was there is still found, because
 * all places in between are in use.
 */
static inline void place_swap(struct cycles *cycles, size_t home, size_t at)
{
	uint64_t place = cycles->places[home];

	cycles->places[home] = cycles->places[at];
	cycles->places[at] = place;
}

/* Inlined, so that both ways to compare become code of their own. */
static inline __attribute__((always_inline)) uint32_t open_find(struct cycles *cycles,
								const uint32_t *symbols,
								size_t length, uint32_t hash,
								bool is_short)
{
	size_t home = hash & cycles->places_mask, at = home;

	for (; cycles->places[at]; at = (at + 1) & cycles->places_mask) {
		uint32_t place = (uint32_t)cycles->places[at];
		const uint32_t *header = &cycles->words.items[place];

		cycles->stats.probes++;
		if (cycles->places[at] >> 32 == hash &&
		    header[CYCLES_LENGTH] == cycles_length_word(length) &&
		    (is_short ? words_same_short : words_same)(header + CYCLES_HEADER, symbols,
							       length)) {
			place_swap(cycles, home, at);
			return place;
		}
	}
	return 0;
}

static struct cycles_bucket *bucket_of(const struct cycles *cycles, uint32_t hash)
{
	return &cycles->buckets[hash & (cycles->options.buckets - 1)];
}

static uint32_t chain_find(struct cycles *cycles, const uint32_t *symbols, size_t length,
			   uint32_t hash)
{
	uint32_t slot = bucket_of(cycles, hash)->first;

	for (; slot; slot = cycles_at(cycles, slot)->next) {
		cycles->stats.probes++;
		if (same(cycles, slot, symbols, length, hash))
			return cycles_at(cycles, slot)->at - CYCLES_HEADER;
	}
	return 0;
}

static void chain_append(struct cycles *cycles, uint32_t slot)
{
	struct cycles_bucket *bucket = bucket_of(cycles, cycles_at(cycles, slot)->hash);
	uint32_t *link = &bucket->first;

	while (*link)
		link = &cycles_at(cycles, *link)->next;
	*link = slot;
	bucket->depth++;
}

uint32_t cycles_find(struct cycles *cycles, const uint32_t *symbols, size_t length, uint32_t hash)
{
	assert(length > 0);
	cycles->stats.lookups++;
	return cycles->places ? open_find(cycles, symbols, length, hash, false)
			      : chain_find(cycles, symbols, length, hash);
}

uint32_t cycles_find_short(struct cycles *cycles, const uint32_t *symbols, size_t length,
			   uint32_t hash)
{
	assert(length > 0 && length <= CYCLES_SHORT);
	cycles->stats.lookups++;
	return cycles->places ? open_find(cycles, symbols, length, hash, true)
			      : chain_find(cycles, symbols, length, hash);
}

/*
 * For a table that has to grow, or has chains. Not inlined, because it is rare and needs many
 * registers.
 */
static __attribute__((noinline)) uint32_t any_add(struct cycles *cycles, const uint32_t *symbols,
						  size_t length, uint32_t hash, bool force)
{
	uint32_t place;

	if (!room_grow(cycles, length, force))
		return 0;
	place = entry_add(cycles, symbols, length, hash);
	if (cycles->buckets)
		chain_append(cycles, cycles_last(cycles));
	else if (cycles->entries.count * 2 > cycles->places_mask + 1)
		places_grow(cycles);
	else
		place_put(cycles, hash, place);
	return place;
}

uint32_t cycles_add(struct cycles *cycles, const uint32_t *symbols, size_t length, uint32_t hash,
		    bool force)
{
	uint32_t place;

	if (!room_is(cycles, length))
		return any_add(cycles, symbols, length, hash, force);
	place = entry_add(cycles, symbols, length, hash);
	place_put(cycles, hash, place);
	return place;
}

uint32_t cycles_intern(struct cycles *cycles, const uint32_t *symbols, size_t length, bool force)
{
	uint32_t hash = cycles_hash(symbols, length);
	uint32_t place = cycles_find(cycles, symbols, length, hash);

	if (!place)
		place = cycles_add(cycles, symbols, length, hash, force);
	return place ? cycles->words.items[place + CYCLES_SLOT] : 0;
}

struct sort_item {
	uint32_t slot;
	uint32_t order; /* index in the chain before */
	uint32_t accesses;
};

static int item_compare(const void *left, const void *right)
{
	const struct sort_item *a = left, *b = right;

	if (a->accesses != b->accesses)
		return a->accesses < b->accesses ? 1 : -1;
	return (a->order > b->order) - (a->order < b->order);
}

/* The chosen entries go to the front in their new order; the rest follow in the order they had. */
static void chain_sort(struct cycles *cycles, struct cycles_bucket *bucket)
{
	ARRAY(struct sort_item) chosen = {};
	uint32_t rest = 0, *rest_end = &rest, *link = &bucket->first, order = 0;

	for (uint32_t slot = bucket->first; slot; slot = cycles_at(cycles, slot)->next) {
		struct cycle *entry = cycles_at(cycles, slot);

		if (entry->accesses >= cycles->options.frequency) {
			*array_push(&chosen) = (struct sort_item){ slot, order, entry->accesses };
		} else {
			*rest_end = slot;
			rest_end = &entry->next;
		}
		order++;
	}
	if (chosen.count)
		qsort(chosen.items, chosen.count, sizeof(*chosen.items), item_compare);
	*rest_end = 0;
	array_each(&chosen, item) {
		struct cycle *entry = cycles_at(cycles, item->slot);

		*link = item->slot;
		link = &entry->next;
	}
	*link = rest;
	cycles->stats.sorted_buckets++;
	cycles->stats.sorted_entries += chosen.count;
	array_deinit(&chosen);
}

static void chains_sort(struct cycles *cycles)
{
	cycles->stats.sorts++;
	for (uint32_t i = 0; i < cycles->options.buckets; i++)
		if (cycles->buckets[i].depth > cycles->options.depth)
			chain_sort(cycles, &cycles->buckets[i]);
}

void cycles_sort(struct cycles *cycles)
{
	cycles->until_sort = cycles->options.period;
	if (cycles->buckets && cycles->options.period != (uint32_t)CYCLES_PERIOD_NEVER)
		chains_sort(cycles);
}

size_t cycles_chain(const struct cycles *cycles, uint32_t bucket, uint32_t *ret, size_t max)
{
	size_t count = 0;

	for (uint32_t slot = cycles->buckets[bucket].first; slot;
	     slot = cycles_at(cycles, slot)->next, count++)
		if (count < max)
			ret[count] = slot;
	return count;
}
