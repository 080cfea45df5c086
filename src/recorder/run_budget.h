/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many samples have one run, so that values take a stated share of the programs' time.
 *
 * What a run takes is measured while the recording goes on: in the kernel, where it is interpreted,
 * and in the recorder, which replays it and writes its values. Translating has a budget of its own
 * (translations.c): it is done once for each piece of code, and fewer runs would not make it less.
 * Code is cold when a recording begins, and short programs have no other time: in the first seconds
 * of the recording, and of the programs' own time, the share is larger.
 */
#pragma once

#include <stdint.h>

struct run_budget {
	double share; /* of the time of what is sampled */
	double guess_ns; /* what a run takes, as long as nothing is measured */
	uint64_t period_ns; /* time that a sample stands for; 0: samples are not taken by time */
};

/* From the beginning of the recording on. */
struct run_use {
	uint64_t age_ns;
	uint64_t samples;
	uint64_t runs; /* begun */
	uint64_t kernel_ns;
	uint64_t replayed; /* runs that the recorder is done with */
	uint64_t recorder_ns;
};

/* At least 1. */
uint32_t run_budget_every(const struct run_budget *budget, const struct run_use *use);
