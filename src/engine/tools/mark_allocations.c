// SPDX-License-Identifier: BSD-2-Clause
/*
 * Allocations at marked lines (mark_allocations.h).
 */
#include "engine/tools/mark_allocations.h"

#include "engine/stream.h"

enum { CALLS_MAX = 32 /* allocations of a thread that have not returned */ };

/* An allocation that a marked line is about to call, or has called. */
struct allocation {
	uint64_t sp; /* when it will have returned */
	uint64_t size; /* 0: it was not seen to begin */
	uint32_t mark;
};

static struct allocation *allocations_of(struct thread *thread)
{
	return (struct allocation *)(mark_data_memory(thread) + 1);
}

_Static_assert(sizeof(struct mark_data_memory) + CALLS_MAX * sizeof(struct allocation) <=
		       MARK_DATA_FILTER,
	       "they have their place");

/* The innermost one whose caller has not been left; those that have are dropped. */
static struct allocation *allocation_top(struct thread *thread, uint64_t sp)
{
	struct mark_data_memory *memory = mark_data_memory(thread);

	while (memory->allocations && allocations_of(thread)[memory->allocations - 1].sp < sp)
		memory->allocations--;
	return memory->allocations ? &allocations_of(thread)[memory->allocations - 1] : NULL;
}

void allocation_expect(struct thread *thread, uint32_t mark)
{
	struct mark_data_memory *memory = mark_data_memory(thread);
	const struct allocation *top = allocation_top(thread, thread->regs[RSP]);

	if (top && top->sp == thread->regs[RSP])
		memory->allocations--;
	if (memory->allocations < CALLS_MAX)
		allocations_of(thread)[memory->allocations++] =
			(struct allocation){ thread->regs[RSP], 0, mark };
}

void allocation_begin(struct thread *thread, uint32_t how, const uint64_t *arguments)
{
	struct allocation *top = allocation_top(thread, thread->regs[RSP]);
	uint64_t size = arguments[how != MARK_ALLOCATION_FIRST];

	if (!top || top->sp != thread->regs[RSP] + 8)
		return;
	if (how == MARK_ALLOCATION_PRODUCT && __builtin_mul_overflow(size, arguments[0], &size))
		size = 0;
	top->size = size;
}

void allocation_end(struct thread *thread, uint64_t start)
{
	const struct allocation *top = allocation_top(thread, thread->regs[RSP]);

	if (!top || top->sp != thread->regs[RSP])
		return;
	mark_data_memory(thread)->allocations--;
	if (!start || !top->size || start + top->size < start)
		return;
	engine_lock();
	if (shadow_add(start, start + top->size, top->mark, true, false) == SHADOW_RANGES_MAX)
		mark_data_memory(thread)->unmarked++;
	engine_unlock();
}

static bool is_allocation(uint32_t index, uint64_t start)
{
	const struct marked_range *range = &mark_shadow.ranges[index];

	return range->heap && range->end && range->start == start;
}

void allocation_release(uint64_t start)
{
	const struct shadow_node *nodes = mark_shadow.nodes;
	uint32_t found = SHADOW_RANGES_MAX;

	for (uint32_t at = shadow_list(start >> SHADOW_PAGE_BITS); at; at = nodes[at - 1].next)
		if (is_allocation(nodes[at - 1].range, start))
			found = nodes[at - 1].range;
	for (uint32_t i = 0; i < mark_shadow.large_count && found == SHADOW_RANGES_MAX; i++)
		if (is_allocation(mark_shadow.large[i], start))
			found = mark_shadow.large[i];
	if (found == SHADOW_RANGES_MAX)
		return;
	engine_lock();
	shadow_remove(found);
	engine_unlock();
}
