/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file of events of calls (wire/call_events.h) from engines: takes the records out of the rings
 * of threads (wire/calltree.h), checks them, and adds who their threads are, and what code
 * processes had loaded.
 */
#pragma once

#include "calls/event_file.h"
#include "recorder/engine/engine_source.h"
#include "wire/calltree.h"

struct call_events;

/* head: what the file's has; magic and version are set here. */
int call_events_create(const char *path, const struct call_trace_head *head,
		       struct call_events **ret);
void call_events_destroy(struct call_events *events);

/* A process begins; a child has what its parent had loaded. */
void call_events_process(struct call_events *events, const struct engine_process *process);
void call_events_module(struct call_events *events, const struct engine_process *process,
			const struct stream_module *module);
/* Takes what is in the thread's ring; returns whether there was anything. */
bool call_events_drain(struct call_events *events, const struct engine_thread *thread,
		       struct calltree_memory *shared);
/*
 * The same for the last time, and the thread's end. name: its own; tick: ns for each tick of its
 * time.
 */
void call_events_end(struct call_events *events, const struct engine_thread *thread,
		     struct calltree_memory *shared, const char *name, double tick);
/* Events that threads could not write, and records that made no sense. */
uint64_t call_events_lost(const struct call_events *events);
/* Writes out what is buffered. The first failure to write; 0: none. */
int call_events_flush(struct call_events *events);
