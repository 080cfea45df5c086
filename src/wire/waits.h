/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The records and maps of the BPF programs at the scheduler's switch (capture/kernel/waits.bpf.c):
 * what each thread used, what it waited for and where, and which thread woke it.
 * docs/design/waiting.md explains them.
 *
 * A wait is the time from when a thread leaves its processor until it is back. A stack goes through
 * the ring once, under a hash (RECORD_STACK, as the sampler's), or as a copy of the stack's memory
 * (RECORD_DUMP) under waits_dump_hash(). Waits are counted in a map, by thread, stack, cause and
 * waker. A thread's sums go through the ring when it ends or executes another program
 * (RECORD_THREAD); before that the host reads them in the map of threads. They also do whenever the
 * thread begins or ends a task, as it tells by assay/client.h (RECORD_TASK).
 */
#pragma once

#include "wire/sample.h"

enum { RECORD_THREAD = 64, RECORD_TASK = 65 }; /* behind enum sample_record_kind */

/* Why a thread was off its processor. Columns: name, JSON name, what a person reads. */
// clang-format off
#define WAIT_CAUSES(X)                                                                             \
	X(PREEMPTED, "preempted", "ready to run, while another thread ran")                        \
	X(LOCK, "lock", "a lock, a condition, a semaphore, the end of a thread")                   \
	X(DISK, "disk", "a file system or a block device")                                         \
	X(PIPE, "pipe", "the other end of a pipe")                                                 \
	X(SOCKET, "socket", "a socket: the network, or another process")                           \
	X(POLL, "poll", "one of several files: poll, select, epoll")                               \
	X(SLEEP, "sleep", "a time to pass, or a signal to come")                                   \
	X(CHILD, "child", "a child process to end")                                                \
	X(FAULT, "fault", "memory, after a page fault")                                            \
	X(STOPPED, "stopped", "a debugger, or the signal to continue")                             \
	X(OTHER, "other", "something else in the kernel")

/*
 * What is counted for each thread. Columns: name, JSON name, unit, what a person reads. The time of
 * each cause comes after the first two, in the order above.
 */
#define THREAD_TIMES(X)                                                                            \
	X(ON_CPU, "on_cpu", "ns", "on a processor")                                                \
	X(QUEUED, "queued", "ns", "woken, and waiting for a processor")
#define THREAD_COUNTERS(X)                                                                         \
	X(VOLUNTARY, "voluntary", "switches", "context switches in order to wait")                 \
	X(INVOLUNTARY, "involuntary", "switches", "context switches to let others run")            \
	X(FAULTS_MINOR, "faults_minor", "faults", "page faults without a disk")                    \
	X(FAULTS_MAJOR, "faults_major", "faults", "page faults with a disk")                       \
	X(READ, "read", "bytes", "bytes that system calls read")                                   \
	X(WRITTEN, "written", "bytes", "bytes that system calls wrote")
// clang-format on

enum wait_cause {
#define X(name, json, text) WAIT_##name,
	WAIT_CAUSES(X)
#undef X
		WAIT_CAUSE_COUNT
};

enum thread_metric {
#define X(name, json, unit, text) THREAD_##name,
	THREAD_TIMES(X)
#undef X
#define X(name, json, text) THREAD_OFF_##name,
		WAIT_CAUSES(X)
#undef X
#define X(name, json, unit, text) THREAD_##name,
			THREAD_COUNTERS(X)
#undef X
				THREAD_SYSTEM_CALLS,
	THREAD_METRIC_COUNT
};

enum {
	THREAD_COUNTER_COUNT = THREAD_SYSTEM_CALLS - THREAD_VOLUNTARY, /* that the kernel keeps */
	THREAD_TIME_COUNT = THREAD_VOLUNTARY, /* metrics that add up to a thread's life */
};

/* In which context a thread was woken. */
enum wait_waker {
	WAKER_NONE, /* none: it was ready all the time, or the waker was not seen */
	WAKER_TASK, /* the thread that the row names */
	WAKER_INTERRUPT,
};

/* Key of the map of threads. */
struct thread_key {
	wire_u32 tid;
	wire_u32 reserved;
	wire_u64 generation; /* when it started: a tid is used again */
};

/*
 * A thread: its sums and what it is doing. Its writer counts `writing` up, writes, and counts
 * `written` up. The map's memory is copied upwards, so that a copy in which both are equal is
 * whole. The waker's fields are written by others: they are only valid when the thread is back.
 */
struct thread_slot {
	struct sample_record record; /* kind, tid and image; time: when it ended; 0: it has not */
	wire_u64 written;
	wire_u64 generation;
	wire_u64 begun; /* ns: counted from here on */
	wire_u64 running_since; /* ns; 0: it is off */
	wire_u64 off_since; /* ns; 0: it is running */
	wire_u64 ran; /* ns that the scheduler had counted when it last left */
	wire_u64 stack; /* hash, where it left; 0: not known */
	wire_u64 object; /* address of the futex; 0: none */
	wire_u32 cause; /* enum wait_cause */
	wire_u32 cpu; /* where it was last charged */
	wire_u64 woken; /* ns */
	wire_u64 waker_stack; /* hash */
	wire_u32 waker_tgid;
	wire_u32 waker_tid;
	wire_u32 waker; /* enum wait_waker */
	wire_u32 padding;
	wire_u64 noticed; /* ns: of its newest task_notice; its own writer */
	wire_u64 guessed; /* ns: when it came, as a notice said; 0: it knew, or was not asked */
	wire_u64 told; /* `written` when it was last handed to the host; the reader's */
	char comm[SAMPLE_COMM_MAX];
	wire_u64 counters[THREAD_COUNTER_COUNT]; /* the kernel's, when they were last charged */
	wire_u64 sums[THREAD_METRIC_COUNT];
	wire_u64 writing;
};

enum { TASK_NAME_MAX = 64 };

/* A thread begins a task, or ends the one that it began last. */
struct task_notice {
	struct sample_record record; /* kind, tid, image; time: when */
	wire_u64 begun; /* of the thread's slot */
	wire_u32 begins; /* 1; 0: it ends */
	wire_u32 cause; /* of `off` */
	char name[TASK_NAME_MAX]; /* of one that begins */
	wire_u64 sums[THREAD_METRIC_COUNT]; /* of the thread's slot */
	wire_u64 on_cpu, queued, off; /* ns that are not in it yet */
	wire_u64 counters[THREAD_COUNTER_COUNT]; /* counted by the kernel and not in it yet */
};

/* One processor: what was charged to threads there. */
struct thread_cpu {
	wire_u64 sums[THREAD_METRIC_COUNT];
};

struct wait_key {
	wire_u64 begun; /* of the thread's slot: when it began to run this program */
	wire_u64 stack; /* hash; 0: not known */
	wire_u64 waker_stack;
	wire_u64 object;
	wire_u32 tgid;
	wire_u32 tid;
	wire_u32 waker_tgid;
	wire_u32 waker_tid;
	wire_u32 cause; /* enum wait_cause */
	wire_u32 waker; /* enum wait_waker */
};

struct wait_count {
	wire_u64 count;
	wire_u64 total; /* ns off, without what it then queued */
	wire_u64 longest; /* ns */
	wire_u64 queued; /* ns */
	wire_u64 last; /* CLOCK_MONOTONIC of the newest */
};

_Static_assert(sizeof(struct wait_key) == 56, "wire");

/* One for each CPU. */
struct wait_tally {
	wire_u64 seen; /* waits that have ended */
	wire_u64 counted;
	wire_u64 lost; /* the map of counts was full */
	wire_u64 stacks_lost; /* kept without a stack: the ring was full */
	wire_u64 threads_lost; /* threads that found no place in the map */
	wire_u64 missed; /* switches of threads that the program was not told of */
	wire_u64 nanoseconds; /* that the programs took */
	wire_u64 runs; /* for a thread that is counted */
	wire_u64 notices_lost; /* of tasks: the ring was full */
};

static inline wire_u64 waits_dump_hash(wire_u64 time, wire_u32 tid)
{
	wire_u64 hash = (time ^ ((wire_u64)tid << 40)) * 0x9e3779b97f4a7c15ull;

	return hash ^ (hash >> 29);
}
