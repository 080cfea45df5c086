/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address ranges that may nest or overlap, for stabbing queries: sorted by start, wider first, each
 * with the furthest end up to itself, so that a backward scan from the address knows when nothing
 * older can reach it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/array.h"

struct range {
	uint64_t start, end;
	/* largest end of this and all ranges before it; valid after ranges_sort() */
	uint64_t reach;
	uint32_t value; /* the owner's */
};

struct ranges {
	ARRAY(struct range) list;
};

void ranges_deinit(struct ranges *ranges);
/* Empty ranges are left out. */
void ranges_add(struct ranges *ranges, uint64_t start, uint64_t end, uint32_t value);
void ranges_sort(struct ranges *ranges);
/* The innermost range that holds the address; after != NULL: the next one out. NULL: none. */
const struct range *ranges_find(const struct ranges *ranges, uint64_t address,
				const struct range *after);
