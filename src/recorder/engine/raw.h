/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sink of `assay trace --raw`: everything that an engine source hands out is written to a file,
 * in that order, for tests and for trying out consumers on real streams.
 *
 * The file begins with the eight bytes "assayraw", and is then a sequence of frames, numbers in the
 * machine's order:
 *
 *	u32 kind	enum raw_kind
 *	u32 number	of the process or thread, from 1
 *	u64 size	bytes that follow
 *
 *	PROCESS		u32 pid, u32 parent, u32 replaces, u32 inherited: parent and replaces are
 *			numbers of processes, 0 for none; the parent's segments below inherited
 *			are the child's too
 *	RECORD		a record of the process's catalog (wire/stream.h): what segments stand for
 *	THREAD		u32 number of its process, u32 tid
 *	SEGMENTS	u32 segment ...: what the thread executed next
 *	COUNTS		u64 first, u64 count ...: how often the thread executed segment first,
 *			first + 1, ...
 *	THREAD_END, PROCESS_END	nothing
 *
 * A process comes before its records and threads, a segment is explained before a thread executes
 * it.
 */
#pragma once

#include "recorder/engine/engine_source.h"
#include "recorder/sink.h"

enum raw_kind {
	RAW_PROCESS = 1,
	RAW_RECORD,
	RAW_THREAD,
	RAW_SEGMENTS,
	RAW_COUNTS,
	RAW_THREAD_END,
	RAW_PROCESS_END,
};

struct raw_frame {
	uint32_t kind;
	uint32_t number;
	uint64_t size;
};

struct raw;

int raw_create(const char *path, struct raw **ret);
void raw_destroy(struct raw *raw);
DEFINE_AUTO(struct raw, raw_destroy)

/* The source's side, and the recorder's, which destroys it, too. */
struct engine_sink raw_engine_sink(struct raw *raw);
struct sink raw_sink(struct raw *raw);
