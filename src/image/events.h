/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events of processes (fork, exec, mmap, exit ...) and, where BPF is not allowed, samples: one form
 * for every source (the kernel's perf rings, /proc at the start, the BPF sampler).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buildid.h"
#include "unwind/unwind.h"

enum event_kind {
	EVENT_MMAP,
	EVENT_UNMAP,
	EVENT_FORK, /* a new process or a new thread */
	EVENT_EXEC,
	EVENT_COMM, /* a thread was renamed */
	EVENT_EXIT, /* of a thread; the process ends with its last one */
	EVENT_IDENTITY,
	EVENT_SAMPLE,
	EVENT_LOST,
	EVENT_THROTTLE,
};

struct event_mmap {
	uint64_t start, end, offset;
	uint64_t inode;
	uint32_t major, minor;
	struct build_id build_id; /* size 0: not given */
	const char *path; /* "//anon", "[vdso]", "/usr/lib/..." */
};

struct event_identity {
	uint32_t ppid, uid, gid, euid, egid;
	uint64_t cgroup; /* id in the unified hierarchy; 0: see cgroup_path */
	const char *cgroup_path; /* NULL: see cgroup */
};

struct event_sample {
	struct unwind_registers registers;
	struct unwind_memory stack;
	const uint64_t *kernel_frames; /* innermost first */
	uint32_t kernel_count;
	bool in_kernel; /* interrupted in kernel mode */
	uint64_t kernel_ip; /* where, if in_kernel and visible */
};

struct event {
	enum event_kind kind;
	uint32_t pid; /* thread group */
	uint32_t tid;
	uint64_t time; /* CLOCK_MONOTONIC */
	union {
		struct event_mmap mmap; /* MMAP; UNMAP uses start and end */
		struct {
			uint32_t ppid, ptid; /* of the creator */
		} fork;
		const char *comm; /* COMM, EXEC */
		struct event_identity identity;
		struct event_sample sample;
		uint64_t lost; /* LOST: records */
	};
};

/* Strings and bytes in the event are valid only during the call. */
typedef int (*event_fn)(void *ctx, const struct event *event);
