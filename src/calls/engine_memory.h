/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes a snapshot of the tree of calls that the engine keeps for a thread (wire/calltree.h). */
#pragma once

#include "calls/snapshot.h"
#include "wire/calltree.h"

/*
 * Copies the tree, of a thread that has ended or that runs. shared: CALLTREE_WORDS words, which the
 * program may change at any time. -ENOENT: there is none yet. -EINVAL, -EAGAIN: as
 * call_snapshot_take().
 */
int call_engine_take(const void *shared, struct call_snapshot *ret,
		     struct calltree_memory *ret_memory);
/* The tasks that the thread has worked on; names->items is the caller's to free. */
void call_engine_tasks(const void *shared, struct call_task_names *names);
/* What the metrics of these trees are, enum call_metric. */
extern const uint8_t call_engine_kinds[CALLTREE_METRICS_MAX];
