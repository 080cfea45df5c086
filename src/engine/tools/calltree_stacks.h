/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames of stacks that a thread has left, and may come back to (coroutines).
 *
 * Frames that are gone without having returned are kept here for a while, with the return address
 * that each had in memory. A return without a frame is looked for among them: if its stack pointer
 * and its return address are those of a frame that was kept, the thread is back on that stack, and
 * the frames up to that one stand again on top of those that are there.
 *
 * Invariants
 * 1. A frame that is brought back has the node that it had: nodes are removed by sweeps only, after
 *    which nothing that was kept before is brought back.
 * 2. What was left by an exception or longjmp() may be kept as well, but is not brought back,
 *    unless exactly the same return happens after all.
 */
#pragma once

#include "calls/tree.h"
#include "engine/engine.h"

enum {
	STACKS_KEPT = 64, /* the newest */
	STACK_FRAMES_KEPT = 32, /* of each, the innermost */
};

struct kept_stack {
	uint32_t count; /* 0: not in use */
	uint32_t reserved;
	uint64_t lowest, highest; /* of the stack pointers */
	struct call_frame frames[STACK_FRAMES_KEPT]; /* outermost first; entry: return address */
};

struct kept_stacks {
	uint64_t sweeps; /* of the tree, when they were kept */
	uint32_t next; /* to be given up for another one */
	uint32_t used; /* numbers are below */
	struct kept_stack stacks[STACKS_KEPT];
};

/* Frames behind the one, up to the tree's top, are about to be dropped. */
void stacks_keep(struct kept_stacks *stacks, const struct call_tree *tree,
		 const struct call_frame *left);
/*
 * A return has no frame. If it is one from a stack that was left, its frames are back, and the
 * innermost is that of the return.
 */
bool stacks_bring_back(struct kept_stacks *stacks, struct call_tree *tree, uint64_t sp);
