/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests: a trace of a process with two threads, made of a program p and a library l. Which code
 * there is, is the test's:
 *
 *	static struct profile_symbol symbols[] = { ... };	and so on
 *	profile = fixture_trace(&(struct fixture_code){ FIXTURE_CODE }, &trace);
 */
#pragma once

#include "store/profile.h"

#define FIXTURE_COUNT(array) (sizeof(array) / sizeof(*(array)))

/*
 * Arrays with the names of the fields; those of modules 1, p, and 2, l. Element 0 is nobody, but of
 * parts.
 */
#define FIXTURE_CODE                                                                               \
	symbols, FIXTURE_COUNT(symbols), files, FIXTURE_COUNT(files), frames,                      \
		FIXTURE_COUNT(frames), locations, FIXTURE_COUNT(locations), blocks,                \
		FIXTURE_COUNT(blocks), parts, FIXTURE_COUNT(parts)

struct fixture_code {
	struct profile_symbol *symbols;
	size_t symbol_count;
	struct profile_file *files;
	size_t file_count;
	struct profile_frame *frames;
	size_t frame_count;
	struct profile_location *locations;
	size_t location_count;
	struct profile_block *blocks;
	size_t block_count;
	struct profile_block_part *parts;
	size_t part_count;
};

/* What the recording says of itself; it stays the caller's. */
struct fixture_trace {
	struct profile_fact *facts; /* of recording 1, in the order of their keys */
	size_t fact_count;
	struct profile_recording recordings[2]; /* the second is filled in but for its totals */
};

/*
 * Process 1, pid 10; threads 1 and 2, "first" and "second", tids 10 and 11. The caller's arrays
 * stay the caller's.
 */
struct profile fixture_trace(const struct fixture_code *code, struct fixture_trace *trace);
