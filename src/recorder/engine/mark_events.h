/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events of marks: visits that engines tell of, with the stack that the host walks, and what rules
 * say, as rows of the profile.
 */
#pragma once

#include "marks/live.h"
#include "recorder/engine/engine_source.h"
#include "recorder/recorder.h"

struct mark_events;

/* live: whose events are taken, too; NULL: none. Both must outlive it. */
struct mark_events *mark_events_create(struct recorder *recorder, struct marks_live *live);
void mark_events_destroy(struct mark_events *events);

void mark_events_thread_begin(struct mark_events *events, struct engine_thread *thread);
/* While the sink of executed code still knows it. */
void mark_events_thread_end(struct mark_events *events, struct engine_thread *thread);
/* Adds the event of a visit; it is written when its thread is known. */
void mark_events_add(struct mark_events *events, struct engine_process *process,
		     const struct stream_event *event);
/* Writes what can be written. marks: numbers below are known. */
int mark_events_flush(struct mark_events *events, uint32_t marks);
/*
 * Events that still wait are lost; a row holds their number, with those that engines did not raise.
 */
int mark_events_finish(struct mark_events *events, uint64_t refused);
