/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions, inlined functions and lines of one file's DWARF: addresses in, frames out. */
#pragma once

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbols/symbols.h"

/* Used only in a worker process (worker.h): libdw is not safe against hostile files. */
struct debuginfo;

struct debuginfo *debuginfo_create(Dwarf *dwarf);
void debuginfo_destroy(struct debuginfo *info);

/*
 * The frames at an address, innermost first, names as DWARF has them and NULL where it has none.
 * Returns how many, 0 when the address is in no unit. *ret_start and *ret_end: the stretch of the
 * outermost function that holds the address; 0 when only the line is known and the one frame has no
 * name.
 */
size_t debuginfo_frames(struct debuginfo *info, uint64_t pc, struct symbol_frame *ret_frames,
			size_t max, uint64_t *ret_start, uint64_t *ret_end);

/*
 * Rows `first` and following of the table of lines of a unit, at most max; returns how many.
 * *ret_units: how many units there are. Addresses are those of the DWARF.
 */
size_t debuginfo_lines(struct debuginfo *info, size_t unit, size_t first, size_t max,
		       struct symbol_line *ret, size_t *ret_units);

/* The function that begins at the address. */
bool debuginfo_function(struct debuginfo *info, uint64_t pc, Dwarf_Die *ret);
