/* SPDX-License-Identifier: BSD-2-Clause */
/* What the host knows of the routines of a program (wire/routines.h). */
#pragma once

#include "engine/engine.h"
#include "wire/routines.h"

/* The routine that holds pc, as the host knows it. */
struct routine_found {
	uint64_t start;
	uint32_t flags; /* enum routine_flag */
};

const struct routines_area *routines_area(void);
/* Code was mapped; with the lock held. */
void routines_module_seen(const struct region *region, const char *path);
/* From any thread, without a lock. False: nothing is known of that code. */
bool routine_find(uint64_t pc, struct routine_found *ret);
/* Whether the code at pc belongs to a routine that counts as part of its callers. */
bool routine_is_skipped(uint64_t pc);
/* Whether it is a stub of the procedure linkage table. */
bool code_is_stub(uint64_t pc);
