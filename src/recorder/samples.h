/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sink of samples: samples in, rows of stacks and of samples by thread and stack out. Whatever
 * form a sample arrives in (a stack and later its counts, a copy of the stack's memory, a record in
 * perf's ring), it is kept once or counted as lost once. The source that delivers samples also says
 * how many the kernel has seen and lost.
 */
#pragma once

#include <stdint.h>

#include "base/cleanup.h"
#include "image/events.h"
#include "image/loadmap.h"
#include "recorder/locations.h"
#include "recorder/sink.h"
#include "store/store.h"
#include "wire/sample.h"

struct samples;
struct stacks;

/*
 * started: CLOCK_MONOTONIC at the start of the recording, second 0 of the timeline. max_depth: of
 * host walks.
 */
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

/* The tree of stacks, which is one for a profile. */
struct stacks *samples_stacks(struct samples *samples);

/* What the source has seen and lost by now. */
void samples_tally_set(struct samples *samples, const struct sample_tally *tally);
/* What each CPU has seen so far: what is new is of this second. */
int samples_cpus_set(struct samples *samples, const uint64_t *seen, size_t count);

/* The recorder's side; it destroys the samples, too. */
struct sink samples_sink(struct samples *samples);
