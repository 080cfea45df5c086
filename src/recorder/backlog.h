/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs that wait to be replayed. Replaying takes time that the profiled programs may need, and many
 * runs in a row take less of it than a few at a time, because what they share stays in the caches.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "recorder/values.h"

struct backlog {
	struct strbuf runs; /* one behind the other; their sizes are multiples of 8 */
	size_t max; /* bytes: with as many waiting, no more are asked for */
};

void backlog_init(struct backlog *backlog, size_t max);
void backlog_deinit(struct backlog *backlog);

void backlog_add(struct backlog *backlog, const struct run_record *run);
/*
 * Whether too many runs wait, or one waits so long that the load map would soon forget the mappings
 * that it needs.
 */
bool backlog_is_due(const struct backlog *backlog, uint64_t now);

/*
 * Called from time to time while runs are replayed, unless too many wait. May add others, which
 * then wait.
 */
typedef int backlog_pause_fn(void *ctx);

/* Replays the runs that wait. */
int backlog_replay(struct backlog *backlog, struct values *values, backlog_pause_fn *pause,
		   void *ctx);
