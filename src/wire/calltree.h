/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory that the tool calltree has for each thread, in the place of its counters
 * (wire/tools.h): a tree of calls (wire/call_tree.h), which the thread itself builds and the host
 * reads.
 *
 *	0			struct calltree_memory
 *	CALLTREE_NODES		the nodes of the tree
 *	CALLTREE_FRAMES		the calls that have not returned; the engine's own
 *	CALLTREE_PRIVATE	what else the engine needs
 *	CALLTREE_SITES		struct calltree_site: where calls led to the last time; the
 *				engine's own
 *	CALLTREE_TASKS		struct call_tasks
 *	CALLTREE_EVENTS		a ring of records (wire/call_events.h), if events are asked for:
 *				the thread appends, the host takes them out; while there is no room
 *				the thread waits, as long as there is a host
 *
 * Time. A node's first metric is time in ticks. Inline code adds the interval between two events to
 * `elapsed`. `base` holds only what has to be subtracted, as a negative number: the time off a
 * processor. So what the thread used itself is elapsed + base - overhead * intervals, where a node
 * has an interval for each of its calls and for each call that it made.
 *
 * What the kernel counts for the thread goes to `base` of further metrics, if that is asked for.
 */
#pragma once

#include "wire/call_tree.h"

/* What the kernel counts: the metric's name in CALL_METRICS. Those of getrusage() come last. */
#define CALLTREE_RESOURCE_METRICS(X)                                                               \
	X(SYSTEM_CALLS)                                                                            \
	X(READ)                                                                                    \
	X(WRITTEN)                                                                                 \
	X(RECEIVED)                                                                                \
	X(SENT)                                                                                    \
	X(FAULTS_MINOR)                                                                            \
	X(FAULTS_MAJOR)                                                                            \
	X(VOLUNTARY)                                                                               \
	X(INVOLUNTARY)

enum calltree_resource {
#define X(name) CALLTREE_##name,
	CALLTREE_RESOURCE_METRICS(X)
#undef X
		CALLTREE_RESOURCES,
	CALLTREE_USAGE = CALLTREE_FAULTS_MINOR, /* the first one of getrusage() */
	CALLTREE_USAGES = CALLTREE_RESOURCES - CALLTREE_USAGE,
};

enum {
	CALLTREE_LIMIT = 1 << 16, /* nodes, at most; pruning begins above */
	CALLTREE_CAPACITY = CALLTREE_LIMIT + CALLTREE_LIMIT / 4,
	CALLTREE_DEPTH = 1 << 13,
	CALLTREE_METRICS = 1, /* time */
	CALLTREE_METRICS_ALLOCATIONS = 3, /* objects and bytes, too */
	CALLTREE_METRICS_MAX = 3 + CALLTREE_RESOURCES, /* and what the kernel counts */
	CALLTREE_NODE = 64 + 16 * CALLTREE_METRICS_MAX, /* bytes, at most */
	CALLTREE_FRAME = 32, /* bytes */
	CALLTREE_NODES = 4096,
	CALLTREE_FRAMES = CALLTREE_NODES + CALLTREE_CAPACITY * CALLTREE_NODE,
	CALLTREE_PRIVATE = CALLTREE_FRAMES + (CALLTREE_DEPTH + 2) * CALLTREE_FRAME,
	CALLTREE_PRIVATE_BYTES = 1 << 17,
	CALLTREE_SITES = CALLTREE_PRIVATE + CALLTREE_PRIVATE_BYTES,
	CALLTREE_SITE_BITS = 12,
	CALLTREE_SITE = 16, /* bytes */
	CALLTREE_TASKS = CALLTREE_SITES + (CALLTREE_SITE << CALLTREE_SITE_BITS),
	CALLTREE_EVENTS = CALLTREE_TASKS + 8 + CALL_TASKS_MAX * CALL_THREAD_NAME,
	CALLTREE_EVENT_BYTES = 1 << 20,
	CALLTREE_WORDS = (CALLTREE_EVENTS + CALLTREE_EVENT_BYTES) / 8,
};

/* For some call sites: the node that a call from there entered last, and its number. */
struct calltree_site {
	uint64_t node; /* an address in the producer's memory; 0: none */
	uint64_t number;
};

struct calltree_memory {
	uint64_t top; /* the innermost call: an address in the producer's memory */
	uint64_t last; /* ticks at the last event */
	uint64_t overhead; /* ticks that the tool adds to each interval; measured at the start */
	uint64_t deep; /* calls below the limit of depth that have not returned */
	uint32_t timed; /* 0: calls were only counted, and there is no time */
	uint32_t ready; /* 1: there is a tree */
	char name[16]; /* of the thread, at its end; empty before that */
	uint64_t written, taken; /* bytes of events, since the beginning; the host takes them */
	uint64_t dropped; /* events that were not written: there was no host any more */
	/* with events: what nodes were charged so far, as counters; of time only */
	struct call_amount now[CALLTREE_METRICS_MAX];
	/* usage that the engine itself caused, which is charged to no routine */
	uint64_t own[CALLTREE_USAGES];
	struct call_tree_head head;
};

_Static_assert(sizeof(struct call_node) + 16 * CALLTREE_METRICS_MAX == CALLTREE_NODE, "wire");
_Static_assert(__builtin_offsetof(struct calltree_memory, last) == 8, "known to inline code");
_Static_assert(sizeof(struct calltree_memory) <= CALLTREE_NODES, "wire");
_Static_assert(sizeof(struct calltree_site) == CALLTREE_SITE, "wire");
_Static_assert(CALLTREE_TASKS + sizeof(struct call_tasks) == CALLTREE_EVENTS, "wire");
_Static_assert(CALLTREE_NODES % 16 == 0 && CALLTREE_FRAMES % 16 == 0, "wire");
