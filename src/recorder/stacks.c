// SPDX-License-Identifier: BSD-2-Clause
/*
 * The tree of stacks: frames of one sample, outermost first, in; the id of the node that the
 * innermost frame became out. New nodes are written to the store at once; memory holds only a map
 * from (parent, location) to node.
 *
 *	in	the frames of one sample, outermost first
 *	out	the id of a node; rows of new nodes for the store
 *	owner	the sink that makes it: samples.c, and mark_events.c of engines
 */
#include "recorder/stacks.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/mem.h"

struct stacks {
	struct store *store;
	struct loadmap *loadmap;
	struct module_id kernel;
	struct module_id marks;
	struct locations *locations;
	struct map node_ids; /* parent << 32 | location to id */
	uint32_t node_count;
};

void stacks_create(struct store *store, struct loadmap *loadmap, struct locations *locations,
		   struct stacks **ret)
{
	struct stacks *stacks = mem_zalloc(sizeof(*stacks));

	stacks->store = store;
	stacks->loadmap = loadmap;
	stacks->locations = locations;
	*ret = stacks;
}

void stacks_destroy(struct stacks *stacks)
{
	if (!stacks)
		return;
	map_deinit(&stacks->node_ids);
	free(stacks);
}

static int node_add(struct stacks *stacks, struct stack_id *node, struct location_id location)
{
	bool fresh;
	uint64_t *id = map_at(&stacks->node_ids, (uint64_t)node->v << 32 | location.v, &fresh);
	struct stack_id parent = *node;

	if (fresh)
		*id = ++stacks->node_count;
	node->v = (uint32_t)*id;
	return fresh ? store_stack_put(stacks->store,
				       &(struct store_stack){ *node, parent, location })
		     : 0;
}

static int push(struct stacks *stacks, struct stack_id *node, struct module_id module,
		uint64_t address)
{
	struct location_id location;
	int err = locations_add(stacks->locations, module, address, &location);

	return err ? err : node_add(stacks, node, location);
}

static int push_mark(struct stacks *stacks, struct stack_id *node, enum stack_end end)
{
	if (end == STACK_END_COMPLETE || end == STACK_END_NO_USER)
		return 0;
	if (!stacks->marks.v)
		stacks->marks = loadmap_mark_module(stacks->loadmap);
	return push(stacks, node, stacks->marks, end);
}

static int push_user(struct stacks *stacks, struct stack_id *node, struct loadmap_process *process,
		     uint64_t time, uint64_t frame)
{
	uint64_t address = frame & UNWIND_EXACT ? frame & ~UNWIND_EXACT : frame - 1;
	struct module_id module;

	loadmap_resolve(stacks->loadmap, process, address, time, &module, &address);
	return push(stacks, node, module, address);
}

static int push_kernel(struct stacks *stacks, struct stack_id *node, uint64_t address)
{
	if (!stacks->kernel.v)
		stacks->kernel = loadmap_kernel_module(stacks->loadmap, "[kernel]");
	return push(stacks, node, stacks->kernel, address);
}

int stacks_add(struct stacks *stacks, struct loadmap_process *process, uint64_t time,
	       const struct stack_frames *frames, struct stack_id *ret)
{
	struct stack_id node = {};
	int err = push_mark(stacks, &node, frames->end);

	for (size_t i = frames->user_count; i-- > 0 && !err;)
		err = push_user(stacks, &node, process, time, frames->user[i]);
	for (size_t i = frames->kernel_count; i-- > 0 && !err;)
		err = push_kernel(stacks, &node, frames->kernel[i] - (i > 0));
	if (!err)
		*ret = node;
	return err;
}

int stacks_walk(struct stacks *stacks, struct loadmap_process *process, uint64_t time,
		const struct stack_memory *memory, enum stack_end *ret_end, struct stack_id *ret)
{
	uint64_t user[SAMPLE_DEPTH_MAX];
	struct stack_frames frames = { .kernel = memory->kernel,
				       .kernel_count = memory->kernel_count,
				       .user = user };
	const struct unwind_area *areas;
	size_t area_count;

	if (!memory->registers.ip && memory->kernel_count) { /* a thread of the kernel */
		*ret_end = frames.end = STACK_END_NO_USER;
		return stacks_add(stacks, process, time, &frames, ret);
	}
	loadmap_areas(stacks->loadmap, process, &areas, &area_count);
	frames.user_count = unwind_walk(areas, area_count, &memory->registers, &memory->memory,
					user, memory->max_depth, &frames.end);
	*ret_end = frames.end;
	return stacks_add(stacks, process, time, &frames, ret);
}

struct stack_memory stack_memory_of_dump(const struct sample_dump *dump, uint32_t max_depth)
{
	return (struct stack_memory){
		.registers = { .ip = dump->ip, .sp = dump->sp, .bp = dump->bp, .rbx = dump->bx },
		.memory = { dump->sp + dump->absent, dump->stack, dump->stack_size },
		.kernel = dump->frames,
		.kernel_count = dump->kernel_count,
		.max_depth = max_depth,
	};
}
