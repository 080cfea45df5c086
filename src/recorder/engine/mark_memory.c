// SPDX-License-Identifier: BSD-2-Clause
#include "recorder/engine/mark_memory.h"

#include <string.h>
#include <x86intrin.h>

#include "base/clock.h"
#include "base/mem.h"
#include "recorder/engine/executed.h"
#include "recorder/engine/mark_visits.h"
#include "wire/mark_data.h"
#include "wire/mark_times.h"

enum { PS_PER_NS = 1000 };

/* A larger count is impossible: the program has overwritten it. */
static const uint64_t count_max = 1ull << 56;

void mark_memory_init(struct mark_memory *memory, struct recorder *recorder, struct marks *marks)
{
	*memory = (struct mark_memory){ .recorder = recorder,
					.marks = marks,
					.start_ns = clock_monotonic(),
					.start_ticks = __rdtsc() };
}

double mark_memory_tick(const struct mark_memory *memory)
{
	uint64_t ns = clock_monotonic(), ticks = __rdtsc();

	return (double)(ns - memory->start_ns) / (double)(ticks - memory->start_ticks);
}

/* --- Times ------------------------------------------------------------------------------------ */

/* A thread's timer, while its rows are written. */
struct timing {
	struct mark_memory *memory;
	struct store_mark_time row;
	uint64_t overhead; /* ticks */
	double tick; /* ns */
	bool is_open; /* a visit has not ended */
	struct mark_timing from;
};

/* Without what measuring adds. */
static uint64_t ns_of(const struct timing *timing, uint64_t ticks)
{
	return ticks <= timing->overhead
		       ? 0
		       : (uint64_t)((double)(ticks - timing->overhead) * timing->tick);
}

static int bucket_put(const struct timing *timing, unsigned bucket, bool first)
{
	uint64_t low = mark_times_bucket_low(bucket), least = ~timing->from.least;
	const struct store_mark_time_bucket row = {
		.mark = timing->row.mark,
		.thread = timing->row.thread,
		.from_ns = ns_of(timing, first && least > low ? least : low),
		.visits = timing->from.buckets[bucket],
	};

	return store_add(recorder_store(timing->memory->recorder), STORE_TABLE_mark_time_bucket,
			 &row);
}

static int buckets_put(struct timing *timing)
{
	int err = 0;

	for (unsigned i = 0; i < MARK_TIMES_BUCKETS && !err; i++) {
		if (!timing->from.buckets[i] || timing->from.buckets[i] > count_max)
			continue;
		err = bucket_put(timing, i, !timing->row.timed);
		timing->row.timed += timing->from.buckets[i];
	}
	return err;
}

static uint64_t sound(uint64_t count)
{
	return count < count_max ? count : 0;
}

static int timing_write(struct timing *timing)
{
	struct store_mark_time *row = &timing->row;
	uint64_t cost;
	int err = buckets_put(timing);

	cost = row->timed * timing->overhead;
	if (timing->from.sum < count_max && timing->from.sum > cost)
		row->time_ns = (uint64_t)((double)(timing->from.sum - cost) * timing->tick);
	row->longest_ns = ns_of(timing, sound(timing->from.most));
	row->slower = sound(timing->from.slower);
	row->abandoned = sound(timing->from.abandoned);
	row->too_deep = sound(timing->from.too_deep);
	row->overhead_ps = (uint64_t)((double)timing->overhead * timing->tick * PS_PER_NS);
	if (err || (!row->timed && !row->abandoned && !row->too_deep && !timing->is_open))
		return err;
	return store_add(recorder_store(timing->memory->recorder), STORE_TABLE_mark_time, row);
}

/* Whose visits have not ended, by timer. The memory may hold anything. */
static void open_find(const struct mark_times_memory *head, const void *shared,
		      bool ret[static MARK_TIMERS_MAX])
{
	const char *frames = (const char *)shared + MARK_TIMES_FRAMES;
	uint64_t below = (head->deepest - head->top) / MARK_TIMES_FRAME;
	uint64_t count = below < MARK_TIMES_DEPTH ? MARK_TIMES_DEPTH - below : 0;

	for (uint64_t i = 1; i <= count; i++) {
		struct mark_times_frame frame;

		memcpy(&frame, frames + i * MARK_TIMES_FRAME, sizeof(frame));
		if (frame.timer < MARK_TIMERS_MAX)
			ret[frame.timer] = true;
	}
}

static int times_write(struct mark_memory *memory, const struct engine_thread *thread,
		       const void *shared, uint32_t known)
{
	enum { OVERHEAD_MAX = 1 << 20 };
	struct timing *timing = mem_zalloc(sizeof(*timing));
	struct mark_times_memory head;
	bool open[MARK_TIMERS_MAX] = {};
	int err = 0;

	memcpy(&head, shared, sizeof(head));
	if (head.ready)
		open_find(&head, shared, open);
	for (uint32_t i = 0; head.ready && i < MARK_TIMERS_MAX && !err; i++) {
		uint32_t mark = marks_timed_by(memory->marks, i);

		if (!mark)
			break;
		if (mark > known)
			continue;
		*timing = (struct timing){
			.memory = memory,
			.row = { .mark = { mark }, .thread = executed_thread_id(thread) },
			.overhead = head.overhead < OVERHEAD_MAX ? head.overhead : 0,
			.tick = mark_memory_tick(memory),
			.is_open = open[i],
		};
		memcpy(&timing->from,
		       (const char *)shared + MARK_TIMES_TIMERS + (size_t)i * MARK_TIMING,
		       sizeof(timing->from));
		err = timing_write(timing);
	}
	free(timing);
	return err;
}

int mark_timing_write(struct mark_memory *memory, const struct engine_thread *thread, uint32_t mark,
		      const struct mark_timing *from)
{
	struct timing *timing = mem_zalloc(sizeof(*timing));
	int err;

	*timing = (struct timing){
		.memory = memory,
		.row = { .mark = { mark }, .thread = executed_thread_id(thread) },
		.tick = mark_memory_tick(memory),
	};
	memcpy(&timing->from, from, sizeof(timing->from));
	err = timing_write(timing);
	free(timing);
	return err;
}

/* --- Data ------------------------------------------------------------------------------------- */

int mark_memory_location(struct mark_memory *memory, const struct engine_thread *thread,
			 uint64_t pc, struct location_id *ret)
{
	struct module_id module;
	uint64_t address;

	*ret = (struct location_id){};
	if (!pc)
		return 0;
	loadmap_resolve(recorder_loadmap(memory->recorder), executed_image(thread->process), pc,
			clock_monotonic(), &module, &address);
	return locations_add(recorder_locations(memory->recorder), module, address, ret);
}

/* Whatever the program has written there, totals remain numbers that a profile can hold. */
static void total_add(uint64_t *total, uint64_t count)
{
	const uint64_t most = 1ull << 60;

	*total = count < most - *total ? *total + count : most;
}

static int cell_write(struct mark_memory *memory, const struct engine_thread *thread,
		      const struct mark_data_cell *cell, uint32_t known)
{
	struct store_mark_access row = { .mark = { cell->mark },
					 .thread = executed_thread_id(thread),
					 .reads = sound(cell->reads) + sound(cell->both),
					 .writes = sound(cell->writes) + sound(cell->both) };
	int err;

	if (!cell->mark || cell->mark > known || (!row.reads && !row.writes))
		return 0;
	err = mark_memory_location(memory, thread, cell->pc, &row.location);
	err = err ? err
		  : store_add(recorder_store(memory->recorder), STORE_TABLE_mark_access, &row);
	if (!err)
		total_add(&memory->accesses, row.reads + row.writes);
	return err;
}

static int data_write(struct mark_memory *memory, const struct engine_thread *thread,
		      const void *shared, uint32_t known)
{
	struct mark_data_memory head;
	int err = 0;

	memcpy(&head, shared, sizeof(head));
	if (!head.ready)
		return 0;
	total_add(&memory->lost[MARK_LOSS_UNMARKED], sound(head.unmarked));
	total_add(&memory->lost[MARK_LOSS_UNCOUNTED], sound(head.uncounted.reads) +
							      sound(head.uncounted.writes) +
							      2 * sound(head.uncounted.both));
	for (size_t i = 0; i < head.used && i < MARK_DATA_CELLS_MAX && !err; i++) {
		struct mark_data_cell cell;

		memcpy(&cell, (const char *)shared + MARK_DATA_CELLS + i * MARK_DATA_CELL,
		       sizeof(cell));
		err = cell_write(memory, thread, &cell, known);
	}
	return err;
}

int mark_memory_write(struct mark_memory *memory, const struct engine_thread *thread,
		      enum engine_tool tool, const void *shared, uint32_t known)
{
	if (tool == ENGINE_TOOL_MARK_TIMES)
		return times_write(memory, thread, shared, known);
	if (tool == ENGINE_TOOL_MARK_DATA)
		return data_write(memory, thread, shared, known);
	if (tool == ENGINE_TOOL_MARK_VISITS)
		return mark_visits_write(memory, thread, shared, known);
	return 0;
}
