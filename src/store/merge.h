/* SPDX-License-Identifier: BSD-2-Clause */
/* One profile made of several. */
#pragma once

#include <stddef.h>

struct merge_options {
	/*
	 * Makes one list of values of two, in at most STORE_VALUE_LIST_MAX bytes. -EINVAL: they
	 * cannot be one; both are then kept.
	 */
	int (*lists_merge)(const void *a, size_t a_size, const void *b, size_t b_size, void *ret,
			   size_t *ret_size);
};

/*
 * Merges finished profiles into a new one at output, which appears when it is whole; what was there
 * is kept as with store_create(). Counts, losses and metrics are the sums. What is the same in
 * several of them is one row: modules by build-id, processes and threads by all that is known of
 * them. Where a thread's order of execution was recorded, it stays a thread of its own. -EINVAL:
 * they do not fit together, or one is not finished. Otherwise the refusals of profile_open() and
 * store_create().
 */
int merge_profiles(const char *const paths[], size_t count, const char *output,
		   const struct merge_options *options);
