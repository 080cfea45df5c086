// SPDX-License-Identifier: BSD-2-Clause
#include "calls/snapshot.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

enum { COPY_TRIES = 100 };

/*
 * Copies while nothing is removed. Amounts may go on meanwhile: each is whole, and sums are made
 * here.
 */
static int copy(struct call_snapshot *snapshot, const struct call_tree_head *head,
		const void *nodes, uint32_t room)
{
	for (int i = 0; i < COPY_TRIES; i++) {
		uint32_t change = __atomic_load_n(&head->change, __ATOMIC_ACQUIRE);
		size_t size;

		snapshot->head = *head;
		snapshot->head.count = __atomic_load_n(&head->count, __ATOMIC_ACQUIRE);
		if (snapshot->head.metrics > CALL_METRICS_MAX || !snapshot->head.count ||
		    snapshot->head.count > room)
			return err_set(-EINVAL, "a tree of calls with a head that makes no sense");
		size = (size_t)snapshot->head.count * call_node_size(snapshot->head.metrics);
		snapshot->nodes = mem_realloc(snapshot->nodes, 1, size);
		memcpy(snapshot->nodes, nodes, size);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (!(change & 1) && __atomic_load_n(&head->change, __ATOMIC_RELAXED) == change)
			return 0;
	}
	return err_set(-EAGAIN, "a tree of calls changes too fast to be copied");
}

/* Children were linked newest first; a node linked after the copy began has no number here yet. */
static void reverse_children(const struct call_snapshot *snapshot, struct call_node *node)
{
	uint32_t reversed = CALL_NONE;
	uint32_t at = node->child;
	uint32_t steps = 0;

	while (at < snapshot->head.count && steps++ < snapshot->head.count) {
		struct call_node *child = call_snapshot_node(snapshot, at);
		uint32_t next = child->sibling;

		child->sibling = reversed;
		reversed = at;
		at = next;
	}
	node->child = reversed;
}

/* Parents before children. Each node is reached once at most, and from the parent it names. */
static int make_order(struct call_snapshot *snapshot)
{
	uint32_t at = CALL_ROOT;

	snapshot->order = mem_alloc(snapshot->head.count * sizeof(*snapshot->order));
	for (;;) {
		struct call_node *node = call_snapshot_node(snapshot, at);

		if (snapshot->reached == snapshot->head.count)
			return err_set(-EINVAL, "a tree of calls whose nodes form a circle");
		snapshot->order[snapshot->reached++] = at;
		reverse_children(snapshot, node);
		if (node->child != CALL_NONE) {
			if (call_snapshot_node(snapshot, node->child)->parent != at)
				return err_set(-EINVAL, "a tree of calls with a stray node");
			at = node->child;
			continue;
		}
		while (at != CALL_ROOT && call_snapshot_node(snapshot, at)->sibling == CALL_NONE)
			at = call_snapshot_node(snapshot, at)->parent;
		if (at == CALL_ROOT)
			return 0;
		node = call_snapshot_node(snapshot, at);
		if (call_snapshot_node(snapshot, node->sibling)->parent != node->parent)
			return err_set(-EINVAL, "a tree of calls with a stray node");
		at = node->sibling;
	}
}

static void add_up(struct call_snapshot *snapshot)
{
	uint32_t metrics = snapshot->head.metrics;

	free(snapshot->sums);
	free(snapshot->samples);
	snapshot->sums =
		mem_zalloc(((size_t)snapshot->head.count * metrics + 1) * sizeof(*snapshot->sums));
	snapshot->samples = mem_zalloc(snapshot->head.count * sizeof(*snapshot->samples));
	for (uint32_t i = snapshot->reached; i-- > 0;) {
		uint32_t number = snapshot->order[i];
		const struct call_node *node = call_snapshot_node(snapshot, number);
		struct call_amount *sum = &snapshot->sums[(size_t)number * metrics];

		snapshot->samples[number] += node->samples;
		if (number != CALL_ROOT)
			snapshot->samples[node->parent] += snapshot->samples[number];
		for (uint32_t m = 0; m < metrics; m++) {
			sum[m].base += node->amounts[m].base;
			sum[m].elapsed += node->amounts[m].elapsed;
			if (number == CALL_ROOT)
				continue;
			snapshot->sums[(size_t)node->parent * metrics + m].base += sum[m].base;
			snapshot->sums[(size_t)node->parent * metrics + m].elapsed +=
				sum[m].elapsed;
		}
	}
}

/* From the end, so that each routine's chain begins with its first node in the order. */
static void link_instances(struct call_snapshot *snapshot)
{
	for (uint32_t i = snapshot->reached; i-- > 0;) {
		uint32_t number = snapshot->order[i];
		struct call_node *node = call_snapshot_node(snapshot, number);
		bool is_new;
		uint64_t *first = map_at(&snapshot->routines, node->routine, &is_new);

		node->instance = is_new ? CALL_NONE : (uint32_t)*first;
		*first = number;
	}
}

/* How often each routine is on the path to a node, as it follows from the links. */
static void set_recursion(struct call_snapshot *snapshot)
{
	ARRAY(uint64_t) path = {};
	struct map depths = {};

	for (uint32_t i = 0; i < snapshot->reached; i++) {
		struct call_node *node = call_snapshot_node(snapshot, snapshot->order[i]);
		uint64_t depth;

		while (path.count > node->level)
			--*map_find(&depths, path.items[--path.count]);
		*array_push(&path) = node->routine;
		depth = ++*map_at(&depths, node->routine, NULL);
		node->recursion = (uint16_t)(depth < UINT16_MAX ? depth : UINT16_MAX);
	}
	array_deinit(&path);
	map_deinit(&depths);
}

/* Levels as they follow from the links, and the end of what lies below each node. */
static void set_levels(struct call_snapshot *snapshot)
{
	snapshot->after = mem_alloc(snapshot->reached * sizeof(*snapshot->after));
	for (uint32_t i = 0; i < snapshot->reached; i++) {
		struct call_node *node = call_snapshot_node(snapshot, snapshot->order[i]);

		node->level = i ? call_snapshot_node(snapshot, node->parent)->level + 1 : 0;
	}
	for (uint32_t i = snapshot->reached; i-- > 0;) {
		uint32_t level = call_snapshot_node(snapshot, snapshot->order[i])->level;
		uint32_t next = i + 1;

		while (next < snapshot->reached &&
		       call_snapshot_node(snapshot, snapshot->order[next])->level > level)
			next = snapshot->after[next];
		snapshot->after[i] = next;
	}
}

int call_snapshot_take(struct call_snapshot *snapshot, const struct call_tree_head *head,
		       const void *nodes, uint32_t room)
{
	int err;

	*snapshot = (struct call_snapshot){};
	err = copy(snapshot, head, nodes, room);
	if (!err)
		err = make_order(snapshot);
	if (err) {
		call_snapshot_deinit(snapshot);
		return err;
	}
	set_levels(snapshot);
	set_recursion(snapshot);
	add_up(snapshot);
	link_instances(snapshot);
	return 0;
}

/* One for each call of the node, and one for each call that came back to it. */
static uint64_t node_intervals(const struct call_snapshot *snapshot, const struct call_node *node)
{
	uint64_t intervals = node->calls;

	for (uint32_t at = node->child; at != CALL_NONE;
	     at = call_snapshot_node(snapshot, at)->sibling)
		intervals += call_snapshot_node(snapshot, at)->calls;
	return intervals;
}

/* Intervals of a node, or of all nodes of a routine, and what they took. */
struct intervals {
	uint64_t count;
	int64_t base;
};

static void intervals_add(struct intervals *intervals, const struct call_snapshot *snapshot,
			  const struct call_node *node)
{
	intervals->count += node_intervals(snapshot, node);
	intervals->base += (int64_t)node->amounts[0].base;
}

/* The least of `overhead` and the mean of many intervals. */
static uint64_t intervals_bound(const struct intervals *intervals, uint64_t overhead)
{
	enum { MANY = 1000 };
	uint64_t mean;

	if (intervals->count < MANY || intervals->base < 0)
		return overhead;
	mean = (uint64_t)intervals->base / intervals->count;
	return mean < overhead ? mean : overhead;
}

uint64_t call_snapshot_overhead(const struct call_snapshot *snapshot, uint64_t overhead)
{
	for (uint32_t i = 0; i < snapshot->reached && snapshot->head.metrics; i++) {
		const struct call_node *node = call_snapshot_node(snapshot, snapshot->order[i]);
		uint64_t *first = map_find(&snapshot->routines, node->routine);
		struct intervals one = {}, all = {};

		intervals_add(&one, snapshot, node);
		overhead = intervals_bound(&one, overhead);
		if (!first || *first != snapshot->order[i])
			continue;
		for (uint32_t at = snapshot->order[i]; at != CALL_NONE;
		     at = call_snapshot_node(snapshot, at)->instance)
			intervals_add(&all, snapshot, call_snapshot_node(snapshot, at));
		overhead = intervals_bound(&all, overhead);
	}
	return overhead;
}

void call_snapshot_settle(struct call_snapshot *snapshot, uint64_t overhead)
{
	for (uint32_t i = 0; i < snapshot->reached && snapshot->head.metrics && overhead; i++) {
		struct call_node *node = call_snapshot_node(snapshot, snapshot->order[i]);

		node->amounts[0].base -= overhead * node_intervals(snapshot, node);
	}
	add_up(snapshot);
}

/* A tree that is made of another one. */
struct folding {
	const struct call_snapshot *from;
	struct call_tree_head head;
	char *nodes;
	uint32_t *at; /* by node of the old tree: in the new one */
};

static struct call_node *folding_node(const struct folding *folding, uint32_t number)
{
	return (struct call_node *)(folding->nodes +
				    (uint64_t)number * call_node_size(folding->head.metrics));
}

static uint32_t folding_child(struct folding *folding, uint32_t parent,
			      const struct call_node *like)
{
	struct call_node *above = folding_node(folding, parent);
	uint32_t number = folding->head.count;
	struct call_node *node;

	for (uint32_t at = above->child; at != CALL_NONE; at = node->sibling) {
		node = folding_node(folding, at);
		if (node->routine == like->routine)
			return at;
	}
	node = folding_node(folding, number);
	*node = (struct call_node){ .routine = like->routine,
				    .flags = like->flags,
				    .parent = parent,
				    .child = CALL_NONE,
				    .sibling = above->child };
	above->child = number;
	folding->head.count++;
	return number;
}

static void folding_add(struct folding *folding, uint32_t number, const struct call_node *node,
			bool called)
{
	struct call_node *sum = folding_node(folding, number);

	sum->calls += called ? node->calls : 0;
	sum->samples += node->samples;
	for (uint32_t i = 0; i < folding->head.metrics; i++) {
		sum->amounts[i].base += node->amounts[i].base;
		sum->amounts[i].elapsed += node->amounts[i].elapsed;
	}
}

static void folding_init(struct folding *folding, const struct call_snapshot *snapshot)
{
	*folding = (struct folding){ .from = snapshot, .head = snapshot->head };
	folding->nodes =
		mem_zalloc((size_t)snapshot->reached * call_node_size(folding->head.metrics));
	folding->at = mem_zalloc(snapshot->head.count * sizeof(*folding->at));
	*folding_node(folding, CALL_ROOT) = (struct call_node){ .routine = CALL_ROUTINE_THREAD,
								.parent = CALL_NONE,
								.child = CALL_NONE,
								.sibling = CALL_NONE };
	folding->head.count = 1;
}

static int folding_end(struct folding *folding, struct call_snapshot *ret)
{
	int err;

	folding->head.used = folding->head.count;
	err = call_snapshot_take(ret, &folding->head, folding->nodes, folding->head.count);
	free(folding->nodes);
	free(folding->at);
	return err;
}

bool call_snapshot_has_tasks(const struct call_snapshot *snapshot)
{
	for (uint32_t i = 0; i < snapshot->reached; i++)
		if (call_is_task(call_snapshot_node(snapshot, snapshot->order[i])->routine))
			return true;
	return false;
}

int call_snapshot_part(const struct call_snapshot *snapshot, uint32_t at, struct call_snapshot *ret)
{
	uint32_t end = snapshot->after[at];
	struct folding folding;

	folding_init(&folding, snapshot);
	for (uint32_t i = at; i < end;) {
		uint32_t number = snapshot->order[i];
		const struct call_node *node = call_snapshot_node(snapshot, number);

		if (i > at && call_is_task(node->routine)) {
			i = snapshot->after[i];
			continue;
		}
		if (i > at)
			folding.at[number] =
				folding_child(&folding, folding.at[node->parent], node);
		folding_add(&folding, folding.at[number], node, true);
		i++;
	}
	return folding_end(&folding, ret);
}

void call_task_names_copy(const struct call_tasks *tasks, uint32_t count,
			  struct call_task_names *ret)
{
	ret->count = count < CALL_TASKS_MAX ? count : CALL_TASKS_MAX;
	ret->items = mem_alloc((ret->count + 1) * sizeof(*ret->items));
	memcpy(ret->items, tasks->names, ret->count * sizeof(*ret->items));
	for (uint32_t i = 0; i < ret->count; i++)
		ret->items[i][CALL_THREAD_NAME - 1] = 0;
}

const char *call_task_name(const struct call_task_names *names, uint64_t routine)
{
	uint64_t number = routine - CALL_ROUTINE_TASKS;

	return number < names->count ? names->items[number] : "[task]";
}

int call_snapshot_fold(struct call_snapshot *snapshot, bool (*wanted)(void *ctx, uint64_t routine),
		       void *ctx)
{
	struct folding folding;
	struct call_snapshot made;
	int err;

	folding_init(&folding, snapshot);
	for (uint32_t i = 0; i < snapshot->reached; i++) {
		uint32_t number = snapshot->order[i];
		const struct call_node *node = call_snapshot_node(snapshot, number);
		bool own = node->routine >= CALL_ROUTINE_TASKS || wanted(ctx, node->routine);

		if (number != CALL_ROOT) {
			folding.at[number] = folding.at[node->parent];
			if (own)
				folding.at[number] =
					folding_child(&folding, folding.at[number], node);
		}
		folding_add(&folding, folding.at[number], node, own);
	}
	err = folding_end(&folding, &made);
	if (err)
		return err;
	call_snapshot_deinit(snapshot);
	*snapshot = made;
	return 0;
}

void call_snapshot_deinit(struct call_snapshot *snapshot)
{
	free(snapshot->nodes);
	free(snapshot->order);
	free(snapshot->sums);
	free(snapshot->samples);
	free(snapshot->after);
	map_deinit(&snapshot->routines);
	*snapshot = (struct call_snapshot){};
}

void call_result_deinit(struct call_result *result)
{
	call_snapshot_deinit(&result->snapshot);
	free(result->tasks.items);
	result->tasks = (struct call_task_names){};
}

void call_results_deinit(struct call_results *results)
{
	array_each(results, result)
		call_result_deinit(result);
	array_deinit(results);
}
