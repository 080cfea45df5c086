/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Adds the recording of executed code to a recorder: the engines' rings as a source, and executed
 * code, the order of execution, tools' counters and a raw file as sinks, as far as they are wanted.
 * The recorder may have other sources beside them.
 */
#pragma once

#include "recorder/calls_sink.h"
#include "recorder/engine/calltree.h"
#include "recorder/engine/counters.h"
#include "recorder/engine/engine_source.h"
#include "recorder/engine/executed.h"
#include "recorder/engine/mark_counts.h"
#include "recorder/engine/paths.h"

struct engine_recording_options {
	const char *tool; /* names of the tools, for the profile */
	const char *raw; /* file; NULL: none; see raw.h */
	uint64_t tools; /* a set: ENGINE_TOOL_BIT */
	enum engine_counters counters;
	bool lines; /* see struct executed_options */
	const struct paths_options *paths; /* NULL: the order of execution is not kept */
	struct marks *marks; /* of the tool marks, which must outlive the recorder; NULL: none */
	struct marks_live *live; /* readers of marks while programs run; NULL: none */
	struct call_events *events; /* of calls, in a file, which becomes the recorder's; NULL */
	struct calls_sink *calls; /* gets the trees of calltree, and nothing else is kept; NULL */
	struct memories *memories; /* of processes; NULL: there is only `shared` */
	void *shared; /* one piece of memory, of any processes: for tests; NULL */
	uint64_t shared_size;
};

struct engine_recording; /* lives as long as the recorder */

struct engine_recording_result {
	struct engine_totals totals;
	struct executed_sums sums; /* 0 if the recorder makes no profile */
	const struct counters_row *counters; /* of tools; they live as long as the recorder */
	size_t counter_count;
	struct calltree_totals trees;
	struct cycles_stats lookups; /* of the tool paths */
};

int engine_recording_add(struct recorder *recorder, const struct engine_recording_options *options,
			 struct engine_recording **ret);
/* Complete after recorder_finish(). */
void engine_recording_result(struct engine_recording *recording,
			     struct engine_recording_result *ret);
