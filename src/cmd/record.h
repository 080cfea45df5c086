/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of assay record, which the rows in options_record.c fill. */
#pragma once

#include "base/option.h"
#include "capture/kernel/sampler.h"
#include "values/hotlist.h"

struct record_options {
	struct option_numbers pids, cpus;
	struct option_texts comms, cgroups, containers; /* processes that are there, by these */
	bool children; /* with what they have created before */
	bool all_cpus;
	uint64_t frequency; /* Hz; 0: use period */
	uint64_t period;
	const char *event; /* its name */
	uint64_t seed;
	bool off_cpu, system_calls;
	const char *values; /* what to capture; NULL: nothing */
	uint32_t run_length, run_every, run_skip;
	double run_share; /* of time, for runs; unless run_every is given */
	enum hotlist_kind hotlist;
	uint32_t hotlist_size;
	const char *output;
	double duration; /* seconds; 0: no end */
	bool serve;
	uint32_t serve_port; /* 0: any that is free */
	bool quiet, verbose;
	uint64_t ring, table_memory; /* bytes */
	uint32_t max_stacks, max_depth;
	uint64_t max_sites;
	bool user_only;
};
