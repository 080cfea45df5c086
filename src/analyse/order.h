/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The order in which threads executed code, as a profile has it: what the numbers of a process
 * stand for, and its threads' rows, decoded one at a time and checked against what the profile says
 * about them.
 *
 *	struct order_code code;
 *	err = order_code_init(&code, profile, process);
 *	err = order_walk(&code, thread, row_take, context);
 *	order_code_deinit(&code);
 *
 * A profile may say anything: what does not fit is -EBADMSG, with a sentence.
 */
#pragma once

#include "analyse/table.h"
#include "paths/sequence.h"
#include "store/profile.h"

struct order_code {
	const struct profile *profile;
	uint32_t process;
	struct sequence_paths paths; /* every block is one of the profile's */
	ARRAY(uint32_t) weights; /* instructions by block */
};

/* Also after a failure, order_code_deinit() is needed. */
int order_code_init(struct order_code *code, const struct profile *profile, uint32_t process);
void order_code_deinit(struct order_code *code);

/* The blocks of a path, one after the other, are added to those that are there. */
struct order_blocks {
	ARRAY(uint32_t) items;
};
/* -EBADMSG: there is no such path. */
int order_path_blocks(const struct order_code *code, uint64_t path, struct order_blocks *ret);
/* Instructions of one trip. */
uint64_t order_path_weight(const struct order_code *code, uint64_t path);

/* A thread's rows in the profile; how many. */
size_t order_rows(const struct profile *profile, uint32_t thread, const struct profile_flow **ret);
struct sequence_position order_end(const struct profile_flow *row);
/* Decodes a row that begins at `begin`, and checks that it gets to its end. */
int order_row_read(const struct order_code *code, const struct profile_flow *row,
		   const struct sequence_position *begin, struct sequence_repeats *ret);

/* What returns an error ends the walk. */
typedef int (*order_row_fn)(void *context, const struct profile_flow *row,
			    const struct sequence_position *begin,
			    const struct sequence_repeats *repeats);
int order_walk(const struct order_code *code, uint32_t thread, order_row_fn take, void *context);

/* How often paths were run, by number; 0 where there is none. */
struct order_trips {
	ARRAY(uint64_t) trips;
	ARRAY(uint64_t) repeats;
};
void order_trips_deinit(struct order_trips *trips);
/* Adds a thread's. */
int order_trips_add(const struct order_code *code, uint32_t thread, struct order_trips *trips);

/* -ENODATA: the profile has no order. -ENOTSUP: one that this Assay cannot read. */
int order_check(const struct profile *profile);
/* How far a thread came. */
struct sequence_position order_thread_end(const struct profile *profile, uint32_t thread);
/* Totals in instructions; segments that were lost are taken to be as long as the others. */
void order_totals_set(struct table *table, const struct profile *profile, uint64_t selected);
/* Totals of something else that every segment has as much of, on average. */
void order_totals_scale(struct table *table, const struct profile *profile, uint64_t kept,
			uint64_t selected);
