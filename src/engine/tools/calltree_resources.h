/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel counts for a thread, as metrics of its tree of calls.
 *
 * Faults and switches are read by getrusage(), but only when the kernel may have been entered: an
 * interval between two time stamps that is shorter than any entry into the kernel takes has had
 * none. So what is read belongs to the routine that was the innermost one in the interval. What
 * system calls read and write follows from their results, as in the kernel's own accounting.
 */
#pragma once

#include "engine/engine.h"
#include "wire/calltree.h"

enum {
	/* ticks: the shortest page fault takes more, and so does a switch */
	RESOURCES_INTERVAL_BITS = 9,
};

struct resources {
	uint64_t last[CALLTREE_USAGES]; /* as getrusage() told */
	uint64_t look; /* ticks that it takes to ask */
	uint64_t number; /* of the system call that is being done */
};

/* Resources that were used so far are charged to no routine. */
void resources_start(struct resources *resources);
/*
 * Charges what was counted since the last time; returns whether the thread was off its processor.
 */
bool resources_charge(struct resources *resources, struct call_node *node);
/* The same, for resources that the engine itself has used. */
void resources_leave_out(struct resources *resources, struct calltree_memory *memory);
void resources_syscall(struct resources *resources, const struct thread *thread);
void resources_syscall_done(const struct resources *resources, const struct thread *thread,
			    struct call_node *node);
