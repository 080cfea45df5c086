/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Allocations at marked lines: their memory is marked until it is given back.
 *
 *	in	calls and returns of functions that allocate and release memory
 *	out	ranges of the shadow page table
 *	owner	the thread: its allocations that have not returned lie in its memory
 */
#pragma once

#include "engine/tools/mark_shadow.h"

/* A call of a marked line is about to be done, which may be an allocation. */
void allocation_expect(struct thread *thread, uint32_t mark);
/* A function that allocates begins; how: enum mark_allocation. */
void allocation_begin(struct thread *thread, uint32_t how, const uint64_t *arguments);
/* The call has returned the address. */
void allocation_end(struct thread *thread, uint64_t start);
/* Memory is given back. */
void allocation_release(uint64_t start);
