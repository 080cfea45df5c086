/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables of cycles: equal sequences of symbols get one entry.
 *
 * An entry has a slot: dense, from 1 on in order of arrival, until cycles_clear(). Slot 0 is no cycle. What slots stand
 * for elsewhere is numbered by who uses the table (profile/layer.h adds a base that grows with each clearing).
 *
 *	struct cycles table;
 *	cycles_init(&table, &(struct cycles_options){ .memory = 64 << 20 });
 *	slot = cycles_intern(&table, symbols, length, false);	 0: full
 *	cycles_count(&table, slot, trips);
 *
 * Five ways to find an entry can be chosen; docs/design/paths.md compares them. All but open addressing have a fixed
 * number of buckets, each a chain.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "profile/words.h"

/* Columns: name, text of the option, what happens to the chains. */
#define CYCLES_KINDS(X)                                                                            \
	X(OPEN, "open", "open addressing; no chains")                                              \
	X(BOUNDED, "bounded",                                                                      \
	  "in deep ones the often accessed are sorted to the front, now and then")                 \
	X(SORTED, "sorted", "all are sorted, now and then")                                        \
	X(FRONT, "front", "what was found moves to the front")                                     \
	X(CHAINED, "chained", "stay in order of arrival")

enum cycles_kind {
#define X(name, text, what) CYCLES_##name,
	CYCLES_KINDS(X)
#undef X
		CYCLES_KIND_COUNT
};

enum {
	CYCLES_BUCKETS = 1 << 16,
	CYCLES_PERIOD = 1 << 20,
	CYCLES_DEPTH = 4,
	CYCLES_FREQUENCY = 1000,
	CYCLES_MEMORY = 64 << 20,
	CYCLES_SLACK = 16, /* words after a cycle's last that may be read */
	CYCLES_SHORT = 16, /* symbols that are compared at once */
	/* What lies before a cycle's symbols, in words: who has found it needs no more of the table than this place. */
	CYCLES_SLOT = 0,
	CYCLES_LENGTH = 1, /* cycles_length_word() */
	/* For who uses the table; zero at first. */
	CYCLES_KEPT = 2,
	CYCLES_LAST_TRIPS =
		CYCLES_KEPT, /* of its last repeated cycle of more than a few; 0: none */
	CYCLES_LAST_SYMBOL = 3, /* symbol + 1 of the same */
	CYCLES_FEW = 4, /* symbol + 1 of the repeated cycle of 1, 2, ... trips; 0: none */
	CYCLES_HEADER = 9,
	CYCLES_FEW_TRIPS = CYCLES_HEADER - CYCLES_FEW,
};

/* 0 is the default everywhere. */
struct cycles_options {
	enum cycles_kind kind;
	uint32_t buckets; /* of chains; a power of two */
	uint32_t period; /* accesses between two sorts */
	uint32_t depth; /* chains of more entries than this are sorted */
	uint64_t frequency; /* entries with at least so many accesses are sorted */
	size_t memory; /* bytes of everything */
	/*
	 * At a sort, entry `up` passed entry `down`, which had been before it and has less than a tenth of its accesses
	 * since the sort before: the sign of a new phase. May be NULL.
	 */
	void (*passed)(void *context, uint32_t up, uint32_t down);
	void *context;
};

struct cycle {
	uint64_t trips; /* how often it was run, in all */
	uint64_t weight; /* of its symbols together; set by who uses the table */
	uint32_t length;
	uint32_t accesses; /* stops at its maximum */
	uint32_t at; /* its first symbol, in words */
	uint32_t hash;
	uint32_t accesses_before; /* accesses, at the last sort */
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
	uint64_t passed;
};

struct cycles {
	struct cycles_options options;
	ARRAY(struct cycle) entries; /* by slot */
	ARRAY(uint32_t) words; /* the cycles' headers and symbols */
	uint64_t *places; /* open addressing: hash << 32 | place of the header in words; 0: free */
	size_t places_mask;
	struct cycles_bucket *buckets; /* all other kinds */
	uint32_t until_sort; /* accesses */
	struct cycles_stats stats;
};

int cycles_init(struct cycles *cycles, const struct cycles_options *options);
void cycles_deinit(struct cycles *cycles);

/*
 * The slot of the cycle; a new one if there is no such entry. 0 if it is new and there is no memory for it, which never
 * happens with `force`. length > 0. Pointers into the table become invalid.
 */
uint32_t cycles_intern(struct cycles *cycles, const uint32_t *symbols, size_t length, bool force);

/*
 * The same in steps, for who has several to look up: the hash, then where it leads to (cycles_place()), then the cycle's symbols, then
 * the place of its header in words: 0 if there is no such entry, or no memory for it.
 */
uint32_t cycles_hash(const uint32_t *symbols, size_t length);
/*
 * A hash is of two sums, the lower word of even places and the upper word of odd ones: the symbol at place i times the factor to the
 * power of i.
 */
#define CYCLES_FACTOR 0x9e3779b1u
extern const uint32_t cycles_powers[CYCLES_SHORT];
static inline uint32_t cycles_hash_end(uint64_t sums, size_t length)
{
	return (uint32_t)((sums + length) * 0xbf58476d1ce4e5b9u >> 32);
}
uint32_t cycles_find(struct cycles *cycles, const uint32_t *symbols, size_t length, uint32_t hash);
/* Of at most CYCLES_SHORT symbols, where CYCLES_SLACK words can be read. */
uint32_t cycles_find_short(struct cycles *cycles, const uint32_t *symbols, size_t length,
			   uint32_t hash);
uint32_t cycles_add(struct cycles *cycles, const uint32_t *symbols, size_t length, uint32_t hash,
		    bool force);

/* It is time to sort chains, if this kind of table does. */
void cycles_sort(struct cycles *cycles);
/* Forgets all entries, not the statistics. */
void cycles_clear(struct cycles *cycles);

/* Bytes allocated. */
size_t cycles_memory(const struct cycles *cycles);
/* A chain's slots in order, at most max; returns how many there are. For tests. */
size_t cycles_chain(const struct cycles *cycles, uint32_t bucket, uint32_t *ret, size_t max);
uint32_t cycles_bucket_of(const struct cycles *cycles, const uint32_t *symbols, size_t length);

const char *cycles_kind_text(enum cycles_kind kind);
int cycles_kind_parse(const char *text, enum cycles_kind *ret);

static inline struct cycle *cycles_at(const struct cycles *cycles, uint32_t slot)
{
	return &cycles->entries.items[slot];
}

/* So many accesses, for so many trips each; sorts when it is time. */
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

/* As a header has it: who compares short cycles need not ask whether they are. */
static inline uint32_t cycles_length_word(size_t length)
{
	return length <= CYCLES_SHORT ? (uint32_t)length : ~(uint32_t)length;
}

/* What lies before its symbols. */
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

/* Without a table, or if it has no open addressing, all hashes lead to the same place, which is free. Until a cycle is added. */
static inline struct cycles_index cycles_index(const struct cycles *cycles)
{
	static const uint64_t nowhere;

	return cycles && cycles->places
		       ? (struct cycles_index){ cycles->places, cycles->places_mask }
		       : (struct cycles_index){ &nowhere, 0 };
}

/* Where a hash leads to at first. Its lower word is the place of a header, maybe of another hash, or 0. */
static inline const uint64_t *cycles_place(struct cycles_index index, uint32_t hash)
{
	return &index.places[hash & index.mask];
}

/* Slots are 1 to this. */
static inline uint32_t cycles_last(const struct cycles *cycles)
{
	return (uint32_t)cycles->entries.count - 1;
}
