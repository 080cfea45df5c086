// SPDX-License-Identifier: BSD-2-Clause
/*
 * Changes of the shadow page table: ranges that are marked and marked no more (mark_shadow.h).
 */
#include "engine/tools/mark_shadow.h"

#include "engine/stream.h"
#include "engine/tools/mark_touch.h"

enum {
	LARGE_PAGES = 256, /* a range of so many pages is large */
	NODES = 1 << 18,
};

struct mark_shadow mark_shadow;
static uint32_t range_free; /* a range that is not in use, + 1; 0: none */
static uint32_t node_count;
static uint8_t *filter; /* of a thread that begins */
static uint32_t *filter_uses; /* by page: ranges that opened it */

/* --- Memory ------------------------------------------------------------------------------ */

void *mark_memory_need(size_t size)
{
	void *memory = memory_map(size);

	if (!memory)
		engine_die("no memory");
	return memory;
}

void shadow_make(void)
{
	if (mark_shadow.ranges)
		return;
	mark_shadow.ranges = mark_memory_need(SHADOW_RANGES_MAX * sizeof(*mark_shadow.ranges));
	mark_shadow.pages = mark_memory_need(SHADOW_PAGES * sizeof(*mark_shadow.pages));
	mark_shadow.nodes = mark_memory_need(NODES * sizeof(*mark_shadow.nodes));
	filter = mark_memory_need(MARK_DATA_PAGES);
	filter_uses = mark_memory_need(MARK_DATA_PAGES * sizeof(*filter_uses));
	for (size_t i = 0; i < MARK_DATA_PAGES; i++)
		filter[i] = 1;
}

static uint8_t *filter_of(struct thread *thread)
{
	return (uint8_t *)mark_data_memory(thread) + MARK_DATA_FILTER;
}

void shadow_thread_start(struct thread *thread)
{
	for (size_t i = 0; i < MARK_DATA_PAGES; i++)
		filter_of(thread)[i] = filter[i];
}

/* --- Ranges ------------------------------------------------------------------------------ */

static void filter_set(uint64_t page, uint8_t value)
{
	filter[page] = value;
	for (struct thread *thread = thread_next(NULL); thread; thread = thread_next(thread))
		filter_of(thread)[page] = value;
}

static void filter_change(uint64_t page, bool opens)
{
	page %= MARK_DATA_PAGES;
	if (opens && !filter_uses[page]++)
		filter_set(page, 0);
	else if (!opens && !--filter_uses[page])
		filter_set(page, 1);
}

static bool is_on_page(uint32_t range, uint64_t number)
{
	const struct marked_range *of = &mark_shadow.ranges[range];

	return of->end && of->start >> SHADOW_PAGE_BITS <= number &&
	       (of->end - 1) >> SHADOW_PAGE_BITS >= number;
}

/* Nodes of ranges that are elsewhere by now are used again. */
static bool page_add(uint64_t number, uint32_t range)
{
	struct shadow_page *page = shadow_page_at(number);

	for (uint32_t at = page && page->number ? page->first : 0; at;
	     at = mark_shadow.nodes[at - 1].next) {
		if (is_on_page(mark_shadow.nodes[at - 1].range, number))
			continue;
		__atomic_store_n(&mark_shadow.nodes[at - 1].range, range, __ATOMIC_RELEASE);
		return true;
	}
	if (!page || node_count == NODES)
		return false;
	mark_shadow.nodes[node_count] = (struct shadow_node){ range, page->first };
	__atomic_store_n(&page->first, ++node_count, __ATOMIC_RELEASE);
	__atomic_store_n(&page->number, number + 1, __ATOMIC_RELEASE);
	return true;
}

static void range_give_back(uint32_t index)
{
	mark_shadow.ranges[index].next = range_free;
	range_free = index + 1;
}

static uint32_t range_new(void)
{
	uint32_t index = range_free;

	if (index) {
		range_free = mark_shadow.ranges[index - 1].next;
		return index - 1;
	}
	return mark_shadow.range_count < SHADOW_RANGES_MAX ? mark_shadow.range_count++
							   : SHADOW_RANGES_MAX;
}

/* Memory that is allocated overlaps nothing else that is. */
static void overlaps_note(struct marked_range *range)
{
	for (uint32_t i = 0; i < mark_shadow.range_count; i++) {
		if (&mark_shadow.ranges[i] == range || !mark_shadow.ranges[i].end ||
		    mark_shadow.ranges[i].end <= range->start ||
		    range->end <= mark_shadow.ranges[i].start ||
		    (mark_shadow.ranges[i].heap && range->heap))
			continue;
		mark_shadow.ranges[i].shared = range->shared = true;
		touch_asides_forget(&mark_shadow.ranges[i]);
	}
}

/* A list that holds the range already, from its last use, is not made longer. */
static bool page_has(uint64_t number, uint32_t range)
{
	const struct shadow_page *page = shadow_page_at(number);

	for (uint32_t at = page && page->number ? page->first : 0; at;
	     at = mark_shadow.nodes[at - 1].next)
		if (mark_shadow.nodes[at - 1].range == range)
			return true;
	return false;
}

static bool is_large(uint64_t start, uint64_t end)
{
	return ((end - 1) >> SHADOW_PAGE_BITS) - (start >> SHADOW_PAGE_BITS) >= LARGE_PAGES;
}

/* One in the list of large ones that is not in use any more. */
static uint32_t large_free(void)
{
	for (uint32_t i = 0; i < mark_shadow.large_count; i++)
		if (!mark_shadow.ranges[mark_shadow.large[i]].end)
			return mark_shadow.large[i];
	return SHADOW_RANGES_MAX;
}

static bool large_add(uint32_t index)
{
	uint32_t count = mark_shadow.large_count;

	for (uint32_t i = 0; i < count; i++)
		if (mark_shadow.large[i] == index)
			return true;
	if (count == SHADOW_LARGE_MAX)
		return false;
	mark_shadow.large[count] = index;
	__atomic_store_n(&mark_shadow.large_count, count + 1, __ATOMIC_RELEASE);
	return true;
}

static bool pages_add(uint32_t index, uint64_t start, uint64_t end)
{
	uint64_t first = start >> SHADOW_PAGE_BITS, last = (end - 1) >> SHADOW_PAGE_BITS;

	if (is_large(start, end))
		return large_add(index);
	for (uint64_t page = first; page <= last; page++)
		if (!page_has(page, index) && !page_add(page, index))
			return false;
	return true;
}

/* An access may begin before the range: the page of its first byte is what inline code tests. */
static void range_filter(uint64_t start, uint64_t end, bool opens)
{
	uint64_t first = (start - (TOUCH_MAX - 1)) >> SHADOW_PAGE_BITS,
		 last = (end - 1) >> SHADOW_PAGE_BITS;

	if (start < TOUCH_MAX)
		first = 0;
	if (last - first >= MARK_DATA_PAGES)
		last = first + MARK_DATA_PAGES - 1;
	for (uint64_t page = first; page <= last; page++)
		filter_change(page, opens);
}

/* Returns the range, or RANGES_MAX: there is none. */
uint32_t shadow_find(uint64_t start, uint64_t end, uint32_t mark)
{
	for (uint32_t i = 0; i < mark_shadow.range_count; i++)
		if (mark_shadow.ranges[i].start == start && mark_shadow.ranges[i].end == end &&
		    mark_shadow.ranges[i].mark == mark)
			return i;
	return SHADOW_RANGES_MAX;
}

/* Returns the range, or RANGES_MAX: there is no room. */
uint32_t shadow_add(uint64_t start, uint64_t end, uint32_t mark, bool heap, bool event)
{
	uint32_t index = SHADOW_RANGES_MAX;
	struct marked_range *range;

	shadow_make();
	if (is_large(start, end))
		index = large_free();
	if (index == SHADOW_RANGES_MAX)
		index = range_new();
	if (index == SHADOW_RANGES_MAX)
		return index;
	range = &mark_shadow.ranges[index];
	range->start = start;
	range->mark = mark;
	range->shared = range->aside = false;
	range->heap = heap;
	range->event = event;
	range->pinned = false;
	__atomic_store_n(&range->end, end, __ATOMIC_RELEASE);
	if (!pages_add(index, start, end)) {
		range->end = 0;
		range_give_back(index);
		return SHADOW_RANGES_MAX;
	}
	overlaps_note(range);
	mark_shadow.has_heap |= heap;
	range_filter(start, end, true);
	touch_gaps_forget();
	return index;
}

void shadow_remove(uint32_t index)
{
	struct marked_range *range = &mark_shadow.ranges[index];
	uint64_t end = range->end;

	__atomic_store_n(&range->end, 0, __ATOMIC_RELEASE);
	touch_asides_forget(range);
	range_filter(range->start, end, false);
	/* A large one stays in its list, for another large one. */
	if (!is_large(range->start, end))
		range_give_back(index);
}
