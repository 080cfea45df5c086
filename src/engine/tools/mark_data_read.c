// SPDX-License-Identifier: BSD-2-Clause
/*
 * What marks on data have counted, as the program itself reads it (include/assay/client.h): the sum
 * over the cells of all threads (wire/mark_data.h), with what threads have counted that have ended.
 *
 * 1. A cell is only ever filled by its own thread, and stays what it is once it is in use: others
 *    may read those in use at any time.
 * 2. What a thread has counted is in its cells or in `gone`, never in both: both are changed with
 *    the engine's lock held.
 * 3. If anything was not counted, it may be of any mark, and there is no reading.
 */
#include "engine/stream.h"
#include "engine/tool.h"
#include "engine/tools/marks.h"

enum { GONE = 1 << 17 /* there are fewer ranges that could be marked at a time */ };

/* By hash of the mark. */
static struct gone {
	uint32_t mark; /* number; 0: free */
	uint64_t reads, writes;
} * gone;
static bool is_full; /* something was not kept */

struct mark_data_memory *mark_data_memory(struct thread *thread)
{
	return (struct mark_data_memory *)(stream_counts(thread) +
					   engine_tools_counters_at(engine_boot.tools,
								    ENGINE_TOOL_MARK_DATA,
								    STREAM_SEGMENTS_MAX));
}

static bool is_in_use(void)
{
	return engine_boot.tools & ENGINE_TOOL_BIT(ENGINE_TOOL_MARK_DATA);
}

static const struct mark_data_cell *cells_of(const struct mark_data_memory *memory)
{
	return (const struct mark_data_cell *)((const uint8_t *)memory + MARK_DATA_CELLS);
}

static uint32_t cells_used(const struct mark_data_memory *memory)
{
	uint32_t used = __atomic_load_n(&memory->used, __ATOMIC_ACQUIRE);

	return used < MARK_DATA_CELLS_MAX ? used : MARK_DATA_CELLS_MAX;
}

/* The place of a mark, which may be free; NULL: there is none left. */
static struct gone *gone_of(uint32_t mark)
{
	uint32_t hash = mark * 0x9e3779b9u;

	for (uint32_t i = 0; i < GONE; i++) {
		struct gone *item = &gone[(hash + i) % GONE];

		if (!item->mark || item->mark == mark)
			return item;
	}
	return NULL;
}

/* Whether the thread has counted all that it accessed. */
static bool is_whole(const struct mark_data_memory *memory)
{
	const struct mark_data_cell *lost = &memory->uncounted;

	return !(memory->unmarked | lost->reads | lost->writes | lost->both);
}

static void gone_add(const struct mark_data_cell *cell)
{
	struct gone *item = gone_of(cell->mark);

	if (!item) {
		is_full = true;
		return;
	}
	item->mark = cell->mark;
	item->reads += cell->reads + cell->both;
	item->writes += cell->writes + cell->both;
}

void mark_data_thread_end(struct thread *thread)
{
	const struct mark_data_memory *memory = mark_data_memory(thread);
	uint32_t used = cells_used(memory);

	engine_lock();
	if (used && !gone)
		gone = memory_map(GONE * sizeof(*gone));
	is_full |= (used && !gone) || !is_whole(memory);
	for (uint32_t i = 0; i < used && gone; i++)
		gone_add(&cells_of(memory)[i]);
	engine_unlock();
}

/* The child is a process of its own, which has counted nothing. */
void mark_data_forget(void)
{
	is_full = false;
	if (gone)
		memory_map_at((uint64_t)gone, GONE * sizeof(*gone));
}

/* Returns whether that is everything. */
static bool cells_sum(struct thread *thread, uint32_t mark, uint64_t *reads, uint64_t *writes)
{
	const struct mark_data_memory *memory = mark_data_memory(thread);
	const struct mark_data_cell *cells = cells_of(memory);
	uint32_t used = mark_is_counting(thread) ? cells_used(memory) : 0;

	for (uint32_t i = 0; i < used; i++) {
		if (cells[i].mark != mark)
			continue;
		*reads += cells[i].reads + cells[i].both;
		*writes += cells[i].writes + cells[i].both;
	}
	return !mark_is_counting(thread) || is_whole(memory);
}

bool mark_data_read(struct thread *reader, uint32_t mark, struct mark_reading *ret)
{
	const struct gone *item = gone ? gone_of(mark) : NULL;
	bool whole = !is_full;

	if (!is_in_use())
		return true;
	if (item && item->mark) {
		ret->reads += item->reads;
		ret->writes += item->writes;
	}
	for (struct thread *thread = thread_next(NULL); thread; thread = thread_next(thread))
		whole &= cells_sum(thread, mark, &ret->reads, &ret->writes);
	cells_sum(reader, mark, &ret->thread_reads, &ret->thread_writes);
	return whole;
}
