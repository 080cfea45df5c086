// SPDX-License-Identifier: BSD-2-Clause
/*
 * Counts accesses to marked data: cells, asides and gaps (mark_touch.h).
 */
#include "engine/tools/mark_touch.h"

#include "engine/stream.h"

enum {
	SITES_HASH = 2 * MARK_DATA_SITES,
	SITES_OWN = MARK_DATA_SITES - 64, /* later instructions share a place by size */
	DIRECTION = 1 << 10, /* flag: string instructions go down */
};

struct touch_site {
	uint64_t pc;
	uint32_t size; /* of an access, bytes */
	uint16_t operand;
	bool by_rsi; /* a string instruction's operand */
};

static struct touch_site *sites;
static uint32_t site_count, *site_index;
/*
 * The generation grows when a range is added. Asides may hold gaps between ranges as well, while
 * has_gaps; not where memory is marked when it is allocated, since that happens too often.
 */
static uint32_t generation;
static bool has_gaps;

/* --- Places ------------------------------------------------------------------------------ */

void touch_make(void)
{
	if (sites)
		return;
	sites = mark_memory_need(MARK_DATA_SITES * sizeof(*sites));
	site_index = mark_memory_need(SITES_HASH * sizeof(*site_index));
	site_count = 1;
}

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
uint32_t touch_site_of(const struct point *point)
{
	bool shares = site_count >= SITES_OWN;
	const struct touch_site wanted = { shares ? 0 : point->pc, point->access.size,
					   shares ? 0 : point->access.operand, is_by_rsi(point) };
	uint64_t hash = mark_hash(point->pc * 4 + point->access.operand);

	for (unsigned i = 0; i < SITES_HASH; i++) {
		uint32_t *index = &site_index[(hash + i) % SITES_HASH];
		const struct touch_site *site = &sites[*index];

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

/* --- Asides ------------------------------------------------------------------------------ */

static struct mark_data_aside *asides_of(struct thread *thread)
{
	return (struct mark_data_aside *)((uint8_t *)mark_data_memory(thread) + MARK_DATA_ASIDES);
}

void touch_asides_forget(struct marked_range *range)
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
void touch_gaps_forget(void)
{
	__atomic_add_fetch(&generation, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_exchange_n(&has_gaps, false, __ATOMIC_SEQ_CST))
		return;
	for (struct thread *thread = thread_next(NULL); thread; thread = thread_next(thread))
		for (uint32_t site = 0; site < site_count; site++)
			if (asides_of(thread)[site].cell ==
			    (uint64_t)&mark_data_memory(thread)->unmarked_cell)
				*(volatile uint64_t *)&asides_of(thread)[site].limit = 0;
}

/* --- Counting ---------------------------------------------------------------------------- */

static struct mark_data_cell *cells_of(struct thread *thread)
{
	return (struct mark_data_cell *)((uint8_t *)mark_data_memory(thread) + MARK_DATA_CELLS);
}

/* The index that has room for so many numbers: of a cell, from 1 on; 0: the place is free. */
static uint32_t *index_of(struct thread *thread, uint32_t room)
{
	return (uint32_t *)((uint8_t *)mark_data_memory(thread) + MARK_DATA_INDEX) + room;
}

/* The cell's place in the index, which may be free: at most half of the places are in use. */
static uint32_t *index_place(struct thread *thread, uint32_t room, uint64_t pc, uint32_t mark)
{
	const struct mark_data_cell *cells = cells_of(thread);
	uint32_t *index = index_of(thread, room);

	for (uint64_t hash = mark_hash(pc * 31 + mark);; hash++) {
		uint32_t *place = &index[hash % room];

		if (!*place || (cells[*place - 1].mark == mark && cells[*place - 1].pc == pc))
			return place;
	}
}

/* Only a whole index is used: a thread may be thrown out of here, and come again. */
static void index_grow(struct thread *thread)
{
	struct mark_data_memory *memory = mark_data_memory(thread);
	const struct mark_data_cell *cells = cells_of(thread);
	uint32_t room = memory->index_room ? 2 * memory->index_room : MARK_DATA_INDEX_MIN;

	for (uint32_t i = 0; i < memory->used; i++)
		*index_place(thread, room, cells[i].pc, cells[i].mark) = i + 1;
	memory->index_room = room;
}

/* Others may read those in use at the same time. */
static uint32_t cell_use(struct thread *thread, uint64_t pc, uint32_t mark)
{
	struct mark_data_memory *memory = mark_data_memory(thread);
	struct mark_data_cell *cell = &cells_of(thread)[memory->used];

	cell->pc = pc;
	cell->mark = mark;
	__atomic_store_n(&memory->used, memory->used + 1, __ATOMIC_RELEASE);
	return memory->used;
}

/* Half of the cells stay for what is of no instruction. */
static bool cell_has_room(const struct mark_data_memory *memory, uint64_t pc)
{
	uint32_t most = marks_area()->accesses_max;

	most = most < MARK_DATA_CELLS_MAX ? most : MARK_DATA_CELLS_MAX;
	return memory->used < (pc ? most - most / 2 : most);
}

static struct mark_data_cell *cell_of(struct thread *thread, uint64_t pc, uint32_t mark)
{
	struct mark_data_memory *memory = mark_data_memory(thread);
	uint32_t *place;

	if (memory->used >= memory->index_room / 2 && memory->index_room < MARK_DATA_INDEX_MAX)
		index_grow(thread);
	place = index_place(thread, memory->index_room, pc, mark);
	if (!*place && !cell_has_room(memory, pc))
		return pc ? cell_of(thread, 0, mark) : &memory->uncounted;
	if (!*place)
		*place = cell_use(thread, pc, mark);
	return &cells_of(thread)[*place - 1];
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
static uint64_t elements_within(const struct touched *touched, const struct marked_range *range)
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
	const struct marked_range *range = &mark_shadow.ranges[index];
	uint64_t start = range->start, end = __atomic_load_n(&range->end, __ATOMIC_ACQUIRE);
	uint64_t size = touched->element;

	if (range->shared || range->event || touched->start < start || touched->end > end ||
	    touched->number & TOUCH_STRING)
		return;
	mark_shadow.ranges[index].aside = true;
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
	const struct marked_range range = mark_shadow.ranges[index];
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
	uint64_t first = touched->start >> SHADOW_PAGE_BITS;
	bool found = false;

	for (uint32_t at = shadow_list(number); at; at = mark_shadow.nodes[at - 1].next) {
		uint64_t start = mark_shadow.ranges[mark_shadow.nodes[at - 1].range].start >>
				 SHADOW_PAGE_BITS;

		if (number == (start > first ? start : first))
			found |= range_touch(thread, touched, mark_shadow.nodes[at - 1].range);
	}
	return found;
}

/* Whether anything was marked there. */
static bool row_touch(struct thread *thread, const struct touched *touched)
{
	uint64_t last = (touched->end - 1) >> SHADOW_PAGE_BITS;
	uint32_t count = __atomic_load_n(&mark_shadow.large_count, __ATOMIC_ACQUIRE);
	bool found = false;

	for (uint32_t i = 0; i < count; i++)
		found |= range_touch(thread, touched, mark_shadow.large[i]);
	for (uint64_t page = touched->start >> SHADOW_PAGE_BITS; page <= last; page++)
		found |= page_touch(thread, touched, page);
	return found;
}

/* --- Between ranges ---------------------------------------------------------------------- */

struct gap {
	uint64_t start, end;
};

/* Makes the gap around the address smaller by a range. */
static void gap_cut(struct gap *gap, uint64_t address, const struct marked_range *range)
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
	uint32_t before = __atomic_load_n(&generation, __ATOMIC_SEQ_CST);
	uint64_t number = touched->start >> SHADOW_PAGE_BITS;
	struct gap gap = { number << SHADOW_PAGE_BITS, (number + 1) << SHADOW_PAGE_BITS };
	struct mark_data_aside *aside = &asides_of(thread)[touched->number & (MARK_DATA_SITES - 1)];

	for (uint32_t at = shadow_list(number); at; at = mark_shadow.nodes[at - 1].next)
		gap_cut(&gap, touched->start, &mark_shadow.ranges[mark_shadow.nodes[at - 1].range]);
	for (uint32_t i = 0; i < mark_shadow.large_count; i++)
		gap_cut(&gap, touched->start, &mark_shadow.ranges[mark_shadow.large[i]]);
	if (mark_shadow.has_heap || touched->end > gap.end)
		return;
	__atomic_store_n(&has_gaps, true, __ATOMIC_SEQ_CST);
	aside->limit = 0;
	aside->start = gap.start;
	aside->cell = (uint64_t)&mark_data_memory(thread)->unmarked_cell;
	*(volatile uint64_t *)&aside->limit = gap.end - gap.start - touched->element + 1;
	if (__atomic_load_n(&generation, __ATOMIC_SEQ_CST) != before)
		*(volatile uint64_t *)&aside->limit = 0;
}

/* --- Instructions ------------------------------------------------------------------------ */

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

void touch_count(struct thread *thread, uint32_t number, uint64_t address, uint64_t by)
{
	uint32_t size = sites[number & (MARK_DATA_SITES - 1)].size;
	const struct touched touched = { address, address + size, size, number, by };

	if (number & TOUCH_STRING)
		string_touch(thread, number, address, thread->regs[RCX], by);
	else if (address < address + size && !row_touch(thread, &touched) && by == 1)
		gap_fill(thread, &touched);
}

/* How far an instruction that compares has got since its registers were kept. */
void touch_compared(struct thread *thread, uint32_t number, uint64_t rcx)
{
	struct mark_data_memory *memory = mark_data_memory(thread);
	uint64_t count = memory->rcx - rcx;
	bool by_rsi = sites[number & (MARK_DATA_SITES - 1)].by_rsi;

	string_touch(thread, number, by_rsi ? memory->rsi : memory->rdi, count, 1);
}

void touch_compares_keep(struct thread *thread)
{
	struct mark_data_memory *memory = mark_data_memory(thread);

	memory->rsi = thread->regs[RSI];
	memory->rdi = thread->regs[RDI];
	memory->rcx = thread->regs[RCX];
}
