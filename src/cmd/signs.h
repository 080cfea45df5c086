/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Signs of life of a recording, on a terminal: how much it has, how fast that grows, what was lost,
 * and how large the profile is by now.
 *
 *	assay: 12,345 samples, 997 a second, 0 lost, 1.2 MB: 12 s
 */
#pragma once

#include "base/progress.h"
#include "recorder/recorder.h"

struct signs {
	struct progress progress;
	struct recorder *recorder;
	enum recording_kind kind;
	const char *unit; /* "samples" */
	const char *output;
	uint64_t last, last_time; /* what there was at the last commit, and when that was */
};

/* Both are called in one thread; in between, the thread that makes the rounds renews the line. */
void signs_begin(struct signs *signs, struct recorder *recorder, enum recording_kind kind,
		 const char *unit, const char *output);
void signs_end(struct signs *signs);
