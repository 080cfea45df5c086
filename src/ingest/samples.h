/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Samples find their process, thread and stack, and go to the store. Whatever form a sample arrives in (a stack and
 * later counts, a dump of the stack, a record in perf's ring), it is kept once or counted as lost once.
 */
#pragma once

#include <stdint.h>

#include "base/cleanup.h"
#include "ingest/events.h"
#include "ingest/loadmap.h"
#include "ingest/locations.h"
#include "store/store.h"
#include "wire/sample.h"

struct samples;

/* started: CLOCK_MONOTONIC at the start of the recording, second 0 of the timeline. max_depth: of host walks. */
void samples_create(struct store *store, struct loadmap *loadmap, struct locations *locations,
		    uint64_t started, uint32_t max_depth, struct samples **ret);
void samples_destroy(struct samples *samples);
DEFINE_AUTO(struct samples, samples_destroy)

/* The stack behind a hash; its counts follow. */
int samples_stack(struct samples *samples, const struct sample_stack *stack);
int samples_count(struct samples *samples, const struct sample_key *key,
		  const struct sample_count *count);
/* One sample each. */
int samples_dump(struct samples *samples, const struct sample_dump *dump);
int samples_event(struct samples *samples, const struct event *event);

uint64_t samples_kept(const struct samples *samples);
/* Counts whose stack never came. */
uint64_t samples_orphaned(const struct samples *samples);
/* By enum stack_end; sums up to what was kept. */
const uint64_t *samples_ends(const struct samples *samples);
