/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys of a profile's meta table that readers use. */
#pragma once

#include <stdlib.h>

#include "store/profile.h"

#define META_EVENT "event" /* "cpu-clock", "cycles", "instructions" */
#define META_PERIOD "period" /* mean interval: ns for cpu-clock, events otherwise */
#define META_STARTED "started" /* ns since 1970 */
#define META_DURATION "duration_ns" /* ns */
#define META_VALUES "values" /* what was captured, as given; absent: no values */
#define META_TOOL "tool" /* of a trace: "count", "blocks", "coverage"; absent: samples */
#define META_MAX_CYCLE "max_cycle" /* of the tool paths: symbols of a cycle at most */
#define META_ORDER_FORMAT "order_format" /* the same: FLOW_FORMAT of the bytes */
#define META_RUNS_SEEN "runs_seen"
#define META_RUNS_KEPT "runs_kept"
#define META_RUNS_STEPS "runs_steps" /* instructions interpreted for runs, skipped ones too */
#define META_RUN_LENGTH "run_length" /* instructions that are captured at most */
#define META_RUN_SKIP "run_skip" /* instructions that are passed over before, at most */
#define META_STEPS "steps" /* instructions interpreted */
#define META_VALUES_SEEN "values_seen"
#define META_VALUES_KEPT "values_kept"

/* 0 where the recording did not say: a killed collector leaves no totals. */
static inline uint64_t meta_number(const struct profile *profile, const char *key)
{
	const char *text = profile_meta(profile, key);

	return text ? strtoull(text, NULL, 10) : 0;
}
