/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The source of samples and of interpreted runs: the BPF sampler. Records and counts from the
 * kernel go to the sinks of samples and values; unwind tables, mappings and translations, which the
 * kernel needs to make them, go the other way.
 */
#pragma once

#include "capture/kernel/sampler.h"
#include "recorder/recorder.h"
#include "recorder/run_budget.h"
#include "recorder/samples.h"
#include "recorder/targets.h"
#include "recorder/values_sink.h"

struct sampler_source;

/*
 * Takes the sampler, which is loaded, and attaches it to the targets' CPUs. targets must outlive
 * the source. runs: there will be a sink of values.
 */
int sampler_source_create(struct sampler *sampler, const struct targets *targets, bool runs,
			  struct recorder *recorder, struct sampler_source **ret);
void sampler_source_destroy(struct sampler_source *source);

/* Keeps runs within their share of time; without it they stay as frequent as they are. */
void sampler_source_budget(struct sampler_source *source, const struct run_budget *budget);
/* For the sink of values; NULL if nothing is interpreted. */
struct translations *sampler_source_translations(struct sampler_source *source);
/* Where records go; before the recorder is started. values NULL: none. */
void sampler_source_connect(struct sampler_source *source, struct samples *samples,
			    struct values_sink *values);
/* While it records: takes no samples, and takes them again. What processes do is still known. */
int sampler_source_pause(struct sampler_source *source);
int sampler_source_resume(struct sampler_source *source);
/*
 * How often counts were read. What was sampled before a moment has been delivered when they were
 * read twice after it, since the kernel counts in two tables in turns.
 */
uint64_t sampler_source_readings(const struct sampler_source *source);

/* Samples that were not taken, because the recorder was behind, and that later ones count for. */
uint64_t sampler_source_thinned(const struct sampler_source *source);
/* Samples per second and CPU; -EOPNOTSUPP: what is sampled has no rate. */
int sampler_source_rate_set(struct sampler_source *source, uint64_t frequency);
/*
 * How long runs are, and how many samples have one: as many as the budget allows, or one of so many
 * if its share is 0.
 */
void sampler_source_runs_set(struct sampler_source *source, uint32_t length, uint32_t skip,
			     uint32_t every, const struct run_budget *budget);

/* A child of a process that may have been sampled; a perf_source_fork_fn. */
void sampler_source_forked(void *ctx, uint32_t parent, uint32_t child);

/* A process whose tables the kernel needs; a process that is known by a record of its kind. */
void sampler_source_want(struct sampler_source *source, uint32_t pid);
int sampler_source_identity(struct sampler_source *source, const struct sample_identity *identity);

/* The recorder's side; it destroys the source, too. */
struct source sampler_source_interface(struct sampler_source *source);
