/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counts accesses to marked data by the instruction that does them.
 *
 *	in	addresses that inline code could not handle by itself
 *	out	cells of the thread (wire/mark_data.h), and what inline code looks at the next time
 *	owner	the thread; places of instructions belong to the process
 *
 * If a page may hold something marked, inline code compares with the instruction's aside, a
 * look-aside entry with the range that it accessed last. All other accesses come here.
 *
 * A string instruction does many accesses. One whose number is known beforehand is counted in front
 * of it, and what was left when it is interrupted is taken back. One that compares is counted
 * behind it, by how far its registers got.
 *
 * An aside is filled only with a range that no other range overlaps, or with a gap between ranges.
 */
#pragma once

#include "engine/tools/mark_shadow.h"

/* Beside the place of the instruction, TOUCH_READ and TOUCH_WRITE in the number of an access. */
enum {
	TOUCH_STRING = 1 << 18, /* repeated: the number of accesses is in rcx */
	TOUCH_COMPARES = 1 << 19, /* repeated while something holds; counted behind it */
	TOUCH_BEHIND = 1 << 20,
};

/* Makes the table of places, unless it is there. */
void touch_make(void);
/* The place of an instruction's operand. When there are no more, those of a size share one. */
uint32_t touch_site_of(const struct point *point);
/* Counts an access, or a string instruction; by: 1, or -1 to take it back. */
void touch_count(struct thread *thread, uint32_t number, uint64_t address, uint64_t by);
/* Keeps the registers before a string instruction that compares. */
void touch_compares_keep(struct thread *thread);
/* Counts how far such an instruction has got since; rcx is what it has left. */
void touch_compared(struct thread *thread, uint32_t number, uint64_t rcx);
/* The range is in no aside any more. */
void touch_asides_forget(struct marked_range *range);
/* A range was added: asides hold no gaps any more. */
void touch_gaps_forget(void);
