/* SPDX-License-Identifier: BSD-2-Clause */
/* Loads the sampler's BPF programs: as many parts of them as the running kernel takes. */
#pragma once

#include "base/cleanup.h"
#include "capture/kernel/layout.h"
#include "capture/kernel/parts.h"
#include "capture/kernel/sampler.h"

struct sampler_bpf;

/* Which parts were loaded, and which were refused. */
struct programs {
	struct sampler_bpf *skeleton;
	unsigned parts; /* mask of those that are loaded */
	struct sampler_refusal refusals[SAMPLER_PART_COUNT]; /* of parts that were wanted */
	size_t refusal_count;
};

/* Slots of the table of translations: twice as many as are used at most, as a power of two. */
uint32_t programs_block_slots(const struct sampler_runs *runs);

/*
 * every: events that the program counts to a sample. layout is used for runs only. programs is the
 * caller's, zeroed; programs_deinit() even after an error.
 */
int programs_load(const struct sampler_options *options, uint64_t every,
		  const struct kernel_layout *layout, struct programs *programs);
void programs_deinit(struct programs *programs);
