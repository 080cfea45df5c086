/* SPDX-License-Identifier: BSD-2-Clause */
/* Values of the maps through which the host tells the sampler about processes. */
#pragma once

#include "wire/sample.h"

/*
 * A process's mappings: count of them from first on in the mappings map. Never changed once
 * published: a new generation gets a new place.
 */
struct sampler_process {
	wire_u32 first;
	wire_u32 count;
	wire_u32 generation; /* unique over all processes; rows cached for another are stale */
	/* grows when an address changed its meaning, so that stacks get new hashes */
	wire_u32 epoch;
	wire_u32 device; /* it may have a device mapped: its memory is not read for values */
	wire_u32 reserved;
};

_Static_assert(sizeof(struct sampler_process) == 24, "wire");

/* Values of the targets map. */
enum target_state {
	TARGET_WAITING, /* sampled from its next exec on */
	TARGET_SAMPLED,
};

enum {
	ROW_CACHE_ENTRIES = 4096, /* unwind rows remembered per CPU */
	SAMPLER_CPUS_MAX = 8192, /* that a tracepoint can be sampled on */
};
