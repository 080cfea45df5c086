/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loads the BPF programs at the scheduler's switch and takes out of the kernel what they gather:
 * what threads use, what they wait for, and who woke them. docs/design/waiting.md.
 *
 * They walk stacks with the tables that the sampler was given, and look at the processes that it
 * samples: a sampler must be there, and outlive them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "capture/kernel/sampler.h"
#include "wire/waits.h"

struct waits_options {
	bool everything; /* as the sampler's */
	bool system_calls; /* count them: costs a little at each system call of the machine */
	size_t ring_bytes; /* power of two, multiple of the page size */
	uint32_t max_waits; /* distinct waits per drain */
	uint32_t max_threads; /* at a time */
	uint32_t max_depth; /* user frames per stack */
};

struct waits_handlers {
	int (*stack)(void *ctx, const struct sample_stack *stack);
	int (*dump)(void *ctx, const struct sample_dump *dump); /* under waits_dump_hash() */
	int (*identity)(void *ctx, const struct sample_identity *identity);
	int (*count)(void *ctx, const struct wait_key *key, const struct wait_count *count);
	int (*task)(void *ctx, const struct task_notice *notice);
	/* ended: or it executes another program; record.time says when. */
	int (*thread)(void *ctx, const struct thread_slot *slot, bool ended);
	void *ctx;
};

struct waits;

/* Nothing is recorded yet. An error: this kernel does not take the programs. */
int waits_load(const struct waits_options *options, const struct sampler *sampler,
	       struct waits **ret);
/*
 * Loads the programs and unloads them again: 0 if the running kernel takes them, otherwise
 * ret->err.
 */
int waits_try(struct sampler_refusal *ret);
void waits_destroy(struct waits *waits);
DEFINE_AUTO(struct waits, waits_destroy)
/* The sampler must be attached already, so that it is the first to know of an exec or a fork. */
int waits_attach(struct waits *waits, const struct waits_handlers *handlers);
/* Counts the threads of the sampler's processes from now on. */
int waits_begin(struct waits *waits);
/*
 * Attaches a program to the instruction of assay/client.h at this offset of the file, by which
 * threads tell that they begin (otherwise: end) a task.
 */
int waits_task_site(struct waits *waits, int file, uint64_t offset, bool begins);
/* Stops counting; the sums can still be read. */
int waits_end(struct waits *waits);
/* CLOCK_MONOTONIC: of waits_end(); 0 before. */
uint64_t waits_ended(const struct waits *waits);

/* Hands out the records in the ring. */
int waits_drain_ring(struct waits *waits);
int waits_drain_counts(struct waits *waits);
int waits_fd(const struct waits *waits);
/*
 * Calls handlers.thread() for each thread that has changed since the last reading; after the end of
 * the recording, for each thread that there is.
 */
int waits_read_threads(struct waits *waits);
/* How often handlers.thread() was called by readings. */
uint64_t waits_readings(const struct waits *waits);

/* Summed over CPUs. */
void waits_tally(const struct waits *waits, struct wait_tally *ret);
/* What was charged to threads on one of the processors, which are numbered from 0. */
uint32_t waits_cpu_count(const struct waits *waits);
int waits_cpu(const struct waits *waits, uint32_t number, struct thread_cpu *ret);
