/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sink of executed code: what an engine source tells of processes, modules, blocks and segments
 * in; rows of blocks, and of how often each thread executed each of them, out. It hands the order
 * of execution on to paths.h if wanted.
 */
#pragma once

#include "recorder/engine/engine_source.h"
#include "recorder/engine/paths.h"
#include "recorder/recorder.h"

struct executed;

struct executed_block {
	struct module_id module;
	uint64_t address; /* in the module */
	uint32_t length; /* bytes */
	uint32_t instructions;
	uint64_t count; /* of all threads */
};

struct executed_options {
	bool marks; /* counts only tell whether something was executed */
	bool lines; /* source lines too, also those that were not executed: it takes its time */
	/* Processes, threads and modules: no code is kept, and no recording is made. */
	bool tasks_only;
	enum recording_kind kind; /* that gets the threads which were not recorded */
	struct paths *paths; /* gets the order of execution; NULL: only counts are kept */
};

/* In all of a recording. */
struct executed_sums {
	uint64_t instructions, blocks; /* executed; with marks: different ones */
	uint64_t native; /* threads that left the engine */
};

/* The recorder must outlive it. */
void executed_create(struct recorder *recorder, const struct executed_options *options,
		     struct executed **ret);
void executed_destroy(struct executed *executed);

/* Who a thread is, between its begin and its end. */
struct thread_id executed_thread_id(const struct engine_thread *thread);
struct loadmap_process *executed_image(const struct engine_process *process);

/* From 1 on; by the ids of the profile. */
const struct executed_block *executed_blocks(const struct executed *executed, size_t *ret_count);
void executed_sums(const struct executed *executed, struct executed_sums *ret);

/* In the profile; of a thread that has begun and not ended. */
struct thread_id executed_thread_id(const struct engine_thread *thread);

/* The source's side, and the recorder's, which destroys it, too. */
struct engine_sink executed_engine_sink(struct executed *executed);
struct sink executed_sink(struct executed *executed);
