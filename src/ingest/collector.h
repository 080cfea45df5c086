/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The collector: everything between the sampling interrupt and the profile file. One thread, one loop:
 *
 *	drain the sampler -> drain the kernel's process events -> apply the events -> attribute the samples
 *	-> publish what the sampler lacks -> commit
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "capture/kernel/sampler.h"
#include "profile/capture.h"

struct collector_values {
	const struct capture *capture; /* NULL: no values */
	const char *what; /* as the user gave it */
	uint32_t run_length, run_skip; /* instructions */
	uint32_t run_every; /* samples per run */
	struct hotlist_config list;
	size_t max_sites;
};

struct collector_options {
	const char *output;
	char *const *command; /* NULL: none */
	const pid_t *pids; /* attach to these */
	size_t pid_count;
	bool system_wide;
	const int *cpus; /* only these; NULL: all */
	size_t cpu_count;
	enum sampler_event event;
	uint64_t frequency; /* Hz; 0: use period */
	uint64_t period;
	uint64_t seed; /* of the random intervals */
	double duration; /* seconds; 0: until the command ends or a signal comes */
	size_t ring_bytes;
	uint32_t max_stacks;
	uint32_t max_rows;
	uint32_t max_depth;
	bool user_only; /* BPF is not allowed: own processes, user space, through perf's rings */
	bool progress; /* on stderr while recording */
	struct collector_values values;
};

struct collector_result {
	int exit_code; /* of the command; 0 without one */
	struct sample_tally tally;
	uint64_t kept;
	uint64_t lost;
	struct run_tally runs; /* UNREAD and DISAGREED included */
	uint64_t runs_kept;
	double seconds;
};

int collector_run(const struct collector_options *options, struct collector_result *ret);
