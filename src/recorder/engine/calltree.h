/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sink of the tool calltree: when a thread has ended, its tree (wire/calltree.h) goes to the
 * sink of calls.
 */
#pragma once

#include "recorder/calls_sink.h"
#include "recorder/engine/call_events.h"
#include "recorder/engine/engine_source.h"

struct calltree;

struct calltree_totals {
	uint64_t trees;
	uint64_t bad; /* trees that made no sense */
	uint64_t own_faults; /* page faults of the engine's own, which are in no tree */
	double overhead; /* ns that were taken off each interval, in the first thread */
	uint64_t events_lost; /* not in the file of events */
};

/*
 * calls must outlive it. events: file of events that are written as well, which becomes the
 * calltree's; NULL: none.
 */
void calltree_create(struct recorder *recorder, struct calls_sink *calls,
		     struct call_events *events, struct calltree **ret);
/* Whether events came since this was last asked. */
bool calltree_events_came(struct calltree *trees);
const struct calltree_totals *calltree_totals(const struct calltree *trees);

/* The source's side, which comes behind that of executed code; and the recorder's, which destroys
 * it. */
struct engine_sink calltree_engine_sink(struct calltree *trees);
struct sink calltree_sink(struct calltree *trees);
