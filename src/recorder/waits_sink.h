/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sink of waits: what threads waited for, where and who woke them becomes rows of `wait`; what
 * they used becomes rows of `thread_metric` and, by processor, of `cpu_metric`. Stacks go into the
 * tree that samples have.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "recorder/recorder.h"
#include "recorder/samples.h"
#include "recorder/sink.h"
#include "wire/waits.h"

struct waits_sink;

/* samples must outlive the sink. max_depth: of host walks. */
void waits_sink_create(struct recorder *recorder, struct samples *samples, uint32_t max_depth,
		       struct waits_sink **ret);
void waits_sink_destroy(struct waits_sink *sink);
DEFINE_AUTO(struct waits_sink, waits_sink_destroy)

/* A stack behind a hash; a copy of a stack's memory, behind waits_dump_hash(). */
int waits_sink_stack(struct waits_sink *sink, const struct sample_stack *stack);
int waits_sink_dump(struct waits_sink *sink, const struct sample_dump *dump);
int waits_sink_count(struct waits_sink *sink, const struct wait_key *key,
		     const struct wait_count *count);
/*
 * A thread as it is at the time, CLOCK_MONOTONIC, and what it has been doing until then. last: it
 * has ended, or recording has; a wait that is still going on is kept as far as it has come.
 */
int waits_sink_thread(struct waits_sink *sink, const struct thread_slot *slot, uint64_t time,
		      bool last);

/* A thread begins or ends a task: from there on its sums are another's. */
void waits_sink_task(struct waits_sink *sink, const struct task_notice *notice);

/*
 * What was charged on a processor so far. When recording has ended it comes after the threads,
 * whose last interval was not charged yet: it is added to the processor where they were last
 * charged.
 */
int waits_sink_cpu(struct waits_sink *sink, uint32_t cpu, const struct thread_cpu *charged);

/* What the source has seen and lost by now, and of how many threads it has told. */
void waits_sink_tally_set(struct waits_sink *sink, const struct wait_tally *tally,
			  uint64_t readings);

/* Metrics of a thread by their names in the profile. */
const char *thread_metric_name(enum thread_metric metric);

/* The recorder's side; it destroys the sink, too. */
struct sink waits_sink_interface(struct waits_sink *sink);
