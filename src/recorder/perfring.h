/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's own event stream: one perf ring per CPU that carries mmap, comm, fork, exec and exit
 * records, and, for users who may not use BPF, the samples too (registers and a copy of the stack).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "capture/sampler_event.h"
#include "image/events.h"

struct perfring_target {
	bool system_wide; /* every process; needs privilege */
	const pid_t *tids; /* otherwise these threads and what they create */
	size_t tid_count;
	const int *cpus; /* where samples are taken; NULL: all online ones */
	size_t cpu_count;
	bool enable_on_exec; /* the target is a child of ours that has not yet called exec */
};

struct perfring_options {
	struct perfring_target target;
	size_t pages; /* data pages per ring, a power of two; 0: 64 */
	/* Samples in the ring (only without BPF): period in the event's unit; 0: no samples. */
	uint64_t sample_period;
	/* one event each; overrides sample_period; see sampler_periods() */
	const uint64_t *periods;
	size_t period_count;
	const struct sampler_event *event; /* what is sampled; NULL: cpu-clock */
	bool adapted; /* periods are rates in Hz, and the kernel finds the period */
	bool exclude_kernel;
	uint32_t stack_bytes; /* copied per sample; multiple of 8, below 65528 */
};

struct perfring;

/* -EACCES with a sentence naming perf_event_paranoid when the kernel refuses. */
int perfring_open(const struct perfring_options *options, struct perfring **ret);
void perfring_destroy(struct perfring *ring);
DEFINE_AUTO(struct perfring, perfring_destroy)

int perfring_enable(struct perfring *ring);
int perfring_disable(struct perfring *ring);
/* Only the samples: what happens to processes is told all the same. */
int perfring_samples_switch(struct perfring *ring, bool on);
/* Adds a thread that was found after opening (attach races). */
int perfring_add_thread(struct perfring *ring, pid_t tid);
/* Hands over everything that is in the rings now, ordered by time over all CPUs. */
int perfring_drain(struct perfring *ring, event_fn fn, void *ctx);
/* Readable when a ring passed its wake-up mark; for epoll. One fd for all rings. */
int perfring_fd(const struct perfring *ring);
