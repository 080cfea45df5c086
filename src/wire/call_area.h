/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared memory between the host and the hooks (src/hooks) in programs that were compiled with
 * calls of hooks at entries and exits. The host creates it; programs find it by the path in
 * CALL_AREA_VARIABLE.
 *
 *	0			struct call_area
 *	CALL_AREA_SLOTS		slots, slot_bytes each: struct call_slot, a page; then the nodes of
 *				its tree
 *
 * A thread takes a slot (FREE -> TAKEN by compare-and-swap), fills it in, and makes it LIVE. At its
 * end it makes it ENDED; the host then takes the tree and makes the slot FREE. A thread that finds
 * no slot waits if one has ENDED; otherwise it is counted in `refused` and not recorded.
 *
 * Events. If `event_bytes` is not 0, the last so many bytes of a slot, a power of two, are a ring
 * to which the thread also writes its events as records (wire/call_events.h). The host takes them
 * out; while there is no room, the thread waits.
 */
#pragma once

#include "wire/call_tree.h"

#define CALL_AREA_VARIABLE "ASSAY_CALLS"
/* The agent's path, where Java virtual machines are to load it. */
#define CALL_JAVA_VARIABLE "ASSAY_JAVA"

enum {
	CALL_AREA_MAGIC = 0x41534341,
	CALL_AREA_VERSION = 4,
	CALL_MODULES_MAX = 1024,
	CALL_AREA_SLOTS = 1 << 20,
	CALL_SLOT_NODES = 4096, /* where the nodes begin in a slot */
};

/* What a slot's times are in. */
enum call_clock { CALL_CLOCK_TICKS, CALL_CLOCK_NS };

/* The metrics of a Java thread's tree, whether time is taken or not. */
enum call_java_metric { CALL_JAVA_TIME, CALL_JAVA_BYTES, CALL_JAVA_METRICS };

/*
 * Routines of Java have numbers, which are the same in all processes. The names are lines of a perf
 * map ("START SIZE name", hexadecimal), which processes append to the file at `names`.
 */
enum { CALL_JAVA_GC = 1, CALL_JAVA_FIRST = 2, CALL_JAVA_END = 1 << 30 };

/* What became of classes and methods: name, JSON name, what a person reads. */
// clang-format off
#define CALL_JAVA_COUNTS(X)                                                                        \
	X(MACHINES, "machines", "Java virtual machines")                                           \
	X(UNKNOWN, "machines_unknown", "Java virtual machines of an unknown kind, not recorded")   \
	X(LOADED, "classes_loaded", "classes whose methods are counted")                           \
	X(UNLOADED, "classes_unloaded", "classes that were unloaded")                              \
	X(METHODS, "methods", "methods that are counted")                                          \
	X(REFUSED, "methods_refused", "methods that are too long to be counted")                   \
	X(ODD, "classes_odd", "classes that could not be rewritten, and run as they are")          \
	X(EARLY, "classes_early", "classes that were loaded before, and run as they are")          \
	X(PAUSES, "pauses", "pauses for garbage collection")                                       \
	X(PAUSED, "paused", "ns of pauses for garbage collection")                                 \
	X(SAMPLES, "samples", "sampled allocations")
// clang-format on

enum call_java_count {
#define X(name, json, text) CALL_JAVA_##name,
	CALL_JAVA_COUNTS(X)
#undef X
		CALL_JAVA_COUNT
};

enum call_slot_state { CALL_SLOT_FREE, CALL_SLOT_TAKEN, CALL_SLOT_LIVE, CALL_SLOT_ENDED };

/*
 * A program or library that a process had loaded. Addresses of the file are those in the process -
 * bias.
 */
struct call_module {
	uint32_t pid;
	uint32_t ready; /* 1: the rest is filled in */
	uint64_t start;
	uint64_t end;
	uint64_t bias;
	char path[512];
};

struct call_area {
	uint32_t magic;
	uint32_t version;
	uint32_t slot_count;
	uint32_t timed; /* 1: time stamps; 0: calls only */
	uint64_t slot_bytes;
	uint64_t tasks_at; /* where in a slot struct call_tasks is, behind the nodes */
	uint32_t node_limit;
	uint32_t depth_limit;
	uint32_t prune_permille;
	uint32_t module_count; /* may exceed CALL_MODULES_MAX; those are not there */
	uint64_t refused; /* threads without a slot */
	uint64_t interrupted; /* events in signal handlers that interrupted a hook; not recorded */
	uint64_t wall_only; /* threads whose time off a processor cannot be told */
	uint64_t ticks_per_ms; /* by the host's measurement */
	uint64_t overhead; /* as the process measured it that was last to start */
	uint32_t event_bytes; /* of each slot's ring of events; 0: none */
	uint32_t host_pid;
	uint32_t thread_count; /* threads that ever had a slot: gives them their numbers */
	uint32_t reserved;
	uint64_t java_overhead; /* ns that the agent adds to each interval; measured by it */
	uint32_t java_routines; /* the last number that was given to one */
	uint32_t java_metrics; /* 1: slots have room for the metrics of Java */
	uint64_t java[CALL_JAVA_COUNT];
	uint64_t entries; /* 1: programs that tell entries only are recorded as well */
	uint64_t entries_overhead; /* ticks, in these */
	uint64_t no_exits; /* entries whose exits are not seen */
	uint64_t patched; /* patchable entries that became calls */
	uint64_t unpatched; /* others: too short, or threads ran already */
	char names[64]; /* path of the file that names of Java are appended to */
	struct call_module modules[CALL_MODULES_MAX];
};

struct call_slot {
	uint32_t state;
	uint32_t pid;
	uint32_t tid;
	uint32_t parent; /* pid of the process that forked this one, of its first thread; or 0 */
	uint64_t started; /* ticks */
	uint64_t ended; /* ticks; 0 before */
	/* of the thread: at its end, and at its start before that */
	char name[CALL_THREAD_NAME];
	/*
	 * what a hook adds to each interval; measured in the program, taken off by the host
	 */
	uint64_t overhead;
	uint32_t number; /* of the thread, never used again */
	uint32_t events; /* 1: the ring is in use */
	uint64_t written, taken; /* bytes that ever went into the ring, and out of it */
	uint64_t dropped; /* events that were not written: the host was gone */
	uint32_t clock; /* enum call_clock: what times and overhead are in */
	uint32_t reserved;
	struct call_tree_head head;
};

_Static_assert(sizeof(struct call_module) == 544, "shared by worlds");
_Static_assert(sizeof(struct call_area) <= CALL_AREA_SLOTS, "shared by worlds");
_Static_assert(sizeof(struct call_slot) <= CALL_SLOT_NODES, "shared by worlds");
