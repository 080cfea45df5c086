/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The counts of marks so far, while programs run: written by the thread that records, read by
 * others.
 *
 *	marks_live_due()	the recorder: whether counters are to be read now
 *	marks_live_fold()	the recorder: what they said
 *	marks_live_read()	any thread: the last reading, or a new one
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "marks/marks.h"

/* What a mark has counted, in all threads, those that have ended included. */
struct mark_sum {
	uint64_t visits, instructions;
	/* Of timed marks: visits that have ended; times exclude the cost of measuring. */
	uint64_t timed, time_ns, slower;
	uint64_t reads, writes; /* of data; an operand that is read and written is both */
	/* ns, of visits that ended since the reading at the interval before; 0: none did */
	uint64_t p50, p90, p99, p999;
};

/* Percentiles do not add up: the larger ones are kept. */
void mark_sum_add(struct mark_sum *to, const struct mark_sum *from);

/* All marks at two moments, one after the other. */
struct marks_reading {
	uint64_t time, before; /* CLOCK_MONOTONIC; before is 0 at the first reading */
	size_t count; /* marks have numbers below this */
	struct mark_sum *sums; /* by number, at `time` */
	struct mark_sum *earlier; /* at `before` */
};

void marks_reading_deinit(struct marks_reading *reading);
/*
 * What a mark has counted at both moments, by the text that it was given as; what a pattern has
 * found is added up. false: there is no such mark.
 */
bool marks_reading_find(const struct marks_reading *reading, struct marks *marks, const char *text,
			struct mark_sum *ret_now, struct mark_sum *ret_earlier);

/* An event that becomes a row of the profile. */
struct marks_event {
	uint64_t time; /* CLOCK_MONOTONIC */
	const char *cause; /* as in the table mark_event */
	const char *text;
	size_t value_count;
	struct marks_event_value {
		const char *name;
		uint64_t value;
	} * values;
};

struct marks_live;

/* interval: ns between two readings that are kept; at least 1. */
struct marks_live *marks_live_create(uint64_t interval);
void marks_live_destroy(struct marks_live *live);
DEFINE_AUTO(struct marks_live, marks_live_destroy)

/*
 * Sets a function that is called after each reading at the interval, in the thread that records;
 * NULL: none. The reading is valid during the call.
 */
void marks_live_watch(struct marks_live *live,
		      void (*watch)(void *ctx, const struct marks_reading *reading), void *ctx);

/*
 * Sets a function that is called, in the thread that records, when a visit of a mark has raised an
 * event; NULL: none. site is the word on top of the stack, which at a routine's entry is its return
 * address.
 */
typedef void marks_live_visit(void *ctx, uint32_t pid, uint32_t mark, uint64_t site);
void marks_live_follow(struct marks_live *live, marks_live_visit *visit, void *ctx);
void marks_live_visited(struct marks_live *live, uint32_t pid, uint32_t mark, uint64_t site);

/* now: CLOCK_MONOTONIC. *ret_kept: it is one of those at the interval. */
bool marks_live_due(struct marks_live *live, uint64_t now, bool *ret_kept);
/* kept: as marks_live_due() said. sums: by number, from 0 on. */
void marks_live_fold(struct marks_live *live, uint64_t now, bool kept, const struct mark_sum *sums,
		     size_t count);
/* From any thread; it is copied. At most MARKS_EVENTS_MAX wait; more are lost, and counted. */
enum { MARKS_EVENTS_MAX = 4096 };
void marks_live_event(struct marks_live *live, const struct marks_event *event);
/* The recorder: tells those that wait, and returns how many were lost since the beginning. */
uint64_t marks_live_events_take(struct marks_live *live,
				void (*tell)(void *ctx, const struct marks_event *event),
				void *ctx);
/*
 * A copy of the last reading. fresh: of one that is made now; if that takes longer than patience
 * (ns), of the last one.
 */
void marks_live_read(struct marks_live *live, bool fresh, uint64_t patience,
		     struct marks_reading *ret);
