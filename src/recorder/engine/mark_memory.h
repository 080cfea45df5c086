/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of threads with timed marks and marked data (wire/mark_times.h, wire/mark_data.h) in;
 * rows of the profile out. The memory is shared with the program, so everything in it is checked.
 */
#pragma once

#include "marks/marks.h"
#include "recorder/engine/engine_source.h"
#include "recorder/recorder.h"
#include "wire/mark_times.h"

/*
 * Columns: name, JSON name, text. Why accesses to marked data are not in the profile. What an
 * instruction reads and writes is two accesses, as in reports.
 */
#define MARK_LOSSES(X)                                                                             \
	X(UNCOUNTED, "uncounted_access",                                                           \
	  "accesses to marked data beyond what a thread may tell apart (raise --max-accesses)")    \
	X(UNMARKED, "unmarked_object", "objects that found no room to be marked (mark less data)")

enum mark_loss {
#define X(name, json, text) MARK_LOSS_##name,
	MARK_LOSSES(X)
#undef X
		MARK_LOSS_COUNT
};

struct mark_memory {
	struct recorder *recorder;
	struct marks *marks;
	uint64_t start_ticks, start_ns;
	uint64_t accesses; /* that have rows */
	uint64_t lost[MARK_LOSS_COUNT];
	uint32_t visits; /* single ones that have rows */
};

void mark_memory_init(struct mark_memory *memory, struct recorder *recorder, struct marks *marks);
/*
 * Writes the rows of a thread that ends. The rows of marks have been written; known: their number.
 */
int mark_memory_write(struct mark_memory *memory, const struct engine_thread *thread,
		      enum engine_tool tool, const void *shared, uint32_t known);

/* For mark_visits.c. */
/* ns of a tick. */
double mark_memory_tick(const struct mark_memory *memory);
/* How long all visits of the mark took. */
int mark_timing_write(struct mark_memory *memory, const struct engine_thread *thread, uint32_t mark,
		      const struct mark_timing *from);
/* Finds the location of an address in the thread's process; address 0 has none. */
int mark_memory_location(struct mark_memory *memory, const struct engine_thread *thread,
			 uint64_t pc, struct location_id *ret);
