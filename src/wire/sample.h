/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the BPF sampler hands to the host. docs/design/sampling.md has the whole way of a sample.
 *
 *	in	written by sampler.bpf.c
 *	out	read and checked by sampler.c
 *	owner	a record belongs to the ring until it has been read
 *
 * A sample's stack is hashed in the kernel. The first time a hash is seen, the stack itself goes
 * through the ring (RECORD_STACK); after that only a counter in the counts map grows. A stack that
 * cannot be walked in the kernel yet, because the host has not published the process's tables, goes
 * through the ring as registers and raw stack bytes (RECORD_DUMP), one sample each.
 */
#pragma once

#include "wire/unwind.h"

enum {
	SAMPLE_DEPTH_MAX = 256, /* user frames kept at most; a power of two */
	SAMPLE_KERNEL_DEPTH_MAX = 128,
	SAMPLE_FRAMES_MAX = SAMPLE_DEPTH_MAX + SAMPLE_KERNEL_DEPTH_MAX,
	SAMPLE_DUMP_MAX = 28672, /* bytes of user stack in a dump; a per-CPU value has 32 KB */
	SAMPLE_COMM_MAX = 16,
};

enum sample_record_kind {
	RECORD_STACK = 1,
	RECORD_DUMP = 2,
	RECORD_IDENTITY = 3,
	RECORD_RUN = 4, /* wire/run.h */
	RECORD_WANTED = 5,
};

/*
 * Which program a sample belongs to: tells an exec apart. A pid is not reused between two rounds of
 * the recorder.
 */
struct sample_image {
	wire_u64 exec_id; /* grows with each exec; inherited by fork */
	wire_u32 tgid;
	wire_u32 reserved;
};

struct sample_record {
	wire_u32 kind; /* enum sample_record_kind */
	wire_u32 tid;
	wire_u64 time; /* CLOCK_MONOTONIC */
	struct sample_image image;
};

/* Frames: kernel ones first, innermost first, then user ones, innermost first. */
struct sample_stack {
	struct sample_record record;
	wire_u64 hash;
	wire_u16 kernel_count;
	wire_u16 user_count;
	wire_u32 end; /* enum stack_end */
	wire_u64 frames[]; /* kernel_count + user_count */
};

struct sample_dump {
	struct sample_record record;
	wire_u64 ip; /* user registers */
	wire_u64 sp;
	wire_u64 bp;
	wire_u64 bx;
	wire_u16 kernel_count;
	wire_u16 absent; /* bytes from sp on that were never touched and are left out */
	wire_u32 stack_size; /* bytes valid in stack */
	wire_u64 weight; /* samples that it counts for; of a wait: nothing */
	wire_u64 frames[SAMPLE_KERNEL_DEPTH_MAX]; /* kernel_count valid */
	wire_u8 stack[]; /* starts at sp + absent */
};

struct sample_identity {
	struct sample_record record;
	wire_u32 parent; /* tgid */
	wire_u32 uid;
	wire_u32 gid;
	wire_u32 euid;
	wire_u32 egid;
	wire_u32 reserved;
	wire_u64 cgroup; /* id in the unified hierarchy */
	char comm[SAMPLE_COMM_MAX];
};

_Static_assert(sizeof(struct sample_record) == 32, "wire");
_Static_assert(sizeof(struct sample_stack) == 48, "wire");
_Static_assert(sizeof(struct sample_dump) == 80 + 8 * SAMPLE_KERNEL_DEPTH_MAX, "wire");

/* Key and value of the counts maps. */
struct sample_key {
	wire_u64 hash;
	struct sample_image image;
	wire_u32 tid;
	wire_u32 end; /* enum stack_end */
};

struct sample_count {
	wire_u64 count;
	wire_u64 last; /* CLOCK_MONOTONIC of the newest sample */
	wire_u64 kernel; /* of count: interrupted in kernel mode */
};

_Static_assert(sizeof(struct sample_key) == 32, "wire");

/*
 * Why a sample was not kept. seen = kept + the sum of these, always.
 * Columns: name, JSON name, what a person reads.
 */
#define LOSS_REASONS(X)                                                                            \
	X(RING_FULL, "ring_full", "ring to the recorder was full (raise --ring)")                  \
	X(COUNTS_FULL, "counts_full", "table of counts was full (raise --max-stacks)")             \
	X(KERNEL_LOST, "kernel_lost", "dropped by the kernel's perf ring")                         \
	X(THROTTLED, "throttled", "suppressed by the kernel's rate limit")                         \
	X(BAD_RECORD, "bad_record", "record made no sense and was skipped")                        \
	X(NO_PROCESS, "no_process",                                                                \
	  "of a task whose process was already gone or lies outside of this PID namespace")        \
	X(NO_STACK, "no_stack", "count whose stack never arrived")                                 \
	X(UNREAD, "unread", "seen by the kernel, but neither read nor counted as lost")            \
	X(SKIPPED, "skipped", "recorder was behind, and no later sample counts for them")

enum loss_reason {
#define X(name, json, text) LOSS_##name,
	LOSS_REASONS(X)
#undef X
		LOSS_COUNT
};

/* One per CPU, in the tallies map. */
struct sample_tally {
	wire_u64 seen; /* times the handler ran for a sample that is ours */
	wire_u64 counted; /* kept in counts */
	wire_u64 dumped; /* kept by dumps */
	wire_u64 lost[LOSS_COUNT];
	/*
	 * Of counted and dumped: what a later sample of this CPU counts for. What none counts for
	 * yet is lost[LOSS_SKIPPED].
	 */
	wire_u64 thinned;
	/* Not samples: counted apart. */
	wire_u64 identities_lost; /* for want of room in the ring */
	wire_u64 children_lost; /* of targets: no room in the set of targets, never sampled */
};
