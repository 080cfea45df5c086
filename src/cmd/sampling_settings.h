/* SPDX-License-Identifier: BSD-2-Clause */
/* Rate and runs of a recording: what is chosen when it begins, and can be changed while it runs. */
#pragma once

#include "cmd/sampling.h"
#include "recorder/recorder.h"

/* What is done instead where BPF cannot be used. */
const char *sampling_without_bpf(const struct sampling_options *options);
/* -EINVAL: the kernel would drop samples above its own limit without telling us. */
int sampling_rate_check(const struct sampling_options *options);
/* The period of samples: ns for time, otherwise events; 0 if the kernel adapts it. */
uint64_t sampling_period(const struct sampling_options *options);
/* Runs may take that share of time; options say how long they are, and how often samples come. */
void sampling_share_set(struct sampling_options *options, double share);
/* Facts of the profile. After a change it has the values from before, too. */
int sampling_rate_facts(struct recorder *recorder, const struct sampling_options *options);
int sampling_runs_facts(struct recorder *recorder, const struct sampling_options *options);
