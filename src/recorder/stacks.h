/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stacks become a tree: a node is a code location called from its parent node. Equal stacks share a
 * node, equal outer parts share ancestors, so that a stack costs only what is new in it. Locations
 * and nodes go to the store when they are first seen.
 *
 * A return address is kept as address - 1, which lies in the call instruction: its line and its
 * function are the call's.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/ids.h"
#include "image/loadmap.h"
#include "recorder/locations.h"
#include "store/store.h"
#include "unwind/unwind.h"
#include "wire/sample.h"

struct stacks;

void stacks_create(struct store *store, struct loadmap *loadmap, struct locations *locations,
		   struct stacks **ret);
void stacks_destroy(struct stacks *stacks);
DEFINE_AUTO(struct stacks, stacks_destroy)

/* One sample's frames as the sampler gives them; see struct sample_stack and UNWIND_EXACT. */
struct stack_frames {
	const uint64_t *kernel;
	size_t kernel_count;
	const uint64_t *user;
	size_t user_count;
	enum stack_end end;
};

/* A stack that the host walks. */
struct stack_memory {
	struct unwind_registers registers;
	struct unwind_memory memory;
	const uint64_t *kernel;
	size_t kernel_count;
	uint32_t max_depth;
};

/* A user stack that was cut hangs below an entry that says why. */
int stacks_add(struct stacks *stacks, struct loadmap_process *process, uint64_t time,
	       const struct stack_frames *frames, struct stack_id *ret);
/* The same after walking it; *ret_end: how that ended. */
int stacks_walk(struct stacks *stacks, struct loadmap_process *process, uint64_t time,
		const struct stack_memory *memory, enum stack_end *ret_end, struct stack_id *ret);
/* Where the sampler copied the memory of a stack. */
struct stack_memory stack_memory_of_dump(const struct sample_dump *dump, uint32_t max_depth);
