/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The order in which threads executed runs, as it goes into a profile: paths, strata and layers (profile/flow.h).
 *
 * One of the owner's threads does all of it. What goes wrong is kept, and told at the end by paths_finish().
 */
#pragma once

#include "base/array.h"
#include "base/cleanup.h"
#include "base/relay.h"
#include "store/store.h"
#include "trace/runtable.h"

struct paths;
struct paths_process;
struct paths_thread;

/* 0: the default, everywhere. */
struct paths_options {
	unsigned layers; /* stratum layers, above paths and strata; 0: 2 */
	uint32_t max_cycle; /* symbols of a cycle */
	size_t memory; /* bytes for a process's cycles */
};

/* relay: as in profile/flow.h. */
void paths_create(struct store *store, const struct paths_options *options, struct relay *relay,
		  struct paths **ret);
void paths_destroy(struct paths *paths);
DEFINE_AUTO(struct paths, paths_destroy)

struct paths_process *paths_process_create(struct paths *paths, struct process_id id);
/* Every thread has been destroyed. parent: it was forked from; id 0: none. */
void paths_process_finish(struct paths_process *process, const struct runtable *runs,
			  struct process_id parent);

struct paths_thread *paths_thread_create(struct paths_process *process, struct thread_id id);
/* runs: what the numbers stand for, by now. */
void paths_push(struct paths_thread *thread, const struct runtable *runs, const uint32_t *numbers,
		size_t count);
/* The caller has nothing to push: he can do some of what would be done in other threads. False: there is none. */
bool paths_help(struct paths *paths);
/* How often the thread executed each run; complete after paths_thread_finish(). */
const uint64_t *paths_thread_counts(const struct paths_thread *thread, size_t *ret_count);
void paths_thread_finish(struct paths_thread *thread);
void paths_thread_destroy(struct paths_thread *thread);

/* Fails with what went wrong first. */
int paths_finish(const struct paths *paths);
