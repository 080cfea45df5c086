/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The marked ranges of data, found by address: a shadow page table.
 *
 *	in	ranges of addresses that are marked, and that are marked no more
 *	out	the ranges that may hold an address
 *	owner	the process; changed with the engine's lock held, read without it
 *
 * A hash table has an entry for each page, whose list names the ranges that overlap the page.
 * Ranges of many pages are in a list of their own. Each thread has a filter, one byte for the low
 * bits of each page number, which inline code tests first.
 *
 * Invariants
 * 1. A range is empty while it is changed, and lists only grow, so that they can be read at any
 *    time.
 * 2. A page's byte of the filter is 0 in every thread before the program can know a marked address
 *    in it: marks of files are applied when their module is mapped, marks of allocations before the
 *    caller gets its pointer.
 */
#pragma once

#include "engine/tool.h"
#include "engine/tools/marks.h"

enum {
	SHADOW_PAGE_BITS = 12,
	SHADOW_RANGES_MAX = 1 << 16, /* that are marked at a time */
	SHADOW_LARGE_MAX = 64, /* ranges of many pages */
	SHADOW_PAGES = 1 << 17, /* entries of the shadow page table */
};

struct marked_range {
	uint64_t start, end; /* end 0: it is not in use */
	uint32_t mark;
	uint32_t next; /* the next range that is not in use, + 1; 0: none */
	bool shared; /* another range overlaps it */
	bool heap; /* goes with free() */
	bool pinned; /* an address that was given stays marked, whatever is there */
	bool aside; /* some thread has it in an aside */
	bool event; /* each access raises an event; no aside has it */
	uint32_t wanted; /* `change` when the host last said that it is marked */
};

/* An entry of the shadow page table, and a list's member. */
struct shadow_page {
	uint64_t number; /* + 1; 0: free */
	uint32_t first; /* node + 1 */
};

struct shadow_node {
	uint32_t range; /* its index */
	uint32_t next; /* node + 1 */
};

/* It has functions of its own for changes; mark_touch.c reads it at each access. */
extern struct mark_shadow {
	struct marked_range *ranges;
	uint32_t range_count; /* that were ever in use */
	bool has_heap; /* an allocation was marked */
	uint32_t large[SHADOW_LARGE_MAX], large_count; /* ranges of many pages */
	struct shadow_page *pages;
	struct shadow_node *nodes;
} mark_shadow __attribute__((visibility("hidden")));

static inline uint64_t mark_hash(uint64_t number)
{
	number *= 0x9e3779b97f4a7c15ull;
	return number ^ number >> 32;
}

/* The entry of a page, which may be free; NULL: it has none, and there is no room for one. */
static inline struct shadow_page *shadow_page_at(uint64_t number)
{
	uint64_t hash = mark_hash(number);

	for (unsigned i = 0; i < SHADOW_PAGES; i++) {
		struct shadow_page *page = &mark_shadow.pages[(hash + i) % SHADOW_PAGES];
		uint64_t there = __atomic_load_n(&page->number, __ATOMIC_ACQUIRE);

		if (!there || there == number + 1)
			return page;
	}
	return NULL;
}

/* The first node of a page's list, + 1; 0: nothing on the page is marked. */
static inline uint32_t shadow_list(uint64_t number)
{
	const struct shadow_page *page = shadow_page_at(number);

	if (!page || !__atomic_load_n(&page->number, __ATOMIC_ACQUIRE))
		return 0;
	return __atomic_load_n(&page->first, __ATOMIC_ACQUIRE);
}

/* Memory that the tool cannot do without: the engine ends if there is none. */
void *mark_memory_need(size_t size);
/* Makes the tables, unless they are there. */
void shadow_make(void);
/* A thread that begins gets the filter. */
void shadow_thread_start(struct thread *thread);
/* The range with exactly these values; SHADOW_RANGES_MAX: there is none. */
uint32_t shadow_find(uint64_t start, uint64_t end, uint32_t mark);
/* The range that was added; SHADOW_RANGES_MAX: there is no room. */
uint32_t shadow_add(uint64_t start, uint64_t end, uint32_t mark, bool heap, bool event);
void shadow_remove(uint32_t index);
