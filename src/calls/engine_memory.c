// SPDX-License-Identifier: BSD-2-Clause
#include "calls/engine_memory.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"

const uint8_t call_engine_kinds[CALLTREE_METRICS_MAX] = { CALL_METRIC_TIME, CALL_METRIC_OBJECTS,
							  CALL_METRIC_BYTES,
#define X(name) CALL_METRIC_##name,
							  CALLTREE_RESOURCE_METRICS(X)
#undef X
};

static bool is_possible(const struct call_tree_head *head)
{
	return head->metrics == CALLTREE_METRICS || head->metrics == CALLTREE_METRICS_ALLOCATIONS ||
	       head->metrics == CALLTREE_METRICS_MAX;
}

/* What engines left in `base` is only what is to be taken off. */
static void bases_make(struct call_snapshot *snapshot, uint64_t overhead)
{
	for (uint32_t i = 0; i < snapshot->reached; i++) {
		struct call_node *node = call_snapshot_node(snapshot, snapshot->order[i]);

		node->amounts[0].base += node->amounts[0].elapsed;
	}
	call_snapshot_settle(snapshot, call_snapshot_overhead(snapshot, overhead));
}

int call_engine_take(const void *shared, struct call_snapshot *ret,
		     struct calltree_memory *ret_memory)
{
	const struct calltree_memory *there = shared;
	struct calltree_memory memory;
	struct call_snapshot snapshot;
	int err;

	if (!__atomic_load_n(&there->ready, __ATOMIC_ACQUIRE))
		return err_set(-ENOENT, "a thread has no tree of calls yet");
	memcpy(&memory, shared, sizeof(memory));
	if (!is_possible(&memory.head))
		return err_set(-EINVAL, "a tree of calls with metrics that the engine has not");
	err = call_snapshot_take(&snapshot, &there->head, (const char *)shared + CALLTREE_NODES,
				 CALLTREE_CAPACITY);
	if (err)
		return err;
	if (!is_possible(&snapshot.head)) {
		call_snapshot_deinit(&snapshot);
		return err_set(-EINVAL, "a tree of calls with metrics that change");
	}
	bases_make(&snapshot, memory.overhead);
	*ret = snapshot;
	*ret_memory = memory;
	return 0;
}

void call_engine_tasks(const void *shared, struct call_task_names *names)
{
	const struct call_tasks *tasks = (const void *)((const char *)shared + CALLTREE_TASKS);

	call_task_names_copy(tasks, __atomic_load_n(&tasks->count, __ATOMIC_ACQUIRE), names);
}
