/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the runs of a process stand for, as bytes that a profile keeps: each run is a sequence of blocks, and most begin with
 * all the blocks of the run before.
 */
#pragma once

#include "profile/coder.h"

struct run_blocks {
	const uint32_t *blocks;
	uint32_t count; /* 0: not known */
};

enum { RUNS_EXPECTED = 1 << 16 }; /* what the coder is made for: coder_init() */

/* The next row of a process, always with the same coder, which is new for each process. The bytes are in coder->out. */
void runs_encode(struct coder *coder, const struct run_blocks *runs, size_t count);

/* The runs of a process and their blocks; from any source. */
struct runs {
	struct coder coder;
	ARRAY(uint32_t) blocks; /* of all runs, one after the other */
	ARRAY(uint64_t) ends; /* by run: where its blocks end; run 0 has none */
};

void runs_init(struct runs *runs);
void runs_deinit(struct runs *runs);
/* Rows come in order, without a gap: -EBADMSG otherwise, and if the bytes make no sense. */
int runs_add(struct runs *runs, uint64_t first, uint64_t count, const uint8_t *data, size_t size);
/* There are no more rows: gives back what only reading them needs. */
void runs_end(struct runs *runs);
/* The runs of another process below a number are this one's too, before any are added. */
int runs_inherit(struct runs *runs, const struct runs *parent, uint64_t below);
/* How many blocks; 0 if there is no such run. */
size_t runs_at(const struct runs *runs, uint64_t run, const uint32_t **ret);

static inline size_t runs_limit(const struct runs *runs)
{
	return runs->ends.count;
}
