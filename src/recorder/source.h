/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A source delivers records. The BPF sampler, the kernel's perf rings, the BPF programs at the
 * scheduler's switch, the rings of engines and the memory of hooks are sources.
 *
 * A source knows the sinks that its records go to and calls them directly, with records of its own
 * kind: the samples of a sampler and the segments of an engine have nothing in common. What all
 * sources have in common is when they do it, and that is this interface. The recorder calls the
 * functions, all from one thread; recorder.h says in which order and why.
 *
 * Every function may be NULL. Functions that return int return 0 or a negative errno.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

struct source {
	void *ctx; /* given to every function */

	/* Readable when the source wants to be visited before the next round is due; -1: never. */
	int fd;
	/*
	 * The source is content with a visit now and then (recorder_due()), because its records
	 * wait in the kernel at no cost. A source that is not paced is visited in every round: a
	 * program may be waiting for it.
	 */
	bool paced;

	/* Begins to record. */
	int (*enable)(void *ctx);
	/* Stops recording; what was under way may still arrive in the rounds that follow. */
	int (*disable)(void *ctx);

	/* The three steps of a visit. Notes, or copies, how far the records go. */
	int (*look)(void *ctx);
	/* Applies what happened to processes, up to the look at least, to the load map. */
	int (*events)(void *ctx);
	/*
	 * Hands the records up to the look to the sinks. last: recording has ended, so nothing may
	 * be left for later. Sets *ret_more if there is so much to do that the next visit should
	 * follow at once; leaves it alone otherwise.
	 */
	int (*deliver)(void *ctx, bool last, bool *ret_more);
	/* Uses what the load map has learnt from all sources in this round. */
	int (*settle)(void *ctx);

	/* Tells the sinks what the source has seen and lost so far. Comes before each commit. */
	int (*tally)(void *ctx);
	/* Takes the rest. Nothing is asked of the source afterwards but code(). */
	int (*finish)(void *ctx);
	/* Code of a module without a file, as symbolise_code_fn; 0: the source does not know it. */
	size_t (*code)(void *ctx, const struct store_module *module, uint64_t address, void *ret,
		       size_t size);

	/*
	 * Sleeps until there may be records, at most so long; for sources that cannot have an fd.
	 */
	void (*wait)(void *ctx, unsigned milliseconds);
	/* Ends wait(), or the next one. May be called from any thread. */
	void (*wake)(void *ctx);

	void (*destroy)(void *ctx);
};
