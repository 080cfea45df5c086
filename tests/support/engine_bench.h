/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests: a fake engine, a source that reads what it writes, and a sink that keeps what the
 * source hands out.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"
#include "recorder/engine/engine_source.h"
#include "support/fake_engine.h"

enum { ENGINE_BENCH_SEGMENTS = 64 };

/* What came out. */
struct engine_heard {
	ARRAY(uint32_t) segments; /* of all threads, in the order of arrival */
	uint64_t sum; /* of hashes of place and run: tells the order */
	uint64_t count;
	bool keep; /* in segments */
	unsigned processes, threads, processes_over, processes_ended, threads_ended, records;
	uint32_t parent, replaces, tid;
	uint64_t counts[ENGINE_BENCH_SEGMENTS];
	uint64_t instructions; /* of all segments, by their tables */
	uint64_t counter_sum; /* of tools: value times number of the record, from 1 */
};

struct engine_bench {
	struct fake_engine engine;
	struct engine_heard heard;
	struct engine_sink sink;
	struct engine_source *source;
};

void engine_bench_make(struct engine_bench *bench, unsigned counter_bytes,
		       enum engine_counters counters);
/* For cmocka: *state is a bench without counters. */
int engine_bench_setup(void **state);
int engine_bench_teardown(void **state);
/* A process of ours with segments 1 to 8, and a thread. Returns its catalog. */
uint32_t engine_bench_program(struct engine_bench *bench, uint32_t pid, uint32_t *ret_thread);
/* Reads until nothing comes any more, deaths of processes included. */
void engine_bench_settle(struct engine_bench *bench);
