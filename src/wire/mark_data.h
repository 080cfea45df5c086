/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory that the tool mark_data has for each thread, in the place of its counters
 * (wire/tools.h): how often each instruction has read and written marked data.
 *
 *	0			struct mark_data_memory
 *	MARK_DATA_FILTER	a byte for each page number, by its low 16 bits: 0 if there may be
 *				something marked in such a page, otherwise 1
 *	MARK_DATA_ASIDES	struct mark_data_aside of each instruction: what it touched last
 *	MARK_DATA_CELLS		struct mark_data_cell, in the order in which they came into use:
 *				what was counted
 *	MARK_DATA_INDEX		the engine's own: numbers of cells by hash
 *
 * The host reads the cells only. There may be many; memory is only touched by those in use, and so
 * are pages of the index, which begins small and grows.
 */
#pragma once

#include "wire/unwind.h"

enum {
	MARK_DATA_PAGES = 1 << 16,
	MARK_DATA_SITES = 1 << 16, /* instructions that have a place; others share one */
	MARK_DATA_CELLS_MAX = 1 << 18, /* of a thread */
	MARK_DATA_FILTER = 4096,
	MARK_DATA_ASIDES = MARK_DATA_FILTER + MARK_DATA_PAGES,
	MARK_DATA_ASIDE = 32, /* bytes */
	MARK_DATA_CELLS = MARK_DATA_ASIDES + MARK_DATA_SITES * MARK_DATA_ASIDE,
	MARK_DATA_CELL = 40, /* bytes */
	MARK_DATA_INDEX = MARK_DATA_CELLS + MARK_DATA_CELLS_MAX * MARK_DATA_CELL,
	/* The index with room for n numbers begins behind n numbers, so that smaller ones stay. */
	MARK_DATA_INDEX_MIN = 1 << 10,
	MARK_DATA_INDEX_MAX = 2 * MARK_DATA_CELLS_MAX,
	MARK_DATA_WORDS = (MARK_DATA_INDEX + 2 * MARK_DATA_INDEX_MAX * 4) / 8,
};

struct mark_data_cell {
	wire_u64 pc; /* of the instruction; 0: of any */
	wire_u32 mark; /* its number */
	wire_u32 reserved;
	wire_u64 reads, writes;
	wire_u64 both; /* read and written by one operand; in neither of the others */
};

struct mark_data_memory {
	wire_u32 ready; /* 1: there is something to read */
	wire_u32 allocations; /* that have not returned; the engine's own */
	wire_u32 used; /* cells */
	wire_u32 index_room; /* numbers that the index has room for; 0: there is none */
	wire_u64 unmarked; /* objects for which there was no room; accesses to them are not seen */
	/*
	 * The registers at the start of a string instruction, whose registers at the end then tell
	 * the bytes that it has accessed.
	 */
	wire_u64 rsi, rdi, rcx;
	/*
	 * Counts accesses that hit a page with marked data, but no marked range; it is not
	 * reported.
	 */
	struct mark_data_cell unmarked_cell;
	struct mark_data_cell uncounted; /* accesses for which there was no free cell */
};

/* The marked range that an instruction accessed last. */
struct mark_data_aside {
	wire_u64 start;
	wire_u64 limit; /* so many addresses from there on are wholly in it; 0: none */
	wire_u64 cell; /* an address in the producer's memory */
	wire_u64 reserved;
};

_Static_assert(sizeof(struct mark_data_memory) <= MARK_DATA_FILTER, "wire");
_Static_assert(sizeof(struct mark_data_aside) == MARK_DATA_ASIDE, "wire");
_Static_assert(sizeof(struct mark_data_cell) == MARK_DATA_CELL, "wire");
