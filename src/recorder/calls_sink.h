/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sink of trees of calls: a thread's tree in, rows of call_node and call_amount out. Sources
 * hand over a tree once, when the thread has ended or the recording has.
 */
#pragma once

#include "calls/snapshot.h"
#include "recorder/recorder.h"

struct calls_sink;

/* A thread's tree, with the process and the thread that it belongs to. */
struct calls_thread {
	struct loadmap_process *process;
	struct thread_id thread;
	uint64_t time; /* CLOCK_MONOTONIC: when routines lay where the load map says */
	const struct call_snapshot *snapshot;
	/*
	 * Metric 0 of the tree is time in ticks of so many ns. It may be below 0 where less was
	 * used than the measurement was taken to cost.
	 */
	double tick;
	/* What the metrics are, enum call_metric; NULL: there is one at most, and it is time */
	const uint8_t *kinds;
	/* Routines below CALL_JAVA_END are addresses of this one; 0: of a thread without Java. */
	struct module_id java;
	bool untimed; /* calls were only counted, whatever metrics the tree has room for */
};

/* Fills it in from a result; the caller adds process, thread and Java's module. */
struct calls_thread calls_thread_of(const struct call_result *result);

/* Columns: name, JSON name, text. Why a call is not in the profile. */
#define CALL_LOSSES(X)                                                                             \
	X(TOO_DEEP, "too_deep", "below the limit of depth")                                        \
	X(INTERRUPTED, "interrupted", "in handlers that interrupted a hook")                       \
	X(NO_THREAD, "no_thread", "threads beyond the limit, each counted once")

enum call_loss {
#define X(name, json, text) CALL_LOSS_##name,
	CALL_LOSSES(X)
#undef X
		CALL_LOSS_COUNT
};

struct calls_totals {
	uint64_t threads;
	uint64_t calls; /* in the profile */
	uint64_t pruned; /* paths that were folded */
	uint64_t repairs[CALL_REPAIR_COUNT];
	uint64_t lost[CALL_LOSS_COUNT];
};

/* The recorder must outlive it, and destroys it as its sink. */
void calls_sink_create(struct recorder *recorder, struct calls_sink **ret);
struct sink calls_sink(struct calls_sink *calls);

int calls_sink_thread(struct calls_sink *calls, const struct calls_thread *thread);
/* The same, but tasks that the thread worked on become threads of their own, with the same tid. */
int calls_sink_tasks(struct calls_sink *calls, const struct calls_thread *thread, uint32_t tid,
		     const struct call_task_names *names);
/* What the source lost so far: sets, not adds. Losses that trees tell are counted by themselves. */
void calls_sink_lost(struct calls_sink *calls, enum call_loss loss, uint64_t count);
const struct calls_totals *calls_sink_totals(const struct calls_sink *calls);
