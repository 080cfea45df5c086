/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What marks that are timed and marks on data have counted so far, while programs run: the memory
 * of threads in, sums by mark out, with percentiles of the visits that have ended since the reading
 * at the interval before.
 *
 *	mark_readings_take()	each thread's memory, again and again; the last time it is ending
 *	mark_readings_fold()	all threads have been taken
 *
 * The memory is shared with the program, so everything in it is checked.
 */
#pragma once

#include "base/array.h"
#include "base/cleanup.h"
#include "marks/live.h"
#include "recorder/engine/mark_memory.h"

struct mark_sums {
	ARRAY(struct mark_sum) items; /* by number of the mark */
};

struct mark_sum *mark_sums_at(struct mark_sums *sums, uint32_t mark);
void mark_sums_add(struct mark_sums *to, const struct mark_sums *from);

struct mark_readings;

/* memory must outlive it. */
struct mark_readings *mark_readings_create(const struct mark_memory *memory);
void mark_readings_destroy(struct mark_readings *readings);
DEFINE_AUTO(struct mark_readings, mark_readings_destroy)

/*
 * Adds what the thread has counted to the sums. known: the number of marks. ending: it is the last
 * time, and the thread's histograms are kept.
 */
void mark_readings_take(struct mark_readings *readings, enum engine_tool tool, const void *shared,
			uint32_t known, bool ending, struct mark_sums *to);
/* Percentiles, of all that was taken. kept: the next ones begin here. */
void mark_readings_fold(struct mark_readings *readings, bool kept, struct mark_sums *sums);
