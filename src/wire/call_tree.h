/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A tree of call paths as it lies in memory, private or shared with the host: a head, and nodes
 * that name each other by number. Node 0 is the thread itself; every other node is a routine
 * reached by one path of calls from there. The thread that runs is the only one that writes.
 *
 * A reader of a living tree copies the nodes while `change` is even and has the same value before
 * and after. Nodes are filled in before they are linked, so a copy holds whole nodes only. Amounts
 * in a node are its own: cumulative and elapsed amounts are sums over the nodes below, made by who
 * reads.
 */
#pragma once

#include <stdint.h>

enum {
	CALL_ROOT = 0,
	CALL_METRICS_MAX = 16,
	CALL_PERMILLE = 1000,
	CALL_THREAD_NAME = 64, /* bytes, of a thread or task */
};

#define CALL_NONE UINT32_MAX
/*
 * Numbers that stand for no routine: the thread's own node, and the sum of the nodes that were
 * pruned below a node.
 */
#define CALL_ROUTINE_THREAD UINT64_MAX
#define CALL_ROUTINE_PRUNED (UINT64_MAX - 1)

/*
 * Tasks (include/assay/client.h) are nodes too, while a thread works on them: routine n from here
 * on is the thread's task n. No program has code there.
 */
#define CALL_ROUTINE_TASKS UINT64_C(0xffff800000000000)

enum {
	CALL_TASKS_MAX = 1 << 14, /* of a thread; further ones are part of who begins them */
	CALL_CLIENT_BEGIN = 0x59534101, /* displacements in client.h */
	CALL_CLIENT_END = 0x59534102,
};

/* The thread is the only one that writes. */
struct call_tasks {
	uint32_t count; /* names are filled in before they are counted */
	uint32_t refused;
	char names[CALL_TASKS_MAX][CALL_THREAD_NAME];
};

static inline int call_is_task(uint64_t routine)
{
	return routine - CALL_ROUTINE_TASKS < CALL_TASKS_MAX;
}

enum call_node_flags {
	CALL_NODE_FREE = 1, /* in the list of free nodes, by `sibling` */
	CALL_NODE_PRUNED = 2, /* holds what was pruned below its parent */
	CALL_NODE_ACTIVE = 4, /* on the stack; valid during a sweep only */
};

/* name, JSON name, what a person reads: what was done about calls that do not match. */
// clang-format off
#define CALL_REPAIRS(X)                                                                            \
	X(ABANDONED, "abandoned", "frames that were left without an exit (longjmp, exceptions)")   \
	X(REPLACED, "replaced", "frames in whose place another one appeared (tail calls)")         \
	X(NO_ENTRY, "no_entry", "exits without an entry")                                          \
	X(SWITCHED, "switched", "calls on another stack than before (coroutines)")                 \
	X(TOO_DEEP, "too_deep", "entries below the limit of depth, charged to the node above")     \
	X(WENT_BACK, "went_back", "values of a metric below an earlier value, taken as no change")

/* name, JSON name, unit. */
#define CALL_METRICS(X)                                                                            \
	X(TIME, "time", "ns")                                                                      \
	X(CYCLES, "cycles", "ticks of the time stamp counter")                                     \
	X(INSTRUCTIONS, "instructions", "")                                                        \
	X(OBJECTS, "objects", "")                                                                  \
	X(BYTES, "bytes", "bytes allocated")                                                       \
	X(READ, "read", "bytes")                                                                   \
	X(WRITTEN, "written", "bytes")                                                             \
	X(FAULTS, "faults", "page faults")                                                         \
	X(SWITCHES, "switches", "context switches")                                                \
	X(BYTECODES, "bytecodes", "")                                                              \
	X(OTHER, "other", "")                                                                      \
	X(SYSTEM_CALLS, "system_calls", "")                                                        \
	X(RECEIVED, "received", "bytes")                                                           \
	X(SENT, "sent", "bytes")                                                                   \
	X(FAULTS_MINOR, "faults_minor", "page faults")                                             \
	X(FAULTS_MAJOR, "faults_major", "page faults")                                             \
	X(VOLUNTARY, "voluntary", "context switches")                                              \
	X(INVOLUNTARY, "involuntary", "context switches")
// clang-format on

enum call_repair {
#define X(name, json, text) CALL_REPAIR_##name,
	CALL_REPAIRS(X)
#undef X
		CALL_REPAIR_COUNT
};

enum call_metric {
#define X(name, json, unit) CALL_METRIC_##name,
	CALL_METRICS(X)
#undef X
		CALL_METRIC_COUNT
};

/* One metric: what the thread itself used, and what all threads together used in the same time. */
struct call_amount {
	uint64_t base;
	uint64_t elapsed;
};

struct call_node {
	uint64_t routine; /* address or number of the routine */
	uint32_t parent; /* CALL_NONE: of the root, and while free */
	uint32_t child; /* the newest; CALL_NONE if there is none */
	uint32_t sibling; /* the next older child of the same parent */
	uint32_t instance; /* the next node of the same routine; made by who reads */
	uint32_t last; /* the child entered last; a hint */
	/* how often the routine is on this path, this node included; stays at its maximum */
	uint16_t recursion;
	uint16_t flags;
	uint32_t level; /* 0 is the root */
	uint32_t reserved;
	uint64_t calls;
	uint64_t weight; /* cumulative amount of finished calls, in the unit of total */
	uint64_t samples; /* stack samples whose innermost frame is this node */
	struct call_amount amounts[];
};

struct call_tree_head {
	uint32_t change; /* odd while nodes are being removed */
	uint32_t metrics;
	uint32_t count; /* nodes that were ever used; numbers are below */
	uint32_t used; /* nodes that are not free */
	uint32_t limit; /* nodes in use above which pruning begins */
	uint32_t capacity; /* nodes that there is memory for */
	/* share of the parent's cumulative amount; nodes that are not above it may be pruned */
	uint32_t prune_permille;
	uint32_t free; /* first free node, or CALL_NONE */
	/* Charged so far: metric 0, or calls if there is no metric. The unit of weights. */
	uint64_t total;
	uint64_t pruned; /* nodes that were pruned so far */
	uint64_t sweeps;
	uint64_t repairs[CALL_REPAIR_COUNT];
	struct call_amount last[CALL_METRICS_MAX]; /* counters when they were last charged */
};

_Static_assert(sizeof(struct call_amount) == 16, "shared by worlds");
_Static_assert(sizeof(struct call_node) == 64, "shared by worlds");
_Static_assert(__builtin_offsetof(struct call_node, calls) == 40, "shared by worlds");
_Static_assert(sizeof(struct call_tree_head) == 56 + 48 + 256, "shared by worlds");

static inline uint32_t call_node_size(uint32_t metrics)
{
	return (uint32_t)(sizeof(struct call_node) + metrics * sizeof(struct call_amount));
}
