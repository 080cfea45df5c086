// SPDX-License-Identifier: BSD-2-Clause
/*
 * Counts reads and writes of data that is marked, by the instruction that does them
 * (wire/mark_data.h).
 *
 * Marked ranges are found through a shadow page table: a hash table of pages, whose entries are
 * lists of the ranges that overlap the page. Ranges of many pages are in a list of their own. Each
 * thread has a filter, one byte for the low bits of each page number, which inline code tests
 * first. If the page may hold something marked, inline code compares with the instruction's aside,
 * a look-aside entry with the range that it accessed last. All other accesses are handled by the
 * functions here.
 *
 * A string instruction does many accesses. One whose number is known beforehand is counted in front
 * of it, and what was left when it is interrupted is taken back. One that compares is counted
 * behind it, by how far its registers got.
 *
 * Invariants
 * 1. Ranges and their lists are changed with the engine's lock held, and read without: a range is
 *    empty while it is changed, and lists only grow.
 * 2. A page's byte of the filter is 0 in every thread before the program can know a marked address
 *    in it: marks of files are applied when their module is mapped, marks of allocations before the
 *    caller gets its pointer.
 * 3. An aside is filled only with a range that no other range overlaps, or with a gap between
 *    ranges.
 */
#include "engine/stream.h"
#include "engine/sys.h"
#include "engine/tool.h"
#include "engine/tools/marks.h"

enum {
	PAGE_BITS = 12,
	RANGES_MAX = 1 << 16, /* that are marked at a time */
	LARGE_MAX = 64, /* ranges of many pages */
	LARGE_PAGES = 256, /* from so many on */
	PAGES = 1 << 17, /* entries of the shadow page table */
	NODES = 1 << 18,
	SITES_HASH = 2 * MARK_DATA_SITES,
	TOUCH_STRING = 1 << 18, /* repeated: the number of accesses is in rcx */
	TOUCH_COMPARES = 1 << 19, /* repeated while something holds; counted behind it */
	TOUCH_BEHIND = 1 << 20,
	SITE_ALLOCATES = 1 << 21, /* a call that may be an allocation; the rest: the mark */
	SITE_BACK = 1 << 22, /* where it comes back */
	SITE_ALLOCATION = 1 << 23, /* a function that allocates; the rest: enum mark_allocation */
	SITE_RELEASE = 1 << 24,
	DIRECTION = 1 << 10, /* flag: string instructions go down */
	SITES_OWN = MARK_DATA_SITES - 64, /* later instructions share a place by size */
	CALLS_MAX = 32, /* allocations of a thread that have not returned */
	APPLIED_MAX = 1 << 12, /* modules */
};

struct range {
	uint64_t start, end; /* end 0: it is not in use */
	uint32_t mark;
	uint32_t next; /* of those not in use, + 1; 0: none */
	bool shared; /* another range overlaps it */
	bool heap; /* goes with free() */
	bool pinned; /* an address that was given stays marked, whatever is there */
	bool aside; /* some thread has it in an aside */
	bool event; /* each access raises an event; no aside has it */
	uint32_t wanted; /* `change` when the host last said that it is marked */
};

/* An entry of the shadow page table, and a list's member. */
struct page {
	uint64_t number; /* + 1; 0: free */
	uint32_t first; /* node + 1 */
};

struct node {
	uint32_t range; /* its index */
	uint32_t next; /* node + 1 */
};

struct site {
	uint64_t pc;
	uint32_t size; /* of an access, bytes */
	uint16_t operand;
	bool by_rsi; /* a string instruction's operand */
};

/* An allocation that a marked line is about to call, or has called. */
struct allocation {
	uint64_t sp; /* when it will have returned */
	uint64_t size; /* 0: it was not seen to begin */
	uint32_t mark;
};

static struct range *ranges;
static uint32_t range_count, range_free;
static uint32_t large[LARGE_MAX], large_count;
static struct page *pages;
static struct node *nodes;
static uint32_t node_count;
static struct site *sites;
static uint32_t site_count, *site_index;
static uint8_t *filter; /* of a thread that begins */
static uint32_t *filter_uses; /* by page: ranges that opened it */
static struct applied {
	const struct mark_table *table;
	uint64_t bias;
} applied[APPLIED_MAX]; /* modules whose data is marked */
static uint32_t applied_count;
/*
 * Only while some mark needs it: otherwise no code has anything put in, threads have no filter, and
 * nothing is read.
 */
static bool is_awake;
static uint32_t change; /* marks_generation() that was taken up last */
/*
 * Grows when a range is added. Asides may hold gaps between ranges, too: gaps. Not where memory is
 * marked when it is allocated, since that happens too often.
 */
static uint32_t generation;
static bool gaps, has_heap;

/* --- Memory ------------------------------------------------------------------------------ */

static void *memory_need(size_t size)
{
	void *memory = memory_map(size);

	if (!memory)
		engine_die("no memory");
	return memory;
}

static void tables_make(void)
{
	if (ranges)
		return;
	ranges = memory_need(RANGES_MAX * sizeof(*ranges));
	pages = memory_need(PAGES * sizeof(*pages));
	nodes = memory_need(NODES * sizeof(*nodes));
	sites = memory_need(MARK_DATA_SITES * sizeof(*sites));
	site_index = memory_need(SITES_HASH * sizeof(*site_index));
	filter = memory_need(MARK_DATA_PAGES);
	filter_uses = memory_need(MARK_DATA_PAGES * sizeof(*filter_uses));
	for (size_t i = 0; i < MARK_DATA_PAGES; i++)
		filter[i] = 1;
	site_count = 1;
}

static uint8_t *filter_of(struct thread *thread)
{
	return (uint8_t *)mark_data_memory(thread) + MARK_DATA_FILTER;
}

static struct mark_data_aside *asides_of(struct thread *thread)
{
	return (struct mark_data_aside *)((uint8_t *)mark_data_memory(thread) + MARK_DATA_ASIDES);
}

static struct mark_data_cell *cells_of(struct thread *thread)
{
	return (struct mark_data_cell *)((uint8_t *)mark_data_memory(thread) + MARK_DATA_CELLS);
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

static uint64_t hash_of(uint64_t number)
{
	number *= 0x9e3779b97f4a7c15ull;
	return number ^ number >> 32;
}

/* NULL: it has no entry, and there is no room for one. */
static struct page *page_at(uint64_t number)
{
	uint64_t hash = hash_of(number);

	for (unsigned i = 0; i < PAGES; i++) {
		struct page *page = &pages[(hash + i) % PAGES];
		uint64_t there = __atomic_load_n(&page->number, __ATOMIC_ACQUIRE);

		if (!there || there == number + 1)
			return page;
	}
	return NULL;
}

static bool is_on_page(uint32_t range, uint64_t number)
{
	const struct range *of = &ranges[range];

	return of->end && of->start >> PAGE_BITS <= number && (of->end - 1) >> PAGE_BITS >= number;
}

/* Nodes of ranges that are elsewhere by now are used again. */
static bool page_add(uint64_t number, uint32_t range)
{
	struct page *page = page_at(number);

	for (uint32_t at = page && page->number ? page->first : 0; at; at = nodes[at - 1].next) {
		if (is_on_page(nodes[at - 1].range, number))
			continue;
		__atomic_store_n(&nodes[at - 1].range, range, __ATOMIC_RELEASE);
		return true;
	}
	if (!page || node_count == NODES)
		return false;
	nodes[node_count] = (struct node){ range, page->first };
	__atomic_store_n(&page->first, ++node_count, __ATOMIC_RELEASE);
	__atomic_store_n(&page->number, number + 1, __ATOMIC_RELEASE);
	return true;
}

static uint32_t range_new(void)
{
	uint32_t index = range_free;

	if (index) {
		range_free = ranges[index - 1].next;
		return index - 1;
	}
	return range_count < RANGES_MAX ? range_count++ : RANGES_MAX;
}

static void asides_forget(struct range *range)
{
	if (!range->aside)
		return;
	range->aside = false;
	for (struct thread *thread = thread_next(NULL); thread; thread = thread_next(thread))
		for (uint32_t site = 0; site < site_count; site++)
			if (asides_of(thread)[site].start == range->start)
				*(volatile uint64_t *)&asides_of(thread)[site].limit = 0;
}

/* A range has been added: gaps may not be any more. */
static void gaps_forget(void)
{
	__atomic_add_fetch(&generation, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_exchange_n(&gaps, false, __ATOMIC_SEQ_CST))
		return;
	for (struct thread *thread = thread_next(NULL); thread; thread = thread_next(thread))
		for (uint32_t site = 0; site < site_count; site++)
			if (asides_of(thread)[site].cell ==
			    (uint64_t)&mark_data_memory(thread)->unmarked_cell)
				*(volatile uint64_t *)&asides_of(thread)[site].limit = 0;
}

/* Memory that is allocated overlaps nothing else that is. */
static void overlaps_note(struct range *range)
{
	for (uint32_t i = 0; i < range_count; i++) {
		if (&ranges[i] == range || !ranges[i].end || ranges[i].end <= range->start ||
		    range->end <= ranges[i].start || (ranges[i].heap && range->heap))
			continue;
		ranges[i].shared = range->shared = true;
		asides_forget(&ranges[i]);
	}
}

/* A list that holds the range already, from its last use, is not made longer. */
static bool page_has(uint64_t number, uint32_t range)
{
	const struct page *page = page_at(number);

	for (uint32_t at = page && page->number ? page->first : 0; at; at = nodes[at - 1].next)
		if (nodes[at - 1].range == range)
			return true;
	return false;
}

static bool pages_add(uint32_t index, uint64_t start, uint64_t end)
{
	uint64_t first = start >> PAGE_BITS, last = (end - 1) >> PAGE_BITS;

	if (last - first >= LARGE_PAGES) {
		if (large_count == LARGE_MAX)
			return false;
		large[large_count] = index;
		__atomic_store_n(&large_count, large_count + 1, __ATOMIC_RELEASE);
		return true;
	}
	for (uint64_t page = first; page <= last; page++)
		if (!page_has(page, index) && !page_add(page, index))
			return false;
	return true;
}

/* An access may begin before the range: the page of its first byte is what inline code tests. */
static void range_filter(uint64_t start, uint64_t end, bool opens)
{
	uint64_t first = (start - (TOUCH_MAX - 1)) >> PAGE_BITS, last = (end - 1) >> PAGE_BITS;

	if (start < TOUCH_MAX)
		first = 0;
	if (last - first >= MARK_DATA_PAGES)
		last = first + MARK_DATA_PAGES - 1;
	for (uint64_t page = first; page <= last; page++)
		filter_change(page, opens);
}

/* Returns the range, or RANGES_MAX: there is none. */
static uint32_t range_find(uint64_t start, uint64_t end, uint32_t mark)
{
	for (uint32_t i = 0; i < range_count; i++)
		if (ranges[i].start == start && ranges[i].end == end && ranges[i].mark == mark)
			return i;
	return RANGES_MAX;
}

/* Returns the range, or RANGES_MAX: there is no room. */
static uint32_t range_add(uint64_t start, uint64_t end, uint32_t mark, bool heap, bool event)
{
	uint32_t index;
	struct range *range;

	tables_make();
	index = range_new();
	if (index == RANGES_MAX)
		return index;
	range = &ranges[index];
	range->start = start;
	range->mark = mark;
	range->shared = range->aside = false;
	range->heap = heap;
	range->event = event;
	range->pinned = false;
	__atomic_store_n(&range->end, end, __ATOMIC_RELEASE);
	if (!pages_add(index, start, end)) {
		range->end = 0;
		return RANGES_MAX;
	}
	overlaps_note(range);
	has_heap |= heap;
	range_filter(start, end, true);
	gaps_forget();
	return index;
}

static void range_remove(uint32_t index)
{
	struct range *range = &ranges[index];
	uint64_t end = range->end;

	__atomic_store_n(&range->end, 0, __ATOMIC_RELEASE);
	asides_forget(range);
	range_filter(range->start, end, false);
	if ((end - 1) >> PAGE_BITS >= (range->start >> PAGE_BITS) + LARGE_PAGES)
		return; /* its number stays in the list of large ones */
	range->next = range_free;
	range_free = index + 1;
}

/* --- Counting ---------------------------------------------------------------------------- */

/* Others may follow the chain of those in use at the same time. */
static void cell_use(struct thread *thread, struct mark_data_cell *cell, uint64_t pc, uint32_t mark)
{
	struct mark_data_memory *memory = mark_data_memory(thread);

	cell->pc = pc;
	cell->mark = mark;
	cell->next = memory->newest;
	__atomic_store_n(&memory->newest, (uint32_t)(cell - cells_of(thread)) + 1,
			 __ATOMIC_RELEASE);
}

static struct mark_data_cell *cell_of(struct thread *thread, uint64_t pc, uint32_t mark)
{
	struct mark_data_cell *cells = cells_of(thread);
	uint64_t hash = hash_of(pc * 31 + mark);

	for (unsigned i = 0; i < MARK_DATA_CELL_COUNT; i++) {
		struct mark_data_cell *cell = &cells[(hash + i) % MARK_DATA_CELL_COUNT];

		if (cell->mark == mark && cell->pc == pc)
			return cell;
		if (cell->mark)
			continue;
		/* A few stay for what is of no instruction. */
		if (pc && i > MARK_DATA_CELL_COUNT / 2)
			return cell_of(thread, 0, mark);
		cell_use(thread, cell, pc, mark);
		return cell;
	}
	return cell_of(thread, 0, mark);
}

static void cell_count(struct mark_data_cell *cell, uint32_t number, uint64_t by)
{
	if (number & TOUCH_READ && number & TOUCH_WRITE)
		cell->both += by;
	else if (number & TOUCH_READ)
		cell->reads += by;
	else
		cell->writes += by;
}

/* An access of `size` bytes, or of a whole row of them. */
struct touched {
	uint64_t start, end;
	uint32_t element; /* bytes of one access; the row has a whole number of them */
	uint32_t number;
	uint64_t by; /* 1, or -1 */
};

/* How many elements of the row overlap the range. */
static uint64_t elements_within(const struct touched *touched, const struct range *range)
{
	uint64_t first = 0, last = (touched->end - touched->start) / touched->element - 1;

	if (range->end <= touched->start || range->start >= touched->end)
		return 0;
	if (range->start > touched->start)
		first = (range->start - touched->start) / touched->element;
	if (range->end < touched->end)
		last = (range->end - 1 - touched->start) / touched->element;
	return last - first + 1;
}

static void aside_fill(struct thread *thread, const struct touched *touched, uint32_t index,
		       struct mark_data_cell *cell)
{
	uint32_t site = touched->number & (MARK_DATA_SITES - 1);
	struct mark_data_aside *aside = &asides_of(thread)[site];
	const struct range *range = &ranges[index];
	uint64_t start = range->start, end = __atomic_load_n(&range->end, __ATOMIC_ACQUIRE);
	uint64_t size = touched->element;

	if (range->shared || range->event || touched->start < start || touched->end > end ||
	    touched->number & TOUCH_STRING)
		return;
	ranges[index].aside = true;
	aside->limit = 0;
	aside->start = start;
	aside->cell = (uint64_t)cell;
	*(volatile uint64_t *)&aside->limit = end - start - size + 1;
	/* It may have gone meanwhile. */
	if (range->shared || __atomic_load_n(&range->end, __ATOMIC_ACQUIRE) != end)
		*(volatile uint64_t *)&aside->limit = 0;
}

static uint32_t access_of(uint32_t number)
{
	return (number & TOUCH_READ ? STREAM_ACCESS_READ : 0) |
	       (number & TOUCH_WRITE ? STREAM_ACCESS_WRITE : 0);
}

static bool range_touch(struct thread *thread, const struct touched *touched, uint32_t index)
{
	const struct range range = ranges[index];
	uint64_t count = range.end ? elements_within(touched, &range) : 0;
	struct mark_data_cell *cell;

	if (!count)
		return false;
	cell = cell_of(thread, sites[touched->number & (MARK_DATA_SITES - 1)].pc, range.mark);
	cell_count(cell, touched->number, count * touched->by);
	if (touched->by == 1)
		aside_fill(thread, touched, index, cell);
	if (touched->by == 1 && range.event)
		mark_event_raise(thread,
				 &(struct mark_event){
					 .mark = range.mark,
					 .pc = sites[touched->number & (MARK_DATA_SITES - 1)].pc,
					 .access = access_of(touched->number) });
	return true;
}

/* A range that lies on two pages is met on the first of them that is touched. */
static bool page_touch(struct thread *thread, const struct touched *touched, uint64_t number)
{
	const struct page *page = page_at(number);
	uint64_t first = touched->start >> PAGE_BITS;
	bool found = false;
	uint32_t at = 0;

	if (page && __atomic_load_n(&page->number, __ATOMIC_ACQUIRE))
		at = __atomic_load_n(&page->first, __ATOMIC_ACQUIRE);
	for (; at; at = nodes[at - 1].next) {
		uint64_t start = ranges[nodes[at - 1].range].start >> PAGE_BITS;

		if (number == (start > first ? start : first))
			found |= range_touch(thread, touched, nodes[at - 1].range);
	}
	return found;
}

/* Whether anything was marked there. */
static bool row_touch(struct thread *thread, const struct touched *touched)
{
	uint64_t last = (touched->end - 1) >> PAGE_BITS;
	uint32_t count = __atomic_load_n(&large_count, __ATOMIC_ACQUIRE);
	bool found = false;

	for (uint32_t i = 0; i < count; i++)
		found |= range_touch(thread, touched, large[i]);
	for (uint64_t page = touched->start >> PAGE_BITS; page <= last; page++)
		found |= page_touch(thread, touched, page);
	return found;
}

/* --- Between ranges ---------------------------------------------------------------------- */

struct gap {
	uint64_t start, end;
};

/* Makes the gap around the address smaller by a range. */
static void gap_cut(struct gap *gap, uint64_t address, const struct range *range)
{
	uint64_t end = __atomic_load_n(&range->end, __ATOMIC_ACQUIRE);

	if (!end)
		return;
	if (end <= address && end > gap->start)
		gap->start = end;
	if (range->start > address && range->start < gap->end)
		gap->end = range->start;
}

/* What lies around an access to nothing that is marked, within its page. */
static void gap_fill(struct thread *thread, const struct touched *touched)
{
	uint32_t before = __atomic_load_n(&generation, __ATOMIC_SEQ_CST), at = 0;
	uint64_t number = touched->start >> PAGE_BITS;
	struct gap gap = { number << PAGE_BITS, (number + 1) << PAGE_BITS };
	const struct page *page = page_at(number);
	struct mark_data_aside *aside = &asides_of(thread)[touched->number & (MARK_DATA_SITES - 1)];

	if (page && __atomic_load_n(&page->number, __ATOMIC_ACQUIRE))
		at = __atomic_load_n(&page->first, __ATOMIC_ACQUIRE);
	for (; at; at = nodes[at - 1].next)
		gap_cut(&gap, touched->start, &ranges[nodes[at - 1].range]);
	for (uint32_t i = 0; i < large_count; i++)
		gap_cut(&gap, touched->start, &ranges[large[i]]);
	if (has_heap || touched->end > gap.end)
		return;
	__atomic_store_n(&gaps, true, __ATOMIC_SEQ_CST);
	aside->limit = 0;
	aside->start = gap.start;
	aside->cell = (uint64_t)&mark_data_memory(thread)->unmarked_cell;
	*(volatile uint64_t *)&aside->limit = gap.end - gap.start - touched->element + 1;
	if (__atomic_load_n(&generation, __ATOMIC_SEQ_CST) != before)
		*(volatile uint64_t *)&aside->limit = 0;
}

/* What a string instruction does: count elements from an address on, or down from it. */
static void string_touch(struct thread *thread, uint32_t number, uint64_t address, uint64_t count,
			 uint64_t by)
{
	uint32_t size = sites[number & (MARK_DATA_SITES - 1)].size;
	struct touched touched = { .start = address,
				   .end = address + count * size,
				   .element = size,
				   .number = number,
				   .by = by };

	if (!count || count > UINT64_MAX / 2 / size)
		return;
	if (thread->flags & DIRECTION) {
		touched.start = address + size - count * size;
		touched.end = address + size;
	}
	if (touched.start < touched.end)
		row_touch(thread, &touched);
}

static void touch(struct thread *thread, uint32_t number, uint64_t address, uint64_t by)
{
	uint32_t size = sites[number & (MARK_DATA_SITES - 1)].size;
	const struct touched touched = { address, address + size, size, number, by };

	if (number & TOUCH_STRING)
		string_touch(thread, number, address, thread->regs[RCX], by);
	else if (address < address + size && !row_touch(thread, &touched) && by == 1)
		gap_fill(thread, &touched);
}

/* How far an instruction that compares has got since its registers were kept. */
static void compared_touch(struct thread *thread, uint32_t number, uint64_t rcx)
{
	struct mark_data_memory *memory = mark_data_memory(thread);
	uint64_t count = memory->rcx - rcx;
	bool by_rsi = sites[number & (MARK_DATA_SITES - 1)].by_rsi;

	string_touch(thread, number, by_rsi ? memory->rsi : memory->rdi, count, 1);
}

static void compares_keep(struct thread *thread)
{
	struct mark_data_memory *memory = mark_data_memory(thread);

	memory->rsi = thread->regs[RSI];
	memory->rdi = thread->regs[RDI];
	memory->rcx = thread->regs[RCX];
}

/* --- Allocations ------------------------------------------------------------------------- */

static struct allocation *allocations_of(struct thread *thread)
{
	return (struct allocation *)(mark_data_memory(thread) + 1);
}

_Static_assert(sizeof(struct mark_data_memory) + CALLS_MAX * sizeof(struct allocation) <=
		       MARK_DATA_FILTER,
	       "they have their place");

/* The innermost one whose caller has not been left; those that have are dropped. */
static struct allocation *allocation_top(struct thread *thread, uint64_t sp)
{
	struct mark_data_memory *memory = mark_data_memory(thread);

	while (memory->allocations && allocations_of(thread)[memory->allocations - 1].sp < sp)
		memory->allocations--;
	return memory->allocations ? &allocations_of(thread)[memory->allocations - 1] : NULL;
}

static void allocation_expect(struct thread *thread, uint32_t mark)
{
	struct mark_data_memory *memory = mark_data_memory(thread);
	const struct allocation *top = allocation_top(thread, thread->regs[RSP]);

	if (top && top->sp == thread->regs[RSP])
		memory->allocations--;
	if (memory->allocations < CALLS_MAX)
		allocations_of(thread)[memory->allocations++] =
			(struct allocation){ thread->regs[RSP], 0, mark };
}

static void allocation_begin(struct thread *thread, uint32_t how, const uint64_t *arguments)
{
	struct allocation *top = allocation_top(thread, thread->regs[RSP]);
	uint64_t size = arguments[how != MARK_ALLOCATION_FIRST];

	if (!top || top->sp != thread->regs[RSP] + 8)
		return;
	if (how == MARK_ALLOCATION_PRODUCT && __builtin_mul_overflow(size, arguments[0], &size))
		size = 0;
	top->size = size;
}

static void allocation_end(struct thread *thread, uint64_t start)
{
	const struct allocation *top = allocation_top(thread, thread->regs[RSP]);

	if (!top || top->sp != thread->regs[RSP])
		return;
	mark_data_memory(thread)->allocations--;
	if (!start || !top->size || start + top->size < start)
		return;
	engine_lock();
	if (range_add(start, start + top->size, top->mark, true, false) == RANGES_MAX)
		mark_data_memory(thread)->unmarked++;
	engine_unlock();
}

/* Memory that is given back. */
static void release(uint64_t start)
{
	const struct page *page = page_at(start >> PAGE_BITS);
	uint32_t at = 0, found = RANGES_MAX;

	if (page && __atomic_load_n(&page->number, __ATOMIC_ACQUIRE))
		at = __atomic_load_n(&page->first, __ATOMIC_ACQUIRE);
	for (; at; at = nodes[at - 1].next)
		if (ranges[nodes[at - 1].range].heap && ranges[nodes[at - 1].range].end &&
		    ranges[nodes[at - 1].range].start == start)
			found = nodes[at - 1].range;
	for (uint32_t i = 0; i < large_count && found == RANGES_MAX; i++)
		if (ranges[large[i]].heap && ranges[large[i]].end &&
		    ranges[large[i]].start == start)
			found = large[i];
	if (found == RANGES_MAX)
		return;
	engine_lock();
	range_remove(found);
	engine_unlock();
}

/* Registers that may be dead come as values: code that calls uses what is dead for itself. */
static void called(struct thread *thread, uint32_t number, const uint64_t *values)
{
	if (number & SITE_ALLOCATES)
		allocation_expect(thread, number & (SITE_ALLOCATES - 1));
	else if (number & SITE_BACK)
		allocation_end(thread, values[0]);
	else if (number & SITE_ALLOCATION)
		allocation_begin(thread, number & 3, values);
	else if (number & SITE_RELEASE)
		release(values[0]);
	else if (number & TOUCH_BEHIND)
		compared_touch(thread, number, values[0]);
	else if (number & TOUCH_COMPARES)
		compares_keep(thread);
	else
		touch(thread, number, values[0], 1);
}

/* A string instruction that was interrupted: what it has not done; if it compares, what it has. */
static void taken_back(struct thread *thread, uint32_t number, const uint64_t *values)
{
	if (number & TOUCH_COMPARES)
		compared_touch(thread, number, thread->regs[RCX]);
	else if (number < TOUCH_COMPARES)
		touch(thread, number, values[0], (uint64_t)-1);
}

/* --- Places ------------------------------------------------------------------------------ */

static bool is_by_rsi(const struct point *point)
{
	unsigned number = 0;

	for (unsigned i = 0; i < point->insn->operand_count; i++)
		if (insert_is_access(point->insn, &point->operands[i]) &&
		    number++ == point->access.operand)
			return point->operands[i].mem.base == ZYDIS_REGISTER_RSI;
	return false;
}

/* The place of an instruction's operand. When there are no more, those of a size share one. */
static uint32_t site_of(const struct point *point)
{
	bool shares = site_count >= SITES_OWN;
	const struct site wanted = { shares ? 0 : point->pc, point->access.size,
				     shares ? 0 : point->access.operand, is_by_rsi(point) };
	uint64_t hash = hash_of(point->pc * 4 + point->access.operand);

	for (unsigned i = 0; i < SITES_HASH; i++) {
		uint32_t *index = &site_index[(hash + i) % SITES_HASH];
		const struct site *site = &sites[*index];

		if (!*index)
			break;
		if (site->pc == point->pc && site->operand == point->access.operand &&
		    site->size == wanted.size)
			return *index;
	}
	for (uint32_t i = SITES_OWN; shares && i < site_count; i++)
		if (sites[i].size == wanted.size && sites[i].by_rsi == wanted.by_rsi)
			return i;
	if (site_count == MARK_DATA_SITES)
		return 0; /* of no size, so nothing is counted: there are not so many sizes */
	sites[site_count] = wanted;
	for (unsigned i = 0; !shares; i++) {
		uint32_t *index = &site_index[(hash + i) % SITES_HASH];

		if (*index)
			continue;
		*index = site_count;
		break;
	}
	return site_count++;
}

static uint32_t number_of(const struct point *point)
{
	return site_of(point) | (point->access.read ? TOUCH_READ : 0) |
	       (point->access.write ? TOUCH_WRITE : 0);
}

/* Instructions whose operand is no access: they move data between caches, or nothing. */
static bool is_hint(const ZydisDecodedInstruction *insn)
{
	return insn->meta.category == ZYDIS_CATEGORY_PREFETCH ||
	       insn->meta.category == ZYDIS_CATEGORY_NOP ||
	       insn->meta.category == ZYDIS_CATEGORY_WIDENOP ||
	       insn->mnemonic == ZYDIS_MNEMONIC_XLAT;
}

static bool compares(const ZydisDecodedInstruction *insn)
{
	return insn->attributes & (ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE);
}

static void access(struct insert *insert, const struct point *point)
{
	uint32_t number;

	if (!is_awake || is_hint(point->insn) || !point->access.size)
		return;
	number = number_of(point);
	mark_only_counting(insert);
	if (!point->access.repeated) {
		inline_touch(insert, number, &point->access);
	} else if (compares(point->insn)) {
		inline_call(insert, ENGINE_TOOL_MARK_DATA, number | TOUCH_COMPARES, 0);
	} else {
		inline_address(insert, INLINE_A, point->access.operand);
		inline_call(insert, ENGINE_TOOL_MARK_DATA, number | TOUCH_STRING, 1);
	}
}

static void after(struct insert *insert, const struct point *point)
{
	struct point operand = *point;
	unsigned number = 0;

	if (!is_awake || !compares(point->insn))
		return;
	for (unsigned i = 0; i < point->insn->operand_count; i++) {
		if (!insert_is_access(point->insn, &point->operands[i]))
			continue;
		operand.access = (struct access){ .operand = (uint8_t)number++,
						  .read = true,
						  .size = point->operands[i].size / 8 };
		mark_only_counting(insert);
		inline_general(insert, INLINE_A, RCX);
		inline_call(insert, ENGINE_TOOL_MARK_DATA, number_of(&operand) | TOUCH_BEHIND, 1);
	}
}

/* Where a call that may be an allocation comes back. */
static uint64_t backs[1 << 10];
static uint32_t back_count;

static void back_note(uint64_t pc)
{
	const uint32_t room = sizeof(backs) / sizeof(backs[0]);

	for (uint32_t i = 0; i < back_count; i++)
		if (backs[i] == pc)
			return;
	if (back_count < room)
		backs[back_count++] = pc;
}

static void before(struct insert *insert, const struct point *point)
{
	enum { RANGES = 16 };
	const struct mark_module *module = is_awake ? mark_module_of(point->pc) : NULL;
	const struct mark_range *found[RANGES];
	unsigned count = module ? mark_ranges_at(module, point->pc, found, RANGES) : 0;

	for (uint32_t i = 0; i < back_count && is_awake; i++)
		if (backs[i] == point->pc) {
			inline_general(insert, INLINE_A, RAX);
			inline_call(insert, ENGINE_TOOL_MARK_DATA, SITE_BACK, 1);
		}
	for (unsigned i = 0; i < count; i++) {
		uint32_t number = mark_word_number(found[i]->mark);

		if (!insert_has_room(insert, 12))
			break;
		switch (mark_word_use(found[i]->mark)) {
		case MARK_USE_SITE:
			if (point->insn->meta.category != ZYDIS_CATEGORY_CALL ||
			    number >= SITE_ALLOCATES)
				break;
			inline_call(insert, ENGINE_TOOL_MARK_DATA, SITE_ALLOCATES | number, 0);
			back_note(point->pc + point->insn->length);
			break;
		case MARK_USE_ALLOCATE:
			inline_general(insert, INLINE_A, RDI);
			inline_general(insert, INLINE_B, RSI);
			inline_call(insert, ENGINE_TOOL_MARK_DATA, SITE_ALLOCATION | number, 2);
			break;
		case MARK_USE_RELEASE:
			inline_general(insert, INLINE_A, RDI);
			inline_call(insert, ENGINE_TOOL_MARK_DATA, SITE_RELEASE, 1);
			break;
		default:
			break;
		}
	}
}

/* --- Modules ----------------------------------------------------------------------------- */

static void data_apply(const struct mark_table *table, uint64_t bias, bool pinned)
{
	const struct mark_data_range *data = mark_table_data(table);

	tables_make();
	for (uint32_t i = 0; i < table->data_count; i++) {
		uint64_t start = data[i].start + bias, end = data[i].end + bias;
		uint32_t index = RANGES_MAX;

		if (start >= end)
			continue;
		index = range_find(start, end, data[i].mark);
		if (index == RANGES_MAX)
			index = range_add(start, end, data[i].mark, false, data[i].event == 1);
		if (index == RANGES_MAX)
			continue;
		ranges[index].pinned = pinned;
		ranges[index].wanted = change;
	}
}

static void module_apply(const struct mark_module *module)
{
	const struct mark_table *table = module ? marks_table(module->table) : NULL;
	uint64_t bias;

	if (!is_awake || !table || !table->data_count ||
	    table->code_offset - module->offset >= module->end - module->start)
		return;
	bias = module->start - module->offset + table->code_offset - table->code_address;
	for (uint32_t i = 0; i < applied_count; i++)
		if (applied[i].table == table && applied[i].bias == bias)
			return;
	if (applied_count == APPLIED_MAX)
		return;
	applied[applied_count++] = (struct applied){ table, bias };
	data_apply(table, bias, false);
}

/* When it is first seen, and when it is executed after it was gone. */
static void module(const struct region *region, const char *path)
{
	module_apply(mark_module_of(region->start));
}

static void block(struct insert *insert, const struct point *point)
{
	if (is_awake)
		module_apply(mark_module_of(point->pc));
}

/* Memory that is no more, or is something else now: of allocations, and of modules. */
static void unmapped(uint64_t start, uint64_t end)
{
	for (uint32_t i = 0; i < range_count; i++) {
		if (!ranges[i].end || ranges[i].pinned || ranges[i].end <= start ||
		    end <= ranges[i].start)
			continue;
		range_remove(i);
		applied_count = 0;
	}
}

/* --- Marks that come and go -------------------------------------------------------------- */

/* Whether calls from somewhere are to be marked with it. */
static bool is_site(uint32_t mark)
{
	const struct mark_module *module;

	for (uint32_t i = 0; (module = mark_module_number(i)); i++) {
		const struct mark_table *table = marks_table(module->table);

		for (uint32_t at = 0; table && at < table->count; at++)
			if (mark_word_use(table->ranges[at].mark) == MARK_USE_SITE &&
			    mark_word_number(table->ranges[at].mark) == mark)
				return true;
	}
	return false;
}

/* What was allocated at the same mark follows each other, mostly. */
static void unwanted_remove(void)
{
	uint32_t asked = 0;
	bool stays = false;

	for (uint32_t i = 0; i < range_count; i++) {
		if (!ranges[i].end)
			continue;
		if (ranges[i].heap && ranges[i].mark != asked) {
			asked = ranges[i].mark;
			stays = is_site(asked);
		}
		if (ranges[i].heap ? !stays : ranges[i].wanted != change)
			range_remove(i);
	}
}

/* All that is marked in modules that are there, and at addresses; and nothing else. */
static void marks_apply(void)
{
	const struct mark_table *absolute = marks_table(marks_area()->data);
	const struct mark_module *module;

	applied_count = 0;
	for (uint32_t i = 0; (module = mark_module_number(i)); i++)
		module_apply(module);
	if (absolute)
		data_apply(absolute, 0, true);
	unwanted_remove();
}

static void thread_prepare(struct thread *thread)
{
	for (size_t i = 0; i < MARK_DATA_PAGES; i++)
		filter_of(thread)[i] = filter[i];
	__atomic_store_n(&mark_data_memory(thread)->ready, 1, __ATOMIC_RELEASE);
}

/* Every access is tested from now on, by code that is translated anew. */
static void wake(void)
{
	tables_make();
	is_awake = true;
	for (struct thread *thread = thread_next(NULL); thread; thread = thread_next(thread))
		if (mark_is_counting(thread))
			thread_prepare(thread);
	cache_forget(0, UINT64_MAX);
}

/* Code that was translated before, and is left at its next exit, finds nothing that is marked. */
static void sleep(void)
{
	is_awake = false;
	cache_forget(0, UINT64_MAX);
}

static void renew(void)
{
	bool needed = mark_tool_is_needed(ENGINE_TOOL_MARK_DATA);

	if (marks_generation() == change)
		return;
	change = marks_generation();
	if (needed && !is_awake)
		wake();
	if (is_awake)
		marks_apply();
	if (!needed && is_awake)
		sleep();
}

/* --- Threads ----------------------------------------------------------------------------- */

static void thread_start(struct thread *thread)
{
	if (is_awake)
		thread_prepare(thread);
}

static void forked(struct thread *thread)
{
	mark_data_forget();
	thread_start(thread);
}

const struct tool tool_mark_data = {
	.block = block,
	.before = before,
	.access = access,
	.after = after,
	.called = called,
	.taken_back = taken_back,
	.module = module,
	.unmapped = unmapped,
	.thread_start = thread_start,
	.thread_end = mark_data_thread_end,
	.forked = forked,
	.renew = renew,
};
