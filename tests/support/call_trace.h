/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes traces of calls (wire/call_events.h) for tests. */
#pragma once

#include <string.h>

#include "base/strbuf.h"
#include "wire/call_events.h"

struct call_trace {
	struct strbuf bytes;
	uint32_t metrics;
	uint32_t thread; /* of the records that follow */
	struct call_amount now[CALL_METRICS_MAX]; /* the same */
};

static inline void call_trace_begin(struct call_trace *trace, uint32_t metrics,
				    const enum call_metric *kinds)
{
	struct call_trace_head head = { .magic = CALL_TRACE_MAGIC,
					.version = CALL_TRACE_VERSION,
					.metrics = (uint16_t)metrics };

	*trace = (struct call_trace){ .metrics = metrics, .thread = 1 };
	for (uint32_t i = 0; i < metrics; i++)
		head.kinds[i] = (uint8_t)kinds[i];
	strbuf_add(&trace->bytes, &head, sizeof(head));
}

static inline void call_trace_put(struct call_trace *trace, enum call_major major,
				  enum call_minor minor, uint64_t routine, uint64_t sp,
				  const void *payload, size_t size)
{
	size_t amounts = trace->metrics * sizeof(struct call_amount);
	size_t padded = (size + 7) / 8 * 8;
	struct call_event event = { .size = (uint32_t)(sizeof(event) + amounts + padded),
				    .major = (uint16_t)major,
				    .minor = minor,
				    .thread = trace->thread,
				    .routine = routine,
				    .sp = sp };

	strbuf_add(&trace->bytes, &event, sizeof(event));
	strbuf_add(&trace->bytes, trace->now, amounts);
	strbuf_add(&trace->bytes, payload, size);
	strbuf_add(&trace->bytes, "\0\0\0\0\0\0\0", padded - size);
}

/* The thread's own counter and everybody's, of the first metric. */
static inline void call_trace_at(struct call_trace *trace, uint64_t time)
{
	trace->now[0] = (struct call_amount){ .base = time, .elapsed = time };
}

static inline void call_trace_entry(struct call_trace *trace, uint64_t routine, uint64_t sp)
{
	call_trace_put(trace, CALL_MAJOR_COMPILED, CALL_MINOR_ENTRY, routine, sp, NULL, 0);
}

static inline void call_trace_exit(struct call_trace *trace, uint64_t routine, uint64_t sp)
{
	call_trace_put(trace, CALL_MAJOR_COMPILED, CALL_MINOR_EXIT, routine, sp, NULL, 0);
}
