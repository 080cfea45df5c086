// SPDX-License-Identifier: BSD-2-Clause
#include "engine/tools/calltree_stacks.h"

static void all_forget(struct kept_stacks *stacks, const struct call_tree *tree)
{
	for (uint32_t i = 0; i < stacks->used; i++)
		stacks->stacks[i].count = 0;
	stacks->used = stacks->next = 0;
	stacks->sweeps = tree->head->sweeps;
}

/* One that is free, or the one that was kept first. */
static struct kept_stack *place_for(struct kept_stacks *stacks)
{
	for (uint32_t i = 0; i < stacks->used; i++)
		if (!stacks->stacks[i].count)
			return &stacks->stacks[i];
	if (stacks->used < STACKS_KEPT)
		return &stacks->stacks[stacks->used++];
	stacks->next = (stacks->next + 1) % STACKS_KEPT;
	return &stacks->stacks[stacks->next];
}

static void kept_clear(struct kept_stack *kept)
{
	kept->count = 0;
	kept->lowest = UINT64_MAX;
	kept->highest = 0;
}

static void kept_add(struct kept_stack *kept, const struct call_frame *frame)
{
	kept->frames[kept->count++] = *frame;
	kept->lowest = frame->sp < kept->lowest ? frame->sp : kept->lowest;
	kept->highest = frame->sp > kept->highest ? frame->sp : kept->highest;
}

void stacks_keep(struct kept_stacks *stacks, const struct call_tree *tree,
		 const struct call_frame *left)
{
	const struct call_frame *from = left + 1;
	struct kept_stack *kept;

	if (stacks->sweeps != tree->head->sweeps)
		all_forget(stacks, tree);
	if (tree->top - left > STACK_FRAMES_KEPT)
		from = tree->top - STACK_FRAMES_KEPT + 1;
	kept = place_for(stacks);
	kept_clear(kept);
	for (; from <= tree->top; from++) {
		struct call_frame frame = *from;

		if (user_read(&frame.entry, frame.sp, sizeof(frame.entry)))
			kept_add(kept, &frame);
	}
}

/* How many frames, up to that of the return; 0: none. */
static uint32_t frames_up_to(const struct kept_stack *kept, uint64_t sp, uint64_t back)
{
	uint32_t count = kept->count;

	if (sp < kept->lowest || sp > kept->highest)
		return 0;
	while (count && (kept->frames[count - 1].sp != sp || kept->frames[count - 1].entry != back))
		count--;
	return count;
}

/* What is behind the first frames may be another stack, which was left from this one. */
static void bring_back(struct kept_stack *kept, struct call_tree *tree, uint32_t count)
{
	uint32_t all = kept->count;

	for (uint32_t i = 0; i < count; i++) {
		*++tree->top = kept->frames[i];
		tree->top->entry = 0;
	}
	kept_clear(kept);
	for (uint32_t i = count; i < all; i++)
		kept_add(kept, &kept->frames[i]);
}

bool stacks_bring_back(struct kept_stacks *stacks, struct call_tree *tree, uint64_t sp)
{
	uint64_t back;

	if (!stacks->used || stacks->sweeps != tree->head->sweeps ||
	    !user_read(&back, sp, sizeof(back)))
		return false;
	for (uint32_t i = 0; i < stacks->used; i++) {
		struct kept_stack *kept = &stacks->stacks[i];
		uint32_t count = kept->count ? frames_up_to(kept, sp, back) : 0;

		if (!count || tree->deepest - tree->top < (long)count)
			continue;
		tree->head->repairs[CALL_REPAIR_ABANDONED] -= count;
		bring_back(kept, tree, count);
		return true;
	}
	return false;
}
