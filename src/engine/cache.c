// SPDX-License-Identifier: BSD-2-Clause
/*
 * The code cache: fragments by the address of the program that they were made of, and the links
 * between them. Their code lies in arenas (arenas.c).
 *
 *	in	fragments that were made; addresses of the program whose code has gone
 *	out	a fragment by the address it was made of; links between fragments
 *	owner	the process: all its threads share it, under the engine's lock
 *
 *	code is gone		cache_forget -> fragment_close
 *	a check has failed	fragment_close
 *	an arena is given up	fragment_close
 *	a fault of our own	cache_reset
 *
 * Invariants (the caller holds the engine's lock)
 * 1. A fragment never moves. Its code changes only in displacements of exits, which lie in one
 *    cache line each.
 * 2. What leads to a fragment: the chain of its pc, the pages it was made of, the exits in its
 *    list, and tables of threads. None of them does once it is closed.
 */
#include <linux/mman.h>

#include "engine/engine.h"
#include "engine/sys.h"

enum {
	PAGE_BUCKETS = 1 << 12,
	PAGE_SHIFT = 12,
	PAGE_WORDS = (1 << PAGE_SHIFT) / 64,
	PAGE_CHAINS = 16,
};

/* A link between a fragment and a page of code that it was made of. */
struct use {
	struct fragment *fragment;
	struct use *next, **link; /* in the list of the page */
	struct use *other; /* of the same fragment */
};

/* A page of the program that fragments were made of. */
struct page {
	uint64_t number;
	struct use *uses;
	struct page *older; /* with the same index, or in the list of free ones */
	uint64_t begins[PAGE_WORDS]; /* a bit for each byte: an open fragment begins there */
	struct fragment *chains[PAGE_CHAINS]; /* of the fragments that begin there */
};

static struct page *pages[PAGE_BUCKETS];
static size_t page_count;
static struct page *free_pages;

/* --- Pages ------------------------------------------------------------------------------- */

static struct page **page_place(uint64_t number)
{
	struct page **place = &pages[number % PAGE_BUCKETS];

	while (*place && (*place)->number != number)
		place = &(*place)->older;
	return place;
}

static struct page *page_get(uint64_t number)
{
	struct page **place = page_place(number), *page = *place;

	if (page)
		return page;
	page = free_pages;
	if (page)
		free_pages = page->older;
	else
		page = memory_take(sizeof(*page));
	*page = (struct page){ .number = number };
	page_count++;
	return *place = page;
}

static void page_drop(uint64_t number)
{
	struct page **place = page_place(number), *page = *place;

	if (!page || page->uses)
		return;
	*place = page->older;
	page->older = free_pages;
	free_pages = page;
	page_count--;
}

static void page_use(struct fragment *fragment, uint64_t number)
{
	struct page *page = page_get(number);
	struct use *use;

	if (page->uses && page->uses->fragment == fragment)
		return; /* the newest: this fragment is only now being added */
	use = cache_notes(sizeof(*use));
	*use = (struct use){ .fragment = fragment,
			     .next = page->uses,
			     .link = &page->uses,
			     .other = fragment->uses };
	if (use->next)
		use->next->link = &use->next;
	page->uses = use;
	fragment->uses = use;
}

/* A block of no length stands for an instruction that could not be copied. */
static uint64_t block_last(const struct block *block)
{
	return block->pc + block->length - !!block->length;
}

static void pages_use(struct fragment *fragment)
{
	uint64_t before = UINT64_MAX;

	for (uint32_t i = 0; i < fragment->block_count; i++) {
		uint64_t first = fragment->blocks[i].pc >> PAGE_SHIFT;
		uint64_t last = block_last(&fragment->blocks[i]) >> PAGE_SHIFT;

		if (first != before)
			page_use(fragment, first);
		if (last != first)
			page_use(fragment, last);
		before = last;
	}
}

static void pages_leave(struct fragment *fragment)
{
	for (struct use *use = fragment->uses; use; use = use->other) {
		*use->link = use->next;
		if (use->next)
			use->next->link = use->link;
	}
	fragment->uses = NULL;
	for (uint32_t i = 0; i < fragment->block_count; i++) {
		page_drop(fragment->blocks[i].pc >> PAGE_SHIFT);
		page_drop(block_last(&fragment->blocks[i]) >> PAGE_SHIFT);
	}
}

/* --- Fragments --------------------------------------------------------------------------- */

/* The chain of fragments that one which begins there is in. */
static struct fragment **chain_of(struct page *page, uint64_t pc)
{
	return &page->chains[(pc ^ pc >> 4 ^ pc >> 8) % PAGE_CHAINS];
}

static uint64_t *begins_of(struct page *page, uint64_t pc)
{
	return &page->begins[pc / 64 % PAGE_WORDS];
}

/* The page is one of those that the fragment uses. */
static void begin_add(struct fragment *fragment)
{
	struct page *page = page_get(fragment->pc >> PAGE_SHIFT);
	struct fragment **chain = chain_of(page, fragment->pc);

	fragment->older = *chain;
	*chain = fragment;
	*begins_of(page, fragment->pc) |= 1ull << fragment->pc % 64;
}

static void begin_remove(struct fragment *fragment)
{
	struct page *page = *page_place(fragment->pc >> PAGE_SHIFT);
	struct fragment **place;

	if (!page)
		return;
	place = chain_of(page, fragment->pc);
	while (*place && *place != fragment)
		place = &(*place)->older;
	if (!*place)
		return;
	*place = fragment->older;
	*begins_of(page, fragment->pc) &= ~(1ull << fragment->pc % 64);
}

bool cache_has(uint64_t pc)
{
	struct page *page = *page_place(pc >> PAGE_SHIFT);

	return page && *begins_of(page, pc) >> pc % 64 & 1;
}

struct fragment *cache_find(uint64_t pc)
{
	struct page *page = *page_place(pc >> PAGE_SHIFT);
	struct fragment *fragment;

	if (!page || !(*begins_of(page, pc) >> pc % 64 & 1))
		return NULL;
	fragment = *chain_of(page, pc);
	while (fragment && fragment->pc != pc)
		fragment = fragment->older;
	return fragment;
}

void cache_add(struct fragment *fragment)
{
	cache_notes(sizeof(*fragment) + fragment->block_count * sizeof(struct block));
	arena_add(fragment);
	pages_use(fragment);
	begin_add(fragment);
}

void fragment_close(struct fragment *fragment)
{
	if (fragment->closed)
		return;
	fragment->closed = true;
	arena_note_closed(fragment);
	begin_remove(fragment);
	pages_leave(fragment);
	while (fragment->incoming)
		exit_unlink(fragment->incoming);
	for (struct thread *thread = thread_next(NULL); thread; thread = thread_next(thread))
		thread_target_forget(thread, fragment->pc);
}

static bool is_made_of(const struct fragment *fragment, uint64_t start, uint64_t end)
{
	for (uint32_t i = 0; i < fragment->block_count; i++) {
		const struct block *block = &fragment->blocks[i];

		if (block->pc < end && block_last(block) >= start)
			return true;
	}
	return false;
}

/*
 * Closing a fragment takes it out of the list. True: it was done, pages may be gone, this one too.
 */
static bool page_forget(struct page *page, uint64_t start, uint64_t end)
{
	struct use *next;
	bool closed = false;

	for (struct use *use = page->uses; use; use = next) {
		next = use->next;
		if (!is_made_of(use->fragment, start, end))
			continue;
		fragment_close(use->fragment);
		closed = true;
	}
	return closed;
}

static void pages_forget(struct page *const *pages_here, uint64_t start, uint64_t end)
{
	struct page *page = *pages_here;

	while (page)
		if (page_forget(page, start, end))
			page = *pages_here;
		else
			page = page->older;
}

void cache_forget(uint64_t start, uint64_t end)
{
	uint64_t first = start >> PAGE_SHIFT, last = (end - 1) >> PAGE_SHIFT;

	if (start >= end)
		return;
	dead_forget();
	if (last - first > page_count) {
		for (size_t i = 0; i < PAGE_BUCKETS; i++)
			pages_forget(&pages[i], start, end);
		return;
	}
	for (uint64_t number = first; number <= last; number++) {
		struct page *page = *page_place(number);

		if (page)
			page_forget(page, start, end);
	}
}

/* --- Exits ------------------------------------------------------------------------------- */

static void patch_write(uint8_t *patch, const uint8_t *target)
{
	__atomic_store_n((uint32_t *)patch, (uint32_t)(target - (patch + 4)), __ATOMIC_RELEASE);
}

void exit_link(struct exit *exit, struct fragment *to)
{
	int64_t distance;

	if (!exit->patch || exit->to || to->closed)
		return;
	distance = to->entry - (exit->patch + 4);
	if (distance != (int32_t)distance)
		return;
	exit->to = to;
	exit->next = to->incoming;
	exit->link = &to->incoming;
	__atomic_signal_fence(__ATOMIC_SEQ_CST); /* what is patched is known to be */
	if (exit->next)
		exit->next->link = &exit->next;
	to->incoming = exit;
	patch_write(exit->patch, to->entry);
}

void exit_unlink(struct exit *exit)
{
	if (!exit->to)
		return;
	patch_write(exit->patch, exit->stub);
	*exit->link = exit->next;
	if (exit->next)
		exit->next->link = exit->link;
	exit->to = NULL;
}

void exit_reset(struct exit *exit)
{
	if (exit->to)
		patch_write(exit->patch, exit->stub);
	exit->to = NULL;
}

/* --- After a fault of the engine itself --------------------------------------------------- */

/*
 * A thread may have been stopped by a fault in the middle of changing a list, so only arrays are
 * walked here, no list. Code stays mapped as long as a thread may be in it.
 */
void cache_reset(void)
{
	arenas_reset();
	for (size_t i = 0; i < PAGE_BUCKETS; i++)
		pages[i] = NULL;
	page_count = 0;
	free_pages = NULL;
	for (struct thread *thread = thread_next(NULL); thread; thread = thread_next(thread))
		thread_targets_clear(thread);
}
