/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables of cycles: equal sequences of symbols get one entry.
 *
 * An entry has a slot: a number from 1 on, in order of arrival, which is valid until
 * cycles_clear(). Slot 0 is no cycle. A user that needs numbers which are never used twice adds a
 * base that grows with each clearing, as paths/layer.h does.
 *
 *	struct cycles table;
 *	cycles_init(&table, &(struct cycles_options){ .memory = 64 << 20 });
 *	slot = cycles_intern(&table, symbols, length, false);	 0: the table is full
 *	cycles_count(&table, slot, trips, 1);
 *
 * There are two ways to find an entry. Open addressing, the default, grows and so has no deep
 * buckets. Chains in a fixed number of buckets serve where a table must not grow; their deep
 * buckets are sorted now and then. docs/design/paths.md compares them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "paths/words.h"

/* Columns: name, text of the option, how an entry is found. */
#define CYCLES_KINDS(X)                                                                            \
	X(OPEN, "open", "open addressing, in a table that grows")                                  \
	X(BOUNDED, "bounded", "chains; in deep ones the often accessed entries are sorted")

enum cycles_kind {
#define X(name, text, what) CYCLES_##name,
	CYCLES_KINDS(X)
#undef X
		CYCLES_KIND_COUNT
};

enum {
	CYCLES_BUCKETS = 1 << 16,
	CYCLES_PERIOD = 1 << 20,
	CYCLES_PERIOD_NEVER = -1, /* as a period: chains stay in the order of arrival */
	CYCLES_DEPTH = 4,
	CYCLES_FREQUENCY = 1000,
	CYCLES_MEMORY = 64 << 20,
	CYCLES_SLACK = 16, /* words after a cycle's last that may be read */
	CYCLES_SHORT = 16, /* symbols of a cycle that is compared without a branch for each */
	/*
	 * The header, which lies before a cycle's symbols, in words. A user that has found a cycle
	 * needs nothing else.
	 */
	CYCLES_SLOT = 0,
	CYCLES_LENGTH = 1, /* cycles_length_word() */
	/* The rest of the header is the user's, and 0 at first. */
	CYCLES_KEPT = 2,
	CYCLES_LAST_TRIPS =
		CYCLES_KEPT, /* trips of the last repeated cycle of more than a few; 0: none */
	CYCLES_LAST_SYMBOL = 3, /* symbol + 1 of that repeated cycle */
	CYCLES_FEW = 4, /* symbol + 1 of the repeated cycle of 1, 2, ... trips; 0: none */
	CYCLES_HEADER = 9,
	CYCLES_FEW_TRIPS = CYCLES_HEADER - CYCLES_FEW,
};

/* 0 stands for the default in each field. */
struct cycles_options {
	enum cycles_kind kind;
	uint32_t buckets; /* of chains; a power of two */
	uint32_t period; /* accesses between two sorts */
	uint32_t depth; /* chains of more entries than this are sorted */
	uint64_t frequency; /* entries with at least so many accesses are sorted */
	size_t memory; /* bytes of everything */
};

struct cycle {
	uint64_t trips; /* how often it was run, in all */
	uint64_t weight; /* of its symbols together; set by the user of the table */
	uint32_t length;
	uint32_t accesses; /* stops at its maximum */
	uint32_t at; /* index of its first symbol in words */
	uint32_t hash;
	uint32_t next; /* in its chain; 0: the last */
};

struct cycles_bucket {
	uint32_t first; /* slot */
	uint32_t depth;
};

struct cycles_stats {
	uint64_t lookups;
	uint64_t probes; /* entries looked at */
	uint64_t sorts;
	uint64_t sorted_buckets;
	uint64_t sorted_entries;
};

struct cycles {
	struct cycles_options options;
	ARRAY(struct cycle) entries; /* by slot */
	ARRAY(uint32_t) words; /* the cycles' headers and symbols */
	uint64_t *places; /* open addressing: hash << 32 | index of the header in words; 0: free */
	size_t places_mask;
	struct cycles_bucket *buckets; /* chains; NULL if the table has places */
	uint32_t until_sort; /* accesses that are left */
	struct cycles_stats stats;
};

int cycles_init(struct cycles *cycles, const struct cycles_options *options);
void cycles_deinit(struct cycles *cycles);

/*
 * Returns the slot of the cycle, which is a new one if the table had no such cycle; 0 if it is new
 * and there is no memory for it, which never happens with `force`. length > 0. Pointers into the
 * table become invalid.
 */
uint32_t cycles_intern(struct cycles *cycles, const uint32_t *symbols, size_t length, bool force);

/*
 * The same in steps, so that a user who has several cycles can prefetch what each step needs: the
 * hash; where it leads to (cycles_place()); the cycle's header. cycles_find() returns the index of
 * the header in words, and 0 if there is no such entry; cycles_add() adds one, and returns 0 if
 * there is no memory.
 */
uint32_t cycles_hash(const uint32_t *symbols, size_t length);
/*
 * The hash is a polynomial: the sum of the symbols, each times CYCLES_FACTOR to the power of its
 * index, with separate sums for even indices (the lower word) and odd ones (the upper word).
 */
#define CYCLES_FACTOR 0x9e3779b1u
extern const uint32_t cycles_powers[CYCLES_SHORT];
static inline uint32_t cycles_hash_end(uint64_t sums, size_t length)
{
	return (uint32_t)((sums + length) * 0xbf58476d1ce4e5b9u >> 32);
}
uint32_t cycles_find(struct cycles *cycles, const uint32_t *symbols, size_t length, uint32_t hash);
/* For at most CYCLES_SHORT symbols, behind whose first CYCLES_SLACK words can be read. */
uint32_t cycles_find_short(struct cycles *cycles, const uint32_t *symbols, size_t length,
			   uint32_t hash);
uint32_t cycles_add(struct cycles *cycles, const uint32_t *symbols, size_t length, uint32_t hash,
		    bool force);

/* Sorts deep chains now, if the table has chains. */
void cycles_sort(struct cycles *cycles);
/* Forgets all entries, but keeps the statistics. */
void cycles_clear(struct cycles *cycles);

/* Bytes allocated. */
size_t cycles_memory(const struct cycles *cycles);
/* A chain's slots in order, at most max; returns how many there are. For tests. */
size_t cycles_chain(const struct cycles *cycles, uint32_t bucket, uint32_t *ret, size_t max);

const char *cycles_kind_text(enum cycles_kind kind);
int cycles_kind_parse(const char *text, enum cycles_kind *ret);

static inline struct cycle *cycles_at(const struct cycles *cycles, uint32_t slot)
{
	return &cycles->entries.items[slot];
}

/* Counts `accesses` accesses of so many trips each. Chains are sorted when it is time. */
static inline void cycles_count(struct cycles *cycles, uint32_t slot, uint64_t trips,
				uint32_t accesses)
{
	struct cycle *entry = cycles_at(cycles, slot);
	uint32_t room = UINT32_MAX - entry->accesses;

	entry->trips += trips * accesses;
	entry->accesses += accesses < room ? accesses : room;
	if (cycles->until_sort > accesses)
		cycles->until_sort -= accesses;
	else
		cycles_sort(cycles);
}

/*
 * The length as a header has it: complemented if the cycle is long, so that comparing it with the
 * length of a short cycle also tells that the cycle is short.
 */
static inline uint32_t cycles_length_word(size_t length)
{
	return length <= CYCLES_SHORT ? (uint32_t)length : ~(uint32_t)length;
}

static inline uint32_t *cycles_header(const struct cycles *cycles, uint32_t slot)
{
	return &cycles->words.items[cycles_at(cycles, slot)->at - CYCLES_HEADER];
}

static inline const uint32_t *cycles_symbols(const struct cycles *cycles, uint32_t slot)
{
	return &cycles->words.items[cycles_at(cycles, slot)->at];
}

struct cycles_index {
	const uint64_t *places;
	size_t mask;
};

/*
 * Valid until a cycle is added. Without a table, or with chains, all hashes lead to one place,
 * which is free.
 */
static inline struct cycles_index cycles_index(const struct cycles *cycles)
{
	static const uint64_t nowhere;

	return cycles && cycles->places
		       ? (struct cycles_index){ cycles->places, cycles->places_mask }
		       : (struct cycles_index){ &nowhere, 0 };
}

/*
 * Where a hash leads to at first. Its lower word is the index of a header, maybe of another cycle,
 * or 0.
 */
static inline const uint64_t *cycles_place(struct cycles_index index, uint32_t hash)
{
	return &index.places[hash & index.mask];
}

/* The greatest slot. */
static inline uint32_t cycles_last(const struct cycles *cycles)
{
	return (uint32_t)cycles->entries.count - 1;
}
