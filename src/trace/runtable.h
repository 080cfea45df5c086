/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the runs of a process stand for (wire/stream.h), as its log told. A child's table begins with what its parent knew when
 * it forked; that part is shared.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "wire/stream.h"

/* Columns: name, text. Why a record of a log was not believed. */
#define LOG_FAULTS(X)                                                                              \
	X(SIZE, "records of an impossible size; the rest of their log could not be read")          \
	X(TYPE, "records of an unknown type")                                                      \
	X(SHORT, "records that are too short for what they say")                                   \
	X(ORDER, "records that say which process it is, not at the beginning")                     \
	X(NUMBER, "runs with a number that cannot be")                                             \
	X(AGAIN, "runs that were known already")                                                   \
	X(PIECE, "runs of blocks that cannot be")                                                  \
	X(FRAGMENT, "runs cut short that never began")                                             \
	X(RANGE, "modules without an extent, or without an end of their name")

enum log_fault {
	LOG_FINE,
#define X(name, text) LOG_##name,
	LOG_FAULTS(X)
#undef X
		LOG_FAULT_COUNT
};

const char *log_fault_text(enum log_fault fault);

/* Blocks first to first + whole - 1, then last. */
struct runtable_run {
	uint32_t first;
	uint32_t last;
	uint32_t whole;
	bool known;
};

struct runtable {
	unsigned references;
	struct runtable *parent; /* NULL: none */
	uint32_t inherited; /* runs below are the parent's */
	ARRAY(struct stream_piece) pieces;
	ARRAY(uint32_t) marks; /* one for each piece; the owner's to use, 0 at first */
	ARRAY(struct runtable_run) runs; /* by number - inherited */
	size_t gaps; /* of runs, not known yet */
};

/* Takes a reference on the parent, which may be NULL. */
struct runtable *runtable_create(struct runtable *parent, uint32_t inherited);
void runtable_release(struct runtable *table);
DEFINE_AUTO(struct runtable, runtable_release)

/* Every run that is known has a smaller number. */
uint32_t runtable_limit(const struct runtable *table);
/* false: every number from 1 to the limit is known. */
bool runtable_has_gaps(const struct runtable *table);
/* The table that knows the run, this one or one that it inherits from; NULL: nobody does. */
const struct runtable *runtable_find(const struct runtable *table, uint32_t run,
				     const struct runtable_run **ret);

static inline uint32_t runtable_piece(const struct runtable_run *run, uint32_t i)
{
	return i < run->whole ? run->first + i : run->last;
}

/* The record is in private memory and as long as it says. */
enum log_fault runtable_add_runs(struct runtable *table, const struct stream_runs *record);
enum log_fault runtable_add_partial(struct runtable *table, const struct stream_partial *record);
