/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables by which the host tells the engine's tool calltree where routines begin, and the
 * tool's settings: shared memory that only the host writes. It takes the place of the marks
 * (wire/marks.h): the two tools are never used together.
 *
 * When an engine sees code that is new, it asks the host (ENGINE_REQUEST_MODULE). The answer is the
 * place of a table, in units of ROUTINES_UNIT from the beginning of this area; 0: nothing is known
 * of that code. A table is written once, before the answer, and never changes. It is sorted by
 * start, and no start is there twice. Numbers are offsets in the file that is mapped.
 */
#pragma once

#include "wire/stream.h"

enum {
	ROUTINES_BYTES = STREAM_TRANSLATIONS - STREAM_MARKS,
	ROUTINES_UNIT = 64,
	ROUTINE_FLAG_BITS = 5,
	ROUTINE_SIZE_MAX = (1 << 27) - 1,
};

enum routine_flag {
	ROUTINE_SKIPPED = 1, /* no node of its own: it counts as part of its caller */
	/* a part of another routine, which goes there by jumps: it is never called */
	ROUTINE_PART = 2,
	ROUTINE_ALLOCATION = 4, /* the lowest bit of enum routine_allocation */
};

/* Which arguments of an allocating routine are the number of bytes. */
enum routine_allocation {
	ALLOCATION_NONE,
	ALLOCATION_FIRST,
	ALLOCATION_SECOND,
	ALLOCATION_THIRD,
	ALLOCATION_FIRST_SECOND, /* the product of the two */
	ALLOCATION_SECOND_THIRD,
};

struct routines_area {
	wire_u32 asks; /* 0: the host answers no requests about modules */
	wire_u32 node_limit, depth_limit, prune_permille; /* of a thread's tree */
	wire_u32 filters; /* some routines are skipped */
	wire_u32 only; /* routines that no table names are skipped */
	wire_u32 allocations; /* those of routines that allocate are metrics of the tree */
	wire_u32 resources; /* so is what the kernel counts */
	wire_u32 events; /* each event is written as a record, too */
	wire_u32 reserved[7];
};

struct routine {
	wire_u32 start;
	wire_u32 size_flags; /* size << ROUTINE_FLAG_BITS | flags */
};

struct routine_table {
	wire_u32 count;
	wire_u32 reserved;
	struct routine routines[];
};

_Static_assert(sizeof(struct routines_area) == ROUTINES_UNIT, "wire");
_Static_assert(sizeof(struct routine) == 8, "wire");
_Static_assert(ALLOCATION_SECOND_THIRD << 2 < 1 << ROUTINE_FLAG_BITS, "the flags have room");
