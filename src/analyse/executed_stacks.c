// SPDX-License-Identifier: BSD-2-Clause
/*
 * Stacks from the order of execution: each thread's blocks are followed with a stack of the calls
 * that have not returned.
 *
 * A block that ends with a call pushes it. After one that ends with a return, the next block says
 * which call returned: the innermost one behind which it lies. Calls above it were left without a
 * return. Code that is nowhere to be found may or may not have returned. Where no call fits, and
 * after a jump to a computed place, longjmp() or an exception may have gone back into the middle of
 * a function on the stack: the calls from the innermost such function on are over. Otherwise the
 * stack stays: a function that was reached by a jump takes the place of the one that jumped, as it
 * does on a real stack. A process that switches between stacks of its own has one here.
 *
 * What a path does depends on the stack that it begins with, which is interned as a state. So each
 * pair of state and path is followed once, block by block, and counted from then on; a path that
 * ends in the state it began with takes one step for all its trips. Blocks are added up at the end.
 *
 *  1. State 0 is the empty stack. A place is a state and how the next block is reached. A computed
 *     jump is under way as a state on top, until the next block ends it.
 *  2. A node of the profile's tree comes after its parent. A call site that is on the stack already
 *     stands for itself: recursion is folded, so that there are no more nodes than call sites can
 *     follow each other without repeating.
 *  3. Each block is counted as often as the profile says that the thread executed it: what the
 *     order lacks has a stack of one frame.
 */
#include "analyse/executed_stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/heats.h"
#include "analyse/meta.h"
#include "analyse/names.h"
#include "analyse/order.h"
#include "analyse/views.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"

enum {
	STATES_MAX = 1 << 21, /* then all but the present stack are forgotten */
	STEPS_MAX = 1 << 21,
	NODES_MAX = 1 << 22, /* then calls count for their caller's node */
	DEPTH_MAX = 1 << 18, /* then calls are jumps: code that calls only to jump never returns */
};

enum block_end { END_UNKNOWN, END_CALL, END_RETURN, END_JUMP, END_OTHER };

/* How the next block is reached. */
enum arrival { ARRIVE_PLAINLY, ARRIVE_BY_RETURN, ARRIVE_BY_JUMP };

enum { PLACE_SHIFT = 2, PLACE_ARRIVAL = (1 << PLACE_SHIFT) - 1 };

#define JUMPS (UINT32_C(1) << 31) /* in state.block: it ended with a jump */

/* A call that has not returned, or a jump that is under way. */
struct state {
	uint32_t parent;
	uint32_t block; /* that ended with it */
	uint32_t node;
	uint32_t depth;
};

/* What a path does in a place. */
struct step {
	uint32_t place, path;
	uint32_t next; /* place */
	uint64_t count;
};

struct stacker {
	const struct profile *profile;
	struct order_code *order; /* of the process in hand */
	struct heats heats;
	uint8_t *ends; /* by block: enum block_end */
	bool by_blocks;
	ARRAY(struct state) states;
	struct map state_of; /* parent << 32 | block */
	ARRAY(struct step) steps;
	struct map step_of; /* place << 32 | path, to step + 1 */
	ARRAY(struct profile_stack) nodes;
	struct map node_of; /* parent << 32 | location */
	struct map blocks; /* node << 32 | block: how often, of the thread in hand */
	ARRAY(struct profile_sample) samples;
	uint32_t place;
};

static enum block_end block_end(struct stacker *stacker, uint32_t block)
{
	uint8_t *end = &stacker->ends[block];

	if (*end == END_UNKNOWN) {
		bool known;
		const struct heat *heat = heats_of(&stacker->heats, block, &known);

		*end = heat->of[HEAT_CALLS]		  ? END_CALL
		       : heat->of[HEAT_RETURNS] || !known ? END_RETURN
		       : heat->of[HEAT_INDIRECT]	  ? END_JUMP
							  : END_OTHER;
	}
	return *end;
}

/* --- Nodes of the tree ------------------------------------------------------------------------ */

static uint32_t node_child(struct stacker *stacker, uint32_t parent, uint32_t location)
{
	uint64_t key = (uint64_t)parent << 32 | location;
	const uint64_t *known = map_find(&stacker->node_of, key);

	if (known)
		return (uint32_t)*known;
	*array_push(&stacker->nodes) =
		(struct profile_stack){ .parent = parent, .location = location };
	*map_at(&stacker->node_of, key, NULL) = stacker->nodes.count - 1;
	return (uint32_t)stacker->nodes.count - 1;
}

/* The location of the call that a block ends with: that of its last part. */
static uint32_t call_location(const struct profile *profile, uint32_t block)
{
	const struct profile_block *row = &profile->blocks[block];

	return row->part_count
		       ? profile->block_parts[row->first_part + row->part_count - 1].location
		       : row->location;
}

static uint32_t call_node(struct stacker *stacker, uint32_t parent, uint32_t block)
{
	uint32_t location = call_location(stacker->profile, block);

	for (uint32_t node = parent; node; node = stacker->nodes.items[node].parent)
		if (stacker->nodes.items[node].location == location)
			return node;
	return stacker->nodes.count < NODES_MAX ? node_child(stacker, parent, location) : parent;
}

/* --- Calls and returns ------------------------------------------------------------------------ */

static uint32_t state_push(struct stacker *stacker, uint32_t parent, uint32_t block)
{
	uint64_t key = (uint64_t)parent << 32 | block;
	const uint64_t *known = map_find(&stacker->state_of, key);
	struct state state = { .parent = parent, .block = block };

	if (known)
		return (uint32_t)*known;
	state.depth = stacker->states.items[parent].depth + 1;
	if (state.depth > DEPTH_MAX)
		return parent;
	state.node = stacker->states.items[parent].node;
	if (!(block & JUMPS))
		state.node = call_node(stacker, state.node, block);
	*array_push(&stacker->states) = state;
	*map_at(&stacker->state_of, key, NULL) = stacker->states.count - 1;
	return (uint32_t)stacker->states.count - 1;
}

/* Whether a block lies where a call returns to. */
static bool is_behind(const struct profile *profile, uint32_t block, uint32_t call)
{
	const struct profile_location *here = &profile->locations[profile->blocks[block].location];
	const struct profile_location *there = &profile->locations[profile->blocks[call].location];

	return here->module == there->module &&
	       here->address == there->address + profile->blocks[call].length;
}

static uint32_t function_of(const struct profile *profile, uint32_t block)
{
	return location_function(profile, profile->blocks[block].location);
}

/* Whether a block lies behind the beginning of its function, which is then not called here. */
static bool is_inside(const struct profile *profile, uint32_t block)
{
	uint32_t symbol = function_of(profile, block);

	return symbol && profile->locations[profile->blocks[block].location].address !=
				 profile->symbols[symbol].address;
}

/* The state after control went back into the middle of a function that had called another. */
static uint32_t state_unwind(const struct stacker *stacker, uint32_t state, uint32_t block)
{
	const struct profile *profile = stacker->profile;
	uint32_t function = function_of(profile, block);

	if (!is_inside(profile, block))
		return state;
	for (uint32_t at = state; at; at = stacker->states.items[at].parent)
		if (function_of(profile, stacker->states.items[at].block) == function)
			return stacker->states.items[at].parent;
	return state;
}

/* The state after a return to a block. */
static uint32_t state_return(const struct stacker *stacker, uint32_t state, uint32_t block)
{
	for (uint32_t at = state; at; at = stacker->states.items[at].parent)
		if (is_behind(stacker->profile, block, stacker->states.items[at].block))
			return stacker->states.items[at].parent;
	return state_unwind(stacker, state, block);
}

/* The state after a jump to a block. Jumps inside a function are the usual ones. */
static uint32_t state_jump(const struct stacker *stacker, uint32_t state, uint32_t block)
{
	const struct state *jump = &stacker->states.items[state];
	uint32_t from = function_of(stacker->profile, jump->block & ~JUMPS);

	return from == function_of(stacker->profile, block)
		       ? jump->parent
		       : state_unwind(stacker, jump->parent, block);
}

static uint32_t place_before(const struct stacker *stacker, uint32_t place, uint32_t block)
{
	uint32_t state = place >> PLACE_SHIFT;

	switch ((enum arrival)(place & PLACE_ARRIVAL)) {
	case ARRIVE_BY_RETURN:
		return state_return(stacker, state, block);
	case ARRIVE_BY_JUMP:
		return state_jump(stacker, state, block);
	case ARRIVE_PLAINLY:
	default:
		return state;
	}
}

static uint32_t place_after(struct stacker *stacker, uint32_t state, uint32_t block)
{
	enum arrival arrival = ARRIVE_PLAINLY;
	uint32_t top = state;

	switch (block_end(stacker, block)) {
	case END_CALL:
		top = state_push(stacker, state, block);
		break;
	case END_RETURN:
		arrival = ARRIVE_BY_RETURN;
		break;
	case END_JUMP:
		top = state_push(stacker, state, block | JUMPS);
		arrival = top == state ? ARRIVE_PLAINLY : ARRIVE_BY_JUMP;
		break;
	default:
		break;
	}
	return top << PLACE_SHIFT | arrival;
}

/* --- Paths ------------------------------------------------------------------------------------ */

static uint32_t path_follow(struct stacker *stacker, uint32_t place, uint32_t path)
{
	const uint32_t *blocks = NULL;
	size_t length = sequence_path(&stacker->order->paths, path, &blocks);

	for (size_t i = 0; i < length; i++)
		place = place_after(stacker, place_before(stacker, place, blocks[i]), blocks[i]);
	return place;
}

static void step_expand(struct stacker *stacker, const struct step *step)
{
	const uint32_t *blocks = NULL;
	size_t length = sequence_path(&stacker->order->paths, step->path, &blocks);
	uint32_t place = step->place;

	for (size_t i = 0; i < length; i++) {
		uint32_t state = place_before(stacker, place, blocks[i]);
		uint64_t node = stacker->states.items[state].node;

		*map_at(&stacker->blocks, node << 32 | blocks[i], NULL) += step->count;
		place = place_after(stacker, state, blocks[i]);
	}
}

static void steps_expand(struct stacker *stacker)
{
	for (size_t i = 0; i < stacker->steps.count; i++)
		step_expand(stacker, &stacker->steps.items[i]);
	stacker->steps.count = 0;
	map_clear(&stacker->step_of);
}

/* Forgets all states but those of the present stack, which get new numbers. */
static void states_forget(struct stacker *stacker)
{
	ARRAY(uint32_t) calls = {};
	uint32_t state = 0, arrival = stacker->place & PLACE_ARRIVAL;

	for (uint32_t at = stacker->place >> PLACE_SHIFT; at; at = stacker->states.items[at].parent)
		*array_push(&calls) = stacker->states.items[at].block;
	map_clear(&stacker->state_of);
	stacker->states.count = 1;
	while (calls.count)
		state = state_push(stacker, state, calls.items[--calls.count]);
	stacker->place = state << PLACE_SHIFT | arrival;
	array_deinit(&calls);
}

static struct step *step_get(struct stacker *stacker, uint32_t path)
{
	uint64_t key = (uint64_t)stacker->place << 32 | path;
	const uint64_t *known = map_find(&stacker->step_of, key);
	struct step step = { .place = stacker->place, .path = path };

	if (known)
		return &stacker->steps.items[*known];
	step.next = path_follow(stacker, step.place, path);
	*map_at(&stacker->step_of, key, NULL) = stacker->steps.count;
	*array_push(&stacker->steps) = step;
	return &stacker->steps.items[stacker->steps.count - 1];
}

static int repeat_take(struct stacker *stacker, const struct sequence_repeat *repeat)
{
	if (repeat->path > UINT32_MAX)
		return err_set(-EBADMSG, "a path has a number that is too large: the profile is "
					 "damaged");
	for (uint64_t left = repeat->trips; left;) {
		struct step *step = step_get(stacker, (uint32_t)repeat->path);
		uint64_t trips = step->next == step->place ? left : 1;

		step->count += trips;
		left -= trips;
		stacker->place = step->next;
		if (stacker->steps.count >= STEPS_MAX || stacker->states.count >= STATES_MAX) {
			steps_expand(stacker);
			states_forget(stacker);
		}
	}
	return 0;
}

static int row_take(void *context, const struct profile_flow *row,
		    const struct sequence_position *begin, const struct sequence_repeats *repeats)
{
	int err = 0;

	array_each(&repeats->items, item)
		err = err ? err : repeat_take(context, item);
	return err;
}

/* --- Samples ---------------------------------------------------------------------------------- */

static void part_add(struct stacker *stacker, struct map *weights, uint32_t node, uint32_t location,
		     uint64_t weight)
{
	uint32_t leaf = node_child(stacker, node, location);

	*map_at(weights, leaf, NULL) += weight;
}

static void block_add(struct stacker *stacker, struct map *weights, uint32_t node, uint32_t block,
		      uint64_t count)
{
	const struct profile_block *row = &stacker->profile->blocks[block];
	const struct profile_block_part *parts = stacker->profile->block_parts + row->first_part;

	if (stacker->by_blocks || !row->part_count) {
		part_add(stacker, weights, node, row->location,
			 stacker->by_blocks ? count : count * row->instructions);
		return;
	}
	for (uint32_t i = 0; i < row->part_count; i++)
		part_add(stacker, weights, node, parts[i].location, count * parts[i].instructions);
}

static int block_key_order(const void *left, const void *right)
{
	const struct map_slot *a = left, *b = right;

	return (a->key > b->key) - (a->key < b->key);
}

/* Blocks in the order of their keys, so that nodes have the same numbers each time. */
static struct map_slot *slots_sorted(const struct map *map)
{
	struct map_slot *slots = mem_alloc((map->count + 1) * sizeof(*slots));
	size_t count = 0;

	map_each(map, slot)
		slots[count++] = *slot;
	qsort(slots, count, sizeof(*slots), block_key_order);
	return slots;
}

/* By block: what a thread executed of it that the order lacks. Rows are by block, then thread. */
static uint64_t rest_of(const struct stacker *stacker, const struct profile_execution *row,
			const struct map *ordered)
{
	const uint64_t *known = map_find(ordered, row->block);

	return known && *known >= row->count ? 0 : row->count - (known ? *known : 0);
}

static bool is_again(const struct stacker *stacker, size_t i)
{
	const struct profile_execution *row = &stacker->profile->executions[i];

	return stacker->by_blocks && i && row[-1].block == row->block;
}

/* By thread: its executions, as indices behind each other. */
struct thread_rows {
	size_t *first; /* by thread, and one more */
	size_t *rows;
};

static void thread_rows_init(struct thread_rows *by, const struct profile *profile)
{
	size_t *at;

	by->first = mem_zalloc((profile->thread_count + 2) * sizeof(*by->first));
	by->rows = mem_zalloc((profile->execution_count + 1) * sizeof(*by->rows));
	at = mem_zalloc((profile->thread_count + 2) * sizeof(*at));
	for (size_t i = 0; i < profile->execution_count; i++)
		by->first[profile->executions[i].thread + 1]++;
	for (size_t i = 0; i <= profile->thread_count; i++)
		at[i + 1] = by->first[i + 1] += by->first[i];
	at[0] = 0;
	for (size_t i = 0; i < profile->execution_count; i++)
		by->rows[at[profile->executions[i].thread]++] = i;
	free(at);
}

static void thread_rows_deinit(struct thread_rows *by)
{
	free(by->first);
	free(by->rows);
}

static void thread_samples_add(struct stacker *stacker, uint32_t thread,
			       const struct thread_rows *by)
{
	struct map weights = {}, ordered = {};
	AUTO(free_ptr) struct map_slot *slots = slots_sorted(&stacker->blocks);
	struct map_slot *leaves;

	for (size_t i = 0; i < stacker->blocks.count; i++) {
		uint32_t block = (uint32_t)slots[i].key;

		block_add(stacker, &weights, (uint32_t)(slots[i].key >> 32), block, slots[i].value);
		*map_at(&ordered, block, NULL) += slots[i].value;
	}
	for (size_t i = by->first[thread]; i < by->first[thread + 1]; i++) {
		const struct profile_execution *row = &stacker->profile->executions[by->rows[i]];
		uint64_t rest = is_again(stacker, by->rows[i]) ? 0
							       : rest_of(stacker, row, &ordered);

		if (rest)
			block_add(stacker, &weights, 0, row->block, rest);
	}
	leaves = slots_sorted(&weights);
	for (size_t i = 0; i < weights.count; i++)
		*array_push(&stacker->samples) = (struct profile_sample){
			.stack = (uint32_t)leaves[i].key, .thread = thread, .count = leaves[i].value
		};
	free(leaves);
	map_clear(&stacker->blocks);
	map_deinit(&weights);
	map_deinit(&ordered);
}

/* --- Threads ---------------------------------------------------------------------------------- */

static int thread_follow(struct stacker *stacker, uint32_t thread)
{
	int err;

	stacker->place = 0;
	states_forget(stacker);
	err = order_walk(stacker->order, thread, row_take, stacker);
	steps_expand(stacker);
	return err;
}

static int process_add(struct stacker *stacker, uint32_t process, const struct thread_rows *by)
{
	const struct profile *profile = stacker->profile;
	const struct profile_flow *rows;
	struct order_code code = {};
	int err = 0;

	for (uint32_t i = 1; i < profile->thread_count && !err; i++) {
		if (profile->threads[i].process != process)
			continue;
		if (order_rows(profile, i, &rows)) {
			if (!stacker->order)
				err = order_code_init(stacker->order = &code, profile, process);
			err = err ? err : thread_follow(stacker, i);
		}
		if (!err)
			thread_samples_add(stacker, i, by);
	}
	if (stacker->order)
		order_code_deinit(&code);
	stacker->order = NULL;
	return err;
}

static int sample_order(const void *left, const void *right)
{
	const struct profile_sample *a = left, *b = right;

	if (a->stack != b->stack)
		return a->stack < b->stack ? -1 : 1;
	return (a->thread > b->thread) - (a->thread < b->thread);
}

static void stacker_init(struct stacker *stacker, const struct profile *profile,
			 const struct code_source *code)
{
	*stacker = (struct stacker){ .profile = profile, .by_blocks = meta_only_marks(profile) };
	heats_init(&stacker->heats, profile, code);
	stacker->ends = mem_zalloc(profile->block_count + 1);
	*array_push(&stacker->states) = (struct state){};
	*array_push(&stacker->nodes) = (struct profile_stack){};
}

static void stacker_deinit(struct stacker *stacker)
{
	heats_deinit(&stacker->heats);
	free(stacker->ends);
	array_deinit(&stacker->states);
	array_deinit(&stacker->steps);
	map_deinit(&stacker->state_of);
	map_deinit(&stacker->step_of);
	map_deinit(&stacker->node_of);
	map_deinit(&stacker->blocks);
}

static void totals_take(struct profile *part, const struct profile *profile)
{
	AUTO(table_destroy_auto) struct table *table = table_create("totals", NULL, 0);
	struct profile_named_count *losses;

	executed_totals_set(table, profile, NULL);
	part->seen = table->totals.seen;
	part->kept = table->totals.kept;
	part->loss_count = 0;
	losses = mem_zalloc((table->totals.loss_count + 1) * sizeof(*losses));
	for (size_t i = 0; i < table->totals.loss_count; i++)
		if (table->totals.losses[i].count)
			losses[part->loss_count++] = table->totals.losses[i];
	part->losses = losses;
}

int executed_stacks_init(struct profile *part, const struct profile *profile,
			 const struct code_source *code)
{
	struct thread_rows by;
	struct stacker stacker;
	int err = profile->flow_count ? order_check(profile) : 0;

	stacker_init(&stacker, profile, code);
	thread_rows_init(&by, profile);
	for (uint32_t i = 1; i < profile->process_count && !err; i++)
		err = process_add(&stacker, i, &by);
	if (stacker.samples.count)
		qsort(stacker.samples.items, stacker.samples.count, sizeof(*stacker.samples.items),
		      sample_order);
	*part = *profile;
	part->stacks = stacker.nodes.items;
	part->stack_count = stacker.nodes.count;
	part->samples = stacker.samples.items;
	part->sample_count = stacker.samples.count;
	totals_take(part, profile);
	thread_rows_deinit(&by);
	stacker_deinit(&stacker);
	return err;
}

void executed_stacks_deinit(struct profile *part)
{
	free(part->stacks);
	free(part->samples);
	free((void *)part->losses);
}

static void losses_own(struct table *table, struct totals *totals)
{
	struct profile_named_count *losses =
		table_alloc(table, (totals->loss_count + 1) * sizeof(*losses));

	for (size_t i = 0; i < totals->loss_count; i++)
		losses[i] = totals->losses[i];
	totals->losses = losses;
	totals->event = NULL;
	totals->period = 0;
}

void executed_totals_own(struct table *table)
{
	losses_own(table, &table->totals);
	losses_own(table, &table->baseline);
}
