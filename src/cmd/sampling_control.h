/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Serves the requests of `assay ctl` in an assay record that runs: report the state, pause and
 * resume, change the rate of samples and the runs, and write a snapshot. Requests come through
 * sockets (control.h), one named after the recorder's process and one after the profile's file, and
 * are served by the loop of the recording.
 *
 * Requests: status, pause, resume, snapshot, and set NAME=VALUE... with options of assay record.
 * The answer is the state of the recording, or has an error.
 */
#pragma once

#include "cmd/sampling.h"
#include "recorder/perf_source.h"
#include "recorder/recorder.h"
#include "recorder/sampler_source.h"

/* All of it must outlive the control. */
struct sampling_parts {
	struct recorder *recorder; /* started */
	struct sampling_options *options; /* follow what is changed */
	struct sampler_source *sampler; /* NULL: without BPF */
	struct perf_source *perf;
};

struct sampling_control;

int sampling_control_create(const struct sampling_parts *parts, struct sampling_control **ret);
void sampling_control_destroy(struct sampling_control *control);

/* Readable when a request waits. */
int sampling_control_fd(const struct sampling_control *control);
void sampling_control_serve(struct sampling_control *control);
/* After each round. */
int sampling_control_tick(struct sampling_control *control);
/* The recording is over: no request is served any more. NULL is allowed. */
int sampling_control_end(struct sampling_control *control);
