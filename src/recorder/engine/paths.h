/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sink of the order in which threads executed segments: numbers of segments in; paths, strata
 * and layers (paths/flow.h) of each thread out, and how often it executed each block. It is part
 * of the recording of executed code and called by that sink.
 *
 * All calls come from one thread. What goes wrong is kept, and told at the next commit.
 */
#pragma once

#include "base/array.h"
#include "base/cleanup.h"
#include "paths/cycles.h"
#include "store/store.h"
#include "recorder/engine/segment_table.h"
#include "recorder/sink.h"

struct paths;
struct paths_process;
struct paths_thread;

/* 0: the default, everywhere. */
struct paths_options {
	unsigned layers; /* stratum layers, above paths and strata; 0: 2 */
	uint32_t max_cycle; /* symbols of a cycle */
	size_t memory; /* bytes for a process's cycles */
	struct cycles_options table; /* what tables of cycles are; memory is that above */
};

/* What looking cycles up took, in all tables of processes that have ended. */
const struct cycles_stats *paths_lookups(const struct paths *paths);

void paths_create(struct store *store, const struct paths_options *options, struct paths **ret);
void paths_destroy(struct paths *paths);
DEFINE_AUTO(struct paths, paths_destroy)

struct paths_process *paths_process_create(struct paths *paths, struct process_id id);
/* Stores what all threads did, as far as paths have ended. */
void paths_process_flush(struct paths_process *process);
/* Every thread has been destroyed. */
void paths_process_finish(struct paths_process *process);

struct paths_thread *paths_thread_create(struct paths_process *process, struct thread_id id);
/*
 * segments: what the numbers stand for, by now, with the numbers of the profile's blocks as marks.
 * It is asked until the thread is finished.
 */
void paths_push(struct paths_thread *thread, const struct segment_table *segments,
		const uint32_t *numbers, size_t count);
/*
 * How often the thread executed each block: up to the last paths_process_flush(), all of it after
 * paths_thread_finish(). The caller sets to 0 what it has taken.
 */
uint64_t *paths_thread_counts(struct paths_thread *thread, size_t *ret_count);
void paths_thread_finish(struct paths_thread *thread);
void paths_thread_destroy(struct paths_thread *thread);

/* The recorder's side, which destroys it, too. It adds to the recording of executed code. */
struct sink paths_sink(struct paths *paths);
