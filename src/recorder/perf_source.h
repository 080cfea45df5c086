/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The source of process events: the kernel's perf rings and, at the start, /proc in; changes of the
 * load map out. For users who may not use BPF, the same rings carry samples, which go to the sink
 * of samples.
 */
#pragma once

#include "capture/sampler_event.h"
#include "recorder/recorder.h"
#include "recorder/samples.h"
#include "recorder/targets.h"

struct perf_source;

struct perf_source_options {
	struct targets *targets; /* must outlive the source */
	struct samples *samples; /* the rings carry samples for it; NULL: only process events */
	bool kernel_code; /* samples of the kernel's code, too */
	const struct sampler_event *event; /* what is sampled */
	uint64_t frequency; /* Hz; 0: use period */
	uint64_t period; /* mean interval of samples, in the event's unit */
	uint64_t seed; /* of the random intervals */
};

int perf_source_create(const struct perf_source_options *options, struct recorder *recorder,
		       struct perf_source **ret);
void perf_source_destroy(struct perf_source *source);

/* Called for each child of a process that is recorded. */
typedef void (*perf_source_fork_fn)(void *ctx, uint32_t parent, uint32_t child);
void perf_source_on_fork(struct perf_source *source, perf_source_fork_fn fn, void *ctx);

/* While it records samples: stops taking them, and takes them again. */
int perf_source_pause(struct perf_source *source);
int perf_source_resume(struct perf_source *source);

/* The recorder's side; it destroys the source, too. */
struct source perf_source_interface(struct perf_source *source);
