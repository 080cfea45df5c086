/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The source of waits: the BPF programs at the scheduler's switch. They look at the processes that
 * the sampler samples, and are enabled after it.
 */
#pragma once

#include "capture/kernel/waits.h"
#include "recorder/recorder.h"
#include "recorder/sampler_source.h"
#include "recorder/waits_sink.h"

struct waits_source;

/* Takes the waits, which are loaded. Both others must outlive the source. */
int waits_source_create(struct waits *waits, struct sampler_source *sampler,
			struct recorder *recorder, struct waits_sink *sink,
			struct waits_source **ret);
void waits_source_destroy(struct waits_source *source);
/*
 * A program that is going to run: if it tells of its tasks, it does from its beginning. Those of
 * files that are mapped later are found by the source itself, soon after.
 */
void waits_source_file(struct waits_source *source, int file);

/* The recorder's side; it destroys the source, too. */
struct source waits_source_interface(struct waits_source *source);
