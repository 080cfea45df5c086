/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sink of marks: which instructions of which block are marked, and how often segments were
 * executed, in; visits and executed instructions of each mark, by thread, out; and what
 * mark_memory.h makes of times and data.
 */
#pragma once

#include "marks/live.h"
#include "marks/marks.h"
#include "recorder/engine/engine_source.h"
#include "recorder/recorder.h"
#include "recorder/sink.h"

struct mark_counts;

/*
 * All must outlive it. live: NULL if marks are not read while programs run. Threads are those that
 * the sink of executed code knows: that one is added after this.
 */
struct mark_counts *mark_counts_create(struct recorder *recorder, struct marks *marks,
				       struct marks_live *live);
/* Whether a reader waits for the counters as they are now; then the source is to read them. */
bool mark_counts_due(struct mark_counts *counts);
/* The source has ended: what it tells next is the last. */
void mark_counts_last(struct mark_counts *counts);
/* The source's side, and the recorder's, which destroys it, too. */
struct engine_sink mark_counts_engine_sink(struct mark_counts *counts);
struct sink mark_counts_sink(struct mark_counts *counts);
