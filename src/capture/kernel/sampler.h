/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loads the BPF sampler, attaches it to perf events and moves data both ways: records and counts
 * out, unwind tables and mappings in. docs/design/sampling.md.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "capture/clocks.h"
#include "capture/kernel/parts.h"
#include "capture/sampler_event.h"
#include "wire/run.h"
#include "wire/sampler_maps.h"

/* Interpreting the instructions that follow a sample. */
struct sampler_runs {
	uint32_t length; /* instructions captured; 0: none are interpreted */
	uint32_t skip; /* most instructions skipped before, a random number of them each time */
	uint32_t every; /* one of so many samples has a run; 0 and 1: each */
	bool overwritten; /* log what stores overwrite */
	bool system; /* log the values of RUN_SYSTEM_WORDS */
	uint32_t max_blocks; /* instructions that the kernel holds translations of */
	uint32_t max_uops; /* and their micro-operations */
};

struct sampler_options {
	/* every process; otherwise those of sampler_add_process() and what they create */
	bool everything;
	const int *cpus; /* where the clocks tick; at least one */
	size_t cpu_count;
	struct sampler_event event; /* found: sampler_event_find() */
	uint64_t frequency; /* Hz; 0: use period */
	uint64_t period; /* in the event's unit */
	uint64_t seed; /* of the random intervals */
	size_t ring_bytes; /* power of two, multiple of the page size */
	uint32_t max_stacks; /* distinct (thread, stack) pairs per drain */
	uint32_t max_rows; /* unwind rows the kernel holds */
	uint32_t max_mappings;
	uint32_t max_depth; /* user frames per sample, at most SAMPLE_DEPTH_MAX */
	struct sampler_runs runs;
};

struct sampler_handlers {
	int (*stack)(void *ctx, const struct sample_stack *stack);
	int (*dump)(void *ctx, const struct sample_dump *dump);
	int (*identity)(void *ctx, const struct sample_identity *identity);
	int (*count)(void *ctx, const struct sample_key *key, const struct sample_count *count);
	int (*run)(void *ctx, const struct run_record *run); /* these two: only with runs */
	int (*wanted)(void *ctx, const struct run_wanted *wanted);
	void *ctx;
};

struct sampler;

/*
 * Loads the programs; nothing is sampled. Parts that the kernel refuses are left out:
 * sampler_refusals() tells. options' cpus are not looked at. An error: the kernel takes no sampler
 * at all.
 */
int sampler_load(const struct sampler_options *options, struct sampler **ret);
size_t sampler_refusals(const struct sampler *sampler, const struct sampler_refusal **ret);
/* Opens the events on the CPUs, switched off. */
int sampler_attach(struct sampler *sampler, const int *cpus, size_t cpu_count,
		   const struct sampler_handlers *handlers);
/* Both in one. */
int sampler_open(const struct sampler_options *options, const struct sampler_handlers *handlers,
		 struct sampler **ret);
/*
 * Loads the part, with the parts that it needs, and unloads it again: 0 if the running kernel takes
 * it, otherwise ret->err.
 */
int sampler_part_try(enum sampler_part part, struct sampler_refusal *ret);
void sampler_destroy(struct sampler *sampler);
DEFINE_AUTO(struct sampler, sampler_destroy)

/* Whether what is sampled has a rate in Hz, which can be changed. */
bool sampler_has_rate(const struct sampler *sampler);
/* Changes the rate of the events, whether they are enabled or not. */
int sampler_rate_set(struct sampler *sampler, uint64_t frequency);
int sampler_enable(struct sampler *sampler);
int sampler_disable(struct sampler *sampler);
/* Samples a thread group and what it creates; from_exec: only from its next exec on. */
int sampler_add_process(struct sampler *sampler, uint32_t tgid, bool from_exec);

/* Hands out the records that are in the ring now. */
int sampler_drain_ring(struct sampler *sampler);
/*
 * Hands out the counts of the interval before the last: the BPF program fills one map while the
 * host empties the other. Two calls in a row, with the events disabled, empty both.
 */
int sampler_drain_counts(struct sampler *sampler);
/* Summed over CPUs. BAD_RECORD is the host's own count. */
void sampler_tally(const struct sampler *sampler, struct sample_tally *ret);
/*
 * The descriptor of one of its maps, for programs that share it; a negative errno: there is none.
 */
int sampler_map_fd(const struct sampler *sampler, const char *name);
/* How many samples each CPU has seen so far, by CPU number; the caller frees *ret. */
void sampler_cpus_seen(const struct sampler *sampler, uint64_t **ret, size_t *ret_count);
/* Readable when the ring is half full. */
int sampler_fd(const struct sampler *sampler);
/* Periods in use, in the event's unit; one entry where the kernel adapts it. */
size_t sampler_periods(const struct sampler *sampler, const uint64_t **ret);

/* -ENOSPC: the rows map is full; stacks through this module are then walked by the host. */
int sampler_publish_rows(struct sampler *sampler, const struct unwind_row *rows, size_t count,
			 uint32_t *ret_first);
/*
 * Replaces what was published for the process. device: it may have one mapped, so that nothing is
 * interpreted in it.
 */
int sampler_publish_process(struct sampler *sampler, uint32_t tgid,
			    const struct unwind_mapping *mappings, size_t count, uint32_t epoch,
			    bool device);
void sampler_forget_process(struct sampler *sampler, uint32_t tgid);

/* From now on one of so many samples has a run. */
void sampler_run_every_set(struct sampler *sampler, uint32_t every);
/* From now on runs have that length; only of a sampler with runs. */
void sampler_run_length_set(struct sampler *sampler, uint32_t length, uint32_t skip);
/* Summed over CPUs. BAD_RECORD is the host's own count. */
void sampler_run_tally(const struct sampler *sampler, struct run_tally *ret);
/*
 * Replaces what there is for key and the block's other instructions. serial is the caller's, unique
 * over all translations. -ENOSPC: the table is full; sampler_forget_blocks() makes room.
 */
int sampler_publish_block(struct sampler *sampler, const struct block_key *key,
			  const struct uop_block *block, uint32_t serial);
/* The serial of the newest translation that has an instruction at key; 0: none. */
uint32_t sampler_find_block(const struct sampler *sampler, const struct block_key *key);
/*
 * Copies the running kernel's code, at most RUN_TEXT_BYTES; returns the number of bytes, 0 if there
 * is no code.
 */
size_t sampler_kernel_text(struct sampler *sampler, uint64_t address, void *ret, size_t size);
/*
 * Runs that are under way may go on with the old translations for an instant; their records come
 * within a round.
 */
void sampler_forget_blocks(struct sampler *sampler);
