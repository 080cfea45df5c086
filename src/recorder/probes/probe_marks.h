/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Marks that the kernel counts (probes.h), as a source and a sink of a recorder: while the process
 * runs by itself, what marks count is read at the interval, for rules, for others and over time; at
 * the end it is in the profile, by thread.
 */
#pragma once

#include "marks/live.h"
#include "recorder/probes/probes.h"
#include "recorder/recorder.h"

/* All must outlive the recorder. Both a source and a sink are added. */
void probe_marks_add(struct recorder *recorder, struct marks *marks, struct marks_live *live,
		     struct probes *probes, pid_t pid);
