/* SPDX-License-Identifier: BSD-2-Clause */
/* Facts and metrics of recordings that readers use. */
#pragma once

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "store/profile.h"

#define META_EVENT "event" /* "cpu-clock", "page-faults", "sched:sched_switch" */
#define META_PERIOD "period" /* mean interval: ns for cpu-clock, events otherwise */
#define META_FREQUENCY "frequency" /* samples a second and CPU; 0: none was asked for */
#define META_VALUES "values" /* what was captured, as given; absent: no values */
#define META_TOOL "tool" /* of a trace: "count", "blocks", "coverage"; absent: samples */
#define META_COUNTED_BY "counted_by" /* of marks: "kernel"; absent: the engine */
#define META_MAX_CYCLE "max_cycle" /* of the tool paths: symbols of a cycle at most */
#define META_ORDER_FORMAT "order_format" /* the same: FLOW_FORMAT of the bytes */
#define META_RUN_LENGTH "run_length" /* instructions that are captured at most */
#define META_RUN_SKIP "run_skip" /* instructions that are passed over before, at most */

/* Metrics of samples. */
#define METRIC_THINNED "thinned" /* kept ones that were not taken: a later one counts for them */
#define METRIC_PAUSED "paused" /* ns in which none were taken, because a user said so */

/* Metrics of values. */
#define METRIC_RUNS_STEPS "runs_steps" /* instructions interpreted for runs, skipped ones too */
#define METRIC_STEPS "steps" /* instructions interpreted */
#define METRIC_VALUES_SEEN "values_seen"
#define METRIC_VALUES_KEPT "values_kept"
#define METRIC_UNREAD "unread_" /* and a name of RUN_UNREADS: loads without a value */

/* Whether a profile of executed code was made with a tool; META_TOOL is a list of them. */
static inline bool meta_has_tool(const struct profile *profile, const char *tool)
{
	const char *at = profile_meta(profile, META_TOOL);
	size_t length = strlen(tool);

	while (at && (strncmp(at, tool, length) || (at[length] && at[length] != ','))) {
		at = strchr(at, ',');
		at = at ? at + 1 : NULL;
	}
	return at;
}

/* Whether it only says which code was executed, not how often. */
static inline bool meta_only_marks(const struct profile *profile)
{
	return meta_has_tool(profile, "coverage") && !meta_has_tool(profile, "count") &&
	       !meta_has_tool(profile, "blocks") && !meta_has_tool(profile, "paths");
}

/* Whether the kernel counted marks, which knows visits, and not what was executed within. */
static inline bool meta_by_kernel(const struct profile *profile)
{
	const char *by = profile_meta(profile, META_COUNTED_BY);

	return by && !strcmp(by, "kernel");
}

/* Whether samples stand for different amounts: their rate was changed while they were recorded. */
static inline bool meta_rate_changed(const struct profile *profile)
{
	return profile_fact_count(profile, RECORDING_SAMPLES, META_PERIOD) > 1 ||
	       profile_fact_count(profile, RECORDING_SAMPLES, META_FREQUENCY) > 1;
}

/* 0 where no recording said. */
static inline uint64_t meta_number(const struct profile *profile, const char *key)
{
	const char *text = profile_meta(profile, key);

	return text ? strtoull(text, NULL, 10) : 0;
}

/* What a sample stands for; 0 where that is not known, or not the same for all. */
static inline uint64_t meta_period(const struct profile *profile)
{
	return meta_rate_changed(profile) ? 0 : meta_number(profile, META_PERIOD);
}
