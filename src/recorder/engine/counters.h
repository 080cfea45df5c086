/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sink of tools' counters: counters of threads in; their sums over all threads and processes,
 * by tool and name, out, at the end.
 */
#pragma once

#include "recorder/engine/engine_source.h"
#include "recorder/sink.h"

struct counters;

struct counters_row {
	enum engine_tool tool;
	const char *
		name; /* as the engine gave it, or module+0xoffset of the code that it belongs to */
	uint64_t value;
};

struct counters *counters_create(void);
void counters_destroy(struct counters *counters);
DEFINE_AUTO(struct counters, counters_destroy)
/* The source's side, and the recorder's, which destroys it, too. */
struct engine_sink counters_engine_sink(struct counters *counters);
struct sink counters_sink(struct counters *counters);
/* When all has ended: by tool, the largest first. They live as long as counters do. */
const struct counters_row *counters_rows(struct counters *counters, size_t *ret_count);
