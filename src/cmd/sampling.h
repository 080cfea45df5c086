/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The recording of `assay record`: a recorder with the sampler and the kernel's perf rings as
 * sources and samples and values as sinks, and the loop around it, which waits for signals, for the
 * command, and for processes to end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "capture/kernel/sampler.h"
#include "recorder/run_budget.h"
#include "recorder/sink.h"
#include "values/selection.h"

struct sampling_values {
	const struct selection *selection; /* NULL: no values */
	const char *what; /* as the user gave it */
	uint32_t run_length, run_skip; /* instructions */
	uint32_t run_every; /* samples per run; with a budget only in the beginning */
	struct run_budget budget; /* share 0: none */
	struct hotlist_config list;
	size_t max_sites;
};

struct sampling_options {
	const char *output;
	char *const *command; /* NULL: none */
	const pid_t *pids; /* attach to these */
	size_t pids_named; /* the first of them; the others were found, and may have ended */
	size_t pid_count;
	bool system_wide;
	const int *cpus; /* only these; NULL: all */
	size_t cpu_count;
	struct sampler_event event; /* found */
	uint64_t frequency; /* Hz; 0: use period */
	uint64_t period;
	uint64_t seed; /* of the random intervals */
	double duration; /* seconds; 0: until the command ends or a signal comes */
	size_t ring_bytes;
	uint32_t max_stacks;
	uint32_t max_rows;
	uint32_t max_depth;
	bool own_only; /* other users' processes are refused, and their values withheld */
	bool no_kernel_values;
	bool user_only; /* BPF is not allowed: through perf's rings */
	bool kernel_code; /* what perf's rings have of the kernel: its code, */
	bool kernel_wide; /* and samples of every process */
	bool serve; /* show the page while recording */
	uint32_t serve_port; /* 0: any that is free */
	struct sampling_values values;
	bool off_cpu; /* what threads use and wait for, too */
	bool system_calls; /* counted by thread; only with off_cpu */
};

struct sampling_result {
	int exit_code; /* of the command; 0 without one */
	struct sink_totals samples;
	uint64_t thinned; /* kept ones that were not taken: a later one counts for them */
	struct sink_totals runs;
	uint64_t runs_whole, runs_missing; /* that reached their length; that lacked code */
	bool values_taken; /* asked for, and not left out */
	struct sink_totals waits;
	bool waits_taken; /* asked for, and not left out */
	double seconds;
};

int sampling_run(const struct sampling_options *options, struct sampling_result *ret);
