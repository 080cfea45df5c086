// SPDX-License-Identifier: BSD-2-Clause
#include "recorder/engine/mark_readings.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "wire/mark_data.h"
#include "wire/mark_visits.h"

/* Visits by time, of a mark. */
struct histogram {
	uint64_t ended[MARK_TIMES_BUCKETS]; /* of threads that have ended */
	uint64_t now[MARK_TIMES_BUCKETS]; /* of threads that run, while they are gone through */
	uint64_t base[MARK_TIMES_BUCKETS]; /* of all, at the reading that was kept last */
	uint64_t overhead; /* ticks that measuring adds; the largest of a thread */
};

struct mark_readings {
	const struct mark_memory *memory;
	ARRAY(struct histogram *) histograms; /* by number of the mark; NULL: none */
	struct mark_timing timing; /* the one in hand */
};

/* A larger count is impossible: the program has overwritten it. */
static const uint64_t count_max = 1ull << 56;

enum { OVERHEAD_MAX = 1 << 20 };

/* --- Sums ------------------------------------------------------------------------------------- */

struct mark_sum *mark_sums_at(struct mark_sums *sums, uint32_t mark)
{
	while (sums->items.count <= mark)
		*array_push(&sums->items) = (struct mark_sum){};
	return &sums->items.items[mark];
}

void mark_sums_add(struct mark_sums *to, const struct mark_sums *from)
{
	for (uint32_t i = 0; i < from->items.count; i++)
		mark_sum_add(mark_sums_at(to, i), &from->items.items[i]);
}

/* --- Storage ---------------------------------------------------------------------------------- */

struct mark_readings *mark_readings_create(const struct mark_memory *memory)
{
	struct mark_readings *readings = mem_zalloc(sizeof(*readings));

	readings->memory = memory;
	return readings;
}

void mark_readings_destroy(struct mark_readings *readings)
{
	if (!readings)
		return;
	array_each(&readings->histograms, histogram)
		free(*histogram);
	array_deinit(&readings->histograms);
	free(readings);
}

static struct histogram *histogram_of(struct mark_readings *readings, uint32_t mark)
{
	struct histogram **place;

	while (readings->histograms.count <= mark)
		*array_push(&readings->histograms) = NULL;
	place = &readings->histograms.items[mark];
	*place = *place ? *place : mem_zalloc(sizeof(**place));
	return *place;
}

/* --- Threads ---------------------------------------------------------------------------------- */

/* What was copied to readings->timing. */
static void timing_take(struct mark_readings *readings, uint32_t mark, uint64_t overhead,
			bool ending, struct mark_sums *to)
{
	const struct mark_timing *timing = &readings->timing;
	struct histogram *histogram = histogram_of(readings, mark);
	uint64_t *buckets = ending ? histogram->ended : histogram->now, timed = 0;
	struct mark_sum *sum = mark_sums_at(to, mark);
	uint64_t cost;

	for (unsigned i = 0; i < MARK_TIMES_BUCKETS; i++) {
		if (timing->buckets[i] >= count_max)
			continue;
		buckets[i] += timing->buckets[i];
		timed += timing->buckets[i];
	}
	if (overhead > histogram->overhead)
		histogram->overhead = overhead;
	cost = timed * overhead;
	sum->timed += timed;
	sum->slower += timing->slower < count_max ? timing->slower : 0;
	if (timing->sum < count_max && timing->sum > cost)
		sum->time_ns += (uint64_t)((double)(timing->sum - cost) *
					   mark_memory_tick(readings->memory));
}

static void times_take(struct mark_readings *readings, const char *shared, uint32_t known,
		       bool ending, struct mark_sums *to)
{
	struct mark_times_memory head;

	memcpy(&head, shared, sizeof(head));
	for (uint32_t i = 0; head.ready && i < MARK_TIMERS_MAX; i++) {
		const char *from = shared + MARK_TIMES_TIMERS + (size_t)i * MARK_TIMING;
		uint32_t mark = marks_timed_by(readings->memory->marks, i);
		uint64_t sum;

		if (!mark)
			return;
		memcpy(&sum, from, sizeof(sum));
		if (mark > known || !sum)
			continue;
		memcpy(&readings->timing, from, sizeof(readings->timing));
		timing_take(readings, mark, head.overhead < OVERHEAD_MAX ? head.overhead : 0,
			    ending, to);
	}
}

static void visits_take(struct mark_readings *readings, const char *shared, uint32_t known,
			bool ending, struct mark_sums *to)
{
	struct mark_visits_memory head;

	memcpy(&head, shared, sizeof(head));
	if (head.ready != 1 || !head.mark || head.mark > known)
		return;
	memcpy(&readings->timing, shared + MARK_VISITS_TIMING, sizeof(readings->timing));
	timing_take(readings, head.mark, 0, ending, to);
}

static uint64_t sound(uint64_t count)
{
	return count < count_max ? count : 0;
}

static void data_take(const char *shared, uint32_t known, struct mark_sums *to)
{
	struct mark_data_memory head;

	memcpy(&head, shared, sizeof(head));
	for (size_t i = 0; head.ready && i < head.used && i < MARK_DATA_CELLS_MAX; i++) {
		struct mark_data_cell cell;
		struct mark_sum *sum;

		memcpy(&cell, shared + MARK_DATA_CELLS + i * MARK_DATA_CELL, sizeof(cell));
		if (!cell.mark || cell.mark > known)
			continue;
		sum = mark_sums_at(to, cell.mark);
		sum->reads += sound(cell.reads) + sound(cell.both);
		sum->writes += sound(cell.writes) + sound(cell.both);
	}
}

void mark_readings_take(struct mark_readings *readings, enum engine_tool tool, const void *shared,
			uint32_t known, bool ending, struct mark_sums *to)
{
	if (tool == ENGINE_TOOL_MARK_TIMES)
		times_take(readings, shared, known, ending, to);
	else if (tool == ENGINE_TOOL_MARK_VISITS)
		visits_take(readings, shared, known, ending, to);
	else if (tool == ENGINE_TOOL_MARK_DATA)
		data_take(shared, known, to);
}

/* --- Percentiles ------------------------------------------------------------------------------ */

/* Visits since the base are left in now. Returns how many there are. */
static uint64_t histogram_grown(struct histogram *histogram, bool kept)
{
	uint64_t total = 0;

	for (unsigned i = 0; i < MARK_TIMES_BUCKETS; i++) {
		uint64_t all = histogram->ended[i] + histogram->now[i];

		/* A signal may have taken back what a counter said. */
		histogram->now[i] = all > histogram->base[i] ? all - histogram->base[i] : 0;
		total += histogram->now[i];
		if (kept)
			histogram->base[i] = all;
	}
	return total;
}

static uint64_t percentile(const struct histogram *histogram, uint64_t total, double share,
			   double tick)
{
	double wanted = share * (double)total, passed = 0;
	uint64_t low = 0;

	for (unsigned i = 0; i < MARK_TIMES_BUCKETS && (passed < wanted || !i); i++) {
		passed += (double)histogram->now[i];
		low = mark_times_bucket_low(i);
	}
	return low > histogram->overhead ? (uint64_t)((double)(low - histogram->overhead) * tick)
					 : 0;
}

void mark_readings_fold(struct mark_readings *readings, bool kept, struct mark_sums *sums)
{
	double tick = mark_memory_tick(readings->memory);

	for (uint32_t i = 1; i < readings->histograms.count; i++) {
		struct histogram *histogram = readings->histograms.items[i];
		uint64_t total = histogram ? histogram_grown(histogram, kept) : 0;
		struct mark_sum *sum;

		if (!histogram)
			continue;
		sum = mark_sums_at(sums, i);
		if (total) {
			sum->p50 = percentile(histogram, total, 0.5, tick);
			sum->p90 = percentile(histogram, total, 0.9, tick);
			sum->p99 = percentile(histogram, total, 0.99, tick);
			sum->p999 = percentile(histogram, total, 0.999, tick);
		}
		memset(histogram->now, 0, sizeof(histogram->now));
	}
}
